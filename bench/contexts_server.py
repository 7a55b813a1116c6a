"""The context server: what a stream over its socket takes against the store itself, and what a hundred slow readers hold.

The server is a process of its own, on a Unix socket. The baseline of a transfer is the same bytes over a bare socket pair, read and
hashed; that of the memory is the window that the readers were granted.
"""

from __future__ import annotations

__all__ = ["measure"]

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Final

from bench.measure import Bench, Figure, Row, figure, in_turn, row
from bench.processes import environment
from bench.samples import REPOSITORY
from periplus.context.model import Atom, Context
from periplus.context.remotes.address import Address, Trust, connect
from periplus.context.remotes.async_client import ContextClient
from periplus.context.remotes.local_peer import LocalPeer
from periplus.context.remotes.remote_store import RemoteStore
from periplus.context.remotes.transfer import transfer
from periplus.context.stores.disk_store import DiskStore
from periplus.context.stores.memory_store import MemoryStore
from periplus.context.wire import ChunkCame, ClientMachine
from periplus.context.wire.payloads import StreamRequest

READERS: Final = 100
_SERVE: Final = """
import asyncio, sys
from periplus.context.stores.disk_store import DiskStore
from periplus.server.context_server import ContextServer, serve
from periplus.server.listeners import Endpoint
folder, path = sys.argv[1:]
server = ContextServer(lambda: DiskStore(folder), [Endpoint(path=path)])
asyncio.run(serve(server, lambda addresses: print("ready", flush=True)))
"""


def measure(bench: Bench) -> Iterator[Row]:
    count, rounds = bench.size(100_000, 2_000), bench.size(5, 1)
    bench.say(f"{rounds} rounds over {count:,} atoms on a Unix socket; {READERS} readers that do not read")
    folder = os.path.join(bench.folder, "served")
    store = DiskStore(folder)
    atoms = (
        Atom(f"atom {n}: {'what was found ' * 8}", relevance=n % 1_000_000, source=f"src/{n % 997}.py")
        for n in range(count)
    )
    head = store.commit(Context(atoms=tuple(atoms)))
    store.set_ref("main", head)
    path = os.path.join(bench.folder, "s")
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, folder, path],
        cwd=REPOSITORY,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("the server did not start")
        address = Address("unix", path=path)
        yield from _streams(store, address, head, count, rounds)
        yield from _transfers(address, head, rounds)
        yield _memory(address, head, process.pid)
    finally:
        process.terminate()
        process.communicate()
        store.close()


def _streams(store: DiskStore, address: Address, head: bytes, count: int, rounds: int) -> Iterator[Row]:
    remote = RemoteStore(address)

    def blocking() -> float:
        return _rate(count, lambda: sum(len(chunk.entries) for chunk in remote.stream(head)))

    def proved() -> float:
        return _rate(count, lambda: sum(len(chunk.entries) for chunk in remote.stream(head, prove=True)))

    async def read() -> int:
        async with ContextClient(address) as client:
            return sum([len(chunk.entries) async for chunk in client.stream(head)])

    def near() -> float:
        return _rate(count, lambda: sum(len(chunk.entries) for chunk in store.stream(head)))

    found = in_turn(
        rounds,
        {
            "blocking": blocking,
            "proved": proved,
            "asyncio": lambda: _rate(count, lambda: asyncio.run(read())),
            "near": near,
        },
    )
    remote.close()
    rates = {name: figure(values) for name, values in found.items()}
    for name, what in (
        ("blocking", "stream over a Unix socket"), ("asyncio", "stream over a Unix socket, asyncio"),
        ("proved", "stream over a Unix socket, proved"),
    ):  # fmt: skip
        yield row("server", what, "atoms/s", rates[name], "the store itself", rates["near"], better="higher")


def _rate(count: int, read: Callable[[], int]) -> float:
    begun = time.perf_counter()
    found = read()
    if found != count:
        raise RuntimeError(f"{found} atoms of {count} came")
    return count / (time.perf_counter() - begun)


def _transfers(address: Address, head: bytes, rounds: int) -> Iterator[Row]:
    remote = RemoteStore(address)
    size = transfer(remote, LocalPeer(MemoryStore()), head, known=[]).size_bytes

    def pull() -> float:
        begun = time.perf_counter()
        objects = [row.digest for row in remote.listing(head, [])]
        for _ in remote.objects(objects):
            pass  # each is verified
        return size / (time.perf_counter() - begun)

    found = in_turn(rounds, {"pull": pull, "bare": lambda: _bare(size)})
    remote.close()
    rates = {name: figure(values).scaled(1e-6) for name, values in found.items()}
    yield row(
        "server",
        "objects pulled, verified",
        "MB/s",
        rates["pull"],
        "a socket pair, hashed",
        rates["bare"],
        better="higher",
    )


def _bare(size: int) -> float:
    here, there = socket.socketpair()
    data = bytes(1 << 16)

    def write() -> None:
        left = size
        with there:
            while left > 0:
                there.sendall(data[:left])
                left -= len(data)

    begun = time.perf_counter()
    writer = threading.Thread(target=write)
    writer.start()
    state = sha256()
    with here:
        while piece := here.recv(1 << 18):
            state.update(piece)
    writer.join()
    return size / (time.perf_counter() - begun)


def _memory(address: Address, head: bytes, pid: int) -> Row:
    """The window is what each reader granted: 16 chunks, as large as they are."""
    readers = [_Reader(address) for _ in range(READERS)]
    before = _resident(pid)
    window = max(reader.ask(head) for reader in readers) * 16
    held = _resident(pid) - before
    for reader in readers:
        reader.socket.close()
    ours = Figure(max(held, 1) / READERS / 1024, max(held, 1) / READERS / 1024, max(held, 1) / READERS / 1024)
    name = "the window of each"
    return row("server", f"memory for each of {READERS} slow readers", "KiB", ours, name, Figure(*(window / 1024,) * 3))


class _Reader:
    """Asks for a stream, reads its first chunk, and nothing more."""

    def __init__(self, address: Address) -> None:
        self.socket = connect(address, Trust(), 60)
        self._machine = ClientMachine(0.0)
        while not self._machine.is_open:
            self._turn()

    def ask(self, head: bytes) -> int:
        self._machine.request(StreamRequest(head))
        while True:
            for event in self._turn():
                if isinstance(event, ChunkCame):
                    return event.size_bytes

    def _turn(self) -> list[object]:
        self.socket.sendall(self._machine.data_to_send())
        return list(self._machine.receive(self.socket.recv(16_384), 0.0))


def _resident(pid: int) -> int:
    if sys.platform != "linux":
        told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout
        return int(told) * 1024
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
