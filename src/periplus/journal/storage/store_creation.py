"""Creation of a store: the folder, its settings, what git ignores of it, and the lineage of this clone."""

from __future__ import annotations

__all__ = ["IGNORED_LINE", "IGNORE_TEXT", "Created", "create_store"]

import os
from typing import Final

from periplus.base.clock import Clock
from periplus.base.errors import DamageError, environment_failure
from periplus.base.files import Files, write_atomic
from periplus.base.ids import new_id
from periplus.base.named_tuple import NamedTuple
from periplus.base.process.locks import Lock
from periplus.journal.storage.gitignore import guard
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.lineage_creation import create_lineage
from periplus.journal.storage.settings import is_written_here, new_settings_text, read_lineage, read_settings

IGNORED_LINE: Final = b"*"
IGNORE_TEXT: Final = b"# Only the settings and the entities are for git; the rest is this clone's own.\n*\n!.gitignore\n!config.toml\n!entities/\n!entities/**\n"


class Created(NamedTuple):
    """The new store; ``is_new`` is False if it existed before and nothing was changed.

    ``known_from`` names the branch of git that the store's id was taken from, if any.
    """

    root: str
    store_id: str
    lineage: str
    is_new: bool
    known_from: str = ""


def create_store(root: str, files: Files, clock: Clock, store_id: str = "") -> Created:
    """Make a store at ``root``, or complete one (a fresh clone has the settings but no journal). Idempotent.

    If only the settings are gone, as in a git commit without them, they are made with the id that the journal has.
    ``store_id`` is the id for a new store, if it is already known. Raises EnvironmentFailure if the folder cannot be written,
    DamageError if the journal belongs to another store than the settings name.
    """
    layout = Layout(root)
    layout.refuse_links()
    if os.path.exists(layout.config):
        read_settings(layout)  # raises for a store of a later version
    try:
        files.make_folder(layout.root)
        files.make_folder(layout.journal)
        files.make_folder(layout.entities)
    except OSError as error:
        raise environment_failure(error, "make the store", root) from error
    with Lock(layout.lock).holding():
        if not os.path.exists(layout.ignore):
            write_atomic(files, layout.ignore, IGNORE_TEXT)
        if not os.path.exists(layout.config):
            write_atomic(
                files, layout.config, new_settings_text(_id_of_journal(layout) or store_id or new_id("str")).encode()
            )
        settings = read_settings(layout)
        own = read_lineage(layout)
        is_new = own is None
        if own is not None and own.store not in settings.store.ids:
            from periplus.journal.storage.store_joining import of_another_store

            raise of_another_store(layout, settings.store, own.store)
        if own is None or not is_written_here(layout, own):
            previous = own.lineage if own is not None else ""
            own = create_lineage(layout, files, clock, settings.store.id, previous=previous)
    guard(layout, files)
    return Created(layout.root, settings.store.id, own.lineage, is_new)


def _id_of_journal(layout: Layout) -> str:
    """Return the id of the store whose journal is here though its settings are gone; empty if there is no journal.

    Raises DamageError if the segments name several stores: with another id all of them would be foreign.
    """
    from periplus.journal.storage.store_joining import (
        store_ids_in,  # imported here because only this rare case needs it
    )

    found = store_ids_in(layout)
    own = read_lineage(layout)
    if not found and own is not None:
        return own.store
    if len(found) > 1:
        raise DamageError(
            f"the settings are gone, and the segments name several stores: {', '.join(sorted(found))}",
            path=layout.config,
            safe="Nothing was changed.",
            mend="Restore the store's config.toml, for example from git.",
        )
    return found.pop() if found else ""
