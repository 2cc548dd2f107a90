# SPDX-License-Identifier: GPL-2.0-or-later
"""The emulated machines, and the command line that starts each of them.

Everything QEMU or the guest could take from the host (time of day, random
numbers, its own choice of devices) is fixed here, so that equal inputs give
equal outputs.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path

from . import paths
from .errors import EnvError

MAX_CPUS = 128

# The kernel's options for each mode. A guest with a lab port reads the mode
# with its job and sets it for the one device instead.
MODES = {
    "strict": ("iommu.passthrough=0", "iommu.strict=1"),
    "lazy": ("iommu.passthrough=0", "iommu.strict=0"),
    "passthrough": ("iommu.passthrough=1",),
}

# For any guest: an oops ends it, as a panic does, and warnings reach the
# console, which "quiet" would keep from the log that is scanned for them.
WATCHFUL = ("oops=panic", "loglevel=5")

# Files QEMU writes, relative to the folder it is started in.
CONSOLE = "console.log"
SERIAL = "serial.log"
RESULTS = "result.jsonl"

PORT = "iommulab-port"


# What is mapped for: the lab's device, which can be saved with the machine, or
# one that every QEMU has. Neither has a driver in Linux; init knows both.
DMA = "iommulab-dma"
STOCK_DMA = "pci-testdev"


@dataclass(frozen=True)
class Machine:
    name: str
    arch: str           # as the kernel's artefacts and command line name it
    qemu: str
    board: tuple
    image: str          # the kernel image inside a kernel build tree
    profile: str        # in profiles/
    iommu: str          # QEMU's device
    ram: int            # guest address where its memory begins
    summary: str


# Linux trusts the TSC of such a CPU to be constant, so that it does not
# calibrate its delay loop anew, 80 ms long, on each CPU it brings up. Without
# the fast string flags it copies by loops of wide moves: a "rep movsb" counts
# as one instruction for each byte.
INTEL = ("max,vendor=GenuineIntel,family=6,model=143,stepping=8,"
         "erms=off,fsrm=off,fsrs=off")

# A 16550 that is a thousand times faster than the guest thinks. At its real
# pace Linux polls for 87 us of guest time after each character.
FAST_UART = ("-global", "serial.baudbase=115200000")

MACHINES = {m.name: m for m in (
    Machine("vtd", "x86_64", "qemu-system-x86_64",
            ("-M", "q35,hpet=off", "-cpu", INTEL, *FAST_UART,
             "-device", "intel-iommu,intremap=on,eim=on,aw-bits=48"),
            "arch/x86/boot/bzImage", "generic-x86", "intel-iommu", 0,
            "Intel VT-d: q35 with intel-iommu"),
    Machine("smmuv3", "arm64", "qemu-system-aarch64",
            ("-M", "virt,gic-version=3,iommu=smmuv3,dtb-randomness=off",
             "-cpu", "neoverse-n1"),
            "arch/arm64/boot/Image", "generic-arm", "arm-smmuv3",
            0x40000000, "Arm SMMUv3: virt with smmuv3"),
)}


@dataclass(frozen=True)
class Files:
    """What a guest is made of."""
    qemu: Path
    kernel: Path
    initramfs: Path
    firmware: tuple = ()


# A CPU that is ahead still has the lines that others are about to take. Half
# of this moved one of 34 cells by over 2 %; half of QEMU's default of 100 moved
# four, by up to 6.4 %, and is no faster where lines are contended.
WATCH_QUANTUM = 50      # ns


@dataclass(frozen=True)
class Clock:
    """The clock the guest lives by.

    "vtime": each vCPU has a virtual clock of its own, with the costs of a
    profile. "functional": one instruction takes 1 ns on one clock that all
    vCPUs share. Idle time is skipped on both.
    """
    name: str
    profile: Path = None
    quantum: int = None     # ns, None: WATCH_QUANTUM or QEMU's default
    jitter: int = 0         # seed, 0: none
    watch: str = "off"      # which cache lines cost time: off, auto, all

    @property
    def options(self):
        if self.name == "functional":
            return ("-accel", "tcg,thread=single",
                    "-icount", "shift=0,sleep=off")
        words = ["tcg,thread=single,vtime=on",
                 f"vtime-profile={self.profile}"]
        quantum = self.quantum
        if quantum is None and self.watch != "off":
            quantum = WATCH_QUANTUM
        if quantum is not None:
            words.append(f"vtime-quantum={quantum}")
        if self.jitter:
            words.append(f"vtime-jitter={self.jitter}")
        if self.watch != "off":
            words.append(f"vtime-watch={self.watch}")
        return ("-accel", ",".join(words))


def profile(machine):
    """The costs of a machine where the user names none."""
    return paths.ROOT / "profiles" / f"{machine.profile}.ini"


def knows(qemu, word):
    """Whether this QEMU knows a device or option; nothing is executed to
    find out."""
    try:
        return word.encode() in Path(qemu).read_bytes()
    except OSError:
        return True     # not built yet: it will be ours


def has_port(qemu):
    return knows(qemu, PORT)


def has_vtime(qemu):
    return knows(qemu, "vtime-quantum")


def kernel_cmdline(machine, mode=None, extra=()):
    """The guest kernel's command line: ours, the mode's, then the user's."""
    source = paths.ROOT / "guest" / f"{machine.arch}.cmdline"
    try:
        lines = source.read_text().splitlines()
    except OSError as err:
        raise EnvError(f"{source}: {err.strerror}; the clone is incomplete")
    words = [word for line in lines if not line.startswith("#")
             for word in line.split()]
    return " ".join([*words, *WATCHFUL, *MODES.get(mode, ()), *extra])


def argv(machine, cpus, files, cmdline, port, clock, job="", extra=()):
    """The whole QEMU command, to be run inside the folder of the logs."""
    if port:
        todo = ",job=" + job.replace(",", ",,") if job else ""
        channels = (
            "-chardev", f"file,id=serial,path={SERIAL}",
            "-serial", "chardev:serial",
            "-chardev", f"file,id=console,path={CONSOLE}",
            "-chardev", f"file,id=result,path={RESULTS}",
            "-device", f"{PORT},console=console,result=result{todo}")
    else:
        channels = ("-chardev", f"file,id=serial,path={CONSOLE}",
                    "-serial", "chardev:serial")
    return [
        str(files.qemu),
        *(word for path in files.firmware for word in ("-L", str(path))),
        "-nodefaults", "-no-user-config", "-no-reboot",
        *clock.options,
        "-rtc", "base=2024-01-01T00:00:00,clock=vm", "-seed", "1",
        "-display", "none", "-monitor", "none", "-nic", "none",
        *machine.board,
        "-smp", str(cpus), "-m", "1G",
        "-device", DMA if port else STOCK_DMA,
        *channels,
        "-kernel", str(files.kernel), "-initrd", str(files.initramfs),
        "-append", cmdline,
        *extra,
    ]


def shell(command, folder):
    """The same as one line for a shell."""
    where = shlex.quote(str(folder))
    return f"mkdir -p {where} && cd {where} && {shlex.join(command)}"
