# SPDX-License-Identifier: GPL-2.0-or-later
"""What the host must have, and how to get it.

Needs are probed for what is used (a command, a file, a pkg-config module), so
that a compiler that is not on the PATH counts as missing although its package
is installed.
"""

import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from . import paths
from .errors import EnvError

CROSS = {"x86_64": "x86_64-linux-gnu-", "arm64": "aarch64-linux-gnu-"}
_MACHINES = {"x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}

# Where Debian's packages put the firmware that QEMU's machines load.
FIRMWARE_DIRS = (Path("/usr/share/qemu"), Path("/usr/share/seabios"),
                 Path("/usr/lib/ipxe/qemu"))


class Need(NamedTuple):
    package: str
    kind: str           # command, pkgconfig, file, firmware, module
    what: str


def arch():
    """The host's architecture, by the kernel's name for it."""
    machine = platform.machine()
    if machine not in _MACHINES:
        raise EnvError(f"hosts of type {machine} are not supported; "
                       "use an amd64 or arm64 one")
    return _MACHINES[machine]


def needs():
    """All that fetching, building and running takes, apart from Python."""
    cross = [("gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross", "x86_64")]
    if arch() == "x86_64":
        cross = [("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "arm64")]
    result = [
        Need("gcc", "command", "gcc"),
        Need("gcc", "command", CROSS[arch()] + "gcc"),
        Need("libc6-dev", "file", "/usr/include/stdlib.h"),
        Need("make", "command", "make"),
        Need("ninja-build", "command", "ninja"),
        Need("pkgconf", "command", "pkg-config"),
        Need("python3-venv", "module", "ensurepip"),
        Need("git", "command", "git"),
        Need("flex", "command", "flex"),
        Need("bison", "command", "bison"),
        Need("bc", "command", "bc"),
        Need("perl", "command", "perl"),
        Need("xz-utils", "command", "xz"),
        Need("dpkg-dev", "command", "dpkg-source"),
        Need("debian-archive-keyring", "file",
             "/usr/share/keyrings/debian-archive-keyring.gpg"),
        Need("libglib2.0-dev", "pkgconfig", "glib-2.0"),
        Need("libpixman-1-dev", "pkgconfig", "pixman-1"),
        Need("libslirp-dev", "pkgconfig", "slirp"),
        Need("libcapstone-dev", "pkgconfig", "capstone"),
        Need("zlib1g-dev", "pkgconfig", "zlib"),
        Need("libelf-dev", "pkgconfig", "libelf"),
        Need("libfdt-dev", "file", "/usr/include/libfdt.h"),
        Need("seabios", "firmware", "bios-256k.bin"),
        Need("qemu-system-data", "firmware", "linuxboot_dma.bin"),
        Need("ipxe-qemu", "firmware", "efi-virtio.rom"),
    ]
    for compiler, libc, target in cross:
        triplet = CROSS[target].rstrip("-")
        result += [Need(compiler, "command", CROSS[target] + "gcc"),
                   Need(libc, "file", f"/usr/{triplet}/include/stdlib.h")]
    return result


def present(need, modules=None):
    if need.kind == "command":
        return shutil.which(need.what) is not None
    if need.kind == "pkgconfig":
        return need.what in (pkgconfig_versions() if modules is None
                             else modules)
    if need.kind == "firmware":
        return any((d / need.what).exists() for d in FIRMWARE_DIRS)
    if need.kind == "module":
        return importlib.util.find_spec(need.what) is not None
    return Path(need.what).exists()


def missing():
    modules = pkgconfig_versions()
    return [n for n in needs() if not present(n, modules)]


def pkgconfig_versions():
    """{module: version} of those libraries that are there."""
    if not shutil.which("pkg-config"):
        return {}
    versions = {}
    for need in needs():
        if need.kind == "pkgconfig":
            done = subprocess.run(["pkg-config", "--modversion", need.what],
                                  capture_output=True, text=True, check=False)
            if done.returncode == 0:
                versions[need.what] = done.stdout.strip()
    return versions


def install_line(lacking):
    packages = sorted({need.package for need in lacking})
    return "apt-get install -y --no-install-recommends " + " ".join(packages)


def user_line(lacking):
    """The same, as this user has to type it."""
    return ("" if os.geteuid() == 0 else "sudo ") + install_line(lacking)


def prepare(progress):
    """Install what is missing; EnvError with the line to run if it cannot."""
    lacking = missing()
    if not lacking:
        return
    line = install_line(lacking)
    root = _root_prefix()
    if root is not None and shutil.which("apt-get"):
        progress.step("installing " + " ".join(
            sorted({need.package for need in lacking})))
        if not _apt(root, line):
            # Debian's containers come without package lists.
            _apt(root, "apt-get update")
            _apt(root, line)
        lacking = missing()
        if not lacking:
            progress.done("host packages installed")
            return
    raise EnvError(_lacking_text(lacking))


def _lacking_text(lacking):
    return "\n".join(
        [*(f"missing: {n.what} (package {n.package})" for n in lacking),
         "Run: " + user_line(lacking)])


def _root_prefix():
    """[] as root, ["sudo"] if that can work, else None."""
    if os.geteuid() == 0:
        return []
    if not shutil.which("sudo"):
        return None
    if subprocess.run(["sudo", "-n", "true"], capture_output=True,
                      check=False).returncode == 0:
        return ["sudo", "-n"]
    return ["sudo"] if sys.stdin.isatty() else None


def _apt(root, line):
    log = paths.LOGS / "apt.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "a", encoding="utf-8") as file:
        return subprocess.run(
            [*root, "env", "DEBIAN_FRONTEND=noninteractive",
             *shlex.split(line)],
            stdin=None if root == ["sudo"] else subprocess.DEVNULL,
            stdout=file, stderr=file, check=False).returncode == 0


def free_space(path):
    """GB free where `path` is, or will be."""
    return shutil.disk_usage(paths.existing(path)).free / 1e9


def check_space(path, needed):
    """EnvError unless the file system of `path` has `needed` GB free."""
    free = free_space(path)
    if free < needed:
        hint = ""
        if path == paths.CACHE:
            hint = " or set IOMMULAB_CACHE to a folder elsewhere"
        raise EnvError(
            f"no disk space: {path} has {free:.1f} GB free, "
            f"{needed:.1f} GB are needed. Free some{hint}; "
            f"to see what is used, run: du -sh {path}")


def jobs():
    return len(os.sched_getaffinity(0))


def os_release():
    release = platform.freedesktop_os_release()
    return {"id": release.get("ID", ""), "name": release.get("PRETTY_NAME", ""),
            "codename": release.get("VERSION_CODENAME", "")}
