#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300
#
# What a virtual machine hands to the network layer of its host as one packet is several datagrams, as
# those that GRO has put together, or one that should be cut into fragments.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"

# As virtio numbers them.
FRAGMENTS=3
DATAGRAMS=5

# hand KIND: has somebody behind tap0 hand over 3000 bytes for the other end of a cable, in pieces of 1000.
hand() {
	python3 - "$1" "$(cat /sys/class/net/tap0/address)" <<'END'
import fcntl, struct, sys

TUNSETIFF, IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x400454CA, 2, 0x1000, 0x4000
NEEDS_CSUM, ETH, IP, UDP = 1, 14, 20, 8
PORT = 61515

def checksum(data):
    value = sum(struct.unpack(f">{len(data) // 2}H", data))
    while value >> 16:
        value = (value & 0xFFFF) + (value >> 16)
    return value

payload = b"x" * 3000
ends = bytes([10, 9, 0, 2, 10, 9, 0, 1])
length = UDP + len(payload)
udp = struct.pack(">HHHH", PORT, PORT, length, checksum(ends + struct.pack(">HH", 17, length)))
ip = struct.pack(">BBHHHBB", 0x45, 0, IP + length, 1, 0, 64, 17)
ip += struct.pack(">H", 0xFFFF ^ checksum(ip + ends)) + ends
eth = bytes.fromhex(sys.argv[2].replace(":", "")) + bytes([2, 0, 0, 0, 0, 2, 8, 0])
head = struct.pack("<BBHHHH", NEEDS_CSUM, int(sys.argv[1]), ETH + IP + UDP, 1000, ETH + IP, 6)

tap = open("/dev/net/tun", "r+b", buffering=0)
fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", b"tap0", IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
tap.write(head + eth + ip + udp + payload)
END
}

# counts: the datagrams that have come to the switch, and those that were none of this protocol.
counts() {
	sed -n 's/^\(rcvd_datagrams\|magic\) //p' /sys/kernel/debug/sib/*/{carried,dropped} | paste -sd ' '
}

come() {
	[ "$(counts)" = "$1" ]
}

mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
run modprobe sib
run modprobe tun
configfs_up
run ip tuntap add tap0 mode tap vnet_hdr
run ip link set tap0 mtu 9000 up
run ip address add 10.9.0.1/24 dev tap0
hca_up sib0 tap0
cable a tap0 10.9.0.2
come "0 0" || fail "something else has come: $(counts)"

step "Three datagrams"
hand $DATAGRAMS || fail "they were not taken"
within 10 come "3 3" || fail "counted: $(counts)"

step "One datagram, in three fragments"
hand $FRAGMENTS || fail "it was not taken"
within 10 come "4 4" || fail "counted: $(counts)"

run rmdir $CONFIG/a
run rdma link del sib0
run ip link del tap0
run modprobe -r sib
