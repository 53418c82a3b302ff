#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300
# vm-long: --kernel debug --timeout 900
#
# A star: a host without an HCA is the switch that three others are cabled to. It has
# nothing but cables, which are configured.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"
. "$(dirname "$0")/lan.sh"
. "$(dirname "$0")/diags.sh"

HOSTS=3

# The debug kernel is a lot slower.
case $(uname -r) in
*debug*) soon=60 messages=40 ;;
*) soon=60 messages=1000 ;;
esac

# guids: the switches that can be seen.
guids() {
	timeout 30 ibswitches -C sib1 | sed -n 's/^Switch.*: \(0x[0-9a-f]*\) .*/\1/p' | sort
}

managed_by_module
run modprobe sib
configfs_up
lan $HOSTS
run ip address add 10.9.0.100/24 dev lan0
step "The hub has cables alone"
for ((host = 1; host <= HOSTS; host++)); do
	host_hca $host
	cable "hub$host" lan0 "10.9.0.$host"
	cable "leaf$host" "lan$host" 10.9.0.100
done
links=$(rdma link show) && ! grep -v 'link sib[123]/' <<<"$links" || fail "there are more HCAs: $(rdma link show)"
within "$soon" links sib1 $((2 * HOSTS + HOSTS)) || fail "the star is not whole: $(timeout 30 iblinkinfo -l)"
within "$soon" switches sib1 $((HOSTS + 1)) || fail "not all switches"
wait_active "$soon" sib1 sib2 sib3
# Each way from host to host has the hub between two switches.
counts 4 '^\[[0-9]+\] -> ' ibtracert -n -C sib1 "$(lid sib1)" "$(lid sib2 2)"
counts 4 '^\[[0-9]+\] -> ' ibtracert -n -C sib1 "$(lid sib3)" "$(lid sib1)"
cable_pair sib1 sib2 ibv_rc_pingpong -n $messages
cable_pair sib2 sib3 ibv_rc_pingpong -n $messages
lossy_pair sib3 sib1 ibv_ud_pingpong -n $messages

step "A leaf is pulled out and plugged in again"
echo 0 >$CONFIG/hub3/enable || fail "enable"
within "$soon" switches sib1 $HOSTS || fail "the leaf is still there"
cable_pair sib1 sib2 ibv_rc_pingpong -n $messages
echo 1 >$CONFIG/hub3/enable || fail "enable"
within "$soon" links sib3 $((2 * HOSTS + HOSTS)) || fail "the leaf has not come back"
wait_active "$soon" sib3
cable_pair sib1 sib3 ibv_rc_pingpong -n $messages

step "The hub goes: each leaf is alone"
run rmdir $CONFIG/hub1 $CONFIG/hub2 $CONFIG/hub3
within "$soon" switches sib1 1 || fail "somebody is still there: $(guids)"
wait_active "$soon" sib1 sib2 sib3
run rmdir $CONFIG/leaf1 $CONFIG/leaf2 $CONFIG/leaf3
for ((host = 1; host <= HOSTS; host++)); do
	run rdma link del "sib$host"
done
lan_down $HOSTS
run modprobe -r sib
