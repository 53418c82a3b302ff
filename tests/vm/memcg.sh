#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300
# vm-long: --kernel debug --timeout 700
#
# A program in a memory cgroup of 64 MiB has objects made: their memory is charged to it, so that
# it is refused more than it has room for, and not killed; and it gets back what it gives back.
# Others go on meanwhile.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

GROUP=/sys/fs/cgroup/hoard
KIB=1024
MIB=$((1024 * KIB))

# hoard KIND COUNT BYTES
hoard() {
	run timeout -k 5 120 "$USER_PROGRAMS/hoard" sib0 $GROUP "$@"
}

mount | grep -q 'type cgroup2' || run mount -t cgroup2 none /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control || fail "no memory controller"
run mkdir $GROUP
echo $((64 * MIB)) >$GROUP/memory.max || fail "no limit"
managed_by_module
hcas_up
wait_active 60 sib0 sib1
run modprobe sib_cm
load sib0 sib1

step "As many as there is room for"
hoard cq 0 $((4 * MIB))
hoard srq 0 $((4 * MIB))
hoard qp 0 $((5 * MIB))

step "What a few take, and give back"
hoard cq 8 $((4 * MIB))
hoard qp 8 $((5 * MIB))
hoard mr 500 $((8 * KIB))
hoard mw 10000 56
hoard ah 10000 100
hoard pd 5000 160
hoard listener 10000 150

step "The end"
load_goes_on "afterwards"
load_ends
grep -q '^oom_kill 0$' $GROUP/memory.events || fail "somebody was killed: $(cat $GROUP/memory.events)"
run rmdir $GROUP
no_objects
run rdma link del sib0
run rdma link del sib1
run modprobe -r sib_cm sib
