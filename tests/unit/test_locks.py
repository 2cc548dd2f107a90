# SPDX-License-Identifier: GPL-2.0-or-later
"""What `iommulab locks` makes of a result channel's lines."""

import unittest

from iommulab import locks
from iommulab.errors import UsageError

MAP = """\
0000000000020000 D __per_cpu_end
ffff800080000000 T _text
ffff800080001000 T take
ffff800080002000 t give
ffff800080100000 D the_lock
ffff800080100100 D other
ffff800080200000 B _end
"""


def stats(transfers, wait, transfer, cas=0, ok=0):
    return {"transfers": transfers, "wait_ps": wait, "transfer_ps": transfer,
            "max_wait_ps": wait, "cas": cas, "cas_ok": ok}


def line(ram, addr, *numbers):
    return {"iommulab": "line", "region": 1, "ram": ram, "addr": addr,
            "loads": 0, "stores": 0, "atomics": 9, **stats(*numbers)}


def site(ram, pc, op, *numbers):
    return {"iommulab": "site", "region": 1, "ram": ram, "pc": pc, "op": op,
            **stats(*numbers)}


LINES = [
    {"iommulab": "coherence", "region": 1, **stats(20, 1500, 500)},
    line("0x40", "0xffff800080100000", 10, 1000, 300, 8, 2),
    line("0x80", "0xffff000000000080", 6, 400, 100),
    line("0xc0", "0xffff0000000000c0", 4, 100, 100),
    site("0x40", "0xffff800080001010", "atomic", 6, 600, 200, 6, 1),
    site("0x40", "0xffff800080001020", "atomic", 2, 300, 50, 2, 1),
    site("0x40", "0xffff800080002004", "load", 2, 100, 50),
    site("0xc0", "0xffff800080002008", "store", 4, 100, 100),
    {"iommulab": "name", "region": 1, "addr": "0xffff000000000090",
     "len": 4, "virtual": True, "name": "llq"},
    {"iommulab": "name", "region": 1, "addr": "0xffff000000000000",
     "len": 192, "virtual": True, "name": "cmdq"},
]


class Analyse(unittest.TestCase):
    def setUp(self):
        self.data = locks.analyse(LINES, 1, locks.Symbols(MAP))

    def test_names(self):
        """A symbol, the shortest name, else who writes it."""
        self.assertEqual([l["name"] for l in self.data["lines"]],
                         ["the_lock", "llq", "~give"])

    def test_how_much_has_a_name(self):
        self.assertAlmostEqual(self.data["named"], 1800 / 2000)

    def test_lines_of_a_ring(self):
        """What is not shown line by line has the name of what it is in."""
        rest = [{"iommulab": "page", "region": 1, "ram": "0x5000",
                 "addr": "0xffff000000005000", "lines": 64,
                 **stats(64, 600, 200)},
                {"iommulab": "page", "region": 1, "ram": "0x6000",
                 "addr": "0xffff000000006000", "lines": 64,
                 **stats(64, 100, 100)},
                {"iommulab": "page", "region": 1, "ram": "0x9000",
                 "addr": "0xffff000000009000", "lines": 2,
                 **stats(2, 10, 10)},
                {"iommulab": "name", "region": 1,
                 "addr": "0xffff000000005000", "len": 8192, "virtual": True,
                 "name": "ring"},
                {"iommulab": "name", "region": 1,
                 "addr": "0xffff000000009000", "len": 64, "virtual": True,
                 "name": "a part only"},
                site("0x5040", "0xffff800080001010", "store", 1, 10, 5),
                site("0x9000", "0xffff800080001010", "store", 1, 10, 5)]
        data = locks.analyse([*LINES, *rest], 1, locks.Symbols(MAP))
        found = {l["name"]: (l["others"], l["wait_ps"], l["max_wait_ps"])
                 for l in data["lines"] if "others" in l}
        self.assertEqual(found, {"ring": (128, 700, 600),
                                 locks.UNKNOWN: (2, 10, 10)})
        self.assertAlmostEqual(data["named"], (1800 + 1000) / 2000)
        self.assertEqual({f["line"] for f in data["functions"]
                          if f["type"] == "store" and f["caller"] == "take"},
                         {"ring", "a part only"})

    def test_functions(self):
        first = self.data["functions"][0]
        self.assertEqual(
            (first["caller"], first["line"], first["type"],
             first["contended"], first["total_wait_ps"],
             first["max_wait_ps"], first["avg_wait_ps"], first["cas"],
             first["cas_ok"]),
            ("take", "the_lock", "atomic", 8, 900, 600, 112, 8, 2))

    def test_writers_do_not_include_readers(self):
        self.assertEqual(self.data["lines"][0]["writers"], [("take", 8)])

    def test_columns(self):
        head = locks.render(self.data, 5).splitlines()[0].split("  ")
        self.assertEqual(" ".join(w.strip() for w in head if w.strip()),
                         "contended total wait max wait avg wait type caller")

    def test_not_watched(self):
        with self.assertRaises(UsageError):
            locks.analyse([{"iommulab": "vtime", "region": 1}], 1,
                          locks.Symbols(MAP))

    def test_beyond_the_symbols(self):
        symbols = locks.Symbols(MAP)
        self.assertIsNone(symbols.name(0xffff000000000000))
        self.assertIsNone(symbols.name(0xffff800080300000))


class Physical(unittest.TestCase):
    """Names of guest physical addresses, as drivers give them."""

    def test_name(self):
        given = [{"addr": "0x40000080", "len": 64, "virtual": False,
                  "name": "cmdq.llq"},
                 {"addr": "0xffff000000000080", "len": 8, "virtual": True,
                  "name": "field"}]
        names = locks.Names(given, 0x40000000)
        self.assertEqual(names.name(0x1000, 0x80), "cmdq.llq")
        self.assertIsNone(names.name(0x1000, 0xc0))
        self.assertIsNone(names.name(0x40000080))
        # The shorter one.
        self.assertEqual(names.name(0xffff000000000080, 0x80), "field")
        self.assertIsNone(locks.Names(given).name(0x1000, 0x80))

    def test_in_the_tables(self):
        given = {"iommulab": "name", "region": 1, "addr": "0x400000c0",
                 "len": 64, "virtual": False, "name": "cmdq.llq"}
        data = locks.analyse([*LINES, given], 1, locks.Symbols(MAP),
                             0x40000000)
        self.assertIn("cmdq.llq", {l["name"] for l in data["lines"]})
        self.assertNotIn("cmdq.llq", {l["name"] for l in locks.analyse(
            [*LINES, given], 1, locks.Symbols(MAP))["lines"]})
