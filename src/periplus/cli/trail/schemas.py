"""JSON documents of ``periplus trail``."""

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
    "TrailSiteOut",
    "TrailVerifyOut",
]

from typing import Any, Final

import msgspec

from periplus.cli.common.schemas import EntityOut


class TrailOut(msgspec.Struct):
    """``value`` is the trail's card in the journal. ``withheld`` counts texts that were left out because they are redacted in
    this store. ``digest`` is that of the imported trail; it differs from the card's if the store has a longer copy, which stays.
    ``before`` is the card that was replaced, ``before_seq`` the record to undo to restore it. ``left_out`` counts older commits
    beyond ``--max-commits``.
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
    """An imported file with the ids of its trails; ``changed`` if one of them is new or was updated."""

    path: str
    trails: list[str]
    changed: bool


class TrailImportOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.import/1"):
    """``left_out`` counts sessions that ``--all`` found beyond its limit. With ``--follow`` there is one document a line, for
    each new import of a file.
    """

    trails: list[TrailOut]
    failed: list[FailureOut]
    left_out: int
    files: list[ImportedFileOut] = []


class RunOut(msgspec.Struct):
    """A run without a trail yet. ``state`` is open or ended, ``process`` is its process id, 0 if unknown."""

    id: str
    state: str
    agent: str
    title: str
    started: str
    process: int
    lineage: str


class TrailListOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.list/1"):
    """``unsealed`` are runs that are being recorded, or that were abandoned and could not be sealed."""

    trails: list[EntityOut]
    unsealed: list[RunOut] = []


class TrailSealedOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.record/1"):
    """The trail of a run. ``changed`` is false if it was sealed before. For `trail record` this is the last line: the first is
    ``{"run"}``, and each step is acknowledged by ``{"index", "seq", "repeated"}`` when it is durable.
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
    """``verdict`` is right, wrong, not judged, outside (not a file in git) or start (the state at the beginning)."""

    index: int
    op: str
    verdict: str
    detail: str


class EffectsOut(msgspec.Struct):
    """The check of whether the steps of a trail, or of a part, produce the files of its checkpoints. ``verdict`` is verified,
    wrong or not shown. ``missing`` says what the trail or the repository lacks.
    """

    digest: str
    verdict: str
    summary: str
    first_wrong: int | None
    steps: list[StepEffectOut]
    missing: list[str]


class FileOut(msgspec.Struct):
    """A trail. ``digest`` is empty if it could not be read. ``effects`` is null if not requested, or if the trail is not valid.
    ``page`` is empty unless the file is an exported page or trajectory: verified, wrong, or not verified, where nothing is wrong but the trail
    or the page could not be checked; ``digest`` is then the one that the page claims.
    """

    name: str
    digest: str
    ok: bool
    summary: str
    first_bad_offset: int | None
    checks: list[TrailCheckOut]
    effects: list[EffectsOut] | None = None
    page: str = ""


class SalvageOut(msgspec.Struct):
    """The intact part of a damaged trail: ``steps`` includes the comment about the loss; ``exact`` if the file was only truncated."""

    path: str
    digest: str
    steps: int
    lost: list[str]
    exact: bool


class DifferenceOut(msgspec.Struct):
    """A difference between a replay and its trail: ``what`` is outcome, exit code, result, tree, files or tests passed."""

    step: int
    op: str
    what: str
    expected: str
    found: str


class TrailReplayOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.replay/1"):
    """``verdict`` is same, diverged, paused or limit. ``states`` counts the steps that were done, would be done, were skipped or
    denied. ``next`` is the step to continue with. ``differences`` are the first hundred. ``withheld`` counts texts that the kept
    trail leaves out because they are redacted in the store.
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
    """``salvage`` is the result of --salvage."""

    ok: bool
    trails: list[FileOut]
    salvage: SalvageOut | None = None


class TrailPartOut(msgspec.Struct):
    """A part of a concatenation; ``name`` is its source."""

    name: str
    digest: str
    steps: int
    status: str


class TrailSignOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.sign/1"):
    """``key`` is the public key of the signature."""

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
    """A file that was written; ``signed`` if it has a signature with this store's key."""

    path: str
    format: str
    digest: str
    bytes: int
    signed: bool


class TrailSiteOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.site/1"):
    """A folder of pages with its sessions; ``failed`` are those that could not be read, with the reason."""

    path: str
    written: int
    unchanged: int
    removed: int
    bytes: int
    failed: list[str]


class SubjectOut(msgspec.Struct):
    """A subject of an attestation: ``digest`` by the name of its algorithm, as in in-toto."""

    name: str
    digest: dict[str, str]


class AttestationOut(msgspec.Struct, tag_field="schema", tag="periplus.verify.attestation/1"):
    """``signer`` is empty if the signature is not valid, or there was no key to verify it."""

    holds: bool
    signer: str
    reason: str
    predicate_type: str
    subjects: list[SubjectOut]


class TrailProveOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.prove/1"):
    """A file that was written; ``key`` is the key that signed the trail, or empty."""

    path: str
    digest: str
    step: int
    steps: int
    key: str
    bytes: int
    withheld: int


class TrailRedactOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.redact/1"):
    """Counts of strings. ``chosen`` were selected; ``traces`` and ``digests`` would have revealed them; ``unread`` are those of
    them whose content is not available. ``unchecked`` digests and, with ``--exactly``, ``left`` strings may still reveal them;
    ``before`` were withheld already. ``digest`` is the unchanged digest of the trail.
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
    """``mark`` is ``-`` (only in A), ``+`` (only in B), ``~`` (in both, with another outcome) or a space (equal)."""

    mark: str
    part_a: int | None
    part_b: int | None
    a: dict[str, Any] | None
    b: dict[str, Any] | None


class TrailDiffOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.diff/1"):
    """``equal``: as far as was compared. ``identical``: the same digest, even if strings are withheld. ``same``, ``changed``,
    ``removed`` and ``added`` count steps, ``unknown`` those that both withhold; ``left_out`` lines are not included.
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
    """``whose`` says how the trail is known: a given digest or key, or a trail of this store; empty if nothing vouches for it.
    ``header`` and ``value`` are as in ``trail show --json``; empty if the proof is not valid.
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
    """Damage in a trail of version 1. ``step`` counts from 0, which is TRAIL_BEGIN."""

    kind: str
    offset: int
    step: int | None
    text: str


class TrailCompileOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.compile/1"):
    """``digest`` is the trail digest of version 2, or the SHA-256 of a file of version 1. ``told`` lists guesses of a lenient
    compile, ``left_out`` what version 1 cannot express, ``masked`` counts secrets.
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
    """The result of encoding. ``told`` lists what version 1 had lost, if the input was version 1, and ``faults`` its damage;
    other fields are as in ``trail compile``.
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
    """``entries`` is a worklog. ``fault_count`` includes faults that are not listed. ``path`` is empty if the entries were not written to a file."""

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
    "trail export (of all)": TrailSiteOut,
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
