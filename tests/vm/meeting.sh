#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --nodes 2 --timeout 300
#
# Two hosts on one Ethernet with one command each: their switches find each other, a
# subnet manager of the module takes both, and IP over InfiniBand goes from host to host.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ip.sh"

as_it_comes
run modprobe sib
barrier begin
began=${EPOCHREALTIME/[.,]/}
hca_up sib0 eth0
within 60 switches sib0 2 || {
	dmesg | grep 'sib:'
	fail "the hosts have not found each other"
}
wait_active 30 sib0
printf 'one subnet after %d ms\n' $(((${EPOCHREALTIME/[.,]/} - began) / 1000))
run modprobe ib_ipoib
run ip address add "10.8.0.$NODE/24" dev "$(ipoib_of sib0)"
run ip link set "$(ipoib_of sib0)" up
barrier up
pings "10.8.0.$((3 - NODE))" 1000 5
barrier end
run ip link set "$(ipoib_of sib0)" down
run rdma link del sib0
run modprobe -r sib
