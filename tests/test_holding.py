"""What holds no longer is told by nobody as what holds: what is expired, and what something was put in place of."""

import os

import pytest

from cli_support import Shell
from periplus.base.clock import FixedClock
from periplus.interop.hooks.events import HookEvent
from periplus.memory import Filters, Memory
from periplus.memory.entities.validity import holds, standing
from periplus.project import Project
from periplus.project.agent_hooks.hook_answers import answer_to
from periplus.project.context_store.sources import atoms_of_memory
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


def section(found, title):
    return next(one for one in found.sections if one.title == title)


@pytest.mark.parametrize("item_type", ["note", "decision"])
def test_what_was_replaced_says_so_to_who_is_shown_it(project, item_type):
    old = project.remember(Memory(item_type, "Releases go out on Mondays")).entity.item_id
    new = project.remember(Memory(item_type, "Releases go out on Tuesdays", supersedes=(old,))).entity.item_id
    for question, filters in (("releases go out", Filters(with_ended=True)), (old, Filters())):
        told = {hit.item_id: hit for hit in project.recall(question, filters=filters).hits}
        assert (told[old].stale, told[old].standing) == (("replaced",), (f"replaced by {new}",))
        assert new not in told or told[new].standing == ()


def test_a_brief_without_a_task_shows_the_most_severe_of_all_that_holds_and_counts_it(project, tmp_path):
    rule = keep(project, "Money is never a float", "constraint")
    worst = keep(project, "Restoring a backup deletes the key", "trap", extra={"severity": "critical"})
    plain = keep(project, "The queue stops at midnight", "trap")
    ended = []
    for at in range(40):
        low = keep(project, f"The label of box {at} peels off", "trap", extra={"severity": "low"})
        ended.append(keep(project, f"Release {at} waits for its notes", "constraint").item_id)
        ended += [low.item_id] if at % 4 else []
    project.work.change_state(ended, "resolved", reason="released")
    found = project.brief("")
    assert [line.source for line in section(found, "Rules to obey").lines] == [rule.item_id]
    traps = section(found, "Traps")
    assert [line.source for line in traps.lines][:2] == [worst.item_id, plain.item_id]
    assert (len(traps.lines), traps.left_out, traps.more) == (8, 4, 'periplus recall "" --type trap')
    event = HookEvent("session-start", "claude-code", "s", START_MS, cwd=project.folder)
    facts = answer_to(project, event).facts
    assert facts.index(worst.item_id) < facts.index(plain.item_id)
    assert rule.item_id in facts
    assert '- 4 more: periplus recall "" --type trap' in facts
    shell = Shell(tmp_path, tmp_path)
    listed = shell("recall", "", "--type", "trap", "--limit", "8")
    assert listed.lines[-1] == "4 more: --offset 8"
    assert listed.lines[0].startswith(f"trap {worst.item_id}")
    rest = shell.json("recall", "", "--type", "trap", "--offset", "8")
    assert len(rest.hits) == 4
    assert shell.json("recall", "", "--type", "trap", "--all").matched == 42
    assert shell.json("recall", "", "--type", "trap", "--since", "2999-01-01", code=1).matched == 0


def test_what_holds_is_the_same_whether_one_asks_the_index_or_the_entity(project, clock):
    """Replaced in chains, brought back, expired: as the rule says it of each."""
    lessons = [keep(project, f"Lesson {at} is learnt", "lesson").item_id for at in range(6)]
    second = project.work.evolve(lessons[0], "The first lesson is said anew").entities[0].item_id
    third = project.work.evolve(second, "The first lesson is said anew again").entities[0].item_id
    project.work.change_state([lessons[0]], "active")
    fourth = project.work.evolve(lessons[1], "The second lesson is said anew").entities[0].item_id
    project.work.change_state([lessons[1]], "active")
    project.work.change_state([fourth], "superseded")
    for one, other in ((2, 3), (3, 2)):
        project.work.link(lessons[one], "supersedes", lessons[other])
        project.work.change_state([lessons[other]], "active")
    notes = [keep(project, f"Note {at} is taken", extra={"expires": f"2026-01-0{at + 2}"}).item_id for at in range(3)]
    newer = keep(project, "Note 9 is taken", supersedes=(notes[2],)).item_id
    clock.advance(2 * DAY_MS)
    project.recall("anything")
    now_ms = project.journal.clock.now_ms()
    for item_type, there in (("lesson", {*lessons, second, third, fourth}), ("note", {*notes, newer})):
        entities = [project.show(item_id) for item_id in there]
        said = {one.item_id for one in entities if holds(project.journal, one, now_ms)}
        found = standing(project.journal, item_type, 100, now_ms)
        assert ({*found.ids}, found.total, len(found.ids)) == (said, len(said), len(said))
        assert said < there
        assert said
        listed = project.recall("", limit=100, filters=Filters(types=(item_type,)))
        assert {*ids(listed)} == said
    assert lessons[0] not in standing(project.journal, "lesson", 100, now_ms).ids
    assert lessons[1] in standing(project.journal, "lesson", 100, now_ms).ids


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
    said = "No current results; 1 superseded, resolved or expired ones with --all.\n"
    assert shell("recall", "lift", code=1).out == said
    assert shell("recall", "zebra", code=1).out == "No results.\n"
    assert "stale: expired 2020-01-03" in shell("recall", "lift", "--all").out
    assert "expired 2020-01-03" in shell("show", item_id).out
