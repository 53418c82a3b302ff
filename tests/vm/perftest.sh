#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 900 -- handoff
# vm-long: --kernel stock --timeout 900 -- udp
#
# perftest between two HCAs: every test, transport and size must finish, with a
# row of figures for each size.
#
#     perftest.sh [handoff|udp]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

# Sizes of -a: powers of two from 2 to 8 MiB, or to the MTU.
CONNECTED_SIZES=23
DATAGRAM_SIZES=12
ITERATIONS=10

# perf SIZES TOOL [OPTION]...: the table must have so many rows.
perf() {
	local sizes=$1 rows
	shift
	pair sib0 sib1 "$@" -F -a -n "$ITERATIONS" >/tmp/perf 2>&1 || {
		cat /tmp/perf
		fail "$*"
	}
	head -n 1 /tmp/perf
	rows=$(awk -v n="$ITERATIONS" '$1 ~ /^[0-9]+$/ && $2 == n && $3 + 0 >= 0 && NF >= 5' /tmp/perf | tee /tmp/rows | wc -l)
	[ "$rows" = "$sizes" ] || {
		cat /tmp/perf
		fail "$*: $rows sizes of $sizes"
	}
	sed -n '1p;$p' /tmp/rows
}

datapath "${1:-handoff}"
fabric_up
for transport in RC UC; do
	step "$transport"
	perf $CONNECTED_SIZES ib_send_bw -c $transport
	perf $CONNECTED_SIZES ib_send_lat -c $transport
	perf $CONNECTED_SIZES ib_write_bw -c $transport
	perf $CONNECTED_SIZES ib_write_lat -c $transport
done
perf $CONNECTED_SIZES ib_read_bw
perf $CONNECTED_SIZES ib_read_lat
step "UD"
perf $DATAGRAM_SIZES ib_send_bw -c UD
perf $DATAGRAM_SIZES ib_send_lat -c UD
step "Atomics, many queue pairs, both ways, events"
pair sib0 sib1 ib_atomic_bw -F -n 100
pair sib0 sib1 ib_atomic_lat -F -n 100 -A CMP_AND_SWAP
pair sib0 sib1 ib_write_bw -F -n 100 -q 16
pair sib0 sib1 ib_send_bw -F -n 100 -b
pair sib0 sib1 ib_send_bw -F -n 100 -e
fabric_down
