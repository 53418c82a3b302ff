#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel debug --timeout 700 -- 5
# vm-long: --kernel debug --timeout 800
#
# No memory for the modules: each allocation below the code of a module fails in its turn, or one
# in STRIDE of them, while sib, with cables to plug in, or sib_cm, with HCAs there, is loaded or
# removed. A load fails with ENOMEM and leaves nothing, or succeeds; a removal succeeds.
#
#     loading.sh [STRIDE]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/cables.sh"

stride=${1:-1}

# swept MODULE PARAMETERS PATH...
swept() {
	local file=/tmp/$1.ko
	run cp "$(modinfo -n "$1")" "$file"
	run user loading -k "$stride" "$1" "$file" "${@:2}" "/sys/module/$1"
}

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
managed_by_module
underlay sibnet0
underlay sibnet1

step "sib"
# What it uses stays.
run modprobe sib
run rmmod sib
configfs_up
swept sib "ports=8 peers=sibnet0/192.0.2.1,sibnet0/192.0.2.2:4444,sibnet1/[fe80::1]:4444" \
	$CONFIG /sys/kernel/config/sib_partitions /sys/kernel/debug/sib

step "sib_cm"
run modprobe sib
run modprobe sib_cm dedicated=1
hca_up sib0 sibnet0
run rmmod sib_cm
hca_up sib1 sibnet0
wait_active 60 sib0 sib1
swept sib_cm "watch=2" /sys/kernel/config/sib_cm /sys/kernel/debug/sib_cm /dev/sib_cm

step "The end"
pair sib0 sib1 ibv_rc_pingpong -n 50
run rdma link del sib0
run rdma link del sib1
run modprobe -r sib
! grep -h '^kworker/R-sib' /proc/[0-9]*/comm || fail "a work queue is left"
