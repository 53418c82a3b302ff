#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300
# vm-long: --kernel debug --timeout 900
#
# What an administrator says of HCAs in configfs: for connections of which of them, and to
# which peers, alternate paths are offered and taken, and by which ports. HCAs have three
# ports, of which nothing else makes the third one the alternate.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"
. "$(dirname "$0")/watched.sh"

# says VALUE FILE: what is written is read again.
says() {
	echo "$1" >"$POLICY/$2" || fail "$2 does not take $1"
	[ "$(cat "$POLICY/$2")" = "$1" ] || fail "$2 says $(cat "$POLICY/$2") after $1"
}

# refuses VALUE FILE: it is not taken, and the log says why.
refuses() {
	local before lines
	before=$(cat "$POLICY/$2")
	lines=$(complaints)
	! echo "$1" 2>/dev/null >"$POLICY/$2" || fail "$2 takes $1"
	[ "$(cat "$POLICY/$2")" = "$before" ] || fail "$2 has changed"
	[ "$(complaints)" -gt "$lines" ] || fail "$2, $1: the log does not say why"
}

# by_ports NEAR FAR: these are the ends of the alternate path.
by_ports() {
	protected
	established | grep -q " alternate $(lid sib0 "$1") to $(lid sib1 "$2")\$" || gives_up "another path"
}

# unprotected: a connection goes on, and gets no path. What would give it one would have
# done so 200 ms after it began.
unprotected() {
	local loads
	loads=$(seen loads)
	rping_up
	sleep 2
	goes_on
	[ "$(seen loads)" = "$loads" ] || gives_up "a path has been loaded"
	ends "$1" 'alternate none' || gives_up "not as it should be"
	rping_down
}

subnet_manager module
run modprobe sib ports=3
ip_fabric
addresses
run modprobe rdma_ucm
run modprobe sib_cm
pings $FAR 56 1
policies sib0 sib1 sib9
FAR_GUID=$(cat /sys/class/infiniband/sib1/node_guid)

step "What is said is looked at"
says full sib9/watch
for value in "" on 2 "off full"; do
	refuses "$value" sib0/watch
	refuses "$value" sib0/mode
	refuses "$value" sib0/peers
done
says 21 sib0/lap_timeout
says 0 sib0/lap_timeout
says 15 sib0/lap_retries
for value in 22 -1 256 x; do
	refuses "$value" sib0/lap_timeout
	refuses "$value" sib0/lap_retries
done
says 16 sib0/lap_timeout
says 7 sib0/lap_retries
for name in peer 12345 "${FAR_GUID}0" "${FAR_GUID/[0-9a-f]/x}"; do
	! mkdir "$POLICY/sib0/$name" 2>/dev/null || fail "$name is a GUID"
done
run mkdir "$POLICY/sib9/$FAR_GUID"
! mkdir "$POLICY/sib9/${FAR_GUID//:/}" 2>/dev/null || fail "a peer is listed twice"
for value in "" "0 5" "9 x" "256 5" "2" "2 70000" "2 5 5"; do
	refuses "$value" "sib9/$FAR_GUID/alternate"
done
says "2 5" "sib9/$FAR_GUID/alternate"
says "3 fe80::1" "sib9/$FAR_GUID/alternate"
says auto "sib9/$FAR_GUID/alternate"
run rmdir "$POLICY/sib9/$FAR_GUID" "$POLICY/sib9"

step "Nothing is done unless somebody says so"
[ "$(cat $POLICY/sib0/watch)" = off ] || fail "the default is not off"
unprotected 0

step "One side offers, the other takes"
says full sib0/watch
says respond sib1/watch
rping_up
by_ports 2 2
rping_down

step "A peer that is not listed is not asked, nor is what it offers taken"
says listed sib0/peers
has_asked() {
	[ "$(seen questions)" -gt "$questions" ]
}
questions=$(seen questions)
unprotected 2
[ "$(seen questions)" = "$questions" ] || gives_up "a peer has been asked"
says any sib0/peers
says listed sib1/peers
unprotected 2
within 20 has_asked || gives_up "nobody has been asked"
run mkdir "$POLICY/sib1/$(cat /sys/class/infiniband/sib0/node_guid)"
says listed sib0/peers
run mkdir "$POLICY/sib0/$FAR_GUID"
rping_up
by_ports 2 2
rping_down

step "The path to a peer that is chosen, by LID and by GID"
says "3 $(lid sib1 3)" "sib0/$FAR_GUID/alternate"
rping_up
by_ports 3 3
rping_down
gid=$(cat /sys/class/infiniband/sib1/ports/3/gids/0)
echo "2 $gid" >"$POLICY/sib0/$FAR_GUID/alternate" || fail "no path by GID"
rping_up
by_ports 2 3
rping_down

step "An HCA that comes finds what was said before"
run rmdir "$POLICY/sib0/$FAR_GUID"
run rmdir $POLICY/sib0
run mkdir $POLICY/sib2
says respond sib2/watch
hca_up sib2 sibnet0
guid=$(tr -d : </sys/class/infiniband/sib2/node_guid)
grep -q "^$guid shared watch respond" /sys/kernel/debug/sib_cm/hcas || fail "$(cat /sys/kernel/debug/sib_cm/hcas)"
run rdma link del sib2
! rmmod sib_cm 2>/dev/null || fail "the module goes while it is configured"
no_policies
run rmmod sib_cm
no_objects
ip_down
