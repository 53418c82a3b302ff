#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 --package open-iscsi -- handoff
# vm-long: --kernel stock --timeout 600 --package open-iscsi -- udp
#
# iSCSI over RDMA (iSER), target and initiator of the kernel, which connect by rdma_cm: a
# disk is written and read back, each block verified, over the fabric between two HCAs;
# again after a new login, and then both leave.
#
#     iser.sh [handoff|udp]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/disk.sh"

IQN=iqn.2026-01.test.sib:disk
GROUP=$LIO/iscsi/$IQN/tpgt_1
PORTAL=$GROUP/np/$FAR:3260

# target_up: exports the file at $FAR.
target_up() {
	backing_up
	run modprobe iscsi_target_mod
	run modprobe ib_isert
	run mkdir -p "$GROUP/lun/lun_0"
	run ln -s $BACKING "$GROUP/lun/lun_0/disk"
	put 0 "$GROUP/attrib/authentication"
	put 1 "$GROUP/attrib/generate_node_acls"
	put 0 "$GROUP/attrib/demo_mode_write_protect"
	run mkdir "$PORTAL"
	put 1 "$PORTAL/iser"
	put 1 "$GROUP/enable"
}

target_down() {
	put 0 "$GROUP/enable"
	put 0 "$PORTAL/iser"
	run rmdir "$PORTAL"
	run rm "$GROUP/lun/lun_0/disk"
	run rmdir "$GROUP/lun/lun_0" "$GROUP" "$LIO/iscsi/$IQN" "$LIO/iscsi"
	run rmdir $BACKING $LIO/core/fileio_0
	run modprobe -r ib_isert iscsi_target_mod
}

# node WORD...: what is to be done with the target.
node() {
	run timeout -k 5 60 iscsiadm -m node -T $IQN -p $FAR:3260 "$@"
}

initiator_up() {
	run modprobe sd_mod
	run modprobe ib_iser
	run mkdir -p /etc/iscsi /run/lock/iscsi
	echo InitiatorName=iqn.2026-01.test.sib:initiator >/etc/iscsi/initiatorname.iscsi
	# When it is told to end, so are all of its process group.
	setsid iscsid -f >/tmp/iscsid 2>&1 &
	INITIATOR=$!
	within 20 grep -q ISCSIADM_ABSTRACT_NAMESPACE /proc/net/unix || fail "iscsid: $(cat /tmp/iscsid)"
	node -o new -I iser
}

initiator_down() {
	node -o delete
	kill $INITIATOR
	wait $INITIATOR
	run modprobe -r ib_iser
}

# attach: logs in; the disk is $DISK then.
attach() {
	node --login
	within 20 exported_found || {
		cat /tmp/iscsid
		fail "there is no disk"
	}
	iscsiadm -m session | grep '^iser: ' || fail "the disk has not come by RDMA"
}

detach() {
	node --logout
	within 20 gone || fail "the disk does not go"
}

gone() {
	! exported_found
}

subnet_manager module
datapath "${1:-handoff}"
ip_fabric_of_one
target_up
initiator_up
attach
step "Written and read back"
verified large --size=32M --rw=write --bs=128k --iodepth=8
verified small --size=32M --rw=randwrite --bs=4k --iodepth=16 --io_size=4M
verified mixed --size=32M --rw=randwrite --bsrange=4k-256k --iodepth=8 --io_size=8M
step "The same bytes, whoever looks at them, and after a new login"
run dd if=/dev/urandom of=/tmp/bytes bs=1M count=8 status=none
run dd if=/tmp/bytes of="$DISK" bs=1M oflag=direct status=none
run cmp -n 8388608 /tmp/bytes /tmp/disk
detach
attach
run cmp -n 8388608 /tmp/bytes "$DISK"
detach
initiator_down
target_down
ip_of_one_down
