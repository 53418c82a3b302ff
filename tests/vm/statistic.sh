#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600
# vm-long: --kernel debug --timeout 900
#
# What happens on the wire, and with alternate paths, shows in the counters of `rdma
# statistic`, and the objects of a program with their details in `rdma resource show`.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/rails.sh"

DEBUG=/sys/kernel/debug/sib

# counter DEVICE NAME
counter() {
	rdma -j statistic show link "$1/1" | python3 -c "
import json, sys
(link,) = json.load(sys.stdin)
print(link['$2'])" || fail "no counter $2"
}

# counts DEVICE NAME LEAST COMMAND...: the counter grows by LEAST or more.
counts() {
	local device=$1 name=$2 least=$3 before after
	shift 3
	before=$(counter "$device" "$name")
	"$@"
	after=$(counter "$device" "$name")
	printf '%s of %s: %d\n' "$name" "$device" $((after - before))
	[ $((after - before)) -ge "$least" ] || fail "$name has grown by $((after - before)) only"
}

# under RULE COMMAND...: runs COMMAND while sib1 has a rule.
under() {
	echo "$1" >"$DEBUG/sib1/1/faults" || fail "rule"
	shift
	"$@"
	echo clear >"$DEBUG/sib1/1/faults"
}

pingpong() {
	pair sib0 sib1 ibv_rc_pingpong -n "${1:-200}" >/dev/null
}

# A write over a cable that is cut.
severed() {
	ibv_rc_pingpong -d sib1 -i 1 -p 18700 -n 100 >/dev/null 2>&1 &
	local server=$!
	within 20 listening 18700 || fail "no server"
	! timeout 60 ibv_rc_pingpong -d sib0 -i 1 -p 18700 -n 100 127.0.0.1 >/dev/null 2>&1 ||
		fail "a cut cable carries"
	kill $server
}

data() {
	user data -a sib0 -b sib1 -t "$1" -n 6 -N 2 >/dev/null || fail "data"
}

# unheard TYPE: messages that nobody has a receive for.
unheard() {
	run user unreliable sib0 sib1 "$1" 10 0
}

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
fabric_up
run rdma statistic show link sib0/1

step "Counters"
counts sib0 sent_pkts 400 pingpong
counts sib0 rcvd_pkts 400 pingpong
counts sib1 duplicate_request 5 under "duplicate in probability=20%" pingpong
counts sib1 out_of_seq_request 1 under "drop in opcode=0x06 probability=20%" data rc
counts sib0 rcvd_seq_err 1 under "drop in opcode=0x06 probability=20%" data rc
counts sib0 implied_nak_seq_err 1 under "drop out opcode=0x0e probability=5%" data rc
counts sib0 reminders 1 under "drop in probability=5%" data rc
counts sib1 send_rnr_err 1 data rc
counts sib0 rcvd_rnr_err 1 data rc
counts sib0 local_ack_timeout_err 7 under "cut in after=20" severed
counts sib0 retry_exceeded_err 1 under "cut in after=20" severed
counts sib0 retry_rnr_exceeded_err 1 run user errors sib0 sib1
counts sib1 out_of_buffer 1 unheard uc
counts sib1 out_of_buffer 1 unheard ud
[ "$(cat /sys/class/infiniband/sib0/ports/1/hw_counters/retry_exceeded_err)" -ge 2 ] ||
	fail "sysfs knows nothing of it"

step "Alternate paths"
# count_all FILE: the counters of all ports.
count_all() {
	rdma -j statistic show >"$1" || fail "no counters"
}

# grew DEVICE/PORT NAME [LEAST]: between the last two times.
grew() {
	python3 - "$@" <<-'END' || fail "$2 of $1 has not grown by ${3:-1}"
		import json, sys
		link, name = sys.argv[1:3]
		least = int(sys.argv[3]) if len(sys.argv) > 3 else 1
		def value(path):
		    for it in json.load(open(path)):
		        if f"{it['ifname']}/{it['port']}" == link:
		            return it[name]
		growth = value('/tmp/after') - value('/tmp/before')
		print(f"{name} of {link}: {growth}")
		sys.exit(growth < least)
	END
}
# OpenSM is right to complain of ports that are cut, as they are below.
opensm_clean
run modprobe ib_cm
run modprobe sib_cm

# The first LAP is refused by the program, and its APR is lost, twice. REP, and REJ of a REQ
# that nobody wants, come before it.
count_all /tmp/before
echo "drop in qp=1 after=2 count=2" >$DEBUG/sib0/1/faults
run user lap sib0 sib1 "$HOOK" 2 1
echo clear >$DEBUG/sib0/1/faults
count_all /tmp/after
for name in sent_lap retried_lap rcvd_apr path_mig; do
	grew sib0/1 $name
done
for name in rcvd_lap duplicate_lap sent_apr retried_apr path_mig; do
	grew sib1/1 $name
done
grew sib0/2 path_mig
grew sib1/2 path_mig

# All comes twice. A second path is refused without asking the program.
count_all /tmp/before
echo "duplicate in qp=1" >$DEBUG/sib0/1/faults
echo "duplicate in qp=1" >$DEBUG/sib1/1/faults
run user connect sib0 sib1 paths
echo clear >$DEBUG/sib0/1/faults
echo clear >$DEBUG/sib1/1/faults
count_all /tmp/after
grew sib0/1 duplicate_apr
grew sib1/1 duplicate_lap
grew sib1/1 rcvd_lap 4
grew sib1/1 refused_lap

# An answer comes to an offer that was given up, and an offer after a later one.
count_all /tmp/before
run user answers sib0 sib1
count_all /tmp/after
grew sib0/1 stale_apr
grew sib1/1 stale_lap
run rmmod sib_cm

# A peer migrates to a path that the other side does not know, and leaves one that this goes on by.
count_all /tmp/before
run user corners sib0 sib1 crossed
count_all /tmp/after
grew sib1/1 path_mig_err
grew sib0/1 rcvd_old_path
[ "$(counter sib1 rcvd_lap)" -ge 4 ] || fail "the counters have gone with the module"

step "Details of objects"
ibv_srq_pingpong -d sib0 -i 1 -p 18800 >/dev/null 2>&1 &
server=$!
within 20 listening 18800 || fail "no server"
# detail KIND NAME VALUE: an object of the program has this detail.
detail() {
	rdma -j resource show "$1" -dd | python3 -c "
import json, sys
mine = [o for o in json.load(sys.stdin) if o.get('pid') == $server]
print('$1', mine[0])
sys.exit(not all(str(o['drv_$2']) == '$3' for o in mine))" || fail "drv_$2 of a $1 is not $3"
}
run rdma resource show qp -dd
detail qp sends 0
detail qp retries_left 0
detail cq pending 0
detail cq overrun 0
detail srq recvs 500
detail mr pinned 1
kill $server
wait $server 2>/dev/null

# What is under way shows while nothing that sib1 sends arrives.
echo 'delay out time=100000000' >$DEBUG/sib1/1/faults
"$USER_PROGRAMS/data" -a sib0 -b sib1 -t rc -T 0 >/dev/null 2>&1 &
server=$!
# busy NAME: some queue pair of the program has a detail that is not 0.
busy() {
	rdma -j resource show qp -dd | python3 -c "
import json, sys
mine = [o for o in json.load(sys.stdin) if o.get('pid') == $server]
sys.exit(not any(int(o.get('drv_$1', 0)) for o in mine))"
}
for name in sends begun recvs unacked_pkts; do
	within 30 busy $name || fail "no queue pair has $name: $(rdma resource show qp -dd)"
done
echo clear >$DEBUG/sib1/1/faults
kill $server
wait $server 2>/dev/null
fabric_down
