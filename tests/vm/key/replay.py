#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Records what the ends of a cable say in a handshake, and says it again.

    replay.py record NETDEV FILE SECONDS   from the first one on, Hellos and acknowledgements that pass NETDEV
    replay.py repeat NETDEV FILE ROUNDS    those that the end at NETDEV has said
"""

import json
import socket
import struct
import sys
import time

IPV6_UDP = 14 + 40 + 8
HELLOS = (1, 2)
ETH_P_ALL = 3
# Seconds until the first frame.
PATIENCE = 60


def is_hello(frame):
    """Whether it is a Hello or an acknowledgement in UDP over IPv6."""
    body = frame[IPV6_UDP:]
    return frame[12:14] == b"\x86\xdd" and body[:3] == b"sib" and body[4] in HELLOS


def with_checksum(frame):
    """The frame as it would be on a wire: checksums of what stays in the host are left open."""
    ip, udp = frame[14:54], bytearray(frame[54:])
    udp[6:8] = bytes(2)
    pseudo = ip[8:40] + struct.pack("!I3xB", len(udp), socket.IPPROTO_UDP)
    data = pseudo + udp
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    udp[6:8] = struct.pack("!H", ~total & 0xFFFF or 0xFFFF)
    return frame[:54] + bytes(udp)


def record(sock, path, seconds):
    """Writes the frames of so many seconds from the first one that was sent from here on."""
    end = time.monotonic() + PATIENCE
    frames = []
    # Whoever waits for the file knows that the recorder listens.
    with open(path, "w", encoding="ascii"):
        pass
    while (left := end - time.monotonic()) > 0:
        sock.settimeout(left)
        try:
            frame, address = sock.recvfrom(2048)
        except TimeoutError:
            break
        if is_hello(frame):
            is_ours = address[2] == socket.PACKET_OUTGOING
            if is_ours and not any(known for known, _ in frames):
                end = time.monotonic() + seconds
            frames.append((is_ours, with_checksum(frame).hex()))
    with open(path, "w", encoding="ascii") as file:
        json.dump(frames, file)


def repeat(sock, path, rounds):
    """Sends what was sent."""
    with open(path, encoding="ascii") as file:
        frames = [bytes.fromhex(frame) for ours, frame in json.load(file) if ours]
    if not frames:
        sys.exit("nothing was recorded")
    kinds = {frame[IPV6_UDP + 4] for frame in frames}
    print(f"{len(frames)} datagrams of kinds {sorted(kinds)}, {rounds} times")
    for _ in range(rounds):
        for frame in frames:
            sock.send(frame)
        time.sleep(0.01)


def main():
    _, what, netdev, path, count = sys.argv
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as sock:
        sock.bind((netdev, ETH_P_ALL))
        {"record": record, "repeat": repeat}[what](sock, path, int(count))


if __name__ == "__main__":
    main()
