#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --nodes 2 --timeout 900 --package gcc --package libc6-dev --package make --package libibverbs-dev --package open-iscsi -- module
# vm-long: --kernel stock --nodes 2 --timeout 900 --package gcc --package libc6-dev --package make --package libibverbs-dev --package open-iscsi -- opensm
#
# Storage of the first host, used by the others. The last one mounts a folder by NFS over
# RDMA and compiles programs there, which become the same, byte for byte, as those that it
# has made on its own; the second one has disks by iSER and by NVMe over RDMA, whose blocks
# are verified, those of the latter also while the port of the first host is down for ten
# seconds.
#
#     storage.sh module|opensm

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/guests.sh"
. "$(dirname "$0")/disk.sh"
. "$(dirname "$0")/nvmedisk.sh"
. "$(dirname "$0")/iserdisk.sh"
. "$(dirname "$0")/nfstree.sh"

SERVER=1 USER_OF_DISKS=2 BUILDER=$NODES
NEAR=$(host $USER_OF_DISKS) FAR=$(host $SERVER)
# A dead target is to be noticed soon.
PATIENCE=5
# Names of files are in what the compiler makes: both builds are in a folder of this name.
WORK=/tmp/work
DISK_SIZE=67108864

# built: compiles programs of this tree in $WORK/tree, and runs one.
built() {
	run mkdir -p $WORK/tree/tests $WORK/tree/tools $WORK/tree/include
	run cp -r /src/tests/user $WORK/tree/tests/
	run cp -r /src/tools/sibcm $WORK/tree/tools/
	run cp -r /src/include/uapi $WORK/tree/include/
	run timeout -k 5 400 make -j 2 -C $WORK/tree/tests/user OUT=$WORK/tree/out $WORK/tree/out/data sibcm
	run timeout -k 5 120 $WORK/tree/out/data -a sib0:1 -b sib0:2 -t rc -n 1 -N 1
}

# compiled: the same programs from the same sources, here and there.
compiled() {
	if [ "$NODE" = $SERVER ]; then
		nfs_server_up
		barrier exported
	elif [ "$NODE" = "$BUILDER" ]; then
		built
		run mv $WORK /tmp/local
		barrier exported
		run modprobe nfsv4
		nfs_mount "$FAR" $WORK
		built
		run diff -r /tmp/local/tree $WORK/tree
		nfs_unmount $WORK
		# Not from what this host remembers.
		echo 3 >/proc/sys/vm/drop_caches
		nfs_mount "$FAR" $WORK
		run diff -r /tmp/local/tree $WORK/tree
		nfs_unmount $WORK
		run cp -r /tmp/local/tree /share/tree
	else
		barrier exported
	fi
	barrier compiled
	if [ "$NODE" = $SERVER ]; then
		run diff -r /share/tree $EXPORT/tree
		[ "$(find $EXPORT/tree/out -name '*.o' | wc -l)" -ge 8 ] || fail "nothing has been compiled"
		nfs_server_down
	fi
}

# same_bytes: what is on $DISK is what the first host has.
same_bytes() {
	if [ "$NODE" = $SERVER ]; then
		barrier told
		run cmp /share/sum <(sha256sum </tmp/disk)
		run rm /tmp/disk
	else
		echo 3 >/proc/sys/vm/drop_caches
		run timeout -k 5 200 dd if="$DISK" of=/tmp/whole bs=1M status=none
		[ "$(stat -c %s /tmp/whole)" = $DISK_SIZE ] || fail "the disk is not as large as the file"
		sha256sum </tmp/whole >/share/sum
		rm /tmp/whole
		barrier told
	fi
}

# written: blocks of all sizes, verified.
written() {
	verified large --size=48M --rw=write --bs=128k --iodepth=8
	verified small --size=48M --rw=randwrite --bs=4k --iodepth=16 --io_size=4M
	verified mixed --size=48M --rw=randwrite --bsrange=4k-256k --iodepth=8 --io_size=8M
}

# sectors_written: how many, of $DISK.
sectors_written() {
	awk '{ print $7 }' "/sys/block/${DISK#/dev/}/stat"
}

has_written() {
	[ "$(sectors_written)" -gt "$1" ]
}

iser_disk() {
	case $NODE in
	"$SERVER")
		iser_target_up
		barrier iser
		same_bytes
		barrier iser-left
		iser_target_down
		;;
	"$USER_OF_DISKS")
		barrier iser
		iser_initiator_up
		iser_attach
		written
		iser_detach
		iser_attach
		same_bytes
		iser_detach
		iser_initiator_down
		barrier iser-left
		;;
	*)
		barrier iser
		barrier told
		barrier iser-left
		;;
	esac
}

first_port_is() {
	[[ $(cat /sys/class/infiniband/sib0/ports/1/state) == *"$1" ]]
}

# switch_port disable|enable: what the switch does with the first port of this host, told by
# way of the second one.
switch_port() {
	run timeout 30 ibportstate -C sib0 -P 2 -D 0,2 "$BEHIND" "$1" >/dev/null
}

# outage: the first port of this host is down for ten seconds.
outage() {
	BEHIND=$(timeout 30 smpquery -C sib0 -P 1 -D nodeinfo 0,1 | sed -n 's/^LocalPort:\.*//p')
	[ -n "$BEHIND" ] || fail "the port of the switch is not known"
	barrier outage
	switch_port disable
	within 20 first_port_is DOWN || fail "the port does not go down"
	barrier down
	sleep 10
	switch_port enable
	within $soon first_port_is ACTIVE || fail "the port does not come back"
	barrier mended
}

# survived: blocks are written when the port of the first host goes down, and read back.
survived() {
	local job before
	before=$(sectors_written)
	verified outage --size=48M --rw=randwrite --bs=16k --iodepth=8 --io_size=8M --rate=256k &
	job=$!
	within 60 has_written $((before + 1000)) || fail "fio does not begin"
	barrier outage
	barrier down
	kill -0 $job 2>/dev/null || fail "fio has ended before"
	barrier mended
	wait $job || fail "fio has lost something"
	within 60 reconnected || fail "nothing has been interrupted: $(dmesg | tail -n 30)"
	dmesg | grep -i 'nvme.*\(reconnect\|recover\)'
}

reconnected() {
	dmesg | grep -q 'Successfully reconnected'
}

nvme_disk() {
	case $NODE in
	"$SERVER")
		nvme_target_up
		barrier nvme
		outage
		same_bytes
		barrier nvme-left
		nvme_target_down
		run modprobe -r nvmet-rdma
		;;
	"$USER_OF_DISKS")
		barrier nvme
		run modprobe nvme-rdma
		nvme_attach
		written
		nvme_detach
		nvme_attach
		survived
		same_bytes
		nvme_detach
		run modprobe -r nvme-rdma
		barrier nvme-left
		;;
	*)
		barrier nvme
		barrier outage
		barrier down
		barrier mended
		barrier told
		barrier nvme-left
		;;
	esac
}

guests_up "${1:?who manages the subnet}"
step "NFS over RDMA: programs are compiled"
compiled
step "iSER"
iser_disk
guests_unfaulted
step "NVMe over RDMA, and the port of the target is down for ten seconds"
nvme_disk
if [ "$NODE" = $SERVER ] || [ "$NODE" = "$BUILDER" ]; then
	within 60 modprobe -r rpcrdma || fail "rpcrdma is still in use"
fi
guests_down
