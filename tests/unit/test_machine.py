# SPDX-License-Identifier: GPL-2.0-or-later
"""The QEMU command line: fixed where it must be, and complete."""

import shlex
import tempfile
import unittest
from pathlib import Path

from iommulab import machine

CLOCK = machine.Clock("functional")
FILES = machine.Files(Path("/q"), Path("/k"), Path("/i"), (Path("/fw"),))


def argv(name, cpus=4, port=True, extra=(), clock=CLOCK,
         job=""):
    return machine.argv(machine.MACHINES[name], cpus, FILES, "quiet", port,
                        clock, job, extra)


def values(words, option):
    return [b for a, b in zip(words, words[1:]) if a == option]


class Argv(unittest.TestCase):
    def test_nothing_is_taken_from_the_host(self):
        for name in machine.MACHINES:
            words = argv(name)
            for word in ("-nodefaults", "-no-user-config", "-no-reboot"):
                self.assertIn(word, words)
            self.assertEqual(values(words, "-seed"), ["1"])
            self.assertRegex(values(words, "-rtc")[0],
                             r"^base=\d{4}-.*,clock=vm$")
            self.assertEqual(values(words, "-icount"), ["shift=0,sleep=off"])
            for option in ("-display", "-monitor", "-nic"):
                self.assertEqual(values(words, option), ["none"])
        self.assertIn("hpet=off", argv("vtd")[argv("vtd").index("-M") + 1])
        self.assertIn("dtb-randomness=off",
                      argv("smmuv3")[argv("smmuv3").index("-M") + 1])

    def test_virtual_time(self):
        clock = machine.Clock("vtime", Path("/p.ini"), 50, 7)
        words = argv("vtd", clock=clock)
        self.assertNotIn("-icount", words)
        self.assertEqual(values(words, "-accel"), [
            "tcg,thread=single,vtime=on,vtime-profile=/p.ini,"
            "vtime-quantum=50,vtime-jitter=7"])

    def test_quantum_of_watched_lines(self):
        for quantum, word in ((None, 50), (100, 100)):
            clock = machine.Clock("vtime", Path("/p.ini"), quantum,
                                  watch="auto")
            self.assertEqual(values(argv("vtd", clock=clock), "-accel"), [
                "tcg,thread=single,vtime=on,vtime-profile=/p.ini,"
                f"vtime-quantum={word},vtime-watch=auto"])

    def test_each_machine_has_a_profile(self):
        for m in machine.MACHINES.values():
            self.assertTrue(machine.profile(m).is_file(), m.name)

    def test_the_iommus(self):
        self.assertIn("intel-iommu,intremap=on,eim=on,aw-bits=48",
                      values(argv("vtd"), "-device"))
        self.assertIn("iommu=smmuv3", values(argv("smmuv3"), "-M")[0])

    def test_the_iommu_comes_before_the_devices_behind_it(self):
        devices = values(argv("vtd"), "-device")
        self.assertLess(devices.index("intel-iommu,intremap=on,eim=on,aw-bits=48"),
                        devices.index("iommulab-dma"))

    def test_channels(self):
        words = argv("vtd")
        self.assertIn("iommulab-port,console=console,result=result",
                      values(words, "-device"))
        stock = argv("vtd", port=False)
        self.assertNotIn("iommulab-port", " ".join(stock))
        self.assertEqual(values(stock, "-chardev"),
                         ["file,id=serial,path=console.log"])

    def test_the_job_goes_to_the_port(self):
        words = argv("vtd", job="a=b:1,c:2 d=e")
        self.assertIn("iommulab-port,console=console,result=result,"
                      "job=a=b:1,,c:2 d=e", values(words, "-device"))

    def test_the_users_options_come_last(self):
        self.assertEqual(argv("vtd", extra=("-S",))[-1], "-S")

    def test_modes_differ_and_are_complete(self):
        m = machine.MACHINES["vtd"]
        lines = {mode: machine.kernel_cmdline(m, mode)
                 for mode in machine.MODES}
        self.assertEqual(len(set(lines.values())), 3)
        self.assertIn("iommu.strict=0", lines["lazy"].split())
        self.assertIn("iommu.strict=1", lines["strict"].split())
        self.assertIn("iommu.passthrough=1", lines["passthrough"].split())

    def test_a_panic_ends_the_guest(self):
        for m in machine.MACHINES.values():
            line = machine.kernel_cmdline(m, "strict").split()
            self.assertIn("panic=-1", line)
            self.assertIn("oops=panic", line)

    def test_warnings_reach_the_console(self):
        for m in machine.MACHINES.values():
            line = machine.kernel_cmdline(m, "strict").split()
            self.assertGreater(line.index("loglevel=5"),
                               line.index("quiet"))

    def test_the_users_kernel_options_come_last(self):
        m = machine.MACHINES["smmuv3"]
        line = machine.kernel_cmdline(m, "strict", ("a=b",))
        self.assertEqual(line.split()[-1], "a=b")

    def test_quoted_for_a_shell(self):
        line = machine.shell(["a b", "$c"], "/x y")
        self.assertEqual(shlex.split(line), [
            "mkdir", "-p", "/x y", "&&", "cd", "/x y", "&&", "a b", "$c"])


class Port(unittest.TestCase):
    def test_found_by_its_name_in_the_binary(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "qemu"
            path.write_bytes(b"\x7fELF\0iommulab-port\0")
            self.assertTrue(machine.has_port(path))
            path.write_bytes(b"\x7fELF\0pci-testdev\0")
            self.assertFalse(machine.has_port(path))


if __name__ == "__main__":
    unittest.main()
