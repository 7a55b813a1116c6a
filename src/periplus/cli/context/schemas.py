"""JSON documents of ``periplus context``. Digests are complete; relevance is a number from 0 to 1."""

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
    """An atom with its annotation. ``origin`` is the context that added it or annotated it last, empty if it is not listed."""

    digest: str
    content: str
    type: str
    relevance: float
    time: str
    source: str
    tags: list[str]
    origin: str = ""


class MoleculeOut(msgspec.Struct):
    """``relations`` maps names to pairs of indexes in ``atoms``."""

    digest: str
    atoms: list[str]
    relations: dict[str, list[list[int]]]
    type: str
    metadata: dict[str, Any]


class ContextCommitOut(msgspec.Struct, tag_field="schema", tag="periplus.context.commit/1"):
    """``context`` is the current context of the ref. If there was nothing to commit, ``changed`` is false, and ``context`` is
    unchanged, or empty without a ref. ``added``, ``annotated`` and ``removed`` count atoms of this commit, ``live`` those of the
    context.
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
    """One context: a delta with its counts. ``refs`` are the refs that point to it."""

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
    """A journal record that moved a ref."""

    lineage: str
    seq: int
    time: str
    writer: str
    what: str


class ContextLogOut(msgspec.Struct, tag_field="schema", tag="periplus.context.log/1"):
    """Newest first. ``more`` is true if the limit left some out. ``moves`` is filled with --ref-moves only."""

    contexts: list[ContextLineOut]
    moves: list[RefMoveOut]
    more: bool


class ContextShowOut(msgspec.Struct, tag_field="schema", tag="periplus.context.show/1"):
    """The delta of one context. ``atoms`` are the best, up to --limit; the counts are in ``context``."""

    context: ContextLineOut
    atoms_root: str
    metadata: dict[str, Any]
    atoms: list[KnownAtomOut]
    removed: list[str]
    molecules: list[MoleculeOut]


class ReannotatedOut(msgspec.Struct):
    """An atom that both contexts have with different annotations."""

    before: KnownAtomOut
    after: KnownAtomOut


class ContextDiffOut(msgspec.Struct, tag_field="schema", tag="periplus.context.diff/1"):
    """Atoms that B has in addition to A, that it lacks, and that it annotates differently; likewise for molecules."""

    a: str
    b: str
    added: list[KnownAtomOut]
    removed: list[KnownAtomOut]
    annotated: list[ReannotatedOut]
    molecules_added: list[MoleculeOut]
    molecules_removed: list[MoleculeOut]


class MergeConflictOut(msgspec.Struct):
    """``kind``: annotated (one side removed the atom, the other annotated it), molecule (one side removed it, the other built
    ``molecules`` on it) or decided (the sides resolved an earlier conflict differently). A side is null if it removed the atom;
    ``base`` is null if the atom was not there before.
    """

    digest: str
    kind: str
    base: KnownAtomOut | None
    ours: KnownAtomOut | None
    theirs: KnownAtomOut | None
    molecules: list[str]


class SettledOut(msgspec.Struct):
    """An atom of which both sides changed ``fields``, and the value that was chosen."""

    atom: KnownAtomOut
    fields: list[str]
    ours: KnownAtomOut | None
    theirs: KnownAtomOut | None


class ContextMergeOut(msgspec.Struct, tag_field="schema", tag="periplus.context.merge/1"):
    """``outcome``: merged, fast-forward (theirs builds on ours), already (ours builds on theirs), kept (the ref stays, another
    clone had removed it), conflicts (nothing was changed). ``context`` is the current context of the ref.
    """

    outcome: str
    context: str
    ref: str
    ours: str
    theirs: list[str]
    conflicts: list[MergeConflictOut]
    settled: list[SettledOut]


class BlameEventOut(msgspec.Struct):
    """``kind``: brought (added), annotated (``fields`` changed), removed, or merged (taken from a branch)."""

    kind: str
    context: str
    message: str
    author: str
    time: str
    fields: list[str]
    source: str


class ContextBlameOut(msgspec.Struct, tag_field="schema", tag="periplus.context.blame/1"):
    """Newest first. ``atom`` is null if the context no longer has it."""

    context: str
    digest: str
    atom: KnownAtomOut | None
    events: list[BlameEventOut]


class ContextBisectOut(msgspec.Struct, tag_field="schema", tag="periplus.context.bisect/1"):
    """``first`` is the first context that passes the test, null if ``context`` itself fails. ``tested`` counts the contexts that were tested."""

    context: str
    first: ContextLineOut | None
    tested: int


class ContextExpandOut(msgspec.Struct, tag_field="schema", tag="periplus.context.expand/1"):
    """One line of an expansion, with one of the three fields set. Atoms come first, in order; the line of expand-end is the last."""

    atom: KnownAtomOut | None = None
    molecule: MoleculeOut | None = None
    broken: list[str] = []


class ContextExpandEndOut(msgspec.Struct, tag_field="schema", tag="periplus.context.expand-end/1"):
    """The last line of an expansion: the number of lines of each kind. Output without this line is incomplete. ``whole`` is false
    if --limit left something out.
    """

    context: str
    atoms: int
    molecules: int
    broken: int
    whole: bool


class ReasonOut(msgspec.Struct):
    """The reason why an atom is selected or not: ``cause`` as one word, ``why`` as text."""

    digest: str
    taken: bool
    cause: str
    why: str
    score: float
    tokens: int


class ContextSelectOut(msgspec.Struct, tag_field="schema", tag="periplus.context.select/1"):
    """Best first. ``counter`` is the method of counting tokens. ``considered`` counts the atoms that were read; ``whole`` says
    that these were all. ``counts`` has the number of atoms per cause. ``reasons`` is filled with --explain only.
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
    """A chunk, one a line. ``over`` are digests of atoms that are larger than any chunk."""

    context: str
    chunk: int
    start: int
    atoms: list[KnownAtomOut]
    over: list[str]
    cumulative_tokens: int
    progress: float
    final: bool


class ContextStreamEndOut(msgspec.Struct, tag_field="schema", tag="periplus.context.stream-end/1"):
    """The last line of a stream. ``head`` is the root of the Merkle tree over all atoms in order."""

    context: str
    atoms: int
    tokens: int
    chunks: int
    head: str


class PlaceOut(msgspec.Struct):
    """The context to which one clone moved a ref."""

    context: str
    writer: str
    time: str


class ContextRefOut(msgspec.Struct):
    """``apart`` lists several places if clones moved the ref to different contexts; the first is shown. ``ended_apart``: one
    clone removed the ref while another moved it.
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
    """``objects`` and ``bytes`` count what was sent; 0 if the other store had everything."""

    place: str
    context: str
    ref: str
    previous: str
    objects: int
    bytes: int


class ContextPullOut(msgspec.Struct, tag_field="schema", tag="periplus.context.pull/1"):
    """``outcome``: moved, nothing (everything was here), apart (received, but it has to be merged). ``objects`` counts what was received."""

    place: str
    context: str
    ref: str
    previous: str
    outcome: str
    objects: int
    bytes: int


class ContextCloneOut(msgspec.Struct, tag_field="schema", tag="periplus.context.clone/1"):
    """``made``: this call created the store. ``apart`` are refs that were not moved because the two sides diverged."""

    place: str
    store: str
    made: bool
    refs: dict[str, str]
    apart: list[str]
    objects: int
    bytes: int


class ContextServeOut(msgspec.Struct, tag_field="schema", tag="periplus.context.serve/1"):
    """Printed when the server listens, with its address, and at its end, with its statistics. With --stats: the statistics of a
    running server, or nothing.
    """

    address: str
    stats: dict[str, Any] = {}


class ContextGcOut(msgspec.Struct, tag_field="schema", tag="periplus.context.gc/1"):
    """Numbers of objects: ``reached`` by refs, ``young`` (too recent to park), ``parked`` now, ``restored`` because they are in
    use again, ``pruned`` (deleted).
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
