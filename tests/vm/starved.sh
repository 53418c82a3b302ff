#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel debug --timeout 900 -- handoff
# vm-long: --kernel debug --timeout 1500 -- udp
#
# One in so many allocations fails that cannot wait for memory, wherever in the kernel, while
# data go: those of packets, workers and timers. Reliable connections repair what is lost, and
# each byte and each completion is right. (Ends of connections are not for this: ib_uverbs
# loses events that it has no memory for.)
#
#     starved.sh [handoff|udp [PERCENT]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

percent=${2:-2}
INJECTORS="/sys/kernel/debug/failslab /sys/kernel/debug/fail_page_alloc"
TIMES=1000000000

# starve PERCENT: so many of them fail from now on.
starve() {
	local injector
	for injector in $INJECTORS; do
		echo 0 >"$injector/verbose"
		# Of single pages as well, which it leaves alone otherwise.
		[ ! -e "$injector/min-order" ] || echo 0 >"$injector/min-order"
		echo N >"$injector/task-filter"
		echo Y >"$injector/ignore-gfp-wait"
		echo $TIMES >"$injector/times"
		echo "$1" >"$injector/probability" || fail "no fault injection"
	done
}

# failed: how many have failed.
failed() {
	local injector sum=0
	for injector in $INJECTORS; do
		sum=$((sum + TIMES - $(cat "$injector/times")))
	done
	echo $sum
}

# starving COMMAND...: runs it meanwhile.
starving() {
	local count
	starve "$percent"
	run "$@"
	count=$(failed)
	starve 0
	printf '%d allocations have failed\n' "$count"
	[ "$count" -gt 0 ] || fail "none has"
}

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
datapath "${1:-handoff}"
fabric_up
step "Reliable connections"
starving user data -a sib0 -b sib1 -t rc -T 19 -n 2 -N 8
step "Unreliable messages"
for service in uc ud; do
	starving user unreliable sib0 sib1 $service 2000 64
done
no_objects
pair sib0 sib1 ibv_rc_pingpong -n 50
fabric_down
