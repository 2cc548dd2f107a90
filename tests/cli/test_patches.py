# SPDX-License-Identifier: GPL-2.0-or-later
"""`patches`: what it accepts, and that it can refuse."""

import json
import shutil
import unittest

from clone import TRAILERS, CloneTest


class Patches(CloneTest):
    def setUp(self):
        super().setUp()
        self.good = self.patch("qemu/hooks", 1, "    int b = 2;",
                               "    int b = 20;")

    def check(self, code, *says):
        done = self.code(code, "patches", "check", *self.sources())
        for text in says:
            self.assertIn(text, done.stdout)

    def edit(self, old, new):
        text = self.good.read_text()
        self.assertIn(old, text)
        self.good.write_text(text.replace(old, new))

    def test_good_series(self):
        self.check(0)

    def test_context_must_match(self):
        self.edit("int a = 1;", "int a = 7;")
        self.check(1, "0001-toy-change-1.patch does not apply")

    def test_prepared_tree_is_used_but_not_changed(self):
        self.first_build()
        tree = self.build / "src/qemu"
        before = (tree / ".git/index").read_bytes()
        self.code(0, "patches", "check")
        self.assertEqual(before, (tree / ".git/index").read_bytes())

    def test_status_trailer(self):
        self.edit("Upstream-Status: Pending\n", "")
        self.check(1, "has no Upstream-Status")

    def test_unknown_status(self):
        self.edit("Status: Pending", "Status: Perhaps")
        self.check(1, "has no Upstream-Status")

    def test_inappropriate_needs_a_reason(self):
        self.edit("Status: Pending", "Status: Inappropriate")
        self.check(1, "without a [reason]")
        self.edit("Inappropriate", "Inappropriate [a toy]")
        self.check(0)

    def test_exit_trailer(self):
        self.edit("Exit: when it is merged\n", "")
        self.check(1, "has no Exit:")

    def test_no_signed_off_by(self):
        self.edit(TRAILERS, TRAILERS + "Signed-off-by: A <a@b>\n")
        self.check(1, "Signed-off-by")

    def test_body(self):
        self.edit("Because the test says so, at some length.\n", "")
        self.check(1, "no body")

    def new_file(self, first):
        self.edit("diff --git a/main.c",
                  "diff --git a/new.c b/new.c\nnew file mode 100644\n"
                  "--- /dev/null\n+++ b/new.c\n@@ -0,0 +1 @@\n"
                  f"+{first}\ndiff --git a/main.c")

    def test_new_qemu_file_belongs_in_the_overlay(self):
        self.new_file("/* SPDX-License-Identifier: GPL-2.0-or-later */")
        self.check(1, "belong in the overlay")

    def test_new_linux_file_needs_spdx(self):
        self.good.unlink()
        self.good = self.patch("linux", 1, "kernel", "colonel",
                               file="hello.c", tree=self.linux)
        self.edit("diff --git a/hello.c",
                  "diff --git a/new.c b/new.c\nnew file mode 100644\n"
                  "--- /dev/null\n+++ b/new.c\n@@ -0,0 +1 @@\n"
                  "+/* no licence */\ndiff --git a/hello.c")
        self.check(1, "adds new.c without SPDX")
        self.edit("no licence", "SPDX-License-Identifier: GPL-2.0-only")
        self.check(0)

    def test_overlay_needs_spdx(self):
        self.write(self.clone / "hw/misc/bare.c", "int bare;\n")
        self.check(1, "hw/misc/bare.c has no SPDX")

    def test_stat_and_budget(self):
        done = self.code(0, "patches", "stat", "--json")
        said = json.loads(done.stdout)
        self.assertEqual(said["hook_lines"], 2)
        self.assertEqual(said["rows"][0]["file"], "main.c")
        lines = [f"line {n}" for n in range(700)]
        self.write(self.qemu / "main.c", "\n".join(lines) + "\n")
        body = "".join(f"+new {n}\n" for n in range(601))
        self.edit(self.good.read_text().partition("@@")[2],
                  f" -1,1 +1,602 @@\n line 0\n{body}")
        self.code(1, "patches", "stat")
        self.check(1, "600 are allowed")

    def moved(self, old, new):
        """A newer toy QEMU, and what rebasing on it reports."""
        self.first_build()
        newer = self.folder / "toys/qemu-newer"
        shutil.copytree(self.qemu, newer)
        text = (newer / "main.c").read_text()
        self.assertIn(old, text)
        (newer / "main.c").write_text(text.replace(old, new))
        (newer / "VERSION").write_text("10.1.0\n")
        return str(newer)

    def test_rebase_clean(self):
        new = self.moved("#include", "/* moved */\n#include")
        done = self.code(0, "patches", "rebase", new)
        self.assertRegex(done.stdout, r"clean +patches/qemu/hooks/0001")

    def test_rebase_three_way(self):
        new = self.moved("int main(void)", "int  main(void)")
        self.code(0, "patches", "refresh")      # gives it the blobs' names
        done = self.code(0, "patches", "rebase", "--write", new)
        self.assertRegex(done.stdout, r"3-way +patches/qemu/hooks/0001")
        self.assertIn("int  main(void)", self.good.read_text())

    def test_rebase_failed(self):
        new = self.moved("int b = 2;", "long b = 4;")
        done = self.code(1, "patches", "rebase", new)
        self.assertRegex(done.stdout, r"failed +patches/qemu/hooks/0001")

    def test_rebase_on_nonsense(self):
        self.code(2, "patches", "rebase", str(self.clone))


if __name__ == "__main__":
    unittest.main()
