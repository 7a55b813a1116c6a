"""What hooks put into a prompt is not the person's: each client's own wrapping, around what our hooks say."""

from __future__ import annotations

import json
import os

import pytest

from cli_support import Shell
from hook_support import hook
from interop_support import named, read, write_lines
from periplus.interop.conversion.hook_blocks import strip_hook_blocks
from periplus.journal import Writer
from periplus.project import Project

pytestmark = pytest.mark.quick

WRITER = Writer("ada", "who_0000000000000000", "", 1)
ASKED = "why does the harbour test fail?"
TAG = "hook_context"
AT = "2026-03-01T10:00:00Z"


def gemini(text, *more):
    parts = [{"text": text}, *({"text": one} for one in more)]
    return [
        {"sessionId": "s", "projectHash": "0" * 64, "startTime": AT, "lastUpdated": AT},
        {"id": "1", "timestamp": AT, "type": "user", "content": parts},
    ]


def codex(text, *more):
    content = [{"type": "input_text", "text": one} for one in (text, *more)]
    message = {"type": "message", "role": "user", "content": content}
    return [
        {"type": "session_meta", "payload": {"id": "s", "cwd": "/w"}},
        {"type": "response_item", "payload": message},
    ]


def claude(text, *more):
    content = [{"type": "text", "text": one} for one in (text, *more)]
    return [{"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": content}}]


def qwen(text, *more):
    parts = [{"text": one} for one in (text, *more)]
    return [{"type": "user", "sessionId": "s", "uuid": "u", "message": {"parts": parts}}]


def droid(text, *more):
    content = [{"type": "text", "text": one} for one in (text, *more)]
    start = {"type": "session_start", "id": "s", "sessionTitle": "t", "owner": "o"}
    return [start, {"type": "message", "message": {"role": "user", "content": content}}]


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What our own hooks say at the start of a session of a project that knows something."""
    place = tmp_path_factory.mktemp("harbour")
    Project.init(os.fspath(place))
    shell = Shell(place, tmp_path_factory.mktemp("home"))
    shell("remember", "the quay is measured in fathoms, never in metres", "--type", "constraint")
    shell("remember", "the harbour test needs the tide table", "--type", "trap")
    start = hook("SessionStart", {"session_id": "s", "cwd": os.fspath(place)}, cwd=place, agent="gemini")
    text = json.loads(start.stdout)["hookSpecificOutput"]["additionalContext"]
    assert "fathoms" in text
    return text


@pytest.mark.parametrize(
    ("client", "before", "behind"),
    [
        (gemini, "<hook_context>{}</hook_context>\n\n", ""),
        (gemini, "", "\n\n<hook_context>{}</hook_context>"),
        (gemini, "<hook_context>{}</hook_context>\n\n", "\n<hook_context>{}</hook_context>"),
        (qwen, "<hook_context>{}</hook_context>\n\n", ""),
        (codex, '<hook_prompt hook_run_id="stop:0:/w/hooks.json">{}</hook_prompt>\n', ""),
        (claude, "", "\n<user-prompt-submit-hook>{}</user-prompt-submit-hook>"),
        (claude, "<session-start-hook>\n{}\n</session-start-hook>\n", ""),
        (claude, "<system-reminder>\nSessionStart hook additional context: {}\n</system-reminder>\n", ""),
    ],
)
def test_a_prompt_is_what_the_person_typed(tmp_path, said, client, before, behind):
    records = client(before.format(said) + ASKED + behind.format(said))
    imported = read(write_lines(tmp_path / "s.jsonl", records))
    assert [step.operands[0] for step in named(imported, "PROMPT")] == [ASKED]
    assert imported.title == ASKED
    assert b"fathoms" not in imported.trail


@pytest.mark.parametrize(
    ("client", "block"),
    [
        (gemini, "<hook_context>{}</hook_context>"),
        (qwen, "<hook_context>{}</hook_context>"),
        (codex, '<hook_prompt hook_run_id="a">{}</hook_prompt>'),
        (claude, "<system-reminder>{}</system-reminder>"),
        (droid, "<system-reminder>{}</system-reminder>"),
        (droid, "<hook_context>{}</hook_context>"),
    ],
)
def test_a_part_of_its_own_is_left_out_too(tmp_path, said, client, block):
    for name, parts in (("a", (block.format(said), ASKED)), ("b", (ASKED, block.format(said)))):
        imported = read(write_lines(tmp_path / f"{name}.jsonl", client(*parts)))
        assert [step.operands[0] for step in named(imported, "PROMPT")] == [ASKED]
        assert imported.title == ASKED


def test_a_message_of_hooks_alone_is_no_prompt(tmp_path, said):
    for name, records in (
        ("codex", codex(f'<hook_prompt hook_run_id="stop:0">{said}</hook_prompt>')),
        ("gemini", gemini(f"<hook_context>{said}</hook_context>")),
        ("claude", claude(f"Stop hook feedback:\n{said}")),
    ):
        imported = read(write_lines(tmp_path / f"{name}.jsonl", records))
        assert imported.counts["prompts"] == 0
        assert imported.title is None
        assert any("hook" in kind for kind in imported.skipped)


@pytest.mark.parametrize(
    "text",
    [
        f"what is <{TAG}>?",
        f"take <{TAG}>x</{TAG}> out of prompts",
        f"<{TAG}>without an end",
        f"</{TAG}> alone",
        f"<{TAG}s>x</{TAG}s>",
        "plain",
        "",
    ],
)
def test_what_a_person_says_of_the_tags_stays(text):
    assert strip_hook_blocks(text) == (text, 0)


def test_many_beginnings_take_time_in_proportion():
    text = f"x<{TAG} " * 200_000 + f"</{TAG}>"
    assert strip_hook_blocks(text) == (text, 0)


def test_a_hook_that_is_given_such_a_prompt_takes_the_persons_words(tmp_path, said):
    place = tmp_path / "place"
    place.mkdir()
    Project.init(os.fspath(place))
    common = {"session_id": "s", "cwd": os.fspath(place)}
    prompt = f"<hook_context>{said}</hook_context>\n\n{ASKED}"
    hook("BeforeAgent", {**common, "prompt": prompt}, cwd=place, agent="gemini")
    hook("SessionEnd", {**common, "reason": "exit"}, cwd=place, agent="gemini")
    with Project.open(os.fspath(place), WRITER) as project:
        (trail,) = project.trails()
        assert trail.value["title"] == ASKED
        assert "fathoms" not in str([hit.text for hit in project.recall("fathoms metres quay").hits])
