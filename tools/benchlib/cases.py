# SPDX-License-Identifier: GPL-2.0
"""What is measured, and what is hoped for."""

import dataclasses

KIB = 1024
MIB = 1024 * KIB

# Messages of one measurement by size: what the slowest driver does in about a
# second under emulation.
_MESSAGES = {8: 10000, 512: 8000, 4 * KIB: 4000, 64 * KIB: 600, MIB: 60}
_TURNS = 2000
_QPS_TOTAL = 16


@dataclasses.dataclass(frozen=True)
class Case:
    """One measurement of perftest. `figure` is what it yields: MiB/s, messages
    per second, or the median of microseconds one way."""

    tool: str
    size: int
    figure: str
    qps: int = 1
    options: tuple = ()
    quick: bool = False
    # Whether it goes without a service that only InfiniBand and RoCE have.
    iwarp: bool = True

    @property
    def name(self):
        """What it is called in tables and files."""
        qps = f" {self.qps} QPs" if self.qps > 1 else ""
        what = " ".join((self.tool.removeprefix("ib_"), *self.options))
        return f"{what} {size_name(self.size)}{qps}"

    def iterations(self, quick):
        """Messages for each queue pair."""
        if self.figure == "us":
            return _TURNS // 4 if quick else _TURNS
        count = _MESSAGES[self.size] // (2 if quick else 1)
        return max(count // self.qps, 5)

    def arguments(self, quick):
        """Options of perftest, the same at both ends."""
        words = ["-F", "-n", str(self.iterations(quick))]
        if "atomic" not in self.tool:
            words += ["-s", str(self.size)]
        if self.qps > 1:
            words += ["-q", str(self.qps)]
        return [self.tool, *words, *self.options]

    @property
    def better_high(self):
        """Whether more is better."""
        return self.figure != "us"


def size_name(size):
    """8 B, 64 KiB, 1 MiB."""
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def _bandwidth():
    for verb in ("send", "write", "read"):
        for size in (8, 512, 4 * KIB, 64 * KIB, MIB):
            figure = "msg/s" if size < 4 * KIB else "MiB/s"
            yield Case(f"ib_{verb}_bw", size, figure, quick=size in (8, 64 * KIB, MIB))
        for size in (8, 64 * KIB):
            figure = "msg/s" if size < 4 * KIB else "MiB/s"
            yield Case(f"ib_{verb}_bw", size, figure, qps=_QPS_TOTAL, quick=verb == "send" and size == 8)


def _latency():
    for verb in ("send", "write"):
        for size in (8, 4 * KIB):
            yield Case(f"ib_{verb}_lat", size, "us", quick=size == 8)


CASES = (
    *_bandwidth(),
    *_latency(),
    Case("ib_atomic_bw", 8, "msg/s", iwarp=False),
    Case("ib_send_bw", 8, "msg/s", options=("-c", "UD"), iwarp=False),
    Case("ib_send_bw", 4 * KIB, "MiB/s", options=("-c", "UD"), iwarp=False),
    Case("ib_send_lat", 8, "us", options=("-c", "UD"), iwarp=False),
)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where both ends are."""

    name: str
    title: str
    nodes: int
    # Ratios to rxe that are aimed at: of bandwidth from 64 KiB, of rates at 8
    # bytes, and of latency at 8 bytes.
    bandwidth: float
    rate: float
    latency: float

    def target(self, case):
        """The ratio to rxe that is aimed at, or that which is not to be missed."""
        if "UD" in case.options or case.tool == "ib_atomic_bw":
            return 1.0
        if case.figure == "us":
            return self.latency if case.size == 8 else 1.0
        if case.size >= 64 * KIB:
            return self.bandwidth
        return self.rate if case.size == 8 else 1.0


PLACES = (
    Place("host", "inside one host", 1, 10, 6, 0.25),
    Place("veth", "over UDP, two switches of one guest", 1, 3, 2, 0.6),
    Place("guests", "over UDP, two guests", 2, 2, 1.5, 0.8),
)

DRIVERS = ("sib", "rxe", "siw")
