#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600
# vm-long: --kernel debug --timeout 900
#
# rdma link add and del: on any network device, several on one, names and
# devices that cannot be, underlays that go away, and the module after it all.

. "$(dirname "$0")/lib.sh"

# refuses ERRNO-TEXT COMMAND...: the command fails, and says why.
refuses() {
	local why=$1 said
	shift
	printf '$ %s\n' "$*"
	said=$("$@" 2>&1) && fail "succeeded: $*"
	grep -qi "$why" <<<"$said" || fail "not '$why', but: $said"
}

gone() {
	[ ! -e "/sys/class/infiniband/$1" ]
}

step "The module comes by itself"
underlay dum0
run rdma link add sib0 type sib netdev dum0
for module in sib ib_umad ib_uverbs; do
	grep -q "^$module " /proc/modules || fail "$module is not loaded"
done

step "What a new device looks like"
info=$(ibv_devinfo -d sib0) || fail "ibv_devinfo"
grep -q 'link_layer:.*InfiniBand' <<<"$info" || fail "not an InfiniBand port: $info"
[ "$(grep -c 'PORT_INIT' <<<"$info")" = 2 ] || fail "not two ports in INIT: $info"
[ "$(cat /sys/class/infiniband/sib0/ports/1/phys_state)" = "5: LinkUp" ] || fail "no link"
[ -e /sys/class/infiniband/sib0/device ] || fail "the device has no parent"
mac=$(tr -d : </sys/class/net/dum0/address)
[ "$(tr -d : </sys/class/infiniband/sib0/node_guid)" = "${mac}0300" ] || fail "not the GUID of the underlay"

step "Several on one underlay, on the loopback device, on devices with one address"
run ip link set lo up
hca_up sib1 dum0
hca_up sib2 lo
run ip link add dum1 type dummy
run ip link set dum1 address "$(cat /sys/class/net/dum0/address)"
hca_up sib3 dum1
guids=$(cat /sys/class/infiniband/*/node_guid /sys/class/infiniband/*/ports/*/gids/0)
[ "$(sort -u <<<"$guids" | wc -l)" = 12 ] || fail "GUIDs are not unique: $guids"
! grep -q '0000:0000:0000:0000$' <<<"$guids" || fail "a GUID is zero: $guids"

step "What cannot be"
refuses 'no such device' rdma link add sib9 type sib netdev nothing0
refuses 'invalid argument' rdma link add sib9 type sibling netdev dum0
refuses 'invalid argument' rdma link add 'sib%d' type sib netdev dum0
refuses 'file exists' rdma link add sib0 type sib netdev dum0
run modprobe rdma_rxe
run rdma link add other type rxe netdev dum0
refuses 'file exists' rdma link add other type sib netdev dum0
run rdma link del other
for name in sib9/1 . ..; do
	refuses 'invalid argument' rdma link add "$name" type sib netdev dum0
done
! dmesg | grep 'debugfs: ' || fail "debugfs complains"
refuses 'no such\|wrong device\|invalid\|not found' rdma link del sib9
for device in sib0 sib1 sib2 sib3; do
	[ -d /sys/class/infiniband/$device ] || fail "$device suffered"
done

step "The switch has so many ports and no more"
added=()
for ((number = 10; number < 40; number++)); do
	rdma link add sib$number type sib netdev dum0 2>/tmp/said || break
	added+=("sib$number")
done
grep -q 'No space left' /tmp/said || fail "no limit, or another: $(cat /tmp/said)"
[ ${#added[@]} = 16 ] || fail "${#added[@]} more fit, not 16"
for device in "${added[@]}"; do
	run rdma link del "$device"
done
[ "$(dmesg | grep -c 'no free port on the switch')" = 1 ] || fail "not one line in the log"

step "An underlay goes away, and its HCAs with it"
run ip link del dum1
within 20 gone sib3 || fail "sib3 has outlived its underlay"
run rdma link del sib2
run rdma link del sib1
run rdma link del sib0

step "Add and delete, again and again"
case $(uname -r) in
*debug*) rounds=4 ;;
*) rounds=20 ;;
esac
for ((round = 0; round < rounds; round++)); do
	rdma link add sib0 type sib netdev dum0 || fail "add in round $round"
	rdma link add sib1 type sib netdev dum0 || fail "add in round $round"
	rdma link del sib$((round % 2)) || fail "del in round $round"
	rdma link del sib$((1 - round % 2)) || fail "del in round $round"
done

step "Two at the same time"
for number in 1 2 3 4; do
	for ((round = 0; round < rounds / 2; round++)); do
		# The tool may miss a device while others go: the kernel lists them by position.
		rdma link add sib$number type sib netdev dum0 && within 60 rdma link del sib$number || exit 1
	done &
	pids[number]=$!
done
for number in 1 2 3 4; do
	wait "${pids[number]}" || fail "adding and deleting sib$number"
done

step "The module stays while a file of debugfs is open"
mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
hca_up sib0 dum0
for file in capture packets; do
	exec 3<"/sys/kernel/debug/sib/sib0/1/$file"
	refuses 'in use' rmmod sib
	run rdma link del sib0
	refuses 'in use' rmmod sib
	! cat <&3 2>/dev/null || fail "$file is still there"
	exec 3<&-
	hca_up sib0 dum0
done
run rdma link del sib0

step "Its files follow its name"
DEBUG=/sys/kernel/debug/sib
hca_up sib0 dum0
run rdma dev set sib0 name other
[ -e $DEBUG/other/1/faults ] || fail "the files are not there: $(ls $DEBUG)"
hca_up sib0 dum0
[ -e $DEBUG/sib0/1/faults ] || fail "the new sib0 has no files: $(ls $DEBUG)"
run rdma link del other
[ ! -e $DEBUG/other ] && [ -e $DEBUG/sib0/1/faults ] || fail "the wrong ones have gone: $(ls $DEBUG)"
run rdma link del sib0

step "The module goes with its devices"
hca_up sib0 dum0
run modprobe -r sib
gone sib0 || fail "sib0 has outlived the module"
[ ! -e /sys/kernel/config/sib ] || fail "configfs still has us"
[ ! -e /sys/kernel/debug/sib ] || fail "debugfs still has us"
refuses 'invalid argument' modprobe sib ports=9
refuses 'invalid argument' modprobe sib switch_ports=4
refuses 'invalid argument' modprobe sib udp_port=0
run modprobe sib ports=8
hca_up sib0 dum0
[ "$(ls /sys/class/infiniband/sib0/ports | wc -l)" = 8 ] || fail "not 8 ports"
run modprobe -r sib
