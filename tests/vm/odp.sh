#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 -- handoff
# vm-long: --kernel debug --timeout 1200 -- udp 1 1
# vm-long: --kernel stock --timeout 900 -- udp 5 8
# vm-long: --kernel stock --timeout 900 -- handoff 10 8
# vm-long: --kernel debug --timeout 1800 -- handoff 1 4
#
# Memory that is not pinned: messages of all kinds and sizes, every byte checked,
# while pages are taken away by madvise, by new mappings and by children that share
# them; advice, operations that find no page, and what becomes of work if there is
# no memory. What other tests show of pinned memory is shown of this.
#
#     odp.sh [handoff|udp [ROUNDS [SETUPS]]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

rounds=${2:-2} setups=${3:-2}

datapath "${1:-handoff}"
fabric_up
if [ "${1:-handoff}" = handoff ]; then
	step "Advice, operations without a page, no memory at all"
	run user odp sib0 sib1
	case $(uname -r) in
	*debug*) ;; # has no null_blk
	*)
		step "A disk that takes its time"
		run modprobe null_blk nr_devices=1 gb=1 irqmode=2 completion_nsec=1000000000
		run user tardy sib0 sib1 /dev/nullb0
		run modprobe -r null_blk
		;;
	esac
else
	step "Another message is refused"
	run user odp sib0 sib1 refused
fi
for kind in shared private; do
	step "Messages while pages go, $kind"
	run user data -o $kind -a sib0 -b sib1 -n "$rounds" -N "$setups"
	run user data -o $kind -t rc -a sib1 -b sib1 -n 1 -N 1
done
step "FLUSH, ATOMIC WRITE, windows and faults while pages go"
for program in placement window errors flush; do
	run user $program -o sib0 sib1
done
no_objects
fabric_down
