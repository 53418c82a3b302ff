#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 -- 4
# vm-long: --kernel stock --timeout 600
# vm-long: --kernel debug --timeout 900
#
# Devices and programs go while another processor transmits what the programs post.
#
#     leaving.sh [ROUNDS]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

rounds=${1:-20}
# How many packets there are to be before something goes.
BUSY=10000
case $(uname -r) in
*debug*) BUSY=1000 ;;
esac

# packets: how many the first HCA has sent.
packets() {
	cat /sys/class/infiniband/sib0/ports/1/counters/port_xmit_packets
}

# busy: it has sent enough since there were BEFORE.
busy() {
	[ "$(packets)" -gt $((BEFORE + BUSY)) ]
}

managed_by_module
hcas_up
wait_active 60 sib0 sib1

step "No byte is wrong"
run user data -a sib0 -b sib1 -t rc -n 5

step "Nobody waits for a program of low priority that sends to him"
run user captive

step "Devices go meanwhile"
for ((round = 1; round <= rounds; round++)); do
	PORT=$((PORT + 1))
	timeout 60 ib_write_bw -d sib1 -p $PORT -F -s 8 -q 4 -D 20 >/tmp/server 2>&1 &
	server=$!
	within 20 listening $PORT || fail "the server does not listen"
	BEFORE=$(packets)
	timeout 60 ib_write_bw -d sib0 -p $PORT -F -s 8 -q 4 -D 20 127.0.0.1 >/tmp/client 2>&1 &
	client=$!
	within 30 busy || fail "nothing is sent: $(cat /tmp/client)"
	victim=sib$((round % 2))
	case $((round % 4)) in
	0 | 1) run rdma link delete $victim ;;
	2) kill -9 $client ;;
	3) kill -9 $server ;;
	esac
	kill $client $server 2>/dev/null
	wait $client $server
	if [ ! -d /sys/class/infiniband/$victim ]; then
		hca_up $victim sibnet0
		wait_active 60 $victim
	fi
done
no_objects
printf 'after %d rounds all is there again\n' "$rounds"
run rdma link del sib0
run rdma link del sib1
run modprobe -r sib
