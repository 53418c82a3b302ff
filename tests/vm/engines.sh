#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --timeout 400
# vm-long: --kernel debug --timeout 1800
#
# OpenSM with its options on a ring and a star of three hosts: routing engines, several LIDs
# for each port, sweeps under load, and two OpenSMs of which one is killed while a reliable
# connection goes on.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"
. "$(dirname "$0")/lan.sh"
. "$(dirname "$0")/diags.sh"
. "$(dirname "$0")/user.sh"

HOSTS=3
LINKS=$((2 * HOSTS + 3))
OPTIONS=/tmp/opensm.conf ROOTS=/tmp/roots PARTITIONS=/tmp/partitions.conf

# The debug kernel is a lot slower.
case $(uname -r) in
*debug*) soon=120 messages=20 ;;
*) soon=40 messages=200 ;;
esac

# quiet: the cables are plugged in, and no others.
quiet() {
	[ "$(timeout 30 iblinkinfo -C sib1 -l | grep -c '/  LinkUp')" = $((2 * LINKS)) ]
}

# manages DEVICE OPTION...: OpenSM there, with a log and notes of its own: it complains of
# notes in which ports have another LMC or other neighbours.
manages() {
	local device=$1
	shift
	rm -f "$OPENSM_LOG" /var/cache/opensm/*
	opensm_up "$device" 1 -F $OPTIONS "$@"
	within "$soon" grep -q 'SUBNET UP' "$OPENSM_LOG" || fail "no sweep: $(tail -n 30 "$OPENSM_LOG")"
	within "$soon" links sib1 $LINKS || fail "not all links are active: $(tail -n 30 "$OPENSM_LOG")"
	wait_active "$soon" sib1 sib2 sib3
}

# all_reach_all: each port reaches each LID of each other one.
all_reach_all() {
	local from to port lid
	for from in 1 2 3; do
		for to in 1 2 3; do
			for port in 1 2; do
				lid=$(lid "sib$to" $port)
				for ((lid = lid; lid < $(lid "sib$to" $port) + (1 << $1); lid++)); do
					timeout 20 perfquery -C "sib$from" -P "$((3 - port))" "$lid" "$port" >/dev/null ||
						fail "host $from does not reach LID $lid"
				done
			done
		done
	done
}

# programs: traffic from host to host.
programs() {
	pair sib1 sib2 ibv_rc_pingpong -n $messages
	lossy_pair sib3 sib1 ibv_ud_pingpong -n $messages
}

# partitions DEVICE...: all are full members of the default partition, these of another one; of
# a third one sib3 alone is, and sib1 and sib2 are limited members.
partitions() {
	cat >$PARTITIONS <<-END_OF_FILE
		Default=0x7fff: ALL=full, ALL_SWITCHES=full;
		Some=0x0001: $(port_guid "$1")=full, $(port_guid "$2")=full;
		Served=0x0002: $(port_guid sib1)=limited, $(port_guid sib2)=limited, $(port_guid sib3)=full;
	END_OF_FILE
}

# in_relation P_KEY DEVICE DEVICE WORDS: what a program says of two ports in a partition.
in_relation() {
	[ "$(timeout 60 "$USER_PROGRAMS/members" "$2" "$3" "$1")" = "$4" ]
}

# relation ...: the same, soon: switches hear of partitions later than ports.
relation() {
	printf '$ partition %s: %s and %s, %s\n' "$@"
	within "$soon" in_relation "$@" ||
		fail "partition $1: $2 and $3 are not $4 but $("$USER_PROGRAMS/members" "$2" "$3" "$1")"
}

# engine NAME [OPTION...]: a routing engine makes the tables, and no other one instead.
engine() {
	step "Routing engine $1"
	manages sib1 -R "$@"
	grep -q "$1 tables configured on all switches" "$OPENSM_LOG" || fail "not by $1: $(cat "$OPENSM_LOG")"
	all_reach_all 0
	programs
	opensm_clean
	opensm_down
}

# What OpenSM says is in its log at once, and it soon sees that a master is gone.
printf '%s\n' 'force_log_flush TRUE' 'sminfo_polling_timeout 500' 'polling_retry_number 10' >$OPTIONS
run modprobe sib
configfs_up
ring_of_hosts $HOSTS
within "$soon" quiet || fail "the ring is not whole: $(timeout 30 iblinkinfo -C sib1 -l)"

engine minhop
timeout 20 smpquery -C sib1 -D nodeinfo 0,1 | sed -n 's/^Guid:\.*//p' >$ROOTS
engine updn -a $ROOTS
engine lash
# A tree has a top: a switch without HCAs.
run rmdir $CONFIG/from*
run ip address add 10.9.0.100/24 dev lan0
for ((host = 1; host <= HOSTS; host++)); do
	cable "hub$host" lan0 "10.9.0.$host"
	cable "leaf$host" "lan$host" 10.9.0.100
done
within "$soon" switches sib1 $((HOSTS + 1)) || fail "the star is not whole"
within "$soon" quiet || fail "the ring is still there: $(timeout 30 iblinkinfo -C sib1 -l)"
engine ftree

for lmc in 1 2; do
	step "$((1 << lmc)) LIDs for each port"
	manages sib1 -l $lmc
	for port in /sys/class/infiniband/sib*/ports/*; do
		[ "$(($(cat "$port/lid_mask_count")))" = $lmc ] || fail "LMC of $port"
	done
	all_reach_all $lmc
	programs
	run user pathbits sib1 sib3
	opensm_clean
	opensm_down
done

step "Partitions, of full and of limited members"
partitions sib1 sib2
manages sib1 -P $PARTITIONS
relation 1 sib1 sib2 together
relation 1 sib2 sib3 "sib3 is not a member"
relation 2 sib1 sib2 apart
relation 2 sib1 sib3 together
relation 2 sib3 sib2 together
relation 0x7fff sib2 sib3 together
step "Another port comes into the partition, and one leaves it"
partitions sib2 sib3
kill -HUP "$OPENSM_PID"
within "$soon" in_relation 1 sib3 sib2 together || fail "they have not become members"
relation 1 sib1 sib2 "sib1 is not a member"
relation 2 sib1 sib2 apart
relation 2 sib1 sib3 together
opensm_clean
opensm_down

step "Sweeps under load"
manages sib1
load sib2 sib3
for sweep in 1 2 3; do
	before=$(grep -c 'SUBNET UP' "$OPENSM_LOG")
	kill -HUP "$OPENSM_PID"
	swept() {
		[ "$(grep -c 'SUBNET UP\|HEAVY SWEEP' "$OPENSM_LOG")" -gt "$before" ]
	}
	within "$soon" swept || fail "no sweep: $(tail -n 30 "$OPENSM_LOG")"
	load_goes_on "in sweep $sweep"
done
opensm_clean

step "Two OpenSMs: the one with the lower priority stands by, and takes over"
opensm_down
rm -f "$OPENSM_LOG"
opensm_up sib1 1 -F $OPTIONS -p 10
master=$OPENSM_PID
within "$soon" managed_from sib1 || fail "the first one is not the master"
OPENSM_LOG=/tmp/second.log
opensm_up sib2 1 -F $OPTIONS -p 5
within "$soon" grep -q 'STANDBY' "$OPENSM_LOG" || fail "the second one does not stand by: $(cat $OPENSM_LOG)"
within "$soon" managed_from sib1 || fail "the first one is no longer the master"
load_goes_on "under the first one"
kill -9 "$master"
wait "$master" 2>/dev/null
within "$soon" managed_from sib2 || fail "the second one has not taken over: $(tail -n 30 $OPENSM_LOG)"
shows 'priority 5 state 3 SMINFO_MASTER' sminfo -C sib3
load_goes_on "under the second one"
programs
load_ends
opensm_down
run rmdir $CONFIG/hub* $CONFIG/leaf*
for ((host = 1; host <= HOSTS; host++)); do
	run rdma link del "sib$host"
done
lan_down $HOSTS
run modprobe -r sib
