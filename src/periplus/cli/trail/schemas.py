"""The documents of ``periplus trail … --json``."""

from __future__ import annotations

__all__ = [
    "TRAIL_SCHEMAS",
    "AttestationOut",
    "DiffFieldOut",
    "DiffLineOut",
    "DiffSideOut",
    "DifferenceOut",
    "EffectsOut",
    "FailureOut",
    "FaultOut",
    "FileOut",
    "RunOut",
    "SalvageOut",
    "StepEffectOut",
    "StepProofOut",
    "SubjectOut",
    "TrailCheckOut",
    "TrailCompileOut",
    "TrailConcatOut",
    "TrailDecodeOut",
    "TrailDiffOut",
    "TrailEncodeOut",
    "TrailExportOut",
    "TrailImportOut",
    "TrailListOut",
    "TrailOut",
    "TrailPartOut",
    "TrailProveOut",
    "TrailRedactOut",
    "TrailReplayOut",
    "TrailSealOut",
    "TrailSealedOut",
    "TrailSignOut",
    "TrailVerifyOut",
]

from typing import Any, Final

import msgspec

from periplus.cli.common.schemas import EntityOut


class TrailOut(msgspec.Struct):
    """``value`` is the trail's card: what the journal announced of it. ``withheld`` counts texts that were redacted, and that an
    import left out again. ``digest`` is of the trail that the file made: another than the card's where the one that is held goes further, and stays.
    ``before`` is the card of the one that gave way, ``before_seq`` the record to undo to have it back. ``left_out`` counts the older commits of a
    history that ``--max-commits`` leaves out.
    """

    id: str
    changed: bool
    value: dict[str, Any]
    children: list[TrailOut]
    withheld: int = 0
    digest: str = ""
    before: dict[str, Any] = {}
    before_seq: int = 0
    left_out: int = 0


class FailureOut(msgspec.Struct):
    """A file that could not be imported; the others were."""

    path: str
    wrong: str
    next: str


class ImportedFileOut(msgspec.Struct):
    """A file that was imported, with the ids of its trails; ``changed`` where one of them is new or another one now."""

    path: str
    trails: list[str]
    changed: bool


class TrailImportOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.import/1"):
    """``left_out``: how many more sessions ``--all`` found than it imports at a time. With ``--follow`` there is one such
    document a line, for each file that was imported once more.
    """

    trails: list[TrailOut]
    failed: list[FailureOut]
    left_out: int
    files: list[ImportedFileOut] = []


class RunOut(msgspec.Struct):
    """A run without a trail yet; ``state`` is open or ended, ``process`` the one that carries it, 0 where none is named."""

    id: str
    state: str
    agent: str
    title: str
    started: str
    process: int
    lineage: str


class TrailListOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.list/1"):
    """``unsealed`` are the runs that are recorded now, or were left and could not be sealed."""

    trails: list[EntityOut]
    unsealed: list[RunOut] = []


class TrailSealedOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.record/1"):
    """The trail that a run became; ``changed`` is false where it was sealed before. Of `trail record` the last line: the
    first is ``{"run"}``, and each step is acknowledged by ``{"index", "seq", "repeated"}`` when it is durable.
    """

    run: str
    trail: str
    digest: str
    status: str
    steps: int
    changed: bool


class TrailSealOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.seal/1"):
    """``failed`` are the runs that could not be sealed."""

    sealed: list[TrailSealedOut]
    failed: list[str]


class TrailCheckOut(msgspec.Struct):
    """``verdict`` is ok, error, warning or skipped."""

    name: str
    verdict: str
    detail: str


class StepEffectOut(msgspec.Struct):
    """``verdict`` is right, wrong, not judged, outside (no file that git keeps) or start (what the run began on)."""

    index: int
    op: str
    verdict: str
    detail: str


class EffectsOut(msgspec.Struct):
    """Whether the steps of a trail, or of a part of it, give the files of its checkpoints: ``verdict`` is verified, wrong or
    not shown. ``missing`` says what the trail or the repository lacks for more to be judged.
    """

    digest: str
    verdict: str
    summary: str
    first_wrong: int | None
    steps: list[StepEffectOut]
    missing: list[str]


class FileOut(msgspec.Struct):
    """A trail; ``digest`` is empty where its bytes could not be had. ``effects`` is null where they were not asked for, or the
    trail is not sound.
    """

    name: str
    digest: str
    ok: bool
    summary: str
    first_bad_offset: int | None
    checks: list[TrailCheckOut]
    effects: list[EffectsOut] | None = None


class SalvageOut(msgspec.Struct):
    """What was kept of a damaged trail: ``steps`` with the comment that tells; ``exact`` where it was only cut off."""

    path: str
    digest: str
    steps: int
    lost: list[str]
    exact: bool


class DifferenceOut(msgspec.Struct):
    """Where a replay and its record part: ``what`` is outcome, exit code, result, tree, files or tests passed."""

    step: int
    op: str
    what: str
    expected: str
    found: str


class TrailReplayOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.replay/1"):
    """``verdict`` is same, diverged, paused or limit; ``states`` counts the steps that were done, would be done, were
    skipped or denied; ``next`` is the step to go on with; ``differences`` are the first hundred; ``withheld`` counts the texts that
    the trail that was kept withholds because they were redacted in the store.
    """

    trail: str
    world: str
    verdict: str
    steps: int
    done: int
    states: dict[str, int]
    denied: int
    difference_count: int
    first: DifferenceOut | None
    differences: list[DifferenceOut]
    next: int
    folder: str
    left_out: list[str]
    out: str
    kept: str
    withheld: int = 0


class TrailVerifyOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.verify/1"):
    """``salvage`` is what --salvage wrote."""

    ok: bool
    trails: list[FileOut]
    salvage: SalvageOut | None = None


class TrailPartOut(msgspec.Struct):
    """A part of a concatenation; ``name`` is what it was taken from."""

    name: str
    digest: str
    steps: int
    status: str


class TrailSignOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.sign/1"):
    """``key`` is the public key whose private one signed."""

    path: str
    digest: str
    key: str
    bytes: int


class TrailConcatOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.concat/1"):
    path: str
    digest: str
    signed: bool
    bytes: int
    parts: list[TrailPartOut]


class TrailExportOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.export/1"):
    """A file that was written; ``signed`` is whether it carries a signature of this store's key."""

    path: str
    format: str
    digest: str
    bytes: int
    signed: bool


class SubjectOut(msgspec.Struct):
    """What an attestation is about: ``digest`` by the name of its algorithm, as in-toto names them."""

    name: str
    digest: dict[str, str]


class AttestationOut(msgspec.Struct, tag_field="schema", tag="periplus.verify.attestation/1"):
    """``signer`` is empty where the signature does not hold, or no key was at hand to check it with."""

    holds: bool
    signer: str
    reason: str
    predicate_type: str
    subjects: list[SubjectOut]


class TrailProveOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.prove/1"):
    """A file that was written; ``key`` is the one that signed the trail, empty where nobody did."""

    path: str
    digest: str
    step: int
    steps: int
    key: str
    bytes: int
    withheld: int


class TrailRedactOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.redact/1"):
    """Counts of entries of the string tables. ``chosen`` were named, ``traces`` and ``digests`` would have given them away,
    ``unread`` of these because what they stand for is not at hand; ``unchecked`` digests and, with ``--exactly``, ``left``
    strings may tell of it still; ``before`` were withheld already. ``digest`` is that of the trail, as before.
    """

    path: str
    digest: str
    bytes: int
    strings: int
    chosen: int
    traces: int
    digests: int
    unread: int
    unchecked: int
    left: int
    before: int


class DiffSideOut(msgspec.Struct):
    """A trail, or a concatenation of several."""

    name: str
    digest: str
    parts: int
    steps: int


class DiffFieldOut(msgspec.Struct):
    """A field of the header of a part, counted from 1, or its status; values are as in ``trail show --json``."""

    part: int
    name: str
    a: Any
    b: Any


class DiffLineOut(msgspec.Struct):
    """``mark`` is ``-`` (only in A), ``+`` (only in B), ``~`` (in both, and ended otherwise) or a space (the same)."""

    mark: str
    part_a: int | None
    part_b: int | None
    a: dict[str, Any] | None
    b: dict[str, Any] | None


class TrailDiffOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.diff/1"):
    """``equal``: as far as was compared. ``identical``: the same digest, whatever either withholds. ``same``, ``changed``,
    ``removed`` and ``added`` count steps, ``unknown`` those that are withheld in both; ``left_out`` lines are not here.
    """

    equal: bool
    identical: bool
    a: DiffSideOut
    b: DiffSideOut
    header: list[DiffFieldOut]
    same: int
    changed: int
    removed: int
    added: int
    unknown: int
    lines: list[DiffLineOut]
    left_out: int


class StepProofOut(msgspec.Struct, tag_field="schema", tag="periplus.verify.step/1"):
    """``whose`` says by what the trail is known: a digest or key that was given, or a trail of the store at hand; empty
    where nobody vouches for it. ``header`` and ``value`` are as in ``trail show --json``; empty where it does not hold.
    """

    holds: bool
    reason: str
    whose: str
    digest: str
    step: int
    steps: int
    status: str
    key: str
    header: dict[str, Any]
    value: dict[str, Any]


class FaultOut(msgspec.Struct):
    """What is damaged in a trail of version 1; ``step`` counts from 0, which is TRAIL_BEGIN."""

    kind: str
    offset: int
    step: int | None
    text: str


class TrailCompileOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.compile/1"):
    """``digest`` is the trail digest of version 2, the SHA-256 of a file of version 1. ``told`` has what a lenient
    compile guessed, ``left_out`` what version 1 has no place for, ``masked`` counts secrets.
    """

    path: str
    version: int
    digest: str
    bytes: int
    steps: int
    told: list[str]
    left_out: list[str]
    masked: int


class TrailEncodeOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.encode/1"):
    """As of ``trail compile``. ``told`` has what version 1 had lost, where the trail was of that version, and
    ``faults`` what is damaged in it.
    """

    path: str
    version: int
    digest: str
    bytes: int
    steps: int
    told: list[str]
    left_out: list[str]
    faults: list[FaultOut]


class TrailDecodeOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.decode/1"):
    """``entries`` is a worklog; ``fault_count`` counts also the faults that are not listed. ``path`` is empty where
    the entries were not written to a file.
    """

    path: str
    version: int
    entries: list[dict[str, Any]]
    told: list[str]
    faults: list[FaultOut]
    fault_count: int


TRAIL_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {
    "trail compile": TrailCompileOut,
    "trail concat": TrailConcatOut,
    "trail decode": TrailDecodeOut,
    "trail encode": TrailEncodeOut,
    "trail export": TrailExportOut,
    "trail import": TrailImportOut,
    "trail list": TrailListOut,
    "trail record": TrailSealedOut,
    "trail seal": TrailSealOut,
    "trail diff": TrailDiffOut,
    "trail prove": TrailProveOut,
    "trail replay": TrailReplayOut,
    "trail redact": TrailRedactOut,
    "trail sign": TrailSignOut,
    "trail verify": TrailVerifyOut,
    "verify (of an attestation)": AttestationOut,
    "verify (of a step)": StepProofOut,
}
