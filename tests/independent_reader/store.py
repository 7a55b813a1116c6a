"""A whole store: its lineages, objects, checkpoints, heads, tiles, cursors, entity files, exports and exchanges."""

import hashlib
import hmac
import json
import re
import tomllib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from .exchange import check_head_file
from .forms import Refused, canonical, check_head, need, parse, parse_canonical, sealed_canonical, tree_root, unseal
from .lineage import Lineage, Record, check_stubs, read_lineage, segments
from .objects import load_object
from .state import Shown, TypeRules, Version, entities, kept_of, rules_of

_KEYS_MAX = 4096
_ANCESTORS_MAX = 1_000
_ANCESTORS_BYTES = 200_000  # more may be kept, up to the length of a line


class Store:
    """A folder `.periplus`, read whole. *reference* is the text of docs/reference/entities.md."""

    def __init__(self, folder: Path, reference: str) -> None:
        self.folder = folder
        self.settings = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
        names = self.settings["store"]
        self.ids = {names["id"], *names.get("joined", [])}
        self.rules: dict[str, TypeRules] = rules_of(reference, self.settings)
        journal = folder / "journal"
        told = journal / "lineage.json"
        self.own: str | None = parse(told.read_bytes())["lineage"] if told.exists() else None
        self.mark = self._mark()
        self.lineages: dict[str, Lineage] = {}
        never = self.settings.get("journal", {}).get("sync") == "never"
        for place in sorted(journal.glob("lin_*")):
            mark = self.mark["seq"] if self.mark.get("lineage") == place.name else 0
            self.lineages[place.name] = read_lineage(
                place.name, segments(place), self.ids, mark, self.object, never=never
            )
        check_stubs(self.lineages, self._key)

    # -- what the others build on ---------------------------------------------------------------------------------

    def _mark(self) -> dict[str, Any]:
        place = self.folder / "journal" / "durable"
        if not place.exists():
            return {}
        data = place.read_bytes()
        need(len(data) == 256, "the durable mark is not of 256 bytes")
        said, _ = unseal(data.rstrip(b" \n"))
        need(list(said) == ["lineage", "segment", "offset", "seq", "leaf", "sum"], "another durable mark")
        return said

    def _key(self, lineage: str) -> bytes | None:
        place = self.folder / "journal" / "keys" / f"{lineage}.public"
        return bytes.fromhex(place.read_text().strip()) if place.exists() else None

    def object(self, digest: str) -> bytes | None:
        """The bytes of an object, by their SHA-256."""
        return load_object(self.folder / "objects", digest)

    @property
    def records(self) -> Iterator[Record]:
        """The records of all lineages."""
        for lineage in self.lineages.values():
            yield from lineage.records

    @cached_property
    def entities(self) -> dict[tuple[str, str], Shown]:
        """Every entity as it is shown, the deleted ones too."""
        return entities(self.records, self.rules)

    # -- checks -----------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """All that is not as the page says."""
        found = [problem for lineage in self.lineages.values() for problem in lineage.problems]
        for check, places in (
            (self._check_object, self.folder.glob("objects/??/*")),
            (self.check_checkpoint, self.folder.glob("journal/checkpoints/*.jsonl")),
            (self._check_peer, self.folder.glob("journal/peers/*.json")),
            (self._check_tiles, self.folder.glob("journal/tree/*")),
            (self._check_cursor, self.folder.glob("cursors/*.json")),
            (self._check_copy, self.folder.glob("journal/lin_*/head.json")),
        ):
            for place in sorted(places):
                try:
                    check(place)
                except Refused as refused:
                    found.append(f"{place.relative_to(self.folder)}: {refused}")
        found += self._mark_problems()
        return found + self.file_problems()

    def _mark_problems(self) -> list[str]:
        lineage = self.lineages.get(self.mark.get("lineage", ""))
        if lineage is None or len(lineage.records) < self.mark["seq"]:
            return []
        record = lineage.records[self.mark["seq"] - 1]
        said, told = (self.mark["leaf"], self.mark["segment"]), (record.leaf.hex(), record.segment)
        is_there = said == told and _may_end_at(lineage, record, self.mark["offset"])
        return [] if is_there else [f"durable: says {said}, {self.mark['offset']}, is {told}, {record.end}"]

    def _check_object(self, place: Path) -> None:
        if place.name.startswith("."):
            return  # a write that did not end
        need(re.fullmatch(r"[0-9a-f]{62}(\.[zt])?", place.name), "no object")
        self.object(place.parent.name + place.name.split(".")[0])

    def files(self) -> dict[str, bytes]:
        """The bytes of every entity file that belongs under `entities/`, by its path in there."""
        return {
            f"{item_type}/{item_id}.json": shown.file_bytes()
            for (item_type, item_id), shown in self.entities.items()
            if not shown.deleted and item_type in self.rules and self.rules[item_type].has_file
        }

    def file_problems(self) -> list[str]:
        """Where `entities/` does not have the bytes that it is to have."""
        top = self.folder / "entities"
        there = {str(p.relative_to(top)): p.read_bytes() for p in top.glob("*/*.json")}
        wanted = self.files()
        return [
            f"entities/{name}: {'another' if name in there and name in wanted else 'missing' if name in wanted else 'too many'}"
            for name in sorted(there.keys() | wanted.keys())
            if there.get(name) != wanted.get(name)
        ]

    def announced(self) -> dict[int, dict[str, Any]]:
        """What records of action `checkpoint` say, by the seq that a checkpoint covers; the last one counts."""
        own = self.lineages.get(self.own or "", Lineage(""))
        return {r.payload["seq"]: r.payload for r in own.records if r.body["action"] == "checkpoint" and r.payload}

    def check_checkpoint(self, place: Path) -> dict[str, Any]:
        """Check a checkpoint against the records; its first line."""
        data = place.read_bytes()
        lines = data.split(b"\n")
        need(lines.pop() == b"", "it does not end with a line")
        rows = [unseal(line)[0] for line in lines]
        first, end = rows[0], rows[-1]
        need(first["line"] == "checkpoint" and end["line"] == "end", "it has no beginning or no end")
        need((first["v"], first["checkpoint"]) == (2, 1), "another form")
        need(first["lineage"] == self.own or not self.own, "the checkpoint of another")
        need(first["store"] in self.ids, "the checkpoint of another store")
        seq = first["seq"]
        need(place.name == f"{seq:012d}.jsonl", "its name is not its seq")
        own = self.lineages[first["lineage"]]
        need(first["root"] == own.root(seq).hex(), "its root is another")
        said = {"bytes": len(data), "root": first["root"], "seq": seq, "sha256": hashlib.sha256(data).hexdigest()}
        need(
            any(r.payload == said for r in own.records[seq:] if r.body["action"] == "checkpoint"),
            "no record announces it",
        )
        need(
            end["sha256"] == hashlib.sha256(data[: len(data) - len(lines[-1]) - 1]).hexdigest(),
            "its end names other bytes",
        )
        covered = self._covered(first["positions"])
        kinds = [row["line"] for row in rows[1:-1]]
        need(kinds == sorted(kinds, key=["head", "key", "objects"].index), "lines in another order")
        heads = [row for row in rows if row["line"] == "head"]
        keys = [row for row in rows if row["line"] == "key"]
        objects = [digest for row in rows if row["line"] == "objects" for digest in row["objects"]]
        need(
            (end["heads"], end["keys"], end["objects"]) == (len(heads), len(keys), len(objects)),
            "its end counts others",
        )
        self._check_heads(heads, covered)
        self._check_keys(keys, covered)
        wanted = {r["payload_ref"]["sha256"] for r in heads if "payload_ref" in r}
        need(wanted <= set(objects), "objects of heads that are not listed")
        return first

    def _covered(self, positions: dict[str, list[Any]]) -> list[Record]:
        covered: list[Record] = []
        for name, (segment, offset, following, seal) in positions.items():
            records = self.lineages[name].records[: following - 1]
            need(len(records) == following - 1, f"{name}: fewer records than it covers")
            line = self._line_before(name, segment, offset)
            need(unseal(line)[0]["sum"] == seal, f"{name}: it covers another record")
            last = records[-1]
            at_header = segment == following and line.startswith(b'{"v":2,"segment":')
            need(at_header or (last.segment, last.end) == (segment, offset), f"{name}: the place is another")
            covered += records
        return covered

    def _line_before(self, name: str, segment: int, offset: int) -> bytes:
        data = segments(self.folder / "journal" / name)[segment]
        need(data[offset - 1 : offset] == b"\n", f"{name}: no line ends at {segment}:{offset}")
        return data[data.rfind(b"\n", 0, offset - 1) + 1 : offset - 1]

    def _check_heads(self, rows: list[dict[str, Any]], covered: list[Record]) -> None:
        wanted = []
        left = iter(rows)
        for (item_type, item_id), shown in entities(covered, self.rules).items():
            for number, head in enumerate(sorted(shown.heads, key=lambda h: h.id)):
                wanted.append({"line": "head", "item_type": item_type, "item_id": item_id} | _version_row(head))
                ancestors = next(left, {}).get("ancestors", [])
                _check_ancestors(shown, ancestors, is_first_of_several=number == 0 and len(shown.heads) > 1)
        have = [{k: v for k, v in row.items() if k not in ("sum", "ancestors")} for row in rows]
        for one, other in zip(have, wanted, strict=False):
            need(one == other, f"a head is {one}, and should be {other}")
        need(len(have) == len(wanted), "other heads than the records have")

    def _check_keys(self, rows: list[dict[str, Any]], covered: list[Record]) -> None:
        by_key: dict[str, list[list[Any]]] = {}
        for r in covered:
            if "key" in r.body:
                by_key.setdefault(r.body["key"], []).append([r.lineage, r.seq, r.version or "", r.body["ts"]])
        held: dict[str, list[list[Any]]] = {}
        for row in rows:
            need(0 < len(row["records"]) <= 1_000, f"the key {row['key']}: {len(row['records'])} records in a line")
            held.setdefault(row["key"], []).extend(row["records"])
        need(list(held) == sorted(held), "keys in another order")
        need(len(held) == min(len(by_key), _KEYS_MAX), f"{len(held)} keys of {len(by_key)}")
        for key, records in held.items():
            need(sorted(records) == sorted(by_key[key]), f"the key {key}: {records}, {by_key[key]}")

    def _check_peer(self, place: Path) -> None:
        data = place.read_bytes()
        need(data.endswith(b"\n"), "no newline at its end")
        said = sealed_canonical(data[:-1])
        need(said["lineage"] == place.stem and said["v"] == 1 and said["store"] in self.ids, "the file of another")
        need(said["own"] == (place.stem == self.own) or said["own"], "whose it is")
        key = self.folder / "journal" / "keys" / f"{place.stem}.public"
        if key.exists():
            need(key.read_text().strip() == said["key"], "another key than the one beside the records")
        seen = said["seen"]
        if seen and place.stem in self.lineages:
            head = {"lineage": place.stem, "root": seen["root"], "size": seen["size"], "store": said["store"]}
            if seen.get("signature"):
                check_head(head, bytes.fromhex(said["key"]), bytes.fromhex(seen["signature"]))
            need(self.lineages[place.stem].root(seen["size"]).hex() == seen["root"], "the records lead to another root")

    def _check_tiles(self, place: Path) -> None:
        data = (place / "head").read_bytes()
        need(data.endswith(b"\n"), "no newline at its end")
        said = parse_canonical(data[:-1])
        secret = bytes.fromhex((self.folder / "journal" / "keys" / "trail").read_text().strip())
        key = hmac.digest(secret, b"PPLS/tiles/1", "sha256")
        mac = hmac.digest(key, b"PPLS/tile-head/1\0" + canonical({**said, "mac": ""}), "sha256")
        need(mac.hex() == said["mac"], "its mac does not hold")
        lineage, size = self.lineages[place.name], said["size"]
        need(said["root"] == lineage.root(size).hex(), "the root is another")
        if size:
            last = lineage.records[size - 1]
            need(
                (said["segment"], said["sum"]) == (last.segment, last.leaf.hex()[:16]), "its place is another record's"
            )
            need(_may_end_at(lineage, last, said["offset"]), f"its place is {said['offset']}, not {last.end}")
        level, nodes = 0, lineage.leaves[:size]
        while nodes:
            there = (place / f"level-{level}").read_bytes()
            need(there[: 32 * len(nodes)] == b"".join(nodes), f"level-{level} has other hashes")
            nodes = [tree_root(nodes[i : i + 256]) for i in range(0, len(nodes) - 255, 256)]
            level += 1

    def _check_cursor(self, place: Path) -> None:
        said, _ = unseal(place.read_bytes().rstrip(b"\n"))
        need(list(said) == ["format", "last_seq", "read_at", "sum"] and said["format"] == 1, "another form")
        for name, seq in said["last_seq"].items():
            need(seq <= len(self.lineages[name].records), f"further than {name}")

    def _check_copy(self, place: Path) -> None:
        check_head_file(place.read_bytes(), self.lineages[place.parent.name])


def _may_end_at(lineage: Lineage, record: Record, offset: int) -> bool:
    """Whether *record* ends at *offset*, or ended there before stubs that are longer moved it on."""
    moved = any(r.segment == record.segment and r.may_be_longer for r in lineage.records[: record.seq])
    return offset == record.end or (moved and offset < record.end)


def check_manifest(top: Path) -> dict[str, Any]:
    """The unpacked folder `periplus/` of an exported store: its manifest."""
    said = parse_canonical((top / "MANIFEST.json").read_bytes().rstrip(b"\n"))
    there = {str(p.relative_to(top)) for p in top.rglob("*") if p.is_file()} - {"MANIFEST.json"}
    named = {row["path"].removeprefix("periplus/"): row for row in said["files"]}
    need(there == set(named), f"other files than it names: {sorted(there ^ set(named))}")
    for name, row in named.items():
        data = (top / name).read_bytes()
        need((len(data), hashlib.sha256(data).hexdigest()) == (row["bytes"], row["sha256"]), f"{name} has other bytes")
    return dict(said)


def told(store: Store) -> str:
    """What is in *store*, as one JSON text."""
    return json.dumps(
        {
            "store": store.settings["store"]["id"],
            "lineages": {
                name: [len(one.records), one.root(len(one.records)).hex()] for name, one in store.lineages.items()
            },
            "entities": sum(not one.deleted for one in store.entities.values()),
            "conflicts": sorted(item_id for (_, item_id), one in store.entities.items() if one.conflicts),
            "problems": store.problems(),
        },
        indent=2,
    )


def _version_row(version: Version) -> dict[str, Any]:
    record = version.record
    assert record is not None
    body = record.body
    row = {
        "version": version.id, "rev": version.rev, "ts": body["ts"], "lineage": record.lineage, "seq": record.seq,
        "writer": body["writer"], "session": body.get("session"), "parents": body.get("parents"),
        "deleted": not version.has_content or None, "stub": record.is_stub or None, "payload": body.get("payload"),
        "payload_ref": body.get("payload_ref"),
    }  # fmt: skip
    return {name: value for name, value in row.items() if value not in (None, [], "")}


def _check_ancestors(shown: Shown, rows: list[dict[str, Any]], *, is_first_of_several: bool) -> None:
    """What a head's line says of the versions that the heads are merged over."""
    if not is_first_of_several:
        need(not rows, "ancestors behind a head that is alone, or not the first")
        return
    kept = kept_of(shown)
    wanted = [_version_row(one) for one in kept.versions if one.record is not None]
    is_small = len(wanted) <= _ANCESTORS_MAX and len(json.dumps(wanted)) < _ANCESTORS_BYTES
    if not rows:
        need(not wanted or not kept.is_owed or not is_small, f"{shown.item_id}: its ancestors are not kept")
        return
    said: set[str] = set()
    for row in rows:
        below = row.get("below", [])
        need(below == sorted(below), "what lies below in another order")
        need(set(below) <= kept.below.get(row["version"], set()), "what does not lie below")
        said |= set(below)
    have = [{k: v for k, v in row.items() if k != "below"} for row in rows]
    need(have == wanted, f"the ancestors of {shown.item_id} are {have}, and should be {wanted}")
    need(said == set().union(*kept.below.values()), f"{shown.item_id}: not all that lies below is named")
