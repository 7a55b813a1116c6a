"""Choose which strings a shared trail withholds, so that nothing left in it gives the chosen texts away.

Theory of operation
-------------------
First, the request becomes *texts*: literals, matches of a pattern or of the search for secrets, paths, the strings of a
step or of the header. Second, every string of the trail with a trace of one of these texts is withheld, whole
(``periplus.trail.redactions.text_traces``). Third, digests are withheld: those that are the hash of such a text; those of available files
and results that hold a trace; and those of a step with a withheld string, unless their content is available and clean. The
digest of the source is always withheld, because it is a hash over everything that was removed. A long text that is not
available may hold anything, and is withheld.

Opcodes, numbers, outcomes, exit codes, sizes of results and times cannot be removed: leaf and signature cover them, and
they hold no strings.
"""

from __future__ import annotations

__all__ = ["RedactionRequest", "RedactionResult", "redact_trail"]

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from periplus.base.errors import DamageError, NotFoundError, UsageError
from periplus.trail.format.concatenation import Parts, is_concatenation, open_parts
from periplus.trail.format.reader import TrailReader
from periplus.trail.listings.selection import path_matcher, paths_of
from periplus.trail.model import Digest, OperandValue, Step, TextObject, Withheld
from periplus.trail.redactions.text_traces import Traces, digests_of
from periplus.trail.redactions.withholding import withhold

ReadObject: TypeAlias = Callable[[bytes], bytes | None]
FindMatches: TypeAlias = Callable[[str, Sequence[str]], dict[int, tuple[str, ...]]]
FindSecrets: TypeAlias = Callable[[str], Sequence[str]]

_TEXTS_MAX: Final = 10_000
_SPREADING_CHARS_MIN: Final = 6  # shorter strings of a chosen step ("ok", "src") do not make other strings withheld


class RedactionRequest(NamedTuple):
    """The request for a redaction. ``steps`` count within part ``part`` of a concatenation, from 1; None for a plain
    trail.

    ``is_exact`` withholds only the strings that were named, though others may hold the same text; ``digests`` withholds
    all digests whose content is not available.
    """

    texts: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()
    steps: frozenset[int] = frozenset()
    part: int | None = None
    header: frozenset[str] = frozenset()
    secrets: bool = False
    is_exact: bool = False
    digests: bool = False


class RedactionResult(NamedTuple):
    """A redacted trail, with counts of what it withholds.

    ``chosen`` strings were named, ``traces`` are strings that would have given them away, ``digests`` were withheld for
    the same reason; ``unread`` of these because their content is not available. ``unchecked`` digests without available
    content were left, ``left`` strings with a trace were left because of ``is_exact``. ``before`` were withheld
    already.
    """

    data: bytes
    strings: int
    chosen: int
    traces: int
    digests: int
    unread: int
    unchecked: int
    left: int
    before: int


class _Part:
    """One trail, and the values of its string table that are to be withheld."""

    def __init__(self, reader: TrailReader) -> None:
        self.reader = reader
        self.values = [reader.string(index) for index in range(len(reader.strings))]
        self.chosen: set[OperandValue] = set()
        self.traces: set[OperandValue] = set()
        self.digests: set[OperandValue] = set()
        self.unread = 0
        self.unchecked = 0
        self.left = 0

    @property
    def doomed(self) -> set[OperandValue]:
        return self.chosen | self.traces | self.digests


def redact_trail(
    data: bytes,
    wanted: RedactionRequest,
    *,
    read_object: ReadObject = lambda _digest: None,
    find_matches: FindMatches | None = None,
    find_secrets: FindSecrets | None = None,
) -> RedactionResult:
    """Return the trail or concatenation without what is ``wanted``: same digest, same receipts, and a valid signature.

    ``read_object`` returns the content of a SHA-256, None if it is not available; ``find_matches(pattern, texts)`` and
    ``find_secrets(text)`` do the searching. Raises FormatError if ``data`` is no trail, NotFoundError for a step or a
    part that does not exist, UsageError if nothing is wanted or too much.
    """
    parts = [_Part(reader) for reader in open_parts(data)]
    held = _Held(read_object)
    texts = list(wanted.texts)
    for glob in wanted.globs:
        _choose_paths(parts, glob, held, texts)
    _choose_steps(parts, wanted, held, texts)
    _choose_header(parts, wanted.header, held, texts)
    _search(parts, wanted, held, find_matches, find_secrets, texts)
    if len(texts) > _TEXTS_MAX:
        raise UsageError(
            f"{len(texts):,} texts are too many to take out at once", safe="Nothing was written.", mend="Choose fewer."
        )
    for part in parts:
        part.chosen |= {value for value in part.values if _holds_one(value, wanted.texts, held)}
    _follow_traces(parts, wanted, held, texts)
    redacted = [withhold(part.reader.to_bytes(), _in(part.doomed)) for part in parts]
    out = Parts(data).with_files(redacted) if is_concatenation(data) else redacted[0]
    _check(parts, redacted)
    return _told(out, parts)


class _Held:
    """The available contents of digests and long texts. Nothing is cached, because a trail may name gigabytes."""

    def __init__(self, read: ReadObject) -> None:
        self._read = read

    def text(self, value: OperandValue) -> str | None:
        """Return the text of a string; None if it is withheld, no text, or not available."""
        if isinstance(value, str):
            return value
        if isinstance(value, TextObject):
            data = self._read(value.sha256)
            return None if data is None else data.decode("utf-8", "replace")
        return None

    def content(self, value: Digest) -> str | None:
        """Return the file or result that a digest names, as text."""
        data = self._read(value.value) if value.algorithm == "sha256" else None
        return None if data is None else data.decode("utf-8", "replace")


def _in(doomed: set[OperandValue]) -> Callable[[int, OperandValue], bool]:
    return lambda _index, value: value in doomed


# Chosen strings


def _choose(part: _Part, value: OperandValue, held: _Held, texts: list[str], least: int = 1) -> None:
    """Withhold a value, and every string with a trace of it if it has at least ``least`` characters."""
    if value is None or isinstance(value, (int, Withheld)):
        return
    part.chosen.add(value)
    text = value.value.hex() if isinstance(value, Digest) else held.text(value)
    if text is not None and len(text) >= least:
        texts.append(text)


def _choose_step(part: _Part, step: Step, held: _Held, texts: list[str]) -> None:
    for value in (*step.operands, step.error, step.result, step.note):
        _choose(part, value, held, texts, _SPREADING_CHARS_MIN)


def _choose_paths(parts: list[_Part], glob: str, held: _Held, texts: list[str]) -> None:
    """Withhold all strings of the steps with such a path, because the written content tells as much as the path."""
    matches = path_matcher(glob)
    for part in parts:
        for step in part.reader.steps():
            found = [path for path in paths_of(step) if matches(path)]
            for path in found:
                _choose(part, path, held, texts)
            if found:
                _choose_step(part, step, held, texts)


def _choose_steps(parts: list[_Part], wanted: RedactionRequest, held: _Held, texts: list[str]) -> None:
    if not wanted.steps:
        return
    if wanted.part is None and len(parts) > 1:
        raise UsageError(f"the file has {len(parts)} parts", safe="Nothing was written.", mend="Say which with --part.")
    place = wanted.part or 1
    if place > len(parts):
        raise NotFoundError(
            f"there is no part {place:,}: the file has {len(parts):,}", safe="Nothing was written.",
            mend="Give another --part.",
        )  # fmt: skip
    part = parts[place - 1]
    last = part.reader.step_count - 1
    if max(wanted.steps) > last:
        raise NotFoundError(
            f"there is no step {max(wanted.steps):,}: the trail has {last + 1:,}", safe="Nothing was written.",
            mend="Steps count from 0.",
        )  # fmt: skip
    for index, step in enumerate(part.reader.steps()):
        if index in wanted.steps:
            _choose_step(part, step, held, texts)


def _choose_header(parts: list[_Part], names: frozenset[str], held: _Held, texts: list[str]) -> None:
    for part in parts:
        header = part.reader.header
        for name in names:
            value = getattr(header, name)
            for one in value if isinstance(value, tuple) and name == "parents" else (value,):
                _choose(part, one, held, texts)


def _search(
    parts: list[_Part],
    wanted: RedactionRequest,
    held: _Held,
    find_matches: FindMatches | None,
    find_secrets: FindSecrets | None,
    texts: list[str],
) -> None:
    if not wanted.patterns and not wanted.secrets:
        return
    for part in parts:
        known = [(value, text) for value in part.values if (text := held.text(value)) is not None]
        for pattern in wanted.patterns:
            assert find_matches is not None
            for index, matched in find_matches(pattern, [text for _, text in known]).items():
                part.chosen.add(known[index][0])
                texts.extend(matched)
        if wanted.secrets:
            assert find_secrets is not None
            for value, text in known:
                found = find_secrets(text)
                if found:
                    part.chosen.add(value)
                    texts.extend(found)


# Traces


def _holds_one(value: OperandValue, texts: Sequence[str], held: _Held) -> bool:
    text = held.text(value) if texts else None
    return text is not None and any(one in text for one in texts)


def _has_trace(value: OperandValue, traces: Traces, held: _Held) -> bool:
    if isinstance(value, str):
        return traces.are_in(value)
    text = held.text(value)
    return text is not None and traces.are_in_content(text)


def _follow_traces(parts: list[_Part], wanted: RedactionRequest, held: _Held, texts: list[str]) -> None:
    traces = Traces(texts, (value for part in parts for value in part.values if isinstance(value, str)))
    hashes = digests_of(texts)
    for part in parts:
        found = {value for value in part.values if value not in part.chosen and _has_trace(value, traces, held)}
        if wanted.is_exact:
            part.left = len(found)
            continue
        part.traces |= found
        for value in part.values:
            if isinstance(value, TextObject) and value not in part.chosen and held.text(value) is None and texts:
                part.traces.add(value)
                part.unread += 1
            elif isinstance(value, TextObject) and Digest("sha256", value.sha256) in hashes:
                part.traces.add(value)
        _follow_digests(part, wanted, held, traces, hashes)


def _follow_digests(
    part: _Part, wanted: RedactionRequest, held: _Held, traces: Traces, hashes: frozenset[Digest]
) -> None:
    touched: set[Digest] = set()
    gone = part.chosen | part.traces
    for step in part.reader.steps():
        if any(
            value in gone for value in (*step.operands, step.error, step.note) if isinstance(value, (str, TextObject))
        ):
            touched |= _digests_of_step(step)
    source = part.reader.header.source
    for value in part.values:
        if not isinstance(value, Digest) or value in part.chosen or value == source:
            continue
        content = held.content(value)
        is_trace = traces.are_in_content(content) if content is not None else value in touched
        if is_trace or value in hashes or (wanted.digests and content is None and _names_content(part, value)):
            part.digests.add(value)
        elif content is None and _names_content(part, value):
            part.unchecked += 1
    if isinstance(source, Digest) and part.doomed:
        part.digests.add(source)


def _digests_of_step(step: Step) -> set[Digest]:
    return {value for value in (*step.operands, step.result) if isinstance(value, Digest)}


def _names_content(part: _Part, value: Digest) -> bool:
    """Return whether the digest is that of a content. Digests of trails are salted, and those of git are of whole
    trees.
    """
    header = part.reader.header
    return value.algorithm == "sha256" and value not in header.parents and value != header.base


# Result


def _check(parts: list[_Part], redacted: list[bytes]) -> None:
    """Check that each part is still the same trail. Raises DamageError if the given trail did not match its digest."""
    for part, data in zip(parts, redacted, strict=True):
        if TrailReader(data).computed_identity() != part.reader.stored_identity:
            raise DamageError(
                "the content of the trail does not match its digest", safe="Nothing was written.",
                mend="`periplus trail verify` says more.",
            )  # fmt: skip


def _told(data: bytes, parts: list[_Part]) -> RedactionResult:
    totals = Counter[str]()
    for part in parts:
        known = {value for value in part.values if not isinstance(value, Withheld)}
        chosen = part.chosen & known
        totals["strings"] += len(part.values)
        totals["chosen"] += len(chosen)
        totals["traces"] += len((part.traces & known) - chosen)
        totals["digests"] += len((part.digests & known) - chosen - part.traces)
        totals["unread"] += part.unread
        totals["unchecked"] += part.unchecked
        totals["left"] += part.left
        totals["before"] += len(part.values) - len(known)
    return RedactionResult(data, *(totals[name] for name in RedactionResult._fields[1:]))
