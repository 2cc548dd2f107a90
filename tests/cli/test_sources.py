# SPDX-License-Identifier: GPL-2.0-or-later
"""Sources: fetched through a private apt, verified, kept, or the user's own."""

import json
import subprocess
import tarfile
import unittest

from clone import CloneTest

UNREACHABLE = "http://127.0.0.1:9/debian"


class Sources(CloneTest):
    def record(self):
        return json.loads((self.build / "sources.json").read_text())

    def test_mirror_unreachable(self):
        done = self.code(7, "build", "--setup-only", "--mirror", UNREACHABLE)
        self.assertIn(UNREACHABLE, done.stderr)
        self.assertRegex(done.stderr, r"run: .*apt-get update")
        self.assertFalse((self.build / "sources.json").exists())

    def test_unsigned_mirror_is_refused(self):
        mirror = self.folder / "mirror"
        self.write(mirror / "dists/trixie/Release",
                   "Origin: Debian\nSuite: stable\nCodename: trixie\n"
                   "Components: main\n")
        done = self.code(7, "build", "--setup-only", "--mirror",
                         f"file:{mirror}")
        self.assertIn("not signed", done.stderr)

    def test_apt_is_private(self):
        self.code(7, "build", "--setup-only", "--mirror", UNREACHABLE)
        conf = self.cache / "apt/apt.conf"
        said = subprocess.run(
            ["apt-config", "shell", "lists", "Dir::State::lists/d", "cache",
             "Dir::Cache/d", "source", "Dir::Etc::sourcelist/f", "parts",
             "Dir::Etc::parts/d", "sourceparts", "Dir::Etc::sourceparts/f"],
            env=self.env(APT_CONFIG=str(conf)), text=True, check=True,
            capture_output=True).stdout
        for line in said.splitlines():
            path = line.partition("=")[2].strip("'/")
            self.assertTrue(f"/{path}".startswith((str(self.cache),
                                                   "/dev/null")), line)
        listed = (self.cache / "apt/sources.list").read_text()
        self.assertTrue(all(" [signed-by=/usr/share/keyrings/" in line
                            for line in listed.splitlines()), listed)

    def test_damaged_download_is_not_used(self):
        meson = next((self.cache / "sources").glob("meson*.deb"))
        meson.write_bytes(meson.read_bytes() + b"x")
        self.code(7, "build", *self.sources(), "--mirror", UNREACHABLE,
                  "qemu")

    def test_no_network_is_needed_when_the_cache_has_all(self):
        self.code(0, "build", *self.sources(), "--mirror", UNREACHABLE,
                  "qemu")

    def test_tarball(self):
        ball = self.folder / "qemu-10.0.99.tar.xz"
        with tarfile.open(ball, "w:xz") as file:
            file.add(self.qemu, "qemu-10.0.99")
        self.code(0, "build", "--qemu-src", str(ball), "--linux-src",
                  str(self.linux), "qemu")
        self.assertEqual(self.record()["qemu"]["version"], "10.0.99")

    def test_other_version_is_a_note(self):
        self.write(self.qemu / "VERSION", "10.1.0\n")
        done = self.code(0, "build", *self.sources(), "qemu")
        self.assertIn("made for 10.0.x", done.stderr)

    def test_choice_is_kept(self):
        self.first_build("qemu")
        self.code(0, "build", "qemu")
        self.assertEqual(self.record()["qemu"]["path"], str(self.qemu))

    def test_not_a_source_tree(self):
        done = self.code(2, "build", "--qemu-src", str(self.linux))
        self.assertIn("is not a qemu source tree", done.stderr)
        done = self.code(2, "build", "--linux-src", "/nonexistent")
        self.assertIn("no such file", done.stderr)


if __name__ == "__main__":
    unittest.main()
