#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 -- handoff
# vm-long: --kernel debug --timeout 900 -- handoff
# vm-long: --kernel debug --timeout 300 -- udp
#
# Asynchronous events, of queue pairs, queues, ports and devices; queues that change
# their size; completion vectors; a subnet that gets another prefix.
#
#     events.sh [handoff|udp]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

TRACING=/sys/kernel/tracing
WATCHED=/tmp/asyncwatch

# told TEXT...: whether the watcher has been told of an event since the last `watch`.
told() {
	grep -qF "$*" $WATCHED
}

# expect TEXT...: waits until it is.
expect() {
	within 30 told "$@" || {
		cat $WATCHED
		fail "no event: $*"
	}
	echo "told: $*"
}

# watch DEVICE: tells of the events of a device from now on.
watch() {
	rm -f $WATCHED
	stdbuf -oL ibv_asyncwatch -d "$1" >$WATCHED 2>&1 &
	WATCHER=$!
	within 30 told "async event FD" || fail "ibv_asyncwatch does not watch $1"
}

unwatch() {
	kill $WATCHER
	wait $WATCHER 2>/dev/null
}

# handler_cpus: where the completion handlers of programs have run, in order.
handler_cpus() {
	sed -n 's/.*\[0*\([0-9]\{1,3\}\)\].* comp_handler: .*/\1/p' $TRACING/trace
}

# vectors_checked: completion handlers run on the CPUs of their vectors, and queues end without waiting for RCU, which
# takes many milliseconds each. Probes of the kernel tell.
vectors_checked() {
	echo 'p:comp_handler ib_uverbs_comp_handler' >$TRACING/kprobe_events || fail "no probe of the handler"
	echo 'p:grace_period synchronize_rcu' >>$TRACING/kprobe_events || fail "no probe of RCU"
	echo 1 >$TRACING/events/kprobes/enable
	user queues sib0 sib1 vectors >/tmp/vectors || fail "status $? of queues"
	echo 0 >$TRACING/events/kprobes/enable
	! grep '^ *queues-.* grace_period: ' $TRACING/trace || fail "completion queues wait for RCU"
	paste -d ' ' /tmp/vectors <(handler_cpus) | tee /tmp/handlers
	# Vector 0 has no CPU of its own, vector n has CPU n - 1, if there is one.
	awk -v cpus="$(nproc)" '
		NF != 6 { print "no handler for: " $0; bad = 1 }
		$5 > 0 && $5 <= cpus && $6 != $5 - 1 { print "on the wrong CPU: " $0; bad = 1 }
		$5 > 0 && $5 <= cpus { checked++ }
		END { exit bad || checked < cpus * cpus }
	' /tmp/handlers || fail "completion vectors"
	echo >$TRACING/kprobe_events
}

# opensm_config PREFIX: what OpenSM is to be started with.
opensm_config() {
	opensm -c /tmp/opensm.conf >/dev/null
	sed -i "s/^subnet_prefix .*/subnet_prefix $1/" /tmp/opensm.conf
}

# The debug kernel takes ten times as long.
case $(uname -r) in
*debug*) messages=200 ;;
*) messages=2000 ;;
esac

datapath "${1:-handoff}"
fabric_up
step "Queue pairs and queues"
run user events sib0 sib1
run user queues sib0 sib1

step "Many queue pairs and threads"
run user crowd sib0 sib1 "$messages"

step "Completion vectors"
mountpoint -q $TRACING || run mount -t tracefs nodev $TRACING
if [[ $(uname -r) != *-sib-debug* ]]; then
	vectors_checked
else
	# The debug kernel has no probes.
	run user queues sib0 sib1 vectors
fi

step "Ports"
watch sib1
printf '$ ibportstate on the switch, for port 2 of sib1\n'
timeout 30 ibportstate -C sib0 -D 0,1 4 disable >/dev/null || fail "ibportstate disable"
expect PORT_ERR
timeout 30 ibportstate -C sib0 -D 0,1 4 enable >/dev/null || fail "ibportstate enable"
expect PORT_ACTIVE
wait_active 30 sib1
unwatch

step "Another prefix, which what was addressed before has as well"
"$USER_PROGRAMS/prefix" sib0 sib1 0xfe80000000000066 >/tmp/prefix 2>&1 &
program=$!
within 60 grep -qx addressed /tmp/prefix || fail "the program does not begin: $(cat /tmp/prefix)"
opensm_down
opensm_config 0xfe80000000000066
opensm_up sib0 1 -F /tmp/opensm.conf
wait $program || fail "status $? of the program: $(cat /tmp/prefix)"
wait_active 30 sib0 sib1

step "Another subnet manager, which gives two LIDs to each port, a partition and a prefix"
opensm_down
cat >/tmp/partitions.conf <<'END_OF_FILE'
Default=0x7fff: ALL=full;
Other=0x0001: ALL=full;
END_OF_FILE
opensm_config 0xfe80000000000077
watch sib1
opensm_up sib1 1 -F /tmp/opensm.conf -P /tmp/partitions.conf -l 1
expect SM_CHANGE
expect LID_CHANGE
expect PKEY_CHANGE
expect CLIENT_REREGISTER
# ib_core keeps the change of GIDs to itself where links are not Ethernet.
within 10 grep -q fe80:0000:0000:0077 /sys/class/infiniband/sib1/ports/2/gids/0 ||
	fail "ib_core has not read the GIDs again"
wait_active 30 sib0 sib1
unwatch
opensm_down

step "A device goes"
watch sib1
run rdma link del sib1
expect DEVICE_FATAL
unwatch
fabric_down sib0
