#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- handoff
# vm-long: --kernel stock --timeout 300 -- udp
# vm-long: --kernel debug --timeout 900 -- handoff
#
# sib_cm beside ib_cm: programs that know nothing of it do not notice when it comes, is
# there, and goes, nor when it is flooded with offers of paths, of which ib_cm hears nothing.
# By rmmod, as modprobe -r takes with it what a module depends on.
#
#     besides.sh [handoff|udp]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"

# The debug kernel takes ten times as long to load a module, too.
case $(uname -r) in
*debug*) rounds=1 loads=4 ;;
*) rounds=4 loads=8 ;;
esac

DATAGRAMS=/sys/kernel/debug/sib_cm/datagrams
CM_SUP=0x10000

# What sib_cm has done with datagrams: passed or consumed.
datagrams() {
	sed -n "s/^$1 //p" $DATAGRAMS
}

# Whether the ports of both HCAs say that somebody manages connections.
managed() {
	local device port
	for device in sib0 sib1; do
		for port in 1 2; do
			[ $(($(cat /sys/class/infiniband/$device/ports/$port/cap_mask) & CM_SUP)) != 0 ] || return 1
		done
	done
}

rping_once() {
	cm 7174 rping -s -a $FAR -C $few -S 4096 -V -- rping -c -a $FAR -C $few -S 4096 -V
}

subnet_manager module
datapath "${1:-handoff}"
ip_fabric
addresses
run modprobe rdma_ucm
pings $FAR 56 1

step "sib_cm comes"
managed || fail "the ports do not have ib_cm"
run modprobe sib_cm
[ "$(cat /sys/module/sib/holders/sib_cm/initstate)" = live ] || fail "sib_cm does not use sib"
managed || fail "the ports do not have a manager"
[ "$(datagrams passed) $(datagrams consumed)" = "0 0" ] || fail "$(cat $DATAGRAMS)"

step "Connections of ib_cm"
rping_once
cm 7471 ucmatose -b $FAR -c 8 -C 10 -S 4096 -- ucmatose -s $FAR -c 8 -C 10 -S 4096
pair sib0 sib1 ibv_rc_pingpong -n 100
cat $DATAGRAMS
# REQ, REP, RTU, DREQ and DREP of nine connections.
[ "$(datagrams passed)" -ge 45 ] || fail "sib_cm has not seen the datagrams"
[ "$(datagrams consumed)" = 0 ] || fail "sib_cm has taken what is not its own"

step "ib_cm hears nothing of LAPs that are not for it"
run modprobe ib_umad
before=$(ib_cm_counters) || fail "ib_cm counts nothing"
run user flood sib0 sib1 3 own
[ "$(ib_cm_counters)" = "$before" ] || fail "$(diff <(echo "$before") <(ib_cm_counters))"

step "Programs in a flood of LAPs"
flood_up
rping_once
cm 7471 ucmatose -b $FAR -c 8 -C 10 -S 4096 -- ucmatose -s $FAR -c 8 -C 10 -S 4096
cm 7174 udaddy -b $FAR -c 4 -C 10 -S 1000 -- udaddy -s $FAR -c 4 -C 10 -S 1000
cm 7471 cmtime -b $FAR -c $few -- cmtime -s $FAR -c $few
flood_down

step "It goes and comes while connections are made"
for ((round = 0; round < rounds; round++)); do
	cm 7471 cmtime -b $FAR -c $few -- cmtime -s $FAR -c $few &
	pid=$!
	for ((i = 0; i < loads; i++)); do
		run rmmod sib_cm
		sleep 0.1
		run modprobe sib_cm
		sleep 0.1
	done >/tmp/loads
	wait $pid || fail "connections fail while sib_cm comes and goes"
	managed || fail "the ports do not have a manager"
done

step "One of the two goes"
run rmmod sib_cm
managed || fail "the ports do not have ib_cm any more"
run modprobe sib_cm
run modprobe -r rdma_ucm ib_ipoib
[ ! -e /sys/module/ib_cm ] || fail "ib_cm is still there"
managed || fail "the ports do not have sib_cm any more"
run rmmod sib_cm
! managed || fail "the ports have a manager, and nobody is there"

step "Devices go and come beneath it"
run modprobe sib_cm
run rdma link del sib1
hca_up sib1 sibnet0
wait_active 60 sib0 sib1
managed || fail "the new device has no manager"
pair sib0 sib1 ibv_rc_pingpong -n 100
run rdma link del sib1
run rdma link del sib0
run rmmod sib_cm
run modprobe -r sib
