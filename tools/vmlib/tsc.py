# SPDX-License-Identifier: GPL-2.0
"""The rate of this machine's time stamp counter.

An emulated guest reads the host's counter, but finds its rate by timing it
against an emulated clock; on a busy host that goes wrong by any factor, and the
guest's time with it. So the guest is told the rate.
"""

import ctypes
import mmap
import time

# rdtsc; shl rdx, 32; or rax, rdx; ret
_READ_COUNTER = bytes.fromhex("0f31 48c1e220 4809d0 c3")

_SECONDS = 0.1
# Readings of clock and counter that lie further apart than this do not count.
_NEAR_NS = 2000


def _sample(read):
    """Clock and counter at one moment."""
    while True:
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        counter = read()
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        if after - before < _NEAR_NS:
            return (before + after) // 2, counter


def khz():
    """The counter's rate in kHz."""
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(_READ_COUNTER)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(address)
    start, first = _sample(read)
    time.sleep(_SECONDS)
    end, last = _sample(read)
    return (last - first) * 1_000_000 // (end - start)
