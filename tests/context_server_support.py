"""Context servers in processes of their own, for tests."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from periplus.context.model import Atom, Context, atom_digest
from periplus.context.remotes.address import Address, Trust, connect, parse_address
from periplus.context.remotes.remote_store import RemoteStore
from periplus.context.stores.disk_store import DiskStore
from periplus.context.stores.library import ContextLibrary
from periplus.context.wire import ClientMachine, Limits
from periplus.server.context_server import ContextServer, fetch_stats
from periplus.server.listeners import Endpoint

CHILD = Path(__file__).with_name("context_server_child.py")
PATIENCE_S = 60


class ServerProcess:
    """A server of the store in ``folder``: on a Unix socket, if nothing else is given."""

    def __init__(self, folder: Path, *endpoints: dict[str, Any], **given: Any) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        wanted = endpoints or ({"path": str(folder / "contexts.sock")},)
        arguments = {"folder": str(folder), "endpoints": wanted} | given
        self.process = subprocess.Popen(
            [sys.executable, str(CHILD), json.dumps(arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        told = self.process.stdout.readline()
        if not told:
            _, errors = self.process.communicate(timeout=PATIENCE_S)
            raise AssertionError(errors)
        self.addresses: list[Address] = [parse_address(text) for text in json.loads(told)]
        self.errors = ""

    @property
    def address(self) -> Address:
        return self.addresses[0]

    def client(self, **given: Any) -> RemoteStore:
        return RemoteStore(self.address, **given)

    def stats(self) -> dict[str, Any]:
        """Of a server that has a Unix socket."""
        return fetch_stats(next(address for address in self.addresses if address.scheme == "unix"))

    def memory_bytes(self) -> int:
        """What the process has in memory now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def kill(self) -> None:
        """As a power cut would: it gets no chance to do anything more."""
        self.process.kill()
        self.process.communicate(timeout=PATIENCE_S)

    def stop(self) -> dict[str, Any]:
        """Ask it to end; what it counted."""
        self.process.send_signal(signal.SIGTERM)
        out, self.errors = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, self.errors
        document: dict[str, Any] = json.loads(out)
        return document

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=PATIENCE_S)


class ServerThread:
    """A server in a thread of this process: for what needs many servers, and none to be killed."""

    def __init__(self, open_store: Callable[[], ContextLibrary], endpoint: Endpoint, **given: Any) -> None:
        self.errors: list[BaseException] = []
        self._server = ContextServer(open_store, [endpoint], on_error=self.errors.append, **given)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)  # a failed test ends too
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        self.address = self._server.addresses[0]

    async def _run(self) -> None:
        self._loop, self._asked = asyncio.get_running_loop(), asyncio.Event()
        await self._server.start()
        self._ready.set()
        await self._asked.wait()
        await self._server.stop()

    def stop(self) -> dict[str, Any]:
        self._loop.call_soon_threadsafe(self._asked.set)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self._server.document()


def atoms(count: int, size: int = 0, *, first: int = 0) -> tuple[Atom, ...]:
    return tuple(
        Atom(
            f"atom {number} " + "x" * size, relevance=1 + number % 1_000_000, time_ms=number, source=f"src/{number}.py"
        )
        for number in range(first, first + count)
    )


def fill(folder: Path, count: int = 3_000, deltas: int = 5, size: int = 0) -> bytes:
    """A store with the ref ``main`` on a chain: ``count`` atoms, then ``deltas`` small deltas; its head."""
    store = DiskStore(str(folder))
    try:
        head = store.commit(Context(atoms=atoms(count, size), metadata={"why": "the first"}))
        for number in range(deltas):
            gone = (atom_digest(atoms(1, size, first=number)[0]),)
            head = store.commit(Context(head, atoms(3, size, first=count + 3 * number), removed=gone))
        store.set_ref("main", head)
        return head
    finally:
        store.close()


class RawClient:
    """A client that does what it is told and nothing by itself: it reads only when it is asked to."""

    def __init__(self, address: Address, *, limits: Limits | None = None) -> None:
        self.socket = connect(address, Trust(), PATIENCE_S)
        self.machine = ClientMachine(0.0, limits=limits)
        self.events: list[Any] = []

    def send(self) -> None:
        self.socket.sendall(self.machine.data_to_send())

    def read_until(self, is_enough: Callable[[list[Any]], bool]) -> list[Any]:
        """All events so far, when there are enough of them, or the server has ended the connection."""
        self.send()
        while not is_enough(self.events):
            data = self.socket.recv(65_536)
            self.events += self.machine.receive(data, 0.0) if data else self.machine.receive_eof(0.0)
            if not data:
                break
        return self.events

    def shake_hands(self) -> Self:
        self.read_until(bool)
        assert self.machine.is_open, self.events
        return self

    def read_to_the_end(self) -> list[Any]:
        """What came until the server ended the connection."""
        try:
            while data := self.socket.recv(65_536):
                self.events += self.machine.receive(data, 0.0)
        except ConnectionError:
            pass  # an end as well
        return self.events

    def close(self) -> None:
        self.socket.close()
