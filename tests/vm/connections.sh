#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- handoff 2
# vm-long: --kernel stock --timeout 300 -- udp 10
# vm-long: --kernel stock --timeout 600 -- handoff 2 stages
# vm-long: --kernel debug --timeout 1200 -- handoff 2 stages
#
# Connections of sib_cm, by /dev/sib_cm: a program that makes, refuses and ends them, and
# has them migrate to alternate paths that LAP and APR agree on; and one that asks for the
# queue pairs of datagram services. HCAs go and programs are killed while they have some.
# ib_cm hears of what is its own alone. With `stages`, HCAs go in each state of a connection,
# one end first, then the other one.
#
#     connections.sh [handoff|udp [ROUNDS [stages]]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/cm.sh"

rounds=${2:-2}

# held connect|sidr: a program has a connection, or asks, and waits.
held() {
	rm -f "/tmp/$1"
	"$USER_PROGRAMS/$1" sib0 sib1 hold >"/tmp/$1" 2>&1 &
	HOLDER=$!
	within 30 grep -q held "/tmp/$1" || fail "$1: $(cat "/tmp/$1")"
}

# is_down DEVICE PORT
is_down() {
	grep -q DOWN /sys/class/infiniband/"$1"/ports/"$2"/state
}

PARTITION=/sys/kernel/config/sib_partitions/rail

# is_member P_KEY DEVICE PORT
is_member() {
	grep -qx "$1" /sys/class/infiniband/"$2"/ports/"$3"/pkeys/*
}

# in_partition P_KEY near|far|none PORT...: who refuses a path by the second ports, if just these ports
# ("DEVICE PORT") are in the partition.
in_partition() {
	local pkey=$1 refuser=$2 port
	local -a members=()
	shift 2
	for port; do
		# shellcheck disable=SC2086 # two words
		members+=("$(port_guid $port)")
	done
	echo "${members[*]}" >$PARTITION/full || fail "no members"
	for port; do
		# shellcheck disable=SC2086 # two words
		within 60 is_member "$pkey" $port || fail "$port is not in partition $pkey"
	done
	run user offers sib0 sib1 "$pkey" "$refuser"
}

managed_by_module
datapath "${1:-handoff}"
hcas_up
wait_active 60 sib0 sib1
run modprobe sib_cm
run modprobe ib_umad

step "Requests that only others make"
run user requests sib0 sib1
within 20 nothing_left || fail "connections are left"
run modprobe ib_cm

step "A program and its connections"
run user connect sib0 sib1 "$rounds"
cat /sys/kernel/debug/sib_cm/datagrams
[ "$(heard req)" = "$rounds" ] || fail "ib_cm has heard of $(heard req) requests, $rounds were its own"
for message in rep rtu dreq drep mra lap apr; do
	[ "$(heard $message)" = 0 ] || fail "ib_cm has heard of $message"
done
within 20 nothing_left || fail "connections are left"

step "Each answer to an offer of a path"
run user answers sib0 sib1
[ "$(heard req)" = "$rounds" ] || fail "ib_cm has heard of a request"
within 20 nothing_left || fail "connections are left"

step "A program and its questions for queue pairs"
run user sidr sib0 sib1 "$rounds"
# One question in each round is for a service that ib_cm has to say no to, and a REQ.
[ "$(heard sidr_req)" = "$rounds" ] || fail "ib_cm has heard of $(heard sidr_req) questions"
[ "$(heard sidr_rep)" = 0 ] || fail "ib_cm has heard an answer"
[ "$(heard req)" = $((2 * rounds)) ] || fail "ib_cm has heard of $(heard req) requests"
within 30 nothing_left || fail "questions are left"

step "A port that is down"
timeout 30 ibportstate -C sib0 -D 0,1 4 disable >/dev/null || fail "ibportstate disable"
within 20 is_down sib1 2 || fail "port 2 of sib1 is not down"
run user offers sib0 sib1 0xffff down
timeout 30 ibportstate -C sib0 -D 0,1 4 enable >/dev/null || fail "ibportstate enable"
wait_active 60 sib1

step "A port that is not in the partition"
run mkdir $PARTITION
echo 0x0002 >$PARTITION/pkey || fail "no P_Key"
in_partition 0x8002 near "sib0 1" "sib1 1"
in_partition 0x8002 far "sib0 1" "sib1 1" "sib0 2"
in_partition 0x8002 none "sib0 1" "sib1 1" "sib0 2" "sib1 2"
run rmdir $PARTITION
within 30 nothing_left || fail "connections are left"

step "Killed"
held sidr
asker=$HOLDER
held connect
! rmmod sib_cm 2>/dev/null || fail "the module goes while it is used"
kill -9 $HOLDER $asker
wait $HOLDER $asker
within 30 nothing_left || fail "connections are left"

step "An HCA goes"
held sidr
asker=$HOLDER
held connect
run rdma link del sib0
wait $HOLDER || fail "$(cat /tmp/connect)"
wait $asker || fail "$(cat /tmp/sidr)"
within 30 nothing_left || fail "connections are left"
run rdma link del sib1

# goes_at STAGE FIRST SECOND: both HCAs go in this order while a connection is so far.
goes_at() {
	local stager device
	step "$1: $2 goes, then $3"
	for device in sib0 sib1; do
		hca_up $device sibnet0
	done
	wait_active 60 sib0 sib1
	# The program before has said the same.
	: >/tmp/stages
	"$USER_PROGRAMS/stages" sib0 sib1 "$1" >>/tmp/stages 2>&1 &
	stager=$!
	within 60 grep -q held /tmp/stages || fail "$(cat /tmp/stages)"
	run rdma link del "$2"
	run rdma link del "$3"
	wait $stager || fail "$(cat /tmp/stages)"
	within 30 nothing_left || fail "connections are left"
}

[ "${3:-}" != stages ] || for stage in asked put-off replied reply-put-off established offered \
	offer-put-off parting waiting; do
	goes_at $stage sib0 sib1
	goes_at $stage sib1 sib0
done
run rmmod sib_cm
run modprobe -r ib_cm sib
