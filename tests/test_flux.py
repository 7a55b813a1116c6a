"""Version 1, byte for byte: known answers, a second codec written from the description, every kind of damage."""

import hashlib
import json
import os
import tracemalloc
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import flux_plain as plain
from periplus.base.errors import FormatError, UsageError
from periplus.trail import TrailReader, verify
from periplus.trail.listings.value_text import visible
from periplus.trail.model import Digest, TextObject
from periplus.trail.opcodes import FLUX_BY_CODE, TRAIL_BEGIN, TRAIL_END, WORKLOG_BY_NAME, flux_table
from periplus.trail.program import Program, program_of_trail, trail_of_program
from periplus.trail.v1.conversion import FLUX_TOOL, converted_from_flux, program_of_flux
from periplus.trail.v1.hex_listing import flux_hex_lines
from periplus.trail.v1.reader import FAULTS_KEPT_MAX, FLUX_STATUSES, FluxReader, is_flux
from periplus.trail.v1.writer import concatenate_flux, write_flux
from periplus.trail.worklogs.compiler import compile_worklog
from periplus.trail.worklogs.json_text import entries_of_program

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden" / "trails" / "v1"
SECRET = bytes(range(32))
EVERY = [
    ("GIT_COMMIT", 7, "Turn the crank"),
    ("GIT_PUSH", 7),
    ("FILE_READ", "src/engine.py"),
    ("FILE_WRITE", "src/engine.py", "sha256:" + "ab" * 32),
    ("FILE_WRITE", "src/cog.py", "teeth = 12"),
    ("FILE_EDIT", "src/engine.py", "steam", "oil"),
    ("TEST_RUN", "tests/test_engine.py", 12),
    ("SEARCH_CODE", "def crank"),
    ("BOTTLE_DROP", "grace", "the engine turns"),
    ("BOTTLE_READ", "grace"),
    ("LEVEL_UP", 2),
    ("SPELL_CAST", "review"),
    ("ROOM_ENTER", "engine room"),
    ("TRUST_UPDATE", "grace", -3),
    ("CAP_ISSUE", "write", "grace"),
    ("BRANCH", 0),
    ("NOP",),
    ("COMMENT", "Größe: 12 Zähne ✓"),
    ("LABEL", "again"),
]
BEGIN = ("ada", "run-1", 1_700_000_000)


def made(steps, begin=BEGIN, status="success"):
    """The program that the plain codec's steps stand for."""
    agent, trail_id, ts = begin
    program = Program().add_step("TRAIL_BEGIN", agent, trail_id, at_ms=1000 * ts)
    for name, *values in steps:
        kinds = [operand.kind for operand in WORKLOG_BY_NAME[name].operands]
        program.add_step(name, *(str(v) if k == "str" else v for k, v in zip(kinds, values, strict=False)))
    return program.add_step("TRAIL_END", status)


def kinds_of(data):
    """What is wrong with ``data``; each fault lies within it."""
    reader = FluxReader(data)
    assert reader.fault_count == len(reader.faults)
    assert [fault.offset for fault in reader.faults] == sorted(fault.offset for fault in reader.faults)
    for fault in reader.faults:
        assert 0 <= fault.offset <= len(data)
        assert fault.step is None or 0 <= fault.step < reader.step_count + 1
    return [fault.kind for fault in reader.faults]


def sound():
    return plain.encode(BEGIN, EVERY, 0)


# Known answers


def test_the_smallest_trail_is_these_bytes():
    data = write_flux(Program().add_step("TRAIL_BEGIN", "", "", at_ms=0).add_step("NOP").add_step("TRAIL_END", "error"))
    # header: A0, first byte of SHA-256(""), no id, time 0; 9F is a whole step; 3 steps, status 1; a table of the empty text
    assert data.data.hex(" ") == "a0 e3 00 00 00 00 00 00 00 00 9f a1 03 00 01 b0 01 00 b0 e3 42 c4 00"
    assert data.left_out == ()
    reader = FluxReader(data.data)
    assert reader.is_sound
    assert (reader.agent, reader.trail_id, reader.status) == ("", "", "error")
    assert [(step.number, step.offset, step.code) for step in reader.steps()] == [
        (0, 0, 0xA0),
        (1, 10, 0x9F),
        (2, 11, 0xA1),
    ]


def test_a_small_trail_is_these_bytes():
    program = Program().add_step("TRAIL_BEGIN", "ada", "t-1", at_ms=0x0102_0304 * 1000)
    program.add_step("GIT_COMMIT", "258", "fix").add_step("TRUST_UPDATE", "bob", -5).add_step("TRAIL_END", "cancelled")
    # SHA-256 begins with fd ee 43 0d for ada, 46 e9 bc 34 for t-1, 1c 6e 6c 4c for fix, 81 b6 37 d8 for bob
    expected = """
        a0 fd e9 46 34 bc 02 01 04 03
        90 03 02 01 6e 1c 4c 6c
        9c 03 b6 81 d8 37 fb ff
        a1 04 00 03
        b0 04 00
        6e 1c 4c 6c 03 66 69 78
        e9 46 34 bc 03 74 2d 31
        b6 81 d8 37 03 62 6f 62
        ee fd 0d 43 03 61 64 61
    """
    assert write_flux(program).data == bytes.fromhex(expected)


@pytest.mark.parametrize("name", ["every_opcode", "smallest", "drawn_agent_byte"])
def test_golden_files_are_read_and_written_again(name):
    data = (GOLDEN / f"{name}.flux").read_bytes()
    reader = FluxReader(data)
    assert reader.is_sound, reader.faults
    assert write_flux(program_of_flux(reader)).data == data


def test_the_golden_file_holds_every_opcode():
    data = (GOLDEN / "every_opcode.flux").read_bytes()
    assert data == sound() == write_flux(made(EVERY)).data
    assert {step.code for step in FluxReader(data).steps()} == FLUX_BY_CODE.keys()
    keys = [key for key, _ in FluxReader(data).strings()]
    assert keys == sorted(keys)


def test_each_step_has_the_slots_of_its_row():
    slots = {
        WORKLOG_BY_NAME[name].code: sum(plain.SLOTS[kind] for kind in kinds) for name, (_, kinds) in plain.STEPS.items()
    }
    rows = {code: row.flux_slots for code, row in FLUX_BY_CODE.items() if row not in (TRAIL_BEGIN, TRAIL_END)}
    assert slots == rows
    assert {name: code for name, (code, _) in plain.STEPS.items()} == {
        row.name: code for code, row in FLUX_BY_CODE.items() if code in rows
    }


def test_the_page_has_the_table():
    page = (ROOT / "docs" / "formats" / "trail-v1.md").read_text(encoding="utf-8")
    assert page.partition("<!-- opcodes -->\n")[2].partition("<!-- /opcodes -->")[0] == flux_table()


@pytest.mark.parametrize(
    ("name", "value"), [("status_byte", 255), ("status_byte", 4), ("lists_empty", False)]
)  # fmt: skip
def test_what_only_version_1_says_is_written_again(name, value):
    """Of the bytes themselves, through version 2, and through a worklog."""
    program = made([("COMMENT", "x")], ("ada", "", 5), "partial")
    setattr(program, name, value)
    data = write_flux(program).data
    reader = FluxReader(data)
    assert (reader.agent, reader.trail_id) == ("ada", "")
    again = program_of_flux(reader)
    assert getattr(again, name) == value
    assert again == program != made([("COMMENT", "x")], ("ada", "", 5), "partial")
    assert write_flux(again).data == data
    trail = trail_of_program(converted_from_flux(reader, data).program, SECRET)
    assert write_flux(program_of_trail(TrailReader(trail))).data == data
    log = json.dumps([*entries_of_program(again)]).encode()
    assert write_flux(compile_worklog(log, target=1).program).data == data
    assert write_flux(again.concatenate(again)).data[10:-20].count(b"\xa2") == 2


# The second codec

texts = st.text(st.characters(codec="utf-8"), max_size=40)
numbers = st.integers(0, 0xFFFF)
values = {"s": texts, "n": numbers, "d": st.integers(-0x8000, 0x7FFF)}
plain_steps = st.sampled_from(sorted(plain.STEPS)).flatmap(
    lambda name: st.tuples(st.just(name), *(values[kind] for kind in plain.STEPS[name][1]))
)
begins = st.tuples(texts, texts, st.integers(0, 2**32 - 1))


@pytest.mark.slow
@given(begins, st.lists(plain_steps, max_size=12), st.sampled_from(FLUX_STATUSES))
@example(("ada", "ada", 0), [("COMMENT", "ada")], "success")
@example(
    ("3*\U000ad07e\x1a\x9bØ\x00\U00043fb7", "\x98\x1a\x0c+\x95\x8fì", 0),
    [("COMMENT", "3*\U000ad07e\x1a\x9bØ\x00\U00043fb7")],
    "success",
)
@example(("", "", 0), [("COMMENT", "")], "partial")
@example(("", "x", 0), [], "partial")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_both_codecs_write_the_same_bytes_and_read_the_same_trail(begin, steps, status):
    data = plain.encode(begin, steps, FLUX_STATUSES.index(status))
    ours = write_flux(made(steps, begin, status))
    assert ours.data == data
    assert ours.left_out == ()
    assert is_flux(data)
    reader = FluxReader(data)
    assert reader.is_sound, reader.faults
    agent, trail_id, ts, found, total, number, table = plain.decode(data)
    assert (
        (reader.agent_byte, reader.trail_id, reader.started_s)
        == (agent, trail_id, ts)
        == (plain.agent_byte(begin[0]), *begin[1:])
    )
    assert (reader.stated_total, reader.status) == (total, FLUX_STATUSES[number]) == (len(steps) + 2, status)
    assert [(FLUX_BY_CODE[step.code].name, *step.operands) for step in reader.steps()][1:-1] == found == steps
    assert dict(reader.strings()) == table
    if reader.agent is not None:  # where several strings could be the agent, none is taken for it
        assert write_flux(program_of_flux(reader)).data == data


@given(begins, st.lists(plain_steps, max_size=12), st.integers(0, 255))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_version_2_carries_gives_the_same_bytes_of_version_1(begin, steps, drawn):
    data = plain.encode(begin, steps, 2, drawn)
    reader = FluxReader(data)
    assert reader.is_sound
    converted = converted_from_flux(reader, data)
    trail = trail_of_program(converted.program, SECRET)
    assert verify(trail).ok
    again = TrailReader(trail)
    assert (again.header.tool, again.header.source) == (FLUX_TOOL, Digest("sha256", hashlib.sha256(data).digest()))
    assert again.header.started_ms == 1000 * begin[2]
    assert again.step_count == len(steps) + 1
    assert [step.source for step in again.steps()] == [None, *range(1, len(steps) + 1)]
    if reader.agent is not None:
        written = write_flux(program_of_trail(again))
        assert written.data == data
        assert written.left_out == ()
    else:
        assert any("names the agent" in sentence for sentence in converted.told)


# What version 1 cannot carry


@pytest.mark.parametrize(
    ("steps", "wrong"),
    [
        ([("NOP",), ("FILE_READ", "x" * 300)], "step 2 FILE_READ: path: 300 bytes of text"),
        ([("FILE_READ", "é" * 128)], "step 1 FILE_READ: path: 256 bytes of text"),
        ([("FILE_READ", "f9r"), ("FILE_EDIT", "a", "b", "6xb")], "step 2 FILE_EDIT: new: '6xb' has the key 874ccd8c, as has 'f9r' of step 1"),
        ([("COMMENT", "half \ud83d")], "step 1 COMMENT: text: a lone surrogate"),
        ([("COMMAND_RUN", "make")], "step 1 COMMAND_RUN: version 1 has no such opcode"),
        ([("GIT_COMMIT", "engine", "fix")], "step 1 GIT_COMMIT: repo: version 1 carries a number here, not 'engine'"),
        ([("GIT_COMMIT", "07", "fix")], "step 1 GIT_COMMIT: repo: version 1 carries a number"),
        ([("FILE_READ", "a", "1-80")], "step 1 FILE_READ: range: version 1 has no place for it"),
        ([("BRANCH", 1, "again")], "step 1 BRANCH: label: version 1 has no place for it"),
        ([("FILE_READ",)], "step 1 FILE_READ: path: required"),
        ([("FILE_READ", TextObject(bytes(32), 5000))], "step 1 FILE_READ: path: 5,000 bytes of text"),
        ([("FILE_READ", 7)], "step 1 FILE_READ: path: a text was expected, not a number"),
    ],
)  # fmt: skip
def test_what_version_1_cannot_carry_is_refused_by_its_step(steps, wrong):
    program = Program().add_step("TRAIL_BEGIN", "ada", "run-1")
    for name, *operands in steps:
        program.add_step(name, *operands)
    with pytest.raises(UsageError) as caught:
        write_flux(program.add_step("TRAIL_END", "success"))
    assert str(caught.value).startswith(wrong)
    assert caught.value.safe == "Nothing was written."


@pytest.mark.parametrize("ts", [-1, 2**32])
def test_a_time_that_32_bits_do_not_hold_is_refused(ts):
    with pytest.raises(UsageError, match="step 0 TRAIL_BEGIN: ts"):
        write_flux(made([], ("ada", "run-1", ts)))


@pytest.mark.slow
def test_as_many_steps_as_the_format_counts_and_not_one_more():
    steps = [("NOP",)] * 65_533
    assert FluxReader(write_flux(made(steps)).data).is_sound
    with pytest.raises(UsageError, match="65,536 steps"):
        write_flux(made([*steps, ("NOP",)]))


@pytest.mark.slow
def test_as_many_texts_as_the_format_counts_and_not_one_more():
    """Colliding keys are all but certain among so many texts: those are left out."""
    seen, steps = set(), []
    number = 0
    while len(seen) < 65_535 + 1:
        text = f"text {number}"
        number += 1
        if plain.key(text) not in seen:
            seen.add(plain.key(text))
            steps.append(text)
    edits = [("FILE_EDIT", *steps[at : at + 3]) for at in range(0, 65_535, 3)]
    begin = (steps[0], steps[1], 0)
    assert FluxReader(write_flux(made(edits, begin)).data).is_sound
    with pytest.raises(UsageError, match="over 65,535 different texts"):
        write_flux(made([*edits, ("COMMENT", steps[65_535])], begin))


def test_numbers_keep_16_bits_and_that_is_told():
    written = write_flux(made([("LEVEL_UP", 65_536 + 7), ("TRUST_UPDATE", "bob", 40_000), ("GIT_PUSH", "70000")]))
    assert [step.operands for step in FluxReader(written.data).steps()][1:-1] == [(7,), ("bob", -25_536), (4464,)]
    assert [sentence.partition(":")[0] for sentence in written.left_out] == [
        "step 1 LEVEL_UP",
        "step 2 TRUST_UPDATE",
        "step 3 GIT_PUSH",
    ]


def test_leniently_what_has_no_slot_is_left_out_and_told():
    program = Program().add_step("TRAIL_BEGIN", "ada", "run-1", at_ms=1500).add_step("COMMAND_RUN", "make")
    program.add_step("GIT_COMMIT", "engine", "fix", note="a note", outcome="failed", at_ms=7)
    program.add_step("FILE_READ", "a", "1-80").add_step("FILE_READ").add_step("TRAIL_END", "success")
    written = write_flux(program, lenient=True)
    steps = list(FluxReader(written.data).steps())
    assert [step.operands for step in steps[1:-1]] == [(), (0, "fix"), ("a",), ("",)]
    told = "\n".join(written.left_out)
    for part in ("step 0 TRAIL_BEGIN: ts: 500 ms", "step 1 COMMAND_RUN", "step 2 GIT_COMMIT: repo", "step 3 FILE_READ: range",
                 "step 4 FILE_READ: path: missing", "outcomes other than ok (1)", "notes (1)", "times of steps (1)"):  # fmt: skip
        assert part in told


def test_a_program_that_is_not_valid_is_not_written():
    for program in (Program(), Program().add_step("TRAIL_BEGIN", "a", "b"), made([]).add_step("NOP")):
        assert not program.is_valid
        with pytest.raises(UsageError, match="begins with TRAIL_BEGIN"):
            write_flux(program)


# Damage


def table_of(data):
    """Where the string table begins: behind the end, whose total is unique in these trails."""
    return len(data) - len(plain.encode_table([(key, text.encode()) for key, text in plain.decode(data)[6].items()]))


def with_table(data, strings):
    return data[: table_of(data)] + plain.encode_table(strings)


def strings_of(data):
    return [(key, text.encode()) for key, text in plain.decode(data)[6].items()]


def test_colliding_keys_are_reported():
    damaged = plain.encode(("ada", "t", 0), [("FILE_READ", "f9r"), ("COMMENT", "6xb")], 0)
    assert kinds_of(damaged) == ["collision"]
    (fault,) = FluxReader(damaged).faults
    assert "'f9r'" in fault.text
    assert "'6xb'" in fault.text
    assert damaged[fault.offset :].startswith(plain.u32(plain.key("f9r")))


def test_swapped_strings_are_reported_and_found_under_their_own_keys():
    data = plain.encode(("ada", "t", 0), [("FILE_READ", "src/a.py"), ("FILE_READ", "src/b.py")], 0)
    swap = {b"src/a.py": b"src/b.py", b"src/b.py": b"src/a.py"}
    damaged = with_table(data, [(key, swap.get(text, text)) for key, text in strings_of(data)])
    assert len(damaged) == len(data)
    assert kinds_of(damaged) == ["key", "key"]
    assert [step.operands for step in FluxReader(damaged).steps()][1:-1] == [("src/a.py",), ("src/b.py",)]


def test_a_string_of_another_key_stands_for_it_where_no_better_one_is():
    data = plain.encode(("ada", "t", 0), [("FILE_READ", "src/a.py")], 0)
    damaged = with_table(data, [(key, text.replace(b"src/a.py", b"forged.py")) for key, text in strings_of(data)])
    assert kinds_of(damaged) == ["key"]
    assert [step.operands for step in FluxReader(damaged).steps()][1] == ("forged.py",)


@pytest.mark.parametrize("size", [256, 300, 700, 5000])
def test_wrapped_lengths_are_reported_and_the_text_is_found(size):
    """What older writers made of a text over 255 bytes: all of it, behind the lowest 8 bits of its length."""
    path = ("deep/" * 1000)[:size]
    data = plain.encode(("ada", "t", 0), [("FILE_READ", path), ("COMMENT", "behind it")], 0)
    assert kinds_of(data) == ["wrapped"]
    reader = FluxReader(data)
    assert [step.operands for step in reader.steps()][1:-1] == [(path,), ("behind it",)]
    assert f"says {size & 255}, and the text has {size:,} bytes" in reader.faults[0].text
    with pytest.raises(UsageError, match="bytes of text"):
        write_flux(program_of_flux(reader))
    converted = trail_of_program(
        converted_from_flux(reader, data).program, SECRET, lambda text: hashlib.sha256(text).digest()
    )
    found = [step.operands[0] for step in TrailReader(converted).steps()][1]
    assert found == path if size <= 4096 else found == TextObject(hashlib.sha256(path.encode()).digest(), size)


def test_unresolved_keys_are_reported_with_their_step():
    data = plain.encode(("ada", "t", 0), [("NOP",), ("FILE_EDIT", "src/a.py", "old", "new")], 0)
    damaged = with_table(data, [row for row in strings_of(data) if row[1] not in (b"old", b"t")])
    assert kinds_of(damaged) == ["unresolved", "unresolved"]
    reader = FluxReader(damaged)
    assert [(fault.step, fault.offset) for fault in reader.faults] == [(0, 2), (2, 17)]
    assert reader.trail_id is None
    assert [step.operands for step in reader.steps()][2] == ("src/a.py", None, "new")
    edit = program_of_flux(reader).steps[2]
    assert edit.operands == ("src/a.py", f"[unresolved {plain.key('old'):08x}]", "new")


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        (lambda data, end: data[: end + 1] + b"\x07\x00" + data[end + 3 :], ["total"]),
        (lambda data, end: data[: end + 3] + b"\x04" + data[end + 4 :], ["status"]),
        (lambda data, end: data[: end + 4] + b"\x9f" + data[end + 4 :], ["after_end"]),
        (lambda data, end: data[: end + 4] + data[end : end + 4] + data[end + 4 :], ["end"]),
        (lambda data, end: data[: end + 4] + data[:10] + data[end + 4 :], ["after_end"]),
        (lambda data, end: data[:end] + data[:10] + data[end:], ["begin", "total"]),
        (lambda data, end: data[:end] + data[end + 4 :], ["end"]),
        (lambda data, end: data[:end] + b"\xa4\x01\x00\x00" + data[end:], ["opcode", "total"]),
        (lambda data, end: data[:end] + b"\x99\x00" + data[end:], ["slots", "total"]),
        (lambda data, end: data[:end] + b"\x99\x02\x01\x00\x02\x00" + data[end:], ["slots", "total"]),
        (lambda data, end: data + b"more", ["trailing"]),
        (lambda data, end: data + data, ["trailing"]),
        (lambda data, end: data[:-1], ["truncated"]),  # the last string, which only the agent could be
        (lambda data, end: data[: end + 4], ["unresolved", "unresolved", "truncated"]),
        (lambda data, end: data[: end + 6], ["unresolved", "unresolved", "truncated"]),
        (lambda data, end: data[: end + 2], ["unresolved", "unresolved", "end", "truncated"]),
        (lambda data, end: data[: end + 5] + b"\x01\x00" + data[end + 7 :], ["count"]),
        (lambda data, end: data[: end + 5] + b"\x09\x00" + data[end + 7 :], ["truncated"]),
    ],
)  # fmt: skip
def test_every_other_damage_is_reported(change, kinds):
    data = plain.encode(("ada", "zz", 0), [("NOP",), ("FILE_READ", "src/a.py"), ("LEVEL_UP", 3)], 0)
    end = table_of(data) - 4
    assert data[end] == 0xA1
    damaged = change(data, end)
    assert sorted(kinds_of(damaged)) == sorted(kinds)
    reader = FluxReader(damaged)
    with pytest.raises(FormatError) as caught:
        reader.require_sound()
    assert caught.value.offset == reader.faults[0].offset
    converted = converted_from_flux(reader, damaged)
    trail = trail_of_program(converted.program, SECRET)
    assert verify(trail).ok
    comment = next(TrailReader(trail).steps()).operands[0]
    for fault in reader.faults:
        assert fault.text in "\n".join(converted.told)
        assert fault.text in comment


def test_damage_of_the_string_table_is_reported():
    data = plain.encode(("ada", "t", 0), [("FILE_READ", "src/a.py")], 0)
    strings = strings_of(data)
    assert kinds_of(with_table(data, strings[::-1])) == ["order", "order"]
    assert kinds_of(with_table(data, sorted([*strings, strings[0]]))) == ["duplicate"]
    raw = b"\xff\xfe"
    key = int.from_bytes(hashlib.sha256(raw).digest()[:4], "big")
    assert kinds_of(with_table(data, sorted([*strings, (key, raw)]))) == ["text"]


@pytest.mark.slow
def test_totals_and_counts_that_wrapped_are_reported():
    data = plain.encode(("ada", "t", 0), [("NOP",)] * 65_540, 0)
    assert kinds_of(data) == ["wrapped"]
    assert FluxReader(data).step_count == 65_542
    texts = {plain.key(text): text for text in (f"text {number}" for number in range(65_600))}
    strings = sorted((key, text.encode()) for key, text in texts.items())[: 65_536 + 2]
    many = plain.encode(("", "", 0), [], 0)[:-8] + plain.encode_table(strings)
    assert kinds_of(many) == ["wrapped"]
    assert len(list(FluxReader(many).strings())) == 65_538


def test_who_the_agent_was_is_told_only_where_one_string_can_be_it():
    data = plain.encode(("ada", "t", 0), [("COMMENT", "x")], 0)
    assert FluxReader(data).agent == "ada"
    drawn = data[:1] + bytes((data[1] ^ 0xFF,)) + data[2:]
    assert FluxReader(drawn).agent == "ada"
    assert program_of_flux(FluxReader(drawn)).agent_byte == data[1] ^ 0xFF
    both = with_table(drawn, sorted([*strings_of(data), (plain.key("bob"), b"bob")]))
    assert FluxReader(both).agent is None
    assert program_of_flux(FluxReader(both)).agent == "unknown"
    assert FluxReader(with_table(data, sorted([*strings_of(data), (plain.key("bob"), b"bob")]))).agent == "ada"


# The hex listing


def bytes_of(lines):
    """What the lines of a hex listing hold; each begins with its offset."""
    out = bytearray()
    for line in lines:
        if line.startswith("; "):
            continue
        assert int(line[:8], 16) == len(out)
        out += bytes.fromhex(line[10:].partition("  ")[0])
    return bytes(out)


def test_the_hex_listing_is_a_golden_file():
    data = (GOLDEN / "every_opcode.flux").read_bytes()
    lines = list(flux_hex_lines(FluxReader(data), data))
    assert bytes_of(lines) == data
    assert lines == (GOLDEN / "every_opcode.hex").read_text(encoding="utf-8").splitlines()


def test_the_hex_listing_has_every_byte_of_damaged_files_and_each_fault():
    random = Random(7)
    data = sound()
    for damaged in (data + b"more", data[:-3], data[:40], *(mutated(data, random) for _ in range(60))):
        if bounded(damaged) is None:
            continue
        reader = FluxReader(damaged)
        lines = list(flux_hex_lines(reader, damaged))
        assert bytes_of(lines) == damaged
        for kind in {fault.text for fault in reader.faults}:
            assert any(visible(kind)[:60] in line or line.endswith("…") for line in lines)


# Concatenation


def test_concatenation_drops_the_first_end_and_the_second_begin():
    first = plain.encode(("ada", "one", 5), [("FILE_READ", "a"), ("NOP",)], 1)
    second = plain.encode(("bob", "two", 9), [("FILE_READ", "b")], 0)
    third = plain.encode(("eve", "three", 9), [("LABEL", "a")], 3)
    whole = concatenate_flux(first, second, third)
    assert whole == plain.encode(
        ("ada", "one", 5), [("FILE_READ", "a"), ("NOP",), ("FILE_READ", "b"), ("LABEL", "a")], 3
    )
    assert concatenate_flux(concatenate_flux(first, second), third) == whole
    with pytest.raises(FormatError):
        concatenate_flux(first, second[:-1])
    with pytest.raises(UsageError):
        concatenate_flux()


def test_a_program_is_its_steps():
    program = made(EVERY)
    assert program.is_valid
    assert [step.code for step in program.action_steps()] == [
        plain.STEPS[name][0] for name, *_ in EVERY if name != "NOP"
    ]
    assert (program.agent, program.trail_id, program.started_ms, program.status) == (
        "ada",
        "run-1",
        1_700_000_000_000,
        "success",
    )
    prints = {made(EVERY).fingerprint(), made(EVERY[:-1]).fingerprint(), made(EVERY, status="error").fingerprint()}
    prints |= {made([*EVERY[:-1], ("LABEL", "again!")]).fingerprint(), made(EVERY, ("ada", "run-1", 1)).fingerprint()}
    assert len(prints) == 5
    assert made([("FILE_EDIT", "a", "bc", "d")]).fingerprint() != made([("FILE_EDIT", "a", "b", "cd")]).fingerprint()
    with pytest.raises(UsageError, match="unknown opcode"):
        Program().add_step("DANCE")
    with pytest.raises(UsageError, match="2 operands"):
        Program().add_step("LABEL", "a", "b")


# Hostile bytes


def bounded(data):
    """Read all of it; FormatError with an offset, or a reader whose every part can be had."""
    try:
        reader = FluxReader(data)
    except FormatError as caught:
        error = caught
    else:
        error = None
    if error is not None:
        assert error.offset is not None
        assert 0 <= error.offset <= len(data)
        return None
    assert sum(1 for _ in reader.steps()) == reader.step_count
    assert len(list(reader.strings())) <= len(data) // 5
    program = program_of_flux(reader)
    assert program.is_valid
    return reader


@pytest.mark.parametrize("start", [b"", b"\xa0", b"\xa0" + bytes(8), b"PPLS", b"\x00" * 10])
def test_what_does_not_begin_as_version_1_is_refused(start):
    with pytest.raises(FormatError) as caught:
        FluxReader(start)
    assert caught.value.offset in (0, len(start))


@pytest.mark.slow
@given(st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_hostile_bytes_are_read_or_refused(garbage):
    bounded(garbage)
    bounded(b"\xa0" + bytes(9) + garbage)
    bounded(b"\xa0" + bytes(9) + b"\xa1\x02\x00\x00\xb0" + garbage)


@pytest.mark.slow
def test_every_truncation_and_every_changed_bit_is_reported_or_another_trail():
    data = sound()
    for end in range(10, len(data)):
        assert not bounded(data[:end]).is_sound
    whole = program_of_flux(FluxReader(data))
    for at in range(len(data)):
        for bit in range(8):
            changed = data[:at] + bytes((data[at] ^ 1 << bit,)) + data[at + 1 :]
            reader = bounded(changed)
            assert reader is None or not reader.is_sound or program_of_flux(reader) != whole


MUTATIONS = 200_000 if os.environ.get("PERIPLUS_EXHAUSTIVE") else 2_000


def mutated(data, random):
    """``data`` with a few bytes changed, taken out, put in or said twice."""
    out = bytearray(data)
    for _ in range(random.randrange(1, 6)):
        at, size = random.randrange(len(out)), random.randrange(1, 40)
        match random.randrange(5):
            case 0:
                out[at] = random.choice([0xA0, 0xA1, 0xB0, 0x9F, 0xFF, 0])
            case 1:
                del out[at : at + size]
            case 2:
                out[at:at] = random.randbytes(size)
            case 3:
                start = random.randrange(len(out))
                out[at:at] = out[start : start + size]
            case _:
                out[at] ^= 1 << random.randrange(8)
        if not out:
            out = bytearray(data)
    return bytes(out)


@pytest.mark.slow
def test_whatever_becomes_of_a_file_it_is_refused_or_converted():
    random = Random(4)
    for _ in range(MUTATIONS):
        data = mutated(sound(), random)
        reader = bounded(data)
        if reader is None:
            continue
        trail = trail_of_program(
            converted_from_flux(reader, data).program, SECRET, lambda text: hashlib.sha256(text).digest()
        )
        assert TrailReader(trail).step_count == reader.step_count - 1 or not reader.is_sound
        if reader.is_sound and reader.agent is not None:
            assert write_flux(program_of_flux(reader)).data == data


@pytest.mark.slow
def test_a_file_of_nops_or_of_wrapped_lengths_costs_little():
    nops = b"\xa0" + bytes(9) + b"\x9f" * 200_000
    wrong = b"\xa0" + bytes(9) + b"\xa1\x02\x00\x00\xb0\xff\xff" + b"\x01\x00\x02\x00\x00" * 20_000
    keys = b"\xa0" + bytes(9) + (b"\x94\xff" + bytes(510)) * 400
    for data in (nops, wrong, keys):
        tracemalloc.start()
        reader = FluxReader(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert not reader.is_sound
        assert len(reader.faults) <= FAULTS_KEPT_MAX
        assert peak < 24 * len(data) + 1_000_000
