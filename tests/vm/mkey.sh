#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --nodes 2 --timeout 400
#
# M_Keys that OpenSM on one host gives to all ports of two: who does not know the key is
# refused what its level of protection has for it, each refusal is counted and OpenSM hears
# of it (trap 256); who knows the key is served. When nobody renews the lease that a refusal
# begins, the protection ends.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/diags.sh"

KEY=0x1122334455667788
# More than the ten seconds between two sweeps, or OpenSM takes another one.
LEASE=12
OPTIONS=/tmp/opensm.conf
soon=90

# guarded LEVEL: OpenSM on the first host, with this level of protection.
guarded() {
	if [ "$NODE" = 1 ]; then
		printf '%s\n' 'force_log_flush TRUE' "m_key $KEY" "m_key_protection_level $1" \
			"m_key_lease_period $LEASE" >$OPTIONS
		rm -f "$OPENSM_LOG"
		opensm_up sib0 1 -F $OPTIONS
		within $soon grep -q 'SUBNET UP' "$OPENSM_LOG" || fail "no sweep: $(tail -n 30 "$OPENSM_LOG")"
		within $soon guards "$1" "$(lid sib0)" 1 || fail "no key: $(head -n 12 <<<"$TOLD")"
	fi
	wait_active $soon sib0
	within $soon guards "$1" "$(lid sib0)" 1 || fail "no key: $(head -n 12 <<<"$TOLD")"
	BESIDE=$(timeout 20 smpquery -C sib0 -y $KEY -D portinfo 0,1 0 | sed -n 's/^Lid:\.*//p')
	within $soon guards "$1" "$BESIDE" 0 || fail "no key at the switch: $(head -n 12 <<<"$TOLD")"
	lid sib0 >"/share/lid.$NODE"
	echo "$BESIDE" >"/share/switch.$NODE"
	barrier "guarded.$1"
	REMOTE=$(cat "/share/lid.$((3 - NODE))") REMOTE_SWITCH=$(cat "/share/switch.$((3 - NODE))")
}

# info LID PORT [OPTION...]: PortInfo, in TOLD.
info() {
	local lid=$1 port=$2
	shift 2
	TOLD=$(timeout 20 smpquery -C sib0 -t 300 --show_keys "$@" portinfo "$lid" "$port" 2>&1)
}

# guards LEVEL LID PORT: the port has the key, and shows it to those who know it.
guards() {
	info "$2" "$3" -y $KEY && [ "$(lines "^Mkey:\.*$KEY$")" = 1 ] && [ "$(lines "^ProtectBits:\.*$1$")" = 1 ] &&
		[ "$(lines "^MkeyLeasePeriod:\.*$LEASE$")" = 1 ]
}

# violations LID PORT: how many the port has counted.
violations() {
	within $soon info "$1" "$2" -y $KEY || fail "no answer: $TOLD"
	sed -n 's/^MkeyViolations:\.*//p' <<<"$TOLD"
}

# counted NUMBER LID PORT: it has counted so many at least.
counted() {
	[ "$(violations "$2" "$3")" -ge "$1" ]
}

# heard LID: OpenSM has been told so by that port.
heard() {
	grep -q "num:256 .*from LID:$1\b" "$OPENSM_LOG"
}

# refused LID PORT: without the key, and with a wrong one, there is no answer. What a cable
# loses that is down for a moment is not counted, and sent again.
refused() {
	local before
	step "LID $1 does not answer those who do not know the key"
	before=$(violations "$1" "$2")
	for _ in 1 2 3; do
		! info "$1" "$2" || fail "an answer without the key: $TOLD"
		! info "$1" "$2" -y 0x1122334455667789 || fail "an answer to a wrong key: $TOLD"
		! counted $((before + 2)) "$1" "$2" || return 0
	done
	fail "LID $1 has counted $(violations "$1" "$2") violations, and $before before"
}

# switch_port OPTION... disable|enable: the port of the other host's switch that the second
# port of its HCA hangs on.
switch_port() {
	timeout 30 ibportstate -C sib0 -t 300 "${@:1:$# - 1}" "$REMOTE_SWITCH" 2 "${@: -1}"
}

second_port_is() {
	[[ $(cat /sys/class/infiniband/sib0/ports/2/state) == *"$1" ]]
}

# may_read: without the key all but the key can be read, and nothing written.
may_read() {
	local before
	step "Level 1: those who do not know the key may read all but the key"
	within $soon info "$REMOTE" 1 || fail "no answer: $TOLD"
	[ "$(lines '^Mkey:\.*0x0+$')" = 1 ] || fail "it shows the key: $TOLD"
	before=$(violations "$REMOTE_SWITCH" 0)
	for _ in 1 2 3; do
		! switch_port disable || fail "a port has been disabled without the key"
		! counted $((before + 1)) "$REMOTE_SWITCH" 0 || return 0
	done
	fail "it has not been counted"
}

as_it_comes
echo 'options sib sm=0' >/etc/modprobe.d/sib.conf
run modprobe sib
barrier begin
hca_up sib0 eth0
within $soon switches sib0 2 || fail "the hosts have not found each other"
barrier found

guarded 1
if [ "$NODE" = 2 ]; then
	may_read
	barrier read
	barrier checked
	within $soon switch_port -y $KEY disable || fail "no port can be disabled"
	barrier disabled
	barrier down
	within $soon switch_port -y $KEY enable || fail "no port can be enabled"
	barrier enabled
else
	barrier read
	within $soon heard "$BESIDE" || fail "OpenSM has not heard of it: $(grep Notice "$OPENSM_LOG")"
	second_port_is ACTIVE || fail "a port is down"
	barrier checked
	barrier disabled
	within $soon second_port_is DOWN || fail "the port has not been disabled"
	barrier down
	barrier enabled
	within $soon second_port_is ACTIVE || fail "the port has not come back"
	opensm_clean
fi
barrier level1
opensm_down

step "Level 2"
guarded 2
if [ "$NODE" = 2 ]; then
	refused "$REMOTE" 1
	refused "$REMOTE_SWITCH" 0
	barrier refused
else
	barrier refused
	within $soon heard "$(lid sib0)" || fail "OpenSM has not heard of it: $(grep Notice "$OPENSM_LOG")"
	within $soon heard "$BESIDE" || fail "OpenSM has not heard of the switch: $(grep Notice "$OPENSM_LOG")"
	opensm_clean
	run kill -STOP "$OPENSM_PID"
fi
barrier alone
if [ "$NODE" = 2 ]; then
	step "Nobody renews the lease"
	began=$SECONDS
	! info "$REMOTE" 1 || fail "an answer without the key: $TOLD"
	within $soon info "$REMOTE" 1 || fail "the lease does not end"
	[ $((SECONDS - began)) -ge $((LEASE - 1)) ] || fail "the lease has ended after $((SECONDS - began)) s"
	within $soon info "$REMOTE" 1 || fail "no answer: $TOLD"
	[ "$(lines "^Mkey:\.*$KEY$")" = 1 ] && [ "$(lines '^ProtectBits:\.*0$')" = 1 ] || fail "it is still protected: $TOLD"
fi
barrier open
if [ "$NODE" = 1 ]; then
	run kill -CONT "$OPENSM_PID"
	run kill -HUP "$OPENSM_PID"
fi
within $soon guards 2 "$REMOTE" 1 || fail "OpenSM does not protect the port again: $TOLD"
barrier again
opensm_down
run rdma link del sib0
run modprobe -r sib
