#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600
# vm-long: --kernel debug --timeout 900
#
# The tracepoints of the driver tell of work requests, packets, completions,
# repeats and errors; nothing is told when nobody listens.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

TRACE=/sys/kernel/tracing
DEBUG=/sys/kernel/debug/sib

# told EVENT PATTERN LEAST: there are that many such lines.
told() {
	local count
	count=$(grep -c "$1: .*$2" /tmp/trace)
	printf '%s %s: %d\n' "$1" "$2" "$count"
	[ "$count" -ge "$3" ] || {
		tail -n 20 /tmp/trace
		fail "$1 was told $count times only"
	}
}

listen() {
	local event
	for event; do
		echo "$((1 - ${OFF:-0}))" >$TRACE/events/sib/"$event"/enable || fail "no event $event"
	done
}

mountpoint -q $TRACE || run mount -t tracefs none $TRACE
mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
fabric_up
ls $TRACE/events/sib
echo 20000 >$TRACE/buffer_size_kb

step "Nobody listens"
echo >$TRACE/trace
pair sib0 sib1 ibv_rc_pingpong -n 10 >/dev/null
! grep sib_ $TRACE/trace || fail "something was told"

step "A ping-pong"
listen sib_post sib_transmit sib_receive sib_complete
pair sib0 sib1 ibv_rc_pingpong -n 50 >/dev/null
cp $TRACE/trace /tmp/trace
echo >$TRACE/trace
told sib_post "length=4096" 100
told sib_transmit "opcode=0x04 .*packets=" 100
told sib_receive "opcode=0x04 .*length=4096" 100
told sib_receive "opcode=0x11" 100
told sib_complete "queue=send status=0" 100
told sib_complete "queue=recv status=0" 100

step "Repeats and errors"
listen sib_retry sib_error
echo 'cut in after=20' >$DEBUG/sib1/1/faults
ibv_rc_pingpong -d sib1 -i 1 -p 18700 -n 100 >/dev/null 2>&1 &
server=$!
within 20 listening 18700 || fail "no server"
! timeout 60 ibv_rc_pingpong -d sib0 -i 1 -p 18700 -n 100 127.0.0.1 >/dev/null 2>&1 ||
	fail "a cut cable carries"
kill $server
echo clear >$DEBUG/sib1/1/faults
cp $TRACE/trace /tmp/trace
told sib_retry "cause=timeout" 7
told sib_error "error=send_queue status=12" 1
told sib_complete "status=12" 1

OFF=1 listen sib_post sib_transmit sib_receive sib_complete
# causes CAUSE RULE: data under this rule at sib1 is sent again for this cause.
causes() {
	echo >$TRACE/trace
	echo "$2" >$DEBUG/sib1/1/faults
	run user data -a sib0 -b sib1 -t rc -n 6 -N 2
	echo clear >$DEBUG/sib1/1/faults
	cp $TRACE/trace /tmp/trace
	told sib_retry "cause=$1" 1
}
causes sequence_nak "drop in opcode=0x06 probability=20%"
causes implied_nak "drop out opcode=0x0e probability=5%"
causes reminder "drop in probability=5%"
causes rnr_nak "drop in probability=1%"
echo >$TRACE/trace
run user errors sib0 sib1
cp $TRACE/trace /tmp/trace
for error in send_queue request access; do
	told sib_error "error=$error" 1
done

OFF=1 listen sib_retry sib_error
echo >$TRACE/trace
pair sib0 sib1 ibv_rc_pingpong -n 10 >/dev/null
! grep sib_ $TRACE/trace || fail "something was told"
opensm_clean
fabric_down
