#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- handoff 4
# vm-long: --kernel stock --timeout 600 -- udp 20
# vm-long: --kernel debug --timeout 900 -- handoff 4
#
# Connections of sib_cm whose alternate paths are loaded by LAP and APR, beside ib_cm:
# paths are cut under load and come back, while every byte and every completion of a
# program is checked.
#
#     lap.sh [handoff|udp [ROUNDS]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/rails.sh"

datapath "${1:-handoff}"
run modprobe ib_cm
run modprobe sib_cm
fabric_up
run user lap sib0 sib1 $HOOK "${2:-4}" 1

step "Nothing is left"
# Its dependencies are to stay.
run rmmod sib_cm
[ ! -e /dev/sib_cm ] || fail "/dev/sib_cm has outlived its module"
fabric_down
