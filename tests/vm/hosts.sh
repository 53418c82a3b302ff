#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --nodes 2 --timeout 600
# vm-long: --kernel debug --nodes 2 --timeout 1200
#
# Two hosts with an HCA each, their switches joined by a cable over the network
# between them: one fabric, one subnet manager, and the programs of libibverbs
# from host to host.

. "$(dirname "$0")/lib.sh"

CONFIG=/sys/kernel/config/sib

# The debug kernel takes ten times as long for a packet.
case $(uname -r) in
*debug*) rounds=40 ;;
*) rounds=1000 ;;
esac

# barrier NAME: waits for the other host.
barrier() {
	vm-barrier "$1" || fail "the other host has not come to $1"
}

# attempt COMMAND [ARG]...: runs COMMAND as the server on the first host and as the
# client on the second. Succeeds, at both, if both have.
attempt() {
	local status=0
	PORT=$((PORT + 1))
	printf '$ %s\n' "$*"
	if [ "$NODE" = 1 ]; then
		timeout -k 5 100 "$@" -d sib0 -i 1 -p $PORT >/tmp/server &
		within 20 listening $PORT || fail "the server does not listen"
		barrier "listening.$PORT"
		wait $! || status=$?
	else
		barrier "listening.$PORT"
		timeout -k 5 100 "$@" -d sib0 -i 1 -p $PORT 10.77.0.1 || status=$?
	fi
	[ "$status" != 0 ] || : >"/share/done.$PORT.$NODE"
	barrier "done.$PORT"
	[ -e "/share/done.$PORT.1" ] && [ -e "/share/done.$PORT.2" ]
}

# How often the cable has gone down.
breaks() {
	dmesg | grep -c 'sib: .* the cable of .* is down'
}

# All links that there are: two of each HCA, and the cable.
linked() {
	[ "$(timeout 30 iblinkinfo -C sib0 -l | grep -c Active)" = 10 ]
}

# across COMMAND [ARG]...: must succeed at both hosts. To a host that gets no processor
# for a second the cable is gone, and what is under way lost: that is a reason to
# try again, and the only one.
across() {
	local before
	for _ in 1 2 3; do
		before=$(breaks)
		! attempt "$@" || return 0
		[ "$(breaks)" = "$before" ] || : >"/share/broken.$PORT"
		barrier "judged.$PORT"
		[ -e "/share/broken.$PORT" ] || break
		step "The cable has been down meanwhile"
		within 60 linked || fail "the cable has not come back"
		barrier "linked.$PORT"
	done
	fail "$*"
}

# Each of two switches sees the other one.
switches() {
	[ "$(timeout 30 ibswitches -C sib0 | grep -c '^Switch')" = 2 ]
}

run modprobe sib
mountpoint -q /sys/kernel/config || run mount -t configfs none /sys/kernel/config
hca_up sib0 eth0
mkdir $CONFIG/peer || fail "mkdir"
echo eth0 >$CONFIG/peer/netdev || fail "netdev"
echo "10.77.0.$((3 - NODE))" >$CONFIG/peer/remote || fail "remote"
echo 1 >$CONFIG/peer/enable || fail "enable"
within 60 switches || fail "the cable does not come up"
barrier cabled
[ "$NODE" != 1 ] || opensm_up sib0
wait_active 60 sib0
barrier active
if [ "$NODE" = 1 ]; then
	switches || fail "not two switches"
	[ "$(timeout 30 ibhosts -C sib0 | grep -c '^Ca')" = 2 ] || fail "not two HCAs"
	run timeout 60 iblinkinfo -C sib0 -l
	linked || fail "not all links are there"
	opensm_clean
fi
barrier checked
for program in ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong; do
	across $program -n $rounds
done
across ibv_rc_pingpong -s 1000000 -n $((rounds / 20))
barrier ran
[ "$NODE" != 1 ] || opensm_down
barrier over
run rmdir $CONFIG/peer
run rdma link del sib0
run modprobe -r sib
