# SPDX-License-Identifier: GPL-2.0
"""Devices of all drivers at each place."""

import os
import pathlib
import re
import subprocess
import sys
import time

from . import agent
from .perftest import Ends, Failed

_SIB = pathlib.Path("/sys/kernel/config/sib")
_MTU = 9000
_LISTENS_ON = 61515


def run(*words, check=True):
    """Runs a program to its end; its output."""
    result = subprocess.run(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if check and result.returncode:
        raise Failed(f"{' '.join(words)}: {result.stdout.strip()[-300:]}")
    return result.stdout


def until(what, seconds, holds):
    """Waits until `holds()`."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise Failed(f"{what}: not after {seconds} s")
        time.sleep(0.1)


def _link(name, driver, netdev, *prefix):
    run(*prefix, "rdma", "link", "add", name, "type", driver, "netdev", netdev)


def _active(device):
    state = pathlib.Path(f"/sys/class/infiniband/{device}/ports/1/state")
    return state.exists() and "ACTIVE" in state.read_text()


def _opensm(device):
    """A subnet manager on the first port of a device; returns when that is active."""
    gid = pathlib.Path(f"/sys/class/infiniband/{device}/ports/1/gids/0").read_text().strip()
    guid = "0x" + "".join(gid.split(":")[4:])
    subprocess.Popen(
        ["opensm", "-g", guid, "-f", "/tmp/opensm.log"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(f"{device} active", 60, lambda: _active(device))


def _cable(netdev, remote):
    """Plugs one end of a cable in."""
    cable = _SIB / f"to-{re.sub('[^0-9a-f]', '-', remote)}"
    cable.mkdir()
    (cable / "netdev").write_text(netdev)
    (cable / "remote").write_text(remote)
    (cable / "enable").write_text("1")


def _modules():
    # OpenSM is to find a fabric that nobody hands over while something is measured.
    run("modprobe", "sib", "sm=0", "beacons=0")
    for module in ("rdma_rxe", "siw", "rdma_ucm", "ib_umad"):
        run("modprobe", module)


def _tried(drivers, name, make):
    """Adds a driver's ends, or says why it has none."""
    try:
        drivers[name] = make()
    except Failed as failed:
        print(f"bench: no {name} here: {failed}", file=sys.stderr, flush=True)


def host():
    """Both ends in one host, which for rxe and siw are one device."""
    _modules()
    run("ip", "link", "add", "bench0", "type", "dummy")
    run("ip", "address", "add", "10.9.1.1/24", "dev", "bench0")
    run("ip", "link", "set", "bench0", "mtu", str(_MTU), "up")
    _link("sib0", "sib", "bench0")
    _link("sib1", "sib", "bench0")
    _link("rxe0", "rxe", "bench0")
    _opensm("sib0")
    until("sib1 active", 60, lambda: _active("sib1"))
    server = agent.Server()
    drivers = {
        "sib": Ends("sib0", "sib1", "127.0.0.1", server, []),
        "rxe": Ends("rxe0", "rxe0", "127.0.0.1", server, ["-x", "1"]),
    }

    def siw():
        _link("siw0", "siw", "bench0")
        until("siw0 active", 10, lambda: _active("siw0"))
        return Ends("siw0", "siw0", "10.9.1.1", server, ["-R"])

    _tried(drivers, "siw", siw)
    return drivers


def veth():
    """Two network namespaces on the ends of a veth pair, and an agent in the
    other one."""
    _modules()
    far = ("ip", "netns", "exec", "far")
    run("ip", "netns", "add", "far")
    run("ip", "link", "add", "bench1", "type", "veth", "peer", "name", "bench2", "netns", "far")
    run("ip", "address", "add", "10.9.2.1/24", "dev", "bench1")
    run("ip", "link", "set", "bench1", "mtu", str(_MTU), "up")
    run("ip", "-n", "far", "address", "add", "10.9.2.2/24", "dev", "bench2")
    run("ip", "-n", "far", "link", "set", "bench2", "mtu", str(_MTU), "up")
    run("ip", "-n", "far", "link", "set", "lo", "up")
    subprocess.Popen([*far, sys.executable, "-m", "benchlib.guest", "agent"], stdin=subprocess.DEVNULL)
    server = agent.Remote("10.9.2.2")
    _link("sib2", "sib", "bench1")
    _link("sib3", "sib", "bench2", *far)
    _cable("bench1", "10.9.2.2")
    _cable("bench2", f"10.9.2.1:{_LISTENS_ON}")
    _link("rxe1", "rxe", "bench1")
    _link("rxe2", "rxe", "bench2", *far)
    until("a cable", 20, lambda: run("ibswitches", "-C", "sib2", check=False).count("Switch\t") == 2)
    _opensm("sib2")
    until("sib3 active", 60, lambda: _active("sib3"))
    drivers = {
        "sib": Ends("sib2", "sib3", "10.9.2.2", server, []),
        "rxe": Ends("rxe1", "rxe2", "10.9.2.2", server, ["-x", "1"]),
    }

    def siw():
        _link("siw1", "siw", "bench1")
        _link("siw2", "siw", "bench2", *far)
        until("siw active", 10, lambda: _active("siw1") and _active("siw2"))
        return Ends("siw1", "siw2", "10.9.2.2", server, ["-R"])

    _tried(drivers, "siw", siw)
    return drivers


def guests():
    """This guest and the second one, which runs `far_guest`."""
    _modules()
    _link("sib0", "sib", "eth0")
    _cable("eth0", "10.77.0.2")
    _link("rxe0", "rxe", "eth0")
    until("a cable", 60, lambda: run("ibswitches", "-C", "sib0", check=False).count("Switch\t") == 2)
    _opensm("sib0")
    server = agent.Remote("10.77.0.2")
    drivers = {
        "sib": Ends("sib0", "sib0", "10.77.0.2", server, []),
        "rxe": Ends("rxe0", "rxe0", "10.77.0.2", server, ["-x", "1"]),
    }

    def siw():
        _link("siw0", "siw", "eth0")
        return Ends("siw0", "siw0", "10.77.0.2", server, ["-R"])

    _tried(drivers, "siw", siw)
    return drivers


def far_guest():
    """The second guest: devices, and the agent once they can be used. Ends with
    the run."""
    _modules()
    _link("sib0", "sib", "eth0")
    _cable("eth0", "10.77.0.1")
    _link("rxe0", "rxe", "eth0")
    _tried({}, "siw", lambda: _link("siw0", "siw", "eth0"))
    until("sib0 active", 180, lambda: _active("sib0"))
    if os.fork() == 0:
        agent.serve()
    run("vm-barrier", "measured")


PLACES = {"host": host, "veth": veth, "guests": guests}
