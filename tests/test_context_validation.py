"""What a context may hold: every field that is wrong is named, and what is alike in part stays two."""

import math
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha256

import msgspec
import pytest

from periplus.base.errors import PeriplusError, UsageError
from periplus.context.model import (
    RELEVANCE_MAX,
    TAGS_MAX,
    TIME_MS_MAX,
    TIME_MS_MIN,
    Atom,
    Context,
    Molecule,
    annotation_record,
    atom_digest,
    atom_digests,
)
from periplus.context.records.pages import leaf_hashes
from periplus.context.records.record import atom, encode, normalised, prepare
from periplus.context.types import LIST, STRING
from periplus.context.v1_names import atom_alias, context_alias, context_alias_of, is_alias
from periplus.context.validation import (
    CONTENT_BYTES_MAX,
    MERGED_MAX,
    METADATA_BYTES_MAX,
    MOLECULE_ATOMS_MAX,
    MOLECULE_RELATIONS_MAX,
    SOURCE_BYTES_MAX,
    TAG_BYTES_MAX,
)
from periplus.merkle import leaf_hash, node_hash, root_of, verify_range

pytestmark = pytest.mark.quick

A, B, C = (sha256(name).digest() for name in (b"a", b"b", b"c"))
TWO_ATOMS = (Atom("first"), Atom("second"))


def with_atom(**fields):
    return Context(atoms=(*TWO_ATOMS, Atom(**{"content": "third", **fields})))


def with_molecule(atoms=(A, B), **fields):
    return Context(molecules=(Molecule((C,)), Molecule(atoms, **fields)))


WRONG = [
    (with_atom(content=7), "atoms[2].content: text was expected, not int"),
    (with_atom(content=b"x"), "atoms[2].content: text was expected, not bytes"),
    (with_atom(content="é\ud800"), "atoms[2].content: byte 2: a lone surrogate (U+D800)"),
    (with_atom(content="x" * (CONTENT_BYTES_MAX + 1)), "atoms[2].content: 16,777,217 bytes; at most 16,777,216"),
    (with_atom(content="語" * (CONTENT_BYTES_MAX // 3 + 1)), "atoms[2].content: 16,777,218 bytes"),
    (with_atom(type="List["), "atoms[2].type: byte 5: not a type"),
    (with_atom(type="L[" * 10_000 + "]" * 10_000), "atoms[2].type: byte 4096: a type over 4,096 bytes"),
    (with_atom(type="L[" * 100 + "A" + "]" * 100), "atoms[2].type: byte 127: not a type: a type nested deeper than 64"),
    (with_atom(type="\ud800"), "atoms[2].type: byte 0: a lone surrogate"),
    (with_atom(type=STRING), "atoms[2].type: the print of a type was expected, not TypeSignature"),
    (with_atom(type=[]), "atoms[2].type: the print of a type was expected, not list"),
    (with_atom(type=""), "atoms[2].type: byte 0: not a type"),
    (with_atom(time_ms=TIME_MS_MIN - 1), "atoms[2].time_ms: -62135596800001 is outside its range"),
    (with_atom(time_ms=TIME_MS_MAX + 1), "atoms[2].time_ms: 253402300800000 is outside its range"),
    (
        with_atom(time_ms=1.5),
        "atoms[2].time_ms: an integer was expected (milliseconds of the years 0001 to 9999 UTC), not float",
    ),
    (with_atom(time_ms=math.nan), "atoms[2].time_ms: NaN"),
    (with_atom(time_ms=True), "atoms[2].time_ms: an integer was expected"),
    (with_atom(time_ms=datetime(2026, 1, 1, tzinfo=UTC)), "atoms[2].time_ms: an integer was expected"),
    (with_atom(relevance=-1), "atoms[2].relevance: -1 is outside its range: millionths, 0 to 1,000,000"),
    (with_atom(relevance=RELEVANCE_MAX + 1), "atoms[2].relevance: 1000001 is outside its range"),
    (with_atom(relevance=math.nan), "atoms[2].relevance: NaN where a number was wanted"),
    (with_atom(relevance=0.5), "atoms[2].relevance: an integer was expected"),
    (with_atom(relevance=False), "atoms[2].relevance: an integer was expected"),
    (with_atom(source=None), "atoms[2].source: text was expected, not NoneType"),
    (with_atom(source="\udfff"), "atoms[2].source: byte 0: a lone surrogate (U+DFFF)"),
    (with_atom(source="s" * (SOURCE_BYTES_MAX + 1)), "atoms[2].source: 4,097 bytes; at most 4,096"),
    (with_atom(tags="abc"), "atoms[2].tags: a tuple of texts was expected"),
    (with_atom(tags=("a", 7)), "atoms[2].tags[1]: text was expected, not int"),
    (with_atom(tags=("",)), "atoms[2].tags[0]: an empty tag"),
    (with_atom(tags=("t" * (TAG_BYTES_MAX + 1),)), "atoms[2].tags[0]: 257 bytes; at most 256"),
    (with_atom(tags=tuple(map(str, range(TAGS_MAX + 1)))), "atoms[2].tags: 65 tags; at most 64"),
    (with_atom(content="first", relevance=7), "atoms[2]: the same content and type as atoms[0]"),
    (Context(atoms=(*TWO_ATOMS, "third")), "atoms[2]: an atom was expected, not str"),
    (Context(atoms="abc"), "atoms: a tuple of atoms was expected"),
    (Context(base=b"short"), "base: a digest of 32 bytes was expected, not 5 bytes"),
    (Context(base=A.hex()), "base: a digest of 32 bytes was expected, not str"),
    (Context(base=A, merged=(B, b"")), "merged[1]: a digest of 32 bytes was expected, not 0 bytes"),
    (Context(base=A, merged=(B, C, B)), "merged[2]: the same digest as merged[0]"),
    (Context(base=A, merged=(A,)), "merged: the base is among the contexts merged in"),
    (Context(merged=(A,)), "merged: a root cannot merge contexts"),
    (Context(base=A, merged=tuple(bytes([n]) * 32 for n in range(MERGED_MAX + 1))), "merged: 65 digests; at most 64"),
    (Context(base=A, removed=(B, 7)), "removed[1]: a digest of 32 bytes was expected, not int"),
    (Context(base=A, removed=(B, B)), "removed[1]: the same digest as removed[0]"),
    (Context(base=A, removed={B}), "removed: a tuple of digests was expected"),
    (
        Context(base=A, removed=(atom_digest(TWO_ATOMS[1]),), atoms=TWO_ATOMS),
        f"removed: {atom_digest(TWO_ATOMS[1]).hex()} is added in the same context",
    ),
    (Context(molecules=(Molecule((A,)), Molecule((A,)))), "molecules[1]: the same as molecules[0]"),
    (Context(molecules=(A,)), "molecules[0]: a molecule was expected, not bytes"),
    (Context(molecules=None), "molecules: a tuple of molecules was expected"),
    (with_molecule(()), "molecules[1].atoms"),
    (with_molecule((A, b"short")), "molecules[1].atoms[1]: a digest of 32 bytes was expected"),
    (with_molecule((A, B, A)), "molecules[1].atoms[2]: the same atom as atoms[0]"),
    (with_molecule((A,) * (MOLECULE_ATOMS_MAX + 1)), "molecules[1].atoms"),
    (with_molecule(relations=[]), "molecules[1].relations"),
    (with_molecule(relations={"r": ((0, 1), (0, 2))}), "molecules[1].relations['r'][1]: not two places among 2 atoms"),
    (with_molecule(relations={"r": ((-1, 0),)}), "molecules[1].relations['r'][0]"),
    (with_molecule(relations={"r": ((0, True),)}), "molecules[1].relations['r'][0]"),
    (with_molecule(relations={"r": ((0, 1.0),)}), "molecules[1].relations['r'][0]"),
    (with_molecule(relations={"r": ((0,),)}), "molecules[1].relations['r'][0]"),
    (with_molecule(relations={"r": 7}), "molecules[1].relations['r']"),
    (with_molecule(relations={7: ()}), "molecules[1].relations[7]: text was expected"),
    (with_molecule(relations={"": ()}), "molecules[1].relations['']"),
    (with_molecule(relations={"a\nb": ()}), "molecules[1].relations['a\\nb']"),
    (with_molecule(relations={"\ud800": ()}), "molecules[1].relations"),
    (with_molecule(relations={"é" * 129: ()}), "molecules[1].relations"),
    (with_molecule(relations={str(n): () for n in range(MOLECULE_RELATIONS_MAX + 1)}), "molecules[1].relations"),
    (with_molecule(type="A B"), "molecules[1].type: byte 0: not a type"),
    (with_molecule(metadata={"k": 0.5}), "molecules[1].metadata.k: a floating-point number"),
    (Context(metadata={"a": [1, {"b": math.nan}]}), "metadata.a[1].b: a floating-point number"),
    (Context(metadata={"a": "\ud800"}), "metadata: "),
    (Context(metadata={1: 2}), "metadata: a key is int"),
    (Context(metadata=[]), "metadata: values by name were expected"),
    (Context(metadata={"a": {"b": b"x"}}), "metadata.a.b: bytes is not a JSON value"),
    (Context(metadata={"a": "x" * METADATA_BYTES_MAX}), "metadata: 65,544 bytes; at most 65,536"),
    (Context(metadata={"a": 2**53}), "metadata.a: an integer outside"),
]


@pytest.mark.parametrize(("context", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_what_is_wrong_is_named(context, message):
    with pytest.raises(UsageError) as caught:
        encode(context, depth=0, live=0)
    assert str(caught.value).startswith(message)


def test_a_context_is_a_context_and_its_numbers_are_numbers():
    for wrong in (None, {}, TWO_ATOMS, Atom("x")):
        with pytest.raises(UsageError, match="a context was expected"):
            normalised(wrong)
    for field in ("depth", "live"):
        for wrong in (-1, 2**53, 1.0, True, None):
            with pytest.raises(UsageError, match=f"{field}: a number from 0"):
                encode(Context(), **{"depth": 0, "live": 0, field: wrong})


def test_atoms_as_people_write_them():
    moment = datetime(2026, 1, 31, 10, 30, tzinfo=timezone(timedelta(hours=1)))
    made = atom("x", type=LIST(STRING), relevance=0.25, timestamp=moment, source="file.py:1-3", tags=["b", "a", "b"])
    assert made == Atom("x", "List[String]", 1_769_851_800_000, 250_000, "file.py:1-3", ("a", "b"))
    assert atom("x", timestamp="2026-01-31T09:30:00Z").time_ms == made.time_ms
    assert atom("x", timestamp="2026-01-31T10:30:00.0005+01:00").time_ms == made.time_ms
    assert atom("x", timestamp="1969-12-31T23:59:59.999Z").time_ms == -1
    assert atom("x", timestamp=datetime.min.replace(tzinfo=UTC)).time_ms == TIME_MS_MIN
    assert atom("x", timestamp=datetime.max.replace(tzinfo=UTC)).time_ms == TIME_MS_MAX
    assert atom("x", timestamp="9999-12-31T23:59:59.999Z").time_ms == TIME_MS_MAX
    assert [atom("x", relevance=share).relevance for share in (0, 1, 0.0000014, 1.0)] == [0, 10**6, 1, 10**6]
    assert atom("x", millionths=1).relevance == 1
    assert atom("") == Atom("")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"relevance": math.nan}, "relevance: NaN is not a number in 0 … 1"),
        ({"relevance": math.inf}, "relevance: inf is not a number in 0 … 1"),
        ({"relevance": 1.0000001}, "relevance: 1.0000001 is not a number"),
        ({"relevance": -0.1}, "relevance: -0.1 is not a number"),
        ({"relevance": True}, "relevance: True is not a number"),
        ({"relevance": "0.5"}, "relevance: 0.5 is not a number"),
        ({"millionths": 1_000_001}, "relevance: 1000001 is outside its range"),
        ({"millionths": 0.5}, "relevance: an integer was expected"),
        ({"timestamp": datetime(2026, 1, 1)}, "timestamp: 2026-01-01 00:00:00 has no time zone"),  # noqa: DTZ001 - the case
        ({"timestamp": "2026-01-01T00:00:00"}, "timestamp: 2026-01-01T00:00:00 has no time zone"),
        ({"timestamp": "2026-01-01"}, "timestamp: '2026-01-01' is not an RFC 3339 time"),
        ({"timestamp": "20260101T000000Z"}, "timestamp: '20260101T000000Z' is not an RFC 3339 time"),
        ({"timestamp": "2026-W01-1T00:00:00Z"}, "timestamp: '2026-W01-1T00:00:00Z' is not an RFC 3339 time"),
        ({"timestamp": "2026-02-30T00:00:00Z"}, "timestamp: '2026-02-30T00:00:00Z' is not an RFC 3339 time"),
        ({"timestamp": "2026-01-01T00:00:00,5Z"}, "timestamp: '2026-01-01T00:00:00,5Z' is not an RFC 3339 time"),
        ({"timestamp": "2026-01-01T00:00:00+0100"}, "timestamp: '2026-01-01T00:00:00+0100' is not an RFC 3339 time"),
        ({"timestamp": "2026-01-01T00:00Z"}, "timestamp: '2026-01-01T00:00Z' is not an RFC 3339 time"),
        ({"timestamp": "yesterday"}, "timestamp: 'yesterday' is not an RFC 3339 time"),
        ({"timestamp": "0001-01-01T00:00:00+01:00"}, "time_ms: -62135600400000 is outside its range"),
        ({"timestamp": 1.5}, "timestamp: a time was expected, not float"),
        ({"timestamp": None}, "timestamp: a time was expected, not NoneType"),
        ({"timestamp": TIME_MS_MAX + 1}, "time_ms: 253402300800000 is outside its range"),
        ({"tags": "abc"}, "tags: a list of texts was expected"),
        ({"tags": [None]}, "tags[0]: text was expected"),
        ({"source": 7}, "source: text was expected"),
        ({"type": "A["}, "type: byte 2: not a type"),
        ({"content": "\ud800"}, "content: byte 0: a lone surrogate"),
        ({"content": None}, "content: text was expected"),
    ],
)
def test_what_is_wrong_with_an_atom_is_named(fields, message):
    with pytest.raises(UsageError) as caught:
        atom(**{"content": "x", **fields})
    assert str(caught.value).startswith(message)


# ---- identity


def test_contents_that_met_in_64_bits_of_the_old_hash_stay_two():
    one, two = Atom("24d6a28bf2f2f216"), Atom("873949c414909b65")
    assert atom_alias(one) == atom_alias(two) == "27ca916ab97f9723"
    assert atom_digest(one)[:8] != atom_digest(two)[:8]
    assert set(normalised(Context(atoms=(one, two))).atoms) == {one, two}


def test_atoms_that_are_alike_in_their_beginning_or_across_the_border_of_their_fields_stay_two():
    head = "what is known of this file, " * 4
    assert len(head) >= 100
    pairs = [
        (Atom(head + "a"), Atom(head + "b")),
        (Atom("xString", "A"), Atom("x", "StringA")),
        (Atom("x", "String"), Atom("x", "String{c}")),
        (Atom("e\u0301"), Atom("\u00e9")),
        (Atom("x"), Atom("x ")),
        (Atom(""), Atom("\0")),
    ]
    for one, two in pairs:
        assert atom_digest(one) != atom_digest(two)
        assert len(normalised(Context(atoms=(one, two))).atoms) == 2


def test_an_annotation_is_no_part_of_the_identity_and_a_context_commits_to_it():
    plain = Atom("x")
    others = [{"relevance": 1}, {"time_ms": 1}, {"source": "s"}, {"tags": ("t",)}]
    digests = set()
    for fields in ({}, *others):
        annotated = msgspec.structs.replace(plain, **fields)
        assert atom_digest(annotated) == atom_digest(plain)
        digests.add(encode(Context(atoms=(annotated,)), depth=0, live=1).digest)
    assert len(digests) == 5


def test_identities_are_what_the_format_says():
    made = Atom("con\u00e9tent", "List[String]")
    content, kind = "con\u00e9tent".encode(), b"List[String]"
    expected = sha256(
        b"periplus atom 1\0" + len(kind).to_bytes(8, "big") + kind + len(content).to_bytes(8, "big") + content
    ).digest()
    assert atom_digest(made) == expected
    assert atom_digests([made, Atom("x"), made]) == [expected, atom_digest(Atom("x")), expected]


def test_leaves_are_the_hashes_of_annotation_records():
    some = [
        Atom("a"),
        Atom("b", "Int", -5, 0, "ü", ("t", "é")),
        Atom("c", time_ms=TIME_MS_MAX, relevance=RELEVANCE_MAX),
    ]
    identities = atom_digests(some)
    expected = [leaf_hash(annotation_record(*row)) for row in zip(identities, some, strict=True)]
    assert leaf_hashes(identities, some) == expected


def test_a_leaf_made_to_look_like_a_node_is_none():
    """An annotation record of 64 bytes, as long as the two hashes that a node stands for."""
    made = Atom("x", source="s" * 12)
    record = annotation_record(atom_digest(made), made)
    assert len(record) == 64
    left, right = record[:32], record[32:]
    assert leaf_hashes([atom_digest(made)], [made]) == [leaf_hash(record)]
    assert leaf_hash(record) != node_hash(left, right)
    root = root_of([left, right])
    assert root == node_hash(left, right)
    assert not verify_range([leaf_hash(record)], 0, 1, [], root)
    assert verify_range([leaf_hash(record)], 0, 1, [], leaf_hash(record))


# ---- the names of version 1


def test_aliases_of_contexts():
    first, second = Atom("first"), Atom("second", "List[Int]")
    aliases = [sha256(b"firstString").hexdigest()[:16], sha256(b"secondList[Int]").hexdigest()[:16]]
    assert [atom_alias(first), atom_alias(second)] == aliases
    root = sha256(("ROOT" + aliases[0] + aliases[1]).encode()).hexdigest()[:16]
    assert context_alias(None, aliases) == root == context_alias_of(Context(atoms=(first, second)), None)
    assert context_alias(root, aliases[:1]) == sha256((root + aliases[0]).encode()).hexdigest()[:16]
    assert context_alias(None, aliases[::-1]) != root
    assert is_alias(root)
    assert not any(map(is_alias, ("", root[:15], root + "0", root.upper()[:15] + "G", "é" * 16)))


def test_prepared_digests_go_with_their_atoms():
    some = tuple(Atom(f"atom {place}", relevance=place % 3, time_ms=place % 2) for place in range(50))
    prepared = prepare(Context(atoms=some))
    assert list(prepared.atom_digests) == list(map(atom_digest, prepared.context.atoms))
    order = [(-each.relevance, -each.time_ms, atom_digest(each)) for each in prepared.context.atoms]
    assert order == sorted(order)
    with pytest.raises(PeriplusError):
        prepare(Context(atoms=(*some, some[0])))
