# SPDX-License-Identifier: GPL-2.0-or-later
"""A clone of this tree that builds toy sources in seconds, without network.

The toys stand for QEMU and Linux: a `configure` that writes a build.ninja, and
a Makefile with the few targets the builder asks for. All else is the real
command, with a cache folder of its own.
"""

import os
import shutil
import signal
import subprocess
import textwrap
from pathlib import Path

from lab import ROOT, LabTest

TRAILERS = "Upstream-Status: Pending\nExit: when it is merged\n"

CONFIGURE = r"""#!/bin/sh
src=$(dirname "$0")
printf '[built-in options]\nwerror = true\n' >config-meson.cross
cat >build.ninja <<END
rule cc
  command = gcc -MD -MF \$out.d -c \$in -o \$out
  depfile = \$out.d
  deps = gcc
rule link
  command = gcc \$in -o \$out
rule copy
  command = cp \$in \$out
rule slow
  command = test -e $src/quick || sleep 300; touch \$out
build main.o: cc $src/main.c
build port.o: cc $src/hw/misc/port.c
build qemu-system-x86_64: link main.o port.o
build qemu-system-aarch64: link main.o port.o
build trace/trace-events-all: copy $src/trace-events
build tests/qtest/toy-test: link main.o port.o
build slow: slow
END
"""

KERNEL = """\
VERSION = 6
PATCHLEVEL = 12
SUBLEVEL = 117
allnoconfig:
\tgrep -v CONFIG_LOST $(KCONFIG_ALLCONFIG) >$(KCONFIG_CONFIG)
bzImage:
\tmkdir -p $(O)/arch/x86/boot
\tcp hello.c $(O)/arch/x86/boot/bzImage
\ttouch $(O)/vmlinux $(O)/System.map
"""


class CloneTest(LabTest):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"
        self.toys()
        self.clone = self.new_clone("clone")
        self.build = self.clone / "build"

    # --- the toys ---

    def write(self, path, text, mode=0o644):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def toys(self):
        self.qemu = self.folder / "toys/qemu"
        self.write(self.qemu / "VERSION", "10.0.99\n")
        self.write(self.qemu / "include/qemu/osdep.h", "\n")
        self.write(self.qemu / "trace-events", "# none\n")
        self.write(self.qemu / "configure", CONFIGURE, 0o755)
        self.write(self.qemu / "main.c",
                   "#include <stdio.h>\nint port(void);\n"
                   "int main(void)\n{\n    int a = 1;\n    int b = 2;\n"
                   "    int c = 3;\n    printf(\"%d\", a + b + c);\n"
                   "    return port();\n}\n")
        self.linux = self.folder / "toys/linux"
        self.write(self.linux / "Makefile", KERNEL)
        self.write(self.linux / "Kbuild", "\n")
        self.write(self.linux / "hello.c", "kernel\n")
        self.write(self.linux / "kernel/configs/tiny-base.config", "\n")
        deb = self.folder / "toys/meson"
        self.write(deb / "DEBIAN/control",
                   "Package: meson\nVersion: 1.7.0-1\nArchitecture: all\n"
                   "Maintainer: toy\nDescription: toy\n")
        self.write(deb / "usr/lib/python3/dist-packages/mesonbuild/"
                   "mesonmain.py", "import sys\n\ndef main():\n"
                   "    open(sys.argv[-2] + '/build.ninja', 'w')\n")
        packages = self.cache / "sources"
        packages.mkdir(parents=True)
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", deb,
                        packages / "meson_1.7.0-1_all.deb"], check=True,
                       stdout=subprocess.DEVNULL)
        sums = subprocess.run(["sha256sum", "meson_1.7.0-1_all.deb"],
                              cwd=packages, check=True, text=True,
                              capture_output=True)
        (packages / "SHA256SUMS").write_text(sums.stdout)

    def new_clone(self, name):
        clone = self.folder / name
        shutil.copytree(ROOT / "scripts", clone / "scripts",
                        ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("iommulab", "configure", "UPSTREAM", "meson.build"):
            shutil.copy2(ROOT / file, clone / file)
        self.write(clone / "hw/misc/port.c",
                   "/* SPDX-License-Identifier: GPL-2.0-or-later */\n"
                   "int port(void) { return 0; }\n")
        self.write(clone / "tests/qtest/suite.list", "x86_64 toy-test\n")
        shutil.copytree(ROOT / "guest", clone / "guest")
        for arch in ("common", "x86_64", "arm64"):
            self.write(clone / f"guest/{arch}.config", f"CONFIG_{arch}=y\n")
        return clone

    def patch(self, series, number, old, new, file="main.c",
              trailers=TRAILERS, tree=None, clone=None):
        """Write a patch that changes one line of a toy's file."""
        lines = ((tree or self.qemu) / file).read_text().splitlines()
        at = lines.index(old)
        first, last = max(0, at - 3), min(len(lines), at + 4)
        body = [(" " if n != at else "-") + lines[n]
                for n in range(first, last)]
        body.insert(at - first + 1, "+" + new)
        size = last - first
        text = textwrap.dedent(f"""\
            From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
            From: Toy <toy@localhost.invalid>
            Date: Wed, 1 Jan 2025 00:00:00 +0000
            Subject: [PATCH] toy: change {number}

            Because the test says so, at some length.

            """)
        text += trailers + (
            f"---\n {file} | 2 +-\n\n"
            f"diff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n"
            f"@@ -{first + 1},{size} +{first + 1},{size} @@\n")
        return self.write((clone or self.clone) / f"patches/{series}"
                          f"/{number:04}-toy-change-{number}.patch",
                          text + "\n".join(body) + "\n")

    # --- the command ---

    def env(self, **extra):
        return {**os.environ, "IOMMULAB_CACHE": str(self.cache), **extra}

    def run_in(self, clone, *args, **env):
        return subprocess.run([clone / "iommulab", *args], text=True,
                              capture_output=True, timeout=self.timeout,
                              stdin=subprocess.DEVNULL, env=self.env(**env))

    def code(self, code, *args, clone=None, **env):
        done = self.run_in(clone or self.clone, *args, **env)
        self.assertEqual(done.returncode, code,
                         f"\n{done.stdout}\n{done.stderr}")
        return done

    def sources(self):
        return ["--qemu-src", str(self.qemu), "--linux-src", str(self.linux)]

    def first_build(self, *names, clone=None):
        return self.code(0, "build", *self.sources(), *(names or ["qemu"]),
                         clone=clone)

    def interrupt(self, process):
        os.kill(process.pid, signal.SIGINT)
        return process.wait(30)

    def log(self, name="qemu"):
        return (self.build / f"logs/{name}.log").read_text()

    def without(self, *hidden):
        """A PATH with this host's commands, except those hidden."""
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        for origin in ("/usr/bin", "/bin", "/usr/sbin", "/sbin"):
            for file in Path(origin).iterdir():
                link = folder / file.name
                if file.name not in hidden and not link.is_symlink():
                    link.symlink_to(file)
        return str(folder)
