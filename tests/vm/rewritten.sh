#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300
#
# A network that rewrites what datagrams carry and makes the checksums right for that: the
# ICRC tells, also where the bytes have not left the memory that they were written to.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/cables.sh"

# A byte behind IPv6, UDP, outer header, LRH and BTH, in every packet of some size.
PLACE=200

# found: the datagrams whose ICRC was wrong.
found() {
	awk '$1 == "icrc" { sum += $2 } END { print sum + 0 }' /sys/kernel/debug/sib/sib-*/dropped
}

managed_by_module
run modprobe sib
configfs_up
veth
# Who sends completes the checksum, after the rules of its device.
for netdev in v0 v1; do
	run ethtool -K $netdev tx off gro off
done
hca_up sib0 v0
hca_up sib1 v1
cable a v0 "$(link_address v1)"
cable b v1 "$(link_address v0)"
# Two links of each HCA, and the cable: until then either has a subnet, and LIDs, of its own.
within 60 settled 5 || fail "no way between the HCAs"

step "One datagram in 20 is another one"
before=$(found)
run modprobe act_pedit
run tc qdisc add dev v0 clsact
run tc filter add dev v0 egress protocol ipv6 matchall \
	action pass random netrand pipe 20 \
	action pedit munge offset $PLACE u8 invert
run user data -a sib0 -b sib1 -t rc -n 2
count=$(($(found) - before))
printf '%d were found\n' $count
[ $count -gt 0 ] || fail "no ICRC was wrong"
run tc qdisc del dev v0 clsact

run rmdir $CONFIG/a $CONFIG/b
run rdma link delete sib0
run rdma link delete sib1
run modprobe -r sib
