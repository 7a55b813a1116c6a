"""The trails of a project: how one is made of an import, kept and announced, found again, and checked."""

from __future__ import annotations

__all__ = [
    "TRAIL_FILE_BYTES_MAX",
    "ImportedTrail",
    "TrailFile",
    "TrailReadings",
    "calls_of",
    "find_trail",
    "import_history",
    "import_sessions",
    "trail_bytes",
    "trail_problems",
    "trail_secret",
]

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from periplus.base.errors import DamageError, FormatError, NotFoundError, PeriplusError, UsageError, environment_failure
from periplus.base.ids import derived_id, typed_id
from periplus.base.tuples import NamedTuple
from periplus.journal import Entity, Transaction, create_store
from periplus.project.cards import Calls, card_of, is_later

if TYPE_CHECKING:
    from periplus.base.canonical import JSONValue
    from periplus.interop import Imported, SourceFormat
    from periplus.journal.doctor import Problem
    from periplus.project.histories import Rewriting
    from periplus.project.project import Project
    from periplus.project.withholding import Withholding
    from periplus.trail import Report

Progress = Callable[[int, int], None]
TRAIL_FILE_BYTES_MAX: Final = 1 << 30


class ImportedTrail(NamedTuple):
    """``entity`` announces the trail; ``changed`` is False where the store held just this one already, ``withheld`` counts texts that a
    redaction took out and that were left out again. ``digest`` is that of what was imported, another than the entity's where the one that is held goes
    further; ``before`` is what gave way to it. ``left_out`` counts the older commits of a history that were not imported. Where it ``is_settled`` another import of the same would change nothing and say the same but ``changed``.
    """

    entity: Entity
    changed: bool
    children: tuple[ImportedTrail, ...]
    withheld: int = 0
    digest: str = ""
    before: Entity | None = None
    is_settled: bool = False
    left_out: int = 0


class TrailFile(NamedTuple):
    """The bytes of a trail, and the name by which it was found."""

    name: str
    data: bytes


def import_sessions(
    project: Project,
    path: str,
    *,
    source_format: SourceFormat | None,
    progress: Progress | None,
    only_here: bool,
    session: str = "",
    told: Calls | None = None,
) -> list[ImportedTrail]:
    """As ``Project.import_transcripts`` says; with ``session`` only the one of that name. Raises FormatError for one that ends before calls of it
    that were ``told``.
    """
    from periplus.interop import import_transcripts
    from periplus.journal.gitstate import project_folders
    from periplus.project.import_notes import ImportNotes
    from periplus.project.withholding import Withholding

    key, folders = _trail_key(project), project_folders(project.root) if only_here else ()
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
        said = _calls_in(one.trail)
        if told is not None and told.goes_beyond(said):
            raise FormatError(
                f"it ends after {said.number:,} of the {told.number:,} calls that hooks told of", path=path
            )
    done = [_announce(project, withholding, one, "") for one in wanted]
    if not left_out:
        notes.keep(done, withholding)
    return done


def _says_all(project: Project, trails: list[ImportedTrail], told: Calls) -> bool:
    """Whether the trails that are held are those of the file and have all calls that were ``told``."""
    return not any(
        one.digest != one.entity.value.get("digest") or told.goes_beyond(calls_of(project, one.entity))
        for one in trails
    )


def calls_of(project: Project, trail: Entity) -> Calls:
    """The calls of a trail that is held; none where it cannot be read."""
    try:
        return _calls_in(trail_bytes(project, trail.item_id, remains=False).data)
    except PeriplusError:
        return Calls(0, 0)


def _calls_in(data: bytes) -> Calls:
    from periplus.trail.reader import TrailReader

    reader = TrailReader(data)
    at_ms = reader.header.started_ms

    def times() -> Iterator[tuple[int, int]]:
        nonlocal at_ms
        for step in reader.steps():
            at_ms += step.delta_ms
            yield step.code, at_ms

    return Calls.of(times())


def import_history(project: Project, repository: str, *, commits_max: int, progress: Progress | None) -> ImportedTrail:
    """As ``Project.import_git`` says."""
    from periplus.interop import import_git
    from periplus.project.histories import rewriting
    from periplus.project.withholding import Withholding

    withholding = Withholding(project)
    imported = import_git(
        repository,
        trail_key=_trail_key(project),
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


def trail_bytes(project: Project, reference: str, *, remains: bool) -> TrailFile:
    """As ``Project.trail_bytes`` says."""
    from periplus.memory.documents import object_of_card

    if os.path.isfile(reference):
        return TrailFile(reference, _read_file(reference))
    project.journal.refresh()
    entity = find_trail(project, reference)
    objects = project.journal.objects
    name = object_of_card(entity.value)
    trouble = objects.check(name) if remains else None
    try:
        data = objects.remains(name) if trouble is not None else objects.get(name)
    except NotFoundError as error:
        raise DamageError(
            f"nothing of trail {entity.item_id} can be read: {error.wrong}", safe="Other trails are not touched by this.",
            mend="Run `periplus doctor --repair --from PATH` where a backup or another clone is, or import the session anew.",
        ) from error  # fmt: skip
    if trouble is not None and not data:
        raise DamageError(
            f"nothing of trail {entity.item_id} can be read: {trouble}", safe="The file was only read; other trails are not touched by this.",
            mend="Run `periplus doctor --repair` (it mends one changed byte), with --from PATH where a backup or another clone is, or import the session anew.",
        )  # fmt: skip
    return TrailFile(entity.item_id, data)


def trail_secret(project: Project, source_sha256: bytes) -> bytes:
    """As ``Project.trail_secret`` says."""
    import hashlib
    import hmac

    return hmac.digest(_trail_key(project), source_sha256, hashlib.sha256)


class TrailReadings:
    """What an examination has to know of trails, found while each is unpacked once; none of them is kept.

    ``read`` are the objects that were got, ``reports`` say of those that stand in the journal now whether they verify.
    """

    def __init__(self, project: Project) -> None:
        from periplus.project.withholding import Withholding

        self._journal = project.journal
        self._withholding = Withholding(project)
        self.read: set[bytes] = set()
        self.reports: dict[bytes, Report] = {}

    def get(self, digest: bytes) -> bytes:
        """Raises NotFoundError, DamageError."""
        data = self._journal.objects.get(digest)
        self.read.add(digest)
        return data

    def references(self, entity: Entity) -> set[bytes]:
        """As ``syncing.trail_objects``, with all that the trail names and that is held."""
        from periplus.project.syncing import trail_objects

        own = str(entity.value.get("object", ""))
        data = b""

        def lend(digest: bytes) -> bytes:
            nonlocal data
            found = self.get(digest)
            if digest.hex() == own:
                data = found
            return found

        named = trail_objects(entity, lend, holds=self._journal.objects.has)
        if data:
            self._verify(entity.item_id, own, data)
        return named

    def _verify(self, item_id: str, own: str, data: bytes) -> None:
        from periplus.trail import verify

        try:
            held = self._journal.get("trail", item_id)
            if held is not None and held.value.get("object") == own:
                self.reports[bytes.fromhex(own)] = verify(data, store=self, is_redacted=self._withholding.is_out)
        except PeriplusError:
            pass  # whoever asks for the report that is missing meets it again, and tells


def trail_problems(project: Project, reports: Mapping[bytes, Report]) -> Iterator[Problem]:
    """What is wrong with trails whose objects are sound; the check of the objects names the others. ``reports`` are those that are
    known already, by object.
    """
    from periplus.journal.doctor import Problem
    from periplus.memory.documents import object_of_card
    from periplus.project.withholding import Withholding
    from periplus.trail import verify

    withholding = Withholding(project)
    objects = project.journal.objects
    for entity in project.journal.entities("trail"):
        try:
            own = object_of_card(entity.value)
        except DamageError as error:
            yield Problem("error", f"trail {entity.item_id}: {error.wrong}", project.root)
            continue
        report = reports.get(own)
        if report is None:
            try:
                data = objects.get(own)
            except PeriplusError:
                continue
            report = verify(data, store=objects, is_redacted=withholding.is_out)
        if not report.ok:
            yield Problem("error", f"trail {entity.item_id}: {report.summary}", project.root)
        elif report.digest.hex() != entity.value.get("digest"):
            yield Problem("error", f"trail {entity.item_id} is not the one that the journal announced", project.root)


def find_trail(project: Project, reference: str) -> Entity:
    """A trail's entity by id or digest, each may be cut short, or by the run that it was recorded of. Raises NotFoundError."""
    typed, reference = reference, typed_id(reference)
    if reference.startswith("trl_"):
        entity = project.journal.find(reference)
        if entity.item_type == "trail":
            return entity
    if reference.startswith("run_"):
        return _trail_of_run(project, project.journal.find(reference))
    found = [trail for trail in project.trails() if str(trail.value.get("digest", "")).startswith(reference)]
    if len(found) == 1 and len(reference) >= 4:
        return found[0]
    if len(found) > 1:
        raise UsageError(f"{len(found)} trails have a digest that begins with {reference!r}", mend="Type more of it.")
    raise NotFoundError(f"no trail or file is called {typed!r}", mend="See `periplus trail list`.")


def _trail_of_run(project: Project, run: Entity) -> Entity:
    trail_id = run.value.get("trail")
    trail = project.journal.get("trail", trail_id) if isinstance(trail_id, str) and trail_id else None
    if trail is not None and not trail.deleted:
        return trail
    raise NotFoundError(f"run {run.item_id} has no trail yet", safe="Its steps are durable.",
                        mend=f"End it with `periplus trail seal {run.item_id}`.")  # fmt: skip


def _trail_key(project: Project) -> bytes:
    from periplus.journal.keys import trail_key

    journal = project.journal
    if journal.own is None:
        create_store(project.root, journal.files, journal.clock)
    return trail_key(journal.layout)


def _announce(
    project: Project, withholding: Withholding, imported: Imported, parent: str, rewriting: Rewriting | None = None
) -> ImportedTrail:
    """Keep a trail and say so in the journal, unless the store holds just this one, or a later one of its session."""
    more: dict[str, JSONValue] = {"rewritten": rewriting.rewritten} if rewriting and rewriting.rewritten else {}
    session = imported.session_id or imported.source_sha256.hex()
    item_id = derived_id("trl", imported.format, session, imported.agent_id or "")
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
        withheld = withholding.put_trail(card, imported.trail, before)  # a lost object is healed by it
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
    if changed:  # it is what was written, and nothing was taken out of it that what gave way had told of
        is_settled = not withheld and entity.value.get("object") == card["object"]
    else:  # what it was compared with still stands
        is_settled = before is not None and (before.version, before.heads) == (entity.version, entity.heads)
    return ImportedTrail(entity, is_new, children, withheld, str(card["digest"]), gone, is_settled)


def _is_retold(project: Project, imported: Imported, held: Entity) -> bool:
    """Whether the trail that is held says of the same source what ``imported`` says, sealed with the secret of another clone. Two
    clones that import one session would else take each other's place for ever.
    """
    from periplus.trail import TrailReader
    from periplus.trail.diff import says_the_same

    facts = held.value
    source = (imported.format, imported.source_sha256.hex())
    if held.deleted or held.is_in_conflict or (facts.get("format"), facts.get("source_sha256")) != source:
        return False
    if facts.get("digest") == imported.trail_digest.hex():
        return False  # this clone's own: what was lost of it is healed
    try:
        old = TrailReader(project.journal.objects.get(bytes.fromhex(str(facts.get("object", "")))))
    except (PeriplusError, ValueError):
        return False  # lost or damaged
    if imported.format == "git":  # all of a history follows from its last commit, but for the name of its folder
        return old.step_count == imported.counts["steps"]
    return says_the_same(old, TrailReader(imported.trail))


def _read_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(TRAIL_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    if len(data) > TRAIL_FILE_BYTES_MAX:
        raise UsageError(f"{path} is over {TRAIL_FILE_BYTES_MAX:,} bytes")
    return data
