# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# A file of one host as a disk of another one, by NVMe over RDMA. Sourced after disk.sh; $FAR
# is the address of the host that has the file, $NEAR that of the other one.

TARGET=/sys/kernel/config/nvmet
NQN=sib-test-disk
# Seconds without a sign of life.
PATIENCE=30

# nvme_target_up: exports a file as a disk at $FAR.
nvme_target_up() {
	run modprobe nvmet-rdma
	truncate -s 64M /tmp/disk
	mkdir -p $TARGET/subsystems/$NQN/namespaces/1 $TARGET/ports/1 || fail "nvmet"
	put 1 $TARGET/subsystems/$NQN/attr_allow_any_host
	put /tmp/disk $TARGET/subsystems/$NQN/namespaces/1/device_path
	put 1 $TARGET/subsystems/$NQN/namespaces/1/buffered_io
	put 1 $TARGET/subsystems/$NQN/namespaces/1/enable
	put rdma $TARGET/ports/1/addr_trtype
	put ipv4 $TARGET/ports/1/addr_adrfam
	put "$FAR" $TARGET/ports/1/addr_traddr
	put 4420 $TARGET/ports/1/addr_trsvcid
	ln -s $TARGET/subsystems/$NQN $TARGET/ports/1/subsystems/$NQN || fail "the target does not listen"
}

nvme_target_down() {
	run rm $TARGET/ports/1/subsystems/$NQN
	run rmdir $TARGET/ports/1
	put 0 $TARGET/subsystems/$NQN/namespaces/1/enable
	run rmdir $TARGET/subsystems/$NQN/namespaces/1 $TARGET/subsystems/$NQN
}

# nvme_attach: connects to the disk, which is $DISK then.
nvme_attach() {
	run timeout -k 5 60 nvme connect -t rdma -n $NQN -a "$FAR" -s 4420 -w "$NEAR" -i 2 -c 2 -l 120 -k $PATIENCE
	within 20 nvme_found || fail "there is no disk"
}

nvme_found() {
	local file
	for file in /sys/class/nvme-subsystem/*/subsysnqn; do
		[ "$(cat "$file" 2>/dev/null)" = $NQN ] || continue
		DISK=$(cd "$(dirname "$file")" && ls -d nvme*n1 2>/dev/null | head -n 1)
		DISK=/dev/$DISK
		[ -b "$DISK" ] && return
	done
	return 1
}

nvme_detach() {
	run timeout -k 5 60 nvme disconnect -n $NQN
}
