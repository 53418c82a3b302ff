#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks what ranks of MPI have from each other: messages of many sizes, collective operations,
and what each does to memory of another one (windows)."""

import array
import sys

from mpi4py import MPI

SIZES = (0, 1, 7, 64, 1000, 8191, 65536, 1 << 20)

world = MPI.COMM_WORLD
me, ranks = world.Get_rank(), world.Get_size()


def check(holds, what):
    """Ends all ranks if something is wrong."""
    if not holds:
        print(f"rank {me}: {what}", file=sys.stderr, flush=True)
        world.Abort(1)


def pattern(sender, receiver, size):
    """What one rank sends to another one."""
    step = 1 + 2 * sender + 6 * receiver
    return bytearray((at * step + size + at // 251) & 0xFF for at in range(size))


def messages():
    """Each sends to each at a time."""
    for size in SIZES:
        rooms = [bytearray(size) for _ in range(ranks)]
        requests = [world.Irecv(rooms[peer], source=peer, tag=size) for peer in range(ranks)]
        requests += [world.Isend(pattern(me, peer, size), dest=peer, tag=size) for peer in range(ranks)]
        MPI.Request.Waitall(requests)
        for peer in range(ranks):
            check(rooms[peer] == pattern(peer, me, size), f"{size} bytes from {peer}")


def collectives():
    """Broadcasts, sums, and an exchange of all with all."""
    for root in range(ranks):
        room = pattern(root, root, SIZES[-1]) if me == root else bytearray(SIZES[-1])
        world.Bcast(room, root=root)
        check(room == pattern(root, root, SIZES[-1]), f"a broadcast of {root}")
    ours, sums = array.array("q", range(me, me + 10000)), array.array("q", bytes(8 * 10000))
    world.Allreduce(ours, sums)
    first = ranks * (ranks - 1) // 2
    check(all(value == first + ranks * at for at, value in enumerate(sums)), "sums")
    size = 5000
    sends = b"".join(pattern(me, peer, size) for peer in range(ranks))
    rooms = bytearray(size * ranks)
    world.Alltoall(sends, rooms)
    check(rooms == b"".join(pattern(peer, me, size) for peer in range(ranks)), "all to all")


def windows():
    """Each writes to the next one and reads from the one after it; all count at the first one."""
    count, rounds = 1000, 50
    memory = array.array("q", bytes(8 * 2 * count))
    window = MPI.Win.Create(memory, memory.itemsize, comm=world)
    ours, theirs = array.array("q", range(me * count, (me + 1) * count)), array.array("q", bytes(8 * count))
    window.Fence()
    window.Put(ours, (me + 1) % ranks, target=count)
    window.Fence()
    writer = (me - 1) % ranks
    check(list(memory[count:]) == list(range(writer * count, (writer + 1) * count)), f"what {writer} has put")
    window.Get(theirs, (me + 2) % ranks, target=count)
    window.Fence()
    writer = (me + 1) % ranks
    check(list(theirs) == list(range(writer * count, (writer + 1) * count)), "what was got")

    one, before, counts = array.array("q", [1]), array.array("q", [0]), []
    window.Lock_all()
    for _ in range(rounds):
        window.Fetch_and_op(one, before, 0, 0, MPI.SUM)
        window.Flush(0)
        counts.append(before[0])
    window.Unlock_all()
    everybody = sorted(value for rank in world.allgather(counts) for value in rank)
    check(everybody == list(range(ranks * rounds)), "counts")

    new, old = array.array("q", [-1 - me]), array.array("q", [ranks * rounds])
    window.Lock(0)
    window.Compare_and_swap(new, old, before, 0, 0)
    window.Unlock(0)
    check(sum(world.allgather(before[0] == old[0])) == 1, "one of all swaps")
    window.Free()


def main():
    """All of it."""
    for what in (messages, collectives, windows):
        what()
        world.Barrier()
        if me == 0:
            print(f"{ranks} ranks: {what.__name__}", flush=True)


main()
