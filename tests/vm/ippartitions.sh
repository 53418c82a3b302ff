#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600
#
# Interfaces of IP over InfiniBand in partitions of their own, as children of one that
# is in the default partition; and one whose partition does not exist.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ip.sh"

down() {
	ip -o link show "$1" | grep -q NO-CARRIER
}

partitions <<'TABLE'
Default=0x7fff, ipoib, mtu=5, defmember=full: ALL, ALL_SWITCHES=full, SELF=full;
blue=0x0001, ipoib, defmember=full: ALL, ALL_SWITCHES=full, SELF=full;
green=0x0003, ipoib, defmember=full: ALL, ALL_SWITCHES=full, SELF=full;
TABLE
ip_fabric
addresses
mtu_is 4092 || fail "not the MTU of the default partition's broadcast group"
parents=("$NEAR_IF" "$FAR_IF")

# child NAME P_KEY NETWORK: makes both interfaces of a partition, and goes on with them.
child() {
	run ip link add link "${parents[0]}" name "$1" type ipoib pkey "$2"
	run ip -n far link add link "${parents[1]}" name "$1" type ipoib pkey "$2"
	NEAR_IF=$1 FAR_IF=$1
	NEAR=10.$3.0.1 FAR=10.$3.0.2 NEAR6=fd$3::1 FAR6=fd$3::2
	addresses
}

step "A partition of its own"
child blue 0x8001 21
mtu_is 2044 || fail "not the MTU of the partition's broadcast group"
everything 64 2017 60000
multicast 239.1.2.5 50 10000
faultless
step "Another one beside it"
child green 0x8003 23
pings $FAR 2000 5
pings 10.21.0.2 2000 5
pings 10.8.0.2 2000 5

step "Interfaces of one partition do not hear those of another"
run ip address add 10.25.0.1/24 dev blue
run ip -n far address add 10.25.0.2/24 dev green
# Linux answers for an address on any interface unless it is told not to.
far sh -c 'echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore' || fail "arp_ignore"
! ping -n -c 3 -i 0.2 -W 2 10.25.0.2 >/dev/null || fail "green has answered blue"

step "A partition that does not exist"
run ip link add link "${parents[0]}" name red type ipoib pkey 0x8002
run ip link set red up
sleep 2
down red || fail "red is up"
for name in red green blue; do
	run ip link del $name
done
run ip -n far link del green
run ip -n far link del blue
NEAR_IF=${parents[0]} FAR_IF=${parents[1]}
ip_down
