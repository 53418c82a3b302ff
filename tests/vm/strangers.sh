#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300
# vm-long: --kernel debug --timeout 900
#
# Who is on the layer 2 and no switch: what he can say from a socket, without privileges, and
# with a fabric key what he can pass on.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"

END="$(dirname "$0")/strangers/end.py"
PORT_OF_CABLES=61515

# host NUMBER: one more host on the bridge.
host() {
	run ip netns add "host$1"
	run ip link add "port$1" type veth peer name eth0 netns "host$1"
	run ip link set "port$1" master lan0 up
	run ip -n "host$1" link set eth0 up
	within 20 has_link_address "$1" || fail "host $1 has no address"
}

has_link_address() {
	[ -n "$(address "$1")" ] && ! ip -n "host$1" -6 address show dev eth0 | grep -q tentative
}

# address NUMBER: that of the host on the link.
address() {
	ip -n "host$1" -6 -br address show dev eth0 scope link | grep -o 'fe80:[^/ ]*' | head -n 1
}

# user NUMBER COMMAND...: a user of that host without privileges.
user() {
	local number=$1
	shift
	ip netns exec "host$number" setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
}

# in_vain REASON NUMBER COMMAND...: what a user of that host tries comes to nothing, for that reason.
in_vain() {
	local reason=$1 said
	shift
	! said=$(user "$@" 2>&1) || return 1
	printf '%s\n' "$said"
	grep -q "$reason" <<<"$said" || fail "not '$reason', but: $said"
}

# no_others: the own switch is seen, and one more at most. A host that gets no processor for a moment is not.
no_others() {
	local count
	count=$(timeout 60 ibswitches -C sib1 | grep -c '^Switch')
	printf '%d switches\n' "$count"
	[ "$count" = 1 ] || [ "$count" = 2 ]
}

# dropped CAUSE: how many datagrams all switches have dropped for that.
dropped() {
	sed -n "s/^$1 //p" /sys/kernel/debug/sib/*/dropped | awk '{ sum += $1 } END { print sum }'
}

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
as_it_comes
run modprobe sib
configfs_up
run ip link add lan0 type bridge
run ip link set lan0 up
for number in 1 2 3; do
	host $number
done
cp "$END" /tmp/end.py
chmod a+r /tmp/end.py
for number in 1 2; do
	run ip netns exec "host$number" rdma link add "sib$number" type sib netdev eth0
done
within 60 switches sib1 2 || fail "the hosts have not found each other"

step "A Hello to all hosts"
user 3 python3 -B /tmp/end.py shout eth0 $PORT_OF_CABLES ff02::1 3 || fail "a Hello to all"

step "A user of a host where a switch listens, from a port of his own"
for remote in 1 2; do
	in_vain 'it is not' 1 python3 -B /tmp/end.py join eth0 $((PORT_OF_CABLES + 1)) "$(address $remote)" 8 ||
		fail "a user of host 1 is a switch, for that of host $remote"
done
in_vain 'Address already in use' 1 python3 -B /tmp/end.py join eth0 $PORT_OF_CABLES "$(address 2)" 1 ||
	fail "the port of the cables is not taken"
no_others || fail "there are other switches"
within 60 switches sib1 2 || fail "the hosts have lost each other"

step "A host without a switch, and no key"
# That is what a key is for.
user 3 python3 -B /tmp/end.py join eth0 $PORT_OF_CABLES "$(address 2)" 20 || fail "this test cannot be a switch"

step "The same, and one that passes on what others say, with a key"
echo "a secret" >$CONFIG/key || fail "the key was not taken"
within 60 switches sib1 2 || fail "the hosts have not found each other"
in_vain 'it is not' 3 python3 -B /tmp/end.py join eth0 $PORT_OF_CABLES "$(address 2)" 8 || fail "a stranger has no key and a cable"
for address in fe80::a fe80::b; do
	run ip -n host3 address add $address/64 dev eth0 nodad
done
refused=$(dropped key)
in_vain 'it is not' 3 python3 -B /tmp/end.py relay eth0 "$(address 1)" "$(address 2)" 20 || fail "a stranger is between two switches"
[ "$(dropped key)" -gt $((refused + 10)) ] || fail "the stranger has not been heard"
within 60 switches sib1 2 || fail "a stranger has done harm"
wait_active 60 sib1 sib2
cable_pair sib1 sib2 ibv_rc_pingpong -n 100

run rdma link del sib2
run rdma link del sib1
for number in 1 2 3; do
	run ip netns del "host$number"
done
run ip link del lan0
run modprobe -r sib
