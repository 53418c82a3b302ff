#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300
# vm-long: --kernel debug --timeout 900
#
# Subnet administration of the module: what saquery asks for, IP over InfiniBand, and
# rdma_cm, without OpenSM.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"

# The debug kernel takes ten times as long for a packet.
case $(uname -r) in
*debug*) heard=20 ;;
*) heard=100 ;;
esac

# asks COUNT PATTERN OPTION...: what saquery says has so many lines like that; "some"
# is any number but none.
asks() {
	local count=$1 pattern=$2 said lines
	shift 2
	printf '$ saquery %s\n' "$*"
	said=$(timeout -k 5 60 saquery -t 20000 -C sib0 "$@" 2>&1) || fail "status $? of: saquery $*: $said"
	lines=$(grep -Eic "$pattern" <<<"$said")
	[ "$lines" = "$count" ] || { [ "$count" = some ] && [ "$lines" != 0 ]; } || {
		printf '%s\n' "$said"
		fail "$lines lines like $pattern, not $count"
	}
}

# refused OPTION...: the answer is no, and there is one.
refused() {
	local said
	printf '$ saquery %s\n' "$*"
	! said=$(timeout -k 5 60 saquery -t 20000 -C sib0 "$@" 2>&1) || fail "an answer to saquery $*: $said"
	grep -Eiq 'status|not supported|unsupported|invalid' <<<"$said" || fail "no answer to saquery $*: $said"
}

subnet_manager module
ip_fabric

step "Records"
asks 1 'Class version\.*2$' CPI
# Two ports of two HCAs, and the switch.
asks 5 'NodeRecord dump' NR
asks 2 'NodeDescription.*sib1' NR
asks 1 'port_guid.*' NR "$(lid sib0)"
asks some 'PortNum' PIR
asks 1 "dlid\.*$(lid sib1)$" -p --src-to-dst "$(lid sib0):$(lid sib1)"
asks 1 "dlid\.*$(lid sib1)$" PR --sgid "$(gid sib0)" --dgid "$(gid sib1)"
# Each of five ports to each, itself included.
asks 25 'PathRecord dump' PR
asks 1 'ff12:401b:ffff::ffff:ffff' -g
asks some 'ff12:601b:ffff::1' -g
asks 1 'SMState\.*3$' SMIR
asks 5 'GUIDInfo Record dump' GIR
asks 1 "GUID 0\.*$(port_guid sib1)" GIR "$(lid sib1)"
refused SWIR

step "IP over InfiniBand"
addresses
mtu_is 4092 || fail "not the MTU of the broadcast group"
# Members are told to who knows the key.
asks 0 'NodeDescription.*sib1' -m
asks some 'NodeDescription.*sib1' --smkey 1 -m
everything 64 4064 60000
multicast 239.1.2.3 $heard 10000
multicast ff15::1234 $heard 10000
faultless

step "rdma_cm"
run modprobe rdma_ucm
cm 7174 rping -s -a $FAR -C $few -S 4096 -V -- rping -c -a $FAR -C $few -S 4096 -V
cm 7471 ucmatose -b $FAR6 -f ip6 -c 4 -C $few -S 4096 -- ucmatose -s $FAR6 -f ip6 -c 4 -C $few -S 4096
cm 7174 udaddy -b $FAR -c 4 -C $few -S 1000 -- udaddy -s $FAR -c 4 -C $few -S 1000
mckeys 239.7.7.7
cm 18600 ib_write_bw -R -F -d sib1 -p 18600 -n $many -s 65536 -- \
	ib_write_bw -R -F -d sib0 -p 18600 -n $many -s 65536 $FAR

step "A port comes and goes, and with it its memberships"
# As saquery writes it.
port=$(python3 -c 'import ipaddress, sys; print(ipaddress.ip_address(sys.argv[1]))' "$(gid sib1)")
asks some "PortGid\.*$port$" --smkey 1 -m
run rdma link del sib1
no_member() {
	local said
	said=$(timeout -k 5 60 saquery -t 20000 -C sib0 --smkey 1 -m) && ! grep -q "PortGid\.*$port$" <<<"$said"
}
within 20 no_member || fail "groups have a member that has gone"
run ip netns del far
run ip link set "$NEAR_IF" down
run rdma link del sib0
run modprobe -qr rdma_ucm
run modprobe -r sib
