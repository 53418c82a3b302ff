# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# A file of one host as a disk of another one, by SCSI over RDMA (SRP). The disk stays: ib_srp
# of Linux 7.2 may use the tags of its host after it has freed them when a target is taken
# away. Sourced after disk.sh.

# hex FILE: what a GID or GUID in sysfs is without colons.
hex() {
	tr -d ':\n' <"$1"
}

# srp_port DEVICE: the GID of its first port.
srp_port() {
	hex "/sys/class/infiniband/$1/ports/1/gids/0"
}

# srp_target_up SERVICE GID INITIATOR: exports the file at the port of that GID, as a service
# named by a GUID, to the port of that other GID.
srp_target_up() {
	local tpg acl
	tpg=$LIO/srpt/0x$2/0x$2
	run modprobe ib_srpt srpt_service_guid="0x$1"
	backing_up
	run mkdir -p "$tpg/lun/lun_0"
	run ln -s $BACKING "$tpg/lun/lun_0/disk"
	# The initiator is who it says it is: by the GUID of its port.
	acl=$tpg/acls/0x0000000000000000${3: -16}
	run mkdir -p "$acl/lun_0"
	run ln -s "$tpg/lun/lun_0" "$acl/lun_0/disk"
	put 1 "$tpg/enable"
}

# srp_attach SERVICE GID: logs in there from sib0; the disk is $DISK then.
srp_attach() {
	run modprobe sd_mod
	run modprobe ib_srp
	put "id_ext=$1,ioc_guid=$1,service_id=$1,pkey=ffff,dgid=$2" /sys/class/infiniband_srp/srp-sib0-1/add_target
	within 20 exported_found || fail "there is no disk"
}
