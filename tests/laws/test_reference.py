# SPDX-License-Identifier: GPL-2.0-or-later
"""The reference simulation against closed forms."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import reference as ref

US = 1000 * 1000


def two_dies(cpus, near=36000, far=81000):
    half = cpus // 2
    return [[0 if a == b else near if (a < half) == (b < half) else far
             for b in range(cpus)] for a in range(cpus)]


def rate(machine, cpus, program, us=500):
    """(operations per us, attempts per operation), after a warm-up."""
    count = ref.Count()
    sim = ref.Simulation(machine)
    for cpu in range(cpus):
        sim.start(cpu, program(count, cpu), at=cpu)
    sim.run(us * US // 5)
    ops, attempts = count.ops, count.attempts
    sim.run(us * US)
    return ((count.ops - ops) / (us * 4 / 5),
            (count.attempts - attempts) / max(1, count.ops - ops))


class Transfers(unittest.TestCase):
    def test_ping_pong_is_the_matrix(self):
        """Each change of hands takes the latency between the two."""
        latency = [[0, 10000, 25000], [10000, 0, 40000], [25000, 40000, 0]]
        for a in range(3):
            for b in range(3):
                if a == b:
                    continue
                line = ref.Line()
                count = ref.Count()
                sim = ref.Simulation(ref.Machine(latency, atomic=5000))
                sim.start(a, ref.pingpong(count, line, 0))
                sim.start(b, ref.pingpong(count, line, 1))
                sim.run(1000 * US)
                self.assertEqual(line.transfer_ps,
                                 line.transfers * latency[a][b])
                self.assertAlmostEqual(
                    count.ops, 1000 * US / (latency[a][b] + 5000), delta=4)

    def test_fetch_add_is_one_over_occupancy(self):
        for cpus in (2, 8, 64):
            line = ref.Line()
            machine = ref.Machine.uniform(cpus, 40000, atomic=5000,
                                          contended=15000)
            got, _ = rate(machine, cpus,
                          lambda c, cpu: ref.fetch_add(c, line))
            self.assertAlmostEqual(got, US / 60000, delta=0.05 * US / 60000)

    def test_fetch_add_over_two_dies(self):
        """First come, first served: the mean of the ways between
        neighbours in the queue."""
        line = ref.Line()
        got, _ = rate(ref.Machine(two_dies(64), atomic=1), 64,
                      lambda c, cpu: ref.fetch_add(c, line))
        ring = (62 * 36000 + 2 * 81000) / 64
        self.assertAlmostEqual(got, US / ring, delta=0.01 * US / ring)

    def test_one_cpu_pays_for_the_operation_only(self):
        line = ref.Line()
        got, _ = rate(ref.Machine.uniform(1, 40000, atomic=5000), 1,
                      lambda c, cpu: ref.fetch_add(c, line, think=15000))
        self.assertAlmostEqual(got, US / 20000, delta=0.01)

    def test_reads_of_a_shared_line_cost_once(self):
        line = ref.Line(7)
        seen = []

        def reader():
            for _ in range(10):
                seen.append((yield ref.Load(line)))

        sim = ref.Simulation(ref.Machine.uniform(2, 40000))
        sim.start(0, reader())
        sim.start(1, reader())
        sim.run(US)
        self.assertEqual((len(seen), line.transfers, line.transfer_ps),
                         (20, 1, 40000))

    def test_store_buffer_hides_the_way(self):
        """Until it is full: a store costs its CPU nothing, an atomic
        operation waits for it."""
        lines = [ref.Line() for _ in range(4)]
        ends = []

        def other():
            for line in lines:
                yield ref.Add(line, 1)

        def writer():
            for line in lines[:3]:
                yield ref.Store(line, 1)
                ends.append((yield ref.Think(0)))
            yield ref.Add(lines[3], 1)
            ends.append((yield ref.Think(0)))

        sim = ref.Simulation(ref.Machine.uniform(2, 40000, store_buffer=2))
        sim.start(1, other())
        sim.start(0, writer(), at=US)
        sim.run(2 * US)
        self.assertEqual(ends, [US, US, US + 40000, US + 120000])


class AnyOrder(unittest.TestCase):
    """Who waits for a line is served in any order."""

    def machine(self, cpus):
        return ref.Machine.uniform(cpus, 40000, atomic=5000, any_order=True)

    def test_fetch_add_does_not_care(self):
        line = ref.Line()
        got, _ = rate(self.machine(16), 16,
                      lambda c, cpu: ref.fetch_add(c, line, 200))
        self.assertAlmostEqual(got, US / 45000, delta=0.01 * US / 45000)

    def test_compare_and_swap_is_the_birthday_problem(self):
        """Who was served since the last success knows the value; the next
        success is when one of these is drawn once more."""
        for cpus in (16, 32, 96):
            expected, chance = 1.0, 1.0
            for knowing in range(1, cpus + 1):
                chance *= 1 - (knowing - 1) / (cpus - 1)
                expected += chance
            line = ref.Line()
            _, attempts = rate(self.machine(cpus), cpus, lambda c, cpu:
                               ref.cas_loop(c, line, 200, 200), 3000)
            self.assertAlmostEqual(attempts, expected, delta=0.04 * expected)


class Loops(unittest.TestCase):
    def test_cas_takes_as_many_attempts_as_cpus(self):
        for cpus in (2, 4, 16, 64):
            line = ref.Line()
            got, attempts = rate(ref.Machine.uniform(cpus, 40000, atomic=1), cpus,
                                 lambda c, cpu: ref.cas_loop(c, line))
            self.assertAlmostEqual(attempts, cpus, delta=0.05 * cpus + 0.1)
            self.assertAlmostEqual(got, US / 40000 / cpus,
                                   delta=0.05 * US / 40000 / cpus)

    def test_llsc_makes_progress_and_fails(self):
        line = ref.Line()
        got, attempts = rate(ref.Machine.uniform(8, 40000, atomic=5000), 8,
                             lambda c, cpu: ref.llsc_loop(c, line))
        self.assertGreater(got, 1)
        self.assertGreater(attempts, 1.5)


class Locks(unittest.TestCase):
    CS = 100000

    def ticket(self, cpus):
        tail, head = ref.Line(), ref.Line()
        return rate(ref.Machine.uniform(cpus, 40000, atomic=1,
                                        read_occupancy=10000),
                    cpus, lambda c, cpu: ref.ticket(c, tail, head, self.CS,
                                                    0))[0]

    def mcs(self, cpus):
        tail = ref.Line(-1)
        nodes = [ref.Line((-1, 1)) for _ in range(cpus)]
        return rate(ref.Machine.uniform(cpus, 40000, atomic=1,
                                        read_occupancy=10000),
                    cpus, lambda c, cpu: ref.mcs(c, tail, nodes, cpu,
                                                 self.CS, 0))[0]

    def test_ticket_falls_with_the_number_of_readers(self):
        """A handover is the store (one way) and the reads of all waiters;
        the next holder is at some place among them."""
        few, many = self.ticket(16), self.ticket(64)
        self.assertLess(many, 0.6 * few)

    def qspinlock(self, cpus):
        word = ref.Line((-1, 0, 0))
        nodes = [ref.Line((-1, 0)) for _ in range(cpus)]
        return rate(ref.Machine.uniform(cpus, 40000, atomic=1,
                                        read_occupancy=10000),
                    cpus, lambda c, cpu: ref.qspinlock(c, word, nodes, cpu,
                                                       self.CS, 0))[0]

    def test_qspinlock_excludes_and_is_flat(self):
        rates = [self.qspinlock(n) for n in (8, 16, 64)]
        self.assertLess(max(rates) / min(rates), 1.05)
        self.assertLess(max(rates), US / self.CS)
        self.assertGreater(min(rates), US / (self.CS + 6 * 40000))

    def test_mcs_is_flat(self):
        """A handover takes the store to the next one's node and its read."""
        rates = [self.mcs(n) for n in (4, 16, 64)]
        self.assertLess(max(rates) / min(rates), 1.03)
        bound = US / (self.CS + 2 * 40000)
        self.assertLess(max(rates), bound * 1.001)
        self.assertGreater(min(rates), 0.6 * bound)


if __name__ == "__main__":
    unittest.main()
