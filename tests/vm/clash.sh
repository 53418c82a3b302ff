#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 400 -- handoff
# vm-long: --kernel debug --timeout 900 -- udp
#
# A connection of sib_cm and one of ib_cm have the same communication ID at an HCA, as may
# happen by chance, on the side that asks or on the other one: each gets its datagrams,
# and what is done for the one of ib_cm is not done for the other.
#
#     clash.sh [handoff|udp]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"
. "$(dirname "$0")/rails.sh"
. "$(dirname "$0")/watched.sh"

IDS=/sys/kernel/debug/sib_cm/comm_ids
CONNECTIONS=/sys/kernel/debug/sib_cm/connections

watched_fabric "${1:-handoff}"

# has WORD: the program does that.
has() {
	local answer
	printf '> %s\n' "$1"
	echo "$1" >&"${CLASH[1]}"
	read -r -t 120 answer <&"${CLASH[0]}" && [ "$answer" = "done" ] || gives_up "no '$1'"
}

# twins SIDE: a connection of sib_cm that is asked for, and one of ib_cm, with the same ID.
twins() {
	local id
	rping_up
	protected
	id=$(established | awk -v side="$1" '$4 == side { print $2 }')
	[ -n "$id" ] || gives_up "ib_cm has no ID"
	case $1 in
	Active) echo "$id" ;;
	# The side that asks is called first, by any ID.
	Passive) echo "0 $id" ;;
	esac >$IDS
	has ask
	grep -E "^[0-9a-f]{16} $id .* $1 " $CONNECTIONS || gives_up "none of sib_cm has the ID $id: $(cat $CONNECTIONS)"
	[ -z "$(cat $IDS)" ] || gives_up "an ID is not taken"
}

coproc CLASH { "$USER_PROGRAMS/clash" sib0 sib1; }
program=$CLASH_PID

for side in Active Passive; do
	step "$side: the one of ib_cm ends while the other one is not answered yet"
	twins $side
	goes_on
	rping_down
	has accept
	has load
	has part

	step "$side: the one of ib_cm goes over to another path, which the other one has too"
	twins $side
	has accept
	has load
	fails_over 1
	goes_on
	mend 1
	protected
	has part
	goes_on
	rping_down
done

orders=${CLASH[1]}
exec {orders}>&-
wait "$program" || fail "status $? of the program"
run rmmod sib_cm
no_objects
ip_down
