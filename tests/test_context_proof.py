"""Proofs of streams: an honest one is accepted to its end, and no other is, whoever makes it."""

from __future__ import annotations

import os
import random
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_streams import entries_of, head_of, history, some_atom
from periplus.base.errors import FormatError
from periplus.base.text.token_estimate import estimate_tokens
from periplus.context.model import (
    Atom,
    Chunk,
    ChunkLimits,
    Context,
    Entry,
    StreamEnd,
    annotation_record,
    atom_digest,
)
from periplus.context.stores.memory_store import MemoryStore
from periplus.context.streams.chunk_proof import PROOF_BYTES_MAX, ChunkProof, ChunkVerifier, Draw, read_proof
from periplus.context.streams.proof_source import ProvingCutter

pytestmark = pytest.mark.quick

SHAPES = st.lists(
    st.tuples(st.sampled_from([0, 1, 5, 60, 300]), st.sampled_from([0, 1, 20, 150])), min_size=1, max_size=6
)
SMALL = ChunkLimits(7, 4_000, 1 << 20)


def streamed(store, digest, limits=SMALL):
    stream = store.stream(digest, limits=limits, prove=True)
    return list(stream), stream.end


def verified(digest, chunks, end, limits=SMALL):
    """Says at which chunk something was refused, -1 for the end; None where all was accepted."""
    verifier = ChunkVerifier(digest, limits, estimate_tokens)
    for chunk in chunks:
        try:
            verifier.feed(chunk)
        except FormatError:
            with pytest.raises(FormatError, match="cannot be trusted"):
                verifier.feed(chunk)
            return chunk.chunk_id
    try:
        verifier.finish(end)
    except FormatError:
        return -1
    return None


@pytest.fixture(scope="module")
def example():
    """A chain in which large deltas and small ones replace and remove each other's atoms."""
    store = MemoryStore()
    shape = [(300, 0), (5, 20), (280, 3), (60, 150), (4, 2)]
    chain = history(store, random.Random(8), shape, universe=350)
    return store, chain


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    shape=SHAPES,
    limits=st.builds(
        ChunkLimits, st.sampled_from([1, 7, 64]), st.sampled_from([40, 4_000]), st.sampled_from([600, 3_000, 1 << 20])
    ),
    seed=st.integers(0, 10**6),
    padding=st.sampled_from([0, 400]),
)
def test_an_honest_stream_is_accepted_to_its_end(shape, limits, seed, padding):
    store = MemoryStore()
    digest = history(store, random.Random(seed), shape, universe=400, padding=padding)[-1]
    chunks, end = streamed(store, digest, limits)
    assert verified(digest, chunks, end, limits) is None
    plain = store.stream(digest, limits=limits)
    assert entries_of(chunks) == entries_of(list(plain))
    assert plain.end.head == end.head
    for number, chunk in enumerate(chunks):
        assert chunk.chunk_id == number
        assert chunk.is_final == (number == len(chunks) - 1)
        assert len(chunk.entries) + len(chunk.over) <= limits.atoms


class LyingCutter(ProvingCutter):
    """Takes what is replaced for valid, and what is valid for replaced, where ``lies`` says so."""

    lies: frozenset = frozenset()

    def _is_gone(self, row):
        return super()._is_gone(row) != ((row.place, row.key[2]) in self.lies)


def told(store, digest, lies):
    cutter = LyingCutter(store, digest, SMALL)
    cutter.lies = frozenset(lies)
    return list(cutter.cut()), cutter.end


def truth(store, digest):
    """Of every row of the chain, whether it is valid."""
    seen = []

    class Noting(ProvingCutter):
        def _is_gone(self, row):
            found = super()._is_gone(row)
            seen.append(((row.place, row.key[2]), not found))
            return found

    list(Noting(store, digest, SMALL).cut())
    return seen


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_lie_about_what_is_valid_is_believed(example, data):
    store, chain = example
    digest = chain[-1]
    rows = truth(store, digest)
    valid = [row for row, is_valid in rows if is_valid]
    replaced = [row for row, is_valid in rows if not is_valid]
    count = data.draw(st.integers(1, 4))
    sent = data.draw(st.lists(st.sampled_from(replaced), min_size=count, max_size=count, unique=True))
    held_back = data.draw(st.lists(st.sampled_from(valid), min_size=count, max_size=count, unique=True))
    chunks, end = told(store, digest, [*sent, *held_back])
    assert verified(digest, chunks, end) is not None


def test_an_older_annotation_in_the_place_of_the_newer_is_not_believed(example):
    store, chain = example
    digest = chain[-1]
    rows = truth(store, digest)
    valid = {identity: (place, identity) for (place, identity), is_valid in rows if is_valid}
    twice = [(row, valid[row[1]]) for row, is_valid in rows if not is_valid and row[1] in valid]
    assert len(twice) > 50
    for old, new in twice[::9]:
        chunks, end = told(store, digest, [old, new])
        assert verified(digest, chunks, end) is not None


@pytest.mark.slow
def test_a_removed_atom_is_refused_in_the_chunk_that_has_it():
    store = MemoryStore()
    chosen = random.Random(3)
    for gone_count in (50, 4_500):  # in the record, and in pages of removals
        atoms = [some_atom(number, chosen) for number in range(4_800)]
        root = store.commit(Context(atoms=tuple(atoms)))
        gone = sorted(atom_digest(atom) for atom in atoms[:gone_count])
        digest = store.commit(Context(root, removed=tuple(gone)))
        left = [entry.digest for entry in store.expand(digest).entries]
        chunks, end = told(store, digest, [(1, gone[0]), (1, left[-1])])
        at = next(chunk.chunk_id for chunk in chunks if any(entry.digest == gone[0] for entry in chunk.entries))
        assert verified(digest, chunks, end) == at
        limits = ChunkLimits(64)
        assert verified(digest, *streamed(store, digest, limits), limits) is None


def test_what_a_newer_record_holds_is_refused_at_once():
    store = MemoryStore()
    atoms = [Atom(f"atom {number}", relevance=500_000) for number in range(400)]
    root = store.commit(Context(atoms=tuple(atoms)))
    changed = msgspec.structs.replace(atoms[7], relevance=3)
    digest = store.commit(Context(root, (changed,)))
    identity = atom_digest(changed)
    chunks, end = told(store, digest, [(1, identity), (0, identity)])
    at = next(chunk.chunk_id for chunk in chunks if any(entry.digest == identity for entry in chunk.entries))
    assert at < len(chunks) - 1
    assert verified(digest, chunks, end) == at


def replaced(chunk, place, **fields):
    entries = list(chunk.entries)
    entries[place] = entries[place]._replace(**fields)
    return chunk._replace(entries=tuple(entries))


def changes(chunk: Chunk, origins):
    """The chunk in wrong forms, each named."""
    first = chunk.entries[0]
    for field, value in (
        ("content", first.atom.content + " "), ("type", "Other"), ("time_ms", first.atom.time_ms + 1),
        ("relevance", first.atom.relevance ^ 1), ("source", first.atom.source + "x"), ("tags", ("z",)),
        ("relevance", -1), ("relevance", 1 << 40), ("time_ms", 1 << 70), ("content", "\ud800"), ("source", "\udfff"),
    ):  # fmt: skip
        atom = msgspec.structs.replace(first.atom, **{field: value})
        yield f"{field} {value!r}", replaced(chunk, 0, atom=atom)
        if field == "content" and value.isascii():
            yield "content and digest", replaced(chunk, 0, atom=atom, digest=atom_digest(atom))
    yield "digest", replaced(chunk, 0, digest=bytes(32))
    for origin in (*origins, bytes(32)):
        if origin != first.origin:
            yield "origin", replaced(chunk, 0, origin=origin)
    yield "without the first", chunk._replace(entries=chunk.entries[1:])
    yield "without the last", chunk._replace(entries=chunk.entries[:-1])
    yield "turned round", chunk._replace(entries=chunk.entries[::-1])
    yield "twice", chunk._replace(entries=(first, *chunk.entries))
    yield "none", chunk._replace(entries=())
    stranger = Atom("a stranger", relevance=first.atom.relevance)
    yield "a stranger", chunk._replace(entries=(*chunk.entries, Entry(atom_digest(stranger), stranger, first.origin)))
    for field in ("chunk_id", "start", "cumulative_tokens", "progress_millionths"):
        for by in (-1, 1):
            yield field, chunk._replace(**{field: getattr(chunk, field) + by})
    proof = read_proof(chunk.proof)
    yield "no proof", chunk._replace(proof=b"")
    yield "an empty proof", chunk._replace(proof=ChunkProof(1, [], []).pack())
    yield (
        "another object",
        chunk._replace(proof=ChunkProof(1, [*proof.objects, b"PPCP\x01\x04hello"], proof.draws).pack()),
    )
    yield "an object twice", chunk._replace(proof=ChunkProof(1, proof.objects * 2, proof.draws).pack())
    yield "draws twice", chunk._replace(proof=ChunkProof(1, proof.objects, proof.draws * 2).pack())
    yield "no draws", chunk._replace(proof=ChunkProof(1, proof.objects, []).pack())
    yield "another version", chunk._replace(proof=ChunkProof(2, proof.objects, proof.draws).pack())
    yield "a byte more", chunk._replace(proof=chunk.proof + b"\0")
    yield "a byte less", chunk._replace(proof=chunk.proof[:-1])
    yield "too long", chunk._replace(proof=bytes(2 << 20))
    for number, draw in enumerate(proof.draws):
        for field, value in (("start", draw.start + 1), ("place", draw.place + 1), ("nodes", draw.nodes + bytes(32)),
                             ("nodes", draw.nodes[32:]), ("nodes", draw.nodes + b"\0"), ("gone", [*draw.gone, (0, bytes(60))]),
                             ("place", -1), ("start", -1), ("start", 1 << 70), ("place", 1 << 63)):  # fmt: skip
            if getattr(draw, field) == value:
                continue
            draws = list(proof.draws)
            draws[number] = msgspec.structs.replace(draw, **{field: value})
            try:
                packed = ChunkProof(1, proof.objects, draws).pack()
            except OverflowError:
                continue  # messagepack has no such number
            yield f"draw {field} {value!r}"[:40], chunk._replace(proof=packed)


@pytest.mark.slow
def test_whatever_is_changed_is_refused_in_its_chunk(example):
    store, chain = example
    digest = chain[-1]
    chunks, _ = streamed(store, digest)
    tried = 0
    for at in (0, 3, len(chunks) - 3):
        assert chunks[at].entries
        for name, changed in changes(chunks[at], chain):
            if changed == chunks[at]:
                continue
            verifier = ChunkVerifier(digest, SMALL, estimate_tokens)
            for chunk in chunks[:at]:
                verifier.feed(chunk)
            try:
                verifier.feed(changed)
            except FormatError as error:
                assert str(error).startswith(f"chunk {at:,} is refused: "), name  # noqa: PT017 - says which change it was
            else:
                pytest.fail(f"accepted chunk {at}: {name}")
            tried += 1
    assert tried > 120


def test_chunks_in_another_order_are_refused(example):
    store, chain = example
    chunks, end = streamed(store, chain[-1])
    assert verified(chain[-1], chunks[1:], end) == 1
    assert verified(chain[-1], [chunks[0], *chunks], end) == 0
    assert verified(chain[-1], [chunks[0], chunks[2], chunks[1]], end) == 2
    assert verified(chain[-1], [*chunks, chunks[-1]], end) == chunks[-1].chunk_id
    assert verified(chain[-2], chunks, end) == 0, "of another context"
    assert verified(chain[-1], chunks, end, ChunkLimits(atoms=3)) == 0, "more than was asked for"


def test_the_end_is_held_against_what_came(example):
    store, chain = example
    chunks, end = streamed(store, chain[-1])
    assert verified(chain[-1], chunks, end) is None
    assert verified(chain[-1], chunks[:-1], end) == -1
    for wrong in (
        end._replace(atoms=end.atoms + 1),
        end._replace(tokens=end.tokens + 1),
        end._replace(chunks=end.chunks - 1),
        end._replace(head=bytes(32)),
    ):
        assert verified(chain[-1], chunks, wrong) == -1
    records = [annotation_record(entry.digest, entry.atom) for entry in entries_of(chunks)]
    assert end == StreamEnd(len(records), chunks[-1].cumulative_tokens, len(chunks), head_of(records))


FORM = msgspec.msgpack.Decoder(Chunk)


@pytest.mark.slow
def test_no_changed_bit_of_a_chunk_is_believed():
    """Every bit of a chunk with entries, a draw, a replaced leaf and an object; of the first one some. All of both, if exhaustive."""
    store = MemoryStore()
    atoms = [Atom(f"atom {number}", relevance=1_000 * (300 - number)) for number in range(257)]
    root = store.commit(Context(atoms=tuple(atoms)))
    middle = store.commit(Context(root, (Atom("one of a small delta", relevance=3),)))
    digest = store.commit(Context(middle, (msgspec.structs.replace(atoms[1], relevance=1),)))
    limits = ChunkLimits(1)
    chunks, end = streamed(store, digest, limits)
    (draw,) = read_proof(chunks[0].proof).draws
    assert len(draw.gone) == 1
    step = 1 if os.environ.get("PERIPLUS_EXHAUSTIVE") else 9
    cases = [(1, bit) for bit in range(len(msgspec.msgpack.encode(chunks[1])) * 8)]
    cases += [(0, bit) for bit in range(0, len(msgspec.msgpack.encode(chunks[0])) * 8, step)]
    refused = 0
    for number, bit in cases:
        data = bytearray(msgspec.msgpack.encode(chunks[number]))
        data[bit // 8] ^= 1 << bit % 8
        try:
            changed = FORM.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if changed == chunks[number]:
            continue
        verifier = ChunkVerifier(digest, limits, estimate_tokens)
        for chunk in chunks[:number]:
            verifier.feed(chunk)
        with pytest.raises(FormatError, match=f"^chunk {number} is refused: "):
            verifier.feed(changed)
        refused += 1
    assert refused > 4_000
    assert verified(digest, chunks, end, limits) is None


@pytest.mark.slow
def test_a_long_chain_comes_in_bounded_proofs():
    store = MemoryStore()
    digest = store.commit(Context(atoms=tuple(Atom(f"atom {number}", relevance=900_000) for number in range(300))))
    with store.batch():
        for number in range(2_500):
            small = Atom(f"small {number}", relevance=number)
            digest = store.commit(Context(digest, (small,), metadata={"why": "w" * 100}))
    chunks, end = streamed(store, digest, ChunkLimits())
    assert max(len(chunk.proof) for chunk in chunks) <= PROOF_BYTES_MAX + 4_096
    ahead = [chunk.chunk_id for chunk in chunks if not chunk.entries]
    assert ahead == [0, 1], "records alone, as many as are needed to say where the best atom is from"
    assert not any(chunk.is_final for chunk in chunks[:-1])
    assert verified(digest, chunks, end, ChunkLimits()) is None


def test_a_stream_that_was_cut_off_goes_on_with_its_verifier(example):
    store, chain = example
    digest = chain[-1]
    verifier = ChunkVerifier(digest, SMALL, estimate_tokens)
    ends = []
    while not ends:
        stream = store.stream(digest, limits=SMALL, prove=True, resume=verifier.next_chunk)
        for chunk, _ in zip(stream, range(4), strict=False):
            verifier.feed(chunk)
            if chunk.is_final:
                ends.append(stream.end)
        stream.close()
    verifier.finish(ends[0])


def test_atoms_that_are_only_named_are_proved_as_well():
    store = MemoryStore()
    atoms = [Atom(f"{number} {'word ' * (2_000 if number % 3 else 1)}", relevance=number) for number in range(300)]
    digest = store.commit(Context(atoms=tuple(atoms)))
    limits = ChunkLimits(tokens=100)
    chunks, end = streamed(store, digest, limits)
    assert verified(digest, chunks, end, limits) is None
    assert sum(len(chunk.over) for chunk in chunks) == 200
    chunk = next(chunk for chunk in chunks if chunk.over)
    for changed in (
        chunk.over[0]._replace(digest=bytes(32)),
        chunk.over[0]._replace(origin=bytes(32)),
        chunk.over[0]._replace(annotation=chunk.over[0].annotation + b"\0"),
        chunk.over[0]._replace(annotation=chunk.over[0].annotation[:40]),
        chunk.over[0]._replace(annotation=b""),
    ):
        wrong = [*chunks[: chunk.chunk_id], chunk._replace(over=(changed, *chunk.over[1:]))]
        assert verified(digest, wrong, end, limits) == chunk.chunk_id


def test_draws_follow_each_other_without_a_gap(example):
    store, chain = example
    chunks, _ = streamed(store, chain[-1])
    by_place = {}
    for chunk in chunks:
        for draw in read_proof(chunk.proof).draws:
            by_place.setdefault(draw.place, []).append(draw)
    assert len(by_place) >= 2
    for draws in by_place.values():
        assert draws[0].start == 0
        assert all(left.start < right.start for left, right in pairwise(draws))


def test_the_page_of_the_format_says_what_is(example):
    """Its example is run, its bounds are those of the code, and a proof has the fields it names."""
    page = (Path(__file__).resolve().parents[1] / "docs/formats/context-stream.md").read_text(encoding="utf-8")
    store, chain = example
    used = []
    names = {
        "digest": chain[-1], "limits": SMALL, "store": store, "use": used.extend,
        "ChunkVerifier": ChunkVerifier, "estimate_tokens": estimate_tokens,
    }  # fmt: skip
    exec(page.split("```python\n")[1].split("```")[0], names)
    assert used == list(store.expand(chain[-1]).entries)
    assert f"{PROOF_BYTES_MAX // 1024} KiB" in page
    for field in Chunk._fields:
        assert f"| `{field}` |" in page or f"in `{field}`" in page
    assert f"`[{', '.join(('1', *ChunkProof.__struct_fields__[1:]))}]`" in page
    assert f"`[{', '.join(Draw.__struct_fields__)}]`" in page
