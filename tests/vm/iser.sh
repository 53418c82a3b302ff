#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 --package open-iscsi -- handoff
# vm-long: --kernel stock --timeout 600 --package open-iscsi -- udp
# vm-long: --kernel stock --timeout 900 --package open-iscsi -- handoff flood
#
# iSCSI over RDMA (iSER), target and initiator of the kernel, which connect by rdma_cm: a
# disk is written and read back, each block verified, over the fabric between two HCAs;
# again after a new login, and then both leave; with `flood`, beside sib_cm and a flood of
# LAPs.
#
#     iser.sh [handoff|udp [flood]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"
. "$(dirname "$0")/disk.sh"
. "$(dirname "$0")/iserdisk.sh"

subnet_manager module
datapath "${1:-handoff}"
ip_fabric_of_one
[ "${2:-}" != flood ] || {
	run modprobe sib_cm
	flood_up
}
iser_target_up
iser_initiator_up
iser_attach
step "Written and read back"
verified large --size=32M --rw=write --bs=128k --iodepth=8
verified small --size=32M --rw=randwrite --bs=4k --iodepth=16 --io_size=4M
verified mixed --size=32M --rw=randwrite --bsrange=4k-256k --iodepth=8 --io_size=8M
step "The same bytes, whoever looks at them, and after a new login"
run dd if=/dev/urandom of=/tmp/bytes bs=1M count=8 status=none
run dd if=/tmp/bytes of="$DISK" bs=1M oflag=direct status=none
run cmp -n 8388608 /tmp/bytes /tmp/disk
iser_detach
iser_attach
run cmp -n 8388608 /tmp/bytes "$DISK"
iser_detach
iser_initiator_down
iser_target_down
[ "${2:-}" != flood ] || {
	flood_down
	run rmmod sib_cm
}
ip_of_one_down
