"""log, blame, bisect and diff: on small histories by hand, and on long ones by what they read."""

from __future__ import annotations

from hashlib import sha256
from itertools import islice

import msgspec
import pytest

from periplus.base.errors import NotFoundError, UsageError
from periplus.context.deltas import atom_lookup
from periplus.context.deltas.comparison import diff
from periplus.context.deltas.log import (
    Bisection,
    begin_bisection,
    bisect,
    blame,
    commit_info,
    has_atom,
    has_text,
    log,
)
from periplus.context.deltas.merge import merge
from periplus.context.model import Atom, Context, ContextHeader, Entry, Expansion, Molecule, atom_digest
from periplus.context.stores.memory_store import MemoryStore

pytestmark = pytest.mark.quick

LENGTH = 100_000


def identity(content):
    return atom_digest(Atom(content))


class LongChain:
    """A chain of LENGTH deltas, each of one atom, made as it is asked for; counts what is read and never expands."""

    def __init__(self, can_find=True):
        self.headers = self.contexts = self.expansions = 0
        if can_find:
            self.find, self.molecule_table = self._find, lambda digest: atom_lookup.MoleculeTable()

    @staticmethod
    def digest(number):
        return sha256(b"context").digest()[:24] + number.to_bytes(8, "big")

    def number(self, digest):
        return int.from_bytes(digest[24:], "big")

    def header(self, digest):
        self.headers += 1
        number = self.number(digest)
        base = self.digest(number - 1) if number else None
        return ContextHeader(digest, base, (), number, number + 1, 1, 0, 0, bytes(32), {"message": f"delta {number}"})

    def context(self, digest):
        self.contexts += 1
        number = self.number(digest)
        return Context(self.header(digest).base, (Atom(f"atom {number}"),))

    def expand(self, digest):
        self.expansions += 1
        entries = [self._entry(number) for number in range(self.number(digest) + 1)]
        return Expansion(digest, entries)

    def _entry(self, number):
        atom = Atom(f"atom {number}")
        return Entry(atom_digest(atom), atom, self.digest(number))

    def _find(self, digest, identities):
        found = {}
        for each in identities:
            for number in (0, 1, 70_000, LENGTH - 1):
                if each == identity(f"atom {number}") and number <= self.number(digest):
                    found[each] = self._entry(number)
        return found


HEAD = LongChain.digest(LENGTH - 1)


# --- log ---


@pytest.fixture
def lines():
    """root · one · merge(two) on a side line, with who, when and why."""
    store = MemoryStore()

    def commit(base, *atoms, gone=(), **metadata):
        return store.commit(Context(base, atoms, (), tuple(map(identity, gone)), metadata))

    root = commit(None, Atom("a", source="notes.md:1"), message="begin", author="ann", time_ms=1)
    one = commit(root, Atom("a", relevance=9, source="notes.md:1"), message="surer", author="bob", time_ms=2)
    two = commit(root, Atom("b", source="trail:7"), message="from a run", author="cat", time_ms=3)
    done = merge(store, one, two, metadata={"message": "together", "author": "ann", "time_ms": 4})
    return store, root, one, two, store.commit(done.context)


def test_a_log_shows_merges_and_what_they_took_in_or_the_chain_alone(lines):
    store, root, one, two, merged = lines
    walked = list(log(store, merged))
    assert [each.commit_info.message for each in walked[:1]] == ["together"]
    assert {each.header.digest for each in walked[1:3]} == {one, two}
    assert walked[3].commit_info == (root, "begin", "ann", 1)
    assert [each.is_merge for each in walked] == [True, False, False, False]
    assert [each.header.digest for each in log(store, merged, first_parent=True)] == [merged, one, root]
    assert list(log(store, merged, limit=0)) == []


def test_what_metadata_do_not_say_is_empty():
    header = LongChain().header(HEAD)
    odd = {"message": ["not text"], "author": 7, "time_ms": True}
    assert commit_info(msgspec.structs.replace(header, metadata=odd)) == (HEAD, "", "", None)
    assert commit_info(msgspec.structs.replace(header, metadata={})) == (HEAD, "", "", None)


@pytest.mark.slow
def test_of_a_long_log_no_more_is_read_than_was_asked_for():
    store = LongChain()
    assert [each.commit_info.message for each in log(store, HEAD, limit=3)] == [
        "delta 99999",
        "delta 99998",
        "delta 99997",
    ]
    assert store.headers < 10
    assert sum(1 for _ in log(store, HEAD)) == LENGTH
    walk = log(store, HEAD)
    assert len(list(islice(walk, 2))) == 2
    assert (store.contexts, store.expansions) == (0, 0)


# --- blame ---


def test_blame_says_which_delta_why_and_from_where(lines):
    store, root, one, two, merged = lines
    blamed = blame(store, merged, identity("a"))
    assert [(event.kind, event.commit_info.context, event.commit_info.message) for event in blamed.events] == [
        ("annotated", one, "surer"),
        ("brought", root, "begin"),
    ]
    assert blamed.events[0].fields == ("relevance",)
    assert blamed.events[1].atom.source == "notes.md:1"
    assert blamed.entry.origin == one
    blamed = blame(store, merged, identity("b"))
    assert [(event.kind, event.commit_info.context) for event in blamed.events] == [
        ("merged", merged),
        ("brought", two),
    ]
    assert blamed.events[1].atom.source == "trail:7"


def test_blame_says_who_removed_it_and_what_was_never_there_is_not_found(lines):
    store, root, one, _, _ = lines
    gone = store.commit(Context(one, removed=(identity("a"),), metadata={"message": "wrong after all"}))
    later = store.commit(Context(gone, (Atom("c"),)))
    blamed = blame(store, later, identity("a"))
    assert blamed.entry is None
    assert [event.kind for event in blamed.events] == ["removed", "annotated", "brought"]
    assert blamed.events[0].commit_info.message == "wrong after all"
    back = store.commit(Context(later, (Atom("a"),)))
    assert [event.kind for event in blame(store, back, identity("a")).events] == ["brought"]
    with pytest.raises(NotFoundError, match="never had atom"):
        blame(store, root, identity("nowhere"))


def test_blame_on_a_long_chain_reads_what_it_says():
    store = LongChain()
    (event,) = blame(store, HEAD, identity("atom 70000")).events
    assert (event.kind, event.commit_info.message) == ("brought", "delta 70000")
    assert store.headers < 10
    assert (store.contexts, store.expansions) == (0, 0)


@pytest.mark.slow
def test_a_store_that_cannot_look_up_is_walked_a_while_and_then_expanded_once():
    near = LongChain(can_find=False)
    assert atom_lookup.find(near, HEAD, [identity(f"atom {LENGTH - 9}")])[identity(f"atom {LENGTH - 9}")].origin == (
        LongChain.digest(LENGTH - 9)
    )
    assert (near.contexts, near.expansions) == (9, 0)
    far = LongChain(can_find=False)
    found = atom_lookup.find(far, HEAD, [identity("atom 1"), identity(f"atom {LENGTH - 1}"), identity("nowhere")])
    assert sorted(entry.atom.content for entry in found.values()) == ["atom 1", f"atom {LENGTH - 1}"]
    assert (far.contexts, far.expansions) == (atom_lookup.WALKED_CONTEXTS_MAX, 1)


# --- bisect ---


def test_when_did_we_begin_to_believe_this_is_found_in_few_steps():
    store = LongChain()
    found = bisect(store, HEAD, has_atom(store, identity("atom 70000")))
    assert found.first.message == "delta 70000"
    assert found.before == LongChain.digest(69_999)
    assert found.asked <= 18
    assert bisect(store, HEAD, has_atom(store, identity("atom 0"))).before is None
    assert bisect(store, HEAD, has_atom(store, identity("nowhere"))) is None
    assert (store.contexts, store.expansions) == (0, 0)


@pytest.mark.parametrize("first", [0, 1, 2, 9, 30, 31])
def test_a_search_step_by_step_survives_between_commands(first):
    store = LongChain()
    head = LongChain.digest(31)
    search = begin_bisection(store, head)
    while (context := search.next(store)) is not None:
        search = search.told(context, holds=store.number(context) >= first)
        search = msgspec.msgpack.decode(msgspec.msgpack.encode(search), type=Bisection)
    assert store.number(search.holds) == first
    assert search.asked <= 5
    found = bisect(store, head, lambda context: store.number(context) >= first)
    assert (found.first.context, found.before) == (search.holds, search.lacks)


def test_a_search_between_two_ends_of_one_chain(lines):
    store = LongChain()
    lacks = LongChain.digest(90_000)
    found = bisect(store, HEAD, lambda context: store.number(context) >= 95_000, lacks=lacks)
    assert store.number(found.first.context) == 95_000
    for wrong in (LongChain.digest(LENGTH), HEAD):
        with pytest.raises(UsageError, match=r"^lacks: "):
            begin_bisection(store, HEAD, lacks=wrong)
    memory, _, one, two, _ = lines
    with pytest.raises(UsageError, match="is not among the bases"):
        begin_bisection(memory, one, lacks=two)


def test_a_text_is_found_whatever_its_case(lines):
    store, root, one, two, merged = lines
    assert bisect(store, merged, has_text(store, "B")).first.context == merged
    assert bisect(store, two, has_text(store, "b")).first.context == two
    assert bisect(store, merged, has_text(store, "A")).first.context == root
    assert bisect(store, one, has_text(store, "b")) is None


# --- diff ---


def test_a_difference_names_fields_origins_and_molecules(lines):
    store, root, one, two, merged = lines
    found = diff(store, root, merged)
    assert [entry.atom.content for entry in found.added] == ["b"]
    (changed,) = found.reannotated
    assert (changed.fields, changed.before.origin, changed.after.origin) == (("relevance",), root, one)
    assert diff(store, merged, merged).is_empty
    back = diff(store, merged, root)
    assert [entry.atom.content for entry in back.removed] == ["b"]
    pair = Molecule((identity("a"), identity("b")), {"after": ((0, 1),)})
    tied = store.commit(Context(merged, molecules=(pair,)))
    assert diff(store, merged, tied).molecules_added == (pair,)
    broken = store.commit(Context(tied, removed=(identity("b"),)))
    found = diff(store, tied, broken)
    assert (found.molecules_removed, [report.atoms for report in found.broken]) == ((pair,), [(identity("b"),)])
    assert {entry.atom.content for entry in diff(store, None, merged).added} == {"a", "b"}
    assert diff(store, one, two).removed == ()


def test_near_contexts_of_a_long_chain_are_compared_by_what_lies_between():
    store = LongChain(can_find=False)
    found = diff(store, LongChain.digest(LENGTH - 6), HEAD)
    assert len(found.added) == 5
    found = diff(store, HEAD, LongChain.digest(LENGTH - 6))
    assert len(found.removed) == 5
    assert store.contexts == 10
    assert store.expansions == 0
    assert store.headers < 60


def test_far_contexts_are_compared_by_their_expansions():
    store = LongChain()
    found = diff(store, LongChain.digest(1_000), LongChain.digest(3_000))
    assert [entry.origin for entry in found.added] == [entry.origin for entry in sorted_by_order(store, 1_001, 3_001)]
    assert (store.contexts, store.expansions) == (0, 2)


def sorted_by_order(store, start, end):
    return sorted((store._entry(number) for number in range(start, end)), key=lambda entry: entry.digest)


def test_on_a_real_store_long_enough_to_have_snapshots_lookups_agree_with_expansions():
    store = MemoryStore()
    heads, base = [], None
    with store.batch():
        for number in range(450):
            gone = (identity(f"atom {number - 40}"),) if number % 3 == 0 and number > 40 else ()
            atoms = (Atom(f"atom {number}"), Atom(f"atom {number // 2}", relevance=number))[: 1 + (number > 0)]
            if number > 0 and gone and identity(f"atom {number // 2}") in gone:
                gone = ()
            live = store.find(base, gone) if gone else {}
            base = store.commit(Context(base, atoms, removed=tuple(live)))
            heads.append(base)
    wanted = [identity(f"atom {number}") for number in range(0, 500, 7)]
    for head in heads[:: len(heads) // 12]:
        expected = {entry.digest: entry for entry in store.expand(head).entries}
        assert store.find(head, wanted) == {each: expected[each] for each in wanted if each in expected}
        assert len(expected) == store.header(head).live
