#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 -- handoff
# vm-long: --kernel stock --timeout 600 -- udp
# vm-long: --kernel stock --timeout 900 -- handoff flood
#
# NFS over RDMA: a host exports a folder, another one, in a network namespace, mounts it,
# puts a tree there and compares what it reads, and what the server has, with it; with
# `flood`, beside sib_cm and a flood of LAPs.
#
#     nfs.sh [handoff|udp [flood]]
#     nfs.sh client TREE

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"

EXPORT=/tmp/export
MOUNT=/tmp/mount
RDMA_PORT=20049

# client TREE: what the second host does, in a mount namespace of its own.
client() {
	mkdir -p $MOUNT
	run timeout -k 5 60 mount -t nfs -o rdma,port=$RDMA_PORT,vers=4.2,soft,timeo=300 $NEAR:/ $MOUNT
	grep -q "$MOUNT nfs4 .*proto=rdma" /proc/mounts || fail "not mounted by RDMA"
	run timeout -k 5 200 cp -r "$1" $MOUNT/tree
	run timeout -k 5 60 dd if=/dev/urandom of=/tmp/bytes bs=1M count=8 status=none
	run timeout -k 5 60 dd if=/tmp/bytes of=$MOUNT/bytes bs=1M conv=fsync status=none
	echo 3 >/proc/sys/vm/drop_caches
	run timeout -k 5 200 diff -r "$1" $MOUNT/tree
	run timeout -k 5 60 cmp /tmp/bytes $MOUNT/bytes
	run timeout -k 5 60 mv $MOUNT/bytes $MOUNT/tree/bytes
	run timeout -k 5 60 umount $MOUNT
}

if [ "${1:-}" = client ]; then
	client "$2"
	exit
fi

server_up() {
	mkdir -p $EXPORT /var/lib/nfs/rpc_pipefs /var/lib/nfs/v4recovery /run/rpcbind
	run mount -t tmpfs tmpfs $EXPORT
	run modprobe nfsd
	mountpoint -q /proc/fs/nfsd || run mount -t nfsd nfsd /proc/fs/nfsd
	run modprobe rpcrdma
	run rpcbind -w
	run exportfs -o rw,no_root_squash,no_subtree_check,fsid=0 "*:$EXPORT"
	run rpc.nfsd -N 3 -G 10 -L 10 --rdma=$RDMA_PORT 2
	run rpc.mountd -N 3
	echo Y >/proc/fs/nfsd/v4_end_grace 2>/dev/null
}

server_down() {
	run rpc.nfsd 0
	kill "$(pidof rpc.mountd)" "$(pidof rpcbind)"
	run exportfs -ua
	run umount /proc/fs/nfsd
	run umount $EXPORT
}

subnet_manager module
datapath "${1:-handoff}"
ip_fabric
addresses
[ "${2:-}" != flood ] || {
	run modprobe sib_cm
	flood_up
}
server_up
run modprobe nfsv4
far bash "$0" client "$(dirname "$0")" || fail "the client"
run cmp /tmp/bytes $EXPORT/tree/bytes
rm $EXPORT/tree/bytes
run diff -r "$(dirname "$0")" $EXPORT/tree
server_down
[ "${2:-}" != flood ] || {
	flood_down
	run rmmod sib_cm
}
run modprobe -r rpcrdma
ip_down
