#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 -- handoff
# vm-long: --kernel stock --timeout 600 -- udp
# vm-long: --kernel stock --timeout 600 -- handoff failover
# vm-long: --kernel stock --timeout 900 -- handoff reconnect
# vm-long: --kernel stock --timeout 900 -- handoff flood
#
# NVMe over RDMA, target and initiator of the kernel: a disk is written and read back,
# each block verified, over the fabric between two HCAs; with `reconnect`, the port of
# the target is down for ten seconds meanwhile; with `failover` it is cut off, and the
# connections go over to paths that sib_cm has found, there and back; with `flood`, beside
# sib_cm and a flood of LAPs.
#
#     nvme.sh [handoff|udp [failover|reconnect|flood]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"
. "$(dirname "$0")/disk.sh"
. "$(dirname "$0")/nvmedisk.sh"
. "$(dirname "$0")/rails.sh"
. "$(dirname "$0")/watched.sh"

# The debug kernel takes ten times as long for a packet.
case $(uname -r) in
*debug*) size=4M ;;
*) size=48M ;;
esac

# protected: both ends of all connections have an alternate path, and may migrate.
protected() {
	within 60 ends $CONNECTIONS 'alternate [1-9]' && within 60 armed $CONNECTIONS || {
		cat $SEEN
		fail "the connections have no alternate paths"
	}
}

# survives PORT: blocks are written while this port goes, and read back.
survives() {
	local before job
	protected
	before=$(seen migrations)
	verified outage --size=$size --rw=randwrite --bs=16k --iodepth=8 --io_size=2M --rate=256k &
	job=$!
	sleep 1
	cut_off "$1"
	within 90 moved $((before + CONNECTIONS)) || {
		cat $SEEN
		fail "not all connections have gone over"
	}
	wait $job || fail "fio has lost something"
	mend "$1"
}

failover() {
	# One for administration and two queues, which have two ends each.
	CONNECTIONS=6
	step "Ports are cut off"
	survives 1
	survives 2
	! dmesg | grep -Ei 'nvme.*(reconnect|timeout|error recovery)' || fail "the disk has been lost"
}

subnet_manager module
datapath "${1:-handoff}"
ip_fabric_of_one
case ${2:-} in
failover)
	# A connection takes some four seconds to go over.
	PATIENCE=20
	run modprobe sib_cm watch=2
	;;
reconnect) PATIENCE=5 ;;
flood)
	run modprobe sib_cm
	flood_up
	;;
esac
nvme_target_up
run modprobe nvme-rdma
nvme_attach
if [ "${2:-}" = failover ]; then
	failover
	nvme_detach
	nvme_target_down
	run rmmod sib_cm
	run modprobe -r nvme-rdma nvmet-rdma
	ip_of_one_down
	exit
fi
step "Written and read back"
verified large --size=$size --rw=write --bs=128k --iodepth=8
verified small --size=$size --rw=randwrite --bs=4k --iodepth=16 --io_size=4M
verified mixed --size=$size --rw=randwrite --bsrange=4k-256k --iodepth=8 --io_size=8M
step "The same bytes, whoever looks at them"
run dd if=/dev/urandom of=/tmp/bytes bs=1M count=8 status=none
run dd if=/tmp/bytes of="$DISK" bs=1M oflag=direct status=none
run cmp -n 8388608 /tmp/bytes /tmp/disk
sync
echo 3 >/proc/sys/vm/drop_caches
run cmp -n 8388608 /tmp/bytes "$DISK"
step "Again, after a new connection"
nvme_detach
nvme_attach
run cmp -n 8388608 /tmp/bytes "$DISK"

if [ "${2:-}" = reconnect ]; then
	step "The port of the target is down for ten seconds"
	verified outage --size=$size --rw=randwrite --bs=16k --iodepth=8 --io_size=8M --rate=512k &
	job=$!
	sleep 3
	# Ports 1 and 2 of the switch are those of sib0.
	timeout 30 ibportstate -C sib0 -D 0,1 3 disable >/dev/null || fail "ibportstate disable"
	sleep 10
	timeout 30 ibportstate -C sib0 -D 0,1 3 enable >/dev/null || fail "ibportstate enable"
	wait_active 30 sib1
	wait $job || fail "fio has lost something"
	dmesg | grep -q 'Successfully reconnected' || fail "nothing has been interrupted"
fi
nvme_detach
nvme_target_down
[ "${2:-}" != flood ] || {
	flood_down
	run rmmod sib_cm
}
run modprobe -r nvme-rdma nvmet-rdma
ip_of_one_down
