#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600
# vm-long: --kernel debug --timeout 1200 -- opensm
#
# Partitions of the subnet manager of the module, set in configfs: full and limited members
# and a port that is none; tables of HCAs and switches, paths, groups, IP over InfiniBand in
# a partition; a member leaves and comes back. With `opensm`, OpenSM, which knows of no
# partitions, comes and goes as well.
#
#     membership.sh [opensm]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ip.sh"

CONFIG=/sys/kernel/config/sib_partitions

# partition NAME P_KEY: a new one, without members.
partition() {
	run mkdir "$CONFIG/$1"
	set_file "$1/pkey" "$2"
}

# set_file FILE TEXT...
set_file() {
	local file=$CONFIG/$1
	shift
	printf '$ echo %s >%s\n' "$*" "$file"
	echo "$*" >"$file" || fail "$file does not take it"
}

# refuses FILE TEXT...
refuses() {
	local file=$CONFIG/$1 before
	shift
	before=$(complaints)
	! echo "$*" 2>/dev/null >"$file" || fail "$file takes $*"
	[ "$(complaints)" -gt "$before" ] || fail "'$*' in $file: the log does not say why"
}

# pkeys DEVICE: those of its port 1, in any order.
pkeys() {
	cat /sys/class/infiniband/"$1"/ports/1/pkeys/* | grep -v 0x0000 | sort | xargs
}

has_pkeys() {
	[ "$(pkeys "$1")" = "$2" ]
}

# becomes DEVICE P_KEYS
becomes() {
	within 60 has_pkeys "$1" "$2" || {
		cat /sys/kernel/debug/sib/*/subnet
		fail "$1 has $(pkeys "$1"), not $2"
	}
}

# paths DEVICE DEVICE P_KEY: how many paths there are from one to the other.
paths() {
	timeout 60 saquery -t 20000 -C sib0 PR --sgid "$(gid "$1")" --dgid "$(gid "$2")" --pkey "$3" |
		grep -c 'dgid'
}

# group P_KEY: the group of all IPv4 hosts of a partition is there.
group() {
	local said
	said=$(timeout 60 saquery -t 20000 -C sib0 -g) || fail "status $? of saquery"
	grep -iq "MGID.*ff12:401b:$1::ffff:ffff" <<<"$said"
}

# told LID PORT: the keys that smpquery shows.
told() {
	timeout 60 smpquery -C sib0 pkeys "$@" | grep -o '0x[0-9a-f]*' | grep -v 0x0000 | sort | xargs
}

# the_switch DEVICE: LID of the switch, and its port, that the port 1 of the device hangs on.
the_switch() {
	timeout 60 ibnetdiscover -C sib0 -p |
		awk -v lid="$(lid "$1")" '$1 == "SW" && $8 == "CA" && $9 == lid { print $2, $3 }'
}

# refusals LID PORT: how many packets the port of a switch has not sent for their P_Key, and
# how many it has refused for it either way.
refusals() {
	timeout 60 perfquery -C sib0 "$1" "$2" | sed -n 's/^PortXmitConstraintErrors:\.*//p'
	timeout 60 smpquery -C sib0 portinfo "$1" "$2" | sed -n 's/^PkeyViolations:\.*//p'
}

has_carrier() {
	[ "$(cat "/sys/class/net/$1/carrier")" = 1 ]
}

far_is_down() {
	[ "$(far cat "/sys/class/net/$1/carrier")" = 0 ]
}

subnet_manager module
ip_fabric
addresses
hca_up sib2 sibnet0
wait_active 60 sib2
THIRD_IF=$(ipoib_of sib2) || fail "sib2 has no network interface"

step "Two members and two limited ones"
partition blue 0x0001
partition green 0x3
for name in sib0 sib1 sib2; do
	has_pkeys $name 0xffff || fail "$name has $(pkeys $name)"
done
stdbuf -oL ibv_asyncwatch -d sib1 >/tmp/events 2>&1 &
watcher=$!
within 60 grep -q 'async event' /tmp/events || fail "ibv_asyncwatch: $(cat /tmp/events)"
set_file blue/full "$(port_guid sib0)" "$(port_guid sib1)"
set_file green/limited "$(port_guid sib0)" "$(port_guid sib1)"
becomes sib0 "0x0003 0x8001 0xffff"
becomes sib1 "0x0003 0x8001 0xffff"
becomes sib2 0xffff
within 60 grep PKEY_CHANGE /tmp/events || fail "no event: $(cat /tmp/events)"
run cat $CONFIG/blue/pkey $CONFIG/blue/full $CONFIG/blue/limited

step "What is refused"
refuses blue/pkey 0x0002
run mkdir $CONFIG/red
# No bit of membership, and not another one of the same.
for wrong in 0 0x8002 0x7ffff blue 0x0001 ""; do
	refuses red/pkey "$wrong"
done
refuses blue/full 0x1234
refuses blue/limited ALL but-not-me
run rmdir $CONFIG/red
grep -q "^$(port_guid sib1 | cut -c 3-)$" $CONFIG/blue/full || fail "blue has lost a member"

step "Of two that write a P_Key at the same time one succeeds"
python3 "$(dirname "$0")/membership/twice.py" $CONFIG 1000 || fail "it was written twice"

step "The tables, as the fabric tells"
[ "$(told "$(lid sib1)" 1)" = "0x0003 0x8001 0xffff" ] || fail "sib1: $(told "$(lid sib1)" 1)"
for name in sib1 sib2; do
	read -r switch port <<<"$(the_switch $name)"
	[ -n "$port" ] || fail "$name hangs on no switch"
	[ "$(told "$switch" "$port")" = "$(pkeys $name)" ] ||
		fail "the switch has $(told "$switch" "$port") for $name"
	timeout 60 smpquery -C sib0 portinfo "$switch" "$port" | grep -E '^PartEnforce(Inb|Outb):\.*1$' |
		wc -l | grep -qx 2 || fail "the switch does not enforce partitions for $name"
done

step "Paths and groups are for members"
while read -r from to pkey count; do
	[ "$(paths "$from" "$to" "$pkey")" = "$count" ] ||
		fail "$(paths "$from" "$to" "$pkey") paths from $from to $to in $pkey, not $count"
done <<-TABLE
	sib0 sib1 0x8001 1
	sib1 sib0 0x8001 1
	sib0 sib1 0x8003 0
	sib0 sib2 0x8001 0
	sib2 sib1 0x8001 0
	sib2 sib1 0xffff 1
TABLE
group 8001 || fail "blue has no broadcast group"
group 8003 || fail "green has no broadcast group"
! group 8002 || fail "red has a broadcast group"

step "IP over InfiniBand"
child blue 0x8001 21
everything 64 2017
multicast 239.1.2.5 50 10000
faultless
run ip link add link "$THIRD_IF" name blue2 type ipoib pkey 0x8001
run ip link set "$THIRD_IF" up
run ip link set blue2 up
within 60 has_carrier "$THIRD_IF" || fail "sib2 is not in the default partition"
! has_carrier blue2 || fail "a port that is no member has joined"

step "A member leaves, and comes back"
set_file blue/full "$(port_guid sib0)"
becomes sib1 "0x0003 0xffff"
[ "$(paths sib0 sib1 0x8001)" = 0 ] || fail "there still is a path"
within 60 far_is_down blue || fail "the interface does not go down"
! ping -n -c 3 -i 0.2 -W 1 $FAR >/dev/null || fail "it still answers"
pings 10.8.0.2 2000 5
set_file blue/full "$(port_guid sib0)" "$(port_guid sib1)" "$(port_guid sib2)"
becomes sib1 "0x0003 0x8001 0xffff"
becomes sib2 "0x8001 0xffff"
carriers
pings $FAR 2000 5
within 60 has_carrier blue2 || fail "sib2 has not joined"

if [ "${1:-}" = opensm ]; then
	step "OpenSM takes the subnet over, with partitions of its own, and leaves"
	opensm_up sib0
	within 60 grep -q 'SUBNET UP' $OPENSM_LOG || fail "no sweep: $(tail -n 30 $OPENSM_LOG)"
	becomes sib1 0xffff
	opensm_down
	becomes sib1 "0x0003 0x8001 0xffff"
	carriers
	pings $FAR 2000 5
fi

step "Limited members of the default partition"
run mkdir $CONFIG/all
set_file all/full "$(port_guid sib0)"
set_file all/pkey 0x7fff
becomes sib1 "0x0003 0x7fff 0x8001"
becomes sib0 "0x0003 0x8001 0xffff"
becomes sib2 "0x7fff 0x8001"
[ "$(paths sib1 sib2 0xffff)" = 0 ] || fail "limited members have a path"
[ "$(paths sib1 sib0 0xffff)" = 1 ] || fail "a limited member has no path to a full one"
pings 10.8.0.2 2000 5

step "What one of them sends to a group, others refuse"
read -r switch port <<<"$(the_switch sib2)"
before=$(refusals "$switch" "$port" | xargs)
! far ping -n -c 3 -i 0.2 -W 1 10.8.0.99 >/dev/null || fail "somebody answers"
after=$(refusals "$switch" "$port" | xargs)
read -r sent refused <<<"$before"
read -r sent_after refused_after <<<"$after"
[ "$sent_after" -gt "$sent" ] && [ "$refused_after" -gt "$refused" ] ||
	fail "port $port of the switch has not counted: $before, then $after"
echo "port $port of the switch: $before, then $after"

step "The default partition without a full member"
set_file all/full ""
becomes sib0 "0x0003 0x7fff 0x8001"
becomes sib1 "0x0003 0x7fff 0x8001"
becomes sib2 "0x7fff 0x8001"
[ "$(paths sib0 sib1 0xffff)" = 0 ] || fail "limited members have a path"
! ping -n -c 3 -i 0.2 -W 1 10.8.0.2 >/dev/null || fail "limited members talk"
run rmdir $CONFIG/all
becomes sib1 "0x0003 0x8001 0xffff"
pings 10.8.0.2 2000 5

step "The partitions end"
for name in blue2 blue; do
	run ip link del $name
done
run ip -n far link del blue
parents_again
run rmdir $CONFIG/blue $CONFIG/green
for name in sib0 sib1 sib2; do
	becomes $name 0xffff
done
# What follows from a sweep comes at its end.
for ((try = 0; try < 60; try++)); do
	group 8001 || break
	sleep 1
done
[ $try -lt 60 ] || fail "blue still has a broadcast group"
pings 10.8.0.2 2000 5
kill $watcher
run rdma link del sib2
ip_down
