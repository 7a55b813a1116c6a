"""What waits in the spool of hooks, for whom, and what stands in its place: doctor tells, and nothing else is kept from work."""

from __future__ import annotations

import json
import os
from binascii import crc32

import pytest
from tests.cli_support import Shell

from periplus.base.errors import FormatError
from periplus.base.filesystem.spool import Spool
from periplus.project.agent_hooks.pending_events import waiting_events

NOBODY = 65_534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


@pytest.fixture
def shell(tmp_path):
    folder, home = tmp_path / "project", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    made = Shell(folder, home)
    made("init", "--no-connect")
    return made


def tell(shell, call, path="a.txt"):
    document = {"session_id": "s-1", "cwd": os.fspath(shell.folder), "tool_name": "Write", "tool_use_id": call,
                "tool_input": {"file_path": os.fspath(shell.folder / path), "content": "x"}, "tool_response": {"ok": True}}  # fmt: skip
    done = shell("hook", "PostToolUse", "--agent", "claude-code", stdin=json.dumps(document))
    assert (done.out, done.err) == ("", "")


def spool_of(shell):
    return Spool(os.fspath(shell.folder / ".periplus/hooks/spool"))


def told(shell, code):
    done = shell("doctor", code=code)
    return " ".join(done.out.split())


@pytest.mark.parametrize("place", ["hooks", "hooks/spool"])
def test_a_file_in_the_place_of_the_spool_is_told_and_parked(shell, place):
    path = shell.folder / ".periplus" / place
    if path.exists():
        path.rmdir()
    path.parent.mkdir(exist_ok=True)
    path.write_text("in the way")
    tell(shell, "t-1")
    assert "sound" in shell("status").out
    shell("remember", "The engine is oiled on Mondays.", "--type", "decision")
    said = told(shell, 1)
    assert (
        f"a file where a folder belongs: nothing that hooks report is kept {place} Run `periplus doctor --repair`"
        in said
    )
    assert "the event was lost" in said
    mended = shell("doctor", "--repair").out
    assert "it is parked" in mended
    (parked,) = (shell.folder / ".periplus/parked").rglob(place)
    assert parked.read_text() == "in the way"
    tell(shell, "t-2")
    assert len(spool_of(shell).waiting()) == 1
    assert "open run of claude-code" in shell("trail", "list").out


@pytest.mark.parametrize("name", ["lock", "notes", "recent"])
def test_a_folder_in_the_place_of_a_file_of_hooks_is_told_and_parked(shell, name):
    tell(shell, "t-1")
    (shell.folder / ".periplus/hooks" / name).mkdir()
    shell("status")
    assert f"a folder where a file belongs hooks/{name}" in told(shell, 1)
    assert "it is parked" in shell("doctor", "--repair").out
    shell("doctor")
    assert spool_of(shell).waiting() == []


def test_one_event_that_waits_is_one_event(shell):
    tell(shell, "t-1")
    (shell.folder / ".periplus/hooks/lock").mkdir()  # so that it waits
    assert "1 event of hooks waits to be imported hooks/spool The next command imports it." in told(shell, 1)
    tell(shell, "t-2")
    assert "2 events of hooks wait to be imported hooks/spool The next command imports them." in told(shell, 1)


@as_root
def test_events_of_another_user_are_that_users(shell):
    for call in ("t-1", "t-2"):
        tell(shell, call)
    spool = spool_of(shell)
    for name in spool.waiting():
        os.chown(os.path.join(spool.folder, name), NOBODY, NOBODY)
    assert spool.waiting() == []
    assert [one.uid for one in spool.foreign()] == [NOBODY] * 2
    said = told(shell, 1)
    assert "2 events of hooks were left by user nobody hooks/spool That user imports them" in said
    assert "wait" not in said
    assert len(spool.foreign()) == 2


@as_root
def test_events_of_another_user_do_not_fill_the_spool_for_others(tmp_path, monkeypatch):
    monkeypatch.setattr("periplus.base.filesystem.spool.SPOOLED_FILES_MAX", 2)
    spool = Spool(os.fspath(tmp_path / "spool"))
    for number in range(2):
        assert spool.leave(b"{}", number)
    for name in spool.waiting():
        os.chown(os.path.join(spool.folder, name), NOBODY, NOBODY)
    assert spool.leave(b"{}", 3)
    assert len(spool.waiting()) == 1


@as_root
def test_a_spool_that_may_not_be_read_is_told(tmp_path):
    spool = Spool(os.fspath(tmp_path / "spool"))
    spool.leave(b"{}", 1)
    os.seteuid(NOBODY)
    try:
        (problem,) = waiting_events(spool)
    finally:
        os.seteuid(0)
    assert "cannot read" in problem.what
    assert problem.what.endswith("hook events are neither kept nor imported")
    assert (problem.severity, problem.mend) == ("warning", "Let user nobody read and write there.")


def test_an_event_that_others_could_have_written_is_told(shell):
    tell(shell, "t-1")
    spool = spool_of(shell)
    (name,) = spool.waiting()
    os.chmod(os.path.join(spool.folder, name), 0o644)
    assert "1 event of hooks is open to other users hooks/spool Another user may have written them" in told(shell, 1)
    os.chmod(os.path.join(spool.folder, name), 0o600)
    shell("doctor")
    assert spool.foreign() == spool.waiting() == []


def test_a_list_of_what_is_taken_in_that_came_with_a_repository_takes_nothing_in(tmp_path):
    """Else whoever makes the repository says what an agent did here: the events themselves are judged when the list is made."""
    spool = Spool(os.fspath(tmp_path / "spool"))
    spool.leave(b"{}", 1)
    (name,) = spool.waiting()
    (tmp_path / "spool" / name).chmod(0o644)
    group = tmp_path / "spool/group"
    group.write_bytes(b"%08x\n" % crc32(name.encode()) + name.encode())
    group.chmod(0o644)
    with pytest.raises(FormatError, match="written by another user"):
        spool.begin(10, 1 << 20)
    group.chmod(0o600)
    assert spool.begin(10, 1 << 20).names == (name,)  # our own list stands: what was begun is gone on with


def test_a_group_is_as_old_as_what_was_left_first(tmp_path):
    """Its key is not older: who writes with it need not look among keys of before."""
    spool = Spool(os.fspath(tmp_path / "spool"))
    for at_ms in (9_000, 7_000, 8_000):
        spool.leave(b"{}", at_ms * 1_000_000 + 5)
    for _ in range(2):
        group = spool.begin(10, 1 << 20)
        assert (len(group.names), group.oldest_ms) == (3, 7_000)
