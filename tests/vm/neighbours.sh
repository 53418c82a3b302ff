#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600
# vm-long: --kernel debug --timeout 1200
#
# Hosts on one layer 2 find each other: three network namespaces on a bridge, an HCA
# in each, and nobody who says anything about cables or subnet managers. A fourth one is
# found when it has an address of the link; one is cut off and returns; strangers do no harm;
# and a cable that is configured in the end takes the place of one that has come by itself.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"

BEACON="$(dirname "$0")/neighbours/beacon.py"

# The debug kernel is a lot slower.
case $(uname -r) in
*debug*) soon=60 rounds=40 ;;
*) soon=40 rounds=1000 ;;
esac

# host NUMBER: one more host on the bridge.
host() {
	run ip netns add "host$1"
	run ip link add "port$1" type veth peer name eth0 netns "host$1"
	run ip link set "port$1" master lan0 up
	run ip -n "host$1" link set eth0 mtu 9000 up
	run ip link set "port$1" mtu 9000
}

# hca NUMBER: gives it an HCA, by the one command that there is for that.
hca() {
	run ip netns exec "host$1" rdma link add "sib$1" type sib netdev eth0
}

# joined A B: they are in one subnet, which they are later than their switches see each other: LIDs of both are of use
# to both.
joined() {
	within "$soon" routed "sib$1" "sib$2" && within "$soon" routed "sib$2" "sib$1" ||
		fail "hosts $1 and $2 are in two subnets: $(lid "sib$1") $(lid "sib$2")"
}

as_it_comes
run modprobe sib
configfs_up
run ip link add lan0 type bridge
run ip link set lan0 mtu 9000 up

step "Two hosts"
host 1
host 2
began=${EPOCHREALTIME/[.,]/}
hca 1
hca 2
within "$soon" switches sib1 2 || fail "the hosts have not found each other"
wait_active "$soon" sib1 sib2
joined 1 2
printf 'one subnet after %d ms\n' $(((${EPOCHREALTIME/[.,]/} - began) / 1000))
cable_pair sib1 sib2 ibv_rc_pingpong -n $rounds
lossy_pair sib1 sib2 ibv_ud_pingpong -n $rounds

step "A third one"
host 3
hca 3
within "$soon" switches sib1 3 || fail "the third host has not been found"
wait_active "$soon" sib3
joined 1 3
joined 3 2
timeout 30 iblinkinfo -C sib1 -l | grep -v Polling
cable_pair sib1 sib3 ibv_rc_pingpong -n $rounds
cable_pair sib3 sib2 ibv_rc_pingpong -n $rounds

step "One without an address of the link is told why it is alone, and is found when it has one"
host 4
run ip -n host4 link set eth0 addrgenmode none
run ip -n host4 link set eth0 down
run ip -n host4 link set eth0 up
# Nobody believes what comes from this one.
run ip -n host4 address add fd04::4/64 nodad dev eth0
hca 4
silent() {
	dmesg | grep 'no beacons leave the underlay'
}
within 30 silent || fail "no word about it"
run ip -n host4 address add fe80::4/64 dev eth0
within "$soon" switches sib1 4 || fail "it has not been found"
run rdma link del sib4
run ip netns del host4
within "$soon" switches sib1 3 || fail "it is still there"
[ "$(silent | wc -l)" = 1 ] || fail "it is told again"

# cables: what the third host tells of its cables.
cables() {
	cat "/sys/kernel/debug/sib/$(basename "$(readlink -f /sys/class/infiniband/sib3/device)")/cables"
}

# orders PORT OPERATION: what its switch is to do with a port.
orders() {
	printf '$ ibportstate -C sib3 -D 0,1 %s %s\n' "$@"
	timeout 30 ibportstate -C sib3 -D 0,1 "$@" >/dev/null || fail "ibportstate $2"
}

step "A cable whose port was disabled is given as long as any other"
port=$(cables | sed -n 's/^port \([0-9]*\) .*/\1/p;q')
orders "$port" disable
cables | grep "^port $port .* waits [0-9]\{1,4\} ms: the port is disabled" || fail "$(cables)"
sleep 11
run ip link set port3 down
orders "$port" enable
sleep 3
cables | grep "^port $port .* waits [0-9]\{1,4\} ms: its other end is not heard" || fail "$(cables)"

step "A host is cut off, and returns"
within "$soon" switches sib1 2 || fail "the third host is still there"
cable_pair sib1 sib2 ibv_rc_pingpong -n $rounds
# Longer than the cables are kept.
sleep 13
run ip link set port3 up
within $((2 * soon)) switches sib1 3 || fail "the third host has not come back"
wait_active "$soon" sib3
joined 1 3
cable_pair sib1 sib3 ibv_rc_pingpong -n $rounds

step "Strangers that tell of switches which are not there"
ip netns exec host1 python3 -B "$BEACON" eth0 400 || fail "beacons of strangers"
sleep 1
within "$soon" switches sib1 3 || fail "strangers have done harm"
cable_pair sib1 sib2 ibv_rc_pingpong -n $rounds
# Ports are left for HCAs.
run ip netns exec host2 rdma link add late2 type sib netdev eth0
wait_active "$soon" late2
run rdma link del late2

step "A configured cable takes the place of an automatic one, which does not come back when its port is disabled"
# by_ipv4 HOST PEER: one end of it.
by_ipv4() {
	run ip -n "host$1" address add "10.9.1.$1/24" dev eth0
	nsenter --net="/run/netns/host$1" bash -ec "mkdir $CONFIG/host$1; cd $CONFIG/host$1
		echo eth0 >netdev; echo 10.9.1.$2 >remote; echo 1 >enable" || fail "no cable from host $1"
}
by_ipv4 2 3
by_ipv4 3 2
# The automatic one leads to the first host.
replaced() {
	cables | grep -q ' to 10.9.1.2:.* configured up ' && [ "$(cables | grep -c automatic)" = 1 ]
}
within 30 replaced || fail "$(cables)"
port=$(cables | sed -n 's/^port \([0-9]*\) to 10.9.1.2:.*/\1/p')
orders "$port" disable
sleep 4
cables | grep "^port $port .* the port is disabled" || fail "$(cables)"
[ "$(cables | grep -c automatic)" = 1 ] || fail "beacons have made another one: $(cables)"
orders "$port" enable
within 30 replaced || fail "$(cables)"
run rmdir $CONFIG/host2 $CONFIG/host3
within "$soon" switches sib1 3 || fail "the hosts have not found each other again"

step "A host leaves"
run rdma link del sib3
within "$soon" switches sib1 2 || fail "the third host is still there"
run ip netns del host2
within 20 test ! -e /sys/class/infiniband/sib2 || fail "the HCA has outlived its underlay"
within "$soon" switches sib1 1 || fail "the second host is still there"
run rdma link del sib1
run ip netns del host1
run ip netns del host3
run ip link del lan0
run modprobe -r sib
