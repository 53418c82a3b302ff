#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 400
# vm-long: --kernel debug --timeout 1200
#
# A processor goes and comes back all the time, while it transmits what tasks on the other one post, inside
# one host and between two switches.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/cables.sh"

ONLINE=/sys/devices/system/cpu/cpu1/online
TIMES=/tmp/times
ENOUGH=/tmp/enough
# Seconds of each program.
LENGTH=2

# come_and_go: until there is ENOUGH. Says in TIMES how often.
come_and_go() {
	local times=0
	while [ ! -e $ENOUGH ]; do
		echo 0 >$ONLINE || return
		sleep 0.1
		echo 1 >$ONLINE || return
		sleep 0.2
		times=$((times + 1))
		echo $times >$TIMES
	done
}

# often: it has gone so often that this says something. The number may just be written.
often() {
	[ "$(cat $TIMES)" -ge 3 ] 2>/dev/null
}

# unplugged COMMAND...: runs it meanwhile, and again as long as the processor has not gone often: programs are timed, and
# a slow machine takes long to take a processor away.
unplugged() {
	local pid more
	rm -f $ENOUGH
	echo 0 >$TIMES
	come_and_go &
	pid=$!
	"$@"
	for more in 1 2 3 4 5; do
		! often || break
		printf 'once more (%d)\n' $more
		"$@"
	done
	touch $ENOUGH
	wait $pid || fail "the processor does not come or go"
	printf 'the processor went %d times\n' "$(cat $TIMES)"
	often || fail "that is not often"
}

traffic() {
	local options
	for options in "ib_write_bw -s 8" "ib_send_bw -s 8 -q 16" "ib_read_bw -s 8" "ib_write_bw -s 65536" "ib_read_bw -s 65536"; do
		# An end of a cable that stands still for a second is given up by the other one, and comes back:
		# connections are to outlast that.
		# shellcheck disable=SC2086 # words
		unplugged pair sib1 sib0 $options -u 18 -F -D $LENGTH
	done
	unplugged run user data -a sib0 -b sib1 -t rc -n 20 -T 18
}

managed_by_module
run modprobe sib

step "Inside one host"
underlay sibnet0
hca_up sib0 sibnet0
hca_up sib1 sibnet0
wait_active 60 sib0 sib1
traffic
run rdma link del sib0
run rdma link del sib1

step "Between two switches"
configfs_up
veth
hca_up sib0 v0
hca_up sib1 v1
cable a v0 "$(link_address v1)"
cable b v1 "$(link_address v0)"
wait_active 60 sib0 sib1
within 20 routed sib0 sib1 || fail "no way from sib0 to sib1"
traffic
run rmdir "$CONFIG/a" "$CONFIG/b"
run rdma link del sib0
run rdma link del sib1
run modprobe -r sib
