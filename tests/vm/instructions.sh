#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --icount --timeout 600
#
# What messages cost, in instructions of the guest, next to what they cost when
# tests/instructions.json was written. tools/bench runs it too.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

fabric_up
step "Messages"
user cost -a sib0 -b sib1 >/tmp/cost || fail "cost"
cp /tmp/cost /share/cost
run python3 "$(dirname "$0")/../../tools/benchlib/instructions.py" \
	"$(dirname "$0")/../instructions.json" /tmp/cost /share/instructions.json
step "Messages that there are not"
! user cost -k send -s 7 >/tmp/cost 2>&1 || fail "no word about that"
grep 'no messages of that kind' /tmp/cost || fail "it says: $(cat /tmp/cost)"
fabric_down
