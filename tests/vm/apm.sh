#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- handoff 4
# vm-long: --kernel stock --timeout 600 -- udp 20
# vm-long: --kernel debug --timeout 900 -- handoff 4
#
# Automatic path migration between two HCAs of two ports each: paths are cut one way
# and both ways, and ports are disabled at the switch, while every byte and every
# completion of a program is checked; there and back again. Migration by order with work
# under way, and with no path left.
#
#     apm.sh [handoff|udp [ROUNDS]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/rails.sh"

datapath "${1:-handoff}"
fabric_up
run user apm sib0 sib1 $HOOK "${2:-4}" 1

step "Packets that are lost"
run user corners sib0 sib1 work
run user corners sib0 sib1 dead
fabric_down
