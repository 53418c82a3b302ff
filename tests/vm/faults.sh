#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- handoff few
# vm: --kernel stock --timeout 300 -- udp few
# vm-long: --kernel stock --timeout 600 -- handoff
# vm-long: --kernel stock --timeout 600 -- udp
# vm-long: --kernel debug --timeout 1800 -- handoff
# vm-long: --kernel debug --timeout 1800 -- udp
# vm-long: --kernel stock --timeout 1800 -- handoff 8
# vm-long: --kernel stock --timeout 1800 -- udp 8
#
# Packets are lost, doubled, reordered, delayed and damaged at the ports of both
# HCAs while every byte and every completion of reliable connections is checked;
# what is delayed keeps its order; cables are cut one way; HCAs go while packets are held.
#
#     faults.sh [handoff|udp [SETUPS|few]]
#
# With `few`, data suffer from two kinds of faults alone, and unreliable messages from none.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/rules.sh"

setups=${2:-2}
few=
[ "$setups" != few ] || few=1 setups=1

# refuses RULE: a rule that makes no sense, which the log says.
refuses() {
	local before
	before=$(dmesg | grep -c 'sib: faults: ')
	! echo "$1" 2>/dev/null >"$DEBUG/sib0/1/faults" || fail "'$1' was taken"
	[ "$(dmesg | grep -c 'sib: faults: ')" -gt "$before" ] || fail "'$1': nothing in the log"
}

# suffers RULE...: data under the same rules at both HCAs.
suffers() {
	begin_to_suffer "$@"
	run user data -a sib0 -b sib1 -t rc -n 2 -N "$setups"
	end_to_suffer
}

dropped_icrc() {
	awk '$1 == "icrc" { sum += $2 } END { print sum + 0 }' "$DEBUG"/sib-*/dropped
}

datapath "${1:-handoff}"
fabric_up

step "Rules"
for rule in nonsense "drop" "drop up" "drop in probability=101%" "drop in colour=red" "reorder in distance=0"; do
	refuses "$rule"
done
[ "$(cat $DEBUG/sib0/1/faults)" = "# held=0 lost=0" ] || fail "a refused rule has left something"
for _ in 1 2 3 4 5 6 7 8; do
	rules sib0 "drop in probability=0% qp=0x12345"
done
! echo "drop in probability=0%" 2>/dev/null >"$DEBUG/sib0/1/faults" || fail "a ninth rule was taken"
[ "$(grep -c '^drop in probability=0.0000% qp=0x12345 seed=0x0 # seen=0 struck=0$' $DEBUG/sib0/1/faults)" = 8 ] ||
	fail "the rules are not those that were given"
rules sib0 clear

if [ -z "$few" ]; then
	suffers "drop in probability=1% seed={N}"
	suffers "drop in probability=5% seed={N}"
	suffers "drop out probability=5% seed={N}"
	suffers "duplicate in probability=1% seed={N}"
	suffers "duplicate in probability=5% seed={N}"
	suffers "reorder in probability=1% seed={N}"
	suffers "reorder in probability=5% seed={N}"
	suffers "drop in probability=2% seed={N}" "duplicate out probability=2% seed={N}" \
		"reorder out probability=2% seed={N}" "corrupt in probability=1% seed={N}"
fi
suffers "delay in time=300 jitter=700 probability=10% seed={N}"
before=$(dropped_icrc)
suffers "corrupt out probability=2% seed={N}"
[ "$(dropped_icrc)" -gt "$before" ] || fail "no damage was found"
opensm_clean

# tolerates RULE...: unreliable messages under the same rules; what arrives is whole.
tolerates() {
	local type
	begin_to_suffer "$@"
	for type in uc ud; do
		run user unreliable sib0 sib1 $type 2000 64 >/tmp/arrived
		cat /tmp/arrived
		# Up to 16 packets make a message, each of which is needed.
		awk '/messages/ { many = $2 * 4 >= $4 } END { exit !many }' /tmp/arrived || fail "hardly anything arrives"
	done
	[ "$(struck sib1)" -gt 0 ] || fail "nothing was struck"
	rules sib0 clear
	rules sib1 clear
}
if [ -z "$few" ]; then
	step "Unreliable messages"
	tolerates "drop in probability=1% seed={N}"
	tolerates "drop in probability=5% seed={N}"
	tolerates "duplicate in probability=5% seed={N}"
	tolerates "reorder in probability=5% seed={N}"
	tolerates "delay in time=300 jitter=700 probability=5% seed={N}"
	tolerates "corrupt in probability=2% seed={N}"
fi

# Over UDP the network has its own ways to have those of two processors overtake each other.
if [ "${1:-handoff}" = handoff ]; then
	step "What is delayed keeps its order while other packets pass"
	out_of_sequence() {
		rdma statistic show link sib1/1 | sed -n 's/.*out_of_seq_request \([0-9]*\).*/\1/p'
	}
	# Opcode of RC RDMA WRITE Only.
	rules sib0 "delay out time=200 opcode=0x0a"
	(
		PORT=19000
		while [ ! -e /tmp/enough ]; do
			paired sib1 sib0 ib_send_bw -F -s 8 -n 20000 || exit
		done
	) >/tmp/beside 2>&1 &
	beside=$!
	before=$(out_of_sequence)
	pair sib1 sib0 ib_write_bw -F -s 8 -n 20000 -u 20
	after=$(out_of_sequence)
	: >/tmp/enough
	wait $beside || {
		cat /tmp/beside
		fail "what passes beside it"
	}
	[ "$(struck sib0)" -ge 20000 ] || fail "hardly anything was delayed"
	[ "$after" = "$before" ] || fail "$((after - before)) packets have come out of sequence"
	rules sib0 clear
fi

step "One way is cut"
rules sib1 "cut in after=100"
ibv_rc_pingpong -d sib1 -i 1 -p 18600 -n 1000 >/tmp/cut 2>&1 &
server=$!
within 20 listening 18600 || fail "no server"
timeout 60 ibv_rc_pingpong -d sib0 -i 1 -p 18600 -n 1000 127.0.0.1 >/tmp/cut.client 2>&1
status=$?
[ $status != 0 ] && [ $status != 124 ] || fail "status $status of the client, over a cable that is cut"
grep "transport retry counter exceeded" /tmp/cut.client || {
	cat /tmp/cut.client
	fail "no word of it"
}
kill $server
cat $DEBUG/sib1/1/faults
rules sib1 clear
wait_active 60 sib0 sib1
pair sib0 sib1 ibv_rc_pingpong -n 100

step "Many packets that were held meet rules where they arrive"
rules sib0 "delay out time=20000"
rules sib0 "drop in probability=0%"
run timeout 60 "$USER_PROGRAMS/data" -a sib0 -b sib0 -t rc -n 1 -N 1
for device in sib0 sib1; do
	rules $device clear
	rules $device "delay out time=20000"
	rules $device "drop in probability=0%"
done
run timeout 60 "$USER_PROGRAMS/data" -a sib0 -b sib1 -t rc -n 1 -N 1
rules sib1 clear
rules sib0 clear

step "What was held goes when new rules take the place of the old ones"
rules sib0 "delay out time=3600000000 count=1"
"$USER_PROGRAMS/data" -a sib0 -b sib1 -t rc -n 1 -N 1 -T 18 >/tmp/late 2>&1 &
late=$!
within 60 grep -q '^# held=1' $DEBUG/sib0/1/faults || fail "nothing is held: $(cat /tmp/late)"
# The shell would write line by line.
cat >$DEBUG/sib0/1/faults <<'END' || fail "the rules are not taken"
clear
drop in probability=0%
END
within 5 grep -q '^# held=0' $DEBUG/sib0/1/faults || fail "it is held still"
wait $late || fail "data: $(cat /tmp/late)"
rules sib0 clear

step "HCAs go while packets are held"
rules sib0 "delay out time=100000000"
"$USER_PROGRAMS/data" -a sib0 -b sib1 -t rc >/tmp/held 2>&1 &
holder=$!
within 60 grep '^# held=[1-9]' $DEBUG/sib0/1/faults || fail "nothing is held: $(cat /tmp/held)"
kill -9 $holder || fail "data came through: $(cat /tmp/held)"
wait $holder
fabric_down
[ ! -e $DEBUG ] || fail "debugfs still has files"
