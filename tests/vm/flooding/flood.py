#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Floods the other end of a cable from this one, with the cookie that makes datagrams count.

    flood.py NETDEV SM_LID SECONDS [bye]

The datagrams look as those of the switch at NETDEV do, whose keepalives tell the cookie: packets of
random bytes, packets with one wrong byte, management that is right, traps, Hellos and
acknowledgements that nobody has asked for. With "bye" there are also keepalives of any number and
the end of the cable, so that it breaks again and again. Prints how many of which were sent.
"""

import collections
import ctypes
import random
import socket
import struct
import sys
import time
import zlib

SO_ATTACH_FILTER = 26
ETH_P_ALL = 3
HEADERS = 14 + 20 + 8
DATA, HELLO, HELLO_ACK, KEEPALIVE, BYE = range(5)
PERMISSIVE = 0xFFFF
GET, TRAP = 1, 5
NODE_INFO, NOTICE = 0x11, 2
LID_ROUTED, DIRECTED = 0x01, 0x81
# Seconds until the first keepalive.
PATIENCE = 60
# Datagrams that are different, of each kind, and those between two looks at the cookie.
ROUNDS = 100
BURST = 200


def outer(kind, cookie):
    return b"sib" + bytes([1, kind, 0, 0, 0]) + struct.pack("!Q", cookie)


def packet(dlid, mad):
    """A packet for QP0, of LRH, BTH, DETH and a datagram, and its ICRC. The virtual lane is all ones as it is."""
    words = (8 + 12 + 8 + len(mad) + 4) // 4
    lrh = struct.pack("!BBHHH", 0xF0, 2, dlid, words, PERMISSIVE)
    bth = struct.pack("!BBHII", 0x64, 0, 0xFFFF, 0, 0)
    rest = struct.pack("!II", 0, 0) + mad
    covered = lrh + bth[:4] + b"\xff" + bth[5:] + rest
    return lrh + bth + rest + struct.pack("<I", zlib.crc32(covered))


def node_info(rng):
    """A question for the switch at the other end of the cable, by a directed route."""
    head = struct.pack("!BBBBHBBQHHI", 1, DIRECTED, 1, GET, 0, 1, 1, rng.getrandbits(64), NODE_INFO, 0, 0)
    head += bytes(8) + struct.pack("!HH", PERMISSIVE, PERMISSIVE)
    return packet(PERMISSIVE, head.ljust(128, b"\0") + bytes([0, 1]).ljust(128, b"\0"))


def trap(rng, lid):
    """A link of some switch has changed: the subnet manager is to look."""
    head = struct.pack("!BBBBHHQHHI", 1, LID_ROUTED, 1, TRAP, 0, 0, rng.getrandbits(64), NOTICE, 0, 0)
    notice = struct.pack("!BBHHHHH", 0x81, 0, 2, 128, 1, 0, 1)
    return packet(lid, head.ljust(64, b"\0") + notice.ljust(192, b"\0"))


def hello(rng):
    """Of random cookies, nonces and switches; the MTU is one that there is."""
    return struct.pack("!QBB6x", rng.getrandbits(64), 1, 5) + rng.randbytes(24) + bytes(32)


def damaged(rng, right):
    at = rng.randrange(len(right))
    return right[:at] + bytes([right[at] ^ 1 << rng.randrange(8)]) + right[at + 1 :]


def datagrams(rng, cookie, lid, with_bye):
    """One of each kind: what it is, and the datagram."""
    data = outer(DATA, cookie)
    smp = node_info(rng)
    yield "random", data + rng.randbytes(rng.randrange(1000))
    # The version and length of an LRH are right, and nothing else.
    words = rng.randrange(6, 250)
    yield "random", data + struct.pack("!BBHH", 0, 2, rng.getrandbits(16), words) + rng.randbytes(4 * words - 6)
    yield "damaged", data + damaged(rng, smp)
    yield "management", data + smp
    yield "trap", data + trap(rng, lid)
    yield "hello", outer(HELLO, rng.choice([0, cookie])) + hello(rng)
    yield "hello", outer(HELLO_ACK, cookie) + hello(rng)
    yield "control", outer(rng.choice([KEEPALIVE, HELLO, 5, 6, 7]), cookie) + rng.randbytes(rng.randrange(8))
    if with_bye:
        yield "keepalive", outer(KEEPALIVE, cookie) + rng.randbytes(16)
        yield "bye", outer(BYE, cookie) + bytes(8)


def framed(head, body):
    """A frame with the addresses and ports of another one."""
    ip = bytearray(head[14:34])
    ip[2:4] = struct.pack("!H", 28 + len(body))
    ip[10:12] = bytes(2)
    total = sum(struct.unpack("!10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    ip[10:12] = struct.pack("!H", ~total & 0xFFFF)
    # Without a checksum, which IPv4 allows.
    udp = head[34:38] + struct.pack("!HH", 8 + len(body), 0)
    return head[:14] + bytes(ip) + udp + body


def with_cookie(frame, old, new):
    """The same, with another cookie, unless there is none in it. Checksums do not cover it."""
    at = HEADERS + 8
    old, new = struct.pack("!Q", old), struct.pack("!Q", new)
    return frame[:at] + new + frame[at + 8 :] if frame[at : at + 8] == old else frame


def hear_outgoing(sock):
    """Has a socket hear what leaves alone: what comes is a flood, too."""
    packet_type = 0xFFFFF000 + 4
    steps = [(0x30, 0, 0, packet_type), (0x15, 0, 1, socket.PACKET_OUTGOING), (0x06, 0, 0, 0xFFFF), (0x06, 0, 0, 0)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HL", len(steps), ctypes.addressof(code))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


def overheard(sock, timeout):
    """Headers and cookie of a keepalive of this end, if one passes within so many seconds."""
    end = time.monotonic() + timeout
    while True:
        sock.settimeout(max(end - time.monotonic(), 0.001))
        try:
            frame = sock.recv(2048)
        except (TimeoutError, BlockingIOError):
            return None
        body = frame[HEADERS:]
        if body[:3] == b"sib" and body[4] == KEEPALIVE:
            return frame[:HEADERS], struct.unpack("!Q", body[8:16])[0]


def main():
    netdev, lid, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with_bye = "bye" in sys.argv[4:]
    rng = random.Random(1)
    sent = collections.Counter()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as sock:
        sock.bind((netdev, ETH_P_ALL))
        hear_outgoing(sock)
        known = overheard(sock, PATIENCE)
        if known is None:
            sys.exit("no keepalive of this end was heard")
        head, cookie = known
        flood = []
        for _ in range(ROUNDS):
            flood += [(kind, framed(head, body)) for kind, body in datagrams(rng, cookie, lid, with_bye)]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            # A cable that has come back has another cookie.
            known = overheard(sock, 0) or known
            latest = known[1]
            if latest != cookie:
                flood = [(kind, with_cookie(frame, cookie, latest)) for kind, frame in flood]
                cookie = latest
            for kind, frame in rng.sample(flood, BURST):
                try:
                    sock.send(frame)
                    sent[kind] += 1
                except OSError:
                    sent["refused"] += 1
    print(" ".join(f"{kind} {count}" for kind, count in sorted(sent.items())))


if __name__ == "__main__":
    main()
