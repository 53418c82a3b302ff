#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --timeout 300
# vm-long: --kernel debug --timeout 900
#
# An HCA that ib_cm is kept off, beside others that it is not: whoever comes first, sib_cm
# has it, its connections work, and programs of rdma_cm are told no, but those on other HCAs
# run. The mode is chosen before an HCA is made, by configfs or by a parameter.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/cm.sh"

CONFIG=/sys/kernel/config/sib_cm
HCAS=/sys/kernel/debug/sib_cm/hcas
CM_SUP=0x10000

case $(uname -r) in
*debug*) races=2 ;;
*) races=4 ;;
esac

# has_ib_cm NAME: whether ib_cm has the HCA.
has_ib_cm() {
	[ -d "/sys/class/infiniband/$1/ports/1/cm_rx_msgs" ]
}

# mode_of NAME: the mode of the HCA, as sib_cm shows it.
mode_of() {
	sed -n "s/^$(tr -d : <"/sys/class/infiniband/$1/node_guid") \([a-z]*\) .*/\1/p" $HCAS
}

# shares: sib0 is sib_cm's alone, the others are ib_cm's too.
shares() {
	[ "$(mode_of sib0) $(mode_of sib1)" = "dedicated shared" ] || fail "$(cat $HCAS)"
	! has_ib_cm sib0 || fail "ib_cm has sib0"
	if ! has_ib_cm sib1 || ! has_ib_cm sib2; then
		fail "ib_cm has not the other HCAs"
	fi
	[ $(($(cat /sys/class/infiniband/sib0/ports/1/cap_mask) & CM_SUP)) != 0 ] || fail "sib0 has no manager"
}

# ib_cm_goes: it is unloaded, with all that uses it.
ib_cm_goes() {
	run modprobe -r rdma_ucm
	[ ! -e /sys/module/ib_cm ] || run modprobe -r ib_cm
}

on_far() {
	"$@"
}

# rdma_cm_pings FROM TO: programs of rdma_cm, by GID.
rdma_cm_pings() {
	cm 0 ucmatose -b "$(gid "$2")" -c 2 -C 10 -S 4096 -f gid -- \
		ucmatose -b "$(gid "$1")" -s "$(gid "$2")" -c 2 -C 10 -S 4096 -f gid
}

# refused COMMAND...: it fails, and soon.
refused() {
	local status=0
	timeout -k 5 60 "$@" >/tmp/refused 2>&1 || status=$?
	cat /tmp/refused
	case $status in
	0) fail "not refused: $*" ;;
	124 | 126 | 127 | 137) fail "neither refused nor done: $*" ;;
	esac
}

mountpoint -q /sys/kernel/config || run mount -t configfs none /sys/kernel/config
managed_by_module
run modprobe sib
underlay sibnet0
run modprobe rdma_ucm
run modprobe sib_cm

step "An HCA is dedicated before it is there"
run mkdir $CONFIG/sib0
[ "$(cat $CONFIG/sib0/mode)" = shared ] || fail "the default is not to share"
run sh -c "echo dedicated >$CONFIG/sib0/mode"
! echo dedicate 2>/dev/null >$CONFIG/sib0/mode || fail "nonsense is taken for a mode"
for hca in sib0 sib1 sib2; do
	hca_up $hca sibnet0
done
wait_active 60 sib0 sib1 sib2
shares

step "Connections and alternate paths of sib_cm, between it and another"
run user connect sib0 sib1 1
run user connect sib1 sib0 1
run user sidr sib0 sib1 1
run user sidr sib1 sib0 1
client cmclient
"$USER_PROGRAMS/sibcm" listen sib0 >/tmp/listener 2>&1 &
listener=$!
within 20 grep -q '^to connect' /tmp/listener || fail "nobody listens"
run user sibcm connect -c 50 -i 0.1 sib1 "$(cat /sys/class/infiniband/sib0/ports/1/lid)" "$(gid sib0)" >/tmp/caller
wait $listener || fail "$(cat /tmp/listener)"
grep -q "is the alternate one" /tmp/caller || fail "no path was loaded"
run user sibcm show >/tmp/show
cat /tmp/show
grep -Eq '^sib0 .*dedicated' /tmp/show || fail "sibcm does not show the mode"
grep -Eq '^sib1 .*shared' /tmp/show || fail "sibcm does not show the mode"

step "Programs of rdma_cm"
rdma_cm_pings sib2 sib1
refused ucmatose -b "$(gid sib0)" -s "$(gid sib1)" -c 1 -C 1 -f gid
refused ucmatose -b "$(gid sib1)" -s "$(gid sib0)" -c 1 -C 1 -f gid
rdma_cm_pings sib1 sib2

step "The mode does not change beneath an HCA"
! bash -c "echo shared >$CONFIG/sib0/mode" 2>/tmp/refused || fail "the mode has changed"
grep -q "busy" /tmp/refused || fail "$(cat /tmp/refused)"
[ "$(cat $CONFIG/sib0/mode)" = dedicated ] || fail "the mode is not told as it is"
run sh -c "echo dedicated >$CONFIG/sib0/mode"
! sh -c "rmmod sib_cm" 2>/dev/null || fail "the module goes while it is configured"
run rmdir $CONFIG/sib0
run mkdir $CONFIG/sib0
[ "$(cat $CONFIG/sib0/mode)" = dedicated ] || fail "the mode is not told as it is"
run rmdir $CONFIG/sib0

step "Whoever comes first"
shares
run rmmod sib_cm
[ $(($(cat /sys/class/infiniband/sib0/ports/1/cap_mask) & CM_SUP)) = 0 ] || fail "sib0 has a manager"
! has_ib_cm sib0 || fail "ib_cm has sib0"
ib_cm_goes
run modprobe sib_cm
run modprobe rdma_ucm
shares
run user connect sib0 sib1 1
for ((race = 0; race < races; race++)); do
	run rmmod sib_cm
	ib_cm_goes
	modprobe ib_cm &
	run modprobe sib_cm
	wait $! || fail "ib_cm does not come"
	run modprobe rdma_ucm
	shares
done >/tmp/races
run user connect sib1 sib0 1

step "There and back"
run rdma link del sib0
hca_up sib0 sibnet0
has_ib_cm sib0 || fail "ib_cm is kept off an HCA that nothing is said about"
[ "$(mode_of sib0)" = shared ] || fail "$(cat $HCAS)"
wait_active 60 sib0
rdma_cm_pings sib0 sib1
run user connect sib0 sib1 1
run rmmod sib_cm
run modprobe sib_cm dedicated=1
[ "$(mode_of sib0)" = shared ] || fail "an HCA that was there is dedicated"
run rdma link del sib0
hca_up sib0 sibnet0
shares
wait_active 60 sib0
run user connect sib0 sib1 1
for hca in sib0 sib1 sib2; do
	run rdma link del $hca
done
run rmmod sib_cm
run modprobe -r rdma_ucm
run modprobe -r sib
