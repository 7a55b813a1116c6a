"""What holds no longer is told by nobody as what holds: what is expired, and what something was put in place of."""

import os

import pytest

from cli_support import Shell
from periplus.base.clock import FixedClock
from periplus.interop.hook_events import HookEvent
from periplus.memory import Filters, Memory
from periplus.project import Project
from periplus.project.context_sources import atoms_of_memory
from periplus.project.hook_facts import answer_to
from periplus.server.mcp.resources import list_page
from support import WRITER

START_MS = 1_767_225_600_000  # 2026-01-01
DAY_MS = 86_400_000
VISITS = """
[types.closure]
prefix = "clo"
stale = "expires"
touchable = ["text"]
"""


@pytest.fixture
def clock():
    return FixedClock(START_MS, step_ms=1)


@pytest.fixture
def project(tmp_path, clock):
    root = Project.init(os.fspath(tmp_path), clock=clock).root
    with open(os.path.join(root, "config.toml"), "a", encoding="utf-8") as file:
        file.write(VISITS)
    with Project(root, WRITER, clock=clock) as project:
        yield project


def keep(project, text, item_type="note", **fields):
    return project.remember(Memory(item_type, text, **fields)).entity


def ids(found):
    return [hit.item_id for hit in found.hits]


def told_by(project, words, path):
    """The ids that each way of asking tells of."""
    listed = {row["uri"].rpartition("/")[2] for row in list_page(project, None).resources}
    prompt = answer_to(
        project, HookEvent("prompt", "claude-code", "s", START_MS, cwd=project.folder, prompt=f"{words} {path}")
    ).facts
    said = {
        "recall": "\n".join(ids(project.recall(words))),
        "by path": "\n".join(ids(project.recall(path))),
        "brief": project.brief(f"{words} in {path}").text,
        "opening": project.brief("").text,
        "related": "\n".join(hit.item_id for hit in project.related([path], words).memory),
        "prompt": prompt,
        "listed": "\n".join(listed),
    }
    return lambda item_id: {name for name, text in said.items() if item_id in text}


EVERY_WAY = {"recall", "by path", "brief", "opening", "related", "prompt", "listed"}


@pytest.mark.parametrize("ends", ["2026-01-05", "2026-01-05T00:00:00Z", "2026-01-05T02:00:00+02:00"])
def test_what_is_expired_is_told_by_nobody_but_who_is_asked_for_it(project, clock, ends):
    note = keep(project, "The VPN portal is down", about=("net/vpn.py",), extra={"expires": ends})
    told = told_by(project, "VPN portal", "net/vpn.py")
    assert told(note.item_id) == EVERY_WAY
    assert project.recall("VPN portal").hits[0].standing == ()
    clock.advance(4 * DAY_MS)
    told = told_by(project, "VPN portal", "net/vpn.py")
    assert told(note.item_id) == set()
    assert project.recall("VPN portal").left_out == 0
    shown = project.recall("VPN portal", filters=Filters(with_ended=True)).hits
    assert [(hit.item_id, hit.standing, hit.stale) for hit in shown] == [
        (note.item_id, (f"expired {ends}",), ("expires",))
    ]
    assert project.recall(note.item_id).hits[0].standing == (f"expired {ends}",)
    assert [due.expired for due in project.reviewing.due()] == [ends]
    project.reviewing.confirm([note.item_id])
    assert told_by(project, "VPN portal", "net/vpn.py")(note.item_id) == EVERY_WAY


def test_what_is_expired_comes_after_what_holds_where_both_are_shown(project, clock):
    over = keep(project, "The VPN portal is down", extra={"expires": "2026-01-03"})
    clock.advance(3 * DAY_MS)
    holds = keep(project, "Somebody in the office said that the VPN portal has a new name these days")
    assert ids(project.recall("VPN portal", filters=Filters(with_ended=True))) == [holds.item_id, over.item_id]


def test_a_declared_type_that_expires_does_so_whatever_may_be_set_of_it(project, clock):
    closure = keep(project, "The archive room is closed", "closure", extra={"expires": "2026-01-03"})
    assert ids(project.recall("archive room")) == [closure.item_id]
    clock.advance(3 * DAY_MS)
    assert ids(project.recall("archive room")) == []
    assert ids(project.recall("archive room", filters=Filters(with_ended=True))) == [closure.item_id]


def test_what_said_so_until_it_expired_is_no_duplicate(project, clock):
    old = keep(project, "The VPN portal is down", extra={"expires": "2026-01-03"})
    assert not project.remember(Memory("note", "The VPN portal is down")).is_new
    clock.advance(3 * DAY_MS)
    again = project.remember(Memory("note", "The VPN portal is down"))
    assert again.is_new
    assert ids(project.recall("VPN portal")) == [again.entity.item_id]
    assert old.item_id != again.entity.item_id


def put_in_place(project, item_type):
    """What was replaced by evolving, splitting and merging: the ids of the old ones, and those of what stands there now."""
    old = keep(project, "The login keeps a session for an hour", item_type, about=("src/auth.py",))
    new = project.work.evolve(old.item_id, "The login keeps a session for a day").entities[0]
    whole = keep(project, "The login counts attempts and tells the owner", item_type, about=("src/auth.py",))
    parts = project.work.split(whole.item_id, ["The login counts attempts", "The login tells the owner"]).entities[:2]
    gone = [old.item_id, whole.item_id]
    return gone, [new.item_id, *(one.item_id for one in parts)]


@pytest.mark.parametrize("item_type", ["note", "lesson", "decision", "constraint", "trap", "closure"])
def test_what_was_replaced_is_told_by_nobody_beside_what_replaced_it(project, item_type):
    gone, here = put_in_place(project, item_type)
    told = told_by(project, "login session attempts", "src/auth.py")
    ways = EVERY_WAY if item_type != "closure" else {"recall", "by path", "related", "listed"}
    assert [told(item_id) for item_id in gone] == [set(), set()]
    assert [told(item_id) for item_id in here] == [ways, ways, ways]


def test_what_is_expired_or_was_replaced_goes_into_no_context(project, clock):
    gone, here = put_in_place(project, "note")
    over = keep(project, "The VPN portal is down", extra={"expires": "2026-01-03"})
    clock.advance(3 * DAY_MS)
    taken = {given.where for given in atoms_of_memory(project.journal)}
    assert taken == {*here}
    assert over.item_id not in taken
    assert taken.isdisjoint(gone)


def test_an_end_that_is_past_is_written_with_a_word(tmp_path):
    shell = Shell(tmp_path, tmp_path)
    shell("init")
    told = shell("remember", "The VPN portal is down", "--expires", "2020-01-02")
    assert "Its end, 2020-01-02T00:00:00.000Z, is past: it counts as expired, and recall leaves it out" in told.out
    item_id = shell.json("remember", "The lift is out of order", "--expires", "2999-01-02").entity.id
    told = shell("set", item_id, "expires=2020-01-02")
    assert "is past: it counts as expired" in told.out
    assert "is past" in shell("confirm", item_id, "--expires", "2020-01-03").out
    assert shell("recall", "lift", code=1).out.startswith("Nothing is known")
    assert "stale: expired 2020-01-03" in shell("recall", "lift", "--all").out
    assert "expired 2020-01-03" in shell("show", item_id).out
