"""A `millrace serve` of a test's own: started, waited for, read and stopped."""

import re
import subprocess
import threading
import time
import urllib.error
import urllib.request

START_SECONDS_MAX = 120


class ServerProcess:
    """Serves on a port that the system chooses. A context manager; stop() is SIGTERM and must end in exit code 0."""

    def __init__(self, binary, *flags):
        self._process = subprocess.Popen([binary, "serve", "--port", "0", *map(str, flags)],
                                         stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.log = []
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        try:
            self.url = self._wait_until_ready()
        except Exception:
            self._process.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def pid(self):
        return self._process.pid

    def stop(self):
        if self._process.poll() is None:
            self._process.terminate()
        try:
            code = self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        self._reader.join(timeout=10)
        self._process.stderr.close()
        if code != 0:
            raise AssertionError(f"the server ended with {code}:\n{''.join(self.log[-20:])}")

    def get(self, path, key=None):
        request = urllib.request.Request(self.url + path)
        if key:
            request.add_header("Authorization", f"Bearer {key}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode()

    def metric(self, name):
        """The sum of a metric's samples over its labels."""
        samples = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", self.get("/metrics"), re.MULTILINE)
        if not samples:
            raise AssertionError(f"/metrics has no {name}")
        return sum(map(float, samples))

    def wait_until_metric(self, name, value, seconds_max=30):
        deadline = time.monotonic() + seconds_max
        while (now := self.metric(name)) != value:
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} is {now} after {seconds_max} s, not {value}")
            time.sleep(0.02)

    def _read_log(self):
        for line in self._process.stderr:
            self.log.append(line)

    def _wait_until_ready(self):
        deadline = time.monotonic() + START_SECONDS_MAX
        url = None
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                self._reader.join(timeout=10)
                raise AssertionError(f"the server ended with {self._process.returncode}:\n{''.join(self.log)}")
            for line in self.log:
                if found := re.search(r"http://[^\s,]+:\d+", line):
                    url = found.group(0)
            if url and self._is_ready(url):
                return url
            time.sleep(0.02)
        raise AssertionError(f"the server was not ready after {START_SECONDS_MAX} s:\n{''.join(self.log)}")

    @staticmethod
    def _is_ready(url):
        try:
            with urllib.request.urlopen(url + "/readyz", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False
