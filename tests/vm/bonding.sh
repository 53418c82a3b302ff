#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600
#
# Two ports of an HCA are one interface of IP, by the kernel's bonding: when the one goes
# down the other takes over, and a stream of TCP goes on.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ip.sh"

# Of a stream, which goes there for so long at least: the port goes when a tenth has been sent.
BYTES=60000000
SECONDS_THERE=20

# port NUMBER disable|enable: of sib0, whose ports are on those of the switch with the
# same numbers.
port() {
	printf '$ ibportstate -D 0,1 %s %s\n' "$@"
	timeout 30 ibportstate -C sib1 -D 0,1 "$1" "$2" >/dev/null || fail "ibportstate $2"
}

port_is() {
	grep -q "$2" "/sys/class/infiniband/sib0/ports/$1/state"
}

active_slave() {
	[ "$(cat /sys/class/net/bond0/bonding/active_slave)" = "$1" ]
}

# sent INTERFACE: the bytes that it has; carries INTERFACE BEFORE: a tenth of the stream more.
sent() {
	cat "/sys/class/net/$1/statistics/tx_bytes"
}

carries() {
	[ "$(sent "$1")" -gt $(($2 + BYTES / 10)) ]
}

ip_fabric sib1 1
SECOND_IF=$(ipoib_of sib0 2) || fail "the second port has no network interface"
FIRST_IF=$NEAR_IF
run modprobe bonding max_bonds=0
run ip link add bond0 type bond mode active-backup miimon 100 fail_over_mac active
run ip link set "$FIRST_IF" master bond0
run ip link set "$SECOND_IF" master bond0
NEAR_IF=bond0
addresses
within 20 active_slave "$FIRST_IF" || fail "the first port is not the active one"
pings $FAR 2000 5

step "The first port goes down under a stream"
before=$(sent "$FIRST_IF")
stream $FAR $BYTES $SECONDS_THERE &
job=$!
within 60 carries "$FIRST_IF" "$before" || fail "the stream does not begin"
before=$(sent "$SECOND_IF")
port 1 disable
within 30 active_slave "$SECOND_IF" || fail "the second port does not take over"
wait $job || fail "the stream"
carries "$SECOND_IF" "$before" || fail "the stream had ended before"
pings $FAR 2000 5
port 1 enable
within 30 port_is 1 ACTIVE || fail "the first port is not ACTIVE again"
within 60 grep -q 1 "/sys/class/net/$FIRST_IF/carrier" || fail "the first port has no carrier"

step "Then the second"
port 2 disable
within 30 active_slave "$FIRST_IF" || fail "the first port does not take over"
pings $FAR 2000 5
stream $FAR $((BYTES / 10))
port 2 enable
within 30 port_is 2 ACTIVE || fail "the second port is not ACTIVE again"

run ip link del bond0
NEAR_IF=$FIRST_IF
run modprobe -r bonding
ip_down
