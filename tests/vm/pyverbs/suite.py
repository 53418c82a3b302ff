#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs the pyverbs tests of rdma-core's package on a device, in a guest.

    suite.py --tests FOLDER --device NAME --path lid|grh --out FILE [--interface NAME] [MODULE...]

Each module runs in a process of its own, since a crash of one must not hide the
others. The tests address ports with a GRH; with `--path lid` they do so by the
LID alone. Tests that want an IP address of the device take the one of --interface, which is for devices
whose network interface they do not find. FILE gets all verdicts as JSON.
"""

import argparse
import json
import os
import pathlib
import platform
import select
import signal
import subprocess
import sys
import time
import traceback
import types
import unittest

# What needs one vendor's hardware or a GPU.
VENDOR = ("test_mlx5", "test_efa", "test_cuda", "test_irdma")

# Seconds that a module may take. Most tests wait for 10 s at most.
MODULE_LIMIT = 150

PASS, SKIP, FAIL = "pass", "skip", "fail"


def modules(folder):
    """Names of the modules that are for any device."""
    names = sorted(path.stem for path in folder.glob("test_*.py"))
    return [name for name in names if not name.startswith(VENDOR)]


def by_lid():
    """Has the tests make all address vectors without a GRH.

    To be called when all compiled parts of pyverbs are loaded: they want the original.
    """
    import pyverbs.addr

    class LidOnly(pyverbs.addr.AHAttr):
        """An address vector of a port of the same subnet."""

        def __init__(self, **attributes):
            attributes.update(is_global=0, gr=None)
            super().__init__(**attributes)

    original = pyverbs.addr.AHAttr
    for name, module in list(sys.modules.items()):
        if name.startswith("tests.") and getattr(module, "AHAttr", None) is original:
            module.AHAttr = LidOnly
    pyverbs.addr.AHAttr = LidOnly


def has_interface(name):
    """Has the tests know the network interface of their device, which has no parent that would tell."""
    import tests.base

    tests.base.RDMATestCase.get_net_name = staticmethod(lambda dev, port=None: name)


def load(folder, device):
    """Makes the package `tests` known, without importing all of it."""
    package = types.ModuleType("tests")
    package.__path__ = [str(folder)]
    sys.modules["tests"] = package
    sys.path.insert(0, str(folder))
    from args_parser import parser

    sys.argv[1:] = ["--dev", device]
    parser.parse_args()
    import tests.base  # noqa: F401, so that each module finds it loaded
    import tests.utils  # noqa: F401


class Recorder(unittest.TestResult):
    """Writes what becomes of each test to a pipe, at once: the process may crash."""

    def __init__(self, pipe):
        super().__init__()
        self.pipe = pipe
        self.began = None
        self.verdict = None

    def say(self, **event):
        os.write(self.pipe, (json.dumps(event) + "\n").encode())

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()
        self.verdict = (PASS, "")
        self.say(start=test.id())

    def stopTest(self, test):
        super().stopTest(test)
        verdict, reason = self.verdict
        seconds = round(time.monotonic() - self.began, 2)
        self.say(test=test.id(), verdict=verdict, reason=reason, seconds=seconds)

    def broken(self, error):
        text = "".join(traceback.format_exception(*error))
        self.verdict = (FAIL, text.strip())

    def addError(self, test, err):
        self.broken(err)
        if not isinstance(test, unittest.TestCase):
            # The setting up of a class or a module: its tests never start.
            self.say(test=test.id(), verdict=FAIL, reason=self.verdict[1], seconds=0)

    def addFailure(self, test, err):
        self.broken(err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.broken(err)

    def addSkip(self, test, reason):
        if self.verdict is None or self.verdict[0] == PASS:
            self.verdict = (SKIP, reason)

    def addExpectedFailure(self, test, err):
        self.verdict = (PASS, "")

    def addUnexpectedSuccess(self, test):
        self.verdict = (FAIL, "it was expected to fail")


def flatten(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flatten(item)
        else:
            yield item


def child(name, pipe, log):
    """Runs a module in this process and ends it."""
    os.setsid()
    os.dup2(log, 1)
    os.dup2(log, 2)
    suite = unittest.defaultTestLoader.loadTestsFromName(f"tests.{name}")
    recorder = Recorder(pipe)
    recorder.say(plan=[test.id() for test in flatten(suite)])
    suite.run(recorder)
    sys.exit(0)


def events(pid, pipe, deadline):
    """What the process says until it ends or the time is over, and how it ended."""
    text = b""
    status = None
    while True:
        ready = select.select([pipe], [], [], 0.2)[0]
        data = os.read(pipe, 65536) if ready else b""
        text += data
        *lines, text = text.split(b"\n")
        for line in lines:
            yield json.loads(line)
        if data:
            continue
        if status is not None:
            break
        done, waited = os.waitpid(pid, os.WNOHANG)
        if done:
            status = os.waitstatus_to_exitcode(waited)
        elif time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            yield {"end": f"it took more than {MODULE_LIMIT} s"}
            return
    if status < 0:
        yield {"end": f"killed by {signal.Signals(-status).name}"}
    elif status > 0:
        yield {"end": f"status {status}"}


def show(record):
    reason = record["reason"]
    if record["verdict"] == FAIL:
        print(f"FAIL  {record['test']}\n      " + reason.replace("\n", "\n      "))
    elif record["verdict"] == SKIP:
        print(f"skip  {record['test']}: {reason}")
    else:
        print(f"ok    {record['test']} ({record['seconds']} s)")
    sys.stdout.flush()


def run(name, log):
    """Runs a module in a process of its own; its records, and how it ended if badly."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        child(name, writer, log)
    os.close(writer)
    plan, records, started, end = None, {}, None, None

    def add(test, verdict, reason, seconds=0):
        test = test.removeprefix("tests.")
        records[test] = dict(test=test, verdict=verdict, reason=reason, seconds=seconds)
        show(records[test])

    for event in events(pid, reader, time.monotonic() + MODULE_LIMIT):
        if "plan" in event:
            plan = event["plan"]
        elif "start" in event:
            started = event["start"]
        elif "test" in event:
            started = None
            add(event["test"], event["verdict"], event["reason"], event["seconds"])
        else:
            end = event["end"]
    os.close(reader)
    if started is not None:
        add(started, FAIL, f"the process did not survive it: {end}")
    if plan is None:
        add(name, FAIL, f"it could not be loaded: {end}")
    for test in plan or []:
        if test.removeprefix("tests.") not in records:
            add(test, FAIL, f"not reached: {end}")
    if end:
        print(f"      {name} ended badly: {end}")
    return list(records.values()), end


def version():
    """The version of the package that the tests are from."""
    command = ["dpkg-query", "-W", "-f", "${Version}", "python3-pyverbs"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--tests", required=True, type=pathlib.Path)
    arguments.add_argument("--device", required=True)
    arguments.add_argument("--path", required=True, choices=("lid", "grh"))
    arguments.add_argument("--out", required=True, type=pathlib.Path)
    arguments.add_argument("--interface")
    arguments.add_argument("modules", nargs="*")
    given = arguments.parse_args()

    known = modules(given.tests)
    wanted = given.modules or known
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        sys.exit(f"no such modules: {' '.join(unknown)}; known are {' '.join(known)}")
    load(given.tests, given.device)
    if given.interface:
        has_interface(given.interface)
    if given.path == "lid":
        by_lid()

    records, ends = [], {}
    log_path = given.out.with_suffix(".log")
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    began = time.monotonic()
    for name in wanted:
        found, end = run(name, log)
        records += found
        if end:
            ends[name] = end
    result = {
        "device": given.device,
        "path": given.path,
        "kernel": platform.release(),
        "version": version(),
        "modules": wanted,
        "left_out": sorted(path.stem for path in given.tests.glob("test_*.py") if path.stem not in known),
        "ends": ends,
        "tests": records,
    }
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    count = {verdict: 0 for verdict in (PASS, SKIP, FAIL)}
    for record in records:
        count[record["verdict"]] += 1
    print(
        f"{given.device} by {given.path.upper()}: {count[PASS]} pass, {count[SKIP]} skip, "
        f"{count[FAIL]} fail of {len(records)}, {round(time.monotonic() - began)} s"
    )
    sys.exit(1 if count[FAIL] else 0)


if __name__ == "__main__":
    main()
