# SPDX-License-Identifier: GPL-2.0
"""Prints which functions the instructions of a profile belong to."""

import argparse
import bisect
import collections
import pathlib
import re

_KERNEL = 1 << 63


def _symbols(path):
    """Addresses in order, and the names that begin there."""
    found = []
    for line in path.read_text().splitlines():
        address, kind, name, *module = line.split()
        if kind in "tTwW":
            found.append((int(address, 16), name + (f" {module[0]}" if module else "")))
    found.sort()
    return [address for address, _ in found], [name for _, name in found]


def _plain(name):
    """A name of Rust without its crate hashes, as far as that is simple."""
    if not name.startswith("_R"):
        return name
    parts = []
    rest = name
    while match := re.search(r"(?<![0-9])([1-9][0-9]?)_?([A-Za-z_])", rest):
        start = match.start(2)
        length = int(match.group(1))
        parts.append(rest[start : start + length])
        rest = rest[start + length :]
    return "::".join(parts) + (" [sib]" if name.endswith("[sib]") else "")


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="what tools/profile leaves: counts, kallsyms and cost")
    parser.add_argument("lines", type=int, nargs="?", default=60, help="how many functions (60)")
    return parser.parse_args()


def main():
    options = _arguments()
    folder, lines = options.folder, options.lines
    addresses, names = _symbols(folder / "kallsyms")
    _, _, messages, nanoseconds = (folder / "cost").read_text().split()[-4:]
    messages = int(messages)
    insns = collections.Counter()
    calls = collections.Counter()
    lookups = collections.Counter()
    for line in (folder / "counts").read_text().splitlines():
        address, *numbers = line.split()
        address, (size, times, looked_up) = int(address, 16), map(int, numbers)
        if address < _KERNEL:
            insns["(the program)"] += size * times
            lookups["(the program)"] += looked_up
            continue
        at = bisect.bisect_right(addresses, address) - 1
        insns[names[at]] += size * times
        lookups[names[at]] += looked_up
        if addresses[at] == address:
            calls[names[at]] += times
    total = sum(insns.values())
    print(f"{messages} messages, {int(nanoseconds) / messages:.0f} ns each by the guest's clock")
    jumps = sum(lookups.values())
    print(f"{total / messages:.0f} instructions each, and {jumps / messages:.0f} jumps that QEMU looks up, of which")
    for name, count in insns.most_common(lines):
        print(
            f"{count / messages:9.1f}  {100 * count / total:5.1f} %"
            f"  {lookups[name] / messages:6.2f} jumps  {calls[name] / messages:6.2f} calls  {_plain(name)}"
        )


if __name__ == "__main__":
    main()
