#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 --package libfabric-bin -- udp
# vm-long: --kernel stock --timeout 600 --package libfabric-bin -- handoff
# vm-long: --kernel debug --timeout 1800 --package libfabric-bin -- handoff
#
# libfabric, whose provider `verbs` takes HCAs as they are: endpoints that rdma_cm connects by IP over
# InfiniBand, reliable ones that need no connection, which are made of those (rxm), datagrams, and reliable
# ones made of these (rxd). Each message is compared with what was sent.
#
#     libfabric.sh [handoff|udp]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"

# Messages of each size, each way.
case $(uname -r) in
*debug*) MESSAGES=3 ;;
*) MESSAGES=10 ;;
esac
# Where servers listen for what else two programs tell each other.
CONTROL=47592

on_near() {
	"$@"
}

on_far() {
	far "$@"
}

packets() {
	cat /sys/class/infiniband/sib[01]/ports/1/counters/port_xmit_packets | awk '{ sum += $1 } END { print sum }'
}

listens() {
	[ -n "$("$1" ss -Htln "sport = :$CONTROL")" ]
}

# pingpong SERVER DOMAIN CLIENT-DOMAIN ADDRESS SIZES [OPTION]...: messages from here to a server and back, of so many
# sizes. Each host sees both HCAs, and libfabric takes the first one unless it is told.
pingpong() {
	local on=$1 domain=$2 mine=$3 address=$4 sizes=$5 server status=0 before passed
	shift 5
	printf '$ fi_pingpong -d %s %s &  fi_pingpong -d %s %s %s\n' "$domain" "$*" "$mine" "$*" "$address"
	before=$(packets)
	"$on" timeout -k 5 100 fi_pingpong -d "$domain" -c -I $MESSAGES "$@" >/tmp/server 2>&1 &
	server=$!
	within 20 listens "$on" || fail "nobody listens: $(cat /tmp/server)"
	timeout -k 5 100 fi_pingpong -d "$mine" -c -I $MESSAGES "$@" "$address" >/tmp/client 2>&1 || status=$?
	[ $status = 0 ] || fail "status $status: $(cat /tmp/client)"
	wait $server || fail "status $? of the server: $(cat /tmp/server)"
	SENT=$(($(packets) - before))
	passed=$(grep -c "=$MESSAGES " /tmp/client)
	printf '%d sizes, the last one %s; %d packets\n' "$passed" "$(tail -n 1 /tmp/client | cut -d ' ' -f 1)" "$SENT"
	[ "$passed" -ge "$sizes" ] || fail "so many sizes are not $sizes: $(cat /tmp/client)"
	[ "$SENT" -ge $((2 * MESSAGES * passed)) ] || fail "they went another way"
}

# offers TYPE PROTOCOL: both HCAs are there with that.
offers() {
	local hca
	for hca in sib0 sib1; do
		grep -A 3 "domain: $hca\(-dgram\)\?$" /tmp/info | grep -A 1 "type: $1$" | grep -q "protocol: $2$" ||
			fail "$hca is not there as $1 by $2: $(cat /tmp/info)"
	done
}

datapath "${1:-handoff}"
ip_fabric
addresses
run modprobe rdma_ucm
pings $FAR 56 1
pings $FAR6 56 1
ulimit -l unlimited

step "What libfabric finds"
fi_info -p verbs >/tmp/info 2>&1 || fail "fi_info: $(cat /tmp/info)"
offers FI_EP_MSG FI_PROTO_RDMA_CM_IB_RC
offers FI_EP_DGRAM FI_PROTO_IB_UD
offers FI_EP_RDM FI_PROTO_RXM
offers FI_EP_RDM FI_PROTO_RXD

step "Connections"
pingpong on_far sib1 sib0 $FAR 40 -p verbs -e msg -S all
pingpong on_far sib1 sib0 $FAR6 1 -p verbs -e msg -6 -S 65536
pingpong on_near sib0 sib0 $NEAR 40 -p verbs -e msg -S all

step "Reliable endpoints on connections"
pingpong on_far sib1 sib0 $FAR 40 -p "verbs;ofi_rxm" -e rdm -S all
pingpong on_far sib1 sib0 $FAR 40 -p "verbs;ofi_rxm" -e rdm -m tagged -S all
pingpong on_near sib0 sib0 $NEAR 1 -p "verbs;ofi_rxm" -e rdm -m tagged -S 65536

step "Datagrams"
pingpong on_far sib1-dgram sib0-dgram $FAR 15 -p verbs -e dgram -S all
pingpong on_near sib0-dgram sib0-dgram $NEAR 15 -p verbs -e dgram -S all

step "Reliable endpoints on datagrams"
pingpong on_far sib1-dgram sib0-dgram $FAR 40 -p "verbs;ofi_rxd" -e rdm -S all
pingpong on_far sib1-dgram sib0-dgram $FAR 1 -p "verbs;ofi_rxd" -e rdm -m tagged -S 65536

no_objects
ip_down
