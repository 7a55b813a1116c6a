"""Join stores that were made separately for one project.

Two people who both run ``periplus init`` before either has the other's ``config.toml`` have two stores, and git meets two
ids when it merges. Ids of records, versions and lineages do not depend on the store's id, so nothing is rewritten: the
settings name one id and, as ``joined``, the others; each of them stands for the project. Git carries the settings to every
clone. See decision 0095.
"""

from __future__ import annotations

__all__ = ["Joined", "join_stores", "of_another_store", "stated_store", "store_ids_in", "unnamed_store"]

import os
import re
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from periplus.base.errors import (
    DamageError,
    FormatError,
    NotAStoreError,
    PeriplusError,
    UsageError,
)
from periplus.base.files import Files, read_plain, write_atomic
from periplus.base.named_tuple import NamedTuple
from periplus.base.process.locks import Lock
from periplus.journal.records.segment import Header, decode_header, segment_first_seq
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.settings import (
    Settings,
    StoreSettings,
    conflict_sides,
    joined_line,
    parse_settings,
    read_lineage,
    read_settings,
    settings_text,
)

_HEADER_BYTES_MAX: Final = 4096
_JOINED_MAX: Final = 100
_ID_LINE: Final = re.compile(r"^id[ \t]*=[^\n]*\n", re.MULTILINE)
_JOINED_LINE: Final = re.compile(r"^joined[ \t]*=[ \t]*\[[^\]]*\][^\n]*\n", re.MULTILINE)
_STORE_TABLE: Final = re.compile(r"^\[store\][^\n]*\n(?:(?!\[)[^\n]*\n?)*", re.MULTILINE)


class Joined(NamedTuple):
    """The settings after a join: ``store_id`` and the ids ``joined`` to it; ``is_new`` is False if nothing changed."""

    root: str
    store_id: str
    joined: tuple[str, ...]
    is_new: bool


def join_stores(root: str, files: Files) -> Joined:
    """Write settings that name the store in them and the one whose records are here as one store. Idempotent.

    A conflict over the id that git left in the settings is settled: the smaller id stays, whoever settles it. Raises UsageError
    if the sides differ in more than that, NotAStoreError if there is neither settings nor journal.
    """
    layout = Layout(root)
    layout.refuse_links()
    if not os.path.isfile(layout.config):
        raise NotAStoreError(
            f"no settings at {layout.config}", safe="Nothing was changed.", mend="Make a store with `periplus init`."
        )
    files.make_folder(layout.journal)
    with Lock(layout.lock).holding():
        text = settings_text(layout)
        sides = conflict_sides(text)
        settings = read_settings(layout) if sides is None else _settled(layout, *sides)
        known = settings.store.ids | _ids_here(layout)
        if len(known) > _JOINED_MAX:
            raise UsageError(f"over {_JOINED_MAX} stores", safe="Nothing was changed.")
        joined = tuple(sorted(known - {settings.store.id}))
        is_new = sides is not None or joined != settings.store.joined
        if is_new:
            wanted = msgspec.structs.replace(settings, store=msgspec.structs.replace(settings.store, joined=joined))
            write_atomic(
                files, layout.config, _with_store(layout, text if sides is None else sides[0], wanted).encode()
            )
    return Joined(layout.root, settings.store.id, joined, is_new)


def stated_store(layout: Layout, lineage: str) -> str:
    """Return the store that the headers of the lineage's segments name; empty if none can be read."""
    header = _first_header(layout, lineage)
    return header.store if header is not None else ""


def _first_header(layout: Layout, lineage: str) -> Header | None:
    folder = layout.lineage_folder(lineage)
    for place in (folder, os.path.join(folder, "archive")):
        try:
            names = sorted(os.listdir(place))
        except OSError:
            continue
        for name in names:
            if segment_first_seq(name) is not None:
                try:
                    return decode_header(read_plain(os.path.join(place, name), _HEADER_BYTES_MAX))[0]
                except (OSError, FormatError):
                    continue
    return None


def unnamed_store(
    layout: Layout, settings: StoreSettings, stores: Collection[str], lineages: Iterable[str]
) -> DamageError | None:
    """Return the error if one of ``lineages`` belongs to none of ``stores``, else None.

    The settings are then older than the join, as in an old commit.
    """
    for lineage in lineages:
        header = _first_header(layout, lineage)
        if header is not None and header.lineage == lineage and header.store not in stores:
            import shlex

            folder, name = os.path.split(layout.root)
            bring = f"git -C {shlex.quote(folder)} checkout main -- {shlex.quote(os.path.join(name, 'config.toml'))}"
            return DamageError(
                f"config.toml names store {settings.id}, but some records here belong to store {header.store}",
                path=layout.config,
                safe="Every record is still here; nothing was written.",
                mend="If these settings are from before the two were joined, as in an old commit: get the newest with git, such as "
                     f'`{bring}`. Else add there: joined = ["{header.store}"].',
            )  # fmt: skip
    return None


def of_another_store(layout: Layout, settings: StoreSettings, store: str) -> DamageError:
    """Return the error for a ``lineage.json`` of ``store`` while the settings name another store.

    If the segments agree with the settings, ``lineage.json`` is the wrong one.
    """
    found = store_ids_in(layout)
    if found and found <= settings.ids:
        return DamageError(
            f"it names store {store}; the settings and the segments name {settings.id}",
            path=layout.lineage,
            safe="Every record is still here; nothing was written.",
            mend="Run `periplus doctor --repair`, with --from PATH where a backup is: it parks the file, and the next write begins a new lineage.",
        )
    return DamageError(
        f"config.toml names store {settings.id}, but the journal here belongs to store {store}",
        path=layout.config,
        safe="Every record is still here; nothing was written.",
        mend="If git brought the settings of a store that somebody else made for this project: `periplus init --join` joins the two. "
             f'Else restore them: id = "{store}".',
    )  # fmt: skip


def _with_store(layout: Layout, text: str, wanted: Settings) -> str:
    """Return ``text`` with the ids of ``wanted`` and nothing else changed. Raises UsageError if a person has to do it."""
    store = wanted.store
    lines = f'id = "{store.id}"\n' + (joined_line(store.joined) if store.joined else "")

    def renewed(table: re.Match[str]) -> str:
        return _ID_LINE.sub(lines, _JOINED_LINE.sub("", table[0]), count=1)

    found = _STORE_TABLE.sub(renewed, text, count=1)
    try:
        if parse_settings(layout, found) == wanted:
            return found
    except PeriplusError:
        pass
    raise UsageError(f"{layout.config}: the ids in it are not in the form that Periplus writes",
                     safe="Nothing was changed.", mend=f"Write into [store]: {' '.join(lines.splitlines())}")  # fmt: skip


def _settled(layout: Layout, ours: str, theirs: str) -> Settings:
    """Merge the settings of both sides of a conflict, which may differ in the store only."""
    mend = "Settle what else is in conflict by hand, leave the ids, then repeat the command."
    try:
        mine, other = parse_settings(layout, ours), parse_settings(layout, theirs)
    except PeriplusError as error:
        raise UsageError(f"{layout.config}: a side of the conflict cannot be read: {error.wrong}",
                         safe="Nothing was changed.", mend=mend) from error  # fmt: skip
    if msgspec.structs.replace(mine, store=other.store) != other:
        raise UsageError(f"{layout.config}: the two sides of the conflict differ in more than the store's id",
                         safe="Nothing was changed.", mend=mend)  # fmt: skip
    ids = mine.store.ids | other.store.ids
    first = min(mine.store.id, other.store.id)
    store = StoreSettings(first, max(mine.store.format, other.store.format), tuple(sorted(ids - {first})))
    return msgspec.structs.replace(mine, store=store)


def _ids_here(layout: Layout) -> set[str]:

    own = read_lineage(layout)
    return store_ids_in(layout) | ({own.store} if own is not None else set())


def store_ids_in(layout: Layout) -> set[str]:
    """Return the ids of stores that the headers of the segments name."""
    found = set()
    for folder, _, names in os.walk(layout.journal):
        for name in names:
            if segment_first_seq(name) is not None:
                try:
                    found.add(decode_header(read_plain(os.path.join(folder, name), 4096))[0].store)
                except (OSError, FormatError):
                    continue
    return found
