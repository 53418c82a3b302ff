#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 400 -- handoff
# vm-long: --kernel stock --timeout 600 -- udp all
# vm-long: --kernel debug --timeout 900 -- handoff all
#
# Connections that ib_cm has made for programs that know nothing of alternate paths: they
# get some, and run on when a port is cut off, and again when it has come back and the
# other one is. What ends a connection gets through, too.
#
#     watch.sh [handoff|udp [all]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"
. "$(dirname "$0")/rails.sh"
. "$(dirname "$0")/watched.sh"

# asked: a question that nobody answers has been sent.
asked() {
	[ "$(seen questions)" -gt "$questions" ]
}

# How long ib_write_bw runs, in seconds: until all its paths are there and one has gone.
case $(uname -r) in
*debug*) DURATION=60 ;;
*) DURATION=30 ;;
esac

subnet_manager module
datapath "${1:-handoff}"
ip_fabric
addresses
run modprobe rdma_ucm
run modprobe sib_cm watch=2
policies sib0 sib1
[ "$(cat $POLICY/sib0/watch)" = full ] || fail "the parameter does not count"
pings $FAR 56 1

# all_protected: the same of all connections that there are.
all_protected() {
	local count
	count=$(established | wc -l)
	[ "$count" -ge 2 ] && ends "$count" 'alternate [1-9]' && armed "$count"
}

# migrated: two connected queue pairs have one path.
migrated() {
	[ "$(rdma resource show qp | grep 'type RC' | grep -c 'path-mig-state MIGRATED')" -ge 2 ]
}

# left_alone NUMBER: so many ends have had a queue pair that is not theirs to manage.
left_alone() {
	[ "$(grep -c 'left to its owner' $SEEN)" = "$1" ]
}

# comes_again [PARAMETER]...: the module, with these.
comes_again() {
	no_policies
	run rmmod sib_cm
	run modprobe sib_cm watch=2 "$@"
	policies sib0 sib1
}

# goes_over_by_itself watched|told: two programs go over to paths that they know nothing of,
# and are told of it or not.
goes_over_by_itself() {
	levels full
	far timeout -k 5 120 "$USER_PROGRAMS/managed" listen $FAR "$1" >/tmp/server 2>&1 &
	server=$!
	within 20 cm_listens 7480 || gives_up "the server does not listen"
	timeout -k 5 120 "$USER_PROGRAMS/managed" call $FAR "$1" >/tmp/client 2>&1 &
	client=$!
	within 60 grep -q armed /tmp/client && within 60 grep -q armed /tmp/server || gives_up "not armed"
	# No other path comes after this one.
	levels respond
	fails_over 1
	wait $client || gives_up "status $? of the client"
	wait $server || gives_up "status $? of the server"
	mend 1
	levels full
}

# nothing_established: no connection is.
nothing_established() {
	! established
}

# hca_gone NAME: programs end, be it that nobody has told them to, and so do connections; then
# all is as it was.
hca_gone() {
	kill $client $server
	wait $client $server
	within 60 nothing_established || gives_up "a connection is left"
	no_objects
	run rdma link del "$([ "$1" = sib1 ] && echo sib0 || echo sib1)"
	run ip netns del far
	ip_fabric
	addresses
	pings $FAR 56 1
}

# rc_qpns NAME WHAT: the lqpn or rqpn of all reliable queue pairs of the HCA.
rc_qpns() {
	rdma resource show qp link "$1" | grep 'type RC' | sed -n "s/.* $2 \([0-9]*\).*/\1/p"
}

# rc_pairs NUMBER: so many pairs of reliable queue pairs are connected.
rc_pairs() {
	[ "$(rdma resource show qp | grep 'type RC' | grep -c 'state RTS')" = $((2 * $1)) ]
}

step "Connections of sib_cm itself are none of ib_cm's"
lines=$(wc -l <$SEEN)
run user connect sib0 sib1 1
[ "$(wc -l <$SEEN)" = "$lines" ] || gives_up "they are watched"

step "rping runs on when its port goes"
rping_up
protected
fails_over 1
goes_on
mend 1

step "and back when the other one goes"
protected
fails_over 2
goes_on
mend 2

step "and ends by the path that it is on"
protected
fails_over 1
goes_on
rping_down
[ "$(seen detours)" -gt 0 ] || gives_up "nothing has taken another path"
mend 1

step "A peer that does nothing for connections of ib_cm is offered nothing"
echo off >$POLICY/sib1/watch || fail "there is no way to do nothing"
[ "$(counted sib0 sent_lap)" -gt 0 ] || gives_up "no LAP has been counted up to now"
loads=$(seen loads) questions=$(seen questions) laps=$(counted sib0 sent_lap)
rping_up
within 30 asked || gives_up "nobody has asked"
goes_on
ends 1 'alternate none' || gives_up "there is an alternate path"
[ "$(seen loads)" = "$loads" ] || gives_up "a path has been loaded"
rping_down
[ "$(counted sib0 sent_lap)" = "$laps" ] || gives_up "$(($(counted sib0 sent_lap) - laps)) LAPs have been sent"
# Nobody but ib_cm would take them there.
[ "$(heard lap)" = 0 ] || gives_up "ib_cm has heard of $(heard lap) LAPs"
echo full >$POLICY/sib1/watch || fail "there is no way back"

step "What programs say of queue pairs is not believed"
for pair in 1 2; do
	"$USER_PROGRAMS/endless" listen /tmp/meet.$pair sib0 >/tmp/endless 2>&1 &
	victims+=($!)
	"$USER_PROGRAMS/endless" call /tmp/meet.$pair sib1 >/tmp/endless 2>&1 &
	victims+=($!)
	within 20 rc_pairs $pair || gives_up "no traffic"
done
# Two that are not connected to each other.
ours=$(rc_qpns sib0 lqpn | head -n 1)
theirs=$(rc_qpns sib1 lqpn | grep -vx "$(rc_qpns sib0 rqpn | head -n 1)" | head -n 1)
loads=$(seen loads)
far timeout -k 5 120 "$USER_PROGRAMS/impostor" listen $FAR "$theirs" >/tmp/server 2>&1 &
server=$!
within 20 cm_listens 7481 || gives_up "the impostor does not listen"
timeout -k 5 120 "$USER_PROGRAMS/impostor" call $FAR "$ours" >/tmp/client 2>&1 &
client=$!
within 60 grep -q established /tmp/client && within 60 grep -q established /tmp/server ||
	gives_up "no connection"
within 60 left_alone 2 || gives_up "the queue pairs are not left alone"
[ "$(seen loads)" = "$loads" ] || gives_up "a path has been loaded"
! armed 1 || gives_up "a queue pair may migrate"
mapfile -t others < <(ip netns pids far)
kill $client "${others[@]}" "${victims[@]}"
wait $client $server "${victims[@]}"

step "A program that manages its paths itself is left alone"
levels respond
loads=$(seen loads)
far timeout -k 5 120 "$USER_PROGRAMS/managed" listen $FAR >/tmp/server 2>&1 &
server=$!
within 20 cm_listens 7480 || gives_up "the server does not listen"
timeout -k 5 120 "$USER_PROGRAMS/managed" call $FAR >/tmp/client 2>&1 &
client=$!
within 60 grep -q armed /tmp/client && within 60 grep -q armed /tmp/server || gives_up "not armed"
levels full
cut_off 1
wait $client || gives_up "status $? of the client"
wait $server || gives_up "status $? of the server"
[ "$(seen loads)" = "$loads" ] || gives_up "a path has been loaded"
left_alone 4 || gives_up "the queue pairs are not left alone"
mend 1

step "Its own path counts even if it names that after somebody else has"
loads=$(seen loads)
far timeout -k 5 120 "$USER_PROGRAMS/managed" listen $FAR late >/tmp/server 2>&1 &
server=$!
within 20 cm_listens 7480 || gives_up "the server does not listen"
timeout -k 5 120 "$USER_PROGRAMS/managed" call $FAR late >/tmp/client 2>&1 &
client=$!
within 60 grep -q armed /tmp/client && within 60 grep -q armed /tmp/server || gives_up "not armed"
[ "$(seen loads)" -gt "$loads" ] || gives_up "nobody else has loaded a path"
cut_off 1
wait $client || gives_up "status $? of the client"
wait $server || gives_up "status $? of the server"
mend 1

step "Programs are told nothing of paths that are not their own"
goes_over_by_itself watched
[ "${2:-}" != all ] || {
	step "unless somebody wants them to be"
	comes_again watch_events=1
	goes_over_by_itself told
	comes_again
}

step "ib_write_bw runs on when its port goes"
far timeout -k 5 240 ib_write_bw -R -F -d sib1 -p 18600 -D $DURATION -s 65536 >/tmp/server 2>&1 &
server=$!
within 20 cm_listens 18600 || gives_up "ib_write_bw does not listen"
timeout -k 5 240 stdbuf -oL ib_write_bw -R -F -d sib0 -p 18600 -D $DURATION -s 65536 $FAR >/tmp/client 2>&1 &
client=$!
# It makes a connection to talk about the one that it measures.
within 60 grep -q '#bytes' /tmp/client || gives_up "ib_write_bw has not begun"
within 60 all_protected || gives_up "there is no alternate path"
fails_over 1
wait $client || gives_up "status $? of the client"
wait $server || gives_up "status $? of the server"
cat /tmp/client
mend 1

# All LAPs and APRs were sib_cm's.
[ "$(of_paths)" = "0 0 0 0" ] || fail "ib_cm has heard and sent LAPs and APRs: $(of_paths)"

[ "${2:-}" != all ] || {
	step "The module goes while there is a connection"
	rping_up
	protected
	no_policies
	run rmmod sib_cm
	cut_off 1
	within 90 migrated || fail "queue pairs that were armed do not migrate"
	before=$(wc -l </tmp/client)
	within 60 more_than $((before + 20)) || fail "the client has come to a stand"
	mend 1
	kill $client
	wait $client
	within 60 ended $server || fail "the server has not heard of the end"
	run modprobe sib_cm watch=2
	for device in sib1 sib0; do
		step "An HCA goes that has a connection: $device"
		rping_up
		protected
		run rdma link del $device
		hca_gone $device
	done
}

# Its dependencies are to stay.
[ ! -e /dev/sib_cm ] || {
	no_policies
	run rmmod sib_cm
}
no_objects
ip_down
