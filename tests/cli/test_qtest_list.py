# SPDX-License-Identifier: GPL-2.0-or-later
"""No register-level test of ours is forgotten in suite.list."""

import unittest

from iommulab import build, paths


class QtestList(unittest.TestCase):
    def test_all_of_ours_are_listed(self):
        ours = {file.stem for file in (paths.ROOT / "tests/qtest")
                .glob("*-test.c")}
        self.assertTrue(ours)
        listed = {test for _, test in build.qtest_list()}
        self.assertEqual(ours - listed, set())

    def test_each_is_for_a_binary_we_build(self):
        for arch, _ in build.qtest_list():
            self.assertIn(f"qemu-system-{arch}", build.QEMU_BINARIES)


if __name__ == "__main__":
    unittest.main()
