#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 -- handoff
# vm-long: --kernel stock --timeout 600 -- handoff module
#
# IP over InfiniBand, by the kernel's ib_ipoib: ARP and neighbour discovery, packets of
# all sizes, multicast, streams, iperf3; datagram and connected mode.
#
#     ipoib.sh [handoff|udp [opensm|module]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"

# neighbour ADDRESS: the kernel knows the peer by its 20 bytes.
neighbour() {
	ip neigh show "$1" dev "$NEAR_IF" | grep -Eq 'lladdr ([0-9a-f]{2}:){19}[0-9a-f]{2}'
}

mode() {
	echo "$1" >"/sys/class/net/$NEAR_IF/mode" || fail "mode $1"
	# shellcheck disable=SC2016 # for the inner shell
	far sh -c 'echo "$1" >"/sys/class/net/$2/mode"' sh "$1" "$FAR_IF" || fail "mode $1"
}

measured() {
	iperf $FAR -t 1
	iperf $FAR -t 1 -R -P 2
	iperf $FAR6 -t 1 -u -b 20M -l 1400
}

subnet_manager "${2:-opensm}"
datapath "${1:-handoff}"
partitions <<<"Default=0x7fff, ipoib, mtu=5, defmember=full: ALL, ALL_SWITCHES=full, SELF=full;"
ip_fabric

step "Datagram mode"
addresses
mtu_is 4092 || fail "not the MTU of the broadcast group"
pings $FAR 56 3
neighbour $FAR || fail "no ARP entry"
pings $FAR6 56 3
neighbour $FAR6 || fail "no IPv6 neighbour"
everything 64 1000 4064 4065 60000
measured
step "Multicast"
far sysctl -q -w net.ipv4.icmp_echo_ignore_broadcasts=0
pings 224.0.0.1 56 3 -I "$NEAR_IF"
multicast 239.1.2.3 100 10000
multicast ff15::1234 100 10000
faultless

step "Connected mode"
mode connected
run ip link set "$NEAR_IF" mtu 65520
run ip -n far link set "$FAR_IF" mtu 65520
carriers
mtu_is 65520 || fail "MTU"
pings $FAR 65000 3 -M 'do'
everything 64 4065 65000
measured
# Multicast is by datagrams all the same.
multicast 239.1.2.4 100 4000
[ "$(rdma resource show qp link sib0/1 | grep -c 'type RC')" -ge 1 ] || fail "no connection has been made"
faultless
step "One side connected, the other not"
echo datagram >"/sys/class/net/$NEAR_IF/mode" || fail "mode"
carriers
pings $FAR 2000 10
stream $FAR $((STREAM / 10))
mode datagram
carriers
pings $FAR 2000 10

ip_down
