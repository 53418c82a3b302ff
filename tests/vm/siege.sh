#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --timeout 300 -- 30
# vm-long: --kernel debug --timeout 1200 -- 120
#
# Somebody on the network of a cable forges packets with its cookie and right ICRCs, for
# queue pairs of all types in all states, while a connection of others by the same cable goes
# on with every byte checked.
#
#     siege.sh [SECONDS [SEED]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/cables.sh"

seconds=${1:-10}
seed=${2:-$RANDOM}

# dropped CAUSE: the datagrams that were dropped for it.
dropped() {
	awk -v cause="$1" '$1 == cause { sum += $2 } END { print sum + 0 }' /sys/kernel/debug/sib/*/dropped
}

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
managed_by_module
run modprobe sib
configfs_up
veth
hca_up sib0 v0
hca_up sib1 v1
cable a v0 "$(link_address v1)"
cable b v1 "$(link_address v0)"
# Two links of each HCA, and the cable: until then either has a subnet, and LIDs, of its own.
within 60 settled 5 || fail "no way between the HCAs"

before=$(dropped stranger)
load sib0 sib1
run user siege -a sib0 -b sib1 -e v0 -o v1 -S "$seconds" -s "$seed"
load_goes_on "after the siege"
load_ends
head -v /sys/kernel/debug/sib/*/dropped
for cause in header icrc; do
	[ "$(dropped $cause)" -gt 0 ] || fail "no packet was dropped for its $cause"
done
[ "$(dropped stranger)" = "$before" ] || fail "forged packets are taken for a stranger's"
no_objects
run user data -t rc -n 1 -N 2
run rmdir $CONFIG/a $CONFIG/b
run rdma link delete sib0
run rdma link delete sib1
run modprobe -r sib
