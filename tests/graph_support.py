"""Histories of versions for tests: changes that lineages make from any versions that were there before."""

from __future__ import annotations

import msgspec
import orjson
from hypothesis import strategies as st

from periplus.journal.records.record import Record, encode_line
from periplus.journal.records.segment import Entry
from periplus.journal.state.entity import Change, change_of
from support import item

LINEAGES = [f"lin_{number:016d}" for number in range(3)]


def entry_of(
    seq: int, item_id: str, parents: tuple[str, ...], payload: bytes | None, ts: str = "", after: tuple[str, ...] = ()
) -> Entry:
    raw = msgspec.UNSET if payload is None else msgspec.Raw(payload)
    action = "delete" if payload is None else "update"
    record = Record(2, seq, ts, "w", "who", 1, action, item_type="decision", item_id=item_id, parents=parents,
                    payload=raw, deleted=payload is None, after=after)  # fmt: skip
    line, leaf = encode_line(record)
    return Entry(record, 0, len(line), leaf)


def change(
    lineage: str, seq: int, item_id: str, parents: tuple[str, ...], payload: bytes | None, ts="", after=()
) -> Change:
    found = change_of(entry_of(seq, item_id, parents, payload, ts, after), lineage, 1, lambda _: b"")
    assert found is not None
    return found


VALUES = st.sampled_from([1, 2, "x", None, {"$dec": "1.5"}])
ELEMENTS = st.lists(st.sampled_from(["a", "b", "c", {"k": 1}]), unique_by=str, max_size=3)
MAPS = st.dictionaries(st.sampled_from(["p", "q"]), st.one_of(VALUES, st.dictionaries(st.just("r"), VALUES)))
PAYLOADS = st.fixed_dictionaries(
    {},
    optional={"plain": VALUES, "list": ELEMENTS, "tags": st.one_of(ELEMENTS, ELEMENTS, VALUES), "map": MAPS}
    | {"object": VALUES, "size": st.one_of(VALUES, MAPS)},
).map(lambda value: orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


@st.composite
def histories(draw) -> list[Change]:
    """The changes of two entities by three lineages, each made from any versions that were there before it."""
    changes: list[Change] = []
    versions: dict[str, list[str]] = {item(1): [], item(2): []}
    for _ in range(draw(st.integers(1, 14))):
        lineage = draw(st.sampled_from(LINEAGES))
        item_id = draw(st.sampled_from([item(1), item(1), item(2)]))
        known = versions[item_id] if draw(st.integers(0, 9)) else versions[item(1)]  # sometimes another entity's
        parents = draw(st.lists(st.sampled_from(known), unique=True, max_size=3)) if known else []
        payload = draw(st.one_of(PAYLOADS, PAYLOADS, PAYLOADS, st.none()))
        seq = 1 + sum(one.lineage == lineage for one in changes)
        made = change(lineage, seq, item_id, tuple(sorted(parents)), payload, f"{draw(st.integers(0, 2))}")
        changes.append(made)
        versions[item_id].append(made.version)
    return changes


@st.composite
def stated_histories(draw) -> list[Change]:
    """The same, and records that hold a version once more and say that it comes after others, itself among them."""
    changes = draw(histories())
    for _ in range(draw(st.integers(0, 5))):
        one = draw(st.sampled_from(changes))
        lineage = draw(st.sampled_from(LINEAGES))
        versions = sorted({other.version for other in changes})
        after = tuple(sorted(draw(st.lists(st.sampled_from(versions), unique=True, max_size=2))))
        seq = 1 + sum(other.lineage == lineage for other in changes)
        item_id, ts = one.entry.record.item_id, f"{draw(st.integers(0, 2))}"
        changes.append(change(lineage, seq, item_id, one.parents, one.payload or None, ts, after))
    return changes
