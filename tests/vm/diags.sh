# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What tests of the tools of infiniband-diags have in common. Sourced after lib.sh.

# told COMMAND...: runs a command, which must succeed, and leaves its output in TOLD.
told() {
	printf '$ %s\n' "$*"
	TOLD=$(timeout -k 5 60 "$@" 2>&1) || fail "status $? of: $* $TOLD"
}

# lines PATTERN: how many lines of what was told are like that.
lines() {
	grep -Ec -- "$1" <<<"$TOLD"
}

# shows PATTERN COMMAND...: runs a command whose output must match.
shows() {
	local pattern=$1
	shift
	told "$@"
	[ "$(lines "$pattern")" != 0 ] || fail "no '$pattern' in: $TOLD"
}

# counts NUMBER PATTERN COMMAND...: so many lines of the output must match.
counts() {
	local number=$1 pattern=$2
	shift 2
	told "$@"
	[ "$(lines "$pattern")" = "$number" ] || fail "not $number times '$pattern' in: $TOLD"
}

# refuses PATTERN COMMAND...: runs a command that must fail, soon, and say why.
refuses() {
	local pattern=$1 status=0
	shift
	printf '$ %s\n' "$*"
	TOLD=$(timeout -k 5 10 "$@" 2>&1) || status=$?
	[ $status != 0 ] || fail "status 0 of: $* $TOLD"
	[ $status != 124 ] || fail "no answer to: $*"
	[ "$(lines "$pattern")" != 0 ] || fail "no '$pattern' in: $TOLD"
}

# guid_of DEVICE: the GUID of an HCA, as the tools print it.
guid_of() {
	echo "0x$(tr -d : <"/sys/class/infiniband/$1/node_guid")"
}
