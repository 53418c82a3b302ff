#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300
#
# Packets that follow each other share datagrams, small ones many and large ones as far as the
# underlay has room; with bundles=0 each has its own. No byte is wrong either way.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/cables.sh"

# What an MTU of 9000 leaves behind IPv6 and UDP.
ROOM=$((9000 - 40 - 8))

# The frames that v0 has sent, and the packets that sib0 has.
frames() {
	cat /sys/class/net/v0/statistics/tx_packets
}
packets() {
	cat /sys/class/infiniband/sib0/ports/1/counters/port_xmit_packets
}

# carried_of NETDEV: the file of that fabric; carried NETDEV NAME: what it says.
carried_of() {
	echo "/sys/kernel/debug/sib/sib-$(tr -d : <"/sys/class/net/$1/address")/carried"
}
carried() {
	awk -v name="$2" '$1 == name { print $2 }' "$(carried_of "$1")"
}

# apart: how many more datagrams each end has sent than the other one has got: what was lost before both were there.
# One process reads both files, before the next keepalive.
apart() {
	awk '
		{ of[FILENAME, $1] = $2 }
		END {
			print of[ARGV[1], "sent_datagrams"] - of[ARGV[2], "rcvd_datagrams"],
				of[ARGV[2], "sent_datagrams"] - of[ARGV[1], "rcvd_datagrams"]
		}' "$(carried_of v0)" "$(carried_of v1)"
}

# told: the files of both ends agree on the datagrams since then.
told() {
	[ "$(apart)" = "$APART" ]
}

# For retries of reliable connections, which are to outlast a cable that is down for a moment.
PATIENCE=(-u 18)

# share COMMAND [ARG]...: percents of the packets that frames are while COMMAND sends, and no cable is down, as is one
# for a moment of which an end has stood still.
share() {
	local before works frames packets datagrams
	for _ in 1 2 3; do
		within 60 routed sib0 sib1 || fail "no way from sib0 to sib1"
		before=$(breaks) works=
		until APART=$(apart) && told; do
			:
		done
		frames=$(frames) packets=$(packets) datagrams=$(carried v0 sent_datagrams)
		! paired sib1 sib0 "$@" || works=1
		frames=$(($(frames) - frames)) packets=$(($(packets) - packets))
		datagrams=$(($(carried v0 sent_datagrams) - datagrams))
		[ "$(breaks)" != "$before" ] || break
		echo "a cable was down"
	done
	[ "$works" ] || fail "$WRONG"
	[ $packets -gt 1000 ] || fail "$packets packets only"
	SHARE=$((frames * 100 / packets))
	printf '%d packets in %d frames and %d datagrams\n' $packets $frames $datagrams
	# Not all are read at one moment, and frames are of other protocols as well.
	[ $((frames - datagrams)) -gt -50 ] && [ $((frames - datagrams)) -lt 50 ] ||
		fail "the fabric counts other datagrams"
	within 10 told || fail "the two ends count other datagrams: $APART and $(apart)"
}

# plugged BUNDLES: two switches of which each datagram is one frame.
plugged() {
	step "bundles=$1"
	run modprobe sib "bundles=$1"
	configfs_up
	veth
	run ip link set v0 gso_max_segs 1
	run ip link set v1 gso_max_segs 1
	hca_up sib0 v0
	hca_up sib1 v1
	cable a v0 "$(link_address v1)"
	cable b v1 "$(link_address v0)"
	wait_active 60 sib0 sib1
	within 20 routed sib0 sib1 || fail "no way from sib0 to sib1"
}

unplugged() {
	no_objects
	run rmdir $CONFIG/a $CONFIG/b
	run rdma link delete sib0
	run rdma link delete sib1
	run modprobe -r sib
	run ip link delete v0
}

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
managed_by_module
for bundles in 1 0; do
	plugged $bundles
	cat /sys/kernel/debug/sib/*/cables
	rooms=$(grep -h ' room ' /sys/kernel/debug/sib/*/cables | grep -c " room $((bundles * ROOM))\$")
	[ "$rooms" = 2 ] || fail "$rooms cables say so"
	share ib_write_bw "${PATIENCE[@]}" -F -s 8 -n 20000
	small=$SHARE
	# No datagram is without a receive.
	share ib_send_bw -c UD -F -s 8 -n 16000 -r 16000
	datagrams=$SHARE
	share ib_write_bw "${PATIENCE[@]}" -F -s 65536 -n 500
	case $bundles in
	1) [ $small -lt 25 ] && [ $datagrams -lt 25 ] && [ $SHARE -lt 65 ] || fail "packets are alone" ;;
	0) [ $small -ge 100 ] && [ $datagrams -ge 100 ] && [ $SHARE -ge 100 ] || fail "packets share frames" ;;
	esac
	run user data -a sib0 -b sib1 -t rc -n 3 -T 18
	unplugged
done
