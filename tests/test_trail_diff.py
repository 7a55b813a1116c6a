"""Comparing trails: what is the same, where they part, and what people and machines are told of it."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_support import Shell, claude_session
from interop_support import Objects, shared_files
from periplus.interop import import_transcript
from periplus.trail import Header, Selection, TrailBuilder, TrailReader, concat, encode, sign, withhold
from periplus.trail.listings.comparison import compare, header_changes, lines_of
from test_cli_terminal import HOSTILE, on_terminal, wide
from trail_samples import SECRET, START_MS, golden_trail, headers, steps, with_sections

pytestmark = pytest.mark.quick

OTHER_SECRET = hashlib.sha256(b"of another store").digest()


def says(*texts, secret=SECRET, header=None, at_ms=START_MS):
    builder = TrailBuilder(secret)
    for number, text in enumerate(texts):
        builder.add("SAY", text, at_ms=at_ms + number)
    return builder.finish(header or Header("a", "t"))


def runs(*outcomes, **more):
    builder = TrailBuilder(SECRET)
    for outcome in outcomes:
        builder.add("TEST_RUN", "tests", None, outcome=outcome, **more)
    return builder.finish(Header("a", "t"))


def compared(first, second, **more):
    return compare((TrailReader(first),), (TrailReader(second),), **more)


def marks(first, second, context=3, **more):
    readers = (TrailReader(first),), (TrailReader(second),)
    found = compare(*readers, **more)
    told = lines_of(found, *readers, selection=more.get("selection"), context=context)
    return [line if line is None else (line.mark, line.a and line.a[1], line.b and line.b[1]) for line in told]


def test_salts_times_and_sources_are_no_difference():
    found = compared(says("one", "two"), says("one", "two", secret=OTHER_SECRET, at_ms=0))
    assert found.is_equal
    assert (found.same, found.unknown) == (2, 0)


@pytest.mark.parametrize("folder", ["claude-code-jsonl", "codex-rollout"])
def test_two_imports_of_one_session_are_equal(folder):
    for path in shared_files(folder):
        first, second = (
            import_transcript(str(path), trail_key=bytes((number,)) * 32, put_object=Objects().put).trail
            for number in (1, 2)
        )
        assert first != second
        found = compared(first, second, results=True)
        assert found.is_equal, path
        assert found.same == TrailReader(first).step_count
        assert list(header_changes((TrailReader(first),), (TrailReader(second),))) == []


def test_where_they_part():
    first, second = says(*"abcdefgh"), says(*"abcxefgh")
    assert marks(first, second, context=1) == [None, (" ", 2, 2), ("-", 3, None), ("+", None, 3), (" ", 4, 4)]
    assert marks(first, second, context=0) == [None, ("-", 3, None), ("+", None, 3)]
    assert marks(first, says(*"abcdefghi"), context=2) == [None, (" ", 6, 6), (" ", 7, 7), ("+", None, 8)]
    assert marks(says(), says("a")) == [("+", None, 0)]
    assert marks(first, first) == []
    far = says("x", *"bcdefg", "y")
    assert marks(first, far, context=1) == [
        ("-", 0, None), ("+", None, 0), (" ", 1, 1), None, (" ", 6, 6), ("-", 7, None), ("+", None, 7),
    ]  # fmt: skip


def test_a_step_that_ended_otherwise():
    first, second = runs("failed", "failed", "ok"), runs("failed", "ok", "ok")
    assert marks(first, second, context=0) == [None, ("~", 1, 1)]
    for more in ({"exit_code": 2}, {"error": "e"}, {"note": "n"}):
        assert marks(runs("ok"), runs("ok", **more)) == [("~", 0, 0)]
    with_result = runs("ok", result=TrailReader(golden_trail()).header.source, result_size=3)
    assert marks(runs("ok"), with_result) == []
    assert marks(runs("ok"), with_result, results=True) == [("~", 0, 0)]


def test_filters_compare_what_they_let_through():
    first, second = golden_trail(), with_sections(golden_trail(), {})
    only = Selection(paths=("auth.py",))
    assert compared(first, second, selection=only).same == 3
    assert compared(says("a"), runs("ok"), selection=Selection(outcomes=frozenset({"failed"}))).is_equal


def test_what_is_withheld_cannot_be_compared():
    first, second = says("secret", "open"), says("other", "open")
    hide = lambda _, value: value in ("secret", "other")  # noqa: E731 - a predicate of a line
    found = compared(withhold(first, hide), withhold(second, hide))
    assert found.is_equal
    assert (found.same, found.unknown) == (2, 1)
    assert not compared(withhold(first, hide), first).is_equal


def test_the_headers_of_two_trails_are_told_apart_field_by_field():
    first = says("x", header=Header("a", "t", title="one", base="main"))
    second = says("x", header=Header("a", "u", model="m", base="main"))
    told = [(one.name, one.a, one.b) for one in header_changes((TrailReader(first),), (TrailReader(second),))]
    assert told == [("trail_id", "t", "u"), ("model", None, "m"), ("title", "one", None)]
    hidden = withhold(second, lambda _, value: value == "u")
    told = [one.name for one in header_changes((TrailReader(first),), (TrailReader(hidden),))]
    assert told == ["model", "title"]


@pytest.mark.slow
@given(headers, st.lists(steps(), max_size=6), st.lists(steps(), max_size=6), st.integers(0, 4))
@settings(max_examples=50, deadline=None)
def test_the_lines_make_one_trail_of_the_other(header, one, two, context):
    first, second = encode(header, one, "success", SECRET), encode(header, two, "partial", OTHER_SECRET)
    readers = (TrailReader(first),), (TrailReader(second),)
    found = compare(*readers)
    told = list(lines_of(found, *readers, context=100))
    if found.is_equal:
        assert told == []
        return
    lines = [line for line in told if line is not None]
    assert [line.step_a for line in lines if line.step_a is not None] == list(readers[0][0].steps())
    assert [line.step_b for line in lines if line.step_b is not None] == list(readers[1][0].steps())
    assert (found.same, found.changed, found.removed, found.added) == tuple(
        sum(line.mark == mark for line in lines) for mark in " ~-+"
    )
    for line in lines:
        if line.mark in " ~":
            assert (line.step_a.code, line.step_a.operands) == (line.step_b.code, line.step_b.operands)
            assert (line.step_a.outcome, line.step_a.error) == (
                line.step_b.outcome,
                line.step_b.error,
            ) or line.mark == "~"
    narrow = [line for line in lines_of(found, *readers, context=context) if line is not None]
    assert [line for line in narrow if line.mark != " "] == [line for line in lines if line.mark != " "]


def test_a_long_trail_is_compared_in_little_memory():
    import tracemalloc

    texts = [f"step {number}" for number in range(4_000)]
    first, second = says(*texts), says(*texts[:900], "new", *texts[901:], secret=OTHER_SECRET)
    tracemalloc.start()
    assert marks(first, second, context=1) == [
        None,
        (" ", 899, 899),
        ("-", 900, None),
        ("+", None, 900),
        (" ", 901, 901),
    ]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30 * len(first)


# On the command line


@pytest.fixture
def sh(tmp_path):
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    shell = Shell(tmp_path / "project", tmp_path / "home")
    shell("init")
    (shell.folder / "a.trail").write_bytes(golden_trail())
    changed = list(TrailReader(golden_trail()).steps())
    changed[13] = changed[13]._replace(outcome="ok", exit_code=0, error=None)
    changed[7] = changed[7]._replace(operands=("src/auth.py", "md5(", f"argon2({HOSTILE}"))
    del changed[20:22]
    header = TrailReader(golden_trail()).header._replace(title="Other passwords")
    (shell.folder / "b.trail").write_bytes(encode(header, changed, "success", OTHER_SECRET))
    return shell


def test_what_a_person_is_told(sh):
    done = sh("trail", "diff", "a.trail", "b.trail", "--context", "1", code=1)
    assert done.lines[0].startswith("--- a.trail  35 steps  digest ")
    assert done.lines[2:4] == [
        '  title        "Hash passwords" → "Other passwords"',
        '  status       "partial" → "success"',
    ]
    assert done.lines[4:9] == [
        "@@",
        '      6     6  SEARCH_CODE "def hash_password" path=src',
        '-     7        FILE_EDIT src/auth.py old="md5(" new="scrypt("',
        next(line for line in done.lines if line.startswith("+           7  FILE_EDIT src/auth.py")),
        "      8     8  FILE_WRITE src/new.py content=sha256:11507a0e2f5e…",
    ]
    assert (
        '~    13    13  TEST_RUN "tests/test_auth.py" expected=3  [failed, exit 1 → ok, exit 0; error "1 failed" → none]'
        in done.lines
    )
    assert done.lines[-2] == "The first difference is at step 7 of A."
    assert done.lines[-1] == (
        "31 steps are the same, 1 ended otherwise, 3 only in A, 1 only in B, 2 fields of the header differ."
    )
    assert "\x1b" not in done.out


def test_what_a_machine_is_told(sh):
    found = sh.json("trail", "diff", "a.trail", "b.trail", "--context", "0", code=1)
    assert (found.equal, found.identical, found.same, found.changed, found.removed, found.added) == (
        False,
        False,
        31,
        1,
        3,
        1,
    )
    assert [line.mark for line in found.lines] == ["-", "+", "~", "-", "-"]
    assert found.lines[1].b["operands"]["new"] == f"argon2({HOSTILE}"
    assert [field.name for field in found.header] == ["title", "status"]
    assert (found.a.steps, found.b.steps, found.left_out) == (35, 33, 0)


def test_equal_and_identical(sh):
    reader = TrailReader(golden_trail())
    again = encode(reader.header, reader.steps(), reader.status, OTHER_SECRET)
    (sh.folder / "c.trail").write_bytes(again)
    assert sh("trail", "diff", "a.trail", "c.trail").lines[-1] == "35 steps are the same."
    found = sh.json("trail", "diff", "a.trail", "c.trail")
    assert (found.equal, found.identical) == (True, False)
    (sh.folder / "d.trail").write_bytes(sign(withhold(golden_trail(), lambda index, _: index % 2 == 0), b"k" * 32))
    assert (
        sh("trail", "diff", "a.trail", "d.trail").out == "The same trail: equal digests; A withholds 0 strings, B 27.\n"
    )
    assert sh.json("trail", "diff", "d.trail", "a.trail").identical
    receipts = TrailReader(golden_trail()).section(6)
    (sh.folder / "lies.trail").write_bytes(with_sections(says("x"), {6: b"\2" + receipts[1:]}))
    assert not sh.json("trail", "diff", "a.trail", "lies.trail", code=1).identical


def test_filters_and_parts(sh):
    assert sh("trail", "diff", "a.trail", "b.trail", "--op", "FILE_READ,GIT_PUSH").lines[-1] == "3 steps are the same."
    sh("trail", "diff", "a.trail", "b.trail", "--path", "auth.py", code=1)
    whole = concat([golden_trail(), golden_trail()])
    (sh.folder / "two.trail").write_bytes(whole)
    done = sh("trail", "diff", "a.trail", "two.trail", code=1)
    assert "  parts      1 → 2" in done.lines
    assert "35 steps are the same, 35 only in B." in done.out
    assert sh("trail", "diff", "two.trail", "two.trail").out == "The same trail: equal digests.\n"


def test_trails_of_the_store(sh, tmp_path):
    names = []
    for number in (1, 2):
        path = claude_session(tmp_path / f"{number}.jsonl", steps=number + 1, session=f"5e5510{number}")
        names.append(sh.json("trail", "import", path).trails[0].id)
    done = sh("trail", "diff", *names, code=1)
    (added,) = (line for line in done.lines if line.startswith("+ "))
    assert 'COMMAND_RUN "make cog2"' in added
    assert sh("trail", "diff", names[0], names[0]).code == 0


@pytest.mark.parametrize("width", [40, 80])
def test_on_a_terminal(sh, width):
    raw, shown = on_terminal(sh, "trail", "diff", "a.trail", "b.trail", "--no-pager", width=width, code=1)
    assert "\x1b[31m" in raw
    assert "\x1b[32m" in raw
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert [line for line in shown.splitlines()[:-2] if wide(line) > width] == []
