# SPDX-License-Identifier: GPL-2.0
"""The command line of one guest."""

import subprocess

from . import tsc

ROOT_DISK = "/guest/root.squashfs"
MODULE_DISK = "/boot/image/modules.squashfs"
KERNEL = "/boot/image/vmlinuz"
KERNEL_INITRAMFS = "/boot/image/initramfs.cpio"
RUN = "/run/vm"
SHARE = "/share"

# The kernel's parameters. Mitigations, probing for absent hardware and address
# randomisation cost seconds under emulation and test nothing of ours. An oops
# ends the guest, so that it is noticed at once.
PARAMETERS = (
    "console=ttyS0 rdinit=/init panic=-1 oops=panic mitigations=off nokaslr "
    "tsc=reliable no_timer_check i8042.noaux i8042.nokbd i8042.noprobe "
    "cryptomgr.notests apparmor=0 audit=0 net.ifnames=0 kunit.enable=1 "
    "watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=90"
)


# Each kind of device gets a slot of its own, four apart, so that all of them share one
# interrupt link: the guest's ACPI interpreter takes long over every link. Network cards
# are functions of one slot, of which there are eight.
_SLOTS = {"output": 1, "root": 2, "modules": 3, "vm": 4, "share": 5, "src": 6, "port": 7}
_NO_HOTPLUG = [
    "-global",
    "PIIX4_PM.acpi-root-pci-hotplug=off",
    "-global",
    "PIIX4_PM.acpi-pci-hotplug-with-bridge-support=off",
]


def version():
    """The version of QEMU."""
    return subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True, check=True).stdout


def log(node):
    """The kernel log of guest `node`."""
    return f"{SHARE}/node-{node}.dmesg"


def control(node):
    """The socket by which guest `node` is told which one it is."""
    return f"{RUN}/control.{node}"


def device(name, model):
    """A PCI device in its slot."""
    return ["-device", f"{model},addr={4 * _SLOTS[name]:#x}"]


def drive(name, path):
    """A read-only disk that any number of guests may share."""
    backend = f"file={path},id={name},if=none,format=raw,readonly=on,cache=unsafe"
    return ["-drive", backend] + device(name, f"virtio-blk-pci,drive={name}")


def folder(name, path, readonly=False):
    """A folder that the guest mounts by 9p under its name."""
    backend = f"local,id={name},path={path},security_model=none,multidevs=remap"
    return ["-fsdev", backend + (",readonly=on" if readonly else "")] + device(
        name, f"virtio-9p-pci,fsdev={name},mount_tag={name}"
    )


def network(nic, node, nodes):
    """The layer 2 of the cards `nic` of all guests: a hub inside the first guest's QEMU,
    to which the others connect through Unix sockets. Nothing leaves this machine."""
    mac = f"52:54:00:51:b{nic:x}:{node:02x}"
    port = f"port{nic}"
    card = [
        "-device",
        f"virtio-net-pci,addr={4 * _SLOTS['port']:#x}.{nic:#x},multifunction=on,"
        f"netdev={port},mac={mac},host_mtu=9000,romfile=",
    ]
    cable = f"{RUN}/cable.{nic}"
    if node > 1:
        far = f"stream,id={port},server=off,addr.type=unix,addr.path={cable}.{node},reconnect-ms=100"
        return ["-netdev", far] + card
    if nodes == 1:
        # A cable whose far end does not exist: it is up, and takes what is sent.
        ends = f"local.type=unix,local.path={cable}.1,remote.type=unix,remote.path={RUN}/nowhere"
        return ["-netdev", f"dgram,id={port},{ends}"] + card
    args = ["-netdev", f"hubport,id={port},hubid={nic}"] + card
    for other in range(2, nodes + 1):
        args += [
            "-netdev",
            f"stream,id=cable{nic}.{other},server=on,addr.type=unix,addr.path={cable}.{other}",
            "-netdev",
            f"hubport,id=hub{nic}.{other},hubid={nic},netdev=cable{nic}.{other}",
        ]
    return args


def networks(options, node):
    """All cards of a guest: eth0 is the first one."""
    return [word for nic in range(options.nics) for word in network(nic, node, options.nodes)]


# Under an instruction counter the guest's time stamp counter is that counter: one
# step in a nanosecond.
_ICOUNT_KHZ = 1_000_000


def emulation(options, accel):
    """How the guest's processors are made."""
    if options.icount:
        words = ["-accel", "tcg,thread=single", "-icount", "shift=0"]
    else:
        words = ["-accel", "tcg,thread=multi" if accel == "tcg" else accel]
    if options.plugin:
        words += ["-plugin", f"{RUN}/plugin.so,out={SHARE}/counts"]
    return words


def command(node, options, accel):
    """The words that start guest `node`; its log goes to a file, the output of
    its script to standard output."""
    cpu = "host" if accel == "kvm" else "max,la57=off"
    parameters = " ".join([PARAMETERS] + options.parameter)
    if accel == "tcg":
        khz = _ICOUNT_KHZ if options.icount else tsc.khz()
        parameters += f" tsc_early_khz={khz}"
    return (
        ["qemu-system-x86_64", "-machine", "pc,usb=off", "-cpu", cpu]
        + emulation(options, accel)
        + ["-smp", str(options.cpus), "-m", str(options.mem)]
        + ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
        + ["-kernel", KERNEL, "-initrd", f"{RUN}/initramfs"]
        + ["-append", parameters]
        + ["-chardev", f"file,id=log,path={log(node)},append=on", "-serial", "chardev:log"]
        + _NO_HOTPLUG
        + ["-chardev", "file,id=output,path=/dev/stdout"]
        + device("output", "virtio-serial-pci")
        + ["-device", "virtserialport,chardev=output,name=output,nr=1"]
        + ["-chardev", f"socket,id=control,path={control(node)},server=on,wait=off"]
        + ["-device", "virtserialport,chardev=control,name=control,nr=2"]
        + drive("root", ROOT_DISK)
        + drive("modules", MODULE_DISK)
        + folder("vm", RUN)
        + folder("share", SHARE)
        + folder("src", "/src", readonly=True)
        + networks(options, node)
    )
