"""Segments, batches, records and stubs of one lineage (page: Record, Segment, Batches, Stub and audit record)."""

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .forms import Refused, canonical, check_signature, need, parse_canonical, tree_root, unseal

FIELDS = (
    "v", "seq", "ts", "writer", "writer_id", "pid", "action", "session", "item_type", "item_id", "parents", "after",
    "key", "salt", "txn", "summary", "payload", "payload_ref", "deleted", "voids", "durable", "leaf", "version", "sum",
)  # fmt: skip
STATE = {"create", "update", "transition", "import", "external_edit"}
TOMBSTONE = {"delete"}
META = {"checkpoint", "redact", "note"}
OBSERVATION = {"observe"}
LINE_BYTES_MAX = 262_144
PAYLOAD_BYTES_MAX = 65_536
_SEGMENT = re.compile(r"(\d{12})\.jsonl")

Objects = Callable[[str], bytes | None]


@dataclass
class Record:
    """A record that counts, with where it lies."""

    lineage: str
    body: dict[str, Any]
    leaf: bytes
    line: bytes
    segment: int
    offset: int
    payload: Any = None
    version: str | None = None  # only of what is a version of an entity
    problem: str | None = None

    @property
    def seq(self) -> int:
        """Its number in its lineage, from 1."""
        return int(self.body["seq"])

    @property
    def is_stub(self) -> bool:
        """Whether its content was taken out."""
        return "leaf" in self.body

    @property
    def may_be_longer(self) -> bool:
        """Whether it is a stub without a space to spare: it may be longer than the record was, and have moved others."""
        return self.is_stub and b' ,"sum"' not in self.line

    @property
    def end(self) -> int:
        """Where in its segment the next line begins."""
        return self.offset + len(self.line) + 1


@dataclass
class Lineage:
    """What one lineage's segments say."""

    id: str
    records: list[Record] = field(default_factory=list)
    voided: list[tuple[int, int, int]] = field(default_factory=list)  # segment, offset, length
    held_back: tuple[int, int] | None = None  # segment, offset
    problems: list[str] = field(default_factory=list)
    store: str | None = None  # as its segments name it

    @property
    def leaves(self) -> list[bytes]:
        """The leaf hashes, by seq."""
        return [record.leaf for record in self.records]

    @property
    def durable(self) -> int:
        """The highest seq that a sound record knows to be on disk."""
        return max((record.body.get("durable", 0) for record in self.records), default=0)

    def root(self, size: int) -> bytes:
        """The root of the tree of the first *size* records."""
        need(size <= len(self.records), f"{self.id}: there are no {size} records")
        return tree_root(self.leaves[:size])


def version_id(item_type: str, item_id: str, parents: list[str], payload: Any, deleted: bool) -> str:
    """The id of a version (page: Record)."""
    said = {
        "deleted": deleted,
        "item_id": item_id,
        "item_type": item_type,
        "parents": sorted(parents),
        "payload": payload,
    }
    return hashlib.sha256(canonical(said)).hexdigest()


def read_lineage(
    name: str,
    segments: Mapping[int, bytes],
    stores: Collection[str],
    mark: int,
    objects: Objects,
    *,
    never: bool = False,
) -> Lineage:
    """Read *segments*, by their first seq, of the lineage *name*; *mark* is the seq of the file `durable`, or 0, *never* the policy."""
    found = Lineage(name)
    firsts = sorted(segments)
    for number, first in enumerate(firsts):
        if number == 0 and first != 1:
            found.problems.append(f"{name}: the segments before {first} are missing")
        _drop_from(found, first)
        try:
            start = _header(found, first, segments[first], stores)
        except Refused as refused:
            found.problems.append(f"{name}/{first:012d}: {refused}")
            continue
        _read_segment(found, first, segments[first], start)
        if never and found.held_back:
            mark = max(mark, _said_behind(found, first, segments[first], found.held_back[1]))
        if found.held_back and (number < len(firsts) - 1 or len(found.records) < max(mark, found.durable)):
            # Behind the last whole batch of a segment that is not the newest there is nothing that counts,
            # as long as the next segment goes on with the seq that is expected: its header says so.
            if number == len(firsts) - 1:
                found.problems.append(f"{name}/{first:012d}: damage at byte {found.held_back[1]}")
            else:
                found.held_back = None
    if len(found.records) < mark:
        found.problems.append(f"{name}: {mark} records were acknowledged, {len(found.records)} are here")
    for record in found.records:
        _examine(found, record, objects)
    return found


def _drop_from(found: Lineage, first: int) -> None:
    """Where a segment begins at a seq that the one before it also has, the later one counts."""
    while found.records and found.records[-1].seq >= first:
        found.records.pop()


def _header(found: Lineage, first: int, data: bytes, stores: Collection[str]) -> int:
    end = data.find(b"\n")
    need(end >= 0, "no header")
    head, _ = unseal(data[:end])
    need(list(head) == ["v", "segment", "store", "lineage", "first_seq", "prev", "sum"], "another header")
    need((head["v"], head["segment"], head["lineage"]) == (2, 2, found.id), "the header of another")
    need(head["store"] in stores, "a segment of another store")
    need(found.store in (None, head["store"]), "segments of two stores")
    found.store = head["store"]
    need(head["first_seq"] == first, "its name is not its first seq")
    if found.records or first == 1:
        need(first == len(found.records) + 1, f"it goes on with {first} after {len(found.records)}")
        prev = found.records[-1].leaf.hex()[:16] if found.records else ""
        need(head["prev"] == prev, "it does not go on from the record before it")
    return end + 1


def _line(data: bytes, at: int) -> bytes | None:
    end = data.find(b"\n", at)
    return data[at:end] if end >= 0 else None


def _record(found: Lineage, segment: int, data: bytes, at: int) -> Record | None:
    """The sound record that begins at *at*, or None."""
    line = _line(data, at)
    if line is None or len(line) >= LINE_BYTES_MAX:
        return None
    try:
        body, leaf = unseal(line)
        if body.get("v", 0) < 2 or not isinstance(body.get("seq"), int):
            return None
        if "leaf" in body:
            leaf = bytes.fromhex(body["leaf"])
    except Refused:
        return None
    return Record(found.id, body, leaf, line, segment, at)


def _batch(found: Lineage, segment: int, data: bytes, at: int, seq: int) -> list[Record]:
    """The whole batch that begins at *at* with *seq*; empty where there is none."""
    batch: list[Record] = []
    while True:
        record = _record(found, segment, data, at)
        if record is None or record.seq != seq + len(batch):
            return []
        index, count = record.body.get("txn", (1, 1))
        if index != len(batch) + 1 or (batch and count != batch[0].body["txn"][1]):
            return []
        batch.append(record)
        at = record.end
        if index == count:
            return batch


def _said_behind(found: Lineage, segment: int, data: bytes, at: int) -> int:
    """The highest seq of which a sound record behind *at* says, by being there, that it was acknowledged."""
    highest = 0
    while (at := data.find(b"\n", at) + 1) > 0:
        record = _record(found, segment, data, at)
        if record is not None:
            highest = max(highest, record.seq - record.body.get("txn", (1, 1))[0])
    return highest


def _read_segment(found: Lineage, segment: int, data: bytes, at: int) -> None:
    found.held_back = None
    while at < len(data):
        seq = found.records[-1].seq + 1 if found.records else segment
        batch = _batch(found, segment, data, at, seq)
        if not batch:
            batch = _behind_voided(found, segment, data, at, seq)
            if not batch:
                found.held_back = (segment, at)
                return
            found.voided.append((segment, at, batch[0].offset - at))
        elif "voids" in batch[0].body:
            found.problems.append(f"{found.id} {seq}: voids bytes that are a batch")
        found.records += batch
        at = batch[-1].end


def _behind_voided(found: Lineage, segment: int, data: bytes, at: int, seq: int) -> list[Record]:
    """The batch that voids just the bytes from *at* up to itself."""
    end = data.find(b"\n", at)
    while end >= 0:
        batch = _batch(found, segment, data, end + 1, seq)
        if batch and "voids" in batch[0].body:
            _, length = batch[0].body[
                "voids"
            ]  # the offset is that of another file where stubs and records took each other's places
            if length == end + 1 - at:
                return batch
        end = data.find(b"\n", end + 1)
    return []


def check_stubs(lineages: dict[str, Lineage], key_of: Callable[[str], bytes | None]) -> None:
    """Every stub has an audit record: of its lineage, or of another and signed with its lineage's key."""
    named: dict[str, set[tuple[int, str, str]]] = {name: set() for name in lineages}
    for lineage in lineages.values():
        for record in lineage.records:
            said = record.body.get("payload", {}) if record.body["action"] == "redact" else {}
            if said.get("lineage") in named and (said["lineage"] == lineage.id or _is_signed(said, key_of)):
                named[said["lineage"]].update((seq, leaf, digest) for seq, leaf, digest in said["records"])
    for lineage in lineages.values():
        for record in lineage.records:
            stub = (record.seq, record.leaf.hex(), hashlib.sha256(record.line).hexdigest())
            if record.is_stub and stub not in named[lineage.id]:
                lineage.problems.append(f"{lineage.id} {record.seq}: a stub that no audit record names")


def _is_signed(said: dict[str, Any], key_of: Callable[[str], bytes | None]) -> bool:
    key = key_of(said["lineage"])
    message = {"lineage": said["lineage"], "records": said["records"]}
    try:
        check_signature(key or b"", bytes.fromhex(said.get("signature", "")), b"PPLS/redact/1\0" + canonical(message))
    except Refused:
        return False
    return True


def _examine(found: Lineage, record: Record, objects: Objects) -> None:
    try:
        _examine_fields(record)
        _content(record, objects)
    except Refused as refused:
        record.problem = str(refused)
        found.problems.append(f"{found.id} {record.seq}: {refused}")


def _examine_fields(record: Record) -> None:
    body = record.body
    known = [name for name in body if name in FIELDS]
    need(known == sorted(known, key=FIELDS.index), "fields in another order")
    need(
        all(body[name] not in (None, "", [], {}) for name in known if name not in ("payload", "writer", "writer_id")),
        "an empty field",
    )
    need({"v", "seq", "ts", "writer", "action", "sum"} <= set(body), "a field that must be there is not")
    parents = body.get("parents", [])
    need(parents == sorted(set(parents)), "parents that do not rise")
    need(all(len(p) == 64 and p == p.lower() and bytes.fromhex(p) for p in parents), "a parent that is no version id")
    need(body.get("after", []) == sorted(set(body.get("after", []))), "`after` does not rise")
    need(body.get("deleted", False) == (body["action"] in TOMBSTONE), "a tombstone that is none")
    if record.is_stub:
        need(not {"payload", "payload_ref", "summary", "salt"} & set(body), "a stub with content")


def _content(record: Record, objects: Objects) -> None:
    body, action = record.body, record.body["action"]
    is_version = action in STATE | TOMBSTONE
    if record.is_stub:
        record.version = body.get("version") if is_version else None
        return
    if "payload_ref" in body:
        ref = body["payload_ref"]
        data = objects(ref["sha256"])
        need(data is not None, f"the object {ref['sha256']} is missing")
        assert data is not None
        need(len(data) == ref["bytes"] > PAYLOAD_BYTES_MAX, "the object has another size")
        record.payload = parse_canonical(data)
    elif "payload" in body:
        data = canonical(body["payload"])
        need(b'"payload":' + data in record.line, "a payload that is not canonical")
        need(len(data) <= PAYLOAD_BYTES_MAX, "a payload that is too long for a line")
        record.payload = body["payload"]
    if is_version:
        need("item_type" in body and "item_id" in body, "of no entity")
        need(("payload" in body or "payload_ref" in body) != (action in TOMBSTONE), "content in a tombstone, or none")
        record.version = version_id(
            body["item_type"], body["item_id"], body.get("parents", []), record.payload, action in TOMBSTONE
        )


def segments(place: Path) -> dict[int, bytes]:
    """The segments of a lineage's folder and of its archive, by their first seq."""
    found: dict[int, bytes] = {}
    for folder in (place, place / "archive"):
        for path in sorted(folder.glob("*")):
            named = _SEGMENT.fullmatch(path.name)
            if named and int(named[1]) not in found:
                found[int(named[1])] = path.read_bytes()
    return found
