"""Headless Chromium for the tests of pages, driven over WebDriver. Needs Debian's chromium and chromium-driver."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

PATIENCE_S = 20
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the name that W3C WebDriver gives references to elements
CHROMIUM_FLAGS = [
    "--headless=new", "--window-size=1280,900", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-gpu",
    "--no-sandbox",  # the sandbox cannot start as root, and what is opened is ours
]


def wait_for(what, condition):
    """The first true value of condition(), which is asked until it has one."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain: {what}")
        time.sleep(0.03)


@contextlib.contextmanager
def running(command, **options):
    """A process with all that it starts; all are gone when the block is left, however it is left."""
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Browser:
    """One window, by the W3C WebDriver protocol."""

    def __init__(self, port):
        self.address = f"http://127.0.0.1:{port}"
        self.path = ""
        wait_for("chromedriver", self.is_up)
        options = {"args": CHROMIUM_FLAGS, "binary": shutil.which("chromium")}
        prefs = {"browser": "ALL", "performance": "ALL"}
        session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": prefs}}})
        self.path = "/session/" + session["sessionId"]
        self.requested = []  # every URL that was asked for

    @classmethod
    @contextlib.contextmanager
    def started(cls, folder):
        """With a chromedriver of its own, whose files lie in `folder`."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with running([shutil.which("chromedriver"), f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                     env={**os.environ, "TMPDIR": str(folder)}):
            yield cls(port)

    def is_up(self):
        try:
            return self.call("GET", "/status")["ready"]
        except OSError:
            return False

    def call(self, method, path, body=None):
        data = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(self.address + self.path + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.read().decode()[:600]}") from None

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": arguments})

    def find(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def type(self, selector, text):
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def click(self, selector):
        self.call("POST", f"/element/{self.find(selector)}/click")

    def text(self, selector):
        """The text of the last match; none: nothing matches."""
        return self.run("return [...document.querySelectorAll(arguments[0])].at(-1)?.textContent ?? null", selector)

    def is_shown(self, selector):
        return self.run("return document.querySelector(arguments[0]).checkVisibility()", selector)

    def take_errors(self):
        """What the console says since the last call, above the level of hints."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"}) if entry["level"] in ("SEVERE", "WARNING")]

    def take_requests(self):
        """Every address that the page has asked for."""
        for entry in self.call("POST", "/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requested.append(message["params"]["request"]["url"])
        return self.requested


def missing_programs():
    """What there is no browser without; None: nothing."""
    for program, package in (("chromium", "chromium"), ("chromedriver", "chromium-driver")):
        if not shutil.which(program):
            return f"{program} is missing: apt-get install {package}"
    return None
