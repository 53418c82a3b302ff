#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- handoff 4
# vm-long: --kernel stock --timeout 600 -- udp 20
# vm-long: --kernel stock --timeout 600 -- udp 10 lossy
# vm-long: --kernel debug --timeout 900 -- handoff 4
#
# Connections of sib_cm whose alternate paths are loaded by LAP and APR, beside ib_cm:
# paths are cut under load and come back, while every byte and every completion of a
# program is checked, and the connection ends by the path that it is on while the other one
# is cut. With `lossy`, the network beneath also loses, repeats and reorders datagrams.
#
#     lap.sh [handoff|udp [ROUNDS [lossy]]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/rails.sh"

datapath "${1:-handoff}"
run modprobe ib_cm
run modprobe sib_cm
fabric_up
[ "${3:-}" != lossy ] || {
	run modprobe sch_netem
	run ip link set lo up
	run tc qdisc replace dev lo root netem limit 100000 loss 1% duplicate 2% delay 1ms reorder 25%
}
run user lap sib0 sib1 $HOOK "${2:-4}" 1

[ "${3:-}" != lossy ] || {
	tc -s qdisc show dev lo
	[[ $(tc -s qdisc show dev lo) == *"dropped "[1-9]* ]] || fail "no datagram was lost"
	run tc qdisc del dev lo root
}

step "Nothing is left"
# Its dependencies are to stay.
run rmmod sib_cm
[ ! -e /dev/sib_cm ] || fail "/dev/sib_cm has outlived its module"
fabric_down
