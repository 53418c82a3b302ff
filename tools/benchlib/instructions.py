# SPDX-License-Identifier: GPL-2.0
"""Compares what messages cost with what they are known to cost.

    instructions.py KNOWN MEASURED OUTPUT

MEASURED are lines of tests/user/cost under the instruction counter. KNOWN is
tests/instructions.json; OUTPUT is such a file with the figures of today.
"""

import json
import pathlib
import sys


def _measured(path):
    """Instructions of a message by kind and size."""
    found = {}
    for line in path.read_text().splitlines():
        kind, size, messages, count = line.split()
        found.setdefault(kind, {})[size] = round(int(count) / int(messages))
    return found


def _per_byte(costs):
    """What each byte adds, from the smallest message to the largest."""
    small, large = min(costs, key=int), max(costs, key=int)
    if small == large:
        return None
    return round((costs[large] - costs[small]) / (int(large) - int(small)), 4)


def main():
    known_path, measured_path, output = map(pathlib.Path, sys.argv[1:])
    known = json.loads(known_path.read_text())
    measured = _measured(measured_path)
    worse = 0
    print(f"{'kind':16}{'bytes':>10}{'known':>10}{'now':>10}")
    for kind, costs in measured.items():
        for size, cost in costs.items():
            was = known["instructions_per_message"].get(kind, {}).get(size)
            verdict = "new"
            if was is not None:
                verdict = f"{100 * cost / was - 100:+.1f} %"
                if cost > was * (1 + known["tolerance"]):
                    verdict += "  REGRESSION"
                    worse += 1
            print(f"{kind:16}{size:>10}{was or '-':>10}{cost:>10}  {verdict}")
    known["instructions_per_message"] = measured
    known["instructions_per_byte"] = {
        kind: per_byte for kind, costs in measured.items() if (per_byte := _per_byte(costs)) is not None
    }
    for kind, per_byte in known["instructions_per_byte"].items():
        print(f"{kind:16} each byte {per_byte}")
    output.write_text(json.dumps(known, indent=1) + "\n")
    if worse:
        print(f"{worse} kinds of messages cost more than tests/instructions.json says")
    return worse != 0


if __name__ == "__main__":
    sys.exit(main())
