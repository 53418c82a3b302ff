#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --timeout 300
# vm-long: --kernel stock --nodes 2 --timeout 400
#
# Sixteen HCAs of two ports in each kernel, of one or two hosts that find each other:
# all ports become ACTIVE, tools find no fault, and ports reach each other. Then OpenSM takes
# the subnet over, and finds no fault either.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/diags.sh"

HCAS=16
# Two links of each HCA; one cable between two hosts.
LINKS=$((2 * HCAS * NODES + NODES - 1))
LIDS=$((2 * HCAS * NODES + NODES))

# The debug kernel is a lot slower.
case $(uname -r) in
*debug*) soon=300 messages=20 ;;
*) soon=60 messages=100 ;;
esac

as_it_comes
run modprobe sib
barrier begin
began=${EPOCHREALTIME/[.,]/}
for ((hca = 0; hca < HCAS; hca++)); do
	hca_up "sib$hca" eth0
done
within "$soon" hcas sib0 $((HCAS * NODES)) || fail "HCAs are missing: $(timeout 60 ibhosts -C sib0)"
barrier cabled
for ((hca = 0; hca < HCAS; hca++)); do
	wait_active "$soon" "sib$hca"
done
within "$soon" links sib0 $LINKS || fail "not all links are active"
printf 'all is active after %d ms\n' $(((${EPOCHREALTIME/[.,]/} - began) / 1000))
barrier active

step "What subnet administration knows"
counts $LIDS 'NodeRecord dump' saquery -t 20000 -C sib0 NR
[ "$(grep -o 'lid\.*[0-9]*$' <<<"$TOLD" | sort -u | wc -l)" = $LIDS ] || fail "LIDs are not unique"
timeout 60 saquery -t 20000 -C sib0 NR | awk '/ lid\./ || /\tlid\./ { sub(/.*\./, ""); lid = $0 } /Channel Adapter/ { print lid }' >/tmp/lids
[ "$(wc -l </tmp/lids)" = $((2 * HCAS * NODES)) ] || fail "the LIDs of HCAs: $(cat /tmp/lids)"
counts 1 "^## Summary: $((HCAS * NODES + NODES)) nodes checked, 0 bad nodes found" ibqueryerrors -C sib0

step "Each HCA asks some LIDs, at QP0 and QP1"
for ((hca = 0; hca < HCAS; hca++)); do
	for ((sample = 0; sample < 4; sample++)); do
		lid=$(sed -n "$(((hca * 2 + sample * 17 + NODE) % (2 * HCAS * NODES) + 1))p" /tmp/lids)
		timeout 20 smpquery -C "sib$hca" -P $((sample % 2 + 1)) nodedesc "$lid" | grep -q sib ||
			fail "sib$hca has no answer of LID $lid at QP0"
		timeout 20 perfquery -C "sib$hca" -P $((sample % 2 + 1)) -a "$lid" | grep -q PortXmitPkts ||
			fail "sib$hca has no answer of LID $lid at QP1"
	done
done
for ((hca = 0; hca < HCAS; hca += 3)); do
	pair "sib$hca" "sib$(((hca + 7) % HCAS))" ibv_rc_pingpong -n $messages
done
if [ "$NODES" = 2 ]; then
	step "From host to host"
	if [ "$NODE" = 1 ]; then
		ibv_rc_pingpong -d sib5 -i 2 -n $messages >/tmp/server &
		within 20 listening 18515 || fail "nobody listens"
		barrier listening
		wait $! || fail "status $?: $(cat /tmp/server)"
	else
		barrier listening
		run timeout 60 ibv_rc_pingpong -d sib11 -i 1 -n $messages 10.77.0.1
	fi
fi
! dmesg | grep 'sib: no memory' || fail "the subnet manager has no memory"
barrier over
step "OpenSM takes the subnet and finds no fault with it"
if [ "$NODE" = 1 ]; then
	opensm_up sib0
	cat /sys/class/infiniband/sib0/ports/1/lid >/share/manager
	within "$soon" grep -q 'SUBNET UP' "$OPENSM_LOG" || fail "no sweep: $(tail -n 30 "$OPENSM_LOG")"
fi
barrier swept
within "$soon" managed_by $(($(cat /share/manager))) || fail "OpenSM is not the master of all ports"
for ((hca = 0; hca < HCAS; hca++)); do
	wait_active "$soon" "sib$hca"
done
barrier managed
if [ "$NODE" = 1 ]; then
	within "$soon" links sib0 $LINKS || fail "not all links are active"
	# It is right to complain of a master whose SM_Key is another than its own.
	opensm_clean_since 0 'ERR 2F18'
	opensm_down
fi
barrier ended
run modprobe -r sib
