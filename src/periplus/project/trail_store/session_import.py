"""Import trails of sessions and git histories: make, keep and announce them."""

from __future__ import annotations

__all__ = ["KeptImport", "KeptImports", "import_history", "import_sessions"]

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from periplus.base.errors import FormatError, PeriplusError
from periplus.base.ids import derived_id
from periplus.journal import Entity, Transaction
from periplus.project.trail_store.cards import Calls, ImportedTrail, card_of, is_later
from periplus.project.trail_store.keys import project_trail_key
from periplus.project.trail_store.lookup import calls_in, calls_of

if TYPE_CHECKING:
    from periplus.base.encoding.canonical import JSONValue
    from periplus.interop import Imported, SourceFormat
    from periplus.project.store import ProjectStore
    from periplus.project.trail_store.rewritten_history import Rewriting
    from periplus.project.trail_store.withholding import Withholding

Progress = Callable[[int, int], None]


def import_sessions(
    project: ProjectStore,
    path: str,
    *,
    source_format: SourceFormat | None,
    progress: Progress | None,
    only_here: bool,
    session: str = "",
    told: Calls | None = None,
) -> list[ImportedTrail]:
    """See ``Project.import_transcripts``; with ``session`` only the one of that name. Raises FormatError for one that
    ends before calls that were ``told``.
    """
    from periplus.interop import import_transcripts
    from periplus.journal.projections.git_state import project_folders
    from periplus.project.trail_store.import_notes import ImportNotes
    from periplus.project.trail_store.withholding import Withholding

    key, folders = project_trail_key(project), project_folders(project.root) if only_here else ()
    notes = ImportNotes(project, path, folders, key)
    known = notes.known(source_format)
    if known is not None:
        known = [one for one in known if not session or one.entity.value.get("session_id") == session]
        if told is None or _says_all(project, known, told):
            return known
    withholding = Withholding(project)
    sessions = import_transcripts(
        path,
        trail_key=key,
        put_object=withholding.put,
        format=source_format,
        progress=progress,
        folders=folders,
        detected=notes.begin,
    )
    wanted, left_out = [], 0
    for imported in sessions:
        if not session or imported.session_id == session:
            wanted.append(imported)
        else:
            left_out += 1
    for one in wanted if told is not None else ():
        said = calls_in(one.trail)
        if told is not None and told.goes_beyond(said):
            raise FormatError(
                f"it ends after {said.number:,} of the {told.number:,} calls that hooks reported", path=path
            )
    done = [_announce(project, withholding, one, "") for one in wanted]
    if not left_out:
        notes.keep(done, withholding)
    return done


def _says_all(project: ProjectStore, trails: list[ImportedTrail], told: Calls) -> bool:
    """Return True where the trails that are held are those of the file and have all calls that were ``told``."""
    return not any(
        one.digest != one.entity.value.get("digest") or told.goes_beyond(calls_of(project, one.entity))
        for one in trails
    )


def import_history(
    project: ProjectStore, repository: str, *, commits_max: int, progress: Progress | None
) -> ImportedTrail:
    """See ``Project.import_git``."""
    from periplus.interop import import_git
    from periplus.project.trail_store.rewritten_history import rewriting
    from periplus.project.trail_store.withholding import Withholding

    withholding = Withholding(project)
    imported = import_git(
        repository,
        trail_key=project_trail_key(project),
        put_object=withholding.put,
        commits_max=commits_max,
        progress=progress,
    )
    item_id = derived_id("trl", "git", imported.session_id or imported.source_sha256.hex(), "")
    found = rewriting(project, repository, imported, item_id)
    done = _announce(project, withholding, imported, "", found)._replace(left_out=imported.left_out)
    if not found.settle(project, item_id):
        return done
    entity = project.journal.get("trail", item_id)
    assert entity is not None
    return done._replace(entity=entity, changed=True, is_settled=False)


class KeptImport(NamedTuple):
    """The trails of one file that a repository keeps at ``place``, or why it cannot be imported."""

    place: str
    trails: list[ImportedTrail]
    trouble: FormatError | None = None


class KeptImports:
    """Iterates over the imports of all sessions that other tools keep in the refs of ``repository``.

    A session is the same as in the agent's own file, which replaces it when it is at least as long. After the last one
    ``older``, ``bare`` and ``unread`` count as in ``KeptSessions``.
    """

    def __init__(self, project: ProjectStore, repository: str, progress: Progress | None) -> None:
        from periplus.interop.repository_sessions.kept_sessions import KeptSessions

        self.kept = KeptSessions(repository)
        self._project = project
        self._progress = progress

    def __iter__(self) -> Iterator[KeptImport]:
        from periplus.interop import import_transcripts
        from periplus.project.trail_store.withholding import Withholding

        withholding = Withholding(self._project)
        key = project_trail_key(self._project)
        for number, one in enumerate(self.kept):
            try:
                sessions = import_transcripts(one.path, trail_key=key, put_object=withholding.put)
                wanted = [session for session in sessions if session.session_id not in one.elsewhere]
            except FormatError as error:
                error.path = one.place  # the file is a copy that is gone by now
                yield KeptImport(one.place, [], error)
                continue
            trails = [_announce(self._project, withholding, _kept(session, one.keeper), "") for session in wanted]
            if self._progress is not None:
                self._progress(number + 1, self.kept.total)
            yield KeptImport(one.place, trails)


def _kept(imported: Imported, keeper: str) -> Imported:
    children = tuple(_kept(child, keeper) for child in imported.children)
    return imported._replace(keeper=keeper, children=children)


def _announce(
    project: ProjectStore, withholding: Withholding, imported: Imported, parent: str, rewriting: Rewriting | None = None
) -> ImportedTrail:
    """Keep a trail and announce it in the journal, unless the store holds just this one, or a later one of its
    session.
    """
    more: dict[str, JSONValue] = {"rewritten": rewriting.rewritten} if rewriting and rewriting.rewritten else {}
    session = imported.session_id or imported.source_sha256.hex()
    item_id = derived_id("trl", imported.original or imported.format, session, imported.agent_id or "")
    children = tuple(_announce(project, withholding, child, item_id) for child in imported.children)
    before = project.journal.get("trail", item_id)
    is_placed = not parent or (before is not None and bool(before.value.get("parent")))
    if before is not None and is_placed and _is_retold(project, imported, before):
        is_new = any(child.changed for child in children)
        return ImportedTrail(before, is_new, children, 0, str(before.value.get("digest", "")), is_settled=True)
    card, withheld = card_of(imported, parent) | more, 0

    def keep(held_now: Entity | None) -> Callable[[Transaction], None]:
        nonlocal before, card, withheld
        before, card = held_now, card_of(imported, parent) | more
        withheld = withholding.put_trail(card, imported.trail, before)  # this also heals a lost object
        return write

    def write(transaction: Transaction) -> None:
        held = transaction.get("trail", item_id)
        settles = held is not None and held.is_in_conflict and card["digest"] == held.value.get("digest")
        gives_way = held is not None and rewriting is not None and held.value.get("digest") == rewriting.gives_way
        if held is None or held.deleted or settles or gives_way or is_later(card, held.value):
            of_whom = held.value.get("parent") if held is not None and not held.deleted else None
            content = {"parent": of_whom, **card} if of_whom else card  # also where its file was named alone
            summary = f"trail: {card['title'] or session}"
            transaction.put("trail", item_id, content, action="import", summary=summary)

    changed = bool(withholding.announce(item_id, keep).versions)
    entity = project.journal.get("trail", item_id)
    assert entity is not None
    gone = before if changed and before is not None and not before.deleted else None
    is_new = changed or any(child.changed for child in children)
    if changed:  # it is what was written, and nothing is withheld that the replaced trail had
        is_settled = not withheld and entity.value.get("object") == card["object"]
    else:  # the trail that it was compared with is unchanged
        is_settled = before is not None and (before.version, before.heads) == (entity.version, entity.heads)
    return ImportedTrail(entity, is_new, children, withheld, str(card["digest"]), gone, is_settled)


def _is_retold(project: ProjectStore, imported: Imported, held: Entity) -> bool:
    """Return True where the trail that is held has the same content as ``imported``, sealed with the secret of
    another clone. Otherwise two clones that import one session would replace each other's trail for ever.
    """
    from periplus.trail import TrailReader
    from periplus.trail.listings.comparison import is_same_step

    facts = held.value
    source = (imported.format, imported.source_sha256.hex())
    if held.deleted or held.is_in_conflict or (facts.get("format"), facts.get("source_sha256")) != source:
        return False
    if facts.get("digest") == imported.trail_digest.hex():
        return False  # this clone's own: importing heals lost objects
    try:
        old = TrailReader(project.journal.objects.get(bytes.fromhex(str(facts.get("object", "")))))
    except (PeriplusError, ValueError):
        return False  # lost or damaged
    if imported.format == "git":  # a whole history follows from its last commit, except the name of its folder
        return old.step_count == imported.counts["steps"]
    return is_same_step(old, TrailReader(imported.trail))
