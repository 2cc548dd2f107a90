# SPDX-License-Identifier: GPL-2.0-or-later
"""iommulab boot: boot one machine to the guest's ready marker."""

import shutil

from . import guest, machine, options
from .errors import OK, GuestError
from .progress import Progress


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "boot", help="boot one machine and print the seconds it took",
        description="Boot one machine until the guest says it is ready, and "
                    "print the seconds of host time that took.")
    parser.add_argument(
        "--machine", metavar="NAME", default="vtd",
        type=options.one_of(machine.MACHINES, "machine"),
        help="one of: " + ", ".join(machine.MACHINES) + " (default: vtd)")
    parser.add_argument(
        "--cpus", metavar="N", default=1, type=options.cpus,
        help="number of CPUs, 1 to 128 (default: 1)")
    parser.add_argument(
        "--mode", metavar="NAME", default="strict",
        type=options.one_of(machine.MODES, "mode"),
        help="one of: " + ", ".join(machine.MODES) + " (default: strict)")
    options.add_common(parser)
    parser.set_defaults(func=main)


def main(args):
    progress = Progress()
    m = machine.MACHINES[args.machine]
    files = options.files(args, [m], progress)[m.name]
    port = machine.has_port(files.qemu)
    cmdline = machine.kernel_cmdline(
        m, args.mode, ("iommulab.job=ready", *args.append))
    argv = machine.argv(m, args.cpus, files, cmdline, port,
                        options.clock(args, m, files.qemu),
                        extra=options.extra(args, m))
    folder = options.output(args) / f"boot-{m.name}-{args.cpus}-{args.mode}"
    if args.dry_run:
        print(machine.shell(argv, folder))
        return OK
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "cmd").write_text(machine.shell(argv, folder) + "\n")
    what = f"{m.name} with {args.cpus} CPU{'s' if args.cpus > 1 else ''}"
    progress.step(f"booting {what}")
    outcome = guest.run(argv, folder,
                        args.timeout or guest.default_timeout(args.cpus),
                        "ready")
    ready = outcome.line("ready")
    if ready.get("cpus") != args.cpus:
        raise GuestError(f"only {ready.get('cpus')} of {args.cpus} CPUs came "
                         f"up\n  log: {folder / machine.CONSOLE}")
    progress.end()
    print(f"{what}: Linux {ready.get('kernel')} ready after "
          f"{outcome.ready or outcome.seconds:.1f} s")
    for finding in outcome.findings:
        print(f"the log has: {finding.kind}: {finding.text}")
    if outcome.findings:
        print(f"log: {folder / machine.CONSOLE}")
        return GuestError.code
    if not args.keep and port:
        (folder / machine.SERIAL).unlink(missing_ok=True)
    return OK
