# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What tests of the connection manager have in common. Sourced after ip.sh.

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

# mckeys GROUP: datagrams of this host reach a member on the other.
mckeys() {
	local member
	far timeout -k 5 60 stdbuf -oL mckey -m "$1" -b $FAR -c 2 -C $few >/tmp/server 2>&1 &
	member=$!
	within 20 grep -q joined /tmp/server || fail "mckey does not join"
	timeout -k 5 60 mckey -m "$1" -b $NEAR -s -c 2 -C $few >/tmp/client || {
		cat /tmp/client /tmp/server
		fail "mckey as sender"
	}
	wait $member || {
		cat /tmp/server
		fail "mckey as member"
	}
}
