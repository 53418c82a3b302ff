#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --timeout 600
# vm-long: --kernel debug --timeout 900
#
# What sib_cm must not do to connections of ib_cm that it sees to: one that is older than it
# stays as it is; LAPs that somebody forges, who knows the names of a connection, load
# nothing; and one whose RTU is lost gets its path all the same, without harm.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"
. "$(dirname "$0")/rails.sh"
. "$(dirname "$0")/watched.sh"

FORGED=2400

# consumed: how many datagrams of communication management sib_cm has taken.
consumed() {
	awk '$1 == "consumed" { print $2 }' /sys/kernel/debug/sib_cm/datagrams
}

# consumed_since COUNT NUMBER: so many, after so many.
consumed_since() {
	[ "$(consumed)" -ge $(($1 + $2)) ]
}

# strangers_heard: ib_cm has heard of the LAPs that were for nobody.
strangers_heard() {
	[ "$(heard lap)" = "$(awk '{ print $NF }' /tmp/forger)" ]
}

# loaded NUMBER: so many paths have been.
loaded() {
	[ "$(seen loads)" = "$1" ]
}

rtu_since() {
	[ "$(heard rtu)" -gt "$1" ]
}

subnet_manager module
datapath udp
run ip link set lo up
ip_fabric
addresses
run modprobe rdma_ucm
run modprobe ib_umad
pings $FAR 56 1

step "A connection that is older than sib_cm"
rping_up
run modprobe sib_cm watch=2
policies sib0 sib1
# One that is known is offered a path 200 ms after it began, and all are looked at each five
# seconds.
sleep 6
goes_on
! grep ' qp ' $SEEN || gives_up "it is known"
[ "$(seen questions) $(seen loads)" = "0 0" ] || gives_up "something is done for it"
! armed 1 || gives_up "a queue pair may migrate"
rping_down
! grep ' qp ' $SEEN || gives_up "its end is known"

step "Forged LAPs for a connection"
levels respond
rping_up
within 20 ends 2 'alternate none' || gives_up "no connection is known"
before=$(consumed)
"$USER_PROGRAMS/forger" sib0 sib1 $FORGED >/tmp/forger || gives_up "the forger"
cat /tmp/forger
within 30 consumed_since "$before" "$(awk '{ print $1 }' /tmp/forger)" ||
	gives_up "not all of them have been taken: $(consumed) after $before"
within 30 strangers_heard || gives_up "ib_cm has heard of $(heard lap) LAPs"
goes_on
loaded 0 || gives_up "a forged path has been loaded"
ends 2 'alternate none' || gives_up "there is an alternate path"
[ "$(said apr) $(heard apr)" = "0 0" ] || gives_up "ib_cm knows of APRs"

step "One with nothing wrong would have done it"
run user forger sib0 sib1 right
within 20 loaded 1 || gives_up "a path has not been loaded"
goes_on

step "The connection is none the worse for it"
levels full
protected
fails_over 1
goes_on
rping_down
mend 1
[ "$(heard lap)" = "$(awk '{ print $NF }' /tmp/forger)" ] || gives_up "ib_cm has heard of $(heard lap) LAPs"

step "An RTU that is lost"
# Bytes of what precedes a datagram of management: IPv4, UDP, outer header, LRH, BTH and DETH.
MAD=$((20 + 8 + 16 + 8 + 12 + 8))
MGMT_CLASS_CM=0x07 RTU=0x0014
run tc qdisc add dev lo root handle 1: prio
run tc filter add dev lo parent 1: protocol ip u32 \
	match u8 $MGMT_CLASS_CM 0xff at $((MAD + 1)) match u16 $RTU 0xffff at $((MAD + 16)) \
	action drop
rtus=$(heard rtu) loads=$(seen loads)
rping_begins
protected
loaded $((loads + 2)) || gives_up "the path is not that of both ends"
[[ $(tc -s filter show dev lo parent 1:) == *"dropped "[1-9]* ]] || gives_up "no RTU was lost"
[ "$(heard rtu)" = "$rtus" ] || gives_up "an RTU has come"
! grep 'ping data' /tmp/server || gives_up "rping goes on without"
run tc qdisc del dev lo root
within 60 rtu_since "$rtus" || gives_up "ib_cm does not hear of the RTU"
goes_on
fails_over 1
goes_on
rping_down
mend 1

no_policies
run rmmod sib_cm
no_objects
ip_down
