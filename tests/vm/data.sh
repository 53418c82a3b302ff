#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 -- handoff
# vm: --kernel stock --timeout 600 -- udp 1
# vm-long: --kernel stock --timeout 900 -- udp
# vm-long: --kernel debug --timeout 1200 -- handoff
# vm-long: --kernel debug --timeout 1800 -- udp 60
#
# Messages of all kinds and sizes, both ways at once, every byte and every
# completion checked: between two HCAs, between the ports of one, and from a port
# to itself, by path MTUs from 256 bytes up, from and to pages of all sizes.
#
#     data.sh [handoff|udp [ROUNDS]]
#
# A single round is between two HCAs and from a port to itself alone.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

rounds=${2:-10}
# For two arenas of 12 MiB.
HUGE_PAGES=16

datapath "${1:-handoff}"
fabric_up
step "Between two HCAs"
run user data -a sib0 -b sib1 -n "$rounds"
step "From a port to itself"
run user data -a sib1 -b sib1 -n 2
step "Huge pages"
echo $HUGE_PAGES >/proc/sys/vm/nr_hugepages
run user data -o huge -a sib0 -b sib1 -n 1 -N 1
echo 0 >/proc/sys/vm/nr_hugepages
if [ "$rounds" -gt 1 ]; then
	step "Between the ports of one"
	run user data -a sib0:1 -b sib0:2 -n 2
	step "Other numbers"
	for seed in 2 3; do
		run user data -a sib1:2 -b sib0:2 -n "$rounds" -s $seed
	done
fi
fabric_down
