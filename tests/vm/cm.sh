# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What tests of connection managers have in common. Sourced after lib.sh; what has to do
# with a second host after ip.sh, and floods after user.sh.

# The debug kernel takes ten times as long for a packet.
case $(uname -r) in
*debug*) few=20 many=50 ;;
*) few=100 many=1000 ;;
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
		# Nothing tells who listens at a GID.
		sleep 5
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

# both_joined: both queue pairs of a member are in the group.
both_joined() {
	[ "$(grep -c joined /tmp/server)" = 2 ]
}

# How many senders come to a group, and what each sends there. Where there are several
# switches, some know of a sender later than it begins, and lose what it sends until then.
SENDERS=1 SENT=$few

# mckeys GROUP: datagrams of this host reach a member on the other.
mckeys() {
	local member sender
	far timeout -k 5 60 stdbuf -oL mckey -m "$1" -b "$FAR" -c 2 -C $few >/tmp/server 2>&1 &
	member=$!
	within 20 both_joined || fail "mckey does not join"
	for ((sender = 1; sender <= SENDERS; sender++)); do
		timeout -k 5 60 mckey -m "$1" -b "$NEAR" -s -c 2 -C $SENT >/tmp/client || {
			cat /tmp/client /tmp/server
			fail "mckey as sender"
		}
		[ $sender -lt $SENDERS ] && ! within 2 ended $member || break
	done
	wait $member || {
		cat /tmp/server
		fail "mckey as member"
	}
}

# heard MESSAGE, said MESSAGE: how many ib_cm has received and sent, by its own counters.
heard() {
	cat /sys/class/infiniband/sib[01]/ports/*/cm_rx_msgs/"$1" | awk '{ sum += $1 } END { print sum }'
}

said() {
	cat /sys/class/infiniband/sib[01]/ports/*/cm_tx_msgs/"$1" | awk '{ sum += $1 } END { print sum }'
}

# of_paths: what ib_cm has heard and said of alternate paths: LAPs, then APRs.
of_paths() {
	echo "$(heard lap) $(said lap) $(heard apr) $(said apr)"
}

# ib_cm_counters: all that ib_cm counts.
ib_cm_counters() {
	grep . /sys/class/infiniband/sib[01]/ports/*/cm_*/*
}

# flood_up: from now on sib_cm listens, has connections, and gets LAPs by the thousand,
# most of them forged.
flood_up() {
	run modprobe ib_umad
	"$USER_PROGRAMS/flood" sib0 sib1 100000 all >/tmp/flood 2>&1 &
	FLOOD=$!
}

# flood_down: ends that. Of all the LAPs ib_cm has heard of those alone that were for
# nobody, and has said nothing about any.
flood_down() {
	local message
	kill -TERM $FLOOD
	wait $FLOOD || fail "flood: $(cat /tmp/flood)"
	cat /tmp/flood
	[ "$(heard lap)" = "$(awk '{ print $NF }' /tmp/flood)" ] || fail "ib_cm has heard of $(heard lap) LAPs"
	for message in lap apr; do
		[ "$(said $message)" = 0 ] || fail "ib_cm has sent $(said $message) of $message"
	done
	[ "$(heard apr)" = 0 ] || fail "ib_cm has heard of $(heard apr) APRs"
}
