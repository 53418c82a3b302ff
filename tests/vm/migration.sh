#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- switch 4
# vm-long: --kernel stock --nodes 2 --nics 3 --timeout 600 -- hosts 3
# vm-long: --kernel stock --timeout 3600 -- switch 340
# vm-long: --kernel stock --timeout 3600 -- rails 100
# vm-long: --kernel stock --nodes 2 --nics 3 --timeout 3600 -- hosts 100
# vm-long: --kernel debug --timeout 1500 -- switch 5
#
# Connections with SEND, WRITE, READ and atomics all the time, one and 64 of them, go over
# when their port is cut, as soon as the timeouts say, and have the other path again by LAP
# and APR when the port is back: between two HCAs on one switch, on two rails of one host,
# and on two rails, a network each, between two hosts.
#
#     migration.sh switch|rails|hosts [ROUNDS [SEED]]
#
# So many rounds with 64 connections, and twice as many with one. When and how ports are
# cut comes of the seed.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/cables.sh"

part=${1:-switch} rounds=${2:-3} seed=${3:-1}

# The code of the ACK timeout, and what a guest may take that has to share its processors,
# in milliseconds, beyond the 100 that a migration may take. A host that gets no processor
# for a second is no reason to migrate.
timeout=14 slack=1500
case $(uname -r) in
*debug*) timeout=16 slack=3000 ;;
esac

# is_active DEVICE PORT
is_active() {
	grep -q ACTIVE "/sys/class/infiniband/$1/ports/$2/state"
}

# sees_both PORT: both HCAs are seen from this port of sib0.
sees_both() {
	[ "$(timeout 30 ibhosts -C sib0 -P "$1" 2>/dev/null | grep -c '^Ca')" = 2 ]
}

# call ADDRESS CONNECTIONS ROUNDS
call() {
	PORT=$((PORT + 1))
	run timeout -k 5 3500 "$USER_PROGRAMS/migrate" call $PORT sib0 "$1" "$2" "$3" $timeout $slack $HOOK "$seed"
}

# both CONNECTIONS ROUNDS: caller and listener are here.
both() {
	local pid
	timeout -k 5 3500 "$USER_PROGRAMS/migrate" listen $((PORT + 1)) sib1 &
	pid=$!
	call 127.0.0.1 "$1" "$2"
	wait $pid || fail "status $? of the listener"
}

managed_by_module
run modprobe sib
run modprobe sib_cm
. "$(dirname "$0")/rails.sh"

switch() {
	underlay sibnet0
	hca_up sib0 sibnet0
	hca_up sib1 sibnet0
	wait_active 60 sib0 sib1
	both 1 $((2 * rounds))
	both 64 "$rounds"
	run rdma link del sib1
	run rdma link del sib0
}

# hook DEVICE NETDEV1 NETDEV2: faults at the ports of this HCA, or the network devices of
# its rails go down.
hook() {
	export -f within sees_both is_active
	cat >$HOOK <<-END_OF_FILE
		#!/bin/bash
		FAULTS=/sys/kernel/debug/sib/$1 NETDEVS=(- $2 $3)
	END_OF_FILE
	cat >>$HOOK <<-'END_OF_FILE'
		faults() {
			printf '%s\n' "$2" >$FAULTS/"$1"/faults
		}
		case $1 in
		pull)
			case $(($3 % 4)) in
			0) faults "$2" "cut in" ;;
			1) faults "$2" "cut out" ;;
			2) faults "$2" "cut in" && faults "$2" "cut out" ;;
			3) ip link set "${NETDEVS[$2]}" down ;;
			esac
			;;
		mend)
			faults "$2" clear
			ip link set "${NETDEVS[$2]}" up
			within 60 sees_both "$2" && within 60 is_active sib0 "$2"
			;;
		esac
	END_OF_FILE
	chmod +x $HOOK
}

rails() {
	configfs_up
	two_rails
	within 60 sees_both 1 && within 60 sees_both 2 || fail "the rails do not come up"
	wait_active 60 sib0 sib1
	hook sib1 v1 w1
	both 1 $((2 * rounds))
	both 64 "$rounds"
	echo 0 >$CONFIG/first/enable && echo 0 >$CONFIG/second/enable || fail "disable"
	run rdma link del sib1
	run rdma link del sib0
	run rmdir $CONFIG/first $CONFIG/second $CONFIG/a $CONFIG/b $CONFIG/c $CONFIG/d
}

# across CONNECTIONS ROUNDS: caller and listener are on two hosts.
across() {
	if [ "$NODE" = 1 ]; then
		call 10.77.0.2 "$1" "$2"
	else
		PORT=$((PORT + 1))
		run timeout -k 5 3500 "$USER_PROGRAMS/migrate" listen $PORT sib0
	fi
	barrier "done.$PORT"
}

hosts() {
	timeout=16 slack=1000
	configfs_up
	hca_up sib0 eth1
	rail second sib0/2 eth2
	cable a eth1 10.77.1.$((3 - NODE))
	cable b eth2 10.77.2.$((3 - NODE))
	within 60 sees_both 1 && within 60 sees_both 2 || fail "the rails do not come up"
	wait_active 60 sib0
	barrier active
	hook sib0 eth1 eth2
	across 1 $((2 * rounds))
	across 64 "$rounds"
	echo 0 >$CONFIG/second/enable || fail "disable"
	run rdma link del sib0
	run rmdir $CONFIG/second $CONFIG/a $CONFIG/b
}

case $part in
switch | rails | hosts) $part ;;
*) fail "a part is switch, rails or hosts, not '$part'" ;;
esac
run rmmod sib_cm
run modprobe -r sib
