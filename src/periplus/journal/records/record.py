"""Records of the journal: one JSON object a line, with a checksum that is also the record's leaf in the Merkle tree.

A line is ``{"v":2,…,"sum":"<16 hex>"}`` and a newline. The leaf hash is the SHA-256 over a zero byte and the line up to
``,"sum"``, which is not included (RFC 9162 §2.1.1); ``sum`` is its first 16 hex digits. One hash checks the line and
proves it. The payload is written in canonical form. The bytes of the line are hashed, kept and copied as they are; a
record is never encoded again. All functions here are pure.
"""

from __future__ import annotations

__all__ = [
    "ACTIONS",
    "LINE_BYTES_MAX",
    "PAYLOAD_INLINE_MAX",
    "RECORD_VERSION",
    "SUM_TRAILER_BYTES",
    "ActionClass",
    "PayloadRef",
    "Record",
    "action_class",
    "are_sealed",
    "decode_line",
    "decode_lines",
    "encode_line",
    "record_of",
    "seal_line",
    "unseal_line",
    "version_id",
]

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from periplus.base.encoding import hashing
from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import FormatError, UsageError

if TYPE_CHECKING:
    import hashlib

RECORD_VERSION: Final = 2
LINE_BYTES_MAX: Final = 256 * 1024
PAYLOAD_INLINE_MAX: Final = 64 * 1024
SUM_TRAILER_BYTES: Final = 26  # ,"sum":"0123456789abcdef"}
_SUM_PREFIX: Final = b',"sum":"'
_SUM_SUFFIX: Final = b'"}'
_MANY: Final = 50

ActionClass: TypeAlias = Literal["state", "tombstone", "meta", "observation", "unknown"]

ACTIONS: Final[dict[str, ActionClass]] = {
    "create": "state",
    "update": "state",
    "transition": "state",
    "import": "state",
    "external_edit": "state",
    "delete": "tombstone",
    "checkpoint": "meta",
    "redact": "meta",
    "note": "meta",
    "observe": "observation",
}


def action_class(action: str) -> ActionClass:
    """Return the class of an action; ``unknown`` for actions of later versions, which are kept and passed through."""
    return ACTIONS.get(action, "unknown")


class PayloadRef(msgspec.Struct, frozen=True):
    """A payload that is stored as an object: its SHA-256 in hexadecimal and its size in bytes."""

    sha256: str
    bytes: int


class Record(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The fields of a line, in their order; ``encode_line`` adds ``sum``. See docs/formats/journal.md.

    ``after`` names versions that this one descends from although the versions between are not held. They are edges of the
    version graph, as ``parents`` are, but no part of the version id. Only stubs have ``leaf`` and ``version``: the leaf hash
    and the version id of the record before its content was removed. ``gc=False`` because a record is never part of a cycle,
    and a rebuild makes many of them.
    """

    v: int
    seq: int
    ts: str
    writer: str
    writer_id: str
    pid: int
    action: str
    session: str = ""
    item_type: str = ""
    item_id: str = ""
    parents: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    key: str = ""
    salt: str = ""
    txn: tuple[int, int] | None = None
    summary: str = ""
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    payload_ref: PayloadRef | None = None
    deleted: bool = False
    voids: tuple[int, int] | None = None
    durable: int = 0
    leaf: str = ""
    version: str = ""

    @property
    def is_stub(self) -> bool:
        """Return True if the content was removed. ``leaf`` is then the leaf hash of the whole record."""
        return bool(self.leaf)


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Record)


def _begin_first_leaf() -> hashlib._Hash:
    """Import hashlib, replace ``_begin_leaf`` with a copy of the started hash (cheaper than a new one), and return one."""
    global _begin_leaf  # noqa: PLW0603 - a process that only reads never imports hashlib
    import hashlib

    _begin_leaf = hashlib.sha256(b"\0").copy
    return _begin_leaf()


_begin_leaf: Callable[[], hashlib._Hash] = _begin_first_leaf
_stub_leaf: Final = attrgetter("leaf")


def encode_line(record: Record) -> tuple[bytes, bytes]:
    """Return ``(line with its newline, leaf hash)``. Raises UsageError for a line over LINE_BYTES_MAX."""
    try:
        body = _encoder.encode(record)[:-1]
    except UnicodeEncodeError as error:
        raise UsageError(f"text is not valid Unicode: {error}", safe="Nothing was written.") from error
    line, leaf = seal_line(body)
    if len(line) > LINE_BYTES_MAX:
        raise UsageError(
            f"a record of {len(line):,} bytes; the limit is {LINE_BYTES_MAX:,}",
            safe="Nothing was written.",
            mend="Put large content into an object.",
        )
    return line, leaf


def seal_line(body: bytes) -> tuple[bytes, bytes]:
    """Add checksum, closing brace and newline to ``body``, a JSON object without its closing brace. Return ``(line, leaf)``."""
    digest = _begin_leaf()
    digest.update(body)
    leaf = digest.digest()
    return b'%b,"sum":"%b"}\n' % (body, leaf[:8].hex().encode()), leaf


def unseal_line(line: bytes) -> bytes | None:
    """Return the leaf hash of ``line`` (without its newline), or None if the checksum is wrong."""
    if line[-2:] != b'"}' or line[-SUM_TRAILER_BYTES:-18] != _SUM_PREFIX:
        return None
    leaf = hashing.sha256(b"\0" + line[:-SUM_TRAILER_BYTES]).digest()
    return leaf if leaf[:8].hex().encode() == line[-18:-2] else None


def are_sealed(data: bytes, count: int, last_seq: int) -> bool:
    """Return True if ``data`` is ``count`` whole lines with valid checksums and the last one is record ``last_seq``."""
    lines = data.split(b"\n")
    if lines.pop() or len(lines) != count:
        return False
    sums = []
    for line in lines:
        digest = _begin_leaf()
        digest.update(line[:-SUM_TRAILER_BYTES])
        sums.append(b',"sum":"%b"}' % digest.digest()[:8].hex().encode())
    is_last = not count or lines[-1].startswith(b'{"v":%d,"seq":%d,' % (RECORD_VERSION, last_seq))
    return is_last and sums == [line[-SUM_TRAILER_BYTES:] for line in lines]


def decode_line(line: bytes) -> tuple[Record, bytes]:
    """Return ``(record, leaf hash)`` of a line without its newline. For a stub the leaf hash is that of the original record.

    Raises FormatError if the checksum is wrong or the fields are not those of a record. A record of a later version is
    decoded as far as its fields are known; its bytes stay as they are.
    """
    leaf = unseal_line(line)
    if leaf is None:
        raise FormatError("checksum does not hold")
    try:
        record = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"not a record: {error}") from error
    if record.seq < 1:
        raise FormatError(f"seq {record.seq} is not positive")
    if record.leaf:
        if not is_digest_text(record.leaf) or (record.version and not is_digest_text(record.version)):
            raise FormatError("a stub without a valid leaf hash or version")
        leaf = bytes.fromhex(record.leaf)
    return record, leaf


def record_of(line: bytes) -> Record:
    """Decode a line that ``decode_line`` or ``decode_lines`` accepted before, without checking its checksum again."""
    return _decoder.decode(line)


def decode_lines(lines: list[bytes]) -> tuple[list[Record], list[bytes]]:
    """Decode ``lines`` up to the first that ``decode_line`` would refuse. Return records and leaf hashes; raise nothing."""
    if len(lines) < _MANY:  # too few to import the compiled function for
        leaves: list[bytes] = []
        for line in lines:
            if (leaf := unseal_line(line)) is None:
                break
            leaves.append(leaf)
    else:
        from periplus.base.speed import sealed_leaves

        leaves = sealed_leaves(lines, _SUM_PREFIX, _SUM_SUFFIX)
    if len(leaves) < len(lines):
        lines = lines[: len(leaves)]
    try:
        records = list(map(_decoder.decode, lines))
        if not any(map(_stub_leaf, records)):
            return records, leaves[: len(records)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # decode one by one to find the bad line
    sound: list[tuple[Record, bytes]] = []
    for line in lines:
        try:
            sound.append(decode_line(line))
        except FormatError:
            break
    return [record for record, _ in sound], [leaf for _, leaf in sound]


def version_id(item_type: str, item_id: str, *, deleted: bool, payload: bytes | None, parents: tuple[str, ...]) -> str:
    """Return the SHA-256 in hexadecimal over the canonical form of {item_type, item_id, deleted, payload, sorted parents}.

    ``payload`` is canonical JSON, or None for a tombstone. Seq, time and writer are not included, so the same change made
    from the same versions in two clones is one version.
    """
    names = sorted(parents)
    if all(_stands_as_it_is(text) for text in (item_type, item_id, *names)):  # almost always
        listed = '","'.join(names)
        head = (
            f'{{"deleted":{"true" if deleted else "false"},"item_id":"{item_id}","item_type":"{item_type}","parents":['
            + (f'"{listed}"]' if names else "]")
        ).encode()
    else:
        head = _quoted_head({"deleted": deleted, "item_id": item_id, "item_type": item_type, "parents": names})
    return hashing.sha256(b'%b,"payload":%b}' % (head, payload if payload is not None else b"null")).hexdigest()


def _stands_as_it_is(text: str) -> bool:
    """Return True if JSON writes ``text`` between quotes without escapes."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


def _quoted_head(names: dict[str, object]) -> bytes:
    import orjson

    try:  # strings and a boolean with sorted keys: already canonical
        return orjson.dumps(names)[:-1]  # "payload" sorts after the four others
    except orjson.JSONEncodeError as error:
        raise UsageError(f"cannot be written as canonical JSON: {error}") from error
