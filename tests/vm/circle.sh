#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300
# vm-long: --kernel debug --timeout 600
#
# Forwarding tables that lead in a circle, from a file that OpenSM takes: each of three switches sends what is for one
# port on to the next. Such a packet passes 64 cables; then it is dropped, and counted. Others get through meanwhile.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/cables.sh"
. "$(dirname "$0")/lan.sh"

MESSAGES=200
# How many cables a packet may pass.
CABLES=64
# What management may send for each look at the counters.
OTHERS=1000
TABLES=/tmp/tables

hex_lid() {
	printf '0x%04x' "$(($(cat "/sys/class/infiniband/$1/ports/1/lid")))"
}

# port SWITCH DEVICE: where that sends packets for the device.
port() {
	awk -v name="(sib switch $1):" -v lid="$(hex_lid "$2")" '
		/^Unicast/ { here = index($0, name) }
		here && $1 == lid { print $2 }' $TABLES
}

# counted COUNTER: how much all ports of the switches have counted.
counted() {
	local switch
	timeout 30 ibswitches -C sib1 | sed -n 's/.* lid \([0-9]*\) .*/\1/p' | while read -r switch; do
		timeout 20 perfquery -C sib1 -a "$switch" | sed -n "s/^$1:\.*//p"
	done | awk '{ sum += $1 } END { print sum + 0 }'
}

run modprobe sib beacons=0
configfs_up
lan 3
for host in 1 2 3; do
	host_hca $host
done
tie 1 2
tie 2 3
tie 3 1
opensm_up sib1
wait_active 60 sib1 sib2 sib3
run timeout 30 dump_fts -C sib1
dump_fts -C sib1 >$TABLES || fail "dump_fts"
opensm_down

step "A circle for sib3"
first=$(port lan1 sib2)
second=$(port lan2 sib3)
third=$(port lan3 sib1)
printf 'switch lan1 by port %s, lan2 by %s, lan3 by %s\n' "$first" "$second" "$third"
awk -v lid="$(hex_lid sib3)" -v first="$first" -v third="$third" '
	/^Unicast/ { port = /lan1/ ? first : /lan3/ ? third : "" }
	$1 == lid && port { $2 = port }
	{ print }' $TABLES >$TABLES.circle
opensm_up sib1 1 -R file -U $TABLES.circle
in_circle() {
	timeout 30 dump_fts -C sib1 >$TABLES &&
		[ "$(port lan1 sib3) $(port lan2 sib3) $(port lan3 sib3)" = "$first $second $third" ]
}
within 60 in_circle || fail "the tables are others: $(cat $TABLES)"

step "Messages for it"
# look: how much has been sent and dropped since the first look. What is dropped later than it is sent is asked for
# later, too.
look() {
	sent=$(($(counted PortXmitPkts) - sent_before))
	errors=$(($(counted PortRcvSwitchRelayErrors) - errors_before))
	looks=$((looks + 1))
}
# gone_round: the messages were counted when they had gone round for long enough. Few get lost on the way.
gone_round() {
	look
	[ $((10 * errors)) -ge $((9 * MESSAGES)) ]
}
looks=0 sent_before=0 errors_before=0
look
sent_before=$sent errors_before=$errors
run user unreliable sib1 sib3 ud $MESSAGES 0
within 60 gone_round || fail "they were not counted: $errors errors"
look
printf '%d packets sent, %d errors, %d looks\n' $sent $errors $looks
[ $((10 * sent)) -ge $((9 * MESSAGES * CABLES)) ] || fail "they have not gone round"
[ $sent -le $((errors * CABLES + looks * OTHERS)) ] || fail "they have gone round for longer"
cable_pair sib1 sib2 ibv_rc_pingpong -n 50

step "The right tables again"
opensm_down
opensm_up sib1
within 60 routed sib1 sib3 || fail "sib3 is out of reach"
cable_pair sib1 sib3 ibv_rc_pingpong -n 50
opensm_down
for host in 1 2 3; do
	run rdma link del sib$host
done
run rmdir $CONFIG/from*
lan_down 3
run modprobe -r sib
