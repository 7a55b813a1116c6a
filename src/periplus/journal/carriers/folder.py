"""Folder as a carrier: another store, our own, or an exchange folder (a USB stick, a folder synchronized by rsync).

An exchange folder has the layout of a store with fewer files: ``exchange.json`` names the store, ``journal/`` has a folder of segments and
a ``head.json`` for each lineage, ``objects/`` the objects that records name. Nobody appends records there, so only records covered by their
owner's signed head count.
"""

from __future__ import annotations

__all__ = ["EXCHANGE_FILE", "FolderCarrier", "is_folder_carrier", "open_folder"]

import os
import stat
from collections.abc import Collection, Container, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from periplus.base.errors import (
    DamageError,
    NotFoundError,
    PeriplusError,
    UsageError,
    environment_failure,
)
from periplus.base.files import Files, read_plain, write_atomic
from periplus.base.ids import is_id
from periplus.base.process.locks import Lock
from periplus.journal.carriers.carrier import LINEAGES_MAX, is_lineage_name
from periplus.journal.records.segment import decode_header, scan
from periplus.journal.storage.group_commit import durable_by_map, is_of_earlier_start
from periplus.journal.storage.keys import public_key
from periplus.journal.storage.layout import STORE_FOLDER, Layout
from periplus.journal.storage.lineage import SEGMENT_READ_MAX, LineageReader, read_durable
from periplus.journal.storage.settings import StoreIds, StoreSettings, is_written_here, read_lineage, read_settings
from periplus.journal.storage.store_joining import stated_store
from periplus.journal.storage.tree_head import HEAD_BYTES_MAX, SignedHead, decode_head
from periplus.objects.object_forms import Packing
from periplus.objects.store import ObjectStore

EXCHANGE_FILE: Final = "exchange.json"
HEAD_FILE: Final = "head.json"
_PATIENCE_S: Final = 30.0
_ANEW: Final = "If the folder is this project's, remove that file: the next sync writes it anew."


class ExchangeFile(msgspec.Struct, frozen=True):
    """``exchange.json``, which marks a folder as an exchange folder of a store."""

    format: int
    store: str


class _AnyStore(Container[str]):
    """A container of every store id: an exchange folder may serve several joined stores, and the receiver checks the ids."""

    def __contains__(self, store: object) -> bool:
        return True


class FolderCarrier:
    """The lineages in the folder ``root``, a store's ``.periplus`` or an exchange folder."""

    def __init__(
        self, root: str, files: Files, *, store: StoreSettings | str, is_store: bool, packing: Packing | None = None
    ) -> None:
        self.place = root
        self.root = root
        self.files = files
        self.layout = Layout(root)
        self.layout.refuse_links()
        self.needs_heads = not is_store
        self.is_store = is_store
        self.objects = ObjectStore(self.layout.objects, files, packing=packing)
        self._store = store if isinstance(store, str) else store.id
        self._stores = None if isinstance(store, str) else StoreIds(self.layout, store)

    def store_id(self) -> str:
        return self._store

    def store_ids(self) -> frozenset[str]:
        return frozenset(self._stores or (self._store,) if self._store else ())

    def takes(self, store: str) -> bool:
        return self._stores is None or store in self._stores

    def of_others(self, stores: Collection[str]) -> dict[str, str]:
        stated = {lineage: stated_store(self.layout, lineage) for lineage in self.lineages()}
        return {lineage: store for lineage, store in stated.items() if is_id(store) and store not in stores}

    def written_lineage(self) -> str:
        """Return the lineage to which only the store's own writer adds; "" also in a copy that has not written yet.

        The lineage that such a copy names belongs to its original: the copy receives it and passes it on like any other.
        """
        own = read_lineage(self.layout) if self.is_store else None
        return own.lineage if own is not None and is_written_here(self.layout, own) else ""

    def lineages(self) -> list[str]:
        try:
            found = sorted(filter(is_lineage_name, os.listdir(self.layout.journal)))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise environment_failure(error, "list", self.layout.journal) from error
        if len(found) > LINEAGES_MAX:
            raise DamageError(f"over {LINEAGES_MAX:,} lineages", path=self.layout.journal)
        return found

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the writers' lock of the folder. Raises LockTimeoutError."""
        lock = Lock(self.layout.lock)
        try:
            with lock.holding(_PATIENCE_S):
                yield
        finally:
            lock.close()

    def head(self, lineage: str) -> SignedHead | None:
        path = self.head_path(lineage)
        try:
            data = _read(path, HEAD_BYTES_MAX)
        except NotFoundError:
            return None
        return decode_head(data, path)

    def key(self, lineage: str) -> bytes | None:
        head = self.head(lineage)
        if head is not None:
            return head.public_key
        try:
            return public_key(self.layout, lineage)
        except NotFoundError:
            return None

    def durable_seq(self, lineage: str) -> int | None:
        own = read_lineage(self.layout) if self.is_store else None
        if own is None or own.lineage != lineage:
            return None  # not written here; it came as a copy of durable records
        is_written = is_written_here(self.layout, own)
        if not is_written and own.host == os.uname().nodename:
            return None  # a copy; on another host this is uncertain, and its writer may be at work there
        if not self.is_synced():
            return None  # its owner knows no more
        mark = read_durable(self.layout.durable)
        marked = mark.seq if mark is not None and mark.lineage == lineage else 0
        known = self._durable_behind(lineage, marked, is_mapped=is_written)  # a flush map is valid on one machine only
        head = None if is_written else FolderCarrier.head(self, lineage)
        return max(known, head.head.size if head is not None else 0)  # received and signed by its owner

    def _durable_behind(self, lineage: str, marked: int, *, is_mapped: bool) -> int:
        """Return the durable seq given the mark's ``marked``, 0 for a torn mark, using the flush map and the records' own statements.

        The owner would compute the same at its next write, which may be far off.
        """
        newest = self.reader(lineage).newest()
        mapped = durable_by_map(self.layout.flush, lineage, self.files, newest) if is_mapped else 0
        is_all = is_mapped and is_of_earlier_start(
            self.layout.flush, lineage, self.files
        )  # everything was read from disk
        if not newest or (marked and mapped <= marked and not is_all):
            return marked
        try:
            data = self.fetch(lineage, newest)
            start = decode_header(data)[1]
        except (PeriplusError, OSError):
            return max(marked, newest - 1, mapped)  # the damage is reported when it is taken
        if is_all and not is_of_earlier_start(
            self.layout.flush, lineage, self.files
        ):  # another process began to write meanwhile
            is_all, mapped = False, durable_by_map(self.layout.flush, lineage, self.files, newest)
        found = scan(data[start:], base=start, next_seq=newest, salvage=True).entries
        last = found[-1].record if found else None
        held, stated = (last.seq, last.durable) if last is not None else (newest - 1, 0)
        return max(
            marked, newest - 1, stated, held if is_all else min(mapped, held)
        )  # a map alone does not prove that records are missing

    def is_synced(self) -> bool:
        return not self.is_store or read_settings(self.layout).journal.sync != "never"

    def segments(self, lineage: str) -> list[int]:
        folder = self.layout.lineage_folder(lineage)
        for path in (self.layout.journal, folder):
            _refuse_link(path)
        return self.reader(lineage).segments()

    def fetch(self, lineage: str, segment: int) -> bytes:
        path = self.reader(lineage).path_of(segment)
        data = _read(path, SEGMENT_READ_MAX + 1)
        if len(data) > SEGMENT_READ_MAX:
            raise DamageError(f"a segment over {SEGMENT_READ_MAX:,} bytes", path=path)
        return data

    def object(self, lineage: str, digest: bytes) -> bytes:
        del lineage  # all lineages share one folder of objects
        return self.objects.get(digest)

    def reader(self, lineage: str) -> LineageReader:
        return LineageReader(
            self.layout.lineage_folder(lineage), _AnyStore() if self._stores is None else self._stores, lineage
        )

    def head_path(self, lineage: str) -> str:
        return os.path.join(self.layout.lineage_folder(lineage), HEAD_FILE)

    def prepare(self, store: str) -> None:
        """Make the place an exchange folder if it is not one yet. Raises EnvironmentFailure."""
        try:
            self.files.make_folder(self.layout.journal)
            self.files.make_folder(self.layout.objects)
        except OSError as error:
            raise environment_failure(error, "make", self.layout.journal) from error
        if not self.is_store and not self._store:
            text = msgspec.json.format(msgspec.json.encode(ExchangeFile(1, store)), indent=2) + b"\n"
            write_atomic(self.files, os.path.join(self.root, EXCHANGE_FILE), text)
            self._store = store


def is_folder_carrier(path: str) -> bool:
    """Return True if there is a store or an exchange folder at ``path``."""
    return os.path.isfile(os.path.join(path, EXCHANGE_FILE)) or _store_in(path) is not None


def open_folder(path: str, files: Files, packing: Packing | None = None) -> FolderCarrier:
    """Open the store or exchange folder at ``path``, or a folder that will become one: empty or missing.

    ``packing`` as in ``ObjectStore``. Raises UsageError for any other folder.
    """
    path = os.path.abspath(path)
    store = _store_in(path)
    if store is not None:
        return FolderCarrier(store, files, store=read_settings(Layout(store)).store, is_store=True, packing=packing)
    exchange = os.path.join(path, EXCHANGE_FILE)
    try:
        found = msgspec.json.decode(_read(exchange, HEAD_BYTES_MAX), type=ExchangeFile)
    except NotFoundError:
        return FolderCarrier(_new_folder(path), files, store="", is_store=False, packing=packing)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamageError(
            f"not an exchange file: {error}", path=exchange, safe="Nothing was changed.", mend=_ANEW
        ) from error
    if found.format != 1 or not is_id(found.store):
        raise DamageError("not an exchange file of this format", path=exchange, safe="Nothing was changed.", mend=_ANEW)
    return FolderCarrier(path, files, store=found.store, is_store=False, packing=packing)


def _store_in(path: str) -> str | None:
    path = os.path.abspath(path)
    for candidate in (path, os.path.join(path, STORE_FOLDER)):
        if os.path.basename(candidate) == STORE_FOLDER and os.path.isfile(os.path.join(candidate, "config.toml")):
            return candidate
    return None


def _new_folder(path: str) -> str:
    try:
        names = os.listdir(path)
    except FileNotFoundError:
        if os.path.isdir(os.path.dirname(path)):
            return path
        raise UsageError(
            f"there is no folder {os.path.dirname(path)}", safe="Nothing was changed.", mend="Make it first."
        ) from None
    except OSError as error:
        raise environment_failure(error, "list", path) from error
    ours = {"journal", "objects"}  # these two are made before exchange.json
    if any(name not in ours and not name.startswith(f".{EXCHANGE_FILE}.") for name in names):
        raise UsageError(
            f"{path} is neither a store nor an exchange folder, and not empty",
            safe="Nothing was changed.",
            mend=f"Name a folder of its own, such as {os.path.join(path, 'periplus')}.",
        )
    return path


def _refuse_link(path: str) -> None:
    try:
        is_link = stat.S_ISLNK(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    except OSError as error:
        raise environment_failure(error, "look at", path) from error
    if is_link:
        raise DamageError("a symbolic link; nothing within a store is one", path=path,
                          safe="It was not followed and nothing was changed.")  # fmt: skip


def _read(path: str, bytes_max: int) -> bytes:
    """Read a plain file that is not a link. Raises NotFoundError, DamageError, EnvironmentFailure."""
    _refuse_link(path)
    try:
        return read_plain(path, bytes_max)
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no {path}") from error
    except OSError as error:
        raise environment_failure(error, "read", path) from error
