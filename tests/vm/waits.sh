#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- handoff
# vm-long: --kernel stock --timeout 300 -- udp
# vm-long: --kernel debug --timeout 600 -- handoff
# vm-long: --kernel debug --timeout 600 -- udp
#
# What work of reliable connections waits for: fences, and responders that have no
# receive.
#
#     waits.sh [handoff|udp]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
datapath "${1:-handoff}"
fabric_up
step "Fences"
run user fence sib0 sib1
step "Responders that are not ready"
run user notready sib0 sib1
no_objects
fabric_down
