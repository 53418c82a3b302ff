#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- handoff
# vm-long: --kernel stock --timeout 300 -- udp
#
# SCSI over RDMA (SRP), target and initiator of the kernel, which use ib_cm and path
# records without rdma_cm: a disk is written and read back, each block verified, over
# the fabric between two HCAs. The disk stays: ib_srp of Linux 7.2 may use the tags of
# its host after it has freed them when a target is taken away.
#
#     srp.sh [handoff|udp]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/disk.sh"

# hex FILE: what a GID or GUID in sysfs is without colons.
hex() {
	tr -d ':\n' <"$1"
}

target_up() {
	TPG=$LIO/srpt/0x$(hex /sys/class/infiniband/sib1/ports/1/gids/0)
	TPG=$TPG/${TPG##*/}
	backing_up
	run mkdir -p "$TPG/lun/lun_0"
	run ln -s $BACKING "$TPG/lun/lun_0/disk"
	# The initiator is who it says it is: by the GUID of its port.
	ACL=$TPG/acls/0x0000000000000000$(hex /sys/class/infiniband/sib0/ports/1/gids/0 | tail -c 16)
	run mkdir -p "$ACL/lun_0"
	run ln -s "$TPG/lun/lun_0" "$ACL/lun_0/disk"
	put 1 "$TPG/enable"
}

# attach: logs in to the target; the disk is $DISK then.
attach() {
	local service
	service=$(hex /sys/class/infiniband/sib0/node_guid)
	put "id_ext=$service,ioc_guid=$service,service_id=$service,pkey=ffff,dgid=$(hex /sys/class/infiniband/sib1/ports/1/gids/0)" \
		/sys/class/infiniband_srp/srp-sib0-1/add_target
	within 20 exported_found || fail "there is no disk"
}

managed_by_module
datapath "${1:-handoff}"
run modprobe sib
underlay sibnet0
hca_up sib0 sibnet0
hca_up sib1 sibnet0
wait_active 60 sib0 sib1
# The first HCA names the service.
run modprobe ib_srpt srpt_service_guid="0x$(hex /sys/class/infiniband/sib0/node_guid)"
run modprobe sd_mod
run modprobe ib_srp
target_up
attach
verified large --size=32M --rw=write --bs=128k --iodepth=8
verified small --size=32M --rw=randwrite --bs=4k --iodepth=16 --io_size=4M
run cmp -n 1048576 /tmp/disk "$DISK"
