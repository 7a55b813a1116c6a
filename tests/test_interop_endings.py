"""How an imported run ended: by the agent's own word, or in the middle of something."""

from __future__ import annotations

import os

import pytest

from hook_support import hook
from interop_support import Objects, read, write_lines
from periplus.interop.conversion.intake import Intake
from periplus.interop.importers.opencode.session import OpencodeImporter
from periplus.journal import Writer
from periplus.project import Project
from periplus.trail.format.reader import TrailReader

pytestmark = pytest.mark.quick

WRITER = Writer("ada", "who_0000000000000000", "", 1)
PROMPT, CALL, RESULT, TURN = "person's prompt", "without its result", "tool's result", "middle of a turn"


def claude(*contents):
    """Contents of ``(role, content, facts of the message)`` as a session of Claude Code."""
    records = []
    for number, (role, content, *facts) in enumerate(contents):
        message = {"role": role, "content": content, **(facts[0] if facts else {})}
        parent = f"u{number - 1}" if number else None
        records.append({"type": role, "uuid": f"u{number}", "parentUuid": parent, "sessionId": "s", "message": message})
    return records


USE = ("assistant", [{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}])
GOT = ("user", [{"type": "tool_result", "tool_use_id": "t", "content": "a"}])
GO, DONE = ("user", "go"), ("assistant", [{"type": "text", "text": "Done."}])
EXIT = ("user", "<command-name>/model</command-name><command-args>big</command-args>")
OUT = ("user", "<local-command-stdout>Set.</local-command-stdout>")


def said(role, text, **more):
    return {"type": "response_item", "payload": {"type": "message", "role": role, "content": [{"text": text}], **more}}


def event(kind):
    return {"type": "event_msg", "payload": {"type": kind, "turn_id": "1"}}


CODEX = [{"type": "session_meta", "payload": {"id": "s", "cwd": "/w"}}, said("user", "go")]
CODEX_CALL = {
    "type": "response_item",
    "payload": {"type": "function_call", "name": "shell", "call_id": "c", "arguments": '{"command": ["ls"]}'},
}
CODEX_GOT = {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "c", "output": "a"}}
GEMINI = [
    {"sessionId": "g", "projectHash": "0" * 64, "startTime": "2026-03-01T10:00:00Z", "lastUpdated": ""},
    {"id": "1", "timestamp": "2026-03-01T10:00:01Z", "type": "user", "content": "go"},
]


def gemini(number, text, calls=()):
    at = f"2026-03-01T10:00:0{number}Z"
    return {"id": f"{number}", "timestamp": at, "type": "gemini", "content": text, "toolCalls": list(calls)}


GEMINI_CALL = {"id": "c", "name": "run_shell_command", "args": {"command": "ls"}}
GEMINI_GOT = {**GEMINI_CALL, "status": "success", "result": [{"functionResponse": {"response": {"output": "a"}}}]}


def qwen(kind, *parts):
    return {"type": kind, "sessionId": "s", "uuid": f"{kind}{len(parts)}", "message": {"parts": list(parts)}}


QWEN = [qwen("user", {"text": "go"})]
QWEN_CALL = qwen("assistant", {"functionCall": {"id": "c", "name": "ls", "args": {}}}, {"text": ""})
QWEN_GOT = qwen("tool_result", {"functionResponse": {"id": "c", "response": {"output": "a"}}})


def pi(role, content, **more):
    return {"type": "message", "id": f"{role}{content[0]}", "message": {"role": role, "content": [content[0]], **more}}


PI = [
    {"type": "session", "id": "p", "timestamp": "2026-03-01T10:00:00Z", "cwd": "/w"},
    pi("user", [{"type": "text", "text": "go"}]),
]


@pytest.mark.parametrize(
    ("records", "why"),
    [
        (claude(GO, DONE), ""),
        (claude(GO, USE, GOT, DONE), ""),
        (claude(GO), PROMPT),
        (claude(GO, DONE, ("user", "and now the rest")), PROMPT),
        (claude(GO, ("assistant", [{"type": "thinking", "thinking": "Hm."}])), PROMPT),
        (claude(GO, USE), CALL),
        (claude(GO, USE, GOT), RESULT),
        (claude(GO, USE, GOT, ("assistant", [{"type": "thinking", "thinking": "Hm."}])), RESULT),
        (claude(GO, (*DONE, {"stop_reason": "tool_use"})), TURN),
        (claude(GO, (*DONE, {"stop_reason": "max_tokens"})), TURN),
        (claude(GO, (*DONE, {"stop_reason": "end_turn"})), ""),
        (claude(GO, DONE, EXIT, OUT), ""),
        (claude(GO, DONE, ("user", "<command-name>/exit</command-name>")), ""),
        (claude(GO, EXIT, OUT), PROMPT),
        (CODEX, PROMPT),
        ([*CODEX, said("assistant", "Done.")], ""),
        ([*CODEX, CODEX_CALL], CALL),
        ([*CODEX, CODEX_CALL, CODEX_GOT], RESULT),
        ([*CODEX, said("assistant", "I look.", phase="commentary")], TURN),
        ([CODEX[0], event("task_started"), CODEX[1], said("assistant", "I look.")], TURN),
        ([CODEX[0], event("task_started"), CODEX[1], said("assistant", "Done."), event("task_complete")], ""),
        (GEMINI, PROMPT),
        ([*GEMINI, gemini(2, "Done.")], ""),
        ([*GEMINI, gemini(2, "I look.", [GEMINI_CALL])], CALL),
        ([*GEMINI, gemini(2, "I look.", [GEMINI_GOT])], RESULT),
        ([*GEMINI, gemini(2, "I look.", [GEMINI_GOT]), gemini(3, "Done.")], ""),
        (QWEN, PROMPT),
        ([*QWEN, QWEN_CALL], CALL),
        ([*QWEN, QWEN_CALL, QWEN_GOT], RESULT),
        ([*QWEN, QWEN_CALL, QWEN_GOT, qwen("assistant", {"text": "Done."})], ""),
        (PI, PROMPT),
        ([*PI, pi("assistant", [{"type": "text", "text": "Done."}], stopReason="stop")], ""),
        ([*PI, pi("assistant", [{"type": "text", "text": "I look."}], stopReason="toolUse")], TURN),
    ],
)
def test_a_run_is_a_success_only_by_the_agents_own_word(tmp_path, records, why):
    imported = read(write_lines(tmp_path / "session.jsonl", records))
    assert TrailReader(imported.trail).status == ("partial" if why else "success")
    assert why in imported.ending
    assert bool(imported.ending) == bool(why)


@pytest.mark.parametrize(
    ("parts", "finish", "why"),
    [
        ((), None, PROMPT),
        ((("text", "Done."),), "stop", ""),
        ((("text", "I look."), ("tool", "completed")), "tool-calls", TURN),
        ((("tool", "completed"), ("text", "So")), "length", TURN),
        ((("tool", "completed"),), None, RESULT),
        ((("tool", "running"),), None, CALL),
    ],
)
def test_a_session_of_opencode_goes_on_until_the_model_stops(parts, finish, why):
    intake = Intake(Objects().put)
    importer = OpencodeImporter(intake, lambda _: None)
    importer.feed(1, {"role": "user"}, [{"type": "text", "text": "go"}])
    held = []
    for kind, what in parts:
        state = {"status": what, "input": {"command": "ls"}, "output": "a"}
        held.append({"type": kind, "tool": "bash", "callID": "c", "state": state, "text": what})
    if parts:
        importer.feed(2, {"role": "assistant", "finish": finish}, held)
    assert importer.finish() == ("partial" if why else "success")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("#### go  \n", PROMPT),
        ("#### go  \n\nDone.\n\n> Tokens: 1k sent, 2 received.  \n", ""),
        ("#### go  \n\nDone.\n\n> Tokens: 1k sent, 2 received.  \n\n#### /exit  \n", ""),
        ("#### go  \n\nDone.\n\n> Tokens: 1k sent, 2 received.  \n\n#### /drop a.py  \n", ""),
        ("#### go  \n\nDone.\n\n> Tokens: 1k sent, 2 received.  \n\n#### /ask why  \n", PROMPT),
        ("#### /add a.py  \n", "nothing was said"),
    ],
)
def test_a_chat_of_aider_is_a_success_where_the_model_answered(tmp_path, lines, why):
    path = tmp_path / ".aider.chat.history.md"
    path.write_text(f"\n# aider chat started at 2026-03-01 10:00:00\n\n> Aider v0.80.0  \n\n{lines}")
    imported = read(path)
    assert (TrailReader(imported.trail).status, bool(imported.ending)) == ("partial" if why else "success", bool(why))
    assert why in imported.ending


def test_the_run_and_its_card_say_how_the_session_ended_and_why(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    Project.init(os.fspath(place))
    transcript = write_lines(tmp_path / "s.jsonl", claude(GO, USE, GOT))
    common = {"session_id": "s", "transcript_path": os.fspath(transcript), "cwd": os.fspath(place)}
    hook("UserPromptSubmit", {**common, "prompt": "go"}, cwd=place)
    hook("SessionEnd", {**common, "reason": "other"}, cwd=place)
    with Project.open(os.fspath(place), WRITER) as project:
        (trail,) = project.trails()
        (run,) = project.journal.entities("run")
        assert trail.value["status"] == "partial"
        assert RESULT in trail.value["ending"]
        assert run.value["status"] == "partial"
