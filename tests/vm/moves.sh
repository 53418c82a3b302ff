#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 400
# vm-long: --kernel debug --timeout 900
# vm-long: --kernel stock --timeout 900 -- 200
#
# HCAs move between network namespaces while others come and go, and while what they stand on goes. None of
# them is lost by that, and none stays.
#
#     moves.sh [ROUNDS]

. "$(dirname "$0")/lib.sh"

case $(uname -r) in
*debug*) rounds=${1:-3} ;;
*) rounds=${1:-15} ;;
esac

# netns_has POD HCA
netns_has() {
	ip netns exec "$1" rdma link show | grep -q "^link $2/"
}

# travel HCA: to pod1 and back, ROUNDS times. An HCA that is lost on the way cannot move.
travel() {
	for ((round = 0; round < rounds; round++)); do
		rdma dev set "$1" netns pod1 || return
		ip netns exec pod1 rdma dev set "$1" netns host || return
	done
}

# come_and_go HCA: as long as something travels.
come_and_go() {
	while [ -e /tmp/travels ]; do
		rdma link add "$1" type sib netdev sibnet0 || return
		# The kernel lists one device at a time and finds the next by counting (nldev_get_dumpit()), so
		# that a list lacks one when another before it goes meanwhile.
		within 20 rdma link del "$1" || return
	done
}

run modprobe sib
run modprobe -a ib_ipoib sib_cm
run rdma system set netns exclusive
run ip netns attach host $$
run ip netns add pod1
underlay sibnet0
hca_up sib0 sibnet0
hca_up sib1 sibnet0

step "Others come and go meanwhile"
touch /tmp/travels
others=()
for hca in sib2 sib3 sib4; do
	come_and_go $hca &
	others+=($!)
done
travel sib1 || fail "sib1 is lost: $(rdma link show)"
rm /tmp/travels
for pid in "${others[@]}"; do
	wait "$pid" || fail "an HCA does not come or go"
done
rdma link show | grep '^link sib1/' || fail "sib1 is lost"

step "What it stands on goes meanwhile"
# is_gone HCA: from both namespaces.
is_gone() {
	local here there
	here=$(rdma link show) && there=$(ip netns exec pod1 rdma link show) &&
		! grep -q "^link $1/" <<<"$here"$'\n'"$there"
}
for ((cycle = 0; cycle < rounds; cycle++)); do
	ip link add v0 type veth peer name v1 || fail "veth"
	ip link set v0 up
	# The kernel lists no device that it takes apart, but keeps its name until that is done
	# (__ib_unregister_device()).
	within 20 rdma link add sib5 type sib netdev v0 || fail "no HCA on v0 after $cycle rounds"
	rm -f /tmp/moved
	(
		while rdma dev set sib5 netns pod1 && : >/tmp/moved && ip netns exec pod1 rdma dev set sib5 netns host; do
			:
		done
	) 2>/dev/null &
	within 20 test -e /tmp/moved || fail "sib5 does not move"
	sleep 0.$((RANDOM % 10))
	ip link del v0
	wait
	within 20 is_gone sib5 || fail "sib5 stays without v0, after $cycle rounds"
done

run rdma link del sib0
run rdma link del sib1
run ip netns del pod1
run modprobe -r ib_ipoib sib_cm
run modprobe -r sib
