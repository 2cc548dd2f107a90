# SPDX-License-Identifier: GPL-2.0-or-later
"""The prepared git trees: upstream, the overlay, then each patch, a commit each.

A tree is brought up to date by rewinding to the first layer that changed.
Files whose content ends up as it was keep their time stamps, so that only what
depends on a change is rebuilt. Commit ids depend on content alone.
"""

import hashlib
import json
import os
import shutil
import subprocess

from . import paths, proc, sources
from .errors import BuildError

OVERLAY = ("accel", "configs", "hw", "include", "qapi", "tests/qtest",
           "docs/specs")
SERIES = {"qemu": ("patches/qemu/fixes", "patches/qemu/hooks"),
          "linux": ("patches/linux",)}

_ENV = {
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "iommulab developers",
    "GIT_AUTHOR_EMAIL": "iommulab@localhost.invalid",
    "GIT_AUTHOR_DATE": "2025-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "iommulab developers",
    "GIT_COMMITTER_EMAIL": "iommulab@localhost.invalid",
    "GIT_COMMITTER_DATE": "2025-01-01T00:00:00Z",
}


def git_env():
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    return {**clean, **_ENV}


def git(tree, *args, **kwargs):
    return proc.output(["git", "-c", "gc.auto=0", "-c", "core.hooksPath=/dev/null",
                        "-C", tree, *args], env=git_env(), **kwargs)


def git_status(tree, *args):
    return subprocess.run(
        ["git", "-c", "gc.auto=0", "-c", "core.hooksPath=/dev/null", "-C", tree, *args],
        env=git_env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", check=False)


def path(name):
    return paths.SRC / name


def digest(*files):
    """sha256 over the names and contents of repository files."""
    total = hashlib.sha256()
    for file in files:
        total.update(os.path.relpath(file, paths.ROOT).encode() + b"\0")
        total.update(b"x" if os.access(file, os.X_OK) else b"-")
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def overlay():
    """{path in QEMU's tree: file}, without editors' leftovers."""
    found = {}
    for top in OVERLAY:
        for folder, folders, files in os.walk(paths.ROOT / top):
            folders[:] = [f for f in folders if f != "__pycache__"]
            for name in files:
                if name.startswith(".") or name.endswith(
                        ("~", ".orig", ".rej", ".pyc", ".list")):
                    continue
                file = paths.ROOT / os.path.relpath(folder, paths.ROOT) / name
                found[str(file.relative_to(paths.ROOT))] = file
    return dict(sorted(found.items()))


def series(name):
    return [p for folder in SERIES[name]
            for p in sorted((paths.ROOT / folder).glob("*.patch"))]


def layers(name):
    """[(layer, digest)] as the tree should have them above upstream."""
    wanted = []
    if name == "qemu":
        wanted.append(("overlay", digest(*overlay().values())))
    return wanted + [(str(p.relative_to(paths.ROOT)), digest(p))
                     for p in series(name)]


# --- state ------------------------------------------------------------------

def read_state(name):
    try:
        return json.loads((path(name) / ".git/iommulab.json").read_text())
    except (FileNotFoundError, ValueError):
        return None


def write_state(tree, state):
    file = tree / ".git/iommulab.json"
    new = file.with_suffix(".new")
    new.write_text(json.dumps(state, indent=1))
    new.replace(file)


# --- bringing a tree up to date ---------------------------------------------

def upstream(name, source, progress):
    """Make sure the tree exists, with this source as its first commit."""
    tree = path(name)
    state = read_state(name)
    if state and state["source"] == source.id:
        return state
    if state:
        refuse_local_work(name, state)
    progress.step(f"preparing {name} {source.version}")
    temp = tree.with_name(name + ".new")
    shutil.rmtree(temp, ignore_errors=True)
    sources.unpack(source, temp)
    # All files are wanted, ignored ones too; one big pack, not compressed,
    # is many times faster to write.
    git(temp, "init", "-q", "-b", "prepared")
    git(temp, "-c", "core.bigFileThreshold=1", "-c", "core.compression=0",
        "add", "-f", "-A")
    git(temp, "commit", "-q", "--no-verify", "-m",
        f"{name} {source.version}\n\nsha256 {source.id}")
    commit = git(temp, "rev-parse", "HEAD").strip()
    git(temp, "tag", "upstream")
    write_state(temp, {"source": source.id, "upstream": commit, "layers": []})
    shutil.rmtree(tree, ignore_errors=True)
    temp.rename(tree)
    progress.done(f"prepared {name} {source.version} in {tree}")
    return read_state(name)


def sync(name, source, progress):
    """Bring the tree of `name` to this source, overlay and patches."""
    state = upstream(name, source, progress)
    wanted = layers(name)
    have = state["layers"]
    if [tuple(layer[:2]) for layer in have] == wanted \
            and not state.get("busy"):
        return path(name)
    tree = path(name)
    if state.get("busy"):       # interrupted in here: nothing to protect
        git_status(tree, "am", "--abort")
        (tree / ".git/index.lock").unlink(missing_ok=True)
    else:
        refuse_local_work(name, state)
    keep = 0
    while keep < min(len(have), len(wanted)) \
            and tuple(have[keep][:2]) == wanted[keep]:
        keep += 1
    tip = have[-1][2] if have else state["upstream"]
    base = have[keep - 1][2] if keep else state["upstream"]
    before = {file: (blob, mtime(tree / file))
              for file, blob in changed(tree, base, tip).items()}
    state["busy"] = True
    write_state(tree, state)
    git(tree, "reset", "-q", "--hard", base)
    state["layers"] = have[:keep]
    try:
        for layer, key in wanted[keep:]:
            apply_layer(tree, layer)
            state["layers"].append(
                [layer, key, git(tree, "rev-parse", "HEAD").strip()])
    finally:
        git_status(tree, "am", "--abort")
        tip = state["layers"][-1][2] if state["layers"] else state["upstream"]
        git(tree, "reset", "-q", "--hard", tip)
        for file, blob in changed(tree, base, tip).items():
            if file in before and before[file] == (blob, before[file][1]) \
                    and before[file][1]:
                os.utime(tree / file, ns=(before[file][1],) * 2)
        del state["busy"]
        write_state(tree, state)
    return tree


def mtime(file):
    try:
        return file.lstat().st_mtime_ns
    except FileNotFoundError:
        return 0


def changed(tree, base, tip):
    """{file: blob id at tip} of those that differ between two commits."""
    fields = git(tree, "diff-tree", "-r", "-z", "--no-renames", base,
                 tip).split("\0")
    return {file: meta.split()[3]
            for meta, file in zip(fields[0::2], fields[1::2])
            if meta.split()[4] != "D"}


def refuse_local_work(name, state):
    """Do not run over commits or edits made in a prepared tree."""
    tree = path(name)
    tip = state["layers"][-1][2] if state["layers"] else state["upstream"]
    if state.get("busy"):
        return
    if git(tree, "rev-parse", "HEAD").strip() != tip:
        raise BuildError(
            f"{tree} has commits that are not in patches/. To keep them, run: "
            "./iommulab patches refresh\nTo drop them, run: "
            f"git -C {tree} reset --hard {tip[:12]}")
    if git_status(tree, "diff-index", "--quiet", "HEAD").returncode:
        git_status(tree, "update-index", "-q", "--refresh")
        if git_status(tree, "diff-index", "--quiet", "HEAD").returncode:
            raise BuildError(
                f"{tree} has edits that are not committed. To keep them, "
                "commit them there and run: ./iommulab patches refresh\n"
                f"To drop them, run: git -C {tree} reset --hard")


def apply_layer(tree, layer):
    if layer == "overlay":
        copy_overlay(tree)
        return
    done = git_status(tree, "am", "-q", "--no-gpg-sign",
                      "--committer-date-is-author-date", paths.ROOT / layer)
    if done.returncode:
        said = "\n".join("  " + s for s in done.stdout.splitlines()[:12])
        raise BuildError(f"{layer} does not apply:\n{said}\n"
                         "To move the series, run: ./iommulab patches rebase")


def copy_overlay(tree):
    files = overlay()
    for name in files:
        if os.path.lexists(tree / name):
            raise BuildError(f"{name} is a file of QEMU's own; the overlay "
                             "holds new files only. Change it by a patch in "
                             "patches/qemu/")
    for name, file in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, tree / name)
    if files:
        git(tree, "add", "-f", "--", *files)
    git(tree, "commit", "-q", "--no-verify", "--allow-empty", "-m",
        "iommulab: overlay\n\nNew files only; patches/qemu ties them in.")
