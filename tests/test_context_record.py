"""Records of contexts: one content, one text of bytes; what is not that text is refused by field or offset."""

from hashlib import sha256

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.context.model import (
    TIME_MS_MAX,
    TIME_MS_MIN,
    Atom,
    Context,
    Molecule,
    atom_digest,
    molecule_digest,
)
from periplus.context.record import check, children_of, decode, encode, normalised, read_header


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
        merged=() if base is None else tuple(draw(st.lists(digests, max_size=2, unique=True))),
    )


@given(contexts(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
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
