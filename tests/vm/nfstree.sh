# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# A folder of one host that another one mounts by NFS over RDMA. Sourced after lib.sh.

EXPORT=/tmp/export
RDMA_PORT=20049

nfs_server_up() {
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

nfs_server_down() {
	run rpc.nfsd 0
	kill "$(pidof rpc.mountd)" "$(pidof rpcbind)"
	run exportfs -ua
	run umount /proc/fs/nfsd
	run umount $EXPORT
}

# nfs_mount SERVER FOLDER
nfs_mount() {
	mkdir -p "$2"
	run timeout -k 5 60 mount -t nfs -o rdma,port=$RDMA_PORT,vers=4.2,soft,timeo=300 "$1:/" "$2"
	grep -q "$2 nfs4 .*proto=rdma" /proc/mounts || fail "not mounted by RDMA"
}

nfs_unmount() {
	run timeout -k 5 60 umount "$1"
}
