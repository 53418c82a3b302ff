#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- handoff
# vm-long: --kernel debug --timeout 600 -- handoff
# vm-long: --kernel debug --timeout 600 -- udp
#
# A port leaves a partition and comes back while queue pairs use it; P_Keys and Q_Keys
# that are wrong are counted, and OpenSM hears of them; the counter of Q_Keys is set back
# by order; with the switch enforcing partitions, and without.
#
#     partitions.sh [handoff|udp]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

PARTITIONS=/tmp/partitions.conf
SAID=/tmp/partition.out

# members WORD: who is in the partition.
members() {
	cat >$PARTITIONS <<-END_OF_FILE
		Default=0x7fff: ALL=full;
		Other=0x0001: $1;
	END_OF_FILE
}

said() {
	grep -qx "$1" $SAID || ! kill -0 "$program" 2>/dev/null
}

# sweep: has OpenSM read its files and go through the whole fabric.
sweep() {
	run kill -HUP "$OPENSM_PID"
}

# partitions ENFORCE TRAP... [-- WORD...]: OpenSM with the port of sib1 in the partition,
# out of it, and in it again.
partitions() {
	local enforce=$1 traps=() status trap
	shift
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		traps+=("$1")
		shift
	done
	members ALL=full
	opensm_up sib0 1 -P $PARTITIONS -Z "$enforce"
	wait_active 60 sib0 sib1
	# The program before has said the same.
	: >$SAID
	"$USER_PROGRAMS/partition" sib0 sib1 "${@:2}" >>$SAID 2>&1 &
	program=$!
	within 60 said member || fail "the program does not begin"
	client qkeyreset
	members "$(port_guid sib0)=full"
	sweep
	within 60 said outcast || fail "nothing has changed"
	members ALL=full
	sweep
	wait $program || {
		status=$?
		cat $SAID
		fail "status $status"
	}
	cat $SAID
	for trap in "${traps[@]}"; do
		within 10 grep "num:$trap" $OPENSM_LOG || {
			cat $OPENSM_LOG
			fail "no trap $trap"
		}
		grep -m 1 "num:$trap" $OPENSM_LOG
	done
	opensm_down
	rm $OPENSM_LOG
}

run modprobe sib
datapath "${1:-handoff}"
underlay sibnet0
hca_up sib0 sibnet0
hca_up sib1 sibnet0
step "Ports keep partitions apart"
partitions off 257 258
step "The switch does"
partitions both 258 259 -- enforced
for name in sib0 sib1; do
	run rdma link del "$name"
done
run modprobe -r sib
