#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel debug --timeout 1500 -- 600 handoff
# vm-long: --kernel debug --timeout 1500 -- 600 udp
# vm-long: --kernel stock --timeout 1500 -- 600 handoff
#
# Nonsense for sib_cm, by datagrams and by orders, while it also looks at what ib_cm does:
# a connection that has nothing to do with it stays as it is, orders fail with an error
# that says why, and the module goes in the midst of what is left.
#
#     cmfuzz.sh [SECONDS [handoff|udp [SEED]]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

managed_by_module
datapath "${2:-handoff}"
run modprobe ib_umad
run modprobe ib_cm
run modprobe sib_cm watch=2
underlay sibnet0
hca_up sib0 sibnet0
hca_up sib1 sibnet0
wait_active 60 sib0 sib1
step "Nonsense"
run user cmfuzz sib0 sib1 "${1:-20}" "${3:-1}" /src/tests/vm/packets/cm.hex
cat /sys/kernel/debug/sib_cm/datagrams

step "The module goes, with what has been left behind"
run rmmod sib_cm
run modprobe sib_cm
run user flood sib0 sib1 1 own
run rmmod sib_cm
run rdma link del sib1
run rdma link del sib0
run modprobe -r ib_cm sib
