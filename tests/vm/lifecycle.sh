#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel debug --timeout 7200 -- 200
#
# Many lives of the module: load, two HCAs, OpenSM, a ping-pong, and then in turn
# the HCAs are deleted under traffic, the module goes with its HCAs, the netdev is
# deleted under traffic.
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

step "What has been set goes with the module"
run modprobe sib
mountpoint -q /sys/kernel/config || run mount -t configfs none /sys/kernel/config
echo secret >/sys/kernel/config/sib/key || fail "key"
run mkdir /sys/kernel/config/sib_partitions/blue
echo 0x0002 >/sys/kernel/config/sib_partitions/blue/pkey || fail "pkey"
echo ALL >/sys/kernel/config/sib_partitions/blue/full || fail "members"
run rmdir /sys/kernel/config/sib_partitions/blue
run modprobe -r sib
