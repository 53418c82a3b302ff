#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- handoff
# vm: --kernel stock --timeout 300 -- udp
# vm-long: --kernel debug --timeout 900 -- handoff
# vm-long: --kernel debug --timeout 900 -- udp
#
# What there is to do with memory beside reading and writing it: FLUSH and ATOMIC
# WRITE.
#
#     memory.sh [handoff|udp]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

datapath "${1:-handoff}"
fabric_up
step "FLUSH and ATOMIC WRITE"
run user placement sib0 sib1
no_objects
fabric_down
