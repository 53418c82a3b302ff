# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What tests have in common in which each guest is a host: an HCA, sib0, on eth0, and IP
# over InfiniBand by its first port. The hosts find each other. Sourced after ip.sh.

# Two links of each HCA, and a cable between each two switches.
LINKS=$((2 * NODES + NODES * (NODES - 1) / 2))

# The debug kernel is a lot slower.
case $(uname -r) in
*debug*) soon=180 ;;
*) soon=90 ;;
esac

# host HOST, host6 HOST: the addresses of a host.
host() {
	echo "10.8.0.$1"
}

host6() {
	echo "fd08::$1"
}

# one_manager: all hosts know the same subnet manager.
one_manager() {
	local other
	timeout 20 sminfo -C sib0 | grep -o 'guid 0x[0-9a-f]*' >"/share/manager.$NODE"
	[ -s "/share/manager.$NODE" ] || return 1
	for ((other = 1; other <= NODES; other++)); do
		cmp -s "/share/manager.$NODE" "/share/manager.$other" || return 1
	done
}

# guests_up opensm|module: one subnet, which the module of a host manages or OpenSM at
# the second port of the first host, and in which all hosts reach each other.
guests_up() {
	local other
	SUBNET_MANAGER=$1
	as_it_comes
	case $SUBNET_MANAGER in
	opensm) echo 'options sib sm=0' >/etc/modprobe.d/sib.conf ;;
	module) ;;
	*) fail "a subnet manager is opensm or module, not '$1'" ;;
	esac
	run modprobe sib
	barrier begin
	hca_up sib0 eth0
	within $soon switches sib0 "$NODES" || fail "the hosts have not found each other"
	barrier found
	[ "$SUBNET_MANAGER" = module ] || [ "$NODE" != 1 ] || ip_opensm_up sib0 2
	wait_active $soon sib0
	within $soon links sib0 $LINKS || fail "not all links are active: $(timeout 60 iblinkinfo -C sib0 -l)"
	within $soon one_manager || fail "not one subnet manager: $(timeout 20 sminfo -C sib0)"
	barrier managed
	run modprobe ib_ipoib
	NEAR_IF=$(ipoib_of sib0) || fail "sib0 has no network interface"
	run ip address add "$(host "$NODE")/24" dev "$NEAR_IF"
	run ip address add "$(host6 "$NODE")/64" dev "$NEAR_IF"
	run ip link set "$NEAR_IF" up
	within $soon up || fail "the interface does not come up: $(ip address)"
	barrier up
	for ((other = 1; other <= NODES; other++)); do
		within $soon ping -n -c 1 -W 2 "$(host $other)" || fail "no answer from host $other"
		within $soon ping -n -c 1 -W 2 "$(host6 $other)" || fail "no answer from host $other by IPv6"
	done
	barrier reached
}

# up: the interface has joined its groups and has its addresses.
up() {
	local link addresses
	link=$(ip -o link show "$NEAR_IF") && addresses=$(ip -6 address show dev "$NEAR_IF") &&
		! grep -q NO-CARRIER <<<"$link" && ! grep -q tentative <<<"$addresses"
}

# guests_unfaulted: OpenSM has nothing to complain of. It is right to do so if a cable has
# been down, as it is to a host that gets no processor for a second.
guests_unfaulted() {
	breaks >"/share/breaks.$NODE"
	barrier unfaulted
	[ "$SUBNET_MANAGER" = module ] || [ "$NODE" != 1 ] || grep -qv '^0$' /share/breaks.* || opensm_clean
}

# guests_down: undoes guests_up. The subnet manager stays until all have left their groups.
guests_down() {
	barrier over
	run ip link set "$NEAR_IF" down
	barrier left
	opensm_down
	run rdma link del sib0
	run modprobe -qr rdma_ucm
	run modprobe -r sib
}
