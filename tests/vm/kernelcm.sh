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

# heard WHO: it has been told.
heard() {
	dmesg | grep -q "$1: told that the HCA is gone"
}

# hca NAME: waits until it can be connected.
hca() {
	hca_up "$1" sibnet0
	wait_active 60 "$1"
}

# unloaded: the client goes, and has found no fault up to then.
unloaded() {
	run rmmod cmclient
	! dmesg | grep "cmclient: wrong" || fail "the client has found a fault"
}

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
managed_by_module
run modprobe sib
underlay sibnet0
hca sib0
hca sib1
run modprobe sib_cm

step "Beside sib no sib_cm of another build is loaded"
run rmmod sib_cm
sed -E 's/sib_build_[0-9a-f]{16}/sib_build_0000000000000000/g' "$(modinfo -n sib_cm)" >/tmp/sib_cm.ko
! insmod /tmp/sib_cm.ko 2>/dev/null || fail "it is"
dmesg | grep -q "sib_cm: Unknown symbol sib_build_0" || fail "for another cause"
run modprobe sib_cm

step "Connected, migrated, let go"
client_loaded cmclient
unloaded
within 60 nothing_left || fail "connections are left"

step "Removed with a connection"
held() {
	client_loaded cmclient hold=1
	dmesg | grep -q "cmclient: held" || fail "no connection is held"
	! rmmod sib_cm 2>/dev/null || fail "sib_cm goes while it is used"
}
held
unloaded
within 60 nothing_left || fail "connections are left"

step "HCAs go"
run dmesg -C
held
run rdma link del sib1
within 20 heard listener || fail "a listener has not heard of it"
within 20 heard "side 1" || fail "a connection has not heard of it"
run rdma link del sib0
unloaded
within 60 nothing_left || fail "connections are left"
hca sib0
hca sib1
run dmesg -C
held
run rdma link del sib0
unloaded
within 60 nothing_left || fail "connections are left"
run rmmod sib_cm
run modprobe -r sib
