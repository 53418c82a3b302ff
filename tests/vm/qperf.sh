#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --timeout 300 -- handoff
# vm-long: --kernel stock --timeout 300 -- udp
# vm-long: --kernel stock --timeout 300 -- handoff 1%
# vm-long: --kernel stock --timeout 300 -- udp 5% rc_bw rc_lat rc_rdma_read_bw ver_rc_fetch_add
#
# qperf between two HCAs: every test of reliable and unreliable connections and of
# datagrams gives a figure, and those that verify atomics find them right.
#
#     qperf.sh [handoff|udp [PERCENT% [TEST...]]]
#
# If so many packets are lost, come twice and come late, what others than reliable
# connections get is anybody's guess, so these alone are tested.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/rules.sh"

SECONDS_EACH=1

reliable=(rc_bi_bw rc_bw rc_lat rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw
	rc_rdma_write_lat rc_rdma_write_poll_lat rc_compare_swap_mr rc_fetch_add_mr
	ver_rc_compare_swap ver_rc_fetch_add)
unreliable=(uc_bi_bw uc_bw uc_lat uc_rdma_write_bw uc_rdma_write_lat uc_rdma_write_poll_lat
	ud_bi_bw ud_bw ud_lat)

way=${1:-handoff} percent=${2:-0%}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || {
	set -- "${reliable[@]}"
	[ "$percent" != 0% ] || set -- "$@" "${unreliable[@]}"
}

datapath "$way"
fabric_up
[ "$percent" = 0% ] || begin_to_suffer "drop in probability=$percent seed={N}" \
	"duplicate in probability=$percent seed={N}" "reorder in probability=$percent seed={N}"
qperf >/tmp/qperf.server 2>&1 &
server=$!
within 20 listening 19765 || fail "the server of qperf does not listen"
for test; do
	timeout -k 5 60 qperf -t $SECONDS_EACH -li sib0:1 -ri sib1:1 127.0.0.1 "$test" >/tmp/qperf 2>&1 || {
		cat /tmp/qperf /tmp/qperf.server
		fail "qperf $test: status $?"
	}
	# A figure above zero, with its unit.
	grep -Eq '= +[0-9.]*[1-9][0-9.]* ' /tmp/qperf || {
		cat /tmp/qperf
		fail "qperf $test gives no figure"
	}
	tr -s ' \n' ' ' </tmp/qperf
	echo
done
kill $server
wait $server 2>/dev/null
[ "$percent" = 0% ] || end_to_suffer
no_objects
fabric_down
