#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600
# vm-long: --kernel debug --timeout 900
# vm-long: --kernel debug --timeout 2400 -- 20 1
#
# The border between programs and the kernel: hostile commands and rings, devices
# that go away under programs, rdma_rxe beside us.
#
#     abi.sh [SEEDS [STRIDE]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

gone() {
	[ ! -e "/sys/class/infiniband/$1" ]
}

# holder DEVICE: starts a program that has the device open.
holder() {
	rm -f /tmp/holder
	user abi "$1" removal >/tmp/holder &
	HOLDER_PID=$!
	within 20 grep -q ready /tmp/holder || fail "the program does not start"
}

seeds=${1:-2} stride=${2:-17}

fabric_up

step "Commands that are wrong"
run user abi sib0 calls

step "Rings that are wrong"
for ((seed = 1; seed <= seeds; seed++)); do
	run user abi sib0 rings $seed
done
no_objects
run user data -a sib0 -b sib1 -n 1

if [[ $(uname -r) == *-sib-debug* ]]; then
	step "Allocations that fail"
	echo N >/sys/kernel/debug/failslab/ignore-gfp-wait
	echo 0 >/sys/kernel/debug/failslab/verbose
	run user abi sib0 faults
	run user abi sibnet0 link-faults "$stride"
	hca_up sib2 sibnet0
	run rdma link del sib2
	no_objects
fi

step "A device goes while a program has it open"
holder sib1
run rdma link del sib1
wait "$HOLDER_PID" || fail "the program has noticed in a wrong way"
gone sib1 || fail "sib1 is still there"

step "The module goes while a program has a device open"
opensm_down
holder sib0
run rmmod sib
wait "$HOLDER_PID" || fail "the program has noticed in a wrong way"
gone sib0 || fail "sib0 has outlived the module"

step "rdma_rxe takes all devices of its kind with it, and we go on"
run modprobe sib
run modprobe rdma_rxe
run rdma link add rxe0 type rxe netdev sibnet0
hca_up sib0 sibnet0
run rmmod rdma_rxe
within 20 gone rxe0 || fail "rxe0 is still there"
within 20 gone sib0 || fail "sib0 is still there"
hca_up sib0 sibnet0
run modprobe -r sib
gone sib0 || fail "sib0 has outlived the module"
