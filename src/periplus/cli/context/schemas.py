"""The documents of ``periplus context … --json``. Digests are whole, relevance is a number from 0 to 1."""

from __future__ import annotations

__all__ = [
    "CONTEXT_SCHEMAS",
    "BlameEventOut",
    "ContextBisectOut",
    "ContextBlameOut",
    "ContextCloneOut",
    "ContextCommitOut",
    "ContextDiffOut",
    "ContextExpandEndOut",
    "ContextExpandOut",
    "ContextGcOut",
    "ContextLineOut",
    "ContextLogOut",
    "ContextMergeOut",
    "ContextPullOut",
    "ContextPushOut",
    "ContextRefOut",
    "ContextRefsOut",
    "ContextSelectOut",
    "ContextServeOut",
    "ContextShowOut",
    "ContextStreamEndOut",
    "ContextStreamOut",
    "KnownAtomOut",
    "MergeConflictOut",
    "MoleculeOut",
    "PlaceOut",
    "ReannotatedOut",
    "ReasonOut",
    "RefMoveOut",
    "SettledOut",
]

from typing import Any, Final

import msgspec


class KnownAtomOut(msgspec.Struct):
    """An atom with its annotation; ``origin`` is the context that brought it or annotated it last, empty where that is not told."""

    digest: str
    content: str
    type: str
    relevance: float
    time: str
    source: str
    tags: list[str]
    origin: str = ""


class MoleculeOut(msgspec.Struct):
    """``relations`` has pairs of places in ``atoms`` by name."""

    digest: str
    atoms: list[str]
    relations: dict[str, list[list[int]]]
    type: str
    metadata: dict[str, Any]


class ContextCommitOut(msgspec.Struct, tag_field="schema", tag="periplus.context.commit/1"):
    """``context`` is what the ref stands at now. Where nothing was new, ``changed`` is false and it is where the ref stood, empty
    for nowhere. Counts are of atoms: new ones, those annotated anew, removed ones; ``live`` is how many there are now.
    """

    context: str
    base: str
    ref: str
    changed: bool
    added: int
    annotated: int
    removed: int
    molecules: int
    live: int


class ContextLineOut(msgspec.Struct):
    """A context in one line: a delta with its counts. ``refs`` are those that stand here."""

    context: str
    base: str
    merged: list[str]
    depth: int
    live: int
    atoms: int
    molecules: int
    removed: int
    message: str
    author: str
    time: str
    refs: list[str] = []


class RefMoveOut(msgspec.Struct):
    """A record of the journal that moved a ref."""

    lineage: str
    seq: int
    time: str
    writer: str
    what: str


class ContextLogOut(msgspec.Struct, tag_field="schema", tag="periplus.context.log/1"):
    """Newest first. ``more`` where the limit left some; ``moves`` with --ref-moves alone."""

    contexts: list[ContextLineOut]
    moves: list[RefMoveOut]
    more: bool


class ContextShowOut(msgspec.Struct, tag_field="schema", tag="periplus.context.show/1"):
    """One context: its delta. ``atoms`` are at most as many as --limit says, best first; the counts are in ``context``."""

    context: ContextLineOut
    atoms_root: str
    metadata: dict[str, Any]
    atoms: list[KnownAtomOut]
    removed: list[str]
    molecules: list[MoleculeOut]


class ReannotatedOut(msgspec.Struct):
    """An atom that both hold, annotated apart."""

    before: KnownAtomOut
    after: KnownAtomOut


class ContextDiffOut(msgspec.Struct, tag_field="schema", tag="periplus.context.diff/1"):
    """What B has beside A, what it lacks, what it annotates otherwise; likewise of molecules."""

    a: str
    b: str
    added: list[KnownAtomOut]
    removed: list[KnownAtomOut]
    annotated: list[ReannotatedOut]
    molecules_added: list[MoleculeOut]
    molecules_removed: list[MoleculeOut]


class MergeConflictOut(msgspec.Struct):
    """``kind``: annotated (one side removed what the other annotated anew), molecule (one side removed what the other built
    ``molecules`` on) or decided (it was in conflict before, and the sides decided differently). A side is null where it removed the atom, ``base`` where the atom was not there before.
    """

    digest: str
    kind: str
    base: KnownAtomOut | None
    ours: KnownAtomOut | None
    theirs: KnownAtomOut | None
    molecules: list[str]


class SettledOut(msgspec.Struct):
    """An atom of which both sides changed ``fields`` differently, and what was made of it."""

    atom: KnownAtomOut
    fields: list[str]
    ours: KnownAtomOut | None
    theirs: KnownAtomOut | None


class ContextMergeOut(msgspec.Struct, tag_field="schema", tag="periplus.context.merge/1"):
    """``outcome``: merged, fast-forward (theirs stands on ours), already (ours stands on theirs), kept (the ref stays, which another
    clone had ended), conflicts (nothing was changed). ``context`` is where the ref stands now.
    """

    outcome: str
    context: str
    ref: str
    ours: str
    theirs: list[str]
    conflicts: list[MergeConflictOut]
    settled: list[SettledOut]


class BlameEventOut(msgspec.Struct):
    """``kind``: brought, annotated (``fields`` are what changed), removed, or merged (taken over from a branch)."""

    kind: str
    context: str
    message: str
    author: str
    time: str
    fields: list[str]
    source: str


class ContextBlameOut(msgspec.Struct, tag_field="schema", tag="periplus.context.blame/1"):
    """Newest first. ``atom`` is null where the context has it no more."""

    context: str
    digest: str
    atom: KnownAtomOut | None
    events: list[BlameEventOut]


class ContextBisectOut(msgspec.Struct, tag_field="schema", tag="periplus.context.bisect/1"):
    """``first`` is the first context for which it holds, null where it does not hold for ``context``; ``tested`` counts what was
    judged.
    """

    context: str
    first: ContextLineOut | None
    tested: int


class ContextExpandOut(msgspec.Struct, tag_field="schema", tag="periplus.context.expand/1"):
    """One line of an expansion: exactly one of the three is there. Atoms come first, in their order; the line of expand-end is the last."""

    atom: KnownAtomOut | None = None
    molecule: MoleculeOut | None = None
    broken: list[str] = []


class ContextExpandEndOut(msgspec.Struct, tag_field="schema", tag="periplus.context.expand-end/1"):
    """The last line of an expansion, how many lines of each kind came before it: output without it was cut off. ``whole`` is false where
    --limit left something out.
    """

    context: str
    atoms: int
    molecules: int
    broken: int
    whole: bool


class ReasonOut(msgspec.Struct):
    """Why an atom is in a selection, or is not: ``cause`` in one word, ``why`` for people."""

    digest: str
    taken: bool
    cause: str
    why: str
    score: float
    tokens: int


class ContextSelectOut(msgspec.Struct, tag_field="schema", tag="periplus.context.select/1"):
    """Best first. ``counter`` is what tokens were counted with; ``considered`` how many atoms were read, ``whole`` whether that was
    all of them; ``counts`` how many were in or out for each cause. ``reasons`` with --explain alone.
    """

    context: str
    query: str
    budget_tokens: int
    tokens: int
    counter: str
    considered: int
    whole: bool
    counts: dict[str, int]
    atoms: list[KnownAtomOut]
    molecules: list[MoleculeOut]
    reasons: list[ReasonOut]


class ContextStreamOut(msgspec.Struct, tag_field="schema", tag="periplus.context.stream/1"):
    """A chunk, one on a line. ``over`` are the digests of atoms that no chunk within the limits can hold."""

    context: str
    chunk: int
    start: int
    atoms: list[KnownAtomOut]
    over: list[str]
    cumulative_tokens: int
    progress: float
    final: bool


class ContextStreamEndOut(msgspec.Struct, tag_field="schema", tag="periplus.context.stream-end/1"):
    """The last line of a stream. ``head`` is the root of the tree over all of its atoms in their order."""

    context: str
    atoms: int
    tokens: int
    chunks: int
    head: str


class PlaceOut(msgspec.Struct):
    """A context at which a clone left a ref."""

    context: str
    writer: str
    time: str


class ContextRefOut(msgspec.Struct):
    """``apart`` has more than one place where clones moved the ref apart; the first of them is shown. ``ended_apart`` where a clone
    ended it while another moved it.
    """

    name: str
    context: str
    writer: str
    time: str
    live: int
    apart: list[PlaceOut]
    ended_apart: bool = False


class ContextRefsOut(msgspec.Struct, tag_field="schema", tag="periplus.context.refs/1"):
    refs: list[ContextRefOut]


class ContextPushOut(msgspec.Struct, tag_field="schema", tag="periplus.context.push/1"):
    """``objects`` and ``bytes`` are what travelled; nothing did where the other had all."""

    place: str
    context: str
    ref: str
    previous: str
    objects: int
    bytes: int


class ContextPullOut(msgspec.Struct, tag_field="schema", tag="periplus.context.pull/1"):
    """``outcome``: moved, nothing (all of it was here), apart (it is here now, and has to be merged). ``objects`` is how many came."""

    place: str
    context: str
    ref: str
    previous: str
    outcome: str
    objects: int
    bytes: int


class ContextCloneOut(msgspec.Struct, tag_field="schema", tag="periplus.context.clone/1"):
    """``made``: the store was made by this. ``apart`` are the names of refs that were not moved, for neither stands on the other."""

    place: str
    store: str
    made: bool
    refs: dict[str, str]
    apart: list[str]
    objects: int
    bytes: int


class ContextServeOut(msgspec.Struct, tag_field="schema", tag="periplus.context.serve/1"):
    """Where the server listens, printed when it does, and at its end what it has counted; with --stats, what a running one has counted,
    nothing where none runs.
    """

    address: str
    stats: dict[str, Any] = {}


class ContextGcOut(msgspec.Struct, tag_field="schema", tag="periplus.context.gc/1"):
    """Numbers of objects: ``reached`` by refs, ``young`` ones that were left where they are, ``parked`` now, ``restored`` because
    something stands on them by now, ``pruned``: removed for good.
    """

    reached: int
    young: int
    parked: int
    parked_bytes: int
    restored: int
    pruned: int
    pruned_bytes: int


CONTEXT_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {
    "context bisect": ContextBisectOut,
    "context blame": ContextBlameOut,
    "context clone": ContextCloneOut,
    "context commit": ContextCommitOut,
    "context diff": ContextDiffOut,
    "context expand": ContextExpandOut,
    "context expand (its last line)": ContextExpandEndOut,
    "context gc": ContextGcOut,
    "context log": ContextLogOut,
    "context merge": ContextMergeOut,
    "context pull": ContextPullOut,
    "context push": ContextPushOut,
    "context refs": ContextRefsOut,
    "context select": ContextSelectOut,
    "context serve": ContextServeOut,
    "context show": ContextShowOut,
    "context stream": ContextStreamOut,
    "context stream (its last line)": ContextStreamEndOut,
}
