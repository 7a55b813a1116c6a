"""The notification log's folder: taken in whole, kept the same, and left again as it was found."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import sys
from pathlib import Path

import pytest

from cli_support import Shell
from periplus.base.errors import DamageError, EnvironmentFailure, NotFoundError, RefusedError, UsageError
from periplus.base.files import Files
from periplus.base.ids import derived_id
from periplus.interop.version1.documents import render_file
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.project import Project
from periplus.project.migration import migrate, migration_status
from periplus.project.v1_folder.folder_keeper import read_mode
from support import Stop, StoppingFiles
from v1_samples import SECRET, contents, make_v1

WRITER = Writer("ada", "who_0000000000000000", "ses", 1)


@pytest.fixture
def store(tmp_path):
    Project.init(os.fspath(tmp_path / "project")) if (tmp_path / "project").mkdir() is None else None
    return os.fspath(tmp_path / "project" / ".periplus")


@pytest.fixture
def old(tmp_path):
    """A small folder: three entities of types of ours, one of another."""
    folder = tmp_path / "old"
    for kind, name, value in (
        ("decisions", "D-1", {"id": "D-1", "type": "decision", "text": "Hash with argon2", "status": "accepted", "weight": 1.50}),
        ("traps", "T-1", {"id": "T-1", "type": "trap", "text": "The cache lies", "severity": "high", "confidence": 0.8}),
        ("notes", "N-1", {"id": "N-1", "type": "note", "content": "Grüße aus dem Log", "tags": ["a"]}),
        ("plans", "P-1", {"id": "P-1", "type": "plan", "goal": "Ship it", "share": 0.25}),
    ):  # fmt: skip
        (folder / kind).mkdir(parents=True)
        (folder / kind / f"{name}.json").write_text(json.dumps(value, indent=4, ensure_ascii=False))
    (folder / "events.jsonl").write_text(
        '{"ts":"2025-01-01","event":"create","item_type":"decision","item_id":"D-1"}\n'
    )
    return folder


def opened(store, files=None):
    return Project(store, WRITER, files=files)


def to(store, mode, source=None, **how):
    with opened(store) as project:
        return migrate(project, mode, source=os.fspath(source) if source else "", **how)


def records(project):
    project.journal.refresh()
    return project.journal.end().next_seq - 1


def our_id(prefix, name, old_id):
    return derived_id(prefix, "v1", name, old_id)


def one(store, item_type):
    with opened(store) as project:
        (entity,) = project.journal.entities(item_type)
        return entity


def kinds(result):
    return [one.kind for one in result.findings if one.kind not in ("other", "unnamed_file")]


# -- taking a folder in ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_realistic_folder_is_taken_in_whole(tmp_path, store):
    sample = make_v1(tmp_path / "old", 300)
    before = contents(tmp_path / "old")
    done = to(store, "dual", tmp_path / "old")
    counts = done.counts
    assert (counts["entities"], counts["duplicates"]) == (sample.entities, sample.duplicates)
    assert (counts["unreadable"], counts["refused"]) == (sample.unreadable, sample.refused)
    assert counts["candidates"] == sample.entities + sample.duplicates + sample.unreadable + sample.refused
    assert counts["imported"] == sample.entities
    assert (counts["log_torn"], counts["orphan_events"], counts["log_repeated"]) == (sample.torn, sample.orphans, 10)
    assert counts["log_out_of_order"] > 0
    assert contents(tmp_path / "old") == before, "the folder was changed"
    with opened(store) as project:
        held = {}
        for entity in project.journal.entities():
            origin = entity.value["v1"]
            held[origin["path"]] = render_file(entity.item_type, entity.item_id, entity.value)
        assert len(held) == sample.entities
        for path, data in held.items():
            assert before[path] == ("file", data), path
        types = {entity.item_type for entity in project.journal.entities()}
        assert {"decision", "trap", "note", "v1_plan", "v1_task", "v1_message", "v1_decision"} <= types
        assert project.examine().exit_code == 0
        notes = [record for record in project.log(limit=1000).records if record.action == "note"]
        assert len(notes) == 1
        assert project.recall("Straße deploy").hits
    journal = b"".join(
        path.read_bytes() for path in (tmp_path / "project").rglob("*.jsonl") if "archive" not in path.parts
    )
    assert SECRET.encode() not in journal


def test_the_backup_is_whole(tmp_path, store):
    make_v1(tmp_path / "old", 40)
    done = to(store, "dual", tmp_path / "old")
    folder = os.path.join(store, done.backup)
    files = {path: found for path, found in contents(tmp_path / "old").items() if found[0] == "file"}
    copied = {path: found for path, found in contents(os.path.join(folder, "files")).items() if found[0] == "file"}
    assert copied == files
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    with open(os.path.join(folder, "MANIFEST.json"), encoding="utf-8") as file:
        assert len(json.load(file)["files"]) == len(files)


def test_a_dry_run_changes_nothing_and_says_the_same(tmp_path, store):
    make_v1(tmp_path / "old", 60)
    with opened(store):
        pass
    before = contents(tmp_path)
    with opened(store) as project:
        dry = migrate(project, "dual", source=os.fspath(tmp_path / "old"), is_dry=True)
    after = contents(tmp_path)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert not [path for path in changed if "index.sqlite" not in path and not path.endswith("lock")]
    wet = to(store, "dual", tmp_path / "old")
    assert dry.counts == wet.counts
    assert sorted(dry.findings) == sorted(wet.findings)


def test_again_writes_nothing(old, store):
    to(store, "dual", old)
    with opened(store) as project:
        count = records(project)
    again = to(store, "dual", old)
    assert again.counts["imported"] == again.counts["written"] == again.counts["taken_in"] == 0
    to(store, "off")
    back = to(store, "dual", old)
    assert back.counts["imported"] == 0
    with opened(store) as project:
        assert records(project) == count


def test_two_stores_make_the_same_versions_of_the_same_folder(tmp_path, old, store):
    (tmp_path / "other").mkdir()
    Project.init(os.fspath(tmp_path / "other"))
    second = os.fspath(tmp_path / "other" / ".periplus")
    to(store, "dual", old)
    to(second, "dual", old)
    with opened(store) as a, opened(second) as b:
        versions = [[(e.item_id, e.version) for e in project.journal.entities()] for project in (a, b)]
    assert versions[0] == versions[1]


def test_what_is_ours_is_read_into_our_fields(old, store):
    to(store, "dual", old)
    trap = one(store, "trap")
    assert trap.item_id == our_id("trp", "trap", "T-1")
    assert (trap.value["text"], trap.value["severity"], trap.value["confidence"]) == ("The cache lies", "high", 80)
    decision = one(store, "decision")
    assert decision.value["state"] == "accepted"
    assert decision.value["fields"] == {"weight": {"$dec": "1.5"}}
    assert decision.value["provenance"] == {"kind": "import", "name": "v1", "source": "decisions/D-1.json"}
    plan = one(store, "v1_plan")
    assert plan.value["fields"]["share"] == {"$dec": "0.25"}
    assert plan.value["v1"]["id"] == "P-1"


def test_an_unknown_state_is_not_called_accepted(old, store):
    (old / "decisions" / "D-1.json").write_text('{"id":"D-1","type":"decision","text":"x","status":"parked"}')
    done = to(store, "dual", old)
    assert one(store, "v1_decision").value["fields"]["status"] == "parked"
    assert ("kept_foreign", "decisions/D-1.json") in [(found.kind, found.path) for found in done.findings]


def test_of_duplicates_the_one_named_by_its_id_counts(old, store):
    (old / "decisions" / "a-copy.json").write_text(
        '{"id":"D-1","type":"decision","text":"Hash with md5","updated":"2030"}'
    )
    done = to(store, "dual", old)
    (found,) = [found for found in done.findings if found.kind == "duplicate"]
    assert (found.path, found.other) == ("decisions/a-copy.json", "decisions/D-1.json")
    assert one(store, "decision").value["text"] == "Hash with argon2"


def test_secrets_are_refused_unless_somebody_insists(old, store):
    path = old / "plans" / "P-1.json"
    path.write_text(json.dumps({"id": "P-1", "goal": f"log in with {SECRET}"}))
    refused = to(store, "dual", old)
    (found,) = [found for found in refused.findings if found.kind == "refused"]
    assert found.path == "plans/P-1.json"
    assert SECRET not in repr(refused)
    with opened(store) as project:
        allowed = migrate(project, "dual", source=os.fspath(old), allow_secrets=True)
        assert allowed.counts["imported"] == 1
    later = to(store, "dual")
    assert later.counts["refused"] == 0, "it was let pass as it is"
    assert later.counts["missing"] == 0
    path.write_text(json.dumps({"id": "P-1", "goal": f"log in again with {SECRET}"}))
    assert to(store, "dual").counts["refused"] == 1


def test_the_mode_alone(store, old):
    with opened(store) as project:
        assert migration_status(project).mode == "off"
        assert migration_status(project).counts == {}
    to(store, "dual", old)
    with opened(store) as project:
        found = migration_status(project)
        assert (found.mode, found.counts["entities"]) == ("dual", 4)
        assert project.keeper is not None
        project.remember(Memory("note", "looking did not stop the keeping"))
    assert len(list((old / "notes").iterdir())) == 2


@pytest.mark.parametrize(
    ("how", "wrong"),
    [
        ({"mode": "dual"}, "no folder to migrate is named"),
        ({"mode": "primary", "source": "old"}, "goes through dual"),
        ({"mode": "off", "source": "old"}, "--from needs --to dual"),
        ({"mode": "dual", "source": "project"}, "lie within each other"),
        ({"mode": "dual", "source": "project/.periplus/journal"}, "lie within each other"),
        ({"mode": "dual", "source": "old/events.jsonl"}, "not a folder"),
    ],
)
def test_steps_that_there_are_not(tmp_path, store, old, how, wrong):
    before = contents(old)
    with pytest.raises(UsageError, match=wrong):
        to(store, how["mode"], tmp_path / how["source"] if "source" in how else None)
    assert contents(old) == before
    assert read_mode(store).mode == "off"


def test_a_folder_that_is_not_there(tmp_path, store):
    with pytest.raises(NotFoundError, match="nowhere"):
        to(store, "dual", tmp_path / "nowhere")


# -- dual: the journal first, the folder the same --------------------------------------------------------------------


def test_each_mutation_is_written_to_the_folder(old, store):
    to(store, "dual", old)
    before = contents(old)
    with opened(store) as project:
        (decision,) = project.journal.entities("decision")
        new = project.remember(Memory("decision", "Hash with scrypt – später", supersedes=(decision.item_id,)))
        after = contents(old)
        assert project.keeper.failure == ""
    changed = {path for path in after if before.get(path) != after[path]}
    assert changed == {"decisions/D-1.json", f"decisions/{new.entity.item_id}.json"}
    was, now = (json.loads(found["decisions/D-1.json"][1]) for found in (before, after))
    assert now == was | {"status": "superseded"}
    assert list(now) == list(was), "the old order of keys is kept"
    assert (
        b'\n    "weight": 1.5,' in after["decisions/D-1.json"][1]
        or b'"weight": 1.5\n' in after["decisions/D-1.json"][1]
    )
    made = json.loads(after[f"decisions/{new.entity.item_id}.json"][1])
    assert (made["id"], made["type"], made["text"]) == (new.entity.item_id, "decision", "Hash with scrypt – später")


def test_what_the_old_program_writes_is_taken_in(old, store):
    to(store, "dual", old)
    path = old / "traps" / "T-1.json"
    value = json.loads(path.read_text())
    path.write_text(json.dumps(value | {"text": "The cache lies twice", "confidence": 0.9, "seen": 3}))
    (old / "lessons").mkdir()
    (old / "lessons" / "L-1.json").write_text('{"id":"L-1","text":"Clear it first"}')
    (old / "goals").mkdir()
    (old / "goals" / "G-1.json").write_text('{"id":"G-1","aim":"a type seen for the first time"}')
    with opened(store) as project:  # opening is enough
        (trap,) = project.journal.entities("trap")
        assert (trap.value["text"], trap.value["confidence"], trap.value["fields"]["seen"]) == (
            "The cache lies twice",
            90,
            3,
        )
        assert trap.rev == 2
        assert [e.value["text"] for e in project.journal.entities("lesson")] == ["Clear it first"]
        actions = [record.action for record in project.log(limit=3).records]
        assert sorted(actions) == ["external_edit", "import", "import"]
    with opened(store) as project:
        (goal,) = project.journal.entities("v1_goal")
        value = goal.value | {"fields": goal.value["fields"] | {"aim": "changed here"}}
        project.journal.mutate(lambda tx: tx.put("v1_goal", goal.item_id, value), WRITER)
    assert json.loads((old / "goals" / "G-1.json").read_text())["aim"] == "changed here"


def test_only_what_the_old_program_wrote_has_to_stand_in_its_log(old, store):
    to(store, "dual", old)
    with opened(store) as project:
        project.remember(Memory("note", "made here"))
        unnamed = [one.path for one in migration_status(project).findings if one.kind == "unnamed_file"]
    assert len(list((old / "notes").iterdir())) == 2
    assert sorted(unnamed) == ["notes/N-1.json", "plans/P-1.json", "traps/T-1.json"], (
        "what the older program did not log"
    )
    done = to(store, "off")
    assert sorted(one.path for one in done.findings if one.kind == "unnamed_file") == sorted(unnamed)


def test_an_edit_that_cannot_be_read_is_left_and_reported(old, store):
    to(store, "dual", old)
    path = old / "traps" / "T-1.json"
    path.write_text('{"id":"T-1","ty')
    with opened(store) as project:
        (trap,) = project.journal.entities("trap")
        assert trap.rev == 1
        assert kinds(migration_status(project)) == ["unreadable"]
        project.journal.mutate(lambda tx: tx.put("trap", trap.item_id, trap.value | {"remedy": "x"}), WRITER)
    assert path.read_text() == '{"id":"T-1","ty'


def edited_on_both_sides(old, store):
    """The old program and a program of ours, each with its own change of T-1, while nobody kept them the same."""
    to(store, "dual", old)
    path = old / "traps" / "T-1.json"
    with opened(store) as project:
        (trap,) = project.journal.entities("trap")
        project.hold()
        project.journal.mutate(lambda tx: tx.put("trap", trap.item_id, trap.value | {"remedy": "clear it"}), WRITER)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"text": "It lies"}))
    return path


@pytest.mark.parametrize("lost", [False, True], ids=["remembered", "nothing remembered"])
def test_both_sides_changed_is_a_conflict_until_somebody_decides(old, store, lost):
    path = edited_on_both_sides(old, store)
    if lost:
        os.unlink(os.path.join(store, "migration", "seen.json"))
    mine = path.read_bytes()
    with opened(store) as project:
        assert kinds(migration_status(project)) == ["conflict"]
    assert path.read_bytes() == mine
    assert one(store, "trap").value["remedy"] == "clear it"
    with pytest.raises(RefusedError, match="say different things"):
        to(store, "primary")
    assert read_mode(store).mode == "dual"
    done = to(store, "dual", take="journal")
    assert kinds(done) == []
    assert json.loads(path.read_text())["remedy"] == "clear it"
    (kept,) = os.listdir(os.path.join(store, "archive", "v1-aside"))
    with open(os.path.join(store, "archive", "v1-aside", kept), "rb") as file:
        assert file.read() == mine


def test_take_files(old, store):
    path = edited_on_both_sides(old, store)
    assert kinds(to(store, "dual", take="files")) == []
    assert one(store, "trap").value["text"] == "It lies"
    assert "remedy" not in one(store, "trap").value
    assert json.loads(path.read_text())["text"] == "It lies"


def test_a_missing_file_says_nothing(old, store):
    to(store, "dual", old)
    path = old / "notes" / "N-1.json"
    before = path.read_bytes()
    path.unlink()
    with opened(store) as project:
        assert len(list(project.journal.entities("note"))) == 1
        assert kinds(migration_status(project)) == ["missing"]
    with opened(store):
        pass
    assert not path.exists()
    assert to(store, "dual", heal=True).counts["written"] == 1
    assert path.read_bytes() == before


def test_a_file_of_ours_that_is_gone_is_not_made_again(old, store):
    to(store, "dual", old)
    with opened(store) as project:
        note = project.remember(Memory("note", "made here")).entity
    path = old / "notes" / f"{note.item_id}.json"
    path.unlink()
    for _ in range(3):
        with opened(store) as project:
            assert kinds(migration_status(project)) == ["missing"]
    assert not path.exists()


def test_what_is_deleted_here_is_kept_aside_there(old, store):
    to(store, "dual", old)
    path = old / "notes" / "N-1.json"
    before = path.read_bytes()
    with opened(store) as project:
        (note,) = project.journal.entities("note")
        project.journal.mutate(lambda tx: tx.delete("note", note.item_id), WRITER)
        assert project.keeper.failure == ""
    assert not path.exists()
    (kept,) = os.listdir(os.path.join(store, "archive", "v1-aside"))
    with open(os.path.join(store, "archive", "v1-aside", kept), "rb") as file:
        assert file.read() == before
    path.write_bytes(before.replace(b"dem Log", b"der Ferne"))  # the old program wrote it once more
    with opened(store) as project:
        assert kinds(migration_status(project)) in (["deleted"], [])
        assert list(project.journal.entities("note")) == []
    assert path.exists()
    assert to(store, "dual", take="files").counts["imported"] == 1
    assert "der Ferne" in one(store, "note").value["text"]


def test_nothing_is_read_again_where_nothing_changed(old, store):
    for path in old.rglob("*.json"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    to(store, "dual", old)
    with opened(store) as project:
        kept = project.keeper.run(is_whole=False)
        assert kept.folder.candidates == 0, "the pass looked at the times only"
        path = old / "notes" / "N-1.json"
        path.write_text(path.read_text().replace("Grüße", "Gruß"))
        kept = project.keeper.run(is_whole=False)
        assert (kept.taken_in, kept.folder.candidates) == (1, 1), "and then read the one file"


def test_a_folder_that_cannot_be_written_fails_no_mutation(old, store):
    to(store, "dual", old)
    away = old.with_name("away")
    old.rename(away)
    with opened(store) as project:
        assert "old" in project.keeper.failure
        project.remember(Memory("note", "while the disk was away"))
        assert "old" in project.keeper.failure
        with pytest.raises(EnvironmentFailure):
            migrate(project, "off")
    away.rename(old)
    with opened(store) as project:
        assert project.keeper.failure == ""
    assert len(list((old / "notes").iterdir())) == 2


# -- primary, and back -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_there_and_back_again(tmp_path, store):
    make_v1(tmp_path / "old", 120)
    before = contents(tmp_path / "old")
    to(store, "dual", tmp_path / "old")
    assert contents(tmp_path / "old") == before
    to(store, "primary")
    parked = contents(tmp_path / "old")
    assert before.items() - parked.items() == {("events.jsonl", before["events.jsonl"])}
    with open(os.path.join(store, "archive", "v1-log", "events.jsonl"), "rb") as file:
        assert file.read() == before["events.jsonl"][1]
    for mode in ("dual", "off", "dual", "primary", "off"):
        to(store, mode)
        assert read_mode(store).mode == mode
    assert contents(tmp_path / "old") == before


def test_a_folder_that_is_gone_for_good_is_made_again(old, store, tmp_path):
    shell = Shell(tmp_path / "project", tmp_path)
    shell("migrate", "--from", old, "--to", "dual")
    assert "periplus migrate --to primary, once" in shell("migrate", "--to", "dual").out
    names = sorted(json.loads(path.read_text())["id"] for path in old.rglob("*.json"))
    shutil.rmtree(old)
    for words in (
        ["migrate"],
        ["migrate", "--to", "off"],
        ["migrate", "--to", "primary"],
        ["migrate", "--to", "off", "--dry-run"],
    ):
        refused = shell.fails(*words, code=3, wrong=f"the v1 folder {old} is not there")
        assert "If it is elsewhere: periplus migrate --from DIR --to" in refused.err
    old.mkdir()
    shell("migrate", "--from", old, "--to", "dual", "--heal")
    assert sorted(json.loads(path.read_text())["id"] for path in old.rglob("*.json")) == names
    shell("migrate", "--to", "off")
    assert shell.json("migrate").mode == "off"


@pytest.mark.parametrize("how", [{"take": "files"}, {"take": "journal"}, {"heal": True}], ids=str)
def test_in_off_there_is_nothing_to_decide(old, store, how):
    to(store, "dual", old)
    to(store, "off")
    before = {path: path.read_bytes() for path in old.rglob("*.json")}
    with opened(store) as project:
        for is_dry in (False, True):
            with pytest.raises(UsageError, match="in the mode off the folder is not touched"):
                migrate(project, is_dry=is_dry, **how)
    assert {path: path.read_bytes() for path in old.rglob("*.json")} == before


def test_back_in_off_the_folder_has_everything(old, store):
    to(store, "dual", old)
    to(store, "primary")
    with opened(store) as project:
        (trap,) = project.journal.entities("trap")
        project.journal.mutate(lambda tx: tx.put("trap", trap.item_id, trap.value | {"state": "resolved"}), WRITER)
        note = project.remember(Memory("note", "written in primary")).entity
    (old / "plans" / "P-1.json").unlink()
    to(store, "off")
    assert json.loads((old / "traps" / "T-1.json").read_text())["state"] == "resolved"
    assert json.loads((old / "notes" / f"{note.item_id}.json").read_text())["text"] == "written in primary"
    assert json.loads((old / "plans" / "P-1.json").read_text())["share"] == 0.25
    assert (old / "events.jsonl").exists()
    before = contents(old)
    with opened(store) as project:
        project.remember(Memory("note", "after the way back"))
    assert contents(old) == before, "off leaves the folder alone"
    (old / "traps" / "T-1.json").write_text('{"id":"T-1","type":"trap","text":"edited while off"}')
    done = to(store, "dual")
    assert (done.counts["taken_in"], done.counts["written"]) == (1, 1) or kinds(done) == ["conflict"]


def test_primary_heals_and_takes_nothing(old, store):
    to(store, "dual", old)
    to(store, "primary")
    before = contents(old)
    (old / "notes" / "N-1.json").unlink()
    (old / "plans" / "P-1.json").write_text('{"id": torn')
    edited = (old / "traps" / "T-1.json").read_text().replace("lies", "cheats")
    (old / "traps" / "T-1.json").write_text(edited)
    with opened(store) as project:
        status = migration_status(project)
        assert kinds(status) == ["edited"]
        assert "unnamed_file" not in {one.kind for one in status.findings}, "the log is parked: what should it name?"
        assert one(store, "trap").rev == 1
    after = contents(old)
    assert after["notes/N-1.json"] == before["notes/N-1.json"]
    assert after["plans/P-1.json"] == before["plans/P-1.json"]
    assert (old / "traps" / "T-1.json").read_text() == edited
    done = to(store, "dual")
    assert done.counts["taken_in"] == 1
    assert one(store, "trap").value["text"] == "The cache cheats"


def test_a_log_that_was_begun_anew_is_kept_beside_the_parked_one(old, store):
    to(store, "dual", old)
    first = (old / "events.jsonl").read_bytes()
    to(store, "primary")
    (old / "events.jsonl").write_text('{"item_id":"new"}\n')
    to(store, "dual")
    assert (old / "events.jsonl").read_text() == '{"item_id":"new"}\n'
    to(store, "primary")
    assert not (old / "events.jsonl").exists()
    parked = {found[1] for found in contents(os.path.join(store, "archive", "v1-log")).values()}
    assert {first, b'{"item_id":"new"}\n'} <= parked


class Apart(Files):
    """The store lies on another file system than the folder."""

    def replace(self, source, target):
        if (os.path.basename(source), os.path.basename(os.path.dirname(target))) == ("events.jsonl", "v1-log"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source)
        super().replace(source, target)


class Late(Apart):
    """The old program has its log open, and writes into it just before it is unlinked, or begins another."""

    def __init__(self, path, line, *, begins):
        self.path, self.line, self.begins = os.fspath(path), line, begins

    def unlink(self, path):
        if path == self.path and self.line:
            line, self.line = self.line, b""
            with open(path, "ab") as file:
                file.write(line)
            super().unlink(path)
            if self.begins:
                Path(path).write_bytes(b'{"item_id":"after"}\n')
            return
        super().unlink(path)


@pytest.mark.parametrize("begins", [False, True])
def test_what_the_old_program_writes_while_its_log_is_parked_is_kept(old, store, begins):
    to(store, "dual", old)
    log = old / "events.jsonl"
    before = log.read_bytes()
    line = b'{"item_id":"late"}\n'
    with (
        opened(store, Late(log, line, begins=begins)) as project,
        pytest.raises(EnvironmentFailure, match="changed while"),
    ):
        migrate(project, "primary")
    held = {found[1] for found in contents(os.path.join(store, "archive", "v1-log")).values()}
    assert before + line in (held if begins else {log.read_bytes()})
    assert not begins or log.read_bytes() == b'{"item_id":"after"}\n'
    to(store, "primary")
    assert not log.exists()
    parked = b"".join(path.read_bytes() for path in Path(store, "archive", "v1-log").rglob("*") if path.is_file())
    assert line in parked
    assert not begins or b'"after"' in parked


def test_what_the_old_program_writes_while_its_log_is_compared_is_kept(old, store):
    """Between the comparison with the copy and the look at the size: the line was neither in the copy nor put back."""
    to(store, "dual", old)
    log, line = old / "events.jsonl", b'{"item_id":"late"}\n'
    before = log.read_bytes()
    log.chmod(0o600)
    waiting = [line]

    def compared(frame, event, _argument):
        is_there = (
            event == "return" and frame.f_code.co_name == "_digest" and frame.f_back.f_code.co_name == "_take_out"
        )
        if is_there and waiting:
            with open(log, "ab") as file:
                file.write(waiting.pop())

    sys.setprofile(compared)
    try:
        with opened(store, Apart()) as project, pytest.raises(EnvironmentFailure, match="changed while"):
            migrate(project, "primary")
    finally:
        sys.setprofile(None)
    assert (log.read_bytes(), stat.S_IMODE(log.stat().st_mode)) == (before + line, 0o600)


@pytest.mark.parametrize("at", range(3))
def test_who_has_the_log_open_while_it_is_parked_loses_no_line_wherever_that_is_stopped(old, store, at):
    """Unlinked, and stopped before what came late was put back, it was gone."""
    to(store, "dual", old)
    log = old / "events.jsonl"
    before = log.read_bytes()

    class Writing(Files):
        """The old program writes before and behind one of our steps, at which we are killed."""

        def __init__(self, program):
            self.program, self.steps = program, 0

        def step(self, path, step, *arguments):
            if self.steps > at:
                raise Stop  # whoever was killed does nothing any more
            self.steps += "v1-log" in path or path in (os.fspath(log), os.fspath(old))
            if self.steps <= at:
                return step(*arguments)
            self.program.write(b"late\n")
            step(*arguments)
            self.program.write(b"later\n")
            raise Stop

        def replace(self, source, target):
            self.step(target, super().replace, source, target)

        def unlink(self, path):
            self.step(path, super().unlink, path)

        def sync_folder(self, path):
            self.step(path, super().sync_folder, path)

    with log.open("ab", buffering=0) as program:
        files = Writing(program)
        with opened(store, files) as project, pytest.raises(Stop):
            migrate(project, "primary")
        program.write(b"last\n")
    to(store, "primary")
    parked = Path(store, "archive", "v1-log", "events.jsonl")
    assert parked.read_bytes() == before + b"late\nlater\nlast\n"
    to(store, "off")
    assert log.read_bytes() == parked.read_bytes()


# -- stopped anywhere --------------------------------------------------------------------------------------------------


def state(store, old):
    """What must be the same in the end, wherever the way there was interrupted."""
    with opened(store) as project:
        entities = [(e.item_type, e.item_id, e.version, e.rev) for e in project.journal.entities()]
        notes = sum(record.action == "note" for record in project.log(limit=1000).records)
        assert project.examine().exit_code == 0
    files = {path: found for path, found in contents(old).items() if not path.endswith(".tmp")}
    return entities, notes, files, read_mode(store).mode


def steps_of(store, old, files):
    with opened(store, files) as project:
        migrate(project, "dual", source=os.fspath(old))
        (trap,) = project.journal.entities("trap")
        if trap.value.get("remedy") != "clear it":
            project.journal.mutate(lambda tx: tx.put("trap", trap.item_id, trap.value | {"remedy": "clear it"}), WRITER)
        migrate(project, "primary")
        migrate(project, "off")
        project.journal.mutate(lambda tx: tx.observe({"end": 1}), WRITER)  # a sync, and the mark behind it


@pytest.mark.slow
def test_stopped_at_every_call_and_run_again(tmp_path, old, store):
    import shutil

    places = tmp_path / "fresh"
    shutil.copytree(old, places / "old")
    shutil.copytree(store, places / "store" / ".periplus")
    at, expected = 0, None
    calls = StoppingFiles(-1)
    steps_of(store, old, calls)
    expected = state(store, old)
    total = len(calls.calls)
    assert total > 100
    while at < total:
        here = tmp_path / f"at{at}"
        shutil.copytree(places / "old", here / "old")
        (here / "project").mkdir()
        Project.init(os.fspath(here / "project"))
        mine = os.fspath(here / "project" / ".periplus")
        try:
            steps_of(mine, here / "old", StoppingFiles(at, share=0.5))
        except Stop:
            pass
        for path, found in contents(here / "old").items():
            if path.endswith(".json"):
                json.loads(found[1])  # no entity's file is ever half there
        steps_of(mine, here / "old", Files())
        assert state(mine, here / "old") == expected, f"stopped at call {at}: {calls.calls[at]}"
        assert not [path for path in contents(here / "old") if path.endswith(".tmp")]
        shutil.rmtree(here)
        at += 1


# -- what strangers put there ------------------------------------------------------------------------------------------


def test_a_mode_file_that_came_with_a_repository_makes_nothing_write(tmp_path, old, store):
    to(store, "dual", old)
    victim = tmp_path / "victim"
    victim.mkdir()
    path = os.path.join(store, "migration", "mode.json")
    with open(path, encoding="utf-8") as file:
        planted = json.load(file) | {"source": os.fspath(victim)}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(planted, file)
    with opened(store) as project:
        project.remember(Memory("note", "where does this go"))
        assert "is not the folder that was migrated" in project.keeper.failure
    assert os.listdir(victim) == []


@pytest.mark.parametrize(
    "path", ["../../evil.json", "/tmp/evil.json", "a/../../evil.json", "plans/evil.txt", "elsewhere/evil.json"]
)
def test_a_path_that_leads_elsewhere_is_not_written(tmp_path, old, store, path):
    to(store, "dual", old)
    (tmp_path / "out").mkdir()
    (old / "elsewhere").symlink_to(tmp_path / "out")
    with opened(store) as project:
        (plan,) = project.journal.entities("v1_plan")
        value = plan.value | {"v1": plan.value["v1"] | {"path": path}}
        project.hold()
        project.journal.mutate(lambda tx: tx.put("v1_plan", plan.item_id, value), WRITER)
        (old / "plans" / "P-1.json").unlink()
        found = migrate(project, heal=True)
    assert "conflict" in kinds(found)
    assert not list(tmp_path.rglob("evil.*"))
    assert not os.path.exists("/tmp/evil.json")


def test_links_in_the_store_are_not_followed(tmp_path, old, store):
    (tmp_path / "out").mkdir()
    os.symlink(tmp_path / "out", os.path.join(store, "archive"))
    with pytest.raises(DamageError, match="symbolic link"):
        to(store, "dual", old)
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.parametrize(
    "text", ["", "{", '{"format":1,"mode":"triple"}', "[]", '{"format":9}', '{"mode":"dual","source":"/a\\u0000b"}']
)
def test_a_mode_file_that_is_none(old, store, text):
    to(store, "dual", old)
    with open(os.path.join(store, "migration", "mode.json"), "w", encoding="utf-8") as file:
        file.write(text)
    open_before = len(os.listdir("/dev/fd"))
    with pytest.raises(DamageError) as _:  # which holds what was being made
        opened(store)
    assert len(os.listdir("/dev/fd")) == open_before


# -- as a person types it ----------------------------------------------------------------------------------------------


def test_the_command(tmp_path, old, store):
    shell = Shell(tmp_path / "project", tmp_path)
    assert "off" in shell("migrate").lines[0]
    shell.fails("migrate", "--from", old, code=2, wrong="--from needs --to dual")
    shell.fails("migrate", "--to", "dual", code=2, wrong="no folder to migrate is named")
    dry = shell.json("migrate", "--from", old, "--to", "dual", "--dry-run")
    assert (dry.dry, dry.counts["imported"]) == (True, 4)
    done = shell("migrate", "--from", old, "--to", "dual")
    assert "files    4 = 4 entities + 0 duplicates + 0 unreadable + 0 refused" in done.lines
    assert any(line.startswith("backup ") for line in done.lines)
    shell("remember", "Written by the new program", "--type", "lesson")
    (path,) = (old / "lessons").iterdir()
    assert json.loads(path.read_text())["text"] == "Written by the new program"
    (old / "plans" / "P-2.json").write_bytes(b"\xff")
    found = shell.json("migrate", code=1)
    assert [(one.kind, one.path) for one in found.findings if one.kind == "unreadable"] == [
        ("unreadable", "plans/P-2.json")
    ]
    assert "plans/P-2.json" in shell("migrate", code=1).out
    assert shell.json("migrate", "--to", "off", code=1).mode == "off"


@pytest.mark.skipif(sys.platform != "linux", reason="names there are UTF-8")
def test_folders_whose_names_are_no_text(tmp_path):
    place = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    lessons = Path(place, os.fsdecode(b"o\xe8d"), "lessons")
    lessons.mkdir(parents=True)
    (lessons / "L-1.json").write_text('{"id":"L-1","text":"Seed first"}')
    (lessons / os.fsdecode(b"L-\xff.json")).write_text("{}")
    Path(place, "shop").mkdir()
    shell = Shell(Path(place, "shop"), tmp_path)
    shell("init")
    dry = shell("migrate", "--from", lessons.parent, "--to", "dual", "--dry-run", code=1)
    done = shell("migrate", "--from", lessons.parent, "--to", "dual", code=1)
    assert "done     1 imported" in dry.lines
    assert "done     1 imported" in done.lines
    shell("set", our_id("les", "lesson", "L-1"), "text=Seed last")
    assert json.loads((lessons / "L-1.json").read_text())["text"] == "Seed last"
    seen = Path(place, "shop/.periplus/migration/seen.json")
    assert "L-1.json" in seen.read_text()
    shell("migrate", "--to", "primary", code=1)
    (lessons / "L-1.json").unlink()
    shell("status")
    assert (lessons / "L-1.json").exists()
    assert "sound" in shell("doctor").out
    shell("migrate", "--to", "off", code=1)
    assert os.fsencode(read_mode(os.fspath(Path(place, "shop/.periplus"))).source).endswith(b"/caf\xe9/o\xe8d")


def test_a_command_says_that_the_folder_lags_behind(tmp_path, old, store):
    shell = Shell(tmp_path / "project", tmp_path)
    shell("migrate", "--from", old, "--to", "dual")
    old.rename(tmp_path / "away")
    done = shell("remember", "while the disk was away")
    assert "the version 1 folder is not up to date" in done.err
    shell.fails("migrate", code=3, wrong="v1 folder")
    (tmp_path / "away").rename(old)
    assert shell("remember", "and back").err == ""
    assert len(list((old / "notes").iterdir())) == 3


def test_deletion_needs_a_tombstone(old, store):
    """What was taken in before a kill, and whose type this process does not know yet, is not taken for deleted."""
    to(store, "dual", old)
    os.unlink(os.path.join(store, "migration", "mode.json"))
    before = contents(old)
    done = to(store, "dual", old)
    assert (done.counts["parked"], done.counts["imported"], kinds(done)) == (
        0,
        0,
        [kind for kind in kinds(done) if kind == "kept_foreign"],
    )
    assert contents(old) == before
