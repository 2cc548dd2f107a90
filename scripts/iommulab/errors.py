# SPDX-License-Identifier: GPL-2.0-or-later
"""What can go wrong, each with the exit code that iommulab(1) documents."""

OK = 0
FAILED = 1
USAGE = 2
BUILD = 3
SKIPPED = 4
GUEST = 5
TIMEOUT = 6
ENVIRONMENT = 7
INTERRUPTED = 130


class LabError(Exception):
    """One clear sentence for the user; `code` becomes the exit status."""
    code = FAILED


class UsageError(LabError):
    code = USAGE


class BuildError(LabError):
    code = BUILD


class GuestError(LabError):
    """The guest panicked, oopsed, or ended without its result."""
    code = GUEST


class GuestTimeout(LabError):
    code = TIMEOUT


class EnvError(LabError):
    """Something the host lacks: a package, the mirror, disk space."""
    code = ENVIRONMENT
