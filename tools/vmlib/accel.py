# SPDX-License-Identifier: GPL-2.0
"""KVM only where it works: a probe boot decides, once for each boot of the host."""

import hashlib
import os
import subprocess
import tempfile

from . import qemu

_PROBE_SECONDS = 15


def _probe():
    """Whether a guest under KVM comes as far as its first program."""
    command = ["qemu-system-x86_64", "-accel", "kvm", "-cpu", "host", "-m", "512"]
    command += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    command += ["-kernel", qemu.KERNEL, "-initrd", qemu.KERNEL_INITRAMFS, "-serial", "stdio"]
    command += ["-append", "console=ttyS0 panic=-1 rdinit=/bin/busybox -- poweroff -f"]
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0 and b"reboot: Power down" in result.stdout


def choose():
    """The accelerator for QEMU: "kvm" or "tcg"."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    with open("/proc/sys/kernel/random/boot_id") as file:
        host = hashlib.sha256(file.read().encode()).hexdigest()[:12]
    verdict = f"/cache/accel-{host}"
    if not os.path.exists(verdict):
        answer = "kvm" if _probe() else "tcg"
        with tempfile.NamedTemporaryFile("w", dir="/cache", prefix="accel.", delete=False) as file:
            file.write(answer)
        os.rename(file.name, verdict)
    with open(verdict) as file:
        return file.read()
