#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- handoff
# vm-long: --kernel stock --timeout 600 -- udp
# vm-long: --kernel debug --timeout 1200 -- handoff
#
# Connections of sib_cm between ports with two LIDs each, by the first ones and by the
# second ones: what answers a datagram comes from the LID that this went to, or the peer
# does not take it.
#
#     lids.sh [handoff|udp]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

datapath "${1:-handoff}"
run modprobe sib
underlay sibnet0
hca_up sib0 sibnet0
hca_up sib1 sibnet0
opensm_up sib0 1 -l 1
wait_active 60 sib0 sib1
for port in /sys/class/infiniband/sib[01]/ports/*; do
	[ "$(($(cat "$port/lid_mask_count")))" = 1 ] || fail "LMC of $port"
done
run modprobe ib_cm
run modprobe sib_cm
for bits in 0 1; do
	step "Path bits $bits"
	export PATH_BITS=$bits
	run user connect sib0 sib1 1
	run user sidr sib0 sib1 1
	within 30 nothing_left || fail "connections are left"
done
run rmmod sib_cm
fabric_down
