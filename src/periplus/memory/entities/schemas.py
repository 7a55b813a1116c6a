"""The payloads of entities, a shape for each type that the table in ``memory.entities.types`` names.

A payload is a JSON object with ``v`` (the version of its shape) and the fields below. Times are RFC 3339 in UTC,
references are ids. Fields that this version does not know are kept where an entity is updated.
"""

from __future__ import annotations

__all__ = [
    "PAYLOAD_VERSION", "About", "Agent", "Artifact", "Assignment", "Attempt", "Candidate", "Claim", "Common", "Constraint", "ContextRef",
    "Decision", "Dispatch", "Evidence", "Finding", "Handoff", "Lesson", "Limits", "Loop", "Message", "Note", "Plan", "Process", "Provenance",
    "Question", "Relation", "Return", "RunCard", "Session", "SkillCandidate", "Step", "TrailCard", "Trap",
]  # fmt: skip

from typing import Annotated, Final, Literal

import msgspec

PAYLOAD_VERSION: Final = 1


class About(msgspec.Struct, frozen=True, omit_defaults=True):
    """An anchor: the code that a memory is about, as it was when it was written or last confirmed. ``sha256`` is that
    of a file or, where lines of it are meant (a symbol's, or a range), of their plain text (``code.regions``); a
    symbol without ``length`` stands for its whole file.

    The other fields serve to find lines again: the file and its digest, where the lines stood, checksums of their
    first and last line, of their neighbours, and of the line that names the symbol.
    """

    kind: Literal["path", "range", "symbol", "entity"]
    ref: str
    sha256: str = ""
    path: str = ""
    name: str = ""
    file: str = ""
    start: int = 0
    length: int = 0
    edges: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    mark: int = 0
    copies: int = 1


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """The place of a piece of evidence: a journal record (seq), a step (trail id ``#`` index) or a commit."""

    kind: Literal["record", "step", "commit"]
    ref: str
    quote: str = ""


class Relation(msgspec.Struct, frozen=True):
    kind: Literal["supersedes", "contradicts", "caused", "resolves", "depends_on", "part_of", "references"]
    target: str


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """The source of an entity: a person, an agent, reflection over a trail, an import, a merge, or another project."""

    kind: Literal["person", "agent", "reflection", "import", "merge", "other_project"]
    name: str = ""
    source: str = ""


class Common(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """``confirmed`` has the time at which somebody last confirmed the entity and, after a blank, who."""

    v: int = PAYLOAD_VERSION
    text: str
    tags: tuple[str, ...] = ()
    about: tuple[About, ...] = ()
    author: str = ""
    session: str = ""
    evidence: tuple[Evidence, ...] = ()
    confidence: int = 100
    created: str = ""
    updated: str = ""
    relations: tuple[Relation, ...] = ()
    provenance: Provenance = Provenance("person")
    confirmed: str = ""


class Decision(Common, frozen=True, omit_defaults=True, kw_only=True):
    state: Literal["proposed", "accepted", "rejected", "deferred", "superseded"] = "accepted"
    rationale: str = ""
    alternatives: tuple[str, ...] = ()


class Constraint(Common, frozen=True, omit_defaults=True, kw_only=True):
    state: Literal["active", "resolved", "expired"] = "active"
    check: str = ""


class Trap(Common, frozen=True, omit_defaults=True, kw_only=True):
    state: Literal["active", "resolved", "expired"] = "active"
    severity: Literal["low", "medium", "high", "critical"] = "medium"
    remedy: str = ""
    check: str = ""


class Lesson(Common, frozen=True, omit_defaults=True, kw_only=True):
    state: Literal["active", "superseded"] = "active"


class Note(Common, frozen=True, omit_defaults=True, kw_only=True):
    expires: str = ""


class RewrittenCommit(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A commit that was imported and that no ref of its repository reaches any more."""

    commit: str
    ts: str
    text: str
    paths: tuple[str, ...] = ()


class TrailCard(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The announcement of a trail: its object and contents. ``digest`` is the trail's own. ``withheld`` are the
    places in its string table (those of several parts counted through) whose texts were removed; earlier versions
    did not write it. ``ending`` says why an imported run is ``partial``, ``branch`` on which git branch it
    began. ``rewritten`` are commits that the history had before it was rewritten, the newest first.
    """

    v: int = PAYLOAD_VERSION
    digest: str
    object: str
    bytes: int
    format: str
    agent: str
    session_id: str
    source_sha256: str
    title: str = ""
    cwd: str = ""
    model: str = ""
    started: str = ""
    ended: str = ""
    status: str = "success"
    counts: dict[str, int] = {}
    skipped: dict[str, int] = {}
    unknown: dict[str, int] = {}
    masked: int = 0
    withheld: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    parent: str = ""
    ending: str = ""
    branch: str = ""
    rewritten: tuple[RewrittenCommit, ...] = ()


class Candidate(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Proposed memory: an entity of another project as it was there, or a proposal of reflection. Of the first,
    ``source_store`` to ``rev`` say where it stood; of the second, ``why`` gives the reason and ``subject`` what it
    is about. ``accepted_as`` is the id of the entity that was made of it, ``reason`` why it was rejected.

    Earlier versions wrote ``open`` for pending and ``refused`` for rejected: these are read and no longer written.
    """

    v: int = PAYLOAD_VERSION
    state: Literal["pending", "accepted", "rejected", "open", "refused"] = "pending"
    source_store: str = ""
    source_lineage: str = ""
    item_type: str
    item_id: str = ""
    version: str = ""
    rev: int = 0
    payload: dict[str, object]
    why: str = ""
    subject: tuple[str, ...] = ()
    reason: str = ""
    created: str = ""
    accepted_as: str = ""
    provenance: Provenance = Provenance("other_project")


class SkillCandidate(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A skill that the agent's sessions suggest, until a person accepts or rejects it. ``turns`` are those in which
    ``commands`` worked, as ``session#turn``, ``failed`` how often a beginning of them did not. ``rule`` found it;
    ``wording`` says whose words ``description`` and ``body`` are: the rule's, or a model's. ``accepted_as`` is the
    file that was made of it.
    """

    v: int = PAYLOAD_VERSION
    state: Literal["pending", "accepted", "rejected"] = "pending"
    name: str
    description: str
    body: str
    rule: str
    commands: tuple[str, ...]
    turns: tuple[str, ...]
    failed: int = 0
    wording: Literal["rule", "model"] = "rule"
    created: str = ""
    accepted_as: str = ""
    reason: str = ""
    provenance: Provenance = Provenance("reflection")


class Process(msgspec.Struct, frozen=True):
    """The process that carries a run; see ``periplus.base.process.process_marks``."""

    pid: int
    started: str
    boot: str
    host: str
    space: str


class ContextRef(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A name for a context. ``previous`` is the target before this move, empty for the first: objects up to there
    need not be sent again.
    """

    v: int = PAYLOAD_VERSION
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    target: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    previous: Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{64})?\Z")] = ""


class RunCard(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A run that is or was recorded; its steps are observations of it. ``secret`` goes into its trail. ``format``,
    ``agent_id`` and ``transcript`` belong to a run whose steps come from hooks: the format of the agent's imported
    sessions, the subagent, and the file of the agent's own record.
    """

    v: int = PAYLOAD_VERSION
    state: Literal["open", "ended", "sealed"]
    agent: str
    title: str = ""
    model: str = ""
    host: str = ""
    cwd: str = ""
    base: str = ""
    parents: tuple[str, ...] = ()
    tool_version: str
    secret: str = ""
    started: str
    lineage: str
    first_seq: int
    process: Process | None = None
    session: str = ""
    status: Literal["success", "error", "partial", "cancelled"] = "partial"
    trail: str = ""
    digest: str = ""
    format: str = ""
    agent_id: str = ""
    transcript: str = ""


class Message(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A message from one agent to another. ``object`` is the SHA-256 of a text too long to stand here; ``thread`` is
    the id of the first message of the thread, ``ref`` the entity that it is about.
    """

    v: int = PAYLOAD_VERSION
    state: Literal["sent", "read", "answered"] = "sent"
    sender: str
    recipient: str
    text: str
    thread: str = ""
    ref: str = ""
    needs_answer: bool = False
    object: str = ""
    created: str
    run: str = ""
    step: int = 0
    session: str = ""


class Agent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An agent, by name: the sum of its changes of trust, the level reached, permissions granted, the room entered."""

    v: int = PAYLOAD_VERSION
    state: Literal["active", "retired"] = "active"
    name: str
    trust: int = 0
    level: int = 0
    room: str = ""
    capabilities: tuple[str, ...] = ()
    created: str
    updated: str
    run: str = ""
    step: int = 0


class Work(Common, frozen=True, omit_defaults=True, kw_only=True):
    """Work to do. ``depends_on`` are ids of work that has to be done before; ``reason`` explains the present state."""

    state: Literal["todo", "doing", "blocked", "review", "done", "dropped"] = "todo"
    priority: int = 50
    assignee: str = ""
    depends_on: tuple[str, ...] = ()
    reason: str = ""


class Plan(Work, frozen=True, omit_defaults=True, kw_only=True):
    rationale: str = ""


class Step(Work, frozen=True, omit_defaults=True, kw_only=True):
    """A piece of a plan, to be taken by one agent; ``place`` orders those of the same priority."""

    plan: str = ""
    place: int = 0


class Claim(Common, frozen=True, omit_defaults=True, kw_only=True):
    """A claim on paths. It ends at ``expires``, whatever its state says; its holder's activity moves that on. A
    ``waiting`` claim holds nothing yet: ``place`` is its number in the queue, ``process`` the waiting process.
    """

    state: Literal["held", "waiting", "released", "expired"] = "held"
    scopes: tuple[str, ...]
    mode: Literal["exclusive", "shared"] = "exclusive"
    holder: str
    holder_id: str
    ttl_s: int
    expires: str
    step: str = ""
    place: int = 0
    process: Process | None = None


class Handoff(Common, frozen=True, omit_defaults=True, kw_only=True):
    """The state of work that is passed on. Only its state is ever changed: a correction supersedes it."""

    state: Literal["open", "accepted", "closed"] = "open"
    recipient: str = ""
    files: tuple[str, ...] = ()
    tests: str = ""
    unfinished: tuple[str, ...] = ()
    trail: str = ""
    plan: str = ""
    accepted_by: str = ""


class Session(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A session of work. ``name`` is that of the agent's own session, ``seen`` the time of its last sign of life."""

    v: int = PAYLOAD_VERSION
    state: Literal["open", "sealed"] = "open"
    name: str
    agent: str
    agent_id: str = ""
    model: str = ""
    tool: str = ""
    trust: int = 0
    key: str = ""
    title: str = ""
    started: str
    seen: str = ""
    ended: str = ""
    trail: str = ""
    process: Process | None = None


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limits of a dispatch; 0 is none. Times are in seconds, money in hundredths of a dollar. ``wall_s``, ``silence_s``
    and ``disk_bytes`` bound one attempt, ``tokens`` and ``cents`` the dispatch; ``retries`` are new attempts after a failure,
    ``rounds`` returns of submitted work to its author.
    """

    wall_s: int = 3_600
    silence_s: int = 900
    oracle_s: int = 900
    tokens: int = 0
    cents: int = 0
    disk_bytes: int = 4 << 30
    retries: int = 1
    rounds: int = 3


class Material(msgspec.Struct, frozen=True):
    """Text for the agent of a step, beside its order: it is kept in an object."""

    step: str
    object: str


class Dispatch(Common, frozen=True, omit_defaults=True, kw_only=True):
    """An order: a plan, agents, limits and a target branch. ``target`` is the branch that the work is for, ``branch`` the
    one that it is integrated on, ``base`` the target's commit at the start. ``oracle`` and ``setup`` are commands, as words;
    ``links`` and ``copies`` are folders of the checkout that worktrees get as links or as copies. ``process`` is the supervisor's. ``answer`` is the
    sort of result that agents hand in, ``artifact`` says what its field of that name has to hold; with ``read_only`` they
    change nothing and no oracle is run. Of a ``loop`` the dispatch does one phase, with ``materials`` of earlier ones.
    """

    state: Literal["open", "done", "stopped"] = "open"
    plan: str = ""
    agents: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    lanes: int = 2
    target: str = ""
    branch: str = ""
    base: str = ""
    oracle: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    role: str = "implementer"
    answer: Literal["result", "review", "proposals"] = "result"
    artifact: str = ""
    read_only: bool = False
    loop: str = ""
    materials: tuple[Material, ...] = ()
    model: str = ""
    limits: Limits = Limits()
    updates_checkout: bool = False
    process: Process | None = None
    reason: str = ""
    ended: str = ""


class Attempt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One run of an agent for an assignment. ``session`` is the agent's own; ``ending`` says how it ended, ``trail`` is the
    id of its trail. ``cost`` is in millionths of a dollar.
    """

    id: str
    agent: str
    purpose: Literal["work", "review", "oracle", "setup", "queue"] = "work"
    started: str = ""
    ended: str = ""
    ending: str = ""
    session: str = ""
    trail: str = ""
    tokens_in: int = 0
    cached: int = 0
    out: int = 0
    cost: int = 0
    wall_ms: int = 0


class Return(msgspec.Struct, frozen=True, omit_defaults=True):
    """A return of work to its author, and the reason: ``why`` is the check that it did not pass, ``answer`` where a person
    answered its question, ``attempt`` where an earlier attempt ended without result.
    """

    why: Literal["answer", "attempt", "claim", "conflict", "oracle", "queue", "result", "review"]
    text: str
    at: str = ""


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finding of a review."""

    severity: Literal["blocking", "minor"]
    text: str
    path: str = ""
    line: int = 0


class Assignment(Common, frozen=True, omit_defaults=True, kw_only=True):
    """One step for one agent. ``granted`` are attempts that a person allowed beside the retries of the limits. ``run`` is the id of the present job, the last of ``runs``; ``tip`` is the commit that was
    submitted, ``verified`` the one that the oracle passed, ``merged`` the commit of the target branch that has it.
    ``artifact`` is the object with the artifact that was handed in.
    ``worktree`` is the name of its folder. Tokens, ``cost`` (millionths of a dollar) and ``wall_ms`` are sums over ``runs``.
    """

    state: Literal[
        "offered", "running", "waiting", "submitted", "verified", "reviewed", "integrated", "failed", "cancelled", "timed_out"
    ] = "offered"  # fmt: skip
    dispatch: str
    step: str = ""
    plan: str = ""
    agent: str = ""
    kind: str = "implementer"
    claim: str = ""
    branch: str = ""
    worktree: str = ""
    base: str = ""
    tip: str = ""
    verified: str = ""
    merged: str = ""
    attempt: int = 0
    granted: int = 0
    run: str = ""
    runs: tuple[Attempt, ...] = ()
    returns: tuple[Return, ...] = ()
    findings: tuple[Finding, ...] = ()
    verdict: str = ""
    summary: str = ""
    artifact: str = ""
    lessons: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    tokens_in: int = 0
    cached: int = 0
    out: int = 0
    cost: int = 0
    wall_ms: int = 0
    reason: str = ""


class Question(Common, frozen=True, omit_defaults=True, kw_only=True):
    """A question to a person, of an agent at work (``asker``) or of the merge queue. Nobody waits after ``expires``."""

    state: Literal["open", "answered", "expired"] = "open"
    dispatch: str = ""
    assignment: str = ""
    asker: str = ""
    options: tuple[str, ...] = ()
    answer: str = ""
    answered_by: str = ""
    expires: str = ""


class Artifact(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The artifact of a phase of a loop: by whom of the loop (``agent`` is the program), from which assignment, and its text or
    its object. One that is ``refused`` opened no gate; another was asked for.
    """

    phase: str
    by: str
    agent: str = ""
    assignment: str = ""
    text: str = ""
    object: str = ""
    at: str = ""
    refused: bool = False


class Check(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A command that the supervisor ran for a gate, on the commit ``tip``: its exit code, none where it was stopped at its
    limit, and the object with its output.
    """

    phase: str
    argv: tuple[str, ...]
    tip: str
    code: int | None = None
    output: str = ""


class Loop(Common, frozen=True, omit_defaults=True, kw_only=True):
    """A loop over assignments; ``kind`` is a row of the table of loops, ``phase`` the present one of its phases. ``head`` is
    the commit at which its ``branch`` began, ``base`` the one from which the change under discussion counts, ``began`` the one
    with which the phase began. Of the present try, ``plan`` and ``dispatch`` are set; ``tries`` counts those that were judged.
    """

    state: Literal["open", "closed"] = "open"
    kind: str
    phase: str = ""
    agents: tuple[str, ...] = ()
    branch: str = ""
    base: str = ""
    head: str = ""
    began: str = ""
    tries: int = 0
    plan: str = ""
    dispatch: str = ""
    command: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    model: str = ""
    limits: Limits = Limits()
    artifacts: tuple[Artifact, ...] = ()
    checks: tuple[Check, ...] = ()
    missing: tuple[str, ...] = ()
    reason: str = ""
