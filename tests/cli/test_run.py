# SPDX-License-Identifier: GPL-2.0-or-later
"""iommulab run and boot, with a stand-in for QEMU."""

import json
import shlex
import signal
import subprocess
import time
import unittest

from lab import FAKE, LabTest

from iommulab import result


class Run(LabTest):
    def run_fake(self, code, behaviour, *args):
        return self.expect(code, "run", "--machine", "vtd", "--cpus", "2",
                           *self.fake(behaviour), *args)

    def folders(self):
        return sorted(p.name for p in self.output.iterdir())

    def test_json_alone_on_stdout(self):
        done = self.run_fake(0, "ok", "--json", "-")
        data = json.loads(done.stdout)
        self.assertEqual(result.errors(data), [])
        self.assertEqual([c["mode"] for c in data["cells"]],
                         ["strict", "lazy", "passthrough"])
        self.assertGreater(data["cells"][0]["ops_per_cpu_per_s"], 0)

    def test_table(self):
        done = self.run_fake(0, "ok")
        self.assertIn("Verdict: vtd, 2 CPUs: strict runs at 25 % of lazy",
                      done.stdout)
        self.assertTrue(done.stdout.isascii())
        # The results' path is the user's and may be long.
        for line in done.stdout.splitlines()[:-1]:
            self.assertLessEqual(len(line), 72, line)

    def test_json_file(self):
        path = self.folder / "out.json"
        done = self.run_fake(0, "ok", "--json", str(path))
        self.assertEqual(result.errors(self.load(path)), [])
        self.assertEqual(len(self.load(path)["cells"]), 3)
        self.assertIn("Verdict:", done.stdout)

    def test_folder_of_a_cell(self):
        self.run_fake(0, "ok", "--mode", "lazy")
        [name] = self.folders()
        self.assertRegex(name, r"^vtd-2-lazy-mapunmap-[0-9a-f]{12}$")
        folder = self.output / name
        self.assertEqual(sorted(p.name for p in folder.iterdir()), [
            "cmd", "console.log", "qemu.log", "result.json", "result.jsonl"])
        self.assertEqual(result.errors(self.load(folder / "result.json")), [])
        self.assertIn(str(FAKE), (folder / "cmd").read_text())

    def test_same_inputs_same_folder(self):
        self.run_fake(0, "ok", "--mode", "lazy")
        first = self.folders()
        self.run_fake(0, "ok", "--mode", "lazy")
        self.assertEqual(self.folders(), first)
        (self.folder / "kernel").write_text("another kernel")
        fake = self.fake()
        (self.folder / "kernel").write_text("another kernel")
        self.expect(0, "run", "--machine", "vtd", "--cpus", "2", "--mode",
                    "lazy", *fake)
        self.assertEqual(len(self.folders()), 2)

    def test_resume(self):
        self.run_fake(0, "ok", "--mode", "lazy")
        done = self.run_fake(0, "ok", "--resume")
        self.assertEqual(done.stderr.count("from an earlier run"), 1)

    def test_resume_measures_a_damaged_cell_again(self):
        self.run_fake(0, "ok", "--mode", "lazy")
        [name] = self.folders()
        (self.output / name / "result.json").write_text('{"schema": ')
        done = self.run_fake(0, "ok", "--mode", "lazy", "--resume")
        self.assertNotIn("from an earlier run", done.stderr)
        self.assertEqual(result.errors(
            self.load(self.output / name / "result.json")), [])

    def test_progress_is_plain_lines_on_stderr(self):
        done = self.run_fake(0, "ok")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 3, done.stderr)
        self.assertTrue(all("operations per CPU per s" in l for l in lines))
        self.assertNotIn("\x1b", done.stderr)
        self.assertNotIn("\r", done.stderr)

    def test_serial_console_without_the_port(self):
        stock = self.folder / "stock-qemu"
        stock.write_text(f"#!/bin/sh\nexec {shlex.quote(str(FAKE))} \"$@\"\n")
        stock.chmod(0o755)
        done = self.expect(0, "run", "--machine", "vtd", "--cpus", "1",
                           *self.fake(), "--qemu", str(stock), "--json", "-")
        data = json.loads(done.stdout)
        self.assertEqual(len(data["cells"]), 3)
        self.assertNotIn("iommulab-port",
                         str(data["cells"][0]["provenance"]["qemu_argv"]))

    def test_dry_run_runs_nothing(self):
        done = self.run_fake(0, "panic", "--dry-run")
        self.assertFalse(self.output.exists())
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 3)
        words = shlex.split(lines[0])
        self.assertIn(str(FAKE), words)
        self.assertIn("fake=panic", words[words.index("-append") + 1])

    def test_dry_run_can_be_pasted(self):
        done = self.run_fake(0, "ok", "--dry-run", "--mode", "lazy")
        subprocess.run(["sh", "-ec", done.stdout], check=True,
                       cwd=self.folder)
        [name] = self.folders()
        self.assertTrue((self.output / name / "result.jsonl").exists())

    def test_options_reach_the_command_line(self):
        done = self.run_fake(
            0, "ok", "--dry-run", "--duration", "250ms", "--knob", "depth=8",
            "--append", 'a="1 2" b', "--qemu-opt", "-global 'x.y=a b'",
            "--mode", "passthrough")
        words = shlex.split(done.stdout)
        append = words[words.index("-append") + 1]
        [port] = [word for word in words if word.startswith("iommulab-port")]
        self.assertRegex(port, r"iommulab\.bench=\S*threads:2,,ms:250,,"
                               r"depth:8,,size:4096")
        self.assertIn("iommulab.mode=passthrough", port.split())
        self.assertTrue(append.endswith('fake=ok a="1 2" b'))
        self.assertEqual(words[-2:], ["-global", "x.y=a b"])

    def test_costs_reach_the_command_line(self):
        args = "ok", "--dry-run", "--mode", "strict"
        for machine, device, profile in (
                ("vtd", "intel-iommu", "generic-x86"),
                ("smmuv3", "arm-smmuv3", "generic-arm")):
            done = self.run_fake(0, *args, "--machine", machine,
                                 "--iommu-cost", "profile, sync=40,write=0")
            words = shlex.split(done.stdout)
            found = [word.removeprefix(f"{device}.queue-") for before, word
                     in zip(words, words[1:]) if before == "-global"
                     and word.startswith(device)]
            self.assertEqual(found[0], "timing=on")
            self.assertRegex(found[1], rf"^profile=/.*/{profile}\.ini$")
            self.assertEqual(found[2:], ["sync=40", "write=0"])
        # Off is off.
        self.assertNotIn("queue-", self.run_fake(0, *args).stdout)


class BadGuest(LabTest):
    """A guest that fails: the code, a sentence, the log and its end."""

    def bad(self, code, behaviour, says, *args):
        done = self.expect(code, "run", "--machine", "vtd", "--cpus", "1",
                           "--mode", "strict", *self.fake(behaviour),
                           "--json", "-", *args)
        self.assertIn(says, done.stderr)
        self.assertEqual(json.loads(done.stdout)["cells"], [])
        [log] = [line.split("log: ")[1] for line in done.stderr.splitlines()
                 if "  log: " in line]
        self.assertIn(str(self.output), log)
        with open(log):
            pass
        return done

    def test_panic(self):
        done = self.bad(5, "panic", "the guest panicked")
        self.assertIn("| [    0.100000] Kernel panic", done.stderr)

    def test_timeout(self):
        self.bad(6, "hang", "did not finish within 1 s", "--timeout", "1")

    def test_qemu_abort(self):
        self.bad(5, "abort", "QEMU aborted: Bad icount read")

    def test_qemu_refuses(self):
        done = self.bad(5, "refuse", "QEMU ended with status 1")
        self.assertIn("| qemu-system-fake: -nonsense", done.stderr)

    def test_early_panic_is_only_on_the_serial_console(self):
        done = self.bad(5, "early", "the guest panicked")
        self.assertIn("serial.log", done.stderr)

    def test_no_result(self):
        self.bad(5, "silent", "without its bench line")

    def test_unreadable_result(self):
        self.bad(5, "garbage", "unreadable result line")

    def test_noise_on_the_result_channel(self):
        self.bad(5, "noise", "not a result line")

    def test_absurd_result(self):
        self.bad(5, "zero", "makes no sense")

    def test_error_line(self):
        self.bad(5, "error", "no device 1b36:0005")

    def test_exit_status(self):
        self.bad(5, "status", "failed with status 3")

    def test_qemu_that_cannot_start(self):
        (self.folder / "text").write_text("iommulab-port")
        done = self.expect(7, "run", "--machine", "vtd", "--cpus", "1",
                           "--mode", "lazy", *self.fake(), "--qemu",
                           str(self.folder / "text"))
        self.assertIn("cannot start", done.stderr)

    def test_warning_keeps_the_result_and_fails(self):
        done = self.expect(5, "run", "--machine", "vtd", "--cpus", "1",
                           *self.fake("warn"))
        self.assertIn("WARNING: CPU: 0", done.stderr)
        self.assertIn("Doubtful: vtd 1 strict: WARNING", done.stdout)

    def test_one_bad_cell_leaves_the_others(self):
        path = self.folder / "out.json"
        done = self.expect(5, "run", "--machine", "vtd", "--cpus", "1",
                           *self.fake("panic-lazy"), "--json", str(path))
        self.assertEqual([c["mode"] for c in self.load(path)["cells"]],
                         ["strict", "passthrough"])
        self.assertIn("GUEST FAILED", done.stdout)
        self.assertIn("Verdict: 1 of the cells failed", done.stdout)


class Interrupt(LabTest):
    def interrupted(self, number, *args):
        """Send a signal once two of three cells are finished."""
        run = self.start("run", "--machine", "vtd", "--cpus", "1",
                         *self.fake("slow"), *args)
        self.addCleanup(run.kill)
        for _ in range(2):
            self.assertIn("operations", run.stderr.readline())
        run.send_signal(number)
        out, err = run.communicate(timeout=30)
        self.assertEqual(run.returncode, 130, err)
        return out

    def check(self, data):
        self.assertEqual(result.errors(data), [])
        self.assertEqual([c["mode"] for c in data["cells"]],
                         ["strict", "lazy"])

    def test_ctrl_c_leaves_finished_cells(self):
        path = self.folder / "out.json"
        out = self.interrupted(signal.SIGINT, "--json", str(path))
        self.check(self.load(path))
        self.assertIn("interrupted; 1 cells were not measured", out)
        names = sorted(p.name for p in self.output.iterdir())
        self.assertEqual([n.rsplit("-", 2)[0] for n in names],
                         ["vtd-1-lazy", "vtd-1-strict"])
        for name in names:
            self.assertEqual(result.errors(
                self.load(self.output / name / "result.json")), [])

    def test_ctrl_c_prints_valid_json(self):
        self.check(json.loads(self.interrupted(signal.SIGINT, "--json", "-")))

    def test_before_the_first_cell(self):
        path = self.folder / "out.json"
        path.write_text("of an earlier run")
        run = self.start("run", "--machine", "vtd", "--cpus", "1",
                         *self.fake("hang"), "--json", str(path))
        self.addCleanup(run.kill)
        while not list(self.output.glob("*.part-*")):
            # Soon, as others are still to be started then.
            time.sleep(0.001)
            self.assertIsNone(run.poll())
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=30)
        self.assertEqual(run.returncode, 130)
        self.assertEqual(self.load(path)["cells"], [])
        self.assertIn("interrupted; 3 cells", out)

    def test_sigterm_is_the_same(self):
        self.check(json.loads(self.interrupted(signal.SIGTERM,
                                               "--json", "-")))

    def test_keep(self):
        self.interrupted(signal.SIGINT, "--keep")
        self.assertEqual(sum(".part-" in p.name
                             for p in self.output.iterdir()), 1)

    def test_no_guest_is_left_behind(self):
        self.interrupted(signal.SIGINT)
        time.sleep(0.2)
        running = subprocess.run(["ps", "-eo", "args"], text=True,
                                 capture_output=True).stdout
        self.assertNotIn(str(self.folder), running)


class Boot(LabTest):
    def boot(self, code, behaviour, *args):
        return self.expect(code, "boot", "--machine", "smmuv3", "--cpus",
                           "64", *self.fake(behaviour), *args)

    def test_ready(self):
        done = self.boot(0, "ok")
        self.assertRegex(done.stdout, r"^smmuv3 with 64 CPUs: Linux "
                                      r"6\.12\.0-fake ready after \d+\.\d s$")

    def test_panic(self):
        self.assertIn("  log: ", self.boot(5, "panic").stderr)

    def test_timeout(self):
        self.assertIn("  log: ", self.boot(6, "hang", "--timeout",
                                           "1").stderr)

    def test_a_cpu_that_did_not_come_up(self):
        self.assertIn("only 63 of 64", self.boot(5, "lostcpu").stderr)

    def test_warning(self):
        self.assertIn("WARNING: CPU", self.boot(5, "warn").stdout)

    def test_dry_run(self):
        done = self.boot(0, "panic", "--dry-run")
        self.assertIn("-smp 64", done.stdout)
        self.assertFalse(self.output.exists())


if __name__ == "__main__":
    unittest.main()
