#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel debug --timeout 900 -- 10 handoff
# vm: --kernel stock --timeout 600 -- 10 udp
# vm-long: --kernel debug --timeout 1800 -- 100 handoff
# vm-long: --kernel debug --timeout 1800 -- 100 udp
#
# kill -9 of one of two programs with posted work, at random moments: the other
# one gets all its completions and ends, everything is reclaimed.
#
#     kill.sh [TIMES [handoff|udp]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

times=${1:-20}
RANDOM=1

# one_death NUMBER: both meet, one dies within a second, the other must end well.
one_death() {
	local meeting=/tmp/meet.$1 log=/tmp/death.$1 doomed survivor
	endless listen "$meeting" sib0 >>"$log" 2>&1
	doomed=$ENDLESS
	endless call "$meeting" sib1 >>"$log" 2>&1
	survivor=$ENDLESS
	if [ $((RANDOM % 2)) = 0 ]; then
		survivor=$doomed
		doomed=$ENDLESS
	fi
	# Some die before there is traffic, most amid it.
	[ $((RANDOM % 8)) = 0 ] || within 20 grep -q traffic "$log" || fail "no traffic: $(<"$log")"
	sleep "$((RANDOM % 2)).$((RANDOM % 900 + 100))"
	kill -9 "$doomed" || fail "it has died before it was killed: $(<"$log")"
	wait "$doomed" 2>/dev/null
	within 120 ended "$survivor" || {
		rdma resource show qp -dd
		rdma resource show cq -dd
		rdma statistic show link
		head -v /proc/"$survivor"/task/*/{wchan,stack}
		fail "death $1: the survivor waits: $(<"$log")"
	}
	wait "$survivor" || fail "death $1: status $? of the survivor: $(<"$log")"
	printf '%3d: %s\n' "$1" "$(tail -n 1 "$log")"
}

datapath "${2:-handoff}"
fabric_up
step "$times deaths"
for ((i = 1; i <= times; i++)); do
	one_death $i
done
step "Nothing is left of them, and all still works"
no_objects
run user data -n 1
fabric_down
