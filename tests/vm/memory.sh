#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 -- handoff
# vm: --kernel stock --timeout 600 -- udp
# vm-long: --kernel stock --timeout 600 -- handoff longest
# vm-long: --kernel debug --timeout 900 -- handoff
# vm-long: --kernel debug --timeout 900 -- udp
#
# What there is to do with memory beside reading and writing it: FLUSH and ATOMIC
# WRITE, memory windows, registration by work requests of a client in the kernel,
# and invalidation by the peer; keys, and regions that go while others write to them,
# or while a message waits for their pages.
#
#     memory.sh [handoff|udp [longest]]
#
# With `longest`, messages of 2 GiB as well.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

datapath "${1:-handoff}"
fabric_up
step "Regions"
run user regions sib0 sib1
run user odp sib0 sib1 refused
[ "${2:-}" != longest ] || run user regions sib0 sib1 longest
step "FLUSH and ATOMIC WRITE"
run user placement sib0 sib1
step "Memory windows"
run user window sib0 sib1
no_objects
step "Registration by work requests"
client fastreg
fabric_down
