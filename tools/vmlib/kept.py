# SPDX-License-Identifier: GPL-2.0
"""Guests that have booted, kept in the cache.

An emulated guest boots for ten seconds, and the debug kernel for more than a minute,
to a state that is always the same. So the first one of a kind is written to a file
when it asks which guest it is, and those after it begin there. Its clock counts the
host's time stamp counter, so what is kept is good for one boot of the host.
"""

import asyncio
import fcntl
import hashlib
import json
import os
import shutil
import tempfile

from . import kernel_log
from . import qemu

_FOLDER = "/cache/kept"
_INIT = "/src/tools/guest/init"
_POLL_SECONDS = 0.1
# Bytes per second: as fast as it goes.
_BANDWIDTH = 1 << 40
# How many are kept, of which each takes 130 to 400 MB.
_KINDS = 12


def _identity(path):
    """What tells the content of a file from that of another."""
    status = os.stat(path)
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def _sources():
    """What says how a guest is made, and what it does up to its question."""
    folder = os.path.dirname(__file__)
    return [_INIT] + sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".py"))


class Kept:
    """The state of a guest like `node` of this run, in the cache or yet to come."""

    def __init__(self, node, options):
        self.node = node
        with open("/proc/sys/kernel/random/boot_id") as file:
            host = hashlib.sha256(file.read().encode()).hexdigest()[:12]
        files = (qemu.ROOT_DISK, qemu.MODULE_DISK, qemu.KERNEL, qemu.KERNEL_INITRAMFS)
        parts = [node, options.nics, options.cpus, options.mem, qemu.version()]
        parts += [_identity(path) for path in files]
        digest = hashlib.sha256(repr(parts).encode())
        for path in _sources():
            with open(path, "rb") as file:
                digest.update(file.read())
        self.folder = f"{_FOLDER}/{host}"
        self.name = f"{self.folder}/{digest.hexdigest()[:16]}"
        self.lock = None

    def arguments(self):
        """What has QEMU begin there, if a guest is kept. The log begins with that of the boot."""
        try:
            os.utime(self.name)
            shutil.copy(f"{self.name}/log", qemu.log(self.node))
        except FileNotFoundError:
            return None
        return ["-incoming", f"file:{self.name}/state", "-global", "migration.announce-rounds=0"]

    def claim(self):
        """Whether this run is the one to keep such a guest."""
        try:
            os.makedirs(self.folder, exist_ok=True)
            self.lock = open(f"{self.name}.lock", "w")
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def discard(self):
        """Forgets it: no guest has come up from there."""
        shutil.rmtree(self.name, ignore_errors=True)

    def socket(self):
        """Where QEMU takes commands, of a guest that is to be kept."""
        return f"{qemu.RUN}/monitor.{self.node}"

    async def save(self):
        """Keeps the guest, which this run has claimed and which runs on, unless its kernel reports a bug.

        What is of another boot of the host goes, and what has not been used for longest.
        """
        if kernel_log.report(qemu.log(self.node)):
            return
        for other in os.listdir(_FOLDER):
            if f"{_FOLDER}/{other}" != self.folder:
                shutil.rmtree(f"{_FOLDER}/{other}", ignore_errors=True)
        folders = [entry for entry in os.scandir(self.folder) if entry.is_dir()]
        # Nobody else writes to what begins with its name.
        left = [entry for entry in folders if entry.path.startswith(f"{self.name}.")]
        kinds = sorted(set(folders) - set(left), key=lambda entry: entry.stat().st_mtime_ns)
        for entry in left + kinds[: max(0, len(kinds) - _KINDS + 1)]:
            shutil.rmtree(entry.path, ignore_errors=True)
        scratch = tempfile.mkdtemp(prefix=f"{os.path.basename(self.name)}.", dir=self.folder)
        try:
            await self._write(f"{scratch}/state")
            shutil.copy(qemu.log(self.node), f"{scratch}/log")
            os.rename(scratch, self.name)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    async def _write(self, path):
        reader, writer = await asyncio.open_unix_connection(self.socket())

        async def ask(command, **arguments):
            words = {"execute": command, "arguments": arguments}
            writer.write(json.dumps(words).encode() + b"\n")
            while line := await reader.readline():
                answer = json.loads(line)
                if "error" in answer:
                    raise OSError(answer["error"]["desc"])
                if "return" in answer:
                    return answer["return"]
            raise OSError("QEMU has ended")

        await reader.readline()
        await ask("qmp_capabilities")
        await ask("migrate-set-parameters", **{"max-bandwidth": _BANDWIDTH})
        await ask("migrate", uri=f"file:{path}")
        while (status := (await ask("query-migrate"))["status"]) not in ("completed", "failed"):
            await asyncio.sleep(_POLL_SECONDS)
        if status == "failed":
            raise OSError("QEMU cannot write the state")
        await ask("cont")
        writer.close()
