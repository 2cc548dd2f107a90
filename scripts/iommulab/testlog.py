# SPDX-License-Identifier: GPL-2.0-or-later
"""Results of tests in the forms that others read: KTAP and JUnit's XML."""

import re
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

RESULT = re.compile(r"(not )?ok\b\s*\d*\s*(?:- )?(.*?)"
                    r"(?:\s*#\s*(SKIP|TODO)\b\S*\s*(.*))?$", re.IGNORECASE)


@dataclass
class Case:
    name: str
    status: str             # "ok", "failed" or "skipped"
    why: str = ""           # of what was skipped
    lines: list = field(default_factory=list)   # what the test said of it


@dataclass(frozen=True)
class Ran:
    """One test program that was run."""
    name: str
    seconds: float
    cases: list

    def count(self, status):
        return sum(case.status == status for case in self.cases)

    @property
    def bad(self):
        return any(case.status == "failed" for case in self.cases)


def cases(program, output, failed, skipped):
    """[Case] of a program's TAP. What is wrong with the program as a whole,
    which only `failed` and `skipped` of its tally tell, is a case, too."""
    found = []
    for line in output.splitlines():
        match = RESULT.match(line)
        if match:
            bad, name, directive, why = match.groups()
            skip = directive and directive.upper() == "SKIP"
            found.append(Case(name or f"case {len(found) + 1}",
                              "skipped" if skip else
                              "failed" if bad else "ok", why or ""))
        elif line.startswith("#") and found and \
                found[-1].status == "failed":
            found[-1].lines.append(line[1:].rstrip())
    known = {f"{program}: {case.name}" for case in found}
    for texts, status in ((failed, "failed"), (skipped, "skipped")):
        for text in texts:
            if not any(text == k or text.startswith(f"{k}: ")
                       for k in known):
                what = text.removeprefix(f"{program}: ")
                found.append(Case("the program", status,
                                  what if status == "skipped" else "",
                                  [what] if status == "failed" else []))
    return found


def ktap(programs):
    """KTAP version 1 (Documentation/dev-tools/ktap.rst): a test for each
    program, with its cases as subtests."""
    out = ["KTAP version 1", f"1..{len(programs)}"]
    for number, ran in enumerate(programs, 1):
        out += ["  KTAP version 1", f"  1..{len(ran.cases)}"]
        for place, case in enumerate(ran.cases, 1):
            out += [f"  # {line.strip()}" for line in case.lines]
            word = "not ok" if case.status == "failed" else "ok"
            skip = f" # SKIP {case.why}".rstrip() \
                if case.status == "skipped" else ""
            out.append(f"  {word} {place} {_plain(case.name)}{skip}")
        word = "not ok" if ran.bad else "ok"
        skip = " # SKIP" if ran.cases and \
            ran.count("skipped") == len(ran.cases) else ""
        out.append(f"{word} {number} {ran.name}{skip}")
    return "\n".join(out) + "\n"


def junit(programs):
    """JUnit's XML: a suite for each program."""
    out = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for ran in programs:
        out.append(f"<testsuite name={quoteattr(ran.name)} "
                   f'tests="{len(ran.cases)}" '
                   f'failures="{ran.count("failed")}" '
                   f'skipped="{ran.count("skipped")}" errors="0" '
                   f'time="{ran.seconds:.3f}">')
        for case in ran.cases:
            head = (f"<testcase classname={quoteattr(ran.name)} "
                    f"name={quoteattr(_xml(case.name))}")
            if case.status == "ok":
                out.append(head + "/>")
                continue
            inside = f"<skipped message={quoteattr(_xml(case.why))}/>" \
                if case.status == "skipped" else \
                '<failure message="failed">' \
                + escape(_xml("\n".join(case.lines))) + "</failure>"
            out.append(f"{head}>{inside}</testcase>")
        out.append("</testsuite>")
    out.append("</testsuites>")
    return "\n".join(out) + "\n"


def _plain(name):
    """A name without what KTAP gives a meaning to."""
    return name.replace("#", "")


def _xml(text):
    """Text without the characters that XML cannot hold."""
    return re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd]", "?", text)
