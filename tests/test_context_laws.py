"""The laws of contexts on random histories: the store and all that is written on it, against plain dicts.

The model below holds an atom as its annotation by identity, and a molecule as its type, its atoms and triples (relation, atom, atom),
so that it shares neither code nor form with what it judges.
"""

from __future__ import annotations

import os
from itertools import combinations, pairwise

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from periplus.base.errors import ConflictError, NotFoundError, UsageError
from periplus.context.deltas.ancestry import common_bases, is_ancestor
from periplus.context.deltas.comparison import diff
from periplus.context.deltas.delta import ExpansionState, compose, compress
from periplus.context.deltas.log import bisect, blame, has_atom, has_text, log
from periplus.context.deltas.merge import merge
from periplus.context.deltas.molecule_table import without
from periplus.context.model import Atom, Context, Molecule, atom_digest, molecule_digest, order_key
from periplus.context.stores.library import ContextLibrary
from periplus.context.stores.memory_store import MemoryObjects, MemoryStore
from periplus.context.stores.refs import MemoryRefs

pytestmark = pytest.mark.quick

EXHAUSTIVE = bool(os.environ.get("PERIPLUS_EXHAUSTIVE"))
CONTENTS = "abcdef"
RELATIONS = ("after", "beside")


# --- the model ---


class Model:
    """What a context stands for."""

    def __init__(self, atoms=None, molecules=(), reports=()):
        self.atoms = dict(atoms or {})
        self.molecules = set(molecules)
        self.reports = set(reports)  # molecules that broke

    def copy(self):
        return Model(self.atoms, self.molecules, self.reports)

    def apply(self, atoms, molecules, removed):
        """``atoms``: values; ``molecules``: plain ones; ``removed``: identities of atoms, and plain molecules or reports of them."""
        gone = {each for each in removed if isinstance(each, bytes)}
        self.molecules -= set(removed)
        self.reports -= set(removed)
        for each in list(self.molecules):
            kind, members, names, triples = each
            if gone & set(members):
                self.molecules.remove(each)
                left = tuple(member for member in members if member not in gone)
                if left and not any(a in gone or b in gone for _, a, b in triples):
                    self.molecules.add((kind, left, names, triples))
                else:
                    self.reports.add(each)
        for each in gone:
            del self.atoms[each]
        for atom in atoms:
            self.atoms[atom_digest(atom)] = atom
        self.molecules |= set(molecules)
        self.reports -= self.molecules


def plain(molecule):
    triples = frozenset(
        (name, molecule.atoms[i], molecule.atoms[j]) for name, pairs in molecule.relations.items() for i, j in pairs
    )
    return (molecule.type, molecule.atoms, frozenset(molecule.relations), triples)


def real(molecule):
    kind, members, names, triples = molecule
    place = members.index
    relations = {name: tuple(sorted((place(a), place(b)) for n, a, b in triples if n == name)) for name in names}
    return Molecule(members, relations, kind)


def digest_of(molecule):
    return molecule_digest(real(molecule))


def same(expansion, model, *, reports=True):
    """Whether ``expansion`` is what the model says, order included."""
    assert [entry.digest for entry in expansion.entries] == sorted(
        model.atoms, key=lambda each: order_key(each, model.atoms[each])
    )
    assert {entry.digest: entry.atom for entry in expansion.entries} == model.atoms
    assert [molecule_digest(each) for each in expansion.molecules] == sorted(map(digest_of, model.molecules))
    if reports:
        assert [report.digest for report in expansion.broken] == sorted(map(digest_of, model.reports))
    return True


# --- deltas at random ---

ATOMS = st.builds(
    Atom,
    content=st.sampled_from(CONTENTS),
    type=st.just("String"),
    time_ms=st.integers(0, 2),
    relevance=st.integers(1, 3),
    source=st.sampled_from(["", "s"]),
    tags=st.lists(st.sampled_from("xyz"), max_size=2, unique=True).map(lambda tags: tuple(sorted(tags))),
)


@st.composite
def molecules_of(draw, identities):
    members = draw(st.lists(st.sampled_from(sorted(identities)), min_size=1, max_size=4, unique=True))
    pairs = st.tuples(st.sampled_from(RELATIONS), st.sampled_from(members), st.sampled_from(members))
    triples = draw(st.frozensets(pairs, max_size=2))
    names = frozenset(name for name, _, _ in triples) | draw(st.frozensets(st.sampled_from(RELATIONS), max_size=1))
    return (draw(st.sampled_from(["Molecule", "Chain"])), tuple(members), names, triples)


@st.composite
def deltas(draw, model, removals=True):
    """Atoms, molecules and removals that can be done to ``model``."""
    atoms = draw(st.lists(ATOMS, max_size=3, unique_by=lambda atom: atom.content))
    added = {atom_digest(atom) for atom in atoms}
    can_go = [each for each in sorted(model.atoms) if each not in added]
    can_go += sorted(model.molecules | model.reports, key=digest_of)
    removed = draw(st.lists(st.sampled_from(can_go), max_size=2, unique=True)) if can_go and removals else []
    live = (set(model.atoms) | added) - {each for each in removed if isinstance(each, bytes)}
    molecules = draw(st.lists(molecules_of(live), max_size=2, unique=True)) if live else []
    return atoms, [each for each in molecules if each not in removed], removed


def context_of(base, delta, **metadata):
    atoms, molecules, removed = delta
    gone = tuple(each if isinstance(each, bytes) else digest_of(each) for each in removed)
    return Context(base, tuple(atoms), tuple(map(real, molecules)), gone, metadata)


@st.composite
def chains(draw, least=1, most=5):
    """A store with a chain: its digests, and the model at each."""
    store = MemoryStore()
    digests, models = [], []
    model, base = Model(), None
    for number in range(draw(st.integers(least, most))):
        model = model.copy()
        delta = draw(deltas(model))
        model.apply(*delta)
        base = store.commit(context_of(base, delta, number=number))
        digests.append(base)
        models.append(model)
    return store, digests, models


def size_of(context):
    return len(context.atoms) + len(context.molecules) + len(context.removed)


LAWS = settings(max_examples=600 if EXHAUSTIVE else 25, deadline=None, suppress_health_check=list(HealthCheck))


class Bare:
    """No more of a store than is needed to compare contexts: it cannot look an atom up by itself."""

    def __init__(self, store):
        self.header, self.context, self.expand = store.header, store.context, store.expand


# --- laws of one line ---


@LAWS
@given(chains())
def test_expanding_is_applying_one_by_one_from_wherever_and_the_identity_changes_nothing(drawn):
    store, digests, models = drawn
    for digest, model in zip(digests, models, strict=True):
        same(store.expand(digest), model)
    followed = ExpansionState()
    for before, digest in zip([None, *digests], digests, strict=False):
        one = ExpansionState(before and store.expand(before))
        for standing in (one, followed):  # from the expansion before, and from nothing on
            standing.apply(store.context(digest), digest)
            found = standing.expansion(digest)
            assert found == store.expand(digest)._replace(entries=found.entries)
            assert list(found.entries) == list(store.expand(digest).entries)
    nothing = store.commit(Context(digests[-1]))
    assert nothing != digests[-1]
    same(store.expand(nothing), models[-1])


def test_of_deltas_that_are_large_and_hold_few_atoms_each_is_streamed_as_it_is():
    """The atoms of each lie within its record, on a page without a name of its own."""
    store = MemoryStore()
    base = store.commit(Context(atoms=tuple(Atom(f"atom {number}") for number in range(4_000))))
    for count in (1, 2, 3):
        gone = tuple(atom_digest(Atom(f"atom {number}")) for number in range(1_200 * count, 1_200 * count - 1_100, -1))
        new = tuple(Atom(f"new {count} {number} " + "words " * count) for number in range(count))
        base = store.commit(Context(base, new, (), gone))
        streamed = [entry for chunk in store.stream(base) for entry in chunk.entries]
        assert streamed == list(store.expand(base).entries)


@LAWS
@given(chains(most=6), st.data())
def test_one_composed_delta_does_what_several_do(drawn, data):
    store, digests, models = drawn
    start = data.draw(st.integers(-1, len(digests) - 1))
    base = None if start < 0 else store.expand(digests[start])
    deltas = [store.context(each) for each in digests[start + 1 :]]
    composed = compose(base, deltas)
    expansion = store.expand(store.commit(composed))
    same(expansion, models[-1], reports=False)
    # Of atoms it says no more than they do together. (Of molecules it may have to: an atom that goes and comes back breaks many.)
    before = {} if base is None else {entry.digest: entry.atom for entry in base.entries}
    said = len(composed.atoms) + sum(each in before for each in composed.removed)
    assert said <= sum(map(size_of, deltas))
    # What broke and was the base's is reported as before, where the atom that broke it is still gone; of what came and broke in between,
    # and of what broke by an atom that came back, one delta has nothing to report.
    gone = before.keys() - models[-1].atoms.keys()
    had = set() if base is None else {report.digest for report in base.broken}
    if base is not None:
        had |= {
            molecule_digest(each) for each in base.molecules if gone & set(each.atoms) and without(each, gone) is None
        }
    told = {digest_of(each) for each in models[-1].reports}
    assert {report.digest for report in expansion.broken} == told & had


def test_a_molecule_that_an_atom_broke_and_that_came_back_is_removed_and_not_reported():
    """One delta cannot say that an atom was gone for a while; it says what has to hold at its end."""
    store = MemoryStore()
    one, two = Atom("one"), Atom("two")
    pair = tuple(map(atom_digest, (one, two)))
    molecules = tuple(Molecule(pair, {name: ((0, 1),)}) for name in ("a", "b", "c"))
    base = store.commit(Context(None, (one, two), molecules))
    middle = store.commit(Context(base, removed=pair[:1]))
    end = store.commit(Context(middle, (one,)))
    assert len(store.expand(end).broken) == 3
    composed = compose(store.expand(base), [store.context(middle), store.context(end)])
    assert composed == Context(base, removed=tuple(sorted(map(molecule_digest, molecules))))
    expansion = store.expand(store.commit(composed))
    assert [entry.atom for entry in expansion.entries] == [entry.atom for entry in store.expand(end).entries]
    assert (expansion.molecules, expansion.broken) == ((), ())


@LAWS
@given(chains(least=2), st.data())
def test_composing_may_be_done_in_any_grouping(drawn, data):
    store, digests, _ = drawn
    deltas = [store.context(each) for each in digests]
    at = data.draw(st.integers(1, len(deltas) - 1))
    first = compose(None, deltas[:at])
    middle = store.expand(store.commit(first))
    rest = compose(store.expand(digests[at - 1]), deltas[at:])
    again = Context(middle.context, rest.atoms, rest.molecules, rest.removed)
    # the report of a molecule that came and broke within the first group is nothing that the second can end
    assume(not {r.digest for r in store.expand(digests[at - 1]).broken} - {r.digest for r in middle.broken})
    one, other = compose(None, [first, again]), compose(None, deltas)
    assert one == other


@LAWS
@given(chains(), st.data())
def test_compressing_gives_the_expansion_back_over_whatever_base(drawn, data):
    store, digests, models = drawn
    target = data.draw(st.integers(0, len(digests) - 1))
    start = data.draw(st.integers(-1, len(digests) - 1))
    base = None if start < 0 else store.expand(digests[start])
    merged = [each for each in digests[:1] if start > 0]
    delta = compress(store.expand(digests[target]), base, metadata={"squashed": True}, merged=merged)
    assert delta.merged == tuple(merged)
    same(store.expand(store.commit(delta)), models[target], reports=False)
    assert delta.metadata == {"squashed": True}
    if start == target:
        assert size_of(delta) == 0


def smaller_deltas(base, target, size):
    """Every delta over ``base`` with fewer than ``size`` words made of what either has, and of one annotation more."""
    words = [("gone", each) for each in base.atoms]
    words += [("gone", each) for each in base.molecules | base.reports]
    annotations = {*base.atoms.values(), *target.atoms.values(), Atom("a", relevance=9)}
    words += [("atom", atom) for atom in annotations]
    words += [("molecule", each) for each in base.molecules | target.molecules | target.reports]
    for count in range(size):
        for chosen in combinations(words, count):
            removed = [each for kind, each in chosen if kind == "gone"]
            atoms = [each for kind, each in chosen if kind == "atom"]
            molecules = [each for kind, each in chosen if kind == "molecule"]
            added = {atom_digest(atom) for atom in atoms}
            if len(added) == len(atoms) and not (added | set(molecules)) & set(removed):
                yield atoms, molecules, removed


@pytest.mark.slow
@settings(LAWS, max_examples=300 if EXHAUSTIVE else 20)
@given(st.data())
def test_no_smaller_delta_than_the_compressed_one_expands_to_the_same(data):
    base = Model()
    base.apply(*data.draw(deltas(base)))
    base.apply(*data.draw(deltas(base)))
    target = base.copy()
    for _ in range(2):
        target.apply(*data.draw(deltas(target)))
    store = MemoryStore()
    root = store.expand(store.commit(context_of(None, (base.atoms.values(), base.molecules, []))))
    base.reports = set()  # of which a root has none
    changed = base.copy()
    changed.apply(*difference(base, target))
    goal = store.expand(store.commit(context_of(None, (target.atoms.values(), target.molecules, []))))
    goal = goal._replace(broken=store.expand(store.commit(context_of(root.context, difference(base, target)))).broken)
    size = size_of(compress(goal, root))
    assume(size <= 5)
    for delta in smaller_deltas(base, target, size):
        tried = base.copy()
        tried.apply(*delta)
        assert (tried.atoms, tried.molecules, tried.reports) != (target.atoms, target.molecules, changed.reports), delta


def difference(base, target):
    """A delta that leads from one model to the other, not a small one: all molecules are said anew."""
    gone = [each for each in base.atoms if each not in target.atoms]
    gone += [each for each in base.molecules if each not in target.molecules]
    kept = base.copy()
    kept.apply([], [], gone)
    atoms = [atom for each, atom in target.atoms.items() if base.atoms.get(each) != atom]
    return atoms, [each for each in target.molecules if each not in kept.molecules], gone


def test_a_delta_that_cannot_be_applied_is_refused_by_field_and_nothing_is_composed():
    store = MemoryStore()
    atom = Atom("a")
    root = Context(atoms=(atom,))
    base = store.expand(store.commit(root))
    wrong = [
        (Context(b"x" * 32), "base"),
        (Context(base.context, removed=(b"x" * 32,)), "removed[0]"),
        (Context(base.context, removed=(atom_digest(atom),), atoms=(atom,)), "removed[0]"),
        (Context(base.context, atoms=(atom, atom)), "atoms"),
        (Context(base.context, molecules=(Molecule((b"x" * 32,)),)), "molecules[0].atoms[0]"),
    ]
    for delta, field in wrong:
        with pytest.raises(UsageError) as caught:
            compose(base, [delta])
        assert str(caught.value).startswith(field)


# --- laws of many lines ---


class Histories(RuleBasedStateMachine):
    """Commits, merges and refs at random; whatever the store and its tools say is what the dicts say."""

    @initialize(large=st.booleans())
    def begin(self, large):
        """With deltas that count as large from a weight of four, small stores do what large ones do."""
        self.store = ContextLibrary(MemoryObjects(), MemoryRefs(), large_weight=4) if large else MemoryStore()
        self.models = {}
        self.contexts = {}
        self.parents = {}
        self.refs = {}

    def pick(self, data):
        recent = list(self.models)[-6:]
        return data.draw(st.sampled_from(recent))

    def ancestors(self, digest):
        found, todo = set(), [digest]
        while todo:
            at = todo.pop()
            if at not in found:
                found.add(at)
                todo += self.parents[at]
        return found

    def keep(self, context, model):
        digest = self.store.commit(context)
        self.models[digest] = model
        self.contexts[digest] = context
        self.parents[digest] = [each for each in (context.base, *context.merged) if each]
        same(self.store.expand(digest), model)
        assert self.store.header(digest).live == len(model.atoms)
        return digest

    @rule(data=st.data(), root=st.integers(0, 9))
    def commit(self, data, root):
        base = self.pick(data) if self.models and root else None
        model = self.models[base].copy() if base else Model()
        delta = data.draw(deltas(model))
        model.apply(*delta)
        self.keep(context_of(base, delta, n=len(self.models)), model)

    @precondition(lambda self: len(self.models) > 1)
    @rule(data=st.data())
    def merge(self, data):
        ours, theirs = self.pick(data), self.pick(data)
        store = data.draw(st.sampled_from([self.store, Bare(self.store)]))
        first, other = merge(store, ours, theirs), merge(store, theirs, ours)
        assert first.bases == other.bases == common_bases(store, ours, theirs)
        if theirs in self.ancestors(ours):
            assert (first.outcome, first.head) == ("already", ours)
            return
        if ours in self.ancestors(theirs):
            assert (first.outcome, first.head) == ("fast-forward", theirs)
            return
        assert first.outcome == other.outcome
        choices = {}
        if first.conflicts:
            assert first.context is None
            for conflict, mirrored in zip(first.conflicts, other.conflicts, strict=True):
                assert mirrored == conflict._replace(ours=conflict.theirs, theirs=conflict.ours)
                assert conflict.ours.atom == self.models[ours].atoms.get(conflict.digest)
                assert conflict.theirs.atom == self.models[theirs].atoms.get(conflict.digest)
            choices = {each.digest: data.draw(st.sampled_from(["ours", "theirs"])) for each in first.conflicts}
        swapped = {each: "theirs" if choice == "ours" else "ours" for each, choice in choices.items()}
        first = merge(store, ours, theirs, choose=choices, metadata={"n": len(self.models)})
        other = merge(store, theirs, ours, choose=swapped)
        assert first.outcome == other.outcome == "merged"
        assert first.context.merged == (theirs,)
        self.check_merge(ours, theirs, first, choices)
        one, two = (self.store.expand(self.store.commit(each.context)) for each in (first, other))
        assert [(entry.digest, entry.atom) for entry in one.entries] == [
            (entry.digest, entry.atom) for entry in two.entries
        ]
        assert one.molecules == two.molecules
        model = self.models[ours].copy()
        plain_molecules = {digest_of(each): each for each in model.molecules | model.reports}
        removed = [plain_molecules.get(each, each) for each in first.context.removed]
        model.apply(first.context.atoms, map(plain, first.context.molecules), removed)
        self.keep(first.context, model)

    def check_merge(self, ours, theirs, done, choices):
        """Against the rules, where there is one base that is a context."""
        if len(done.bases) > 1:
            return
        empty = Model()
        base = self.models[done.bases[0]] if done.bases else empty
        mine, other = self.models[ours], self.models[theirs]
        result = mine.copy()
        known = {digest_of(each): each for each in mine.molecules | mine.reports}
        result.apply(
            done.context.atoms,
            map(plain, done.context.molecules),
            [known.get(each, each) for each in done.context.removed],
        )
        settled = {each.digest: each for each in done.settled}
        for each in base.atoms.keys() | mine.atoms.keys() | other.atoms.keys():
            b, o, t, r = (side.atoms.get(each) for side in (base, mine, other, result))
            if each in choices:
                assert r == (o if choices[each] == "ours" else t)
            elif o == t:
                assert r == o
            elif b in (o, t):
                assert r == (t if b == o else o)
            else:
                assert o is not None
                assert t is not None
                self.check_annotation(b, o, t, r, settled.get(each))
        for each in mine.molecules & other.molecules:
            assert each in result.molecules or not set(each[1]) <= set(result.atoms)
        for each in (mine.molecules | other.molecules) - base.molecules:
            if set(each[1]) <= set(result.atoms) and not base.molecules:
                assert each in result.molecules
        for each in result.molecules:
            assert set(each[1]) <= set(result.atoms)

    def check_annotation(self, base, ours, theirs, result, settled):
        assert (settled.atom if settled else result) == result
        clashing = set()
        for name in ("relevance", "statement", "tags"):
            b, o, t, r = (self.field(side, name) for side in (base, ours, theirs, result))
            if name == "tags":
                assert set(r) == {tag for tag in {*o, *t} if (tag in o and tag in t) or tag not in (b or ())}
            elif o == t or b in (o, t):
                assert r == (o if t in (o, b) else t)
            else:
                later = max([ours, theirs], key=lambda side: (self.field(side, "statement"), side.relevance))
                assert r == self.field(later, name)
                clashing |= {"time_ms", "source"} if name == "statement" else {"relevance"}
        told = set(settled.fields) if settled else set()
        assert told == {name for name in clashing if getattr(ours, name) != getattr(theirs, name)}

    @staticmethod
    def field(atom, name):
        if atom is None:
            return None
        return (atom.time_ms, atom.source) if name == "statement" else getattr(atom, name)

    @precondition(lambda self: self.models)
    @rule(data=st.data(), name=st.sampled_from(["main", "side"]), force=st.booleans())
    def move_ref(self, data, name, force):
        target = self.pick(data)
        stands = self.refs.get(name)
        if stands is not None and not force and stands not in self.ancestors(target):
            with pytest.raises(ConflictError):
                self.store.set_ref(name, target)
        else:
            self.store.set_ref(name, target, expected=stands, force=force)
            self.refs[name] = target
        assert self.store.refs() == dict(sorted(self.refs.items()))

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def compare(self, data):
        one, other = self.pick(data), self.pick(data)
        assert is_ancestor(self.store, one, other) == (one in self.ancestors(other))
        before, after = self.models[one], self.models[other]
        found = diff(data.draw(st.sampled_from([self.store, Bare(self.store)])), one, other)
        assert {entry.digest for entry in found.added} == after.atoms.keys() - before.atoms.keys()
        assert {entry.digest for entry in found.removed} == before.atoms.keys() - after.atoms.keys()
        both = before.atoms.keys() & after.atoms.keys()
        assert {each.digest for each in found.reannotated} == {
            each for each in both if before.atoms[each] != after.atoms[each]
        }
        origins = {entry.digest: entry for entry in self.store.expand(one).entries}
        news = {entry.digest: entry for entry in self.store.expand(other).entries}
        for entry in found.removed:
            assert entry == origins[entry.digest]
        for each in found.reannotated:
            assert (each.before, each.after) == (origins[each.digest], news[each.digest])
            assert each.fields
            for name in ("time_ms", "relevance", "source", "tags"):
                assert (name in each.fields) == (getattr(each.before.atom, name) != getattr(each.after.atom, name))
        assert set(map(plain, found.molecules_added)) == after.molecules - before.molecules
        assert set(map(plain, found.molecules_removed)) == before.molecules - after.molecules
        assert {report.digest for report in found.broken} == set(map(digest_of, after.reports - before.reports))

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def look_back(self, data):
        head = self.pick(data)
        walked = list(log(self.store, head))
        assert {each.header.digest for each in walked} == self.ancestors(head)
        places = {each.header.digest: place for place, each in enumerate(walked)}
        assert all(places[parent] > places[each] for each in places for parent in self.parents[each])
        assert list(log(self.store, head, limit=2)) == walked[:2]
        chain = [each.header.digest for each in log(self.store, head, first_parent=True)]
        digest = atom_digest(Atom(data.draw(st.sampled_from(CONTENTS))))
        has = [digest in self.models[each].atoms for each in chain]
        if not any(has):
            with pytest.raises(NotFoundError):
                blame(self.store, head, digest)
        else:
            blamed = blame(self.store, head, digest)
            assert blamed == blame(Bare(self.store), head, digest)
            self.check_blame(chain, has, blamed)
        found = bisect(self.store, head, has_atom(self.store, digest))
        content = next(each for each in CONTENTS if atom_digest(Atom(each)) == digest)
        assert found == bisect(self.store, head, has_text(self.store, content.upper()))
        assert (found is not None) == has[0]
        if found is not None:
            at = chain.index(found.first.context)
            assert has[at]
            assert at == len(chain) - 1 or not has[at + 1]
            assert found.asked <= len(chain).bit_length() + 1

    def check_blame(self, chain, has, blamed):
        digest = blamed.digest
        atoms = {each: self.models[each].atoms.get(digest) for each in chain}
        assert (blamed.entry.atom if blamed.entry else None) == atoms[chain[0]]
        events = list(blamed.events)
        if not has[0]:
            gone = events.pop(0)
            assert gone.kind == "removed"
            assert gone.commit_info.context == chain[has.index(True) - 1]
        assert events[-1].kind == "brought"
        assert [event.kind for event in events].count("brought") == 1
        for event in events:
            context = self.contexts[event.commit_info.context]
            assert event.atom in context.atoms
            assert event.kind != "merged" or context.merged
        # each one's change leads from the one before
        own = [event for event in events if event.kind != "merged"]
        for newer, older in pairwise(own):
            assert newer.kind == "annotated"
            for name in ("time_ms", "relevance", "source", "tags"):
                assert (name in newer.fields) == (getattr(newer.atom, name) != getattr(older.atom, name))


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=400 if EXHAUSTIVE else 40,
    stateful_step_count=40 if EXHAUSTIVE else 25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
