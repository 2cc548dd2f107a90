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
    kernel: str = ""    # what else the kernel has to be told at boot


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
    "cmdq": Knob("how commands get into the SMMUv3's queue", {
        "cas": Mode("slots by compare-and-swap, an owner "
                    "publishes (upstream)"),
        "spin53": Mode("one spinlock, a doorbell for each command (to 5.3)"),
        "cas20": Mode("cas with the unfair lock for CONS (5.4 to 2025)"),
        "casspin": Mode("cas, a spinlock for those who lose (2020)"),
        "add": Mode("slots by atomic addition, an owner publishes (2020)"),
    }, ("smmuv3",), ("strict", "lazy")),
    "vtd_map": Knob("what a map calls", {
        "pages": Mode("ranges of pages, one sync (upstream)"),
        "perpage511": Mode("page by page, each with a sync (5.11)"),
        "syncmap512": Mode("page by page, one sync (5.12)"),
        "mapsg": Mode("scatterlists in the driver, one sync (2021)"),
    }, ("vtd",), ("strict", "lazy")),
    "vtd_flush": Knob("how a flush is submitted", {
        "tags": Mode("cache tags, lock held meanwhile (upstream)"),
        "direct": Mode("each IOMMU, without a lock (to 6.9)"),
    }, ("vtd",), ("strict", "lazy")),
    "swiotlb": Knob("how free slots are found; all buffers bounce", {
        "area": Mode("an area for each CPU, slots in turn (upstream)"),
        "global": Mode("one area, slots in turn (to 5.19)"),
        "lifo": Mode("one area, the slot freed last (2021)"),
        "arealifo": Mode("an area for each CPU, the slot freed last"),
    }, BOTH, ("passthrough",), boot=True, kernel="swiotlb=force"),
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
    return "".join(
        f" iommulab.{name}={mode}"
        + (" " + KNOBS[name].kernel if KNOBS[name].kernel else "")
        for name, mode in algorithms if KNOBS[name].boot == boot)


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
    parser.add_argument(
        "--counts", metavar="RESULT",
        help="instead of the list, print what the kernel counted for one map "
             "with its unmap in this result file, sweep or folder of a cell, "
             "beside what the published algorithms do; the cells have to be "
             "run with --counters")
    parser.set_defaults(func=main)


def main(args):
    if args.counts:
        from . import counts    # which builds on this
        print(counts.render(counts.load(args.counts)))
        return OK
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
