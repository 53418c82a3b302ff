# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The programs of librdmacm, and others by way of it, from this host to the second one.
# Sourced after cm.sh.

RSOCKETS=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so
# The HCAs of the two hosts.
NEAR_HCA=sib0 FAR_HCA=sib1

# cm_programs: by IPv4 and IPv6.
cm_programs() {
	local size
	step "rping, with the data looked at"
	for size in 64 4096 65000; do
		cm 7174 rping -s -a "$FAR" -C $few -S $size -V -- rping -c -a "$FAR" -C $few -S $size -V
	done
	cm 7174 rping -s -a "$FAR6" -C $few -S 4096 -V -- rping -c -a "$FAR6" -C $few -S 4096 -V

	step "Reliable connections: ucmatose"
	cm 7471 ucmatose -b "$FAR" -c 8 -C $few -S 4096 -- ucmatose -s "$FAR" -c 8 -C $few -S 4096
	cm 7471 ucmatose -b "$FAR6" -f ip6 -c 2 -- ucmatose -s "$FAR6" -f ip6 -c 2

	step "Datagrams: udaddy"
	cm 7174 udaddy -b "$FAR" -c 4 -C $few -S 1000 -- udaddy -s "$FAR" -c 4 -C $few -S 1000

	step "Multicast: mckey"
	mckeys 239.7.7.7

	step "rdma_server and rdma_client"
	cm 7471 rdma_server -s "$FAR" -- rdma_client -s "$FAR"

	step "Many connections: cmtime"
	cm 7471 cmtime -b "$FAR" -c 100 -- cmtime -s "$FAR" -c 100
	cat /tmp/client

	step "rsockets"
	cm 7471 rstream -b "$FAR" -S all -C $few -T v -- rstream -s "$FAR" -b "$NEAR" -S all -C $few -T v
	cm 7471 riostream -b "$FAR" -S all -C $few -T v -- riostream -s "$FAR" -b "$NEAR" -S all -C $few -T v
	servers_without_an_end
	preloaded

	step "perftest by rdma_cm"
	local program
	for program in ib_write_bw ib_read_bw ib_send_bw; do
		perftest_by_cm $program -s 65536
	done
	for program in ib_write_lat ib_send_lat ib_read_lat; do
		perftest_by_cm $program
	done
	perftest_by_cm ib_send_bw -c UD -s 1024
}

# cm_programs_by_gid: by GID.
cm_programs_by_gid() {
	local gid
	step "By GID"
	gid=$(on_far cat "/sys/class/infiniband/$FAR_HCA/ports/1/gids/0")
	cm 0 ucmatose -b "$gid" -f gid -c 4 -C $few -S 4096 -- ucmatose -s "$gid" -f gid -c 4 -C $few -S 4096
	cm 0 rstream -b "$gid" -f gid -S all -C $few -T v -- rstream -s "$gid" -f gid -S all -C $few -T v
}

# perftest_by_cm PROGRAM [OPTION...]
perftest_by_cm() {
	cm 18600 "$1" -R -F -d $FAR_HCA -p 18600 -n $many "${@:2}" -- \
		"$1" -R -F -d $NEAR_HCA -p 18600 -n $many "${@:2}" "$FAR"
}

udp_bound() {
	[ -n "$(far ss -Huln "sport = :$1")" ]
}

# ends_server NAME: ends a server on the second host that was started last.
ends_server() {
	far pkill -x "$1" || fail "$1 has ended by itself: $(cat /tmp/server)"
	wait $!
}

servers_without_an_end() {
	step "Servers without an end: udpong and rcopy"
	far timeout -k 5 60 udpong -b "$FAR" >/tmp/server 2>&1 &
	within 20 udp_bound 7174 || fail "udpong does not listen"
	timeout -k 5 60 udpong -s "$FAR" -S 1000 -C $few || fail "udpong"
	ends_server udpong
	head -c 3000000 /dev/urandom >/tmp/file
	far rm -f /tmp/copy
	far timeout -k 5 60 rcopy >/tmp/server 2>&1 &
	within 20 cm_listens 7427 || fail "rcopy does not listen"
	timeout -k 5 60 rcopy /tmp/file "$FAR:/tmp/copy" >/tmp/client 2>&1 || {
		cat /tmp/client /tmp/server
		fail "rcopy"
	}
	[ "$(sha256sum </tmp/file)" = "$(far cat /tmp/copy | sha256sum)" ] || fail "rcopy has copied something else"
	ends_server rcopy
}

preloaded() {
	local pid
	step "A program that knows nothing of RDMA, on rsockets"
	far env LD_PRELOAD=$RSOCKETS timeout -k 5 60 nc.traditional -l -s "$FAR" -p 5200 >/tmp/copy2 &
	pid=$!
	within 20 cm_listens 5200 || fail "nc does not listen"
	LD_PRELOAD=$RSOCKETS timeout -k 5 60 nc.traditional -q 1 "$FAR" 5200 </tmp/file || fail "nc"
	wait $pid || fail "nc as a server"
	cmp /tmp/file /tmp/copy2 || fail "nc"
}
