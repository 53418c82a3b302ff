#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 -- sib
# vm-long: --kernel stock --timeout 600 -- sib udp
# vm-long: --kernel debug --timeout 1500 -- sib
#
# The tests of pyverbs, which Debian's python3-pyverbs ships: every module that is
# not for one vendor's hardware, with addresses by LID and with GRHs. Those of librdmacm
# have an address of IP over InfiniBand. What became of each test is left in /share.
#
#     pyverbs.sh [sib|rxe [handoff|udp [MODULE...]]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"

SHIPPED=/usr/share/doc/rdma-core/tests
TESTS=/tmp/pyverbs/tests
# Some tests want huge pages, of 2 MiB.
HUGE_PAGES=16

# suite DEVICE PATH [MODULE]...: all tests on a device.
suite() {
	local device=$1 path=$2
	local -a interface=()
	shift 2
	[ -z "${NEAR_IF:-}" ] || interface=(--interface "$NEAR_IF")
	step "$device by ${path^^}"
	python3 -B "$(dirname "$0")/pyverbs/suite.py" --tests "$TESTS" --device "$device" \
		--path "$path" --out "/share/pyverbs-$device-$path.json" ${interface[@]+"${interface[@]}"} "$@"
}

# passes PATH: at least as many tests pass as the manual says; one that is skipped is none.
passes() {
	local due count
	due=$(grep -iA 1 "^   \* - sib \(by\|with\) $1$" "$(dirname "$0")/../../Documentation/conformance.rst" |
		sed -n '2s/.*- //p')
	count=$(grep -c '"verdict": "pass"' "/share/pyverbs-sib0-$1.json")
	[ "$count" -ge "${due:?is not in the manual}" ] || {
		echo "$1: $count tests pass, and $due did when the manual was written"
		return 1
	}
}

# interface_up: an interface of sib0 with an address, in the partition's group.
interface_up() {
	run modprobe ib_ipoib
	run modprobe rdma_ucm
	NEAR_IF=$(ipoib_of sib0) || fail "sib0 has no network interface"
	run ip address add "$NEAR/24" dev "$NEAR_IF"
	run ip link set "$NEAR_IF" up
	within 90 has_carrier || fail "$NEAR_IF does not come up"
}

has_carrier() {
	grep -q 1 "/sys/class/net/$NEAR_IF/carrier"
}

kind=${1:-sib} way=${2:-handoff}
shift $(($# < 2 ? $# : 2))
mkdir -p "$(dirname "$TESTS")"
cp -r "$SHIPPED" "$TESTS" || fail "the tests of pyverbs are not in this guest"
gunzip -rf "$TESTS"
echo $HUGE_PAGES >/proc/sys/vm/nr_hugepages

failed=
case $kind in
sib)
	datapath "$way"
	fabric_up
	interface_up
	for path in lid grh; do
		suite sib0 $path "$@" || failed="$failed $path"
		[ $# != 0 ] || passes $path || failed="$failed $path"
	done
	no_objects
	run ip link set "$NEAR_IF" down
	run modprobe -r rdma_ucm
	fabric_down
	[ -z "$failed" ] || fail "pyverbs has failures:$failed"
	;;
rxe)
	underlay rxenet0
	run ip address add 10.9.0.1/24 dev rxenet0
	run modprobe rdma_rxe
	run modprobe rdma_ucm
	run rdma link add rxe0 type rxe netdev rxenet0
	within 20 port_active rxe0 || fail "rxe0 is not ACTIVE"
	suite rxe0 grh "$@"
	run rdma link del rxe0
	;;
*) fail "a device is sib or rxe, not '$kind'" ;;
esac
