#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600
# vm-long: --kernel debug --timeout 900
#
# Inside one host another processor transmits what a task posts message upon message, and the task
# transmits by itself what it waits for.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

# On the debug kernel times say little.
case $(uname -r) in
*debug*) messages=5000 exact='' least=20 ;;
*) messages=50000 exact=yes least=4 ;;
esac

managed_by_module
hcas_up
wait_active 60 sib0 sib1
tracing_up

# Opcodes of RC SEND Only, RDMA WRITE Only and RDMA READ Request.
for case in "0x04 ib_send_bw -n $messages" "0x0a ib_write_bw -n $messages" "0x0c ib_read_bw -n $messages" \
	"0x0c ib_read_bw -q 16 -n $((messages / 16))"; do
	step "Another processor has its share: $case"
	# One that the machine has taken away meanwhile has none.
	for _ in 1 2 3; do
		# shellcheck disable=SC2086 # A program with its options.
		transmitted $case -F -s 8
		[ $((BY_OTHER * least)) -le "$BY_POSTER" ] || continue 2
	done
	fail "it has not"
done

for case in "0x04 ib_send_lat" "0x0a ib_write_lat" "0x0c ib_read_lat"; do
	step "It has none of what is waited for: $case"
	# shellcheck disable=SC2086 # As above.
	transmitted $case -F -s 8 -n 500
	[ $((BY_OTHER * 20)) -lt "$BY_POSTER" ] || fail "it has"
done

# Opcodes of RDMA READ Request and RDMA READ Response Only, FetchAdd and ATOMIC Acknowledge.
for case in "read 0x0c 0x10" "atomic 0x14 0x12"; do
	read -r kind question answer <<<"$case"
	step "An answer comes before the next question of a batch: $kind"
	echo >$TRACE/trace
	echo 1 >$TRACE/events/sib/sib_transmit/enable
	run user cost -a sib0 -b sib1 -k "$kind-batch" -n 512
	echo 0 >$TRACE/events/sib/sib_transmit/enable
	read -r first later < <(awk -v question="opcode=$question" -v answer="opcode=$answer" '
		/sib_transmit:/ {
			if (asked) { if (index($0, answer)) first++; else later++ }
			asked = index($0, question)
		}
		END { print first + 0, later + 0 }' $TRACE/trace)
	printf 'questions followed by an answer: %d, by something else: %d\n' "$first" "$later"
	[ "$first" -ge 500 ] || fail "there were more"
	[ $((later * 20)) -lt "$first" ] || fail "answers come later"
done

step "Two programs that post on two processors transmit by themselves"
# softirqs: how long both processors have been in softirqs, in ticks.
softirqs() {
	awk '$1 ~ /^cpu[01]$/ { sum += $8 } END { print sum }' /proc/stat
}
# posted: the packets of the HCA that both send from.
posted() {
	cat /sys/class/infiniband/sib0/ports/1/counters/port_xmit_packets
}
programs=()
for cpu in 0 1; do
	PORT=$((PORT + 1))
	taskset -c $cpu timeout 60 ib_write_bw -d sib1 -p $PORT -F -s 8 -D 10 >/tmp/server.$cpu 2>&1 &
	programs+=($!)
	within 20 listening $PORT || fail "the server does not listen"
	taskset -c $cpu timeout 60 ib_write_bw -d sib0 -p $PORT -F -s 8 -D 10 127.0.0.1 >/tmp/client.$cpu 2>&1 &
	programs+=($!)
done
sleep 1.5
# A processor that the machine takes away for a while looks idle to the other one: the quietest of some times counts.
least='' most=0 samples=()
for _ in 1 2 3 4; do
	ticks=$(softirqs) packets=$(posted)
	sleep 2
	ticks=$(($(softirqs) - ticks)) packets=$(($(posted) - packets))
	printf 'ticks in softirqs: %d of some 400, and %d packets\n' $ticks $packets
	samples+=("$ticks $packets")
	[ $packets -le $most ] || most=$packets
done
for sample in "${samples[@]}"; do
	read -r ticks packets <<<"$sample"
	# Programs that have begun, or ended, amid it are quiet.
	[ $((2 * packets)) -ge $most ] || continue
	[ -n "$least" ] && [ "$ticks" -ge "$least" ] || least=$ticks
done
for program in "${programs[@]}"; do
	wait "$program" || fail "a program failed: $(cat /tmp/client.0 /tmp/client.1)"
done
[ $most -ge 1000 ] || fail "hardly any packets"
[ -z $exact ] || [ "$least" -lt 40 ] || fail "they do not"
no_objects
