"""A network between a client and a context server that a test can cut and heal.

It forwards TCP or a Unix socket byte by byte as they are, counts what went each way, and ends every connection once so many bytes
have gone (``cut_after``), until ``heal``. ``garbling`` are bytes that come damaged to the client, and what they come as.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self

from periplus.context.remotes.address import Address


class Proxy:
    """Listens on a free port of loopback; use as a context manager. ``target`` is where it forwards to."""

    def __init__(self, target: Address) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._cut: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._left: int | None = None  # bytes that may still go before the cut
        self._is_down = False
        self.to_server = 0
        self.to_client = 0
        self.cuts = 0
        self.garbling: tuple[bytes, bytes] | None = None
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._start(self._accept)

    @property
    def address(self) -> Address:
        scheme = "tls" if self._target.scheme == "tls" else "tcp"
        return Address(scheme, host="127.0.0.1", port=self._listening.getsockname()[1])

    def cut_after(self, size_bytes: int) -> None:
        """Let so many bytes through, both ways together, then end what is open and refuse what comes."""
        with self._lock:
            self._left = size_bytes

    def heal(self) -> None:
        with self._lock:
            self._left, self._is_down, self.garbling = None, False, None

    def reset_counts(self) -> None:
        with self._lock:
            self.to_server = self.to_client = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_down = True
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._drop_all()
        for thread in self._threads:
            thread.join(20)

    def _start(self, what, *values) -> None:
        thread = threading.Thread(target=what, args=values, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            with self._lock:
                is_down = self._is_down
            if is_down:
                client.close()
                continue
            try:
                server = self._connect()
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open |= {client, server}
            self._start(self._forward, client, server, True)
            self._start(self._forward, server, client, False)

    def _connect(self) -> socket.socket:
        if self._target.scheme == "unix":
            opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                opened.connect(self._target.path)
            except OSError:
                opened.close()
                raise
            return opened
        return socket.create_connection((self._target.host, self._target.port))

    def _forward(self, source: socket.socket, target: socket.socket, is_to_server: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                with self._lock:
                    if source in self._cut:
                        continue  # nothing that comes after the cut goes anywhere
                    if self._left is not None:
                        data = data[: self._left]
                        self._left -= len(data)
                    garbling = None if is_to_server else self.garbling
                    is_cut = self._left == 0 and not self._is_down
                    ending = set(self._open) if is_cut else set()
                    if is_cut:
                        self._is_down = True
                        self.cuts += 1
                        self._cut |= ending
                    if is_to_server:
                        self.to_server += len(data)
                    else:
                        self.to_client += len(data)
                target.sendall(data.replace(*garbling) if garbling is not None else data)
                for opened in ending:  # and none that was opened since
                    with contextlib.suppress(OSError):
                        opened.shutdown(socket.SHUT_WR)
        self._drop(source)
        with self._lock:
            is_cut = target in self._cut
        if not is_cut:  # else what had come through stays to be read: nothing is reset
            self._drop(target)

    def _drop(self, opened: socket.socket) -> None:
        with self._lock:
            self._open.discard(opened)
            self._cut.discard(opened)
        with contextlib.suppress(OSError):
            opened.shutdown(socket.SHUT_RDWR)
        opened.close()

    def _drop_all(self) -> None:
        with self._lock:
            rest = list(self._open)
        for opened in rest:
            self._drop(opened)
