# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the artefacts, each kept in the cache under a hash of its inputs.

An artefact is looked up before anything is unpacked, so that a fresh clone of
the same sources reuses it. When it has to be built, the prepared tree is
brought up to date and QEMU's ninja or the kernel's make does the rest.
"""

import errno
import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path

from . import host, paths, proc, sources, tree
from .errors import BuildError, EnvError, UsageError
from .progress import Progress

RECIPE = 1              # raise it when what an artefact folder holds changes
KEEP = 6                # versions of each artefact left in the cache

# What a build takes, in GB, with a margin.
BUILD_GB = {"src/qemu": 1.0, "src/linux": 3.6, "qemu": 0.4,
            "linux-x86_64": 0.4, "linux-arm64": 0.4,
            **{f"linux-{a}-{d}": 1.2 for a in ("x86_64", "arm64")
               for d in ("kasan", "kcsan")}}
ARTEFACTS_GB = 0.5

QEMU_BINARIES = ("qemu-system-x86_64", "qemu-system-aarch64")
# QOM's checked casts are made each time a vCPU gets its turn: 4 % of a run.
QEMU_CONFIGURE = (
    "--target-list=x86_64-softmmu,aarch64-softmmu",
    "--without-default-features", "--without-default-devices",
    "--with-devices-x86_64=iommulab", "--with-devices-aarch64=iommulab",
    "--disable-tools", "--disable-docs",
    "--disable-install-blobs", "--disable-debug-info", "--disable-download",
    "--disable-werror", "--disable-qom-cast-debug", "--enable-system",
    "--enable-tcg", "--enable-plugins", "--enable-capstone",
    "--enable-fdt=system", "--enable-pixman", "--enable-slirp",
    "--enable-trace-backends=log,simple",
    "--firmwarepath=" + ":".join(map(str, host.FIRMWARE_DIRS)))

KERNELS = {"x86_64": "arch/x86/boot/bzImage", "arm64": "arch/arm64/boot/Image"}
KBUILD_ENV = {"KBUILD_BUILD_TIMESTAMP": "2025-01-01", "KBUILD_BUILD_VERSION":
              "1", "KBUILD_BUILD_USER": "iommulab",
              "KBUILD_BUILD_HOST": "iommulab"}

IGNORED_ENV = ("ARCH", "CC", "CFLAGS", "CPPFLAGS", "CROSS_COMPILE", "CXX",
               "HOSTCC", "HOSTCFLAGS", "KAFLAGS", "KCFLAGS", "KCPPFLAGS", "LD",
               "LDFLAGS", "LOCALVERSION", "MAKEFLAGS", "MFLAGS", "PKG_CONFIG")
INIT_CFLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-pthread", "-static",
               "-s")
INIT_SOURCES = ("init.c", "clocks.c", "algorithms.c", "side.c")
INIT_HEADERS = ("init.h", "clocks.h", "algorithms.h", "side.h")

NAMES = ("qemu", "qtests", "kernel-x86_64", "kernel-arm64",
         "initramfs-x86_64", "initramfs-arm64")

# Kernels for tests/debug-kernels, built only when named.
DEBUG = ("kasan", "kcsan")
DEBUG_NAMES = tuple(f"kernel-{a}-{d}" for d in DEBUG for a in KERNELS)

# Files of the artefacts by the name artefact() gives them.
FILES = {
    **{b: ("qemu", "bin/" + b) for b in QEMU_BINARIES},
    "trace-events-all": ("qemu", "share/trace-events-all"),
    "qtests": ("qtests", "."),
    **{f"kernel-{a}": (f"kernel-{a}", Path(i).name)
       for a, i in KERNELS.items()},
    **{f"vmlinux-{a}": (f"kernel-{a}", "vmlinux") for a in KERNELS},
    **{f"config-{a}": (f"kernel-{a}", "config") for a in KERNELS},
    **{f"initramfs-{a}": (f"initramfs-{a}", "initramfs.cpio")
       for a in KERNELS},
    **{name: (name, Path(KERNELS[name.split("-")[1]]).name)
       for name in DEBUG_NAMES},
}


# --- for the other modules --------------------------------------------------

def ensure(names, progress, options=None):
    """Have these artefacts in build/out, building what is not cached."""
    unknown = sorted(set(names) - set(NAMES + DEBUG_NAMES))
    if unknown:
        raise UsageError(f"no artefact {', '.join(unknown)}; there are "
                         + " ".join(NAMES + DEBUG_NAMES))
    try:
        host.prepare(progress)
        if options is None and use_cached(names):
            return
        with proc.locked(paths.BUILD / ".lock", progress):
            chosen = setup(progress, options)
            check_space([n for n in names if not cached(n, chosen).is_dir()])
            for name in names:
                provide(name, chosen, progress)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise EnvError(
                f"no disk space left: {error.filename or paths.BUILD}. Free "
                "some and run: ./iommulab build") from error
        raise


def artefact(name):
    """The file that ensure() has put in place."""
    if name not in FILES:
        raise UsageError(f"no artefact {name}; there are " + " ".join(FILES))
    folder, file = FILES[name]
    path = paths.OUT / folder / file
    if not path.exists():
        raise BuildError(f"{name} is not built. Run: ./iommulab build "
                         f"{folder}")
    return path


def firmware_dirs():
    return [d for d in host.FIRMWARE_DIRS if d.is_dir()]


def provenance():
    """What decides the artefacts in use; from their manifests."""
    result = {"sources": {}, "artefacts": {}, "config": {}}
    for name in NAMES:
        try:
            text = (paths.OUT / name / "manifest.json").read_text()
        except FileNotFoundError:
            continue
        manifest = json.loads(text)
        result["artefacts"][name] = manifest["hash"]
        result["sources"].update(manifest["sources"])
        if "config" in manifest:
            result["config"][name.partition("-")[2]] = manifest["config"]
    return result


# --- inputs -----------------------------------------------------------------

def inputs(name, chosen):
    """All that decides the content of an artefact, by component."""
    kind, _, arch = name.partition("-")
    result = {"artefact": name, "recipe": RECIPE, "host": host.arch()}
    if kind in ("qemu", "qtests"):
        result |= {
            "source": chosen["qemu"].id,
            "patches": tree.digest(*tree.series("qemu")),
            "overlay": tree.digest(*qemu_overlay(tests=kind == "qtests")),
            "configure": QEMU_CONFIGURE,
            "toolchain": toolchain(host.CROSS[host.arch()]),
            "libraries": host.pkgconfig_versions(),
        }
        if kind == "qtests":
            result["list"] = tree.digest(qtest_list_file())
    elif kind == "kernel":
        arch, *debug = arch.split("-")
        result |= {
            "source": chosen["linux"].id,
            "patches": tree.digest(*tree.series("linux")),
            "config": tree.digest(*guest_files(
                "kernel-config", "common.config", f"{arch}.config",
                *(f"debug-{name}.config" for name in debug))),
            "make": KBUILD_ENV,
            "toolchain": toolchain(host.CROSS[arch]),
        }
    else:
        result |= {
            "files": tree.digest(*guest_files(*INIT_SOURCES, *INIT_HEADERS,
                                              "mkinitramfs")),
            "patches": tree.digest(*tree.series("linux")),
            "cflags": INIT_CFLAGS,
            "toolchain": toolchain(host.CROSS[arch]),
        }
    return result


def content_hash(name, chosen):
    text = json.dumps(inputs(name, chosen), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def qemu_overlay(tests):
    """Overlay files QEMU's binaries depend on; with `tests`, all of them."""
    return [file for name, file in tree.overlay().items()
            if tests or not name.startswith(("tests/", "docs/"))]


@functools.cache
def toolchain(prefix):
    return [proc.output([prefix + "gcc", "-dumpfullversion"]).strip(),
            proc.output([prefix + "ld", "--version"]).splitlines()[0]]


def guest_files(*names):
    files = [paths.ROOT / "guest" / name for name in names]
    for file in files:
        if not file.exists():
            raise BuildError(f"{file} is missing")
    return files


def qtest_list_file():
    return paths.ROOT / "tests/qtest/suite.list"


def qtest_list():
    """[(architecture, test)] of tests/qtest/suite.list."""
    lines = qtest_list_file().read_text(encoding="utf-8").splitlines()
    rows = [line.partition("#")[0].split() for line in lines]
    return [tuple(row) for row in rows if row]


# --- looking up and keeping -------------------------------------------------

def use_cached(names):
    """Link what is in the cache, if that is all; no need to wait for a lock."""
    chosen = sources.load()
    folders = {n: cached(n, chosen) for n in names} if chosen else {}
    if not chosen or not all(f.is_dir() for f in folders.values()):
        return False
    for name, folder in folders.items():
        use(folder, name)
    return True


def setup(progress, options=None):
    """The sources to use: as chosen before, or as the options say."""
    if options is None:
        chosen = sources.load()
        if chosen:
            return chosen
        options = {}
    return sources.choose(progress, **options)


def provide(name, chosen, progress):
    """Link build/out/`name` to its folder in the cache; build it if needed."""
    for _ in range(3):
        folder = cached(name, chosen)
        if not folder.is_dir():
            if not make(name, folder, chosen, progress):
                continue
            prune(name)
        use(folder, name)
        return
    raise BuildError(f"inputs of {name} keep changing while it is built. "
                     f"Run: ./iommulab build {name}")


def use(folder, name):
    os.utime(folder)            # pruned last
    link(folder, paths.OUT / name)


def cached(name, chosen):
    """The artefact's folder in the cache, there or not."""
    return paths.ARTEFACTS / f"{name}-{content_hash(name, chosen)}"


def check_space(names):
    """EnvError if there is no room to build these."""
    if names:
        host.check_space(paths.CACHE, ARTEFACTS_GB)
        host.check_space(paths.BUILD, space(names))


def space(names):
    """GB that building these will take in build/, beyond what is there."""
    folders = {"src/qemu" if n in ("qemu", "qtests") else "src/linux"
               for n in names}
    folders |= {str(build_dir(n).relative_to(paths.BUILD)) for n in names}
    return 0.5 + sum(gb for folder, gb in BUILD_GB.items() if folder in folders
                     and not (paths.BUILD / folder).exists())


def build_dir(name):
    kind, _, arch = name.partition("-")
    if kind == "kernel":
        return paths.BUILD / f"linux-{arch}"
    return paths.BUILD / ("qemu" if kind == "qtests" else kind)


def make(name, folder, chosen, progress):
    """Build into `folder`; False if the inputs changed meanwhile."""
    kind, _, arch = name.partition("-")
    log = paths.LOGS / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("")
    start = time.monotonic()
    progress.step(f"building {name}")
    paths.ARTEFACTS.mkdir(parents=True, exist_ok=True)
    temp = Path(tempfile.mkdtemp(prefix=".new-", dir=paths.ARTEFACTS))
    try:
        manifest = {"artefact": name, "hash": folder.name[-16:], "sources": {},
                    "inputs": inputs(name, chosen)}
        if kind == "qemu":
            make_qemu(temp, chosen, log, progress)
        elif kind == "qtests":
            make_qtests(temp, chosen, log, progress)
        elif kind == "kernel":
            make_kernel(arch, temp, chosen, log, progress)
            manifest["config"] = sources.sha256(temp / "config")
        else:
            make_initramfs(arch, temp, chosen, log, progress)
        source = {"qemu": "qemu", "qtests": "qemu",
                  "kernel": "linux"}.get(kind)
        if source:
            manifest["sources"][source] = {
                "version": chosen[source].version, "sha256": chosen[source].id}
        if cached(name, chosen) != folder:
            # Keeping it would file a build of the new inputs under the old.
            progress.note(f"inputs of {name} changed while it was built")
            return False
        (temp / "manifest.json").write_text(json.dumps(manifest, indent=1))
        temp.chmod(0o755)
        try:
            temp.rename(folder)
        except OSError:         # another clone was first
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(temp, ignore_errors=True)
    progress.done(f"built {name} in {time.monotonic() - start:.0f} s")
    return True


def prune(name):
    versions = [d for d in paths.ARTEFACTS.iterdir()
                if re.fullmatch(re.escape(name) + "-[0-9a-f]{16}", d.name)]
    versions.sort(key=lambda d: d.stat().st_mtime, reverse=True)
    killed = [d for d in paths.ARTEFACTS.glob(".new-*")
              if d.stat().st_mtime < time.time() - 86400]
    for old in versions[KEEP:] + killed:
        shutil.rmtree(old, ignore_errors=True)


def link(target, name):
    if name.is_symlink() and os.readlink(name) == str(target):
        return
    name.parent.mkdir(parents=True, exist_ok=True)
    new = name.with_name(name.name + ".new")
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.replace(name)


# --- recipes ----------------------------------------------------------------

def ccache(compiler):
    return f"ccache {compiler}" if shutil.which("ccache") else compiler


def build_env(**extra):
    """The environment of a build step.

    What would change its result unnoticed is left out. The paths of this
    clone must not keep ccache from hitting. Asking the compiler for what a
    file depends on, and not the preprocessor first, makes a miss a fifth
    cheaper.
    """
    kept = {k: v for k, v in os.environ.items() if k not in IGNORED_ENV
            and not k.startswith(("KBUILD_", "KCONFIG_"))}
    return {**kept, "LC_ALL": "C", "CCACHE_BASEDIR": str(paths.ROOT),
            "CCACHE_NOHASHDIR": "1", "CCACHE_DEPEND": "1", **extra}


def fresh_dir(folder, stamp):
    """A build folder made for another source or set-up starts anew."""
    file = folder / "iommulab.stamp"
    if file.exists() and file.read_text() == stamp:
        return False
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return True


def qemu_tree(chosen, log, progress):
    """QEMU's tree in step with the overlay, and its configured build folder."""
    source = tree.sync("qemu", chosen["qemu"], progress)
    label = f"iommulab-{content_hash('qemu', chosen)[:8]}"
    name_version(source, label)
    folder = build_dir("qemu")
    env = build_env(PYTHONPATH=str(sources.meson(chosen["meson"])))
    configure = [source / "configure", f"--python={sys.executable}",
                 f"--cc={ccache('gcc')}", *QEMU_CONFIGURE]
    stamp = shlex.join(map(str, [*configure, chosen["qemu"].id,
                                 chosen["meson"].id,
                                 *toolchain(host.CROSS[host.arch()])]))
    if fresh_dir(folder, stamp):
        progress.step("configuring qemu")
        proc.logged("QEMU's configure", configure, log, cwd=folder, env=env)
        keep_werror_off(folder)
        (folder / "iommulab.stamp").write_text(stamp)
    return folder, env


def keep_werror_off(folder):
    """In a git tree configure turns werror on. --disable-werror overrides that
    only until Meson regenerates, and then every file is compiled anew."""
    cross = folder / "config-meson.cross"
    stat = cross.stat()
    cross.write_text(cross.read_text().replace("werror = true\n", ""))
    os.utime(cross, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def name_version(source, label):
    """QEMU's version string is `git describe`; a tag gives it without a
    reconfiguration at every change."""
    version = (source / "VERSION").read_text().strip()
    tag = f"v{version}-{label}"
    tags = tree.git(source, "tag", "--list", "v*").split()
    if tags == [tag] and not tree.git_status(
            source, "describe", "--exact-match", "--match", tag).returncode:
        return
    for old in tags:
        tree.git(source, "tag", "-d", old)
    tree.git(source, "tag", "-a", "-m", label, tag)


def ninja(what, folder, env, log, progress, *targets):
    def on_line(line):
        count = re.match(r"\[(\d+/\d+)\]", line)
        if count and getattr(progress, "live", False):
            progress.step(f"building {what} {count[1]}")
    proc.logged(f"building {what}",
                ["ninja", "-C", folder, f"-j{host.jobs()}", *targets], log,
                on_line, env=env)


def make_qemu(out, chosen, log, progress):
    folder, env = qemu_tree(chosen, log, progress)
    ninja("qemu", folder, env, log, progress, *QEMU_BINARIES,
          "trace/trace-events-all")
    (out / "bin").mkdir()
    (out / "share").mkdir()
    for binary in QEMU_BINARIES:
        shutil.copy2(folder / binary, out / "bin")
    shutil.copy2(folder / "trace/trace-events-all", out / "share")


def make_qtests(out, chosen, log, progress):
    folder, env = qemu_tree(chosen, log, progress)
    tests = sorted({test for _, test in qtest_list()})
    ninja("qtests", folder, env, log, progress,
          *(f"tests/qtest/{test}" for test in tests))
    for test in tests:
        shutil.copy2(folder / "tests/qtest" / test, out)
    shutil.copy2(qtest_list_file(), out)


def make_kernel(which, out, chosen, log, progress):
    """`which` is ARCH or ARCH-DEBUG."""
    arch, *debug = which.split("-")
    source = tree.sync("linux", chosen["linux"], progress)
    folder = build_dir(f"kernel-{which}")
    compile_kernel(arch, source, folder, chosen["linux"].id, log, progress,
                   *debug)
    shutil.copy2(folder / KERNELS[arch], out)
    shutil.copy2(folder / "vmlinux", out)
    shutil.copy2(folder / "System.map", out)
    shutil.copy2(folder / ".config", out / "config")


def compile_kernel(arch, source, folder, origin, log, progress, *debug):
    """The image of the tree `source` in `folder`, which starts anew if it was
    made for a tree of another origin or by another compiler."""
    which = "-".join((arch, *debug))
    prefix = host.CROSS[arch]
    stamp = shlex.join([origin, *toolchain(prefix)])
    if fresh_dir(folder, stamp):
        (folder / "iommulab.stamp").write_text(stamp)
    env = build_env(CROSS_COMPILE=prefix, CC=ccache(prefix + "gcc"),
                    **KBUILD_ENV)
    proc.logged(f"the configuration of kernel-{which}",
                [paths.ROOT / "guest/kernel-config", source, folder, arch,
                 *debug], log, env=env)
    progress.step(f"building kernel-{which}")
    image = KERNELS[arch]
    seen = [0]

    def on_line(_line):
        seen[0] += 1
        if getattr(progress, "live", False) and seen[0] % 10 == 0:
            progress.step(f"building kernel-{which}, {seen[0]} steps")
    proc.logged(f"building kernel-{which}",
                ["make", "-C", source, f"O={folder}", f"ARCH={arch}",
                 f"CROSS_COMPILE={prefix}", f"CC={env['CC']}",
                 f"HOSTCC={ccache('gcc')}", f"-j{host.jobs()}",
                 Path(image).name], log, on_line, env=env)


def make_initramfs(arch, out, chosen, log, progress):
    source = tree.sync("linux", chosen["linux"], progress)
    with tempfile.TemporaryDirectory(prefix="iommulab-init-") as temp:
        init = Path(temp) / "init"
        header = Path(temp) / "include/linux/iommulab.h"
        header.parent.mkdir(parents=True)
        shutil.copy(source / "include/uapi/linux/iommulab.h", header)
        compiler = ccache(host.CROSS[arch] + "gcc").split()
        proc.logged(f"compiling the init of {arch}",
                    [*compiler, *INIT_CFLAGS, f"-I{header.parents[1]}",
                     "-o", init, *guest_files(*INIT_SOURCES)], log,
                    env=build_env())
        proc.logged(f"packing initramfs-{arch}",
                    [sys.executable, paths.ROOT / "guest/mkinitramfs",
                     "-o", out / "initramfs.cpio", init], log)


# --- the verb ---------------------------------------------------------------

def add_parser(subparsers):
    parser = subparsers.add_parser(
        "build", help="build QEMU, the guest kernels and their tests",
        description="Build the artefacts, or take them from the cache. With "
        "no names, all of them: " + " ".join(NAMES) + ". Only when named: "
        + " ".join(DEBUG_NAMES) + ".")
    parser.add_argument("artefacts", nargs="*", metavar="ARTEFACT")
    add_source_options(parser)
    parser.add_argument("--setup-only", action="store_true",
                        help="prepare the host, sources and Meson; "
                        "build nothing (what ./configure does)")
    parser.add_argument("--dry-run", action="store_true",
                        help="say what would be built, do nothing")
    parser.add_argument("--link-in", metavar="DIR", type=Path,
                        help="put links to what was built in DIR")
    parser.add_argument("--json", action="store_true",
                        help="print what was built, and from what, as JSON")
    parser.set_defaults(func=build)


def add_source_options(parser):
    for name, what in (("qemu", "QEMU 10.0.x"), ("linux", "Linux 6.12.y")):
        parser.add_argument(f"--{name}-src", metavar="PATH",
                            help=f"use this {what} tree, tarball or .dsc "
                            "instead of Debian's; it is read now, and used "
                            "until ./configure is run again")
    parser.add_argument("--mirror", metavar="URL",
                        help="fetch from this Debian mirror, not the host's")


def source_options(args):
    """The options given, or None to keep to what was chosen before."""
    options = {"qemu_src": args.qemu_src, "linux_src": args.linux_src,
               "mirror": args.mirror}
    return options if any(options.values()) else None


def build(args):
    progress = Progress()
    options = source_options(args)
    names = [FILES[n][0] if n in FILES else n for n in args.artefacts] or NAMES
    if args.dry_run:
        return dry_run(names)
    if args.setup_only:
        host.prepare(progress)
        with proc.locked(paths.BUILD / ".lock", progress):
            chosen = setup(progress, options or {})
            setup_meson(sources.meson(chosen["meson"]))
        for source in chosen.values():
            progress.note(f"{source.name} {source.version}: {source.path}")
        return 0
    ensure(names, progress, options)
    if args.link_in:
        for file, (folder, path) in FILES.items():
            if folder in names:
                link((paths.OUT / folder / path).resolve(),
                     args.link_in / file)
    if args.json:
        print(json.dumps(provenance(), indent=1))
    return 0


def dry_run(names):
    lacking = host.missing()
    if lacking:
        print(host.user_line(lacking))
    chosen = sources.load()
    if not chosen:
        print("fetch or find in the cache: " + " ".join(sources.PACKAGES))
    for name in names:
        if chosen and not lacking:
            folder = cached(name, chosen)
            print(f"{name}: " + (f"in the cache, {folder}" if folder.is_dir()
                                 else "build"))
        else:
            print(f"{name}: build unless it is in the cache")
    return 0


def setup_meson(package):
    """Make build/ a Meson build folder, with the private Meson.

    Meson calls itself by the path it was started with, so that has to be a
    script which finds its modules alone.
    """
    script = package / "meson.py"
    if not script.exists():
        script.write_text("from mesonbuild.mesonmain import main\n"
                          "raise SystemExit(main())\n")
    args = [sys.executable, script, "setup", paths.BUILD, paths.ROOT]
    if (paths.BUILD / "meson-private/coredata.dat").exists():
        args.insert(3, "--reconfigure")
    proc.logged("setting up Meson", args, paths.LOGS / "meson.log")
