#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --timeout 600
# vm-long: --kernel debug --timeout 1800
#
# A network device changes under a live cable and an HCA: its name, its MTU, its address,
# its network namespace. What is on it follows, or ends and comes back. A cable that
# flaps is not told of without end.
#
#     underlay.sh [name|mtu|address|namespace|beacon|flaps]...

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"

# The debug kernel takes ten times as long for a packet.
case $(uname -r) in
*debug*) rounds=40 ;;
*) rounds=400 ;;
esac

# mac NETDEV: its hardware address, here or in the other namespace.
mac() {
	cat "/sys/class/net/$1/address" 2>/dev/null || nsenter --net=/run/netns/far ip -br link show "$1" | awk '{ print $3 }'
}

# shows FILE MAC: what debugfs says of the switch of the network device with that address.
shows() {
	cat "/sys/kernel/debug/sib/sib-${2//:/}/$1"
}

# neighbor_mtu NETDEV MAC: the MTU of the link of the cable, at the switch there.
neighbor_mtu() {
	local lid port
	lid=$(timeout 30 ibswitches -C sib0 | sed -n "s/.*\"sib switch $1\".* lid \([0-9]*\) .*/\1/p")
	port=$(shows cables "$2" | sed -n 's/^port \([0-9]*\) to .*/\1/p')
	timeout 30 smpquery -C sib0 portinfo "$lid" "$port" | sed -n 's/^NeighborMTU:\.*//p'
}

# link_mtu MTU: both ends of the cable have it, and the link is active.
link_mtu() {
	[ "$(neighbor_mtu v0 "$near")" = "$1" ] && [ "$(neighbor_mtu v1 "$far")" = "$1" ] && links sib0 5
}

# resized MTU: waits for that.
resized() {
	within 60 link_mtu "$1" || fail "the link has not the MTU $1, but $(neighbor_mtu v0 "$near") and $(neighbor_mtu v1 "$far")"
}

# fragments: how many IP has made of datagrams here.
fragments() {
	awk '$1 == "Ip:" && names { print $names; exit } $1 == "Ip:" { for (i = 1; i <= NF; i++) if ($i == "FragCreates") names = i }' /proc/net/snmp
}

# passes [OPTION...]: traffic does.
passes() {
	within 60 settled 5 || fail "no way between the HCAs"
	pair sib0 sib1 ibv_rc_pingpong -n $rounds "$@"
	lossy_pair sib1 sib0 ibv_ud_pingpong -n $rounds
}

# underlays: v0 here, v1 in the namespace `far`.
underlays() {
	run ip link add v0 mtu 9000 type veth peer name v1 netns far
	run ip link set v0 up
	run ip -n far link set v1 mtu 9000 up
	near=$(mac v0) far=$(mac v1)
	[ -n "$near" ] && [ -n "$far" ] || fail "no hardware addresses"
}

far_hca() {
	run ip netns exec far rdma link add sib1 type sib netdev v1
}

# cabled: two HCAs, and a configured cable over IPv4 between their switches.
cabled() {
	managed_by_module
	run modprobe sib
	configfs_up
	run ip netns add far
	underlays
	run ip address add 10.9.0.1/24 dev v0
	run ip -n far address add 10.9.0.2/24 dev v1
	hca_up sib0 v0
	far_hca
	cable a v0 10.9.0.2
	cable b v1 10.9.0.1
	comes
	within 60 settled 5 || fail "no way between the HCAs"
}

# uncabled: undoes it.
uncabled() {
	run rmdir $CONFIG/a $CONFIG/b
	run modprobe -r sib
	run ip netns del far
}

comes() {
	within 40 switches sib0 2 || fail "the cable has not come: $(shows cables "$near")"
}

goes() {
	within 40 switches sib0 1 || fail "the cable is still there"
}

# described NETDEV: a switch is called after it.
described() {
	timeout 30 ibswitches -C sib0 | grep -q "\"sib switch $1\""
}

# called NAME: so does all that shows the name of v0.
called() {
	[ "$(cat $CONFIG/a/netdev)" = "$1" ] || fail "configfs says $(cat $CONFIG/a/netdev)"
	within 20 described "$1" || fail "the switch has the old name: $(ibswitches -C sib0)"
}

name() {
	local before
	step "Another name"
	cabled
	before=$(breaks)
	run ip link set v0 name w0
	called w0
	passes
	[ "$(breaks)" = "$before" ] || fail "the cable was disturbed"
	# Who pulls the cable out and plugs it in again need not know.
	run tee $CONFIG/a/enable <<<0
	goes
	run tee $CONFIG/a/enable <<<1
	comes
	run ip link set w0 name v0
	called v0
	uncabled
}

mtu() {
	local before
	cabled
	resized 4096
	before=$(fragments)
	[ -n "$before" ] || fail "nobody counts fragments"

	step "A smaller MTU at one end, and a larger one again"
	run ip link set v0 mtu 1500
	resized 1024
	passes -m 1024 -s 100000 -n 40
	run ip link set v0 mtu 9000
	resized 4096
	passes -m 4096 -s 100000 -n 40

	step "At the other end"
	run ip -n far link set v1 mtu 2500
	resized 2048
	passes -m 2048 -s 100000 -n 40
	[ "$(fragments)" = "$before" ] || fail "$(($(fragments) - before)) fragments"

	step "One that carries no packet"
	run ip link set v0 mtu 200
	goes
	shows cables "$near" | grep -q 'the MTU of its network device is too small' ||
		fail "nobody says why: $(shows cables "$near")"
	run ip link set v0 mtu 9000
	resized 2048
	run ip -n far link set v1 mtu 9000
	resized 4096
	passes -m 4096
	uncabled
}

strangers() {
	shows dropped "$far" | sed -n 's/^stranger //p'
}

more_strangers() {
	[ "$(strangers)" -gt "$1" ]
}

address() {
	local before guid
	cabled
	step "Another address, of which no configured cable knows"
	before=$(strangers)
	run ip address del 10.9.0.1/24 dev v0
	run ip address add 10.9.0.3/24 dev v0
	goes
	within 20 more_strangers "$before" || fail "the other end has not seen the other address"
	within 20 port_active sib0 || fail "the links of the HCA have suffered"
	run ip address del 10.9.0.3/24 dev v0
	run ip address add 10.9.0.1/24 dev v0
	comes
	passes

	step "Another hardware address"
	guid=$(cat /sys/class/infiniband/sib0/node_guid)
	run ip link set v0 address 02:00:00:00:00:77
	[ "$(cat /sys/class/infiniband/sib0/node_guid)" = "$guid" ] || fail "the HCA has another GUID"
	comes
	passes
	uncabled
}

packets() {
	cat /sys/class/infiniband/sib0/ports/1/counters/port_xmit_packets
}

more_packets() {
	[ "$(packets)" -gt $(($1 + 100)) ]
}

namespace() {
	local server client
	cabled
	step "Another network namespace, under traffic"
	PORT=$((PORT + 1))
	timeout 200 ibv_rc_pingpong -d sib1 -i 1 -p $PORT -n 100000000 >/tmp/server 2>&1 &
	server=$!
	within 20 listening $PORT || fail "the server does not listen"
	timeout 200 ibv_rc_pingpong -d sib0 -i 1 -p $PORT -n 100000000 127.0.0.1 >/tmp/client 2>&1 &
	client=$!
	within 30 more_packets "$(packets)" || fail "no traffic"
	run ip netns add away
	run ip link set v0 netns away
	within 30 test ! -e /sys/class/infiniband/sib0 || fail "the HCA has outlived its underlay"
	# One that waits for the other waits for ever.
	kill $client $server
	within 60 ended $client || fail "the program on the HCA that has gone cannot be ended"
	within 60 ended $server || fail "the program at the other end cannot be ended"
	within 20 port_active sib1 || fail "the links of the other HCA have suffered"

	step "There it is as good as before"
	run rmdir $CONFIG/a
	run ip -n away link set v0 mtu 9000 up
	run ip -n away address add 10.9.0.1/24 dev v0
	run ip netns exec away rdma link add sib0 type sib netdev v0
	cable a v0 10.9.0.2
	comes
	passes
	uncabled
	run ip netns del away
}

follows() {
	shows cables "$far" | grep -q ' to \[fe80::77[]%].* automatic up '
}

beacon() {
	local old
	step "Another address, which a beacon tells"
	as_it_comes
	run modprobe sib
	run ip netns add far
	underlays
	within 20 has_address v0 || fail "v0 has no address"
	hca_up sib0 v0
	far_hca
	within 60 switches sib0 2 || fail "the hosts have not found each other"
	passes
	old=$(link_address v0)
	run ip address add fe80::77/64 dev v0 nodad
	run ip address del "$old/64" dev v0
	within 60 follows || fail "no cable to the new address: $(shows cables "$far")"
	comes
	passes
	run modprobe -r sib
	run ip link del v0
	run ip netns del far
}

up() {
	shows cables "$near" | grep -q ' configured up '
}

# left_out: the cable flaps; whether the log has left something out.
left_out() {
	echo 0 >$CONFIG/b/enable
	echo 1 >$CONFIG/b/enable
	within 20 up || fail "the cable has not come: $(shows cables "$near")"
	dmesg | grep -q 'sib: .* changes of its cables were not told'
}

flaps() {
	local told
	step "A cable that flaps"
	cabled
	within 120 left_out || fail "the log has all of it"
	# No more than ten lines of a switch in five seconds.
	told=$(dmesg | sed -n 's/^\[ *\([0-9]*\)\..* sib: switch \([^:]*\): the cable of .* is \(up\|down\)$/\1 \2/p' |
		awk '{ at = int($1 / 5); count[at, $2]++ } END { for (i in count) if (count[i] > most) most = count[i]; print most + 0 }')
	[ "$told" -gt 0 ] && [ "$told" -le 20 ] || fail "$told lines in five seconds"
	uncabled
}

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
[ $# -gt 0 ] || set -- name mtu address namespace beacon flaps
for part; do
	$part
done
