# SPDX-License-Identifier: GPL-2.0-or-later
"""An exact discrete-event simulation of cache lines that many CPUs use.

It is the yardstick of tests/laws: written from docs/specs/coherence.rst
alone, it shares no code with QEMU's model. Every access happens in the order
of its time; CPUs that wait for a line are served in that order too, or in any
order if the machine says so. Times are integers, picoseconds.

A CPU runs a program, a generator that yields what it does next and is sent
the value that comes back:

    Think(ps)             compute
    Load(line)            -> value
    Store(line, value)    (or a function of the value, for a part of it)
    Add(line, n)          -> old value
    Swap(line, value)     -> old value
    Cas(line, old, new)   -> old value; swaps if it is `old`
    Change(line, change)  -> old value
    Wait(line, test)      -> value, once test(value) is true
    Link(line)            -> value; Sc(line, value) -> True if stored
"""

import heapq
import random
from dataclasses import dataclass, field
from typing import Callable, NamedTuple


class Think(NamedTuple):
    ps: int


class Load(NamedTuple):
    line: object


class Store(NamedTuple):
    line: object
    value: object


class Add(NamedTuple):
    line: object
    n: int


class Swap(NamedTuple):
    line: object
    value: int


class Change(NamedTuple):
    """An atomic operation that replaces the value by change(value)."""
    line: object
    change: Callable


class Cas(NamedTuple):
    line: object
    old: int
    new: int


class Wait(NamedTuple):
    line: object
    test: Callable


class Link(NamedTuple):
    line: object


class Sc(NamedTuple):
    line: object
    value: int


HOME = -1           # the line is in memory or the last-level cache


class Line:
    """One cache line, with one variable on it unless `value` is a dict."""

    def __init__(self, value=0):
        self.value = value
        self.owner = None           # None: nobody used it yet
        self.copies = set()
        self.free_at = 0
        self.taken = 0              # how often its only copy changed hands
        self.waiting = []
        self.queue = []             # (came, cpu, program, op): who is to be served
        self.transfers = self.transfer_ps = self.wait_ps = 0


@dataclass
class Machine:
    """The costs; docs/specs/coherence.rst gives each key's meaning."""
    latency: list                   # [from][to]
    atomic: int = 0
    contended: int = 0
    read_occupancy: int = 0
    invalidate: int = 0
    store_buffer: int = 0
    far: bool = False
    home: int = 0
    far_occupancy: int = 0
    any_order: bool = False
    slots: dict = field(default_factory=dict)

    @classmethod
    def uniform(cls, cpus, ps, **costs):
        return cls([[ps if a != b else 0 for b in range(cpus)]
                    for a in range(cpus)], **costs)

    def way(self, source, cpu):
        if source is None or source == cpu:
            return 0
        return self.home if source == HOME else self.latency[source][cpu]

    def _exclusive(self, line, cpu):
        """How long the line takes to become this CPU's alone."""
        others = line.copies - {cpu}
        far = [self.way(o, cpu) for o in others]
        if line.owner is not None and line.owner != cpu:
            far.append(self.way(line.owner, cpu))
        return max(far, default=0) + \
            self.invalidate * max(0, len(others) - 1)

    def queues(self, cpu, line, op, now):
        """Whether the access waits to be chosen among others."""
        if not self.any_order or line.free_at <= now:
            return False
        if isinstance(op, (Load, Wait, Link)):
            return cpu not in line.copies
        if isinstance(op, Store) and self.store_buffer:
            return False
        return not self._mine(line, cpu)

    def _took(self, line, at, start, ps):
        line.transfers += 1
        line.transfer_ps += ps
        line.wait_ps += start - at

    def load(self, cpu, line, now):
        if cpu in line.copies:
            return now
        start = max(now, line.free_at)
        ps = self.way(line.owner, cpu)
        if line.owner is None:
            line.owner = cpu
        else:
            self._took(line, now, start, ps)
        line.free_at = start + min(self.read_occupancy, ps)
        line.copies.add(cpu)
        return start + ps

    def _mine(self, line, cpu):
        return line.owner == cpu and line.copies == {cpu}

    def atomic_op(self, cpu, line, now):
        pending = self.slots.pop(cpu, [])
        start = max([now, *pending])        # the store buffer drains
        now = start
        start = max(start, line.free_at)
        if self._mine(line, cpu) or line.owner is None:
            end = start + self.atomic
            line.owner, line.copies = cpu, {cpu}
            line.free_at = end
            return end
        extra = self.contended if start > now else 0
        ps = self._exclusive(line, cpu)
        if self.far:
            ps = max(self.home, ps)
            end = start + ps + self.atomic + extra
            line.free_at = start + self.far_occupancy + extra
            if line.owner != HOME or line.copies:
                line.free_at = max(line.free_at, start + ps)
            line.owner, line.copies = HOME, set()
        else:
            end = start + ps + self.atomic + extra
            line.free_at = end
            line.owner, line.copies = cpu, {cpu}
        line.taken += 1
        self._took(line, now, start, ps)
        return end

    def store(self, cpu, line, now):
        if line.owner is None:
            line.owner, line.copies = cpu, {cpu}
        if self._mine(line, cpu):
            return now
        queue = [t for t in self.slots.get(cpu, []) if t > now]
        if self.store_buffer and len(queue) >= self.store_buffer:
            now = min(queue)
            queue = [t for t in queue if t > now]
        start = max(now, line.free_at)
        ps = self._exclusive(line, cpu)
        end = line.free_at = start + ps
        line.owner, line.copies = cpu, {cpu}
        line.taken += 1
        self._took(line, now, start, ps)
        if not self.store_buffer:
            return end
        self.slots[cpu] = queue + [end]
        return now


class Simulation:
    def __init__(self, machine):
        self.machine = machine
        self.now = 0
        self.events = []
        self.links = {}             # cpu -> (line, line.taken)
        self.dice = random.Random(1)

    def start(self, cpu, program, at=0):
        self._next(cpu, program, None, at)

    def run(self, until):
        """Run all that begins before `until`."""
        while self.events and self.events[0][0] < until:
            self.now, cpu, _, program, op = heapq.heappop(self.events)
            if program is None:
                self._choose(op)
            elif self.machine.queues(cpu, op.line, op, self.now):
                if not op.line.queue:
                    self._choose_at(op.line.free_at, op.line)
                op.line.queue.append((self.now, cpu, program, op))
            else:
                self._do(cpu, program, op)

    def _choose_at(self, when, line):
        # After the accesses of CPUs that begin at the same time.
        heapq.heappush(self.events, (when, 1 << 30, id(line), None, line))

    def _choose(self, line):
        """The line is free: serve one of those who wait."""
        if line.free_at <= self.now:
            came, cpu, program, op = line.queue.pop(
                self.dice.randrange(len(line.queue)))
            line.wait_ps += self.now - came
            self._do(cpu, program, op)
        if line.queue:
            self._choose_at(max(line.free_at, self.now + 1), line)

    def _next(self, cpu, program, value, at):
        try:
            op = program.send(value)
        except StopIteration:
            return
        while isinstance(op, Think):
            at += op.ps
            try:
                op = program.send(at)
            except StopIteration:
                return
        heapq.heappush(self.events, (at, cpu, id(program), program, op))

    def _changed(self, line):
        for cpu, program, op in line.waiting:
            heapq.heappush(self.events, (self.now, cpu, id(program), program,
                                         op))
        line.waiting = []

    def _do(self, cpu, program, op):
        line, now, m = op.line, self.now, self.machine
        value = line.value
        if isinstance(op, (Load, Wait, Link)):
            end = m.load(cpu, line, now)
            if isinstance(op, Link):
                self.links[cpu] = (line, line.taken)
            if isinstance(op, Wait) and not op.test(value):
                line.waiting.append((cpu, program, op))
                return
        elif isinstance(op, Store):
            end = m.store(cpu, line, now)
            line.value = op.value(value) if callable(op.value) else op.value
            self._changed(line)
        elif isinstance(op, Sc):
            value = self.links.pop(cpu, None) == (line, line.taken)
            end = now
            if value:
                end = m.atomic_op(cpu, line, now)
                line.value = op.value
                self._changed(line)
        else:
            end = m.atomic_op(cpu, line, now)
            if isinstance(op, Add):
                line.value += op.n
            elif isinstance(op, Swap):
                line.value = op.value
            elif isinstance(op, Change):
                line.value = op.change(value)
            elif value == op.old:
                line.value = op.new
            self._changed(line)
        self._next(cpu, program, value, end)


# ------------------------------------------------------------ lock kernels

@dataclass
class Count:
    """What the CPUs did."""
    ops: int = 0
    attempts: int = 0


def pingpong(count, line, me, think=0):
    """Two CPUs; each changes the other's word back by compare-and-swap."""
    while True:
        yield Think(think)
        count.attempts += 1
        if (yield Cas(line, me, 1 - me)) == me:
            count.ops += 1


def fetch_add(count, line, think=0):
    while True:
        yield Think(think)
        yield Add(line, 1)
        count.ops += 1


def cas_loop(count, line, think=0, retry=0):
    """Read, then swap until nobody was in between."""
    while True:
        yield Think(think)
        old = yield Load(line)
        while True:
            count.attempts += 1
            seen = yield Cas(line, old, old + 1)
            if seen == old:
                break
            old = seen
            yield Think(retry)
        count.ops += 1


def llsc_loop(count, line, think=0, inside=0, retry=0):
    while True:
        yield Think(think)
        while True:
            old = yield Link(line)
            yield Think(inside)
            count.attempts += 1
            if (yield Sc(line, old + 1)):
                break
            yield Think(retry)
        count.ops += 1


def ticket(count, tail, head, inside, outside):
    """`tail` and `head` may be the same line only with a dict; they are two
    lines here, as in the guest."""
    while True:
        mine = yield Add(tail, 1)
        yield Wait(head, lambda v, mine=mine: v == mine)
        yield Think(inside)
        yield Store(head, mine + 1)
        count.ops += 1
        yield Think(outside)


def mcs(count, tail, nodes, me, inside, outside):
    """nodes[i] = (next, locked): a line each, as the node is one line and
    only one of its words is waited for at a time."""
    node = nodes[me]
    while True:
        # One line holds both words: (next, locked) in a tuple.
        yield Store(node, (-1, 1))
        before = yield Swap(tail, me)
        if before >= 0:
            yield Store(nodes[before], lambda v: (me, v[1]))
            yield Wait(node, lambda v: v[1] == 0)
        yield Think(inside)
        count.ops += 1
        follower = (yield Load(node))[0]
        if follower < 0:
            if (yield Cas(tail, me, -1)) == me:
                yield Think(outside)
                continue
            follower = (yield Wait(node, lambda v: v[0] >= 0))[0]
        yield Store(nodes[follower], lambda v: (v[0], 0))
        yield Think(outside)


def read_lock(count, line, inside, outside):
    """The readers of a queued rwlock: an atomic operation in, one out."""
    while True:
        yield Add(line, 1)
        yield Think(inside)
        yield Add(line, -1)
        count.ops += 1
        yield Think(outside)


def qspinlock(count, word, nodes, me, inside, outside):
    """Linux' queued spinlock. word = (tail, pending, locked), a line;
    nodes[i] = (next, locked)."""
    free = (-1, 0, 0)
    node = nodes[me]
    while True:
        got = yield Cas(word, free, (-1, 0, 1))
        if got != free:
            yield from _qspin_slow(word, nodes, node, me, got)
        yield Think(inside)
        yield Store(word, lambda v: (v[0], v[1], 0))
        count.ops += 1
        yield Think(outside)


def _qspin_slow(word, nodes, node, me, got):
    if got == (-1, 1, 0):
        # A handover is under way: it will not take long.
        got = yield Wait(word, lambda v: v != (-1, 1, 0))
    if got[0] < 0 and not got[1]:
        got = yield Change(word, lambda v: (v[0], 1, v[2]))
        if got[0] < 0 and not got[1]:
            # The first in line waits at the lock word itself.
            if got[2]:
                yield Wait(word, lambda v: not v[2])
            yield Store(word, lambda v: (v[0], 0, 1))
            return
        if not got[1]:
            yield Store(word, lambda v: (v[0], 0, v[2]))
    yield Store(node, (-1, 0))
    if (yield Load(word)) == (-1, 0, 0):
        if (yield Cas(word, (-1, 0, 0), (-1, 0, 1))) == (-1, 0, 0):
            return
    before = (yield Change(word, lambda v: (me, v[1], v[2])))[0]
    follower = -1
    if before >= 0:
        yield Store(nodes[before], lambda v: (me, v[1]))
        follower = (yield Wait(node, lambda v: v[1]))[0]
    got = yield Wait(word, lambda v: not v[1] and not v[2])
    if got[0] == me:
        if (yield Cas(word, (me, 0, 0), (-1, 0, 1))) == (me, 0, 0):
            return
    yield Store(word, lambda v: (v[0], v[1], 1))
    if follower < 0:
        follower = (yield Wait(node, lambda v: v[0] >= 0))[0]
    yield Store(nodes[follower], lambda v: (v[0], 1))
