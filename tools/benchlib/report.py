# SPDX-License-Identifier: GPL-2.0
"""Makes one table and one JSON file of what the guests have measured.

    report.py OUTPUT INPUT...
"""

import json
import pathlib
import statistics
import sys

from . import cases

SCHEMA = 1


def _median(values):
    return statistics.median(values) if values else None


def _row(case, place, figures):
    """A case with medians, ratios to rxe by round, and the verdict."""
    medians = {driver: _median(figures.get(driver, [])) for driver in cases.DRIVERS}
    pairs = zip(figures.get("sib", []), figures.get("rxe", []))
    ratio = _median([sib / rxe for sib, rxe in pairs if rxe])
    target = place.target(case)
    reached = None
    if ratio is not None:
        reached = ratio >= target if case.better_high else ratio <= target
    return {
        "case": case.name,
        "figure": case.figure,
        "rounds": figures,
        "median": medians,
        "ratio": ratio,
        "target": target,
        "reached": reached,
    }


def _place(measured):
    place = next(place for place in cases.PLACES if place.name == measured["place"])
    results = measured.pop("results")
    rows = [_row(case, place, results[case.name]) for case in cases.CASES if case.name in results]
    return {**measured, "title": place.title, "rows": rows}


def _number(value):
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


def _print(place):
    print(f"\n{place['title']} (kernel {place['kernel']}, {place['cpus']} processors, medians of {place['rounds']})")
    print(f"{'':24}{'':8}{'sib':>12}{'rxe':>12}{'siw':>12}{'sib/rxe':>10}  aim")
    for row in place["rows"]:
        figures = "".join(f"{_number(row['median'][driver]):>12}" for driver in cases.DRIVERS)
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
        sign = "<=" if row["figure"] == "us" else ">="
        verdict = {True: "", False: "  MISSED", None: "  not measured"}[row["reached"]]
        print(f"{row['case']:24}{row['figure']:>8}{figures}{ratio:>10}  {sign} {row['target']:g}{verdict}")
    for name, values in place["limits"].items():
        print(f"limit: {name}: {_number(_median(values))}")
    for fault in place["faults"]:
        print(f"fault: {fault['driver']}: {fault['fault']}")


def main():
    output, *inputs = sys.argv[1:]
    found = [_place(json.loads(pathlib.Path(name).read_text())) for name in inputs]
    pathlib.Path(output).write_text(json.dumps({"schema": SCHEMA, "places": found}, indent=1) + "\n")
    for place in found:
        _print(place)
    rows = [row for place in found for row in place["rows"]]
    reached = sum(row["reached"] is True for row in rows)
    print(f"\n{reached} of {len(rows)} rows reach what is aimed at")


if __name__ == "__main__":
    main()
