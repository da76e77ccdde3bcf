"""The gateway as a process of its own, and how to wait for one. Standard library only."""

import json
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import engines


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def wait_for(url, process, patience_s, what):
    deadline = time.monotonic() + patience_s
    while not answers(url):
        if process.poll() is not None:
            raise RuntimeError(f"{what} ended with {process.returncode} before it was ready")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} was not ready within {patience_s} s")
        time.sleep(0.2)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Gateway:
    """One gateway process with its usage lines in a file; a context manager. `name` is the one of its files."""

    def __init__(self, binary, words, name="gateway"):
        self.port, self.admin = free_port(), free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.lines, self.log = engines.REAL / f"{name}-usage.jsonl", engines.REAL / f"{name}.log"
        self.command = [str(binary), "serve", *map(str, words)]
        self.command += ["--listen", f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{self.admin}"]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=open(self.lines, "wb"), stderr=open(self.log, "wb"))
        try:
            wait_for(f"http://127.0.0.1:{self.admin}/readyz", self.process, 60, "the gateway")
        except RuntimeError:
            self.process.kill()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def usage(self):
        """Every usage line, complete once the gateway has stopped."""
        return [json.loads(line) for line in self.lines.read_text().splitlines() if line.startswith("{")]
