"""Judge the effects of a trail with a git repository and the objects of a store; both are only read."""

from __future__ import annotations

__all__ = ["EffectsOfPart", "trail_effects"]

import os
from collections.abc import Iterable
from typing import Final

from periplus.base.errors import DamageError, NotFoundError
from periplus.base.named_tuple import NamedTuple
from periplus.interop.git_history.git_process import ask, check_repository
from periplus.project.worktree import base_entries, read_blobs, worktree_of
from periplus.trail.checkpoints.effects import Effects, judge_effects
from periplus.trail.checkpoints.git_tree import TreeEntry, git_algorithm, tree_id
from periplus.trail.format.concatenation import open_parts
from periplus.trail.integrity.verification import ObjectReader
from periplus.trail.model import Digest

_EXPECTED_MAX: Final = 10_000


class EffectsOfPart(NamedTuple):
    """The effects of one trail; ``digest`` names it where the file holds several."""

    digest: bytes
    effects: Effects


def trail_effects(
    data: bytes, repository: str, store: ObjectReader | None = None, root: str = ""
) -> list[EffectsOfPart]:
    """Return the effects of the steps of a trail, or of each part of a concatenation, on the files that its run began
    from.

    ``repository`` is a folder in the repository that has them; nothing in it is changed, and nothing that it names is
    run. ``store`` holds the contents, absolute paths are seen from the folder ``root``. Raises FormatError for bytes
    that are not a trail.
    """
    worktree = worktree_of(repository)
    if worktree is not None:
        check_repository(worktree.top)
    top = worktree.top if worktree is not None else repository
    sources = _Sources(top, store)
    return [EffectsOfPart(reader.digest, judge_effects(reader, sources, root)) for reader in open_parts(data)]


class _Sources:
    """Files from the repository, contents from the store: an ``EffectSources``."""

    def __init__(self, repository: str, store: ObjectReader | None) -> None:
        self._repository = repository
        self._store = store
        self._blobs: dict[bytes, bytes | None] = {}
        self._is_there = os.path.isdir(repository) and bool(ask(repository, "rev-parse", "--git-dir"))

    def entries(self, state: Digest) -> dict[str, TreeEntry] | None:
        if state.value == tree_id({}, git_algorithm(state.value)):
            return {}
        return base_entries(self._repository, state.value) if self._is_there else None

    def blob(self, name: bytes) -> bytes | None:
        if name not in self._blobs:
            found = read_blobs(self._repository, [name]) if self._is_there else {}
            self._blobs[name] = found.get(name)
        return self._blobs[name]

    def object(self, digest: bytes) -> bytes | None:
        if self._store is None:
            return None
        try:
            return self._store.get(digest)
        except (DamageError, NotFoundError):
            return None  # verifying the trail reports missing and damaged objects

    def expect(self, blobs: Iterable[bytes]) -> None:
        wanted = list(blobs)[:_EXPECTED_MAX]
        if self._is_there and wanted:
            self._blobs.update(read_blobs(self._repository, wanted))
