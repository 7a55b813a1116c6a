"""``periplus web`` as a process: its address, a browser that has entered, plain connections, and what it costs."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

from web_support import Response

PATIENCE_S = 60


class Served:
    """A server over the store of ``folder``. ``how`` is for the process."""

    def __init__(self, folder, *words, environment=None, **how):
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "PYTHONPATH", "COVERAGE_PROCESS_START")
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "periplus", "web", "--json", *map(os.fspath, words)], cwd=folder, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**kept, "HOME": os.fspath(folder), "LOGNAME": "ada", **(environment or {})}, **how,
        )  # fmt: skip
        self.pid = self.process.pid
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.communicate(timeout=PATIENCE_S)[1].decode())
        said = json.loads(line)
        self.url, self.socket_path = said["url"], said["socket"]
        self.port = urllib.parse.urlsplit(self.url).port
        self.cookie = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=PATIENCE_S)

    def enter(self):
        answer = self.get(urllib.parse.urlsplit(self.url).path)
        assert answer.status == 303, answer
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return self

    def get(self, path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request("GET", path, headers={**self.headers(), **headers})
            answer = connection.getresponse()
            return Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def headers(self):
        return {"Cookie": self.cookie} if self.cookie else {}

    def head(self, path, method="GET", *more):
        """The head of a request, as bytes."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", *more]
        lines += [f"Cookie: {self.cookie}"] if self.cookie else []
        return "\r\n".join([*lines, "", ""]).encode()

    def connect(self, said=b"", *, receives=None):
        """A connection to which ``said`` was sent; its buffer for what comes back has ``receives`` bytes."""
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receives is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
        made.settimeout(PATIENCE_S)
        try:
            made.connect(("127.0.0.1", self.port))
            made.sendall(said)
        except OSError:
            made.close()
            raise
        return made

    def end(self, number=signal.SIGTERM, timeout=PATIENCE_S):
        """What is left to say after a signal: output, errors, exit code and seconds."""
        begun = time.monotonic()
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=timeout)
        return out, err.decode(), self.process.returncode, time.monotonic() - begun

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def threads(self):
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def resident_mb(self):
        with open(f"/proc/{self.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def until(holds, patience=PATIENCE_S):
    """Wait for what no event tells: the state of another process."""
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


@contextlib.contextmanager
def forwarding(path):
    """A port of 127.0.0.1 that leads to a Unix socket, as ssh -L does."""
    listener = socket.create_server(("127.0.0.1", 0))
    opened = []

    def serve():
        while True:
            try:
                here, _ = listener.accept()
            except OSError:
                return
            there = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            there.connect(path)
            opened.extend((here, there))
            for source, sink in ((here, there), (there, here)):
                threading.Thread(target=pump, args=(source, sink), daemon=True).start()

    def pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(PATIENCE_S)
        for one in opened:
            one.close()
