#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300
#
# sib_cm cannot be loaded, as the last step of that fails, while there are HCAs: nothing of it
# is left, and it can be loaded when that step does not fail.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

CM_SUP=0x10000

# has_manager: the HCA says that it has one.
has_manager() {
	[ $(($(cat /sys/class/infiniband/sib0/ports/1/cap_mask) & CM_SUP)) != 0 ]
}

mountpoint -q /sys/kernel/config || run mount -t configfs none /sys/kernel/config
managed_by_module
hcas_up
wait_active 60 sib0 sib1

step "Halfway"
# What it depends on is to stay.
run modprobe configfs
run modprobe sib_cm watch=2
run rmmod sib_cm
for try in 1 2 3; do
	run dmesg -C
	inserted refuser || fail "no refuser"
	! modprobe sib_cm watch=2 || fail "sib_cm is loaded"
	run rmmod refuser
	[ "$(dmesg | sed -n 's/.*refuser: //p')" = "3 work queues made, 3 destroyed" ] || fail "$(dmesg)"
	[ ! -e /sys/kernel/config/sib_cm ] || fail "its folder is left"
	[ ! -e /sys/kernel/debug/sib_cm ] || fail "its files are left"
	! has_manager || fail "sib0 has a manager"
done

step "All the way"
run modprobe sib_cm watch=2
has_manager || fail "sib0 has no manager"
"$USER_PROGRAMS/stages" sib0 sib1 established >/tmp/stages 2>&1 &
stager=$!
within 60 grep -q held /tmp/stages || fail "$(cat /tmp/stages)"
run rdma link del sib0
run rdma link del sib1
wait $stager || fail "$(cat /tmp/stages)"
run rmmod sib_cm
run modprobe -r sib
