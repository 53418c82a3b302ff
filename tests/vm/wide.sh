#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --timeout 400
#
# A switch of 250 ports. 30 HCAs of 8 ports become ACTIVE and reach each other. Most of them
# go then, since libibumad knows no more than 64 ports, and the tools of infiniband-diags find
# no fault with what is left, at ports up to 240. Multicast reaches members at ports of many
# positions (of 16 ports each), all at once and one alone. OpenSM cannot be used: it knows no
# HCAs of so many ports.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/diags.sh"

HCAS=30 PORTS=8
# Those that stay, but for the first one. Each has its last port at another position.
MEMBERS=(7 11 15 19 23 26 29)
LINKS=$(((${#MEMBERS[@]} + 1) * PORTS))
soon=120

# behind HCA PORT: the port of the switch that a port hangs on.
behind() {
	timeout 20 smpquery -C "sib$1" -P "$2" -D nodeinfo "0,$2" | sed -n 's/^LocalPort:\.*//p'
}

is_member() {
	[[ " 0 ${MEMBERS[*]} " == *" $1 "* ]]
}

# link_local NETDEV: its address of that kind, in the namespace of the members.
link_local() {
	ip -n far -6 -br address show dev "$1" scope link | grep -o 'fe80:[^/ ]*'
}

# up NETDEV
up() {
	! ip -n far -o link show "$1" | grep -q NO-CARRIER && [ -n "$(link_local "$1")" ] &&
		! ip -n far -6 address show dev "$1" | grep -q tentative
}

# all_answer: each member answers what is sent to all IPv6 hosts, within a few tries.
all_answer() {
	ping -n -c 3 -W 5 "ff02::1%$NEAR_IF" >/tmp/answers
	ANSWERS=$(grep -o 'from fe80:[^% ]*' /tmp/answers | sed 's/from //; s/:$//' | sort -u)
	[ "$(comm -13 <(echo "$ANSWERS") <(sort -u /tmp/members))" = "" ]
}

# all_lids: the LIDs of all ports.
all_lids() {
	local file
	for file in /sys/class/infiniband/*/ports/*/lid; do
		printf '%d\n' "$(cat "$file")"
	done | sort -n
}

managed_by_module
run modprobe sib switch_ports=250 ports=$PORTS
# It numbers ports as they come.
run modprobe -qr ib_umad
underlay sibnet0
began=${EPOCHREALTIME/[.,]/}
for ((hca = 0; hca < HCAS; hca++)); do
	hca_up "sib$hca" sibnet0
done
for ((hca = 0; hca < HCAS; hca++)); do
	wait_active $soon "sib$hca"
done
printf 'all is active after %d ms\n' $(((${EPOCHREALTIME/[.,]/} - began) / 1000))
all_lids >/tmp/lids
[ "$(uniq /tmp/lids | wc -l)" = $((HCAS * PORTS)) ] || fail "LIDs are not unique: $(cat /tmp/lids)"
[ "$(head -n 1 /tmp/lids)" -gt 0 ] || fail "a port has no LID"
for ((hca = 0; hca < HCAS; hca += 3)); do
	pair "sib$hca" "sib$(((hca + 13) % HCAS))" ibv_rc_pingpong -n 100
done
! dmesg | grep 'sib: no memory' || fail "the subnet manager has no memory"

step "Most HCAs go"
for ((hca = 0; hca < HCAS; hca++)); do
	is_member $hca || rdma link del "sib$hca" || fail "sib$hca does not go"
done
run modprobe ib_umad
for hca in 0 "${MEMBERS[@]}"; do
	wait_active $soon "sib$hca"
done
within $soon links sib0 $LINKS || fail "not all links are active: $(timeout 60 iblinkinfo -C sib0 -l)"
# Where an HCA has gone, a link is down.
timeout 60 ibqueryerrors -C sib0 -k >/tmp/errors
grep -q '^## Summary' /tmp/errors || fail "ibqueryerrors has not looked at all: $(cat /tmp/errors)"
! grep 'port [0-9]*:' /tmp/errors | grep -v '\[LinkDownedCounter == 1\]$' || fail "a port has another error"
counts 1 "^## Summary: $((${#MEMBERS[@]} + 2)) nodes checked, 0 bad nodes found" ibqueryerrors -C sib0
for hca in 0 "${MEMBERS[@]}"; do
	for port in 1 $PORTS; do
		timeout 20 smpquery -C sib0 nodedesc "$(lid "sib$hca" $port)" | grep -q "\bsib$hca$" ||
			fail "port $port of sib$hca has no answer at QP0"
		timeout 20 perfquery -C sib0 -P 2 "$(lid "sib$hca" $port)" $port | grep -q PortXmitPkts ||
			fail "port $port of sib$hca has no answer at QP1"
	done
done

step "Multicast to members at ports of all positions"
run modprobe ib_ipoib
run ip netns add far
NEAR_IF=$(ipoib_of sib0) || fail "sib0 has no network interface"
run ip link set "$NEAR_IF" up
INTERFACES=()
for hca in "${MEMBERS[@]}"; do
	FAR_IF=$(ipoib_of "sib$hca" $PORTS) || fail "sib$hca has no network interface"
	ip link set "$FAR_IF" netns far || fail "$FAR_IF"
	ip -n far link set "$FAR_IF" up || fail "$FAR_IF"
	place=$(behind "$hca" $PORTS)
	printf 'sib%s: %s at port %s of the switch\n' "$hca" "$FAR_IF" "$place"
	[ "$place" -gt 36 ] || fail "that is not beyond the usual ports"
	INTERFACES+=("$FAR_IF")
done
for netdev in "${INTERFACES[@]}"; do
	within $soon up "$netdev" || fail "$netdev does not come up: $(ip -n far address show dev "$netdev")"
	link_local "$netdev" >>/tmp/members
done
[ "$(sort -u /tmp/members | wc -l)" = ${#MEMBERS[@]} ] || fail "addresses: $(cat /tmp/members)"
within $soon all_answer || fail "members do not answer: $(comm -13 <(echo "$ANSWERS") <(sort -u /tmp/members))"
printf '%d answer, all %d members among them\n' "$(wc -l <<<"$ANSWERS")" ${#MEMBERS[@]}
run timeout 20 ibroute -C sib0 -M "$(timeout 20 smpquery -C sib0 -D portinfo 0,1 0 | sed -n 's/^Lid:\.*//p')"
for member in 0 3 6; do
	step "A group with sib${MEMBERS[member]} alone"
	FAR_IF=${INTERFACES[member]}
	multicast "ff15::123$member" 50 1000
done
run ip netns del far
run ip link set "$NEAR_IF" down
run modprobe -r sib
