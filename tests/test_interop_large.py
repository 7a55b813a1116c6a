"""Sessions of 200 MB, made by repeating a real one: bounded memory, whatever repeats."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from interop_samples import SAMPLES
from interop_support import read, shared_files
from support import PEAK

pytestmark = pytest.mark.slow

SIZE = 200_000_000
MEMORY_BYTES_MAX = 120_000_000

_PROGRAM = """
import hashlib, json, sys
from periplus.interop import import_transcript
imported = import_transcript(sys.argv[1], trail_key=b"k" * 32, put_object=lambda data: hashlib.sha256(data).digest())
print(json.dumps({"peak": peak_bytes(), "counts": imported.counts, "bytes": len(imported.trail)}))
"""


def _run(path: Path) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", PEAK + _PROGRAM, str(path)], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def _largest(folder: str) -> Path:
    return max(shared_files(folder), key=lambda path: path.stat().st_size)


def _renamed(data: bytes, number: int) -> bytes:
    """The session with other names for its records, messages and calls."""
    mark = b"%08d-" % number
    for key in (b'"uuid":"', b'"parentUuid":"', b'"sourceToolAssistantUUID":"'):
        data = data.replace(key, key + mark)
    for name in (b'"toolu_', b'"msg_', b'"call_'):
        data = data.replace(name, name + mark)
    return data.replace(b'"text":"', b'"text":"%d ' % number)


@pytest.mark.parametrize("folder", ["claude-code-jsonl", "codex-rollout"])
def test_memory_is_bounded_on_a_session_of_200_mb(tmp_path, folder):
    source = _largest(folder)
    data = source.read_bytes().rstrip(b"\n") + b"\n"
    repeats = SIZE // len(data) + 1
    path = tmp_path / "large.jsonl"
    with path.open("wb") as file:
        for number in range(repeats):
            file.write(_renamed(data, number))
    once = read(source).counts
    found = _run(path)
    assert found["peak"] < MEMORY_BYTES_MAX, found
    assert found["counts"]["tools"] == repeats * once["tools"]
    assert found["counts"]["tools_paired"] == repeats * once["tools_paired"]


@pytest.mark.parametrize("folder", ["claude-code-jsonl", "codex-rollout"])
def test_a_session_that_repeats_itself_for_200_mb_counts_once(tmp_path, folder):
    source = _largest(folder)
    data = source.read_bytes().rstrip(b"\n") + b"\n"
    repeats = SIZE // len(data) + 1
    path = tmp_path / "repeated.jsonl"
    with path.open("wb") as file:
        for _ in range(repeats):
            file.write(data)
    once = read(source).counts
    found = _run(path)
    assert found["peak"] < MEMORY_BYTES_MAX, found
    for name in ("prompts", "says", "tools", "tools_paired", "model_calls", "steps"):
        assert found["counts"][name] == once[name], name


@pytest.mark.parametrize("name", ["kimi-code-lines", "gptme-lines"])
def test_memory_is_bounded_on_a_session_in_a_terminal_of_200_mb(tmp_path, name):
    sample = SAMPLES[name]
    path = sample.write(tmp_path, sample.data)
    once = read(path).counts
    data = path.read_bytes().replace(b"I look", b"I look " + b"x" * 20_000)
    repeats = SIZE // len(data) + 1
    with path.open("wb") as file:
        for _ in range(repeats):
            file.write(data)
    found = _run(path)
    assert found["peak"] < MEMORY_BYTES_MAX, found
    assert found["counts"]["tools"] == repeats * once["tools"]


@pytest.mark.parametrize("name", ["crush-database", "goose-database", "hermes-database", "openclaw-database"])
def test_memory_is_bounded_on_a_database_of_200_mb(tmp_path, name):
    """One session of many small messages, and of some large ones."""
    table, column, text = {
        "crush-database": ("messages", "parts", '[{"type": "text", "data": {"text": "%s"}}]'),
        "goose-database": ("messages", "content_json", '[{"type": "text", "text": "%s"}]'),
        "hermes-database": ("messages", "content", "%s"),
        "openclaw-database": ("transcript_events", "event_json", '{"type": "message", "message": {"role": "user", "content": "%s"}}'),
    }[name]  # fmt: skip
    sample = SAMPLES[name]
    path = sample.write(tmp_path, sample.data)
    with closing(sqlite3.connect(path)) as connection, connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        names = ", ".join(columns)
        chosen = ", ".join("?" if one == column else one for one in columns)
        many = [(text % f"look {number}", 1) for number in range(100_000)]
        many += [(text % ("a line of what was printed, " * 40_000), 1)] * 200
        connection.executemany(f"INSERT INTO {table} ({names}) SELECT {chosen} FROM {table} WHERE rowid = ?", many)
    assert path.stat().st_size > SIZE
    found = _run(path)
    assert found["peak"] < MEMORY_BYTES_MAX, found
    assert found["counts"]["lines"] > 100_000


_DOCUMENTS = {
    "swe-agent": (b'{"environment": "main", "trajectory": [', b'], "history": [{"role": "user", "content": "go"}], "info": {}}'),
    "gemini": (b'{"sessionId": "s", "projectHash": "0", "messages": [', b"]}"),
    "openhands": (b"[", b"]"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(_DOCUMENTS))
def test_memory_is_bounded_on_a_document_of_200_mb(tmp_path, name):
    """One JSON document is read element by element, whatever its size."""
    opening, closing = _DOCUMENTS[name]
    text = "a line of what was printed, " * 200
    path = tmp_path / "large.json"
    count, size = 0, 0
    with path.open("wb") as file:
        file.write(opening)
        while size < SIZE:
            calls = [{"id": f"c{count}", "name": "run_shell_command", "args": {"command": "ls"}, "status": "success",
                      "result": [{"functionResponse": {"response": {"output": text}}}]}]  # fmt: skip
            stamp = "2026-03-01T10:00:00.000Z"
            elements = {
                "swe-agent": [{"action": "ls", "thought": "look", "observation": text, "state": {}}],
                "gemini": [{"id": f"m{count}", "type": "gemini", "timestamp": stamp, "content": "look", "toolCalls": calls}],
                "openhands": [
                    {"id": 2 * count, "timestamp": stamp, "source": "agent", "action": "run",
                     "args": {"command": "ls", "thought": "look"}},
                    {"id": 2 * count + 1, "timestamp": stamp, "source": "agent", "observation": "run", "cause": 2 * count,
                     "content": text, "extras": {}},
                ],
            }[name]  # fmt: skip
            data = b",\n".join(json.dumps(element).encode() for element in elements)
            file.write(b",\n" + data if count else data)
            count += 1
            size += len(data)
        file.write(closing)
    found = _run(path)
    assert found["peak"] < MEMORY_BYTES_MAX, found
    assert found["counts"]["tools"] == found["counts"]["tools_paired"] == count


def _chat_request(number: int, text: str) -> dict:
    rounds = [
        {
            "response": "look",
            "toolCalls": [{"id": f"c{number}", "name": "run_in_terminal", "arguments": '{"command": "ls"}'}],
        }
    ]
    results = {f"c{number}": {"content": [{"value": text}]}}
    metadata = {"toolCallRounds": rounds, "toolCallResults": results}
    return {"requestId": f"r{number}", "message": {"text": "go"}, "response": [], "result": {"metadata": metadata}}


def _task_messages(number: int, text: str) -> list[dict]:
    call = {"type": "tool_use", "id": f"c{number}", "name": "execute_command", "input": {"command": "ls"}}
    return [
        {"role": "user", "content": [{"type": "text", "text": "<task>go</task>"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "look"}, call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"c{number}", "content": text}]},
    ]


@pytest.mark.parametrize("name", ["session.json", "session.jsonl", "api_conversation_history.json"])
def test_memory_is_bounded_on_sessions_of_editors_of_200_mb(tmp_path, name):
    text = "a line of what was printed, " * 200
    path = tmp_path / name
    count, size = 0, 0
    with path.open("wb") as file:
        if name == "session.json":
            file.write(b'{"responderUsername": "GitHub Copilot", "requests": [')
        elif name == "session.jsonl":
            file.write(b'{"kind":0,"v":{"version":3,"requests":[]}}\n')
        else:
            file.write(b"[")
        while size < SIZE:
            if name == "session.json":
                data = json.dumps(_chat_request(count, text)).encode()
            elif name == "session.jsonl":
                added = {"kind": 2, "k": ["requests"], "v": [{**_chat_request(count, text), "result": None}]}
                done = {"kind": 1, "k": ["requests", count, "result"], "v": _chat_request(count, text)["result"]}
                data = json.dumps(added).encode() + b"\n" + json.dumps(done).encode() + b"\n"
            else:
                data = b",\n".join(json.dumps(message).encode() for message in _task_messages(count, text))
            file.write(data if not count or name == "session.jsonl" else b",\n" + data)
            count += 1
            size += len(data)
        file.write({"session.json": b"]}", "session.jsonl": b""}.get(name, b"]"))
    if name == "api_conversation_history.json":
        entry = {
            "ts": 1772359200000,
            "say": "api_req_started",
            "text": json.dumps({"tokensIn": 3, "tokensOut": 1, "x": text}),
        }
        with path.with_name("ui_messages.json").open("wb") as file:
            file.write(b"[" + b",".join([json.dumps(entry).encode()] * count) + b"]")
    found = _run(path)
    assert found["peak"] < MEMORY_BYTES_MAX, found
    assert found["counts"]["tools"] == found["counts"]["tools_paired"] == found["counts"]["prompts"] == count
    assert found["counts"]["model_calls"] == (count if name.startswith("api") else 0)
