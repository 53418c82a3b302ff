#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- handoff 2
# vm-long: --kernel stock --timeout 300 -- udp 10
# vm-long: --kernel debug --timeout 900 -- handoff 2
#
# Connections of sib_cm, by /dev/sib_cm: a program that makes, refuses and ends them, and
# has them migrate to alternate paths that LAP and APR agree on. HCAs go and programs are
# killed while they have some. ib_cm hears of what is its own alone.
#
#     connections.sh [handoff|udp [ROUNDS]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

rounds=${2:-2}

# What ib_cm has received, by its own counters.
heard() {
	cat /sys/class/infiniband/sib[01]/ports/*/cm_rx_msgs/"$1" | awk '{ sum += $1 } END { print sum }'
}

# no_connections: nobody has one any more.
no_connections() {
	[ -z "$(cat /sys/kernel/debug/sib_cm/connections)" ]
}

# held: a program has a connection, and waits.
held() {
	"$USER_PROGRAMS/connect" sib0 sib1 hold >/tmp/hold 2>&1 &
	HOLDER=$!
	within 30 grep -q held /tmp/hold || fail "no connection: $(cat /tmp/hold)"
}

managed_by_module
datapath "${1:-handoff}"
run modprobe sib
underlay sibnet0
hca_up sib0 sibnet0
hca_up sib1 sibnet0
wait_active 60 sib0 sib1
run modprobe ib_cm
run modprobe sib_cm

step "A program and its connections"
run user connect sib0 sib1 "$rounds"
cat /sys/kernel/debug/sib_cm/datagrams
[ "$(heard req)" = "$rounds" ] || fail "ib_cm has heard of $(heard req) requests, $rounds were its own"
for message in rep rtu dreq drep mra lap apr; do
	[ "$(heard $message)" = 0 ] || fail "ib_cm has heard of $message"
done
within 20 no_connections || fail "connections are left"

step "Killed"
held
! rmmod sib_cm 2>/dev/null || fail "the module goes while it is used"
kill -9 $HOLDER
wait $HOLDER
within 20 no_connections || fail "connections are left"

step "An HCA goes"
held
run rdma link del sib0
wait $HOLDER || fail "$(cat /tmp/hold)"
within 20 no_connections || fail "connections are left"
run rdma link del sib1
run rmmod sib_cm
run modprobe -r ib_cm sib
