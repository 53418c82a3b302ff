#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600
# vm-long: --kernel debug --timeout 1200
#
# A network that loses, repeats and reorders datagrams: no byte is wrong, no
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

for words in 'loss 1%' 'loss 5%' 'duplicate 5%' 'delay 1ms reorder 25%'; do
	step "$words"
	# shellcheck disable=SC2086 # several words
	network $words
	run user data -a sib0 -b sib1 -t rc -n 1
done
run tc qdisc del dev lo root
fabric_down
