# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What tests of disks over RDMA have in common. Sourced after lib.sh.

LIO=/sys/kernel/config/target
BACKING=$LIO/core/fileio_0/disk

# put VALUE FILE
put() {
	printf %s "$1" >"$2" || fail "$2"
}

# backing_up: a file that the SCSI target of the kernel (LIO) exports.
backing_up() {
	mountpoint -q /sys/kernel/config || run mount -t configfs none /sys/kernel/config
	run modprobe target_core_file
	truncate -s 64M /tmp/disk
	run mkdir -p $BACKING
	put fd_dev_name=/tmp/disk,fd_dev_size=67108864 $BACKING/control
	put 1 $BACKING/enable
}

# exported_found: the disk that the SCSI target exports is there, as $DISK.
exported_found() {
	local vendor
	for vendor in /sys/block/sd*/device/vendor; do
		[[ $(cat "$vendor" 2>/dev/null) == LIO-ORG* ]] || continue
		DISK=${vendor#/sys/block/}
		DISK=/dev/${DISK%%/*}
		[ -b "$DISK" ] && return
	done
	return 1
}

# verified JOB [OPTION]...: fio writes blocks that tell what they are to $DISK, and reads
# them.
verified() {
	local name=$1
	shift
	printf '$ fio %s %s\n' "$name" "$*"
	timeout -k 5 200 fio --name="$name" --filename="$DISK" --direct=1 --ioengine=libaio \
		--verify=crc32c --verify_fatal=1 "$@" >/tmp/fio 2>&1 || {
		cat /tmp/fio
		dmesg | tail -n 20
		fail "fio $name"
	}
	grep -E 'READ:|WRITE:' /tmp/fio
}
