#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --nodes 2 --timeout 600 --package ibacm --package openssh-server -- module
# vm-long: --kernel stock --nodes 2 --timeout 600 --package ibacm --package openssh-server -- opensm
#
# The address and route cache of rdma-core (ibacm) on two hosts: its paths, by address, name,
# LID and GID, are those that subnet administration gives; programs of librdmacm and the
# kernel ask it, and connect by what it says.
#
#     acm.sh module|opensm

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"
. "$(dirname "$0")/diags.sh"
. "$(dirname "$0")/guests.sh"
. "$(dirname "$0")/remote.sh"

SOCKET=/run/ibacm.sock

# known HOST NAME: what a host has written down.
known() {
	cat "/share/$2.$1"
}

# acm_up: the service knows this host by address and by name.
acm_up() {
	run ib_acme -A -O -D /etc/rdma
	ibacm -P >/tmp/ibacm 2>&1 &
	ACM=$!
	within $soon acm_serves || fail "ibacm does not serve: $(cat /tmp/ibacm /var/log/ibacm.log)"
	timeout 20 ib_acme -e
	lid sib0 >"/share/lid.$NODE"
	cat /sys/class/infiniband/sib0/ports/1/gids/0 >"/share/gid.$NODE"
	barrier acm
}

acm_serves() {
	timeout 20 ib_acme -e | grep "node$NODE" | grep -q "$(host "$NODE")"
}

# count NAME: what ibacm has counted.
count() {
	timeout 20 ib_acme -P col | sed -n "s/^$1 Count : //p"
}

# resolved FORMAT SOURCE DESTINATION: a path between the first ports of both hosts, which
# subnet administration knows as well.
resolved() {
	TOLD=$(timeout 60 ib_acme -f "$1" -s "$2" -d "$3" -v 2>&1) &&
		[ "$(lines 'SA verification: success')" = 1 ]
}

# resolves FORMAT SOURCE DESTINATION: the same, soon: what is sent to a group whose members
# are not yet known to all switches is lost.
resolves() {
	printf '$ ib_acme -f %s -s %s -d %s -v\n' "$@"
	within $soon resolved "$@" || fail "no path: $TOLD $(tail -n 20 /var/log/ibacm.log)"
	[ "$(lines "^  slid: $(known "$NODE" lid)$")" = 1 ] &&
		[ "$(lines "^  dlid: $(known "$OTHER" lid)$")" = 1 ] ||
		fail "not the path from LID $(known "$NODE" lid) to $(known "$OTHER" lid): $TOLD"
}

# asked COMMAND...: runs it, and ibacm is asked for a path meanwhile.
asked() {
	local before
	before=$(count Resolve)
	"$@"
	[ "$(count Resolve)" -gt "$before" ] || fail "ibacm has not been asked: $*"
}

# asks SERVER... -- CLIENT...: a client that asks ibacm by itself.
asks() {
	local -a words=()
	while [ "$1" != -- ]; do
		words+=("$1")
		shift
	done
	shift
	asked cm 7471 "${words[@]}" -- strace -f -e trace=connect -o /tmp/connects "$@"
	grep -q "$SOCKET.* = 0" /tmp/connects || fail "$1 has not asked ibacm: $(cat /tmp/connects)"
}

# connects: programs here, whose servers are on the other host.
connects() {
	step "Programs that ask ibacm"
	asks rdma_server -s "$FAR" -- rdma_client -s "$FAR"
	asks ucmatose -b "$FAR" -c 4 -C 10 -S 4096 -- ucmatose -s "$FAR" -c 4 -C 10 -S 4096
	step "The kernel asks ibacm for a program"
	asked cm 7174 rping -s -a "$FAR" -C 10 -S 4096 -V -- rping -c -a "$FAR" -C 10 -S 4096 -V
}

OTHER=$((3 - NODE))
guests_up "${1:?who manages the subnet}"
run modprobe ib_umad
run modprobe rdma_ucm
remote_up
acm_up
step "Paths"
resolves i "$(host "$NODE")" "$(host $OTHER)"
resolves n "node$NODE" "node$OTHER"
resolves l "$(known "$NODE" lid)" "$(known $OTHER lid)"
resolves g "$(known "$NODE" gid)" "$(known $OTHER gid)"
timeout 20 ib_acme -P col
! timeout 60 ib_acme -f i -s "$(host "$NODE")" -d 10.8.0.77 >/tmp/nobody 2>&1 || fail "a path to nobody: $(cat /tmp/nobody)"
barrier resolved
for ((turn = 1; turn <= NODES; turn++)); do
	if [ "$NODE" = $turn ]; then
		far_host $OTHER
		unbroken connects
		far_left
	fi
	barrier turn
done
kill $ACM || fail "ibacm has ended by itself: $(cat /tmp/ibacm)"
wait $ACM
no_objects
guests_unfaulted
guests_down
