#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel debug --timeout 900 -- 15 handoff
# vm-long: --kernel stock --timeout 600 -- 15 udp
# vm-long: --kernel debug --timeout 1500 -- 300 handoff
# vm-long: --kernel debug --timeout 1500 -- 300 udp
#
# Hostile programs overwrite their rings, while others on the same devices go on
# and find all their data right; and some that ring for nothing hold up nobody.
#
#     hostile.sh [SECONDS [handoff|udp]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

seconds=${1:-15}

datapath "${2:-handoff}"
fabric_up
run user company
# A processor that stands still for a second is no reason to give up.
user data -n 2 -S "$seconds" -T 19 &
honest=$!
user hostile -S "$seconds" -s 1 sib0 &
hostile=$!
run user hostile -S "$seconds" -s 1000 sib1
wait $hostile || fail "status $? of the other hostile program"
wait $honest || fail "status $? of the honest program"
no_objects
run user data -n 1
fabric_down
