"""Merging two lines of contexts: what stays, what is settled, what is asked, and what is read for it."""

from __future__ import annotations

import pytest

from periplus.base.errors import UsageError
from periplus.context.deltas.ancestry import CONTEXT_WEIGHT
from periplus.context.deltas.comparison import WALKED_WEIGHT_MIN
from periplus.context.deltas.merge import CROSSINGS_MAX, merge
from periplus.context.model import TAGS_MAX, Atom, Context, Molecule, atom_digest, molecule_digest
from periplus.context.stores.memory_store import MemoryStore


def atom(content, **fields):
    return Atom(content, **fields)


def identity(content):
    return atom_digest(Atom(content))


def contents(store, digest):
    return {entry.atom.content for entry in store.expand(digest).entries}


class Line:
    """A store and a head on it."""

    def __init__(self, store, head=None):
        self.store, self.head = store, head

    def fork(self):
        return Line(self.store, self.head)

    def add(self, *atoms, gone=(), molecules=(), **metadata):
        removed = tuple(identity(each) if isinstance(each, str) else each for each in gone)
        self.head = self.store.commit(Context(self.head, tuple(atoms), tuple(molecules), removed, metadata))
        return self

    def take(self, other, **options):
        done = merge(self.store, self.head, other.head, **options)
        assert done.outcome in ("merged", "already", "fast-forward"), done
        self.head = done.head or self.store.commit(done.context)
        return done

    def has(self):
        return contents(self.store, self.head)

    def annotation(self, content):
        return next(entry.atom for entry in self.store.expand(self.head).entries if entry.atom.content == content)


@pytest.fixture
def trunk():
    return Line(MemoryStore()).add(atom("kept"), atom("a"), atom("b"), author="ann", time_ms=1)


def test_additions_of_both_stay_and_what_one_removed_and_the_other_left_alone_is_gone(trunk):
    ours = trunk.fork().add(atom("ours"), gone=["a"])
    theirs = trunk.fork().add(atom("theirs")).add(gone=["b"])
    done = ours.take(theirs, metadata={"message": "together"})
    assert done.outcome == "merged"
    assert done.bases == (trunk.head,)
    assert ours.has() == {"kept", "ours", "theirs"}
    header = ours.store.header(ours.head)
    assert (header.merged, header.metadata) == ((theirs.head,), {"message": "together"})
    assert (header.atom_count, header.removed_count) == (1, 1)  # no more than leads from ours to the result
    assert ours.take(theirs).outcome == "already"
    assert theirs.take(ours).outcome == "fast-forward"
    assert theirs.head == ours.head


def test_a_fast_forward_can_be_refused_for_a_merge_that_shows(trunk):
    theirs = trunk.fork().add(atom("theirs"))
    done = merge(trunk.store, trunk.head, theirs.head, fast_forward=False)
    assert done.outcome == "merged"
    assert done.context.merged == (theirs.head,)
    assert contents(trunk.store, trunk.store.commit(done.context)) == theirs.has()


def test_a_removal_against_a_new_annotation_is_a_conflict_with_who_and_when_and_is_chosen(trunk):
    ours = trunk.fork().add(gone=["a"], author="ann", time_ms=10, message="wrong")
    theirs = trunk.fork().add(atom("a", relevance=900_000), author="bob", time_ms=20, message="sure of it")
    ours.add(atom("later"))
    done = merge(ours.store, ours.head, theirs.head)
    assert (done.outcome, done.context, done.head) == ("conflicts", None, None)
    (conflict,) = done.conflicts
    assert (conflict.digest, conflict.kind, conflict.base) == (identity("a"), "annotated", atom("a"))
    assert conflict.ours.atom is None
    assert conflict.ours.commit_info[1:] == ("wrong", "ann", 10)
    assert conflict.theirs.atom == atom("a", relevance=900_000)
    assert conflict.theirs.commit_info == (theirs.head, "sure of it", "bob", 20)
    for options, left in [
        ({"choose": {identity("a"): "ours"}}, None),
        ({"choose": {identity("a"): "theirs"}}, atom("a", relevance=900_000)),
        ({"favour": "ours"}, None),
        ({"favour": "theirs"}, atom("a", relevance=900_000)),
        ({"favour": "theirs", "choose": {identity("a"): "ours"}}, None),
    ]:
        line = ours.fork()
        line.take(theirs, **options)
        assert line.has() == {"kept", "b", "later"} | ({"a"} if left else set())
        assert left is None or line.annotation("a") == left


def test_who_removed_it_is_known_however_long_ago_it_was(trunk):
    ours, theirs = trunk.fork().add(gone=["a"], author="ann"), trunk.fork().add(atom("a", relevance=1))
    with trunk.store.batch():
        for number in range(WALKED_WEIGHT_MIN // CONTEXT_WEIGHT):
            ours.add(atom("busy", relevance=number))
    (conflict,) = merge(trunk.store, ours.head, theirs.head).conflicts
    assert (conflict.ours.atom, conflict.ours.commit_info.author) == (None, "ann")
    assert conflict.theirs.commit_info.context == theirs.head


def test_what_was_chosen_once_is_not_asked_again(trunk):
    ours = trunk.fork().add(gone=["a"])
    theirs = trunk.fork().add(atom("a", relevance=1))
    ours.take(theirs, favour="ours")
    theirs.add(atom("more"))
    assert ours.take(theirs).bases == (theirs.store.header(theirs.head).base,)
    assert ours.has() == {"kept", "b", "more"}
    theirs.take(ours)
    assert theirs.has() == ours.has()


def test_there_must_be_something_to_choose(trunk):
    ours, theirs = trunk.fork().add(atom("ours")), trunk.fork().add(atom("theirs"))
    for nothing in ("ours", "a", "nowhere"):
        with pytest.raises(UsageError, match="choose: there is no conflict"):
            merge(trunk.store, ours.head, theirs.head, choose={identity(nothing): "ours"})


@pytest.mark.parametrize(
    ("ours", "theirs", "result", "fields"),
    [
        # one field each: both stand, nothing is settled
        ({"relevance": 7}, {"tags": ("x",)}, {"relevance": 7, "tags": ("x",)}, ()),
        ({"time_ms": 9, "source": "s"}, {"relevance": 7}, {"time_ms": 9, "source": "s", "relevance": 7}, ()),
        # tags one by one
        ({"tags": ("x",)}, {"tags": ("y", "z")}, {"tags": ("x", "y", "z")}, ()),
        # both changed when and from where: the later stands, whole, and its relevance with it
        (
            {"time_ms": 9, "source": "s", "relevance": 1},
            {"time_ms": 8, "source": "t", "relevance": 2},
            {"time_ms": 9, "source": "s", "relevance": 1},
            ("time_ms", "relevance", "source"),
        ),
        # at one time: the greater source; the same statement: the greater relevance
        ({"time_ms": 9, "source": "s"}, {"time_ms": 9, "source": "t"}, {"time_ms": 9, "source": "t"}, ("source",)),
        ({"relevance": 3}, {"relevance": 4}, {"relevance": 4}, ("relevance",)),
    ],
)
def test_both_annotated_it(trunk, ours, theirs, result, fields):
    one, other = trunk.fork().add(atom("a", **ours)), trunk.fork().add(atom("a", **theirs))
    done, mirrored = one.fork().take(other), other.fork().take(one)
    for each in (done, mirrored):
        assert tuple(name for settled in each.settled for name in settled.fields) == fields
    left, right = one.fork(), other.fork()
    left.take(other)
    right.take(one)
    assert left.annotation("a") == right.annotation("a") == atom("a", **result)
    if fields:
        chosen = one.fork()
        assert chosen.take(other, choose={identity("a"): "theirs"}).settled == ()
        assert chosen.annotation("a") == atom("a", **theirs)


def test_a_tag_that_one_side_took_away_stays_away_and_too_many_are_settled():
    trunk = Line(MemoryStore()).add(atom("a", tags=("old", "same")))
    ours, theirs = trunk.fork().add(atom("a", tags=("new", "same"))), trunk.fork().add(atom("a", tags=("old", "other")))
    ours.take(theirs)
    assert ours.annotation("a").tags == ("new", "other")
    one = tuple(sorted(f"a{number}" for number in range(TAGS_MAX)))
    ours = trunk.fork().add(atom("a", tags=one))
    theirs = trunk.fork().add(atom("a", tags=("b",)))
    (settled,) = ours.take(theirs).settled
    assert settled.fields == ("tags",)
    assert ours.annotation("a").tags == ("b",)


def test_lines_with_nothing_in_common_keep_all_of_both():
    store = MemoryStore()
    ours, theirs = Line(store).add(atom("a", tags=("x",))), Line(store).add(atom("a", tags=("y",)), atom("b"))
    assert ours.take(theirs).bases == ()
    assert ours.has() == {"a", "b"}
    assert ours.annotation("a").tags == ("x", "y")


# --- merges that cross ---


def crossed(ours, theirs):
    """Each takes in the other as it was."""
    before = ours.fork()
    ours.take(theirs, fast_forward=False)
    theirs.take(before, fast_forward=False)


def test_what_one_side_removed_after_merges_that_crossed_does_not_come_back(trunk):
    """With either base alone it would: one has not the atom, so ours seems never to have had it and theirs to have added it."""
    ours, theirs = trunk.fork().add(atom("ours")), trunk.fork().add(atom("theirs"))
    crossed(ours, theirs)
    ours.add(gone=["theirs"])
    theirs.add(gone=["ours"])
    done = merge(trunk.store, ours.head, theirs.head)
    assert len(done.bases) == 2
    mirrored = theirs.fork()
    mirrored.take(ours)
    ours.take(theirs)
    assert ours.has() == mirrored.has() == {"kept", "a", "b"}


def test_an_annotation_changed_after_merges_that_crossed_stands(trunk):
    ours, theirs = trunk.fork().add(atom("a", relevance=1)), trunk.fork().add(atom("b", relevance=2))
    crossed(ours, theirs)
    ours.add(atom("b", relevance=3))
    done = ours.take(theirs.add(atom("more")))
    assert done.settled == ()
    assert (ours.annotation("a").relevance, ours.annotation("b").relevance) == (1, 3)


def test_a_conflict_between_crossing_bases_leaves_the_atom_to_the_sides(trunk):
    ours, theirs = trunk.fork().add(gone=["a"]), trunk.fork().add(atom("a", relevance=1))
    was = ours.fork()
    ours.take(theirs, favour="ours")
    theirs.take(was, favour="theirs")
    assert len(merge(trunk.store, ours.head, theirs.head).bases) == 2
    ours.take(theirs)  # over a base that has it, ours removed it and theirs left it alone
    assert "a" not in ours.has()


def decided_apart(trunk):
    """Two lines that took each other in, of which one kept ``a`` and the other let it go."""
    ours, theirs = trunk.fork().add(gone=["a"]), trunk.fork().add(atom("a", relevance=1))
    was = ours.fork()
    ours.take(theirs, favour="theirs")
    theirs.take(was, favour="theirs")
    assert ("a" in ours.has(), "a" in theirs.has()) == (True, False)
    return ours, theirs


def test_what_crossing_sides_decided_differently_is_asked_from_either_side(trunk):
    ours, theirs = decided_apart(trunk)
    theirs.add(atom("more"))
    for left, right, keeper in ((ours, theirs, "ours"), (theirs, ours, "theirs")):
        done = merge(trunk.store, left.head, right.head)
        assert (done.outcome, len(done.bases)) == ("conflicts", 2)
        (conflict,) = done.conflicts
        assert (conflict.digest, conflict.kind) == (identity("a"), "decided")
        assert getattr(conflict, keeper).atom == atom("a", relevance=1)
        assert {conflict.ours.atom, conflict.theirs.atom} == {None, atom("a", relevance=1)}
        for choice in ("ours", "theirs"):
            line = left.fork()
            line.take(right, choose={identity("a"): choice})
            assert ("a" in line.has(), "more" in line.has()) == (choice == keeper, True)


def test_sides_that_decided_alike_are_not_asked_and_those_that_differ_again_are(trunk):
    ours, theirs = trunk.fork().add(gone=["a"]), trunk.fork().add(atom("a", relevance=1))
    was = ours.fork()
    ours.take(theirs, favour="theirs")
    theirs.take(was, favour="ours")
    ours.take(theirs)
    assert "a" in ours.has()
    ours, theirs = decided_apart(trunk)
    was = ours.fork()
    ours.take(theirs, favour="ours")
    theirs.take(was, favour="ours")  # at one moment: they still differ
    assert [one.kind for one in merge(trunk.store, ours.head, theirs.head).conflicts] == ["decided"]
    theirs.take(ours, choose={identity("a"): "theirs"})
    assert "a" in theirs.has()
    assert ours.take(theirs).outcome == "fast-forward"


def test_an_atom_that_one_of_crossing_sides_let_go_for_good_goes_where_the_other_did_not_choose(trunk):
    """What was in conflict between other atoms says nothing of this one."""
    ours, theirs = decided_apart(trunk)
    ours.add(gone=["b"])
    done = merge(trunk.store, ours.head, theirs.head, favour="ours")
    assert contents(trunk.store, trunk.store.commit(done.context)) == {"kept", "a"}


def test_many_crossings_are_merged_without_going_down_to_the_first(trunk):
    ours, theirs = trunk.fork(), trunk.fork()
    expected = {"kept", "a", "b"}
    for number in range(CROSSINGS_MAX + 4):
        ours.add(atom(f"ours {number}"))
        theirs.add(atom(f"theirs {number}"))
        crossed(ours, theirs)
        expected |= {f"ours {number}", f"theirs {number}"}
        if number % 5 == 0:
            ours.add(gone=[f"theirs {number}"])
            expected.remove(f"theirs {number}")
    ours.take(theirs)
    assert ours.has() == expected


def test_three_lines_that_all_took_in_each_other_have_three_bases(trunk):
    lines = [trunk.fork().add(atom(f"line {number}"), atom("a", tags=(f"{number}",))) for number in range(3)]
    heads = [line.fork() for line in lines]
    for line in lines:
        for other in heads:
            line.take(other)
    assert len(merge(trunk.store, lines[0].head, lines[1].head).bases) == 3
    lines[0].add(gone=["line 1", "line 2"])
    lines[1].add(gone=["line 0"])
    for ours, theirs in ((lines[0], lines[1]), (lines[1], lines[0])):
        merged = ours.fork()
        merged.take(theirs)
        assert merged.has() == {"kept", "a", "b"}
        assert merged.annotation("a").tags == ("0", "1", "2")


def test_lines_that_went_far_and_crossed_are_merged_as_near_ones(trunk):
    """More lies between than they stand for: expansions are compared, and still it is known who removed what."""
    tied = Molecule((identity("a"), identity("b")), {"after": ((0, 1),)})
    trunk.add(molecules=[tied])
    ours, theirs = trunk.fork().add(atom("ours")), trunk.fork().add(atom("theirs"), atom("kept", relevance=5))
    with trunk.store.batch():
        for number in range(WALKED_WEIGHT_MIN // CONTEXT_WEIGHT):
            ours.add(atom("busy", relevance=number))
    crossed(ours, theirs)
    ours.add(gone=["theirs", "kept"], author="ann")
    theirs.add(atom("kept", relevance=6), gone=["b"], author="bob")
    done = merge(trunk.store, ours.head, theirs.head)
    assert len(done.bases) == 2
    (conflict,) = done.conflicts
    assert (conflict.digest, conflict.ours.commit_info.author, conflict.theirs.commit_info.author) == (
        identity("kept"),
        "ann",
        "bob",
    )
    mirrored = theirs.fork()
    mirrored.take(ours, favour="ours")
    ours.take(theirs, favour="theirs")
    assert ours.has() == mirrored.has() == {"kept", "a", "ours", "busy"}
    assert ours.store.expand(ours.head).molecules == mirrored.store.expand(mirrored.head).molecules == ()


# --- molecules ---


def test_molecules_of_both_stay_and_a_removed_one_goes(trunk):
    pair, other = Molecule((identity("a"), identity("b"))), Molecule((identity("kept"),))
    trunk.add(molecules=[pair])
    ours = trunk.fork().add(molecules=[other])
    theirs = trunk.fork().add(gone=[molecule_digest(pair)])
    ours.take(theirs)
    assert ours.store.expand(ours.head).molecules == (other,)


def test_a_molecule_loses_what_either_side_removed(trunk):
    trunk.add(molecules=[Molecule((identity("kept"), identity("a"), identity("b")))])
    ours, theirs = trunk.fork().add(gone=["a"]), trunk.fork().add(gone=["b"])
    ours.take(theirs)
    assert ours.store.expand(ours.head).molecules == (Molecule((identity("kept"),)),)


def test_a_new_molecule_on_an_atom_that_the_other_removed_is_a_conflict(trunk):
    tied = Molecule((identity("a"), identity("b")), {"after": ((0, 1),)})
    ours = trunk.fork().add(gone=["a"], author="ann")
    theirs = trunk.fork().add(molecules=[tied], author="bob")
    (conflict,) = merge(trunk.store, ours.head, theirs.head).conflicts
    assert (conflict.digest, conflict.kind) == (identity("a"), "molecule")
    assert conflict.molecules == (molecule_digest(tied),)
    assert (conflict.ours.atom, conflict.ours.commit_info.author) == (None, "ann")
    assert conflict.theirs == (atom("a"), None)
    gone, stays = ours.fork(), ours.fork()
    gone.take(theirs, favour="ours")
    assert gone.has() == {"kept", "b"}
    assert gone.store.expand(gone.head).molecules == ()
    stays.take(theirs, choose={identity("a"): "theirs"})
    assert stays.has() == {"kept", "a", "b"}
    assert stays.store.expand(stays.head).molecules == (tied,)


def test_an_atom_that_is_chosen_to_stay_is_whole_again_in_the_molecules_of_the_base(trunk):
    tied = Molecule((identity("a"), identity("b")), {"after": ((0, 1),)})
    trunk.add(molecules=[tied])
    ours, theirs = trunk.fork().add(gone=["a"]), trunk.fork().add(atom("a", relevance=1))
    assert [report.digest for report in ours.store.expand(ours.head).broken] == [molecule_digest(tied)]
    ours.take(theirs, favour="theirs")
    expansion = ours.store.expand(ours.head)
    assert (expansion.molecules, expansion.broken) == ((tied,), ())


def test_a_molecule_that_a_removal_of_theirs_breaks_is_reported(trunk):
    tied = Molecule((identity("a"), identity("b")), {"after": ((0, 1),)})
    trunk.add(molecules=[tied])
    ours, theirs = trunk.fork().add(atom("ours")), trunk.fork().add(gone=["a"])
    ours.take(theirs)
    expansion = ours.store.expand(ours.head)
    assert (expansion.molecules, [report.digest for report in expansion.broken]) == ((), [molecule_digest(tied)])


# --- what it costs ---


class Counting:
    """A store that can be read, and says how much was."""

    def __init__(self, store):
        self._store = store
        self.read = 0

    def header(self, digest):
        return self._store.header(digest)

    def context(self, digest):
        self.read += self._store.header(digest).atom_count
        return self._store.context(digest)

    def expand(self, digest):
        raise AssertionError("the expansion is not needed")

    def find(self, digest, identities):
        return self._store.find(digest, identities)

    def molecule_table(self, digest):
        return self._store.molecule_table(digest)


@pytest.mark.slow
def test_near_contexts_over_a_large_base_are_merged_without_reading_it():
    store = MemoryStore()
    trunk = Line(store).add(*(atom(f"atom {number}") for number in range(20_000)))
    ours = trunk.fork().add(atom("atom 7", relevance=3)).add(atom("ours"), gone=["atom 8"])
    theirs = trunk.fork().add(atom("theirs"), gone=["atom 9"])
    counting = Counting(store)
    done = merge(counting, ours.head, theirs.head)
    assert done.outcome == "merged"
    assert counting.read < 10
    assert len(store.expand(store.commit(done.context)).entries) == 20_000
