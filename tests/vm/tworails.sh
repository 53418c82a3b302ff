#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 -- move 1
# vm: --kernel stock --timeout 600 -- migrate 2
# vm-long: --kernel stock --timeout 900 -- move 20
# vm-long: --kernel stock --timeout 900 -- migrate 10
# vm-long: --kernel debug --timeout 900 -- move 2
# vm-long: --kernel debug --timeout 900 -- migrate 2
#
# HCAs with a rail on each of two networks: port 2 is moved to the switch of another
# network device, which is a subnet of its own, and back, under load, and network
# devices go away (move); connections go on by the other rail when a network device goes
# down (migrate).
#
#     tworails.sh [move|migrate [ROUNDS]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"
. "$(dirname "$0")/user.sh"

part=${1:-move} rounds=${2:-2}

# The debug kernel is a lot slower.
case $(uname -r) in
*debug*) messages=40 ;;
*) messages=1000 ;;
esac

# refuses WHY VALUE FILE: a value that cannot be, or not now, and the log says why.
refuses() {
	local said before
	before=$(complaints)
	! said=$( (echo "$2" >"$3") 2>&1) || fail "'$2' was taken by $3"
	grep -qi "$1" <<<"$said" || fail "'$2' in $3: not '$1', but: $said"
	[ "$(complaints)" -gt "$before" ] || fail "'$2' in $3: the log does not say why"
}

# subnet DEVICE PORT: what is to be seen from there, switches and HCAs.
subnet() {
	timeout -k 5 30 ibnetdiscover -C "$1" -P "$2" |
		sed -n 's/^\(Switch\|Ca\)[^"]*"[^"]*"[[:space:]]*# "\([^"]*\)".*/\2/p' | sort | tr '\n' ' '
}

# sees DEVICE PORT NODES: the nodes that are to be seen, in order.
sees() {
	[ "$(subnet "$1" "$2")" = "$3 " ]
}

# expect_subnet DEVICE PORT NODES: the same, soon.
expect_subnet() {
	within 30 sees "$@" || fail "port $2 of $1 sees $(subnet "$1" "$2"), not $3"
}

# state_of DEVICE PORT
state_of() {
	cut -d ' ' -f 2 "/sys/class/infiniband/$1/ports/$2/state"
}

is_state() {
	[ "$(state_of "$1" "$2")" = "$3" ]
}

# tried_by PORT COMMAND...: as paired, from sib0 to sib1 by this port of both.
tried_by() {
	local port=$1 pid status=0
	shift
	PORT=$((PORT + 1))
	printf '$ %s, by port %s\n' "$*" "$port"
	timeout -k 5 60 "$@" -d sib0 -i "$port" -p $PORT >/tmp/server 2>&1 &
	pid=$!
	within 20 listening $PORT || fail "no server: $(cat /tmp/server)"
	timeout -k 5 60 "$@" -d sib1 -i "$port" -p $PORT 127.0.0.1 >/tmp/client 2>&1 || status=$?
	wait $pid && [ $status = 0 ] && return
	WRONG="status $status of $*: $(cat /tmp/client /tmp/server)"
	return 1
}

# by PORT COMMAND...: the same, which must succeed.
by() {
	tried_by "$@" || fail "$WRONG"
}

# lossy_by PORT COMMAND...: as lossy_pair.
lossy_by() {
	local run
	for run in 1 2 3; do
		! tried_by "$@" || return 0
		printf 'run %d: %s\n' $run "$WRONG"
	done
	fail "three times: $WRONG"
}

# by_both [by|lossy_by]: programs by each of the ports; whether datagrams may be lost.
by_both() {
	local port datagrams=${1:-by}
	for port in 1 2; do
		by $port ibv_rc_pingpong -n $messages
		$datagrams $port ibv_ud_pingpong -n $messages
	done
}

# uplink PORT up|down: the network of that rail at the second HCA.
uplink() {
	local netdevs=([1]=v1 [2]=w1)
	ip link set "${netdevs[$1]}" "$2"
}

move() {
	step "Ports on two switches"
	underlay d0
	underlay d1
	hca_up sib0 d0
	hca_up sib1 d0
	wait_active 30 sib0 sib1
	expect_subnet sib0 2 "sib switch d0 sib0 sib1"
	rail first sib0/2 d1
	wait_active 30 sib0
	expect_subnet sib0 2 "sib switch d1 sib0"
	expect_subnet sib0 1 "sib switch d0 sib0 sib1"
	rail second sib1/2 d1
	wait_active 30 sib1
	expect_subnet sib0 2 "sib switch d1 sib0 sib1"
	expect_subnet sib1 1 "sib switch d0 sib0 sib1"
	within 30 links sib0 2 1 || fail "not two links on the first rail"
	within 30 links sib1 2 2 || fail "not two links on the second rail"
	for port in 1 2; do
		timeout 30 sminfo -C sib0 -P $port | grep -o 'guid 0x[0-9a-f]*' || fail "port $port knows no subnet manager"
	done >/tmp/managers
	[ "$(sort -u /tmp/managers | wc -l)" = 2 ] || fail "one subnet manager"
	by_both

	step "What cannot be"
	mkdir $CONFIG/bad
	refuses invalid sib0 $CONFIG/bad/port
	refuses invalid sib0/0 $CONFIG/bad/port
	refuses invalid sib0/256 $CONFIG/bad/port
	refuses invalid /1 $CONFIG/bad/port
	echo d1 >$CONFIG/bad/netdev
	refuses invalid 1 $CONFIG/bad/enable
	echo sib9/1 >$CONFIG/bad/port
	refuses 'no such device' 1 $CONFIG/bad/enable
	echo sib0/3 >$CONFIG/bad/port
	refuses invalid 1 $CONFIG/bad/enable
	echo sib0/1 >$CONFIG/bad/port
	echo nothing0 >$CONFIG/bad/netdev
	refuses 'no such device' 1 $CONFIG/bad/enable
	echo sib0/2 >$CONFIG/bad/port
	echo d0 >$CONFIG/bad/netdev
	refuses busy 1 $CONFIG/bad/enable
	refuses busy sib0/1 $CONFIG/first/port
	refuses busy d0 $CONFIG/first/netdev
	[ "$(cat $CONFIG/first/port $CONFIG/first/netdev $CONFIG/first/enable)" = $'sib0/2\nd1\n1' ] ||
		fail "not what was configured"
	rmdir $CONFIG/bad || fail "rmdir"

	step "Back and away again, while both ports have traffic"
	# loop PORT SECONDS: traffic that may come to harm. Four programs that wait actively share the processors, and one
	# whose peer has come to harm waits until its time is over.
	loop() {
		local number=$((20000 + $1 * 1000))
		while [ -e /tmp/loop ]; do
			number=$((number + 1))
			timeout -k 5 "$2" ibv_rc_pingpong -d sib0 -i "$1" -p $number -n $((messages * 10)) &
			within 20 listening $number
			timeout -k 5 "$2" ibv_rc_pingpong -d sib1 -i "$1" -p $number -n $((messages * 10)) 127.0.0.1 &&
				: >"/tmp/looped.$1"
			wait $!
		done >/dev/null 2>&1
	}
	# sent PORT: packets of that port of sib0.
	sent() {
		cat "/sys/class/infiniband/sib0/ports/$1/counters/port_xmit_packets"
	}
	has_sent() {
		[ "$(sent "$1")" -gt "$2" ]
	}
	rm -f /tmp/looped.*
	sent_before=([1]=$(sent 1) [2]=$(sent 2))
	: >/tmp/loop
	loop 1 300 &
	steady=$!
	loop 2 30 &
	harmed=$!
	for port in 1 2; do
		within 60 has_sent $port $((sent_before[port] + messages)) || fail "port $port has no traffic"
	done
	for ((round = 0; round < rounds; round++)); do
		for name in first second; do
			echo 0 >$CONFIG/$name/enable || fail "disable $name"
			[ "$(cat $CONFIG/$name/enable)" = 0 ] || fail "$name is still enabled"
		done
		wait_active 30 sib0 sib1
		expect_subnet sib0 2 "sib switch d0 sib0 sib1"
		for name in first second; do
			echo 1 >$CONFIG/$name/enable || fail "enable $name"
		done
		wait_active 30 sib0 sib1
		expect_subnet sib0 2 "sib switch d1 sib0 sib1"
	done
	rm /tmp/loop
	wait $steady $harmed
	[ -e /tmp/looped.1 ] || fail "the port that stays has had no traffic"
	no_objects
	by_both

	step "A port that is disabled stays so wherever it goes"
	timeout 30 ibportstate -C sib0 -P 2 -D 0 2 disable || fail "ibportstate disable"
	within 10 is_state sib0 2 DOWN || fail "port 2 is not down"
	echo 0 >$CONFIG/first/enable || fail "disable"
	sleep 1
	is_state sib0 2 DOWN || fail "port 2 has come up"
	run rdma link del sib0
	[ "$(cat $CONFIG/first/enable)" = 0 ] || fail "a port without an HCA is enabled"
	hca_up sib0 d0
	wait_active 30 sib0

	step "The second network device goes away"
	echo 1 >$CONFIG/first/enable || fail "enable"
	wait_active 30 sib0 sib1
	run ip link del d1
	within 20 is_state sib0 2 DOWN || fail "port 2 of sib0 is $(state_of sib0 2)"
	within 20 is_state sib1 2 DOWN || fail "port 2 of sib1 is $(state_of sib1 2)"
	by 1 ibv_rc_pingpong -n $messages
	echo 0 >$CONFIG/first/enable || fail "disable"
	within 20 port_active sib0 || fail "port 2 has not come home"
	underlay d1
	echo 1 >$CONFIG/first/enable || fail "enable"
	wait_active 30 sib0
	expect_subnet sib0 2 "sib switch d1 sib0"
	echo 0 >$CONFIG/second/enable && echo 1 >$CONFIG/second/enable || fail "enable"
	wait_active 30 sib1
	by_both

	step "The first one goes away, and with it the HCAs"
	run ip link del d0
	within 20 test ! -e /sys/class/infiniband/sib0 || fail "sib0 has outlived its underlay"
	within 20 test ! -e /sys/class/infiniband/sib1 || fail "sib1 has outlived its underlay"
	# An HCA has left sysfs before it lets go of its ports.
	none_enabled() {
		[ "$(cat $CONFIG/first/enable $CONFIG/second/enable)" = $'0\n0' ]
	}
	within 20 none_enabled || fail "ports are enabled"
	within 20 sh -c '[ "$(ls -d /sys/kernel/debug/sib/sib-* 2>/dev/null | wc -l)" = 0 ]' || fail "a switch is left"
	run rmdir $CONFIG/first $CONFIG/second
	run ip link del d1
}

migrate() {
	step "Two networks between two hosts, as it were"
	two_rails
	expect_subnet sib0 1 "sib switch v0 sib switch v1 sib0 sib1"
	expect_subnet sib0 2 "sib switch w0 sib switch w1 sib0 sib1"
	wait_active 30 sib0 sib1

	# meets PORT: the HCAs reach each other by this port, under one subnet manager.
	meets() {
		local lid
		lid=$(($(cat /sys/class/infiniband/sib1/ports/"$1"/lid)))
		[ "$(cat /sys/class/infiniband/sib0/ports/"$1"/sm_lid)" = "$(cat /sys/class/infiniband/sib1/ports/"$1"/sm_lid)" ] &&
			[ $lid != $(($(cat /sys/class/infiniband/sib0/ports/"$1"/lid))) ] &&
			timeout -k 5 10 smpquery -C sib0 -P "$1" nodedesc $lid | grep -q sib1
	}
	within 60 meets 1 || fail "the first network is none"
	within 60 meets 2 || fail "the second network is none"
	by_both lossy_by

	step "Connections go on by the other rail when a network device goes down"
	# The program cannot do that itself.
	export -f meets uplink within port_active
	cat >/tmp/hook <<'END_OF_FILE'
#!/bin/bash
case $1 in
pull) uplink "$2" down ;;
mend) uplink "$2" up && within 60 meets "$2" && within 60 port_active sib0 && within 60 port_active sib1 ;;
state) rdma resource show qp lqpn "$2" | grep -q "path-mig-state $3" ;;
esac
END_OF_FILE
	chmod +x /tmp/hook
	run user apm sib0 sib1 /tmp/hook "$rounds" 1

	step "The network devices go, the second ones first"
	run ip link del w0
	within 20 is_state sib0 2 DOWN || fail "port 2 of sib0 is $(state_of sib0 2)"
	within 20 is_state sib1 2 DOWN || fail "port 2 of sib1 is $(state_of sib1 2)"
	by 1 ibv_rc_pingpong -n $messages
	echo 0 >$CONFIG/first/enable && echo 0 >$CONFIG/second/enable || fail "disable"
	wait_active 30 sib0 sib1
	expect_subnet sib0 2 "sib switch v0 sib switch v1 sib0 sib1"
	run ip link del v0
	within 20 test ! -e /sys/class/infiniband/sib0 || fail "sib0 has outlived its underlay"
	within 20 test ! -e /sys/class/infiniband/sib1 || fail "sib1 has outlived its underlay"
	run rmdir $CONFIG/first $CONFIG/second $CONFIG/a $CONFIG/b $CONFIG/c $CONFIG/d
}

managed_by_module
run modprobe sib
configfs_up
case $part in
move | migrate) $part ;;
*) fail "a part is move or migrate, not '$part'" ;;
esac
run modprobe -r sib
