# SPDX-License-Identifier: GPL-2.0-or-later
"""Lock kernels as guest code against the reference simulation.

What a step of a loop costs on one CPU is measured in the guest (the
reference knows no instructions); what many CPUs do to each other is then
predicted, and compared. IOMMULAB_LAWS_CPUS=2,4,8,16,32,64 gives the long
form, IOMMULAB_LAWS_SHOW=1 prints the comparison.
"""

import configparser
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import reference as ref
from lab import LabTest

from iommulab import build, guest, machine

HERE = Path(__file__).parent
INSIDE = 250            # turns of the empty loop that a lock is held for
TOLERANCE = 0.05
LOCKS = ("ticket", "mcs", "qspinlock")


def microseconds(cpus):
    """Long enough for each CPU to have done something."""
    return max(100, 12 * cpus)


def cpu_counts():
    text = os.environ.get("IOMMULAB_LAWS_CPUS", "2,4,16")
    return [int(word) for word in text.split(",")]


def costs(path, cpus):
    """The reference's machine for a profile."""
    ini = configparser.ConfigParser()
    ini.read(path)
    lines = {k: int(v) for k, v in ini["lines"].items()}
    sizes = [int(ini["topology"][f"cpus-per-{level}"])
             for level in ("core", "cluster", "die", "socket")]
    ways = [lines[f"{level}-ps"] for level in (
        "same-core", "same-cluster", "same-die", "same-socket",
        "cross-socket")]

    def way(a, b):
        return next((ps for size, ps in zip(sizes, ways)
                     if a // size == b // size), ways[-1])

    return ref.Machine(
        [[way(a, b) if a != b else 0 for b in range(cpus)]
         for a in range(cpus)],
        atomic=lines["atomic-ps"], contended=lines["contended-atomic-ps"],
        read_occupancy=lines["read-occupancy-ps"],
        invalidate=lines["invalidate-ps"],
        store_buffer=lines["store-buffer"], far=bool(lines["far-atomics"]),
        home=lines["home-ps"], far_occupancy=lines["far-occupancy-ps"],
        any_order=bool(lines["random-order"]))


class Measured:
    """One run of a lock kernel in the guest."""

    def __init__(self, line, lines):
        self.ops = sum(t[0] for t in line["threads"])
        self.attempts = sum(t[1] for t in line["threads"])
        self.rate = sum(t[0] / t[2] for t in line["threads"]) * 1000
        self.vtime = [l for l in lines if l["iommulab"] == "vtime"
                      and l["region"] == line["region"]]
        self.lines = [l for l in lines if l["iommulab"] == "line"
                      and l["region"] == line["region"]]
        self.total = next((l for l in lines if l["iommulab"] == "coherence"
                           and l["region"] == line["region"]), None)
        first = line["threads"][0]
        self.step_ps = first[2] * 1000 / first[0]


def run(name, kernels, cpus, profile, watch="auto"):
    """{(kind, cpus, inside): Measured} of one guest."""
    m = machine.MACHINES[name]
    files = machine.Files(build.artefact(m.qemu),
                          build.artefact(f"kernel-{m.arch}"),
                          build.artefact(f"initramfs-{m.arch}"),
                          tuple(build.firmware_dirs()))
    jobs = ",".join(f"{kind}:{n}:{us}:{inside}"
                    for kind, n, us, inside in kernels)
    cmdline = machine.kernel_cmdline(
        m, "passthrough", ("iommulab.job=locks", f"iommulab.locks={jobs}"))
    argv = machine.argv(m, cpus, files, cmdline, True,
                        machine.Clock("vtime", profile, watch=watch))
    with tempfile.TemporaryDirectory(prefix="iommulab-laws-") as folder:
        outcome = guest.run(argv, Path(folder), guest.default_timeout(cpus),
                            "locks")
    return {(l["kind"], l["cpus"], l["inside"]): Measured(l, outcome.lines)
            for l in outcome.lines if l["iommulab"] == "locks"}


def predict(profile, kind, cpus, alone, held):
    """(operations per us, attempts per operation) by the reference. `alone`
    is what a step of the loop takes on one CPU, `held` how long the lock is
    held."""
    m = costs(profile, cpus)
    count = ref.Count()
    sim = ref.Simulation(m)
    word, head = ref.Line(), ref.Line()
    think = int(alone) - m.atomic
    if kind == "mcs":
        word = ref.Line(-1)
        nodes = [ref.Line((-1, 1)) for _ in range(cpus)]
    elif kind == "qspinlock":
        word = ref.Line((-1, 0, 0))
        nodes = [ref.Line((-1, 0)) for _ in range(cpus)]
    for cpu in range(cpus):
        if kind == "pingpong":
            program = ref.pingpong(count, word, cpu, think)
        elif kind == "faa":
            program = ref.fetch_add(count, word, think)
        elif kind == "cas":
            program = ref.cas_loop(count, word, think, 1200)
        elif kind == "llsc":
            program = ref.llsc_loop(count, word, think, 800, 800)
        elif kind == "ticket":
            program = ref.ticket(count, word, head, held, think)
        elif kind == "mcs":
            program = ref.mcs(count, word, nodes, cpu, held,
                              think - m.atomic)
        elif kind == "qspinlock":
            program = ref.qspinlock(count, word, nodes, cpu, held, think)
        else:
            program = ref.read_lock(count, word, 0, think - m.atomic)
        sim.start(cpu, program, at=cpu)
    us = microseconds(cpus)
    sim.run(us * 1000 * 1000)
    return count.ops / us, count.attempts / max(1, count.ops)


class Laws:
    """Cases for one machine; test_MACHINE.py makes test cases of them."""
    name = None
    kinds = ()
    profile = HERE / "laws.ini"

    @classmethod
    def setUpClass(cls):
        cls.counts = cpu_counts()
        kernels = [(kind, 1, microseconds(1), 0) for kind in cls.kinds
                   if kind != "pingpong"]
        kernels += [("ticket", 1, microseconds(1), INSIDE)]
        kernels += [("pingpong", 2, microseconds(2), 0)]
        kernels += [(kind, n, microseconds(n), INSIDE if kind in LOCKS else 0)
                    for n in cls.counts for kind in cls.kinds
                    if kind != "pingpong"]
        cls.found = run(cls.name, kernels, max(cls.counts),
                        cls.profile)
        cls.held = int(cls.found["ticket", 1, INSIDE].step_ps -
                       cls.found["ticket", 1, 0].step_ps)

    def compare(self, kind, tolerance=TOLERANCE):
        if kind not in self.kinds:
            self.skipTest(f"{kind} is not run here")
        bad = []
        for n in self.counts:
            inside = INSIDE if kind in LOCKS else 0
            got = self.found[kind, n, inside]
            alone = self.found[kind, 1, 0].step_ps
            rate, attempts = predict(self.profile, kind, n, alone,
                                     self.held)
            error = got.rate / rate - 1
            text = (f"{self.name} {kind} {n} CPUs: {got.rate:.2f} per us, "
                    f"reference {rate:.2f} ({error:+.1%}); attempts "
                    f"{got.attempts / got.ops:.2f}, reference "
                    f"{attempts:.2f}")
            if os.environ.get("IOMMULAB_LAWS_SHOW"):
                print("#", text, flush=True)
            if abs(error) > tolerance:
                bad.append(text)
        self.assertFalse(bad, "\n" + "\n".join(bad))

    def test_pingpong_is_the_matrix(self):
        """Each transfer took the profile's latency, to the picosecond."""
        got = self.found["pingpong", 2, 0]
        line = max(got.lines, key=lambda l: l["atomics"])
        self.assertGreater(line["transfers"], 1000)
        self.assertEqual(line["transfer_ps"], line["transfers"] * 36000)

    def test_split_sums_to_the_whole(self):
        for key, got in self.found.items():
            for cpu in got.vtime:
                parts = sum(v for k, v in cpu.items()
                            if k.endswith("_ps") and k != "total_ps")
                self.assertEqual(parts, cpu["total_ps"], key)

    def test_fetch_add(self):
        self.compare("faa")

    def test_compare_and_swap(self):
        self.compare("cas", 0.10)

    def test_ticket(self):
        self.compare("ticket")

    def test_mcs(self):
        self.compare("mcs")

    def test_qspinlock(self):
        self.compare("qspinlock")

    def test_rwlock(self):
        self.compare("rwlock")


