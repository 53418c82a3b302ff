#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 900 -- handoff 150 1000000
# vm-long: --kernel debug --timeout 600 -- udp
# vm-long: --kernel debug --timeout 3000 -- handoff 3000
# vm-long: --kernel debug --timeout 3000 -- udp 3000
#
# What comes of faults, at both sides, and of work that is under way when its
# queue pair ends.
#
#     errors.sh [handoff|udp [CASES [WORK-REQUESTS]]]
#
# So many cases of a program, and as many of a client in the kernel, which costs three
# times as much; with at least so many work requests, of which the program posts nine
# tenths.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/rules.sh"

datapath "${1:-handoff}"
fabric_up
step "Faults of reliable connections"
run user errors sib0 sib1
step "Work under way"
run user flush sib0 sib1
step "Random traffic to a random end"
run user ledger -a sib0 -b sib1 -n "${2:-150}" -w $((${3:-0} * 9 / 10))
run user ledger -a sib1:2 -b sib1:2 -n 20 -s 100000
step "Receives of a shared queue"
run user shared -a sib0 -b sib1 -n $((${2:-150} / 5))
step "A message that arrives just before the end"
udp=0
[ "${1:-handoff}" != udp ] || udp=1
client lastword udp=$udp
step "A completion queue that goes before its handler has run"
workers=/sys/devices/virtual/workqueue/cpumask
everywhere=$(cat "$workers")
echo 1 >"$workers"
client latecall
echo "$everywhere" >"$workers"
step "Random traffic of a client in the kernel"
client ledger "cases=${2:-150}" "least=$((${3:-0} / 10))"
# The debug kernel has no probes.
if [[ $(uname -r) != *-sib-debug* ]]; then
	step "Completion queues that go while a softirq is about to arm them"
	client ledger cases=30 linger=3000
fi
no_objects
fabric_down
