# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What tests of IPoIB and of what stands on it have in common. Sourced after lib.sh.
#
# Two hosts in one guest: the network interfaces of the second HCA are in the
# namespace `far`, so that the kernel has no way to it but the fabric.

# Addresses of the first host and of the second.
NEAR=10.8.0.1 FAR=10.8.0.2
NEAR6=fd08::1 FAR6=fd08::2
TALK="$(dirname "$0")/ip/talk.py"
TALK_PORT=5100
# Bytes of a stream. The debug kernel takes ten times as long for a packet.
case $(uname -r) in
*debug*) STREAM=1000000 ;;
*) STREAM=5000000 ;;
esac

# far COMMAND...: on the second host.
far() {
	ip netns exec far "$@"
}

# ipoib_of DEVICE [PORT]: the network interface of a port. The last eight bytes of its
# address are the port's GUID.
ipoib_of() {
	local guid file
	guid=$(cut -d : -f 5- "/sys/class/infiniband/$1/ports/${2:-1}/gids/0" |
		sed 's/\([0-9a-f]\{2\}\)\([0-9a-f]\{2\}\)/\1:\2/g')
	for file in /sys/class/net/*/address; do
		! grep -q ":$guid$" "$file" || {
			basename "$(dirname "$file")"
			return
		}
	done
	return 1
}

# partitions TEXT: what OpenSM makes of the fabric from now on.
PARTITIONS=/tmp/partitions.conf
partitions() {
	cat >"$PARTITIONS"
}

# subnet_manager opensm|module: who manages the fabric. To be called before the module is
# loaded.
SUBNET_MANAGER=opensm
subnet_manager() {
	case $1 in
	opensm) ;;
	module) managed_by_module ;;
	*) fail "a subnet manager is opensm or module, not '$1'" ;;
	esac
	SUBNET_MANAGER=$1
}

# ip_opensm_up DEVICE PORT: OpenSM there, which makes the group that IP over InfiniBand
# needs unless it is told something else.
ip_opensm_up() {
	[ -e "$PARTITIONS" ] || partitions <<<"Default=0x7fff, ipoib, defmember=full: ALL, ALL_SWITCHES=full, SELF=full;"
	opensm_up "$1" "$2" -P "$PARTITIONS"
}

# ip_hcas [DEVICE PORT]: HCAs sib0 and sib1, and OpenSM on that port if it is to be.
ip_hcas() {
	hcas_up
	[ "$SUBNET_MANAGER" = module ] || ip_opensm_up "${1:-sib0}" "${2:-1}"
	wait_active 60 sib0 sib1
}

# ip_fabric [DEVICE PORT]: these, and the interfaces of their first ports, NEAR_IF and
# FAR_IF, on two hosts.
ip_fabric() {
	ip_hcas "$@"
	run modprobe ib_ipoib
	run ip netns add far
	run ip -n far link set lo up
	NEAR_IF=$(ipoib_of sib0) || fail "sib0 has no network interface"
	FAR_IF=$(ipoib_of sib1) || fail "sib1 has no network interface"
	run ip link set "$FAR_IF" netns far
}

# addresses: gives both interfaces their addresses and waits until they have a carrier.
addresses() {
	run ip address add "$NEAR/24" dev "$NEAR_IF"
	run ip address add "$NEAR6/64" dev "$NEAR_IF"
	run ip -n far address add "$FAR/24" dev "$FAR_IF"
	run ip -n far address add "$FAR6/64" dev "$FAR_IF"
	run ip link set "$NEAR_IF" up
	run ip -n far link set "$FAR_IF" up
	carriers
}

# carriers: waits until both interfaces have joined their groups and have their addresses.
carriers() {
	within 90 ready || {
		ip address
		ip -n far address
		fail "the interfaces do not come up"
	}
}

# child NAME P_KEY NETWORK: makes both interfaces of a partition, and goes on with them.
child() {
	[ -n "${PARENTS:-}" ] || PARENTS=("$NEAR_IF" "$FAR_IF")
	run ip link add link "${PARENTS[0]}" name "$1" type ipoib pkey "$2"
	run ip -n far link add link "${PARENTS[1]}" name "$1" type ipoib pkey "$2"
	NEAR_IF=$1 FAR_IF=$1
	NEAR=10.$3.0.1 FAR=10.$3.0.2 NEAR6=fd$3::1 FAR6=fd$3::2
	addresses
}

# parents_again: goes on with the interfaces in the default partition.
parents_again() {
	NEAR_IF=${PARENTS[0]} FAR_IF=${PARENTS[1]}
}

ready() {
	local links addresses
	links=$(ip -o link show "$NEAR_IF" && ip -n far -o link show "$FAR_IF") &&
		addresses=$(ip -6 address show dev "$NEAR_IF" && ip -n far -6 address show dev "$FAR_IF") &&
		! grep -q NO-CARRIER <<<"$links" && ! grep -q tentative <<<"$addresses"
}

# ip_fabric_of_one: the same, with addresses, on one host, for users in the kernel that
# do not know of namespaces. What the host sends from one of its own addresses to the
# other leaves by an interface and comes in at the other.
ip_fabric_of_one() {
	ip_hcas
	run modprobe ib_ipoib
	NEAR_IF=$(ipoib_of sib0) || fail "sib0 has no network interface"
	FAR_IF=$(ipoib_of sib1) || fail "sib1 has no network interface"
	echo 1 >/proc/sys/net/ipv4/conf/all/accept_local
	echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore
	run ip address add $NEAR/32 dev "$NEAR_IF"
	run ip address add $FAR/32 dev "$FAR_IF"
	run ip link set "$NEAR_IF" up
	run ip link set "$FAR_IF" up
	run ip rule add pref 20 lookup local
	run ip rule add pref 10 iif lo lookup 100
	# rdma_cm asks by which interface it would answer.
	run ip rule add pref 11 oif "$NEAR_IF" lookup 100
	run ip rule add pref 12 oif "$FAR_IF" lookup 100
	run ip rule del pref 0
	run ip route add $FAR dev "$NEAR_IF" src $NEAR table 100
	run ip route add $NEAR dev "$FAR_IF" src $FAR table 100
	within 90 answered || fail "no answer from $FAR"
}

answered() {
	ping -n -c 1 -W 1 $FAR
}

# ip_of_one_down: undoes ip_fabric_of_one.
ip_of_one_down() {
	ip_managed_by_nobody
	run ip link set "$FAR_IF" down
	run ip link set "$NEAR_IF" down
	run ip rule add pref 0 lookup local
	run ip rule del pref 10
	run ip rule del pref 11
	run ip rule del pref 12
	run ip rule del pref 20
	run rdma link del sib1
	run rdma link del sib0
	run modprobe -r sib
}

# ip_managed_by_nobody: ends OpenSM, if it was to be.
ip_managed_by_nobody() {
	[ "$SUBNET_MANAGER" = opensm ] || return 0
	opensm_clean
	opensm_down
}

# ip_down: undoes ip_fabric. OpenSM must have had nothing to complain of.
ip_down() {
	ip_managed_by_nobody
	run ip -n far link set "$FAR_IF" down
	run ip link set "$NEAR_IF" down
	run ip netns del far
	run rdma link del sib1
	run rdma link del sib0
	run modprobe -qr rdma_ucm
	run modprobe -r sib
}

# pings ADDRESS SIZE COUNT [OPTION...]: every echo comes back, with each byte as it was.
# When the subnet manager has ports register anew, ib_ipoib forgets its neighbours, and
# keeps three packets until it knows them again: what is lost then is asked for again.
pings() {
	local address=$1 size=$2 count=$3 said
	shift 3
	printf '$ ping -s %s -c %s %s %s\n' "$size" "$count" "$*" "$address"
	# While the way to a neighbour is being asked for, ib_ipoib keeps three packets.
	within 60 ping -n -c 1 -W 2 "$@" "$address" || fail "$address does not answer"
	for _ in 1 2 3; do
		said=$(timeout -k 5 60 ping -n -s "$size" -c "$count" -i 0.02 -W 5 "$@" "$address" 2>&1)
		! grep -Eiq 'wrong data|DUP|truncated|corrupted' <<<"$said" || {
			printf '%s\n' "$said"
			fail "not every echo of $size bytes is right"
		}
		! grep -q ' 0% packet loss' <<<"$said" || {
			tail -n 1 <<<"$said"
			return
		}
		printf '%s\n' "$said"
	done
	fail "echoes of $size bytes are lost"
}

# serves PORT: somebody on the second host listens.
serves() {
	[ -n "$(far ss -Htln "sport = :$1")" ]
}

# stream ADDRESS BYTES [SECONDS]: so many bytes by TCP there, in so much time at least, and back, all
# of them right.
stream() {
	local server status=0
	TALK_PORT=$((TALK_PORT + 1))
	printf '$ a stream of %s bytes to %s and back\n' "$2" "$1"
	far timeout -k 5 400 python3 -B "$TALK" serve "$1" $TALK_PORT "$2" &
	server=$!
	within 60 serves $TALK_PORT || fail "nobody listens"
	timeout -k 5 400 python3 -B "$TALK" call "$1" $TALK_PORT "$2" "${3:-0}" || status=$?
	wait $server || status=$?
	[ $status = 0 ] || fail "the stream has broken"
}

# iperf ADDRESS [OPTION...]: iperf3 from here to the second host.
iperf() {
	local address=$1 server status=0
	shift
	TALK_PORT=$((TALK_PORT + 1))
	printf '$ iperf3 -c %s %s\n' "$address" "$*"
	far timeout -k 5 60 iperf3 -s -1 -B "$address" -p $TALK_PORT >/tmp/iperf3.server 2>&1 &
	server=$!
	within 60 serves $TALK_PORT || fail "iperf3 does not listen"
	timeout -k 5 60 iperf3 -c "$address" -p $TALK_PORT "$@" >/tmp/iperf3.client 2>&1 || status=$?
	wait $server || status=$?
	grep -E 'sender|receiver' /tmp/iperf3.client
	[ $status = 0 ] || {
		cat /tmp/iperf3.client /tmp/iperf3.server
		fail "iperf3 $*"
	}
}

# few_lost ADDRESS OPTION...: datagrams of iperf3, of which at most one in a hundred is lost.
# A host that gets no processor for a second loses what is under way, so there are more tries.
few_lost() {
	local lost all
	for _ in 1 2 3; do
		iperf "$@" -u
		read -r lost all < <(sed -n 's,.* \([0-9]*\)/\([0-9]*\) (.*receiver$,\1 \2,p' /tmp/iperf3.client)
		[ "${all:-0}" -gt 0 ] || fail "iperf3 does not say what is lost: $(cat /tmp/iperf3.client)"
		[ $((lost * 100)) -gt "$all" ] || return 0
	done
	fail "$lost datagrams of $all are lost"
}

# faultless: no interface has an error to report.
faultless() {
	local file
	for file in tx_errors rx_errors rx_dropped; do
		[ "$(cat "/sys/class/net/$NEAR_IF/statistics/$file")" = 0 ] &&
			[ "$(far cat "/sys/class/net/$FAR_IF/statistics/$file")" = 0 ] || {
			ip -s link show "$NEAR_IF"
			ip -n far -s link show "$FAR_IF"
			fail "$file"
		}
	done
}

# mtu_is MTU: of both interfaces.
mtu_is() {
	[ "$(cat "/sys/class/net/$NEAR_IF/mtu")" = "$1" ] &&
		[ "$(far cat "/sys/class/net/$FAR_IF/mtu")" = "$1" ]
}

# multicast GROUP COUNT SIZE: datagrams of this host reach a member on the other.
multicast() {
	local member status=0
	TALK_PORT=$((TALK_PORT + 1))
	printf '$ %s datagrams of up to %s bytes to %s\n' "$2" "$3" "$1"
	rm -f /tmp/member
	far timeout -k 5 60 python3 -B "$TALK" hear "$1" $TALK_PORT "$FAR_IF" "$2" "$3" >/tmp/member &
	member=$!
	within 60 grep -q joined /tmp/member || fail "no member of $1"
	within 60 knows_member "$1" || fail "the fabric does not know $1"
	timeout -k 5 60 python3 -B "$TALK" tell "$1" $TALK_PORT "$NEAR_IF" "$2" "$3" /tmp/member || status=$?
	wait $member || status=$?
	[ $status = 0 ] || fail "multicast to $1"
}

# The subnet administrator lists the second host as a member of the group: its MGID ends
# in the lower 28 bits of an IPv4 address, or in the lower 80 of an IPv6 one.
knows_member() {
	timeout 20 saquery -g -C sib0 | grep -iq "MGID.*$(group_suffix "$1")"
}

group_suffix() {
	case $1 in
	*:*) echo "${1##*:}" ;;
	*) printf '%x:%x' $((${1%%.*} % 16 * 256 + $(cut -d . -f 2 <<<"$1"))) \
		$(($(cut -d . -f 3 <<<"$1") * 256 + ${1##*.})) ;;
	esac
}

# everything SIZE...: echoes of these sizes, and streams, by IPv4 and IPv6.
everything() {
	local size
	for size in "$@"; do
		pings $FAR "$size" 5
		pings $FAR6 "$size" 5
	done
	stream $FAR $STREAM
	stream $FAR6 $STREAM
}
