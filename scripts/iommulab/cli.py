# SPDX-License-Identifier: GPL-2.0-or-later
"""iommulab's command line: one parser, a module for each verb."""

import argparse
import os
import signal
import sys

from . import boot, build, compare, completion, doctor, locks, modes, patches
from . import report, run, suites, sweep
from .errors import ENVIRONMENT, INTERRUPTED, USAGE, LabError

VERBS = (run, sweep, compare, report, locks, build, boot, modes, doctor,
         suites, patches, completion)

EXIT_CODES = """\
exit status:
  0  everything went well
  1  a test failed, a patch does not apply, or 'compare --fail-on' found what
     it looks for
  2  wrong usage
  3  a build failed
  4  skipped
  5  the guest panicked, oopsed, or ended without its result
  6  the guest did not finish in time
  7  the host lacks something: a package, the network, disk space
"""


def parser():
    top = argparse.ArgumentParser(
        prog="iommulab",
        description="Measure DMA-mapping contention in emulated machines "
                    "with an Intel VT-d or Arm SMMUv3 IOMMU.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    subparsers = top.add_subparsers(dest="verb", metavar="VERB",
                                    title="verbs")
    for module in VERBS:
        module.add_parser(subparsers)
    return top


def main(argv=None):
    top = parser()
    args = top.parse_args(argv)
    if not args.verb:
        top.print_help(sys.stderr)
        return USAGE
    # kill(1) and a closed terminal end a run as cleanly as Ctrl-C does.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return args.func(args)
    except LabError as err:
        print(f"iommulab: {err}", file=sys.stderr)
        return err.code
    except KeyboardInterrupt:
        print("iommulab: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED
    except OSError as err:
        print(f"iommulab: {err.filename or 'the host'}: {err.strerror}",
              file=sys.stderr)
        return ENVIRONMENT
