#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600
# vm-long: --kernel debug --timeout 240
#
# Wrong arguments of verbs: each is refused with the errno that other drivers
# give, nothing comes of it, and the log has a line at most once for each cause. What
# other drivers take, path bits that a port does not have, and multicast datagrams for
# ordinary queue pairs, has no effect.
# Wrong names and netdevs are the matter of link.sh.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

CAUSES=10

lines() {
	dmesg | wc -l
}

fabric_up
before=$(lines)
for _ in 1 2 3; do
	run user badverbs sib0 sib1
done
[ $(($(lines) - before)) -le $CAUSES ] || fail "verbs with wrong arguments flood the log"
step "Path bits that no port has"
run user pathbits sib0 sib1
step "Multicast LIDs without the queue pair of groups, and that without them"
run user groups sib0
step "XRC, which the device does not have"
timeout 30 ibv_xsrq_pingpong -d sib0 -i 1 >/tmp/xsrq 2>&1
status=$?
cat /tmp/xsrq
[ $status = 1 ] || fail "ibv_xsrq_pingpong ends with $status"
grep -q XRC /tmp/xsrq || fail "ibv_xsrq_pingpong does not say why"
# Too many for the debug kernel.
[[ $(uname -r) == *-sib-debug* ]] || run user badverbs sib0 sib1 all
no_objects
run user data -n 1
fabric_down
