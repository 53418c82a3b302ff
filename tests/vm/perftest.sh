#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --timeout 900 -- handoff
# vm-long: --kernel stock --timeout 900 -- udp
# vm-long: --kernel stock --timeout 900 -- handoff matrix
# vm-long: --kernel stock --timeout 900 -- udp matrix
# vm-long: --kernel stock --timeout 900 -- handoff faulty
#
# perftest between two HCAs: every test, transport and size must finish, with a
# row of figures for each size. The matrix has every option with every test that
# knows it. With faults, packets are lost, doubled and reordered at both HCAs while
# reliable connections are tested.
#
#     perftest.sh [handoff|udp [sizes|matrix|faulty]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/rules.sh"

# Sizes of -a: powers of two from 2 to 8 MiB, or to the MTU.
CONNECTED_SIZES=23
DATAGRAM_SIZES=12
ITERATIONS=10
# Of each run of the matrix; a size that fits into a datagram and is sent inline.
MATRIX_ITERATIONS=200
MATRIX_SIZE=64

# quietly TOOL [OPTION]...: both sides, whose output goes to /tmp/perf.
quietly() {
	# The shell that counts ports up is another one.
	PORT=$((PORT + 1))
	(pair sib0 sib1 "$@") >/tmp/perf 2>&1 || {
		cat /tmp/perf
		fail "$*"
	}
}

# perf SIZES TOOL [OPTION]...: the table must have so many rows.
perf() {
	local sizes=$1 rows
	shift
	quietly "$@" -F -a -n "$ITERATIONS"
	head -n 1 /tmp/perf
	rows=$(awk -v n="$ITERATIONS" '$1 ~ /^[0-9]+$/ && $2 == n && $3 + 0 >= 0 && NF >= 5' /tmp/perf | tee /tmp/rows | wc -l)
	[ "$rows" = "$sizes" ] || {
		cat /tmp/perf
		fail "$*: $rows sizes of $sizes"
	}
	sed -n '1p;$p' /tmp/rows
}

# option NAME [OPTION]...: a run of the present TOOL with its BASE and these options
# must give figures.
option() {
	local name=$1
	shift
	quietly "$TOOL" -F -n $MATRIX_ITERATIONS "${BASE[@]}" "$@"
	awk -v n=$MATRIX_ITERATIONS '$1 ~ /^[0-9]+$/ && $2 >= n && $4 + 0 > 0 && NF >= 5' /tmp/perf | grep -q . || {
		cat /tmp/perf
		fail "$TOOL ${BASE[*]} $*: no figures"
	}
	printf '%-14s %-14s %s\n' "$TOOL" "${BASE[-1]}" "$name"
	runs=$((runs + 1))
}

# bandwidth TOOL [OPTION]... and latency TOOL [OPTION]...: begins with a test.
bandwidth() {
	TOOL=$1
	shift
	BASE=("$@")
	option polling
	option bidirectional -b
	option "16 QPs" -q 16
}

latency() {
	TOOL=$1
	shift
	BASE=("$@")
	option polling
}

matrix() {
	local transport kind size=(-s "$MATRIX_SIZE") runs=0
	for transport in RC UC UD; do
		bandwidth ib_send_bw "${size[@]}" -c $transport
		option events -e
		option inline -I $MATRIX_SIZE
		option "SRQ" --use-srq
		# As many receives as there are messages: unreliable ones are lost without.
		option "SRQ, 16 QPs" --use-srq -q 16 -r 4096
		option "events, both ways, 16 QPs" -e -b -q 16
		latency ib_send_lat "${size[@]}" -c $transport
		option events -e
		option inline -I $MATRIX_SIZE
		option "SRQ" --use-srq
	done
	for transport in RC UC; do
		bandwidth ib_write_bw "${size[@]}" -c $transport
		option inline -I $MATRIX_SIZE
		latency ib_write_lat "${size[@]}" -c $transport
		option inline -I $MATRIX_SIZE
	done
	bandwidth ib_read_bw "${size[@]}" -c RC
	option events -e
	option "16 outstanding" -o 16
	latency ib_read_lat "${size[@]}" -c RC
	option events -e
	for kind in FETCH_AND_ADD CMP_AND_SWAP; do
		bandwidth ib_atomic_bw -A $kind
		option events -e
		latency ib_atomic_lat -A $kind
		option events -e
	done
	echo "$runs runs"
}

sizes() {
	local transport
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
	step "Atomics, many queue pairs, both ways, events, a shared receive queue, inline"
	pair sib0 sib1 ib_atomic_bw -F -n 100
	pair sib0 sib1 ib_atomic_lat -F -n 100 -A CMP_AND_SWAP
	pair sib0 sib1 ib_write_bw -F -n 100 -q 16
	pair sib0 sib1 ib_send_bw -F -n 100 -b
	pair sib0 sib1 ib_send_bw -F -n 100 -e
	pair sib0 sib1 ib_send_bw -F -n 100 --use-srq -q 4
	pair sib0 sib1 ib_send_lat -F -n 100 -s 64 -I 64
}

# all_reliable SIZE: a run of each test of reliable connections.
all_reliable() {
	local size=(-s "$1") kind
	for kind in send write read; do
		bandwidth ib_${kind}_bw -c RC "${size[@]}"
		latency ib_${kind}_lat -c RC "${size[@]}"
	done
}

faulty() {
	local fault probability runs=0
	for fault in drop duplicate reorder; do
		for probability in 1 5; do
			begin_to_suffer "$fault in probability=$probability% seed={N}"
			all_reliable 8
			all_reliable 65536
			latency ib_atomic_lat -A FETCH_AND_ADD
			end_to_suffer
		done
	done
	echo "$runs runs"
}

datapath "${1:-handoff}"
fabric_up
case ${2:-sizes} in
sizes | matrix | faulty) "${2:-sizes}" ;;
*) fail "what to run is sizes, matrix or faulty, not '$2'" ;;
esac
fabric_down
