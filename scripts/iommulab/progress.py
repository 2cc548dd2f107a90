# SPDX-License-Identifier: GPL-2.0-or-later
"""Tell the user what is going on, on stderr and nowhere else.

A terminal gets one line that is redrawn: a bar, the running cells and the
time left. Anything else gets one plain line per finished step.
"""

import os
import sys
import time

BAR_WIDTH = 20


def duration(seconds):
    """12 s, 3:05, 1:02:03"""
    seconds = int(seconds + 0.5)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60}:{seconds % 60:02}"
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


class Progress:
    def __init__(self, stream=None, clock=time.monotonic):
        self.stream = stream or sys.stderr
        self.clock = clock
        self.live = (self.stream.isatty()
                     and os.environ.get("TERM", "dumb") != "dumb")
        self.colour = self.live and not os.environ.get("NO_COLOR")
        self.text = ""
        self.total = 0
        self.finished = 0
        self.weight = 0         # of all steps, and of those finished
        self.weighed = 0
        self.start = clock()

    def step(self, text):
        """Something begins that may take a while."""
        self.text = text
        if self.live:
            self.tick()
        elif not self.total:
            self._line(text)

    def done(self, text, weight=1):
        """It ended well. Inside a counted phase this is one of the total."""
        self._finish(text, "", weight)

    def failed(self, text, weight=1):
        self._finish(text, "31", weight)

    def note(self, text):
        self._line(text)
        self.tick()

    def count(self, total, weight=None):
        """Begin a phase of `total` steps, which gives a time left. `weight`
        is the sum of theirs, if they are not equal."""
        self.total = total
        self.finished = 0
        self.weight = total if weight is None else weight
        self.weighed = 0
        self.start = self.clock()

    def end(self):
        """The counted phase is over; leave the terminal's line clean."""
        self._erase()
        self.total = 0
        self.text = ""

    def left(self):
        """Estimated seconds left, or None before the first step is done."""
        if not self.weighed:
            return None
        spent = self.clock() - self.start
        return spent / self.weighed * (self.weight - self.weighed)

    def tick(self):
        """Redraw the terminal's line; call it as often as wanted."""
        if not self.live or not self.text:
            return
        line = self.text
        if self.total:
            full = BAR_WIDTH * self.finished // self.total
            left = self.left()
            line = "[{}{}] {}/{}  {}  {}".format(
                "#" * full, "." * (BAR_WIDTH - full), self.finished,
                self.total,
                "" if left is None else duration(left) + " left", line)
        self._erase()
        self.stream.write(line[:self._columns() - 1])
        self.stream.flush()

    def _finish(self, text, colour, weight):
        if self.total:
            self.finished += 1
            self.weighed += weight
            text = f"[{self.finished}/{self.total}] {text}"
        if colour and self.colour:
            text = f"\x1b[{colour}m{text}\x1b[0m"
        self._line(text)
        if self.total:
            self.tick()
        else:
            self.text = ""

    def _line(self, text):
        self._erase()
        self.stream.write(text + "\n")
        self.stream.flush()

    def _erase(self):
        if self.live:
            self.stream.write("\r\x1b[K")
            self.stream.flush()

    def _columns(self):
        try:
            return os.get_terminal_size(self.stream.fileno()).columns or 80
        except OSError:
            return 80
