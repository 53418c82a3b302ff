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
. "$(dirname "$0")/nfstree.sh"

MOUNT=/tmp/mount

# client TREE: what the second host does, in a mount namespace of its own.
client() {
	nfs_mount $NEAR $MOUNT
	run timeout -k 5 200 cp -r "$1" $MOUNT/tree
	run timeout -k 5 60 dd if=/dev/urandom of=/tmp/bytes bs=1M count=8 status=none
	run timeout -k 5 60 dd if=/tmp/bytes of=$MOUNT/bytes bs=1M conv=fsync status=none
	echo 3 >/proc/sys/vm/drop_caches
	run timeout -k 5 200 diff -r "$1" $MOUNT/tree
	run timeout -k 5 60 cmp /tmp/bytes $MOUNT/bytes
	run timeout -k 5 60 mv $MOUNT/bytes $MOUNT/tree/bytes
	nfs_unmount $MOUNT
}

if [ "${1:-}" = client ]; then
	client "$2"
	exit
fi

subnet_manager module
datapath "${1:-handoff}"
ip_fabric
addresses
[ "${2:-}" != flood ] || {
	run modprobe sib_cm
	flood_up
}
nfs_server_up
run modprobe nfsv4
far bash "$0" client "$(dirname "$0")" || fail "the client"
run cmp /tmp/bytes $EXPORT/tree/bytes
rm $EXPORT/tree/bytes
run diff -r "$(dirname "$0")" $EXPORT/tree
nfs_server_down
[ "${2:-}" != flood ] || {
	flood_down
	run rmmod sib_cm
}
run modprobe -r rpcrdma
ip_down
