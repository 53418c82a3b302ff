#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 --package tshark
# vm-long: --kernel debug --timeout 1200 --package tshark
#
# What tools/capture writes is InfiniBand to Wireshark: opcodes, LIDs, queue pairs;
# none of it malformed. A buffer that runs over counts what it loses.

. "$(dirname "$0")/lib.sh"

CAPTURE=$(dirname "$0")/../../tools/capture
PCAP=/tmp/sib.pcap

# captured PORT OPTIONS -- COMMAND...: runs COMMAND while PORT is captured.
captured() {
	local port=$1 options=()
	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	"$CAPTURE" -w $PCAP ${options[@]+"${options[@]}"} "$port" 2>/tmp/capture &
	local tool=$!
	within 20 grep -q '^on' "/sys/kernel/debug/sib/${port%:*}/${port#*:}/capture" || {
		cat /tmp/capture
		fail "the capture does not begin"
	}
	"$@"
	kill -INT $tool
	wait $tool || fail "status $? of the capture: $(cat /tmp/capture)"
	cat /tmp/capture
	grep -qx off "/sys/kernel/debug/sib/${port%:*}/${port#*:}/capture" || fail "the capture goes on"
}

# shown FILTER LEAST [MOST]: so many packets pass a display filter.
shown() {
	local count
	count=$(tshark -n -r $PCAP -Y "$1" 2>/dev/null | wc -l)
	printf '%s: %d\n' "$1" "$count"
	[ "$count" -ge "$2" ] && [ "$count" -le "${3:-1000000}" ] || fail "$count packets match $1"
}

whole() {
	tshark -n -r $PCAP -Y _ws.malformed 2>/dev/null | head -n 5
	shown _ws.malformed 0 0
}

lid() {
	printf '%d' "$(cat "/sys/class/infiniband/$1/ports/1/lid")"
}

run "$CAPTURE" --help
! "$CAPTURE" nothing0 2>/dev/null || fail "a port that is not there was captured"
mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
fabric_up
tshark --version | head -n 1

step "A reliable connection"
captured sib0:1 --strict -- pair sib0 sib1 ibv_rc_pingpong -n 50 >/dev/null
cat /tmp/capture
tshark -n -r $PCAP -c 5
tshark -n -r $PCAP -T fields -e infiniband.bth.opcode 2>/dev/null | sort | uniq -c
shown "infiniband.bth.opcode == 0 && infiniband.lrh.slid == $(lid sib0)" 50
shown "infiniband.bth.opcode == 1 && infiniband.lrh.slid == $(lid sib0)" 100
shown "infiniband.bth.opcode == 2 && infiniband.lrh.dlid == $(lid sib0)" 50
shown "infiniband.bth.opcode == 17 && infiniband.aeth" 50
whole

step "Datagrams"
captured sib1:1 --strict -- pair sib0 sib1 ibv_ud_pingpong -n 50 >/dev/null
shown "infiniband.bth.opcode == 100 && infiniband.deth && infiniband.lrh.slid == $(lid sib1)" 50 51
whole

step "Writes of many packets, which come one by one while they are captured"
captured sib0:1 --strict -- pair sib1 sib0 ib_write_bw -F -s 65536 -n 5 >/dev/null
shown "infiniband.bth.opcode == 6 && infiniband.reth" 5
shown "infiniband.bth.opcode == 7" 70
shown "infiniband.bth.opcode == 8" 5
whole

step "Management"
captured sib1:1 --strict -- smpquery -C sib0 nodedesc "$(lid sib1)" >/dev/null
shown "infiniband.lrh.vl == 15 && infiniband.mad" 2
whole

step "Too much"
captured sib0:1 --size 16 -- pair sib0 sib1 ib_send_bw -F -s 1048576 -n 10 >/dev/null
grep -E '[1-9][0-9]* lost' /tmp/capture || fail "nothing was lost"
whole
opensm_clean
fabric_down
