#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 -- 3
# vm-long: --kernel debug --timeout 7200 -- 200
#
# Many lives of the module: load, two HCAs, OpenSM, a ping-pong, and then in turn
# the HCAs are deleted under traffic, the module goes with its HCAs, the netdev is
# deleted under traffic. What has been set goes with the module.
#
#     lifecycle.sh [TIMES]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

times=${1:-10}
# A program may be about to destroy its objects when the device goes.
export RDMAV_ALLOW_DISASSOC_DESTROY=1

traffic_up() {
	rm -f /tmp/meet /tmp/traffic.[12]
	endless listen /tmp/meet sib0 >/tmp/traffic.1 2>&1
	FIRST=$ENDLESS
	endless call /tmp/meet sib1 >/tmp/traffic.2 2>&1
	SECOND=$ENDLESS
	within 20 grep -q traffic /tmp/traffic.2 || fail "no traffic: $(cat /tmp/traffic.[12])"
}

# traffic_ends: both must end well, whatever came first for them.
traffic_ends() {
	wait "$FIRST" || fail "status $? of: $(</tmp/traffic.1)"
	wait "$SECOND" || fail "status $? of: $(</tmp/traffic.2)"
	tail -q -n 1 /tmp/traffic.[12]
}

delete_under_traffic() {
	opensm_down
	traffic_up
	run rdma link del sib0
	sleep 0.2
	run rdma link del sib1
	traffic_ends
}

unload_with_devices() {
	opensm_down
}

delete_netdev_under_traffic() {
	opensm_down
	traffic_up
	run ip link del sibnet0
	traffic_ends
	within 10 no_devices || fail "devices outlive their netdev"
}

no_devices() {
	! ls -d /sys/class/infiniband/sib*
}

ends=(delete_under_traffic unload_with_devices delete_netdev_under_traffic)
for ((life = 0; life < times; life++)); do
	end=${ends[life % ${#ends[@]}]}
	step "Life $((life + 1)) of $times: $end"
	datapath "$( ((life / 3 % 2)) && echo udp || echo handoff)"
	fabric_up
	pair sib0 sib1 ibv_rc_pingpong -n 100
	$end
	within 20 modprobe -r sib || fail "the module cannot be removed: $(lsmod | grep ^sib)"
	! ip link show sibnet0 >/dev/null 2>&1 || run ip link del sibnet0
done

KEY=/sys/kernel/config/sib/key
PARTITIONS=/sys/kernel/config/sib_partitions

# has_key WORD: what is to be read of the key of all cables.
has_key() {
	[ "$(cat $KEY)" = "$1" ]
}

# is_member: an HCA is in the partition.
is_member() {
	grep -qx 0x8002 /sys/class/infiniband/sib0/ports/1/pkeys/*
}

# managed: the module with an HCA that its own subnet manager has seen to.
managed() {
	run modprobe sib
	underlay sibnet0
	hca_up sib0 sibnet0
	wait_active 60 sib0
}

step "What has been set goes with the module"
managed_by_module
mountpoint -q /sys/kernel/config || run mount -t configfs none /sys/kernel/config
managed
has_key none || fail "there is a key at first"
echo secret >$KEY || fail "key"
run mkdir $PARTITIONS/blue
echo 0x0002 >$PARTITIONS/blue/pkey || fail "pkey"
echo ALL >$PARTITIONS/blue/full || fail "members"
has_key set || fail "there is no key"
within 30 is_member || fail "the HCA is not in the partition"
run rmdir $PARTITIONS/blue
run modprobe -r sib
managed
has_key none || fail "the key is still there"
[ -z "$(ls $PARTITIONS)" ] || fail "partitions are still there: $(ls $PARTITIONS)"
! is_member || fail "the HCA is still in the partition"
run rdma link del sib0
run modprobe -r sib

step "The module goes while programs use verbs, and so does librdmacm's module"
managed
hca_up sib1 sibnet0
wait_active 60 sib1
discards=$(grep -H . /sys/class/infiniband/*/ports/*/hw_counters/rcvd_discards) && ! grep -v ':0$' <<<"$discards" ||
	fail "an HCA begins with packets for nobody"
run modprobe rdma_ucm
traffic_up
run modprobe -r sib
traffic_ends
grep -q '^ib_uverbs ' /proc/modules || fail "ib_uverbs has gone, too"
run modprobe -r rdma_ucm
! dmesg | grep "Unable to find port agent" || fail "ib_mad was to answer before it could"
