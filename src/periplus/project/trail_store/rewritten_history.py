"""The history of a repository as one trail, however often it is rewritten.

A history's trail is named by its first commit. ``commit --amend``, a rebase and a squash leave imported commits
behind that no ref reaches any more: their trail is replaced, a trail that began with another first commit is deleted,
and the new card lists the commits as ``rewritten``. Other branches, and commits that somebody else imported and the
repository does not have, stay as they are.
"""

from __future__ import annotations

__all__ = ["Rewriting", "rewriting"]

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import PeriplusError

if TYPE_CHECKING:
    from periplus.interop import Imported
    from periplus.journal import Entity, Transaction
    from periplus.project.store import ProjectStore

_TEXT_CHARACTERS_MAX: Final = 500
_PATHS_MAX: Final = 20
_Row = dict[str, JSONValue]


class Rewriting(NamedTuple):
    """``rewritten`` is for the card of the new trail; ``gives_way`` is the digest of the trail that is replaced,
    empty for none; ``ended`` are trails of the same history with another beginning.
    """

    rewritten: list[JSONValue]
    gives_way: str
    ended: tuple[str, ...]

    def settle(self, project: ProjectStore, item_id: str) -> bool:
        """Write what the trail ``item_id`` lacks, and delete the others. False where there was nothing to do."""
        done: list[str] = []

        def write(transaction: Transaction) -> None:
            done.clear()
            held = transaction.get("trail", item_id)
            if held is not None and not held.deleted and (held.value.get("rewritten") or []) != self.rewritten:
                transaction.put("trail", item_id, _with_rows(held.value, self.rewritten), action="import",
                                summary="trail: commits that were rewritten")  # fmt: skip
                done.append(item_id)
            for other in self.ended:
                old = transaction.get("trail", other)
                if old is not None and not old.deleted:
                    transaction.delete("trail", other, summary="trail: rewritten")
                    done.append(other)

        entity = project.journal.get("trail", item_id)
        if self.ended or (entity is not None and (entity.value.get("rewritten") or []) != self.rewritten):
            project.journal.mutate(write, project.writer)
        return bool(done)


def rewriting(project: ProjectStore, repository: str, imported: Imported, item_id: str) -> Rewriting:
    """Return what the import of ``repository`` as the trail ``item_id`` finds rewritten. Raises FormatError where git
    cannot be asked.
    """
    from periplus.interop.git_history.history_import import reachable_from_refs
    from periplus.memory.fulltext.documents import REWRITTEN_MAX

    project.journal.refresh()
    trails = [one for one in project.trails() if one.value.get("format") == "git"]
    now = _steps_of(imported.trail)
    steps = {one.item_id: _held_steps(project, one) for one in trails}
    commits = {one.item_id: steps[one.item_id].keys() | _told(one).keys() for one in trails}
    reached = reachable_from_refs(repository, {commit for some in commits.values() for commit in some} - now.keys())
    gone: dict[str, _Row] = {}
    gives_way, ended = "", list[str]()
    for one in trails:
        own, told = commits[one.item_id], _told(one)
        missing = own & reached.missing
        # Garbage-collected commits were this repository's, where this clone imported them from here; listed ones stay listed.
        is_from_here = one.lineage == project.journal.lineage and one.value.get("cwd") == imported.cwd
        lost = (own & reached.unreached) | (missing if is_from_here else missing & told.keys())
        if one.item_id != item_id and (not lost or not own <= lost | now.keys()):
            continue  # another repository's, or another branch with a beginning of its own
        if lost - told.keys():
            gone |= _rows(project, one, lost - told.keys(), steps[one.item_id])
        gone |= {commit: told[commit] for commit in lost & told.keys()}
        if one.item_id != item_id:
            ended.append(one.item_id)
        elif lost - told.keys():
            gives_way = str(one.value.get("digest", ""))
    newest = sorted(gone.values(), key=lambda row: (str(row["ts"]), str(row["commit"])), reverse=True)
    return Rewriting([*newest[:REWRITTEN_MAX]], gives_way, tuple(ended))


def _with_rows(card: dict[str, JSONValue], rows: list[JSONValue]) -> dict[str, JSONValue]:
    rest = {name: value for name, value in card.items() if name != "rewritten"}
    return {**rest, "rewritten": rows} if rows else rest


def _told(trail: Entity) -> dict[str, _Row]:
    """Return the rewritten commits by a trail's card, which anybody may have written."""
    from periplus.memory.fulltext.documents import REWRITTEN_MAX

    told = trail.value.get("rewritten")
    rows = [row for row in told[:REWRITTEN_MAX] if isinstance(row, dict)] if isinstance(told, list) else []
    found: dict[str, _Row] = {}
    for row in rows:
        commit, ts, text, paths = (row.get(name) for name in ("commit", "ts", "text", "paths"))
        if isinstance(commit, str) and _is_commit(commit) and isinstance(ts, str) and isinstance(text, str):
            named = [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []
            found[commit] = _row(commit, ts, text, named)
    return found


def _row(commit: str, ts: str, text: str, paths: Sequence[str]) -> _Row:
    return {"commit": commit, "ts": ts, "text": text[:_TEXT_CHARACTERS_MAX], "paths": [*paths[:_PATHS_MAX]]}


def _is_commit(name: str) -> bool:
    return len(name) in (40, 64) and all(one in "0123456789abcdef" for one in name)


def _steps_of(data: bytes) -> dict[str, int]:
    """Return the commits of a history's trail, and the steps that made them."""
    from periplus.trail import BY_CODE, Digest, TrailReader

    found: dict[str, int] = {}
    for index, step in enumerate(TrailReader(data).steps()):
        opcode = BY_CODE.get(step.code)
        digest = step.operands[2] if opcode is not None and opcode.name == "GIT_COMMIT" else None
        if isinstance(digest, Digest):
            found[digest.value.hex()] = index
    return found


def _held_steps(project: ProjectStore, trail: Entity) -> dict[str, int]:
    """Return ``_steps_of`` a trail that is held; none where it cannot be read."""
    from periplus.memory.fulltext.documents import object_of_card

    try:
        return _steps_of(project.journal.objects.get(object_of_card(trail.value)))
    except PeriplusError:
        return {}


def _rows(project: ProjectStore, trail: Entity, commits: AbstractSet[str], steps: dict[str, int]) -> dict[str, _Row]:
    """Return the rows of a card for ``commits`` of a trail."""
    from periplus.memory.fulltext.documents import documents_of_trail

    documents = {one.part: one for one in documents_of_trail(trail, project.journal.objects.get)}
    found: dict[str, _Row] = {}
    for commit in commits & steps.keys():
        document = documents.get(steps[commit])
        if document is not None:
            found[commit] = _row(commit, document.ts, document.body, document.paths)
    return found
