# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What tests of cables between switches have in common. Sourced after lib.sh.

CONFIG=/sys/kernel/config/sib

# configfs_up: cables can be configured. The module is loaded.
configfs_up() {
	mountpoint -q /sys/kernel/config || run mount -t configfs none /sys/kernel/config
}

# link_address NETDEV: its IPv6 address on the link.
link_address() {
	ip -6 -br address show dev "$1" scope link | grep -o 'fe80:[^/ ]*'
}

has_address() {
	[ -n "$(link_address "$1")" ] && ! ip -6 address show dev "$1" | grep -q tentative
}

# veth [A B]: the pair v0 and v1, or A and B, with addresses on the link.
veth() {
	local a=${1:-v0} b=${2:-v1} netdev
	run ip link add "$a" type veth peer name "$b"
	for netdev in "$a" "$b"; do
		run ip link set "$netdev" mtu 9000 up
	done
	for netdev in "$a" "$b"; do
		within 20 has_address "$netdev" || fail "$netdev has no address"
	done
}

# two_hosts: the pair v0 and v1 with IPv4 addresses and an HCA at each end, the second in the namespace far.
two_hosts() {
	run ip netns add far
	run ip link add v0 type veth peer name v1 netns far
	run ip address add 10.9.0.1/24 dev v0
	run ip -n far address add 10.9.0.2/24 dev v1
	run ip link set v0 mtu 9000 up
	run ip -n far link set v1 mtu 9000 up
	hca_up sib0 v0
	run ip netns exec far rdma link add sib1 type sib netdev v1
}

# routed DEVICE DEVICE: management datagrams from one go to the LID of the other.
routed() {
	timeout 10 smpquery -C "$1" nodedesc "$(($(cat "/sys/class/infiniband/$2/ports/1/lid")))" | grep -q "\.$2\b"
}

# settled LINKS: so many links are active, and packets find their way from sib0 to sib1 and back.
settled() {
	port_active sib0 && port_active sib1 && links sib0 "$1" && routed sib0 sib1 && routed sib1 sib0
}

# cable_pair SERVER CLIENT COMMAND [ARG]...: as pair, over a cable, which is given up if one of its ends stands still for
# a second, and comes back: then it runs once more.
cable_pair() {
	local before
	for _ in 1 2 3; do
		before=$(breaks)
		! paired "$@" || return 0
		# A connection may be given up sooner than the cable.
		sleep 1
		[ "$(breaks)" != "$before" ] || break
		printf 'a cable was down: %s\n' "$WRONG"
		within 60 routed "$1" "$2" && within 60 routed "$2" "$1" || fail "the cable does not come back"
	done
	fail "$WRONG"
}

# cable NAME NETDEV REMOTE: plugs one end in.
cable() {
	printf '$ cable %s: %s to %s\n' "$@"
	mkdir "$CONFIG/$1" || fail "mkdir"
	echo "$2" >"$CONFIG/$1/netdev" || fail "netdev"
	echo "$3" >"$CONFIG/$1/remote" || fail "remote"
	echo 1 >"$CONFIG/$1/enable" || fail "enable"
}

# cable_port NETDEV: the port of its switch that the cable is in.
cable_port() {
	sed -n 's/^port \([0-9]*\) to .*/\1/p' "/sys/kernel/debug/sib/sib-$(tr -d : <"/sys/class/net/$1/address")/cables"
}

# orders DEVICE PATH PORT OPERATION: what the switch at the end of the path is to do with its port.
orders() {
	printf '$ ibportstate -C %s -D %s %s %s\n' "$@"
	timeout 30 ibportstate -C "$1" -D "$2" "$3" "$4" >/dev/null
}

# rail NAME DEVICE/PORT NETDEV: moves a port to the switch of a network device.
rail() {
	printf '$ rail %s: %s to %s\n' "$@"
	mkdir "$CONFIG/$1" || fail "mkdir"
	echo "$2" >"$CONFIG/$1/port" || fail "port"
	echo "$3" >"$CONFIG/$1/netdev" || fail "netdev"
	echo 1 >"$CONFIG/$1/enable" || fail "enable"
}

# two_rails: two networks between sib0 and sib1, from v0 to v1 for their first ports and from
# w0 to w1 for the second.
two_rails() {
	veth
	veth w0 w1
	hca_up sib0 v0
	hca_up sib1 v1
	rail first sib0/2 w0
	rail second sib1/2 w1
	cable a v0 "$(link_address v1)"
	cable b v1 "$(link_address v0)"
	cable c w0 "$(link_address w1)"
	cable d w1 "$(link_address w0)"
}
