#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300
# vm-long: --kernel debug --timeout 900
#
# The kernel API of sib_cm: a module connects two of its queue pairs by it, over which
# bytes go there and back, before and after a path that LAP and APR have loaded is taken;
# it lets go of connections at each stage, and is there while HCAs go. It keeps sib_cm.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

nothing_left() {
	[ -z "$(cat /sys/kernel/debug/sib_cm/{connections,questions})" ]
}

# heard WHO: it has been told.
heard() {
	dmesg | grep -q "$1: told that the HCA is gone"
}

# hca NAME: waits until it can be connected.
hca() {
	hca_up "$1" sibnet0
	wait_active 60 "$1"
}

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
managed_by_module
run modprobe sib
underlay sibnet0
hca sib0
hca sib1
run modprobe sib_cm

step "Connected, migrated, let go"
client cmclient
within 60 nothing_left || fail "connections are left"

step "Removed with a connection"
held() {
	client_loaded cmclient hold=1
	dmesg | grep -q "cmclient: held" || fail "no connection is held"
	! rmmod sib_cm 2>/dev/null || fail "sib_cm goes while it is used"
}
held
run rmmod cmclient
within 60 nothing_left || fail "connections are left"

step "HCAs go"
run dmesg -C
held
run rdma link del sib1
within 20 heard listener || fail "a listener has not heard of it"
within 20 heard "side 1" || fail "a connection has not heard of it"
run rdma link del sib0
run rmmod cmclient
! dmesg | grep "cmclient: wrong" || fail "the client has found a fault"
within 60 nothing_left || fail "connections are left"
hca sib0
hca sib1
run dmesg -C
held
run rdma link del sib0
run rmmod cmclient
within 60 nothing_left || fail "connections are left"
run rmmod sib_cm
run modprobe -r sib
