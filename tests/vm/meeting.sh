#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --nodes 2 --timeout 300 -- module one
# vm-long: --kernel stock --nodes 2 --timeout 300 -- module both two
# vm-long: --kernel stock --nodes 2 --timeout 300 -- opensm one
#
# Two hosts on one Ethernet of the usual MTU, and the commands that README.md has for them: ping over
# IPoIB and `ib_write_bw -R` from host to host within a minute, whether both come at the same time or
# one has been there alone. However large packets are, they arrive. The same with OpenSM on the first
# host, if it is told of the MTU.
#
#     meeting.sh [module|opensm [both|one|two]...]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cm.sh"
. "$(dirname "$0")/ip.sh"

OTHER=$((3 - NODE))
README="$(dirname "$0")/../../README.md"
SUBNET_MANAGER=module
MINUTE=60000

# elapsed: milliseconds since the first command.
elapsed() {
	echo $(((${EPOCHREALTIME/[.,]/} - began) / 1000))
}

# readme: the commands that README.md has for each host, with the address of this one.
readme() {
	sed -n '/^other by IP over InfiniBand/,/^To hosts/s/^    sudo //p' "$README" | sed "s|10\.8\.0\.1/|10.8.0.$NODE/|"
}

commands() {
	local command count=0
	began=${EPOCHREALTIME/[.,]/}
	while read -ra command; do
		run "${command[@]}"
		count=$((count + 1))
	done < <(readme)
	[ $count = 4 ] || fail "README.md has $count commands, and had 4"
	[ "$SUBNET_MANAGER.$NODE" != opensm.1 ] || opensm_up sib0 1 -P "$PARTITIONS"
}

# managed: the subnet has the manager that it is to have.
managed() {
	[ "$SUBNET_MANAGER" = module ] || timeout 20 sminfo -C sib0 | grep -q "guid $(cat /share/opensm)"
}

# What fits into datagrams of an MTU of 1024 bytes.
is_narrow() {
	[ "$(cat /sys/class/net/ib0/mtu)" = 1020 ]
}

has_carrier() {
	[ "$(cat /sys/class/net/ib0/carrier)" = 1 ]
}

# writes NAME: ib_write_bw from the second host to the first one. Succeeds, at both, if both have.
writes() {
	local status=0
	if [ "$NODE" = 1 ]; then
		timeout -k 5 60 ib_write_bw -R -D 5 >/tmp/written 2>&1 &
		within 20 cm_listens 18515 || fail "ib_write_bw does not listen: $(cat /tmp/written)"
		barrier "listens.$1"
		wait $! || status=$?
	else
		barrier "listens.$1"
		timeout -k 5 60 ib_write_bw -R -D 5 10.8.0.1 >/tmp/written 2>&1 || status=$?
	fi
	[ $status != 0 ] || : >"/share/written.$1.$NODE"
	barrier "written.$1"
	[ -e "/share/written.$1.1" ] && [ -e "/share/written.$1.2" ]
}

# bandwidth NAME: the same. To a host that gets no processor for a second the cable is gone, and what is
# under way lost: that is a reason to try again, and the only one.
# What such an attempt took is none of the minute.
bandwidth() {
	local attempt before tried
	printf '$ ib_write_bw -R -D 5\n'
	for attempt in 1 2 3; do
		before=$(breaks)
		tried=${EPOCHREALTIME/[.,]/}
		! writes "$1.$attempt" || {
			grep -A 1 '#bytes' /tmp/written
			return 0
		}
		[ "$(breaks)" = "$before" ] || : >"/share/broken.$1.$attempt"
		barrier "judged.$1.$attempt"
		[ -e "/share/broken.$1.$attempt" ] || break
		step "The cable has been down meanwhile"
		within 60 ping -n -c 1 -W 1 "10.8.0.$OTHER" || fail "the cable has not come back"
		began=$((began + ${EPOCHREALTIME/[.,]/} - tried))
	done
	fail "ib_write_bw: $(cat /tmp/written)"
}

# meet NAME [FIRST]: both hosts at the same time, or that one first.
meet() {
	local pinged written
	barrier "begin.$1"
	[ "${2:-$NODE}" = "$NODE" ] || barrier "first.$1"
	commands
	if [ "${2:-}" = "$NODE" ]; then
		within 60 has_carrier || fail "ib0 does not come up alone: $(ip link show ib0)"
		barrier "first.$1"
		began=${EPOCHREALTIME/[.,]/}
	fi
	within 60 ping -n -c 1 -W 1 "10.8.0.$OTHER" || {
		dmesg | grep 'sib:'
		fail "no ping"
	}
	pinged=$(elapsed)
	bandwidth "$1"
	written=$(elapsed)
	printf 'ping after %d ms, ib_write_bw after %d ms\n' "$pinged" "$written"
	[ "$written" -lt $MINUTE ] || fail "that is more than a minute"
	[ "$NODE" != 1 ] || port_guid sib0 >/share/opensm
	barrier "guid.$1"
	within 60 managed || fail "not managed by OpenSM: $(timeout 20 sminfo -C sib0)"
	within 60 is_narrow || fail "the MTU is $(cat /sys/class/net/ib0/mtu)"
	barrier "narrow.$1"
	# As large as the interface sends them, and in fragments.
	pings "10.8.0.$OTHER" $(($(cat /sys/class/net/ib0/mtu) - 28)) 5
	pings "10.8.0.$OTHER" 20000 5
	ip -br link show ib0
}

# over_ipv6: packets of IPv6, which needs an MTU of 1280, in connected mode.
over_ipv6() {
	echo connected >/sys/class/net/ib0/mode || fail "no connected mode"
	run ip link set ib0 mtu 65520
	run ip address add "fd08::$NODE/64" dev ib0 nodad
	barrier connected
	pings "fd08::$OTHER" 1400 5
	pings "fd08::$OTHER" 30000 5
	barrier ipv6
}

part() {
	opensm_down
	run ip link set ib0 down
	run rdma link del sib0
	run modprobe -r ib_ipoib rdma_ucm
	run modprobe -r sib
}

case ${1:-module} in
module) ;;
opensm)
	SUBNET_MANAGER=opensm
	partitions <<<"Default=0x7fff, ipoib, mtu=3, defmember=full: ALL, ALL_SWITCHES=full, SELF=full;"
	;;
*) fail "a subnet manager is module or opensm, not '$1'" ;;
esac
shift $(($# < 1 ? $# : 1))
as_it_comes
run ip link set eth0 mtu 1500
for round in "${@:-both}"; do
	case $round in
	both)
		step "Both at the same time"
		meet both
		;;
	one)
		step "The first host was there before"
		meet one 1
		;;
	two)
		step "The second host was there before"
		meet two 2
		;;
	*) fail "a round is both, one or two, not '$round'" ;;
	esac
	barrier "end.$round"
	[ "$round" != two ] || over_ipv6
	part
done
