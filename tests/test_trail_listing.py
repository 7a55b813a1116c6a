"""Listings: golden files, hostile strings, widths, colours; and the table that they read."""

import io
import json
import re
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.trail import (
    BY_CODE,
    BY_NAME,
    FORMS,
    OPCODES,
    Header,
    OperandKind,
    TrailBuilder,
    TrailReader,
    encode,
    listing,
    opcode_name,
    verify,
    visible,
    withhold,
)
from periplus.trail.model import TOOL_VERSION
from periplus.trail.opcodes import opcode_table
from trail_samples import LONG_TEXT, SECRET, START_MS, golden_trail, headers, steps

pytestmark = pytest.mark.quick

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).parent.parent
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\n; end       success\u202e\u2066\U000e0041\x00\x7f\ufeff"


HEADER = Header("a", "t")


def lines(data, form="text", **more):
    return list(listing(TrailReader(data), form, **more))


def said(text, header=HEADER):
    builder = TrailBuilder(SECRET)
    builder.add("SAY", text, error=text, note=text, at_ms=START_MS)
    return builder.finish(header)


def test_the_golden_trail_never_changes():
    data = (GOLDEN / "trail-v2.bin").read_bytes()
    assert golden_trail() == data
    assert verify(data).ok


@pytest.mark.parametrize("form", FORMS)
def test_the_golden_listings(form):
    data = (GOLDEN / "trail-v2.bin").read_bytes()
    text = "".join(f"{line}\n" for line in lines(data, form))
    assert text == (GOLDEN / f"trail-v2.{form}").read_text(encoding="utf-8")


@pytest.mark.parametrize("form", FORMS)
def test_the_golden_listings_of_a_redacted_trail(form):
    data = (GOLDEN / "trails" / "redacted.bin").read_bytes()
    assert data == withhold((GOLDEN / "trail-v2.bin").read_bytes(), lambda index, _: index % 3 == 0)
    text = "".join(f"{line}\n" for line in lines(data, form))
    assert text == (GOLDEN / "trails" / f"redacted.{form}").read_text(encoding="utf-8")


def test_json_lines_say_it_all():
    data = golden_trail()
    head, *body, end = [json.loads(line) for line in lines(data, "json")]
    reader = TrailReader(data)
    assert head["digest"] == reader.digest.hex()
    assert head["agent"] == "agent-1"
    assert end == {"kind": "end", "status": "partial", "steps": 35}
    assert [one["op"] for one in body] == [opcode_name(step.code) for step in reader.steps()]
    assert body[0]["operands"] == {"text": "make the test pass\nand nothing else"}
    assert body[12]["operands"]["command"] == "printf '\x1b[2J'"
    assert body[12]["duration_ms"] == 0
    assert body[2]["operands"]["text"]["bytes"] == len(LONG_TEXT)
    assert body[-1]["at_ms"] == START_MS + 19_000


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("colour", [False, True])
def test_hostile_strings_never_reach_the_terminal(form, colour):
    data = said(HOSTILE, Header(HOSTILE, HOSTILE, title=HOSTILE, host=HOSTILE, model=HOSTILE, tool=HOSTILE))
    for line in lines(data, form, colour=colour):
        own = re.sub(r"\x1b\[[0-9;]+m", "", line) if colour else line
        assert own.isprintable(), own
        assert not own.startswith("; end       success") or line == lines(data, form, colour=colour)[-1]


@pytest.mark.slow
@given(headers, st.lists(steps(), max_size=4))
@settings(max_examples=80, deadline=None)
def test_any_trail_can_be_listed(header, trail_steps):
    data = encode(header, trail_steps, "success", SECRET)
    for form in FORMS:
        for line in lines(data, form, width=40):
            assert line.isprintable()
    parsed = [json.loads(line) for line in lines(data, "json")]
    assert len(parsed) == len(trail_steps) + 2


def test_json_keeps_what_it_escapes():
    _, step, _ = [json.loads(line) for line in lines(said(HOSTILE), "json")]
    assert step["operands"]["text"] == step["error"] == step["note"] == HOSTILE


def test_what_is_not_seen_is_shown_as_an_escape():
    assert visible("a é 日 😀") == "a é 日 😀"
    assert visible("\n\t\r\x1b\u202e\U000e0041") == "\\n\\t\\r\\x1b\\u202e\\U000e0041"


@pytest.mark.parametrize("form", ["text", "compact"])
def test_width_cuts_with_an_ellipsis(form):
    data = golden_trail()
    whole = lines(data, form)
    for width in (1, 10, 40, 80):
        cut = lines(data, form, width=width)
        assert len(cut) == len(whole)
        for short, line in zip(cut, whole, strict=True):
            assert len(short) <= width
            is_narrow = form == "text" and width < 60  # there is no column of times then
            assert short == line or short.endswith("…") or (is_narrow and short.split()[:1] == line.split()[:1])
    assert lines(data, form, width=10_000) == whole


def test_wide_characters_take_two_columns():
    (line,) = lines(said_alone("日本語日本語"), "compact", width=12)
    assert line == '0 SAY "日本…'
    (line,) = lines(said_alone("e\u0301" * 4), "compact", width=12)
    assert line == '0 SAY "' + "e\u0301" * 4 + '"'


def said_alone(text):
    builder = TrailBuilder(SECRET)
    builder.add("SAY", text)
    return builder.finish(Header("a", "t"))


def test_colour_is_only_added():
    data = golden_trail()
    for form in ("text", "verbose", "compact"):
        coloured = lines(data, form, colour=True, width=60)
        assert any("\x1b[36m" in line for line in coloured)
        plain = [re.sub(r"\x1b\[[0-9;]+m", "", line).rstrip() for line in coloured]
        assert plain == lines(data, form, width=60)
    assert lines(data, "json", colour=True) == lines(data, "json")


def test_text_objects_are_previewed_where_they_can_be_read():
    data = golden_trail()

    def name(text):
        return next(line for line in text if "SAY" in line)

    assert "<object sha256:" in name(lines(data))
    assert "7,200 bytes>" in name(lines(data))
    shown = name(lines(data, read_text=lambda _: LONG_TEXT, preview_bytes=10))
    assert '"a line of …" <object sha256:' in shown
    step = json.loads(lines(data, "json", read_text=lambda _: "é".encode() * 5000, preview_bytes=5)[3])
    assert step["operands"]["text"]["preview"] == "éé"
    assert "<object" in name(lines(data, read_text=lambda _: None))


def test_withheld_and_unknown_are_shown_as_such():
    builder = TrailBuilder(SECRET)
    builder.add_unknown(0xC7, "tomorrow", 5)
    data = builder.finish(Header("a", "t"))
    assert lines(data, "compact") == ['0 OP_C7 "tomorrow" 5']
    redacted = withhold(data, lambda _, value: value == "tomorrow")
    assert lines(redacted, "compact") == ["0 OP_C7 <withheld> 5"]
    assert json.loads(lines(redacted, "json")[1])["operands"]["0"]["withheld"]


def test_a_listing_streams():
    builder = TrailBuilder(SECRET)
    for _ in range(1000):
        builder.add("NOP")
    reader = TrailReader(builder.finish(Header("a", "t")))
    for form in FORMS:
        made = listing(reader, form)
        out = io.StringIO()
        out.write(next(made))
        assert out.getvalue()


# The table


def test_the_table_is_sound():
    assert len(BY_CODE) == len(BY_NAME) == len(OPCODES) == 32
    assert [opcode.code for opcode in OPCODES] == sorted(BY_CODE)
    assert not {0xA0, 0xA1, *range(0xC2, 0xD0)} & BY_CODE.keys()
    for opcode in OPCODES:
        assert 0x90 <= opcode.code <= 0xFF
        assert {operand.kind for operand in opcode.operands} <= set(get_args(OperandKind))
        absent = [operand.optional for operand in opcode.operands]
        assert absent == sorted(absent), f"{opcode.name}: a required operand after an optional one"


def test_the_page_has_the_table():
    page = (ROOT / "docs" / "formats" / "trail.md").read_text(encoding="utf-8")
    found = page.partition("<!-- opcodes -->\n")[2].partition("<!-- /opcodes -->")[0]
    assert found == opcode_table()


def test_the_version_written_is_that_of_the_package():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{TOOL_VERSION}"\n' in project


def test_a_run_without_times_did_not_begin_in_1970():
    builder = TrailBuilder(SECRET)
    builder.add("SAY", "hello")
    data = builder.finish(HEADER)
    for form in ("text", "verbose", "compact"):
        assert "1970" not in "\n".join(lines(data, form))
    assert "began      not known" in "\n".join(lines(data, "verbose"))
    assert "; started" in "\n".join(lines(said("x", HEADER._replace(started_ms=START_MS))))
