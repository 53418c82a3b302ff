#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Sends beacons of switches that are not there, each from an address of its own.

    beacon.py NETDEV COUNT

Everybody on the layer 2 of NETDEV hears them, but for NETDEV itself.
"""

import random
import socket
import struct
import sys

PORT = 61515
BEACON = 6
ALL_NODES = bytes.fromhex("ff02" + "00" * 13 + "01")


def checksum(data):
    """The checksum of the internet over data of even length."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF or 0xFFFF


def beacon(rng):
    """One frame."""
    guid = rng.getrandbits(64)
    source = bytes.fromhex("fe80" + "00" * 6) + rng.randbytes(8)
    body = b"sib" + bytes([1, BEACON, 0, 0, 0]) + bytes(8)
    body += struct.pack("!QH6x", guid, PORT)
    length = 8 + len(body)
    udp = struct.pack("!HHHH", PORT, PORT, length, 0)
    pseudo = source + ALL_NODES + struct.pack("!I3xB", length, 17)
    udp = udp[:6] + struct.pack("!H", checksum(pseudo + udp + body))
    ip = struct.pack("!IHBB", 6 << 28, length, 17, 1) + source + ALL_NODES
    ether = bytes.fromhex("333300000001") + bytes([2]) + rng.randbytes(5)
    return ether + b"\x86\xdd" + ip + udp + body


def main():
    _, netdev, count = sys.argv
    rng = random.Random(1)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind((netdev, 0))
        for _ in range(int(count)):
            sock.send(beacon(rng))


if __name__ == "__main__":
    main()
