#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300
# vm-long: --kernel debug --timeout 900
#
# The kernel API of sib_cm in Rust: a module, which modprobe loads with all that it needs,
# connects its queue pairs, loads a path by LAP and goes over to it, refuses, and lets go
# of connections at each stage; HCAs go while it has one.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

# hca NAME: waits until it can be connected.
hca() {
	hca_up "$1" sibnet0
	wait_active 60 "$1"
}

# heard WHO: it has been told.
heard() {
	dmesg | grep -q "$1: told that the HCA is gone"
}

# loaded [PARAMETER]...: loads the module, whose test runs meanwhile, and shows what it says.
loaded() {
	modprobe cmrust "$@" || {
		dmesg | grep cmrust:
		fail "the client has found a fault"
	}
	dmesg | grep cmrust:
}

# unloaded: it goes, and has found no fault up to then.
unloaded() {
	run rmmod cmrust
	! dmesg | grep "cmrust: wrong" || fail "the client has found a fault"
}

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
managed_by_module
run modprobe sib
underlay sibnet0
hca sib0
hca sib1

flavour=stock
[[ $(uname -r) != *-sib-debug* ]] || flavour=debug
module=/src/build/$flavour-clients/cmrust.ko
[ -e "$module" ] || fail "no $module: make it with tests/kernel/build $flavour"
run cp "$module" "/lib/modules/$(uname -r)/updates/"
run depmod

step "Connected, migrated, let go"
[ ! -e /sys/module/sib_cm ] || fail "sib_cm is there too early"
loaded
[ -e /sys/module/sib_cm ] || fail "sib_cm has not come with the module that needs it"
unloaded
within 60 nothing_left || fail "connections are left"

step "HCAs go"
run dmesg -C
loaded hold=1
dmesg | grep -q "cmrust: held" || fail "no connection is held"
! rmmod sib_cm 2>/dev/null || fail "sib_cm goes while it is used"
run rdma link del sib1
within 20 heard "passive listener" || fail "a listener has not heard of it"
within 20 heard "passive connection" || fail "a connection has not heard of it"
run rdma link del sib0
unloaded
within 60 nothing_left || fail "connections are left"
hca sib0
hca sib1
run dmesg -C
loaded hold=1
run rdma link del sib0
unloaded
within 60 nothing_left || fail "connections are left"
run rmmod sib_cm
run modprobe -r sib
