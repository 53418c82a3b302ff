#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --nodes 2 --timeout 600 -- opensm
# vm-long: --kernel stock --nodes 2 --timeout 600 -- module
# vm-long: --kernel debug --nodes 2 --timeout 1200 -- opensm
# vm-long: --kernel debug --nodes 2 --timeout 1200 -- module
#
# Two hosts with an HCA each, their switches joined by a cable over the network
# between them: one fabric, one subnet manager, and the programs of libibverbs
# from host to host. With the subnet managers of the module: IP over InfiniBand and
# rdma_cm, too.
#
#     hosts.sh [opensm|module]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"

# Where the server is, and how to see that it listens on a port.
SERVER=10.77.0.1
LISTENS=listening
# Two links of each HCA, and the cable.
LINKS=5

# The debug kernel takes ten times as long for a packet.
case $(uname -r) in
*debug*) rounds=40 ;;
*) rounds=1000 ;;
esac

# attempt COMMAND [ARG]...: runs COMMAND as the server on the first host and as the
# client on the second. Succeeds, at both, if both have.
attempt() {
	local status=0
	PORT=$((PORT + 1))
	printf '$ %s\n' "$*"
	if [ "$NODE" = 1 ]; then
		timeout -k 5 100 "$@" -d sib0 -i 1 -p $PORT >/tmp/server &
		within 20 $LISTENS $PORT || fail "the server does not listen"
		barrier "listening.$PORT"
		wait $! || status=$?
	else
		barrier "listening.$PORT"
		timeout -k 5 100 "$@" -d sib0 -i 1 -p $PORT $SERVER || status=$?
	fi
	[ "$status" != 0 ] || : >"/share/done.$PORT.$NODE"
	barrier "done.$PORT"
	[ -e "/share/done.$PORT.1" ] && [ -e "/share/done.$PORT.2" ]
}

# across COMMAND [ARG]...: must succeed at both hosts. To a host that gets no processor
# for a second the cable is gone, and what is under way lost: that is a reason to
# try again, and the only one.
across() {
	local before
	for _ in 1 2 3; do
		before=$(breaks)
		! attempt "$@" || return 0
		[ "$(breaks)" = "$before" ] || : >"/share/broken.$PORT"
		barrier "judged.$PORT"
		[ -e "/share/broken.$PORT" ] || break
		step "The cable has been down meanwhile"
		within 60 links sib0 $LINKS || fail "the cable has not come back"
		barrier "linked.$PORT"
	done
	fail "$*"
}

# Each of two hosts sees the other one, and both have one subnet manager.
one_subnet() {
	hcas sib0 2 || return 1
	timeout 20 sminfo -C sib0 | grep -o 'guid 0x[0-9a-f]*' >"/share/manager.$NODE"
	[ -s "/share/manager.$NODE" ] && cmp -s /share/manager.1 /share/manager.2
}

# ip_across: echoes of several sizes and a stream, from host to host. TCP outlives a
# cable that is down for a while.
ip_across() {
	local size status=0
	for size in 56 1000 8000; do
		within 60 ping -n -c 3 -i 0.2 -W 2 -s $size $FAR || {
			ip address
			ip neigh
			fail "no echo of $size bytes from $FAR"
		}
	done
	ping -n -c 5 -i 0.2 -W 2 $FAR
	barrier pinged
	TALK_PORT=$((TALK_PORT + 1))
	if [ "$NODE" = 1 ]; then
		timeout -k 5 100 python3 -B "$TALK" serve $NEAR $TALK_PORT $((STREAM / 10)) &
		within 20 listening $TALK_PORT || fail "nobody listens"
		barrier listening
		wait $! || status=$?
	else
		barrier listening
		timeout -k 5 100 python3 -B "$TALK" call $FAR $TALK_PORT $((STREAM / 10)) || status=$?
	fi
	[ $status = 0 ] || fail "the stream has broken"
	barrier streamed
}

subnet_manager "${1:-opensm}"
run modprobe sib
configfs_up
hca_up sib0 eth0
cable peer eth0 "10.77.0.$((3 - NODE))"
within 60 switches sib0 2 || fail "the cable does not come up"
barrier cabled
if [ "$SUBNET_MANAGER" = module ]; then
	within 60 one_subnet || fail "two subnets: $(timeout 20 sminfo -C sib0)"
elif [ "$NODE" = 1 ]; then
	opensm_up sib0
fi
wait_active 60 sib0
barrier active
if [ "$NODE" = 1 ]; then
	within 60 switches sib0 2 || fail "not two switches"
	within 60 hcas sib0 2 || fail "not two HCAs"
	run timeout 60 iblinkinfo -C sib0 -l
	within 60 links sib0 $LINKS || fail "not all links are there"
	[ "$SUBNET_MANAGER" = module ] || opensm_clean_since 0
fi
barrier checked

step "The last answer comes together with the word that the link is gone"
cable_port eth0 >"/share/port.$NODE"
barrier ports
if [ "$NODE" = 1 ]; then
	# The network card waits for datagrams to join.
	echo 1 >/sys/class/net/eth0/napi_defer_hard_irqs || fail "it does not"
	echo 20000000 >/sys/class/net/eth0/gro_flush_timeout || fail "it does not"
	orders sib0 "0,1,$(cat /share/port.1)" "$(cat /share/port.2)" disable || fail "no answer"
	echo 0 >/sys/class/net/eth0/gro_flush_timeout
	echo 0 >/sys/class/net/eth0/napi_defer_hard_irqs
fi
barrier disabled
[ "$NODE" = 1 ] || orders sib0 0,1 "$(cat /share/port.2)" enable || fail "ibportstate enable"
within 60 links sib0 $LINKS || fail "the cable has not come back"
barrier enabled

for program in ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong; do
	across $program -n $rounds
done
across ibv_rc_pingpong -s 1000000 -n $((rounds / 20))
if [ "$SUBNET_MANAGER" = module ]; then
	step "IP over InfiniBand"
	NEAR=10.8.0.$NODE FAR=10.8.0.$((3 - NODE))
	run modprobe ib_ipoib
	NEAR_IF=$(ipoib_of sib0) || fail "sib0 has no network interface"
	run ip address add "$NEAR/24" dev "$NEAR_IF"
	run ip link set "$NEAR_IF" up
	ip_across
	step "rdma_cm"
	run modprobe rdma_ucm
	SERVER=10.8.0.1 LISTENS=cm_listens
	across ib_write_bw -R -F -s 65536 -n $many
	run ip link set "$NEAR_IF" down
	run modprobe -r rdma_ucm
fi
barrier ran
opensm_down
barrier over
run rmdir $CONFIG/peer
run rdma link del sib0
run modprobe -r sib
