# SPDX-License-Identifier: GPL-2.0-or-later
"""The format of experiments, and what is said of a wrong one."""

import configparser
import tempfile
import unittest
from pathlib import Path

from lab import ROOT

from iommulab import experiment, metric, sweep
from iommulab.errors import UsageError

HEAD = 'title = "t"\nwork = "S4"\n'
RUN = ('[run]\nmachine = "smmuv3"\nmode = "strict"\ncpus = [2, 4]\n'
       'cmdq = ["cas", "add"]\n')


def load(text, short=False):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.toml"
        path.write_text(text)
        return experiment.load(str(path), short)


class Experiments(unittest.TestCase):
    """Those of the repository."""

    def test_all_are_sound(self):
        self.assertIn("garry-2020", experiment.names())
        for name in experiment.names():
            with self.subTest(name):
                found = experiment.load(name)
                self.assertTrue(found.points)
                self.assertTrue(
                    (experiment.FOLDER / name / "README.md").is_file())
                for figure in found.figures:
                    self.assertTrue(found.find(figure.cell))

    def test_every_folder_is_one(self):
        self.assertEqual(sorted(p.name for p in experiment.FOLDER.iterdir()
                                if p.is_dir()), experiment.names())

    def test_spread_threads(self):
        """The same machine as S4's, with nothing changed but where its CPUs
        are."""
        def groups(path):
            ini = configparser.ConfigParser()
            ini.read(path)
            return {g: dict(ini[g]) for g in ini.sections()
                    if g not in ("profile", "topology")}
        self.assertEqual(
            groups(experiment.FOLDER / "chen-2021/spread.ini"),
            groups(ROOT / "profiles/kunpeng920.ini"))

    def test_garry(self):
        found = experiment.load("garry-2020")
        self.assertEqual(len(found.points), 21)
        self.assertEqual(found.points[0].args.profile,
                         ROOT / "profiles" / "kunpeng920.ini")
        self.assertEqual(len(found.figures), 28)
        self.assertLess(len(experiment.load("garry-2020", True).points), 7)


class Points(unittest.TestCase):
    def test_axes(self):
        found = load(HEAD + RUN)
        self.assertEqual([(p.options["cpus"], p.options["cmdq"])
                          for p in found.points],
                         [(2, "cas"), (2, "add"), (4, "cas"), (4, "add")])
        self.assertEqual(found.points[1].args.cmdq, ["add"])

    def test_an_algorithm_without_effect_makes_no_cell(self):
        found = load(HEAD + RUN.replace('"strict"',
                                        '["strict", "passthrough"]'))
        self.assertEqual(len(found.points), 6)
        self.assertNotIn("cmdq", found.find({"mode": "passthrough"}).options)

    def test_matrix(self):
        found = load(HEAD + RUN + '[[matrix]]\nname = "a"\n'
                     'append = ["x=1", "y=2"]\n'
                     '[[matrix]]\nname = "b"\ncpus = 8\n')
        self.assertEqual(len(found.points), 6)
        self.assertEqual(found.points[0].args.append, ["x=1", "y=2"])
        self.assertEqual(found.find({"matrix": "b", "cmdq": "add"})
                         .options["cpus"], 8)

    def test_knobs_are_axes(self):
        found = load(HEAD + RUN + "knob = {depth = [1, 50], size = 512}\n")
        self.assertEqual(len(found.points), 8)
        self.assertEqual(found.points[0].args.knob, ["depth=1", "size=512"])

    def test_short(self):
        text = HEAD + RUN + '[short]\ncpus = 2\nduration = "2ms"\n' \
            '[[published]]\ncell = {cmdq = "cas"}\nalong = "cpus"\n' \
            'values = {2 = 10, 4 = 5}\nsource = "s"\n'
        self.assertEqual(len(load(text).figures), 2)
        short = load(text, True)
        self.assertEqual(len(short.points), 2)
        self.assertEqual([f.value for f in short.figures], [10])
        self.assertEqual(short.points[0].args.duration, 0.002)

    def test_figures(self):
        found = load(HEAD + RUN + '[[published]]\n'
                     'cell = {cmdq = "add", cpus = 4}\n'
                     'relative-to = {cmdq = "cas", cpus = 4}\n'
                     'value = 1.5\nsource = "s"\nfitted = true\n')
        [figure] = found.figures
        self.assertEqual(figure.name, "cmdq=add 4 CPUs / cas")
        self.assertTrue(figure.fitted)
        self.assertIs(found.find(figure.cell), found.points[3])


class Labels(unittest.TestCase):
    def labels(self, *options):
        points = [{"options": o} for o in options]
        keys = sweep.varied(points)
        return [sweep.label(p, keys) for p in points]

    def test_what_differs(self):
        self.assertEqual(self.labels(
            {"machine": "vtd", "cpus": 1, "iova": "a"},
            {"machine": "vtd", "cpus": 2, "iova": "b"},
            {"machine": "vtd", "cpus": 2}),
            ["1 CPU iova=a", "2 CPUs iova=b", "2 CPUs"])

    def test_a_name_says_what_it_stands_for(self):
        self.assertEqual(self.labels(
            {"cpus": 1, "iova": "a", "matrix": "old"},
            {"cpus": 2, "iova": "a", "matrix": "old"},
            {"cpus": 2, "iova": "b", "matrix": "new"}),
            ["1 CPU old", "2 CPUs old", "2 CPUs new"])


class Wrong(unittest.TestCase):
    def bad(self, text, says):
        with self.assertRaises(UsageError) as caught:
            load(text)
        message = str(caught.exception)
        self.assertIn(says, message)
        self.assertIn("x.toml: ", message)
        self.assertNotIn("\n", message)

    def published(self, text, says):
        self.bad(HEAD + RUN + "[[published]]\n" + text, says)

    def test_no_toml(self):
        self.bad("title = \n", "Invalid value")

    def test_missing_parts(self):
        self.bad(RUN, "'title' is missing")
        self.bad(HEAD, "'run' is missing")
        self.bad(HEAD + '[run]\nmachine = "vtd"\nmode = "lazy"\n',
                 "[run]: 'cpus' is missing")

    def test_unknown_words(self):
        self.bad(HEAD + RUN + "color = 1\n", "unknown key 'color'")
        self.bad(HEAD + RUN + 'qemu = "x"\n', "unknown key 'qemu'")
        self.bad(HEAD + "x = 1\n" + RUN, "unknown key 'x'")
        self.bad(HEAD.replace("S4", "S9") + RUN, "'S9' is not one of S0")

    def test_values_that_run_refuses(self):
        self.bad(HEAD + RUN.replace("4]", "400]"),
                 "[run]: argument --cpus: '400' is not a number of CPUs")
        self.bad(HEAD + RUN.replace('"add"', '"sub"'),
                 "unknown cmdq mode 'sub'")
        self.bad(HEAD + RUN + "knob = {width = 1}\n",
                 "unknown knob 'width=1'")
        self.bad(HEAD + RUN.replace("smmuv3", "vtd"),
                 "the machine vtd has none")
        self.bad(HEAD + RUN + "[[matrix]]\ncpus = 0\n",
                 "[[matrix]] 1: argument --cpus")
        self.bad(HEAD + RUN.replace("[2, 4]", '"2,4"'), "write a list")

    def test_types(self):
        self.bad(HEAD + RUN + "duration = 1.5\n", "duration: not a string")
        self.bad(HEAD + RUN + "append = 1\n", "append: not a string")
        self.bad(HEAD + RUN + 'knob = "depth=1"\n', "knob: not a table")
        self.bad(HEAD + RUN + "[matrix]\ncpus = 1\n", "[[matrix]]")
        self.bad("title = 1\nwork = 'S0'\n" + RUN, "title: not a string")

    def test_published(self):
        self.published("cell = {cpus = 2}\nvalue = 1\n", "'source'")
        self.published('cell = {cpus = 2}\nvalue = 1\nsource = "s"\n',
                       "2 cells have cpus = 2; they differ in cmdq")
        self.published('cell = {cpus = 3}\nvalue = 1\nsource = "s"\n',
                       "no cell has cpus = 3")
        one = 'cell = {cpus = 2, cmdq = "add"}\nsource = "s"\n'
        self.published(one, "give a 'value'")
        self.published(one + "value = -1\n", "-1 is not a number above 0")
        self.published(one + 'value = "1"\n', "is not a number")
        self.published(one + 'value = 1\nmetric = "a b"\n',
                       "'a b' is not a path")
        self.published(one + 'value = 1\nmetric = "time.sleep"\n',
                       "'time.sleep' is unknown")
        self.published(one + 'along = "cpus"\nvalue = 1\n', "needs 'values'")
        self.published(one + "value = 1\nrelative-to = {}\n",
                       "relative-to: not a table")

    def test_no_such_experiment(self):
        with self.assertRaisesRegex(UsageError, "garry-2020"):
            experiment.load("no-such")

    def test_no_short_form(self):
        with self.assertRaisesRegex(UsageError, "no .short. form"):
            load(HEAD + RUN, True)


class Metric(unittest.TestCase):
    vcpu = {"total_ps": 100, "poll_ps": 25, "exec_ps": 75}
    cell = {"ops_per_cpu_per_s": 5.0,
            "latency_ns": {"map": {"mean": 7}},
            "samples": [{"vcpus": [vcpu, vcpu],
                         "counters": {"q": {"cas": 6, "ok": 3, "no": 0}}}]}

    def test_values(self):
        for text, value in (("ops_per_cpu_per_s", 5.0),
                            ("latency_ns.map.mean", 7),
                            ("counters.q.cas / counters.q.ok", 2),
                            ("counters.q.cas+counters.q.ok", 9),
                            ("time.poll + time.exec", 1.0)):
            self.assertEqual(metric.value(self.cell, text), value)

    def test_missing(self):
        for text in ("counters.q.other", "counters.q.cas / counters.q.no",
                     "latency_ns.unmap.mean", "machine"):
            with self.assertRaises(metric.Missing):
                metric.value({**self.cell, "machine": "vtd"}, text)
        with self.assertRaises(metric.Missing):
            metric.value({"samples": [{}]}, "time.poll")


if __name__ == "__main__":
    unittest.main()
