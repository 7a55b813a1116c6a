"""Worklogs: what the compiler takes, what it refuses by entry and key, what it guesses, and that nothing is lost."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from periplus.base.errors import FormatError
from periplus.trail import Digest, TrailReader, encode, verify
from periplus.trail.opcodes import OPCODES, TRAIL_BEGIN, TRAIL_END
from periplus.trail.program import program_of_trail, trail_of_program
from periplus.trail.v1.conversion import program_of_flux
from periplus.trail.v1.reader import FluxReader
from periplus.trail.v1.writer import write_flux
from periplus.trail.worklogs.compiler import RunFacts, compile_worklog
from periplus.trail.worklogs.json_text import WORKLOG_BYTES_MAX, entries_of_program, entry_line, read_worklog
from periplus.trail.worklogs.values import TOLD_MAX
from real_trails import hundred, sessions
from trail_samples import SECRET, golden_trail, headers, statuses, steps

pytestmark = pytest.mark.quick

BEGIN = {"op": "TRAIL_BEGIN", "agent": "ada", "trail_id": "run-1", "ts": 1_700_000_000}
END = {"op": "TRAIL_END", "steps": 99, "status": "success"}
SHA = "sha256:" + "ab" * 32


def log(*entries):
    return json.dumps([BEGIN, *entries, END]).encode()


def compiled(*entries, **how):
    return compile_worklog(log(*entries), **how).program


def only(*entries, **how):
    (step,) = compiled(*entries, **how).steps[1:-1]
    return step


def refusal(data, **how):
    with pytest.raises(FormatError) as caught:
        compile_worklog(data, **how)
    assert caught.value.safe == "Nothing was written."
    return str(caught.value)


def entries(program):
    return json.dumps(list(entries_of_program(program))).encode()


# The three shapes of a worklog


@pytest.mark.parametrize(
    "data",
    [
        json.dumps([BEGIN, {"op": "NOP"}, END]),
        json.dumps([BEGIN, {"op": "NOP"}, END], indent=2),
        "\n".join(json.dumps(entry) for entry in (BEGIN, {"op": "NOP"}, END)),
        "\n\n" + "\r\n".join(json.dumps(entry) for entry in (BEGIN, {"op": "NOP"}, END)) + "\n\n",
        json.dumps({"entries": [BEGIN, {"op": "NOP"}, END]}),
        json.dumps({"entries": [BEGIN, {"op": "NOP"}, END]}, indent=1),
        json.dumps({"agent": "ada", "trail_id": "run-1", "ts": 1_700_000_000, "status": "success", "entries": [{"op": "NOP"}]}),
        "\ufeff" + json.dumps([BEGIN, {"op": "NOP"}, END]),
        json.dumps([{**BEGIN, "op": " trail_Begin "}, {"op": "nop"}, {**END, "op": "Trail_End", "status": 0}]),
    ],
)  # fmt: skip
def test_a_worklog_is_an_array_or_lines_or_an_object(data):
    program = compile_worklog(data.encode()).program
    assert [step.code for step in program.steps] == [0xA0, 0x9F, 0xA1]
    assert (program.agent, program.trail_id, program.started_ms, program.status) == (
        "ada",
        "run-1",
        1_700_000_000_000,
        "success",
    )


def test_what_the_caller_knows_takes_the_place_of_what_the_log_says():
    program = compile_worklog(log(), facts=RunFacts("bob", "run-2", "partial")).program
    assert (program.agent, program.trail_id, program.status) == ("bob", "run-2", "partial")
    bare = compile_worklog(b'{"op": "NOP"}', facts=RunFacts("bob", "run-2", "error")).program
    assert (bare.agent, bare.status, bare.started_ms, len(bare.steps)) == ("bob", "error", None, 3)


def test_a_time_that_nobody_gives_is_0_and_never_now():
    data = b'[{"op": "TRAIL_BEGIN", "agent": "a", "trail_id": "b"}, {"op": "TRAIL_END", "status": 2}]'
    program = compile_worklog(data, target=1).program
    assert FluxReader(write_flux(program).data).started_s == 0
    assert TrailReader(trail_of_program(compile_worklog(data).program, SECRET)).header.started_ms == 0
    timed = compile_worklog(log({"op": "NOP", "ts": 1_700_000_001.25}, {"op": "NOP", "at_ms": 5})).program
    assert [step.at_ms for step in timed.steps[1:-1]] == [1_700_000_001_250, 5]


# Operands


@pytest.mark.parametrize(
    ("entry", "operands"),
    [
        ({"op": "GIT_COMMIT", "repo_id": 7, "repo": 8, "message": "fix"}, ("7", "fix")),
        ({"op": "GIT_COMMIT", "repo": "engine", "message_hash": "aa", "commit": "ab" * 20}, ("engine", "aa", Digest("git-sha1", b"\xab" * 20))),
        ({"op": "FILE_WRITE", "path": "a", "content": "text"}, ("a", "text")),
        ({"op": "FILE_WRITE", "path": "a", "content_hash": SHA}, ("a", Digest("sha256", b"\xab" * 32))),
        ({"op": "FILE_WRITE", "path": "a", "content_hash": "AB" * 32}, ("a", Digest("sha256", b"\xab" * 32))),
        ({"op": "FILE_EDIT", "path": "a", "old_hash": "1", "new": "2"}, ("a", "1", "2")),
        ({"op": "TEST_RUN", "path": "tests", "expected_count": 3}, ("tests", 3)),
        ({"op": "TEST_RUN", "target": "tests"}, ("tests",)),
        ({"op": "LEVEL_UP", "new_level": 2}, (2,)),
        ({"op": "SPELL_CAST", "spell": "review", "arguments": {"b": [1, None, 1.5], "a": "é"}}, ("review", '{"b":[1,null,1.5],"a":"é"}')),
        ({"op": "SPELL_CAST", "spell_id": "review", "arguments": '{"a": 1}'}, ("review", '{"a": 1}')),
        ({"op": "ROOM_ENTER", "room": "attic"}, ("attic",)),
        ({"op": "TRUST_UPDATE", "target": "bob", "delta": -3}, ("bob", -3)),
        ({"op": "BRANCH", "reg": 1, "label": "again"}, (1, "again")),
        ({"op": "COMMENT", "comment": "first", "text": "second"}, ("first",)),
        ({"op": "COMMENT", "comment": None, "text": "second"}, ("second",)),
        ({"op": "COMMAND_RUN", "command": "make"}, ("make",)),
        ({"op": "CHECKPOINT", "state": "git-sha1:" + "0" * 40}, (Digest("git-sha1", bytes(20)),)),
        ({"op": "OP_C7", "operands": ["a", None, 5, {"int": -5}, {"digest": SHA}]}, ("a", None, 5, -5, Digest("sha256", b"\xab" * 32))),
    ],
)  # fmt: skip
def test_operands_are_found_by_their_keys(entry, operands):
    assert only(entry).operands == operands


def test_what_a_step_came_to_is_taken():
    entry = {"op": "COMMAND_RUN", "command": "make", "outcome": "FAILED", "exit_code": -9, "error": "killed", "result": SHA,
             "result_size": 7, "desc": "build it", "ts": 5, "duration_ms": 60, "source_record": 3}  # fmt: skip
    step = only(entry)
    assert (step.outcome, step.exit_code, step.error, step.result_size, step.note) == (
        "failed",
        -9,
        "killed",
        7,
        "build it",
    )
    assert (step.at_ms, step.duration_ms, step.source) == (5000, 60, 3)
    assert verify(trail_of_program(compiled(entry), SECRET)).ok


# What is refused


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        ({"op": "FILE_READ"}, "entries[2].path: required"),
        ({"op": "FILE_READ", "path": None}, "entries[2].path: required"),
        ({"op": "FILE_READ", "path": 7}, "entries[2].path: a text was expected, not 7"),
        ({"op": "FILE_READ", "path": ["a"]}, "entries[2].path: a text was expected, not an array"),
        ({"op": "FILE_READ", "path": "a", "pth": "b"}, "entries[2].pth: not a key of this entry"),
        ({"op": "FILE_READ", "path": "half \ud83d"}, "entries[2].path: a lone surrogate"),
        ({"op": "LEVEL_UP", "level": "2"}, "entries[2].level: a whole number was expected, not '2'"),
        ({"op": "LEVEL_UP", "level": True}, "entries[2].level: a whole number was expected, not true"),
        ({"op": "LEVEL_UP", "level": 1.0}, "entries[2].level: a whole number was expected, not 1.0"),
        ({"op": "LEVEL_UP", "level": -1}, "entries[2].level: -1 is below 0"),
        ({"op": "LEVEL_UP", "level": 2**62}, "entries[2].level: 4611686018427387904 is over 62 bits"),
        ({"op": "DANCE"}, "entries[2].op: 'DANCE' is unknown"),
        ({"op": 7}, "entries[2].op: a text was expected, not 7"),
        ({}, "entries[2].op: required"),
        ("NOP", "entries[2]: an object was expected, not 'NOP'"),
        ({"op": "BRANCH", "reg": 1}, "entries[2].label: required"),
        ({"op": "FILE_WRITE", "path": "a"}, "entries[2].content: required"),
        ({"op": "FILE_WRITE", "path": "a", "content_hash": "abc"}, "entries[2].content_hash: a digest was expected"),
        ({"op": "CHECKPOINT", "state": 5}, "entries[2].state: a digest was expected"),
        ({"op": "NOP", "outcome": "fine"}, "entries[2].outcome: one of ok, failed"),
        ({"op": "NOP", "exit_code": "1"}, "entries[2].exit_code: a whole number"),
        ({"op": "NOP", "exit_code": 2**60}, "entries[2].exit_code: a whole number"),
        ({"op": "NOP", "ts": "now"}, "entries[2].ts: seconds since 1970 were expected, not 'now'"),
        ({"op": "NOP", "ts": 1e300}, "entries[2].ts: seconds"),
        ({"op": "NOP", "at_ms": 1.5}, "entries[2].at_ms: milliseconds"),
        ({"op": "NOP", "source_record": 0}, "entries[2].source_record: a whole number from 1"),
        ({"op": "NOP", "note": "a", "desc": "b"}, "entries[2].desc: not a key of this entry"),
        ({"op": "TRAIL_BEGIN", "agent": "a", "trail_id": "b"}, "entries[2].op: TRAIL_BEGIN is allowed only at the beginning"),
        ({"op": "TRAIL_END", "status": 0}, "entries[2].op: TRAIL_END is allowed only at the end"),
        ({"op": "OP_C7"}, "entries[2].operands: an array was expected, not null"),
        ({"op": "OP_C7", "operands": [True]}, "entries[2].operands[0]: a text was expected, not true"),
        ({"op": "OP_90", "operands": []}, "entries[2].op: 'OP_90' is unknown"),
        ({"op": "SAY", "text": {"$object": SHA, "bytes": 5}}, "entries[2].text: a text object has over 4,096 bytes"),
        ({"op": "SAY", "text": {"$withheld": "ab"}}, "entries[2].text: withheld"),
        ({"op": "PLAN_UPDATE", "plan": [[[]]] * 2 + [json.loads("[" * 70 + "]" * 70)]}, "entries[2].plan: nested over 64 deep"),
        ({"op": "PLAN_UPDATE", "plan": {"a": "\udc00"}}, "entries[2].plan: a lone surrogate"),
    ],
)  # fmt: skip
def test_errors_name_the_entry_and_the_key(entry, wrong):
    assert refusal(log({"op": "NOP"}, entry)).startswith(wrong)


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        ({"op": "COMMAND_RUN", "command": "make"}, "entries[1].op: version 1 has no COMMAND_RUN"),
        ({"op": "FILE_READ", "path": "x" * 300}, "entries[1].path: 300 bytes of text, and version 1 carries 255"),
        ({"op": "FILE_READ", "path": "a", "range": "1-80"}, "entries[1].range: version 1 has no place for it"),
        ({"op": "TEST_RUN", "test_path": "t"}, "entries[1].count: required"),
        ({"op": "TEST_RUN", "test_path": "t", "expected_count": 70_000}, "entries[1].expected_count: 70000 is not within 0 and 65535"),
        ({"op": "TRUST_UPDATE", "target": "b", "delta": 40_000}, "entries[1].delta: 40000 is not within -32768 and 32767"),
        ({"op": "GIT_PUSH", "repo": "engine"}, "entries[1].repo: version 1 carries a number here, not 'engine'"),
        ({"op": "GIT_PUSH", "repo": "70000"}, "entries[1].repo: 70000 is not within"),
        ({"op": "CAP_ISSUE", "action": "f9r", "holder": "6xb"}, "entries[1].holder: '6xb' has the key 874ccd8c, as has 'f9r' of entries[1].action"),
        ({"op": "OP_C7", "operands": []}, "entries[1].op: 'OP_C7' is unknown"),
    ],
)  # fmt: skip
def test_what_version_1_cannot_carry_is_an_error_of_its_entry(entry, wrong):
    assert refusal(log(entry), target=1).startswith(wrong)


@pytest.mark.slow
def test_what_version_1_cannot_carry_of_the_beginning_is_refused():
    assert "entries[0].ts: version 1 carries the seconds" in refusal(
        json.dumps([{**BEGIN, "ts": -1}, END]).encode(), target=1
    )
    assert "entries[0].agent: 256 bytes" in refusal(json.dumps([{**BEGIN, "agent": "a" * 256}, END]).encode(), target=1)
    many = json.dumps([BEGIN, *[{"op": "NOP"}] * 65_534, END]).encode()
    assert "65,536, and a trail has at most 65,535" in refusal(many, target=1)
    bare = json.dumps({"agent": "a", "trail_id": "b", "status": 0, "entries": [{"op": "NOP"}] * 65_534}).encode()
    assert "over 65,535 steps" in refusal(bare, target=1)


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b'[{"op": "TRAIL_BEGIN", "agent": "a"}]', "entries[0].trail_id: required"),
        (b"[]", "agent: required"),
        (b'{"entries": []}', "agent: required"),
        (b'{"entries": {}}', "byte 0: entries: an array of entries was expected"),
        (b'{"op": "NOP", "op": "SAY"}', "line 1: the key 'op' occurs twice"),
        (b'{"op": "NOP"}\n{"op": "NOP", "ts": NaN}', "line 2: NaN is not JSON"),
        (b'[{"op": "NOP", "ts": -Infinity}]', "-Infinity is not JSON"),
        (b'[{"op": "NOP", "ts": 1e999}]', "the number 1e999 is too large"),
        (b'[{"op": "NOP", "ts": ' + b"9" * 5000 + b"}]", "a number of 5,000 digits"),
        (b'[{"op": "NOP", "ts": 1e' + b"9" * 5000 + b"}]", "the number 1e999"),
        (b"[" * 200_000, "not JSON"),
        (b'{"a":' * 200_000, "not JSON"),
        (b'[{"op": "NOP"}', "byte 14: not JSON"),
        (b'{"op": "NOP"}\n{"op": ', "line 2: not JSON"),
        (b'[{"op": "\xff"}]', "byte 9: not UTF-8 text"),
        (b"", "byte 0: not a worklog"),
        (b"7", "byte 0: not a worklog"),
        (b"[7]", "entries[0]: an object was expected, not 7"),
        (b'"' + b"x" * 100, "byte 0: not a worklog"),
        (b"PPLS\x02\x01", "byte 0: not a worklog"),
        (b'[{"op":"TRAIL_BEGIN","agent":"a","trail_id":"b","secret":"zz"}]', "entries[0].secret: 64 hexadecimal digits"),
        (b'[{"op":"TRAIL_BEGIN","agent":"a","trail_id":"b","sections":{"03":""}}]', "entries[0].sections.03: a section that"),
        (b'[{"op":"TRAIL_BEGIN","agent":"a","trail_id":"b","parents":"x"}]', "entries[0].parents: an array"),
        (b'[{"op":"TRAIL_BEGIN","agent":"a","trail_id":"b","mood":"x"},{"op":"TRAIL_END","status":0}]', "entries[0].mood: not a key"),
        (b'[{"op":"TRAIL_BEGIN","agent":"a","trail_id":"b"},{"op":"TRAIL_END","status":4}]', "entries[1].status: one of success"),
        (b'[{"op":"TRAIL_BEGIN","agent":"a","trail_id":"b"},{"op":"TRAIL_END"}]', "entries[1].status: required"),
    ],
)  # fmt: skip
def test_hostile_and_broken_json_is_one_error(data, wrong):
    assert wrong in refusal(data)


def test_a_worklog_over_its_limit_is_refused_before_it_is_read():
    assert "over 64 MiB" in refusal(b"[" + b" " * WORKLOG_BYTES_MAX + b"]")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = sorted({key for row in (*OPCODES, TRAIL_BEGIN, TRAIL_END) for at in range(len(row.operands)) for key in row.keys(at)}
              | {"ts", "at_ms", "desc", "note", "outcome", "exit_code", "error", "result", "result_size", "duration_ms",
                 "source_record", "agent_byte", "secret", "sections", "parents", "base", "operands", "steps", "x"})  # fmt: skip
NAMES = sorted({row.name for row in (*OPCODES, TRAIL_BEGIN, TRAIL_END)} | {"op_c7", "dance", "OP_A0"})
wild = st.lists(
    st.fixed_dictionaries({"op": st.sampled_from(NAMES) | json_values}, optional=dict.fromkeys(KEYS[:6], json_values))
    | st.dictionaries(st.sampled_from(["op", *KEYS]), json_values | st.sampled_from(NAMES), max_size=6)
    | json_values,
    max_size=6,
)


@pytest.mark.slow
@given(wild, st.sampled_from([1, 2]))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_json_is_refused_or_compiled(values, target):
    """Strictly a program or the one error; leniently only what no guess can stand for is refused."""
    data = json.dumps(values).encode()
    for lenient in (False, True):
        try:
            program = compile_worklog(data, target=target, lenient=lenient).program
        except FormatError:
            continue
        assert program.is_valid
        assert program.fingerprint()


@given(st.binary(max_size=200), st.booleans())
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_refused_or_compiled(data, lenient):
    for content in (data, b"[" + data + b"]", b'[{"op":"' + data + b'"}]'):
        try:
            assert compile_worklog(content, lenient=lenient).program.is_valid
        except FormatError:
            continue


# Leniently


def test_leniently_every_guess_is_told():
    data = json.dumps([{"op": "FILE_READ"}, {"op": "dance", "desc": "a waltz"}, {"op": "LEVEL_UP", "level": "70000"}, 5,
                       {"op": "NOP", "mood": 1}, {"op": "FILE_WRITE"}, {"op": "CHECKPOINT"}]).encode()  # fmt: skip
    result = compile_worklog(data, lenient=True)
    program = result.program
    assert (program.agent, program.trail_id, program.started_ms, program.status) == (
        "unknown",
        "untitled",
        None,
        "success",
    )
    assert [step.operands for step in program.steps[1:-1]][:5] == [("",), ("dance a waltz",), (70_000,), ("5",), ()]
    told = "\n".join(result.told)
    for part in ("entries[0].path: required; an empty text is taken", "entries[1].op: 'dance' is unknown", "entries[2].level",
                 "entries[3]: an object was expected", "entries[4].mood", "entries[5].path", "entries[6].state: required",
                 "agent: required; 'unknown' is taken", "trail_id: required; 'untitled'", "status: required"):  # fmt: skip
        assert part in told
    assert program.steps[1].note == "a file, or lines of it, was read"
    assert verify(trail_of_program(program, SECRET)).ok


def test_leniently_version_1_gets_what_it_carries():
    data = json.dumps(
        [
            {"op": "LEVEL_UP", "level": 70_000},
            {"op": "GIT_PUSH", "repo": "engine"},
            {"op": "COMMAND_RUN", "command": "x"},
        ]
    ).encode()
    result = compile_worklog(data, target=1, lenient=True)
    written = write_flux(result.program, lenient=True)
    assert [step.operands for step in FluxReader(written.data).steps()][1:-1] == [(4464,), (0,), ()]
    told = "\n".join(written.left_out)
    assert "70000 has over 16 bits" in told
    assert "no number; 0 stands" in told
    assert "no such opcode; NOP" in told
    assert "notes" not in told


@pytest.mark.parametrize(
    ("begin", "step", "end", "expected"),
    [  # what the compiler of version 1 (trail-agent) gives, but for the agent byte, which it draws
        (
            {"agent": "ada", "trail_id": "", "ts": "1600000000"}, {"op": "FILE_READ", "path": "a"}, 255,
            "a0 fd 00 00 00 00 5e 5f 00 10 92 02 97 ca 12 81 a1 03 00 ff b0 03 00 97 ca 12 81 01 61 b0 e3 42 c4 00 ee fd 0d 43 03 61 64 61",
        ),
        (
            {"agent": "", "trail_id": "", "ts": " +0 "}, {"op": "NOP"}, "1",
            "a0 e3 00 00 00 00 00 00 00 00 9f a1 03 00 01 b0 01 00 b0 e3 42 c4 00",
        ),
        (
            {"agent": "ada", "trail_id": "ada", "timestamp": True}, {"op": "GIT_PUSH", "repo": 2.7}, -1,
            "a0 fd ee fd 0d 43 00 00 01 00 91 01 02 00 a1 03 00 ff b0 01 00 ee fd 0d 43 03 61 64 61",
        ),
        (
            {"agent": "ada", "trail_id": "ada", "ts": "1_600"}, {"op": "LEVEL_UP", "level": "-1"}, 258,
            "a0 fd ee fd 0d 43 00 00 40 06 99 01 ff ff a1 03 00 02 b0 01 00 ee fd 0d 43 03 61 64 61",
        ),
    ],
)  # fmt: skip
def test_leniently_version_1_gets_the_bytes_that_it_always_got(begin, step, end, expected):
    log = json.dumps([{"op": "TRAIL_BEGIN", **begin}, step, {"op": "TRAIL_END", "status": end}]).encode()
    result = compile_worklog(log, target=1, lenient=True)
    assert write_flux(result.program, lenient=True).data.hex(" ") == expected
    assert any("status" in sentence for sentence in result.told)
    with pytest.raises(FormatError):
        compile_worklog(log, target=1)


def test_a_text_for_a_time_is_read_leniently_in_version_2_too():
    log = b'[{"op": "TRAIL_BEGIN", "agent": "a", "trail_id": "b", "ts": "1600000000"}, {"op": "TRAIL_END", "status": 255}]'
    program = compile_worklog(log, lenient=True).program
    assert (program.started_ms, program.status) == (1_600_000_000_000, "error")


def test_leniently_too_many_guesses_are_not_all_kept():
    assert len(compile_worklog(json.dumps([{"op": "FILE_READ"}] * 1500).encode(), lenient=True).told) == TOLD_MAX


# Secrets


def test_secrets_are_masked_wherever_they_stand():
    secret = "sk-ant-api03-" + "R4nd0mQ7xZ9kLm2Vb8Tn5Wc1"
    data = json.dumps([
        BEGIN, {"op": "COMMENT", "text": f"the key is {secret}", "note": secret},
        {"op": "TOOL_CALL", "server": "s", "name": "n", "arguments": {"list": [{"deep": secret}], secret: 1}},
        {"op": "COMMAND_RUN", "command": "x", "error": secret}, {"op": "FILE_WRITE", "path": "a", "content": secret}, END,
    ]).encode()  # fmt: skip
    result = compile_worklog(data)
    assert result.masked == 6
    assert secret.encode() not in trail_of_program(result.program, SECRET)
    assert secret not in entries(result.program).decode()
    plain = compile_worklog(data, mask=False)
    assert plain.masked == 0
    assert secret in entries(plain.program).decode()


def test_an_error_shows_no_secret():
    secret = "sk-ant-api03-" + "R4nd0mQ7xZ9kLm2Vb8Tn5Wc1"
    for entry in ({"op": "LEVEL_UP", "level": secret}, {"op": secret}, {"op": "NOP", "outcome": secret}, secret):
        assert "R4nd0m" not in refusal(log(entry))


# Nothing is lost


def test_the_golden_trail_is_its_own_worklog():
    data = golden_trail()
    reader = TrailReader(data)
    program = program_of_trail(reader)
    lines = "\n".join(entry_line(entry) for entry in entries_of_program(program, reader.secret))
    assert lines.isprintable() or "\n" in lines
    result = compile_worklog(lines.encode(), mask=False)
    assert result.program == program
    assert trail_of_program(result.program, result.secret) == data


@pytest.mark.slow
@given(headers, st.lists(steps(), max_size=10), statuses)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_a_trail_and_its_worklog_are_each_others_inverse(header, trail_steps, status):
    data = encode(header, trail_steps, status, SECRET, extra={0x40: b"tomorrow"})
    program = program_of_trail(TrailReader(data))
    assert trail_of_program(program, SECRET) == data
    raw = json.dumps(list(entries_of_program(program, SECRET))).encode()
    result = compile_worklog(raw, mask=False)
    assert result.program == program
    assert trail_of_program(result.program, result.secret) == data
    assert result.program.fingerprint() == program.fingerprint()


@pytest.mark.parametrize("choose", [hundred, sessions])
def test_real_trails_are_their_own_worklogs(choose):
    for data in choose():
        reader = TrailReader(data)
        raw = "\n".join(entry_line(entry) for entry in entries_of_program(program_of_trail(reader), reader.secret))
        result = compile_worklog(raw.encode(), mask=False)
        assert trail_of_program(result.program, result.secret) == data


FLUX_ENTRIES = [
    {"op": "GIT_COMMIT", "repo": 7, "message": "fix"}, {"op": "GIT_PUSH", "repo_id": 65_535}, {"op": "FILE_READ", "path": "a"},
    {"op": "FILE_WRITE", "path": "a", "content_hash": "not a digest"}, {"op": "FILE_EDIT", "path": "a", "old": "b", "new": ""},
    {"op": "TEST_RUN", "test_path": "t", "count": 0}, {"op": "SEARCH_CODE", "pattern": "p"},
    {"op": "BOTTLE_DROP", "target": "b", "content_hash": "h"}, {"op": "BOTTLE_READ", "source": "b"}, {"op": "LEVEL_UP", "level": 3},
    {"op": "SPELL_CAST", "spell_id": "s"}, {"op": "ROOM_ENTER", "room_id": "r"}, {"op": "TRUST_UPDATE", "target": "b", "delta": -32_768},
    {"op": "CAP_ISSUE", "action": "w", "holder": "b"}, {"op": "BRANCH", "reg": 2}, {"op": "NOP"}, {"op": "COMMENT", "comment": "é"},
    {"op": "LABEL", "label": "l"},
]  # fmt: skip


def test_a_worklog_of_every_opcode_of_version_1_comes_back():
    program = compiled(*FLUX_ENTRIES, target=1)
    written = write_flux(program)
    assert written.left_out == ()
    back = program_of_flux(FluxReader(written.data))
    assert back == program
    again = compile_worklog(entries(back), target=1, mask=False).program
    assert again == program
    assert write_flux(again).data == written.data
    assert {step.code for step in program.steps} == {0xA0, 0xA1, 0xA2, 0xA3, *range(0x90, 0xA0)}


def test_keys_of_operands_and_keys_of_every_entry_are_apart():
    attributes = {
        "op",
        "desc",
        "note",
        "ts",
        "at_ms",
        "outcome",
        "exit_code",
        "error",
        "result",
        "result_size",
        "duration_ms",
        "source_record",
    }
    for row in OPCODES:
        keys = [key for at in range(len(row.operands)) for key in row.keys(at)]
        assert not attributes.intersection(keys)
        assert len(keys) == len(set(keys)), row.name


def test_raw_worklogs_are_read_as_they_are():
    assert read_worklog(b'{"a": 1, "entries": [1, {"b": 2}]}') == ({"a": 1}, [1, {"b": 2}])
    assert read_worklog(b'{"a": 1, "a": 2, "entries": []}', lenient=True) == ({"a": 2}, [])
