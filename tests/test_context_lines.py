"""Atoms and molecules as lines of JSON: what is taken, and what is said of a line that cannot be."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_support import SECRET
from periplus.base.errors import SecretFoundError, UsageError
from periplus.context.model import Atom, atom_digest
from periplus.project.context_store.lines import GivenAtom, read_atoms, read_molecules

pytestmark = pytest.mark.quick

NOW = 1_767_225_600_000


def read(*lines, **how):
    return read_atoms(
        [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines], "a.jsonl", now_ms=NOW, **how
    )


def refusal(*lines, of=UsageError):
    with pytest.raises(of) as caught:
        read(*lines)
    assert caught.value.safe == "Nothing was committed."
    return str(caught.value)


def test_a_line_says_as_much_as_is_known():
    plain, full = read(
        {"content": "Cogs have teeth"},
        {"content": "Oil", "type": "Lesson", "relevance": 0.25, "timestamp": "2026-02-03T10:00:00+02:00", "source": "a.py#L3",
         "tags": ["b", "a"]},
    )  # fmt: skip
    assert plain.atom == Atom("Cogs have teeth", "String", NOW, 500_000)
    assert plain.said == frozenset()
    assert full.atom == Atom("Oil", "Lesson", 1_770_105_600_000, 250_000, "a.py#L3", ("a", "b"))
    assert full.said == {"relevance", "time_ms", "source", "tags"}
    assert full.digest == atom_digest(full.atom)


def test_blank_lines_are_passed_over_and_counted():
    (one,) = read(b"\n", b"   \r\n", {"content": "x"})
    assert one.where == "a.jsonl, line 3"


def test_what_a_line_leaves_out_is_not_changed():
    held = Atom("x", "String", 5, 900_000, "somewhere", ("t",))
    (bare,) = read({"content": "x"})
    assert bare.over(held) == held
    assert bare.over(None) == bare.atom
    (said,) = read({"content": "x", "relevance": 0})
    assert said.over(held) == Atom("x", "String", 5, 0, "somewhere", ("t",))
    whole = GivenAtom(b"", Atom("x"))
    assert whole.over(held) == Atom("x")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "line 2: not JSON"),
        (b"[]", "line 2: Expected `object`"),
        (b"\xff", "line 2: not JSON"),
        ({}, "line 2, content: there is none"),
        ({"content": 5}, "line 2, content: Expected `str`, got `int`"),
        ({"content": "x", "colour": "red"}, "line 2, colour: no such field"),
        ({"content": "x", "relevance": "high"}, "line 2, relevance: Expected `float"),
        ({"content": "x", "relevance": 1.5}, "line 2, relevance: 1.5 is not a number in 0"),
        (b'{"content": "x", "relevance": NaN}', "line 2, relevance: neither NaN nor Infinity"),
        (b'{"content": "x", "relevance": -Infinity}', "line 2, relevance: neither NaN nor Infinity"),
        ({"content": "x", "type": "List["}, "line 2, type: "),
        ({"content": "x", "type": ""}, "line 2, type: "),
        ({"content": "x", "timestamp": "2026-02-03T10:00:00"}, "line 2, timestamp: 2026-02-03T10:00:00 has no time zone"),
        ({"content": "x", "timestamp": "soon"}, "line 2, timestamp: 'soon' is not an RFC 3339 time"),
        ({"content": "x", "tags": "a"}, "line 2, tags: Expected"),
        ({"content": "x", "tags": ["a", 1]}, "line 2, tags[1]: Expected `str`"),
        ({"content": "x", "tags": [""]}, "line 2, tags[0]: an empty tag"),
        ({"content": "\ud800"}, "line 2"),
        ({"content": "first"}, "line 2: the same content and type as line 1"),
        (b'{"content":' + b"[" * 100_000, "line 2"),
        (b'{"content": "x", "content": "y"}', "line 2, content: given twice"),
        (b'{"content": "x", "c\\u006fntent": "y"}', "line 2, content: given twice"),
        (b'{"content": "the word \\"type\\"", "type": "Fact", "type": "Rule"}', "line 2, type: given twice"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named_with_its_field(line, told):
    assert f"a.jsonl, {told}" in refusal({"content": "first"}, line)


def test_the_same_words_of_another_type_are_another_atom():
    one, other = read({"content": "x"}, {"content": "x", "type": "Trap"})
    assert one.digest != other.digest


@pytest.mark.parametrize("field", ["content", "type", "source", "tags"])
def test_a_secret_is_refused_without_being_repeated(field):
    line = {"content": "x", field: {"tags": [SECRET], "type": f"List[{SECRET}]"}.get(field, f"key {SECRET}")}
    told = refusal({"content": "first"}, line, of=SecretFoundError)
    assert told.startswith(f"a.jsonl, line 2, {field}: what looks like a secret")
    assert SECRET not in told
    assert len(read(line, allow_secrets=True)) == 1


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(data):
    try:
        found = read(data)
    except (UsageError, SecretFoundError):
        return
    assert len(found) <= 1


def test_molecules_name_atoms_by_digest_or_line():
    atoms = read({"content": "x"}, b"", {"content": "y"})
    other = "ab" * 32
    line = {"atoms": [3, other, 1], "relations": {"follows": [[0, 1]]}, "type": "Pair", "metadata": {"why": "order"}}
    (molecule,) = read_molecules([json.dumps(line).encode()], "m.jsonl", atoms)
    assert molecule.atoms == (atoms[1].digest, bytes.fromhex(other), atoms[0].digest)
    assert molecule.relations == {"follows": ((0, 1),)}
    for wrong, told in (
        ({"atoms": [2]}, "m.jsonl, line 1, atoms[0]: no atom in line 2"),
        ({"atoms": ["abc"]}, "m.jsonl, line 1, atoms[0]: 'abc' is not a digest"),
        ({"atoms": [1], "relations": {"r": [[0]]}}, "m.jsonl, line 1, relations"),
        ({"atoms": [1], "relations": {"r": [["a", 0]]}}, "m.jsonl, line 1, relations"),
        ({}, "m.jsonl, line 1, atoms: there is none"),
        (
            {"atoms": [1], "metadata": {"note": f"key {SECRET}"}},
            "m.jsonl, line 1, metadata.note: what looks like a secret",
        ),
        ({"atoms": [1], "metadata": {"a": {SECRET: SECRET}}}, "m.jsonl, line 1, metadata.a: what looks like a secret"),
        ({"atoms": [1], "type": SECRET}, "m.jsonl, line 1, type: what looks like a secret"),
        ({"atoms": [1], "relations": {SECRET: [[0, 0]]}}, "m.jsonl, line 1, relations[0]: what looks like a secret"),
    ):
        with pytest.raises((UsageError, SecretFoundError)) as caught:
            read_molecules([json.dumps(wrong).encode()], "m.jsonl", atoms)
        assert told in str(caught.value)
        assert SECRET not in str(caught.value)
