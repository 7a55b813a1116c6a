"""Repair of a store that cannot be opened: misplaced files, the settings, the identity, the other plain files.

All this happens before the journal is read. Replaced files are parked. Their replacements come from a copy, validated against the store's
other files, or are derived from those.
"""

from __future__ import annotations

__all__ = ["rescue"]

import os
import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from periplus.base.clock import Clock
from periplus.base.errors import EnvironmentFailure, NewerFormatError, NotAStoreError, UsageError
from periplus.base.files import Files, read_plain, user_of, write_atomic
from periplus.journal.recovery.copies import stores_below
from periplus.journal.recovery.plain_files import PlainFiles, odd_places
from periplus.journal.storage.gitignore import GUARD_TEXT
from periplus.journal.storage.keys import make_trail_key
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.parking import Parking, Repair
from periplus.journal.storage.settings import StoreIds, new_settings_text, read_settings
from periplus.journal.storage.store_creation import IGNORE_TEXT
from periplus.journal.storage.store_joining import stated_store, store_ids_in
from periplus.journal.storage.tree_head import Peer, encode_peer, parse_peer, write_peer

_IDENTITY: Final = "journal/lineage.json"
_KEY_DIGITS: Final = 64
_LINEAGE_IN: Final = re.compile(r"lin_[0-9a-z]{16}")


def rescue(root: str, files: Files, clock: Clock, *, sources: Sequence[str] = ()) -> list[Repair]:
    """Repair whatever keeps the store at ``root`` from being opened, and its plain files; ``sources`` may hold copies of it.

    Settings that cannot be read, or that name another store than every segment does, are replaced from a copy or made anew with the store's
    id. An invalid identity is parked; if no copy has it, the next write begins a new lineage. Raises NotAStoreError if there is no journal
    either.
    """
    layout = Layout(root)
    _refuse_denied(layout)
    yard = Parking(layout, files, clock)
    done = []
    for name, what in list(odd_places(root)):
        yard.move(os.path.join(root, name))
        done.append(Repair(f"{what}: it is parked", os.path.join(root, name)))
    copies = [found for source in sources for found in stores_below(source) if not _is_same(found, root)]
    done += _rescue_settings(layout, files, yard, copies)
    stores = StoreIds(layout, read_settings(layout).store)
    done += _Plain(layout, files, yard, stores, copies).mend()
    return done


def _refuse_denied(layout: Layout) -> None:
    """Raise EnvironmentFailure if this user may not read settings or keys: otherwise they would be taken for lost and replaced."""
    for name in PlainFiles(layout.root, ()).denied():
        path = os.path.join(layout.root, name)
        user = user_of(path)
        raise EnvironmentFailure(
            f"{path} may not be read by this user: nobody can tell whether it is sound", safe="Nothing was changed.",
            mend=f"Run `periplus doctor --repair` as {user}." if user else "Check its mode, then repeat the command.",
        )  # fmt: skip


def _rescue_settings(layout: Layout, files: Files, yard: Parking, copies: list[str]) -> Iterator[Repair]:
    found = store_ids_in(layout)
    error: Exception | None = None
    try:
        ids = read_settings(layout).store.ids
        if len(found) != 1 or not found.isdisjoint(ids):
            return
    except NewerFormatError:
        raise
    except (UsageError, EnvironmentFailure) as failure:
        error = failure
    if len(found) != 1:
        raise NotAStoreError(
            f"{layout.root} has no readable settings and no segment that names the store",
            safe="Nothing was changed.",
            mend=f"Mend {layout.config}, or restore it from git or a backup: the store's id is in it."
            if os.path.lexists(layout.config)
            else f"Restore {layout.config} from git or a backup; to begin a store: `periplus init`.",
        ) from error
    parked = yard.move(layout.config) if os.path.lexists(layout.config) else ""
    copied = next((copy for copy in copies if PlainFiles(copy, found).is_of(found)), None)
    if copied is not None:
        write_atomic(files, layout.config, read_plain(Layout(copied).config, 1 << 20))
        yield Repair("the settings are restored from a copy", layout.config)
    else:
        write_atomic(files, layout.config, new_settings_text(*found).encode())
        besides = f"; copy the other settings from {parked}" if parked else ""
        yield Repair(f"the settings are made anew with the store id found in its segments{besides}", layout.config)


class _Plain:
    def __init__(self, layout: Layout, files: Files, yard: Parking, stores: StoreIds, copies: list[str]) -> None:
        self._layout = layout
        self._files = files
        self._yard = yard
        self._stores = stores
        found = [PlainFiles(copy, stores) for copy in copies]
        self._copies = [copy for copy in found if copy.is_of(stores)]

    def mend(self) -> Iterator[Repair]:
        layout = self._layout
        held = PlainFiles(layout.root, self._stores)
        identity = held.read(_IDENTITY)
        if identity is not None and held.judge(_IDENTITY, identity):
            self._yard.move(layout.lineage)
            yield Repair("an invalid identity is parked: the next write begins a new lineage", layout.lineage)
        yield from self._restore(held, [_IDENTITY])
        held = PlainFiles(layout.root, self._stores)  # the identity decides what is a copy
        names = {name for copy in self._copies for name in copy.names()} | set(held.names())
        yield from self._restore(held, sorted(names - {_IDENTITY}))
        yield from self._begin_anew(PlainFiles(layout.root, self._stores))

    def _restore(self, held: PlainFiles, names: list[str]) -> Iterator[Repair]:
        for name in names:
            data = held.read(name)
            is_missing = data is None
            if not is_missing and not held.judge(name, data):
                continue
            path = os.path.join(self._layout.root, name)
            good, how = self._found(held, name)
            if good is None:
                continue
            if not is_missing:
                self._yard.park(path)
            self._files.make_folder(os.path.dirname(path))
            is_secret = name.startswith("journal/keys/") and not name.endswith(".public")
            write_atomic(self._files, path, good, mode=0o600 if is_secret else 0o644)
            yield Repair(how, path)

    def _begin_anew(self, held: PlainFiles) -> Iterator[Repair]:
        """Make anew or park the files that no copy has and without which commands always fail."""
        layout = self._layout
        for name in held.names():
            data = held.read(name)
            if data is not None and not held.judge(name, data):
                continue
            path = os.path.join(layout.root, name)
            if name == "journal/keys/trail" and (data is None or len(data.strip()) != _KEY_DIGITS):
                self._give_way(path, data)
                make_trail_key(layout, self._files)
                yield Repair(
                    "the secret of imported trails is made anew: a session that is imported again gets another trail",
                    path,
                )
            elif os.path.basename(name) == "head.json" and data is not None:
                self._give_way(path, data)
                yield Repair(
                    "the signed head of another clone's lineage is parked: the next sync brings it again", path
                )
            elif name.startswith("journal/peers/") and data is not None:
                lineage = os.path.basename(name).removesuffix(".json")
                own, key = held.own(), held.key_of(lineage)
                store = self._store_of(lineage)
                self._give_way(path, data)
                what = "the peer file of a lineage is parked: its head is forgotten"
                if key is not None and store:
                    write_peer(
                        layout,
                        self._files,
                        Peer(lineage, store, key=key.hex(), own=own is not None and own.lineage == lineage),
                    )
                    what += ", its key was found elsewhere and is kept"
                yield Repair(what, path)

    def _store_of(self, lineage: str) -> str:
        stated = stated_store(self._layout, lineage)
        return stated if stated in self._stores else ""

    def _give_way(self, path: str, data: bytes | None) -> None:
        if data is not None:
            self._yard.move(path)

    def _found(self, held: PlainFiles, name: str) -> tuple[bytes | None, str]:
        for copy in self._copies:
            data = copy.read(name) if self._is_ours(held, copy) else self._of_another(held, copy, name)
            if data is not None and not held.judge(name, data):
                return data, "the file is restored from a copy"
        if os.path.basename(name) == ".gitignore":
            return GUARD_TEXT if "/" in name else IGNORE_TEXT, "the file is made anew"
        if name.endswith(".public"):
            key = held.key_of(os.path.basename(name).removesuffix(".public"))
            return (None, "") if key is None else (key.hex().encode() + b"\n", "the public key is written anew")
        return None, ""

    def _of_another(self, held: PlainFiles, copy: PlainFiles, name: str) -> bytes | None:
        """Return another clone's file ``name`` if it concerns a lineage that is here, without what is true only of that clone.

        How much of a lineage the other clone has seen is dropped, because this store has not seen it.
        """
        lineage = _LINEAGE_IN.search(name)
        if lineage is None or not os.path.isdir(self._layout.lineage_folder(lineage[0])):
            return None
        data = copy.read(name)
        if data is None or name.endswith((".public", "head.json")):
            return data
        peer = parse_peer(data, lineage[0]) if name.startswith("journal/peers/") else None
        if peer is None:
            return None
        own = held.own()
        is_own = own is not None and own.lineage == lineage[0]
        return encode_peer(msgspec.structs.replace(peer, seen=None, own=is_own))

    def _is_ours(self, held: PlainFiles, copy: PlainFiles) -> bool:
        """Return True if it is a copy of this same store, not of another clone of the project."""
        own, theirs = held.own(), copy.own()
        if theirs is None:
            return False
        if own is not None:
            return theirs.lineage == own.lineage
        return held.read(f"journal/keys/{theirs.lineage}.private") is not None


def _is_same(first: str, second: str) -> bool:
    return os.path.realpath(first) == os.path.realpath(second)
