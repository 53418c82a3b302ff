#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --timeout 300
#
# OpenSM takes the subnet over from the module and gives it back, while IP over
# InfiniBand goes on: all that ports have asked for they ask of the new one.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ip.sh"

# The longest that echoes may be away, in seconds.
GAP=15
ECHOES=/tmp/echoes

# fresh: an echo has come in the last second. Of those that have not there are lines as well.
fresh() {
	local last
	last=$(sed -n 's/^\[\([0-9]*\).* bytes from .*/\1/p' "$ECHOES" | tail -n 1)
	[ "${last:-0}" -ge $(($(date +%s) - 1)) ]
}

# goes_on WHO: echoes, streams, and groups that are joined now.
goes_on() {
	within 30 fresh || fail "no echoes under $1: $(tail -n 3 $ECHOES)"
	stream $FAR $((STREAM / 10))
	multicast "$2" 20 2000
}

subnet_manager module
ip_fabric
addresses
switch=$(($(cat /sys/class/infiniband/sib0/ports/1/sm_lid)))
ping -D -n -O -i 0.2 $FAR >$ECHOES &
pinging=$!
goes_on "the module" 239.1.3.1

step "OpenSM takes over"
opensm_up sib0
within 60 managed_by "$(($(cat /sys/class/infiniband/sib0/ports/1/lid)))" ||
	fail "OpenSM has not become the master: $(tail -n 30 "$OPENSM_LOG")"
goes_on OpenSM 239.1.3.2

step "OpenSM ends"
opensm_down
within 60 managed_by "$switch" || fail "the module has not taken over"
goes_on "the module" 239.1.3.3

kill $pinging
gap=$(grep 'bytes from' $ECHOES | sed 's/^\[\([0-9.]*\)\].*/\1/' |
	awk 'NR > 1 && $1 - last > gap { gap = $1 - last } { last = $1 } END { print gap }')
echo "echoes: $(grep -c 'bytes from' $ECHOES), the longest gap: $gap s"
awk -v gap="$gap" -v most=$GAP 'BEGIN { exit !(gap != "" && gap + 0 < most) }' || fail "a gap of $gap s"
ip_down
