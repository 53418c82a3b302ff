#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Writes the P_Key of a new partition in several processes at the same time: one of them succeeds.

    twice.py FOLDER ROUNDS

FOLDER is that of all partitions. Another process reads long files there all the time, so that these
have to wait for each other.
"""

import os
import sys

WRITERS = 8
MEMBERS = 200

folder, rounds = sys.argv[1], int(sys.argv[2])
crowd = os.path.join(folder, "crowd")
partition = os.path.join(folder, "twice")


def read():
    """Reads a file until the process is ended."""
    while True:
        with open(os.path.join(crowd, "full"), "rb") as file:
            file.read()


def write(number, orders, answers):
    """Opens the file at one order, writes at the next one, and says whether that was taken."""
    while os.read(orders, 1):
        file = os.open(os.path.join(partition, "pkey"), os.O_WRONLY)
        os.write(answers, b"?")
        os.read(orders, 1)
        try:
            os.write(file, b"0x%x" % (0x101 + number))
            answer = b"+"
        except OSError:
            answer = b"-"
        os.close(file)
        os.write(answers, answer)


def start(function, *arguments):
    """Runs a function in a process of its own."""
    child = os.fork()
    if child == 0:
        function(*arguments)
        os._exit(1)
    return child


os.mkdir(crowd)
with open(os.path.join(crowd, "full"), "w", encoding="ascii") as members:
    members.write(" ".join(f"{0x1000 + member:016x}" for member in range(MEMBERS)))
pipes = [(os.pipe(), os.pipe()) for _ in range(WRITERS)]
children = [start(read)]
for place, (orders, answers) in enumerate(pipes):
    children.append(start(write, place, orders[0], answers[1]))

twice = 0
for _ in range(rounds):
    os.mkdir(partition)
    told = []
    for _ in range(2):
        for orders, _ in pipes:
            os.write(orders[1], b"!")
        told = [os.read(answers[0], 1) for _, answers in pipes]
    with open(os.path.join(partition, "pkey"), encoding="ascii") as file:
        if told.count(b"+") != 1 or int(file.read(), 16) != 0x101 + told.index(b"+"):
            twice += 1
    os.rmdir(partition)

for child in children:
    os.kill(child, 9)
    os.waitpid(child, 0)
os.rmdir(crowd)
print(f"{rounds} rounds, {twice} with more than one that succeeded")
sys.exit(twice != 0)
