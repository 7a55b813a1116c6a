"""Paths of a store's files, and finding the store of a project."""

from __future__ import annotations

__all__ = [
    "CONTEXT_SOCKET",
    "COPIES_FOLDER",
    "FORMAT_VERSION",
    "HOOKS_FOLDER",
    "PARKED_FOLDER",
    "STORE_FOLDER",
    "Layout",
    "find_root",
    "project_root",
]

import os
from collections.abc import Collection, Iterable
from typing import Final

from periplus.base.errors import DamageError
from periplus.base.filesystem.store_location import STORE_FOLDER, find_root, project_root

CONTEXT_SOCKET: Final = "contexts.sock"  # a context server listens on it
PARKED_FOLDER: Final = "parked"  # files that a repair moved away; never read
COPIES_FOLDER: Final = "files"  # in each backup in archive/: copies of other programs' files, whatever their names
HOOKS_FOLDER: Final = "hooks"  # events that hooks left to be imported, and notes of their failures
FORMAT_VERSION: Final = 2
_FOLDERS_IN_ROOT: Final = ("journal",)
_FOLDERS_IN_JOURNAL: Final = ("keys", "checkpoints", "tree", "peers")


class Layout:
    """The paths of one store; ``root`` is the absolute path of its ``.periplus`` folder."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.config = os.path.join(root, "config.toml")
        self.ignore = os.path.join(root, ".gitignore")
        self.entities = os.path.join(root, "entities")
        self.journal = os.path.join(root, "journal")
        self.keys = os.path.join(self.journal, "keys")
        self.lineage = os.path.join(self.journal, "lineage.json")
        self.lock = os.path.join(self.journal, "lock")
        self.projection_lock = os.path.join(self.journal, "projection.lock")
        self.durable = os.path.join(self.journal, "durable")
        self.checkpoints = os.path.join(self.journal, "checkpoints")
        self.checkpoint_lock = os.path.join(self.journal, "checkpoint.lock")
        self.tree = os.path.join(self.journal, "tree")
        self.peers = os.path.join(self.journal, "peers")
        self.flush = os.path.join(self.journal, "flush")
        self.objects = os.path.join(root, "objects")
        self.cursors = os.path.join(root, "cursors")
        self.index = os.path.join(root, "index.sqlite")
        self.turns = os.path.join(root, "turns.sqlite")  # sessions of the agent; derived, as the index is
        self.code = os.path.join(root, "cache", "code.sqlite")  # the code map; derived
        self.hooks = os.path.join(root, HOOKS_FOLDER)

    def refuse_links(self) -> None:
        """Raise DamageError if one of the store's folders or files is a symbolic link.

        A store may come with a repository of unknown origin; following its links would write to wherever they point.
        """
        for folder in (
            self.root,
            self.journal,
            self.keys,
            self.checkpoints,
            self.tree,
            self.peers,
            self.entities,
            self.objects,
            self.cursors,
            self.hooks,
        ):
            try:
                with os.scandir(folder) as entries:
                    found = list(entries)
            except OSError:
                continue  # not there yet, or the next read reports what is wrong
            link = next((entry.path for entry in found if entry.is_symlink()), None)
            if link is not None:
                raise DamageError(
                    "a symbolic link; nothing within a store is one",
                    path=link,
                    safe="It was not followed and nothing was changed.",
                    mend="See where it leads; remove it, or replace it with what belongs there.",
                )

            if folder in (self.root, self.journal):
                _refuse_no_folders(found, _FOLDERS_IN_JOURNAL if folder == self.journal else _FOLDERS_IN_ROOT)

    def lineage_folder(self, lineage: str) -> str:
        return os.path.join(self.journal, lineage)

    def tree_folder(self, lineage: str) -> str:
        return os.path.join(self.tree, lineage)

    def emptying_file(self, lineage: str) -> str:
        """Return the path of the marker that exists while content redacted elsewhere is removed here; the next sync continues."""
        return os.path.join(self.lineage_folder(lineage), "emptying")

    def peer_file(self, lineage: str) -> str:
        return os.path.join(self.peers, f"{lineage}.json")

    def entity_file(self, item_type: str, item_id: str) -> str:
        return os.path.join(self.entities, item_type, f"{item_id}.json")


def _refuse_no_folders(found: Iterable[os.DirEntry[str]], needed: Collection[str]) -> None:
    """Raise DamageError if a folder that the journal needs is something else."""
    for entry in found:
        if (entry.name in needed or entry.name.startswith("lin_")) and not entry.is_dir(follow_symlinks=False):
            raise DamageError(
                "not a folder, but a folder belongs here",
                path=entry.path,
                safe="Nothing was changed.",
                mend="See what it is and remove it; `periplus doctor --repair` parks it.",
            )
