# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What tests share in which sib_cm sees to connections of ib_cm. Sourced after ip.sh and cm.sh, and after
# rails.sh if ports are cut off.

SEEN=/sys/kernel/debug/sib_cm/watched
POLICY=/sys/kernel/config/sib_cm

# watched_fabric handoff|udp: two hosts with IP over InfiniBand, whose connections get alternate
# paths.
watched_fabric() {
	subnet_manager module
	datapath "$1"
	ip_fabric
	addresses
	run modprobe rdma_ucm
	run modprobe sib_cm watch=2
	pings $FAR 56 1
}

# policies NAME...: something may be said about these HCAs.
policies() {
	mountpoint -q /sys/kernel/config || run mount -t configfs none /sys/kernel/config
	run mkdir "${@/#/$POLICY/}"
}

# no_policies: nothing is said any more, as long as which the module would stay.
no_policies() {
	find $POLICY -mindepth 1 -depth -type d -exec rmdir {} +
}

# seen WHAT: a number of the file.
seen() {
	awk -v what="$1" '$1 == what { print $2 }' $SEEN
}

# levels NAME: what is done for connections at both HCAs.
levels() {
	echo "$1" >$POLICY/sib0/watch && echo "$1" >$POLICY/sib1/watch || fail "no level $1"
}

# counted DEVICE NAME: how often the ports of the HCA have counted this.
counted() {
	cat /sys/class/infiniband/"$1"/ports/*/hw_counters/"$2" | awk '{ sum += $1 } END { print sum }'
}

# established: the connections that are.
established() {
	grep ' Established ' $SEEN
}

# ends NUMBER WORD...: so many ends of connections are established, and each says that.
ends() {
	local count=$1
	shift
	[ "$(established | wc -l)" = "$count" ] &&
		[ "$(established | grep -c -- "$*")" = "$count" ]
}

# armed NUMBER: so many ends may migrate.
armed() {
	[ "$(rdma resource show qp | grep -c 'path-mig-state ARMED')" -ge "$1" ]
}

# cut_off PORT: both directions of that port of sib1 are dead.
cut_off() {
	run $HOOK pull "$1" 2
}

mend() {
	run $HOOK mend "$1"
}

# moved NUMBER: so many queue pairs have gone over since the module was loaded.
moved() {
	[ "$(seen migrations)" -ge "$1" ]
}

# fails_over PORT: that port goes, and both ends go over to the other one.
fails_over() {
	local before
	before=$(seen migrations)
	cut_off "$1"
	within 90 moved $((before + 2)) || gives_up "nothing has migrated"
}

# gives_up TEXT...: what is known, and the end.
gives_up() {
	cat $SEEN
	rdma resource show qp | grep 'type RC'
	cat /tmp/server /tmp/client | tail -n 20
	fail "$*"
}

# goes_on: the client has more to say.
goes_on() {
	local before
	before=$(wc -l </tmp/client)
	within 60 more_than $((before + 20)) || gives_up "the client has come to a stand"
}

more_than() {
	[ "$(wc -l </tmp/client)" -gt "$1" ]
}

# protected: both ends have an alternate path, and may migrate.
protected() {
	within 60 ends 2 'alternate [1-9]' || gives_up "there is no alternate path"
	within 60 armed 2 || gives_up "the queue pairs are not armed"
}

# rping_up: a server and a client without an end. What they say is checked.
rping_up() {
	rping_begins
	goes_on
}

rping_begins() {
	far timeout -k 5 250 rping -s -a $FAR -S 4096 -v -V >/tmp/server 2>&1 &
	server=$!
	within 20 cm_listens 7174 || gives_up "rping does not listen"
	timeout -k 5 250 rping -c -a $FAR -S 4096 -v -V >/tmp/client 2>&1 &
	client=$!
}

# rping_down: the client ends, and the server hears of it.
rping_down() {
	kill $client
	wait $client
	within 60 ended $server || gives_up "the server has not heard of the end"
	! grep -iE 'data mismatch|verify|error' /tmp/client /tmp/server | grep -v 'wait for' ||
		gives_up "rping has found something"
}
