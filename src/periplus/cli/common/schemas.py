"""The JSON documents of ``--json``: one for each command; the ``schema`` field names shape and version.

docs/reference/json.md is generated from these structs, and a test compares it. Within a version, fields are added but never
renamed or removed. Times are RFC 3339 in UTC, digests are hexadecimal.
"""

from __future__ import annotations

__all__ = [
    "SCHEMAS",
    "BlameOut",
    "BlamedOut",
    "BriefOut",
    "ConflictOut",
    "DoctorOut",
    "EntityOut",
    "ErrorOut",
    "FindingOut",
    "FlawOut",
    "GapOut",
    "HeadOut",
    "HitOut",
    "InitOut",
    "LeftOut",
    "LogLineOut",
    "LogOut",
    "MendedOut",
    "MigrateOut",
    "MissingOut",
    "OriginOut",
    "PackageOut",
    "ProblemOut",
    "ProveOut",
    "RebasedOut",
    "RecallOut",
    "RecordOut",
    "RefusalOut",
    "RememberOut",
    "RivalOut",
    "SectionOut",
    "ShowOut",
    "SkippedOut",
    "StatusOut",
    "SyncOut",
    "TakenOut",
    "TourOut",
    "TransferOut",
    "UndoOut",
    "UndoneOut",
    "UnsignedOut",
    "VerifyOut",
    "WaitingOut",
]

from typing import Any, Final

import msgspec

from periplus.cli.common.dispatch_schemas import DispatchProgressOut


class InitOut(msgspec.Struct, tag_field="schema", tag="periplus.init/1"):
    """``agents`` have sessions here that can be imported; ``connected`` were connected by this call.

    ``known_from`` is the git branch from which the store's id was taken, ``joined`` are ids of stores that count as the same
    store.
    """

    root: str
    store: str
    lineage: str
    created: bool
    agents: list[str]
    connected: list[str]
    known_from: str = ""
    joined: list[str] = []


class TakenOut(msgspec.Struct):
    type: str
    id: str
    version: str
    path: str


class LeftOut(msgspec.Struct):
    path: str
    what: str
    mend: str


class StatusOut(msgspec.Struct, tag_field="schema", tag="periplus.status/1"):
    """``entities`` counts live entities by type. ``segment_bytes`` is the size of the newest segment. ``damage`` is empty if the
    store is intact, ``last`` if there are no records. ``copied_from`` is the lineage that this copy of a store has not replaced
    by its own yet; ``previous`` is the lineage before it was copied or restored. ``adopted`` and ``edited`` are entity files that
    were just taken into the journal, ``left`` those that were not; ``waits`` says what the files wait for. ``conflicts`` are ids
    of entities in conflict. ``others`` counts records of other lineages. ``checkpoint_due``: `periplus doctor --compact` should
    make a checkpoint. ``unsealed`` are ids of runs that are being recorded or were abandoned. ``apart`` are ids of entities that
    clones replaced differently, ``stuck`` ids of plans and steps that nobody can continue. ``away`` is history that a checkpoint
    covers and whose segments are elsewhere. ``sparse`` is the relation of git's sparse-checkout to the store's folder: empty
    (off), "patterns", "inside", or "outside", which means that git will delete the folder with the journal. ``pull_blocked`` are
    entity files that `git pull` does not overwrite, relative to the project. ``mail`` counts messages to you that are unread or
    need an answer, ``handoffs`` open handoffs for you or anybody, ``candidates`` open proposals. ``unsure`` counts the newest of
    the ``records`` that may not be on disk because a sync failed; others do not see them until the next write. ``found`` is
    damage that the last complete check found. ``dispatches`` are the open ones, ``at_work`` counts assignments that agents do here
    now, ``at_work_elsewhere`` those of other clones, ``questions`` those of agents that wait for a person.
    """

    root: str
    store: str
    lineage: str
    records: int
    last: str
    entities: dict[str, int]
    segment_bytes: int
    sound: bool
    damage: str
    index_current: bool
    copied_from: str = ""
    previous: str = ""
    adopted: list[TakenOut] = []
    edited: list[TakenOut] = []
    left: list[LeftOut] = []
    waits: list[str] = []
    conflicts: list[str] = []
    others: dict[str, int] = {}
    checkpoint_due: bool = False
    unsealed: list[str] = []
    apart: list[str] = []
    away: list[str] = []
    stuck: list[str] = []
    sparse: str = ""
    pull_blocked: list[str] = []
    mail: int = 0
    handoffs: int = 0
    candidates: int = 0
    unsure: int = 0
    found: str = ""
    dispatches: list[DispatchProgressOut] = []
    at_work: int = 0
    at_work_elsewhere: int = 0
    questions: int = 0


class RivalOut(msgspec.Struct):
    """The value of one head at a place; ``present`` is false if it has none there, or is deleted."""

    version: str
    writer: str
    ts: str
    present: bool
    value: Any


class ConflictOut(msgspec.Struct):
    """``path`` are the keys to the place, empty for the whole entity. The first of ``values`` is the one that is shown."""

    path: list[str]
    values: list[RivalOut]


class EntityOut(msgspec.Struct):
    """``value`` is the payload as its type defines it. With several ``heads`` it is their merge, and ``conflicts`` lists where they disagree."""

    type: str
    id: str
    version: str
    heads: list[str]
    rev: int
    ts: str
    writer: str
    seq: int
    value: dict[str, Any]
    conflicts: list[ConflictOut] = []


class RecordOut(msgspec.Struct):
    """A record of the journal. ``key`` names its mutation, ``leaf`` is its hash in the Merkle tree.

    ``conflict``: its entity has several heads at present, of which this version is one.
    """

    seq: int
    ts: str
    writer: str
    session: str
    action: str
    type: str
    id: str
    version: str
    rev: int
    key: str
    summary: str
    leaf: str
    lineage: str
    conflict: bool


class RememberOut(msgspec.Struct, tag_field="schema", tag="periplus.remember/1"):
    """``new`` is false if the same was known already. ``near`` are ids of similar entities. ``key`` repeats the write safely.
    ``notes`` say where an anchor covers less code than requested.
    """

    entity: EntityOut
    new: bool
    key: str
    near: list[str]
    notes: list[str] = []


class ChangedOut(msgspec.Struct, tag_field="schema", tag="periplus.changed/1"):
    """The current state of the entities: first those that were named, then those that changed with them. ``key`` is empty if
    nothing changed. ``near`` are ids of similar entities; ``notes`` say where an anchor covers less code than requested.
    """

    entities: list[EntityOut]
    key: str
    near: list[str] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)


class HitOut(msgspec.Struct):
    """``score`` in millionths. ``part`` is the index of the step in its trail, −1 for the whole. ``conflicts`` lists fields in
    conflict between clones. ``stale`` lists changes of what it is about, ``standing`` describes them, with the commit if known;
    it also says whether the entity is expired or replaced (``expires``, ``replaced``). ``checked`` is the result and time of its
    last check. ``rivals`` are ids of entities by which other clones replaced the same entity, while that is not settled.
    """

    type: str
    id: str
    kind: str
    part: int
    ts: str
    text: str
    score: int
    why: list[str]
    stale: list[str]
    evidence: list[str]
    state: str
    more: str
    conflicts: list[str] = []
    standing: list[str] = []
    checked: str = ""
    rivals: list[str] = []


class NearOut(msgspec.Struct):
    """``asked`` is a term without results, ``found`` are terms one edit away that were searched instead."""

    asked: str
    found: list[str]


class RecallOut(msgspec.Struct, tag_field="schema", tag="periplus.recall/1"):
    """``hits`` are sorted, best first; ``left_out`` counts those beyond the limit or the budget. ``near`` is empty if the
    question's own words were found.
    """

    question: str
    terms: list[str]
    hits: list[HitOut]
    matched: int
    left_out: int
    near: list[NearOut] = []


class SectionOut(msgspec.Struct):
    title: str
    lines: list[str]
    sources: list[str]
    left_out: int
    more: str


class BriefOut(msgspec.Struct, tag_field="schema", tag="periplus.brief/1"):
    """``tokens`` is the estimate for ``text``, at most ``budget``."""

    task: str
    budget: int
    tokens: int
    text: str
    sections: list[SectionOut]
    left_out: int


class ShowOut(msgspec.Struct, tag_field="schema", tag="periplus.show/1"):
    """``at`` is the record as of which it is shown, 0 for now. ``superseded_by`` are ids of entities that supersede it;
    ``rivals`` of entities by which other clones replaced the same entity, while that is not settled. ``cut`` says that older
    records are missing.
    """

    entity: EntityOut
    stale: list[str]
    history: list[RecordOut]
    at: int
    standing: list[str] = []
    superseded_by: list[str] = []
    rivals: list[str] = []
    cut: bool = False


class GapOut(msgspec.Struct):
    """Records ``first`` to ``last`` of a lineage that cannot be read. ``counts`` is the number of entities last written there, by
    ``type/present`` and ``type/deleted``.
    """

    lineage: str
    first: int
    last: int
    counts: dict[str, int]


class UnsureOut(msgspec.Struct):
    """A record that may not be on disk because a sync failed; the next write retries it."""

    seq: int
    action: str
    type: str
    id: str
    key: str
    summary: str


class LogOut(msgspec.Struct, tag_field="schema", tag="periplus.log/1"):
    """Newest first. ``next_page`` is the ``--before`` of the next page, empty on the last one; ``next_before`` is the same as a
    number if one lineage was requested. With ``--reader`` or ``--since-seq``: oldest first; ``seen`` is the last seq of each
    lineage, ``more`` says that the limit left some for the next call, ``gaps`` lists unreadable records. ``unsure`` are the
    newest records of this clone, which are not shown because they may not be on disk.
    """

    lineage: str
    records: list[RecordOut]
    next_before: int | None
    next_page: str
    reader: str
    gaps: list[GapOut]
    seen: dict[str, int]
    more: bool
    unsure: list[UnsureOut] = []


class OriginOut(msgspec.Struct):
    """``certain`` is false if an earlier version was redacted or is missing: the value may be older."""

    record: RecordOut
    certain: bool


class BlamedOut(msgspec.Struct):
    """A field, and the record that set its value; several records for a merge of several heads, none if the record is missing."""

    name: str
    value: Any
    origins: list[OriginOut]


class BlameOut(msgspec.Struct, tag_field="schema", tag="periplus.blame/1"):
    """``cut`` says that records of the entity are missing or unreadable."""

    entity: EntityOut
    fields: list[BlamedOut]
    cut: bool = False


class UndoneOut(msgspec.Struct):
    """``outcome`` is restored, deleted, unchanged or conflict. ``fields`` are reset, ``kept`` were changed by others since and
    stay. ``reason`` explains a conflict, or why there is nothing to do. ``seqs`` are the records that are undone.
    """

    type: str
    id: str
    outcome: str
    seqs: list[int]
    fields: list[str]
    kept: list[str]
    reason: str


class UndoOut(msgspec.Struct, tag_field="schema", tag="periplus.undo/1"):
    """``first_seq`` to ``last_seq`` are the new records, 0 if none was written; ``key`` repeats the write safely. ``along`` are
    those of ``seqs`` that were not named but belong to the same change.
    """

    dry_run: bool
    lineage: str
    seqs: list[int]
    entities: list[UndoneOut]
    first_seq: int
    last_seq: int
    key: str
    along: list[int] = []


class LogLineOut(msgspec.Struct, tag_field="schema", tag="periplus.log.line/1"):
    """A line of ``log --follow --json``: a record or a gap."""

    record: RecordOut | None
    gap: GapOut | None


class ProveOut(msgspec.Struct, tag_field="schema", tag="periplus.prove/1"):
    """``size`` and ``root`` are the tree head, ``key`` is the public key of its signature.

    ``kind`` is inclusion, consistency or bundle. ``seqs`` are the proved records; ``stubs`` are those of redacted records, for
    which only position and leaf hash are proved.
    """

    path: str
    kind: str
    size: int
    root: str
    key: str
    bytes: int
    seqs: list[int]
    stubs: list[int]


class HeadOut(msgspec.Struct, tag_field="schema", tag="periplus.head/1"):
    """The signed tree head of all durable records; ``path`` is empty if no file was written."""

    store: str
    lineage: str
    size: int
    root: str
    key: str
    signature: str
    path: str


class VerifyOut(msgspec.Struct, tag_field="schema", tag="periplus.verify/1"):
    """``holds``: the proof and the signature are valid. ``signer`` is the key's owner, empty if no key or head is given or known.

    ``kind`` is inclusion, consistency, bundle or head. ``seq`` and ``record`` belong to an inclusion, ``seqs`` and ``records`` to
    all kinds; ``stubs`` as in ``prove``. ``here`` compares the head with this store, if it has the lineage: extends, behind (it
    has fewer records), differs (a fork), unknown.
    """

    holds: bool
    signer: str
    reason: str
    kind: str
    store: str
    lineage: str
    size: int
    root: str
    seq: int
    key: str
    record: str
    seqs: list[int]
    records: list[str]
    stubs: list[int]
    here: str


class ProblemOut(msgspec.Struct):
    """``severity`` is error, warning or note; ``offset`` is −1 and ``seq`` 0 if there is none."""

    severity: str
    what: str
    path: str
    offset: int
    seq: int
    next: str


class MissingOut(msgspec.Struct):
    """Records that are missing in a file: their seqs, the file of the store, the offset in it, and the reason."""

    lineage: str
    first_seq: int
    last_seq: int
    path: str
    offset: int
    why: str


class FlawOut(msgspec.Struct):
    """Other damage of a store that was exported with --damaged; ``offset`` is −1 if there is none."""

    what: str
    path: str
    offset: int


class PackageOut(msgspec.Struct, tag_field="schema", tag="periplus.package/1"):
    """A store in one file: ``bytes`` is the size of its files, ``size`` that of the exported file.

    ``missing`` and ``flaws`` describe a damaged store; ``doubts`` are damaged files in an intact store that no record uses.
    """

    path: str
    store: str
    files: int
    records: int
    objects: int
    bytes: int
    size: int
    missing: list[MissingOut]
    flaws: list[FlawOut]
    doubts: list[FlawOut]


class MarkdownOut(msgspec.Struct, tag_field="schema", tag="periplus.markdown/1"):
    """The memory as Markdown: files that were written, unchanged, or removed because their content is gone."""

    folder: str
    entities: int
    written: int
    unchanged: int
    removed: int


class MendedOut(msgspec.Struct):
    """A repair of ``--repair``: the file, and the record (0 if it is not about one)."""

    what: str
    path: str
    seq: int


class CheckpointOut(msgspec.Struct):
    """A checkpoint made by ``--compact``; ``archived`` are the first seqs of the segments that it moved."""

    seq: int
    path: str
    bytes: int
    archived: list[int]


class DoctorOut(msgspec.Struct, tag_field="schema", tag="periplus.doctor/1"):
    """``native``: the C extensions ran; they affect only the time."""

    root: str
    sound: bool
    counts: dict[str, int]
    problems: list[ProblemOut]
    mended: list[MendedOut] = []
    checkpoint: CheckpointOut | None = None
    native: bool = False


class FindingOut(msgspec.Struct):
    """``path`` is relative to the folder, or a line of its log; ``other`` is the file that is used in place of a duplicate."""

    kind: str
    path: str
    why: str
    other: str


class MigrateOut(msgspec.Struct, tag_field="schema", tag="periplus.migrate/1"):
    """``counts``: candidates = entities + duplicates + unreadable + refused. ``dry``: nothing was changed."""

    mode: str
    source: str
    backup: str
    dry: bool
    counts: dict[str, int]
    findings: list[FindingOut]


class TourOut(msgspec.Struct, tag_field="schema", tag="periplus.tour/1"):
    """Each step of the tour by name, with its actions and results."""

    root: str
    seconds: float
    steps: dict[str, Any]


class ErrorOut(msgspec.Struct, tag_field="schema", tag="periplus.error/1"):
    """Printed by ``--json`` in place of a result. ``exit_code`` is that of the process."""

    error: str
    wrong: str
    safe: str
    next: str
    exit_code: int


class TransferOut(msgspec.Struct):
    """Records of one lineage that were received (``in``) or sent (``out``): ``records`` of them, from ``first`` to ``last``.
    ``held`` is the number of its records on the receiving side now. ``objects_missing`` exist on neither side,
    ``objects_left_out`` are redacted at the destination, ``objects_taken_out`` were removed there because these records redact
    them.
    """

    lineage: str
    direction: str
    records: int
    first: int
    last: int
    bytes: int
    objects: int
    object_bytes: int
    objects_missing: int
    objects_left_out: int
    held: int
    objects_taken_out: int


class RefusalOut(msgspec.Struct):
    """A lineage of which nothing was accepted, and the reason; ``error`` is a code as in ``periplus.error``."""

    lineage: str
    direction: str
    error: str
    wrong: str
    safe: str
    next: str


class SkippedOut(msgspec.Struct):
    """An entity or proposal that could not become a candidate."""

    type: str
    id: str
    reason: str


class WaitingOut(msgspec.Struct):
    """A lineage that was not exchanged, because its ``store`` is not named in the settings on the other side."""

    lineage: str
    store: str
    direction: str


class RivalryOut(msgspec.Struct):
    """Several ``rivals`` replace ``old``; ``command`` settles it once its text is filled in."""

    old: str
    rivals: list[str]
    command: str


class LateChangeOut(msgspec.Struct):
    """``fields`` of the entity ``id`` were changed by ``writers`` who did not know that it was superseded by ``superseded_by``;
    ``command`` settles it.
    """

    id: str
    fields: list[str]
    writers: list[str]
    superseded_by: list[str]
    command: str


class StuckOut(msgspec.Struct):
    """Work that nobody can start. ``why`` is ``ended``: ``members`` are open steps of the plan ``id``, which is ended or missing
    (then it is the first of them); ``circle``: they wait for each other; ``never``: ``id`` waits for them, but they were dropped
    or deleted. ``command`` settles it, ``otherwise`` is an alternative.
    """

    id: str
    why: str
    members: list[str]
    command: str
    otherwise: str


class RebasedOut(msgspec.Struct):
    """``lineage`` forked after record ``at``. Of the ``cut`` records here after it, ``written`` were rewritten in ``into``, which
    is empty in a dry run.
    """

    lineage: str
    at: int
    cut: int
    written: int
    into: str


class UnsignedOut(msgspec.Struct):
    """Records of an earlier lineage of this clone that were not sent: the other side accepts only signed records, and the key is gone."""

    lineage: str
    records: int


class ClashOut(msgspec.Struct):
    """The claim ``claim`` of ``holder`` on ``scope`` overlaps ``other`` of ``other_holder`` on ``other_scope``, made in another clone."""

    claim: str
    holder: str
    scope: str
    other: str
    other_holder: str
    other_scope: str


class SyncOut(msgspec.Struct, tag_field="schema", tag="periplus.sync/1"):
    """``conflicts`` are ``type/id`` of entities that this sync brought into conflict. ``left`` is the former lineage of this
    store, if others have more of it than a restored backup. ``candidates`` are ids of candidates from another project.
    ``waiting`` are lineages that were not exchanged because the settings do not name their store. ``apart`` are entities that
    clones replaced differently, ``changed_late`` changes to entities that another clone had superseded. ``redacted_there`` are
    seqs of records of this clone that a copy redacted. ``returned`` counts records whose content was lost to damage here and was
    restored. ``redacted_out`` counts records redacted on the other side, whose entity files are updated by the next command
    there. ``rebased`` are forks in which this clone rewrote its records. ``stuck`` is work that nobody can start, ``taken_apart``
    are claims of this clone that overlap exclusive claims of others.
    """

    place: str
    store: str
    dry_run: bool
    transfers: list[TransferOut]
    refused: list[RefusalOut]
    conflicts: list[str]
    left: str
    candidates: list[str]
    skipped: list[SkippedOut]
    waiting: list[WaitingOut]
    apart: list[RivalryOut] = []
    rebased: list[RebasedOut] = []
    unsigned: list[UnsignedOut] = []
    changed_late: list[LateChangeOut] = []
    redacted_there: list[int] = []
    returned: int = 0
    redacted_out: int = 0
    stuck: list[StuckOut] = []
    taken_apart: list[ClashOut] = []


SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {
    "init": InitOut,
    "status": StatusOut,
    "remember": RememberOut,
    "recall": RecallOut,
    "brief": BriefOut,
    "show": ShowOut,
    "log": LogOut,
    "log --follow": LogLineOut,
    "blame": BlameOut,
    "undo": UndoOut,
    "prove": ProveOut,
    "head": HeadOut,
    "verify": VerifyOut,
    "export": PackageOut,
    "export --markdown": MarkdownOut,
    "import": PackageOut,
    "doctor": DoctorOut,
    "migrate": MigrateOut,
    "sync": SyncOut,
    "tour": TourOut,
    "(any error)": ErrorOut,
}
