# SPDX-License-Identifier: GPL-2.0-or-later
"""Run one file of unittest cases and print TAP: tap.py FILE [CASE...]"""

import importlib.util
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "scripts")]
sys.dont_write_bytecode = True


class TapResult(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.number = 0
        self.broken = False     # a subtest of the running case failed

    def startTest(self, test):
        super().startTest(test)
        self.broken = False

    def addSuccess(self, test):
        if not self.broken:
            self._line("ok", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._bad(test, self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._bad(test, self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self._bad(subtest, self._exc_info_to_string(err, test))
            self.broken = True

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._line("ok", test, f" # SKIP {reason}")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._line("not ok", test, " (unexpected success)")

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self._line("ok", test)

    def _bad(self, test, text):
        self._line("not ok", test)
        for line in text.splitlines():
            print(f"#   {line}", flush=True)

    def _line(self, word, test, end=""):
        self.number += 1
        name = ".".join(test.id().split(".")[1:]) or test.id()
        print(f"{word} {self.number} - {name}{end}", flush=True)


def main(path, *names):
    path = Path(path).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    loader = unittest.defaultTestLoader
    suite = (loader.loadTestsFromNames(names, module) if names
             else loader.loadTestsFromModule(module))
    print(f"1..{suite.countTestCases()}", flush=True)
    result = TapResult()
    suite.run(result)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
