"""What an importer may be given: anything. It gives one clear error, or a trail that is sound."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interop_support import FIXTURES, KEY, Objects, check, plain, read, write_lines
from periplus.base.errors import EnvironmentFailure, FormatError, PeriplusError, UsageError
from periplus.base.text.secrets import mask_secrets
from periplus.interop import find_sessions, import_transcript
from periplus.interop.readers import line_reader
from periplus.interop.readers.json_values import Moment, json_text
from periplus.trail.format.reader import TrailReader

pytestmark = pytest.mark.quick

PROMPT = {"type": "user", "uuid": "u", "message": {"role": "user", "content": "go"}}
ANSWER = {"type": "assistant", "uuid": "v", "parentUuid": "u", "message": {"role": "assistant", "content": "Gone."}}
META = {"type": "session_meta", "payload": {"id": "s"}}


def refuse(path, **options):
    with pytest.raises(FormatError) as caught:
        import_transcript(str(path), trail_key=KEY, put_object=Objects().put, **options)
    assert str(path) in str(caught.value)
    return caught.value


def given_file(tmp_path, data: bytes) -> Path:
    path = tmp_path / "given"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b"", "empty"),
        (b"\n \n\t\n", "blank"),
        (b"\x7fELF\0\0\0", "NUL"),
        (b"SQLite format 3\0...", "SQLite"),
        (b"PK\x03\x04\0\0", "ZIP"),
        (b"PPLS\x02\x01\0", "Periplus"),
        ("{}".encode("utf-16"), "UTF-16"),
        (b"caf\xe9 " * 10, "UTF-8"),
        (b"# Heading\n\ntext", "Markdown"),
        (b"diff --git a/x b/x\n", "patch"),
        (b"<html>", "HTML"),
        (b"hello\nworld\n", "not JSON records"),
        (b'{"projectHash": "0"}', "Gemini CLI"),
        (b'{\n  "resourceSpans": []\n}', "no span"),
        (b'{"trajectory": []}', "SWE-agent"),
        (b'{"type":"session.start","data":{}}', "Copilot"),
        (b'{"uuid":"1","parentUuid":null,"type":"user","message":{"role":"user","parts":[]}}', "Qwen"),
        (
            json.dumps([{"parentUuid": None, "sessionId": "s", **PROMPT}], indent=2).encode(),
            "a rewritten session of Claude Code",
        ),
        (b'{"session_id": "s", "session_start": "2026", "message_count": 2, "messages": []}', "Hermes"),
        (b'{"a": 1}', "another program"),
        (b"[1, 2, 3]", "another program"),
        (b'"text"', "not JSON records"),
    ],
)
def test_what_is_no_transcript_is_told_apart(tmp_path, data, wrong):
    assert wrong in refuse(given_file(tmp_path, data)).wrong


def test_a_line_over_the_limit_is_refused_without_being_read(tmp_path):
    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        file.write(json.dumps(PROMPT).encode() + b"\n")
        file.write(b'{"type":"user","message":"')
        file.truncate(200 << 20)  # a hole: as long as a line of 200 MB, and no space on the disk
    seen = []
    error = refuse(path, progress=lambda done, _: seen.append(done))
    assert (error.line, error.path) == (2, str(path))
    assert "32 MiB" in error.wrong
    assert seen[-1] <= line_reader.LINE_BYTES_MAX + 2 * line_reader.BLOCK_BYTES


def test_lines_longer_than_a_block_are_whole(tmp_path):
    text = "long " * 700_000
    records = [PROMPT, PROMPT | {"uuid": "v", "message": {"role": "user", "content": text}}, PROMPT | {"uuid": "w"}]
    imported = read(write_lines(tmp_path / "s.jsonl", records))
    assert imported.counts["prompts"] == 3
    assert imported.counts["lines"] == 3


def test_a_first_line_longer_than_the_head_is_detected(tmp_path):
    record = {"parentUuid": None, "sessionId": "s", **PROMPT, "toolUseResult": "x" * (2 * line_reader.HEAD_BYTES)}
    assert read(write_lines(tmp_path / "s.jsonl", [record])).counts["prompts"] == 1


def test_what_cannot_be_read(tmp_path):
    with pytest.raises(EnvironmentFailure, match="No such file"):
        read(tmp_path / "absent")
    assert "folder" in refuse(tmp_path).wrong
    os.mkfifo(tmp_path / "pipe")
    assert "regular" in refuse(tmp_path / "pipe").wrong
    with pytest.raises(FormatError):
        read("a\0b")


def test_a_file_without_permission_is_an_error_of_the_environment(tmp_path):
    path = write_lines(tmp_path / "s.jsonl", [PROMPT])
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(EnvironmentFailure):
        read(path)


def test_the_format_can_be_said_and_must_be_right(tmp_path):
    path = write_lines(tmp_path / "s.jsonl", [PROMPT])
    assert read(path, format="claude-code").format == "claude-code"
    assert "not of codex" in refuse(path, format="codex").wrong
    with pytest.raises(UsageError, match="unknown format"):
        read(path, format="gemini")


def test_unreadable_lines_are_counted_with_their_numbers(tmp_path):
    good = json.dumps(PROMPT).encode()
    path = given_file(
        tmp_path, b"\n".join([good, b"{broken", b"[1]", b"null", b'"x"', b"\xff\xfe", b"a\0b", good + b" x", b"", good])
    )
    imported = read(path)
    assert imported.unreadable_lines == [2, 3, 4, 5, 6, 7, 8]
    assert imported.counts["prompts"] == 1
    assert imported.counts["lines"] == 10


def test_a_torn_last_line_is_counted_and_the_run_is_partial(tmp_path):
    good = json.dumps(PROMPT).encode()
    imported = read(given_file(tmp_path, good + b"\n" + good[:30]))
    assert imported.unreadable_lines == []
    assert imported.skipped == {"last line cut off": 1}
    assert TrailReader(imported.trail).status == "partial"
    whole = read(given_file(tmp_path, good + b"\n" + json.dumps(ANSWER).encode()))
    assert TrailReader(whole.trail).status == "success"


def test_line_ends_of_windows_and_a_byte_order_mark(tmp_path):
    path = given_file(tmp_path, b"\xef\xbb\xbf" + json.dumps(PROMPT).encode() + b"\r\n\r\n")
    assert plain(read(path)) == [("PROMPT", "go")]


@pytest.mark.parametrize("depth", [70, 500, 3000, 100_000])
def test_what_is_nested_deep_costs_its_own_record_at_most(tmp_path, depth):
    deep = b"[" * depth + b"]" * depth
    data = json.dumps(PROMPT).encode() + b'\n{"type":"assistant","uuid":"a","message":{"content":[{"type":"tool_use",'
    data += b'"id":"t","name":"X","input":{"x":' + deep + b"}}]}}\n"
    data += b'{"type":"progress","uuid":"p","data":' + deep + b"}\n"
    imported = read(given_file(tmp_path, data))
    assert imported.counts["tools"] + (2 in imported.unreadable_lines) == 1
    data = json.dumps(META).encode() + b'\n{"type":"response_item","payload":' + deep + b"}\n"
    read(given_file(tmp_path, data))


def test_kinds_are_bounded(tmp_path):
    records = [PROMPT, *({"type": f"kind {n}" + "x" * 1000, "uuid": f"k{n}"} for n in range(1000))]
    records += [{"type": "system", "subtype": f"sub {n}"} for n in range(1000)]
    imported = read(write_lines(tmp_path / "s.jsonl", records))
    assert len(imported.unknown) <= 257
    assert sum(imported.unknown.values()) == 1000
    assert len(imported.skipped) <= 258
    assert sum(imported.skipped.values()) == 1000
    assert max(map(len, imported.unknown)) <= 80


_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30) | st.sampled_from(
    ["user", "assistant", "text", "tool_use", "tool_result", "thinking", "Bash", "Edit", "Read", "u1", "u2", "t1", "msg",
     "message", "function_call", "function_call_output", "reasoning", "shell", "apply_patch", "session_meta", "token_count",
     "2026-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999-23:00", "0001-01-01T00:00:00+23:59", "<command-name>", "\ud800",
     "<system-reminder>", '{"command": 3}', "*** Begin Patch\n*** Update File: x\n@@\n-a\n+b", "git commit -m x"]
)  # fmt: skip
_KEYS = [
    "type", "uuid", "parentUuid", "timestamp", "sessionId", "cwd", "isMeta", "isSidechain", "agentId", "message", "role",
    "content", "id", "model", "usage", "input_tokens", "output_tokens", "cache_read_input_tokens", "name", "input",
    "command", "file_path", "old_string", "new_string", "edits", "todos", "questions", "question", "tool_use_id",
    "is_error", "toolUseResult", "interrupted", "attachment", "prompt", "commandMode", "text", "thinking", "payload",
    "call_id", "arguments", "output", "summary", "info", "total_token_usage", "last_token_usage", "action", "git",
    "commit_hash", "ghost_commit", "result", "invocation", "metadata", "exit_code", "subtype", "sourceToolAssistantUUID",
    "offset", "limit", "pattern", "path", "url", "plan", "function", "tools", "namespace", "stdout", "answers",
]  # fmt: skip
_values = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(_KEYS) | st.text(max_size=5), inner, max_size=6)
    ),
    max_leaves=12,
)


def _object(**fixed):
    free = st.dictionaries(st.sampled_from(_KEYS), _values, max_size=5)
    return st.tuples(free, st.fixed_dictionaries({}, optional=fixed)).map(lambda both: both[0] | both[1])


_blocks = st.lists(_object(type=st.sampled_from(["text", "tool_use", "tool_result", "thinking", "x"])), max_size=3)
_claude = _object(
    type=st.sampled_from(["user", "assistant", "system", "attachment", "progress", "x"]),
    message=_object(content=_blocks | st.text(max_size=20)) | _values,
)
_codex = _object(
    type=st.sampled_from(["response_item", "event_msg", "session_meta", "turn_context", "message", "x"]),
    payload=_object(
        type=st.sampled_from(["message", "function_call", "function_call_output", "reasoning", "token_count"])
    )
    | _values,
)
_FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def _import_anything(path: Path, first: dict, records: list, tail: bytes) -> None:
    try:
        lines_ = [json.dumps(record).encode() for record in [first, *records]]
    except UnicodeEncodeError:
        return
    path.write_bytes(b"\n".join([*lines_, tail]))
    try:
        imported = import_transcript(str(path), trail_key=KEY, put_object=Objects().put)
    except PeriplusError as error:
        pytest.fail(f"refused: {error}")
    check(imported)


@pytest.mark.slow
@_FUZZ
@given(records=st.lists(_claude, max_size=6), tail=st.binary(max_size=20))
def test_any_records_after_a_first_one_of_claude_code(tmp_path_factory, records, tail):
    _import_anything(tmp_path_factory.getbasetemp() / "fuzz-claude.jsonl", PROMPT, records, tail)


@pytest.mark.slow
@_FUZZ
@given(records=st.lists(_codex, max_size=6), tail=st.binary(max_size=20))
def test_any_records_after_a_first_one_of_codex(tmp_path_factory, records, tail):
    _import_anything(tmp_path_factory.getbasetemp() / "fuzz-codex.jsonl", META, records, tail)


@pytest.mark.slow
@_FUZZ
@given(data=st.binary(max_size=400) | st.text(max_size=200).map(str.encode), where=st.integers(0, 40_000))
def test_any_bytes_in_a_session(tmp_path_factory, data, where):
    path = tmp_path_factory.getbasetemp() / "fuzz-bytes.jsonl"
    whole = (FIXTURES / "claude-mappings.jsonl").read_bytes()
    path.write_bytes(whole[:where] + data + whole[where + len(data) :])
    try:
        check(import_transcript(str(path), trail_key=KEY, put_object=Objects().put))
    except FormatError as error:
        assert str(path) in str(error)  # noqa: PT017 - either is right


def test_sessions_are_found_newest_first(tmp_path):
    project = tmp_path / ".claude/projects/-home-ada"
    day = tmp_path / ".codex/sessions/2026/03/01"
    (project / "one/subagents").mkdir(parents=True)
    day.mkdir(parents=True)
    old = write_lines(project / "one.jsonl", [{"type": "summary"}, PROMPT | {"cwd": "/home/ada/größe"}])
    new = write_lines(day / "rollout-x.jsonl", [{"type": "session_meta", "payload": {"cwd": '/a "b"'}}])
    write_lines(project / "one/subagents/agent-a.jsonl", [PROMPT])
    write_lines(project / "agent-b.jsonl", [PROMPT])
    write_lines(day / "notes.jsonl", [PROMPT])
    (project / "empty.jsonl").touch()
    (project / "link.jsonl").symlink_to(old)
    os.utime(old, (1000, 1000))
    os.utime(new, (2000.5, 2000.5))
    found = find_sessions(str(tmp_path))
    assert [(one.path, one.format, one.mtime_ms, one.cwd) for one in found] == [
        (str(new), "codex", 2_000_500, '/a "b"'),
        (str(old), "claude-code", 1_000_000, "/home/ada/größe"),
    ]
    assert found[0].size == new.stat().st_size
    assert find_sessions(str(tmp_path / "nobody")) == []


@pytest.mark.parametrize(
    "stamps",
    [
        [
            "2026-01-31T12:34:56.789Z",
            "2026-01-31T12:34:57.001Z",
            "2026-01-31T12:34:60.000Z",
            "2026-01-31T12:34:5x.000Z",
        ],
        [
            "2026-01-31T12:34:56.789Z",
            "2026-01-31T12:34:56,789Z",
            "2026-01-31T12:34:٣٤.000Z",
            "2026-01-31T12:34:56.78 Z",
        ],
        [
            "0001-01-01T00:00:00.000Z",
            "0001-01-01T00:00:59.999Z",
            "1969-12-31T23:59:59.999Z",
            "1969-12-31T23:59:00.000Z",
        ],
        ["x" * 24, "2026-01-31T12:34:56.789Z", "x" * 24, "2026-01-31 12:34:56.789Z", "2026-01-31 12:34:57.789Z"],
        ["9999-12-31T23:59:59.999Z", "9999-12-31T23:59:58.999Z", "2026-02-30T12:34:56.789Z", None, 7, ""],
    ],
)
def test_a_time_is_the_same_whatever_was_read_before(stamps):
    known = Moment()
    for _ in range(2):
        for stamp in stamps:
            assert known.read(stamp) == Moment().read(stamp), stamp


TOKEN = "ghp_a8Kx93LmQz71VbNcY5TsWr20PdEfGhIj4KlM"


@pytest.mark.parametrize(
    "arguments",
    [
        {"password": "Tr0ub4dor&3xyzQ9"},
        {"api_key": "a8Kx93LmQz71VbNcY5TsWr20PdEfGhIj"},
        {"login": [{"auth": {"token": "a8Kx93LmQz71VbNcY5TsWr20PdEfGhIj"}}]},
    ],
)
def test_a_secret_that_only_its_key_tells_is_masked(tmp_path, arguments):
    said = [{"type": "tool_use", "id": "t", "name": "mcp__db__login", "input": arguments}]
    records = [PROMPT, {"type": "assistant", "uuid": "v", "message": {"id": "m", "role": "assistant", "content": said}}]
    imported = read(write_lines(tmp_path / "a.jsonl", records))
    text = plain(imported)[1][3]
    assert "masked:" in text
    assert "Tr0ub" not in text
    assert "a8Kx93" not in text
    assert json.loads(text).keys() == arguments.keys()
    assert imported.masked == 1


def test_other_members_stay_as_they_are():
    given = {"password": "secret", "token": 'a "quoted" one', "key": "x" * 5000, "max_tokens": 4096, "n": {"key": "\\"}}
    assert json.loads(json_text(given, lambda text: mask_secrets(text)[0])) == given


@pytest.mark.parametrize("tail", range(4, 40, 5))
def test_no_secret_is_cut_before_it_is_masked(tmp_path, tail):
    """Half a token has not the shape of one."""
    begin = len("score of s: I, for the answer ")
    answer = "y" * (400 - begin - tail - 1) + " " + TOKEN
    document = {
        "version": 2, "status": "success", "eval": {"run_id": "r", "task": "t"},
        "samples": [{"id": "x" * (200 - tail - 1) + " " + TOKEN, "epoch": 1, "input": "go", "messages": [],
                     "scores": {"s": {"value": "I", "answer": answer}}}],
    }  # fmt: skip
    path = tmp_path / "log.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    imported = read(path)
    for text in (str(plain(imported)), imported.session_id):
        assert "ghp_" not in text
