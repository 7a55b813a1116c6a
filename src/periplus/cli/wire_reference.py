"""Generate the tables of docs/formats/context-wire.md: ``python -m periplus.cli.wire_reference PAGE``.

The page has marks ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; this module writes what is between them. A test compares,
and decodes the bytes of the examples.
"""

from __future__ import annotations

__all__ = ["EXAMPLES", "blocks", "rewritten"]

import inspect
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from periplus.context.model import Atom
from periplus.context.wire import payloads as p
from periplus.context.wire.error_codes import ERRORS
from periplus.context.wire.frames import FRAMES, PREFACE, FrameRow, FrameType, frame_header
from periplus.context.wire.limits import Limits, Policy
from periplus.context.wire.payload_codec import Codec

_ONE: Final = bytes(range(32))
_TWO: Final = bytes(range(32, 64))
_ATOM: Final = Atom("Passwords are hashed by argon2id.", "String", 1_700_000_000_000, 900_000, "src/auth.py", ("auth",))
_HANDSHAKE: Final = frozenset({FrameType.HELLO, FrameType.WELCOME})

EXAMPLES: Final[dict[FrameType, tuple[int, msgspec.Struct]]] = {
    FrameType.HELLO: (0, p.Hello(capabilities=("prove", "zstd"), token="secret", agent="example 1")),  # noqa: S106 - of the page
    FrameType.WELCOME: (0, p.Welcome(capabilities=("prove",), limits=Limits(streams=16), agent="periplus")),
    FrameType.EXPAND_REQUEST: (1, p.ExpandRequest(_ONE)),
    FrameType.EXPAND_RESPONSE: (1, p.ExpandResponse((_ATOM,), (_ONE,))),
    FrameType.STREAM_REQUEST: (2, p.StreamRequest(_ONE, atoms=10, filter=p.Filter(type="String"), credit_frames=4)),
    FrameType.STREAM_CHUNK: (
        2,
        p.StreamChunk(0, 0, (_ATOM, _ATOM), (_ONE, _TWO), (0, 1), 16, 1_000_000, is_final=True),
    ),
    FrameType.CREDIT: (2, p.Credit(1, 4_096)),
    FrameType.CANCEL: (2, p.Cancel()),
    FrameType.STREAM_END: (2, p.StreamEnd(1, 2, 16, _TWO)),
    FrameType.QUERY_REQUEST: (3, p.QueryRequest(_ONE, "password", limit=5)),
    FrameType.QUERY_RESPONSE: (3, p.QueryResponse((_ATOM,), (_ONE,), scores=(812_000,), total=1, tokens=8)),
    FrameType.HAVE: (4, p.Have(wanted=(_ONE,), known=(_TWO,))),
    FrameType.WANT: (4, p.Want((_ONE,), (640,))),
    FrameType.OBJECTS: (5, p.ObjectsGet((_ONE,))),
    FrameType.OBJECTS_SENT: (5, p.ObjectsSent((p.ObjectPart(_ONE, 0, 4, b"data"),), is_final=True)),
    FrameType.PUSH_CONTEXT: (6, p.PushContext(_ONE, "main", _TWO, expected_any=False)),
    FrameType.ACK: (6, p.Ack(_ONE)),
    FrameType.PROVE: (7, p.Prove("inclusion", _ONE, _TWO)),
    FrameType.PROOF: (7, p.Proof("inclusion", 3, 8, root=_ONE, path=(_TWO,))),
    FrameType.REFS: (8, p.RefsRequest(update=p.RefUpdate("main", _TWO, _ONE))),
    FrameType.REFS_RESPONSE: (8, p.RefsResponse((p.RefRow("main", _TWO),))),
    FrameType.WATCH: (9, p.Watch("main")),
    FrameType.CHANGED: (9, p.Changed((p.RefRow("main", _ONE),))),
    FrameType.PING: (0, p.Ping(b"1")),
    FrameType.PONG: (0, p.Pong(b"1")),
    FrameType.ERROR: (9, p.ErrorReport("cancelled", ERRORS["cancelled"].message, is_retryable=True, request=9)),
}


def blocks() -> dict[str, str]:
    """Return the text between the marks of the page, by name."""
    return {
        "frames": "\n".join(_frames()),
        "payloads": "\n".join(_payloads()),
        "limits": "\n".join(_limits()),
        "errors": "\n".join(_errors()),
        "examples": "\n".join(_examples()),
    }


def rewritten(page: str) -> str:
    """Return ``page`` with its generated parts updated. Raises ValueError if a mark is missing."""
    for name, text in blocks().items():
        pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(\n<!-- end {name} -->)", re.DOTALL)
        page, count = pattern.subn(lambda match, text=text: match[1] + text + match[2], page)  # type: ignore[misc]
        if count != 1:
            raise ValueError(f"the page has {count} blocks {name!r}")
    return page


def _frames() -> Iterator[str]:
    yield "| code | name | from | stream | payload | answered by | |"
    yield "|---|---|---|---|---|---|---|"
    for row in FRAMES.values():
        notes = [row.help]
        if row.is_counted:
            notes.append("costs credit")
        if row.ends != "never":
            notes.append("ends the stream" if row.ends == "always" else "ends the stream where `is_final` is true")
        if row.needs:
            notes.append(f"needs `{row.needs}`")
        stream = {"connection": "0", "opens": "opens", "continues": "open", "anywhere": "0 or open"}.get(
            row.place, "opens or open"
        )
        answers = ", ".join(FRAMES[answer].name for answer in row.answers)
        yield f"| {row.type:02X} | {row.name} | {row.sender} | {stream} | {_links(row)} | {answers} | {'; '.join(notes)} |"


def _structs(row: FrameRow) -> tuple[type[msgspec.Struct], ...]:
    members = getattr(row.payload, "__args__", None)
    return members if members is not None else (row.payload,)


def _links(row: FrameRow) -> str:
    return " or ".join(f"[{struct.__name__}](#{struct.__name__.lower()})" for struct in _structs(row))


def _payloads() -> Iterator[str]:
    known: list[type[Any]] = list(dict.fromkeys(struct for row in FRAMES.values() for struct in _structs(row)))
    known += [p.Filter, p.RefUpdate, p.RefRow, p.ObjectPart, p.WireMolecule, p.WireBroken, p.WireOversize, Atom]
    for struct in known:
        yield f"### {struct.__name__}"
        yield ""
        doc = inspect.getdoc(struct) or ""
        if doc and struct is not Atom:
            yield doc.replace("``", "`")
            yield ""
        config = struct.__struct_config__
        if config.tag is not None:
            yield f"A field `{config.tag_field}` stands first: `{config.tag!r}`.".replace("'", '"')
            yield ""
        if config.array_like:
            yield "An array of"
            yield ""
        fields = msgspec.structs.fields(struct)
        if not fields:
            yield "No fields."
            yield ""
            continue
        yield "| field | type | where JSON leaves it out |"
        yield "|---|---|---|"
        for field in fields:
            yield f"| `{field.name}` | {_type(msgspec.inspect.type_info(field.type))} | {_default(field)} |"
        yield ""


def _type(info: msgspec.inspect.Type) -> str:
    match info:
        case msgspec.inspect.IntType():
            return f"number{_bounds(info.ge, info.le if info.lt is None else info.lt - 1)}"
        case msgspec.inspect.StrType():
            return f"text{_bounds(info.min_length, info.max_length, 'characters')}"
        case msgspec.inspect.BytesType():
            if info.min_length == info.max_length == 32:
                return "digest"
            return f"bytes{_bounds(info.min_length, info.max_length, 'bytes')}"
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.NoneType():
            return "none"
        case msgspec.inspect.VarTupleType():
            return f"array of {_type(info.item_type)}{_bounds(info.min_length, info.max_length, 'items')}"
        case msgspec.inspect.TupleType():
            return f"array of {', '.join(_type(item) for item in info.item_types)}"
        case msgspec.inspect.DictType():
            return f"map of {_type(info.key_type)} to {_type(info.value_type)}"
        case msgspec.inspect.StructType():
            return "map, see limits" if info.cls is Limits else f"[{info.cls.__name__}](#{info.cls.__name__.lower()})"
        case msgspec.inspect.LiteralType():
            return " or ".join(f"`{value}`" for value in info.values)
        case msgspec.inspect.UnionType():
            return " or ".join(_type(one) for one in info.types)
        case _:
            raise TypeError(f"no words for {info!r}")


def _bounds(least: int | None, most: int | None, unit: str = "") -> str:
    if most is None or most >= 2**53 - 1:
        return "" if not least else f", at least {least:,}"
    what = f" {unit}" if unit else ""
    return f", {least or 0:,} … {most:,}{what}" if least or not unit else f", at most {most:,}{what}"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    if isinstance(value, Limits):
        return "the defaults below"
    return f"`{msgspec.json.encode(value).decode()}`"


def _limits() -> Iterator[str]:
    yield "| agreed | offered unless said otherwise | range |"
    yield "|---|---|---|"
    for field in msgspec.structs.fields(Limits):
        info = msgspec.inspect.type_info(field.type)
        assert isinstance(info, msgspec.inspect.IntType)
        yield f"| `{field.name}` | {field.default:,} | {info.ge:,} … {info.le:,} |"
    yield ""
    yield "| of the server alone | |"
    yield "|---|---|"
    for name, value in zip(Policy._fields, Policy(), strict=True):
        yield f"| `{name}` | {value:,} |"


def _errors() -> Iterator[str]:
    yield "| code | again later? | message |"
    yield "|---|---|---|"
    for row in ERRORS.values():
        again = "yes" if row.is_retryable else "no"
        yield f"| `{row.code}` | {again}{', ends the connection' if row.is_fatal else ''} | {row.message} |"


def _examples() -> Iterator[str]:
    yield f"The preface: `{PREFACE.hex(' ')}`."
    for kind, (stream, value) in EXAMPLES.items():
        codec = Codec()
        if kind not in _HANDSHAKE:
            codec.agree("msgpack", unpacks=False, packs=False)
        payload = codec.payload(value)
        header = frame_header(len(payload), kind, 0, stream)
        yield ""
        yield f"{FRAMES[kind].name} on stream {stream}, {len(payload)} bytes of payload:"
        yield ""
        yield "```"
        yield f"{header[:4].hex(' ')}   length"
        yield f"{header[4:5].hex()}            type"
        yield f"{header[5:6].hex()}            flags"
        yield f"{header[6:].hex(' ')}   stream"
        for at in range(0, len(payload), 24):
            piece = payload[at : at + 24]
            text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in piece)
            yield f"{piece.hex(' '):<71}   {text}"
        yield "```"
        if kind not in _HANDSHAKE:
            yield ""
            yield f"In JSON: `{msgspec.json.encode(value).decode()}`"


def main(path: str) -> None:
    """Update the page at ``path``."""
    with open(path, encoding="utf-8") as file:
        page = file.read()
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(rewritten(page))
    os.replace(path + ".new", path)


if __name__ == "__main__":
    main(sys.argv[1])
