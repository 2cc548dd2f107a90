# SPDX-License-Identifier: GPL-2.0-or-later
"""A host that lacks something: exit 7, what it is and the line to run."""

import json
import os
import shutil
import subprocess
import unittest

from clone import CloneTest

HAS_NAMESPACE = subprocess.run(["unshare", "-m", "true"], check=False,
                               capture_output=True).returncode == 0


class Host(CloneTest):
    def test_no_compiler(self):
        path = self.without("gcc", "apt-get", "sudo")
        done = self.code(7, "build", *self.sources(), "qemu", PATH=path)
        self.assertIn("missing: gcc (package gcc)", done.stderr)
        self.assertRegex(done.stderr, r"apt-get install .*\bgcc\b")

    def test_apt_that_does_not_help(self):
        path = self.without("gcc", "apt-get", "sudo")
        self.write(self.folder / "bin/apt-get",
                   f"#!/bin/sh\necho \"$@\" >>{self.folder}/asked\nexit 100\n",
                   0o755)
        if os.geteuid():
            self.write(self.folder / "bin/sudo",
                       "#!/bin/sh\n[ \"$1\" != -n ] || shift\nexec \"$@\"\n",
                       0o755)
        self.code(7, "build", *self.sources(), "qemu", PATH=path)
        asked = (self.folder / "asked").read_text().splitlines()
        self.assertRegex(asked[0], r"^install .*\bgcc$")
        self.assertEqual(asked[1:], ["update", asked[0]])

    def test_missing_package_is_installed(self):
        path = self.without("gcc", "apt-get", "sudo")
        self.write(self.folder / "bin/apt-get",
                   f"#!/bin/sh\nln -s {shutil.which('gcc')} "
                   f"{self.folder}/bin/gcc\n", 0o755)
        self.write(self.folder / "bin/sudo",
                   "#!/bin/sh\n[ \"$1\" != -n ] || shift\nexec \"$@\"\n", 0o755)
        self.code(0, "build", *self.sources(), "qemu", PATH=path)

    def test_doctor(self):
        done = self.code(0, "doctor", "--json")
        said = json.loads(done.stdout)
        self.assertTrue(said["ok"])
        self.assertIn("ninja", [row["what"] for row in said["checks"]])

    def test_doctor_names_what_is_missing(self):
        path = self.without("flex", "ninja")
        done = self.code(7, "doctor", PATH=path)
        self.assertRegex(done.stdout, r"missing +flex")
        self.assertRegex(done.stdout, r"ok +bison")
        self.assertRegex(done.stdout,
                         r"Run: (sudo )?apt-get install .*flex ninja-build")

    @unittest.skipUnless(HAS_NAMESPACE, "needs to mount a small file system")
    def test_no_disk_space(self):
        small = self.folder / "small"
        small.mkdir()
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c",
             'mount -t tmpfs -o size=16m none "$0" && cp -a "$1" "$0/cache" &&'
             ' IOMMULAB_CACHE="$0/cache" exec "$2" build --qemu-src "$3" '
             '--linux-src "$4" qemu', small, self.cache,
             self.clone / "iommulab", self.qemu, self.linux],
            text=True, capture_output=True, timeout=self.timeout)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn(f"no disk space: {small}/cache", done.stderr)
        self.assertIn("run: du -sh", done.stderr)

    def test_disk_full_in_a_build_step(self):
        self.write(self.qemu / "configure",
                   "#!/bin/sh\necho 'ld: No space left on device'\nexit 1\n",
                   0o755)
        self.code(7, "build", *self.sources(), "qemu")


if __name__ == "__main__":
    unittest.main()
