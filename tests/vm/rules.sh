# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What ports of HCAs are to do to packets, by the fault injector. Sourced after lib.sh.

DEBUG=/sys/kernel/debug/sib

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug

# rules DEVICE RULE...: what the port of a device does to packets from now on.
rules() {
	local device=$1 rule
	shift
	for rule; do
		echo "$rule" >"$DEBUG/$device/1/faults" || fail "$device does not take the rule: $rule"
	done
}

# struck DEVICE: the number of packets that the rules of a port have struck.
struck() {
	sed -n 's/.*struck=//p' "$DEBUG/$1/1/faults" | awk '{ sum += $1 } END { print sum + 0 }'
}

# begin_to_suffer RULE...: both HCAs get the same rules; {N} is a seed.
begin_to_suffer() {
	local device rule
	step "$*"
	for device in sib0 sib1; do
		rules $device clear
		for rule; do
			rules $device "${rule//\{N\}/${device#sib}}"
		done
	done
}

# end_to_suffer: the rules have struck, and go.
end_to_suffer() {
	local device
	for device in sib0 sib1; do
		cat "$DEBUG/$device/1/faults"
		[ "$(struck $device)" -gt 0 ] || fail "nothing was struck at $device"
		rules $device clear
	done
}
