#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600
# vm-long: --kernel debug --timeout 1800
#
# Datagrams that come one by one are put together by the network layer where they come
# (GRO), with nobody but sib asking for it, and what is put together is taken apart again
# without a wrong byte.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/cables.sh"

# taken: the datagrams, or batches of them, that sockets have got.
taken() {
	awk '$1 == "Udp6InDatagrams" { print $2 }' /proc/net/snmp6
}

# received: the packets that have come to the port of sib1.
received() {
	cat /sys/class/infiniband/sib1/ports/1/counters/port_rcv_packets
}

# per_take COMMAND...: packets at sib1 for a hundred datagrams or batches, of which some are
# acknowledgements for sib0, while it runs.
per_take() {
	local datagrams packets
	datagrams=$(taken) packets=$(received)
	"$@"
	datagrams=$(($(taken) - datagrams)) packets=$(($(received) - packets))
	printf '%d packets at sib1, in all %d datagrams or batches\n' $packets $datagrams
	[ $packets -gt 1000 ] || fail "hardly any packets"
	PER_TAKE=$((100 * packets / datagrams))
}

managed_by_module
# A packet is a datagram.
run modprobe sib bundles=0
configfs_up
veth
hca_up sib0 v0
hca_up sib1 v1
cable a v0 "$(link_address v1)"
cable b v1 "$(link_address v0)"
# Two links of each HCA, and the cable: until then either has a subnet, and LIDs, of its own.
within 60 settled 5 || fail "no way between the HCAs"
# veth joins only what comes from a device that cuts nothing itself. The cables are there already: of a device that cuts
# nothing they would not have batches cut.
for netdev in v0 v1; do
	run ethtool -K $netdev tso off tx-udp-segmentation off gro on
done

step "What is sent one by one is put together"
# Retries are to outlast a cable that is down for a moment, as one of its ends has stood still.
per_take pair sib1 sib0 ib_write_bw -u 18 -F -s 65536 -n 300
[ "$PER_TAKE" -ge 150 ] || fail "it is not"

step "No byte is wrong"
run user data -a sib0 -b sib1 -t rc -n 5 -T 18

step "Nothing is put together if the device is told not to"
for netdev in v0 v1; do
	run ethtool -K $netdev gro off
done
per_take pair sib1 sib0 ib_write_bw -u 18 -F -s 65536 -n 300
[ "$PER_TAKE" -le 100 ] || fail "it is: the first step has shown nothing"

run rmdir $CONFIG/a $CONFIG/b
run rdma link delete sib0
run rdma link delete sib1
run modprobe -r sib
