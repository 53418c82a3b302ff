#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Programs that use sockets as ordinary programs do, and look at each byte.

    talk.py serve ADDRESS PORT BYTES    takes a stream, checks it, sends one back
    talk.py call ADDRESS PORT BYTES [SECONDS]    the other side, which takes as long at least to send its own
    talk.py hear GROUP PORT INTERFACE COUNT SIZE    takes multicast datagrams
    talk.py tell GROUP PORT INTERFACE COUNT SIZE LOG    sends them; LOG is what the one that takes them says
"""

import ipaddress
import random
import socket
import struct
import sys
import time

CHUNK = 65536
# Seconds without a byte.
PATIENCE = 30
# include/uapi/asm-generic/socket.h; Python has no name for it.
SO_RCVBUFFORCE = 33
BUFFER = 1 << 24


def chunks(seed, total):
    """`total` bytes that `seed` tells."""
    source = random.Random(seed)
    while total > 0:
        size = min(total, source.randrange(1, CHUNK))
        yield source.randbytes(size)
        total -= size


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def send(peer, seed, total, seconds=0.0):
    begin, done = time.monotonic(), 0
    for data in chunks(seed, total):
        peer.sendall(data)
        done += len(data)
        due = begin + seconds * done / total
        time.sleep(max(0.0, due - time.monotonic()))


def take(peer, seed, total):
    """Ends the program if what comes is not what was sent."""
    done = 0
    for data in chunks(seed, total):
        got = bytearray()
        while len(got) < len(data):
            more = peer.recv(len(data) - len(got))
            if not more:
                sys.exit(f"the stream ends after {done + len(got)} bytes of {total}")
            got += more
        if got != data:
            sys.exit(f"a wrong byte between {done} and {done + len(data)}")
        done += len(data)


def serve(address, port, total):
    with socket.socket(family(address), socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(1)
        peer, _ = listener.accept()
        with peer:
            peer.settimeout(PATIENCE)
            take(peer, 1, total)
            send(peer, 2, total)
            if peer.recv(1):
                sys.exit("more came than was sent")


def call(address, port, total, seconds):
    with socket.socket(family(address), socket.SOCK_STREAM) as peer:
        peer.settimeout(PATIENCE)
        peer.connect((address, port))
        send(peer, 1, total, seconds)
        take(peer, 2, total)
        peer.shutdown(socket.SHUT_WR)


def datagram(number, most):
    size = 1 + number * 997 % most
    return struct.pack("!I", number) + random.Random(number).randbytes(size)


def hear(group, port, interface, count, most):
    """Takes `count` datagrams of a group, which come in order and whole.

    The first one comes until it is heard: some get lost while the sender joins and the switches learn of it.
    """
    kind = family(group)
    with socket.socket(kind, socket.SOCK_DGRAM) as member:
        member.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Whoever stands still for a moment is to lose nothing.
        member.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
        member.bind((group, port))
        index = socket.if_nametoindex(interface)
        address = ipaddress.ip_address(group).packed
        if kind == socket.AF_INET6:
            option = (socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP)
            value = address + struct.pack("@I", index)
        else:
            option = (socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP)
            value = address + struct.pack("@4sI", bytes(4), index)
        member.setsockopt(*option, value)
        print("joined", flush=True)
        member.settimeout(PATIENCE)
        data = member.recv(65536)
        print("heard", flush=True)
        while data == datagram(0, most):
            data = member.recv(65536)
        for number in range(1, count):
            if number > 1:
                data = member.recv(65536)
            if data != datagram(number, most):
                sys.exit(f"datagram {number} is another one: {data[:4].hex()}, {len(data)} bytes")


def has_heard(log):
    with open(log, encoding="ascii") as file:
        return "heard" in file.read()


def tell(group, port, interface, count, most, log):
    """Sends `count` datagrams to a group, slowly enough for one that takes them and says so in `log`."""
    kind = family(group)
    with socket.socket(kind, socket.SOCK_DGRAM) as sender:
        index = socket.if_nametoindex(interface)
        if kind == socket.AF_INET6:
            sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, struct.pack("@I", index))
        else:
            value = bytes(8) + struct.pack("@I", index)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, value)
        while not has_heard(log):
            sender.sendto(datagram(0, most), (group, port))
            time.sleep(0.1)
        for number in range(1, count):
            sender.sendto(datagram(number, most), (group, port))
            time.sleep(0.01)


if __name__ == "__main__":
    verb, where, port, *rest = sys.argv[1:]
    if verb == "serve":
        serve(where, int(port), int(rest[0]))
    elif verb == "call":
        call(where, int(port), int(rest[0]), float((rest + ["0"])[1]))
    else:
        {"hear": hear, "tell": tell}[verb](where, int(port), rest[0], int(rest[1]), int(rest[2]), *rest[3:])
