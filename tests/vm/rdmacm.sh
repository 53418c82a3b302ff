#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 -- handoff
# vm-long: --kernel stock --timeout 600 -- udp
# vm-long: --kernel stock --timeout 600 -- handoff module
# vm-long: --kernel stock --timeout 900 -- handoff module flood
#
# Connections by IP addresses and by GIDs: the programs of librdmacm, rsockets under
# programs that know nothing of them, perftest, all unmodified; with `flood`, beside
# sib_cm and a flood of LAPs.
#
#     rdmacm.sh [handoff|udp [opensm|module [flood]]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"

RSOCKETS=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so

subnet_manager "${2:-opensm}"
datapath "${1:-handoff}"
ip_fabric
addresses
run modprobe rdma_ucm
GID=$(cat /sys/class/infiniband/sib1/ports/1/gids/0)
pings $FAR 56 1
pings $FAR6 56 1
[ "${3:-}" != flood ] || {
	run modprobe sib_cm
	flood_up
}

step "rping, with the data looked at"
for size in 64 4096 65000; do
	cm 7174 rping -s -a $FAR -C $few -S $size -V -- rping -c -a $FAR -C $few -S $size -V
done
cm 7174 rping -s -a $FAR6 -C $few -S 4096 -V -- rping -c -a $FAR6 -C $few -S 4096 -V

step "Reliable connections: ucmatose"
cm 7471 ucmatose -b $FAR -c 8 -C $few -S 4096 -- ucmatose -s $FAR -c 8 -C $few -S 4096
cm 7471 ucmatose -b $FAR6 -f ip6 -c 2 -- ucmatose -s $FAR6 -f ip6 -c 2
step "By GID"
# Connections by GID know no namespaces: the server is on this host, with the other HCA.
on_far() {
	"$@"
}
cm 0 ucmatose -b "$GID" -f gid -c 4 -C $few -S 4096 -- ucmatose -s "$GID" -f gid -c 4 -C $few -S 4096
cm 0 rstream -b "$GID" -f gid -S all -C $few -T v -- rstream -s "$GID" -f gid -S all -C $few -T v
on_far() {
	far "$@"
}

step "Datagrams: udaddy"
cm 7174 udaddy -b $FAR -c 4 -C $few -S 1000 -- udaddy -s $FAR -c 4 -C $few -S 1000

step "Multicast: mckey"
mckeys 239.7.7.7

step "rdma_server and rdma_client"
cm 7471 rdma_server -s $FAR -- rdma_client -s $FAR

step "Many connections: cmtime"
cm 7471 cmtime -b $FAR -c 100 -- cmtime -s $FAR -c 100
cat /tmp/client

step "rsockets"
cm 7471 rstream -b $FAR -S all -C $few -T v -- rstream -s $FAR -b $NEAR -S all -C $few -T v
cm 7471 riostream -b $FAR -S all -C $few -T v -- riostream -s $FAR -b $NEAR -S all -C $few -T v

step "Servers without an end: udpong and rcopy"
ip netns exec far timeout -k 5 60 udpong -b $FAR >/tmp/server 2>&1 &
pid=$!
udp_bound() {
	[ -n "$(far ss -Huln "sport = :$1")" ]
}
within 20 udp_bound 7174 || fail "udpong does not listen"
timeout -k 5 60 udpong -s $FAR -S 1000 -C $few || fail "udpong"
kill $pid
head -c 3000000 /dev/urandom >/tmp/file
ip netns exec far timeout -k 5 60 rcopy >/tmp/server 2>&1 &
pid=$!
within 20 cm_listens 7427 || fail "rcopy does not listen"
timeout -k 5 60 rcopy /tmp/file $FAR:/tmp/copy >/tmp/client 2>&1 || {
	cat /tmp/client /tmp/server
	fail "rcopy"
}
cmp /tmp/file /tmp/copy || fail "rcopy"
kill $pid

step "A program that knows nothing of RDMA, on rsockets"
far env LD_PRELOAD=$RSOCKETS timeout -k 5 60 nc.traditional -l -s $FAR -p 5200 >/tmp/copy2 &
pid=$!
within 20 cm_listens 5200 || fail "nc does not listen"
LD_PRELOAD=$RSOCKETS timeout -k 5 60 nc.traditional -q 1 $FAR 5200 </tmp/file || fail "nc"
wait $pid || fail "nc as a server"
cmp /tmp/file /tmp/copy2 || fail "nc"

step "perftest by rdma_cm"
for program in ib_write_bw ib_read_bw ib_send_bw; do
	cm 18600 $program -R -F -d sib1 -p 18600 -n $many -s 65536 -- \
		$program -R -F -d sib0 -p 18600 -n $many -s 65536 $FAR
done
for program in ib_write_lat ib_send_lat ib_read_lat; do
	cm 18600 $program -R -F -d sib1 -p 18600 -n $many -- $program -R -F -d sib0 -p 18600 -n $many $FAR
done
cm 18600 ib_send_bw -R -F -c UD -d sib1 -p 18600 -n $many -s 1024 -- \
	ib_send_bw -R -F -c UD -d sib0 -p 18600 -n $many -s 1024 $FAR

[ "${3:-}" != flood ] || {
	flood_down
	run rmmod sib_cm
}
no_objects
ip_down
