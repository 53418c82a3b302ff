#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --timeout 900 -- handoff
# vm-long: --kernel stock --timeout 900 -- udp
#
# `rping -v -C 100000`, which knows nothing of alternate paths, from its first message to its
# last one, while the port in use is cut off, again and again (watch=2).
#
#     rping.sh [handoff|udp]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"
. "$(dirname "$0")/rails.sh"
. "$(dirname "$0")/watched.sh"

PINGS=100000

protected_now() {
	ends 2 'alternate [1-9]' && armed 2
}

# over_or COMMAND...: that, unless the client has ended, as fast ones may.
over_or() {
	ended $client || "$@"
}

watched_fabric "${1:-handoff}"

far timeout -k 5 800 rping -s -a $FAR -v -V -C $PINGS >/tmp/server 2>&1 &
server=$!
within 20 cm_listens 7174 || gives_up "rping does not listen"
timeout -k 5 800 rping -c -a $FAR -v -V -C $PINGS >/tmp/client 2>/tmp/errors &
client=$!
goes_on
cuts=0
for port in 1 2 1 2; do
	within 60 over_or protected_now || gives_up "there is no alternate path"
	! ended $client || break
	step "Port $port goes after $(wc -l </tmp/client) messages"
	before=$(seen migrations)
	cut_off $port
	within 90 over_or moved $((before + 2)) || gives_up "nothing has migrated"
	! moved $((before + 2)) || cuts=$((cuts + 1))
	mend $port
done
wait $client || gives_up "status $? of the client: $(cat /tmp/errors)"
wait $server || gives_up "status $? of the server"
[ $cuts -ge 2 ] || gives_up "the connection has gone over $cuts times only"
[ "$(grep -c 'ping data' /tmp/client)" = $PINGS ] || gives_up "$(grep -c 'ping data' /tmp/client) messages"
! grep -iE 'data mismatch|verify|error' /tmp/client /tmp/server | grep -v 'wait for' ||
	gives_up "rping has found something"
[ "$(of_paths)" = "0 0 0 0" ] || fail "ib_cm has heard and sent LAPs and APRs: $(of_paths)"
run rmmod sib_cm
no_objects
ip_down
