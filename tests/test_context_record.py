"""Records of contexts: one content, one text of bytes; what is not that text is refused with its place."""

import os
import random as chances
from hashlib import sha256

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.base.encoding.canonical import canonical
from periplus.base.encoding.container import KIND_CONTEXT, KIND_TRAIL, pack, unpack
from periplus.base.encoding.varint import uint_bytes
from periplus.base.errors import FormatError, NewerFormatError, UsageError
from periplus.context.model import (
    TIME_MS_MAX,
    TIME_MS_MIN,
    Atom,
    Context,
    Molecule,
    atom_digest,
    atom_digests,
    molecule_digest,
    order_key,
)
from periplus.context.records import layout
from periplus.context.records.pages import (
    PAGE_BYTES_MAX,
    ObjectKind,
    content_of,
    content_page,
    decode_atoms,
    decode_digests,
    decode_molecules,
    encode_atoms,
    encode_digests,
    encode_molecules,
    frame,
    leaf_hashes,
    object_kind,
    unframe,
)
from periplus.context.records.record import check, children_of, decode, encode, normalised, read_header
from periplus.merkle import EMPTY_ROOT, PagedTree, Tree, prove, verify_range

pytestmark = pytest.mark.quick

EXHAUSTIVE = "PERIPLUS_EXHAUSTIVE" in os.environ


def digest_of(text):
    return sha256(text.encode()).digest()


def encoded(context):
    return encode(context, depth=0 if context.base is None else 7, live=11)


def atoms_of(count, **fields):
    return tuple(
        Atom(f"what is known, number {place}", time_ms=place % 7, relevance=place * 7919 % 1_000_001, **fields)
        for place in range(count)
    )


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
digests = st.binary(min_size=32, max_size=32)
types = st.sampled_from(
    ["String", "Int", "List[String]", "Union[Int, String]", "Record[a[Int], b[List[Any]]]", "A{b, c}"]
)
json_keys = st.text(st.characters(max_codepoint=0xD7FF), max_size=5)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(json_keys, inner, max_size=3),
    max_leaves=5,
)
relation_names = st.text("ab é語", min_size=1, max_size=3)
metadata = st.dictionaries(json_keys, json_values, max_size=3)
atoms = st.builds(
    Atom,
    content=texts | st.sampled_from(["x" * 4_096, "y" * 4_097, "語" * 2_000]),
    type=types,
    time_ms=st.sampled_from([0, TIME_MS_MIN, TIME_MS_MAX]) | st.integers(TIME_MS_MIN, TIME_MS_MAX),
    relevance=st.sampled_from([0, 5, 1_000_000]) | st.integers(0, 1_000_000),
    source=texts,
    tags=st.lists(texts.filter(bool), max_size=3).map(tuple),
)


@st.composite
def molecules(draw):
    members = draw(st.lists(digests, min_size=1, max_size=4, unique=True))
    places = st.integers(0, max(0, len(members) - 1))
    pairs = st.lists(st.tuples(places, places), max_size=3).map(tuple) if members else st.just(())
    return Molecule(
        tuple(members), draw(st.dictionaries(relation_names, pairs, max_size=2)), draw(types), draw(metadata)
    )


@st.composite
def contexts(draw):
    base = draw(st.none() | digests)
    return Context(
        base=base,
        atoms=tuple(draw(st.lists(atoms, max_size=8, unique_by=atom_digest))),
        molecules=tuple(draw(st.lists(molecules(), max_size=3, unique_by=molecule_digest))),
        removed=tuple(draw(st.lists(digests, max_size=4, unique=True))),
        metadata=draw(metadata),
        merged=()
        if base is None
        else tuple(draw(st.lists(digests.filter(lambda one: one != base), max_size=2, unique=True))),
    )


@pytest.mark.slow
@given(contexts(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_what_is_encoded_is_read_again_and_the_order_it_was_given_in_makes_no_difference(context, random):
    one = encoded(context)
    objects = dict(one.objects)
    assert {digest: sha256(data).digest() for digest, data in objects.items()} == {digest: digest for digest in objects}
    view = check(one.objects[0][1], objects.__getitem__)
    assert view.header == one.header
    back = decode(one.objects[0][1], objects.__getitem__)
    assert back == normalised(context)
    assert encoded(back) == one

    def shuffled(values):
        values = list(values)
        random.shuffle(values)
        return tuple(values)

    other = Context(
        context.base,
        shuffled(msgspec.structs.replace(atom, tags=shuffled(atom.tags)) for atom in context.atoms),
        shuffled(context.molecules),
        shuffled(context.removed),
        dict(reversed(context.metadata.items())),
        shuffled(context.merged),
    )
    assert encoded(other) == one


@given(contexts())
@settings(max_examples=60, deadline=None)
def test_the_children_of_objects_lead_to_all_of_them_and_nowhere_else(context):
    one = encoded(context)
    objects = dict(one.objects)
    reached, waiting = set(), [one.digest]
    while waiting:
        digest = waiting.pop()
        reached.add(digest)
        children = children_of(objects[digest])
        waiting += [child for child in children if child in objects]
        outside = [child for child in children if child not in objects]
        assert outside == (read_header(objects[digest]).contexts() if digest == one.digest else [])
    assert reached == set(objects)


# ---- the forms in which lists stand


def placed(count, **fields):
    return tuple(
        Atom(f"what is known, number {place}", time_ms=place % 7, relevance=place * 7919 % 1_000_001, **fields)
        for place in range(count)
    )


def some_digests(count):
    return tuple(sha256(b"%d" % place).digest() for place in range(count))


def some_molecules(count):
    return tuple(Molecule((digest,)) for digest in some_digests(count))


def sections_of(one):
    data = one.objects[0][1]
    return {tag: data[start:end] for tag, (start, end) in unpack(data, KIND_CONTEXT).items()}


@pytest.mark.parametrize(
    ("context", "section"),
    [
        (Context(atoms=placed(1)), layout.ATOMS + layout.HERE),
        (Context(atoms=placed(256, source="s" * 40)), layout.ATOMS + layout.ROWS),
        (Context(atoms=placed(257)), layout.ATOMS + layout.ROWS),
        (Context(atoms=placed(64 * 256)), layout.ATOMS + layout.ROWS),
        (Context(atoms=placed(64 * 256 + 1)), layout.ATOMS + layout.INDEX),
        (Context(removed=some_digests(128)), layout.REMOVED + layout.HERE),
        (Context(removed=some_digests(129)), layout.REMOVED + layout.ROWS),
        (Context(removed=some_digests(2 * 4_096 + 5)), layout.REMOVED + layout.ROWS),
        (Context(removed=some_digests(64 * 4_096 + 1)), layout.REMOVED + layout.INDEX),
        (Context(molecules=some_molecules(16)), layout.MOLECULES + layout.HERE),
        (Context(molecules=some_molecules(17)), layout.MOLECULES + layout.ROWS),
        (Context(molecules=some_molecules(64 * 16 + 1)), layout.MOLECULES + layout.INDEX),
        (Context(molecules=(Molecule(some_digests(300)),)), layout.MOLECULES + layout.ROWS),
    ],
)
def test_each_list_stands_in_one_form_and_is_read_from_it(context, section):
    one = encoded(context)
    assert section in sections_of(one)
    objects = dict(one.objects)
    view = check(one.objects[0][1], objects.__getitem__)
    assert len(one.objects[0][1]) <= layout.RECORD_BYTES_MAX
    back = view.context(objects.__getitem__)
    assert back == normalised(context)
    reached, waiting = {one.digest}, [one.digest]
    while waiting:
        found = [child for child in children_of(objects[waiting.pop()]) if child not in reached]
        reached.update(found)
        waiting += found
    assert reached == set(objects)


def test_objects_can_be_handed_on_as_they_are_made_none_before_those_that_it_names():
    contexts = [Context(), sample(), Context(atoms=placed(64 * 256 + 1)), Context(removed=some_digests(9_000))]
    contexts.append(Context(atoms=(*placed(300), Atom("long " * 1_000), Atom("longer " * 1_000))))
    for context in contexts:
        whole = encoded(context)
        made = {}

        def take(data, made=made):
            names = children_of(data)
            made[sha256(data).digest()] = data
            if object_kind(data) is None:
                names = read_header(data).parts()
            assert set(names) <= set(made)

        handed = encode(context, depth=whole.header.depth, live=whole.header.live, sink=take)
        assert made == dict(whole.objects)
        assert handed == (whole.digest, (), whole.header)


def test_the_longest_record_is_within_its_limit():
    atoms = tuple(Atom("x" * 275 + str(place)) for place in range(20))
    longest = Context(
        base=bytes(32),
        atoms=atoms,
        molecules=(Molecule(some_digests(250)),),
        removed=some_digests(128),
        metadata={"k": "x" * ((64 << 10) - 8)},
        merged=some_digests(64),
    )
    one = encode(longest, depth=layout.DEPTH_MAX, live=layout.LIVE_MAX)
    assert len(one.objects) == 1
    assert 85_000 < len(one.objects[0][1]) <= layout.RECORD_BYTES_MAX
    assert check(one.objects[0][1], dict(one.objects).__getitem__).header == one.header
    with pytest.raises(FormatError, match="over 98,304 bytes"):
        read_header(b"PPLS" + bytes(layout.RECORD_BYTES_MAX))


def test_pages_are_read_one_at_a_time_and_prove_runs_of_their_atoms():
    one = encoded(Context(atoms=placed(1_000)))
    objects = dict(one.objects)
    read = []

    def get(digest):
        read.append(digest)
        return objects[digest]

    view = read_header(one.objects[0][1])
    pages = view.pages(get)
    assert not read
    assert [(page.start, page.count) for page in pages] == [(0, 256), (256, 256), (512, 256), (768, 232)]
    assert pages[-1] == pages[3]
    assert pages[1:3] == [pages[1], pages[2]]
    with pytest.raises(IndexError):
        pages[4]
    rows = view.rows_of(pages[1], get)
    assert read == [pages[1].digest]
    assert [order_key(*row) for row in rows] == sorted(order_key(*row) for row in rows)
    assert pages[1].first == order_key(*rows[0])

    def leaves(page):
        return leaf_hashes(*zip(*view.rows_of(pages[page], get), strict=True))

    read.clear()
    tree = PagedTree(1_000, [page.root for page in pages], leaves)
    assert tree.root() == view.header.atoms_root
    nodes = prove(tree, 300, 330)
    assert read == [pages[1].digest]
    assert verify_range(leaves(1)[44:74], 300, 1_000, nodes, view.header.atoms_root)


def test_removals_are_looked_up_without_reading_them_all():
    digests = some_digests(10_000)
    one = encoded(Context(removed=digests))
    objects, read = dict(one.objects), []

    def get(digest):
        read.append(digest)
        return objects[digest]

    removed = read_header(one.objects[0][1]).removed(get)
    assert len(removed) == 10_000
    assert not read
    assert digests[77] in removed
    assert bytes(32) not in removed
    assert b"\xff" * 32 not in removed
    assert "text" not in removed
    assert len(read) <= 3
    assert list(removed) == sorted(digests)
    assert removed[-1] == max(digests)
    assert removed[1:3] == sorted(digests)[1:3]
    with pytest.raises(IndexError):
        removed[10_000]


def test_long_contents_lie_in_objects_of_their_own_and_are_read_when_they_are_wanted():
    contents = ["a" * 4_096, "b" * 4_097, "語" * 40_000, "payload over 65,535 bytes " * 4_000]
    one = encoded(Context(atoms=tuple(map(Atom, contents))))
    objects = dict(one.objects)
    assert [object_kind(data) for _, data in one.objects[1:]] == [ObjectKind.CONTENT] * 3
    view = read_header(one.objects[0][1])
    (page,) = view.pages(objects.__getitem__)
    assert [len(each.content) for each in view.page_of(page, objects.__getitem__).atoms].count(0) == 3
    assert sorted(each.content for each in view.atoms_of(page, objects.__getitem__)) == sorted(contents)
    # The same content of two types is one object.
    twice = encoded(Context(atoms=(Atom(contents[1]), Atom(contents[1], "Other"))))
    assert len(twice.objects) == 2
    assert check(twice.objects[0][1], dict(twice.objects).__getitem__)


# ---- damage and hostility


def sample():
    return Context(
        base=bytes(range(32)),
        atoms=(Atom("one", "Int", -5, 7, "src", ("t", "u")), Atom("two"), Atom("long " * 1_000)),
        molecules=(Molecule(some_digests(2), {"after": ((0, 1),)}, "Chain", {"k": [1]}),),
        removed=some_digests(3),
        metadata={"author": "é"},
        merged=some_digests(1),
    )


SAMPLES = [Context(), sample(), Context(atoms=placed(300)), Context(removed=some_digests(140))]


@pytest.mark.parametrize("context", SAMPLES, ids=["empty", "full", "paged", "removing"])
def test_every_cut_and_every_changed_bit_of_a_record_is_refused(context):
    data = encoded(context).objects[0][1]
    read_header(data)
    for end in range(len(data)):
        with pytest.raises(FormatError) as caught:
            read_header(data[:end])
        assert caught.value.offset is not None
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError) as caught:
            read_header(bytes(changed))
        assert caught.value.offset is not None
    with pytest.raises(FormatError, match="bytes after the digest"):
        read_header(data + b"\0")


DECODERS = {
    ObjectKind.ATOMS: lambda data: encode_atoms(decode_atoms(data).digests(), decode_atoms(data).atoms)[0],
    ObjectKind.DIGESTS: lambda data: encode_digests(decode_digests(data)),
    ObjectKind.MOLECULES: lambda data: encode_molecules(decode_molecules(data)),
    ObjectKind.CONTENT: lambda data: content_page(content_of(data).encode()),
}
PAGES = {
    ObjectKind.ATOMS: encode_atoms(
        some_digests(3), [Atom("one", "Int", -5, 7, "src", ("t", "u")), Atom("two"), Atom("é")]
    )[0],
    ObjectKind.DIGESTS: encode_digests(sorted(some_digests(3))),
    ObjectKind.MOLECULES: encode_molecules([Molecule(some_digests(2), {"after": ((0, 1),)}, "Chain", {"k": [1]})]),
    ObjectKind.CONTENT: content_page(b"long " * 820),
}


@pytest.mark.parametrize("what", list(PAGES), ids=lambda what: what.name)
def test_every_cut_and_every_changed_bit_of_a_page_is_refused_or_another_page_with_another_digest(what):
    """A page has no checksum of its own: it is named by its digest. What is no page is refused, what is one is the one form of it."""
    page = PAGES[what]
    assert DECODERS[what](page) == page
    refused = 0
    for end in range(len(page)):
        try:
            assert DECODERS[what](page[:end]) == page[:end]
        except FormatError as error:
            refused += error.offset is not None
    for bit in range(8 * len(page)) if len(page) < 1_000 or EXHAUSTIVE else range(0, 8 * len(page), 61):
        changed = bytearray(page)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            assert DECODERS[what](bytes(changed)) == changed
        except (FormatError, NewerFormatError):
            refused += 1
    assert refused > len(page) // 4


@pytest.mark.slow
@given(st.binary(max_size=60), st.sampled_from(list(ObjectKind)), st.booleans())
@settings(max_examples=400, deadline=None)
def test_hostile_bytes_are_a_page_or_an_error_with_its_place(payload, what, framed):
    data = frame(what, payload) if framed else payload
    for read in (*DECODERS.values(), children_of, read_header, lambda data: decode(data, {}.__getitem__)):
        try:
            read(data)
        except FormatError as error:
            assert error.offset is not None or "a page" in error.wrong or "canonical JSON" in error.wrong  # noqa: PT017 - it may not raise


def test_mutated_pages_and_records_give_only_errors_of_format():
    chance = chances.Random(7)
    objects = dict(encoded(sample()).objects)
    wholes = [*objects.values(), *PAGES.values()]
    for _ in range(200_000 if EXHAUSTIVE else 4_000):
        data = bytearray(chance.choice(wholes))
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(data))
            match chance.randrange(4):
                case 0:
                    data[at] = chance.choice((0, 0x7F, 0x80, 0xC1, 0xDC, 0xDD, 0xFF, chance.randrange(256)))
                case 1:
                    del data[at : at + chance.randrange(1, 9)]
                case 2:
                    data[at:at] = chance.randbytes(chance.randrange(1, 5))
                case _:
                    data[at : at + 4] = b"\xff\xff\xff\xff"
            if not data:
                break
        if data[:4] == b"PPLS" and len(data) > 40:
            data[-32:] = sha256(data[:-32]).digest()  # so that what lies behind the digest is reached
        for read in (children_of, *DECODERS.values()):
            try:
                read(bytes(data))
            except (FormatError, NewerFormatError):
                continue
        try:
            check(bytes(data), objects.__getitem__)
        except (FormatError, NewerFormatError, KeyError):
            continue


def changed_record(one, **changes):
    """The record with other sections: ``s16=b"…"`` sets section 16, ``s16=None`` takes it away."""
    sections = sections_of(one)
    for name, value in changes.items():
        if value is None:
            del sections[int(name[1:])]
        else:
            sections[int(name[1:])] = value
    return pack(KIND_CONTEXT, sections)


def numbers(*values):
    return b"".join(map(uint_bytes, values))


FULL = encoded(sample())
PAGED = encoded(Context(atoms=placed(300)))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (changed_record(FULL, s0=None), "without its numbers"),
        (changed_record(FULL, s0=numbers(0, 7, 11, 3, 1, 3)), "of version 0"),
        (changed_record(FULL, s0=numbers(1, 7, 11, 3, 1)), "cut off"),
        (changed_record(FULL, s0=numbers(1, 7, 11, 3, 1, 3, 0)), "bytes after the numbers"),
        (changed_record(FULL, s0=numbers(1, 7, 11, 1 << 25, 1, 3)), "a number over 16,777,216"),
        (changed_record(FULL, s0=numbers(1, 1 << 53, 11, 3, 1, 3)), "a number over 9,007,199,254,740,991"),
        (changed_record(FULL, s0=numbers(1, 0, 11, 3, 1, 3)), "depth 0 belongs to roots"),
        (changed_record(PAGED, s0=numbers(1, 1, 11, 300, 0, 0)), "depth 0 belongs to roots"),
        (changed_record(FULL, s1=b"short"), "a digest of 5 bytes"),
        (changed_record(FULL, s1=None), "merged into a root"),
        (changed_record(FULL, s2=b""), "0 bytes of contexts merged in"),
        (changed_record(FULL, s2=bytes(33)), "33 bytes of contexts merged in"),
        (changed_record(FULL, s2=bytes(64)), "out of order or twice"),
        (changed_record(FULL, s2=bytes(range(32))), "the base among them"),
        (changed_record(FULL, s2=bytes(32 * 65)), "2080 bytes of contexts merged in"),
        (changed_record(FULL, s3=None), "without the root of its atoms"),
        (changed_record(FULL, s3=EMPTY_ROOT), "the root of an empty tree"),
        (changed_record(FULL, s4=b"{}"), "an object that is not empty"),
        (changed_record(FULL, s4=b"[1]"), "an object that is not empty"),
        (changed_record(FULL, s4=b'{"b":1,"a":2}'), "not canonical JSON"),
        (changed_record(FULL, s4=b'{"a":1.5}'), "not canonical JSON"),
        (changed_record(FULL, s4=b"[" * 60_000), "not canonical JSON"),
        (changed_record(FULL, s4=b" " * 65_537), "65,537 bytes of metadata"),
        (changed_record(FULL, s16=None), "3 announced, and 0 sections"),
        (changed_record(FULL, s17=bytes(64)), "3 announced, and 2 sections"),
        (changed_record(FULL, s0=numbers(1, 7, 11, 0, 1, 3)), "the root of an empty tree"),
        (changed_record(FULL, s0=numbers(1, 7, 11, 3, 0, 3)), "0 announced, and 1 sections"),
        (changed_record(FULL, s16=bytes(4_103)), "section 0x10 has 4,103 bytes"),
        (changed_record(FULL, s32=bytes(8_193)), "section 0x20 has 8,193 bytes"),
        (changed_record(FULL, s48=bytes(8_193)), "section 0x30 has 8,193 bytes"),
        (changed_record(PAGED, s49=bytes(108)), "section 0x31 has 108 bytes, for 300"),
        (changed_record(PAGED, s49=None, s50=bytes(32)), "section 0x32 has 32 bytes, for 300"),
        (changed_record(PAGED, s49=None, s48=bytes(100)), "section 0x30 has 100 bytes, for 300"),
        (changed_record(FULL, s99=b""), "section 0x63 unknown"),
        (pack(KIND_TRAIL, sections_of(FULL)), "container of kind 1 where kind 2 was expected"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(record, message):
    with pytest.raises(FormatError) as caught:
        read_header(record)
    assert message in str(caught.value)
    assert caught.value.offset is not None


def test_a_record_or_page_of_a_later_version_is_told_from_a_broken_one():
    with pytest.raises(NewerFormatError, match="a context's record of version 2"):
        read_header(changed_record(FULL, s0=numbers(2, 7, 11, 3, 1, 3)))
    page = bytearray(PAGES[ObjectKind.ATOMS])
    page[4] = 2
    with pytest.raises(NewerFormatError, match="page version 2"):
        decode_atoms(bytes(page))
    assert object_kind(bytes(page)) is None


def forged(context, change):
    """``context`` written by somebody who lies: ``change(atoms, identities)`` gives what stands in its one page."""
    atoms, identities = change(list(context.atoms), atom_digests(context.atoms))
    page, contents = encode_atoms(identities, atoms)
    count = len(atoms)
    root = Tree(leaf_hashes(identities, atoms[: len(identities)])).root()
    record = pack(KIND_CONTEXT, {0: numbers(1, 0, count, count, 0, 0), 3: root, 48: page})
    return record, {sha256(data).digest(): data for data in contents}


PLAIN = normalised(Context(atoms=placed(5)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda atoms, identities: (atoms[::-1], identities[::-1]), "not canonical"),
        (lambda atoms, identities: (atoms, [identities[0], *identities[:0:-1]]), "not canonical"),
        (lambda atoms, identities: ([*atoms, atoms[0]], [*identities, identities[0]]), "the same content and type"),
        (lambda atoms, identities: ([*atoms[:4], Atom("x", "List[")], identities), "not a type"),
        (lambda atoms, identities: ([*atoms[:4], Atom("x", tags=("b", "a"))], identities), "tags that are empty"),
        (lambda atoms, identities: ([*atoms[:4], Atom("x", tags=("a", "a"))], identities), "tags that are empty"),
        (lambda atoms, identities: ([*atoms[:4], Atom("x", tags=("é" * 129,))], identities), "a tag over 256 bytes"),
        (lambda atoms, identities: ([*atoms[:4], Atom("x", source="é" * 2_049)], identities), "a source over 4,096"),
        (lambda atoms, identities: (atoms, identities[:4]), "another number of identities"),
    ],
)
def test_a_page_that_lies_is_found_when_it_comes_in(change, message):
    honest, objects = forged(PLAIN, lambda atoms, identities: (atoms, identities))
    assert check(honest, objects.__getitem__).context(objects.__getitem__) == PLAIN
    record, objects = forged(PLAIN, change)
    with pytest.raises(FormatError, match=message):
        check(record, objects.__getitem__)


def test_what_is_wrong_with_ranges_is_refused_by_every_reader_of_a_page():
    for wrong in (
        Atom("x", time_ms=TIME_MS_MAX + 1), Atom("x", time_ms=TIME_MS_MIN - 1), Atom("x", relevance=1_000_001),
        Atom("x", relevance=-1), Atom("x", tags=tuple(map(str, range(65)))),
    ):  # fmt: skip
        with pytest.raises(FormatError, match="not a page of atoms"):
            decode_atoms(encode_atoms([bytes(32)], [wrong])[0])


def test_forms_that_are_not_the_one_form_are_refused():
    pack_of = msgspec.msgpack.encode
    one = [b"x" * 32, [["content", "String", 0, 5, "", []]], []]
    assert decode_atoms(frame(ObjectKind.ATOMS, pack_of(one)))
    for wrong in (
        [b"x" * 32, [["content"]], []],  # what is left out is not the one form
        [b"x" * 32, [["content", "String", 0, 5, "", [], "more"]], []],
        [b"x" * 32, [["content", "String", 0, 5, "", []]], [], 7],
        [b"x" * 32, [["content", "String", 0, 5, "", []]], [[0, bytes(32), 5_000]]],  # its content twice
        [b"x" * 32, [["", "String", 0, 5, "", []]], [[1, bytes(32), 5_000]]],
        [b"x" * 32, [["", "String", 0, 5, "", []]], [[0, bytes(31), 5_000]]],
        [b"x" * 32, [["", "String", 0, 5, "", []]], [[0, bytes(32), 4_096]]],
        [b"x" * 32, [["", "String", 0, 5, "", []]], [[0, bytes(32), 5_000], [0, bytes(32), 5_000]]],
        [b"x" * 32, [["x" * 4_097, "String", 0, 5, "", []]], []],
        [b"x" * 31, [["content", "String", 0, 5, "", []]], []],
        [b"", [], []],
        [b"x" * 32 * 257, [["content", "String", 0, 5, "", []]] * 257, []],
        {"identities": b"x" * 32},
        [b"x" * 32, [["content", "String", 0.5, 5, "", []]], []],
        [b"x" * 32, [["content", "String", 0, float("nan"), "", []]], []],
    ):
        with pytest.raises(FormatError):
            decode_atoms(frame(ObjectKind.ATOMS, pack_of(wrong)))
    long_integer = pack_of(one).replace(b"\x05", b"\xcd\x00\x05")
    with pytest.raises(FormatError, match="not canonical"):
        decode_atoms(frame(ObjectKind.ATOMS, long_integer))
    with pytest.raises(FormatError, match="digests out of order"):
        decode_digests(frame(ObjectKind.DIGESTS, bytes(64)))
    with pytest.raises(FormatError, match="bytes"):
        decode_digests(frame(ObjectKind.DIGESTS, bytes(33)))
    molecule = [b"x" * 32, [["r", [[0, 0]]]], "T", canonical({})]
    assert decode_molecules(frame(ObjectKind.MOLECULES, pack_of([molecule])))
    for place, wrong in [
        (0, b"x" * 33), (0, b""), (0, b"x" * 64), (1, [["r", [[0, 1]]]]), (1, [["r", [[0, 0], [0, 0]]]]),
        (1, [["s", []], ["r", []]]), (1, [["r", []], ["r", []]]), (2, "T["), (3, b"[]"), (3, b"{ }"), (3, b'{"a":1.5}'),
    ]:  # fmt: skip
        changed = [*molecule[:place], wrong, *molecule[place + 1 :]]
        with pytest.raises(FormatError):
            decode_molecules(frame(ObjectKind.MOLECULES, pack_of([changed])))
    for wrong in (b"x" * 4_096, b"\xff" * 5_000):
        with pytest.raises(FormatError):
            content_of(content_page(wrong))


def test_an_object_in_the_place_of_another_is_refused():
    """Content that looks like a page is content; a page of another kind is none of this kind."""
    for what in ObjectKind:
        data = frame(what, b"x")
        for other in ObjectKind:
            if other is what:
                assert unframe(data, other) == b"x"
            else:
                with pytest.raises(FormatError, match="was expected"):
                    unframe(data, other)
    tricky = frame(ObjectKind.ATOM_PAGES, bytes(108)) + b"x" * 5_000
    one = encoded(Context(atoms=(Atom(tricky.decode()),)))
    content = one.objects[1][1]
    assert object_kind(content) is ObjectKind.CONTENT
    assert children_of(content) == []
    with pytest.raises(FormatError, match="neither a context's record nor a page of one"):
        children_of(b"plain bytes of a journal")


def test_objects_that_are_swapped_are_found():
    objects = dict(PAGED.objects)
    view = read_header(PAGED.objects[0][1])
    first, second = view.pages(objects.__getitem__)
    swapped = {first.digest: objects[second.digest], second.digest: objects[first.digest]}
    with pytest.raises(FormatError, match="the page of atom 0 does not match its row"):
        view.atoms_of(first, swapped.__getitem__)
    removing = encoded(Context(removed=some_digests(5_000)))
    objects = dict(removing.objects)
    view = read_header(removing.objects[0][1])
    one, two = view.parts()
    with pytest.raises(FormatError, match="page 0 of removals does not match its row"):
        list(view.removed({one: objects[two], two: objects[one]}.__getitem__))
    paged = encoded(Context(molecules=some_molecules(40)))
    objects = dict(paged.objects)
    parts = read_header(paged.objects[0][1]).parts()
    with pytest.raises(FormatError):
        check(paged.objects[0][1], {**objects, parts[0]: objects[parts[2]]}.__getitem__)


def test_rows_of_pages_that_lie_are_found_when_they_come_in():
    objects = dict(PAGED.objects)
    rows = sections_of(PAGED)[layout.ATOMS + layout.ROWS]
    first, second = rows[:108], rows[108:]
    assert check(changed_record(PAGED), objects.__getitem__)
    lies = [first[:place] + bytes((first[place] ^ 1,)) + first[place + 1 :] for place in (35, 43, 44, 76, 107)]
    for lie in (*(lie + second for lie in lies), second + first, first + first):
        with pytest.raises(FormatError):
            check(changed_record(PAGED, s49=lie), objects.__getitem__)
    with pytest.raises(FormatError, match="not canonical"):
        check(changed_record(PAGED, s3=bytes(32)), objects.__getitem__)
    lost = {digest: data for digest, data in objects.items() if digest != first[:32]}
    with pytest.raises(KeyError):
        check(PAGED.objects[0][1], lost.__getitem__)


def test_counts_that_lie_are_found_where_they_are_read():
    few = changed_record(FULL, s0=numbers(1, 7, 11, 2, 1, 3))
    objects = dict(FULL.objects)
    with pytest.raises(FormatError, match="3 atoms where 2 were announced"):
        read_header(few).pages(objects.__getitem__)
    with pytest.raises(FormatError, match="3 removals where 2 were announced"):
        read_header(changed_record(FULL, s0=numbers(1, 7, 11, 3, 1, 2))).removed(objects.__getitem__)
    with pytest.raises(FormatError, match="1 molecules where 2 were announced"):
        read_header(changed_record(FULL, s0=numbers(1, 7, 11, 3, 2, 3))).molecules(objects.__getitem__)
    large = encoded(Context(atoms=placed(64 * 256 + 1)))
    with pytest.raises(FormatError, match="bytes of rows where 65 pages were expected"):
        read_header(large.objects[0][1]).pages(lambda _: frame(ObjectKind.ATOM_PAGES, bytes(108)))
    for count, match in ((64 * 256 - 5, "section 0x32"), (65 * 256 + 1, "bytes of rows where 66 pages were expected")):
        lied = changed_record(large, s0=numbers(1, 0, 11, count, 0, 0))
        with pytest.raises(FormatError, match=match):
            read_header(lied).pages(dict(large.objects).__getitem__)
    with pytest.raises(FormatError, match="of rows of 108"):
        children_of(frame(ObjectKind.ATOM_PAGES, bytes(109)))


@pytest.mark.slow
def test_what_is_too_large_is_refused_before_it_is_looked_at():
    with pytest.raises(FormatError, match="a page over 67,108,864 bytes"):
        decode_atoms(bytes(PAGE_BYTES_MAX + 1))
    atoms = some_digests(512)
    pairs = [(one, two) for one in range(512) for two in range(512)]
    assert normalised(Context(molecules=(Molecule(atoms, {"r": pairs}),)))
    with pytest.raises(UsageError, match=r"molecules\[0\].relations: over 262,144 pairs"):
        normalised(Context(molecules=(Molecule(atoms, {"r": pairs, "s": pairs[:1]}),)))
    with pytest.raises(UsageError, match=r"molecules\[0\].relations\['r'\]: at most 262,144 pairs"):
        normalised(Context(molecules=(Molecule(atoms, {"r": [*pairs, (0, 0)]}),)))
    with pytest.raises(UsageError, match="molecules: 1,048,577 molecules in one context"):
        normalised(Context(molecules=(Molecule(atoms),) * ((1 << 20) + 1)))
