# SPDX-License-Identifier: GPL-2.0-or-later
"""Look after the patch series: check, refresh, rebase, stat."""

import email
import email.policy
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

from . import build, host, paths, proc, sources, tree
from .errors import FAILED, OK, BuildError, UsageError
from .progress import Progress

HOOK_BUDGET = 600       # changed lines in files of QEMU's own
STATUS = ("Pending", "Submitted", "Accepted", "Backport", "Denied",
          "Inappropriate")
FIXES, HOOKS = tree.SERIES["qemu"]


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "patches", help="look after the patches to QEMU and Linux",
        description="Look after the patches to QEMU and Linux.")
    verbs = parser.add_subparsers(dest="action", metavar="ACTION",
                                  required=True)
    action = verbs.add_parser(
        "check", help="do they apply, without fuzz, and read as they should",
        description="Apply both series, without fuzz, to the sources in use "
        "or those named, and check each patch's form.")
    build.add_source_options(action)
    action.set_defaults(func=check)
    action = verbs.add_parser(
        "refresh", help="write the prepared trees' commits back to patches/",
        description="Write the commits of build/src/qemu and build/src/linux "
        "back to patches/. A commit that is not in patches/ yet becomes a "
        "hook, or a fix if it comes before a known fix or --as says so.")
    action.add_argument("--as", dest="kind", choices=("fixes", "hooks"),
                        help="where new QEMU patches go")
    action.set_defaults(func=refresh)
    action = verbs.add_parser(
        "rebase", help="try the series on another source",
        description="Apply the series for it to another QEMU or Linux source "
        "and report for each patch: clean, 3-way or failed. The tree stays in "
        "build/rebase for the work that is left.")
    action.add_argument("new", metavar="NEW",
                        help="a tree, a tarball or a .dsc")
    action.add_argument("--write", action="store_true",
                        help="if all apply, write the moved patches back")
    action.set_defaults(func=rebase)
    action = verbs.add_parser(
        "stat", help="count changed lines, against the budget",
        description="Changed lines per file of QEMU's own and per patch; hooks "
        f"may change {HOOK_BUDGET}.")
    action.add_argument("--json", action="store_true")
    action.set_defaults(func=stat)


# --- form -------------------------------------------------------------------

def relative(path):
    return str(path.relative_to(paths.ROOT))


def message(patch):
    """(headers, body down to the diffstat) of a git format-patch file."""
    mail = email.message_from_bytes(patch.read_bytes(),
                                    policy=email.policy.default)
    body = mail.get_payload(decode=True).decode("utf-8", "replace")
    return mail, re.split(r"^---$|^diff --git ", body, maxsplit=1,
                          flags=re.M)[0]


def trailers(body):
    last = body.strip().split("\n\n")[-1]
    return re.findall(r"^([A-Z][A-Za-z-]+): *(.+(?:\n[ \t]+.+)*)", last, re.M)


def numstat(patch):
    """[(added, removed, file)] by git's own reading of the patch."""
    rows = proc.output(["git", "apply", "--numstat", patch],
                       env=tree.git_env()).splitlines()
    rows = [row.split("\t", 2) for row in rows]
    return [(int(a), int(r), f) for a, r, f in rows if a != "-"]


def created(patch):
    """{file: its first added lines} of the files a patch adds."""
    found = {}
    for part in re.split(r"^diff --git ", patch.read_text(
            encoding="utf-8", errors="replace"), flags=re.M)[1:]:
        name = re.search(r"^\+\+\+ b/(.+)$", part, re.M)
        if name and re.search(r"^new file mode", part, re.M):
            found[name[1]] = re.findall(r"^\+(?!\+\+ )(.*)$", part, re.M)[:5]
    return found


def lint(patch):
    """What is wrong with a patch's form, a sentence each."""
    wrong = []
    mail, body = message(patch)
    names = dict(trailers(body))
    if not re.fullmatch(r"\d{4}-[^ ]+\.patch", patch.name):
        wrong.append("is not named NNNN-subject.patch")
    if not mail["From"] or not mail["Subject"]:
        wrong.append("is not a git patch with author and subject")
    if len(body.strip().splitlines()) <= len(names) + 1:
        wrong.append("has no body that says why")
    status = names.get("Upstream-Status", "")
    if status.split(" ")[0] not in STATUS:
        wrong.append("has no Upstream-Status: of " + ", ".join(STATUS))
    elif status.startswith("Inappropriate") and not re.search(
            r"\[[^]]+\]$", status):
        wrong.append("says Inappropriate without a [reason]")
    if "Exit" not in names:
        wrong.append("has no Exit: trailer, when it can be dropped")
    if re.search(r"^Signed-off-by:", body, re.M | re.I):
        wrong.append("has a Signed-off-by, which only a person may give")
    overlay = tree.overlay()
    for _, _, file in numstat(patch):
        if file in overlay:
            wrong.append(f"changes {file}, which is in the overlay")
    for file, head in created(patch).items():
        if relative(patch).startswith("patches/qemu"):
            wrong.append(f"adds {file}; new files belong in the overlay")
        elif not any("SPDX-License-Identifier:" in line for line in head):
            wrong.append(f"adds {file} without SPDX-License-Identifier")
    return wrong


def lint_all():
    wrong = [f"{relative(patch)} {what}" for name in tree.SERIES
             for patch in tree.series(name) for what in lint(patch)]
    for name, file in tree.overlay().items():
        head = file.read_bytes()[:2000]
        if head.strip() and b"SPDX-License-Identifier:" not in head:
            wrong.append(f"{name} has no SPDX-License-Identifier")
    used = hook_lines()
    if used > HOOK_BUDGET:
        wrong.append(f"hooks change {used} lines of QEMU's own, "
                     f"{HOOK_BUDGET} are allowed")
    return wrong


def hook_lines():
    return sum(a + r for p in sorted((paths.ROOT / HOOKS).glob("*.patch"))
               for a, r, _ in numstat(p))


# --- check ------------------------------------------------------------------

def check(args):
    progress = Progress()
    wrong = lint_all()
    chosen = {}
    for name in tree.SERIES:
        given = getattr(args, f"{name}_src")
        if given:
            chosen[name] = sources.local(name, Path(given))
    if set(chosen) != set(tree.SERIES):
        host.prepare(progress)
        chosen = build.setup(progress) | chosen
    for name in tree.SERIES:
        series = tree.series(name)
        with tempfile.TemporaryDirectory(prefix="iommulab-patches-") as temp:
            scratch = Path(temp) / name
            sketch(name, chosen[name], series, scratch, progress)
            failed = apply_all(scratch, series)
        wrong += failed
        progress.note(f"{name} {chosen[name].version}: "
                      f"{len(series) - len(failed)} of {len(series)} patches "
                      "apply without fuzz")
    for line in wrong:
        print(line)
    return FAILED if wrong else OK


def sketch(name, source, series, scratch, progress):
    """A repository with only those upstream files that the patches touch."""
    scratch.mkdir()
    tree.git(scratch, "init", "-q")
    touched = {file for patch in series for _, _, file in numstat(patch)}
    state = tree.read_state(name)
    if touched and state and state["source"] == source.id:
        extract(tree.path(name), touched, scratch)
    elif touched:
        progress.step(f"unpacking {name} {source.version}")
        unpacked = scratch.with_name("unpacked")
        sources.unpack(source, unpacked)
        for file in touched:
            if (unpacked / file).exists():
                (scratch / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(unpacked / file, scratch / file)
        shutil.rmtree(unpacked)
    tree.git(scratch, "add", "-f", "-A")
    tree.git(scratch, "commit", "-q", "--allow-empty", "-m", "upstream")


def extract(repository, files, folder):
    """Write `files` as upstream has them, leaving the repository alone."""
    there = tree.git(repository, "ls-tree", "-r", "-z", "--name-only",
                     "upstream", "--", *files).rstrip("\0").split("\0")
    index = folder / ".git/upstream.index"
    env = {**tree.git_env(), "GIT_INDEX_FILE": str(index)}
    for args in (["read-tree", "upstream"],
                 ["checkout-index", "-f", f"--prefix={folder}/", "--",
                  *filter(None, there)]):
        proc.output(["git", "-C", repository, *args], env=env)
    index.unlink()


def apply_all(scratch, series):
    """Apply each patch on those that applied; what failed, a line each."""
    failed = []
    for patch in series:
        done = tree.git_status(scratch, "am", "-q", "--no-gpg-sign", patch)
        if done.returncode:
            why = next((s for s in done.stdout.splitlines()
                        if s.startswith("error:")), "error: git am failed")
            failed.append(f"{relative(patch)} does not apply: {why[7:]}")
            tree.git_status(scratch, "am", "--abort")
    return failed


# --- refresh ----------------------------------------------------------------

def refresh(args):
    with proc.locked(paths.BUILD / ".lock", Progress()):
        for name in tree.SERIES:
            state = tree.read_state(name)
            if not state:
                continue
            folder = tree.path(name)
            if tree.git(folder, "status", "--porcelain", "-uno").strip():
                raise UsageError(f"{folder} has edits that are not committed; "
                                 "commit them there first")
            write_back(name, folder, state, args.kind)
    return OK


def write_back(name, folder, state, kind):
    """Make patches/ what the tree's commits are; the state says so after."""
    base = state["upstream"]
    result = []
    if name == "qemu":
        base = state["layers"][0][2]
        result.append(state["layers"][0])
        if tree.git_status(folder, "merge-base", "--is-ancestor", base,
                           "HEAD").returncode:
            raise UsageError(f"{folder} no longer starts with the overlay's "
                             "commit; rebase its commits on that first")
        touched = set(tree.changed(folder, base, "HEAD")) & set(tree.overlay())
        if touched:
            raise UsageError("commits change overlay files; change these in "
                             "their own place: " + " ".join(sorted(touched)))
    commits = tree.git(folder, "rev-list", "--reverse",
                       f"{base}..HEAD").split()
    groups = group(name, folder, commits, kind)
    old = {p: p.read_text(encoding="utf-8") for p in tree.series(name)}
    made = format_groups(folder, groups)
    for path in old.keys() - made.keys():
        path.unlink()
        print(f"removed {relative(path)}")
    for path, (text, commit) in made.items():
        if old.get(path) != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {relative(path)}")
        result.append([relative(path), tree.digest(path), commit])
    state["layers"] = result
    tree.write_state(folder, state)


def group(name, folder, commits, kind):
    """{series folder: its commits, in order}."""
    if name != "qemu":
        return {tree.SERIES[name][0]: commits}
    subjects = {subject(message(p)[0]): FIXES
                for p in sorted((paths.ROOT / FIXES).glob("*.patch"))}
    titles = [tree.git(folder, "log", "-1", "--format=%s", c).strip()
              for c in commits]
    fixes = max((n + 1 for n, t in enumerate(titles) if t in subjects),
                default=0)
    if kind == "fixes":
        known = {subject(message(p)[0])
                 for p in (paths.ROOT / HOOKS).glob("*.patch")}
        fixes = next((n for n, t in enumerate(titles) if t in known),
                     len(titles))
    return {FIXES: commits[:fixes], HOOKS: commits[fixes:]}


def subject(mail):
    return re.sub(r"^\[[^]]*\]\s*", "", " ".join(mail["Subject"].split()))


def format_groups(folder, groups):
    """{patch file: (its text, commit)}"""
    made = {}
    for where, commits in groups.items():
        for number, commit in enumerate(commits, 1):
            name = tree.git(folder, "log", "-1", "--format=%f", commit).strip()
            path = paths.ROOT / where / f"{number:04}-{name[:52]}.patch"
            made[path] = (format_patch(folder, commit), commit)
    return made


def format_patch(folder, commit):
    return tree.git(folder, "format-patch", "-1", "-N", "--zero-commit",
                    "--no-signature", "--stat=72", "--stdout", commit)


# --- rebase -----------------------------------------------------------------

def rebase(args):
    progress = Progress()
    new = Path(args.new)
    name = kind_of(new)
    source = sources.local(name, new)
    series = tree.series(name)
    folder = paths.BUILD / "rebase" / name
    shutil.rmtree(folder, ignore_errors=True)
    progress.step(f"unpacking {name} {source.version}")
    sources.unpack(source, folder)
    tree.git(folder, "init", "-q", "-b", "rebased")
    known = tree.path(name) / ".git/objects"
    if known.exists():      # 3-way needs the contents the patches came from
        (folder / ".git/objects/info/alternates").write_text(f"{known}\n")
    else:
        progress.note(f"{tree.path(name)} is not prepared, so nothing can be "
                      f"merged 3-way. Run: ./iommulab build {name}")
    tree.git(folder, "-c", "core.bigFileThreshold=1",
             "-c", "core.compression=0", "add", "-f", "-A")
    tree.git(folder, "commit", "-q", "--no-verify", "-m",
             f"{name} {source.version}")
    tree.git(folder, "tag", "upstream")
    failed = 0
    moved = {}
    for patch in series:
        how = apply_moved(folder, patch)
        failed += how == "failed"
        if how != "failed":
            moved[patch] = tree.git(folder, "rev-parse", "HEAD").strip()
        print(f"{how:7} {relative(patch)}")
    print(f"{len(series) - failed} of {len(series)} apply to {name} "
          f"{source.version}; the tree is {folder}")
    if failed:
        return FAILED
    if args.write:
        for patch, commit in moved.items():
            patch.write_text(format_patch(folder, commit), "utf-8")
            print(f"wrote {relative(patch)}")
    return OK


def kind_of(path):
    if not path.exists():
        raise UsageError(f"no such file or folder: {path}")
    if path.is_dir():
        for name in tree.SERIES:
            if sources.tree_version(name, path):
                return name
    for name in tree.SERIES:
        if path.name.startswith(name):
            return name
    raise UsageError(f"{path} is neither a QEMU nor a Linux source")


def apply_moved(folder, patch):
    for how, extra in (("clean", ()), ("3-way", ("-3",))):
        done = tree.git_status(folder, "am", "-q", "--no-gpg-sign",
                               "--committer-date-is-author-date", *extra,
                               patch)
        if done.returncode == 0:
            return how
        tree.git_status(folder, "am", "--abort")
    return "failed"


# --- stat -------------------------------------------------------------------

def stat(args):
    rows = []
    for name in tree.SERIES:
        for patch in tree.series(name):
            for added, removed, file in numstat(patch):
                rows.append({"patch": relative(patch), "file": file,
                             "added": added, "removed": removed})
    used = hook_lines()
    if args.json:
        json.dump({"rows": rows, "hook_lines": used, "budget": HOOK_BUDGET},
                  sys.stdout, indent=1)
        print()
    else:
        last = None
        for row in rows:
            if row["patch"] != last:
                last = row["patch"]
                print(last)
            print("  +{added:<5}-{removed:<5}{file}".format(**row))
        print(f"hooks: {used} of {HOOK_BUDGET} lines")
    return FAILED if used > HOOK_BUDGET else OK
