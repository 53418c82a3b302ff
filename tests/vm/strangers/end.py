#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Says what a switch says to others, from sockets that anybody may open.

    end.py join NETDEV PORT REMOTE SECONDS   brings up a cable to the switch at REMOTE, from a port of its own
    end.py relay NETDEV A B SECONDS          brings up one from the switch at A to that at B, by passing on what
                                             they say
    end.py shout NETDEV PORT GROUP SECONDS   says Hello to all at once; succeeds if several have a cable to it, and
                                             answer a Hello for them, but not that

The first two tell of themselves by beacons, and succeed if the cable comes up.
"""

import random
import select
import socket
import struct
import sys
import time

PORT = 61515
HELLO, ACK, KEEPALIVE, BEACON = 1, 2, 3, 6
HEAD = struct.Struct("!3sBBBHQ")
BODY = struct.Struct("!QBBH4xQQQ32s")
MTU_1024 = 3


def head(kind, cookie=0):
    """An outer header."""
    return HEAD.pack(b"sib", 1, kind, 0, 0, cookie)


def kind_of(datagram):
    """What follows its outer header; none if that is none."""
    return HEAD.unpack_from(datagram)[2] if datagram[:3] == b"sib" else None


def beacon(guid, port):
    """A switch listens at that port."""
    return head(BEACON) + struct.pack("!QH6x", guid, port)


class Switch:
    """One that is not there, with a cable to somebody."""

    def __init__(self, rng):
        self.guid, self.cookie, self.nonce = (rng.getrandbits(64) | 1 for _ in range(3))

    def hello(self, kind, cookie=0, echo=0):
        """A Hello or an acknowledgement without a key."""
        body = (self.guid, 1, MTU_1024, 0, self.cookie, self.nonce, echo, bytes(32))
        return head(kind, cookie) + BODY.pack(*body)

    def answer(self, datagram):
        """What it says to that."""
        if kind_of(datagram) != HELLO:
            return None
        _, _, _, _, cookie, nonce, _, _ = BODY.unpack_from(datagram, HEAD.size)
        return self.hello(ACK, cookie, nonce)


def opened(address, port, scope):
    """A socket for that address and port."""
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.bind((address, port, 0, scope))
    return sock


def join(netdev, port, remote, seconds):
    """Whether the switch there takes this for another one."""
    scope = socket.if_nametoindex(netdev)
    there = (remote, PORT, 0, scope)
    try:
        sock = opened("::", int(port), scope)
    except OSError as error:
        print(error)
        return False
    switch = Switch(random.Random())
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sock.sendto(beacon(switch.guid, int(port)), there)
        sock.sendto(switch.hello(HELLO), there)
        while select.select([sock], [], [], 0.2)[0]:
            datagram = sock.recv(2048)
            if kind_of(datagram) == KEEPALIVE:
                return True
            answer = switch.answer(datagram)
            if answer:
                sock.sendto(answer, there)
    return False


def heard(sock, kind, to, messages, seconds):
    """Who says something of that kind while this says messages there."""
    who = set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for message in messages:
            sock.sendto(message, to)
        again = time.monotonic() + 0.2
        while select.select([sock], [], [], max(again - time.monotonic(), 0))[0]:
            datagram, source = sock.recvfrom(2048)
            if kind_of(datagram) == kind:
                who.add(source)
    return who


def shout(netdev, port, group, seconds):
    """Whether those who have a cable to this switch answer what is for them, and not what is for all."""
    scope = socket.if_nametoindex(netdev)
    sock = opened("::", int(port), scope)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, scope)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 0)
    switch = Switch(random.Random())
    everybody = (group, PORT, 0, scope)
    tells = beacon(switch.guid, int(port))
    hello = switch.hello(HELLO)
    callers = heard(sock, HELLO, everybody, [tells], seconds)
    answer_all = heard(sock, ACK, everybody, [tells, hello], seconds)
    answer = [heard(sock, ACK, caller, [tells, hello], 1) for caller in callers]
    print(f"{len(callers)} say Hello, {len(answer_all)} answer one for all, {len(list(filter(None, answer)))} one for them")
    return len(callers) > 1 and not answer_all and all(answer)


def relay(netdev, first, second, seconds):
    """Whether the two have a cable this way."""
    scope = socket.if_nametoindex(netdev)
    rng = random.Random()
    remotes = [(remote, PORT, 0, scope) for remote in (first, second)]
    socks = [opened(address, PORT, scope) for address in ("fe80::a", "fe80::b")]
    alive = [False, False]
    end = time.monotonic() + seconds
    told = 0
    while time.monotonic() < end and not all(alive):
        if time.monotonic() >= told + 1:
            told = time.monotonic()
            for sock, remote in zip(socks, remotes):
                sock.sendto(beacon(rng.getrandbits(64), PORT), remote)
        for sock in select.select(socks, [], [], 0.2)[0]:
            at = socks.index(sock)
            datagram, source = sock.recvfrom(65536)
            # Beacons for all nodes are of no use.
            if source[0].partition("%")[0] != remotes[at][0] or kind_of(datagram) == BEACON:
                continue
            alive[at] |= kind_of(datagram) == KEEPALIVE
            socks[1 - at].sendto(datagram, remotes[1 - at])
    return all(alive)


def main():
    _, what, netdev, one, other, seconds = sys.argv
    good = {"join": join, "relay": relay, "shout": shout}[what](netdev, one, other, float(seconds))
    print("so it is" if good else "it is not")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
