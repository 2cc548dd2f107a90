# SPDX-License-Identifier: GPL-2.0-or-later
"""Options that `run` and `boot` share, and what they stand for."""

import argparse
import configparser
import hashlib
import re
import shlex
from pathlib import Path

from . import build, machine, paths
from .errors import UsageError

UNITS = {"ms": 0.001, "s": 1, "": 1, "m": 60, "min": 60}


def one_of(valid, what):
    """An argparse type: one of the valid words."""
    def parse(word):
        if word not in valid:
            raise argparse.ArgumentTypeError(
                f"unknown {what} '{word}' (valid: {', '.join(valid)})")
        return word
    return parse


def list_of(parse):
    """An argparse type: words separated by commas, each one once."""
    def parse_all(text):
        return list(dict.fromkeys(parse(word.strip())
                                  for word in text.split(",")))
    return parse_all


def cpus(word):
    """An argparse type: a number of vCPUs."""
    if not word.isdecimal() or not 1 <= int(word) <= machine.MAX_CPUS:
        raise argparse.ArgumentTypeError(
            f"'{word}' is not a number of CPUs "
            f"(valid: 1 to {machine.MAX_CPUS})")
    return int(word)


def seconds(text):
    """An argparse type: 100ms, 2s, 5m; a bare number is seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text)
    if not match or match[2] not in UNITS or not float(match[1]):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a duration (valid: 100ms, 2s, 5m)")
    return float(match[1]) * UNITS[match[2]]


def iommu_cost(text):
    """An argparse type: "profile" and KEY=CYCLES, separated by commas."""
    profile = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    profile.read(machine.profile(machine.MACHINES["vtd"]))
    costs = list(profile["iommu"])      # a profile has to have all
    words = [word.strip() for word in text.split(",")]
    for word in words:
        key, _, value = word.partition("=")
        if word != "profile" and not (
                key in costs and re.fullmatch("[0-9]+", value)):
            raise argparse.ArgumentTypeError(
                f"'{word}' is not a cost (valid: profile, "
                f"{'=CYCLES, '.join(costs)}=CYCLES)")
    return words


def profile(text):
    """An argparse type: a file, or the name of one in profiles/."""
    if re.fullmatch(r"[a-z0-9-]+", text):
        named = paths.ROOT / "profiles" / f"{text}.ini"
        if named.is_file():
            return named
    return Path(text)


def positive(word):
    """An argparse type: 1, 2, 3..."""
    if not word.isdecimal() or not int(word):
        raise argparse.ArgumentTypeError(f"'{word}' is not a number above 0")
    return int(word)


def add_files(guest):
    """What a guest is made of, and what is added to its command lines."""
    guest.add_argument(
        "--append", metavar="ARGS", action="append", default=[],
        help="add to the guest kernel's command line")
    guest.add_argument(
        "--kernel", metavar="PATH", type=Path,
        help="boot this kernel image, or the one in this kernel build tree")
    guest.add_argument(
        "--initramfs", metavar="PATH", type=Path,
        help="use this initramfs instead of the lab's")
    guest.add_argument(
        "--qemu", metavar="PATH", type=Path,
        help="use this QEMU, or the qemu-system-* in this folder; one "
             "without the lab port reports over the serial console")
    guest.add_argument(
        "--qemu-opt", metavar="OPTS", action="append", default=[],
        help="add to QEMU's command line; QEMU runs in the folder of its "
             "logs, so give absolute paths")


def add_timeout(guest):
    guest.add_argument(
        "--timeout", metavar="TIME", type=seconds,
        help="host time one guest may take (default: 180 s and 6 s for "
             "each CPU)")


def add_jitter(guest):
    guest.add_argument(
        "--jitter", metavar="SEED", type=positive,
        help="vtime: let the CPUs start at pseudo-random times below 1 us")


def add_output(parser):
    out = parser.add_argument_group("output")
    out.add_argument(
        "--output", metavar="DIR", type=Path,
        help="keep the folders of the guests here (default: build/results)")
    out.add_argument(
        "--keep", action="store_true",
        help="keep the folder of an interrupted guest, and the serial log "
             "of one that ended well")
    out.add_argument(
        "--dry-run", action="store_true",
        help="print each command, quoted for a shell, and run none")


def add_common(parser):
    guest = parser.add_argument_group("the guest")
    add_files(guest)
    guest.add_argument(
        "--clock", choices=("vtime", "functional"),
        help="vtime: each CPU has a virtual clock of its own; functional: "
             "all share one, as with -icount (default: vtime, where QEMU "
             "knows it)")
    guest.add_argument(
        "--profile", metavar="FILE", type=profile,
        help="vtime: the machine's costs, or the name of one of profiles/ "
             "(default: profiles/generic-*.ini)")
    guest.add_argument(
        "--quantum", metavar="NS", type=positive,
        help="vtime: how far a CPU may run ahead of the others (default: "
             "100; 50 with --watch)")
    add_jitter(guest)
    guest.add_argument(
        "--watch", choices=("off", "auto", "all"),
        help="vtime: let contended cache lines cost time, by the profile; "
             "auto looks at the pages that CPUs share (default: off)")
    guest.add_argument(
        "--iommu-cost", metavar="LIST", type=iommu_cost, default=[],
        help="let the IOMMU's queue take time: KEY=CYCLES,... of its clock, "
             "as docs/specs/iommu-queue.rst names them; the word 'profile' "
             "takes what is not given from the profile (default: commands "
             "complete at once)")
    add_timeout(guest)
    add_output(parser)


def clock(args, m, qemu):
    """The Clock of a guest of machine `m` on this QEMU."""
    name = args.clock or ("vtime" if machine.has_vtime(qemu)
                          else "functional")
    if name == "functional":
        for option in ("profile", "quantum", "jitter", "watch"):
            if getattr(args, option) is not None:
                raise UsageError(f"--{option} needs --clock vtime"
                                 + ("" if args.clock else
                                    f", which {qemu} does not know"))
        return machine.Clock(name)
    path = (args.profile or machine.profile(m)).absolute()
    if not path.is_file():
        raise UsageError(f"--profile: there is no file {path}")
    if "," in str(path):
        raise UsageError(f"--profile: {path} has a comma in it, which QEMU's "
                         "options cannot take")
    return machine.Clock(name, path, args.quantum, args.jitter or 0,
                         args.watch or "off")


def extra(args, m):
    """What this guest's options add to QEMU's command line."""
    costs = []
    if args.iommu_cost:
        costs.append("queue-timing=on")
    for word in args.iommu_cost:
        if word == "profile":
            path = (args.profile or machine.profile(m)).absolute()
            word = f"profile={path}"
        costs.append(f"queue-{word}")
    return [*(text for cost in costs
              for text in ("-global", f"{m.iommu}.{cost}")),
            *words(args.qemu_opt)]


def words(options):
    """The words of a repeatable option that takes shell-quoted text."""
    try:
        return [word for text in options for word in shlex.split(text)]
    except ValueError as err:
        raise UsageError(f"cannot split {' '.join(options)!r}: {err}")


def output(args):
    folder = (args.output or paths.BUILD / "results").absolute()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--output: {folder} is not a folder")
    return folder


def files(args, machines, progress):
    """{machine name: Files}, built first where they are ours to build."""
    picked = {m.name: (_pick(args.qemu, "--qemu", m.qemu, machines),
                       _pick(args.kernel, "--kernel", m.image, machines),
                       _pick(args.initramfs, "--initramfs",
                             f"initramfs-{m.arch}.cpio", machines))
              for m in machines}
    own = {name for m in machines for given, name in zip(
        picked[m.name],
        ("qemu", f"kernel-{m.arch}", f"initramfs-{m.arch}")) if not given}
    if own and not args.dry_run:
        build.ensure(sorted(own), progress)
    artefact = _planned if args.dry_run else build.artefact
    found = {}
    for m in machines:
        qemu, kernel, initramfs = picked[m.name]
        found[m.name] = machine.Files(
            qemu or artefact(m.qemu),
            kernel or artefact(f"kernel-{m.arch}"),
            initramfs or artefact(f"initramfs-{m.arch}"),
            tuple(build.firmware_dirs()))
    return found


def _planned(name):
    """Where artefact() will be once it is built."""
    folder, file = build.FILES[name]
    return paths.OUT / folder / file


def provenance(args):
    """What the build knows about its artefacts, where they are in use."""
    known = build.provenance()
    for given, part in ((args.qemu, "qemu"), (args.kernel, "linux")):
        if given:
            known["sources"].pop(part, None)
    used = {"qemu": not args.qemu, "kernel": not args.kernel,
            "initramfs": not args.initramfs}
    known["artefacts"] = {name: value
                          for name, value in known["artefacts"].items()
                          if used.get(name.partition("-")[0])}
    if args.kernel:
        known["config"] = {}
    return known


def _pick(path, option, inside, machines):
    """The user's file: `path`, or `inside` it where it is a folder."""
    if path is None:
        return None
    path = path.absolute()
    if path.is_dir():
        path = path / inside
    elif len(machines) > 1:
        raise UsageError(
            f"{option} {path} is one file, but {len(machines)} machines are "
            "chosen; "
            "choose one with --machine, or give a folder with "
            f"{inside} and its like")
    if not path.is_file():
        raise UsageError(f"{option}: there is no file {path}")
    return path


def digest(path, known={}):
    """sha256 of a file, computed once; None if it does not exist yet."""
    if path not in known:
        try:
            with open(path, "rb") as f:
                known[path] = hashlib.file_digest(f, "sha256").hexdigest()
        except FileNotFoundError:
            return None
    return known[path]
