#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300
# vm-long: --kernel debug --timeout 900
#
# The fabric key: cables come up between ends that have the same one, and between no
# others; handshakes that somebody has recorded and repeats do nothing.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"

REPLAY="$(dirname "$0")/key/replay.py"
COMMON=$CONFIG/key

# key FILE TEXT: sets a key.
key() {
	printf '$ %s: "%s"\n' "$1" "$2"
	printf '%s\n' "$2" >"$1" || fail "the key was not taken"
}

# refuses_key FILE TEXT
refuses_key() {
	! printf '%s\n' "$2" >"$1" 2>/dev/null || fail "$1 took a key of ${#2} bytes"
}

# shows WORD FILE: that and nothing else is to be read of a key.
shows() {
	[ "$(cat "$2")" = "$1" ] || fail "$2 says '$(cat "$2")', not '$1'"
}

# dropped CAUSE NETDEV: how many datagrams the switch there has dropped for that.
dropped() {
	sed -n "s/^$1 //p" "/sys/kernel/debug/sib/$(fabric "$2")/dropped"
}

# refused NETDEV: how many handshakes the switch there has refused.
refused() {
	dropped key "$1"
}

# fabric NETDEV: the name of its fabric.
fabric() {
	echo "sib-$(tr -d : <"/sys/class/net/$1/address")"
}

# switch_of NETDEV: the switch there, as the log names it.
switch_of() {
	echo "switch 0x$(tr -d : <"/sys/class/net/$1/address")0100"
}

# views NETDEV: the file that says what has become of the cables of its switch.
views() {
	echo "/sys/kernel/debug/sib/$(fabric "$1")/cables"
}

# said TEXT: how often the log has it.
said() {
	dmesg | grep -c "sib: .*$1"
}

# undisturbed COMMAND...: it succeeds, and the cable stays up meanwhile. A guest that stands still
# may lose it once, but not three times.
undisturbed() {
	local before
	for _ in 1 2 3; do
		comes
		before="$(said 'is up') $(said 'is down')"
		"$@" && sleep 1 && [ "$(said 'is up') $(said 'is down')" = "$before" ] && return
	done
	fail "the cable was disturbed, three times: $*"
}

# stays_down: the cable is not there, nor does it come.
stays_down() {
	within 30 switches sib0 1 || fail "the cable is there"
	sleep 2
	switches sib0 1 || fail "the cable has come"
}

comes() {
	within 30 switches sib0 2 || fail "the cable has not come"
}

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
run modprobe sib
configfs_up
veth
hca_up sib0 v0
hca_up sib1 v1
long=$(printf '%064d' 0)

step "What a key can be, and what is to be read of it"
shows none "$COMMON"
refuses_key "$COMMON" "${long}1"
shows none "$COMMON"
key "$COMMON" "$long"
shows set "$COMMON"
! grep -r 0000 $CONFIG || fail "the key can be read"
key "$COMMON" ""
shows none "$COMMON"

step "The same key at both ends"
for end in a b; do
	mkdir $CONFIG/$end
	refuses_key $CONFIG/$end/key "${long}1"
	key $CONFIG/$end/key "a secret"
	shows set $CONFIG/$end/key
done
echo v0 >$CONFIG/a/netdev
echo v1 >$CONFIG/b/netdev
link_address v1 >$CONFIG/a/remote
link_address v0 >$CONFIG/b/remote
python3 -B "$REPLAY" record v1 /tmp/handshake 3 &
recorder=$!
within 20 test -e /tmp/handshake || fail "nobody records"
run tee $CONFIG/a/enable $CONFIG/b/enable <<<1
comes
wait $recorder || fail "the recorder"
grep -q ' configured up switch 0x' "$(views v0)" || fail "v0 does not say that it is up: $(cat "$(views v0)")"
[ "$(refused v0) $(refused v1)" = "0 0" ] || fail "handshakes were refused"

step "Another key at one end"
key $CONFIG/b/key "another secret"
stays_down
refuses() {
	[ "$(refused "$1")" -gt 5 ]
}
for end in v0 v1; do
	within 20 refuses $end || fail "$(refused $end) handshakes refused at $end"
done
# says_why NETDEV: the log does, for the end there.
says_why() {
	[ "$(said "$(switch_of "$1"): .* waits: its other end has")" -gt 0 ]
}
for end in v0 v1; do
	within 20 says_why $end || fail "the log does not say why at $end"
done
# Not for each handshake, but whenever the reason is another one.
[ "$(said 'waits: its other end has')" -lt $(($(refused v0) + $(refused v1))) ] || fail "the log is flooded"
grep -q ' configured waits [0-9]* ms: its other end has' "$(views v0)" || fail "v0 does not say why: $(cat "$(views v0)")"

step "No key at one end"
key $CONFIG/b/key ""
stays_down

step "The right one"
key $CONFIG/b/key "a secret"
undisturbed key $CONFIG/b/key "a secret"

step "Handshakes that were recorded, while the cable is up"
repeated() {
	local strangers
	strangers=$(dropped stranger v1)
	run python3 -B "$REPLAY" repeat v1 /tmp/handshake 200
	# Answers go to the end that has said them once, which has another cookie by now.
	[ "$(dropped stranger v1)" -ge $((strangers + 200)) ]
}
undisturbed repeated
comes
opensm_up sib0
wait_active 60 sib0 sib1
cable_pair sib0 sib1 ibv_rc_pingpong -n 40
opensm_down

step "And while the other end is not there"
echo 0 >$CONFIG/b/enable
within 30 switches sib0 1 || fail "the cable is still there"
ups=$(said 'is up')
run python3 -B "$REPLAY" repeat v1 /tmp/handshake 200
[ "$(said 'is up')" = "$ups" ] || fail "a cable has come up to nobody"
echo 1 >$CONFIG/b/enable
comes

step "The key of all cables"
key "$COMMON" "common"
key $CONFIG/b/key ""
stays_down
key $CONFIG/a/key ""
comes
# With another key the ends agree anew. Just then the cable may be down, if the guest stands still.
noticed() {
	local downs
	comes
	downs=$(said 'is down')
	key "$COMMON" "common, but number $1"
	[ "$(said 'is down')" -gt "$downs" ]
}
noticed 1 || noticed 2 || noticed 3 || fail "the cable has not noticed, three times"
comes
key "$COMMON" ""
comes
run rmdir $CONFIG/a $CONFIG/b
within 30 switches sib0 1 || fail "the cable is still there"
run rdma link del sib1
run rdma link del sib0
run modprobe -r sib

step "Cables that come by themselves"
as_it_comes
run modprobe sib
key "$COMMON" "common"
hca_up sib0 v0
hca_up sib1 v1
comes
# One end is configured, and has another key from the beginning.
mkdir $CONFIG/a
key $CONFIG/a/key "another one"
echo v0 >$CONFIG/a/netdev
link_address v1 >$CONFIG/a/remote
run tee $CONFIG/a/enable <<<1
stays_down
refuses_some() {
	[ "$(refused v1)" -gt 0 ]
}
within 20 refuses_some || fail "the automatic end has refused nothing"
key $CONFIG/a/key "common"
comes
run rmdir $CONFIG/a
run rdma link del sib1
run rdma link del sib0
run ip link del v0
run modprobe -r sib

step "A key that is written while the module goes is forgotten"
for _ in {1..10}; do
	run modprobe sib
	{
		while [ -e "$COMMON" ]; do
			echo "late" >"$COMMON"
		done
	} 2>/dev/null &
	sleep 0.5
	run modprobe -r sib
	# The last one may have found no file any more.
	wait $! || true
done
