# SPDX-License-Identifier: GPL-2.0-or-later
"""The log scanner: what it must find, and what it must leave alone."""

import unittest

from iommulab import logscan

BAD = (
    ("panic", "[    0.9] Kernel panic - not syncing: VFS: Unable to mount "
              "root fs on unknown-block(0,0)"),
    ("oops", "[    1.0] Oops: 0000 [#1] SMP NOPTI"),
    ("oops", "[    1.0] Oops: Oops: 0002 [#1] PREEMPT SMP"),
    ("oops", "[    1.0] Oops: general protection fault, probably for "
             "non-canonical address 0xdead000000000100: 0000 [#1] SMP"),
    ("oops", "[    1.0] Unable to handle kernel NULL pointer dereference at "
             "virtual address 0000000000000000"),
    ("oops", "[    1.0] Internal error: Oops: 0000000096000004 [#1] SMP"),
    ("BUG", "[    1.0] kernel BUG at drivers/iommu/iova.c:123!"),
    ("BUG", "[    1.0] BUG: kernel NULL pointer dereference, address: 0"),
    ("BUG", "[    1.0] BUG: scheduling while atomic: swapper/0/1/0x2"),
    ("BUG", "[    1.0] BUG: KASAN: slab-out-of-bounds in f+0x1/0x2"),
    ("lockup", "[   27.0] watchdog: BUG: soft lockup - CPU#3 stuck for 22s! "
               "[lab/3:77]"),
    ("lockup", "[   27.0] watchdog: Watchdog detected hard LOCKUP on cpu 1"),
    ("stall", "[   21.0] rcu: INFO: rcu_sched self-detected stall on CPU"),
    ("stall", "[   21.0] rcu: INFO: rcu_preempt detected stalls on "
              "CPUs/tasks:"),
    ("stall", "[   21.0] rcu: rcu_sched kthread starved for 2000 jiffies!"),
    ("hung task", "[  122.0] INFO: task init:1 blocked for more than 120 "
                  "seconds."),
    ("lockdep", "[    1.0] INFO: trying to register non-static key."),
    ("WARNING", "[    1.0] WARNING: CPU: 0 PID: 1 at kernel/dma/debug.c:1 "
                "f+0x1/0x2"),
    ("lockdep", "[    1.0] WARNING: possible circular locking dependency "
                "detected"),
    ("lockdep", "[    1.0] WARNING: possible recursive locking detected"),
    ("lockdep", "[    1.0] WARNING: possible irq lock inversion dependency "
                "detected"),
    ("lockdep", "[    1.0] WARNING: inconsistent lock state"),
    ("lockdep", "[    1.0] WARNING: bad unlock balance detected!"),
    ("lockdep", "[    1.0] WARNING: lock held when returning to user space!"),
    ("lockdep", "[    1.0] WARNING: HARDIRQ-safe -> HARDIRQ-unsafe lock order "
                "detected"),
    ("lockdep", "[    1.0] WARNING: suspicious RCU usage"),
    ("lockdep", "[    1.0] turning off the locking correctness validator."),
    ("BUG", "[    1.0] [ BUG: Invalid wait context ]"),
    ("BUG", "[    1.0] BUG: sleeping function called from invalid context at "
            "mm/slab.h:1"),
    ("BUG", "[    1.0] BUG: KCSAN: data-race in f / g"),
    ("WARNING", "[    1.0] list_add corruption. next->prev should be prev"),
    ("WARNING", "[    1.0] ODEBUG: free active (active state 0) object: 1"),
    ("stall", "[   21.0] INFO: rcu_sched detected stalls on CPUs/tasks"),
    ("WARNING", "[    1.0] refcount_t: underflow; use-after-free."),
    ("clock", "[    2.0] tsc: Marking TSC unstable due to clocksource "
              "watchdog"),
    ("clock", "[    2.0] clocksource: timekeeping watchdog on CPU1: Marking "
              "clocksource 'tsc' as unstable because the skew is too large:"),
    ("IOMMU fault", "[    2.0] DMAR: [DMA Read NO_PASID] Request device "
                    "[00:02.0] fault addr 0xfffff000"),
    ("IOMMU fault", "[    2.0] arm-smmu-v3 arm-smmu-v3.0.auto: CMDQ error "
                    "(cons 0x0300002f): Abort on command fetch"),
    ("refused", "[    0.5] arm-smmu-v3 9050000.smmuv3: "
                "iommulab.cmdq_shift=3 must be 4..19"),
    ("QEMU abort", "Bad icount read"),
    ("QEMU abort", "**\nERROR:../hw/x.c:12:f: assertion failed: (a == b)"),
    ("QEMU abort", "qemu-system-x86_64: ../hw/i386/intel_iommu.c:88: f: "
                   "Assertion `size == 4' failed."),
)

# From healthy boots of both machines.
GOOD = """\
[    0.000000] Linux version 6.12.117 (iommulab) #1 SMP
[    0.000000] DMAR: Host address width 48
[    0.000000] DMAR: DRHD base: 0x000000fed90000 flags: 0x0
[    0.000000] tsc: Detected 1000.000 MHz processor
[    0.000000] rcu: Hierarchical RCU implementation.
[    0.000000] rcu: RCU calculated value of scheduler-enlistment delay is 10
[    0.000000] Spectre V2 : WARNING: Unprivileged eBPF is enabled
[    0.000000] debug: ignoring loglevel setting.
[    0.001000] x86/fpu: x87 FPU will use FXSAVE
[    0.100000] clocksource: Switched to clocksource tsc-early
[    0.200000] arm-smmu-v3 arm-smmu-v3.0.auto: ias 44-bit, oas 44-bit
[    0.200000] arm-smmu-v3 arm-smmu-v3.0.auto: allocated 262144 entries for evtq
[    0.300000] smp: Brought up 1 node, 64 CPUs
[    0.300000] NMI watchdog: Perf NMI watchdog permanently disabled
[    0.400000] pci 0000:00:02.0: Adding to iommu group 1
{"iommulab":"ready","kernel":"6.12.117","cpus":64}
"""


class LogScan(unittest.TestCase):
    def test_every_kind_is_found(self):
        for kind, text in BAD:
            found = logscan.scan(GOOD + text + "\n" + GOOD)
            self.assertEqual({f.kind for f in found}, {kind}, text)

    def test_every_pattern_has_a_sample(self):
        self.assertEqual({kind for kind, _ in logscan.PATTERNS}
                         - {kind for kind, _ in BAD}, {"CPU lost"})

    def test_lost_cpus(self):
        for text in ("[    0.2] CPU3: failed to come online",
                     "[    0.2] CPU7 failed to report alive state"):
            self.assertEqual([f.kind for f in logscan.scan(text)],
                             ["CPU lost"])

    def test_a_healthy_boot_is_clean(self):
        self.assertEqual(logscan.scan(GOOD), [])

    def test_line_numbers(self):
        [found] = logscan.scan("a\nb\nBad icount read\n")
        self.assertEqual((found.number, found.fatal), (3, True))

    def test_garbage(self):
        self.assertEqual(logscan.scan("\x00\xff\n\r\n"), [])


if __name__ == "__main__":
    unittest.main()
