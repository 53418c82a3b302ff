#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turns the results of tests/vm/pyverbs.sh into Documentation/conformance.rst.

A test that is skipped for a reason that is not explained here is an error, so
that no skip passes unseen.
"""

import argparse
import json
import pathlib
import re
import sys

# Why tests are skipped: a pattern for what a test says, and whose matter that is.
EXPLANATIONS = [
    (r"Device memory is not supported|DM is not supported",
     "librxe offers no memory of the device."),
    (r"XRCD is not supported|XRC", "librxe offers no extended reliable connections."),
    (r"RAW|Raw|raw packet|Ethernet", "Raw Ethernet packets: not on InfiniBand."),
    (r"skip RoCE test", "It is about RoCE."),
    (r"[Pp]arent [Dd]omain", "librxe offers no parent domains."),
    (r"[Rr]ereg", "librxe does not change regions that are registered."),
    (r"[Aa]dvise|prefetch", "librxe 56 does not pass advice about memory to the kernel."),
    (r"[Ii]mplicit", "sib has no on-demand regions of all memory of a process."),
    (r"/dev/dri|dmabuf|DMABUF|GPU", "There is no graphics card whose memory could be used."),
    (r"Extended CQ is not supported|[Tt]ag [Mm]atching", "librxe offers no tag matching."),
    (r"[Ii]mport", "librxe does not import objects of other processes."),
    (r"RSS|indirection|WQ", "librxe offers no receive side scaling."),
]

HEAD = """\
.. SPDX-License-Identifier: GPL-2.0
.. Made by tools/pyverbs --write. Changes go to tools/conformance.py.

===========
Conformance
===========

The tests of pyverbs are rdma-core's own judge of a device. Debian's package
``python3-pyverbs`` ships them; ``make pyverbs`` runs them in a virtual machine on
the stock kernel, against one port that talks to itself, each module in a process of
its own. The tests use a GRH in all addresses; the run *by LID* has them leave it out.
Those of librdmacm go by an address of IP over InfiniBand.
``tools/pyverbs rxe`` runs the same on rxe. ``make conformance`` writes this page.

This page is from version {version} of the package on kernel {kernel}.

.. list-table::
   :header-rows: 1
   :widths: 40 15 15 15

   * - device
     - passed
     - skipped
     - failed
"""


def explain(reason):
    for pattern, text in EXPLANATIONS:
        if re.search(pattern, reason):
            return text
    sys.exit(f"no explanation of the skip reason '{reason}': add one to tools/conformance.py")


def row(cells):
    first, *rest = cells
    return f"   * - {first}\n" + "".join(f"     - {cell}\n" for cell in rest)


def table(widths, header, rows):
    text = "\n.. list-table::\n   :header-rows: 1\n"
    text += f"   :widths: {' '.join(map(str, widths))}\n\n"
    return text + row(header) + "".join(map(row, rows))


def count(run, verdict):
    return sum(test["verdict"] == verdict for test in run["tests"])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folder", type=pathlib.Path, help="has the results of sib, by LID and with GRHs, and those of rxe"
    )
    return parser.parse_args()


def main():
    folder = arguments().folder
    runs = {}
    for name, file in (
        ("sib by LID", "pyverbs-sib0-lid.json"),
        ("sib with GRH", "pyverbs-sib0-grh.json"),
        ("rxe", "pyverbs-rxe0-grh.json"),
    ):
        runs[name] = json.loads((folder / file).read_text())
    first = next(iter(runs.values()))
    text = HEAD.format(version=first["version"], kernel=first["kernel"])
    for name, run in runs.items():
        text += row([name] + [count(run, verdict) for verdict in ("pass", "skip", "fail")])

    by_test = {}
    for name, run in runs.items():
        for test in run["tests"]:
            by_test.setdefault(test["test"], {})[name] = test

    text += "\nModules left out, because they need hardware of one vendor:\n"
    text += ", ".join(f"``{name}``" for name in first["left_out"]) + ".\n"
    for name, run in runs.items():
        for module, end in run["ends"].items():
            text += f"\n{name}: the process of ``{module}`` ended badly after its tests ({end}).\n"

    failed = [
        (f"``{test}``", name, f"``{result['reason'].splitlines()[-1]}``")
        for test, results in by_test.items()
        for name, result in results.items()
        if result["verdict"] == "fail"
    ]
    if failed:
        text += "\nFailures\n========\n"
        text += table((45, 15, 40), ("test", "device", "what it said"), failed)

    text += "\nSkipped by sib\n==============\n"
    reasons = {}
    for test, results in by_test.items():
        for name, result in results.items():
            if name != "rxe" and result["verdict"] == "skip":
                reasons.setdefault(explain(result["reason"]), {})[test] = result["reason"]
    rows = [
        (why, len(tests), ", ".join(f"``{test.split('.', 1)[1]}``" for test in sorted(tests)))
        for why, tests in sorted(reasons.items())
    ]
    text += table((30, 10, 60), ("why", "tests", "which"), rows)

    text += "\nAll tests\n=========\n"
    rows = [
        [f"``{test}``"] + [results.get(name, {}).get("verdict", "") for name in runs]
        for test, results in sorted(by_test.items())
    ]
    text += table((55, 15, 15, 15), ["test", *runs], rows)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
