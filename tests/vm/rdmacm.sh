#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 -- handoff
#
# Connections by IP addresses and by GIDs: the programs of librdmacm, rsockets under
# programs that know nothing of them, perftest, all unmodified.
#
#     rdmacm.sh [handoff|udp]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"

RSOCKETS=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so

# The debug kernel takes ten times as long for a packet.
case $(uname -r) in
*debug*) few=20 many=50 bytes=300000 ;;
*) few=100 many=1000 bytes=10000000 ;;
esac

# Somebody listens on this port of the connection manager.
cm_listens() {
	rdma resource show cm_id | grep -Eq "state LISTEN.*:$1( |$)|:$1 .*state LISTEN"
}

# on_far COMMAND...: where servers are.
on_far() {
	far "$@"
}

# cm PORT SERVER... -- CLIENT...: a server on the second host, a client here. Both must
# succeed. PORT is where the server listens; 0 if nothing tells, as with GIDs.
cm() {
	local port=$1 pid status=0
	local -a server=()
	shift
	while [ "$1" != -- ]; do
		server+=("$1")
		shift
	done
	shift
	printf '$ %s &  %s\n' "${server[*]}" "$*"
	on_far timeout -k 5 90 "${server[@]}" >/tmp/server 2>&1 &
	pid=$!
	if [ "$port" = 0 ]; then
		sleep 2
	else
		within 20 cm_listens "$port"
	fi || {
		cat /tmp/server
		rdma resource show cm_id
		fail "the server does not listen: ${server[*]}"
	}
	timeout -k 5 90 "$@" >/tmp/client 2>&1 || status=$?
	[ $status = 0 ] || {
		kill $pid 2>/dev/null
		cat /tmp/client /tmp/server
		fail "status $status of the client: $*"
	}
	wait $pid || {
		status=$?
		cat /tmp/client /tmp/server
		fail "status $status of the server: ${server[*]}"
	}
}

datapath "${1:-handoff}"
ip_fabric
addresses
run modprobe rdma_ucm
GID=$(cat /sys/class/infiniband/sib1/ports/1/gids/0)
pings $FAR 56 1
pings $FAR6 56 1

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
far timeout -k 5 60 stdbuf -oL mckey -m 239.7.7.7 -b $FAR -c 2 -C $few >/tmp/server 2>&1 &
member=$!
within 20 grep -q joined /tmp/server || fail "mckey does not join"
timeout -k 5 60 mckey -m 239.7.7.7 -b $NEAR -s -c 2 -C $few >/tmp/client || {
	cat /tmp/client /tmp/server
	fail "mckey as sender"
}
wait $member || {
	cat /tmp/server
	fail "mckey as member"
}

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
sleep 1
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

no_objects
opensm_clean
ip_down
