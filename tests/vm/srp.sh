#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- handoff
# vm-long: --kernel stock --timeout 300 -- udp
#
# SCSI over RDMA (SRP), target and initiator of the kernel, which use ib_cm and path
# records without rdma_cm: a disk is written and read back, each block verified, over
# the fabric between two HCAs. The underlay has an address as those of containers are,
# and with it the GUIDs, of which ib_srpt names its service if it is not told a name:
# IDs of services that begin so are for ib_cm to give, which it refuses.
#
#     srp.sh [handoff|udp]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/disk.sh"
. "$(dirname "$0")/srpdisk.sh"

managed_by_module
datapath "${1:-handoff}"
run modprobe sib
underlay sibnet0
run ip link set sibnet0 address 02:42:ac:11:00:02
hca_up sib0 sibnet0
hca_up sib1 sibnet0
wait_active 60 sib0 sib1
# The GUID of the first HCA names the service, but for how it begins.
SERVICE=$(hex /sys/class/infiniband/sib0/node_guid)
SERVICE=10${SERVICE#02}
srp_target_up "$SERVICE" "$(srp_port sib1)" "$(srp_port sib0)"
srp_attach "$SERVICE" "$(srp_port sib1)"
verified large --size=32M --rw=write --bs=128k --iodepth=8
verified small --size=32M --rw=randwrite --bs=4k --iodepth=16 --io_size=4M
run cmp -n 1048576 /tmp/disk "$DISK"
