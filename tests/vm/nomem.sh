#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel debug --timeout 900 -- handoff 3 admin
# vm-long: --kernel debug --timeout 3600 -- handoff 1
# vm-long: --kernel debug --timeout 3600 -- udp 1
#
# No memory: every allocation of every verb, of every call by which a client in the kernel makes
# something, of every order for the connection manager, or of what the administrator does to HCAs
# and cables, fails in its turn, or one in STRIDE of them (of the client in the kernel each one).
#
#     nomem.sh [handoff|udp [STRIDE [PART...]]]
#
# The administrator's part runs when it is named. Making an HCA takes so long that one in
# 100 times STRIDE fails.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/cables.sh"

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
datapath "${1:-handoff}"
fabric_up
stride=${2:-1}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- objects states messages kernel cm
configfs_up
underlay sibnet8
for part; do
	case $part in
	messages) run user nomem messages ;;
	kernel)
		# It says which allocations may fail.
		run user nomem
		client shortage
		;;
	cm)
		run modprobe ib_cm
		run modprobe sib_cm
		run user nomem -k "$stride" cm
		run rmmod sib_cm
		;;
	*) run user nomem -k "$stride" "$part" ;;
	esac
done
no_objects
pair sib0 sib1 ibv_rc_pingpong -n 50
fabric_down
