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

# veth: the pair v0 and v1, with addresses on the link.
veth() {
	run ip link add v0 type veth peer name v1
	run ip link set v0 mtu 9000 up
	run ip link set v1 mtu 9000 up
	within 20 has_address v0 || fail "v0 has no address"
	within 20 has_address v1 || fail "v1 has no address"
}

# cable NAME NETDEV REMOTE: plugs one end in.
cable() {
	printf '$ cable %s: %s to %s\n' "$@"
	mkdir "$CONFIG/$1" || fail "mkdir"
	echo "$2" >"$CONFIG/$1/netdev" || fail "netdev"
	echo "$3" >"$CONFIG/$1/remote" || fail "remote"
	echo 1 >"$CONFIG/$1/enable" || fail "enable"
}
