"""Settings of a store (``config.toml``) and the identity of its writer (``lineage.json``)."""

from __future__ import annotations

__all__ = [
    "SEGMENT_BYTES",
    "LineageFile",
    "Settings",
    "StoreIds",
    "StoreSettings",
    "SyncPolicy",
    "conflict_sides",
    "is_written_here",
    "joined_line",
    "new_settings_text",
    "parse_lineage",
    "parse_settings",
    "read_lineage",
    "read_settings",
    "settings_text",
    "unknown_tables",
]

import errno
import os
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from periplus.base.encoding.toml_subset import plain_tables
from periplus.base.errors import (
    DamageError,
    NewerFormatError,
    PeriplusError,
    UsageError,
    environment_failure,
)
from periplus.base.files import Files, generation_of, open_plain, read_plain
from periplus.base.filesystem.file_systems import file_system_id, has_volatile_device_number
from periplus.base.ids import is_id
from periplus.journal.storage.layout import FORMAT_VERSION, Layout

SEGMENT_BYTES: Final = 10 * 1024 * 1024
SEGMENT_BYTES_MAX: Final = 32 * 1024 * 1024  # with one more batch still less than what a reader accepts
_FILE_BYTES_MAX: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"  # editors on Windows write it at the start of a file
_MEND: Final = "Mend the file, or restore it from git; without either, `periplus doctor --repair` makes it anew."
SyncPolicy: TypeAlias = Literal["mutation", "never"]
ClaimsPolicy: TypeAlias = Literal["refuse", "ask", "tell"]
ClaimedPolicy: TypeAlias = Literal["tell", "ask", "deny"]
_WORDS: Final = {
    name: tuple(f'"{word}"' for word in get_args(policy))
    for name, policy in (("journal.sync", SyncPolicy), ("hooks.claims", ClaimsPolicy), ("hooks.claimed", ClaimedPolicy))
}


class JournalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sync: SyncPolicy = "mutation"
    segment_bytes: int = SEGMENT_BYTES
    live_segments: int = 4


class ReflectSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``accept_from``: candidates of a reflection with at least this confidence are accepted at once; 0 accepts none."""

    accept_from: int = 0


class HooksSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``claims``: what happens to an agent's edit of a file that another agent has claimed: refuse it, ask the person, or only tell.

    ``claimed`` is the older form of the setting; it counts if ``claims`` has its default.
    """

    claims: ClaimsPolicy = "refuse"
    claimed: ClaimedPolicy = "deny"

    @property
    def on_claim(self) -> ClaimsPolicy:
        older: ClaimsPolicy = "refuse" if self.claimed == "deny" else self.claimed
        return older if self.claims == "refuse" else self.claims


class StoreSettings(msgspec.Struct, frozen=True):
    """``joined`` are ids of stores that were made separately for the same project and are now one with this store."""

    id: str
    format: int
    joined: tuple[str, ...] = ()

    @property
    def ids(self) -> frozenset[str]:
        return frozenset((self.id, *self.joined))


class Settings(msgspec.Struct, frozen=True):
    """``config.toml``. Tables of later versions are ignored and never dropped: only people write this file."""

    store: StoreSettings
    journal: JournalSettings = JournalSettings()
    reflect: ReflectSettings = ReflectSettings()
    hooks: HooksSettings = HooksSettings()


class LineageFile(msgspec.Struct, frozen=True):
    """``lineage.json``: the lineage that this clone, and no other, writes.

    ``host``, ``device`` and ``inode`` are those of the file itself, so a copy of the store is recognized. ``generation``
    distinguishes later uses of the inode number; 0 if the file system has none. ``boot`` is the boot in which it was written: the
    same file in the same boot is on the same machine, even if the host name changed. ``file_system`` is its id, or empty; a
    snapshot has the inodes and generations of its original. ``previous`` is the lineage that this clone wrote before it was copied
    or restored, or empty. ``left`` maps every lineage that was written here before to how many of its records were durable then.
    """

    lineage: str
    store: str
    host: str
    created: str
    device: int
    inode: int
    previous: str = ""
    generation: int = 0
    left: dict[str, int] = {}
    boot: str = ""
    file_system: str = ""

    def wrote(self, lineage: str) -> bool:
        """Return True if ``lineage`` was written here, now or before the store was copied, moved or restored."""
        return bool(lineage) and (lineage in (self.lineage, self.previous) or lineage in self.left)


class StoreIds(Collection[str]):
    """The store ids that records of the store at ``layout`` may name. An unknown id makes it read the settings again.

    A long-running process thus learns that another store was joined to its store.
    """

    def __init__(self, layout: Layout, settings: StoreSettings) -> None:
        self._layout = layout
        self._known = settings.ids

    def __contains__(self, store: object) -> bool:
        return store in self._known or store in self._again()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._known))

    def __len__(self) -> int:
        return len(self._known)

    def __str__(self) -> str:
        return " and ".join(self)

    def _again(self) -> frozenset[str]:
        try:
            found = read_settings(self._layout).store.ids
        except PeriplusError:
            return self._known
        if not self._known.isdisjoint(found):  # otherwise another store has taken its place
            self._known = found
        return self._known


def new_settings_text(store_id: str, joined: Sequence[str] = ()) -> str:
    also = joined_line(joined) if joined else ""
    return (
        "# Settings of this project's Periplus store. Kept in git; the journal beside it is not.\n\n"
        f'[store]\nid = "{store_id}"\nformat = {FORMAT_VERSION}\n{also}\n'
        "[journal]\n"
        '# "mutation": every write is on disk before it is acknowledged. "never": the system decides when, and a power\n'
        "# cut may take the last writes with it.\n"
        'sync = "mutation"\n'
    )


def joined_line(joined: Sequence[str]) -> str:
    quoted = ", ".join(f'"{one}"' for one in joined)
    return f"joined = [{quoted}]\n"


def read_settings(layout: Layout) -> Settings:
    """Read ``config.toml``. Raises UsageError if a person must correct it, NewerFormatError for a store of a later version."""
    return parse_settings(layout, settings_text(layout))


def settings_text(layout: Layout) -> str:
    """Return the text of ``config.toml``; raises as ``read_settings``."""
    try:
        return read_plain(layout.config, _FILE_BYTES_MAX).removeprefix(_BOM).decode()
    except OSError as error:
        raise environment_failure(error, "read", layout.config) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{layout.config}: not UTF-8 at byte {error.start}", safe="The journal is untouched.",
                         mend=f"Save it as UTF-8. {_MEND}") from error  # fmt: skip


def parse_settings(layout: Layout, text: str) -> Settings:
    """Parse ``text`` as ``config.toml``; raises as ``read_settings``."""
    try:
        settings = msgspec.convert(_tables(text), Settings)
    except ValueError as error:  # from tomllib or msgspec
        newer = _newer_format(layout.config, text)
        if newer is not None:
            raise newer from error
        _refuse_conflict(layout, text)
        wrong, hint = _in_words(str(error))
        raise UsageError(
            f"{layout.config}: {wrong}", safe="The journal is untouched.", mend=f"{hint}{_MEND}"
        ) from error
    if settings.store.format > FORMAT_VERSION:
        raise _newer(layout.config, settings.store.format)
    wrong, hint = _out_of_range(settings)
    if wrong:
        raise UsageError(f"{layout.config}: {wrong}", safe="The journal is untouched.", mend=f"{hint} {_MEND}")
    return settings


def _out_of_range(settings: Settings) -> tuple[str, str]:
    """Return what is wrong with a value of the right type, and what it may be; two empty texts if all are valid."""
    journal, accept_from = settings.journal, settings.reflect.accept_from
    if not 1 <= journal.segment_bytes <= SEGMENT_BYTES_MAX:
        default = f"In [journal], set it to a number from 1 to {SEGMENT_BYTES_MAX}, or leave it out: {SEGMENT_BYTES}."
        return f"segment_bytes is {journal.segment_bytes}, not between 1 and {SEGMENT_BYTES_MAX}", default
    if journal.live_segments < 1:
        default = f"In [journal], set it to 1 or more, or leave it out: {JournalSettings().live_segments}."
        return f"live_segments is {journal.live_segments}, not at least 1", default
    if not 0 <= accept_from <= 100:
        return (
            f"accept_from is {accept_from}, not between 0 and 100",
            "In [reflect], set it to a number from 0 (none) to 100.",
        )
    for name, one in (("id", settings.store.id), *(("joined", one) for one in settings.store.joined)):
        if not is_id(one):
            return f"store.{name} {one[:80]!r} is not an id", "An id of a store is `str_` and 16 letters and digits."
    return "", ""


def unknown_tables(layout: Layout) -> list[tuple[str, str]]:
    """Names of tables at the top of ``config.toml`` that this version does not know, each with the known one that it is nearly."""
    import difflib

    known = [*Settings.__struct_fields__, "types"]
    found = _tables(settings_text(layout))
    near = {name: difflib.get_close_matches(name, known, 1) for name in found if name not in known}
    return [(name, names[0] if names else "") for name, names in near.items()]


def _in_words(said: str) -> tuple[str, str]:
    """Rewrite an error message of msgspec with the setting first; return it with a hint at what was probably meant."""
    import difflib

    at = re.fullmatch(r"(.*?)(?: - at `\$\.?(.*)`)?", said, re.DOTALL)
    assert at is not None
    words = _WORDS.get(at[2] or "", ())
    if words and at[1].startswith("Invalid enum value"):
        return f"{at[2]}: no such value{at[1].removeprefix('Invalid enum value')}", f"It is {' or '.join(words)}. "
    field = re.fullmatch(r"Object contains unknown field `(.*)`", at[1], re.DOTALL)
    if field is None or not at[2]:
        return (f"{at[2]}: {at[1]}" if at[2] else said), ""
    known = getattr(Settings(StoreSettings("", 0)), at[2]).__struct_fields__
    near = difflib.get_close_matches(field[1], known, 1)
    return (
        f"[{at[2]}] has no setting {field[1][:80]!r}",
        f"Did you mean {near[0]}? " if near else f"It has {', '.join(known)}. ",
    )


def _tables(text: str) -> dict[str, object]:
    plain = plain_tables(text)
    if plain is not None:
        return plain
    import tomllib

    return tomllib.loads(text)


def _refuse_conflict(layout: Layout, text: str) -> None:
    """Raise UsageError if git left both sides of a merge in the file."""
    sides = conflict_sides(text)
    if sides is None:
        return
    ids = [found[1] if (found := re.search(r'^id = "(.*)"$', side, re.MULTILINE)) else "" for side in sides]
    mend = "Settle it as any conflict, then repeat the command."
    if ids[0] != ids[1]:
        mend = "Two stores were made for this project: `periplus init --join` makes them one and settles the file."
    raise UsageError(
        f"{layout.config}: it contains a merge conflict of git", safe="The journal is untouched.", mend=mend
    )


def _newer_format(path: str, text: str) -> NewerFormatError | None:
    """Return the error for a later format, or None. A later format may change any line but the one that states it."""
    found = re.search(r"^format = (\d{1,9})$", text[:65_536], re.MULTILINE)
    if found is None or int(found[1]) <= FORMAT_VERSION:
        return None
    return _newer(path, int(found[1]))


def _newer(path: str, found: int) -> NewerFormatError:
    return NewerFormatError(
        f"the store has format {found}; this Periplus reads up to {FORMAT_VERSION}",
        path=path,
        safe="Nothing was changed.",
        mend="Update Periplus, then repeat the command.",
    )


_SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR})


def read_lineage(layout: Layout) -> LineageFile | None:
    """Read ``lineage.json``; None if this clone has not written yet. Raises DamageError if it is damaged or unreadable.

    A shortage of descriptors or memory in this process is no damage: EnvironmentFailure.
    """
    try:
        data = read_plain(layout.lineage, 65_536)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in _SHORTAGES:
            raise environment_failure(error, "read", layout.lineage) from error
        raise DamageError(
            f"the identity of this clone cannot be read: {error.strerror or error}",
            path=layout.lineage,
            safe="The records are untouched.",
            mend="Check its owner and mode; or run `periplus doctor`.",
        ) from error
    return parse_lineage(data, layout.lineage)


def parse_lineage(data: bytes, path: str) -> LineageFile:
    """Parse the content of ``lineage.json``. Raises DamageError that names ``path``."""
    try:
        own = msgspec.json.decode(data, type=LineageFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamageError(
            f"not a lineage file: {error}",
            path=path,
            safe="The records are untouched.",
            mend="Run `periplus doctor`.",
        ) from error
    for lineage in (
        own.lineage,
        *([own.previous] if own.previous else []),
        *own.left,
    ):  # each is used as the name of a folder
        if not lineage.startswith("lin_") or not is_id(lineage):
            raise DamageError(f"not a lineage: {lineage[:80]!r}", path=path, safe="Nothing was changed.")
    if not own.store.startswith("str_") or not is_id(own.store):
        raise DamageError(f"not a store: {own.store[:80]!r}", path=path, safe="The records are untouched.",
                          mend="Run `periplus doctor`.")  # fmt: skip
    return own


def is_written_here(layout: Layout, own: LineageFile) -> bool:
    """Return True if ``lineage.json`` is the file that was written on this machine, not a copy of it.

    A doubtful case counts as a copy: one lineage too many costs a folder, two writers of one lineage would fork it for good. Only
    a subvolume of Btrfs may appear under another device number, which is assigned at each mount.
    """
    try:
        status = os.stat(layout.lineage, follow_symlinks=False)
        if status.st_ino != own.inode or own.file_system not in ("", file_system_id(layout.lineage)):
            return False
        is_same_device = status.st_dev == own.device
        if not is_same_device and not (
            own.file_system and has_volatile_device_number(status.st_dev) and has_volatile_device_number(own.device)
        ):
            return False
        is_same_name = os.uname().nodename == own.host
        if not own.generation:
            return is_same_name and is_same_device
        fd = open_plain(layout.lineage)
        try:
            generation = generation_of(fd)
        finally:
            os.close(fd)
        if is_same_name:
            return generation == own.generation or (generation == 0 and is_same_device)
        return generation == own.generation and own.boot not in ("", "unknown") and Files().boot_id() == own.boot
    except OSError as error:
        raise environment_failure(error, "look at", layout.lineage) from error


def conflict_sides(text: str) -> tuple[str, str] | None:
    """Return both sides of a text that git could not merge, as whole texts; None if ``text`` has no conflict."""
    sides: tuple[list[str], list[str]] = ([], [])
    into = {"<": (0,), "|": (), "=": (1,), ">": (0, 1)}
    now: tuple[int, ...] = (0, 1)
    found = False
    for line in text.splitlines(keepends=True):
        mark = line[0] if re.match(r"(<{7}|\|{7}|>{7}) |={7}\s*$", line) else ""
        if mark:
            found, now = True, into[mark]
            continue
        for side in now:
            sides[side].append(line)
    return ("".join(sides[0]), "".join(sides[1])) if found else None
