"""What ``--json`` prints: one document for each command, its ``schema`` field naming shape and version.

docs/reference/json.md is generated from these and checked by a test. A field is added, never renamed or removed,
within a version. Times are RFC 3339 in UTC, digests hexadecimal.
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


class InitOut(msgspec.Struct, tag_field="schema", tag="periplus.init/1"):
    """``agents`` have sessions here that can be imported; ``connected`` were connected now.

    ``known_from`` is the branch of git from which the store's id is, ``joined`` are ids of stores that are one with it.
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
    """``entities`` counts the live ones by type; ``segment_bytes`` is the size of the newest segment; ``damage`` is empty
    where the store is sound, ``last`` where there is no record. ``copied_from`` is the lineage of which this store is a copy
    that has not written yet, ``previous`` the one that it wrote before it was copied or restored. ``adopted`` and
    ``edited`` are the entity files that were taken into the journal just now, ``left`` those that were not, ``waits`` what
    the files wait for. ``conflicts`` are the ids of the entities in conflict, ``others`` counts the records held of other lineages.
    ``checkpoint_due``: so much came since the last checkpoint that `periplus doctor --compact` should make one. ``unsealed``
    are the ids of the runs that are recorded now, or were left. ``apart`` are ids in whose place clones that wrote apart put
    different things, ``stuck`` ids of plans and steps with which nobody can go on. ``away`` is the past that a checkpoint stands for and
    whose segments are elsewhere. ``sparse`` says whether git's sparse-checkout has the store's folder: empty where it is off, "patterns"
    where it goes by such, "inside", or "outside", from where git removes the folder, journal and all.
    ``pull_blocked`` are entity files over which `git pull` does not write what it fetched, as
    paths from the project's folder. ``mail`` counts the messages to you that are not read or wait for your answer, ``handoffs`` the open
    ones for you or for anybody, ``candidates`` proposed memory that waits for an answer. ``unsure`` counts the newest of the
    ``records``, of which nobody knows whether they reached the disk, for a sync failed: others do not show them until a write makes
    sure of them. ``found``: what the last look at everything found damaged.
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


class RivalOut(msgspec.Struct):
    """What one head has in a place; ``present`` is false where it has nothing there, or is deleted."""

    version: str
    writer: str
    ts: str
    present: bool
    value: Any


class ConflictOut(msgspec.Struct):
    """``path`` are the keys that lead to the place, none for the whole entity; the first of ``values`` is shown."""

    path: list[str]
    values: list[RivalOut]


class EntityOut(msgspec.Struct):
    """``value`` is the payload as its type defines it. Where ``heads`` has several versions it is what they merge to, and
    ``conflicts`` says where they do not agree.
    """

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
    """A record of the journal; ``key`` names the mutation that it belongs to, ``leaf`` is its hash in the Merkle tree.

    ``conflict`` where the version that it made stands beside others: its entity has several heads at present.
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
    """``new`` is false for what was known already, ``near`` are the ids of what says almost the same. ``key`` repeats the
    write without writing twice. ``notes`` tell where it is anchored to less of the code than was asked for.
    """

    entity: EntityOut
    new: bool
    key: str
    near: list[str]
    notes: list[str] = []


class ChangedOut(msgspec.Struct, tag_field="schema", tag="periplus.changed/1"):
    """The entities as they are now: what was asked for first, then what it took with it. ``key`` is empty where nothing had to
    change. ``near`` are ids of others that say almost the same; ``notes`` tell of anchors that are less than what was asked for.
    """

    entities: list[EntityOut]
    key: str
    near: list[str] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)


class HitOut(msgspec.Struct):
    """``score`` in millionths; ``part`` is the step's index in its trail, −1 for the whole. ``conflicts`` names the fields
    in which versions of several clones do not agree. ``stale`` names what it is about that changed since, ``standing`` says it
    in words, with the commit where that is known; ``expires`` and ``replaced`` there say that its end is past, or that something
    stands in its place. ``checked`` is what the last run of a check came to, and when. ``rivals`` are
    the ids of what other clones put in place of what it supersedes, where nobody settled that.
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
    """``asked`` is a term that nothing has, ``found`` are those one edit away that were looked for in its place."""

    asked: str
    found: list[str]


class RecallOut(msgspec.Struct, tag_field="schema", tag="periplus.recall/1"):
    """``hits`` are best first; ``left_out`` more fell to the limit or the budget. ``near`` is empty where the question's own words found them."""

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
    """``tokens`` is the estimate for ``text``, never over ``budget``."""

    task: str
    budget: int
    tokens: int
    text: str
    sections: list[SectionOut]
    left_out: int


class ShowOut(msgspec.Struct, tag_field="schema", tag="periplus.show/1"):
    """``at`` is the record as of which it is shown, 0 for the present. ``superseded_by`` are the ids of what says that it stands in its place,
    ``rivals`` of what other clones put in place of what it supersedes, where nobody settled that. ``cut`` says that older records are not here.
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
    """Records ``first`` to ``last`` of a lineage that cannot be read. ``counts`` says what is known of them: how many
    entities of a type were last written there, by ``type/present`` and ``type/deleted``.
    """

    lineage: str
    first: int
    last: int
    counts: dict[str, int]


class UnsureOut(msgspec.Struct):
    """A record of which nobody knows whether it reached the disk, for a sync failed; the next write makes sure of it."""

    seq: int
    action: str
    type: str
    id: str
    key: str
    summary: str


class LogOut(msgspec.Struct, tag_field="schema", tag="periplus.log/1"):
    """Newest first; ``next_page`` is the ``--before`` of the next page, empty on the last one, ``next_before`` the same as
    a number where one lineage was asked for. With ``--reader`` or ``--since-seq`` oldest first; ``seen`` is the last seq
    looked at of each lineage, ``more`` says that the limit left some for the next look, ``gaps`` what cannot be read. ``unsure`` are
    the newest records of this clone where they are not shown, for it is not known whether they reached the disk.
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
    """``certain`` is false where the content of a version before it was redacted or is not held: the value may be older."""

    record: RecordOut
    certain: bool


class BlamedOut(msgspec.Struct):
    """A field, and the record that set its present value; several where that was merged from several heads, none where it is not here."""

    name: str
    value: Any
    origins: list[OriginOut]


class BlameOut(msgspec.Struct, tag_field="schema", tag="periplus.blame/1"):
    """``cut`` says that records of it are not here, or cannot be read."""

    entity: EntityOut
    fields: list[BlamedOut]
    cut: bool = False


class UndoneOut(msgspec.Struct):
    """``outcome`` is restored, deleted, unchanged or conflict; ``fields`` go back, ``kept`` were changed since by others and
    stay; ``reason`` says why there is a conflict, or nothing to do. ``seqs`` are the records that it covers.
    """

    type: str
    id: str
    outcome: str
    seqs: list[int]
    fields: list[str]
    kept: list[str]
    reason: str


class UndoOut(msgspec.Struct, tag_field="schema", tag="periplus.undo/1"):
    """``first_seq`` to ``last_seq`` are the new records, 0 where none was written; ``key`` repeats the write. ``along`` are those of
    ``seqs`` that were not named and belong to the same change as those that were.
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
    """A line of ``log --follow --json``: a record, or a gap."""

    record: RecordOut | None
    gap: GapOut | None


class ProveOut(msgspec.Struct, tag_field="schema", tag="periplus.prove/1"):
    """``size`` and ``root`` are the tree head, ``key`` the public key that its signature is checked with.

    ``kind`` is inclusion, consistency or bundle; ``seqs`` are the records proved, ``stubs`` those whose content was taken
    out: of these nothing but place and leaf hash is proved.
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
    """The signed tree head of all durable records; ``path`` is empty where no file was written."""

    store: str
    lineage: str
    size: int
    root: str
    key: str
    signature: str
    path: str


class VerifyOut(msgspec.Struct, tag_field="schema", tag="periplus.verify/1"):
    """``holds``: the mathematics and the signature; ``signer``: whose, empty where no key or head was given or known.

    ``kind`` is inclusion, consistency, bundle or head; ``seq`` and ``record`` are those of an inclusion, ``seqs`` and
    ``records`` of every kind; ``stubs``: as for ``prove``. ``here`` compares with the records of the store at hand, if it
    knows the lineage: extends, behind (fewer are here), differs (a fork), unknown.
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
    """``severity`` is error, warning or note; ``offset`` −1 and ``seq`` 0 where there is none."""

    severity: str
    what: str
    path: str
    offset: int
    seq: int
    next: str


class MissingOut(msgspec.Struct):
    """Records that a file has not got: their seqs, the file of the store that had them, where in it, and why not."""

    lineage: str
    first_seq: int
    last_seq: int
    path: str
    offset: int
    why: str


class FlawOut(msgspec.Struct):
    """What else was wrong with a damaged store when what is left of it was written; ``offset`` −1 where it has none."""

    what: str
    path: str
    offset: int


class PackageOut(msgspec.Struct, tag_field="schema", tag="periplus.package/1"):
    """A store in one file: ``bytes`` of its files unpacked, ``size`` of the file itself.

    ``missing`` and ``flaws`` are of what is left of a damaged store, ``doubts`` are unsound files in a whole one that no record needs.
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
    """The memory as a folder of Markdown: files written, left as they were, removed because nothing says them any more."""

    folder: str
    entities: int
    written: int
    unchanged: int
    removed: int


class MendedOut(msgspec.Struct):
    """What ``--repair`` mended: in which file, of which record (0 where it is none)."""

    what: str
    path: str
    seq: int


class CheckpointOut(msgspec.Struct):
    """A checkpoint that ``--compact`` made; ``archived`` are the first seqs of the segments that it moved."""

    seq: int
    path: str
    bytes: int
    archived: list[int]


class DoctorOut(msgspec.Struct, tag_field="schema", tag="periplus.doctor/1"):
    """``native``: the parts of Periplus in C ran, which change nothing but the time it took."""

    root: str
    sound: bool
    counts: dict[str, int]
    problems: list[ProblemOut]
    mended: list[MendedOut] = []
    checkpoint: CheckpointOut | None = None
    native: bool = False


class FindingOut(msgspec.Struct):
    """``path`` within the folder, or a line of its log; ``other`` the file that counts in place of a duplicate."""

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
    """Each step of the tour by name, with what it did and what it saw."""

    root: str
    seconds: float
    steps: dict[str, Any]


class ErrorOut(msgspec.Struct, tag_field="schema", tag="periplus.error/1"):
    """What ``--json`` prints in place of a result; the exit code is the process's."""

    error: str
    wrong: str
    safe: str
    next: str
    exit_code: int


class TransferOut(msgspec.Struct):
    """What came (``in``) or went (``out``) of one lineage: ``records`` of them, from ``first`` to ``last``, none where it is 0.
    ``held`` is how many of its records the receiving side has now; ``objects_missing`` are held on neither side,
    ``objects_left_out`` were redacted where they would go, ``objects_taken_out`` lay there until these records said that they were redacted.
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
    """A lineage of which nothing was taken, and why; ``error`` is a code as in the document of an error."""

    lineage: str
    direction: str
    error: str
    wrong: str
    safe: str
    next: str


class SkippedOut(msgspec.Struct):
    """An entity, or what was proposed, that could not become a candidate."""

    type: str
    id: str
    reason: str


class WaitingOut(msgspec.Struct):
    """A lineage that stays where it is, for its records name a ``store`` that the settings on the other side do not."""

    lineage: str
    store: str
    direction: str


class RivalryOut(msgspec.Struct):
    """``rivals`` each stand in place of ``old``; ``command`` settles it, once it has a text."""

    old: str
    rivals: list[str]
    command: str


class LateChangeOut(msgspec.Struct):
    """``fields`` of the entity ``id`` were changed by ``writers`` who did not know that it is superseded by ``superseded_by``; ``command``
    settles it.
    """

    id: str
    fields: list[str]
    writers: list[str]
    superseded_by: list[str]
    command: str


class StuckOut(msgspec.Struct):
    """Work that nobody can start. ``why`` is ``ended``: ``members`` are open steps of the plan ``id``, which has ended or (then it is the first of
    them) is not there; ``circle``: they wait for each other; ``never``: ``id`` waits for them, which were dropped or deleted. ``command``
    settles it, ``otherwise`` is another way.
    """

    id: str
    why: str
    members: list[str]
    command: str
    otherwise: str


class RebasedOut(msgspec.Struct):
    """``lineage`` had forked behind record ``at``: of the ``cut`` records that stood here behind it, ``written`` are written again
    in ``into``, which is empty in a dry run.
    """

    lineage: str
    at: int
    cut: int
    written: int
    into: str


class UnsignedOut(msgspec.Struct):
    """So many records of a lineage that was written here before stay here: the place takes what is signed, and the key is gone."""

    lineage: str
    records: int


class ClashOut(msgspec.Struct):
    """The claim ``claim`` of ``holder`` takes in ``scope``, and ``other`` of ``other_holder``, from another clone, ``other_scope``."""

    claim: str
    holder: str
    scope: str
    other: str
    other_holder: str
    other_scope: str


class SyncOut(msgspec.Struct, tag_field="schema", tag="periplus.sync/1"):
    """``conflicts`` are ``type/id`` of entities in conflict by what came. ``left`` is the lineage that this store wrote until
    others turned out to hold more of it. ``candidates`` are ids of those that another project's memory gave. ``waiting`` is
    what would come or go if the settings here and there named the same stores. ``apart`` is said anew in several ways, by clones
    that wrote apart, ``changed_late`` what one of them changed that another had superseded. ``redacted_there`` are
    seqs of records of this clone whose content a copy of it took out, ``returned`` counts those that were lost to damage here and
    whose content came back. ``redacted_out`` records lost their content on the other side, whose entity files follow with the next
    command there. ``rebased`` are the forks in which this clone gave way. ``stuck`` is work that nobody can start,
    ``taken_apart`` claims of this clone that exclude those of others, which neither knew of.
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
