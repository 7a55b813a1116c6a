"""Contexts, beside a plain store of contexts over the same atoms (``bench.plain_contexts``).

Sides do the same work from the same start: what the baseline keeps as objects in memory lies in memory here too, as records and pages;
both give the bytes that travel. Where a row is about a store on the disk it says so; the baseline has none.
"""

from __future__ import annotations

__all__ = ["measure"]

import json
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final

from msgspec import structs

from bench import plain_contexts as plain
from bench.codec import forms
from bench.measure import Bench, Row, figure, in_turn, row, timed
from bench.processes import run_child
from bench.samples import Texts
from periplus.base.speed import IS_NATIVE
from periplus.context.model import DEFAULT_LIMITS, Atom, ChunkLimits, Context, atom_digest
from periplus.context.records import record
from periplus.context.records.pages import PAGE_ATOMS, decode_atoms, encode_atoms
from periplus.context.store_protocol import Store
from periplus.context.stores.disk_store import DiskStore
from periplus.context.stores.memory_store import MemoryStore
from periplus.context.streams.chunk_proof import ChunkVerifier
from periplus.context.validation import prepare
from periplus.context.wire.payload_codec import Codec
from periplus.context.wire.payloads import payload_of_chunk
from periplus.merkle import Tree, leaf_hash, verify_inclusion

PLAIN: Final = "plain, as version 1"
_TYPES: Final = {
    "Fact": plain.PlainType("Fact"),
    "Decision": plain.PlainType("Decision"),
    "List[String]": plain.PlainType("List", "ARROW", (plain.PlainType("String"),)),
}
_BODIES: Final = 10_000


def measure(bench: Bench) -> Iterator[Row]:
    for part in (_codec, _stream, _first_chunk, _chain, _tree):
        yield from part(bench)


def _atoms(count: int, *, most_characters: int = 10_000) -> list[Atom]:
    """Atoms as people write them, in no order; the same ones for the same count."""
    texts, chosen = Texts(3), random.Random(1)
    bodies = [texts.memory()[:most_characters] for _ in range(min(count, _BODIES))]
    types = list(_TYPES)
    return [
        Atom(
            f"{bodies[number % len(bodies)]} {number}",
            types[number % 3],
            1_700_000_000_000 + 1_000 * number,
            chosen.randrange(1_000_001),
            f"src/module_{number % 97}.py:{number}",
        )
        for number in range(count)
    ]


def _plain_atom(atom: Atom) -> plain.PlainAtom:
    when = datetime.fromtimestamp(atom.time_ms / 1000, UTC)
    return plain.PlainAtom(atom.content, _TYPES[atom.type], when, atom.source, atom.relevance / 1e6)


def _codec(bench: Bench) -> Iterator[Row]:
    count = bench.size(20_000, 500)
    rounds = bench.size(5, 2)
    bench.say(f"codec: {rounds} rounds over {count:,} atoms")
    context = Context(atoms=tuple(_atoms(count)))
    prepared = prepare(context)
    ours, digests = prepared.context.atoms, prepared.atom_digests
    starts = range(0, count, PAGE_ATOMS)
    pages = [encode_atoms(digests[at : at + PAGE_ATOMS], ours[at : at + PAGE_ATOMS])[0] for at in starts]
    other = plain.PlainContext(None, [_plain_atom(atom) for atom in ours])
    text = plain.dump(other)
    rates = _rates(rounds, count, {
        "serialised": lambda: [encode_atoms(digests[at : at + PAGE_ATOMS], ours[at : at + PAGE_ATOMS]) for at in starts],
        "serialised, plain": lambda: plain.dump(other),
        "parsed": lambda: [decode_atoms(page) for page in pages],
        "parsed, plain": lambda: plain.load(text),
    })  # fmt: skip
    for what in ("serialised", "parsed"):
        yield row("context", f"{what}, {count:,} atoms", "atoms/s", figure(rates[what]), PLAIN, figure(rates[f"{what}, plain"]),
                  better="higher")  # fmt: skip
    yield row("context", "serialised, bytes an atom", "bytes", figure([sum(map(len, pages)) / count]), PLAIN,
              figure([len(text) / count]))  # fmt: skip
    encoded = record.encode(prepared, depth=0, live=count)
    objects = dict(encoded.objects)
    rates = _rates(rounds, count, {
        "made": lambda: record.encode(context, depth=0, live=count),
        "made, plain": lambda: (plain.dump(other), other.digest()),
        "read": lambda: record.check(objects[encoded.digest], objects.__getitem__),
        "read, plain": lambda: plain.load(text).digest(),
    })  # fmt: skip
    yield row("context", "validated, hashed, in a tree, serialised", "atoms/s", figure(rates["made"]),
              f"{PLAIN}, nothing validated", figure(rates["made, plain"]), better="higher")  # fmt: skip
    yield row("context", "parsed, every hash and the tree checked", "atoms/s", figure(rates["read"]),
              f"{PLAIN}, nothing checked", figure(rates["read, plain"]), better="higher")  # fmt: skip


def _stream(bench: Bench) -> Iterator[Row]:
    count = bench.size(100_000, 1_000)
    rounds = bench.size(5, 2)
    bench.say(f"stream: {rounds} rounds over {count:,} atoms")
    atoms = _atoms(count)
    store = MemoryStore()
    root = store.commit(Context(atoms=tuple(atoms)))
    others = plain.PlainStore()
    own = others.put(plain.PlainContext(None, [_plain_atom(atom) for atom in atoms]))
    changed = [
        *(structs.replace(atom, relevance=1) for atom in atoms[:: count // 50]),
        Atom("new in the second", "Fact"),
    ]
    second = store.commit(Context(root, tuple(changed)))
    own_second = others.put(plain.PlainContext(own, [_plain_atom(atom) for atom in changed]))
    disk = DiskStore(os.path.join(bench.folder, "stream"))
    on_disk = disk.commit(Context(atoms=tuple(atoms)))
    codec = Codec()
    codec.agree("msgpack", unpacks=False, packs=False)
    like_plain = ChunkLimits(plain.CHUNK_ATOMS, plain.CHUNK_TOKENS)

    def sent(store: Store, digest: bytes, limits: ChunkLimits = DEFAULT_LIMITS) -> None:
        found = sum(len(codec.payload(payload_of_chunk(chunk))) for chunk in store.stream(digest, limits=limits))
        if found < 50 * count:
            raise RuntimeError("a stream that is not the whole context")

    def proved() -> None:
        verifier = ChunkVerifier(own_few)
        stream = store.stream(own_few, prove=True)
        for chunk in stream:
            verifier.feed(chunk)
        if stream.end is None:
            raise RuntimeError("a stream without an end")
        verifier.finish(stream.end)

    few = _atoms(count // 10)
    own_few = store.commit(Context(atoms=tuple(few)))
    rates = _rates(rounds, count, {
        "plain": lambda: sum(map(len, others.stream(own))),
        "ours": lambda: sent(store, root),
        "ten": lambda: sent(store, root, like_plain),
        "plain, two": lambda: sum(map(len, others.stream(own_second))),
        "two": lambda: sent(store, second),
        "disk": lambda: sent(disk, on_disk),
    })  # fmt: skip
    rates |= _rates(rounds, len(few), {"proved": proved})
    of = f"{count:,} atoms"
    for what, name, baseline in (
        (f"stream of {of}, to the bytes that travel", "ours", "plain"),
        ("the same, in chunks of ten atoms", "ten", "plain"),
        ("the same, a small delta on it", "two", "plain, two"),
        ("the same, on the disk", "disk", "plain"),
        ("the same, proved and verified by its reader", "proved", "plain"),
    ):
        yield row("context", what, "atoms/s", figure(rates[name]), PLAIN, figure(rates[baseline]), better="higher")
    disk.close()


def _first_chunk(bench: Bench) -> Iterator[Row]:
    count = bench.size(1_000_000, 5_000)
    rounds = bench.size(5, 2)
    bench.say(f"first chunk: a store of {count:,} atoms is written")
    atoms = _atoms(count, most_characters=80)
    folder = os.path.join(bench.folder, "first")
    with_store = DiskStore(folder)
    root = with_store.commit(Context(atoms=tuple(atoms)))
    bench.say("first chunk: deltas are written on it")
    large = root
    for number in range(5):
        again = atoms[number::50]
        large = with_store.commit(
            Context(large, tuple([structs.replace(atom, relevance=atom.relevance ^ 1) for atom in again]))
        )
    small = root
    with with_store.batch():
        for number in range(bench.size(10_000, 50)):
            small = with_store.commit(Context(small, (Atom(f"small {number}", relevance=number * 100),)))
    others = plain.PlainStore()
    own = others.put(plain.PlainContext(None, [_plain_atom(atom) for atom in atoms]))
    del atoms

    def first(digest: bytes, *, prove: bool = False) -> float:
        def one() -> None:
            stream = with_store.stream(digest, prove=prove)
            if len(next(stream).entries) < 10:
                raise RuntimeError("a first chunk that is nearly empty")
            stream.close()

        return timed(one)

    def opened(digest: bytes) -> float:
        def one() -> None:
            store = DiskStore(folder)
            next(store.stream(digest))
            store.close()

        return timed(one)

    for digest in (root, large, small):
        first(digest)  # what is derived is there: the store is warm
    found = in_turn(rounds, {
        "plain": lambda: timed(lambda: next(others.stream(own))),
        "ours": lambda: first(root),
        "large": lambda: first(large),
        "small": lambda: first(small),
        "proved": lambda: first(root, prove=True),
        "opened": lambda: opened(root),
        "opened, small": lambda: opened(small),
    })  # fmt: skip
    for what, name in (
        (f"first chunk of {count:,} atoms", "ours"),
        ("the same, five large deltas on them", "large"),
        (f"the same, {bench.size(10_000, 50):,} small deltas on them", "small"),
        ("the same, with its proof", "proved"),
        ("the same, from opening the store on", "opened"),
        ("the same, from opening the store on, small deltas on them", "opened, small"),
    ):
        yield row("context", what, "ms", figure(found[name]).scaled(1e3), PLAIN, figure(found["plain"]).scaled(1e3))
    with_store.close()


def _chain(bench: Bench) -> Iterator[Row]:
    count = bench.size(100_000, 300)
    bench.say(f"chain: {count:,} deltas are written")
    atoms = _atoms(count, most_characters=80)
    store = DiskStore(os.path.join(bench.folder, "chain"))
    others = plain.PlainStore()
    digest, own = None, None
    with store.batch():
        for number, atom in enumerate(atoms):
            gone = (atom_digest(atoms[number - 1]),) if number % 3 == 2 else ()
            digest = store.commit(Context(digest, (atom,), removed=gone))
            own = others.put(plain.PlainContext(own, [_plain_atom(atom)], {others.newest} if gone else set()))
    live = store.header(digest).live
    cache = os.path.join(bench.folder, "chain", "cache")

    def expand(store: Store) -> float:
        found: list[int] = []
        spent = timed(lambda: found.append(len(store.expand(digest).entries)))
        if found != [live]:
            raise RuntimeError("a chain that does not come to what its record says")
        return count / spent

    def cold() -> float:
        shutil.rmtree(cache, ignore_errors=True)
        again = DiskStore(os.path.join(bench.folder, "chain"))
        found = expand(again)
        again.close()
        return found

    if len(others.expand(own)) != live:
        raise RuntimeError("the plain store comes to something else")
    found = in_turn(bench.size(3, 2), {
        "plain": lambda: count / timed(lambda: others.expand(own)),
        "ours": lambda: expand(store),
    })  # fmt: skip
    found |= in_turn(1, {"cold": cold})
    yield row("context", f"chain of {count:,} deltas expanded", "deltas/s", figure(found["ours"]), PLAIN,
              figure(found["plain"]), better="higher")  # fmt: skip
    yield row("context", "the same, from the disk, nothing derived there", "deltas/s", figure(found["cold"]), PLAIN,
              figure(found["plain"]), better="higher")  # fmt: skip
    store.close()


def _tree(bench: Bench) -> Iterator[Row]:
    count = bench.size(1_000_000, 2_000)
    rounds = bench.size(3, 2)
    for form in forms(bench):
        bench.say(f"tree, {form}: {rounds} rounds over {count:,} leaves")
        found = run_child(str(count), str(rounds), form=form, module="bench.contexts")
        if found["is_native"] != (form == "native"):
            raise RuntimeError(f"the {form} form was asked for and did not run")
        yield row("context", f"tree over {count:,} leaves, {form}", "leaves/s", figure(found["tree"]), "plain, hexadecimal nodes",
                  figure(found["tree, plain"]), better="higher")  # fmt: skip
        yield row("context", f"proof of the last leaf, {form}", "µs", figure(found["proof"]).scaled(1e6),
                  "plain, the tree built for it", figure(found["proof, plain"]).scaled(1e6))  # fmt: skip


def _main(count_text: str, rounds: str) -> None:
    """The tree in this process's form, as processor time."""
    count = int(count_text)
    hashes = [leaf_hash(b"record %d" % number) for number in range(count)]
    texts = [found.hex() for found in hashes]
    tree = Tree(hashes)
    times = 200

    def prove() -> float:
        spent = _spent(lambda: [tree.inclusion(count - 1) for _ in range(times)]) / times
        if not verify_inclusion(hashes[-1], count - 1, count, tree.inclusion(count - 1), tree.root()):
            raise RuntimeError("a proof that does not hold")
        return spent

    found: dict[str, object] = {"is_native": IS_NATIVE}
    found |= in_turn(int(rounds), {
        "tree": lambda: count / _spent(lambda: Tree(hashes).root()),
        "tree, plain": lambda: count / _spent(lambda: plain.tree(texts)),
        "proof": prove,
        "proof, plain": lambda: _spent(lambda: plain.proof(texts, count - 1)),
    })  # fmt: skip
    print(json.dumps(found))


def _spent(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _rates(rounds: int, count: int, sides: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
    """So many a second of each side, round by round."""
    return in_turn(rounds, {name: partial(_rate, count, work) for name, work in sides.items()})


def _rate(count: int, work: Callable[[], object]) -> float:
    return count / timed(work)


if __name__ == "__main__":
    _main(*sys.argv[1:])
