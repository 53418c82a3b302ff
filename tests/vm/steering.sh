#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 -- 8
# vm-long: --kernel stock --timeout 600
# vm-long: --kernel debug --timeout 900 -- 6
#
# Between two switches of one host, what a task posts message upon message is sent by another
# processor, and what waits for answers is not, be it short or long. Cables and devices go while
# that one sends.
#
#     steering.sh [ROUNDS]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/cables.sh"

# On the debug kernel times say little.
case $(uname -r) in
*debug*) messages=10000 hurries= ;;
*) messages=50000 hurries=yes ;;
esac
rounds=${1:-20}

# softirqs CPU: how long it has been in softirqs, in ticks.
softirqs() {
	awk -v cpu="cpu$1" '$1 == cpu { print $8 }' /proc/stat
}

# shared COMMAND [ARG]...: how long either processor is in softirqs while COMMAND runs on the first.
shared() {
	BY_POSTER=$(softirqs 0) BY_OTHER=$(softirqs 1)
	pair sib1 sib0 taskset -c 0 "$@"
	BY_POSTER=$(($(softirqs 0) - BY_POSTER)) BY_OTHER=$(($(softirqs 1) - BY_OTHER))
	printf 'ticks in softirqs: %d where messages are posted, %d on the other processor\n' $BY_POSTER $BY_OTHER
}

# steered COMMAND [ARG]...: the other one has to have its share. One that the machine has taken away meanwhile has less
# time to be seen at it.
steered() {
	for _ in 1 2 3; do
		shared "$@"
		[ -n "$hurries" ] || return 0
		[ $((BY_OTHER * 4)) -le "$BY_POSTER" ] || return 0
	done
	fail "it does not"
}

# both_work: neither does more than eight times what the other one does.
both_work() {
	[ $((BY_OTHER * 8)) -gt "$BY_POSTER" ] && [ $((BY_POSTER * 8)) -gt "$BY_OTHER" ]
}

plug() {
	cable a v0 "$(link_address v1)"
	cable b v1 "$(link_address v0)"
	wait_active 60 sib0 sib1
	within 20 routed sib0 sib1 || fail "no way from sib0 to sib1"
}

managed_by_module
run modprobe sib
configfs_up
veth
hca_up sib0 v0
hca_up sib1 v1
plug

step "Another processor sends what a task posts message upon message"
steered ib_write_bw -F -s 8 -n $messages

step "and on 16 queue pairs"
steered ib_write_bw -F -s 8 -q 16 -n $((messages / 16))

tracing_up
for case in "0x04 ib_send_bw" "0x0a ib_write_bw"; do
	step "It transmits for 16 queue pairs as well: $case"
	# One that the machine has taken away meanwhile does not.
	for _ in 1 2 3; do
		# shellcheck disable=SC2086 # Opcode and program.
		transmitted $case -F -s 8 -q 16 -n $((messages / 16))
		[ -n "$hurries" ] || continue 2
		[ $((BY_OTHER * 4)) -le "$BY_POSTER" ] || continue 2
	done
	fail "it does not"
done
for case in "0x0a ib_write_bw -n $messages" "0x0c ib_read_bw -q 16 -n $((messages / 16))"; do
	step "It does not for one, or for RDMA READ: $case"
	# One that the machine has taken away meanwhile leaves it to the other one.
	for ((try = 1; ; try++)); do
		# shellcheck disable=SC2086 # A program with its options.
		transmitted $case -F -s 8
		[ $((BY_OTHER * 4)) -ge "$BY_POSTER" ] && [ -n "$hurries" ] || break
		[ $try -lt 3 ] || fail "it does"
	done
done

step "Another processor sends long messages"
steered ib_write_bw -F -s 65536 -n $((messages / 50))

step "It does not transmit what its acknowledgements allow: 0x0a ib_write_bw -q 16"
# One that the machine has taken away meanwhile does.
for ((try = 1; ; try++)); do
	transmitted 0x0a ib_write_bw -F -s 65536 -q 16 -n $((messages / 100))
	[ $((BY_OTHER * 4)) -ge "$BY_POSTER" ] && [ -n "$hurries" ] || break
	[ $try -lt 3 ] || fail "it does"
done

step "and what is asked for by RDMA READ"
for ((try = 1; ; try++)); do
	steered ib_read_bw -F -s 65536 -n $((messages / 50))
	! both_work && [ -n "$hurries" ] || break
	[ $try -lt 3 ] || fail "one of them does all"
done

for tool in "ib_write_lat -s 8" "ib_write_lat -s 65536" "ib_read_lat -s 65536"; do
	step "It does not send what waits for answers: $tool"
	shared $tool -F -n $((messages / 10))
	[ $((BY_OTHER * 4)) -lt $BY_POSTER ] || fail "it does"
done

step "Two programs that answer each other send by themselves"
echo >$TRACE/trace
echo 1 >$TRACE/events/sib/sib_transmit/enable
pair sib1 sib0 ib_send_lat -F -s 8 -n $((messages / 10))
echo 0 >$TRACE/events/sib/sib_transmit/enable
# LID and task of each SEND Only.
sed -n 's/^ *ib_send_lat-\([0-9]*\) .* slid=\([0-9]*\) .* opcode=0x04 .*/\2 \1/p' $TRACE/trace | sort | uniq -c | tee /tmp/senders
awk '{ all[$2] += $1; if ($1 > most[$2]) { most[$2] = $1; who[$2] = $3 } }
	END { for (lid in all) { ends++; tasks[who[lid]]; if (most[lid] * 4 < all[lid] * 3) exit 1 }
		exit !(ends == 2 && length(tasks) == 2) }' /tmp/senders || [ -z $hurries ] || fail "they do not"

step "No byte is wrong"
run user data -a sib0 -b sib1 -t rc -n 5

step "Cables and devices go meanwhile"
for ((round = 1; round <= rounds; round++)); do
	PORT=$((PORT + 1)) qps=$((round / 3 % 2 * 15 + 1))
	timeout 60 ib_write_bw -d sib1 -p $PORT -F -s 8 -q $qps -D 20 >/tmp/server 2>&1 &
	server=$!
	within 20 listening $PORT || fail "the server does not listen"
	timeout 60 ib_write_bw -d sib0 -p $PORT -F -s 8 -q $qps -D 20 -u 5 127.0.0.1 >/tmp/client 2>&1 &
	client=$!
	sent=$(cat /sys/class/infiniband/sib0/ports/1/counters/port_xmit_packets)
	busy() {
		[ "$(cat /sys/class/infiniband/sib0/ports/1/counters/port_xmit_packets)" -gt $((sent + messages / 20)) ]
	}
	within 30 busy || fail "nothing is sent: $(cat /tmp/client)"
	case $((round % 3)) in
	0) run rmdir $CONFIG/a && run rmdir $CONFIG/b ;;
	1) run rmdir $CONFIG/b && run rmdir $CONFIG/a ;;
	2) run rdma link delete sib0 ;;
	esac
	kill $client $server
	wait $client $server
	if [ $((round % 3)) = 2 ]; then
		run rmdir $CONFIG/a $CONFIG/b
		hca_up sib0 v0
	fi
	plug
done
no_objects
printf 'after %d rounds all is there again\n' $rounds
steered ib_write_bw -F -s 8 -n $messages
run rmdir $CONFIG/a $CONFIG/b
