"""Steps of a running agent: made from the values of the agent, and kept as payloads of the journal.

The values of an agent are checked against the opcode table, freed of secrets and made small: a text over 4,096 bytes
and the content of a file become objects. The journal's payload gives exactly the same step back.

Contents with secrets are kept masked, and the note of the step says so (NOTE_MASKED); the digest is that of the masked
content. A result with secrets is left out, because the digest of a mostly known text gives its secrets away.
"""

from __future__ import annotations

__all__ = [
    "CONTENT_BYTES_MAX",
    "NOTE_AFTER",
    "NOTE_MASKED",
    "NOTE_NOT_KEPT",
    "LiveStep",
    "StepMaker",
    "StepValue",
    "payload_of",
    "step_of_payload",
]

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, cast

from periplus.base.encoding.canonical import INTEGER_MAX as JSON_INTEGER_MAX
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import DamageError, UsageError
from periplus.trail.format.builder import TrailBuilder
from periplus.trail.format.layout import CLOCK_MS_MAX, CLOCK_MS_MIN, INLINE_TEXT_BYTES_MAX, SECRET_BYTES
from periplus.trail.model import (
    DIGEST_SIZES,
    OUTCOMES,
    Digest,
    DigestAlgorithm,
    OperandValue,
    Outcome,
    Step,
    Text,
    TextObject,
)
from periplus.trail.opcodes import BY_CODE, BY_NAME, Opcode, Operand

CONTENT_BYTES_MAX: Final = 64 << 20
NOTE_MASKED: Final = "content masked"
NOTE_NOT_KEPT: Final = "content not kept"
NOTE_AFTER: Final = "result: the file afterwards"
_DEPTH_MAX: Final = 64
_GIT_KINDS: Final[dict[int, DigestAlgorithm]] = {40: "git-sha1", 64: "git-sha256"}
_FACTS: Final = frozenset(
    {"op", "key", "outcome", "exit_code", "error", "result", "result_base64", "result_sha256", "result_size", "after", "note",
     "at", "at_ms", "duration_ms", "desc", "ts"}
)  # fmt: skip

StepValue: TypeAlias = "JSONValue | bytes | Digest | TextObject"
Mask: TypeAlias = Callable[[str], tuple[str, int]]


class LiveStep(NamedTuple):
    """A step without its relative time and its source; it began at ``at_ms``, since 1970-01-01 UTC."""

    step: Step
    at_ms: int

    def add_to(self, builder: TrailBuilder) -> int:
        one = self.step
        return builder.add(
            one.code,
            *one.operands,
            outcome=one.outcome,
            exit_code=one.exit_code,
            error=one.error,
            result=cast("Digest | None", one.result),
            result_size=one.result_size,
            note=one.note,
            at_ms=self.at_ms,
            duration_ms=one.duration_ms,
        )


class StepMaker:
    """Make steps of an agent's values. ``mask`` removes secrets from a text and counts them; ``put`` stores bytes as an
    object.
    """

    def __init__(self, mask: Mask, put: Callable[[bytes], bytes]) -> None:
        self._mask = mask
        self._put = put

    def make(self, op: str, values: Mapping[str, object], now_ms: int) -> LiveStep:
        """Make the step ``op`` from its operands by their names in the table, and from the facts ``outcome``,
        ``exit_code``, ``error``, ``result`` (text or bytes; or ``result_base64``; or ``result_sha256`` with
        ``result_size``), ``after`` (the content of an edited file afterwards: its digest becomes the result, and the
        note says so), ``note``, ``at`` (RFC 3339; or ``at_ms``) and ``duration_ms``.

        The content of a file is text, bytes, ``content_base64``, or ``content_sha256`` if it is not kept. Raises
        UsageError that begins with the wrong key.
        """
        opcode = BY_NAME.get(op.upper())
        if opcode is None:
            raise UsageError(f"op: unknown opcode {op[:80]!r}", mend="`periplus trail --help` names the documentation.")
        notes: list[str] = []
        values = {key: value for key, value in values.items() if value is not None}
        operands = tuple(self._operand(opcode, operand, values, notes) for operand in opcode.operands)
        self._refuse_unknown(opcode, values)
        result, size = self._result(opcode, values, notes)
        note = values.get("note", values.get("desc"))
        if note is not None:
            notes.append(_text_of(note, "note"))
        error = values.get("error")
        step = Step(
            opcode.code,
            operands,
            _outcome(values.get("outcome", "ok")),
            _integer(values["exit_code"], "exit_code") if "exit_code" in values else None,
            self.text(_text_of(error, "error")) if error is not None else None,
            result,
            size,
            self.text("; ".join(notes)) if notes else None,
            duration_ms=_integer(values["duration_ms"], "duration_ms") if "duration_ms" in values else None,
        )
        live = LiveStep(_trimmed(step), _moment(values, now_ms))
        live.add_to(TrailBuilder(bytes(SECRET_BYTES)))  # refuses whatever the format does not allow
        return live

    def text(self, text: str) -> Text:
        """Return ``text`` masked, and as an object if it is long."""
        masked, _ = self._mask(_whole(text))
        data = masked.encode()
        return masked if len(data) <= INLINE_TEXT_BYTES_MAX else TextObject(self._put(data), len(data))

    def content(self, data: bytes, notes: list[str]) -> Digest:
        """Store the content of a file and return its digest; the module docstring says which contents are changed."""
        if len(data) > CONTENT_BYTES_MAX:
            notes.append(NOTE_NOT_KEPT)
            return Digest("sha256", hashlib.sha256(data).digest())
        masked = self.masked_bytes(data)
        if masked is not data:
            notes.append(NOTE_MASKED)
        return Digest("sha256", self._put(masked))

    def masked_bytes(self, data: bytes) -> bytes:
        """Return ``data`` masked; ``data`` itself if it holds no secret."""
        try:
            encoding, text = "utf-8", data.decode()
        except UnicodeDecodeError:
            encoding, text = "latin-1", data.decode("latin-1")
        masked, found = self._mask(text)
        return masked.encode(encoding) if found else data

    # Operands

    def _operand(
        self, opcode: Opcode, operand: Operand, values: Mapping[str, object], notes: list[str]
    ) -> OperandValue:
        name, kind = operand.name, operand.kind
        value = values.get(name)
        if kind == "digest":
            digest = self._digest(opcode, name, values, notes)
            if digest is None and not operand.optional:
                raise UsageError(f"{name}: required")
            return digest
        if value is None:
            if operand.optional:
                return None
            raise UsageError(f"{name}: required")
        if kind in ("uint", "int"):
            return _integer(value, name)
        if isinstance(value, TextObject):
            return value
        if kind == "json" and not isinstance(value, str):
            import orjson

            try:
                value = orjson.dumps(self._masked_json(value, name, 0), option=orjson.OPT_STRICT_INTEGER).decode()
            except TypeError as error:
                raise UsageError(f"{name}: not a JSON value: {error}") from error
        return self.text(_text_of(value, name))

    def _digest(self, opcode: Opcode, name: str, values: Mapping[str, object], notes: list[str]) -> Digest | None:
        is_content = opcode.name == "FILE_WRITE"
        value = values.get(name)
        if isinstance(value, Digest):
            if is_content:
                notes.append(NOTE_NOT_KEPT)
            return value
        if is_content:
            given = [key for key in (name, f"{name}_base64", f"{name}_sha256") if key in values]
            if len(given) > 1:
                raise UsageError(f"{given[1]}: given together with {given[0]}; give only one of them")
            if f"{name}_sha256" in values:
                notes.append(NOTE_NOT_KEPT)
                return Digest("sha256", _hexadecimal(values[f"{name}_sha256"], f"{name}_sha256", 32))
            if f"{name}_base64" in values:
                return self.content(_from_base64(values[f"{name}_base64"], f"{name}_base64"), notes)
            return None if value is None else self.content(_bytes_of(value, name), notes)
        return None if value is None else _named_digest(_text_of(value, name), name, is_trail=name == "trail")

    def _result(self, opcode: Opcode, values: Mapping[str, object], notes: list[str]) -> tuple[Digest | None, int]:
        given = [key for key in ("after", "result", "result_base64", "result_sha256") if key in values]
        if "after" in given and opcode.name != "FILE_EDIT":
            raise UsageError(f"after: only for a FILE_EDIT, not for a {opcode.name}")
        if len(given) > 1:
            raise UsageError(f"{given[1]}: given together with {given[0]}")
        if "result_size" in values and given != ["result_sha256"]:
            raise UsageError("result_size: only together with result_sha256")
        if not given:
            return None, 0
        key, value = given[0], values[given[0]]
        if key == "result_sha256":
            return Digest("sha256", _hexadecimal(value, key, 32)), _integer(values.get("result_size", 0), "result_size")
        data = _from_base64(value, key) if key == "result_base64" else _bytes_of(value, key)
        if self.masked_bytes(data) is not data:
            return None, 0
        if key == "after":
            notes.append(NOTE_AFTER)
        return Digest("sha256", hashlib.sha256(data).digest()), len(data)

    def _refuse_unknown(self, opcode: Opcode, values: Mapping[str, object]) -> None:
        names = {operand.name for operand in opcode.operands}
        if opcode.name == "FILE_WRITE":
            names |= {"content_base64", "content_sha256"}
        for key in values:
            if key not in names and key not in _FACTS:
                known = ", ".join(operand.name for operand in opcode.operands) or "none"
                raise UsageError(f"{str(key)[:80]}: {opcode.name} has no such operand", mend=f"It has: {known}.")

    def _masked_json(self, value: object, name: str, depth: int) -> object:
        if isinstance(value, str):
            return self._mask(_whole(value))[0]
        if isinstance(value, Mapping | Sequence) and not isinstance(value, bytes | bytearray):
            if depth >= _DEPTH_MAX:
                raise UsageError(f"{name}: nested deeper than {_DEPTH_MAX} levels")
            if isinstance(value, Mapping):
                return {
                    self._mask(_whole(str(key)))[0]: self._masked_json(one, name, depth + 1)
                    for key, one in value.items()
                }
            return [self._masked_json(one, name, depth + 1) for one in value]
        if isinstance(value, int) and not -JSON_INTEGER_MAX <= value <= JSON_INTEGER_MAX:
            return str(value)
        return value


def _trimmed(step: Step) -> Step:
    operands = step.operands
    while operands and operands[-1] is None:
        operands = operands[:-1]
    return step._replace(operands=(*operands, *(None,) * (len(BY_CODE[step.code].operands) - len(operands))))


# Payloads of the journal


def payload_of(live: LiveStep) -> dict[str, JSONValue]:
    """Return the step as values of canonical JSON."""
    step = live.step
    payload: dict[str, JSONValue] = {
        "v": 1,
        "op": BY_CODE[step.code].name,
        "operands": [_carried(value) for value in step.operands],
        "outcome": step.outcome,
        "at_ms": live.at_ms,
    }
    facts = (
        ("exit_code", step.exit_code),
        ("duration_ms", step.duration_ms),
        ("error", step.error),
        ("note", step.note),
    )
    payload.update({name: _carried(value) for name, value in facts if value is not None})
    if step.result is not None:
        payload["result"] = _carried(step.result)
        payload["result_size"] = step.result_size
    return payload


def step_of_payload(payload: Mapping[str, JSONValue]) -> LiveStep:
    """Return the step of which ``payload_of`` made ``payload``. Raises DamageError for any other payload."""
    try:
        opcode = BY_NAME[str(payload["op"])]
        operands = cast("list[JSONValue]", payload["operands"])
        step = Step(
            opcode.code,
            tuple(_read(value) for value in operands),
            cast("Outcome", payload["outcome"]),
            cast("int | None", payload.get("exit_code")),
            cast("Text | None", _read(payload.get("error"))),
            cast("Digest | None", _read(payload.get("result"))),
            cast("int", payload.get("result_size", 0)),
            cast("Text | None", _read(payload.get("note"))),
            duration_ms=cast("int | None", payload.get("duration_ms")),
        )
        live = LiveStep(step, cast("int", payload["at_ms"]))
        live.add_to(TrailBuilder(bytes(SECRET_BYTES)))
    except (KeyError, TypeError, ValueError, AttributeError, UsageError) as error:
        raise DamageError(f"the record is not a step: {error}", safe="Other records are untouched.",
                          mend="Run `periplus doctor`.") from error  # fmt: skip
    return live


def _carried(value: OperandValue) -> JSONValue:
    if isinstance(value, TextObject):
        return {"text": value.sha256.hex(), "bytes": value.length}
    if isinstance(value, Digest):
        return {"digest": f"{value.algorithm}:{value.value.hex()}"}
    if isinstance(value, int) and not -JSON_INTEGER_MAX <= value <= JSON_INTEGER_MAX:
        return {"int": str(value)}
    assert value is None or isinstance(value, str | int), "only whole steps are recorded"
    return value


def _read(value: JSONValue) -> OperandValue:
    if not isinstance(value, dict):
        return cast("OperandValue", value)
    if "text" in value:
        return TextObject(bytes.fromhex(str(value["text"])), cast("int", value["bytes"]))
    if "int" in value:
        return int(str(value["int"]))
    algorithm, _, digits = str(value["digest"]).partition(":")
    return Digest(cast("DigestAlgorithm", algorithm), bytes.fromhex(digits))


# Values of an agent


def _whole(text: str) -> str:
    """Return ``text`` with U+FFFD in place of lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _text_of(value: object, key: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{key}: a text was expected, not {_kind(value)}")
    return value


def _bytes_of(value: object, key: str) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return _whole(value).encode()
    raise UsageError(f"{key}: text or bytes were expected, not {_kind(value)}")


def _integer(value: object, key: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{key}: a whole number was expected, not {_kind(value)}")
    return int(value)


def _outcome(value: object) -> Outcome:
    if value not in OUTCOMES:
        raise UsageError(f"outcome: {str(value)[:40]!r} is unknown", mend=f"One of: {', '.join(OUTCOMES)}.")
    return value


def _moment(values: Mapping[str, object], now_ms: int) -> int:
    if "at_ms" in values:
        at_ms = _integer(values["at_ms"], "at_ms")
        key = "at_ms"
    else:
        key = "at" if "at" in values else "ts"
        value = values.get(key)
        if value is None:
            return now_ms
        found = _read_moment(value, key)
        if found is None:
            raise UsageError(f"{key}: {str(value)[:40]!r} is not an RFC 3339 time")
        at_ms = found
    if not CLOCK_MS_MIN <= at_ms <= CLOCK_MS_MAX:
        raise UsageError(f"{key}: outside the years 1 to 9999")
    return at_ms


def _read_moment(value: object, key: str) -> int | None:
    if key == "ts" and isinstance(value, int) and not isinstance(value, bool):
        return 1000 * value  # seconds, as in worklogs
    from periplus.base.clock import parse_ms

    return parse_ms(_text_of(value, key))


def _hexadecimal(value: object, key: str, size: int) -> bytes:
    try:
        found = bytes.fromhex(_text_of(value, key))
    except ValueError as error:
        raise UsageError(f"{key}: not hexadecimal digits") from error
    if len(found) != size:
        raise UsageError(f"{key}: {2 * size} hexadecimal digits were expected")
    return found


def _named_digest(text: str, key: str, *, is_trail: bool) -> Digest:
    """Parse ``git-sha1:…`` or bare digits: SHA-256 for a trail, for git by the number of digits."""
    stated, found, digits = text.rpartition(":")
    algorithm = stated if found else "sha256" if is_trail else _GIT_KINDS.get(len(digits), "")
    if algorithm not in DIGEST_SIZES:
        raise UsageError(f"{key}: {text[:80]!r} is not a digest", mend="Give its hexadecimal digits.")
    return Digest(algorithm, _hexadecimal(digits, key, DIGEST_SIZES[algorithm]))


def _from_base64(value: object, key: str) -> bytes:
    import base64
    import binascii

    try:
        return base64.b64decode(_text_of(value, key), validate=True)
    except (binascii.Error, ValueError) as error:
        raise UsageError(f"{key}: not base64: {error}") from error


def _kind(value: object) -> str:
    names = {"NoneType": "nothing", "str": "a text", "dict": "an object", "list": "a list", "bool": "a truth value",
             "float": "a number with a fraction", "int": "a whole number"}  # fmt: skip
    return names.get(type(value).__name__, type(value).__name__)
