#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300
#
# The demonstration of alternate paths: two connections of sibcm, by a port each, with as
# much traffic as goes. A port is pulled and returns, and then the other one; `sibcm top`
# tells by which paths they go on. With `view` it is shown as on a terminal, and slowly;
# without, orders and lists of connections are looked at as well.
#
#     failover.sh [view]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"
. "$(dirname "$0")/rails.sh"
. "$(dirname "$0")/watched.sh"

SIBCM=$USER_PROGRAMS/sibcm
VIEW=/tmp/sibcm.view HEADLINE=/tmp/sibcm.headline
FIRST=0x2ff000000000001 SECOND=0x2ff000000000002 THIRD=0x2ff000000000003
view=${1:-}

# at PORT: LID and GID of a port of sib1.
at() {
	local lid gid
	read -r lid <"/sys/class/infiniband/sib1/ports/$1/lid"
	read -r gid <"/sys/class/infiniband/sib1/ports/$1/gids/0"
	echo "$lid" "$gid"
}

# Where orders come from.
CALLER_ORDERS=/dev/null LISTENER_ORDERS=/dev/null

# Nobody wants to wait for a path to fail. But a processor that stands still for three seconds is no failure.
patience=()
[ -n "$view" ] || patience=(-t 17)

# listens SERVICE: sib1 does, as process LISTENER.
listens() {
	"$SIBCM" listen -s "$1" "${patience[@]}" sib1 <$LISTENER_ORDERS >"/tmp/listener.$1" 2>&1 &
	LISTENER=$!
	within 20 grep -q '^to connect' "/tmp/listener.$1" || fail "nobody listens: $(cat "/tmp/listener.$1")"
}

# connects SERVICE PORT OPTION...: from sib0 to the same port of sib1, as process CALLER.
connects() {
	local service=$1 port=$2
	shift 2
	listens "$service"
	# shellcheck disable=SC2046 # two words
	"$SIBCM" connect -s "$service" -p "$port" "${patience[@]}" "$@" sib0 $(at "$port") <$CALLER_ORDERS >"/tmp/caller.$service" 2>&1 &
	CALLER=$!
}

# waits SERVICE TEXT: until its caller says this.
waits() {
	within 60 grep -q -- "$2" "/tmp/caller.$1" || fail "not said: $2: $(tail -n 20 "/tmp/caller.$1")"
}

# latest: what was shown last.
latest() {
	awk -v RS= '{ block = $0 } END { print block }' $VIEW
}

# shown SERVICE PORT ALTERNATE STATE: that is how its connection is at sib0, and messages
# come through.
shown() {
	latest | awk -v service="$1" -v path="sib0/$2" -v alternate="$3" -v state="$4" '
		$2 == service && $3 == path && $7 == alternate && $(NF - 2) == state && $NF > 0 { found = 1 }
		END { exit !found }'
}

# on SERVICE PORT ALTERNATE STATE: waits for that.
on() {
	within 60 shown "$@" ||
		fail "not so: $*: $(latest; tail -n 5 "/tmp/caller.$1"; rdma resource show qp | grep 'type RC')"
}

# dwell: time to look at it.
dwell() {
	if [ -n "$view" ]; then
		sleep 4
	else
		latest
	fi
}

# draw: what happens, and the view, again and again.
draw() {
	printf '\033[2J'
	while sleep 0.3; do
		printf '\033[H%s\033[K\n\033[K\n' "$(cat $HEADLINE)"
		latest | sed 's/$/\x1b[K/'
		printf '\033[J'
	done
}

[ -z "$view" ] || step() {
	printf '%s\n' "$*" >$HEADLINE
	[ ! -e $VIEW ] || sleep 2
}

subnet_manager module
if [ -n "$view" ]; then
	ip_hcas
else
	ip_fabric
	addresses
	run modprobe rdma_ucm
fi
run modprobe sib_cm watch=2

step "Two devices of two ports each, and two connections"
connects $FIRST 1 -b 65536
callers=("$CALLER") listeners=("$LISTENER")
connects $SECOND 2 -b 4096
callers+=("$CALLER") listeners+=("$LISTENER")
"$SIBCM" top -i 0.5 >$VIEW 2>&1 &
top=$!
[ -z "$view" ] || {
	draw &
	trap 'kill '$!' $top; echo' EXIT
}
on $FIRST 1 sib0/2 ARMED
on $SECOND 2 sib0/1 ARMED
dwell

step "Port 1 is pulled: the first connection goes over"
$HOOK pull 1 3 || fail "port 1 is not pulled"
on $FIRST 2 none MIGRATED
on $SECOND 2 sib0/1 ARMED
waits $FIRST "gone over from port 1 to port 2"
dwell

step "Port 1 is back: the path by it is the alternate one"
$HOOK mend 1 || fail "port 1 does not come back"
on $FIRST 2 sib0/1 ARMED
dwell

step "Port 2 is pulled: both connections go over"
$HOOK pull 2 3 || fail "port 2 is not pulled"
on $FIRST 1 none MIGRATED
on $SECOND 1 none MIGRATED
dwell

step "Port 2 is back"
$HOOK mend 2 || fail "port 2 does not come back"
on $FIRST 1 sib0/2 ARMED
on $SECOND 1 sib0/2 ARMED
dwell

step "The end"
kill -INT "${callers[@]}"
for pid in "${callers[@]}" "${listeners[@]}"; do
	wait "$pid" || fail "status $? of sibcm: $(tail -n 3 /tmp/caller.* /tmp/listener.*)"
done
for service in $FIRST $SECOND; do
	grep -q 'MB/s, [1-9]' "/tmp/caller.$service" || fail "no throughput: $(cat "/tmp/caller.$service")"
done
[ -z "$view" ] || exit 0

# orders TEXT...: to the third connection, a line each.
orders() {
	printf '%s\n' "$@" >&8
}

# refused ORDER REASON: that is what the third connection says to it.
refused() {
	orders "$1"
	waits $THIRD "^sibcm: .*$2"
}

# wrong STATUS TEXT ARG...: the command ends with that status, and says so.
wrong() {
	local status=0 expected=$1 text=$2
	shift 2
	timeout -k 5 60 env -i "$SIBCM" "$@" </dev/null >/tmp/wrong 2>&1 || status=$?
	[ "$status" = "$expected" ] && grep -q -- "$text" /tmp/wrong || fail "status $status of sibcm $*: $(cat /tmp/wrong)"
}

step "Orders that are none, or out of place"
wrong 2 "usage: sibcm listen"
for words in "listen -p 2 sib0" "listen --count 3 sib0" "top -b 64" "show -m" "connect -x sib0 1 fe80::1"; do
	# shellcheck disable=SC2086 # words
	wrong 2 "usage: sibcm listen" $words
done
wrong 2 "sibcm: x: no port" connect sib0 1 fe80::1 load x
wrong 2 "sibcm: swap: no order" connect sib0 1 fe80::1 load 2 swap
wrong 2 "a multiple of 8" connect -b 65 sib0 1 fe80::1
wrong 2 "-c: '1x' will not do" connect -c 1x sib0 1 fe80::1
wrong 1 "ports 1 to 2, not 3" connect -p 3 sib0 1 fe80::1
wrong 1 "ports 1 to 2, not 8" connect -p 8 sib0 1 fe80::1
wrong 2 "-p: '9' will not do" connect -p 9 sib0 1 fe80::1
wrong 2 "LID: '65537' will not do" connect sib0 65537 fe80::1
wrong 2 "LID: '1x' will not do" connect sib0 1x fe80::1
wrong 2 "LID: no port has 0" connect sib0 0 fe80::1
wrong 2 "GID: 'fe80::g' will not do" connect sib0 1 fe80::g
wrong 2 "at least 0.1 s apart" top -i 0.05
# shellcheck disable=SC2046 # two words
wrong 1 "rejected: there is no such service (reason 8)" connect -s 1 sib0 $(at 1)
mkfifo /tmp/orders /tmp/listener.orders
exec 8<>/tmp/orders 9<>/tmp/listener.orders
CALLER_ORDERS=/tmp/orders connects $THIRD 1 -m -i 0.1
waits $THIRD "connected by port 1"
refused migrate "there is no alternate path: load one first"
refused load "load: no port"
refused "load 2x" "2x: no port"
refused "load 9" "load 9: the device has ports 1 to 2"
refused "load 2 9" "load 2: the peer has ports 1 to 2"
refused "load 1" "load 1: that is the path in use"
refused reload "reload: no order"

step "Orders to load and to migrate"
orders "load 2"
on $THIRD 1 sib0/2 ARMED
refused "load 2 1" "there is an alternate path: migrate first"
orders migrate
on $THIRD 2 none MIGRATED
orders "load 1 2" migrate "load 2"
waits $THIRD "gone over from port 2 to port 1"
on $THIRD 1 sib0/2 ARMED
latest
orders quit
wait $CALLER
[ $? = 1 ] || fail "a command whose orders are refused ends well"
wait $LISTENER || fail "status $? of the listener: $(cat /tmp/listener.$THIRD)"

step "Orders by the command line, and to the listener"
listens $THIRD
# shellcheck disable=SC2046 # two words
run timeout -k 5 120 "$SIBCM" connect -s $THIRD "${patience[@]}" -m -i 0.1 sib0 $(at 1) load 2 migrate load 1 quit </dev/null
wait $LISTENER || fail "status $? of the listener: $(cat /tmp/listener.$THIRD)"
LISTENER_ORDERS=/tmp/listener.orders connects $THIRD 1 -i 0.1
# The view may show the connection before this one.
within 60 grep -q "the path by port 2 is the alternate one" "/tmp/listener.$THIRD" ||
	fail "no alternate path: $(cat "/tmp/listener.$THIRD")"
echo "load 2 migrate" >&9
waits $THIRD "gone over from port 1 to port 2"
grep -q "load 2: only the side that has connected" /tmp/listener.$THIRD || fail "$(cat /tmp/listener.$THIRD)"
kill -INT $CALLER
wait $CALLER || fail "status $? of sibcm: $(cat /tmp/caller.$THIRD)"
wait $LISTENER
[ $? = 1 ] || fail "a listener whose orders are refused ends well"

# below HEADING: what `sibcm show` has there.
below() {
	user sibcm show >/tmp/show || fail "sibcm show: status $?"
	awk -v heading="$1:" '/:$/ { below = $0 == heading; next } below' /tmp/show
}

# shows HEADING PATTERN: there is such a line.
shows() {
	below "$1" | grep -E "$2" || fail "sibcm does not show $2 below $1: $(cat /tmp/show)"
}

# in_view DEVICE: a connection of ib_cm between its ports.
in_view() {
	latest | grep "^0x[0-9a-f]* ib_cm  *$1/1 .* $1/2 .* ARMED"
}

step "Devices, and connections of both managers"
rping_up
protected
connects $THIRD 1 -i 0.1
on $THIRD 1 sib0/2 ARMED
for name in sib0 sib1; do
	shows Devices "^$name $(tr -d : <"/sys/class/infiniband/$name/node_guid") shared watch full$"
	shows Connections "^$name 0x.* Established.* alternate [1-9]"
	shows "Connections of ib_cm" "^$name 0x.* Established.* alternate [1-9]"
	[ "$(below Connections | grep -c "^$name")" = 1 ] || fail "connections of ib_cm are shown for others"
	within 60 in_view $name || fail "not in the view: $(latest)"
done
script -qec "$SIBCM top -i 0.2 -c 2" /dev/null </dev/null >/tmp/terminal || fail "top on a terminal: status $?"
[ "$(grep -c $'^.*\033\\[Hsibcm at .*\033\\[K' /tmp/terminal)" = 2 ] || fail "not drawn over: $(cat -v /tmp/terminal)"
kill -INT $CALLER
for pid in $CALLER $LISTENER; do
	wait "$pid" || fail "status $? of sibcm"
done
rping_down
kill -INT $top
wait $top || fail "status $? of sibcm top"
[ -z "$(ls /run/sibcm)" ] || fail "processes have left their pages"

run rmmod sib_cm
wrong 1 "No such file or directory (modprobe sib_cm)" show
wrong 1 "No such file or directory (modprobe sib_cm)" top
wrong 1 "No such file or directory (modprobe sib_cm)" listen sib0
no_objects
ip_down
