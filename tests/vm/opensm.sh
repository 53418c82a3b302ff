#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600
# vm-long: --kernel debug --timeout 900
#
# A stock OpenSM sweeps the switch and its HCAs without finding fault, and the
# stock diagnostics see what they should. OpenSM may stop and come back.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/diags.sh"
. "$(dirname "$0")/user.sh"

step "OpenSM brings all ports to ACTIVE"
fabric_up sib0 sib1 sib2

step "Discovery"
shows 'Switch.*36.*sib switch sibnet0' ibnetdiscover
shows 'Ca.*2.*sib2' ibnetdiscover
within 30 links sib0 6 || fail "iblinkinfo"
shows 'State: Active' ibstat sib1 1
shows 'SMINFO_MASTER' sminfo
shows 'SMINFO_MASTER' sminfo -C sib2

step "Queries by LID and by directed route"
switch=$(timeout 30 ibswitches | sed -n 's/.* lid \([0-9]*\) .*/\1/p')
for lid in "$(lid sib0)" "$(lid sib1 2)" "$switch"; do
	shows 'Guid:' smpquery nodeinfo "$lid"
	shows 'Node Description:.*sib' smpquery nodedesc "$lid"
done
shows 'LinkState:.*Active' smpquery portinfo "$(lid sib2)" 1
shows 'LinearFdbCap:.*49152' smpquery switchinfo "$switch"
shows 'NodeType:.*Switch' smpquery -D nodeinfo 0,1
shows 'NodeType:.*Channel Adapter' smpquery -D nodeinfo 0,1,3
shows 'LinkState:.*Active' smpquery -D portinfo 0,1 3
shows '0xffff' smpquery pkeys "$(lid sib1)" 1
shows '0x' smpquery guidinfo "$(lid sib1)"
shows 'SL:' smpquery sl2vl "$(lid sib1)"
shows 'VL' smpquery vlarb "$(lid sib1)"
shows 'NodeDescription.*sib1' saquery
shows 'lid|LID' ibroute "$switch"

step "What comes by a LID that its port does not have is dropped there"
# sib1 gets LID NUMBER at its port 1, of which OpenSM and so the switch do not know.
renamed() {
	printf '$ ibportstate -D 0,1,3 1 lid %s\n' "$1"
	timeout 30 ibportstate -C sib0 -D 0,1,3 1 lid "$1" >/dev/null || fail "ibportstate lid $1"
	within 10 has_lid "$1" || fail "the LID of sib1 is $(lid sib1), not $1"
}
has_lid() {
	[ "$(lid sib1)" = "$1" ]
}
discarded() {
	cat /sys/class/infiniband/sib1/ports/1/hw_counters/rcvd_discards
}
old=$(lid sib1)
shows 'PortXmitPkts' perfquery -C sib0 "$old" 1
before=$(discarded)
renamed $((old + 4000))
timeout 20 perfquery -C sib0 "$old" 1 && fail "sib1 answers to a LID that it does not have"
[ "$(discarded)" -gt "$before" ] || fail "rcvd_discards stays $before"
renamed "$old"
shows 'PortXmitPkts' perfquery -C sib0 "$old" 1

step "Counters"
shows 'PortXmitPkts:\.*[1-9]' perfquery "$switch" 1
shows 'PortXmitPkts:\.*[1-9]' perfquery -C sib1 "$(lid sib1)" 1
shows 'PortXmitPkts:\.*[1-9]' perfquery -x "$(lid sib0)" 1
step "What a program without privileges orders is not done"
sent() {
	timeout 20 perfquery "$switch" 1 | sed -n 's/^PortXmitPkts:\.*//p'
}
before=$(sent)
run user intruder sib0 "$switch"
[ "$(sent)" -gt "$before" ] || fail "the counters of the switch are set: $before, $(sent)"

step "Datagrams of the general service interface"
ibping -S -C sib1 &
server=$!
# A request that comes before the server is answered by the kernel.
answers() {
	timeout 20 ibping -c 1 -C sib0 -L "$(lid sib1)" | grep -q '1 received'
}
within 20 answers || fail "ibping does not answer"
shows '3 received, 0% packet loss' ibping -t 10000 -c 3 -C sib0 -L "$(lid sib1)"
kill $server

step "OpenSM stops: everything stays; it comes back: nothing breaks"
before=$(lid sib1)
opensm_down
opensm_clean
wait_active 1 sib0 sib1 sib2
pair sib0 sib1 ibv_ud_pingpong
opensm_up sib2
within 30 managed_from sib2 || fail "the second OpenSM has not swept"
wait_active 10 sib0 sib1 sib2
[ "$(lid sib1)" = "$before" ] || printf 'the LID of sib1 is now %s\n' "$(lid sib1)"
pair sib0 sib1 ibv_ud_pingpong

step "A port that is disabled goes down, and up again"
disabled() {
	grep -q DOWN /sys/class/infiniband/sib1/ports/2/state
}
printf '$ ibportstate -D 0,1 4 disable\n'
timeout 30 ibportstate -C sib2 -D 0,1 4 disable >/dev/null || fail "ibportstate disable"
within 10 disabled || fail "port 2 of sib1 is not down"
printf '$ ibportstate -D 0,1 4 enable\n'
timeout 30 ibportstate -C sib2 -D 0,1 4 enable >/dev/null || fail "ibportstate enable"
wait_active 30 sib1

step "A new HCA joins, one leaves"
hca_up sib3 sibnet0
wait_active 30 sib3
run rdma link del sib1
sleep 1
wait_active 5 sib0 sib2 sib3
fabric_down sib0 sib2 sib3
