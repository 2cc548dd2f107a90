# SPDX-License-Identifier: GPL-2.0-or-later
"""Artefacts: cached by content, rebuilt by dependence, failures explained."""

import fcntl
import os
import subprocess
import time
import unittest

from clone import CloneTest
from lab import heed_interrupt


class Build(CloneTest):
    def object_times(self):
        return {o.name: o.stat().st_mtime_ns
                for o in (self.build / "qemu").glob("*.o")}

    def test_unchanged_is_quick_and_builds_nothing(self):
        self.first_build("qemu", "qtests", "kernel-x86_64")
        before = self.log(), os.readlink(self.build / "out/qemu")
        start = time.monotonic()
        self.code(0, "build", "qemu", "qtests", "kernel-x86_64")
        self.assertLess(time.monotonic() - start, 2)
        self.assertEqual(before, (self.log(),
                                  os.readlink(self.build / "out/qemu")))

    def test_configure_sets_meson_up(self):
        self.first_build()
        done = subprocess.run([self.clone / "configure", *self.sources()],
                              env=self.env(), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.build / "build.ninja").exists())
        self.assertIn(str(self.qemu), done.stderr)

    def test_nothing_to_build_does_not_wait_for_a_build(self):
        self.first_build()
        with open(self.build / ".lock", "w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.timeout = 20
            self.code(0, "build", "qemu")

    def test_edit_rebuilds_only_what_depends_on_it(self):
        self.patch("qemu/hooks", 1, "    int b = 2;", "    int b = 20;")
        self.first_build()
        before = self.object_times()
        self.assertEqual(set(before), {"main.o", "port.o"})
        port = self.clone / "hw/misc/port.c"
        port.write_text(port.read_text().replace("return 0", "return 9"))
        self.code(0, "build", "qemu")
        after = self.object_times()
        self.assertEqual(before["main.o"], after["main.o"])
        self.assertNotEqual(before["port.o"], after["port.o"])
        done = subprocess.run(
            [self.build / "out/qemu/bin/qemu-system-x86_64"],
            capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (9, "24"))

    def test_test_file_does_not_rebuild_qemu(self):
        self.first_build("qemu", "qtests")
        links = {n: os.readlink(self.build / "out" / n)
                 for n in ("qemu", "qtests")}
        self.write(self.clone / "tests/qtest/new-test.c", "/* new */\n")
        self.code(0, "build", "qemu", "qtests")
        self.assertEqual(links["qemu"],
                         os.readlink(self.build / "out/qemu"))
        self.assertNotEqual(links["qtests"],
                            os.readlink(self.build / "out/qtests"))

    def test_second_clone_reuses_without_unpacking(self):
        self.first_build("qemu", "kernel-x86_64")
        other = self.new_clone("other")
        self.first_build("qemu", "kernel-x86_64", clone=other)
        self.assertFalse((other / "build/src").exists())
        self.assertEqual(os.readlink(self.build / "out/qemu"),
                         os.readlink(other / "build/out/qemu"))

    def test_old_versions_are_dropped(self):
        self.first_build()
        port = self.clone / "hw/misc/port.c"
        for number in range(1, 8):
            port.write_text(f"int port(void) {{ return {number}; }}\n")
            self.code(0, "build", "qemu")
        kept = list((self.cache / "artefacts").glob("qemu-*"))
        self.assertEqual(len(kept), 6)
        self.assertTrue((self.build / "out/qemu/bin").is_dir())

    def test_version_names_the_artefact(self):
        self.first_build()
        name = os.path.basename(os.readlink(self.build / "out/qemu"))
        described = subprocess.run(
            ["git", "-C", self.build / "src/qemu", "describe", "--match",
             "v*"], capture_output=True, text=True)
        self.assertEqual(described.stdout.strip(),
                         f"v10.0.99-iommulab-{name[5:13]}")

    def test_werror_stays_off_when_meson_regenerates(self):
        self.first_build()
        machine = self.build / "qemu/config-meson.cross"
        self.assertNotIn("werror", machine.read_text())

    def test_compile_error(self):
        self.write(self.clone / "hw/misc/port.c",
                   "\n" * 30 + "int port(void) { return unheard_of; }\n")
        done = self.code(3, "build", *self.sources(), "qemu")
        self.assertIn("unheard_of", done.stderr)
        self.assertIn(str(self.build / "logs/qemu.log"), done.stderr)
        said = done.stderr.partition("qemu.log:\n")[2].splitlines()
        self.assertTrue(0 < len(said) <= 20, said)
        # Nothing is filed for it, and the repaired file builds.
        self.assertEqual(list((self.cache / "artefacts").glob("*")), [])
        self.write(self.clone / "hw/misc/port.c",
                   "int port(void) { return 0; }\n")
        self.code(0, "build", "qemu")

    def test_lost_kernel_option(self):
        self.write(self.clone / "guest/x86_64.config", "CONFIG_LOST=y\n")
        done = self.code(3, "build", *self.sources(), "kernel-x86_64")
        self.assertIn("CONFIG_LOST=y", done.stderr)

    def test_unknown_artefact(self):
        done = self.code(2, "build", "kernel-sparc")
        for word in ("kernel-sparc", "qemu", "kernel-arm64"):
            self.assertIn(word, done.stderr)

    def test_debugging_kernels_are_built_when_named(self):
        done = self.code(0, "build", "--dry-run")
        self.assertNotIn("kasan", done.stdout)
        done = self.code(0, "build", "--dry-run", "kernel-arm64-kasan")
        self.assertIn("kernel-arm64-kasan: build", done.stdout)
        self.assertNotIn("kernel-arm64:", done.stdout)

    def test_interrupted_build_resumes(self):
        configure = (self.qemu / "configure").read_text()
        self.write(self.qemu / "configure", configure.replace(
            "trace-events\n", "trace-events || slow\n"), 0o755)
        with subprocess.Popen(
                [self.clone / "iommulab", "build", *self.sources(), "qemu"],
                env=self.env(), stderr=subprocess.DEVNULL,
                preexec_fn=heed_interrupt) as process:
            deadline = time.monotonic() + 60
            while not self.sleepers() and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertTrue(self.sleepers())
            self.assertEqual(self.interrupt(process), 130)
        self.assertEqual(self.sleepers(), [])
        self.write(self.build / "src/qemu/quick", "")
        self.code(0, "build", "qemu")

    def sleepers(self):
        """Processes that the toy's slow step has left."""
        mark = str(self.build / "src/qemu/quick").encode()
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if mark in file.read():
                        found.append(pid)
            except OSError:
                continue
        return found


if __name__ == "__main__":
    unittest.main()
