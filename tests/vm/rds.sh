#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --nodes 2 --timeout 600
# vm-long: --kernel debug --nodes 2 --timeout 900
#
# Reliable datagrams (RDS) over InfiniBand between two hosts: each sends the other
# datagrams of all sizes, and checks those that come; also after a port was down.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/user.sh"

LOCAL=10.8.0.$NODE REMOTE=10.8.0.$((3 - NODE))
# What the program is told when to begin by.
GO=/tmp/go
run mkfifo $GO
exec 3<>$GO

# The debug kernel is a lot slower.
case $(uname -r) in
*debug*) soon=180 count=300 ;;
*) soon=180 count=3000 ;;
esac

finished() {
	grep -q 'bytes right' /tmp/rds || ! kill -0 $PROGRAM 2>/dev/null
}

# datagrams NAME: there and back.
datagrams() {
	"$USER_PROGRAMS/rds" $LOCAL $REMOTE $count <$GO >/tmp/rds 2>&1 &
	PROGRAM=$!
	within "$soon" grep -q bound /tmp/rds || fail "$1: $(cat /tmp/rds)"
	barrier "$1-begins"
	echo >&3
	within "$soon" finished
	grep 'bytes right' /tmp/rds || fail "$1: $(cat /tmp/rds)"
	barrier "$1-ends"
	kill $PROGRAM
	wait $PROGRAM
}

as_it_comes
run modprobe sib
run modprobe ib_ipoib
barrier begin
hca_up sib0 eth0
wait_active 30 sib0
run ip address add $LOCAL/24 dev "$(ipoib_of sib0)"
run ip link set "$(ipoib_of sib0)" up
barrier up
pings $REMOTE 1000 2
run modprobe rds_rdma

step "Datagrams each way"
datagrams first

step "The same again, by other queue pairs: the underlay was down for two seconds"
if [ "$NODE" = 2 ]; then
	run ip link set eth0 down
	sleep 2
	run ip link set eth0 up
	within "$soon" port_active sib0 || fail "the port is not active"
fi
barrier mended
pings $REMOTE 1000 2
datagrams second
barrier end
# The module stays: it loses what it has received when two hosts unload it at a time.
run ip link set "$(ipoib_of sib0)" down
run rdma link del sib0
run modprobe -r sib
