"""Exchange contexts between this project and another store: one behind an address, or in a folder of this machine.

Rules kept here:

* objects travel first, each checked against its digest; then the whole context is admitted, checked as if it were committed
  there; only then a ref moves. An interrupted transfer is asked for again, and nothing is sent twice;
* a ref moves forward or not at all: where the two have diverged, what was fetched is kept and the caller is told.
"""

from __future__ import annotations

__all__ = [
    "Cloned",
    "Other",
    "Pulled",
    "Pushed",
    "clone_contexts",
    "open_other",
    "pull_context",
    "push_context",
    "understood",
]

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from periplus.base.errors import (
    ConflictError,
    EnvironmentFailure,
    FormatError,
    NotAStoreError,
    NotFoundError,
    UsageError,
)
from periplus.base.named_tuple import NamedTuple
from periplus.context.remotes.address import Trust, parse_address
from periplus.context.remotes.local_peer import LocalPeer
from periplus.context.remotes.transfer import Peer, Progress, Transferred, clone, transfer
from periplus.context.stores.refs import check_ref_name

if TYPE_CHECKING:
    from periplus.context.store_protocol import Store
    from periplus.journal import Writer
    from periplus.project.context_store.contexts import ProjectContexts

Tell = Callable[[Progress], None]
_SCHEMES = ("unix:", "tcp://", "tls://")


class Other(NamedTuple):
    """An open store on the other side: ``peer`` for transfers, ``store`` for its refs; ``place`` names it for people."""

    place: str
    peer: Peer
    store: Store


class Pushed(NamedTuple):
    head: bytes
    ref: str
    previous: bytes | None
    sent: Transferred


class Pulled(NamedTuple):
    """``outcome``: moved; nothing, where everything was here; apart: the objects are here, and neither side descends
    from the other.
    """

    head: bytes
    ref: str
    previous: bytes | None
    outcome: str
    sent: Transferred


class Cloned(NamedTuple):
    """``refs`` by name with the outcome of each, as in ``Pulled``."""

    refs: dict[str, tuple[bytes, str]]
    sent: list[Transferred]


@contextmanager
def open_other(where: str, *, cwd: str, writer: Writer, token: str = "", trust: Trust | None = None) -> Iterator[Other]:
    """Open the store at an address (``unix:PATH``, ``tcp://HOST:PORT``, ``tls://HOST:PORT``), or in a folder: a
    project's, or a folder store with at least one ref. Raises UsageError, NotAStoreError; connecting waits for the
    first use.
    """
    from periplus.project.context_store.contexts import contexts_of

    if where.startswith(_SCHEMES):
        from periplus.context.remotes.remote_store import RemoteStore

        remote = RemoteStore(parse_address(where), token=token, trust=trust or Trust())
        try:
            yield Other(where, remote, remote)
        finally:
            remote.close()
        return
    path = os.path.join(cwd, where)
    if not where or not os.path.isdir(path):
        raise UsageError(f"{where!r} is not a place to exchange contexts with", safe="Nothing was changed.",
                         mend="Name a folder with a store, or unix:PATH, tcp://HOST:PORT, tls://HOST:PORT.")  # fmt: skip
    root = _root_in(path)
    if root is None and os.path.isfile(os.path.join(path, "refs.lock")):
        from periplus.context.stores.disk_store import DiskStore

        store = DiskStore(path)
        try:
            yield Other(where, LocalPeer(store), store)
        finally:
            store.close()
        return
    if root is None:
        raise NotAStoreError(
            f"there is no store in {where}", safe="Nothing was changed.", mend="Name a folder that has one."
        )
    from periplus.project.store import ProjectStore

    with ProjectStore(root, writer) as project:
        library = contexts_of(project).library
        yield Other(where, LocalPeer(library), library)


def _root_in(path: str) -> str | None:
    """Return the project's store in a folder, in any of its worktrees, or the folder itself; None where there is
    none.
    """
    from periplus.journal import STORE_FOLDER, find_root

    if os.path.lexists(os.path.join(path, ".git")):
        return find_root(path)
    root = path if os.path.basename(os.path.normpath(path)) == STORE_FOLDER else os.path.join(path, STORE_FOLDER)
    return root if os.path.exists(os.path.join(root, "config.toml")) else None


@contextmanager
def understood(other: Other) -> Iterator[None]:
    """Report malformed bytes from the other side as a failure of the environment, not of the person's input."""
    try:
        yield
    except FormatError as error:
        if isinstance(other.peer, LocalPeer):
            raise
        raise EnvironmentFailure(
            f"what came from {other.place} cannot be read: {str(error).removeprefix(f'{other.place}: ')}",
            safe="No ref was moved; objects that arrived whole were checked and kept.",
            mend="Bytes may have been damaged in transit: repeat the command, it continues where it stopped. If it fails again, check "
            "that a context server listens there.",
        ) from error


def push_context(
    contexts: ProjectContexts, other: Other, reference: str, name: str, *, force: bool = False, tell: Tell | None = None
) -> Pushed:
    """Send a context to the other store, and move its ref ``name`` there. Raises ConflictError where that is not
    forward.
    """
    check_ref_name(name)
    head = contexts.resolve(reference)
    with understood(other):
        previous = other.peer.refs().get(name)
    library = contexts.library
    if (
        previous is not None
        and previous != head
        and not force
        and not (library.has(previous) and library.descends(head, previous))
    ):
        raise ConflictError(
            f"{name} of {other.place} is at {previous.hex()[:12]}, which {head.hex()[:12]} does not descend from",
            safe="Nothing was sent.",
            mend=f"{_fetch(other, name)}, or insist with --force.",
        )
    mine = LocalPeer(library)
    with understood(other):
        sent = transfer(mine, other.peer, head, on_progress=tell)
        if previous != head:
            _move(other, name, head, previous, force=force)
    return Pushed(head, name, previous, sent)


def _move(other: Other, name: str, head: bytes, previous: bytes | None, *, force: bool) -> None:
    try:
        other.store.set_ref(name, head, expected=previous, force=force)
    except ConflictError as error:
        if other.peer.refs().get(name) == previous:
            raise  # no other push came first: the error says itself what is in the way
        raise ConflictError(
            f"{name} of {other.place} was moved by somebody else meanwhile",
            safe="It was not moved again; what was sent is kept there.",
            mend=f"{_fetch(other, name)}, then push again.",
        ) from error


def _fetch(other: Other, name: str) -> str:
    return f"Fetch it with `periplus context pull {shlex.quote(other.place)} {name}` and merge it"


def pull_context(contexts: ProjectContexts, other: Other, name: str, into: str, *, tell: Tell | None = None) -> Pulled:
    """Fetch the context of the other store's ref ``name``, and move our ref ``into`` there where that is forward."""
    check_ref_name(into)
    with understood(other):
        refs = other.peer.refs()
    if name not in refs:
        known = ", ".join(list(refs)[:5]) or "none"
        raise NotFoundError(f"{other.place} has no ref {name!r}", safe="Nothing was changed.", mend=f"It has {known}.")
    head = refs[name]
    with understood(other):
        sent = transfer(other.peer, LocalPeer(contexts.library), head, known=_known(contexts), on_progress=tell)
    previous = contexts.table.get(into)
    return Pulled(head, into, previous, _take(contexts, into, head, other.place), sent)


def clone_contexts(contexts: ProjectContexts, other: Other, *, tell: Tell | None = None) -> Cloned:
    """Fetch the contexts of all refs of the other store, and move ours of the same names there where that is forward."""
    with understood(other):
        refs, sent = clone(other.peer, LocalPeer(contexts.library), on_progress=tell)
    return Cloned({name: (head, _take(contexts, name, head, other.place)) for name, head in refs.items()}, sent)


def _known(contexts: ProjectContexts) -> list[bytes]:
    """Return the contexts that are complete here, and so need not be listed."""
    return [target for target in dict.fromkeys(contexts.table.all().values()) if contexts.library.has(target)]


def _take(contexts: ProjectContexts, name: str, head: bytes, place: str) -> str:
    standing = contexts.table.standing(name)
    library = contexts.library
    if standing and all(library.descends(one, head) for one in standing):
        return "nothing"
    if not all(library.descends(head, one) for one in standing):
        return "apart"
    contexts.set_ref(name, head, why=f"from {place}")
    return "moved"
