# SPDX-License-Identifier: GPL-2.0
"""Runs perftest between two ends and reads its figures."""

import dataclasses
import re
import subprocess

_SECONDS = 60
_FIRST_PORT = 18600
# For the transport's own retries, should a processor be away for long.
_PATIENCE = ["-u", "18"]


class Failed(Exception):
    """A program did not do what it should; the text says which and how."""


@dataclasses.dataclass
class Ends:
    """A driver's device here and there, and how one reaches the other."""

    near: str
    far: str
    address: str
    # Something with the interface of agent.Server.
    server: object
    # Options for both ends.
    options: list


class Perftest:
    """Numbers ports: an old connection may still occupy the last one."""

    def __init__(self):
        self.port = _FIRST_PORT

    def run(self, case, ends, quick):
        """The figure of one case."""
        self.port += 1
        words = case.arguments(quick) + ends.options + ["-p", str(self.port)]
        if "-R" not in ends.options and "UD" not in words:
            words += _PATIENCE
        fault = ends.server.start([*words, "-d", ends.far], self.port)
        client = None
        if not fault:
            client = self._client([*words, "-d", ends.near, ends.address])
        status, output = ends.server.end(_SECONDS if client and client.returncode == 0 else 0.5)
        if fault or client.returncode or status:
            said = (client.stdout if client else "") + output
            raise Failed(f"{' '.join(words)}: {fault or said.strip()[-300:]}")
        return _figure(case, client.stdout)

    @staticmethod
    def _client(words):
        try:
            return subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_SECONDS,
                text=True,
                check=False,
            )
        except subprocess.TimeoutExpired as expired:
            output = (expired.stdout or b"").decode(errors="replace")
            return subprocess.CompletedProcess(words, 124, output)


def _figure(case, output):
    """The last column that counts: see "Output" in perftest's README."""
    rows = [line.split() for line in output.splitlines() if re.match(rf"^ *{case.size} +[0-9]", line)]
    if not rows:
        raise Failed(f"{case.name}: no figures in: {output.strip()[-300:]}")
    row = rows[-1]
    if case.figure == "us":
        # bytes, iterations, min, max, typical, ...
        return float(row[4])
    # bytes, iterations, peak, average, millions of messages per second
    return float(row[4]) * 1e6 if case.figure == "msg/s" else float(row[3])
