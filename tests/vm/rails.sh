# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The hook of the programs that use tests/user/rails.h, for sib0 and sib1 on one
# switch. Sourced after lib.sh.

HOOK=/tmp/rails.hook

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug

# What the program cannot do itself.
cat >$HOOK <<'END_OF_FILE'
#!/bin/bash
FAULTS=/sys/kernel/debug/sib/sib1

# Ports of sib1 hang behind those of sib0 on the switch.
link() {
	timeout 30 ibportstate -C sib0 -P 1 -D 0,1 $((2 + $1)) "$2" >/dev/null
}

active() {
	[[ $(cat /sys/class/infiniband/sib1/ports/"$1"/state) == *ACTIVE ]]
}

case $1 in
pull)
	case $(($3 % 4)) in
	0) echo "cut in" >$FAULTS/"$2"/faults ;;
	1) echo "cut out" >$FAULTS/"$2"/faults ;;
	2) printf 'cut in\n' >$FAULTS/"$2"/faults && printf 'cut out\n' >$FAULTS/"$2"/faults ;;
	3) link "$2" disable && : >/tmp/rails.disabled ;;
	esac
	;;
mend)
	echo clear >$FAULTS/"$2"/faults
	[ -e /tmp/rails.disabled ] || exit 0
	rm /tmp/rails.disabled
	link "$2" enable
	for ((tries = 0; tries < 300; tries++)); do
		! active "$2" || exit 0
		sleep 0.1
	done
	exit 1
	;;
state)
	rdma resource show qp lqpn "$2" | tee /dev/stderr | grep -q "path-mig-state $3"
	;;
esac
END_OF_FILE
chmod +x $HOOK
