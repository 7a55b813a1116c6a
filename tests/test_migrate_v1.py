"""A v1 file's way into a payload and back, and the accounting of a folder, from whatever strangers wrote."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.base.encoding.canonical import canonical, check
from periplus.base.errors import FormatError, PeriplusError
from periplus.interop.version1.documents import carry, parse_file, read_entity, render_file, type_name, uncarry
from periplus.interop.version1.folder import list_folder, read_folder, read_log
from periplus.interop.version1.json_text import Number, dump, parse_text, style_of
from periplus.memory import memory_types

TYPES = memory_types()
KEYS = st.sampled_from(
    "id type text status state title content tags labels confidence about created created_at updated author rationale "
    "severity remedy evidence relations provenance v v1 fields $dec $json periplus_text 😀 \ud800".split()
) | st.text(max_size=6)
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.integers(0, 100) | st.floats() | st.text(max_size=20)
    | st.sampled_from(["decision", "accepted", "open", "high", "note", "2025-03-04T05:06:07Z", "\ud800", "🚢"])
)  # fmt: skip
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=8)
STYLES = st.fixed_dictionaries({
    "ensure_ascii": st.booleans(), "indent": st.sampled_from([None, 0, 1, 2, 4, "\t"]), "sort_keys": st.booleans(),
    "separators": st.sampled_from([None, (",", ":")]),
})  # fmt: skip


def written(document, style, tail=""):
    text = json.dumps(document, **style) + tail
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(document, **{**style, "ensure_ascii": True}).encode()


def read(data, path="decisions/x.json"):
    text, document = parse_file(data)
    return read_entity(text, document, path, TYPES, allow_secrets=True)


@pytest.mark.slow
@given(
    DOCUMENTS,
    STYLES,
    st.sampled_from(["", "\n", "\r\n", " \n\n"]),
    st.sampled_from(["decisions", "plans", "notes", "traps"]),
)
@settings(max_examples=400, deadline=None)
def test_an_untouched_file_comes_back_byte_for_byte(document, style, tail, folder):
    data = written(document, style, tail)
    try:
        entity = read(data, f"{folder}/x.json")
    except PeriplusError:
        return  # an id of half characters, or a name that no record can hold
    payload = json.loads(canonical(entity.payload))  # as the journal gives it back
    assert render_file(entity.item_type, entity.item_id, payload) == data
    if entity.item_type in TYPES:
        assert payload["text"].strip()


@pytest.mark.slow
@given(VALUES)
@settings(max_examples=400, deadline=None)
def test_what_is_carried_comes_back(value):
    foreign = parse_text(json.dumps(value))
    carried = carry(foreign)
    check(carried)
    assert uncarry(json.loads(canonical(carried))) == foreign


@pytest.mark.slow
@given(DOCUMENTS, STYLES)
@settings(max_examples=300, deadline=None)
def test_what_is_written_again_means_the_same(document, style):
    text = json.dumps(document, **style)
    value = parse_text(text)
    again = dump(value, style_of(text))
    assert parse_text(again) == value


@pytest.mark.slow
@given(DOCUMENTS, STYLES, st.sampled_from(["decisions", "notes"]), st.text(min_size=1, max_size=20).filter(str.strip))
@settings(max_examples=300, deadline=None)
def test_a_change_of_ours_changes_one_field_of_theirs(document, style, folder, text):
    document = {**document, "text": "as it was", "type": folder[:-1], "id": "X-1"}
    document.pop("periplus_text", None)
    try:
        entity = read(written(document, style), f"{folder}/x.json")
        changed = dict(entity.payload) | {"text": text}
        canonical(changed)
    except PeriplusError:
        return
    if entity.item_type not in TYPES:
        return
    data = render_file(entity.item_type, entity.item_id, changed)
    before, after = parse_file(written(document, style))[1], parse_file(data)[1]
    assert {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)} <= {"text"}
    assert read(data, f"{folder}/x.json").payload["text"] == text


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("1.50", "1.50"),
        ("1e400", "1e400"),
        ("-0", "-0"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("9" * 5_000, "9" * 5_000),
    ],
)
def test_numbers_keep_their_literal(literal, value):
    data = f'{{"id":"x","goal":{literal}}}'.encode()
    entity = read(data, "plans/x.json")
    assert entity.payload["fields"]["goal"] == {"$dec": value}
    assert parse_text(dump({"a": Number(value)}, style_of("{}"))) == {"a": Number(value)}
    assert render_file(entity.item_type, entity.item_id, entity.payload) == data


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("Decisions", "decision"),
        ("entries", "entry"),
        ("status", "status"),
        ("My-Type", "my_type"),
        ("класс", "entity"),
        ("s", "s"),
    ],
)
def test_names_of_types(kind, name):
    assert type_name(kind) == name


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff", b'{"a":1,"a":2}', b'{"a":' + b"[" * 300 + b"]" * 300 + b"}", b"1"]
)
def test_what_is_no_object_is_refused(data):
    with pytest.raises(FormatError):
        parse_file(data)


# -- accounting ------------------------------------------------------------------------------------------------------

FILES = st.lists(
    st.tuples(
        st.sampled_from(["", "decisions", "plans", "plans/old", "backup", ".git"]),
        st.sampled_from(["a.json", "b.json", "c.json", "d.txt", "events.jsonl", ".e.json", "f.JSON"]),
        st.sampled_from([b"", b"{", b"\xff", b"[]", b'{"id":"a"}', b'{"id":"a","type":"plan"}', b'{"id":"b","text":"x"}',
                         b'{"text":"y"}', b'{"id":"k","goal":"AKIAIOSFODNN7ABCDEFG"}', "folder", "link"]),
    ),
    max_size=12,
)  # fmt: skip


@pytest.mark.slow
@given(FILES)
@settings(max_examples=150, deadline=None)
def test_every_entry_is_accounted_for_once(files):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        made = set()
        for place, name, content in files:
            path = root / place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if path in made:
                continue
            made.add(path)
            if content == "folder":
                path.mkdir()
            elif content == "link":
                path.symlink_to("/etc/hostname")
            else:
                path.write_bytes(content)
        listing = list_folder(folder)
        found = read_folder(folder, TYPES)
        counted = [one.path for one in found.files.values()]
        counted += [one.path for one in found.findings if one.kind != "kept_foreign"]
        counted += list(listing.logs)
        assert len(counted) == len(set(counted)), "one entry, one place"
        entries = {
            str(path.relative_to(root)) for path in made if ".git" not in path.parts and not _is_plain_folder(path)
        }
        assert entries <= set(counted)
        kinds = [one.kind for one in found.findings]
        assert found.candidates == len(found.files) + sum(
            kinds.count(k) for k in ("duplicate", "unreadable", "refused")
        )
        read_log(folder, listing.logs, found)


def _is_plain_folder(path):
    return path.is_dir() and not path.is_symlink() and (not path.name.endswith(".json") or path.name.startswith("."))


@given(
    st.lists(
        st.binary(max_size=60) | st.sampled_from([b'{"item_id":"a","item_type":"plan"}', b'{"id":7}', b"[1]"]),
        max_size=10,
    )
)
@settings(max_examples=100, deadline=None)
def test_every_line_of_the_log_is_counted(lines):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "events.jsonl").write_bytes(b"\n".join(lines))
        counts, findings = read_log(folder, ["events.jsonl"], read_folder(folder, TYPES))
        whole = [line for line in b"\n".join(lines).split(b"\n") if line.removeprefix(b"\xef\xbb\xbf").strip()]
        assert counts.lines == len(whole)
        assert counts.torn <= counts.lines
        assert len([one for one in findings if one.kind == "torn_line"]) == min(counts.torn, 20)
