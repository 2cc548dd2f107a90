# SPDX-License-Identifier: GPL-2.0-or-later
"""Run other programs, and stop them with all they started."""

import collections
import contextlib
import fcntl
import os
import shlex
import signal
import subprocess

from .errors import BuildError, EnvError

TAIL = 20


def output(argv, **kwargs):
    """Its standard output; BuildError, with what it said, if it fails."""
    done = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, errors="replace",
                          check=False, **kwargs)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise _failure(f"`{shlex.join(map(str, argv))}` failed", said[-TAIL:])
    return done.stdout


def logged(what, argv, log, on_line=None, **kwargs):
    """Run a build step; all it prints goes to the file `log`.

    A failure carries the log's end. An interruption stops the step's whole
    process group; what it had built stays, and the next run resumes.
    """
    tail = collections.deque(maxlen=TAIL)
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "a", buffering=1, encoding="utf-8") as file:
        file.write(f"$ {shlex.join(map(str, argv))}\n")
        child = subprocess.Popen([str(a) for a in argv], text=True,
                                 stdin=subprocess.DEVNULL, errors="replace",
                                 stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT,
                                 start_new_session=True, **kwargs)
        try:
            for line in child.stdout:
                file.write(line)
                tail.append(line.rstrip("\n"))
                if on_line:
                    on_line(line)
            status = child.wait()
        except BaseException:
            stop(child)
            raise
    if status:
        raise _failure(f"{what} failed; the log is {log}", tail)


def stop(child):
    """End the process group of `child`, gently first."""
    for sig, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, sig)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(patience)
            return


def _failure(what, tail):
    text = "\n".join([what + ":", *("  " + line for line in tail)])
    if any("No space left on device" in line for line in tail):
        return EnvError(text + "\nFree some disk space and run the same "
                        "command again; it resumes.")
    return BuildError(text)


@contextlib.contextmanager
def locked(path, progress):
    """Hold the lock file `path`: one writer at a time in build/ or the cache."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.note(f"waiting for another iommulab that holds {path}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
