# SPDX-License-Identifier: GPL-2.0
"""Runs the guests of one call of tools/vm and forms its exit status."""

import argparse
import asyncio
import shlex
import sys

from . import accel
from . import qemu
from .guest import Guest

_TIMED_OUT = 124
_KERNEL_BUG = 99


def _options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernel", required=True)
    for number in ("--nodes", "--nics", "--cpus", "--mem", "--timeout"):
        parser.add_argument(number, type=int, required=True)
    parser.add_argument("--icount", action="store_true")
    parser.add_argument("--plugin", action="store_true")
    parser.add_argument("--parameter", action="append", default=[])
    parser.add_argument("script")
    parser.add_argument("arguments", nargs="*")
    return parser.parse_args()


def _write_job(options):
    """Leaves for the guests what they are to run."""
    words = " ".join(shlex.quote(word) for word in options.arguments)
    with open(f"{qemu.RUN}/job", "w") as job:
        job.write(f"script={shlex.quote(options.script)}\narguments=({words})\n")


async def _run(guests, timeout):
    """Runs all guests; whether they ended in time."""
    tasks = [asyncio.create_task(guest.run()) for guest in guests]
    _, late = await asyncio.wait(tasks, timeout=timeout)
    for task in late:
        task.cancel()
    for guest in guests:
        guest.kill()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for guest, outcome in zip(guests, outcomes):
        if isinstance(outcome, Exception):
            print(f"vm: node {guest.node}: {outcome!r}", file=sys.stderr)
            guest.status = 1
    return not late


def main():
    options = _options()
    _write_job(options)
    if options.icount:
        options.cpus = 1
    chosen = "tcg" if options.icount or options.plugin else accel.choose()
    guests = [Guest(node, options, chosen) for node in range(1, options.nodes + 1)]
    in_time = asyncio.run(_run(guests, options.timeout))

    status = next((guest.status for guest in guests if guest.status), 0)
    if not in_time:
        print(f"vm: not finished after {options.timeout} s: killed", file=sys.stderr)
        status = _TIMED_OUT
    for guest in guests:
        if lines := guest.report():
            print(f"vm: node {guest.node}: the kernel reports a bug:", file=sys.stderr)
            print("\n".join(lines), file=sys.stderr)
            status = _KERNEL_BUG
    return status


if __name__ == "__main__":
    sys.exit(main())
