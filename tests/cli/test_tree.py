# SPDX-License-Identifier: GPL-2.0-or-later
"""The prepared trees: layers, collisions, and work done in them."""

import subprocess
import unittest

from clone import CloneTest


class Tree(CloneTest):
    def setUp(self):
        super().setUp()
        self.tree = self.build / "src/qemu"

    def git(self, *args):
        return subprocess.run(
            ["git", "-C", self.tree, "-c", "user.name=Toy", "-c",
             "user.email=toy@localhost.invalid", *args],
            check=True, capture_output=True, text=True).stdout

    def subjects(self):
        return self.git("log", "--reverse", "--format=%s").splitlines()

    def test_a_commit_per_layer(self):
        self.patch("qemu/hooks", 2, "    int b = 2;", "    int b = 20;")
        self.patch("qemu/fixes", 1, "    int a = 1;", "    int a = 10;")
        # Made against the fixed file, as `git am` will find it.
        hook = self.clone / "patches/qemu/hooks/0002-toy-change-2.patch"
        hook.write_text(hook.read_text().replace("int a = 1;", "int a = 10;"))
        self.first_build()
        self.assertEqual(self.subjects(),
                         ["qemu 10.0.99", "iommulab: overlay",
                          "toy: change 1", "toy: change 2"])

    def test_same_inputs_give_the_same_commits(self):
        self.first_build()
        first = self.git("rev-parse", "HEAD")
        other = self.new_clone("other")
        (self.cache / "artefacts").rename(self.folder / "gone")
        self.first_build(clone=other)
        self.tree = other / "build/src/qemu"
        self.assertEqual(first, self.git("rev-parse", "HEAD"))

    def test_overlay_may_not_replace_a_file(self):
        self.write(self.clone / "include/qemu/osdep.h", "/* ours */\n")
        done = self.code(3, "build", *self.sources(), "qemu")
        self.assertIn("include/qemu/osdep.h", done.stderr)
        (self.clone / "include/qemu/osdep.h").unlink()
        self.code(0, "build", "qemu")

    def test_removed_overlay_file_goes(self):
        extra = self.write(self.clone / "hw/misc/extra.c", "\n")
        self.first_build()
        self.assertTrue((self.tree / "hw/misc/extra.c").exists())
        extra.unlink()
        self.code(0, "build", "qemu")
        self.assertFalse((self.tree / "hw/misc/extra.c").exists())

    def test_patch_that_does_not_apply(self):
        patch = self.patch("qemu/hooks", 1, "    int b = 2;", "    int b = 3;")
        good = patch.read_text()
        patch.write_text(good.replace("int a = 1;", "int z = 1;"))
        done = self.code(3, "build", *self.sources(), "qemu")
        self.assertIn("hooks/0001-toy-change-1.patch", done.stderr)
        patch.write_text(good)
        self.code(0, "build", "qemu")

    def test_edits_in_the_tree_are_not_run_over(self):
        self.first_build()
        self.write(self.tree / "main.c", "int main(void) { return 5; }\n")
        self.patch("qemu/hooks", 1, "    int b = 2;", "    int b = 3;")
        done = self.code(3, "build", "qemu")
        self.assertIn("patches refresh", done.stderr)
        self.assertIn("return 5", (self.tree / "main.c").read_text())

    def test_refresh_keeps_a_commit_of_the_tree(self):
        self.first_build()
        main = self.tree / "main.c"
        main.write_text(main.read_text().replace("int c = 3", "int c = 4"))
        self.git("commit", "-qam", "toy: change c\n\nWhy not.")
        self.write(self.clone / "hw/misc/port.c",
                   "int port(void) { return 1; }\n")
        done = self.code(3, "build", "qemu")
        self.assertIn("patches refresh", done.stderr)
        self.code(0, "patches", "refresh")
        patch = self.clone / "patches/qemu/hooks/0001-toy-change-c.patch"
        self.assertIn("+    int c = 4;", patch.read_text())
        self.code(0, "build", "qemu")
        self.assertEqual(self.subjects()[-1], "toy: change c")
        before = patch.read_text()
        self.code(0, "patches", "refresh")
        self.assertEqual(before, patch.read_text())

    def test_new_upstream_source_replaces_the_tree(self):
        self.first_build()
        self.write(self.qemu / "VERSION", "10.0.100\n")
        self.first_build()
        self.assertEqual(self.subjects()[0], "qemu 10.0.100")


if __name__ == "__main__":
    unittest.main()
