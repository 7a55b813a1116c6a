"""Review of what is stale, confirming it, and running checks, on real repositories; and as people type it."""

from __future__ import annotations

import os
import shutil

import pytest

from cli_support import Shell
from periplus.base.clock import FixedClock
from periplus.base.errors import ConflictError, RefusedError, UsageError
from periplus.memory import Memory
from periplus.project import Project
from periplus.trail.replay.command_runner import Runner
from support import WRITER, Stop, StoppingFiles
from test_anchors import AUTH, commit, keep, project, stale, where, write

__all__ = ["project"]

PATH = "/usr/local/bin:/usr/bin:/bin"


def due(project):
    return [(one.entity.item_id, one.stale, one.moved, one.command) for one in project.reviewing.due()]


def test_what_is_stale_moved_or_expired_is_listed_with_what_to_type_and_confirmed(project, tmp_path):
    edited = keep(project, "src/auth.py:hash_password", "src/auth.py:5-7")
    moved = keep(project, "src/auth.py:Session", text="a session has a name")
    fresh = keep(project, "src/auth.py:1", text="every file says what it is for")
    note = project.remember(
        Memory("note", "the old server answers until then", extra={"expires": "2020-01-01T00:00:00Z"})
    )
    later = project.remember(Memory("note", "the new server answers", extra={"expires": "2999-01-01T00:00:00Z"})).entity
    at = AUTH.index("class")
    write(tmp_path, AUTH[:at].replace("salt = new_salt()", "salt = old_salt()\n    check(salt)"))
    write(tmp_path, AUTH[at:], "src/session.py")
    changed = commit(tmp_path, "edit and move")
    told = {item_id: (stale, moved, command) for item_id, stale, moved, command in due(project)}
    assert told == {
        edited.item_id: (
            (f"src/auth.py:hash_password changed in {changed}", f"src/auth.py:5-7 changed in {changed}"),
            (),
            f"periplus confirm {edited.item_id}",
        ),
        moved.item_id: ((), ("src/auth.py:Session moved to src/session.py:1",), f"periplus confirm {moved.item_id}"),
        note.entity.item_id: ((), (), f"periplus confirm {note.entity.item_id}"),
    }
    done = project.reviewing.confirm([edited.item_id, moved.item_id, note.entity.item_id])
    assert [entity.item_id for entity in done.entities] == [edited.item_id, moved.item_id, note.entity.item_id]
    assert due(project) == []
    symbol, lines = done.entities[0].value["about"]
    assert (symbol["start"], symbol["length"], lines["ref"]) == (5, 4, "src/auth.py:5-8")
    assert done.entities[0].value["confirmed"].endswith(f" {WRITER.name}")
    assert done.entities[1].value["about"][0]["ref"] == "src/session.py:Session"
    assert where(project, done.entities[1]) == [("fresh", "src/session.py", 1)]
    assert "expires" not in done.entities[2].value
    assert project.show(later.item_id).value["expires"].startswith("2999")
    assert "confirmed" not in project.show(fresh.item_id).value
    assert [record.action for record in project.history(done.entities[0])] == ["update", "create"]


def test_what_cannot_be_found_again_is_refused_and_nothing_of_the_batch_is_written(project, tmp_path):
    kept = keep(project, "src/auth.py:Session", text="a session has a name")
    lost = keep(project, "src/auth.py:hash_password")
    write(tmp_path, AUTH[AUTH.index("class") :].replace("self._open", "self.open"))
    with pytest.raises(UsageError, match=r"src/auth\.py:hash_password cannot be found again") as caught:
        project.reviewing.confirm([kept.item_id, lost.item_id])
    assert f"periplus confirm {lost.item_id} --about src/auth.py:FIRST-LAST" in caught.value.mend
    assert project.show(kept.item_id).version == kept.version
    done = project.reviewing.confirm([lost.item_id], about=["src/auth.py:Session.close"])
    assert [item["ref"] for item in done.entities[0].value["about"]] == ["src/auth.py:Session.close"]
    assert [one[0] for one in due(project)] == [kept.item_id]


def test_of_a_file_that_is_gone_nobody_is_told_to_name_lines(project, tmp_path):
    lost = keep(project, "src/auth.py:hash_password")
    (tmp_path / "src" / "auth.py").unlink()
    with pytest.raises(UsageError, match=r"src/auth\.py:hash_password cannot be found again") as caught:
        project.reviewing.confirm([lost.item_id])
    assert caught.value.mend.endswith(f"periplus confirm {lost.item_id} --about FILE")


def test_an_edited_range_at_the_ends_of_a_file_is_found_between_what_is_around(project, tmp_path):
    first, last = keep(project, "src/auth.py:1-2"), keep(project, "src/auth.py:15-16", text="closing closes")
    write(
        tmp_path,
        AUTH.replace("import hashlib", "import hashlib, os\nimport re").replace("_open = False", "_open = None"),
    )
    project.reviewing.confirm([first.item_id, last.item_id])
    refs = [project.show(one.item_id).value["about"][0]["ref"] for one in (first, last)]
    assert refs == ["src/auth.py:1-3", "src/auth.py:16-17"]


def test_what_ended_or_is_of_another_kind_is_not_confirmed(project, tmp_path):
    old = keep(project, "src/auth.py")
    new = project.remember(Memory("decision", "passwords are hashed with argon2", supersedes=(old.item_id,))).entity
    write(tmp_path, "")
    assert due(project) == [], "what was superseded wants no look"
    with pytest.raises(UsageError, match="is superseded: it is no longer in force"):
        project.reviewing.confirm([old.item_id])
    with pytest.raises(UsageError, match="a decision does not expire"):
        project.reviewing.confirm([new.item_id], expires="2030-01-01T00:00:00Z")


def test_what_another_wrote_meanwhile_is_not_overwritten(project, tmp_path):
    entity = keep(project, "src/auth.py")

    class Late(type(project.reviewing._ground())):
        def standings(self, entity):
            return super().standings(entity)

        def judge(self, anchor):
            with Project(project.root, WRITER) as other:
                other.work.set_fields(entity.item_id, {"tags": ["late"]})
            return super().judge(anchor)

    from periplus.memory.review import confirm

    with pytest.raises(ConflictError):
        confirm(project.journal, WRITER, [entity.item_id], Late(project.folder))
    assert project.show(entity.item_id).value["tags"] == ["late"]


@pytest.mark.slow
def test_confirming_that_stops_anywhere_has_happened_or_not(tmp_path):
    write_to = tmp_path / "one"
    (write_to / "src").mkdir(parents=True)
    write(write_to, AUTH)
    root = Project.init(os.fspath(write_to), clock=FixedClock(step_ms=1)).root
    with Project(root, WRITER, clock=FixedClock(step_ms=1)) as project:
        item_id = keep(project, "src/auth.py:hash_password").item_id
    write(write_to, AUTH.replace("new_salt", "old_salt"))
    at = 0
    seen = set()
    while True:
        copy = tmp_path / f"copy{at}"
        shutil.copytree(write_to, copy)
        files = StoppingFiles(at)
        try:
            with Project(os.fspath(copy / ".periplus"), WRITER, files=files) as project:
                project.reviewing.confirm([item_id])
        except Stop:
            pass
        with Project(os.fspath(copy / ".periplus"), WRITER) as project:
            confirmed = "confirmed" in project.show(item_id).value
            assert bool(stale(project)) is not confirmed
            seen.add(confirmed)
            project.reviewing.confirm([item_id])
            assert stale(project) == ()
        shutil.rmtree(copy)
        if at >= len(files.calls):
            break
        at += 1
    assert seen == {True, False}


# -- checks ------------------------------------------------------------------------------------------------------------

needs_isolation = pytest.mark.skipif(bool(Runner("/", "/", PATH).why_not()), reason="no namespaces on this system")


@needs_isolation
def test_checks_run_confined_and_what_they_come_to_is_recorded_and_shown(project, tmp_path):
    good = project.remember(
        Memory("constraint", "every file says what it is for", extra={"check": "grep -q Who src/auth.py"})
    ).entity
    bad = project.remember(
        Memory("trap", "the secret is in the environment", extra={"check": "echo seen; env | grep SECRET; exit 3"})
    ).entity
    project.remember(Memory("constraint", "has no check"))
    os.environ["SECRET"] = "kept"  # of this process alone: the check gets none of it
    try:
        runs = list(project.reviewing.run(project.reviewing.checks(), path=PATH))
    finally:
        del os.environ["SECRET"]
    assert [(run.check.entity.item_id, run.exit_code, run.why) for run in runs] == [
        (good.item_id, 0, ""),
        (bad.item_id, 3, "exit 3"),
    ]
    assert runs[1].output == b"seen\n"
    hit = project.recall("every file says what it is for").hits[0]
    assert hit.checked.startswith("check passed, 20")
    assert "(check failed: exit 3, 20" in project.brief("the secret in the environment").text
    [one] = project.reviewing.due()
    assert (one.entity.item_id, one.check.why, one.command) == (bad.item_id, "exit 3", f"periplus probe {bad.item_id}")
    assert project.show(bad.item_id).version == bad.version, "an observation is no state"
    project.work.set_fields(bad.item_id, {"check": "true"})
    list(project.reviewing.run(project.reviewing.checks([bad.item_id]), path=PATH))
    assert project.reviewing.due() == []


@needs_isolation
def test_a_check_that_takes_too_long_is_ended_and_fails(project):
    item = project.remember(Memory("trap", "it hangs", extra={"check": "sleep 600"})).entity
    [run] = project.reviewing.run(project.reviewing.checks([item.item_id]), path=PATH, seconds_max=0.5)
    assert run.why == "it took over 0.5 s"
    assert project.recall("it hangs").hits[0].checked.startswith("check failed: it took over 0.5 s, ")


def test_where_the_network_cannot_be_kept_away_nothing_is_run(project):
    project.remember(Memory("trap", "it writes", extra={"check": "touch ran"}))
    with pytest.raises(RefusedError, match="cannot cut a command off from the network"):
        list(project.reviewing.run(project.reviewing.checks(), path="/nowhere"))
    assert not os.path.exists(os.path.join(project.folder, "ran"))
    assert len(list(project.reviewing.run(project.reviewing.checks(), path=PATH, allow_network=True))) == 1
    assert os.path.exists(os.path.join(project.folder, "ran"))


# -- as a person types it ----------------------------------------------------------------------------------------------


def test_as_a_person_types_it(project, tmp_path):
    shell = Shell(tmp_path, tmp_path / "home")
    done = shell(
        "remember",
        "passwords use scrypt",
        "--type",
        "decision",
        "--about",
        "auth.py:hash_password",
        cwd=tmp_path / "src",
    )
    item_id = done.out.split()[3]
    assert shell("review").out == "Nothing is stale, expired or fails its check.\n"
    write(tmp_path, AUTH.replace("new_salt", "old_salt"))
    changed = commit(tmp_path, "edit")
    told = f"  stale: src/auth.py:hash_password changed in {changed}\n"
    assert told in shell("recall", "passwords scrypt").out
    assert (
        shell("review", code=1).out
        == f"decision {item_id}\n  passwords use scrypt\n{told}  periplus confirm {item_id}\n"
    )
    assert shell.json("review", code=1).due[0].command == f"periplus confirm {item_id}"
    shell("confirm", item_id)
    shell("review")
    assert "No active constraint or trap" in shell("probe", code=1).out
    shell("remember", "stay small", "--type", "constraint", "--check", "test $(wc -l < src/auth.py) -lt 5")
    assert "To run these commands as you, in the project's folder: --allow-commands" in shell("probe").out
    [check] = shell.json("probe").checks
    assert (check.run, check.passed) == (False, False)
    assert "  exit 1\n" in shell("probe", "--allow-commands", "--allow-network", code=1).out
    assert "\n  check failed: exit 1, 20" in shell("recall", "stay small").out
    assert "  check failed: exit 1, 20" in shell("review", code=1).out


def test_of_very_much_the_weightiest_is_told_and_the_rest_counted(tmp_path):
    (tmp_path / "home").mkdir()
    sh = Shell(tmp_path, tmp_path / "home")
    (tmp_path / "a.py").write_text("x = 1\n" * 40)
    Project.init(str(tmp_path))
    with Project.open(str(tmp_path), WRITER) as project:
        for number in range(54):
            project.remember(Memory("note" if number else "trap", f"number {number}", about=("a.py",)))
    (tmp_path / "a.py").write_text("y = 2\n" * 40)
    out = sh("review", code=1)
    ids = [line.split()[1] for line in out.lines if line.startswith(("note ", "trap "))]
    assert (len(ids), out.lines[0].split()[0]) == (50, "trap")
    assert out.lines[-1] == "… and 4 more: periplus review --limit 54, or --json"
    assert "more" not in sh("review", "--limit", "54", code=1).lines[-1]
    everything = sh.json("review", code=1).due
    assert [one.id for one in everything][:50] == ids
    assert len(everything) == 54
    assert [one.id for one in sh.json("review", "--limit", "2", code=1).due] == ids[:2]


def test_only_what_may_be_due_is_read(project, tmp_path):
    for number in range(30):
        project.remember(Memory("lesson", f"The boat number {number} has a name of its own, which is {number * 7919}"))
    edited = keep(project, "src/auth.py:hash_password")
    failing = project.remember(Memory("trap", "The mast is rotten", extra={"check": "false"})).entity
    passing = project.remember(Memory("trap", "The hull is sound", extra={"check": "true"})).entity
    checks = project.reviewing.checks([failing.item_id, passing.item_id])
    list(project.reviewing.run(checks, path=PATH, allow_network=True))
    note = project.remember(Memory("note", "The flag is up", extra={"expires": "2020-01-01T00:00:00Z"})).entity
    write(tmp_path, AUTH.replace("salt = new_salt()", "salt = old_salt()"))
    asked: list[int] = []
    project.journal.refresh()
    found = {one.entity.item_id for one in project.reviewing.due(lambda _, total: asked.append(total))}
    assert found == {edited.item_id, failing.item_id, note.item_id}
    assert set(asked) == {3}
