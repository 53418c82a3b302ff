#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- handoff
# vm-long: --kernel stock --timeout 600 -- udp
# vm-long: --kernel debug --timeout 900 -- handoff
# vm-long: --kernel debug --timeout 900 -- udp 10
# vm-long: --kernel stock --timeout 1800 -- handoff 300
#
# An HCA goes, again and again, while threads send long messages by many of its queue
# pairs: each of their work requests completes once before the HCA is gone.
#
#     removal.sh [handoff|udp [TIMES]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

managed_by_module
datapath "${1:-handoff}"
underlay sibnet0
hca_up sib0 sibnet0
wait_active 60 sib0
step "HCAs go amid traffic"
run user removal -a sib7 -d sibnet0 -b sib0 -n "${2:-30}"
no_objects
run rdma link del sib0
run modprobe -r sib
