#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300
#
# The demonstration of alternate paths: sibcm sends a message now and then, a port is
# pulled and comes back, and the connection goes over to the other path and back again.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"
. "$(dirname "$0")/rails.sh"
. "$(dirname "$0")/watched.sh"

LOG=/tmp/sibcm.log HEARD=/tmp/sibcm.listener

# said TEXT COUNT: whether sibcm has said this so often.
said() {
	[ "$(grep -c "$1" $LOG)" -ge "$2" ]
}

# waits TEXT COUNT: for it.
waits() {
	within 30 said "$1" "$2" || fail "not said: $1: $(tail -n 20 $LOG)"
}

# echoes PORT: two more messages have gone and come by this port. A path that has just
# become the alternate one is of use after the next message.
echoes() {
	local before
	before=$(grep -c "us by port $1" $LOG)
	waits "us by port $1" $((before + 2))
}

# below HEADING: what `sibcm show` has there.
below() {
	user sibcm show >/tmp/show || fail "sibcm show: status $?"
	awk -v heading="$1:" '/:$/ { below = $0 == heading; next } below' /tmp/show
}

# shows HEADING PATTERN: there is such a line.
shows() {
	below "$1" | grep -E "$2" || fail "sibcm does not show $2 below $1: $(cat /tmp/show)"
}

subnet_manager module
ip_fabric
addresses
run modprobe rdma_ucm
run modprobe sib_cm watch=2

step "Two devices of two ports each, and a connection"
"$USER_PROGRAMS/sibcm" listen sib1 > >(tee $HEARD) 2>&1 &
LISTENER=$!
within 20 grep -q '^to connect' $HEARD || fail "nobody listens"
read -r lid </sys/class/infiniband/sib1/ports/1/lid
read -r gid </sys/class/infiniband/sib1/ports/1/gids/0
"$USER_PROGRAMS/sibcm" connect -i 0.25 sib0 "$lid" "$gid" > >(tee $LOG) 2>&1 &
CALLER=$!
waits "by port 2 is the alternate one" 1
echoes 1

for round in 1 2; do
	step "Port 1 is pulled"
	$HOOK pull 1 2
	waits "by port 1 has failed: on by port 2" "$round"
	echoes 2
	shows Connections '^sib0 0x.* Active Established'
	shows Connections '^sib1 0x.* Passive Established'

	step "Port 1 is back, and the path by it the alternate one; port 2 is pulled"
	$HOOK mend 1
	waits "by port 1 is the alternate one" "$round"
	echoes 2
	$HOOK pull 2 2
	waits "by port 2 has failed: on by port 1" "$round"
	$HOOK mend 2
	waits "by port 2 is the alternate one" $((round + 1))
	echoes 1
done

step "The end"
kill -INT $CALLER
wait $CALLER || fail "sibcm connect: status $?"
wait $LISTENER || fail "sibcm listen: status $?"

step "Devices, and connections of ib_cm that are protected"
rping_up
protected
for name in sib0 sib1; do
	shows Devices "^$name $(tr -d : <"/sys/class/infiniband/$name/node_guid") shared watch full$"
	shows "Connections of ib_cm" "^$name 0x.* Established.* alternate [1-9]"
done
! below Connections | grep Established || fail "they are taken for connections of sib_cm"
rping_down

run rmmod sib_cm
no_objects
ip_down
