"""What holds for every context store, as one suite: in memory, in a folder, in a project, behind a wire.

A test file makes a class of it and says how a store is made::

    class TestMemoryStore(ContextContract):
        def make_store(self, tmp_path):
            return MemoryStore()

``make_store`` is called for each test with a folder of its own; what has to be ended with a store, its ``close`` ends.
``EXAMPLES`` is how many random histories are tried.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from periplus.base.errors import ConflictError, NotFoundError, PeriplusError, UsageError
from periplus.context.deltas.ancestry import common_bases
from periplus.context.deltas.atom_lookup import find, molecule_table
from periplus.context.deltas.comparison import diff
from periplus.context.deltas.log import bisect, blame, has_atom, has_text, log
from periplus.context.deltas.merge import merge
from periplus.context.model import (
    Atom,
    ChunkLimits,
    Context,
    Molecule,
    atom_digest,
    molecule_digest,
    order_key,
)
from periplus.context.records import record
from periplus.context.streams.chunk_proof import ChunkVerifier

NOWHERE = b"\x11" * 32


def plain(number: int, relevance: int = 500_000, **fields) -> Atom:
    return Atom(f"atom {number}", relevance=relevance, **fields)


def digest_of(number: int) -> bytes:
    return atom_digest(plain(number))


def root_of(*numbers: int) -> Context:
    return Context(atoms=tuple(plain(number, 1000 * number) for number in numbers), metadata={"why": "a root"})


def contents(expansion) -> list[str]:
    return [entry.atom.content for entry in expansion.entries]


class Model:
    """What contexts come to, the plain way: a dict of atoms and a dict of molecules, delta by delta."""

    def __init__(self) -> None:
        self.atoms: dict[bytes, tuple[Atom, bytes]] = {}
        self.molecules: dict[bytes, Molecule] = {}

    def apply(self, context: Context, digest: bytes) -> None:
        gone = set(context.removed)
        self.atoms = {key: value for key, value in self.atoms.items() if key not in gone}
        kept = {}
        for key, molecule in self.molecules.items():
            if key in gone:
                continue
            if not gone & set(molecule.atoms):
                kept[key] = molecule
                continue
            ends = {molecule.atoms[end] for pairs in molecule.relations.values() for pair in pairs for end in pair}
            left = tuple(atom for atom in molecule.atoms if atom not in gone)
            if left and not ends & gone:
                places = {molecule.atoms.index(atom): place for place, atom in enumerate(left)}
                relations = {
                    name: tuple((places[i], places[j]) for i, j in pairs) for name, pairs in molecule.relations.items()
                }
                smaller = Molecule(left, relations, molecule.type, molecule.metadata)
                kept[molecule_digest(smaller)] = smaller
        kept |= {molecule_digest(molecule): molecule for molecule in context.molecules}
        self.molecules = kept
        for atom in context.atoms:
            self.atoms[atom_digest(atom)] = (atom, digest)

    def entries(self) -> list[tuple[bytes, Atom, bytes]]:
        rows = [(key, atom, origin) for key, (atom, origin) in self.atoms.items()]
        return sorted(rows, key=lambda row: order_key(row[0], row[1]))

    def assert_equal(self, expansion) -> None:
        assert [tuple(entry) for entry in expansion.entries] == self.entries()
        assert {molecule_digest(molecule): molecule for molecule in expansion.molecules} == self.molecules


@st.composite
def deltas(draw, model: Model, base: bytes | None) -> Context:
    """A delta that is true of ``model``, which is what ``base`` stands for."""
    there = sorted(model.atoms)
    removed = draw(st.lists(st.sampled_from(there), unique=True, max_size=3)) if base and there else []
    if base and model.molecules and draw(st.booleans()):
        removed.append(draw(st.sampled_from(sorted(model.molecules))))
    numbers = draw(st.lists(st.integers(0, 14), unique=True, max_size=6))
    atoms = [
        plain(number, draw(st.sampled_from([0, 500_000, 1_000_000])), time_ms=draw(st.integers(-1, 1)))
        for number in numbers
    ]
    atoms = [atom for atom in atoms if atom_digest(atom) not in removed]
    held = sorted((set(there) - set(removed)) | {atom_digest(atom) for atom in atoms})
    molecules = []
    if held and draw(st.booleans()):
        members = draw(st.lists(st.sampled_from(held), unique=True, min_size=1, max_size=4))
        pairs = draw(
            st.lists(st.tuples(st.integers(0, len(members) - 1), st.integers(0, len(members) - 1)), max_size=2)
        )
        molecule = Molecule(tuple(members), {"because": tuple(sorted(set(pairs)))})
        if molecule_digest(molecule) not in removed:
            molecules.append(molecule)
    metadata = {"note": draw(st.integers(0, 3))}
    return Context(base, tuple(atoms), tuple(molecules), tuple(removed), metadata)


class ContextContract:
    EXAMPLES: ClassVar[int] = 40

    def make_store(self, tmp_path: Path):
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path):
        store = self.make_store(tmp_path)
        yield store
        store.close()

    # Commit and read

    def test_a_context_comes_back_in_canonical_form(self, store):
        given = Context(
            atoms=(plain(1, 10, tags=("b", "a")), plain(2, 20, source="src/a.py#3")), metadata={"why": "so"}
        )
        digest = store.commit(given)
        back = store.context(digest)
        assert back == record.normalised(given)
        assert back.atoms == (plain(2, 20, source="src/a.py#3"), plain(1, 10, tags=("a", "b")))
        header = store.header(digest)
        assert (header.digest, header.base, header.depth, header.live) == (digest, None, 0, 2)
        assert (header.atom_count, header.removed_count, header.molecule_count) == (2, 0, 0)
        assert header.metadata == {"why": "so"}
        assert store.has(digest)
        assert not store.has(NOWHERE)

    def test_the_same_context_twice_is_one(self, store):
        first = store.commit(Context(atoms=(plain(1), plain(2))))
        assert store.commit(Context(atoms=(plain(2), plain(1)))) == first
        child = store.commit(Context(first, (plain(3),)))
        assert store.commit(Context(first, (plain(3),))) == child

    def test_a_context_of_nothing_is_one(self, store):
        nothing = store.commit(Context())
        assert store.header(nothing).live == 0
        assert list(store.expand(nothing).entries) == []
        same = store.commit(Context(nothing))
        assert same != nothing
        assert store.header(same).depth == 1

    def test_what_is_not_here_is_said_to_be_missing(self, store):
        for ask in (store.context, store.header, store.expand):
            with pytest.raises(NotFoundError):
                ask(NOWHERE)
        assert store.missing([NOWHERE]) == [NOWHERE]
        digest = store.commit(root_of(1))
        assert store.missing([digest, NOWHERE]) == [NOWHERE]
        with pytest.raises(NotFoundError):
            list(store.objects([digest, NOWHERE]))

    # Meaning

    def test_a_removed_atom_is_gone_and_an_added_one_is_annotated_anew(self, store):
        root = store.commit(root_of(1, 2, 3))
        child = store.commit(Context(root, (plain(1, 900_000),), removed=(digest_of(2),)))
        expansion = store.expand(child)
        assert [(entry.atom, entry.origin) for entry in expansion.entries] == [
            (plain(1, 900_000), child),
            (plain(3, 3000), root),
        ]
        assert store.header(child).live == 2
        again = store.commit(Context(child, (plain(2, 5),)))
        assert contents(store.expand(again)) == ["atom 1", "atom 3", "atom 2"]
        assert contents(store.expand(root)) == ["atom 3", "atom 2", "atom 1"]

    def test_the_order_is_relevance_then_newer_then_digest(self, store):
        atoms = [plain(number, relevance, time_ms=time) for number, relevance, time in
                 [(1, 5, 0), (2, 5, 0), (3, 5, 9), (4, 6, -9), (5, 0, 99)]]  # fmt: skip
        expansion = store.expand(store.commit(Context(atoms=tuple(atoms))))
        ties = sorted([digest_of(1), digest_of(2)])
        assert [entry.digest for entry in expansion.entries] == [digest_of(4), digest_of(3), *ties, digest_of(5)]

    def test_likeness_merges_nothing(self, store):
        alike = [Atom("x" * 100 + "a"), Atom("x" * 100 + "b")]
        colliding = [Atom("24d6a28bf2f2f216"), Atom("873949c414909b65")]
        typed = [Atom("7", "Int"), Atom("7", "String")]
        digest = store.commit(Context(atoms=(*alike, *colliding, *typed)))
        assert len(store.expand(digest).entries) == 6
        assert store.header(digest).live == 6

    def test_deltas_that_differ_in_removals_only_are_two(self, store):
        root = store.commit(root_of(1, 2))
        one = store.commit(Context(root, removed=(digest_of(1),)))
        other = store.commit(Context(root, removed=(digest_of(2),)))
        assert one != other
        assert contents(store.expand(one)) == ["atom 2"]
        assert contents(store.expand(other)) == ["atom 1"]

    def test_a_molecule_loses_a_removed_atom_or_is_reported(self, store):
        a, b, c = digest_of(1), digest_of(2), digest_of(3)
        tied = Molecule((a, b), {"because": ((0, 1),)})
        loose = Molecule((a, b, c), {"because": ((0, 2),)})
        root = store.commit(Context(atoms=(plain(1), plain(2), plain(3)), molecules=(tied, loose)))
        child = store.commit(Context(root, removed=(b,)))
        expansion = store.expand(child)
        assert expansion.molecules == (Molecule((a, c), {"because": ((0, 1),)}),)
        assert [(report.digest, report.atoms) for report in expansion.broken] == [(molecule_digest(tied), (b,))]
        back = store.commit(Context(child, (plain(2),)))
        assert store.expand(back).molecules == expansion.molecules
        last = store.commit(Context(back, removed=(molecule_digest(expansion.molecules[0]), molecule_digest(tied))))
        assert store.expand(last)[2:] == ((), ())
        assert store.expand(root).broken == ()

    def test_what_was_merged_counts_as_below(self, store):
        root = store.commit(root_of(1))
        left = store.commit(Context(root, (plain(2),)))
        far = store.commit(Context(store.commit(Context(root, (plain(3),))), (plain(4),)))
        both = store.commit(Context(left, (plain(3), plain(4)), merged=(far,)))
        header = store.header(both)
        assert (header.depth, header.live, header.merged) == (3, 4, (far,))
        store.set_ref("main", far)
        store.set_ref("main", both)

    def test_a_large_context_is_kept_whole(self, store):
        atoms = tuple(plain(number, number % 1000, source=f"f{number}") for number in range(3000))
        root = store.commit(Context(atoms=atoms))
        gone = tuple(digest_of(number) for number in range(0, 3000, 2))
        child = store.commit(Context(root, tuple(plain(number, 7) for number in range(1, 2000, 2)), removed=gone))
        model = Model()
        model.apply(store.context(root), root)
        model.assert_equal(store.expand(root))
        model.apply(store.context(child), child)
        model.assert_equal(store.expand(child))
        assert store.header(child).live == 1500
        small = store.commit(Context(child, (plain(5000), plain(1, 8)), removed=(digest_of(3),)))
        assert store.header(small).live == 1500

    def test_long_contents_come_back(self, store):
        atoms = (Atom("ä" * 40_000), Atom("🚢" * 3000, relevance=1), Atom("short", relevance=2))
        digest = store.commit(Context(atoms=atoms))
        assert {entry.atom.content for entry in store.expand(digest).entries} == {atom.content for atom in atoms}

    # Refused on entry

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"base": NOWHERE}, "base"),
            ({"merged": (NOWHERE,)}, "merged[0]"),
            ({"removed": (digest_of(1), NOWHERE)}, "removed[1]"),
            ({"molecules": (Molecule((digest_of(1), digest_of(9))),)}, "molecules[0].atoms[1]"),
            ({"molecules": (Molecule((digest_of(2),)),), "removed": (digest_of(2),)}, "molecules[0].atoms[0]"),
            ({"atoms": (plain(7), plain(8), plain(7, 3))}, "atoms[2]"),
            ({"atoms": (plain(7, 1_000_001),)}, "atoms[0].relevance"),
            ({"atoms": (plain(7, float("nan")),)}, "atoms[0].relevance"),
            ({"atoms": (plain(7, time_ms=1.5),)}, "atoms[0].time_ms"),
            ({"atoms": (Atom("x", "No[thing"),)}, "atoms[0].type"),
            ({"removed": (b"short",)}, "removed[0]"),
            ({"metadata": {"x": 1.5}}, "metadata"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_what_is_not_true_is_refused_by_field(self, store, change, field):
        root = store.commit(root_of(1, 2))
        refused = Context(**({"base": root, "atoms": (), "metadata": {"who": "nobody"}} | change))
        with pytest.raises(UsageError) as caught:
            store.commit(refused)
        assert field in str(caught.value)
        try:
            would_be = [record.encode(refused, depth=1, live=live).digest for live in range(6)]
        except PeriplusError:
            would_be = []  # it has no record at all
        assert store.missing(would_be) == would_be
        assert store.refs() == {}

    def test_what_was_removed_cannot_be_removed_again(self, store):
        root = store.commit(root_of(1, 2))
        child = store.commit(Context(root, removed=(digest_of(1),)))
        with pytest.raises(UsageError, match=r"removed\[0\]"):
            store.commit(Context(child, removed=(digest_of(1),)))

    # History

    def test_lookups_say_what_the_expansion_says(self, store):
        tied = Molecule((digest_of(1), digest_of(2)), {"after": ((0, 1),)})
        head = store.commit(Context(None, tuple(map(plain, range(8))), (tied, Molecule((digest_of(3),)))))
        for number in range(6):
            changed = (plain(number + 8), plain(number + 1, 1_000 + number))
            head = store.commit(Context(head, changed, (), (digest_of(7),) if number == 3 else ()))
            expansion = store.expand(head)
            wanted = [digest_of(each) for each in range(0, 16, 2)]
            assert find(store, head, wanted) == {
                each.digest: each for each in expansion.entries if each.digest in wanted
            }
            assert find(store, head, [digest_of(7), NOWHERE]).keys() == ({digest_of(7)} if number < 3 else set())
            assert molecule_table(store, head).molecules() == tuple(expansion.molecules)

    def test_lines_are_merged_compared_and_looked_back_on(self, store):
        root = store.commit(root_of(1, 2, 3))
        ours = store.commit(Context(root, (plain(4),), (), (digest_of(1),), {"author": "ann", "message": "wrong"}))
        theirs = store.commit(Context(root, (plain(1, 9), plain(5, source="a.py#1")), metadata={"message": "seen"}))
        assert common_bases(store, ours, theirs) == (root,)
        (conflict,) = merge(store, ours, theirs).conflicts
        assert (conflict.ours.commit_info.author, conflict.theirs.atom) == ("ann", plain(1, 9))
        head = store.commit(merge(store, ours, theirs, favour="theirs").context)
        assert contents(store.expand(head)) == contents(
            store.expand(store.commit(merge(store, theirs, ours, favour="ours").context))
        )
        assert [entry.atom.content for entry in diff(store, ours, head).added] == ["atom 5", "atom 1"]
        assert next(log(store, head)).header.digest == head
        events = blame(store, head, digest_of(5)).events
        assert [(event.kind, event.commit_info.context) for event in events] == [("merged", head), ("brought", theirs)]
        assert events[-1].atom.source == "a.py#1"
        assert bisect(store, head, has_atom(store, digest_of(4))).first.message == "wrong"
        assert bisect(store, head, has_text(store, "ATOM 5")).first.context == head
        assert merge(store, head, theirs).outcome == "already"
        store.set_ref("main", root)
        store.set_ref("main", theirs)
        store.set_ref("main", head)  # forward, by way of what was merged

    # Refs

    def test_refs_go_forward(self, store):
        one = store.commit(root_of(1))
        two = store.commit(Context(one, (plain(2),)))
        aside = store.commit(Context(one, (plain(3),)))
        assert store.refs() == {}
        store.set_ref("main", one)
        store.set_ref("work/a", one)
        store.set_ref("main", two)
        assert list(store.refs().items()) == [("main", two), ("work/a", one)]
        with pytest.raises(ConflictError):
            store.set_ref("main", aside)
        with pytest.raises(ConflictError):
            store.set_ref("main", one)
        assert store.refs()["main"] == two
        store.set_ref("main", aside, force=True)
        assert store.refs()["main"] == aside
        store.set_ref("main", aside)
        store.set_ref("main", None)
        assert store.refs() == {"work/a": one}

    def test_a_ref_moves_only_from_where_it_is_expected(self, store):
        one = store.commit(root_of(1))
        two = store.commit(Context(one, (plain(2),)))
        with pytest.raises(ConflictError):
            store.set_ref("main", one, expected=two)
        store.set_ref("main", one, expected=None)
        with pytest.raises(ConflictError):
            store.set_ref("main", two, expected=None)
        with pytest.raises(ConflictError):
            store.set_ref("main", two, expected=two, force=True)
        store.set_ref("main", two, expected=one)
        with pytest.raises(ConflictError):
            store.set_ref("main", None, expected=one)
        store.set_ref("main", None, expected=two)
        assert store.refs() == {}

    def test_a_ref_stands_for_what_is_here(self, store):
        with pytest.raises(NotFoundError):
            store.set_ref("main", NOWHERE)
        assert store.refs() == {}

    @pytest.mark.parametrize(
        "name",
        ["", ".", "..", "a/../b", "/a", "a/", "a//b", ".hidden", "-x", "a b", "a\n", "ä", "a.lock", "x" * 201, "a\0b",
         "0123456789abcdef", "ab" * 32, "a\\b", "a:b", "~a", "a..b"],
    )  # fmt: skip
    def test_a_ref_has_a_plain_name(self, store, name):
        digest = store.commit(root_of(1))
        with pytest.raises(UsageError):
            store.set_ref(name, digest)
        assert store.refs() == {}

    def test_names_that_a_file_system_may_mix_up_are_kept_apart(self, store):
        one, two = store.commit(root_of(1)), store.commit(root_of(2))
        names = {"main": one, "Main": two, "main/x": two, "a@b+c=d": one, "x" * 200: two, "a-b": one, "a/b": two}
        for name, target in names.items():
            store.set_ref(name, target)
        assert list(store.refs().items()) == sorted(names.items())

    # Objects

    def test_the_objects_of_a_context_make_it_elsewhere(self, store, tmp_path):
        base = store.commit(Context(atoms=tuple(plain(n) for n in range(600)), molecules=(Molecule((digest_of(3),)),)))
        head = store.commit(Context(base, (Atom("long " * 3000),), removed=(digest_of(1),)))
        found: dict[bytes, bytes] = {}
        waiting = [head]
        while waiting:
            for digest, data in list(store.objects(waiting)):
                assert store.missing([digest]) == []
                found[digest] = data
            waiting = [child for one in waiting for child in record.children_of(found[one]) if child not in found]
        from periplus.context.stores.memory_store import MemoryStore

        other = MemoryStore()
        for data in found.values():
            other.source.put(data)
        assert other.has(head)
        other.admit(head)
        assert other.expand(head) == store.expand(head)
        lacking = MemoryStore()
        for digest, data in found.items():
            if digest != base:
                lacking.source.put(data)
        assert not lacking.has(head)
        with pytest.raises(NotFoundError):
            lacking.set_ref("main", head)

    # Random histories

    def test_a_stream_is_the_expansion_in_chunks_that_prove_themselves(self, store):
        root = store.commit(Context(atoms=tuple(plain(number, 1000 * number) for number in range(300))))
        changes = tuple(plain(number, 999_999 - number) for number in range(40, 60))
        digest = store.commit(Context(root, changes, removed=(digest_of(3), digest_of(299))))
        entries = tuple(store.expand(digest).entries)
        limits = ChunkLimits(atoms=16)
        for prove in (False, True):
            stream = store.stream(digest, limits=limits, prove=prove)
            chunks = list(stream)
            assert tuple(entry for chunk in chunks for entry in chunk.entries) == entries
            assert [chunk.is_final for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
            assert max(len(chunk.entries) for chunk in chunks) == 16
            end = stream.end
            assert (end.atoms, end.chunks, end.tokens) == (298, len(chunks), chunks[-1].cumulative_tokens)
            again = store.stream(digest, limits=limits, prove=prove, resume=2)
            assert next(again) == chunks[2]
            again.close()
        verifier = ChunkVerifier(digest, limits)
        for chunk in chunks:
            verifier.feed(chunk)
        verifier.finish(end)

    def test_random_histories_come_to_what_the_plain_model_says(self):
        @settings(max_examples=self.EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.data())
        def run(data):
            with tempfile.TemporaryDirectory() as folder:
                store = self.make_store(Path(folder))
                try:
                    heads = [(None, Model())]
                    for _ in range(data.draw(st.integers(1, 8))):
                        base, model = data.draw(st.sampled_from(heads[-3:]))
                        context = data.draw(deltas(model, base))
                        digest = store.commit(context)
                        after = Model()
                        after.atoms, after.molecules = dict(model.atoms), dict(model.molecules)
                        after.apply(context, digest)
                        assert store.header(digest).live == len(after.atoms)
                        heads.append((digest, after))
                    for digest, model in heads[1:]:
                        model.assert_equal(store.expand(digest))
                finally:
                    store.close()

        run()
