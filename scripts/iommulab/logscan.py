# SPDX-License-Identifier: GPL-2.0-or-later
"""Find what no healthy boot prints, in a guest's console or QEMU's log.

Applied after every boot: a number measured by a kernel that warned, stalled
or lost its clock is not a number to quote.
"""

import re
from typing import NamedTuple

# Kinds in FATAL end the run of a guest; the others leave a result that is
# kept, marked, and still makes the command fail.
FATAL = {"panic", "oops", "BUG", "lockup", "QEMU abort", "refused"}

# The first pattern that matches a line names it.
PATTERNS = [(kind, re.compile(pattern)) for kind, pattern in (
    ("panic", r"Kernel panic - not syncing"),
    ("oops", r"Internal error: Oops|\bOops: [0-9a-f]{4}\b|\bOops: \w+.*\[#\d+\]"
             r"|Unable to handle kernel|general protection fault"
             r"|Unhandled fault|invalid opcode: [0-9a-f]{4}"
             r"|Internal error: .* \[#\d+\]"),
    ("lockup", r"BUG: (soft|hard) lockup|soft lockup - CPU#|hard LOCKUP"
               r"|Watchdog detected"),
    ("BUG", r"\bkernel BUG at\b|\bBUG: |scheduling while atomic"),
    ("stall", r"rcu.*(self-)?detected (stall|expedited stalls)"
              r"|rcu.*kthread.*starved|INFO: rcu|rcu: INFO: .*stall"),
    ("hung task", r"INFO: task .* blocked for more than"),
    ("lockdep", r"INFO: (possible|suspicious|inconsistent|trying) "
                r"|WARNING: ((possible|possible irq lock|nested|inconsistent"
                r"|lock held|bad unlock|suspicious RCU|bad contention) "
                r"|\S+-safe -> \S+-unsafe)"
                r"|turning off the locking correctness validator"
                r"|DEBUG_LOCKS_WARN_ON\("),
    ("WARNING", r"WARNING: CPU: \d+|WARNING: (possible|suspicious) "
                r"|refcount_t: |(list_add|list_del|slab) corruption"
                r"|^(\[[^]]*\] )?ODEBUG: "),
    ("clock", r"TSC unstable|Marking clocksource .* unstable"
              r"|clocksource: .* skewed|timekeeping watchdog"),
    ("IOMMU fault", r"DMAR: .*[Ff]ault|DMAR: .*(ITE|ICE|IQE)\b"
                    r"|arm-smmu-v3 .*(CMDQ error|CMD_SYNC timeout"
                    r"|EVTQ overflow|event 0x)"),
    ("CPU lost", r"CPU\d+: failed to come online|smpboot: .*failed"
                 r"|CPU\d+ failed to report alive"
                 r"|Not responding"),
    # An option of the lab's that the kernel can do nothing but log
    ("refused", r"iommulab\.\w+=\S+ must be "),
    ("QEMU abort", r"Bad icount read|ERROR:.*: assertion failed"
                   r"|^\*\* ?ERROR|: Assertion `.*' failed"
                   r"|qemu: fatal:"),
)]


class Finding(NamedTuple):
    kind: str
    number: int         # line number, from 1
    text: str

    @property
    def fatal(self):
        return self.kind in FATAL


def scan(text):
    """Every suspicious line of `text`, in order."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for kind, pattern in PATTERNS:
            if pattern.search(line):
                found.append(Finding(kind, number, line.strip()))
                break
    return found
