"""The store's plain files, neither records nor derived from them: validation, and recovery from a copy.

They are settings, identity, keys, peer files, signed heads and cursors. None is trusted without proof: a key is proved by a signature or by
a second file with the same key, a head by its signature, an identity by what it names. A file from a copy is validated in the same way
before it is used.
"""

from __future__ import annotations

__all__ = ["PlainFiles", "Suspect", "is_known_lineage", "odd_places"]

import os
import re
import stat
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from periplus.base.errors import DamageError, NewerFormatError, PeriplusError
from periplus.base.files import read_plain
from periplus.base.named_tuple import NamedTuple
from periplus.journal.storage.keys import public_of_private, verify_signature
from periplus.journal.storage.layout import CONTEXT_SOCKET, PARKED_FOLDER, Layout
from periplus.journal.storage.lineage_size import SignedSize, size_in_head, size_in_peer
from periplus.journal.storage.settings import LineageFile, parse_lineage, read_settings
from periplus.journal.storage.store_creation import IGNORED_LINE

_LINEAGE: Final = r"lin_[0-9a-z]{16}"
_FILE_BYTES_MAX: Final = 1 << 20
_HELD: Final = re.compile(
    rf"((journal|objects|hooks)/)?\.gitignore|journal/lineage\.json|journal/keys/({_LINEAGE}\.(public|private|private\.retired)|trail)"
    rf"|journal/peers/{_LINEAGE}\.json|journal/{_LINEAGE}/(head|missing)\.json|cursors/[a-z0-9][a-z0-9._-]*\.json"
)
# Names that only files have.
_FILE_NAME: Final = re.compile(
    r"((journal|objects|hooks)/)?\.gitignore|config\.toml|index\.sqlite(\.[0-9]+\.[0-9]+)?(-wal|-shm)?"
    r"|hooks/(lock|notes|recent|spool/(group|[^/]+\.json))"
    rf"|journal/(durable|flush|[a-z]+\.json|([a-z]+\.)?lock|keys/[^/]+|peers/[^/]+|{_LINEAGE}/[^/]+\.[^/]+"
    rf"|{_LINEAGE}/archive/[^/]+|checkpoints/[^/]+|tree/{_LINEAGE}/[^/]+)"
    r"|objects/[0-9a-f]{2}/[^/]+|cursors/[^/]+|entities/[^/]+/[^/]+\.json|migration/[^/]+"
)
# Names that only folders have.
_FOLDER_NAME: Final = re.compile(
    r"hooks(/spool(/aside)?)?|entities(/[a-z][a-z0-9_]*)?|objects(/[0-9a-f]{2})?|cursors|remotes"
    rf"|journal(/(keys|peers|checkpoints|tree(/{_LINEAGE})?|{_LINEAGE}(/archive)?))?"
)
_UNTOLD: Final = ": nothing that hooks report is kept"
_RESTORE: Final = "Run `periplus doctor --repair --from PATH` with a copy of this store, if there is one."


class Suspect(NamedTuple):
    """A file that is invalid or cannot be read by this user; ``name`` is its path within the store."""

    name: str
    what: str
    is_denied: bool = False


def odd_places(root: str) -> Iterator[tuple[str, str]]:
    """Yield ``(name, description)`` for everything in a store that is neither a file nor a folder, or a folder in a file's place or the
    reverse.
    """
    for folder, folders, names in os.walk(root):
        if folder == root:
            folders[:] = [name for name in folders if name != PARKED_FOLDER]
        for name in sorted([*folders, *names]):
            within = os.path.relpath(os.path.join(folder, name), root)
            mode = os.lstat(os.path.join(folder, name)).st_mode
            if stat.S_ISLNK(mode):
                yield within, "a symbolic link; nothing within a store is one"
            elif stat.S_ISDIR(mode):
                if _FILE_NAME.fullmatch(within):
                    folders.remove(name)
                    yield within, "a folder where a file belongs"
            elif stat.S_ISREG(mode) and _FOLDER_NAME.fullmatch(within):
                is_of_hooks = within.startswith("hooks")
                yield within, f"a file where a folder belongs{_UNTOLD if is_of_hooks else ''}"
            elif not stat.S_ISREG(mode) and not (within == CONTEXT_SOCKET and stat.S_ISSOCK(mode)):
                yield within, "neither a file nor a folder"


class PlainFiles:
    """The plain files of the store at ``root``, each validated against the store's other files. Read-only."""

    def __init__(self, root: str, stores: Collection[str]) -> None:
        self.layout = Layout(root)
        self._stores = stores
        self._keys: dict[str, bytes | None] = {}

    def names(self) -> list[str]:
        """Return the names of the plain files that exist or are required."""
        found = {".gitignore", *filter(_HELD.fullmatch, self._walk())}
        keys = {name for name in found if name.startswith("journal/keys/")}
        if any(name.endswith(".private") for name in keys):
            found |= {"journal/lineage.json", "journal/keys/trail"}
        own = self.own()
        if own is not None:
            found.add(f"journal/keys/{own.lineage}.private")
        found.update(f"journal/keys/{lineage}.public" for lineage in self._lineages() if self.key_of(lineage))
        return sorted(found)

    def suspects(self) -> Iterator[Suspect]:
        denied = self.denied()
        for name in denied:
            yield Suspect(name, "this user may not read it, so it was not checked", is_denied=True)
        if "journal/keys" in denied:
            return  # signatures cannot be checked without the keys
        for name in self.names():
            what = "" if name in denied else self.judge(name, self.read(name))
            if what:
                yield Suspect(name, what)

    def denied(self) -> list[str]:
        """Return the files that exist but that this user may not read, settings included; for unreadable keys their folder."""
        return [name for name in ("config.toml", "journal/keys", *self.names()) if self._is_denied(name)]

    def read(self, name: str) -> bytes | None:
        """Return the file's bytes; None if there is no such plain file."""
        path = os.path.join(self.layout.root, name)
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):
                return None
            return read_plain(path, _FILE_BYTES_MAX)
        except OSError:
            return None

    def _is_denied(self, name: str) -> bool:
        path = os.path.join(self.layout.root, name)
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW))
        except PermissionError:
            return os.path.lexists(path)
        except OSError:
            pass
        return False

    def own(self) -> LineageFile | None:
        data = self.read("journal/lineage.json")
        try:
            return None if data is None else parse_lineage(data, self.layout.lineage)
        except DamageError:
            return None

    def is_of(self, stores: Iterable[str]) -> bool:
        """Return True if the settings here name one of those stores."""
        try:
            return not read_settings(self.layout).store.ids.isdisjoint(stores)
        except PeriplusError:
            return False

    def judge(self, name: str, data: bytes | None) -> str:
        """Return what is wrong with ``data`` as the file ``name``; empty if it is valid."""
        folder, _, base = name.rpartition("/")
        if data is None:
            return (
                ""
                if base == ".gitignore" and folder
                else _MISSING.get(base, "the file is missing" if folder == "journal/keys" else "")
            )
        if base == ".gitignore":
            return "" if IGNORED_LINE in data.splitlines() else "it does not make git ignore the journal and its keys"
        if base == "lineage.json":
            return self._judge_identity(data)
        if folder == "journal/keys":
            return self._judge_key(base, data)
        if folder == "journal/peers":
            return self._judge_peer(base.removesuffix(".json"), data)
        if base == "missing.json":
            from periplus.journal.storage.lineage_size import parse_missing

            return "" if parse_missing(data, os.path.basename(folder)) else "not a valid note of missing records"
        if base == "head.json":
            return self._judge_head(os.path.basename(folder), data)
        return self._judge_cursor(data)

    def key_of(self, lineage: str) -> bytes | None:
        """Return the public key confirmed by signatures or by a second file; None if there is no such key."""
        if lineage not in self._keys:
            self._keys[lineage] = self._find_key(lineage)
        return self._keys[lineage]

    # -- inside ----------------------------------------------------------------------------------------------------

    def _find_key(self, lineage: str) -> bytes | None:
        told: Counter[bytes] = Counter()
        for suffix in (".public", ".private", ".private.retired"):
            key = _key_in(self.read(f"journal/keys/{lineage}{suffix}") or b"")
            if key is not None:
                told[key if suffix == ".public" else public_of_private(key)] += 1
        peer, head = self._peer(lineage), self._head(lineage)
        signed = [(one.key, one.signed) for one in (peer, head) if one is not None]
        told.update(key for key, _ in signed if key)
        for key in told:
            if any(signature and verify_signature(key, signature, message) for _, (signature, message) in signed):
                return key
        best = told.most_common(2)
        if not best or (len(best) == 2 and best[0][1] == best[1][1]):
            return None
        return best[0][0]

    def _peer(self, lineage: str) -> SignedSize | None:
        return size_in_peer(self.read(f"journal/peers/{lineage}.json") or b"", lineage)

    def _head(self, lineage: str) -> SignedSize | None:
        return size_in_head(self.read(f"journal/{lineage}/head.json") or b"", lineage)

    def _judge_identity(self, data: bytes) -> str:
        try:
            own = parse_lineage(data, self.layout.lineage)
        except DamageError as error:
            return error.wrong
        if own.store not in self._stores:
            return f"it belongs to store {own.store}, the settings say {' and '.join(self._stores)}"
        if not is_known_lineage(self.layout, own.lineage):
            return f"it names lineage {own.lineage}, of which there is neither a record nor a key"
        return ""

    def _judge_key(self, base: str, data: bytes) -> str:
        key = _key_in(data)
        if key is None:
            return "not a key of 32 bytes"
        if base == "trail":
            return self._judge_trail_key(key)
        lineage, _, kind = base.partition(".")
        known = self.key_of(lineage)
        found = key if kind == "public" else public_of_private(key)
        if known is None and kind != "public":  # nothing was signed yet, so it is not known which of the two is right
            beside = _key_in(self.read(f"journal/keys/{lineage}.public") or b"")
            return "" if beside in (None, found) else "it does not match the public key beside it"
        return "" if known in (None, found) else "not the key that this lineage's heads are signed with"

    def _judge_trail_key(self, key: bytes) -> str:
        from periplus.journal.proofs.tiles import is_sealed_by

        seals = []
        tree = self.layout.tree
        for lineage in sorted(os.listdir(tree)) if os.path.isdir(tree) else []:
            data = self.read(f"journal/tree/{lineage}/head")
            sealed = None if data is None else is_sealed_by(data, key, self.layout, lineage)
            if sealed is not None:
                seals.append(sealed)
        return "not the key that the tiles are sealed with" if seals and not any(seals) else ""

    def _judge_peer(self, lineage: str, data: bytes) -> str:
        peer = size_in_peer(data, lineage)
        if peer is None:
            return "not a valid peer file"
        if os.path.isdir(self.layout.lineage_folder(lineage)) and peer.store not in self._stores:
            return f"it says that the lineage is of store {peer.store}"
        return self._judge_signed(lineage, peer)

    def _judge_head(self, lineage: str, data: bytes) -> str:
        head = size_in_head(data, lineage)
        if head is None:
            return "not a signed head of this lineage"
        if head.store not in self._stores:
            return f"it says that the lineage is of store {head.store}"
        return self._judge_signed(lineage, head)

    def _judge_signed(self, lineage: str, found: SignedSize) -> str:
        known = self.key_of(lineage)
        if found.key and known not in (None, found.key):
            return "its key is not the one that this lineage's heads are signed with"
        signature, message = found.signed
        if signature and found.key and not verify_signature(found.key, signature, message):
            return "the head in it is not what was signed"
        return ""

    def _judge_cursor(self, data: bytes) -> str:
        from periplus.journal.history.cursors import parse_cursor

        try:
            parse_cursor(data, "")
        except NewerFormatError:
            return ""
        except DamageError as error:
            return error.wrong
        return ""

    def _lineages(self) -> set[str]:
        names = os.listdir(self.layout.journal) if os.path.isdir(self.layout.journal) else []
        return {name for name in names if re.fullmatch(_LINEAGE, name)}

    def _walk(self) -> Iterator[str]:
        layout = self.layout
        folders = [layout.root, layout.journal, layout.keys, layout.peers, layout.cursors, layout.objects, layout.hooks]
        for folder in (*folders, *map(layout.lineage_folder, sorted(self._lineages()))):
            try:
                names = sorted(entry.name for entry in os.scandir(folder) if not entry.is_dir(follow_symlinks=False))
            except OSError:
                continue  # not there
            yield from (os.path.relpath(os.path.join(folder, name), layout.root) for name in names)


_MISSING: Final = {
    ".gitignore": "the file is missing: git would include the journal and its keys",
    "lineage.json": "the file is missing: the next write begins a new lineage",
}


def is_known_lineage(layout: Layout, lineage: str) -> bool:
    """Return True if the store has a folder or a key of ``lineage``; both are made before anything names the lineage."""
    return os.path.isdir(layout.lineage_folder(lineage)) or os.path.exists(
        os.path.join(layout.keys, f"{lineage}.private")
    )


def _key_in(data: bytes) -> bytes | None:
    try:
        key = bytes.fromhex(data.decode("ascii").strip())
    except ValueError:
        return None
    return key if len(key) == 32 else None
