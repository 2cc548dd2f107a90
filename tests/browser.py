# SPDX-License-Identifier: GPL-2.0-or-later
"""A page as headless Chromium sees it, over its debugging pipe."""

import base64
import json
import os
import select
import shutil
import struct
import subprocess
import time
import zlib

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class Page:
    """What came of opening a file at some width."""
    width = 0           # of the content, in CSS pixels
    requests = ()       # URLs, without the file's own
    errors = ()         # texts of the browser's log
    painted = 0.0       # share of the screenshot that is not flat


class Browser:
    def __init__(self, profile):
        to_read, self.out = os.pipe()
        self.back, to_write = os.pipe()

        def pipes():
            # Chromium expects them as 3 and 4.
            for fd, number in ((os.dup(to_read), 3), (os.dup(to_write), 4)):
                os.dup2(fd, number)

        self.process = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu",
             "--disable-background-networking", "--disable-component-update",
             "--remote-debugging-pipe", f"--user-data-dir={profile}",
             "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=pipes,
            process_group=0)
        os.close(to_read)
        os.close(to_write)
        self.buffer = b""
        self.number = 0
        self.events = []

    def close(self):
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except (OSError, AssertionError, subprocess.TimeoutExpired):
            os.killpg(self.process.pid, 9)
            self.process.wait()
        os.close(self.out)
        os.close(self.back)

    def message(self, patience=30):
        end = time.monotonic() + patience
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            ready, *_ = select.select([self.back], [], [], max(0, left))
            assert ready, "the browser does not answer"
            data = os.read(self.back, 1 << 16)
            assert data, "the browser is gone"
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(line)

    def call(self, method, session=None, **params):
        self.number += 1
        text = {"id": self.number, "method": method, "params": params}
        if session:
            text["sessionId"] = session
        os.write(self.out, json.dumps(text).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def open(self, path, width, dark=False):
        url = f"file://{path}"
        target = self.call("Target.createTarget",
                           url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target,
                            flatten=True)["sessionId"]
        for name in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{name}.enable", session)
        self.call("Emulation.setDeviceMetricsOverride", session, width=width,
                  height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", session, features=[
            {"name": "prefers-color-scheme",
             "value": "dark" if dark else "light"}])
        self.events.clear()
        self.call("Page.navigate", session, url=url)
        while not any(e.get("method") == "Page.loadEventFired"
                      for e in self.events):
            self.events.append(self.message())
        page = Page()
        page.width = self.call("Page.getLayoutMetrics",
                               session)["cssContentSize"]["width"]
        page.shot = base64.b64decode(
            self.call("Page.captureScreenshot", session)["data"])
        page.painted = painted(page.shot)
        page.requests = [
            e["params"]["request"]["url"] for e in self.events
            if e.get("method") == "Network.requestWillBeSent"
            and e["params"]["request"]["url"] != url]
        page.errors = [
            json.dumps(e["params"]) for e in self.events
            if e.get("method") in ("Log.entryAdded",
                                   "Runtime.exceptionThrown")]
        self.call("Target.closeTarget", targetId=target)
        return page


def painted(png):
    """The share of a PNG's filtered bytes that differ from the pixel beside
    or above them: 0 where it is of one colour."""
    data, at = b"", 8
    while at < len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        if kind == b"IDAT":
            data += png[at + 8:at + 8 + length]
        at += 12 + length
    raw = zlib.decompress(data)
    return 1 - raw.count(0) / len(raw)
