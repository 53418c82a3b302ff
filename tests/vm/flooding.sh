#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --timeout 400
# vm-long: --kernel debug --timeout 900
#
# Three hosts, with a cable from the first one to each of the others. The third host, which has
# the cookie of its cable, floods the first one: with nonsense, management, traps and handshakes,
# then also with orders that end the cable. What does not count is counted, the log and the memory
# of the first host have bounds, and a connection by the other cable, of which every byte is
# checked, goes on; afterwards the third host is a member of the subnet as before.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"
. "$(dirname "$0")/lan.sh"
. "$(dirname "$0")/user.sh"

FLOOD="$(dirname "$0")/flooding/flood.py"
HOSTS=3
# Two links of each HCA, and two cables.
LINKS=$((2 * HOSTS + 2))
SECONDS_OF_FLOOD=10
# Of the packets that the connection had without a flood, one in so many is left at least.
SHARE=20
# Bytes of memory, in KiB, that a flood may take.
ROOM=65536

# The debug kernel is a lot slower.
case $(uname -r) in
*debug*) soon=180 messages=20 ;;
*) soon=60 messages=100 ;;
esac

# dropped CAUSE...: how many datagrams the switch of the first host has dropped for these.
dropped() {
	local causes=$*
	awk -v causes=" $causes " 'index(causes, " " $1 " ") { sum += $2 } END { print sum + 0 }' \
		"/sys/kernel/debug/sib/sib-$(ip netns exec host1 cat /sys/class/net/lan1/address | tr -d :)/dropped"
}

# said TEXT: how many lines of the kernel log have it.
said() {
	dmesg | grep -c "$1"
}

free_memory() {
	awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo
}

# moved SECONDS: how many packets the connection has in that time.
moved() {
	local before
	before=$(load_sent)
	sleep "$1"
	echo $(($(load_sent) - before))
}

# whole: the whole fabric is seen from the first host, and from the third.
whole() {
	links sib1 $LINKS && links sib3 $LINKS && port_active sib1 && port_active sib3
}

# flood MOST CAUSES [bye]: for some seconds. The log grows by MOST lines at most. Succeeds if the
# other cable was there all the time.
flood() {
	local before free lines breaks count usual
	within "$soon" whole || fail "the fabric is not whole"
	usual=$(moved $SECONDS_OF_FLOOD)
	before=$(dropped $2) free=$(free_memory)
	lines=$(said .) breaks=$(said 'to 10.9.0.2.* is down')
	ip netns exec host3 python3 -B "$FLOOD" lan3 "$manager" $SECONDS_OF_FLOOD ${3:-} >/tmp/flood &
	count=$(moved $SECONDS_OF_FLOOD)
	free=$((free - $(free_memory)))
	wait $! || fail "the flood: $(cat /tmp/flood)"
	lines=$(($(said .) - lines)) before=$(($(dropped $2) - before))
	cat /tmp/flood
	printf '%d dropped (%s), %d lines in the log, %d KiB less memory, %d packets of %d usual ones\n' \
		$before "$2" $lines $free "$count" "$usual"
	[ $before -gt 500 ] || fail "only $before were dropped for: $2"
	[ $lines -le "$1" ] || {
		dmesg | tail -n 30
		fail "the log has got $lines lines"
	}
	[ $free -lt $ROOM ] || fail "the flood has taken $free KiB"
	[ "$count" -gt $((usual / SHARE)) ] || fail "the connection has moved $count packets in the flood, and $usual before"
	load_goes_on "after the flood"
	[ "$(said 'to 10.9.0.2.* is down')" = "$breaks" ]
}

# unnoticed COMMAND...: the other cable does not notice. A guest that stands still for a second may
# break any cable, so there are other tries.
unnoticed() {
	local _
	for _ in 1 2 3; do
		! "$@" || return 0
	done
	fail "the other cable has broken, three times"
}

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
managed_by_module
run modprobe sib
configfs_up
lan $HOSTS
for ((host = 1; host <= HOSTS; host++)); do
	host_hca $host
done
tie 1 2
tie 1 3
within "$soon" whole || fail "the fabric does not come up"
manager=$(($(cat /sys/class/infiniband/sib3/ports/1/sm_lid)))
load sib1 sib2

step "Nonsense, management, traps, handshakes"
unnoticed flood 30 'truncated header icrc malformed stranger'

step "And orders that end the cable"
# Two lines for each of its lives, and as many again of ports and of who manages the subnet.
unnoticed flood $((SECONDS_OF_FLOOD * 40)) 'truncated header icrc malformed stranger' bye

step "The third host is as before"
within "$soon" whole || fail "the third host has not returned"
load_goes_on "at last"
load_ends
pair sib1 sib3 ibv_rc_pingpong -n $messages
pair sib3 sib2 ibv_rc_pingpong -n $messages
run rmdir $CONFIG/from*
for ((host = 1; host <= HOSTS; host++)); do
	run rdma link del "sib$host"
done
lan_down $HOSTS
run modprobe -r sib
