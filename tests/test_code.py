"""Definitions by name in six languages, and regions of lines that are found again where they moved."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.code import find_region, language_of, lines_of, region_of, symbols_of
from periplus.code.extraction.parse import parse_source
from periplus.code.languages.registry import LANGUAGE_NAMES, language_rows, row_of
from periplus.code.symbols import SOURCE_BYTES_MAX

pytestmark = pytest.mark.quick

SOURCES = {
    "a.py": (
        (b"MAX = 3\n@deco\ndef f(a):\n    y = 1\n    def inner(): pass\n    return a\n"
        b"class A(B):\n    K: int = 2\n    @property\n    async def m(self):\n        return 1\n"),
        "value MAX 1-1, function f 2-6, function f.inner 5-5, class A 7-11, value A.K 8-8, method A.m 9-11",
    ),
    "a.js": (
        (b"export const f = (a) => {\n  return a\n};\nexport default class K extends M {\n  x = 1;\n  get m() {}\n}\n"
        b"const {u} = require('x');\nfunction* h() { const z = 1; }\n"),
        "function f 1-3, class K 4-7, field K.x 5-5, method K.m 6-6, function h 9-9",
    ),
    "a.ts": (
        (b"@dec\nexport abstract class C<T> {\n  private x = 1;\n  abstract foo(): void;\n}\ninterface I { m(): void }\n"
        b"namespace N {\n  export function z() {}\n}\ntype U = string;\nenum E { A }\n"),
        ("class C 1-5, field C.x 3-3, method C.foo 4-4, interface I 6-6, method I.m 6-6, namespace N 7-9, function N.z 8-8,"
        " type U 10-10, enum E 11-11, constant E.A 11-11"),
    ),
    "a.tsx": (b"export function View() {\n  return <p>hi</p>;\n}\n", "function View 1-3"),
    "a.go": (
        (b"package main\ntype S struct {\n\ta int\n}\nfunc (s *S) Run() error { x := 1; return nil }\n"
        b"func (l *List[T]) Push(v T) {}\nconst (\n\tA = 1\n)\nfunc main() { var q = 1 }\n"),
        "struct S 2-4, field S.a 3-3, method S.Run 5-5, method List.Push 6-6, value A 8-8, function main 10-10",
    ),
    "a.rs": (
        (b"#[derive(Debug)]\n#[serde]\npub struct P<T> { x: T }\nimpl<T> Display for P<T> {\n    #[inline]\n    fn fmt(&self) {}\n}\n"
        b"mod m {\n    pub const C: u8 = 1;\n}\ntrait T { fn a(&self); }\n"),
        "struct P 1-3, field P.x 3-3, method P.fmt 5-6, module m 8-10, value m.C 9-9, trait T 11-11, method T.a 11-11",
    ),
    "A.java": (
        (b"package p;\n@Ann\npublic class A {\n  int x = 1;\n  A() {}\n  @Override\n  public void m(int a) { int q = 1; }\n"
        b"  static class B { void n() {} }\n}\nenum E { ONE }\n"),
        "class A 2-9, field A.x 4-4, constructor A.A 5-5, method A.m 6-7, class A.B 8-8, method A.B.n 8-8, enum E 10-10, value E.ONE 10-10",
    ),
}  # fmt: skip


@pytest.mark.parametrize("path", sorted(SOURCES))
def test_definitions_have_names_and_lines(path):
    data, expected = SOURCES[path]
    found = symbols_of(path, data)
    assert (found.why_not, found.has_errors) == ("", False)
    assert ", ".join(f"{one.kind} {one.name} {one.start_line}-{one.end_line}" for one in found.found) == expected
    for one in found.found:
        assert data[one.start_byte : one.end_byte].strip()
        assert data[: one.start_byte].count(b"\n") + 1 == one.start_line
        assert one.name.rpartition(".")[2].encode() in data[one.start_byte : one.end_byte]


def test_a_name_may_be_said_as_the_language_writes_it_or_without_what_is_around():
    found = symbols_of("a.rs", SOURCES["a.rs"][0])
    assert [one.name for one in found.named("P::fmt")] == ["P.fmt"]
    assert [one.name for one in found.named("fmt")] == ["P.fmt"]
    assert found.named("mt") == []
    overloads = symbols_of("a.ts", b"function over(a: string): void;\nfunction over(a: any) {}\n")
    assert [one.start_line for one in overloads.named("over")] == [1, 2]


def test_around_a_syntax_error_the_rest_is_found():
    found = symbols_of("a.py", b"def before(): pass\n\ndef broken(:\n    pass\n\ndef after():\n    return 1\n")
    assert found.has_errors
    assert {"before", "after"} <= {one.name for one in found.found}


@pytest.mark.parametrize(
    ("path", "data", "why"),
    [
        ("a.cobol", b"x", "no language"),
        ("a", b"x", "no language"),
        ("a.py", b"x = 1\n" * (SOURCE_BYTES_MAX // 6 + 1), "over 2,097,152 bytes"),
        ("a.py", b"\x00\x01", "no text"),
        ("a.py", b"x = '\xff'", "not UTF-8 (byte 5)"),
    ],
)
def test_what_cannot_be_parsed_says_why(path, data, why):
    found = symbols_of(path, data)
    assert found.found == ()
    assert why in found.why_not


def test_languages_are_told_by_the_name_of_the_file():
    assert language_of("src/A.PY") == "python"
    assert language_of("x.tsx") == "typescript"
    assert language_of("Makefile") == ""
    assert {row.name for row in language_rows().values()} == set(LANGUAGE_NAMES)


@pytest.mark.parametrize(
    ("path", "head", "language"),
    [
        ("bin/run", b"#!/usr/bin/env python3\n", "python"),
        ("bin/run", b"#! /usr/bin/python3.11 -u\r\n", "python"),
        ("bin/run", b"#!/usr/bin/env -S FOO=1 /opt/bin/php -d x\n", "php"),
        ("bin/run", b"#!python", "python"),
        ("bin/run.txt", b"#!/usr/bin/python\n", ""),
        ("run.js", b"#!/usr/bin/python\n", "javascript"),
        ("bin/run", b"#!/usr/bin/pythonic\n", ""),
        ("bin/run", b"# /usr/bin/python\n", ""),
        ("bin/run", b"#!" + b"/" * 100_000 + b"python", ""),
        ("bin/run", b"#!\xff", ""),
    ],
)
def test_a_script_without_extension_is_told_by_its_interpreter(path, head, language):
    row = row_of(path, head)
    assert (row.name if row is not None else "") == language


def test_a_value_in_a_class_sees_the_names_of_the_class_and_a_method_does_not():
    facts = parse_source(
        "a.py", b"class A:\n    X = 1\n    Y = X\n    def f(self): return X\n    class B: Z = X\n"
    ).facts
    roots = [(one.line, facts.targets[one.target].root) for one in facts.references()]
    assert roots == [(3, "s"), (4, "f"), (5, "f")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("a.py", b"(" * 100_000),
        ("a.py", b"".join(b" " * depth + b"class A:\n" for depth in range(1_000)) + b" " * 1_000 + b"x = 1\n"),
        ("a.py", b"a = " * 10_000 + b"1\n"),
        ("a.js", b"{" * 100_000),
        ("a.js", b"class A { " * 20_000),
        ("a.rs", b"#[a]\n" * 20_000 + b"fn f() {}\n"),
        ("a.rs", b"fn f() {}\n" * 20_000),
        ("a.go", b"package p\n" + b"func f() {}\n" * 20_000),
        ("a.java", b"class A {" * 20_000),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value[:8]!r}",
)  # fmt: skip
def test_a_hostile_file_takes_bounded_time(path, data):
    begun = time.process_time()
    found = symbols_of(path, data)
    assert time.process_time() - begun < 20  # the limit is 3 s of the wall clock; this machine may be slow
    assert len(found.found) <= 50_000


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(language_rows())), st.binary(max_size=400))
def test_any_bytes_are_looked_at_without_an_error(extension, data):
    for one in symbols_of(f"x{extension}", data).found:
        assert 0 <= one.start_byte <= one.end_byte <= len(data)
        assert 1 <= one.start_line <= one.end_line


def test_without_the_parsers_it_says_so():
    code = (
        "import sys\nsys.modules['tree_sitter'] = None\n"
        "from periplus.code import symbols_of\nprint(symbols_of('a.go', b'package a').why_not)\n"
        "print([one.name for one in symbols_of('a.py', b'x = 1').found])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "the parsers are not installed (the extra `code`)\n['x']\n"


def test_the_parsers_are_loaded_when_a_file_is_parsed_and_not_before():
    code = (
        "import sys, periplus.code, periplus.memory\nprint([name for name in sys.modules if 'tree_sitter' in name])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


# -- regions -----------------------------------------------------------------------------------------------------------

BODY = [b"def f():", b"    if x:", b"        y()", b"", b"    return 1"]


def test_a_region_is_found_where_it_moved_and_however_it_is_indented():
    lines = lines_of(b"\n".join([b"import a", b"", *BODY, b"", b"tail"]))
    region = region_of(lines, 3, 7)
    assert (region.start, region.length, region.copies) == (3, 5, 1)
    assert find_region(lines, region) == 3
    assert find_region([b"one", b"two", *lines], region) == 5
    inside = [b"class A:", *[b"\t" + line if line else line for line in BODY]]
    assert find_region(inside, region) == 2
    crlf = lines_of(b"\r\n".join([b"x", *[line + b"  " if line else b"   " for line in BODY]]))
    assert find_region(crlf, region) == 2


def test_a_region_is_not_found_when_anything_in_it_changed():
    lines = lines_of(b"\n".join(BODY))
    region = region_of(lines, 1, 5)
    for at, line in enumerate(BODY):
        for other in (line + b"#", b" " + line if line else b"new", None):
            changed = [*BODY[:at], *([other] if other is not None else []), *BODY[at + 1 :]]
            if lines_of(b"\n".join(changed)) != lines:
                assert find_region(changed, region) == 0, (at, other)


def test_of_several_copies_the_ones_left_are_not_taken_for_the_one_that_changed():
    run = [b"  run() {", b"    go();", b"  }"]
    lines = [b"class A {", b"  // a", *run, b"}", b"class B {", b"  // b", *run, b"}"]
    region = region_of(lines, 3, 5)
    assert region.copies == 2
    assert find_region(lines, region) == 3
    edited = [*lines]
    edited[3] = b"    stop();"
    assert find_region(edited, region) == 0
    assert find_region([b"x", *lines], region) == 4
    assert find_region([*lines[:1], b"  // other", *lines[2:]], region) == 3


def test_blank_lines_around_are_none_of_a_region_and_blank_ones_alone_are_none():
    lines = [b"", b"a", b"", b"b", b""]
    assert region_of(lines, 1, 5)[:2] == (2, 3)
    assert region_of(lines, 3, 3) is None
    assert region_of([], 1, 1) is None
    assert region_of(lines, 4, 99)[:2] == (4, 1)


def test_a_file_of_one_line_many_times_takes_bounded_time():
    lines = [b"x"] * 200_000
    region = region_of(lines, 50_000, 150_000)
    begun = time.process_time()
    assert find_region(lines, region) == 50_000
    assert time.process_time() - begun < 10


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b"a", b"  b", b"c {", b"}", b"", b"\tif x"]), min_size=1, max_size=12),
    st.data(),
)
def test_what_is_written_down_of_a_region_finds_it_again(lines, data):
    start = data.draw(st.integers(1, len(lines)))
    end = data.draw(st.integers(start, len(lines)))
    region = region_of(lines, start, end)
    if region is None:
        assert not any(lines[start - 1 : end])
        return
    assert find_region(lines, region) == region.start
    above = data.draw(st.lists(st.sampled_from([b"new", b"", b"other"]), max_size=3))
    below = data.draw(st.lists(st.sampled_from([b"new", b"", b"other"]), max_size=3))
    found = find_region([*above, *lines, *below], region)
    assert found == region.start + len(above) if region.copies == 1 else found
    gone = [line for line in lines if line != lines[region.start - 1]]
    assert find_region(gone, region) == 0
