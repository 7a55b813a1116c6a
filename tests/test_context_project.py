"""Contexts in a project's store: the contract of all stores, refs as records, exchange, collection, damage, crashes."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
import zlib

import pytest

from context_contract import ContextContract
from periplus.base.clock import FixedClock, format_ms
from periplus.base.errors import ConflictError, NotFoundError, PeriplusError, RefusedError, UsageError
from periplus.context.deltas.delta import compress
from periplus.context.model import Atom, Context, Molecule, atom_digest
from periplus.context.records.record import children_of, encode, prepare
from periplus.context.remotes.local_peer import LocalPeer
from periplus.context.remotes.transfer import transfer
from periplus.context.stores.memory_store import MemoryStore
from periplus.journal import Writer
from periplus.journal.history.log import RecordFilter
from periplus.memory import Memory
from periplus.project import Project
from periplus.project.context_store.exchange import Other, pull_context, push_context
from periplus.project.context_store.library import ProjectLibrary
from periplus.project.context_store.lines import GivenAtom, read_atoms
from periplus.project.context_store.refs import ref_id
from periplus.project.context_store.sources import MEMORY_TAG, atoms_of_memory, atoms_of_trail
from support import Stop, StoppingFiles, remove_index

pytestmark = pytest.mark.quick

ADA = Writer("ada", "who_0000000000000000", "", 1)
BOB = Writer("bob", "who_0000000000000001", "", 1)
DAY_MS = 86_400_000


class TestProjectStore(ContextContract):
    EXAMPLES = 15

    def make_store(self, tmp_path):
        Project.init(os.fspath(tmp_path))
        return ProjectLibrary(Project.open(os.fspath(tmp_path), ADA), owns=True)


def opened(folder, writer=ADA, **how):
    return Project.open(os.fspath(folder), writer, **how)


def made(folder, **how):
    folder.mkdir(exist_ok=True)
    Project.init(os.fspath(folder))
    return opened(folder, **how)


def cloned(folder, to):
    """Another clone of the project: the same store with a lineage of its own."""
    with opened(folder) as project:
        project.export(os.fspath(to) + ".zip")
    to.mkdir()
    Project.import_from(os.fspath(to) + ".zip", os.fspath(to))
    return to


def given(*texts, **fields):
    return [GivenAtom(atom_digest(atom), atom) for atom in (Atom(text, time_ms=1, **fields) for text in texts)]


def commit(project, *texts, **how):
    return project.contexts.commit(given(*texts), **how).digest


def contents(project, reference="main"):
    contexts = project.contexts
    return {entry.atom.content for entry in contexts.entries(contexts.resolve(reference))}


def sync(project, other):
    done = project.sync(os.fspath(other), cwd="/", environment=dict(os.environ))
    assert done.report.refusals == []
    return done.report.transfers


def problems(project):
    return [one.what for one in project.examine().problems if one.severity == "error"]


# -- refs ----------------------------------------------------------------------------------------------------------


def test_every_move_of_a_ref_is_a_record_with_its_author(tmp_path):
    with made(tmp_path) as project:
        first = commit(project, "one", message="begin")
        records = project.journal.index.counts()
    with opened(tmp_path, BOB) as project:
        second = commit(project, "two")
        page = project.log(RecordFilter(types=("context_ref",)))
        moves = [(one.writer, one.item_id, one.summary) for one in page.records]
        assert moves == [
            ("bob", ref_id("main"), f"context ref main {first.hex()[:12]} -> {second.hex()[:12]}"),
            ("ada", ref_id("main"), f"context ref main {first.hex()[:12]}: begin"),
        ]
        entity = project.show(ref_id("main"))
        assert entity.value == {"v": 1, "name": "main", "target": second.hex(), "previous": first.hex()}
        assert project.contexts.library.header(second).metadata["author"] == "bob"
        assert project.recall("main").hits == ()
        assert records == {"context_ref": 1}


def test_a_ref_ends_and_begins_again(tmp_path):
    with made(tmp_path) as project:
        first = commit(project, "one", ref="side")
        assert project.contexts.set_ref("side", None) == first
        assert project.contexts.table.all() == {}
        with pytest.raises(NotFoundError):
            project.contexts.set_ref("side", None)
        commit(project, "two", ref="side")
        assert contents(project, "side") == {"two"}


def test_a_move_expects_where_the_ref_stands(tmp_path):
    with made(tmp_path) as project, opened(tmp_path, BOB) as other:
        first = commit(project, "one")
        stale = other.contexts.table
        assert stale.get("main") == first
        second = commit(project, "two")
        with pytest.raises(ConflictError, match="stands at"):
            stale.change("main", first, other.contexts.library.commit(Context(first, (Atom("three"),))))
        assert project.contexts.table.get("main") == second


# -- committing ----------------------------------------------------------------------------------------------------


def test_the_same_lines_twice_say_nothing_new(tmp_path):
    lines = [
        json.dumps(line).encode() for line in ({"content": "x"}, {"content": "y", "relevance": 0.9, "tags": ["t"]})
    ]
    with made(tmp_path, clock=FixedClock(step_ms=1000)) as project:

        def read():
            return read_atoms(lines, "a", now_ms=project.journal.clock.now_ms())

        first = project.contexts.commit(read())
        again = project.contexts.commit(read())
        assert (first.added, again.changed, again.digest) == (2, False, first.digest)
        lines[0] = json.dumps({"content": "x", "relevance": 0.1}).encode()
        changed = project.contexts.commit(read())
        assert (changed.added, changed.annotated, changed.live) == (0, 1, 2)
        (atom,) = project.contexts.library.context(changed.digest).atoms
        assert atom.time_ms == project.contexts.library.context(first.digest).atoms[1].time_ms  # which nobody said anew


def test_memory_is_committed_as_the_smallest_delta(tmp_path):
    with made(tmp_path) as project:
        trap = project.remember(
            Memory("trap", "The cache lies", extra={"remedy": "Clear it", "severity": "high"}, confidence=50)
        )
        project.remember(Memory("note", "Tea is at four", tags=("tea",), evidence=(("record", "1"),)))
        commit(project, "somebody's own")
        first = project.contexts.commit(atoms_of_memory(project.journal), is_all_memory=True)
        assert (first.added, first.live) == (2, 3)
        atoms = {entry.atom.type: entry.atom for entry in project.contexts.entries(first.digest)}
        assert atoms["Trap"].content == "The cache lies\nRemedy: Clear it\nSeverity: high"
        assert (atoms["Trap"].relevance, atoms["Trap"].source) == (500_000, trap.entity.item_id)
        assert atoms["Note"].source == f"{project.journal.lineage}:1"
        assert {MEMORY_TAG, "tea"} < set(atoms["Note"].tags)
        again = project.contexts.commit(atoms_of_memory(project.journal), is_all_memory=True)
        assert not again.changed
        project.remember(Memory("trap", "The cache lies on Mondays", supersedes=(trap.entity.item_id,)))
        before = project.contexts.library.expand(first.digest)
        third = project.contexts.commit(atoms_of_memory(project.journal), is_all_memory=True)
        assert (third.added, third.annotated, third.removed, third.live) == (1, 0, 1, 3)
        assert contents(project) == {"somebody's own", "The cache lies on Mondays", "Tea is at four"}
        delta = project.contexts.library.context(third.digest)
        after = project.contexts.library.expand(third.digest)
        assert compress(after, before, metadata=delta.metadata) == delta


def test_memory_of_which_an_atom_cannot_hold_all_is_committed(tmp_path):
    """An empty tag, one of 300 characters, or the 65th: each kept all of memory from being committed."""
    with made(tmp_path) as project:
        many = tuple(f"t{number:02}" for number in range(99))
        one = project.remember(Memory("note", "Tea is at four", tags=many[:98], evidence=(("commit", "y" * 4_096),)))
        value = {**one.entity.value, "tags": [*many[:98], "x" * 257, ""]}  # refused today; a store of before has them
        project.journal.mutate(lambda t: t.put("note", one.entity.item_id, value), project.writer)
        two = project.remember(Memory("note", "Cake is at five", tags=many, evidence=(("commit", "1f0c"),)))
        done = commit_memory(project)
        atoms = {entry.atom.content: entry.atom for entry in project.contexts.entries(done.digest)}
        assert atoms["Tea is at four"].source == one.entity.item_id
        assert set(atoms["Tea is at four"].tags) == {MEMORY_TAG, *many[:63]}
        assert atoms["Cake is at five"].source == "git:1f0c"
        assert set(atoms["Cake is at five"].tags) == {MEMORY_TAG, two.entity.item_id, *many[:62]}
        assert not commit_memory(project).changed


def commit_memory(project):
    return project.contexts.commit(atoms_of_memory(project.journal), is_all_memory=True)


def test_what_others_committed_of_their_memory_stays_until_it_is_known_to_be_over(tmp_path):
    with made(tmp_path / "a") as ada, made(tmp_path / "b") as bob:
        shown = ada.remember(Memory("decision", "argon2id", evidence=(("commit", "1f0c"),)))
        plain = ada.remember(Memory("note", "Tea is at four"))
        bob.remember(Memory("decision", "tabs"))
        head = commit_memory(ada).digest
        commit_memory(bob)
        transfer(LocalPeer(ada.contexts.library), LocalPeer(bob.contexts.library), head)
        bob.contexts.merge(head.hex())
        assert not commit_memory(bob).changed
        assert contents(bob) == {"argon2id", "Tea is at four", "tabs"}

        def end(transaction):  # what ada's memory says no more goes, and what bob's says stays
            transaction.put("decision", shown.entity.item_id, {**shown.entity.value, "state": "superseded"})
            transaction.delete("note", plain.entity.item_id)

        ada.journal.mutate(end, ADA)
        transfer(LocalPeer(bob.contexts.library), LocalPeer(ada.contexts.library), bob.contexts.resolve("main"))
        ada.contexts.set_ref("main", bob.contexts.resolve("main"))
        assert commit_memory(ada).removed == 2
        assert contents(ada) == {"tabs"}


def test_a_clone_whose_memory_is_behind_keeps_what_is_newer_in_its_contexts(tmp_path):
    clock = FixedClock(step_ms=1000)
    with made(tmp_path / "a", clock=clock) as ada:
        note = ada.remember(Memory("note", "Tea is at four"))
        commit_memory(ada)
    other = cloned(tmp_path / "a", tmp_path / "b")
    with opened(tmp_path / "a", clock=clock) as ada, opened(other, BOB, clock=clock) as bob:
        value = {**note.entity.value, "text": "Tea is at three", "updated": format_ms(clock.now_ms())}
        ada.journal.mutate(lambda transaction: transaction.put("note", note.entity.item_id, value), ADA)
        ada.remember(Memory("note", "Tea is at five"))
        head = commit_memory(ada).digest
        transfer(LocalPeer(ada.contexts.library), LocalPeer(bob.contexts.library), head)
        bob.contexts.set_ref("main", head)
        assert commit_memory(bob).removed == 0
        assert contents(bob) >= {"Tea is at three", "Tea is at five"}
        sync(bob, tmp_path / "a")
        commit_memory(bob)
        assert contents(bob) == {"Tea is at three", "Tea is at five"}


def test_a_trail_is_committed_with_its_steps_as_source(tmp_path):
    with made(tmp_path) as project:
        with project.record(title="t", checkpoints=False) as run:
            run.step("PROMPT", text="Count the cogs")
            run.step("COMMAND_RUN", command="make count", outcome="failed", exit_code=2)
            run.step("COMMAND_RUN", command="make cogs", exit_code=0)
            run.step("SAY", text="There are twelve.")
        (trail,) = project.trails()
        atoms = [one.atom for one in atoms_of_trail(project, trail.item_id)]
        assert [(atom.type, atom.content, atom.source.partition("#")[2]) for atom in atoms] == [
            ("Prompt", "Count the cogs", "0"),
            ("Command", "make count", "1"),
            ("Result", "make count: failed, exit code 2", "1"),
            ("Command", "make cogs", "2"),
            ("Answer", "There are twelve.", "3"),
        ]
        assert all(atom.source.startswith(f"{trail.item_id}#") for atom in atoms)
        first = project.contexts.commit(atoms_of_trail(project, trail.item_id))
        assert first.added == 5
        assert not project.contexts.commit(atoms_of_trail(project, trail.item_id)).changed


def test_molecules_and_removals(tmp_path):
    with made(tmp_path) as project:
        atoms = given("one", "two", "three")
        pair = Molecule((atoms[0].digest, atoms[1].digest), {"then": ((0, 1),)})
        project.contexts.commit(atoms, molecules=[pair])
        assert not project.contexts.commit([], molecules=[pair]).changed
        done = project.contexts.commit([], removed=[atoms[0].digest.hex()[:8]])
        assert (done.removed, done.live) == (1, 2)
        expansion = project.contexts.library.expand(done.digest)
        assert expansion.molecules == ()
        assert len(expansion.broken) == 1


def test_commits_at_the_same_time_all_count(tmp_path):
    made(tmp_path).close()
    ready = threading.Barrier(3)
    failures = []

    def work(name):
        try:
            with opened(tmp_path, Writer(name, "who_0000000000000009", "", 1)) as project:
                ready.wait(60)
                for number in range(6):
                    commit(project, f"{name} {number}")
        except PeriplusError as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(name,)) for name in ("ada", "bob", "eve")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert failures == []
    with opened(tmp_path) as project:
        assert len(contents(project)) == 18
        assert project.contexts.library.header(project.contexts.table.get("main")).depth == 17


# -- clones --------------------------------------------------------------------------------------------------------


def test_sync_carries_what_is_new_and_nothing_else(tmp_path):
    with made(tmp_path / "a") as project:
        for number in range(5):
            commit(project, f"atom {number}", "x" * 5_000 + str(number))
    other = cloned(tmp_path / "a", tmp_path / "b")
    with opened(tmp_path / "a") as project, opened(other, BOB) as theirs:
        head = commit(project, "atom 5")
        come = [one for one in sync(theirs, tmp_path / "a") if one.direction == "in"]
        assert [(one.records, one.objects, one.objects_missing) for one in come if one.records] == [(1, 1, 0)]
        assert theirs.contexts.table.get("main") == head
        assert contents(theirs) == contents(project)
        long = commit(theirs, "y" * 5_000)  # a content of its own beside the record
        come = [one for one in sync(project, other) if one.direction == "in"]
        assert (sum(one.objects for one in come), project.contexts.table.get("main")) == (2, long)
        assert problems(project) == problems(theirs) == []


def test_clones_that_moved_one_ref_apart_are_told_and_merged(tmp_path):
    with made(tmp_path / "a") as project:
        root = commit(project, "common")
    other = cloned(tmp_path / "a", tmp_path / "b")
    with opened(tmp_path / "a") as project, opened(other, BOB) as theirs:
        ours, yours = commit(project, "of ada"), commit(theirs, "of bob")
        sync(project, other)
        (state,) = project.contexts.refs()
        assert {(place, who) for place, who, _ in state.apart} == {(ours, "ada"), (yours, "bob")}
        assert state.target == state.apart[0][0]
        with pytest.raises(ConflictError, match="moved apart"):
            commit(project, "over it")
        above = project.contexts.library.commit(Context(state.target, (Atom("beside"),)))
        with pytest.raises(ConflictError, match="moved apart"):
            project.contexts.library.set_ref("main", above)
        done = project.contexts.merge()
        assert done.outcome == "merged"
        assert contents(project) == {"common", "of ada", "of bob"}
        assert [len(one.apart) for one in project.contexts.refs()] == [1]
        assert project.contexts.library.descends(done.head, root)
        sync(theirs, tmp_path / "a")
        assert contents(theirs) == {"common", "of ada", "of bob"}
        assert not theirs.journal.contested()
        commit(theirs, "and on")
        assert problems(project) == problems(theirs) == []


def test_clones_that_came_to_one_place_by_other_ways_are_in_no_conflict(tmp_path):
    with made(tmp_path / "a") as project:
        commit(project, "one")
    other = cloned(tmp_path / "a", tmp_path / "b")
    with opened(tmp_path / "a") as project, opened(other, BOB) as second:
        commit(project, "two")
        last = commit(project, "three")
        transfer(LocalPeer(project.contexts.library), LocalPeer(second.contexts.library), last)
        second.contexts.set_ref("main", last)  # at once, where the other went in two steps
        done = project.sync(os.fspath(other), cwd="/", environment=dict(os.environ))
        assert done.report.conflicts == []
        for one in (project, second):
            one.journal.refresh()
            (ref,) = one.contexts.refs()
            assert [place for place, _, _ in ref.apart] == [ref.target] == [last]
            entity = one.show(ref_id("main"))
            assert len(entity.heads) == 2
            assert not entity.is_in_conflict
        assert contents(second) == {"one", "two", "three"}
        commit(second, "four")
        sync(project, other)
        assert contents(project) == {"one", "two", "three", "four"}


class Quicker(LocalPeer):
    """A side of which somebody moves the ref ``main`` while a transfer is taken in."""

    def adopt(self, digest):
        super().adopt(digest)
        self.store.set_ref("main", self.store.commit(Context(digest, (Atom("theirs"),))))

    def __init__(self, store):
        super().__init__(store)
        self.store = store


def test_who_is_overtaken_in_a_push_is_told_what_to_do(tmp_path):
    there = MemoryStore()
    with made(tmp_path / "a") as project:
        commit(project, "one")
        other = Other("their place", Quicker(there), there)
        with pytest.raises(ConflictError, match="main of their place was moved by somebody else meanwhile") as caught:
            push_context(project.contexts, other, "main", "main")
        assert "`periplus context pull 'their place' main`" in caught.value.mend
        pulled = pull_context(project.contexts, other, "main", "main")
        assert (pulled.outcome, contents(project)) == ("moved", {"one", "theirs"})


def test_a_ref_is_moved_forward_to_nothing_that_is_not_here_whole(tmp_path):
    with made(tmp_path / "a") as project:
        contexts = project.contexts
        first = commit(project, "one")
        contexts.set_ref("side", first)
        tip = commit(project, "x" * 5_000, ref="side")
        contexts.set_ref("side", None)
        objects = project.journal.objects
        (text,) = set(children_of(objects.get(tip))) - {first}
        objects.remove(text)
    with opened(tmp_path / "a") as project:
        contexts = project.contexts
        assert contexts.merge(tip.hex(), dry_run=True).outcome == "fast-forward"
        with pytest.raises(NotFoundError, match="no object"):
            contexts.merge(tip.hex())
        assert contexts.table.get("main") == first
        assert problems(project) == []


def test_a_conflict_of_atoms_is_chosen(tmp_path):
    with made(tmp_path / "a") as project:
        (atom,) = given("the reef is sharp")
        project.contexts.commit([atom])
    other = cloned(tmp_path / "a", tmp_path / "b")
    with opened(tmp_path / "a") as project, opened(other, BOB) as theirs:
        project.contexts.commit([], removed=[atom.digest.hex()])
        theirs.contexts.commit(given("the reef is sharp", relevance=900_000))
        sync(project, other)
        before = project.contexts.table.standing("main")
        found = project.contexts.merge()
        assert (found.outcome, [one.digest for one in found.conflicts]) == ("conflicts", [atom.digest])
        assert project.contexts.table.standing("main") == before
        for wrong, told in (
            ({10: "ours", 12: "theirs"}, "both ours and theirs"),
            ({3: "ours"}, "names 1 of the atoms"),
        ):
            with pytest.raises(UsageError, match=told) as caught:
                project.contexts.merge(choose={atom.digest.hex()[:digits]: choice for digits, choice in wrong.items()})
        assert "4 digits or more" in caught.value.mend
        done = project.contexts.merge(choose={atom.digest.hex()[:10]: "ours"})
        shown = project.contexts.library.context(before[0])
        assert done.outcome == "merged"
        assert contents(project) == (set() if shown.removed else {"the reef is sharp"})


@pytest.fixture
def apart(tmp_path):
    """A ref that three clones moved apart: one removed an atom, one annotated it anew, one brought another."""
    with made(tmp_path / "a") as project:
        atoms = given("the reef is sharp", "the tide is late")
        project.contexts.commit(atoms)
    others = [cloned(tmp_path / "a", tmp_path / name) for name in "bc"]
    with opened(tmp_path / "a") as project, opened(others[0], BOB) as bob, opened(others[1], BOB) as carl:
        project.contexts.commit([], removed=[atoms[0].digest.hex()])
        bob.contexts.commit(given("the reef is sharp", relevance=900_000))
        carl.contexts.commit(given("the wind is west"))
        for other in others:
            sync(project, other)
        yield project, atoms[0].digest


def test_a_choice_is_about_all_places_of_a_ref(apart):
    project, atom = apart
    contexts = project.contexts
    before = contexts.table.standing("main")
    assert len(before) == 3
    names_before = set(project.journal.objects.digests())
    told = [contexts.merge(dry_run=dry_run) for dry_run in (True, False)]
    assert [one.outcome for one in told] == ["conflicts"] * 2
    keeper = "ours" if told[0].conflicts[0].ours.atom is not None else "theirs"
    assert contexts.merge(choose={atom.hex()[:8]: keeper}, dry_run=True).outcome == "merged"
    with pytest.raises(UsageError, match="names 0 of the atoms"):
        contexts.merge(choose={atom.hex()[:8]: keeper, "0" * 64: "ours"})
    assert contexts.table.standing("main") == before
    assert set(project.journal.objects.digests()) == names_before  # nothing is written before all of it is known to go
    assert contexts.merge(choose={atom.hex()[:8]: keeper}).outcome == "merged"
    assert contents(project) == {"the tide is late", "the wind is west", "the reef is sharp"}
    assert len(contexts.table.standing("main")) == 1
    assert problems(project) == []


def test_a_choice_goes_with_whose_stands_otherwise(apart):
    project, atom = apart
    done = project.contexts.merge(choose={atom.hex(): "ours"}, favour="theirs")
    assert done.outcome == "merged"


# -- what is derived, collected, damaged, cut off --------------------------------------------------------------------


def test_without_the_cache_nothing_is_lost(tmp_path):
    with made(tmp_path) as project:
        for number in range(3):
            commit(project, *(f"atom {number} {place}" for place in range(1_100)))
        before = contents(project)
    cache = tmp_path / ".periplus/cache/contexts"
    assert list(cache.iterdir())
    shutil.rmtree(cache)
    with opened(tmp_path) as project:
        assert contents(project) == before
        assert commit(project, "one more")
        assert problems(project) == []


def test_what_no_ref_reaches_is_parked_and_comes_back_when_asked_for(tmp_path):
    clock = FixedClock(time.time_ns() // 1_000_000 + DAY_MS, step_ms=1)  # files have their times of the machine
    with made(tmp_path, clock=clock) as project:
        contexts = project.contexts
        root = commit(project, "kept")
        left = commit(project, "left")
        contexts.set_ref("main", root, force=True)
        kept = commit(project, "instead")
        report = contexts.library.gc(grace_ms=0)
        assert report.parked == 1
        assert not project.journal.objects.has(left)
        assert problems(project) == []
        assert contents(project) == {"kept", "instead"}
        assert contents(project, left.hex()[:12]) == {"kept", "left"}  # as much as commands show of it
        assert project.journal.objects.has(left)
        contexts.library.gc(grace_ms=0)
        assert contents(project, left.hex()) == {"kept", "left"}
        contexts.library.gc(grace_ms=0)
        clock.advance(31 * DAY_MS)
        assert contexts.library.gc(grace_ms=0, prune_after_ms=30 * DAY_MS).pruned == 1
        assert not contexts.library.source.has(left)
        assert contents(project, kept.hex()) == {"kept", "instead"}
        assert problems(project) == []


def test_collection_keeps_every_place_of_a_ref_that_went_apart(tmp_path):
    with made(tmp_path / "a") as project:
        commit(project, "common")
    other = cloned(tmp_path / "a", tmp_path / "b")
    with opened(tmp_path / "a") as project, opened(other, BOB) as theirs:
        commit(project, "of ada")
        commit(theirs, "of bob")
        sync(project, other)
        assert project.contexts.library.gc(grace_ms=0).parked == 0
        assert project.contexts.merge().outcome == "merged"


def test_the_doctor_names_what_a_ref_lacks_and_repair_restores_it(tmp_path):
    with made(tmp_path / "a") as project:
        heads = [commit(project, f"atom {number}", "x" * 5_000 + str(number)) for number in range(6)]
    other = cloned(tmp_path / "a", tmp_path / "b")
    with opened(tmp_path / "a") as project:
        for digest in heads[1:4]:  # one below the other
            project.journal.objects.remove(digest)
        assert problems(project) == ["an object that a record names is missing"]
        project.repair(sources=[os.fspath(other / ".periplus")])
        assert problems(project) == []
        assert len(contents(project)) == 12


def test_where_records_are_missing_nobody_is_told_to_make_a_context(tmp_path):
    with made(tmp_path / "a") as project:
        commit(project, "one")
        lineage = project.journal.lineage
    store = tmp_path / "a" / ".periplus"
    (store / "journal" / lineage / "000000000001.jsonl").unlink()
    remove_index(store)
    with opened(tmp_path / "a") as project, pytest.raises(NotFoundError, match="every segment is missing") as caught:
        project.contexts.resolve("main")
    assert "doctor" in caught.value.mend


def test_the_doctor_finds_a_context_that_lies(tmp_path):
    with made(tmp_path) as project:
        root = commit(project, "one")
        encoded = encode(prepare(Context(root, (Atom("two"),))), depth=1, live=7)  # two are live
        for _, data in encoded.objects:
            project.journal.objects.put(data)
        project.contexts.table.move("main", root, encoded.digest)
        (told,) = problems(project)
        assert "context ref main" in told
        assert "live" in told


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.5] if os.environ.get("PERIPLUS_EXHAUSTIVE") else [0.5])
def test_a_stop_at_any_call_of_a_commit_leaves_a_ref_that_stands(tmp_path, share):
    with made(tmp_path / "before") as project:
        first = commit(project, "one", "x" * 5_000)
    at = 0
    while True:
        folder = tmp_path / "after"
        shutil.copytree(tmp_path / "before", folder)
        files = StoppingFiles(at, share)
        stopped = False
        project = None
        try:
            project = Project(os.fspath(folder / ".periplus"), ADA, files=files)
            commit(project, "two", "y" * 5_000)
        except Stop:
            stopped = True
        finally:
            if project is not None:
                files.at = -1
                project.close()
        with opened(folder, BOB) as project:
            head = project.contexts.table.get("main")
            assert contents(project) >= {"one"}
            if head != first:
                assert "two" in contents(project)
            assert problems(project) == []
            assert commit(project, "two", "three")
            assert contents(project) >= {"one", "two", "three"}
        shutil.rmtree(folder)
        if not stopped:
            break
        at += 1
    assert at > 10


def test_an_expansion_read_lazily_is_the_whole_one(tmp_path):
    with made(tmp_path) as project:
        head = commit(project, *(f"atom {number}" for number in range(300)))
        library = project.contexts.library
        assert list(project.contexts.entries(head)) == list(library.expand(head).entries)
        chosen = project.contexts.select(head, query="atom 7", budget_tokens=50)
        assert chosen.tokens <= 50
        assert chosen.entries[0].atom.content == "atom 7"


# -- redaction -------------------------------------------------------------------------------------------------------

TOLD = "the harbour master's word is albatross"


def test_a_secret_leaves_the_contexts_and_what_stands_on_them(tmp_path):
    with made(tmp_path) as project:
        contexts = project.contexts
        (pair,) = given("beside it")
        root = commit(project, "kept", "beside it")
        secret = given(TOLD, "x" * 5_000 + TOLD)
        contexts.commit(
            secret, molecules=[Molecule((pair.digest, secret[0].digest), {"then": ((0, 1),)})], message=TOLD
        )
        contexts.commit(given("kept", source=TOLD) + given("above"))
        contexts.commit(given("idea"), ref="side", base="main~1")
        contexts.merge("side", message="both")
        contexts.commit([], removed=[secret[0].digest.hex()])
        contexts.set_ref("old", root)
        commit(project, *(f"many {number}" for number in range(1_100)))
        contexts.library.gc(grace_ms=0)
        before = project.contexts.table.all()
        dry = project.redact(secret=TOLD, reason="told in confidence", dry_run=True)
        assert (project.contexts.table.all(), len(dry.entities)) == (before, 2)
        done = project.redact(secret=TOLD, reason="told in confidence")
        assert [one for one in done.remaining if ".periplus" in str(one)] == []
        after = project.contexts.table.all()
        assert after["old"] == before["old"] == root
        assert {name for name in after if after[name] != before[name]} == {"main", "side"}
        assert contents(project) == {
            "kept",
            "beside it",
            "above",
            "idea",
            *(f"many {number}" for number in range(1_100)),
        }
        (kept,) = [entry for entry in project.contexts.entries(after["main"]) if entry.atom.content == "kept"]
        assert (kept.atom.source, kept.origin) == ("", root)  # an annotation that held it is as if it had not been made
        assert project.contexts.library.expand(after["main"]).molecules == ()
        assert problems(project) == []
    for path in (tmp_path / ".periplus").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert TOLD.encode() not in data + (zlib.decompress(data) if path.suffix == ".z" else b""), path
    with opened(tmp_path) as project:
        assert commit(project, "and on")
        assert problems(project) == []


def test_what_goes_with_a_redacted_context_is_not_told_to_be_left(tmp_path):
    with made(tmp_path) as project:
        for number in range(2):
            commit(project, *(f"{TOLD} {number} {place}" for place in range(700)))
        commit(project, TOLD, ref="ended")
        project.contexts.set_ref("ended", None)
        assert project.contexts.library.gc(grace_ms=0).parked
        assert len(contents(project)) == 1_400
        store = tmp_path / ".periplus"
        for folder in ("cache/contexts", "parked/contexts"):
            assert any(TOLD.encode() in path.read_bytes() for path in (store / folder).rglob("*") if path.is_file())
        for dry_run in (True, False):
            done = project.redact(secret=TOLD, reason="told in confidence", dry_run=dry_run)
            assert [one for one in done.remaining if ".periplus" in one.where] == []
        assert not any(TOLD.encode() in path.read_bytes() for path in store.rglob("*") if path.is_file())


def test_what_was_redacted_does_not_come_back_by_a_transfer_or_from_what_gc_parked(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    with made(tmp_path / "one") as one, made(tmp_path / "other") as other:
        root = commit(one, TOLD, "x" * 5_000 + TOLD)
        sender, taker = LocalPeer(one.contexts.library), LocalPeer(other.contexts.library)
        names = [row.digest for row in sender.listing(root, [])]
        sent = list(dict(sender.objects(names)).items())
        assert taker.keep(sent) == len(sent)
        taker.adopt(root)
        other.contexts.set_ref("main", root)
        done = other.redact(secret=TOLD, reason="told in confidence")
        gone = dict(sent).keys() & set(done.objects)
        assert gone
        with pytest.raises(RefusedError) as caught:
            taker.keep([pair for pair in sent if pair[0] in gone])
        assert "would bring back what was redacted here" in str(caught.value)
        shelf = other.contexts.library.shelf
        for digest in gone:  # as a process put it there that stood still meanwhile
            shelf.parked.put(one.journal.objects.get(digest))
            assert not shelf.has(digest)
        held = {
            digest for digest in other.journal.objects.digests() if TOLD.encode() in other.journal.objects.get(digest)
        }
        assert held == set()


def test_a_ref_that_went_apart_is_redacted_place_by_place(tmp_path):
    with made(tmp_path / "a") as project:
        commit(project, TOLD)
    other = cloned(tmp_path / "a", tmp_path / "b")
    with opened(tmp_path / "a") as project, opened(other, BOB) as theirs:
        commit(project, "of ada")
        commit(theirs, "of bob")
        sync(project, other)
        before = project.contexts.table.standing("main")
        project.redact(secret=TOLD, reason="told in confidence")
        after = project.contexts.table.standing("main")
        assert len(after) == len(before) == 2
        assert not set(after) & set(before)
        project.contexts.merge()
        assert contents(project) == {"of ada", "of bob"}
