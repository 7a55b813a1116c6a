"""Scopes: what can be one, and whether any path could match both of two."""

from __future__ import annotations

import itertools
import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from periplus.base.errors import UsageError
from periplus.memory.scopes import escaped, first_overlap, is_covered, literal_scope, overlap, parse_scope, parse_scopes

pytestmark = pytest.mark.quick

# Fifty pairs, and whether any path could match both.
PAIRS = [
    ("src/auth", "src/auth/x.py", True),
    ("src/auth", "src/auth", True),
    ("src/auth", "src/authors", False),
    ("src/auth", "src/auth.py", False),
    ("src/auth/", "./src//auth", True),
    ("src", "tests", False),
    (".", "src/auth/x.py", True),
    (".", ".", True),
    ("src/*.py", "src/auth.py", True),
    ("src/*.py", "src/auth/x.py", False),
    ("src/*.py", "src/auth.js", False),
    ("src/*.py", "src", True),
    ("src/*", "src/auth/x.py", True),
    ("src/**", "src/auth/x.py", True),
    ("src/**/x.py", "src/x.py", True),
    ("src/**/x.py", "src/a/b/c/x.py", True),
    ("src/**/x.py", "src/a/b/c/y.py", False),
    ("src/**/x.py", "lib/a/x.py", False),
    ("**/x.py", "src/auth", True),
    ("**/x_*.py", "src/**/y_*.py", False),
    ("**/x_*.py", "src/x_a.py/", True),
    ("src/x.py", "src/x.py/y.js", False),  # a name with an extension is a file
    ("src/x.py/", "src/x.py/y.js", True),  # or a folder, where it says so
    ("src/**/x_*.py", "src/**/*_y.py", True),
    ("src/a*b.py:f", "src/a*c.py:f", False),
    ("src/a*", "src/*z", True),
    ("src/a*:f", "src/b*:f", False),
    ("src/?.py", "src/a.py", True),
    ("src/?.py", "src/ab.py", False),
    ("src/?", "src/??", False),
    ("src/[abc].py", "src/b.py", True),
    ("src/[abc].py", "src/d.py", False),
    ("src/[a-m]*", "src/[n-z]*", False),
    ("src/[!a-m]*", "src/[n-z]*", True),
    ("src/[!a]", "src/a", False),
    ("src/{auth,login}.py", "src/login.py", True),
    ("src/{auth,login}.py", "src/logout.py", False),
    ("{src,lib}/auth", "lib/auth/x.py", True),
    ("src/{a,b/{c,d}}", "src/b/d/e.py", True),
    ("src/{a,b/{c,d}}", "src/b/e", False),
    ("src/{auth,}/x.py", "src/x.py", True),
    ("src/a.py:f", "src/a.py:g", False),
    ("src/a.py:f", "src/a.py", True),
    ("src/a.py:f", "src", True),
    ("src/a.py:Login", "src/a.py:Login.check", True),
    ("src/a.py:Login", "src/a.py:LoginForm", False),
    ("src/*.py:f", "src/b.py:f", True),
    ("src/a.py:f", "src/b.py:f", False),
    ("src/lib.rs:a::b", "src/lib.rs:a", True),
    (r"src/\*.py", "src/a.py", False),
    (r"src/\[id\]/page.tsx", "src/i/page.tsx", False),
    ("src/.?:f", "src/?.:f", False),  # only `..` would match both, and that is no name
    ("**/Makefile", "src/Makefile", True),
    ("**/x.py", "Makefile", True),  # which could be a folder
    ("src/Auth", "src/auth", False),
    ("a/**/b/**/c", "a/x/b/y/c/d", True),
    ("a/**/b/**/c:f", "a/c/b:f", False),
]


def test_there_are_fifty_pairs():
    assert len(PAIRS) >= 50


@pytest.mark.parametrize(("one", "other", "verdict"), PAIRS, ids=str)
def test_the_table_of_pairs(one, other, verdict):
    first, second = parse_scope(one), parse_scope(other)
    assert overlap(first, second) is verdict
    assert overlap(second, first) is verdict
    assert overlap(first, first)
    assert parse_scope(first.text) == first, "the normalised text reads as the same scope"


HOSTILE = {
    "": "empty",
    "  ": "empty",
    "../secrets": "leads out",
    "src/../../etc": "leads out",
    "src/{a,..}/b": "leads out",
    r"src/\.\./x": "leads out",
    "/etc/passwd": "it is an absolute path",
    "{/etc,src}": "it is an absolute path",
    "src/\0": "no path of a project",
    "src/\n": "that a line of text has not",
    "src/\x1b[m": "that a line of text has not",
    "src/\ud800": "no path of a project",
    "src/[ab": "not closed",
    "src/[a/b]": "not closed",
    "src/{a,b": "not closed",
    "src/a}": "has no matching {",
    "src\\": "backslash",
    "src\\/x": "backslash",
    "src/[b-a]": "is empty",
    "src/[.]": "no name can match",
    "src/a.py:": "no symbol",
    "src/a.py:f g": "is not a symbol",
    "src/a.py:f*": "is not a symbol",
    "src/a.py:f..g": "part of its symbol",
    ".:f": "a symbol lies in a file",
    "a" * 501: "501 characters",
    "a/" * 65: "folders deep",
    "{a,b}" * 7: "more than 64 patterns",
    "{" * 9 + "}" * 9: "nested deeper",
}


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:40])
def test_what_cannot_be_a_scope_is_refused(text):
    with pytest.raises(UsageError, match=re.escape(HOSTILE[text])):
        parse_scope(text)


def test_a_set_of_scopes_is_bounded():
    with pytest.raises(UsageError, match="101 scopes"):
        parse_scopes([f"src/{number}" for number in range(101)])
    with pytest.raises(UsageError, match=r"globs of 2,\d+ characters"):
        parse_scopes(["*a" * 50 + str(number) for number in range(20)])
    assert [scope.text for scope in parse_scopes(["src", "./src/", "tests"])] == ["src", "tests"]


@pytest.mark.parametrize(
    "nasty",
    [
        "*a" * 240 + "b",
        "/".join(["**", "a"] * 32),
        "/".join(["*a*a*b"] * 60),
        "[!a-z]?*" * 60,
        "{a*,*b}" * 6,
        "?" * 499,
    ],
)
def test_nasty_globs_are_decided_in_bounded_time(nasty):
    others = ["*a" * 240 + "c", "/".join(["**", "b", "**"] * 21), "a" * 500, "{*x,y*}" * 6, "?" * 498 + "*"]
    begun = time.process_time()
    for other in others:
        overlap(parse_scope(nasty), parse_scope(other))
    assert time.process_time() - begun < 10, "a backtracking matcher would take years"


def test_two_whole_sets_of_nasty_globs_are_decided_in_bounded_time():
    one = parse_scopes(["*a" * 8 + f"{number:03d}" for number in range(95)])
    other = parse_scopes(["*b" * 8 + f"x{number:03d}" for number in range(90)])
    begun = time.process_time()
    assert first_overlap(one, other) is None
    assert time.process_time() - begun < 10


def test_a_path_is_taken_literally_whatever_it_holds():
    for path in ("app/[id]/page.tsx", "a*b", "what?", "{x,y}", "C:/x", "a\\b", "a:b", "a\nb/c.py", "\x1b[m", " ", "\t"):
        scope = literal_scope(path)
        assert scope.paths[0][: path.count("/") + 1] == tuple(path.split("/"))
        assert not scope.symbol
        if path.strip() and path.isprintable():
            assert overlap(scope, parse_scope(escaped(path)))
        assert not overlap(scope, literal_scope(path + "x"))
        assert overlap(scope, parse_scope("**"))
    assert overlap(literal_scope("Makefile"), parse_scope("**/x.py"))
    assert not overlap(literal_scope("Makefile", is_file=True), parse_scope("**/x.py"))


def test_what_is_covered():
    whole = parse_scopes(["src", "lib/*.py"])
    assert is_covered(parse_scope("src/a.py:f"), whole)
    assert is_covered(parse_scope("src/**/x"), whole)
    assert is_covered(parse_scope("lib/*.py"), whole)
    assert not is_covered(parse_scope("lib/a.py"), parse_scopes(["lib/*.js"]))
    assert not is_covered(parse_scope("lib/a.py/b"), parse_scopes(["lib/a.py"]))
    assert not is_covered(parse_scope("{src,tests}/x"), whole)


# -- against a matcher that knows nothing of this one -----------------------------------------------------------------

NAME = st.text("12.", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))  # no extension is a number
PATH = st.lists(NAME, min_size=1, max_size=4).map("/".join)
PIECE = st.sampled_from(["1", "2", ".", "*", "?", "[12]", "[!1]", "[1-2]", "{1,2}", "{1*,?2}", "\\1"])
PART = st.one_of(st.just("**"), st.lists(PIECE, min_size=1, max_size=4).map("".join))
GLOB = st.tuples(
    st.lists(PART, min_size=1, max_size=4).map("/".join), st.sampled_from(["", "", "", ":a", ":a.b", ":b"])
).map("".join)


def regex_of(glob):
    """A regular expression of a glob, by a way of its own: braces stay alternatives, folders below are a tail."""
    pattern, _, symbol = glob.partition(":")
    out = ""
    for part in pattern.split("/"):
        if part == "**":
            out += "(?:[^/]+/)*"
            continue
        at = 0
        while at < len(part):
            character = part[at]
            if character == "[":
                end = part.index("]", at)
                inside = part[at + 1 : end]
                out += f"[^/{inside[1:]}]" if inside[0] == "!" else f"[{inside}]"
                at = end
            elif character == "\\":
                at += 1
                out += re.escape(part[at])
            else:
                plain = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")", ",": "|"}
                out += plain.get(character, re.escape(character))
            at += 1
        out += "/"
    tail = "" if symbol else "(?:[^/]+/)*"
    return re.compile(out + tail), symbol


def belongs(glob, path, symbol):
    pattern, mine = regex_of(glob)
    if not pattern.fullmatch(path + "/"):
        return False
    return not mine or symbol == mine or symbol.startswith(f"{mine}.")


def parsed(glob):
    try:
        return parse_scope(glob)
    except UsageError:
        return None


@pytest.mark.slow
@settings(deadline=None)
@given(GLOB, GLOB, st.lists(PATH, min_size=1, max_size=20), st.sampled_from(["a", "a.b", "b", "a.b.c"]))
@example("**/1*", "*/?2", ["2/12"], "a")
@example("**", "1", ["1"], "a")
def test_what_a_path_matches_both_overlaps(one, other, paths, symbol):
    first, second = parsed(one), parsed(other)
    if first is None or second is None:
        return
    verdict = overlap(first, second)
    assert verdict == overlap(second, first)
    for path in paths:
        mine, yours = belongs(one, path, symbol), belongs(other, path, symbol)
        assert overlap(first, literal_scope(path)) or not belongs(one, path, symbol)
        if mine and yours:
            assert verdict, f"{path} matches both"


NAMES = ["".join(name) for length in range(1, 5) for name in itertools.product("abc.", repeat=length)]
SMALL_NAMES = [name for name in NAMES if name not in (".", "..")]
SMALL_GLOB = st.lists(st.sampled_from(["a", "b", "*", "?", "[!a]", "."]), min_size=1, max_size=3).map("".join)


@settings(deadline=None)
@given(SMALL_GLOB, SMALL_GLOB)
@example(".?", "?.")
@example("?*", "*.")
@example("?", "*?a")
@example("*.", ".*")
def test_what_overlaps_has_a_name_that_matches_both(one, other):
    """The other way round, where all names that count can be tried: two such globs that meet do so in one of four characters."""
    first, second = parsed(f"x/{one}:f"), parsed(f"x/{other}:f")  # of files, not of what lies below
    if first is None or second is None or "**" in f"{one}/{other}" or "." in (one, other):
        return
    mine, yours = (regex_of(glob)[0] for glob in (f"{one}:f", f"{other}:f"))
    assert overlap(first, second) == any(
        mine.fullmatch(f"{name}/") and yours.fullmatch(f"{name}/") for name in SMALL_NAMES
    )
