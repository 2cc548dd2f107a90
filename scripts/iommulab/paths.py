# SPDX-License-Identifier: GPL-2.0-or-later
"""Where things are."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
SRC = BUILD / "src"             # prepared git trees
OUT = BUILD / "out"             # links to the artefacts in use
LOGS = BUILD / "logs"
CACHE = Path(os.environ.get("IOMMULAB_CACHE")
             or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
             .expanduser() / "iommulab").absolute()
SOURCES = CACHE / "sources"     # downloads
ARTEFACTS = CACHE / "artefacts"


def existing(path):
    """`path` or its nearest parent that exists."""
    while not path.exists():
        path = path.parent
    return path
