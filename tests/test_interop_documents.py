"""Cline, aider, Inspect, OpenTelemetry: real files beside the repository, and what strangers could make of them."""

from __future__ import annotations

import copy
import io
import json
import random
import re
import shutil
import struct
import time
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from interop_support import KEY, SHARED, Objects, check, named, plain, steps_of
from periplus.base.errors import FormatError
from periplus.interop import import_transcripts
from periplus.interop.importers.inspect_ai.log import DIRECTORY_BYTES_MAX, MEMBER_BYTES_MAX
from periplus.trail.format.reader import TrailReader

SECRET = "ghp_Zq3vT8xK2mW9rB5nL7cJ4dF6hG1sA0pQ"
FILES = {
    "cline": ["cline/session.json", "cline/session.messages.json"],
    "aider": ["aider/chat-history-part1.md", "aider/zen-mcp-server.aider.chat.history.md"],
    "inspect": ["inspect-log/log_formats.eval", "inspect-log/log_formats.json", "inspect-log/log_read_sample.json"],
    "otel": [
        "otel-genai/langfuse-agno-2025-06-11.trace.json",
        "otel-genai/langfuse-pydantic-ai-tools-2025-12-04.trace.json",
    ],
}
REAL = [(name, file) for name, files in FILES.items() for file in files]
DOCUMENTS = [(name, file) for name, file in REAL if file.endswith(".json") and file != "cline/session.json"]


def real(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"real transcripts are not beside the repository: no file {path}")
    return path


def read_all(path: Path, **options):
    objects = Objects()
    sessions = list(import_transcripts(str(path), trail_key=KEY, put_object=objects.put, **options))
    for session in sessions:
        check(session)
    return sessions, objects


def attempted(path: Path):
    """The sessions, or None where the file is refused by name."""
    try:
        return read_all(path)[0]
    except FormatError as error:
        refusal = error
    assert str(path) in str(refusal)
    return None


def totals(sessions) -> Counter:
    counts = Counter()
    for session in sessions:
        counts.update(session.counts)
    return counts


# ---- real files


@pytest.mark.parametrize(("name", "file"), REAL)
def test_a_real_file_is_known_read_and_whole(name, file):
    sessions, _ = read_all(real(file))
    assert sessions
    for session in sessions:
        assert session.format == name
        assert session.unknown == {}
        assert session.unreadable_lines == []
        assert "document cut off" not in session.skipped
    assert len({session.session_id for session in sessions}) == len(sessions)


@pytest.mark.parametrize(("name", "file"), REAL)
def test_importing_twice_gives_the_same(name, file):
    assert read_all(real(file))[0] == read_all(real(file), format=name)[0]


def test_cline_agrees_with_an_independent_reading():
    document = json.loads(real("cline/session.messages.json").read_bytes())
    counts = Counter()
    for message in document["messages"]:
        counts["model_calls"] += "metrics" in message
        for block in message["content"]:
            counts[message["role"], block["type"]] += 1
    (session,), _ = read_all(real("cline/session.json"))
    assert session.counts["tools"] == counts["assistant", "tool_use"] == session.counts["tools_paired"]
    assert session.counts["says"] == counts["assistant", "text"]
    assert session.counts["model_calls"] == counts["model_calls"]
    assert session.counts["prompts"] == counts["user", "text"]
    assert session.tokens.out == sum(
        message.get("metrics", {}).get("outputTokens", 0) for message in document["messages"]
    )
    assert session.cwd == "/Users/example/dev/cline"
    assert session.session_id == document["sessionId"]
    blocks = [block for message in document["messages"] for block in message["content"] if block["type"] == "tool_use"]
    edits = [block["input"] for block in blocks if block["name"] == "editor"]
    assert [(step.operands[1], step.operands[2]) for step in named(session, "FILE_EDIT")] == [
        (edit["old_text"], edit["new_text"]) for edit in edits
    ]


def test_aider_agrees_with_an_independent_reading():
    text = real("aider/chat-history-part1.md").read_text(encoding="utf-8")
    sessions, _ = read_all(real("aider/chat-history-part1.md"))
    counts = totals(sessions)
    ops = Counter(step[0] for session in sessions for step in plain(session))
    assert counts["model_calls"] == len(re.findall(r"^> Tokens: .*", text, re.MULTILINE))
    assert ops["GIT_COMMIT"] == len(re.findall(r"^> Commit [0-9a-f]{7} .*  $", text, re.MULTILINE))
    applied = re.findall(r"^> Applied edit to (.*)  $", text, re.MULTILINE)
    made = [step for session in sessions for step in named(session, "FILE_EDIT", "FILE_WRITE") if step.outcome == "ok"]
    assert {step.operands[0] for step in made} == set(applied)
    assert len(made) >= len(applied)
    blocks = len(re.findall(r"^>>>>>>> REPLACE$", text, re.MULTILINE))  # an answer can break off within one
    assert ops["FILE_EDIT"] + ops["FILE_WRITE"] == blocks
    empty = sum(session.skipped.get("session in which nothing was said", 0) for session in sessions)
    assert len(sessions) + empty == len(re.findall(r"^# aider chat started at ", text, re.MULTILINE)) + 1


def test_a_history_that_grows_leaves_its_older_sessions_as_they_are(tmp_path):
    data = real("aider/chat-history-part1.md").read_bytes()
    path = tmp_path / ".aider.chat.history.md"
    path.write_bytes(data[:400_000])
    before, _ = read_all(path)
    path.write_bytes(data)
    after, _ = read_all(path)
    assert [one.trail for one in before[:-1]] == [one.trail for one in after[: len(before) - 1]]


def test_inspect_tells_the_same_of_a_sample_in_either_file():
    (zipped,), _ = read_all(real("inspect-log/log_formats.eval"))
    (document,), _ = read_all(real("inspect-log/log_formats.json"))
    assert plain(zipped) == plain(document)
    assert (zipped.session_id, zipped.tokens) == (document.session_id, document.tokens)
    assert [step[0] for step in plain(zipped)] == ["PROMPT", "MODEL_CALL", "SAY", "COMMENT"]


def test_calls_of_models_that_are_seen_twice_count_once():
    agno, pydantic = ("otel-genai/langfuse-agno-2025-06-11.trace.json", FILES["otel"][1])
    (session,), _ = read_all(real(agno))
    assert (session.counts["model_calls"], session.tokens.fresh, session.tokens.out) == (2, 163 + 663, 20 + 225)
    assert [step[0] for step in plain(session)] == ["PROMPT", "MODEL_CALL", "TOOL_CALL", "MODEL_CALL", "SAY"]
    (session,), _ = read_all(real(pydantic))
    spans = json.loads(real(pydantic).read_bytes())["observations"]
    assert session.counts["model_calls"] == sum(span["type"] == "GENERATION" for span in spans)
    tools = [span for span in spans if span["type"] == "TOOL"]
    found = [step for step in named(session, "TOOL_CALL") if step.outcome == "ok"]
    assert sorted(step.operands[1] for step in found) == sorted(span["name"].split(": ")[1] for span in tools)


def test_at_least_99_of_100_calls_with_a_result_find_it():
    """Each of these formats says of a call what came of it, or the file has nothing to pair it with."""
    for _, file in REAL:
        sessions, _ = read_all(real(file))
        steps = [step for session in sessions for step in steps_of(session)]
        counts = totals(sessions)
        unanswered = sum(step.outcome == "unknown" and step.result is None for step in steps)
        assert counts["tools_paired"] >= 0.99 * (counts["tools"] - unanswered)


# ---- secrets


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from leaves(item, (*path, at))
    elif isinstance(value, str):
        yield path


def planted(document, path):
    changed = copy.deepcopy(document)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = f"{inner[path[-1]]} {SECRET}"
    return changed


@pytest.mark.parametrize(("name", "file"), DOCUMENTS)
def test_a_secret_in_any_field_is_masked(name, file, tmp_path):
    document = json.loads(real(file).read_bytes())
    fields = {}
    for path in leaves(document):
        fields.setdefault(tuple(key for key in path if isinstance(key, str)), path)
    assert len(fields) > 10
    target = tmp_path / ("a.messages.json" if name == "cline" else "a.json")
    read = 0
    for path in fields.values():
        target.write_text(json.dumps(planted(document, path)), encoding="utf-8")
        try:
            sessions, objects = read_all(target)
        except FormatError:
            continue
        read += 1
        kept = [session.trail for session in sessions] + list(objects.values()) + [repr(sessions).encode()]
        assert not any(SECRET.encode() in data for data in kept), path
    assert read > 0.8 * len(fields)


def test_a_secret_on_any_line_of_a_history_is_masked(tmp_path):
    lines = real("aider/zen-mcp-server.aider.chat.history.md").read_text(encoding="utf-8").splitlines()
    lines += ["", "#### do it  ", "", "I will.", "", "a.py", "```python", "<<<<<<< SEARCH", "a = 1", "=======", "a = 2"]
    lines += [
        ">>>>>>> REPLACE",
        "```",
        "",
        "> Tokens: 1 sent, 1 received.  ",
        "> Applied edit to a.py  ",
        "> Commit 1234567 all  ",
    ]
    lines += ["", "#### /run make  ", "> made  ", "", "#### /run pytest  ", "> 1 passed  "]
    path = tmp_path / "history.md"
    for at, line in enumerate(lines):
        marked = re.sub(r"( *)$", rf" {SECRET}\1", line, count=1) if line.strip() else line
        path.write_text("\n".join([*lines[:at], marked, *lines[at + 1 :]]) + "\n", encoding="utf-8")
        sessions, objects = read_all(path)
        kept = [session.trail for session in sessions] + list(objects.values()) + [repr(sessions).encode()]
        assert not any(SECRET.encode() in data for data in kept), line


# ---- damage


@pytest.mark.parametrize(("name", "file"), REAL)
def test_what_is_cut_off_gives_what_is_good(name, file, tmp_path):
    source = real(file)
    data = source.read_bytes()[:300_000]
    target = tmp_path / source.name
    if file == "cline/session.json":
        shutil.copy(source.with_name("session.messages.json"), tmp_path)
    target.write_bytes(data)
    whole = totals(read_all(target)[0])["steps"]
    imported = 0
    for cut in [len(data) * part // 12 for part in range(1, 12)] + [len(data) - 2]:
        target.write_bytes(data[:cut])
        sessions = attempted(target)
        if sessions is None:
            continue
        imported += 1
        if name != "otel":  # where an outer span is cut off, the inner one counts
            assert totals(sessions)["steps"] <= whole
        if name in ("cline", "otel") and file != "cline/session.json":
            assert sessions[-1].skipped["document cut off"] == 1
    # An archive has its directory at its end: one that was cut off is refused whole. A sample is one element.
    least = {"log_formats.eval": 0, "log_formats.json": 1, "log_read_sample.json": 1, "session.json": 0}
    assert imported >= least.get(source.name, 9)


@pytest.mark.parametrize(("name", "file"), REAL)
def test_changed_bytes_are_refused_or_read(name, file, tmp_path):
    source = real(file)
    data = source.read_bytes()[:120_000]
    target = tmp_path / source.name
    if file == "cline/session.json":
        shutil.copy(source.with_name("session.messages.json"), tmp_path)
    chance = random.Random(7)
    for _ in range(40):
        changed = bytearray(data)
        for _ in range(chance.choice((1, 3, 30))):
            changed[chance.randrange(len(changed))] = chance.choice(b'"{}[],:0a\x00\xff\\n# >\r')
        target.write_bytes(changed)
        try:
            read_all(target)
        except FormatError:
            continue


@pytest.mark.slow
@pytest.mark.parametrize(("name", "file"), DOCUMENTS)
def test_values_of_any_type_are_read(name, file, tmp_path):
    """Every kind of field in turn holds what it never holds."""
    document = json.loads(real(file).read_bytes())
    fields = {}
    for path in leaves(document):
        for length in range(1, len(path) + 1):
            fields.setdefault(tuple(key for key in path[:length] if isinstance(key, str)), path[:length])
    target = tmp_path / ("a.messages.json" if name == "cline" else "a.json")
    for at, path in enumerate(fields.values()):
        changed = copy.deepcopy(document)
        inner = changed
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = [None, 7, -1.5, True, [], {}, "", [[[]]], {"a": {"b": 1}}, 10**30, [1, "a", None]][at % 11]
        target.write_text(json.dumps(changed), encoding="utf-8")
        try:
            read_all(target)
        except FormatError:
            continue


# ---- archives that a stranger made


def sample(**more):
    return json.dumps({"id": 1, "epoch": 1, "input": "hello", "messages": [], **more}).encode()


HEADER = json.dumps({"version": 2, "eval": {"run_id": "r", "task": "t", "model": "m"}}).encode()


def archive(path: Path, members, **options) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, **options) as file:
        for name, data in members:
            file.writestr(name, data)
    return path


def test_a_member_that_grows_without_end_is_refused(tmp_path):
    bomb = b'{"id": 1, "messages": [' + b"0," * (MEMBER_BYTES_MAX // 2 + 10) + b"0]}"
    path = archive(tmp_path / "a.eval", [("header.json", HEADER), ("samples/1_epoch_1.json", bomb)])
    assert path.stat().st_size < 1_000_000
    started = time.process_time()
    with pytest.raises(FormatError, match="32 MiB"):
        read_all(path)
    assert time.process_time() - started < 5


def test_names_are_never_paths(tmp_path):
    outside = tmp_path / "outside.json"
    names = [
        "../outside.json",
        "/outside.json",
        "samples/../../outside.json",
        "samples/a/b.json",
        "samples\\x.json",
        "samples/.json",
    ]
    folder = tmp_path / "inside"
    folder.mkdir()
    path = archive(
        folder / "a.eval",
        [("header.json", HEADER), *((name, sample()) for name in names), ("samples/1.json", sample())],
    )
    (session,), _ = read_all(path)
    assert session.skipped["member of the archive that is no sample"] == 6
    assert not outside.exists()
    assert sorted(one.name for one in folder.iterdir()) == ["a.eval"]


def test_one_damaged_member_costs_itself(tmp_path):
    path = archive(
        tmp_path / "a.eval",
        [
            ("header.json", HEADER),
            ("samples/1_epoch_1.json", sample()),
            ("samples/2_epoch_1.json", sample(id=2, input="x" * 3000)),
        ],
    )
    data = bytearray(path.read_bytes())
    at = data.index(b"samples/2_epoch_1.json") + len("samples/2_epoch_1.json") + 2
    data[at] ^= 0xFF
    path.write_bytes(data)
    (session,), _ = read_all(path)
    assert session.session_id == "r/1/1"
    assert session.skipped["sample that cannot be unpacked"] == 1


def test_an_interrupted_log_has_no_header(tmp_path):
    path = archive(tmp_path / "a.eval", [("_journal/start.json", HEADER), ("samples/1_epoch_1.json", sample())])
    (session,), _ = read_all(path)
    assert (session.model, session.skipped["log without an end"]) == ("m", 1)


def test_directories_that_lie_are_refused(tmp_path):
    good = archive(tmp_path / "good.eval", [("header.json", HEADER), ("samples/1_epoch_1.json", sample())]).read_bytes()
    end = good.rindex(b"PK\x05\x06")
    large = bytearray(good)
    struct.pack_into("<L", large, end + 12, DIRECTORY_BYTES_MAX + 1)
    many = good[:end] + struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, 1 << 40, 0)
    many += struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1) + good[end:]
    for data in (bytes(large), many, good[:end], good[: end - 30] + good[end:], good[:30] + b"\xff" * 40 + good[70:]):
        path = tmp_path / "bad.eval"
        path.write_bytes(data)
        with pytest.raises(FormatError):
            read_all(path)


def test_archives_with_a_password_or_an_unknown_packing_are_refused(tmp_path):
    good = archive(tmp_path / "good.eval", [("header.json", HEADER), ("samples/1_epoch_1.json", sample())]).read_bytes()
    for offset, value in ((6, 1), (8, 93)):  # encrypted; packed by Zstandard, which not every Python knows
        data = bytearray(good)
        for mark, shift in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
            at = data.find(mark)
            while at >= 0:
                struct.pack_into("<H", data, at + offset + shift, value)
                at = data.find(mark, at + 4)
        path = tmp_path / "bad.eval"
        path.write_bytes(data)
        with pytest.raises(FormatError, match="no readable sample"):
            read_all(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_unpacks_in_one_piece_is_not_unpacked(tmp_path, method):
    path = tmp_path / "bad.eval"
    with zipfile.ZipFile(path, "w", method) as made:
        made.writestr("header.json", HEADER)
        made.writestr("samples/1_epoch_1.json", sample())
    with pytest.raises(FormatError, match="no readable sample"):
        read_all(path)


def test_many_members_are_read_in_turn(tmp_path):
    members = [(f"samples/{number}_epoch_1.json", sample(id=number)) for number in range(300)]
    sessions, _ = read_all(archive(tmp_path / "a.eval", [("header.json", HEADER), *members]))
    assert [session.session_id for session in sessions] == [f"r/{number}/1" for number in range(300)]


# ---- more than the real files hold


def test_inspect_tools_and_messages(tmp_path):
    calls = [
        {"id": "a", "function": "bash", "arguments": {"cmd": "pytest -q"}},
        {
            "id": "b",
            "function": "text_editor",
            "arguments": {"command": "create", "path": "/a.py", "file_text": "x = 1\n"},
        },
        {
            "id": "c",
            "function": "text_editor",
            "arguments": {"command": "str_replace", "path": "/a.py", "old_str": "1", "new_str": "2"},
        },
        {"id": "d", "function": "text_editor", "arguments": {"command": "view", "path": "/a.py", "view_range": [1, 5]}},
    ]
    messages = [
        {"role": "user", "content": "fix it"},
        {
            "role": "assistant",
            "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "so"}],
            "tool_calls": calls,
        },
        {"role": "tool", "tool_call_id": "a", "content": "3 passed in 1s"},
        {"role": "tool", "tool_call_id": "b", "content": "made"},
        {"role": "tool", "tool_call_id": "c", "content": "", "error": {"type": "permission", "message": "not allowed"}},
        {"role": "tool", "tool_call_id": "d", "content": "x"},
    ]
    document = {"version": 2, "status": "success", "eval": {"run_id": "r", "task": "t"}, "samples": [
        {"id": "one", "epoch": 2, "input": "fix it", "messages": messages, "scores": {"match": {"value": "C"}}},
        {"id": "two", "epoch": 1, "input": "other", "messages": [], "error": {"message": "broke"}}]}  # fmt: skip
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    (one, two), _ = read_all(path)
    assert [step[:2] for step in plain(one)] == [
        ("PROMPT", "fix it"), ("COMMENT", "hm"), ("SAY", "so"), ("TEST_RUN", "pytest -q"), ("FILE_WRITE", "/a.py"),
        ("FILE_EDIT", "/a.py"), ("FILE_READ", "/a.py"), ("COMMENT", "score of match: C"),
    ]  # fmt: skip
    assert [step.outcome for step in named(one, "TEST_RUN", "FILE_EDIT")] == ["ok", "denied"]
    assert named(one, "TEST_RUN")[0].operands[1] == 3
    assert (one.session_id, two.session_id) == ("r/one/2", "r/two/1")


def otlp(*spans, resource=()):
    return {"resourceSpans": [{
        "resource": {"attributes": [attribute("service.name", "shop"), *resource]},
        "scopeSpans": [{"scope": {"name": "lib", "version": "1.2"}, "spans": list(spans)}],
    }]}  # fmt: skip


def attribute(key, value):
    kind = {str: "stringValue", int: "intValue", float: "doubleValue", bool: "boolValue"}[type(value)]
    return {"key": key, "value": {kind: str(value) if kind == "intValue" else value}}


def span(number, name, parent=None, failed=False, trace="t" * 32, **attributes):
    found = {
        "traceId": trace, "spanId": f"{number:016x}", "name": name, "startTimeUnixNano": str(1_700_000_000_000_000_000 + number * 10**9),
        "endTimeUnixNano": str(1_700_000_000_500_000_000 + number * 10**9), "status": {"code": 2, "message": "broke"} if failed else {},
        "attributes": [attribute(key.replace("__", "."), value) for key, value in attributes.items()],
    }  # fmt: skip
    return found if parent is None else {**found, "parentSpanId": f"{parent:016x}"}


def session_of_spans():
    said = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "make it green"}]}])
    done = json.dumps(
        [
            {
                "role": "assistant",
                "parts": [
                    {"type": "text", "content": "running"},
                    {"type": "tool_call", "id": "c1", "name": "bash", "arguments": {"command": "pytest -q"}},
                ],
            }
        ]
    )
    return [
        span(1, "invoke_agent fixer", gen_ai__operation__name="invoke_agent", gen_ai__agent__name="fixer"),
        span(2, "chat m", 1, gen_ai__operation__name="chat", gen_ai__request__model="m", gen_ai__usage__input_tokens=10,
             gen_ai__usage__output_tokens=5, gen_ai__input__messages=said, gen_ai__output__messages=done),
        span(3, "execute_tool bash", 1, gen_ai__operation__name="execute_tool", gen_ai__tool__name="bash", gen_ai__tool__call__id="c1",
             gen_ai__tool__call__arguments=json.dumps({"command": "pytest -q"}), gen_ai__tool__call__result="2 passed in 1s"),
        span(4, "execute_tool bash", 1, failed=True, gen_ai__operation__name="execute_tool", gen_ai__tool__name="bash",
             gen_ai__tool__call__arguments=json.dumps({"command": "git push"}), gen_ai__tool__call__result="no"),
    ]  # fmt: skip


EXPECTED_OF_SPANS = [
    ("PROMPT", "make it green"),
    ("MODEL_CALL", "m", 10, 0, 5, None),
    ("SAY", "running"),
    ("TEST_RUN", "pytest -q", 2),
    ("GIT_PUSH", "", None),
]


def test_otlp_as_a_document_and_as_lines(tmp_path):
    spans = session_of_spans()
    commit = attribute("vcs.ref.head.revision", "0123456789" * 4)
    whole = tmp_path / "a.json"
    whole.write_text(json.dumps(otlp(*reversed(spans), resource=[commit]), indent=1), encoding="utf-8")
    lines = tmp_path / "b.json"
    lines.write_text("".join(json.dumps(otlp(one, resource=[commit])) + "\n" for one in spans), encoding="utf-8")
    bare = tmp_path / "c.jsonl"
    bare.write_text("".join(json.dumps(one) + "\n" for one in spans), encoding="utf-8")
    for path in (whole, lines, bare):
        (session,), _ = read_all(path)
        assert plain(session) == EXPECTED_OF_SPANS
        assert [step.outcome for step in named(session, "TEST_RUN", "GIT_PUSH")] == ["ok", "failed"]
        assert session.agent == "otel/fixer"
        assert session.session_id == "t" * 32


def test_spans_of_the_python_sdk(tmp_path):
    records = []
    for one in session_of_spans():
        attributes = {item["key"]: next(iter(item["value"].values())) for item in one["attributes"]}
        records.append({
            "name": one["name"], "context": {"trace_id": "0x" + one["traceId"], "span_id": "0x" + one["spanId"]},
            "parent_id": "0x" + one["parentSpanId"] if "parentSpanId" in one else None,
            "start_time": f"2026-01-01T00:00:0{int(one['spanId'], 16)}.000000Z", "end_time": "2026-01-01T00:01:00.000000Z",
            "status": {"status_code": "ERROR", "description": "broke"} if one["status"] else {"status_code": "UNSET"},
            "attributes": {key: int(value) if value.isdigit() else value for key, value in attributes.items()},
        })  # fmt: skip
    path = tmp_path / "a.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    (session,), _ = read_all(path)
    assert plain(session) == EXPECTED_OF_SPANS


def test_traces_of_one_file_are_trails_of_their_own(tmp_path):
    path = tmp_path / "a.json"
    both = [
        span(1, "chat", trace=name * 32, gen_ai__operation__name="chat", gen_ai__request__model="m") for name in "ab"
    ]
    path.write_text(json.dumps(otlp(*both)), encoding="utf-8")
    sessions, _ = read_all(path)
    assert [session.session_id for session in sessions] == ["a" * 32, "b" * 32]
    assert sessions[0].trail_digest != sessions[1].trail_digest


def test_spans_that_are_their_own_ancestors_end(tmp_path):
    path = tmp_path / "a.json"
    chats = [
        span(at, "chat", at % 3 + 1, gen_ai__operation__name="chat", gen_ai__request__model="m") for at in (1, 2, 3)
    ]
    path.write_text(json.dumps(otlp(*chats)), encoding="utf-8")
    (session,), _ = read_all(path)
    assert session.skipped["call of a model that another span tells"] == 3


def test_flat_attributes_of_older_conventions(tmp_path):
    attributes = {
        "llm.request.type": "chat", "gen_ai.request.model": "m", "gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "be good",
        "gen_ai.prompt.1.role": "user", "gen_ai.prompt.1.content": "hello", "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "hi", "gen_ai.completion.0.tool_calls.0.id": "c", "gen_ai.completion.0.tool_calls.0.name": "grep",
        "gen_ai.completion.0.tool_calls.0.arguments": '{"pattern": "x"}', "gen_ai.usage.prompt_tokens": 3,
    }  # fmt: skip
    one = span(1, "openai.chat")
    one["attributes"] = [attribute(key, value) for key, value in attributes.items()]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(otlp(one)), encoding="utf-8")
    (session,), _ = read_all(path)
    assert plain(session) == [
        ("PROMPT", "hello"),
        ("MODEL_CALL", "m", 3, 0, 0, None),
        ("SAY", "hi"),
        ("SEARCH_CODE", "x", None),
    ]


def test_cline_without_its_card_and_a_card_without_its_messages(tmp_path):
    shutil.copy(real("cline/session.json"), tmp_path / "s.json")
    with pytest.raises(FormatError, match=r"without its messages"):
        read_all(tmp_path / "s.json")
    shutil.copy(real("cline/session.messages.json"), tmp_path / "s.messages.json")
    (with_card,), _ = read_all(tmp_path / "s.messages.json")
    (by_card,), _ = read_all(tmp_path / "s.json")
    assert with_card == by_card
    (tmp_path / "s.json").unlink()
    (without,), _ = read_all(tmp_path / "s.messages.json")
    assert (without.cwd, plain(without)) == (None, plain(with_card))


def test_aider_by_hand(tmp_path):
    path = tmp_path / "h.md"
    path.write_text(
        "\n# aider chat started at 2026-01-02 03:04:05\n\n> Aider v0.86.1  \n> Main model: big with diff edit format  \n"
        "\n#### change it  \n#### and test  \n\nSure:\n\na.py\n```python\n<<<<<<< SEARCH\na = 1\n=======\na = 2\n>>>>>>> REPLACE\n```\n\n"
        "b.py\n```python\n<<<<<<< SEARCH\n=======\nb = 1\n>>>>>>> REPLACE\n```\n\n> Tokens: 1.5k sent, 2k cache hit, 20 received. Cost: $0.02 message, $0.03 session.  \n"
        "> Applied edit to a.py  \n> Did not apply edit to b.py (--dry-run)  \n> Commit 1234567 feat: a  \n"
        "\n#### /test pytest -q  \n> ==== test session starts ====\nplatform linux\n\n3 passed in 0.1s  \n> Add the output to the chat? (y/n): n  \n"
        "\n#### ok  \n\nHalf an ans",
        encoding="utf-8",
    )
    (session,), _ = read_all(path)
    assert plain(session)[:8] == [
        ("PROMPT", "change it\nand test"),
        ("SAY", plain(session)[1][1]),
        ("FILE_EDIT", "a.py", "a = 1\n", "a = 2\n"),
        ("FILE_WRITE", "b.py", plain(session)[3][2]),
        ("MODEL_CALL", "big", 1500, 2000, 20, 20_000),
        ("GIT_COMMIT", "", "feat: a", None),
        ("PROMPT", "/test pytest -q"),
        ("TEST_RUN", "pytest -q", 3),
    ]
    assert [step.outcome for step in named(session, "FILE_EDIT", "FILE_WRITE")] == ["ok", "denied"]
    assert TRAILING.fullmatch(" ".join(step[0] for step in plain(session)[8:]))
    assert session.started_ms == 1_767_323_045_000


TRAILING = re.compile(r"ASK PROMPT SAY")


@pytest.mark.parametrize(
    "piece",
    [
        "<<<<<<< SEARCH\n",
        "a.py\n```\n",
        "> x\n",
        "#### \n",
        "#### a  \n",
        "> a  \n",
        "# aider chat started at 2026-01-01 00:00:00\n",
        "````\n",
    ],
)
def test_hostile_histories_take_linear_time(piece, tmp_path):
    path = tmp_path / "h.md"
    path.write_text("# aider chat started at 2026-01-02 03:04:05\n" + piece * 8000, encoding="utf-8")
    started = time.process_time()
    with io.BytesIO():
        list(import_transcripts(str(path), trail_key=KEY, put_object=Objects().put))
    assert time.process_time() - started < 8


@pytest.mark.parametrize(
    "text", ["{", "[", "[]", "{}", '{"resourceSpans": []}', '{"messages": 1, "updated_at": 1, "agent": 1}']
)
def test_files_with_nothing_in_them(text, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")
    assert attempted(path) in (None, []) or len(attempted(path)) == 1


def test_the_wrapping_of_cline_is_no_part_of_a_prompt(tmp_path):
    """Version 3.0.65 puts the mode around what a person typed, and names servers within the names of tools."""
    said = '<user_input mode="act">Oil the <user_input> wheels</user_input>'
    call = {"type": "tool_use", "id": "c1", "name": "periplus__recall", "input": {"question": "Which?"}}
    document = {
        "version": 1, "updated_at": "2026-11-29T01:22:09.163Z", "agent": "lead", "sessionId": "s1", "origin": {"source": "cli", "version": "3.0.65"},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": said}]},
            {"role": "user", "content": [{"type": "text", "text": '<hook_context source="RunStart">\nA fact.\n</hook_context>'}]},
            {"role": "assistant", "content": [call]},
        ],
    }  # fmt: skip
    (tmp_path / "s1.messages.json").write_text(json.dumps(document))
    ((imported,), _) = read_all(tmp_path / "s1.messages.json")
    assert [step.operands[0] for step in named(imported, "PROMPT")] == ["Oil the <user_input> wheels"]
    assert [step.operands[:2] for step in named(imported, "TOOL_CALL")] == [("periplus", "recall")]
    assert TrailReader(imported.trail).header.tool_version == "3.0.65"
