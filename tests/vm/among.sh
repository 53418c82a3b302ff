#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --nodes 3 --timeout 1500 --package openssh-server -- module
# vm-long: --kernel stock --nodes 3 --timeout 1500 --package openssh-server -- opensm
#
# Three hosts, each of which uses the next one by IP over InfiniBand, in datagram and in
# connected mode and in a partition, and by the programs of librdmacm.
#
#     among.sh module|opensm

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"
. "$(dirname "$0")/cmprograms.sh"
. "$(dirname "$0")/guests.sh"
. "$(dirname "$0")/remote.sh"

CONFIG=/sys/kernel/config/sib_partitions

# in_turns COMMAND...: runs it on each host, one after the other, for it and the next one.
in_turns() {
	local turn
	for ((turn = 1; turn <= NODES; turn++)); do
		if [ "$NODE" = $turn ]; then
			far_host $((turn % NODES + 1))
			unbroken "$@"
			far_left
		fi
		barrier turn
	done
}

datagram_mode() {
	everything 64 1000 60000
	iperf "$FAR" -t 1
	iperf "$FAR" -t 1 -R -P 2
	few_lost "$FAR" -t 2 -b 5M -l 1400 -w 4M
	few_lost "$FAR6" -t 2 -b 5M -l 1400 -w 4M
	multicast 239.1.2.3 50 10000
	multicast ff15::1234 50 10000
	[ "$(downs)" != 0 ] || faultless
	long_stream
}

# children_up: an interface in a partition of its own on each host.
children_up() {
	if [ "$SUBNET_MANAGER" = module ]; then
		mountpoint -q /sys/kernel/config || run mount -t configfs none /sys/kernel/config
		# Any of them may be the master.
		run mkdir $CONFIG/blue
		echo 0x0001 >$CONFIG/blue/pkey || fail "pkey"
		echo ALL >$CONFIG/blue/full || fail "members"
	fi
	within $soon grep -q 0x8001 /sys/class/infiniband/sib0/ports/1/pkeys/* || fail "no P_Key 0x8001"
	run ip link add link "$NEAR_IF" name blue type ipoib pkey 0x8001
	run ip address add "10.21.0.$NODE/24" dev blue
	run ip address add "fd21::$NODE/64" dev blue
	run ip link set blue up
	within $soon coming_up blue || fail "the child does not come up: $(ip address)"
	barrier children
}

coming_up() {
	(NEAR_IF=$1 && up)
}

# in_partition: the hosts reach each other by these.
in_partition() {
	FAR=10.21.0.${FAR##*.} FAR6=fd21::${FAR6##*:} NEAR_IF=blue FAR_IF=blue
	everything 64 60000
	multicast 239.1.2.5 50 10000
}

programs() {
	cm_programs
	cm_programs_by_gid
}

# Its connections repeat nothing (RFC 4755): one ends with a datagram that is lost or late, and
# what it has received of a message counts as dropped.
connected_mode() {
	mtu_is 65520 || fail "MTU"
	pings "$FAR" 65000 3 -M 'do'
	everything 64 65000
	iperf "$FAR" -t 1
	[ "$(rdma resource show qp link sib0/1 | grep -c 'type RC')" -ge 1 ] || fail "no connection has been made"
}

partitions <<'TABLE'
Default=0x7fff, ipoib, defmember=full: ALL, ALL_SWITCHES=full, SELF=full;
blue=0x0001, ipoib, defmember=full: ALL, SELF=full;
TABLE
guests_up "${1:?who manages the subnet}"
run modprobe rdma_ucm
# Whoever stands still for a moment is to lose nothing.
run sysctl -q -w net.core.rmem_max=8388608 net.core.wmem_max=8388608
remote_up
in_turns datagram_mode
children_up
in_turns in_partition
in_turns programs
echo connected >"/sys/class/net/$NEAR_IF/mode" || fail "connected mode"
run ip link set "$NEAR_IF" mtu 65520
within $soon up || fail "no carrier in connected mode"
barrier connected
in_turns connected_mode
run ip link del blue
[ "$SUBNET_MANAGER" = opensm ] || run rmdir $CONFIG/blue
no_objects
guests_unfaulted
guests_down
