#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --nodes 3 --timeout 400 -- module
# vm-long: --kernel stock --nodes 3 --timeout 400 -- opensm
# vm-long: --kernel debug --nodes 3 --timeout 1500 -- module
# vm-long: --kernel debug --nodes 3 --timeout 1500 -- opensm
#
# Three hosts find each other: three switches and three HCAs of two ports. What each tool
# of infiniband-diags says of that fabric is compared with what the hosts know.
#
#     tools.sh module|opensm

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/diags.sh"

MANAGER=${1:?who manages the subnet}
HOSTS=3
SWITCHES=$HOSTS
# Ports with a LID; links: two of each HCA, and a cable between each two switches.
LIDS=$((2 * HOSTS + SWITCHES))
LINKS=$((2 * HOSTS + 3))
SERVERS=()
# The host whose ports are looked at most, and what is known of it, which it writes down.
FAR=3

# known HOST NAME: what a host has written down.
known() {
	cat "/share/$2.$1"
}

# write_down: what this host knows of itself.
write_down() {
	guid_of "sib$NODE" >"/share/hca.$NODE"
	port_guid "sib$NODE" 1 >"/share/port1.$NODE"
	port_guid "sib$NODE" 2 >"/share/port2.$NODE"
	lid "sib$NODE" 1 >"/share/lid1.$NODE"
	lid "sib$NODE" 2 >"/share/lid2.$NODE"
}

# whole_fabric: all switches and all HCAs are there.
whole_fabric() {
	[ "$(timeout 20 ibnodes -C "sib$NODE" | grep -c '^\(Switch\|Ca\)')" = $((HOSTS + SWITCHES)) ]
}

# value NAME: the number of a line like "Name:.....17" of what was told.
value() {
	sed -n "s/^$1:\.*\(0x\)\?/\1/p" <<<"$TOLD" | head -n 1
}

nodes() {
	local host name
	step "Nodes and links"
	counts $HOSTS '^Ca.*ports 2 "sib[123]"$' ibhosts
	counts $SWITCHES '^Switch.*ports 36 "sib switch eth0"' ibswitches
	counts $((HOSTS + SWITCHES)) '^(Ca|Switch)' ibnodes
	for ((host = 1; host <= HOSTS; host++)); do
		counts 1 "^Ca	: $(known $host hca) ports 2 \"sib$host\"" ibhosts
	done
	told ibnetdiscover
	[ "$(lines '^Switch	36 ')" = $SWITCHES ] || fail "switches: $TOLD"
	[ "$(lines '^Ca	2 ')" = $HOSTS ] || fail "HCAs: $TOLD"
	[ "$(lines '^\[[0-9]+\]	"S-')" = 6 ] || fail "both ends of cables: $TOLD"
	[ "$(lines '^\[[0-9]+\]	"H-.*4xEDR')" = $((2 * HOSTS)) ] || fail "ports of HCAs: $TOLD"
	for ((host = 1; host <= HOSTS; host++)); do
		for name in 1 2; do
			[ "$(lines "^\[$name\]\($(known $host port$name | cut -c 3-)\) .*# lid $(known $host lid$name) lmc 0")" = 1 ] ||
				fail "port $name of host $host: $TOLD"
		done
	done
	counts $((2 * LINKS)) '^(CA|SW) .* - (CA|SW) ' ibnetdiscover -p
	counts $((2 * LINKS)) '4X .* Active/  LinkUp.*==>  0x' iblinkinfo -l
	counts $((2 * HOSTS)) '"sib[123]"' iblinkinfo -l --switches-only

	step "This host"
	counts 2 'State: Active' ibstat
	shows "Base lid: $(known 1 lid2)$" ibstat sib1 2
	counts 2 "^($(known 1 port1)|$(known 1 port2))$" ibstat -p
	counts 2 'state:.*4: ACTIVE' ibstatus
	shows "base lid:.*$(printf '0x%x' "$(known 1 lid1)")$" ibstatus sib1:1
	shows "LID start $(printf '0x%x' "$(known $FAR lid1)") end" ibaddr "$(known $FAR lid1)"
}

routes() {
	local to from switch out
	step "Routes"
	told ibswitches
	sed -n 's/^Switch.*: \(0x[0-9a-f]*\) .* lid \([0-9]*\) .*/\1 \2/p' <<<"$TOLD" >/tmp/switches
	[ "$(wc -l </tmp/switches)" = $SWITCHES ] || fail "switches: $TOLD"
	: >/tmp/routes
	while read -r _ switch; do
		counts $LIDS '^0x[0-9a-f]+ [0-9]+ : ' ibroute "$switch"
		[ "$(lines "^$LIDS valid lids dumped")" = 1 ] || fail "$TOLD"
		grep '^0x' <<<"$TOLD" | sed "s/^/$switch /" >>/tmp/routes
	done </tmp/switches
	# The same by another tool.
	counts $((LIDS * SWITCHES)) '^0x[0-9a-f]+ [0-9]+ : ' dump_fts
	[ "$(grep '^0x' <<<"$TOLD" | sort)" = "$(cut -d ' ' -f 2- /tmp/routes | sort)" ] ||
		fail "dump_fts and ibroute differ: $TOLD"
	for ((from = 1; from <= HOSTS; from++)); do
		for ((to = 1; to <= HOSTS; to++)); do
			[ $to = $from ] || trace $from 1 $to 2
		done
	done
}

# trace HOST PORT HOST PORT: the way from one port to the other is one switch here and
# one there, by the ports that the forwarding tables name.
trace() {
	local dlid guid out
	dlid=$(known "$3" "lid$4")
	told ibtracert -n "$(known "$1" "lid$2")" "$dlid"
	[ "$(lines '^\[[0-9]+\] -> ')" = 3 ] || fail "not three hops: $TOLD"
	[ "$(sed -n '1s/.*{\(.*\)}.*/\1/p' <<<"$TOLD")" = "$(known "$1" hca)" ] || fail "the beginning: $TOLD"
	[ "$(sed -n '4s/.*{\(.*\)}.*/\1/p' <<<"$TOLD")" = "$(known "$3" "port$4")" ] || fail "the end: $TOLD"
	while read -r guid out; do
		[ "$out" = "$(out_port "$guid" "$dlid")" ] || fail "switch $guid has another way: $TOLD"
	done < <(hops)
}

# hops: the switches on the way that was told, and the ports by which it leaves them.
hops() {
	sed -n 's/^\[\([0-9]*\)\] -> {\(.*\)}.*/\1 \2/p' <<<"$TOLD" | {
		read -r _ guid
		while read -r out next; do
			echo "$guid $out"
			guid=$next
		done
	}
}

# out_port GUID LID: the port by which that switch sends to the LID.
out_port() {
	local switch
	switch=$(sed -n "s/^$1 //p" /tmp/switches)
	echo $((10#$(sed -n "s/^$switch $(printf '0x%04x' "$2") \([0-9]*\) .*/\1/p" /tmp/routes)))
}

smps() {
	local host switch lid
	lid=$(known $FAR lid2)
	step "Subnet management packets"
	for ((host = 1; host <= HOSTS; host++)); do
		shows "^Guid:\.*$(known $host hca)$" smpquery nodeinfo "$(known $host lid1)"
		shows "^PortGuid:\.*$(known $host port2)$" smpquery nodeinfo "$(known $host lid2)"
		shows "Node Description:\.*sib$host$" smpquery nodedesc "$(known $host lid2)"
		shows "^Lid:\.*$(known $host lid2)$" smpquery portinfo "$(known $host lid1)" 2
	done
	while read -r guid switch; do
		shows "^Guid:\.*$guid$" smpquery nodeinfo "$switch"
		shows "^LinearFdbTop:\.*$LIDS$" smpquery switchinfo "$switch"
		shows "^LinearFdbTop:\.*$LIDS$" smpquery -G switchinfo "$guid"
	done </tmp/switches
	shows '^LinkState:\.*Active' smpquery portinfo "$lid" 2
	shows '0xffff' smpquery pkeys "$lid" 2
	shows '^8 guids capacity' smpquery guidinfo "$lid"
	[ "$(lines "0: $(known $FAR port2) 0x0")" = 1 ] || fail "$TOLD"
	shows '^ports: in  0, out  0: \| 0\|' smpquery sl2vl "$lid"
	counts 2 '^VL ' smpquery vlarb "$lid"
	shows '^NodeType:.*Switch' smpquery -D nodeinfo 0,1
	shows '^NodeType:.*Channel Adapter' smpquery -D nodeinfo 0,1,2
	# Not every node has everything.
	refuses 'query failed' smpquery switchinfo "$lid"
	refuses 'query failed' smpquery mepi "$lid"
	refuses 'not supported' smpquery portinfoextended "$lid"
	# The GUID begins in the last two words of a line.
	shows "^$(known $FAR hca | sed 's/.*\(....\)\(....\)$/\1 \2/') " smpdump "$lid" 0x11
	shows '^sib3$' smpdump -s "$lid" 0x10
	shows '^0101 02' smpdump -D 0,1 0x11
	shows 'status: 0xc' smpdump "$lid" 0xff00
}

managers() {
	local switch masters=0 standby=0
	step "Subnet managers"
	shows 'priority [0-9]+ state 3 SMINFO_MASTER' sminfo
	while read -r _ switch; do
		if [ "$MANAGER" = opensm ]; then
			refuses 'failed: query' sminfo "$switch"
		else
			shows SMINFO sminfo "$switch"
			masters=$((masters + $(lines MASTER))) standby=$((standby + $(lines STANDBY)))
		fi
	done </tmp/switches
	[ "$MANAGER" = opensm ] || [ "$masters $standby" = "1 $((SWITCHES - 1))" ] ||
		fail "$masters masters, $standby that stand by"
}

administration() {
	local paths host
	step "Subnet administration"
	shows 'Class version\.*2$' saquery CPI
	counts $LIDS 'NodeRecord dump' saquery NR
	for ((host = 1; host <= HOSTS; host++)); do
		counts 2 "NodeDescription\.*sib$host$" saquery NR
	done
	shows "^sib$FAR$" saquery -O "$(known $FAR lid2)"
	# Ports of HCAs, ports of switches with their port 0.
	counts $((2 * HOSTS + 37 * SWITCHES)) 'PortInfoRecord dump' saquery PIR
	counts $((LIDS * LIDS)) 'PathRecord dump' saquery PR
	counts 1 "dlid\.*$(known $FAR lid2)$" saquery PR --src-to-dst "$(known 1 lid1):$(known $FAR lid2)"
	shows 'MGID\.*ff12:401b:ffff::ffff:ffff' saquery -g
	counts $HOSTS 'fe80::.*\(sib[123]' saquery --smkey 1 -m 0xc000
	counts 0 'ServiceRecord dump' saquery SR
	counts 1 'SMState\.*3$' saquery SMIR
	counts $LIDS 'GUIDInfo Record dump' saquery GIR
	if [ "$MANAGER" = opensm ]; then
		counts 1 'SMInfoRecord dump' saquery SMIR
		counts $SWITCHES 'SwitchInfoRecord dump' saquery SWIR
		counts $((2 * LINKS)) 'LinkRecord dump' saquery LR
		counts $SWITCHES 'LFT Record dump' saquery LFTR
		shows 'SL2VLTableRecord dump' saquery SL2VL
		shows 'VLArbTableRecord dump' saquery VLAR
		told saquery IIR
	else
		counts $SWITCHES 'SMInfoRecord dump' saquery SMIR
		for record in SWIR LR LFTR SL2VL VLAR IIR; do
			refuses 'combination is not supported' saquery $record
		done
	fi
}

multicast_tables() {
	step "Multicast"
	counts $SWITCHES '^0xc000 ' dump_fts -M
	while read -r _ switch; do
		shows '^0xc000 ' ibroute -M "$switch"
	done </tmp/switches
}

# reset_to_zero LID PORT [OPTION]: counters that are reset say so. A sweep may come between.
reset_to_zero() {
	timeout 20 perfquery -R ${3:+"$3"} "$1" "$2" >/dev/null &&
		TOLD=$(timeout 20 perfquery ${3:+"$3"} "$1" "$2") &&
		[ "$(lines '^Port(Xmit|Rcv|Unicast|Multicast).*:\.*0$')" = "$(lines '^Port(Xmit|Rcv|Unicast|Multicast)')" ]
}

# Of perftest: 1.07 s for an acknowledgement, of which several may be lost.
PATIENT=18
TRAFFIC_PORT=18515

# traffic: a thousand messages of 4096 bytes each way between the second ports of this host
# and the far one.
traffic() {
	run timeout 60 ib_send_lat -F -d sib1 -i 2 -m 1024 -s 4096 -n 1000 -u $PATIENT -p $TRAFFIC_PORT "10.77.0.$FAR"
}

counters() {
	local lid switch sent
	lid=$(known $FAR lid2)
	step "Counters"
	# What was lost while links came up.
	told_anyway ibqueryerrors -c -k
	# By the other port, so that the datagrams that ask are not counted.
	within 20 reset_to_zero "$(known $FAR lid1)" 2 -x || fail "not zero: $TOLD"
	within 20 reset_to_zero "$(known $FAR lid1)" 2 || fail "not zero: $TOLD"
	traffic
	told perfquery "$(known $FAR lid1)" 2
	sent=$(value PortXmitPkts)
	[ "$sent" -ge 4000 ] && [ "$sent" -le 12000 ] || fail "$sent packets: $TOLD"
	[ "$(value PortXmitData)" -ge 1024000 ] && [ "$(value PortXmitData)" -le 2048000 ] || fail "data: $TOLD"
	[ "$(value PortRcvPkts)" -ge 4000 ] && [ "$(value PortRcvData)" -ge 1024000 ] || fail "received: $TOLD"
	told perfquery -x "$(known $FAR lid1)" 2
	[ "$(value PortUnicastXmitPkts)" -ge "$sent" ] || fail "not $sent: $TOLD"
	# Each view is reset by itself.
	within 20 reset_to_zero "$(known $FAR lid1)" 2 || fail "not zero: $TOLD"
	told perfquery -x "$(known $FAR lid1)" 2
	[ "$(value PortXmitPkts)" -ge "$sent" ] || fail "not $sent: $TOLD"
	# The switch has seen them at the port of the HCA and at the cable.
	while read -r guid switch; do
		told perfquery -a "$switch"
		[ "$(value PortXmitData)" -ge 1024000 ] || [ "$guid" = "$(known 2 switch)" ] || fail "$guid: $TOLD"
		told perfquery "$switch" 0
		[ "$(value PortRcvPkts)" -gt 0 ] && [ "$(value PortXmitPkts)" -gt 0 ] || fail "port 0: $TOLD"
	done </tmp/switches
	counts 2 '^PortSelect' perfquery -l -a "$lid"
	refuses 'cannot query' perfquery -X "$lid" 2
	refuses 'sampctlquery' perfquery -c "$lid" 2
	# But for packets to groups that nobody else is in.
	counts 1 '^## Summary: 6 nodes checked, 0 bad nodes found' ibqueryerrors -c
	shows "GUID $(known $FAR hca) port 2: .*PortXmitPkts == [1-9]" ibqueryerrors --counters
}

# port_is STATE LID PORT
port_is() {
	timeout 20 smpquery portinfo "$2" "$3" | grep -q "^LinkState:\.*$1"
}

# downed NUMBER: how often the link of the second port of the far host has gone down.
downed() {
	told perfquery "$(known $FAR lid1)" 2
	[ "$(value LinkDownedCounter)" = "$1" ] || fail "not $1 times down: $TOLD"
}

states() {
	local switch port thresholds
	step "States of ports"
	told ibtracert -n "$(known 1 lid1)" "$(known $FAR lid2)"
	read -r guid port < <(hops | tail -n 1)
	switch=$(sed -n "s/^$guid //p" /tmp/switches)
	counts 2 '^LinkState:\.*Active' ibportstate "$switch" "$port" query
	run timeout 20 perfquery -R "$(known $FAR lid1)" 2
	shows 'PhysLinkState:\.*Disabled' ibportstate "$switch" "$port" disable
	within 20 port_is Down "$(known $FAR lid1)" 2 || fail "the peer is not down"
	counts $((2 * LINKS - 2)) 'Active/  LinkUp' iblinkinfo -l
	downed 1
	shows 'PhysLinkState:\.*Polling' ibportstate "$switch" "$port" enable
	within 30 port_is Active "$(known $FAR lid1)" 2 || fail "the peer is not active"
	shows 'PhysLinkState:' ibportstate "$switch" "$port" reset
	within 30 port_is Active "$(known $FAR lid1)" 2 || fail "the peer is not active"
	downed 2
	# At the adapter.
	shows 'LinkState:\.*Down' ibportstate "$(known $FAR lid1)" 2 reset
	within 30 port_is Active "$(known $FAR lid1)" 2 || fail "the port is not active"
	thresholds=/tmp/thresholds
	echo 'LinkDownedCounter=1' >$thresholds
	! told_anyway ibqueryerrors -c --threshold-file $thresholds || fail "no errors: $TOLD"
	[ "$(lines "$(known $FAR port2) port 2: \[LinkDownedCounter == 2\]")" = 1 ] || fail "$TOLD"
	told_anyway ibqueryerrors -c -k --threshold-file $thresholds
	counts 1 '^## Summary: 6 nodes checked, 0 bad nodes found' ibqueryerrors -c --threshold-file $thresholds
	downed 0
}

# told_anyway COMMAND...: the same as told, and its status does not matter.
told_anyway() {
	printf '$ %s\n' "$*"
	TOLD=$(timeout -k 5 60 "$@" 2>&1)
}

datagrams() {
	local host
	step "Datagrams of the general service interface"
	for ((host = 2; host <= HOSTS; host++)); do
		shows '3 received, 0% packet loss' ibping -f -c 3 "$(known $host lid1)"
		shows '3 received, 0% packet loss' ibping -f -c 3 -G "$(known $host port1)"
		shows 'ping succeeded' ibsysstat "$(known $host lid1)" ping
		shows "^node$host" ibsysstat "$(known $host lid1)" host
		counts 2 '^cpu [01]: ' ibsysstat "$(known $host lid1)" cpu
	done
	for lid in "$(known $FAR lid1)" "$(head -n 1 /tmp/switches | cut -d ' ' -f 2)"; do
		refuses 'classportinfo query' vendstat -N "$lid"
		refuses 'classportinfo query' vendstat -w "$lid"
	done
}

caches() {
	local guid
	step "A fabric from a file"
	guid=$(known $FAR switch)
	told ibnetdiscover --cache /tmp/fabric
	counts 0 '^[<>]' ibnetdiscover --diff /tmp/fabric
	told ibcacheedit --switchguid "$guid:0x1234" /tmp/fabric /tmp/switch
	counts 1 '^switchguid=0x1234\(' ibnetdiscover --load-cache /tmp/switch
	told ibcacheedit --caguid "$(known $FAR hca):0x5678" /tmp/fabric /tmp/hca
	counts 1 '^caguid=0x5678' ibnetdiscover --load-cache /tmp/hca
	# Its own line, and the far ends of two cables and of the links of an HCA.
	counts 5 '"S-0*1234"' ibnetdiscover --load-cache /tmp/switch
	told_anyway ibnetdiscover --diff /tmp/switch
	[ "$(lines '^[<>]')" != 0 ] || fail "no difference: $TOLD"
}

# steadily PART: a host that stands still for a moment takes its cables down, and nothing is
# as it should be for that moment: such a part is looked at again.
steadily() {
	for _ in 1 2 3; do
		("$1") && return
		within 60 links sib1 $LINKS || fail "the fabric is not whole"
	done
	fail "$1, three times"
}

# looks: all of it, at the first host.
looks() {
	local part
	for part in nodes routes smps managers administration multicast_tables counters states datagrams caches; do
		steadily $part
	done
}

# receives: the other end of the traffic, again and again.
receives() {
	trap 'kill $!; exit' TERM
	while :; do
		ib_send_lat -F -d "sib$FAR" -i 2 -m 1024 -s 4096 -n 1000 -u $PATIENT -p $TRAFFIC_PORT >/dev/null 2>&1 &
		wait $!
	done
}

# serves: what the others do meanwhile.
serves() {
	ibping -S &
	SERVERS+=($!)
	ibsysstat -S &
	SERVERS+=($!)
	if [ "$NODE" = $FAR ]; then
		receives &
		SERVERS+=($!)
		within 20 listening $TRAFFIC_PORT || fail "nobody listens"
	fi
}

as_it_comes
[ "$MANAGER" = module ] || echo 'options sib sm=0' >/etc/modprobe.d/sib.conf
run modprobe sib
barrier begin
hca_up "sib$NODE" eth0
within 60 whole_fabric || fail "the hosts have not found each other"
barrier found
[ "$MANAGER" = module ] || [ "$NODE" != 1 ] || opensm_up sib1
wait_active 60 "sib$NODE"
within 60 links "sib$NODE" $LINKS || fail "not all links are active"
run modprobe ib_ipoib
run ip link set "$(ipoib_of "sib$NODE")" up
joined() {
	[ "$(cat "/sys/class/net/$(ipoib_of "sib$NODE")/carrier")" = 1 ]
}
within 60 joined || fail "IP over InfiniBand has no carrier"
write_down
timeout 20 smpquery -D nodeinfo 0,1 | sed -n 's/^Guid:\.*//p' >"/share/switch.$NODE"
[ "$NODE" = 1 ] || serves
barrier ready
[ "$NODE" != 1 ] || looks
barrier looked
for server in ${SERVERS[@]+"${SERVERS[@]}"}; do
	kill "$server" 2>/dev/null
	wait "$server"
done
opensm_down
[ "$MANAGER" = module ] || [ "$NODE" != 1 ] || opensm_clean
run ip link set "$(ipoib_of "sib$NODE")" down
run rdma link del "sib$NODE"
run modprobe -r sib
