#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- handoff
# vm-long: --kernel stock --timeout 300 -- udp
#
# SCSI over RDMA (SRP), target and initiator of the kernel, which use ib_cm and path
# records without rdma_cm: a disk is written and read back, each block verified, over
# the fabric between two HCAs.
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
hca_up sib0 sibnet0
hca_up sib1 sibnet0
wait_active 60 sib0 sib1
# The first HCA names the service.
SERVICE=$(hex /sys/class/infiniband/sib0/node_guid)
srp_target_up "$SERVICE" "$(srp_port sib1)" "$(srp_port sib0)"
srp_attach "$SERVICE" "$(srp_port sib1)"
verified large --size=32M --rw=write --bs=128k --iodepth=8
verified small --size=32M --rw=randwrite --bs=4k --iodepth=16 --io_size=4M
run cmp -n 1048576 /tmp/disk "$DISK"
