#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --timeout 300
# vm-long: --kernel debug --timeout 900
#
# Cables that the parameter `peers` asks for: to a host behind a router, over IPv4 and IPv6,
# on a UDP port of their own, and none to the host itself. Their network device comes late, goes,
# and comes back. What cannot be is refused.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"

# The debug kernel takes ten times as long for a packet.
case $(uname -r) in
*debug*) rounds=40 ;;
*) rounds=400 ;;
esac

# refuses PEERS: the module is not loaded with that, and the log says why.
refuses() {
	local before said
	before=$(dmesg | grep -c 'sib: parameter peers: ')
	said=$(modprobe sib peers="$1" 2>&1) && fail "peers=$1 was taken"
	grep -q 'Invalid argument' <<<"$said" || fail "peers=$1: $said"
	[ "$(dmesg | grep -c 'sib: parameter peers: ')" -gt "$before" ] || fail "no word about peers=$1"
}

# near: makes v0, which leads to the router.
near() {
	run ip link add v0 type veth peer name r0 netns router
	run ip link set v0 mtu 9000 up
	run ip -n router link set r0 mtu 9000 up
	run ip -n router address add 10.1.0.254/24 dev r0
	run ip -n router address add fd01::254/64 nodad dev r0
	run ip address add 10.1.0.1/24 dev v0
	run ip address add fd01::1/64 nodad dev v0
	run ip route add 10.2.0.0/24 via 10.1.0.254
	run ip route add fd02::/64 via fd01::254
}

# far: a network namespace behind the router, with v1.
far() {
	run ip netns add router
	run ip netns add far
	run ip netns exec router sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
	run ip -n far link add v1 type veth peer name r1 netns router
	run ip -n far link set v1 mtu 9000 up
	run ip -n router link set r1 mtu 9000 up
	run ip -n router address add 10.2.0.254/24 dev r1
	run ip -n router address add fd02::254/64 nodad dev r1
	run ip -n far address add 10.2.0.1/24 dev v1
	run ip -n far address add fd02::1/64 nodad dev v1
	run ip -n far route add default via 10.2.0.254
	run ip -n far route add default via fd02::254
}

# cabled NETDEV-MAC REMOTE: that switch has a configured cable to there, and it is up.
cabled() {
	grep -qF " to $2 configured up" "/sys/kernel/debug/sib/sib-${1//:/}/cables"
}

both_cabled() {
	local mac
	mac=$(cat /sys/class/net/v0/address)
	cabled "$mac" 10.2.0.1:61600 && cabled "$mac" '[fd02::1]:61600'
}

# passes LINKS: traffic does, and so many links are active.
passes() {
	within 60 settled "$1" || fail "no way between the HCAs"
	pair sib0 sib1 ibv_rc_pingpong -n $rounds
	lossy_pair sib0 sib1 ibv_ud_pingpong -n $rounds
}

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
managed_by_module

step "What cannot be"
for peers in v0 v0/ /10.0.0.1 v0/nonsense v0/0.0.0.0 v0/10.0.0.1:0 v0/224.0.0.1 v0/255.255.255.255 \
	v0/ff02::1 v0/10.0.0.256 v0/fe80::1%v0 averyveryverylongname0/10.0.0.1 v0/10.0.0.1,v1 \
	v0/10.0.0.1,,v0/10.0.0.2 v0/10.0.0.1,v0/10.0.0.1:61515; do
	refuses $peers
done
modinfo -F parm sib | grep -q '^peers:.*NETDEV/ADDRESS' || fail "modinfo does not tell of peers"

step "Addresses of this host"
run ip link add v0 type dummy
run ip link set v0 up
run ip address add 10.1.0.1/24 dev v0
run ip address add fd01::1/64 nodad dev v0
run modprobe sib 'peers=v0/10.1.0.1,v0/fd01::1,v0/10.1.0.2'
plugged() {
	cat /sys/kernel/debug/sib/*/cables
}
is_plugged() {
	plugged | grep -qF ' to 10.1.0.2:61515 configured '
}
within 30 is_plugged || fail "no cable to another host"
[ "$(plugged | grep -c '^port ')" = 1 ] || fail "cables: $(plugged)"
for own in 10.1.0.1 '[fd01::1]'; do
	dmesg | grep -qF "peers: no cable from v0 to $own:61515: the remote is an address of this host" || fail "no word about $own"
done
run modprobe -r sib
python3 -c 'import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", 61515)); time.sleep(60)' &
other=$!
taken() {
	[ -n "$(ss -Hualn 'sport = :61515')" ]
}
within 30 taken || fail "the UDP port is not taken"
run modprobe sib 'peers=v0/10.1.0.2'
said() {
	dmesg | grep -qF "peers: no cable from v0 to 10.1.0.2:61515: another program has the UDP port"
}
within 30 said || fail "no word about the UDP port"
kill $other
run modprobe -r sib
run ip link del v0

step "The module is there before the network device"
far
run modprobe sib udp_port=61600 'peers=v0/10.2.0.1,v0/[fd02::1]:61600'
configfs_up
run ip netns exec far rdma link add sib1 type sib netdev v1
cable a v1 10.1.0.1
cable b v1 '[fd01::1]:61600'
near
within 30 both_cabled || fail "the cables are not there: $(cat /sys/kernel/debug/sib/*/cables)"
[ -z "$(ss -Hualn 'sport = :61515')" ] || fail "the default UDP port is in use"
hca_up sib0 v0
within 30 switches sib0 2 || fail "no two switches"
passes 6

step "Through the router, without IPv4"
run ip -n router route add blackhole 10.2.0.1/32
one_cabled() {
	! cabled "$(cat /sys/class/net/v0/address)" 10.2.0.1:61600
}
within 30 one_cabled || fail "the cable over IPv4 is still there"
passes 5
run ip -n router route del blackhole 10.2.0.1/32
within 30 both_cabled || fail "the cable over IPv4 has not come back"

step "The network device goes, and comes back"
run ip link del v0
within 30 test ! -e /sys/class/infiniband/sib0 || fail "the HCA has outlived its underlay"
near
within 30 both_cabled || fail "the cables have not come back: $(cat /sys/kernel/debug/sib/*/cables)"
hca_up sib0 v0
within 30 switches sib0 2 || fail "no two switches"
passes 6

step "A network device that carries no packet at first"
run rdma link del sib0
run ip link del v0
run ip link add v0 mtu 300 type veth peer name r0 netns router
complained() {
	dmesg | grep -qF 'sib: peers: no cable from v0 to 10.2.0.1:61600: the MTU of the netdev is too small'
}
within 30 complained || fail "no word about a cable that cannot be"
run ip link del v0

step "Configured as well"
near
within 30 both_cabled || fail "the cables have not come back: $(cat /sys/kernel/debug/sib/*/cables)"
mkdir $CONFIG/twice
echo v0 >$CONFIG/twice/netdev
echo 10.2.0.1 >$CONFIG/twice/remote
! said=$( (echo 1 >$CONFIG/twice/enable) 2>&1) || fail "one cable was plugged twice"
grep -q 'File exists' <<<"$said" || fail "it is refused otherwise: $said"
run rmdir $CONFIG/twice

step "The module goes, with its cables"
run rmdir $CONFIG/a $CONFIG/b
run modprobe -r sib
run ip link del v0
run ip netns del far
run ip netns del router
