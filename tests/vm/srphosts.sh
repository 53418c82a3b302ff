#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --nodes 2 --timeout 400 -- module
# vm-long: --kernel stock --nodes 2 --timeout 400 -- opensm
#
# A disk of the first host, used by the second one by SCSI over RDMA (SRP): blocks of all
# sizes are written and verified, and what the second host reads is what the first one has.
#
#     srphosts.sh module|opensm

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/guests.sh"
. "$(dirname "$0")/disk.sh"
. "$(dirname "$0")/srpdisk.sh"

guests_up "${1:?who manages the subnet}"
srp_port sib0 >"/share/port.$NODE"
hex /sys/class/infiniband/sib0/node_guid >"/share/guid.$NODE"
barrier ports
if [ "$NODE" = 1 ]; then
	srp_target_up "$(cat /share/guid.1)" "$(cat /share/port.1)" "$(cat /share/port.2)"
	barrier exported
	barrier read
	run cmp /share/whole <(sha256sum </tmp/disk)
	run cmp /share/part <(head -c 1048576 /tmp/disk)
else
	barrier exported
	srp_attach "$(cat /share/guid.1)" "$(cat /share/port.1)"
	verified large --size=48M --rw=write --bs=128k --iodepth=8
	verified small --size=48M --rw=randwrite --bs=4k --iodepth=16 --io_size=4M
	verified mixed --size=48M --rw=randwrite --bsrange=4k-256k --iodepth=8 --io_size=8M
	echo 3 >/proc/sys/vm/drop_caches
	run timeout -k 5 200 dd if="$DISK" of=/tmp/whole bs=1M status=none
	sha256sum </tmp/whole >/share/whole
	head -c 1048576 /tmp/whole >/share/part
	barrier read
fi
guests_unfaulted
barrier over
opensm_down
