"""Which steps a listing shows, and the bytes that the hex form shows of them."""

import hashlib
import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.base.errors import UsageError
from periplus.trail import (
    BY_NAME,
    Header,
    Selection,
    Sieve,
    TrailBuilder,
    TrailReader,
    concat,
    encode,
    listing,
    sign,
    withhold,
)
from periplus.trail.listings.selection import path_matcher
from trail_samples import SECRET, golden_trail, headers, small_trail, statuses, steps, with_sections

pytestmark = pytest.mark.quick

WHOLE = golden_trail()
HEX_LINE = re.compile(r"([0-9a-f]{8})  ((?:[0-9a-f]{2} )*[0-9a-f]{2})(?:  |$)")


def told(data, form="compact", **wanted):
    reader = TrailReader(data)
    sieve = Sieve(Selection(**wanted), reader.step_count)
    return list(listing(reader, form, sieve=sieve)), sieve


def numbers(data, **wanted):
    lines, _ = told(data, **wanted)
    return [int(line.split()[0]) for line in lines if line[0] != ";"]


def codes(*names):
    return frozenset(BY_NAME[name].code for name in names)


def dumped(lines):
    """``{offset: byte}`` of a hex listing; a byte that stands twice is an error."""
    out = {}
    for line in lines:
        if line.startswith(";"):
            continue
        offset, digits = HEX_LINE.match(line).groups()
        for place, byte in enumerate(bytes.fromhex(digits), int(offset, 16)):
            assert place not in out, line
            out[place] = byte
    return out


# Choosing


@pytest.mark.parametrize(
    ("first", "end"), [(None, None), (3, 7), (30, None), (None, 4), (-5, None), (-5, -2), (99, 200), (7, 3)]
)
def test_a_range_is_that_of_a_slice(first, end):
    assert numbers(WHOLE, first=first, end=end) == list(range(35))[first:end]


def test_filters_are_all_to_be_met():
    assert numbers(WHOLE, opcodes=codes("TEST_RUN")) == [13, 14]
    assert numbers(WHOLE, outcomes=frozenset({"failed", "denied"})) == [4, 13]
    assert numbers(WHOLE, paths=("auth.py",)) == [3, 4, 7]
    assert numbers(WHOLE, paths=("src/neu*", "projekt")) == [9, 11]
    assert numbers(WHOLE, paths=("auth.py",), outcomes=frozenset({"denied"})) == [4]
    assert numbers(WHOLE, paths=("auth.py",), first=5) == [7]
    assert numbers(WHOLE, opcodes=frozenset({0xC7})) == []


def test_what_was_left_out_is_counted_by_the_first_filter_that_did():
    lines, sieve = told(
        WHOLE, first=2, end=20, opcodes=codes("FILE_READ", "FILE_EDIT"), paths=("src/",), outcomes=frozenset({"ok"})
    )
    assert sieve.shown == 2
    assert sieve.hidden() == {"range": 17, "op": 15, "outcome": 1, "path": 0}
    assert lines[-1] == "; 2 of 35 steps; left out 17 by --steps, 15 by --op, 1 by --outcome"
    lines, _ = told(WHOLE, "json", first=2, end=4)
    assert json.loads(lines[-1])["hidden"] == {"range": 33, "op": 0, "outcome": 0, "path": 0}
    assert json.loads(lines[-1])["shown"] == len(lines) - 2 == 2
    for form in ("text", "verbose"):
        lines, _ = told(WHOLE, form, first=2, end=4)
        assert lines[-2:] == ["; shown     2 of 35 steps; left out 33 by --steps", "; end       partial"]


@pytest.mark.slow
@given(
    st.lists(steps(), max_size=8),
    st.integers(-9, 9) | st.none(),
    st.integers(-9, 9) | st.none(),
    st.sets(st.sampled_from(["ok", "failed"])),
)
@settings(max_examples=60, deadline=None)
def test_shown_and_hidden_are_all(trail_steps, first, end, outcomes):
    data = encode(Header("a", "t"), trail_steps, "success", SECRET)
    wanted = {"first": first, "end": end, "outcomes": frozenset(outcomes) or None}
    rows = [json.loads(line) for line in told(data, "json", **wanted)[0]]
    expected = [
        index for index in range(len(trail_steps))[first:end] if not outcomes or trail_steps[index].outcome in outcomes
    ]
    assert [row["index"] for row in rows if row["kind"] == "step"] == expected
    whole = [json.loads(line) for line in told(data, "json")[0]]
    assert rows[1:-1] == [whole[1 + index] for index in expected]  # times too are those of the whole
    _, sieve = told(data, **wanted)
    assert sieve.shown + sum(sieve.hidden().values()) == len(trail_steps)


@pytest.mark.parametrize(
    ("glob", "matches", "others"),
    [
        ("auth.py", ["auth.py", "src/auth.py", "/a/b/auth.py"], ["xauth.py", "auth.pyc", "auth.py/x"]),
        ("*.py", ["a.py", "/x/y/.py"], ["a.pyc", "a/b.txt"]),
        ("src/*.py", ["src/a.py", "/home/src/a.py"], ["src/b/a.py", "xsrc/a.py"]),
        ("src/**", ["src/a", "x/src/b/c"], ["a/srcx/b"]),
        ("docs/", ["docs/a", "x/docs/b/c"], ["a/docs.md"]),
        ("src/**/t.py", ["src/t.py", "src/a/b/t.py"], ["src/t.pyx", "t.py"]),
        ("/src/*.py", ["/src/a.py"], ["/home/src/a.py"]),
        ("a?c[12]", ["abc1", "x/a-c2"], ["ac1", "abc3"]),
        ("**", ["", "a", "/a/b"], []),
        ("./a", ["a", "b/./a"], ["aa"]),
        ("a\nb", ["a\nb"], ["a", "a\nb\n"]),
    ],
)
def test_a_glob_of_paths_fits_whole_paths(glob, matches, others):
    match = path_matcher(glob)
    assert [path for path in matches if not match(path)] == []
    assert [path for path in others if match(path)] == []


def test_no_glob_takes_long():
    begun = time.process_time()
    assert not path_matcher("a*" * 400 + "b")("a" * 4000)
    assert not path_matcher("**/a/" * 150 + "b")("a/" * 2000)
    assert not path_matcher("[" * 900)("[" * 4000)
    assert time.process_time() - begun < 20  # with backtracking it would not end in a lifetime


def test_an_empty_or_endless_glob_is_refused():
    for glob in ("", "x" * 1001):
        with pytest.raises(UsageError, match="path pattern"):
            Sieve(Selection(paths=(glob,)), 5)


def test_withheld_paths_match_nothing():
    assert numbers(withhold(WHOLE, lambda _, value: value == "src/auth.py"), paths=("**",)) == [5, 6, 8, 9, 10, 11]


# Hex


def test_the_bytes_of_the_hex_listing_are_the_file():
    signed = sign(withhold(WHOLE, lambda index, _: index % 2 == 0), b"k" * 32)
    for data in (WHOLE, small_trail(), signed, with_sections(WHOLE, {0x44: b"of tomorrow" * 9, 0x45: b""})):
        for width in (None, 20, 70, 200):
            lines = list(listing(TrailReader(data), "hex", width=width))
            assert dumped(lines) == dict(enumerate(data))
            assert all(len(line) <= (width or 160) for line in lines)


@pytest.mark.slow
@given(headers, st.lists(steps(), max_size=5), statuses)
@settings(max_examples=60, deadline=None)
def test_the_bytes_of_any_trail_are_listed(header, trail_steps, status):
    data = encode(header, trail_steps, status, SECRET)
    for one in (data, withhold(data, lambda index, _: index % 3 == 0)):
        assert dumped(listing(TrailReader(one), "hex")) == dict(enumerate(one))


def test_a_step_can_be_patched_where_the_hex_listing_says():
    lines = list(listing(TrailReader(WHOLE), "hex"))
    (line,) = (line for line in lines if "step 26: LEVEL_UP" in line)
    offset, digits = HEX_LINE.match(line).groups()
    at = int(offset, 16)
    assert WHOLE[at : at + 5] == bytes.fromhex(digits) == b"\x99\x03\x00\x01\x0a"  # one operand, wire 2, number 2
    patched = bytearray(WHOLE)
    patched[at + 4] = 7 << 2 | 2
    changed = with_sections(bytes(patched[:-32]) + hashlib.sha256(patched[:-32]).digest(), {})
    assert list(TrailReader(changed).steps())[26].operands == (7,)


def test_the_hex_listing_of_some_steps_has_their_bytes_times_and_sources():
    lines, sieve = told(WHOLE, "hex", opcodes=codes("TEST_RUN"))
    found = dumped(lines)
    assert {place: WHOLE[place] for place in found} == found
    assert [line[59:] for line in lines if "step 13: " in line] == [
        'step 13: TEST_RUN [failed, exit 1] "tests/test_auth.py" expected=3 ! 1 failed',
        "step 13: +0 ms, how long is not known",
        "step 13: record 13",
    ]
    assert not any("step 12:" in line or "entry" in line for line in lines)
    assert sieve.shown == 2
    assert lines[-1].startswith("; shown     2 of 35 steps")


def test_a_long_listing_streams():
    builder = TrailBuilder(SECRET)
    for number in range(20_000):
        builder.add("LEVEL_UP", number)
    reader = TrailReader(builder.finish(Header("a", "t")))
    for form in ("hex", "text", "json"):
        sieve = Sieve(Selection(first=10, end=12), reader.step_count)
        lines = list(listing(reader, form, sieve=sieve))
        assert sieve.shown == 2
        assert sieve.hidden()["range"] == 19_998
        assert len(lines) < 40
    assert concat([reader.to_bytes()])  # and the reader's bytes are a trail as they are
