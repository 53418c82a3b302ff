#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- 10
# vm-long: --kernel debug --timeout 1800 -- 50
#
# HCAs are removed while others ask them for counters by the thousand, which ib_mad answers.
#
#     asked.sh [TIMES]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

times=${1:-10}

managed_by_module
run modprobe sib
underlay sibnet0
hca_up sib0 sibnet0
for ((time = 1; time <= times; time++)); do
	hca_up sib1 sibnet0
	wait_active 60 sib0 sib1
	for port in 1 2; do
		"$USER_PROGRAMS/asker" sib0 "$(lid sib1 $port)" >/tmp/asker.$port 2>&1 &
		askers[port]=$!
	done
	for port in 1 2; do
		received=/sys/class/infiniband/sib1/ports/$port/counters/port_rcv_packets
		before=$(<$received)
		within 20 eval '[ "$(<$received)" -gt $((before + 200)) ]' || fail "nobody asks: $(cat /tmp/asker.*)"
	done
	run rdma link del sib1
	for port in 1 2; do
		kill "${askers[port]}"
		wait "${askers[port]}" || fail "the asker of port $port: $(</tmp/asker.$port)"
	done
	cat /tmp/asker.[12]
done
run rdma link del sib0
