# SPDX-License-Identifier: GPL-2.0-or-later
"""The upstream sources: which ones, from where, verified how.

Debian's packages are fetched through apt with a configuration of our own, so
that apt verifies them with Debian's keyring and the host's set-up is left
alone. They stay in the cache; apt is only asked when the cache lacks one.
"""

import configparser
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from . import host, paths, proc
from .errors import EnvError, UsageError

SUITE = "trixie"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
RECORD = paths.BUILD / "sources.json"
DOWNLOAD_GB = 0.5       # the packages, twice, and apt's lists


class Package(NamedTuple):
    """A Debian package to fetch, and how its main file is named."""
    package: str
    pattern: str
    accept: str         # versions that this tree is made for
    apt: tuple


PACKAGES = {
    "qemu": Package("qemu", r"qemu_(.+)\.dsc", "10.0.",
                    ("source", "--download-only", "--only-source")),
    "linux": Package("linux-source-6.12", r"linux-source-6\.12_(.+)_all\.deb",
                     "6.12.", ("download",)),
    "meson": Package("meson", r"meson_(.+)_all\.deb", "1.", ("download",)),
}


class Source(NamedTuple):
    name: str
    version: str
    id: str             # sha256 of the content
    kind: str           # dsc, deb, tarball, tree
    path: str
    note: str = ""


def load():
    """What was chosen last, or None. Cheap: nothing is verified again."""
    try:
        record = json.loads(RECORD.read_text(encoding="utf-8"))
        chosen = {name: Source(**fields) for name, fields in record.items()}
    except (FileNotFoundError, ValueError, TypeError):
        return None
    if set(chosen) != set(PACKAGES):
        return None
    return chosen if all(os.path.exists(s.path)
                         for s in chosen.values()) else None


def choose(progress, qemu_src=None, linux_src=None, mirror=None):
    """Settle on one source per name, fetching what is lacking; record it."""
    chosen = {}
    for name, path in (("qemu", qemu_src), ("linux", linux_src)):
        if path:
            chosen[name] = local(name, Path(path))
    lacking = []
    with proc.locked(paths.SOURCES / ".lock", progress):
        for name in PACKAGES:
            if name not in chosen:
                chosen[name] = cached(name)
                if chosen[name] is None:
                    lacking.append(name)
        if lacking:
            fetch(lacking, progress, mirror)
            chosen.update({name: cached(name) for name in lacking})
    for source in chosen.values():
        if source.note:
            progress.note(source.note)
    paths.BUILD.mkdir(exist_ok=True)
    new = RECORD.with_suffix(".new")
    new.write_text(json.dumps({n: s._asdict() for n, s in chosen.items()},
                              indent=1), encoding="utf-8")
    new.replace(RECORD)
    return chosen


def upstream():
    """The file UPSTREAM: ({name: version}, {file: sha256})."""
    pins = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    pins.optionxform = str
    pins.read(paths.ROOT / "UPSTREAM", encoding="utf-8")
    return dict(pins["versions"]), dict(pins["sha256"])


# --- packages in the cache --------------------------------------------------

def cached(name):
    """The newest usable copy of a package in the cache, or None."""
    package = PACKAGES[name]
    found = []
    for path in paths.SOURCES.glob("*"):
        match = re.fullmatch(package.pattern, path.name)
        if match and upstream_version(match[1]).startswith(package.accept):
            found.append((match[1], path))
    while found:
        newest = found[0]
        for other in found[1:]:
            if newer(other[0], newest[0]):
                newest = other
        found.remove(newest)
        sums = recorded_sums()
        if all(verified(path, sums) for path in parts(newest[1])):
            return package_source(name, *newest)
    return None


def package_source(name, version, path):
    tested = upstream()[0][name]
    note = ""
    if version != re.sub(r"^\d+:", "", tested):
        note = (f"{name} {version} is used; this tree was last tested "
                f"with {tested}")
    return Source(name, version, sha256(path), path.suffix[1:], str(path),
                  note)


def parts(path):
    """The files that make up a package: those a .dsc lists, and itself."""
    if path.suffix != ".dsc":
        return [path]
    return [path, *(path.with_name(name) for name in dsc_files(path))]


def dsc_files(path):
    """{file: sha256} as a .dsc lists them."""
    text = path.read_text(encoding="utf-8", errors="replace")
    section = re.search(r"^Checksums-Sha256:\s*\n((?: .*\n)+)", text, re.M)
    if not section:
        raise UsageError(f"{path} lists no SHA-256 checksums")
    rows = (line.split() for line in section[1].splitlines())
    return {row[2]: row[0] for row in rows}


def recorded_sums():
    try:
        lines = (paths.SOURCES / "SHA256SUMS").read_text().splitlines()
    except FileNotFoundError:
        return {}
    return dict(reversed(line.split("  ", 1)) for line in lines)


def verified(path, sums):
    """Present, and what apt verified when it was fetched."""
    return path.exists() and sums.get(path.name) == sha256(path)


def newer(a, b):
    return subprocess.run(["dpkg", "--compare-versions", a, "gt", b],
                          check=False).returncode == 0


def upstream_version(version):
    return re.sub(r"^\d+:", "", version)


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- fetching ---------------------------------------------------------------

def fetch(names, progress, mirror=None):
    """Download packages through apt into the cache."""
    host.check_space(paths.CACHE, DOWNLOAD_GB)
    mirror = mirror or host_mirror()
    env = private_apt(mirror)
    conf = env["APT_CONFIG"]
    progress.step(f"fetching {', '.join(names)} from {mirror}")
    apt(["update"], env, mirror,
        f"APT_CONFIG={conf} apt-get update && ./iommulab build")
    partial = Path(tempfile.mkdtemp(prefix="partial-", dir=paths.SOURCES))
    try:
        for name in names:
            package = PACKAGES[name]
            apt([*package.apt, package.package], env, mirror,
                "./iommulab build", cwd=partial)
        pinned = upstream()[1]
        sums = recorded_sums()
        for path in sorted(partial.iterdir()):
            sums[path.name] = digest = sha256(path)
            if pinned.get(path.name, digest) != digest:
                raise EnvError(f"{path.name} from {mirror} is not the file "
                               "UPSTREAM names. Use another mirror: "
                               "./iommulab build --mirror URL")
        for name in names:
            check_fetched(name, partial)
        for path in partial.iterdir():
            path.replace(paths.SOURCES / path.name)
        (paths.SOURCES / "SHA256SUMS").write_text(
            "".join(f"{sums[n]}  {n}\n" for n in sorted(sums)))
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(Path(conf).parent / "lists", ignore_errors=True)
    progress.done(f"fetched {', '.join(names)}")


def check_fetched(name, folder):
    package = PACKAGES[name]
    versions = [m[1] for p in folder.iterdir()
                if (m := re.fullmatch(package.pattern, p.name))]
    if not any(upstream_version(v).startswith(package.accept)
               for v in versions):
        raise EnvError(
            f"{SUITE} has {package.package} {' '.join(versions) or 'not'}; "
            f"{package.accept}x is needed. Run: ./iommulab build "
            f"--{name}-src PATH")


def host_mirror():
    """The mirror of the host's own Debian entry."""
    codename = host.os_release()["codename"]
    listing = subprocess.run(["apt-get", "update", "--print-uris"],
                             capture_output=True, text=True, check=False)
    for uri, suite in re.findall(r"^'(\S+)/dists/(\S+)/InRelease'",
                                 listing.stdout, re.M):
        if suite in (codename, "stable", "oldstable", "testing"):
            return uri
    raise EnvError("apt knows no Debian mirror on this host. Name one: "
                   "./iommulab build --mirror URL")


def private_apt(mirror):
    """An apt set-up apart from the host's; the environment that selects it.

    Only the host's ways of reaching mirrors (proxies, time-outs) are kept.
    """
    if not KEYRING.exists():
        raise EnvError("Debian's keyring is missing. Run: "
                       "apt-get install -y debian-archive-keyring")
    base = paths.CACHE / "apt"
    for folder in ("lists/partial", "cache/archives/partial", "parts"):
        (base / folder).mkdir(parents=True, exist_ok=True)
    (base / "sources.list").write_text("".join(
        f"{kind} [signed-by={KEYRING}] {mirror} {SUITE} main\n"
        for kind in ("deb", "deb-src")))
    acquire = [line for line in
               proc.output(["apt-config", "dump", "Acquire"]).splitlines()
               if "::IndexTargets" not in line and "::Languages" not in line]
    (base / "apt.conf").write_text("\n".join([
        *acquire,
        'Acquire::Languages "none";',
        'Acquire::GzipIndexes "true";',
        'Acquire::Retries "1";',
        'APT::Update::Error-Mode "any";',
        'APT::Architectures "";',
        'APT::Sandbox::User "";',
        'APT::Get::AllowUnauthenticated "false";',
        'Dir::Etc::main "/dev/null";',
        f'Dir::Etc::parts "{base}/parts";',
        f'Dir::Etc::sourcelist "{base}/sources.list";',
        'Dir::Etc::sourceparts "/dev/null";',
        f'Dir::State::lists "{base}/lists";',
        f'Dir::Cache "{base}/cache";', ""]))
    return dict(os.environ, APT_CONFIG=str(base / "apt.conf"), LC_ALL="C")


def apt(args, env, mirror, line, **kwargs):
    log = paths.LOGS / "fetch.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["apt-get", "-q", *args], env=env, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, **kwargs)
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"$ apt-get {' '.join(args)}\n{done.stdout}")
    if done.returncode:
        said = [s for s in done.stdout.splitlines()
                if s.startswith(("E:", "W:", "Err:"))]
        raise EnvError("\n".join(
            [f"the Debian mirror {mirror} does not give what is needed:",
             *("  " + s for s in said[:6] or done.stdout.splitlines()[-3:]),
             f"When the network is there, run: {line}",
             "With another mirror, run: ./iommulab build --mirror URL"]))


# --- a tree, tarball or .dsc of the user's ----------------------------------

def local(name, path):
    path = path.resolve()
    option = f"--{name}-src {path}"
    if not path.exists():
        raise UsageError(f"{option}: no such file or folder")
    if path.is_dir():
        version = tree_version(name, path)
        if not version:
            raise UsageError(f"{option} is not a {name} source tree")
        kind, ident = "tree", tree_id(path)
    elif path.suffix == ".dsc":
        kind, ident = "dsc", sha256(path)
        version = path.stem.partition("_")[2]
        for file, digest in dsc_files(path).items():
            part = path.with_name(file)
            if not part.exists() or sha256(part) != digest:
                raise UsageError(f"{option}: {file} is missing or is not "
                                 "what the .dsc says")
    elif re.search(r"\.(tar|tar\.\w+|tgz)$", path.name):
        kind, ident = "tarball", sha256(path)
        match = re.search(r"\d+\.\d+(\.\d+)?", path.name)
        version = match[0] if match else "unknown"
    else:
        raise UsageError(f"{option} is not a folder, a tarball or a .dsc")
    note = f"{name} {version} from {path} is used"
    if not version.startswith(PACKAGES[name].accept):
        note += f"; this tree is made for {PACKAGES[name].accept}x"
    return Source(name, version, ident, kind, str(path), note)


def tree_version(name, tree):
    """The version a source tree gives itself, or None if it is not one."""
    try:
        if name == "qemu":
            if not (tree / "include/qemu/osdep.h").exists():
                return None
            return (tree / "VERSION").read_text().strip()
        makefile = (tree / "Makefile").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    numbers = dict(re.findall(
        r"^(VERSION|PATCHLEVEL|SUBLEVEL) *= *(\d+)", makefile, re.M))
    if len(numbers) < 3 or not (tree / "Kbuild").exists():
        return None
    return "{VERSION}.{PATCHLEVEL}.{SUBLEVEL}".format(**numbers)


def tree_files(tree):
    """Files of a tree, relative: what git tracks, or all there are."""
    if (tree / ".git").exists():
        listed = proc.output(["git", "-C", tree, "ls-files", "-z", "--cached",
                              "--others", "--exclude-standard"])
        names = listed.rstrip("\0").split("\0")
    else:
        names = (os.path.relpath(os.path.join(folder, name), tree)
                 for folder, _, files in os.walk(tree) for name in files)
    return sorted(n for n in names if os.path.lexists(tree / n)
                  and not (tree / n).is_dir())


def tree_id(tree):
    digest = hashlib.sha256()
    for name in tree_files(tree):
        path = tree / name
        digest.update(name.encode(errors="surrogateescape") + b"\0")
        if path.is_symlink():
            digest.update(os.fsencode(os.readlink(path)))
        else:
            digest.update(b"x" if os.access(path, os.X_OK) else b"-")
            digest.update(bytes.fromhex(sha256(path)))
    return digest.hexdigest()


# --- unpacking --------------------------------------------------------------

def unpack(source, dest):
    """Make `dest` the source's tree, with Debian's patches if it has any."""
    log = paths.LOGS / f"unpack-{source.name}.log"
    what = f"unpacking {source.path}"
    dest.parent.mkdir(parents=True, exist_ok=True)
    if source.kind == "tree":
        tree = Path(source.path)
        for name in tree_files(tree):
            (dest / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / name, dest / name, follow_symlinks=False)
    elif source.kind == "dsc":
        proc.logged(what, ["dpkg-source", "--no-check", "-x", source.path,
                           dest], log)
        shutil.rmtree(dest / ".pc", ignore_errors=True)
    else:
        with tempfile.TemporaryDirectory(dir=dest.parent) as temp:
            tarball = source.path
            if source.kind == "deb":
                proc.logged(what, ["dpkg-deb", "-x", source.path, temp], log)
                tarball = next(Path(temp).glob("usr/src/*.tar.*"))
            dest.mkdir()
            proc.logged(what, ["tar", "-xf", tarball, "-C", dest,
                               "--strip-components=1", "--no-same-owner"], log)


def meson(source):
    """The private Meson's Python folder, unpacked into the cache."""
    folder = paths.CACHE / "tools" / f"meson-{source.id[:16]}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        temp = Path(tempfile.mkdtemp(prefix="meson-", dir=folder.parent))
        proc.output(["dpkg-deb", "-x", source.path, temp])
        try:
            temp.rename(folder)
        except OSError:         # another process was first
            shutil.rmtree(temp)
    return folder / "usr/lib/python3/dist-packages"
