#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 --parameter ipv6.disable=1
# vm-long: --kernel debug --timeout 900 --parameter ipv6.disable=1
#
# A kernel that was started without IPv6: cables to such addresses are refused, there are no
# beacons, and all else is as it is elsewhere.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"

# The debug kernel takes ten times as long for a packet.
case $(uname -r) in
*debug*) rounds=40 ;;
*) rounds=400 ;;
esac

[ ! -e /proc/net/if_inet6 ] || fail "there is IPv6"

as_it_comes
run modprobe sib 'peers=v0/fd01::2,v0/10.9.0.2'
configfs_up
two_hosts
dmesg | grep -q 'no beacons, since there is no IPv6 socket' || fail "no word about beacons"
refused() {
	dmesg | grep -qF 'peers: no cable from v0 to [fd01::2]:61515'
}
within 30 refused || fail "no word about a cable over IPv6"
mkdir $CONFIG/six
echo v0 >$CONFIG/six/netdev
for remote in fd01::1 fe80::1 ::1; do
	echo "$remote" >$CONFIG/six/remote || fail "$remote"
	! said=$( (echo 1 >$CONFIG/six/enable) 2>&1) || fail "a cable to $remote"
	grep -q 'Address family not supported' <<<"$said" || fail "a cable to $remote is refused otherwise: $said"
done
run rmdir $CONFIG/six

step "Over IPv4"
cable b v1 10.9.0.1
within 30 switches sib0 2 || fail "no two switches"
within 60 settled 5 || fail "no way between the HCAs"
cable_pair sib0 sib1 ibv_rc_pingpong -n $rounds
lossy_pair sib0 sib1 ibv_ud_pingpong -n $rounds
run rmdir $CONFIG/b
run rdma link del sib1
run rdma link del sib0
run modprobe -r sib
run ip link del v0
run ip netns del far
