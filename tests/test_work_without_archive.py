"""The archive is on another disk and the index begins at a checkpoint: agents work on, and what they write down is taken in."""

from __future__ import annotations

import json
import shutil

import pytest

from periplus.agent.persistence.run_log import StoreLog
from periplus.agent.persistence.turn_index import TurnIndex
from periplus.base.errors import DamageError
from periplus.journal import Writer
from periplus.journal.checkpoints.format import KEYS_MAX
from periplus.journal.checkpoints.partial_history import need_records
from periplus.project import Project
from support import WRITER, item, make_store, open_journal, remove_index
from test_agent_pages import opened, turn_of
from test_archive_away import write_much
from test_checkpoint import put
from test_history_apart import from_checkpoint
from test_old_news_at_a_checkpoint import alone  # noqa: F401 - a fixture


@pytest.fixture
def away(alone, tmp_path):  # noqa: F811 - the fixture
    """``(a shell, where its archive was, where it is)``; the index is gone, as after an update of Periplus."""
    move = archived(alone.folder, tmp_path / "away")
    return alone, *move


def archived(folder, elsewhere):
    config = folder / ".periplus" / "config.toml"
    config.write_text(config.read_text() + "segment_bytes = 1500\nlive_segments = 1\n")
    for name in ("winter", "spring", "summer"):
        write_much(_Folder(folder), name)
    [archive] = folder.glob(".periplus/journal/lin_*/archive")
    assert (archive / "000000000001.jsonl").exists()
    shutil.move(archive, elsewhere)
    remove_index(folder / ".periplus")
    return archive, elsewhere


class _Folder:
    def __init__(self, folder):
        self.folder = folder


def hook(shell, event, **more):
    told = {"hook_event_name": event, "session_id": "s", "cwd": str(shell.folder), "transcript_path": "", **more}
    return shell("hook", event, "--wait", stdin=json.dumps(told)).out


@pytest.mark.slow
def test_what_hooks_tell_is_taken_in(away):
    """Each was written with a key, which was refused: hooks said nothing, and what they were told waited."""
    shell, archive, elsewhere = away
    shell("status")
    assert "says of boiler" in hook(shell, "SessionStart", source="startup")
    hook(shell, "UserPromptSubmit", prompt="Heat the boiler")
    hook(shell, "PostToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_response={"stdout": "hot"})
    hook(shell, "SessionEnd", reason="exit")
    assert "Heat the boiler" in shell("trail", "list").out
    assert not (shell.folder / ".periplus" / "hooks" / "notes").exists()
    shutil.move(elsewhere, archive)
    assert "sound" in shell("doctor").out
    assert len(shell("trail", "list").lines) == 1


@pytest.mark.slow
def test_what_hooks_tell_is_taken_in_where_a_checkpoint_left_keys_out(alone, tmp_path):  # noqa: F811 - the fixture
    """Their keys are newer than the oldest that it kept."""
    with Project.open(str(alone.folder), WRITER) as project:
        for number in range(KEYS_MAX):
            project.journal.mutate(lambda t: t.observe({}), WRITER, key=f"key {number}", project=False, durable=False)
    archived(alone.folder, tmp_path / "away")
    hook(alone, "SessionStart", source="startup")
    hook(alone, "UserPromptSubmit", prompt="Heat the boiler")
    hook(alone, "PostToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_response={"stdout": "hot"})
    hook(alone, "PostToolUse", tool_name="Write", tool_input={"file_path": "boiler.py", "content": "hot = True\n"},
         tool_response={"type": "create"})  # fmt: skip
    hook(alone, "SessionEnd", reason="exit")
    assert "Heat the boiler" in alone("trail", "list").out
    with Project.open(str(alone.folder), WRITER) as project:
        notes = alone.folder / ".periplus" / "hooks" / "notes"
        assert [one.value["files"] for one in project.work.handoffs()] == [["boiler.py"]], (
            notes.read_text() if notes.exists() else "?"
        )
    assert not (alone.folder / ".periplus" / "hooks" / "notes").exists()


def test_the_agent_begins_and_goes_on_with_a_session(away):
    """Its own records were asked for from the first one on, though it had none before."""
    shell, archive, elsewhere = away
    with opened(shell.folder) as project:
        log = StoreLog(project, "talk", checkpoints=False)
        assert log.read() == []
        first = log.append(*turn_of(1, "zebras"))
        log.close("done")
    with opened(shell.folder) as project:
        log = StoreLog(project, "talk", checkpoints=False)
        assert tuple(log.read()) == tuple(first)
        second = log.append(*turn_of(2, "bread"))
        assert tuple(log.read_turn(2)) == tuple(second)
        log.close("done")
    told = shell.json("run", "--list")
    assert [(one.name, one.turns) for one in told.sessions] == [("talk", 2)]
    assert told.cut
    assert "older records are missing" in shell("run", "--list").out
    shutil.move(elsewhere, archive)
    told = shell.json("run", "--list")
    assert [(one.name, one.turns) for one in told.sessions] == [("talk", 2)]
    assert not told.cut
    assert "sound" in shell("doctor").out


def test_a_session_that_lies_elsewhere_is_not_taken_for_a_new_one(alone, tmp_path):  # noqa: F811 - the fixture
    with opened(alone.folder) as project:
        log = StoreLog(project, "talk", checkpoints=False)
        log.append(*turn_of(1, "zebras"))
        log.close("done")
    archive, elsewhere = archived(alone.folder, tmp_path / "away")
    with opened(alone.folder) as project, pytest.raises(DamageError, match="neither here nor in archive/"):
        StoreLog(project, "talk", checkpoints=False).read()
    told = alone.json("run", "--list", code=1)
    assert told.cut
    assert not told.sessions
    shutil.move(elsewhere, archive)
    assert [one.name for one in alone.json("run", "--list").sessions] == ["talk"]


def test_turns_that_lie_elsewhere_are_found_once_they_are_back(alone, tmp_path):  # noqa: F811 - the fixture
    """An index of turns that was made of what is here would pass for whole."""
    with opened(alone.folder) as project:
        log = StoreLog(project, "talk", checkpoints=False)
        log.append(*turn_of(1, "zebras"))
        log.close("done")
    archive, elsewhere = archived(alone.folder, tmp_path / "away")
    with opened(alone.folder) as project:
        log = StoreLog(project, "more", checkpoints=False)
        log.append(*turn_of(1, "bread"))
        index = TurnIndex(project)
        assert len(index.search("bread", 5)) == 1
        assert index.search("zebra", 5) == []
        shutil.move(elsewhere, archive)
        assert len(index.search("zebra", 5)) == 1
        index.close()
        log.close("done")
    with opened(alone.folder) as project:
        index = TurnIndex(project)
        assert len(index.search("zebra", 5)) == 1
        assert len(index.search("bread", 5)) == 1
        index.close()


def test_a_new_key_is_taken_where_the_checkpoint_keeps_all(away):
    shell, archive, elsewhere = away
    words = ("remember", "Ports are open", "--type", "note", "--key", "k-2")
    first = shell.json(*words).entity.id
    assert shell.json(*words).entity.id == first
    assert "state    sound" in shell("status").out
    shutil.move(elsewhere, archive)
    assert shell.json(*words).entity.id == first
    assert "sound" in shell("doctor").out


@pytest.mark.slow
def test_of_keys_that_a_checkpoint_left_out_only_new_ones_are_taken(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        first = put(journal, 1, "first", key="long ago")
        journal.roll()
        for number in range(KEYS_MAX):
            journal.mutate(lambda t: t.observe({}), WRITER, key=f"key {number}", project=False)
        journal.roll()
        begun_ms = journal.clock.now_ms()
        path = journal.reader(journal.lineage).path_of(1)
    from_checkpoint(root)
    shutil.move(path, tmp_path / "away")

    def write(journal, key, key_ms=None):
        return journal.mutate(lambda t: t.put("decision", item(2), {"n": key}), WRITER, key=key, key_ms=key_ms)

    with open_journal(root) as journal:
        for key, key_ms in (("long ago", None), ("never", None), ("never", 0)):
            with pytest.raises(DamageError, match="neither here nor in archive/"):
                write(journal, key, key_ms)
        new = write(journal, "new", begun_ms + 60_000)
        assert not new.repeated
        assert write(journal, "new") == new._replace(repeated=True)
    shutil.move(tmp_path / "away", path)
    with open_journal(root) as journal:
        assert write(journal, "long ago") == first._replace(repeated=True)
        assert not write(journal, "never").repeated


def test_what_begins_right_behind_the_checkpoint_needs_nothing_of_before(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        put(journal, 1, "first")
        journal.roll()
        put(journal, 2, "second")
        path = journal.reader(journal.lineage).path_of(1)
    from_checkpoint(root)
    shutil.move(path, tmp_path / "away")
    with open_journal(root) as journal:
        floor = journal.index.floors()[journal.lineage]
        assert floor > 1
        need_records(journal, journal.lineage, floor)
        with pytest.raises(DamageError, match="neither here nor in archive/"):
            need_records(journal, journal.lineage, floor - 1)


def test_a_live_run_takes_steps_with_keys(away):
    shell, archive, elsewhere = away
    with Project.open(str(shell.folder), Writer("ada", "who_0000000000000000", "", 1)) as project:
        run = project.record(agent="a", title="heat", checkpoints=False)
        assert run.add("SAY", {"text": "hot"}, key="one").place == 0
        assert run.add("SAY", {"text": "hot"}, key="one").place == 0
        assert run.add("SAY", {"text": "cold"}, key="two").place == 1
        run.seal("success")
    assert "2 steps" in shell("trail", "list").out
    shutil.move(elsewhere, archive)
    assert "sound" in shell("doctor").out
