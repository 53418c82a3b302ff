#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --timeout 300
# vm-long: --kernel debug --timeout 900
#
# A host that goes without a word and comes back with the same GUIDs, knowing nothing, takes the
# place of its old self: after the others have missed it, and before.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"
. "$(dirname "$0")/lan.sh"

ROUNDS=3
# Two links of each HCA, and the cable.
LINKS=5

# The debug kernel is a lot slower.
case $(uname -r) in
*debug*) soon=120 messages=20 most=5000 ;;
*) soon=60 messages=100 most=1500 ;;
esac

# The first host has the lower GUID, so its subnet manager is the master.
mac() {
	echo "02:00:00:00:77:0$1"
}

guids() {
	cat /sys/class/infiniband/sib2/node_guid /sys/class/infiniband/sib2/ports/*/gids/0
}

lids() {
	cat /sys/class/infiniband/sib2/ports/*/lid
}

# whole: the fabric is what it was, seen from both hosts.
whole() {
	local host
	for host in sib1 sib2; do
		switches $host 2 && hcas $host 2 && links $host $LINKS && port_active $host || return 1
	done
}

# lives: how often the first host has seen the second one come.
lives() {
	dmesg | grep -c 'the cable of .* to 10\.9\.0\.2:.* is up'
}

lives_again() {
	[ "$(lives)" -gt "$known" ]
}

# uptime: since the guest was booted, in milliseconds.
uptime() {
	local since
	read -r since _ </proc/uptime
	echo "${since/./}0"
}

# took SINCE: how long after that the first host saw the second one come, in milliseconds.
took() {
	local at
	at=$(dmesg | sed -n 's/^\[ *\([0-9]*\)\.\([0-9]\{3\}\).*the cable of .* to 10\.9\.0\.2:.* is up.*/\1\2/p' | tail -n 1)
	echo $((at - $1))
}

# as_before: the second host is there as it was, and can be used.
as_before() {
	within "$soon" whole || fail "the fabric is not what it was: $(timeout 20 iblinkinfo -C sib1)"
	[ "$(guids)" = "$guids" ] || fail "other GUIDs: $(guids), not $guids"
	[ "$(lids)" = "$lids" ] || fail "other LIDs: $(lids), not $lids"
	pair sib1 sib2 ibv_rc_pingpong -n $messages
}

# boots: the second host is made, with all that it has.
boots() {
	run ip netns add host2
	run ip link add port2 type veth peer name lan2 address "$(mac 2)" netns host2
	run ip link set port2 mtu 9000 master lan0 up
	run ip -n host2 link set lan2 mtu 9000 up
	run ip -n host2 address add 10.9.0.2/24 dev lan2
	host_hca 2
}

gone() {
	[ ! -e /sys/class/infiniband/sib2 ] && ! ip link show port2
}

# best TIME...: of several the one that nothing has disturbed is short enough.
best() {
	local best
	best=$(printf '%s\n' "$@" | sort -n | head -n 1)
	printf 'after %s ms\n' "$*"
	[ "$best" -le $most ] || fail "not once within $most ms"
}

managed_by_module
run modprobe sib
configfs_up
lan 1
run ip -n host1 link set lan1 down
run ip -n host1 link set lan1 address "$(mac 1)"
run ip -n host1 link set lan1 up
host_hca 1
boots
tie 1 2
within "$soon" whole || fail "the fabric does not come up"
guids=$(guids) lids=$(lids)
as_before

step "It boots"
times=()
for ((round = 0; round < ROUNDS; round++)); do
	# Nobody hears that it goes.
	run ip link set port2 down
	run rmdir $CONFIG/from2to1
	run ip netns del host2
	within 20 gone || fail "the second host is still there"
	boots
	known=$(lives) since=$(uptime)
	cable from2to1 lan2 10.9.0.1
	within "$soon" lives_again || fail "the second host has not returned"
	times+=("$(took "$since")")
	as_before
done
best "${times[@]}"

step "It is back before it is missed"
times=()
for ((round = 0; round < ROUNDS; round++)); do
	known=$(lives)
	run ip link set port2 down
	echo 0 >$CONFIG/from2to1/enable
	run ip link set port2 up
	since=$(uptime)
	echo 1 >$CONFIG/from2to1/enable
	within "$soon" lives_again || fail "the second host has not returned"
	times+=("$(took "$since")")
	as_before
done
best "${times[@]}"

run rmdir $CONFIG/from1to2 $CONFIG/from2to1
run rdma link del sib2
run rdma link del sib1
run ip netns del host2
lan_down 1
run modprobe -r sib
