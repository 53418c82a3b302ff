#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600
# vm-long: --kernel debug --timeout 900
#
# All packets of a host forced onto UDP; and datagrams of any bytes, from
# anywhere, which are counted and dropped and do no harm.

. "$(dirname "$0")/lib.sh"

# throw FAMILY ADDRESS PORT: datagrams of random bytes, and of almost right ones.
throw() {
	python3 - "$@" <<'END'
import os, random, socket, struct, sys

family, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
random.seed(1)
if family == "6":
    host, device = address.split("%")
    target = (host, port, 0, socket.if_nametoindex(device))
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
else:
    target = (address, port)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

def outer(kind, cookie=0, version=1, magic=b"sib"):
    return magic + bytes([version, kind, 0, 0, 0]) + struct.pack(">Q", cookie)

sent = 0
def send(data):
    global sent
    sock.sendto(data, target)
    sent += 1

for size in list(range(0, 80)) + [255, 256, 257, 1024, 1400, 4000]:
    send(os.urandom(size))
    for kind in range(9):
        send(outer(kind, random.getrandbits(64)) + os.urandom(size))
        send(outer(kind, random.getrandbits(8)) + os.urandom(size))
send(outer(0, version=2))
send(outer(0, magic=b"sic"))
for _ in range(2000):
    packet = bytearray(os.urandom(random.randrange(4, 300)))
    packet[0] &= 0xf0
    packet[1] = packet[1] & 0xf0 | 2
    if len(packet) > 6:
        packet = packet[:len(packet) & ~3]
        packet[4:6] = struct.pack(">H", len(packet) // 4)
    send(outer(0, random.getrandbits(8)) + bytes(packet))
print(sent, "datagrams thrown")
END
}

# dropped: the sum of what was dropped for what came in.
dropped() {
	cat /sys/kernel/debug/sib/*/dropped | awk '$1 != "unsendable" && $1 != "network" { sum += $2 } END { print sum + 0 }'
}

# The debug kernel takes ten times as long for a packet.
case $(uname -r) in
*debug*) rounds=40 ;;
*) rounds=1000 ;;
esac

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
run ip link set lo up

step "Everything over UDP"
run modprobe sib force_udp=1
underlay sibnet0
hca_up sib0 sibnet0
hca_up sib1 sibnet0
opensm_up sib0
wait_active 60 sib0 sib1
before=$(awk '/^Udp:/ { count = $2 } END { print count }' /proc/net/snmp)
for program in ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong; do
	pair sib0 sib1 $program -n $rounds
done
pair sib0 sib1 ibv_rc_pingpong -s 1000000 -n $((rounds / 40))
after=$(awk '/^Udp:/ { count = $2 } END { print count }' /proc/net/snmp)
# A message each way and round of four programs; one of several packets may count once.
[ $((after - before)) -gt $((rounds * 8)) ] || fail "only $((after - before)) datagrams"
[ "$(dropped)" = 0 ] || {
	cat /sys/kernel/debug/sib/*/dropped
	fail "something was dropped"
}
opensm_clean

step "Garbage at the switch's own socket, under traffic"
port=$(awk '$3 ~ /:0000$/ { split($2, at, ":"); print at[2] }' /proc/net/udp | tail -n 1)
pair sib0 sib1 ibv_rc_pingpong -n $((rounds * 2)) &
throw 4 127.0.0.1 $((16#$port)) || fail "throw"
wait $! || fail "the ping-pong beside the garbage"
most() {
	[ "$(dropped)" -gt 3000 ]
}
within 20 most || fail "only $(dropped) dropped"
cat /sys/kernel/debug/sib/*/dropped
opensm_clean
fabric_down

step "Garbage at the port of a cable"
run modprobe sib
mountpoint -q /sys/kernel/config || run mount -t configfs none /sys/kernel/config
run ip link add v0 type veth peer name v1
run ip link set v0 mtu 9000 up
run ip link set v1 mtu 9000 up
address() {
	ip -6 -br address show dev "$1" scope link | grep -o 'fe80:[^/ ]*'
}
ready() {
	[ -n "$(address "$1")" ] && ! ip -6 address show dev "$1" | grep -q tentative
}
for end in v0 v1; do
	within 20 ready $end || fail "$end has no address"
done
hca_up sib0 v0
mkdir /sys/kernel/config/sib/a
echo v0 >/sys/kernel/config/sib/a/netdev
address v1 >/sys/kernel/config/sib/a/remote
echo 1 >/sys/kernel/config/sib/a/enable || fail "enable"
throw 6 "$(address v0)%v1" 61515 || fail "throw"
enough() {
	[ "$(dropped)" -gt 1000 ]
}
within 20 enough || {
	cat /sys/kernel/debug/sib/*/dropped
	fail "only $(dropped) dropped"
}
[ "$(timeout 30 ibswitches -C sib0 | grep -c '^Switch')" = 1 ] || fail "the switch suffered"
run rmdir /sys/kernel/config/sib/a
run rdma link del sib0
run modprobe -r sib
