"""Hooks that run twice: what was told twice is taken in and answered once, also by agents that read each other's settings."""

from __future__ import annotations

import itertools
import json
import os
import subprocess

import pytest

from hook_support import hook_command
from periplus.base.clock import FixedClock
from periplus.base.files import Files
from periplus.base.filesystem.spool import Spool
from periplus.interop.hooks.events import DOUBLE_MS, HookEvent, encode_event, mark_of
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.project import Project
from periplus.project.agent_hooks.duplicate_events import DuplicateEvents
from support import Stop, StoppingFiles

ADA = Writer("ada", "who_0000000000000001", "", 1)
AT = 1_767_225_600_000


def event(kind="prompt", agent="claude-code", at_ms=AT, **fields):
    return HookEvent(kind, agent, fields.pop("session", "s-1"), at_ms, **fields)


def kept(tmp_path, *batches, another=lambda _: False):
    """What is left of each batch; between two of them what is known goes through its file."""
    found = []
    for batch in batches:
        doubles = DuplicateEvents(os.fspath(tmp_path / "recent"), Files(), another)
        found.append(doubles.without(batch))
        doubles.save()
    return found


def test_the_same_at_the_same_time_is_one_and_later_it_is_another(tmp_path):
    first = event(prompt="continue")
    soon, later = first._replace(at_ms=AT + DOUBLE_MS), first._replace(at_ms=AT + 2 * DOUBLE_MS + 1)
    other = first._replace(prompt="stop")
    assert kept(tmp_path, [first, soon, other], [soon], [later]) == [[first, other], [], [later]]


def test_what_ends_the_next_turn_is_another_however_soon_it_comes(tmp_path):
    end = event("turn-end", at_ms=AT + 10)
    double = end._replace(at_ms=AT + 20)
    prompt = event(prompt="and now", at_ms=AT + 200)
    told_twice = prompt._replace(at_ms=AT + 210)
    of_next, double_of_next = end._replace(at_ms=AT + 300), end._replace(at_ms=AT + 310)
    elsewhere = event(prompt="x", session="s-2", at_ms=AT + 320)
    late_double = end._replace(at_ms=AT + 330)
    batches = [end, double], [prompt, told_twice], [of_next, double_of_next], [elsewhere, late_double]
    assert kept(tmp_path, *batches) == [[end], [prompt], [of_next], [elsewhere]]


def test_a_call_is_one_however_late_it_is_told_again(tmp_path):
    call = event("after-tool", tool="Bash", call="toolu_1", response="a")
    again = call._replace(at_ms=AT + 60_000, response="a ")
    assert kept(tmp_path, [call], [again, again._replace(call="toolu_2"), again._replace(sub="x")])[1:] == [
        [again._replace(call="toolu_2"), again._replace(sub="x")]
    ]


@pytest.mark.parametrize("order", list(itertools.permutations(["claude-code", "vscode"])))
def test_a_session_that_two_agents_tell_of_is_not_claude_codes(tmp_path, order):
    told = [event(agent=agent, at_ms=AT + place, prompt="x") for place, agent in enumerate(order)]
    alone = event(agent="claude-code", session="s-2")
    assert [one.agent for one in kept(tmp_path, [*told, alone])[0]] == ["vscode", "claude-code"]
    assert kept(tmp_path, [told[order.index("claude-code")]], another=lambda one: one.session == "s-1") == [[]]


@pytest.mark.parametrize("text", [None, "", "[]", "{", '{"a": "b"}', "x" * 200_000])
def test_what_was_told_of_late_may_be_lost_or_damaged(tmp_path, text):
    if text is not None:
        (tmp_path / "recent").write_text(text)
    assert kept(tmp_path, [event()], [event()]) == [[event()], []]


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    root = Project.init(os.fspath(folder)).root
    with Project(root, ADA) as project:
        project.remember(Memory("decision", "Passwords are hashed with argon2"))
    return folder


def tell(place, tmp_path, name, document, agent):
    return subprocess.Popen(
        [*hook_command(name), "--agent", agent], cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "XDG_STATE_HOME": os.fspath(tmp_path / "state")},
    )  # fmt: skip


def test_of_two_hooks_at_once_one_answers_and_one_step_is_taken_in(place, tmp_path):
    """As where an agent is connected in the project and for the person: real processes, started together."""
    document = {"session_id": "s-9", "cwd": os.fspath(place), "prompt": "Why are passwords hashed with argon2 here?"}
    both = [tell(place, tmp_path, "UserPromptSubmit", document, "claude-code") for _ in range(2)]
    for process in both:
        process.stdin.write(json.dumps(document).encode())
        process.stdin.flush()
    said = [process.communicate(timeout=60) for process in both]
    assert [error for _, error in said] == [b"", b""]
    with Project(os.fspath(place / ".periplus"), ADA) as project:
        project.hooks.take_in()
        assert prompts(project) == [("claude-code", 1)]
    # Where the two came further apart than the window, which a loaded machine may do, both answer.
    assert sum(b"argon2" in out for out, _ in said) in (1, 2)


def prompts(project):
    """The agents of the runs, with how many steps each has."""
    rows = project.journal.index.db.execute(
        "SELECT item_id, COUNT(*) FROM records WHERE item_type = 'run' AND action = 'observe' GROUP BY item_id"
    ).fetchall()
    return sorted((str(project.show(item_id).value["format"]), count) for item_id, count in rows)


def test_claude_codes_hooks_that_vscode_runs_too_make_no_second_trail(place):
    with Project(os.fspath(place / ".periplus"), ADA, clock=FixedClock(AT)) as project:
        for number, (agent, kind) in enumerate(itertools.product(("vscode", "claude-code"), ("prompt", "after-tool"))):
            one = event(kind, agent, AT + number, prompt="Do it" if kind == "prompt" else "", tool="Bash" if kind != "prompt" else "",
                        call="c1" if kind != "prompt" else "", arguments={"command": "ls"}, response="a")  # fmt: skip
            project.hooks.spool.leave(encode_event(one), one.at_ms * 1_000_000, mark_of(one))
        project.hooks.take_in()
        late = event(
            "after-tool", "claude-code", AT + 9_000, tool="Bash", call="c2", arguments={"command": "ls"}, response="a"
        )
        project.hooks.spool.leave(encode_event(late), late.at_ms * 1_000_000, mark_of(late))
        project.hooks.take_in()
        assert prompts(project) == [("copilot-chat", 2)]


def test_a_mark_counts_for_a_while_where_that_is_asked(tmp_path):
    spool = Spool(os.fspath(tmp_path / "spool"))
    assert spool.leave(b"a", 1_000, "m", 100)
    assert not spool.leave(b"a", 1_100, "m", 100)
    assert spool.leave(b"a", 1_101, "m", 100)
    assert not spool.leave(b"a", 9_999, "m")


def test_what_was_left_before_the_clock_went_back_is_no_double(tmp_path):
    spool = Spool(os.fspath(tmp_path / "spool"))
    assert spool.leave(b"a", 5_000, "m", 100)
    assert spool.leave(b"a", 1_000, "m", 100)
    assert not spool.leave(b"a", 950, "m", 100), (
        "two processes that looked at the clock in one order and left in the other"
    )


def test_a_name_in_the_spool_that_only_looks_like_a_number_is_none_of_ours(tmp_path):
    spool = Spool(os.fspath(tmp_path / "spool"))
    assert spool.leave(b"a", 5_000, "m")
    (tmp_path / "spool" / f"{'²' * 20}-1-n.json").write_bytes(b"{}")
    assert spool.leave(b"b", 6_000, "n")
    assert len(spool.waiting()) == 2


@pytest.mark.slow
def test_a_stop_at_every_call_takes_each_event_in_once(tmp_path):
    at = count = 0
    while at <= count:
        folder = tmp_path / str(at)
        folder.mkdir()
        root = Project.init(os.fspath(folder), clock=FixedClock(AT)).root
        for number, told in enumerate((0, 0, 1)):
            one = event(
                "after-tool", at_ms=AT + told, tool="Bash", call=f"c{told}", arguments={"command": "ls"}, response="a"
            )
            Spool(os.path.join(root, "hooks", "spool")).leave(encode_event(one), one.at_ms * 1_000_000 + number)
        files = StoppingFiles(at or -1)
        try:
            with Project(root, ADA, clock=FixedClock(AT), files=files) as project:
                project.hooks.take_in()
        except Stop:
            pass
        count = max(count, len(files.calls) - 1)
        with Project(root, ADA, clock=FixedClock(AT)) as project:
            project.hooks.take_in()
            assert prompts(project) == [("claude-code", 2)], at
            assert not project.hooks.has_events
        at += 1
    assert count > 20
