"""Folders of a project's dispatches in the user's state folder: worktrees, runs and locks."""

from __future__ import annotations

__all__ = ["RESULT_FILE", "Places", "is_run_name", "state_folder_of", "worktree_name"]

import hashlib
import os
import re
from collections.abc import Mapping
from typing import Final

from periplus.base.named_tuple import NamedTuple

RESULT_FILE: Final = ".periplus-result.json"
_SLUG_CHARACTERS: Final = 32
_RUN_NAME: Final = re.compile(r"\w[\w-]{0,99}", re.ASCII)


class Places(NamedTuple):
    """``base`` is the folder of one store: ``STATE/dispatch/<digest of the store's path>``."""

    base: str

    @classmethod
    def of(cls, state: str, root: str) -> Places:
        """Return the places for the store ``root``; ``state`` is the user's state folder of Periplus."""
        digest = hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()
        return cls(os.path.join(state, "dispatch", digest[:16]))

    def worktree(self, name: str) -> str:
        return os.path.join(self.base, "worktrees", name)

    def queue(self, dispatch: str) -> str:
        """The worktree in which the merge queue of a dispatch runs the oracle."""
        return self.worktree(f"queue-{dispatch[-8:]}")

    def review(self, name: str) -> str:
        """The worktree in which the work of the worktree ``name`` is read."""
        return self.worktree(f"{name}-review")

    def run(self, run_id: str) -> str:
        return os.path.join(self.base, "runs", run_id)

    def lock(self, dispatch: str) -> str:
        return os.path.join(self.base, "locks", f"{dispatch}.lock")

    def marks(self, dispatch: str) -> str:
        """The file with the state of git's settings as the supervisor last accepted it."""
        return os.path.join(self.base, "marks", f"{dispatch}.json")

    def checkout(self, dispatch: str) -> str:
        """The file with what was changed in the person's checkout when that was last told."""
        return os.path.join(self.base, "marks", f"{dispatch}.checkout.json")

    def make(self) -> None:
        """Make the folders, readable by their user alone. Raises OSError."""
        for name in ("worktrees", "runs", "locks", "marks"):
            os.makedirs(os.path.join(self.base, name), mode=0o700, exist_ok=True)


def is_run_name(run_id: str) -> bool:
    """Return whether the id of a run, which another clone may have written, is the name of a folder of runs."""
    return _RUN_NAME.fullmatch(run_id) is not None


def state_folder_of(environment: Mapping[str, str], home: str) -> str:
    """Return the user's state folder of Periplus (XDG base directory specification)."""
    base = environment.get("XDG_STATE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.join(home, ".local", "state"), "periplus")


def worktree_name(text: str, step: str, store: str) -> str:
    """Return the name of a step's worktree: some of its words, and a digest of store and step."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower())[:_SLUG_CHARACTERS].strip("-") or "step"
    digest = hashlib.sha256(f"{store}\0{step}".encode()).hexdigest()
    return f"{words}-{digest[:8]}"
