#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300
# vm-long: --kernel debug --timeout 900
#
# The subnet manager of the module: one command makes a device that can be used.
# It yields to OpenSM and takes over from it, and manages two switches with a
# cable as it does one.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"

# The debug kernel is a lot slower than the 2 s that users are promised. Rounds of
# a ping-pong, too.
case $(uname -r) in
*debug*) soon=20 rounds=40 ;;
*) soon=2 rounds=1000 ;;
esac

# manager DEVICE: the LID of the subnet manager that the device knows.
manager() {
	printf '%d\n' "$(cat "/sys/class/infiniband/$1/ports/1/sm_lid")"
}

# lids: the LIDs of all ports.
lids() {
	head -v -n 1 /sys/class/infiniband/*/ports/*/lid
}

# promptly DEVICE NETDEV: makes an HCA, which is ACTIVE soon. A machine that is busy for
# a moment has another try.
promptly() {
	local began took
	for _ in 1 2 3; do
		began=${EPOCHREALTIME/[.,]/}
		hca_up "$1" "$2"
		wait_active 30 "$1"
		took=$(((${EPOCHREALTIME/[.,]/} - began) / 1000))
		printf '%s is ACTIVE after %d ms\n' "$1" $took
		[ $took -gt $((soon * 1000)) ] || return 0
		run rdma link del "$1"
	done
	fail "$1 is not ACTIVE within $soon s, three times"
}

# state OPTION...: the state that a subnet manager tells.
state() {
	timeout -k 5 20 sminfo "$@" | grep -o 'SMINFO_[A-Z]*'
}

# is_state STATE OPTION...: whether it is STATE.
is_state() {
	local wanted=$1
	shift
	[[ $(state "$@") == *"$wanted"* ]]
}

# yielded: the switch has handed its subnet over. The new master may have told all
# ports of itself before the old one looks around again and sees it.
yielded() {
	! is_state MASTER "$switch"
}

programs() {
	cable_pair sib0 sib1 ibv_rc_pingpong -n $rounds
	lossy_pair sib0 sib1 ibv_ud_pingpong -n $rounds
}

step "Nothing but the module and a device"
managed_by_module
run modprobe sib
underlay sibnet0
promptly sib0 sibnet0
switch=$(manager sib0)
is_state MASTER "$switch" || fail "no master on the switch: $(timeout 20 sminfo "$switch")"

step "A second HCA"
promptly sib1 sibnet0
managed_by "$switch" || fail "two subnet managers"
programs
run timeout 30 iblinkinfo -l
within 30 links sib0 4 || fail "not all links are active"

step "What it knows is to be read"
# knows WORD...: the file has this line; of the LIDs, and where they lead, those that others see.
knows() {
	grep -qx -- "$*" "$SUBNET" || fail "no line '$*': $(cat "$SUBNET")"
}
# known_route LID PORT: the switch sends there.
known_route() {
	sed -n 's/^switch .* routes //p' "$SUBNET" | tr ' ' '\n' |
		awk -F '[-:]' -v lid="$1" -v port="$2" '$1 <= lid && $(NF - 1) >= lid && $NF == port { found = 1 } END { exit !found }' ||
		fail "LID $1 is not sent to port $2: $(cat "$SUBNET")"
}
mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
SUBNET=$(echo /sys/kernel/debug/sib/sib-*/subnet)
# swept: how many sweeps there have been, and whether there is trouble.
swept() {
	grep -E '^(sweeps|trouble) ' "$SUBNET" | xargs
}
# untroubled: the last sweep was. One that is under way has no trouble before it has waited for somebody for 600 ms.
untroubled() {
	local before
	before=$(swept)
	sleep 1
	[[ $before == *'trouble no' ]] && [ "$(swept)" = "$before" ]
}
knows state master
# A datagram that comes too late is trouble until the next sweep.
within 20 untroubled || fail "there is trouble: $(cat "$SUBNET")"
[ "$(grep -c '^adapter' "$SUBNET")" = 4 ] || fail "not four ports: $(cat "$SUBNET")"
for name in sib0 sib1; do
	for port in 1 2; do
		guid=$(tr -d : <"/sys/class/infiniband/$name/node_guid")
		knows "adapter 0x$guid port $port lid $(lid $name $port) \"$name\""
	done
done
ibroute -n "$switch" | sed -n 's/^\(0x[0-9a-f]*\) \([0-9]*\) .*/\1 \2/p' >/tmp/routes
[ "$(wc -l </tmp/routes)" = 5 ] || fail "not five routes: $(cat /tmp/routes)"
while read -r lid port; do
	known_route $((lid)) $((10#$port))
done </tmp/routes

step "A name with lines and commands of terminals is one word of text"
shows_name() {
	grep -qF -- "$1" "$SUBNET"
}
# In one write.
printf 'sib1"\nstate none\033[2J' >/tmp/name
cat /tmp/name >/sys/class/infiniband/sib1/node_desc
within 20 shows_name 'sib1\"\nstate none\x1b[2J"' || fail "not escaped: $(cat -v "$SUBNET")"
[ "$(grep -c '^state' "$SUBNET")" = 1 ] || fail "a name makes lines: $(cat "$SUBNET")"
printf 'sib1' >/sys/class/infiniband/sib1/node_desc
within 20 shows_name '"sib1"' || fail "no new name: $(cat -v "$SUBNET")"

step "A port that was disabled comes back"
disabled() {
	grep -q DOWN /sys/class/infiniband/sib1/ports/2/state
}
timeout 30 ibportstate -C sib0 -D 0,1 4 disable >/dev/null || fail "ibportstate disable"
within 10 disabled || fail "port 2 of sib1 is not down"
timeout 30 ibportstate -C sib0 -D 0,1 4 enable >/dev/null || fail "ibportstate enable"
wait_active $((soon + 8)) sib1

step "OpenSM comes: the subnet is its own"
before=$(lids)
opensm_up sib0
within 60 managed_by "$(lid sib0)" || fail "OpenSM has not become the master: $(tail -n 30 "$OPENSM_LOG")"
wait_active 10 sib0 sib1
[ "$(lids)" = "$before" ] || fail "LIDs have changed: $before $(lids)"
is_state MASTER "$(lid sib0)" || fail "OpenSM is not the master"
within 20 yielded || fail "the switch has a master, too"
within 20 grep -qx 'state standby' "$SUBNET" || fail "not on standby: $(cat "$SUBNET")"
programs

grep -q 'ERR 2F18.*Ignoring SMInfo' "$OPENSM_LOG" || fail "OpenSM has not met the module: $(cat "$OPENSM_LOG")"
opensm_clean 'ERR 2F18'

step "An HCA joins under OpenSM"
hca_up sib2 sibnet0
wait_active 30 sib2
sleep 12
managed_by "$(lid sib0)" || fail "OpenSM did not remain the master"
run rdma link del sib2

step "OpenSM stops: the module takes over"
opensm_down
within 30 managed_by "$switch" || fail "nobody has taken over"
is_state MASTER "$switch" || fail "no master on the switch"
wait_active 10 sib0 sib1
[ "$(lids)" = "$before" ] || fail "LIDs have changed: $before $(lids)"
programs
promptly sib2 sibnet0
run rdma link del sib2

step "The same when OpenSM is killed"
opensm_up sib1
within 60 managed_by "$(lid sib1)" || fail "OpenSM has not become the master: $(tail -n 30 "$OPENSM_LOG")"
kill -9 "$OPENSM_PID"
wait "$OPENSM_PID"
OPENSM_PID=
within 30 managed_by "$switch" || fail "nobody has taken over"
programs
run rdma link del sib1
run rdma link del sib0
run modprobe -r sib

step "Two switches with a subnet manager each, and a cable"
# one_subnet: both know one subnet manager, and no two ports have one LID.
one_subnet() {
	[ "$(manager sib0)" = "$(manager sib1)" ] &&
		[ "$(sort -u /sys/class/infiniband/*/ports/*/lid | wc -l)" = 4 ] &&
		timeout -k 5 10 smpquery -C sib0 nodedesc "$(lid sib1)" | grep -q sib1 &&
		timeout -k 5 10 smpquery -C sib1 nodedesc "$(lid sib0)" | grep -q sib0
}
run modprobe sib
configfs_up
veth
promptly sib0 v0
promptly sib1 v1
cable a v0 "$(link_address v1)"
cable b v1 "$(link_address v0)"
within 40 one_subnet || fail "two subnets: $(lids)"
wait_active 10 sib0 sib1
programs

step "The cable breaks, and each half goes on; it is mended"
run ip link set v1 down
sleep 3
# has_master DEVICE: the subnet manager that the device knows by now answers, and is one.
has_master() {
	is_state MASTER -C "$1" "$(manager "$1")"
}
within 30 has_master sib0 || fail "sib0 has no master"
within 30 has_master sib1 || fail "sib1 has no master"
wait_active 10 sib0 sib1
run ip link set v1 up
within 60 one_subnet || fail "two subnets: $(lids)"
programs
run rmdir $CONFIG/a $CONFIG/b
run rdma link del sib1
run rdma link del sib0
run ip link del v0
run modprobe -r sib

step "Switched off"
run modprobe sib sm=0
hca_up sib0 sibnet0
sleep $soon
grep -q INIT /sys/class/infiniband/sib0/ports/1/state || fail "somebody manages the subnet"
run modprobe -r sib
! said=$(modprobe sib sm=2 2>&1) || fail "sm=2 was taken"
grep -q 'Invalid argument' <<<"$said" || fail "sm=2: $said"
