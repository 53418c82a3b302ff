# SPDX-License-Identifier: GPL-2.0
"""The guests' part: measures, and leaves /share/PLACE.json.

    guest.py ROUNDS QUICK PLACE...
    guest.py agent
"""

import json
import os
import pathlib
import platform
import subprocess
import sys
import time

from . import agent
from . import cases
from . import places
from .perftest import Failed, Perftest

_LIMITS = "/src/build/user/limits"
_UDP_MS = 1000
_UDP_PORT = 7998


def _say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def _limit(*words):
    """A figure of tests/user/limits."""
    return float(places.run(_LIMITS, *words))


def _udp(server, address):
    """MiB/s of datagrams, merged and split by the network layer, that arrive at
    the other end."""
    server.start([_LIMITS, "udp-sink", str(_UDP_PORT), str(_UDP_MS)], 0)
    time.sleep(0.5)
    places.run(_LIMITS, "udp-source", address, str(_UDP_PORT), str(_UDP_MS), check=False)
    status, output = server.end(5)
    if status:
        raise Failed(f"UDP: {output.strip()}")
    return float(output)


def _limits(place, drivers):
    """What the machine could do at best, here and now."""
    found = {
        "memcpy 64 KiB MiB/s": _limit("memcpy", "65536"),
        "memcpy 1 MiB MiB/s": _limit("memcpy", "1048576"),
        "system call ns": _limit("syscall"),
        "eventfd write ns": _limit("eventfd"),
    }
    if place.name != "host":
        ends = drivers["rxe"]
        found["UDP with GSO MiB/s"] = _udp(ends.server, ends.address)
    return found


def _wanted(quick):
    return [case for case in cases.CASES if case.quick or not quick]


def _round(perftest, drivers, number, quick, results, faults):
    """One figure of every case and driver; siw, which only gives an idea, once."""
    for case in _wanted(quick):
        for name, ends in drivers.items():
            if name == "siw" and (number or not case.iwarp or case.qps > 1):
                continue
            if sum(fault["driver"] == name and fault["case"] == case.name for fault in faults) > 1:
                continue
            try:
                figure = perftest.run(case, ends, quick)
            except Failed as failed:
                _say(f"{name}: {failed}")
                faults.append({"driver": name, "case": case.name, "fault": str(failed)})
                continue
            results.setdefault(case.name, {}).setdefault(name, []).append(figure)


def _measure(place, rounds, quick):
    began = time.monotonic()
    _say(f"{place.title}: making devices")
    drivers = places.PLACES[place.name]()
    results, faults = {}, []
    limits = _limits(place, drivers)
    perftest = Perftest()
    for number in range(rounds):
        _say(f"{place.title}: round {number + 1} of {rounds} ({time.monotonic() - began:.0f} s)")
        _round(perftest, drivers, number, quick, results, faults)
    limits_after = _limits(place, drivers)
    answer = {
        "place": place.name,
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "rounds": rounds,
        "quick": quick,
        "seconds": round(time.monotonic() - began),
        "limits": {name: [value, limits_after[name]] for name, value in limits.items()},
        "results": results,
        "faults": faults,
    }
    pathlib.Path(f"/share/{place.name}.json").write_text(json.dumps(answer, indent=1) + "\n")


def main():
    """Runs what the arguments say on this node."""
    if sys.argv[1:] == ["agent"]:
        agent.serve()
        return
    rounds, quick, wanted = int(sys.argv[1]), sys.argv[2] == "quick", sys.argv[3:]
    if os.environ["NODE"] != "1":
        places.far_guest()
        return
    try:
        for place in cases.PLACES:
            if place.name in wanted:
                _measure(place, rounds, quick)
    finally:
        if os.environ["NODES"] != "1":
            subprocess.run(["vm-barrier", "measured"], check=False)


if __name__ == "__main__":
    main()
