#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 200
#
# A kernel that is locked down, as Debian's is with Secure Boot: files of debugfs that can be written
# are not to be had, and all that is only shown is.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

LOCKDOWN=/sys/kernel/security/lockdown

managed_by_module
run modprobe sib
run modprobe sib_cm
underlay sibnet0
hca_up sib0 sibnet0
hca_up sib1 sibnet0
wait_active 30 sib0 sib1

step "Locked down"
mountpoint -q /sys/kernel/security || run mount -t securityfs securityfs /sys/kernel/security
echo integrity >$LOCKDOWN || fail "it cannot be locked down: $(cat $LOCKDOWN)"
grep -qF '[integrity]' $LOCKDOWN || fail "it is not locked down: $(cat $LOCKDOWN)"
for file in /sys/kernel/debug/sib/sib-*/{subnet,cables,dropped,carried} \
	/sys/kernel/debug/sib_cm/{hcas,connections,questions,watched,datagrams}; do
	run cat "$file"
done
run user sibcm show
for file in faults capture; do
	! said=$(cat /sys/kernel/debug/sib/sib0/1/$file 2>&1) || fail "$file can be read: $said"
	grep -q 'Operation not permitted' <<<"$said" || fail "$file cannot be read for another reason: $said"
done
! "$(dirname "$0")/../../tools/capture" -w /tmp/sib.pcap -t 1 sib0 2>/tmp/capture || fail "a port is captured"
grep -q '^capture: .*locked down' /tmp/capture || fail "tools/capture says: $(cat /tmp/capture)"

step "All else"
pair sib0 sib1 ibv_rc_pingpong -n 100
run rdma statistic show link sib0/1
run rdma link del sib1
run rdma link del sib0
run rmmod sib_cm sib
