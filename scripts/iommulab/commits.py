# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels of two commits, for `compare BASE..TOPIC`.

One work tree is moved from commit to commit and built in one folder for each
architecture, so that the second kernel costs what the commits between them
change. Images are kept by commit.
"""

import shutil

from . import build, host, machine, paths, proc, tree
from .errors import UsageError

FOLDER = paths.BUILD / "commits"
# What a kernel must have to be measured.
DRIVER = "drivers/misc/iommulab"


def ends(text, source):
    """The ids of the two commits of BASE..TOPIC."""
    if not source.is_dir():
        raise UsageError(f"{text}: there is no {source}; run "
                         "./iommulab build, or name a git tree by --tree")
    base, _, topic = text.partition("..")
    found = []
    for name in (base, topic.lstrip(".") or "HEAD"):
        done = tree.git_status(source, "rev-parse", "--verify", "--quiet",
                               "--end-of-options", name + "^{commit}")
        if done.returncode:
            raise UsageError(f"{text}: {source} has no commit '{name}'")
        commit = done.stdout.strip()
        if tree.git_status(source, "cat-file", "-e",
                           f"{commit}:{DRIVER}").returncode:
            raise UsageError(
                f"{text}: '{name}' has no {DRIVER}, without which nothing is "
                "measured; base it on the tree in build/src/linux")
        found.append(commit)
    return found


def place(commit):
    """The folder for a commit's images, each where a build tree has it."""
    config = tree.digest(*build.guest_files(
        "kernel-config", "common.config",
        *(f"{arch}.config" for arch in host.CROSS)))
    return FOLDER / f"{commit[:12]}-{config[:8]}"


def missing(commit, machines):
    """The architectures of these machines that it has no image of."""
    return sorted(arch for arch in {machine.MACHINES[m].arch
                                    for m in machines}
                  if not (place(commit) / build.KERNELS[arch]).is_file())


def kernels(commits, source, machines, progress):
    """Have the images of these commits for these machines."""
    host.prepare(progress)
    with proc.locked(paths.BUILD / ".lock", progress):
        for commit in commits:
            _kernels(commit, source, missing(commit, machines), progress)


def _kernels(commit, source, archs, progress):
    done = place(commit)
    for arch in archs:
        image = build.KERNELS[arch]
        work = _checkout(commit, source)
        log = paths.LOGS / f"kernel-{arch}-{commit[:12]}.log"
        folder = FOLDER / arch
        build.compile_kernel(arch, work, folder, str(work), log, progress)
        (done / image).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / "System.map", (done / image).parent)
        shutil.copy2(folder / image, done / image)
        progress.note(f"built kernel-{arch} of {commit[:12]}")


def _checkout(commit, source):
    """The work tree, at this commit."""
    work = FOLDER / "linux"
    if (work / ".git").exists() and _repository(work) != _repository(source):
        shutil.rmtree(work)
    if not (work / ".git").exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        tree.git(source, "worktree", "prune")
        tree.git(source, "worktree", "add", "-q", "--detach", work, commit)
    tree.git(work, "checkout", "-q", "--detach", "--force", commit)
    return work


def _repository(path):
    return tree.git(path, "rev-parse", "--path-format=absolute",
                    "--git-common-dir").strip()
