#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Sum up a simpletrace of the IOMMUs' command queues.

Record with `-trace 'iommu_queue_*' -trace file=FILE` and give it the trace
events QEMU was built with (trace-events-all):

  analyse-iommu-queues-simpletrace.py trace-events-all FILE

QEMU's scripts/simpletrace.py reads the file: run this from a QEMU source
tree's scripts folder, or with that in PYTHONPATH.
"""

from collections import Counter, defaultdict

import simpletrace

NOBODY = 0xffffffff             # cpu -1, as the file stores it


def cpu_name(cpu):
    return "-" if cpu & NOBODY == NOBODY else str(cpu)


class Queue:
    def __init__(self):
        self.first = self.last = None
        self.doorbells = Counter()      # by vCPU
        self.commands = Counter()
        self.polls = Counter()
        self.classes = defaultdict(list)    # class: [start to completion]
        self.wait = defaultdict(list)       # cpu: [doorbell to completion]
        self.batches = Counter()
        self.occupancy = 0
        self.full = 0
        self.faults = Counter()
        self.aborted = 0

    def seen(self, ps):
        self.first = ps if self.first is None else min(self.first, ps)
        self.last = ps if self.last is None else max(self.last, ps)


def mean(values):
    return sum(values) / len(values) if values else 0


class IommuQueues(simpletrace.Analyzer):
    def begin(self):
        self.queues = defaultdict(Queue)

    def iommu_queue_doorbell(self, queue, ps, cpu, tail, n, occupancy, full):
        q = self.queues[queue]
        q.seen(ps)
        q.doorbells[cpu] += 1
        q.batches[n] += 1
        q.occupancy = max(q.occupancy, occupancy)
        q.full += bool(full)

    def iommu_queue_done(self, queue, ps, cpu, pos, kind, submit, start):
        q = self.queues[queue]
        q.seen(ps)
        q.commands[cpu] += 1
        q.classes[kind].append(ps - start)
        q.wait[cpu].append(ps - submit)

    def iommu_queue_fault(self, queue, ps, pos, error):
        q = self.queues[queue]
        q.seen(ps)
        q.faults[error] += 1

    def iommu_queue_abort(self, queue, ps, cpu, pos):
        self.queues[queue].aborted += 1

    def iommu_queue_poll(self, queue, ps, cpu, register):
        self.queues[queue].polls[cpu] += 1

    def end(self):
        for number, q in sorted(self.queues.items()):
            if q.first is None:
                continue
            total = sum(q.commands.values())
            print(f"queue {number}: {total} commands in "
                  f"{(q.last - q.first) / 1000:.0f} ns, "
                  f"{sum(q.doorbells.values())} doorbells, at most "
                  f"{q.occupancy} in the queue, {q.full} times full")
            for kind, times in sorted(q.classes.items()):
                print(f"  class {kind:2}: {len(times):8}, mean "
                      f"{mean(times) / 1000:.1f} ns, max "
                      f"{max(times) / 1000:.1f} ns")
            print("  commands a doorbell: " + ", ".join(
                f"{n}: {count}" for n, count in sorted(q.batches.items())))
            for cpu in sorted(set(q.doorbells) | set(q.commands)
                              | set(q.polls)):
                print(f"  cpu {cpu_name(cpu):>3}: {q.doorbells[cpu]} "
                      f"doorbells, {q.commands[cpu]} commands, complete "
                      f"{mean(q.wait[cpu]) / 1000:.1f} ns after their "
                      f"doorbell, {q.polls[cpu]} polls")
            if q.faults or q.aborted:
                print(f"  faults by code: {dict(q.faults)}, aborted waits: "
                      f"{q.aborted}")


if __name__ == "__main__":
    simpletrace.run(IommuQueues())
