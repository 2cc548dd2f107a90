# SPDX-License-Identifier: GPL-2.0-or-later
"""Say what the host has of what a run needs, and how to get the rest."""

import json
import shutil
import sys

from . import build, host, paths, sources
from .errors import ENVIRONMENT, OK, EnvError


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "doctor", help="check that this host has what a run needs",
        description="Check that this host has what a run needs, a line each, "
        "and print the line that installs the rest. Changes nothing.")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(func=main)


def main(args):
    rows, fixes = examine()
    if args.json:
        print(json.dumps({"ok": not fixes, "checks": rows, "run": fixes},
                         indent=1))
    else:
        width = max(len(row["what"]) for row in rows)
        for row in rows:
            print(f"{row['state']:8}{row['what']:{width}}  {row['detail']}")
        for line in fixes:
            print(f"Run: {line}")
    return ENVIRONMENT if fixes else OK


def examine():
    """(rows, lines to run): every check, whatever the others found."""
    rows, fixes = [], []

    def add(state, what, detail=""):
        rows.append({"state": state, "what": what, "detail": detail})

    release = host.os_release()
    tested = release["id"] == "debian" and release["codename"] in (
        "bookworm", "trixie")
    add("ok" if tested else "note", "system", release["name"]
        + ("" if tested else "; tested are Debian 12 and 13"))
    add("ok", "python", sys.version.split()[0])
    modules = host.pkgconfig_versions()
    lacking = []
    for need in host.needs():
        there = host.present(need, modules)
        if not there:
            lacking.append(need)
        add("ok" if there else "missing", need.what, f"package {need.package}")
    if lacking:
        fixes.append(host.user_line(lacking))
    add("ok" if shutil.which("ccache") else "note", "ccache",
        "optional; makes a rebuild faster (package ccache)")
    for path, needed in ((paths.BUILD, build.space(build.NAMES)),
                         (paths.CACHE, build.ARTEFACTS_GB)):
        enough = host.free_space(path) >= needed
        add("ok" if enough else "missing", "disk space",
            f"{path}: {host.free_space(path):.1f} GB free, "
            f"{needed:.1f} GB needed")
        if not enough:
            fixes.append(f"du -sh {path}")
    check_sources(add, fixes)
    return rows, fixes


def check_sources(add, fixes):
    found = {name: sources.cached(name) for name in sources.PACKAGES}
    for name, source in found.items():
        if source:
            add("ok", f"source of {name}", f"{source.version}, in the cache")
    absent = [name for name, source in found.items() if not source]
    if not absent:
        return
    try:
        mirror = sources.host_mirror()
        add("ok", "sources to fetch",
            f"{', '.join(absent)} from {mirror} (not tried)")
    except EnvError as error:
        add("missing", "Debian mirror", str(error))
        fixes.append("./iommulab build --mirror URL")
