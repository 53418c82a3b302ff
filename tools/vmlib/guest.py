# SPDX-License-Identifier: GPL-2.0
"""One guest: its QEMU, its output, how it ended."""

import asyncio
import os
import shutil
import sys
import time

from . import kernel_log
from . import qemu
from .kept import Kept

# How long a boot may take to reach the script on a busy machine, by kernel, for
# each guest that boots at the time.
_BOOT_SECONDS = {"stock": 300, "debug": 600}
# How much longer it takes under the instruction counter, which has one thread.
_ICOUNT_FACTOR = 3
_BOOTS = 3
_POLL_SECONDS = 0.05
_SEED_BYTES = 64


class Guest:
    """Guest `node` of a run; `status` is its script's, once there is one."""

    def __init__(self, node, options, accel):
        self.node = node
        self.options = options
        self.accel = accel
        self.status = None
        self.log = qemu.log(node)
        self.process = None
        # With a counter of instructions or a plugin it is to be seen from the beginning, and
        # without emulation it boots soon enough. One with parameters of its own is rare.
        plain = accel == "tcg" and not options.icount and not options.plugin and not options.parameter
        self.kept = Kept(node, options) if plain else None

    def _mark(self, name):
        """The file by which this guest tells that it has come to `name`."""
        return f"{qemu.RUN}/{name}.{self.node}"

    def started(self):
        """Whether the script has been started."""
        return os.path.exists(self._mark("started"))

    async def run(self):
        """Boots the guest and waits for its end. A boot that fails before the
        script has started is repeated, visibly; nothing after that is."""
        for attempt in range(1, _BOOTS + 1):
            await self._boot()
            if self.started():
                break
            self._tell(f"boot {attempt} of {_BOOTS} failed before the script had started")
            if self.kept:
                self.kept.discard()
            if attempt < _BOOTS:
                shutil.move(self.log, f"{self.log}.boot-{attempt}")
        try:
            with open(self._mark("status")) as file:
                self.status = int(file.read())
        except (FileNotFoundError, ValueError):
            self._tell("the guest ended before its script did")
            self.status = 1
        if not kernel_log.begins(self.log):
            self._tell("its kernel has left no log, which would tell of bugs")
            self.status = self.status or 1

    async def _boot(self):
        command = qemu.command(self.node, self.options, self.accel)
        to_keep = None
        for left in (self.log, qemu.control(self.node)):
            if os.path.exists(left):
                os.remove(left)
        there = self.kept and self.kept.arguments()
        if there:
            command += there
        elif self.kept and self.kept.claim():
            to_keep = self.kept
            command += ["-qmp", f"unix:{to_keep.socket()},server=on,wait=off"]
        self.process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        introduction = self._introduce(to_keep, bool(there))
        beside = [asyncio.create_task(task) for task in (self._limit_boot(), introduction)]
        output = asyncio.create_task(self._copy_output())
        await self.process.wait()
        for task in beside:
            task.cancel()
        await output

    async def _introduce(self, to_keep, has_asked):
        """Tells the guest which one it is, once it asks; before that it may be kept."""
        with open(f"{qemu.RUN}/seed.{self.node}", "wb") as file:
            file.write(os.urandom(_SEED_BYTES))
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(qemu.control(self.node))
                break
            except OSError:
                # QEMU does not listen yet.
                await asyncio.sleep(_POLL_SECONDS)
        if not has_asked:
            await reader.readline()
        if to_keep:
            try:
                await to_keep.save()
            except (OSError, ValueError, KeyError) as error:
                self._tell(f"the guest is not kept for later: {error}")
        now = round(time.time())
        writer.write(f"{self.node} {self.options.nodes} {now}\n".encode())
        await writer.drain()
        await self.process.wait()
        writer.close()

    async def _limit_boot(self):
        seconds = _BOOT_SECONDS[self.options.kernel] * self.options.nodes
        await asyncio.sleep(seconds * (_ICOUNT_FACTOR if self.options.icount else 1))
        if not self.started():
            self.kill()

    async def _copy_output(self):
        prefix = f"[{self.node}] ".encode() if self.options.nodes > 1 else b""
        begun = False
        while data := await self.process.stdout.read(65536):
            if prefix:
                lines = data.split(b"\n")
                data = b"\n".join(
                    prefix + line if (number or not begun) and (line or number < len(lines) - 1) else line
                    for number, line in enumerate(lines)
                )
                begun = bool(lines[-1])
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def kill(self):
        """Ends the guest's QEMU, if it runs."""
        if self.process and self.process.returncode is None:
            self.process.kill()

    def report(self):
        """The kernel's first report of a bug, as lines, or None."""
        return kernel_log.report(self.log)

    def _tell(self, text):
        print(f"vm: node {self.node}: {text}", file=sys.stderr, flush=True)
