#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600
# vm-long: --kernel debug --timeout 1200
#
# Two network devices are two switches. A configured cable ties them together:
# over IPv6 addresses of a veth pair's link, then over IPv4 between network
# namespaces. The same programs pass that pass within one switch.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"

# refuses VALUE FILE: a value that cannot be, and the log says why.
refuses() {
	local before
	before=$(complaints)
	! echo "$1" >"$2" 2>/dev/null || fail "'$1' was taken by $2"
	[ "$(complaints)" -gt "$before" ] || fail "'$1' in $2: the log does not say why"
}

# The debug kernel takes ten times as long for a packet.
case $(uname -r) in
*debug*) rounds=40 ;;
*) rounds=1000 ;;
esac

# datagrams FILTER: how many of those that were captured are such.
datagrams() {
	tcpdump -r /tmp/datagrams "$1" 2>/dev/null | wc -l
}

programs() {
	cable_pair sib0 sib1 ibv_rc_pingpong -n $rounds
	lossy_pair sib0 sib1 ibv_uc_pingpong -n $rounds
	lossy_pair sib0 sib1 ibv_ud_pingpong -n $rounds
	cable_pair sib0 sib1 ibv_rc_pingpong -s 100000 -n $((rounds / 10))
	timeout -k 5 60 smpquery -C sib0 nodedesc "$(($(cat /sys/class/infiniband/sib1/ports/1/lid)))" ||
		fail "smpquery through the cable"
}

run modprobe sib
configfs_up
veth
hca_up sib0 v0
hca_up sib1 v1

step "What cannot be"
mkdir $CONFIG/bad
refuses nonsense $CONFIG/bad/remote
refuses 0.0.0.0 $CONFIG/bad/remote
refuses 10.0.0.1:0 $CONFIG/bad/remote
refuses 224.0.0.1 $CONFIG/bad/remote
refuses 255.255.255.255 $CONFIG/bad/remote
refuses averyveryverylongname0 $CONFIG/bad/netdev
! printf 'v0\0x' 2>/dev/null >$CONFIG/bad/netdev || fail "a name with a NUL in it was taken"
! printf 'sib0\0x/1' 2>/dev/null >$CONFIG/bad/port || fail "a name of an HCA with a NUL in it was taken"
refuses 2 $CONFIG/bad/enable
refuses 1 $CONFIG/bad/enable
echo nothing0 >$CONFIG/bad/netdev
echo ::ffff:10.0.0.1 >$CONFIG/bad/remote
grep -q '^10\.0\.0\.1' $CONFIG/bad/remote || fail "not the IPv4 address: $(cat $CONFIG/bad/remote)"
refuses 1 $CONFIG/bad/enable
echo v0 >$CONFIG/bad/netdev
link_address v0 >$CONFIG/bad/remote
refuses 1 $CONFIG/bad/enable
dmesg | grep -q 'a cable of "v0": the remote is an address of this host' || fail "no word about the own address"
rmdir $CONFIG/bad || fail "rmdir"

step "Two switches over IPv6"
cable a v0 "$(link_address v1)"
cable b v1 "$(link_address v0)"
mkdir $CONFIG/twice
echo v0 >$CONFIG/twice/netdev
link_address v1 >$CONFIG/twice/remote
refuses 1 $CONFIG/twice/enable
refuses v1 $CONFIG/a/netdev
rmdir $CONFIG/twice
within 30 switches sib0 2 || fail "no two switches"
opensm_up sib0
wait_active 60 sib0 sib1
timeout 30 iblinkinfo | grep -v Polling
programs
opensm_clean_since 0

step "The cable breaks and is mended"
# traps: how often OpenSM has heard that a link has changed.
traps() {
	grep -c 'num:128' "$OPENSM_LOG"
}
more_traps() {
	[ "$(traps)" -gt "$told" ]
}
told=$(traps)
run ip link set v1 down
within 30 more_traps || fail "OpenSM has heard nothing: $(tail -n 30 "$OPENSM_LOG")"
within 30 switches sib0 1 || fail "the cable is still there"
run ip link set v1 up
within 20 switches sib0 2 || fail "the cable has not come back"
# Management passes before the cable is active, by tables that OpenSM may not have changed.
within 60 settled 5 || fail "the other side is out of reach"
programs

step "Who takes down the way of the order answers before"
near=$(cable_port v0) far=$(cable_port v1)
orders sib0 "0,1,$near" "$far" disable || fail "no answer"
within 30 switches sib0 1 || fail "the cable is still there"
orders sib1 0,1 "$far" enable || fail "ibportstate enable"
within 30 switches sib0 2 || fail "the cable has not come back"

step "Pulled out at one end"
echo 0 >$CONFIG/b/enable
within 30 switches sib0 1 || fail "the cable is still there"
opensm_down

step "Plugged in again, but not where the port is disabled"
orders sib1 0,1 "$far" disable || fail "ibportstate disable"
echo 1 >$CONFIG/b/enable
within 30 switches sib0 2 || fail "the cable has not come back: it is in port $(cable_port v1)"
run rmdir $CONFIG/a $CONFIG/b
run rdma link del sib1
run rdma link del sib0
run ip link del v0

# While a cable is mended, traps come from switches that OpenSM has forgotten.
rm "$OPENSM_LOG"

step "Two switches over IPv4, in two namespaces"
# hosts: an HCA in each.
hosts() {
	run ip link add v0 type veth peer name v1 netns far
	run ip address add 10.9.0.1/24 dev v0
	run ip -n far address add 10.9.0.2/24 dev v1
	run ip link set v0 up
	run ip -n far link set v1 up
	hca_up sib0 v0
	run ip netns exec far rdma link add sib1 type sib netdev v1
}
run ip netns add far
hosts
cable a v0 10.9.0.2
cable b v1 10.9.0.1:61515
within 30 switches sib0 2 || fail "no two switches"
broken=$(breaks)
opensm_up sib0
wait_active 60 sib0 sib1
# Without a buffer: the head of the file says that it listens.
tcpdump -U -i v0 -s 64 -w /tmp/datagrams 'udp port 61515' 2>/dev/null &
capture=$!
within 10 test -s /tmp/datagrams || fail "no tcpdump"
programs
kill -INT $capture
wait $capture
[ "$(datagrams 'udp[6:2] != 0')" -gt 0 ] || fail "no datagrams were seen"
[ "$(datagrams 'udp[6:2] = 0')" = 0 ] || fail "datagrams without a checksum would overtake others"
opensm_down
opensm_clean_since "$broken"

step "Two cables are plugged in at the same time, the first ones there"
for round in 1 2 3 4 5; do
	run ip link add "once$round" type veth peer name peer
	run ip link set "once$round" up
	run rdma link add sib2 type sib netdev "once$round"
	for end in 1 2; do
		mkdir "$CONFIG/end$end" || fail "mkdir"
		echo "once$round" >"$CONFIG/end$end/netdev" || fail "netdev"
		echo "10.8.0.$end" >"$CONFIG/end$end/remote" || fail "remote"
	done
	echo 1 >"$CONFIG/end1/enable" &
	other=$!
	echo 1 >"$CONFIG/end2/enable" || fail "round $round: the second"
	wait $other || fail "round $round: the first"
	run rmdir "$CONFIG/end1" "$CONFIG/end2"
	run rdma link del sib2
	run ip link del "once$round"
done

step "An underlay goes away with its cable plugged in"
gone() {
	[ ! -e /sys/class/infiniband/sib0 ] && [ ! -e /sys/class/infiniband/sib1 ]
}
run ip link del v0
within 20 gone || fail "the HCAs have outlived their underlays"
for end in a b; do
	[ "$(cat $CONFIG/$end/enable)" = 0 ] || fail "cable $end is said to be plugged in"
done

step "It comes back, and the cable is plugged in again"
hosts
for end in a b; do
	echo 1 >$CONFIG/$end/enable || fail "enable"
	[ "$(cat $CONFIG/$end/enable)" = 1 ] || fail "cable $end is not plugged in"
done
within 30 switches sib0 2 || fail "no two switches"
run ip link del v0
within 20 gone || fail "the HCAs have outlived their underlays"
run rmdir $CONFIG/a $CONFIG/b

step "A network device comes back, and has an HCA before the cable that it had"
# e0_up: always with the same hardware address.
e0_up() {
	run ip link add e0 address 02:00:00:00:00:42 type dummy
	run ip link set e0 up
}
e0_up
cable c e0 10.7.0.2
run ip link del e0
[ "$(cat $CONFIG/c/enable)" = 0 ] || fail "cable c is said to be plugged in"
e0_up
hca_up sib0 e0
guid=$(cat /sys/class/infiniband/sib0/node_guid)
[ "$guid" = 0200:0000:0042:0300 ] || fail "the GUID is not that of the network device: $guid"
[ "$(cat $CONFIG/c/enable)" = 0 ] || fail "cable c is said to be plugged in again"
echo 1 >$CONFIG/c/enable || fail "enable"
[ "$(cat $CONFIG/c/enable)" = 1 ] || fail "cable c is not plugged in"
run rmdir $CONFIG/c
run rdma link del sib0
run ip link del e0
run ip netns del far
run modprobe -r sib
