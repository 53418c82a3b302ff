#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600
# vm-long: --kernel debug --timeout 1200
#
# A network that loses, repeats, damages and reorders datagrams: no byte is wrong, no
# completion is missing, and reliable connections do not break.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

# network WORDS...: what netem does to the datagrams of the switch to itself.
network() {
	run tc qdisc replace dev lo root netem limit 100000 "$@"
}

# sent WORD: a figure of netem's statistics.
sent() {
	tc -s qdisc show dev lo | grep -o "$1 [0-9]*" | cut -d ' ' -f 2
}

datapath udp
run modprobe sch_netem
run ip link set lo up
fabric_up

for words in 'loss 1%' 'loss 5%' 'duplicate 5%' 'corrupt 5%' 'delay 1ms reorder 25%'; do
	step "$words"
	# shellcheck disable=SC2086 # several words
	network $words
	run user data -a sib0 -b sib1 -t rc -n 1
done
[ "$(sent Sent)" -gt 1000000 ] || fail "nothing has gone that way"
run tc qdisc del dev lo root

step "The last datagram of connections is lost, and data comes all the same"
# Bytes of what precedes a datagram of management: IPv4, UDP, outer header, LRH, BTH and DETH.
MAD=$((20 + 8 + 16 + 8 + 12 + 8))
MGMT_CLASS_CM=0x07 RTU=0x0014
run modprobe sib_cm
run tc qdisc add dev lo root handle 1: prio
run tc filter add dev lo parent 1: protocol ip u32 \
	match u8 $MGMT_CLASS_CM 0xff at $((MAD + 1)) match u16 $RTU 0xffff at $((MAD + 16)) \
	action drop
"$USER_PROGRAMS/sibcm" listen sib1 >/tmp/listener 2>&1 &
listener=$!
within 20 grep -q '^to connect' /tmp/listener || fail "nobody listens"
run user sibcm connect -c 3 -i 0.1 sib0 "$(cat /sys/class/infiniband/sib1/ports/1/lid)" \
	"$(cat /sys/class/infiniband/sib1/ports/1/gids/0)"
wait $listener || fail "$(cat /tmp/listener)"
[[ $(tc -s filter show dev lo parent 1:) == *"dropped "[1-9]* ]] || fail "no datagram was lost"
run tc qdisc del dev lo root
run rmmod sib_cm
fabric_down
