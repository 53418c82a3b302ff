#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --timeout 600 --package tshark -- messages
# vm-long: --kernel debug --timeout 1200 --package tshark -- messages
# vm-long: --kernel stock --timeout 600 --package tshark -- udp
#
# What tools/capture writes is InfiniBand to Wireshark: opcodes, LIDs, queue pairs;
# none of it malformed. A buffer that runs over counts what it loses.
# Communication management is too, as far as Wireshark takes it apart.
#
#     capture.sh [messages|udp]
#
# Wireshark takes four seconds to begin, and looks at each message of communication
# management by itself: only with `messages`. With `udp` all packets come as datagrams.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

CAPTURE=$(dirname "$0")/../../tools/capture
PCAP=/tmp/sib.pcap

# captured PORT OPTIONS -- COMMAND...: runs COMMAND while PORT is captured, which SIGNAL ends.
captured() {
	local port=$1 options=()
	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	"$CAPTURE" -w $PCAP ${options[@]+"${options[@]}"} "$port" 2>/tmp/capture &
	local tool=$!
	within 20 grep -q '^on' "/sys/kernel/debug/sib/${port%:*}/${port#*:}/capture" || {
		cat /tmp/capture
		fail "the capture does not begin"
	}
	"$@" || fail "status $? of: $*"
	kill -"${SIGNAL:-INT}" $tool
	wait $tool || fail "status $? of the capture: $(cat /tmp/capture)"
	cat /tmp/capture
	grep -qx off "/sys/kernel/debug/sib/${port%:*}/${port#*:}/capture" || fail "the capture goes on"
}

# shown FILTER LEAST [MOST]: so many packets pass a display filter.
shown() {
	local count
	count=$(tshark -n -r $PCAP -Y "$1" 2>/dev/null | wc -l)
	printf '%s: %d\n' "$1" "$count"
	[ "$count" -ge "$2" ] && [ "$count" -le "${3:-1000000}" ] || fail "$count packets match $1"
}

# whole: no packet is malformed. Wireshark takes the payload of messages for RPC, by guesswork.
whole() {
	tshark -n -r $PCAP --disable-protocol rpcordma -Y _ws.malformed >/tmp/malformed 2>/dev/null ||
		fail "Wireshark does not read the capture"
	head -n 5 /tmp/malformed
	[ ! -s /tmp/malformed ] || fail "$(wc -l </tmp/malformed) packets are malformed"
	echo "none is malformed"
}

# message NAME ATTRIBUTE [CONDITION]...: one packet has the attribute ID of communication management, Wireshark
# calls it so, and all conditions hold for what it has taken apart.
message() {
	local name=$1 attribute=$2 condition filter count
	filter="infiniband.bth.opcode == 100 && infiniband.bth.destqp == 1 && infiniband.deth.q_key == 0x80010000"
	filter+=" && infiniband.mad.mgmtclass == 7 && infiniband.mad.classversion == 2 && infiniband.mad.method == 3"
	filter+=" && infiniband.mad.attributeid == $attribute"
	filter+=" && infiniband.mad.transactionid == $((0x7465737400000000 | attribute)) && _ws.col.info == \"CM: $name\""
	shift 2
	for condition; do
		filter+=" && infiniband.cm.$condition"
	done
	count=$(tshark -n -r $PCAP -Y "$filter" 2>/dev/null | wc -l)
	printf '%s: %d conditions\n' "$name" $#
	[ "$count" = 1 ] || fail "$count packets match $filter"
}

tshark --version | head -n 1
if [ "${1:-}" = messages ]; then
	step "Messages of communication management"
	run "$(dirname "$0")/packets/pcap.py" "$(dirname "$0")/packets/cm.hex" $PCAP
	whole
	# Wireshark 4.4 shows the upper 12 bits alone of the flow labels.
	message ConnectRequest 0x10 \
		'req == 0xc1c2c3c4' \
		'req.serviceid == 0x1000cea012345678' \
		'req.localcaguid == 0x021020fffe304050' \
		'req.localqkey == 0x11223344' \
		'req.localqpn == 0x1a2b' \
		'req.responderres == 4' \
		'req.localeecn == 0xe0c' \
		'req.initdepth == 5' \
		'req.remoteeecn == 0xe0d' \
		'req.remoteresptout == 20' \
		'req.transpsvctype == 1' \
		'req.e2eflowctrl == 1' \
		'req.startpsn == 0x654321' \
		'req.localresptout == 19' \
		'req.retrcount == 6' \
		'req.pkey == 0x8005' \
		'req.pppmtu == 4' \
		'req.rdcexist == 1' \
		'req.rnrretrcount == 3' \
		'req.maxcmretr == 15' \
		'req.srq == 1' \
		'req.ext_transport == 1' \
		'req.prim_locallid == 0x11' \
		'req.prim_remotelid == 0x12' \
		'req.prim_localgid == fe80::11' \
		'req.prim_remotegid == fe80::12' \
		'req.prim_flowlabel in {0xabc, 0xabcde}' \
		'req.prim_pktrate == 7' \
		'req.prim_tfcclass == 0x21' \
		'req.prim_hoplim == 0x40' \
		'req.prim_sl == 3' \
		'req.prim_subnetlocal == 1' \
		'req.prim_localacktout == 15' \
		'req.alt_locallid == 0x21' \
		'req.alt_remotelid == 0x22' \
		'req.alt_localgid == fe:80:00:00:00:00:00:00:00:00:00:00:00:00:00:21' \
		'req.alt_remotegid == fe:80:00:00:00:00:00:00:00:00:00:00:00:00:00:22' \
		'req.alt_flowlabel in {0xabc, 0xabcde}' \
		'req.alt_pktrate == 7' \
		'req.alt_tfcclass == 0x21' \
		'req.alt_hoplim == 0x40' \
		'req.alt_sl == 3' \
		'req.alt_subnetlocal == 1' \
		'req.alt_localacktout == 15' \
		'req.private[0:5] == 73:69:62:21:00'
	message ConnectReject 0x12 \
		'rej.localcommid == 0xc1c2c3c4' \
		'rej.remotecommid == 0xd1d2d3d4' \
		'rej.msgrej == 1' \
		'rej.rejinfolen == 2' \
		'rej.reason == 19' \
		'rej.ari[0:3] == ab:cd:00' \
		'rej.private[0:5] == 73:69:62:21:00'
	message ConnectReply 0x13 \
		'rep == 0xc1c2c3c4' \
		'rep.remotecommid == 0xd1d2d3d4' \
		'rep.localqkey == 0x11223344' \
		'rep.localqpn == 0x1a2b' \
		'rep.localeecn == 0xe0c' \
		'rep.startpsn == 0x654321' \
		'rep.respres == 4' \
		'rep.initdepth == 5' \
		'rep.tgtackdelay == 17' \
		'rep.failoveracc == 2' \
		'rep.e2eflowctrl == 1' \
		'rep.rnrretrcount == 6' \
		'rep.srq == 1' \
		'rep.localcaguid == 0x021020fffe304050' \
		'rep.private[0:5] == 73:69:62:21:00'
	message ReadyToUse 0x14 \
		'rtu.localcommid == 0xc1c2c3c4' \
		'rtu.remotecommid == 0xd1d2d3d4' \
		'rtu.private[0:5] == 73:69:62:21:00'
	message DisconnectRequest 0x15 \
		'dreq.localcommid == 0xc1c2c3c4' \
		'dreq.remotecommid == 0xd1d2d3d4' \
		'req.remoteqpneecn == 0x1a2b' \
		'dreq.private[0:5] == 73:69:62:21:00'
	message DisconnectReply 0x16 \
		'drsp.localcommid == 0xc1c2c3c4' \
		'drsp.remotecommid == 0xd1d2d3d4' \
		'drsp.private[0:5] == 73:69:62:21:00'
	# Wireshark 4.4 takes no more of them apart.
	message MsgRcptAck 0x11
	message ServiceIDResReq 0x17
	message ServiceIDResReqResp 0x18
	message LoadAlternatePath 0x19
	message AlternatePathResponse 0x1a
fi

# not_there PORT...: no capture, since nothing0 is not there.
not_there() {
	echo earlier >$PCAP
	! "$CAPTURE" -w $PCAP "$@" 2>/tmp/capture || fail "a port that is not there was captured: $*"
	grep -qx earlier $PCAP || fail "an earlier capture is lost"
	grep -q '^capture: .*No such file.*nothing0' /tmp/capture || fail "it says: $(cat /tmp/capture)"
}

run "$CAPTURE" --help
not_there nothing0
mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
[ "${1:-}" != udp ] || datapath udp
fabric_up

step "Packets are not for terminals"
! said=$(script -qec "$CAPTURE -t 1 sib0:1" /dev/null) || fail "a terminal gets packets"
grep -q 'not for a terminal' <<<"$said" || fail "no reason: $said"

step "A reliable connection"
not_there sib0:1 nothing0
grep -qx off /sys/kernel/debug/sib/sib0/1/capture || fail "the capture of the port that is there goes on"
captured sib0:1 --strict -- pair sib0 sib1 ibv_rc_pingpong -n 50 >/dev/null
cat /tmp/capture
tshark -n -r $PCAP -c 5
tshark -n -r $PCAP -T fields -e infiniband.bth.opcode 2>/dev/null | sort | uniq -c
shown "infiniband.bth.opcode == 0 && infiniband.lrh.slid == $(lid sib0)" 50
shown "infiniband.bth.opcode == 1 && infiniband.lrh.slid == $(lid sib0)" 100
shown "infiniband.bth.opcode == 2 && infiniband.lrh.dlid == $(lid sib0)" 50
shown "infiniband.bth.opcode == 17 && infiniband.aeth" 50
whole

step "Datagrams"
captured sib1:1 --strict -- pair sib0 sib1 ibv_ud_pingpong -n 50 >/dev/null
shown "infiniband.bth.opcode == 100 && infiniband.deth && infiniband.lrh.slid == $(lid sib1)" 50 51
whole

step "Writes of many packets, which come one by one while they are captured"
captured sib0:1 --strict -- pair sib1 sib0 ib_write_bw -F -s 65536 -n 5 >/dev/null
shown "infiniband.bth.opcode == 6 && infiniband.reth" 5
shown "infiniband.bth.opcode == 7" 70
shown "infiniband.bth.opcode == 8" 5
whole

step "Writes both ways, of which two processors capture packets: no packet has an earlier time than the one before"
captured sib0:1 --strict --size 65536 -- pair sib1 sib0 ib_write_bw -F -b -s 4096 -n 5000 >/dev/null
shown "infiniband.bth.opcode == 10" 10000
shown "frame.time_delta < 0" 0 0

step "Operations of all kinds"
captured sib0:1 --strict --size 65536 -- user data -a sib0 -b sib1 -t rc -n 1 -N 1 >/dev/null
shown "infiniband.bth.opcode == 12 && infiniband.reth" 1
shown "infiniband.bth.opcode == 19 && infiniband.atomiceth" 1
shown "infiniband.bth.opcode == 20 && infiniband.atomiceth" 1
shown "infiniband.bth.opcode == 18 && infiniband.aeth && infiniband.atomicacketh" 2
shown "infiniband.immdt && infiniband.bth.opcode <= 11" 1
whole

step "Connections"
run modprobe ib_cm
run modprobe sib_cm
captured sib0:1 --strict -- user connect sib0 sib1 1 >/dev/null
for message in 0x10 0x12 0x13 0x14 0x15 0x16 0x19 0x1a; do
	shown "infiniband.mad.mgmtclass == 7 && infiniband.mad.attributeid == $message" 1
done
whole
run rmmod sib_cm

step "Management"
captured sib1:1 --strict -- smpquery -C sib0 nodedesc "$(lid sib1)" >/dev/null
shown "infiniband.lrh.vl == 15 && infiniband.mad" 2
whole

step "Too much"
captured sib0:1 --size 16 -- pair sib0 sib1 ib_send_bw -F -s 1048576 -n 10 >/dev/null
grep -E '[1-9][0-9]* lost' /tmp/capture || fail "nothing was lost"
whole
opensm_clean
opensm_down

step "The terminal goes"
SIGNAL=HUP captured sib1:1 -- pair sib0 sib1 ibv_ud_pingpong -n 10 >/dev/null

step "Who reads goes"
{
	"$CAPTURE" -t 60 sib0:1 2>/tmp/capture
	echo $? >/tmp/status
} | head -c 2000 >/dev/null &
within 20 grep -q '^on' /sys/kernel/debug/sib/sib0/1/capture || fail "the capture does not begin"
pair sib0 sib1 ibv_ud_pingpong -n 1000 >/dev/null
within 20 test -s /tmp/status || fail "the capture goes on"
[ "$(cat /tmp/status)" = 0 ] && grep -q '^[1-9][0-9]* packets' /tmp/capture && [ "$(wc -l </tmp/capture)" = 1 ] ||
	fail "status $(cat /tmp/status) of the capture: $(cat /tmp/capture)"

step "Times and numbers that are none, and captures of one port that end each other"
for wrong in "-t -1" "-t 0" "-t nan" "-t inf" "-t soon" "-c 0" "-c -5"; do
	status=0
	# shellcheck disable=SC2086 # an option and its value
	"$CAPTURE" $wrong -w $PCAP sib0:1 2>/tmp/capture || status=$?
	[ $status = 2 ] && ! grep Traceback /tmp/capture || fail "$wrong: status $status"
done
"$CAPTURE" -t 1 -w $PCAP sib0:1 sib0 2>/tmp/capture || fail "a port twice: $(cat /tmp/capture)"
"$CAPTURE" -t 3 -w $PCAP sib0:1 2>/tmp/capture &
tool=$!
within 20 grep -q '^on' /sys/kernel/debug/sib/sib0/1/capture || fail "the capture does not begin"
echo off >/sys/kernel/debug/sib/sib0/1/capture
wait $tool || fail "a capture that was ended: $(cat /tmp/capture)"

step "An HCA goes while its port is captured beside another one"
"$CAPTURE" -w $PCAP sib0:1 sib1:1 2>/tmp/capture &
tool=$!
for device in sib0 sib1; do
	within 20 grep -q '^on' /sys/kernel/debug/sib/$device/1/capture || fail "the capture does not begin"
done
run rdma link del sib0
! wait $tool || fail "the capture ends as if nothing had happened"
cat /tmp/capture
grep -q '^capture: ' /tmp/capture && ! grep Traceback /tmp/capture || fail "it does not say what is wrong"
grep -qx off /sys/kernel/debug/sib/sib1/1/capture || fail "the capture of the port that is there goes on"
fabric_down sib1
