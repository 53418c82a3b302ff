#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel debug --timeout 1500
#
# What every change is to pass on the kernel that looks for bugs: short runs of other tests,
# one after the other in one guest, since that takes more than a minute to begin and to look
# for leaks at the end.

. "$(dirname "$0")/lib.sh"

while read -r test arguments; do
	step "$test $arguments"
	# shellcheck disable=SC2086 # several arguments
	run bash "$(dirname "$0")/$test.sh" $arguments </dev/null
done <<'END'
data handoff 1
hostile 20 handoff
lifecycle 3
leaving 4
cmfuzz 4 handoff
nomem handoff 7
END
