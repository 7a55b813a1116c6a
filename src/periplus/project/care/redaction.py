"""Redact a secret from the store, trails and contexts included, which are layers above the journal."""

from __future__ import annotations

__all__ = ["redact_project"]

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import PeriplusError
from periplus.journal import Entity
from periplus.journal.care.redaction import Redaction, Remaining, files_below, redact
from periplus.journal.care.text_removal import Needle
from periplus.journal.index.index_file import forget_turns
from periplus.journal.storage.layout import PARKED_FOLDER
from periplus.memory.entities.types import CONTEXT_REF

if TYPE_CHECKING:
    from periplus.project.store import ProjectStore

_PATHS_TOLD_MAX: Final = 10


def redact_project(
    project: ProjectStore,
    *,
    secret: str = "",
    seqs: Sequence[int] = (),
    reason: str,
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Redaction:
    """Take ``secret``, or the content of our own records ``seqs``, out of the whole store.

    A trail that holds it is replaced by one that withholds those texts: same digest, same receipts. A context that
    holds it, and every context on top of it, is committed again without it. Raises what
    ``periplus.journal.care.redaction.redact`` raises.
    """
    from periplus.project.context_store.contexts import contexts_of

    ways: dict[bytes, bytes] = {}
    done = redact(
        project.journal,
        project.writer,
        secret=secret,
        seqs=seqs,
        reason=reason,
        dry_run=dry_run,
        rewrite=_rewriter(project, secret, ways, dry_run=dry_run),
        renewed=ways,
        progress=progress or (lambda _done, _total: None),
    )
    if secret and not dry_run and os.path.isdir(project.journal.layout.objects):
        from periplus.project.context_store.redaction import forget_parked

        forget_parked(contexts_of(project).library, Needle(secret).is_in)
    if not dry_run:
        from periplus.project.redaction_mark import mark_redaction
        from periplus.project.trail_store.import_notes import forget_notes

        forget_notes(project)
        forget_turns(project.journal.layout.turns, project.journal.files)
        mark_redaction(project)
    left = [one for one in done.remaining if not _goes(project.root, one.where, dry_run=dry_run)]
    beyond = [*_beyond_the_store(project, done), *_v1_folder(project, secret), *(_lost(project) if secret else ())]
    return done._replace(remaining=[*left, *beyond])


def _goes(root: str, path: str, *, dry_run: bool) -> bool:
    """Return True for a file that is removed with derived files of contexts and what gc parked, though it was still
    there when the journal looked.
    """
    of_contexts = tuple(os.path.join(root, folder, "contexts", "") for folder in ("cache", PARKED_FOLDER))
    return path.startswith(of_contexts) and (dry_run or not os.path.lexists(path))


def _rewriter(
    project: ProjectStore, secret: str, ways: dict[bytes, bytes], *, dry_run: bool
) -> Callable[[Entity, frozenset[bytes]], dict[str, JSONValue] | None]:
    from periplus.project.context_store.contexts import contexts_of

    of_trail = _trail_rewriter(project, secret, dry_run=dry_run)

    def rewrite(entity: Entity, doomed: frozenset[bytes]) -> dict[str, JSONValue] | None:
        if entity.item_type != CONTEXT_REF:
            return of_trail(entity, doomed)
        if not secret:
            return None
        from periplus.project.context_store.redaction import redacted_ref

        return redacted_ref(contexts_of(project).library, entity, doomed, Needle(secret).is_in, ways, dry_run=dry_run)

    return rewrite


def _trail_rewriter(
    project: ProjectStore, secret: str, *, dry_run: bool
) -> Callable[[Entity, frozenset[bytes]], dict[str, JSONValue] | None]:
    from periplus.project.trail_store.withholding import withheld_places
    from periplus.trail import TextObject, open_parts, withhold

    objects = project.journal.objects
    needle = Needle(secret) if secret else None

    def rewrite(entity: Entity, doomed: frozenset[bytes]) -> dict[str, JSONValue] | None:
        if entity.item_type != "trail" or needle is None:
            return None
        card = entity.value
        try:
            data = objects.get(bytes.fromhex(str(card["object"])))
            readers = open_parts(data)
        except (PeriplusError, KeyError, ValueError):
            return None  # damaged or lost: doctor reports it, and there is nothing to take out

        def holds(_index: int, value: object) -> bool:
            if isinstance(value, TextObject):
                return value.sha256 in doomed
            return isinstance(value, str) and needle.is_in(value.encode("utf-8", "surrogatepass"))

        if not any(holds(at, reader.string(at)) for reader in readers for at in range(len(reader.strings))):
            return None
        kept = withhold(data, holds)
        if not dry_run:
            card |= {"object": objects.put(kept).hex(), "bytes": len(kept), "withheld": [*withheld_places(kept)]}
        return card

    return rewrite


def _beyond_the_store(project: ProjectStore, done: Redaction) -> list[Remaining]:
    """Yield copies that no command reaches: git's history of entity files, agents' own records, other clones."""
    remaining = []
    layout = project.journal.layout
    told = [(one.item_type, one.item_id) for one in done.records if one.item_type]
    for item_type, item_id in dict.fromkeys([*done.entities, *told]):
        path = layout.entity_file(item_type, item_id)
        if os.path.exists(path) and os.path.exists(os.path.join(project.folder, ".git")):
            name = os.path.relpath(path, project.folder)
            remaining.append(
                Remaining(
                    f"git's history of {name}, if it was committed",
                    f"See `git log --all -- :/{name}`; purge with `git filter-repo --replace-text FILE`, FILE naming the text as JSON writes it "
                    r"(\" for a quote, \\ for a backslash, \n for the end of a line).",
                )
            )
    remaining += _transcripts(project, [key for key in dict.fromkeys([*done.entities, *told]) if key[0] == "trail"])
    if not done.records and not done.objects:
        return remaining
    if os.path.isdir(layout.peers):  # heads were exchanged, or at least shown
        remaining.append(
            Remaining(
                "clones, folders and git remotes that this store was synced with; exports and backups",
                "Repeat `periplus sync --with` each of them; make exports and backups anew.",
            )
        )
    left = {one.lineage for one in done.records} - {project.journal.lineage}
    remaining += [
        Remaining(
            f"the store that this one was copied from, if it still writes lineage {lineage}",
            "Run `periplus redact` there, too.",
        )
        for lineage in sorted(left)
    ]
    remotes = os.path.join(project.root, "remotes")
    for name in sorted(os.listdir(remotes)) if os.path.isdir(remotes) else ():
        if not name.endswith(".git"):
            continue  # the lock beside it
        path = os.path.join(remotes, name)
        remaining.append(
            Remaining(
                f"{path}, and the git remote that it is a copy of",
                "Sync with it, which sweeps this copy, then `git gc --prune=now` in the remote.",
            )
        )
    return remaining


def _transcripts(project: ProjectStore, trails: list[tuple[str, str]]) -> Iterator[Remaining]:
    """Yield the files that trails were imported from: agents keep them elsewhere."""
    for key in trails:
        entity = project.journal.get(*key)
        if entity is not None and entity.value.get("source_sha256") and entity.value.get("session_id"):
            yield Remaining(
                f"the agent's own record of session {entity.value['session_id']} ({entity.value.get('format')})",
                "Remove it there, too: another import leaves out only the texts and files that were redacted whole and what trail "
                f"{entity.item_id} withholds, and nothing else.",
            )


def _lost(project: ProjectStore) -> Iterator[Remaining]:
    """Yield records that were lost to damage: their content is unknown, and a copy may bring it back."""
    from periplus.journal.recovery.lost_payloads import still_lost

    for lineage, seqs in still_lost(project.journal).items():
        many = len(seqs) > 1
        named = f"{', '.join(map(str, seqs[:_PATHS_TOLD_MAX]))}{', …' if len(seqs) > _PATHS_TOLD_MAX else ''}"
        yield Remaining(
            f"the content of record{'s' if many else ''} {named} of {lineage}, lost here by damage: a clone, a backup or an archive elsewhere may have it",
            "Restore it first, if there is a copy (`periplus sync`, `periplus doctor --repair --from PATH`), and repeat this.",
        )


def _v1_folder(project: ProjectStore, secret: str) -> Iterator[Remaining]:
    """Yield a v1 folder that no redaction writes to, because the migration is off."""
    from periplus.project.v1_folder.folder_keeper import read_mode

    mode = read_mode(project.root)
    if mode.mode != "off" or not mode.source or not os.path.isdir(mode.source):
        return
    needle = Needle(secret) if secret else None
    try:
        held = [path for path in files_below(mode.source) if needle is not None and needle.is_in_file(path)]
    except PeriplusError:
        held, needle = [], None  # it cannot be searched: report it as a whole
    paths = sorted(os.path.relpath(path, mode.source) for path in held)
    if needle is not None and not paths:
        return
    more = f" and {len(paths) - _PATHS_TOLD_MAX:,} more" if len(paths) > _PATHS_TOLD_MAX else ""
    which = f": {', '.join(paths[:_PATHS_TOLD_MAX])}{more}" if paths else ", which may hold it, too"
    yield Remaining(
        f"the v1 folder {mode.source}, which is left alone while the migration is off{which}",
        f"Take it out of these files by hand (`grep -rlF -f FILE {shlex.quote(mode.source)}` names them, FILE holding the text), or remove the folder; "
        "another `periplus migrate --to dual` would take it in again.",
    )
