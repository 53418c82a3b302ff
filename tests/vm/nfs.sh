#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 -- handoff
# vm-long: --kernel stock --timeout 600 -- udp
# vm-long: --kernel stock --timeout 900 -- handoff flood
# vm-long: --kernel stock --timeout 900 -- handoff failover
#
# NFS over RDMA: a host exports a folder, another one, in a network namespace, mounts it,
# puts a tree there and compares what it reads, and what the server has, with it; with
# `flood`, beside sib_cm and a flood of LAPs; with `failover` ports are cut off meanwhile, and
# the connection goes over to paths that sib_cm has found, there and back.
#
#     nfs.sh [handoff|udp [flood|failover]]
#     nfs.sh client TREE [failover]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"
. "$(dirname "$0")/nfstree.sh"
if [ "${1:-}" != client ]; then
	. "$(dirname "$0")/rails.sh"
	. "$(dirname "$0")/watched.sh"
fi

MOUNT=/tmp/mount

# What the client has written and read back up to now; the last time is asked for.
ROUNDS=/tmp/rounds LAST=/tmp/last

# client TREE [failover]: what the second host does, in a mount namespace of its own.
client() {
	nfs_mount $NEAR $MOUNT
	[ -z "${2:-}" ] || client_works
	run timeout -k 5 200 cp -r "$1" $MOUNT/tree
	run timeout -k 5 60 dd if=/dev/urandom of=/tmp/bytes bs=1M count=8 status=none
	run timeout -k 5 60 dd if=/tmp/bytes of=$MOUNT/bytes bs=1M conv=fsync status=none
	echo 3 >/proc/sys/vm/drop_caches
	run timeout -k 5 200 diff -r "$1" $MOUNT/tree
	run timeout -k 5 60 cmp /tmp/bytes $MOUNT/bytes
	run timeout -k 5 60 mv $MOUNT/bytes $MOUNT/tree/bytes
	nfs_unmount $MOUNT
}

# client_works: writes and compares until that is enough.
client_works() {
	local rounds=0
	dd if=/dev/urandom of=/tmp/work bs=64k count=8 status=none
	until [ -e $LAST ]; do
		timeout -k 5 60 dd if=/tmp/work of=$MOUNT/work bs=64k oflag=direct status=none || fail "dd"
		timeout -k 5 60 dd if=$MOUNT/work of=/tmp/back bs=64k iflag=direct status=none || fail "dd"
		cmp /tmp/work /tmp/back || fail "other bytes"
		echo $((rounds += 1)) >$ROUNDS.new
		mv $ROUNDS.new $ROUNDS
	done
	rm $MOUNT/work
}

if [ "${1:-}" = client ]; then
	client "$2" "${3:-}"
	exit
fi

# works_on: the client has done more.
works_on() {
	local before
	before=$(cat $ROUNDS)
	within 90 works_beyond $((before + 5)) || gives_up "the client has come to a stand"
}

works_beyond() {
	[ "$(cat $ROUNDS)" -gt "$1" ]
}

# survives PORT: the client goes on when that port goes, and by the same connection.
survives() {
	local before
	protected
	before=$(established | awk '{ print $1, $2 }')
	fails_over "$1"
	works_on
	mend "$1"
	[ "$(established | awk '{ print $1, $2 }')" = "$before" ] || gives_up "it is another connection"
}

# works_across_cuts: so does the client's work.
works_across_cuts() {
	local client
	rm -f $ROUNDS $LAST
	far bash "$0" client "$(dirname "$0")" failover >/tmp/client 2>&1 &
	client=$!
	within 120 test -e $ROUNDS || fail "the client does not begin: $(cat /tmp/client)"
	: >/tmp/server
	survives 1
	survives 2
	survives 1
	touch $LAST
	wait $client || gives_up "status $? of the client"
	cat /tmp/client
}

subnet_manager module
datapath "${1:-handoff}"
ip_fabric
addresses
[ "${2:-}" != flood ] || {
	run modprobe sib_cm
	flood_up
}
[ "${2:-}" != failover ] || run modprobe sib_cm watch=2
nfs_server_up
run modprobe nfsv4
if [ "${2:-}" = failover ]; then
	works_across_cuts
else
	far bash "$0" client "$(dirname "$0")" || fail "the client"
fi
run cmp /tmp/bytes $EXPORT/tree/bytes
rm $EXPORT/tree/bytes
run diff -r "$(dirname "$0")" $EXPORT/tree
nfs_server_down
[ "${2:-}" != flood ] || flood_down
[ -z "${2:-}" ] || run rmmod sib_cm
run modprobe -r rpcrdma
ip_down
