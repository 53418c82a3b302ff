#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel debug --timeout 900 -- handoff 3
# vm-long: --kernel debug --timeout 3600 -- handoff 1
# vm-long: --kernel debug --timeout 3600 -- udp 1
#
# No memory: every allocation of every verb fails in its turn, or one in STRIDE of
# them.
#
#     nomem.sh [handoff|udp [STRIDE]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
datapath "${1:-handoff}"
fabric_up
run user nomem -k "${2:-1}" objects states
run user nomem messages
no_objects
pair sib0 sib1 ibv_rc_pingpong -n 50
fabric_down
