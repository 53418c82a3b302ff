#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- 3
# vm-long: --kernel stock --timeout 2400 -- 100
# vm-long: --kernel debug --timeout 1200 -- 3
#
# A ring of three hosts: three switches with a cable between each two of them. At random
# one host is cut off, then the cable between the other two, while these have a reliable
# connection of which every byte is checked: it is never lost, and the third host returns.
#
#     ring.sh [ROUNDS [SEED]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"
. "$(dirname "$0")/lan.sh"
. "$(dirname "$0")/user.sh"

rounds=${1:-3} seed=${2:-$RANDOM}
RANDOM=$seed
HOSTS=3
# Two links of each HCA, and the cables.
LINKS=$((2 * HOSTS + 3))

# The debug kernel is a lot slower.
case $(uname -r) in
*debug*) soon=120 messages=20 ;;
*) soon=30 messages=100 ;;
esac

# whole DEVICE: the whole fabric is seen from there.
whole() {
	links "$1" $LINKS && port_active "$1"
}

# round NUMBER
round() {
	local third=$((RANDOM % HOSTS + 1)) a b
	a=$((third % HOSTS + 1))
	b=$((a % HOSTS + 1))
	step "Round $1: host $third is cut off, hosts $a and $b have a connection"
	load "sib$a" "sib$b"
	run ip link set "port$third" down
	load_goes_on "when the host is cut off"
	within "$soon" switches "sib$a" 2 || fail "host $third is still there"
	load_goes_on "without the host"
	run ip link set "port$third" up
	within "$soon" whole "sib$a" || fail "host $third has not returned"
	within "$soon" whole "sib$third" || fail "host $third does not see the others"
	load_goes_on "when the host is back"
	silence "$a" "$b"
	within "$soon" links "sib$third" $((LINKS - 1)) || fail "the cable is still there"
	load_goes_on "the other way round"
	speak "$a" "$b"
	within "$soon" whole "sib$a" || fail "the cable has not come back"
	load_goes_on "by the cable again"
	load_ends
	pair "sib$third" "sib$a" ibv_rc_pingpong -n $messages
	pair "sib$b" "sib$third" ibv_rc_pingpong -n $messages
}

managed_by_module
run modprobe sib
configfs_up
lan $HOSTS
for ((host = 1; host <= HOSTS; host++)); do
	host_hca $host
done
tie 1 2
tie 2 3
tie 3 1
for ((host = 1; host <= HOSTS; host++)); do
	within "$soon" whole "sib$host" || fail "host $host is not in the ring"
done
printf 'seed %d\n' "$seed"
for ((number = 1; number <= rounds; number++)); do
	round $number
done
run rmdir $CONFIG/from*
for ((host = 1; host <= HOSTS; host++)); do
	run rdma link del "sib$host"
done
lan_down $HOSTS
run modprobe -r sib
