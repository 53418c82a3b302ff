#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- handoff 4
# vm-long: --kernel stock --timeout 600 -- udp 20 strict
# vm-long: --kernel debug --timeout 900 -- handoff 4 strict
#
# Automatic path migration between two HCAs of two ports each: paths are cut one way
# and both ways, and ports are disabled at the switch, while every byte and every
# completion of a program is checked; there and back again. Migration by order with work
# under way, to a path that is dead, to one that the peer does not know, and of a peer that
# is not armed; the same by pyverbs. With `strict`, also what becomes of these when
# the module does no more than the IBA has it.
#
#     apm.sh [handoff|udp [ROUNDS [strict]]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/rails.sh"

datapath "${1:-handoff}"
fabric_up
run user apm sib0 sib1 $HOOK "${2:-4}" 1

step "Packets that are lost or late"
for what in work dead crossed 'follow on' 'pardon on' 'probe on'; do
	# shellcheck disable=SC2086 # two words
	run user corners sib0 sib1 $what
done

step "By pyverbs"
run timeout -k 5 120 python3 -B "$(dirname "$0")/pyverbs/migration.py" sib0 sib1
no_objects
fabric_down

[ "${3:-}" = strict ] || exit 0
for what in follow pardon probe; do
	step "apm_$what=0"
	run modprobe sib force_udp="$([ "$1" = udp ] && echo 1 || echo 0)" apm_$what=0
	fabric_up
	run user corners sib0 sib1 $what off
	fabric_down
done
