# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# A file of one host as a disk of another one, by iSCSI over RDMA (iSER). Sourced after
# disk.sh; $FAR is the address of the host that has the file.

IQN=iqn.2026-01.test.sib:disk
GROUP=$LIO/iscsi/$IQN/tpgt_1

# iser_target_up: exports the file at $FAR.
iser_target_up() {
	PORTAL=$GROUP/np/$FAR:3260
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

iser_target_down() {
	put 0 "$GROUP/enable"
	put 0 "$PORTAL/iser"
	run rmdir "$PORTAL"
	run rm "$GROUP/lun/lun_0/disk"
	run rmdir "$GROUP/lun/lun_0" "$GROUP" "$LIO/iscsi/$IQN" "$LIO/iscsi"
	run rmdir $BACKING $LIO/core/fileio_0
	run modprobe -r ib_isert iscsi_target_mod
}

# iser_node WORD...: what is to be done with the target.
iser_node() {
	run timeout -k 5 60 iscsiadm -m node -T $IQN -p "$FAR:3260" "$@"
}

iser_initiator_up() {
	run modprobe sd_mod
	run modprobe ib_iser
	run mkdir -p /etc/iscsi /run/lock/iscsi
	echo InitiatorName=iqn.2026-01.test.sib:initiator >/etc/iscsi/initiatorname.iscsi
	# When it is told to end, so are all of its process group.
	setsid iscsid -f >/tmp/iscsid 2>&1 &
	INITIATOR=$!
	within 20 grep -q ISCSIADM_ABSTRACT_NAMESPACE /proc/net/unix || fail "iscsid: $(cat /tmp/iscsid)"
	iser_node -o new -I iser
}

iser_initiator_down() {
	iser_node -o delete
	kill $INITIATOR
	wait $INITIATOR
	run modprobe -r ib_iser
}

# iser_attach: logs in; the disk is $DISK then.
iser_attach() {
	iser_node --login
	within 20 exported_found || {
		cat /tmp/iscsid
		fail "there is no disk"
	}
	iscsiadm -m session | grep '^iser: ' || fail "the disk has not come by RDMA"
}

# iser_detach: the disk goes, and we log out. The other way round the kernel has its work queue for reclaim end the disk,
# and warns if power management was just about to do something with that.
iser_detach() {
	put 1 "/sys/block/${DISK#/dev/}/device/delete"
	within 20 iser_gone || fail "the disk does not go"
	iser_node --logout
}

iser_gone() {
	! exported_found
}
