"""What taking back a record takes back with it, and what it may not bring about: nothing is hidden, held twice or pointed at nothing."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from cli_support import Shell, shared_project
from periplus.base.clock import FixedClock
from periplus.base.errors import ConflictError, UsageError
from periplus.journal import Writer
from periplus.journal.care.doctor import examine
from periplus.memory import Memory
from periplus.project import Project
from support import WRITER, calls_made, item


@pytest.fixture
def sh(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    Project.init(str(tmp_path / "project"))
    return Shell(tmp_path / "project", tmp_path / "home")


def outcomes(document):
    return {one.id: one.outcome for one in document.entities}


def remembered(sh, text, *words):
    return sh.json("remember", text, "--type", "decision", *words).entity.id


# -- what belongs together ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seq", "other"), [("2", 3), ("3", 2)])
def test_what_evolved_and_what_it_evolved_from_are_undone_together(sh, seq, other):
    old = remembered(sh, "Ports start at 8000")
    new = sh.json("evolve", old, "Ports start at 9000").entities[0].id
    plan = sh.json("undo", "--seq", seq, "--dry-run")
    assert (plan.seqs, plan.along) == ([2, 3], [other])
    out = sh("undo", "--seq", seq)
    assert f"Record {other} belongs to the same change and is undone with it." in out.lines
    assert "Undone by record 4-5. To redo the change: periplus undo --seq 4-5" in out.lines
    assert [hit.id for hit in sh.json("recall", "ports").hits] == [old]
    back = sh.json("undo", "--seq", "4")
    assert outcomes(back) == {new: "restored", old: "restored"}
    assert [hit.id for hit in sh.json("recall", "ports").hits] == [new]


def test_what_was_only_written_at_once_is_undone_alone(sh):
    one, other = remembered(sh, "Doors are green"), remembered(sh, "Windows are blue")
    sh("state", one, other, "superseded")
    done = sh.json("undo", "--seq", "3")
    assert (outcomes(done), done.along) == ({one: "restored"}, [])
    assert sh.json("show", other).entity.value["state"] == "superseded"


def test_of_a_change_of_which_one_part_cannot_go_back_all_stays(sh):
    old = remembered(sh, "Ports start at 8000")
    new = sh.json("evolve", old, "Ports start at 9000").entities[0].id
    sh("set", new, "rationale=more room")
    done = sh.json("undo", "--seq", "3", code=5)
    assert outcomes(done) == {new: "conflict", old: "conflict"}
    assert next(one.reason for one in done.entities if one.id == old) == f"it belongs to {new}, which stays as it is"
    assert [hit.id for hit in sh.json("recall", "ports").hits] == [new]


def test_parts_of_a_split_and_of_a_merge_belong_together(sh):
    old = remembered(sh, "Ports and doors")
    parts = [
        one.id for one in sh.json("split", old, "Ports start at 8000", "Doors are green").entities if one.id != old
    ]
    assert outcomes(sh.json("undo", "--seq", "2")) == {parts[0]: "deleted", parts[1]: "deleted", old: "restored"}
    other = remembered(sh, "Windows")
    merged = sh.json("merge", old, other, "--text", "Ports, doors and windows").entities[0].id
    last = sh.json("log", "--limit", "1").records[0].seq
    assert outcomes(sh.json("undo", "--seq", f"{last}")) == {merged: "deleted", old: "restored", other: "restored"}


def deleted(sh, item):
    """As an undo of one record of two left it, in a store of before they belonged together."""
    with Project.open(str(sh.folder), Writer.named("ada")) as project:
        project.journal.mutate(lambda transaction: transaction.delete("decision", item), project.writer)


@pytest.mark.parametrize("how", ["deleted", "redacted"])
def test_what_is_superseded_by_what_is_gone_wants_a_look(sh, how):
    old = remembered(sh, "Ports start at 8000")
    new = sh.json("evolve", old, "Ports start at 9000").entities[0].id
    assert sh.json("review").due == []
    deleted(sh, new)
    if how == "redacted":
        sh("redact", "--seq", "2", "--reason", "none of it is true")
    [due] = sh.json("review", code=1).due
    assert (due.id, due.unreplaced, due.command) == (old, "superseded", "periplus undo --seq 3")
    out = sh("review", code=1).out
    assert "superseded without a replacement: the entity that replaced it was deleted or redacted" in out
    assert f"to leave it as it is: periplus state {old} superseded" in out
    sh(*due.command.split()[1:])
    assert [hit.id for hit in sh.json("recall", "ports").hits] == [old]
    assert sh.json("review").due == []


def test_what_is_superseded_by_hand_or_said_to_stay_so_wants_none(sh):
    by_hand, old = remembered(sh, "Doors are green"), remembered(sh, "Ports start at 8000")
    sh("state", by_hand, "superseded")
    deleted(sh, sh.json("evolve", old, "Ports start at 9000").entities[0].id)
    assert [one.id for one in sh.json("review", code=1).due] == [old]
    sh("state", old, "superseded")
    assert sh.json("review").due == []
    assert "Nothing changed." in sh("state", old, by_hand, "superseded").out


def test_what_another_clone_left_superseded_by_nothing_is_brought_back_by_its_record(sh, tmp_path):
    old = remembered(sh, "Ports start at 8000")
    deleted(sh, sh.json("evolve", old, "Ports start at 9000").entities[0].id)
    sh("export", tmp_path / "store.zip")
    (tmp_path / "other").mkdir()
    other = Shell(tmp_path / "other", sh.home)
    other("import", tmp_path / "store.zip")
    other("remember", "a lineage of its own")
    [due] = other.json("review", code=1).due
    assert due.command.startswith("periplus undo --seq 3 --lineage lin_")
    other(*due.command.split()[1:])
    assert [hit.id for hit in other.json("recall", "ports").hits] == [old]


# -- claims and steps --------------------------------------------------------------------------------------------------


def test_a_claim_is_not_had_back_where_somebody_else_holds_it_by_now(sh):
    mine = sh.json("claim", "take", "src/a.py", "--as", "ada").claim.id
    sh("claim", "release", "--as", "ada")
    his = sh.json("claim", "take", "src", "--as", "bob").claim.id
    for words in (["--dry-run"], []):
        [one] = sh.json("undo", "--seq", "2", "--as", "ada", *words, code=5).entities
        assert (one.id, one.outcome) == (mine, "conflict")
        assert "claimed by bob" in one.reason
        assert his in one.reason
    assert [one.id for one in sh.json("claim", "list").claims] == [his]
    sh("claim", "release", "--as", "bob")
    assert outcomes(sh.json("undo", "--seq", "2", "--as", "ada")) == {mine: "restored"}


def test_of_two_claims_that_one_undo_would_bring_back_only_one_is_held(sh):
    sh("claim", "take", "src", "--as", "ada")
    sh("claim", "release", "--as", "ada")
    sh("claim", "take", "src", "--as", "bob")
    sh("claim", "release", "--as", "bob")
    done = sh.json("undo", "--seq", "2", "--seq", "4", code=5)
    assert sorted(one.outcome for one in done.entities) == ["conflict", "restored"]
    assert len(sh.json("claim", "list").claims) == 1


def test_shared_claims_come_back_beside_each_other_and_what_stays_held_is_no_conflict(sh):
    sh("claim", "take", "src", "--shared", "--as", "ada")
    sh("claim", "release", "--as", "ada")
    his = sh.json("claim", "take", "src", "--shared", "--as", "bob").claim.id
    sh("undo", "--seq", "2")
    sh("set", his, "text=the engine")
    sh("undo", "--seq", "5")
    assert len(sh.json("claim", "list").claims) == 2


@pytest.mark.parametrize("seq", ["3", "5"])
def test_a_step_whose_claim_is_undone_can_be_taken_again(sh, seq):
    sh("plan", "make", "Sell on Sundays", "--step", "Open the shop")
    sh("plan", "next", "--as", "ada")
    assert sh.json("undo", "--seq", seq).along
    taken = sh.json("plan", "next", "--as", "bob")
    assert (taken.step.state, taken.step.assignee) == ("doing", "bob")


# -- refs of contexts --------------------------------------------------------------------------------------------------


def test_a_ref_does_not_go_back_to_a_context_that_is_gone(sh):
    for number in range(3):
        line = json.dumps({"type": "note", "content": f"line {number} {'swordfish' * (number == 1)}"})
        sh("context", "commit", "-", stdin=line + "\n")
    (sh.folder / "secret.txt").write_text("swordfish")
    sh("redact", "--secret-file", "secret.txt", "--reason", "a password")
    before = sh("context", "expand", "main").out
    for seqs in ("4", "3-4"):
        [one] = sh.json("undo", "--seq", seqs, code=5).entities
        assert one.outcome == "conflict"
        assert "cannot be read" in one.reason
    assert sh("context", "expand", "main").out == before
    [one] = sh.json("undo", "--seq", "2-4").entities  # where it stood before the first of them is still here
    assert one.outcome == "restored"
    assert "line 0" in sh("context", "expand", "main").out


# -- what was redacted -------------------------------------------------------------------------------------------------


def test_what_was_redacted_is_not_said_to_have_been_deleted(sh):
    item = remembered(sh, "The password is swordfish")
    sh("set", item, "text=There is a password")
    sh("redact", "--seq", "1", "--reason", "a password")
    wrong = sh.fails("show", item, "--at", "1", code=1, wrong="the content of record 1 was redacted")
    assert "deleted" not in wrong.err
    assert f"periplus log --id {item}" in wrong.err
    error = json.loads(sh("show", item, "--at", "1", "--json", code=1).out)
    assert (error["error"], "redacted" in error["wrong"]) == ("not_found", True)


# -- the same undo once more -------------------------------------------------------------------------------------------


def test_a_key_of_another_undo_or_of_something_else_is_refused(sh):
    one, two = remembered(sh, "dec one"), remembered(sh, "dec two")
    first = sh.json("undo", "--seq", "1", "--key", "k1")
    assert outcomes(first) == {one: "deleted"}
    sh.fails("undo", "--seq", "2", "--key", "k1", code=5, wrong="the key 'k1' was used for something else (record 3)")
    assert sh.json("show", two).entity.value["text"] == "dec two"
    sh("remember", "three", "--key", "k2")
    sh.fails("undo", "--seq", "2", "--key", "k2", code=5, wrong="the key 'k2' was used for something else")


def test_the_same_undo_with_its_key_says_the_same_whatever_was_written_since(sh):
    old = remembered(sh, "Ports start at 8000")
    sh("evolve", old, "Ports start at 9000")
    first = sh.json("undo", "--seq", "3", "--key", "k1")
    again = sh.json("undo", "--seq", "3", "--key", "k1")
    assert again == first
    sh("set", old, "text=Ports start at 8001")
    sh("undo", "--seq", "4")
    assert sh.json("undo", "--seq", "3", "--key", "k1") == first
    assert sh.json("log", "--limit", "1").records[0].summary.startswith("undo of seq 4")


def test_what_was_in_conflict_the_first_time_is_not_said_to_be_undone_the_second(sh):
    one, two = remembered(sh, "dec one"), remembered(sh, "dec two")
    sh("set", two, "text=dec two and more")
    first = sh.json("undo", "--seq", "1-2", "--key", "k1", code=5)
    assert outcomes(first) == {one: "deleted", two: "conflict"}
    sh("undo", "--seq", "3")
    again = sh.json("undo", "--seq", "1-2", "--key", "k1", code=5)
    assert outcomes(again) == outcomes(first)
    assert "periplus undo --seq 2" in again.entities[1].reason


# -- once more ---------------------------------------------------------------------------------------------------------

AGENT = {"PERIPLUS_SESSION": "s-7"}


def nothing_left(sh, *words):
    """That to undo it finds nothing, says so and writes nothing; gives what it finds."""
    before = sh.json("log", "--limit", "1").records[0].seq
    done = sh.json("undo", *words)
    assert {one.outcome for one in done.entities} == {"unchanged"}
    assert (done.first_seq, sh.json("log", "--limit", "1").records[0].seq) == (0, before)
    assert sh("undo", *words).lines[-1] == "Nothing was written: there is nothing left to undo."
    return done.entities


@pytest.mark.parametrize("others", ["confidence=50", "text=Doors are blue", "tags=b"])
def test_a_session_that_was_undone_leaves_nothing_to_undo_whatever_others_wrote_since(sh, others):
    door = remembered(sh, "Doors are green")
    sh("set", door, "text=Doors are red", "tags=a", env=AGENT)
    sh("set", door, "text=Doors are yellow", env=AGENT)
    made = sh.json("remember", "Windows are red", "--type", "decision", env=AGENT).entity.id
    assert outcomes(sh.json("undo", "--session", "s-7")) == {door: "restored", made: "deleted"}
    nothing_left(sh, "--session", "s-7")
    sh("set", door, others)
    kept = sh.json("show", door).entity.value
    nothing_left(sh, "--session", "s-7")
    assert sh.json("show", door).entity.value == kept


def test_what_was_undone_and_brought_back_is_there_to_be_undone(sh):
    door = remembered(sh, "Doors are green")
    sh("set", door, "text=Doors are red", env=AGENT)
    sh("undo", "--session", "s-7")
    sh("undo", "--seq", "3")
    sh("set", door, "tags=a")
    assert outcomes(sh.json("undo", "--session", "s-7", "--dry-run")) == {door: "restored"}
    sh("set", door, "text=Doors are blue")
    assert outcomes(sh.json("undo", "--session", "s-7", code=5)) == {door: "conflict"}


def test_one_of_two_that_clones_said_leaves_nothing_to_undo_once_the_other_stands(tmp_path):
    people = shared_project(tmp_path, "bob")
    ada, bob = people["ada"], people["bob"]
    door = remembered(ada, "Doors are green")
    ada("sync", "--with", bob.folder)
    ada("set", door, "text=Doors are red", env=AGENT)
    bob("set", door, "text=Doors are blue")
    ada("sync", "--with", bob.folder)
    assert outcomes(ada.json("undo", "--session", "s-7")) == {door: "restored"}
    nothing_left(ada, "--session", "s-7")
    ada("set", door, "text=Doors are gold")
    nothing_left(ada, "--session", "s-7")
    assert ada.json("show", door).entity.value["text"] == "Doors are gold"


def test_what_would_only_set_back_when_it_was_written_is_nothing_to_undo(sh):
    door = remembered(sh, "Doors are green")
    sh("set", door, "text=Doors are red", env=AGENT)
    sh("set", door, "text=Doors are green", env=AGENT)
    [one] = nothing_left(sh, "--session", "s-7")
    assert one.reason == "nothing of it is left"
    [one] = nothing_left(sh, "--seq", "2-3")


# -- much at once ------------------------------------------------------------------------------------------------------


def chain_of(folder, count):
    """A project in which one mutation wrote ``count`` decisions, each in place of the one before; all but the newest have been
    changed since. Gives it open, with the records' seqs.
    """
    folder.mkdir()
    Project.init(str(folder))
    project = Project.open(str(folder), WRITER)
    first = project.remember(Memory("decision", "the first")).entity

    def write(transaction):
        for number in range(count):
            before = item(number - 1) if number else first.item_id
            payload = {
                **first.value,
                "text": f"number {number}",
                "relations": [{"kind": "supersedes", "target": before}],
            }
            transaction.put("decision", item(number), payload)

    def change(transaction):
        for number in range(count - 1):
            held = transaction.get("decision", item(number))
            transaction.put("decision", item(number), {**held.value, "text": f"number {number}, changed"})

    done = project.journal.mutate(write, WRITER)
    project.journal.mutate(change, WRITER)
    return project, range(done.first_seq, done.last_seq + 1)


@pytest.mark.slow
def test_what_a_large_change_costs_grows_with_it_and_not_with_its_square(tmp_path):
    costs = []
    for count in (40, 400):
        project, seqs = chain_of(tmp_path / str(count), count)
        with project:
            plan = project.undo(seqs=seqs, dry_run=True)
            assert [one.outcome for one in plan.entities] == ["conflict"] * count
            costs.append(calls_made(lambda seqs=seqs, project=project: project.undo(seqs=seqs, dry_run=True)))
    assert costs[1] < costs[0] * 10 * 1.3


def test_a_part_of_a_session_leaves_what_others_wrote_in_between(sh):
    sh.json("remember", "one", "--type", "note", env={"PERIPLUS_SESSION": "long"})
    sh.json("remember", "of somebody else", "--type", "note", env={"PERIPLUS_SESSION": "other"})
    sh("doctor", "--compact")  # writes a record about the journal
    sh.json("remember", "two", "--type", "note", env={"PERIPLUS_SESSION": "long"})
    done = sh.json("undo", "--session", "long", "--seq", "2-4")
    assert (done.seqs, list(outcomes(done).values())) == ([4], ["deleted"])
    assert sh.json("undo", "--session", "long", "--dry-run").seqs == [1, 4]
    assert "changed nothing among those records" in sh.fails("undo", "--session", "long", "--seq", "2-3", code=1).err


@pytest.mark.slow
def test_of_a_session_that_is_too_long_it_is_said_how_to_undo_it_in_parts(tmp_path):
    Project.init(str(tmp_path))
    long = WRITER._replace(session="a long one")
    with Project.open(str(tmp_path), long) as project:
        value = project.remember(Memory("note", "the first")).entity.value
        for first in (0, 5_000, 10_000, 15_000):
            project.journal.mutate(
                lambda t, first=first: [
                    t.put("note", item(n, "not"), {**value, "text": f"note {n}"}) for n in range(first, first + 5_000)
                ],
                long,
            )
        with pytest.raises(UsageError) as refused:
            project.undo(session="a long one", dry_run=True)
        assert "20,001 records of session a long one to undo" in str(refused.value)
        last = project.journal.end().next_seq - 1
        assert f"`periplus undo --session 'a long one' --seq {last - 9_999}-{last}`" in refused.value.mend


def heads_beside_each_other(
    folder, count, said=lambda number: {"tags": [f"t{number % 50}"], "confidence": number % 90}
):
    """A project with a decision of which ``count`` versions exist side by side, all of one session, with what each has ``said``."""
    folder.mkdir()
    Project.init(str(folder))
    project = Project.open(str(folder), WRITER)
    first = project.remember(Memory("decision", "Doors are green")).entity

    def write(transaction):
        for number in range(count):
            value = {**first.value, **said(number)}
            transaction.place("external_edit", "decision", first.item_id, value, (first.version,))

    project.journal.mutate(write, Writer("tester", WRITER.id, "many"))
    return project, first


def undo_in_linear_time(folder, make):
    """Undo the session of a small and of a large project that ``make`` makes, and check that the cost grows with the size only.

    Returns for each the entity before its heads were written, and the entity after the undo.
    """
    costs, entities = [], []
    for count in (90, 900):
        project, first = make(folder / str(count), count)
        with project:
            costs.append(calls_made(lambda project=project: project.undo(session="many", dry_run=True)))
            project.undo(session="many")
            entities.append((first, project.journal.get("decision", first.item_id)))
    assert costs[1] < costs[0] * 10 * 1.3
    return entities


@pytest.mark.slow
def test_what_an_entity_of_many_heads_costs_grows_with_them_and_not_with_their_square(tmp_path):
    for first, entity in undo_in_linear_time(tmp_path, heads_beside_each_other):
        assert (entity.value, entity.is_in_conflict) == (first.value, False)


def settled_by_others(folder, count):
    """The project of ``heads_beside_each_other`` with a tag in each, over which somebody else has written."""
    project, first = heads_beside_each_other(folder, count, lambda number: {"tags": [f"t{number}"]})
    project.work.set_fields(first.item_id, {"text": "Doors are red"})
    return project, first


@pytest.mark.slow
def test_undo_of_what_others_settled_takes_time_as_there_is_much(tmp_path):
    for _, entity in undo_in_linear_time(tmp_path, settled_by_others):
        assert (entity.value["text"], entity.value.get("tags")) == ("Doors are red", None)


def test_that_something_was_written_since_is_no_field_that_others_changed(tmp_path):
    Project.init(str(tmp_path))
    with Project.open(str(tmp_path), WRITER) as project:
        first = project.remember(Memory("decision", "Doors are green")).entity
        red = project.work.set_fields(first.item_id, {"text": "Doors are red"}).receipt
        project.journal.clock = FixedClock(project.journal.clock.now_ms() + 60_000)
        project.work.set_fields(first.item_id, {"rationale": "They are seen"})
        (plan,) = project.undo(seqs=[red.first_seq], dry_run=True).entities
        assert (plan.fields, plan.kept) == (("text",), ("rationale",))
        done = project.undo(seqs=[red.first_seq], key="again")
        assert (
            project.undo(seqs=[red.first_seq], key="again").entities[0].kept == done.entities[0].kept == ("rationale",)
        )


TIMES = [f"2026-11-2{number // 1440}T{number // 60 % 24:02}:{number % 60:02}:00.000Z" for number in range(2_600)]


@pytest.mark.slow
def test_an_entity_of_more_versions_than_a_record_can_name_is_settled_and_taken_back_and_deleted(tmp_path):
    """As thousands of clones leave it that each write of one thing apart."""
    folder = tmp_path / "shop"
    project, first = heads_beside_each_other(folder, 5_200, lambda number: {"rationale": f"because {number}"})
    with project:
        journal = project.journal
        done = project.work.set_fields(first.item_id, {"rationale": "because of all"}, key="settled")
        entity = journal.get("decision", first.item_id)
        assert (entity.value["rationale"], entity.conflicts, len(entity.heads)) == ("because of all", (), 1)
        assert done.receipt.record_count == 3
        again = project.work.set_fields(first.item_id, {"rationale": "because of all"}, key="settled")
        assert again.receipt.repeated
        with pytest.raises(ConflictError, match="used for something else"):
            project.work.set_fields(first.item_id, {"rationale": "because of none"}, key="settled")

        (plan,) = project.undo(seqs=[done.receipt.last_seq], dry_run=True).entities
        assert (plan.outcome, len(plan.seqs)) == ("conflict", 3), (
            "what clones had said apart would be in conflict again"
        )
        assert not examine(journal).problems
    aside = tmp_path / "aside"
    os.rename(folder / ".periplus" / "entities", aside)
    with Project.open(str(folder), WRITER) as project:
        assert project.journal.get("decision", first.item_id).value["rationale"] == "because of all"


@pytest.mark.slow
def test_what_more_versions_than_a_record_can_name_say_is_taken_back(tmp_path):
    project, first = heads_beside_each_other(tmp_path / "shop", 2_600, lambda number: {"tags": [f"t{number}"]})
    with project:
        done = project.undo(session="many", key="undone")
        assert [(one.outcome, one.fields, one.kept) for one in done.entities] == [("restored", ("tags",), ())]
        assert (project.journal.get("decision", first.item_id).value, done.receipt.record_count) == (first.value, 2)
        again = project.undo(session="many", key="undone")
        assert again.receipt.repeated
        assert [(one.outcome, one.fields) for one in again.entities] == [("restored", ("tags",))]


@pytest.mark.slow
def test_what_is_deleted_with_more_heads_than_a_record_can_name_is_gone(tmp_path):
    project, first = heads_beside_each_other(
        tmp_path / "shop", 2_501, lambda number: {"rationale": f"because {number}"}
    )
    with project:
        project.journal.mutate(lambda transaction: transaction.delete("decision", first.item_id), WRITER)
        assert project.journal.get("decision", first.item_id) is None


@pytest.mark.slow
def test_a_file_that_stands_for_more_versions_than_a_record_can_name_is_left_and_told(tmp_path):
    """Edited here, and as it comes to a clone that knows the file alone: every command works, and says what to do."""
    folder, clone = tmp_path / "shop", tmp_path / "clone"
    project, first = heads_beside_each_other(
        folder, 2_600, lambda number: {"tags": [f"t{number % 99}"], "confirmed": TIMES[number]}
    )
    with project:
        assert not project.journal.get("decision", first.item_id).conflicts
    inside = ".periplus/entities/decision/" + f"{first.item_id}.json"
    (clone / ".periplus/entities/decision").mkdir(parents=True)
    shutil.copy(folder / ".periplus/config.toml", clone / ".periplus")
    shutil.copy(folder / inside, clone / inside)
    told = {}
    for place in (folder, clone):
        if place == folder:
            text = (place / inside).read_text()
            (place / inside).write_text(text.replace("Doors are green", "Doors are red"))
        shell = Shell(place, tmp_path)
        told[place] = shell("status").out
        assert "it merges 2,600 concurrent versions; a file can settle 2,500" in told[place]
        shell("recall", "doors", code=int(place == clone))
    assert f"`periplus set {first.item_id} FIELD=VALUE`, then remove the file" in told[folder]
    assert "Run `periplus sync` with the place it comes from." in told[clone]
    shell = Shell(folder, tmp_path)
    shell("set", first.item_id, "text=Doors are red")
    os.remove(folder / inside)
    assert "sound" in shell("status").out
    assert "Doors are red" in (folder / inside).read_text()


def test_a_record_that_another_lineage_has_is_named_with_how_to_undo_it(tmp_path):
    shell = Shell(tmp_path / "shop", tmp_path)
    shell.folder.mkdir()
    shell("init")
    shell("remember", "Doors are green", "--type", "decision")
    assert "See `periplus log`.\n" in shell.fails("undo", "--seq", "9", code=1, wrong="there is no record 9").err
    copy = Shell(tmp_path / "copy", tmp_path)
    shutil.copytree(shell.folder, copy.folder)
    lineage = copy.json("log", "--lineage", "all").records[0].lineage
    told = copy.fails("undo", "--seq", "1", code=1, wrong="there is no record 1").err
    assert "See `periplus log --lineage all`. Of another lineage: periplus undo --lineage ID --seq N." in told
    assert copy.json("undo", "--lineage", lineage, "--seq", "1").entities[0].outcome == "deleted"
