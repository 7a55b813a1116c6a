"""A project served to the SDK's own client, by real processes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from cli_support import PERIPLUS, Shell
from periplus.journal import Writer
from periplus.project import Project

MODES = ("legacy", "auto")  # the handshake of the older generation; what this SDK finds out is the newer one
PATIENCE_S = 120


class Served:
    """A project in ``folder`` with a store, and servers of it."""

    writer = Writer("ada", "who_0000000000000000", "", 1)

    def __init__(self, tmp_path, *, store=True):
        self.folder = tmp_path / "shop"
        self.home = tmp_path / "home"
        self.folder.mkdir()
        self.home.mkdir()
        (self.folder / "src").mkdir()
        (self.folder / "src" / "auth.py").write_text("def login(name, password):\n    return name\n")
        (self.folder / ".git").mkdir()
        self.shell = Shell(self.folder, self.home)
        if store:
            Project.init(os.fspath(self.folder))

    def client(self, mode="legacy", *, name="probe", words=(), env=None):
        """A client with a server of its own, over standard input and output."""
        parameters = StdioServerParameters(
            command=PERIPLUS, args=["mcp", *words], cwd=self.folder, env=self.shell.environment(**env or {})
        )
        return Client(
            parameters, mode=mode, client_info=Implementation(name=name, version="1"), read_timeout_seconds=PATIENCE_S
        )

    @contextlib.contextmanager
    def listening(self, *words, env=None):
        """A server over HTTP: its address and its process."""
        process = self.shell.start("mcp", "--http", "--port", "0", "--json", *words, env=env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        try:
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
            line = process.stdout.readline() if ready else b""
            assert line, process.communicate(timeout=PATIENCE_S)[1].decode()
            yield json.loads(line)["url"], process
        finally:
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=PATIENCE_S)
            assert b"Traceback" not in err, err.decode()

    def at(self, url, mode="legacy", *, name="probe", http_client=None):
        server = url if http_client is None else streamable_http_client(url, http_client=http_client)
        return Client(
            server, mode=mode, client_info=Implementation(name=name, version="1"), read_timeout_seconds=PATIENCE_S
        )

    def project(self):
        return Project.open(os.fspath(self.folder), self.writer)


class Raw:
    """A server over standard input and output, spoken to in bytes."""

    def __init__(self, served, *words, env=None, program=None, **how):
        self.process = subprocess.Popen(program or [PERIPLUS, "mcp", *words], cwd=served.shell.folder,
                                        env=served.shell.environment(**env or {}), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)  # fmt: skip
        self._buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def send(self, *messages):
        for one in messages:
            data = one if isinstance(one, bytes) else json.dumps(one).encode()
            self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def receive(self, wait_s=PATIENCE_S):
        """The next message; None at the end of the output."""
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], wait_s)
            assert ready, "no answer"
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            if not chunk:
                return None
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def ask(self, number, method, params=None):
        self.send(
            {"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params is not None else {})}
        )
        answer = self.receive()
        assert answer["id"] == number, answer
        return answer

    def shake_hands(self, version="2025-11-25", name="probe"):
        client = {"name": name, "version": "1"}
        answer = self.ask("hello", "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": client})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer["result"]

    def call(self, number, tool, arguments):
        return self.ask(number, "tools/call", {"name": tool, "arguments": arguments})["result"]

    def end(self):
        """Close the input; the exit code and what was said on standard error."""
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)
        err = self.process.stderr.read().decode()
        assert "Traceback" not in err, err
        return self.process.returncode, err


def run(talk, *words):
    """Run a coroutine function to its end, within the time that anything here may take."""

    async def bounded():
        with anyio.fail_after(2 * PATIENCE_S):
            return await talk(*words)

    return anyio.run(bounded)


def text_of(result):
    (content,) = result.content
    return content.text
