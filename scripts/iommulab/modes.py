# SPDX-License-Identifier: GPL-2.0-or-later
"""The algorithms of the guest kernel: knobs, each with modes to choose from.

The kernel has the same table (linux/iommulab-modes.h); a test compares them.
Here it lets a mistake be told before a guest is started.
"""

import argparse
import itertools
import json
from dataclasses import dataclass

from . import machine
from .errors import OK, UsageError

NPOOLS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Mode:
    help: str
    args: tuple = ()    # valid N of "NAME:N"; none: the mode takes no number
    default: int = None


@dataclass(frozen=True)
class Knob:
    """Something to choose. The first mode is the code as upstream has it."""
    help: str
    modes: dict         # name -> Mode
    machines: tuple     # that have it
    needs: tuple        # machine.MODES that it makes a difference to
    boot: bool = False  # cannot be changed once the kernel is up


BOTH = tuple(machine.MACHINES)

KNOBS = {
    "iova": Knob("how addresses are allocated", {
        "rcache": Mode("Linux 6.12: per-CPU caches, a depot without limit, "
                       "a tree"),
        "rbtree46": Mode("Linux 4.6: one tree under one lock, searched from "
                         "the top"),
        "rbtree612": Mode("Linux 6.12 without its caches: one tree under one "
                          "lock"),
        "rcache47": Mode("Linux 4.7: per-CPU caches, a depot of 32 "
                         "magazines, that tree"),
        "pools": Mode("sparc 2015: a bitmap in N pools of a lock each",
                      NPOOLS, 16),
        "poolslarge": Mode("the same, and a pool for ranges above 15 pages",
                           NPOOLS, 16),
    }, BOTH, ("strict", "lazy")),
    "flush": Knob("when the IOTLB is flushed after an unmap", {
        "fq": Mode("Linux 6.12: a queue of 256 for each CPU and domain"),
        "strict": Mode("flush at each unmap and wait"),
        "global250": Mode("VT-d up to 4.6: one list of 250 for all CPUs and "
                          "domains"),
        "percpu250": Mode("VT-d of 4.7: a list of 250 for each CPU and all "
                          "domains"),
        "single": Mode("as for s390 since 6.7: a queue of 32768 for each "
                       "domain"),
    }, BOTH, ("lazy",)),
}


def one_mode(name):
    """An argparse type: a mode of this knob, in its full spelling."""
    knob = KNOBS[name]

    def parse(word):
        mode, colon, number = word.partition(":")
        if mode == "upstream" and not colon:
            mode = next(iter(knob.modes))
        found = knob.modes.get(mode)
        if found and not colon:
            number = found.default
        elif found and number.isdecimal():
            number = int(number)
        if not found or (colon and number not in found.args):
            raise argparse.ArgumentTypeError(
                f"unknown {name} mode '{word}' (valid: "
                + ", ".join(map(spelling, knob.modes.items())) + ")")
        return mode if number is None else f"{mode}:{number}"
    return parse


def spelling(item):
    """ "pools:1|2|4|8|16" """
    name, mode = item
    return name + (":" + "|".join(map(str, mode.args)) if mode.args else "")


def add_options(group):
    """--iova LIST and its like."""
    for name, knob in KNOBS.items():
        group.add_argument(
            f"--{name.replace('_', '-')}", metavar="LIST",
            type=lambda text, one=one_mode(name): list(dict.fromkeys(
                one(word.strip()) for word in text.split(","))),
            help=f"{knob.help}: any of "
                 + ", ".join(map(spelling, knob.modes.items()))
                 + f" (default: {next(iter(knob.modes))}, as upstream)")


def choices(args, m, mode):
    """The cells' algorithms for one machine and mode: tuples of (knob, mode),
    a tuple for each combination that the options ask for."""
    lists = []
    for name, knob in KNOBS.items():
        wanted = getattr(args, name)
        if not wanted:
            continue
        if m.name not in knob.machines:
            if not set(args.machine) & set(knob.machines):
                raise UsageError(
                    f"--{name.replace('_', '-')}: the machine {m.name} has "
                    f"none (valid: --machine {', '.join(knob.machines)})")
            continue
        if mode in knob.needs:
            lists.append([(name, word) for word in wanted])
    return list(itertools.product(*lists))


def options(algorithms, boot):
    """ " iommulab.KNOB=MODE" for those chosen at boot, or for the others."""
    return "".join(f" iommulab.{name}={mode}" for name, mode in algorithms
                   if KNOBS[name].boot == boot)


def label(algorithms):
    """ "iova=pools:16 flush=fq" """
    return " ".join(f"{name}={mode}" for name, mode in algorithms)


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "modes", help="list the algorithms the guest kernel can use",
        description="List the algorithms of the guest kernel, a line each. "
                    "The first of each knob is upstream's code. 'run' takes "
                    "them as --KNOB LIST.")
    parser.add_argument("--json", action="store_true",
                        help="the same for a program")
    parser.set_defaults(func=main)


def main(args):
    if args.json:
        print(json.dumps(
            {name: {"help": knob.help, "machines": knob.machines,
                    "needs": knob.needs,
                    "modes": {mode: {"help": m.help, "args": m.args,
                                     "default": m.default}
                              for mode, m in knob.modes.items()}}
             for name, knob in KNOBS.items()}, indent=1))
        return OK
    for name, knob in KNOBS.items():
        where = "" if knob.machines == BOTH else \
            f"; {', '.join(knob.machines)} only"
        print(f"{name}: {knob.help} (--mode {' or '.join(knob.needs)}"
              f"{where})")
        for mode, m in knob.modes.items():
            print(f"  {mode:<11}{m.help}"
                  + (f" (N: {', '.join(map(str, m.args))})" if m.args
                     else ""))
    return OK
