#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Makes a file that Wireshark reads of packets in hexadecimal digits, one on a line.

    pcap.py PACKETS FILE
"""

import os
import runpy
import sys

CAPTURE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tools/capture")


def main():
    capture = runpy.run_path(CAPTURE)
    with open(sys.argv[1]) as packets, open(sys.argv[2], "wb") as out:
        out.write(capture["file_head"]())
        for number, line in enumerate(packets):
            out.write(capture["record"](0, number * 1000, 0, bytes.fromhex(line)))


main()
