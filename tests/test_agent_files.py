"""Reading, listing and searching; arguments that are wrong; claims; pages."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_tools_support import PATH, edit, make_host
from periplus.agent.tools import Page, PageMatch, Pages, search_pages
from periplus.agent.tools.files.ignore_rules import Ignores, parse_rules
from periplus.agent.tools.files.search_tools import by_python, find_engine
from periplus.agent.tools.text_pages.search_patterns import Pattern
from periplus.base.errors import NotFoundError
from support import PEAK

RIPGREP = find_engine(PATH)
needs_ripgrep = pytest.mark.skipif(RIPGREP is by_python, reason="ripgrep is not installed")


def put(tmp_path, files):
    for name, data in files.items():
        path = tmp_path / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())


def test_windows_have_line_numbers_and_say_what_they_leave_out(tmp_path):
    host = make_host(tmp_path)
    put(tmp_path, {"a.txt": "".join(f"row {n}\n" for n in range(1, 1001))})
    done = host.run("read", {"path": "a.txt", "start": 10, "count": 2})
    assert done.output == (
        "a.txt, lines 10-11 of 1,000\n10\trow 10\n11\trow 11\n"
        "… 989 lines left out; read(path='a.txt', start=12, count=2)"
    )
    last = host.run("read", {"path": "a.txt", "start": -2})
    assert last.output == "a.txt, lines 999-1,000 of 1,000\n999\trow 999\n1000\trow 1000"
    assert "no lines from 2,000 on; it has 1,000 lines" in host.run("read", {"path": "a.txt", "start": 2000}).output
    whole = str(tmp_path / "work" / "a.txt")
    assert host.run("read", {"path": whole, "start": "10", "count": 2}).output == done.output


def test_following_the_calls_gives_the_whole_file(tmp_path):
    """Nothing is cut silently: whoever does what each answer says sees every line."""
    host = make_host(tmp_path)
    rows = [f"{n} " + "x" * (n % 200) for n in range(3000)]
    put(tmp_path, {"a.txt": "\n".join(rows)})
    seen = []
    args = {"path": "a.txt"}
    while True:
        out = host.run("read", args).output.split("\n")[1:]
        is_cut = out[-1].startswith("… ")
        seen += [row.partition("\t")[2] for row in (out[:-1] if is_cut else out)]
        if not is_cut:
            break
        args = eval(out[-1].partition("; read")[2].replace("(", "dict(", 1))
    assert seen == rows


def test_a_long_line_is_cut_with_the_call_for_the_rest(tmp_path):
    host = make_host(tmp_path)
    for name, data in {
        "a.txt": ("é" * 5000 + "\nshort\n").encode(),
        "big.txt": b"s\n" * 5_000_000 + b"y" * 9000 + b"\n",
    }.items():
        put(tmp_path, {name: data})
        out = host.run("read", {"path": name, "start": 1 if name == "a.txt" else 5_000_001, "count": 1}).output.split(
            "\n"
        )[1]
        args = eval(out.partition("; read")[2].replace("(", "dict(", 1))
        rest = host.run("read", args).output.split("\n")[1]
        shown = out.partition("\t")[2].partition(" …")[0]
        assert shown + rest in ("é" * 5000, "y" * 9000)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32", "latin-1"])
def test_following_the_offsets_gives_the_whole_of_a_long_line(tmp_path, encoding):
    host = make_host(tmp_path)
    line = "".join(chr(0xA1 + n % 90) for n in range(60_000)) + ("" if encoding == "latin-1" else "€𝄞" * 9_000)
    put(tmp_path, {"a.txt": f"first\n{line}".encode(encoding)})
    row = host.run("read", {"path": "a.txt", "start": 2}).output.split("\n")[1]
    seen = [row.partition("\t")[2].partition(" … the rest")[0]]
    while "; read(" in row:
        args = eval(row.partition("; read")[2].replace("(", "dict(", 1))
        _, text, *rest = host.run("read", args).output.split("\n")
        seen.append(text)
        row = rest[-1] if rest else ""
    assert "".join(seen) == line
    assert len(seen) > 2


def test_of_many_long_lines_only_those_that_are_shown_are_measured():
    from periplus.agent.tools.files.read_tools import LINES_MAX, read_tool, window_of
    from periplus.agent.tools.tool_table import check_arguments

    measured = []
    text = ("x" * 2_001 + "\n") * LINES_MAX
    args = check_arguments(read_tool(None), {"path": "a", "count": LINES_MAX})
    window = window_of(text, args, lambda place: measured.append(place) or 0)
    assert window.total == LINES_MAX
    assert 0 < len(measured) < 50


def test_bytes_are_shown_as_hex(tmp_path):
    host = make_host(tmp_path)
    data = bytes(range(256)) * 4
    put(tmp_path, {"a.bin": data, "t.txt": "plain"})
    out = host.run("read", {"path": "a.bin"}).output.split("\n")
    assert out[0] == "a.bin, bytes 0-511 of 1,024 as hex (binary)"
    assert out[5].startswith("00000040  40 41 42")
    assert out[-1] == "… 512 bytes left out; read(path='a.bin', hex=true, offset=512)"
    seen = b"".join(bytes.fromhex(row[10:57]) for row in out[1:-1])
    assert seen == data[:512]
    assert "70 6c 61 69 6e" in host.run("read", {"path": "t.txt", "hex": True}).output
    assert host.run("edit", edit("a.bin", "@A", "x")).outcome == "failed"


@pytest.mark.parametrize(
    ("head", "kind"),
    [(b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff\xe0", "image/jpeg"), (b"GIF89a", "image/gif"),
     (b"RIFF\x10\0\0\0WEBP", "image/webp")],
)  # fmt: skip
def test_pictures_are_given_as_pictures(tmp_path, head, kind):
    host = make_host(tmp_path)
    put(tmp_path, {"name.of.nothing": head + b"\0" * 50})
    done = host.run("read", {"path": "name.of.nothing"})
    assert [(image.media_type, image.data) for image in done.images] == [(kind, head + b"\0" * 50)]
    assert host.run("read", {"path": "name.of.nothing", "hex": True}).images == ()


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_large_files_are_read_as_small_ones_are(tmp_path, end, monkeypatch):
    from periplus.agent.tools.files import read_tools

    host = make_host(tmp_path)
    chance = random.Random(5)
    rows = [b"%d " % n + b"z" * chance.randrange(40) for n in range(500)]
    put(tmp_path, {"a.txt": (end or b"\n").join(rows) + end})
    whole = [host.run("read", {"path": "a.txt", "start": s, "count": 7}).output for s in (1, 2, 250, 494, 500, 501)]
    digest = host.work.seen("a.txt")
    monkeypatch.setattr(read_tools, "WHOLE_BYTES_MAX", 100)
    monkeypatch.setattr(read_tools, "_PIECE_BYTES", 37)
    large = [host.run("read", {"path": "a.txt", "start": s, "count": 7}).output for s in (1, 2, 250, 494, 500, 501)]
    strip = [out.split("\n")[1:] for out in whole]
    assert [out.split("\n")[1:] for out in large] == strip
    assert host.work.seen("a.txt") == digest


def test_a_huge_file_is_read_in_little_memory(tmp_path):
    (tmp_path / "work").mkdir()
    path = tmp_path / "work" / "huge.log"
    with path.open("wb") as file:
        file.write(b"a line\n" * 5000)
        file.seek(3 << 30)
        file.write(b"\nlast line\n")
    code = (
        f"{PEAK}\nimport sys\nsys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        "from pathlib import Path\nfrom agent_tools_support import make_host\n"
        f"host = make_host(Path({str(tmp_path)!r}))\nbefore = peak_bytes()\n"
        "assert 'last line' in host.run('read', {'path': 'huge.log', 'start': -1}).output\n"
        "assert 'as hex' in host.run('read', {'path': 'huge.log', 'hex': True, 'offset': 3 << 30}).output\n"
        "assert 'not searched' in host.run('search', {'pattern': 'last'}).output\n"
        "assert host.run('edit', {'edits': [{'path': 'huge.log', 'old': 'last', 'new': 'x'}]}).outcome == 'denied'\n"
        "print(peak_bytes() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 64 << 20


def test_listing_leaves_out_what_is_ignored_and_says_sizes(tmp_path):
    host = make_host(tmp_path)
    put(tmp_path, {
        ".gitignore": "*.log\n/build/\n!keep.log\n", "a.py": "x", "b.log": "x", "keep.log": "x", "build/o": "x",
        "src/build/o.py": "xx", "src/.gitignore": "secret*\n", "src/secret.py": "x", "node_modules/m/i.js": "x",
        ".git/config": "x",
    })  # fmt: skip
    top = host.run("list", {}).output.split("\n")
    assert top == [".gitignore\t24", "a.py\t1", "keep.log\t1", "src/"]
    assert host.run("list", {"glob": "**/*.py"}).output.split("\n") == ["a.py\t1", "src/build/o.py\t2"]
    everything = host.run("list", {"depth": 9, "ignored": True}).output
    assert "node_modules/m/i.js" in everything
    assert "src/secret.py" in everything
    assert ".git/config" not in everything
    assert "is a file, not a folder" in host.run("list", {"path": "a.py"}).output
    (tmp_path / "work/linked").symlink_to("src", target_is_directory=True)
    os.mkfifo(tmp_path / "work/pipe")
    for name, said in (
        ("linked", "is a link, and file tools do not follow links"),
        ("pipe", "a device, a pipe or a socket"),
    ):
        refused = host.run("list", {"path": name})
        assert refused.outcome == "failed"
        assert said in refused.output
        assert "read(" not in refused.output, "it is refused as well"


@pytest.mark.parametrize(
    ("rules", "path", "is_folder", "wanted"),
    [
        ("*.o", "a/b.o", False, True), ("/x", "a/x", False, False), ("x/", "x", False, False), ("x/", "x", True, True),
        ("a/**/z", "a/z", False, True), ("a/**/z", "a/b/c/z", False, True), ("**/k", "q/k", False, True),
        ("a/**", "a/b", False, True), ("a/**", "a", True, False), ("[a-c]?.t", "bx.t", False, True),
        ("[!a]x", "ax", False, False), ("\\#x", "#x", False, True), ("# x", "# x", False, False), ("*\n!a", "a", False, False),
        ("a*b*c", "a1b2b3c", False, True), ("a*b*c", "a1b2b3", False, False), ("", "x", False, False),
        ("\\*x", "*x", False, True), ("\\*x", "ax", False, False), ("\\!x", "!x", False, True), ("!\\*x\n", "*x", False, False),
    ],
)  # fmt: skip
def test_rules_of_gitignore(rules, path, is_folder, wanted):
    assert Ignores(parse_rules(rules)).leaves_out(path.split("/"), is_folder=is_folder) is wanted


def test_a_rule_that_would_take_for_ever_elsewhere_does_not(tmp_path):
    rule = "*a" * 100 + "b"
    assert not Ignores(parse_rules(rule)).leaves_out(["a" * 250], is_folder=False)


SAMPLE = {
    "a.py": "def alpha():\n    return 1\n\nclass B:\n    pass\n", "b/c.txt": "alpha beta\r\nALPHA\r\n\r\nend", "b.txt": "b\n",
    "b/bin": b"alpha\0alpha\n", "mark.txt": b"\xef\xbb\xbfalpha first\n", "wide.txt": "alpha wide é\n".encode("utf-16"),
    "latin.txt": "alpha é latin\n".encode("latin-1"), "empty": "", "z.txt": "no end alpha", "ü.md": "Übung äh\n",
    "ctl": b"\x01\x02\x03\x04alpha\n",
}  # fmt: skip


@needs_ripgrep
@pytest.mark.parametrize(
    "args",
    [
        {"pattern": "alpha"}, {"pattern": "ALPHA", "ignore_case": True}, {"pattern": "(?i)al.ha$"}, {"pattern": "^"},
        {"pattern": "$"}, {"pattern": "^$"}, {"pattern": "x*"}, {"pattern": r"\balpha\b"}, {"pattern": "é"},
        {"pattern": r"\w+\s\w+"}, {"pattern": "[^a-z]+"}, {"pattern": r"\W\W"}, {"pattern": "alpha|class", "context": 1},
        {"pattern": "ü", "ignore_case": True}, {"pattern": "a.c", "literal": True}, {"pattern": "()", "literal": True},
        {"pattern": "alpha", "path": "b"}, {"pattern": "alpha", "glob": "*.txt"}, {"pattern": "end$"}, {"pattern": "beta$"},
        {"pattern": "l.*l"}, {"pattern": "(a|b){2,}"}, {"pattern": "a{,1}lpha"}, {"pattern": r"\x61lpha"}, {"pattern": "{"},
    ],
)  # fmt: skip
def test_with_and_without_ripgrep_the_answer_is_the_same(tmp_path, args):
    with_it = make_host(tmp_path, engine=RIPGREP)
    without = make_host(tmp_path, engine=by_python)
    put(tmp_path, SAMPLE)
    one, other = with_it.run("search", args), without.run("search", args)
    assert one == other
    assert one.outcome == "ok"


PIECES = [
    "a",
    "b",
    "A",
    "é",
    ".",
    "[ab]",
    "[^a]",
    r"\w",
    r"\s",
    r"\d",
    r"\W",
    r"\b",
    "^",
    "$",
    "(?:ab)",
    "(a|é)",
    " ",
    "-",
    r"\.",
    "[a-c_]",
]
ATOM = st.sampled_from(PIECES)
PATTERN = st.lists(
    st.tuples(ATOM, st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,2}"])), min_size=1, max_size=5
).map(lambda parts: "".join(a if a in ("^", "$", r"\b") else a + b for a, b in parts))
LINES = st.binary(max_size=40) | st.text(st.sampled_from("abAé _-.1\n\r\t"), max_size=60).map(str.encode)


@pytest.mark.slow
@needs_ripgrep
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    patterns=st.lists(PATTERN, min_size=1, max_size=3),
    files=st.lists(LINES, min_size=1, max_size=6),
    case=st.booleans(),
)
def test_both_engines_agree_on_any_pattern_and_any_bytes(tmp_path, patterns, files, case):
    host = make_host(tmp_path, engine=RIPGREP)
    for path in (tmp_path / "work").iterdir():
        path.unlink()
    put(tmp_path, {f"f{n}": data for n, data in enumerate(files)})
    entries = list(host.work.folder.walk())
    for text in patterns:
        pattern = Pattern.parse(text, ignores_case=case)
        assert RIPGREP(host.work.folder, pattern, entries, 20) == by_python(host.work.folder, pattern, entries, 20)


@pytest.mark.parametrize("engine", [pytest.param(RIPGREP, marks=needs_ripgrep), by_python])
@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", "a ( that nothing closes"), (")", "a ) that nothing opens"), ("[a", "a [ that nothing closes"),
        ("*a", "there is nothing before"), ("a**", "a repetition of a repetition"), ("(?=a)", "not known here"),
        (r"(a)\1", "not known here"), (r"\p{L}", "not known here"), ("[[:alpha:]]", "within [ ]"), ("a\\", "a \\ at the end"),
        ("a{2,1}", "repetitions are"), ("((a{900}){900}){9}", "come to over"), ("[z-a]", "comes before its start"),
        ("a\nb", "within one line"), ("(" * 50 + ")" * 50, "groups over"), (r"\Ba", "not known here"), ("", "has 1 to"),
    ],
)  # fmt: skip
def test_what_is_no_pattern_is_an_error_that_names_the_place(tmp_path, engine, pattern, said):
    host = make_host(tmp_path, engine=engine)
    put(tmp_path, SAMPLE)
    done = host.run("search", {"pattern": pattern})
    assert done.outcome == "failed"
    assert said in done.output


@pytest.mark.slow
def test_a_catastrophic_pattern_ends(tmp_path, monkeypatch):
    from periplus.agent.tools.files import search_tools

    monkeypatch.setattr(search_tools, "SEARCH_SECONDS_MAX", 1.0)
    put_text = {"a.txt": "a" * 64 + "b\n"}
    host = make_host(tmp_path, engine=by_python)
    put(tmp_path, put_text)
    done = host.run("search", {"pattern": "(a+)+c"})
    assert done.outcome == "failed"
    assert "the search was not done after" in done.output
    if RIPGREP is not by_python:
        assert make_host(tmp_path, engine=RIPGREP).run("search", {"pattern": "(a+)+c"}).output == "no match"


def test_matches_left_out_are_told_with_the_call_for_them(tmp_path):
    host = make_host(tmp_path)
    put(tmp_path, {f"f{n:03}": "hit\nhit\n" for n in range(150)})
    first = host.run("search", {"pattern": "hit"}).output.split("\n")
    assert first[-1] == "… more matches left out; search(pattern='hit', path='.', start=201)"
    second = host.run("search", {"pattern": "hit", "start": 201}).output.split("\n")
    count = [row for row in first + second if row[0].isdigit()]
    assert len(count) == 300


class Shelf:
    """Pages from a table."""

    def __init__(self, pages):
        self.pages = pages

    def list(self, prefix):
        return [Page(handle, "a page", len(text)) for handle, text in self.pages.items() if handle.startswith(prefix)]

    def read(self, handle):
        if handle not in self.pages:
            raise NotFoundError(f"no page {handle}")
        return self.pages[handle]

    def search(self, pattern, prefix):
        return search_pages(self, pattern, prefix)


def test_pages_are_read_listed_and_searched_as_files_are(tmp_path):
    shelf = Shelf({"@periplus/turns/1.md": "one\ntwo\nthree\n", "@periplus/turns/2.md": "two more"})
    host = make_host(tmp_path, pages=Pages({"turns": shelf}))
    assert host.run("read", {"path": "@periplus/turns/1.md", "start": 2, "count": 1}).output.split("\n")[1] == "2\ttwo"
    assert host.run("list", {"path": "@periplus"}).output.split("\n")[0] == "@periplus/turns/1.md\t14\ta page"
    assert host.run("search", {"pattern": "^tw", "path": "@periplus/turns/"}).output.split("\n") == [
        "@periplus/turns/1.md:2:\ttwo", "@periplus/turns/2.md:1:\ttwo more",
    ]  # fmt: skip
    assert host.read_text("@periplus/turns/2.md") == "two more"
    assert "no page" in host.run("read", {"path": "@periplus/turns/9.md"}).output
    assert host.run("write", {"path": "@periplus/turns/1.md", "content": "x"}).outcome != "ok"
    assert Pages({"turns": shelf}).search("one", "@periplus/turns/1") == [PageMatch("@periplus/turns/1.md", 1, "one")]


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("reed", {}, "is read meant?"), ("read", {}, "path is missing"), ("read", {"path": 3}, "path is 3, and a text is wanted"),
        ("read", {"path": "a", "stat": 1}, "no argument 'stat' (is start meant?)"),
        ("read", {"path": "a", "count": 0}, "count is 0, and 1 to 4,000 is wanted"),
        ("read", {"path": "a", "start": 1.5}, "a whole number is wanted"), ("read", {"path": "a", "start": float("nan")}, "whole"),
        ("read", {"path": "a", "hex": "perhaps"}, "true or false is wanted"), ("edit", {"edits": []}, "edits is empty"),
        ("edit", {"edits": ["x"]}, "[0] is not an object"), ("edit", {"edits": [{"old": "x"}]}, "edits[0].path is missing"),
        ("edit", {"edits": [{"path": "a", "old": "x"}]}, "an edit has old and new"),
        ("read", {"path": "x" * 5000}, "at most 4,000"), ("write", {"path": "a", "content": "\ud800"}, "half a character"),
        ("read", {"path": "../x"}, "it leads upwards"), ("read", {"path": "/etc/passwd"}, "an absolute path"),
        ("read", {"path": "nowhere"}, "no file nowhere"), ("read", {"path": "."}, "is a folder"),
    ],
)  # fmt: skip
def test_wrong_calls_are_answered_and_nothing_is_done(tmp_path, name, args, said):
    host = make_host(tmp_path)
    done = host.run(name, args)
    assert done.outcome in ("failed", "denied")
    assert said in done.output
    assert os.listdir(tmp_path / "work") == []
    host.accesses(name, args)


def test_accesses_name_what_a_call_touches(tmp_path):
    host = make_host(tmp_path)
    accesses = host.accesses("read", {"path": "./a/b/"})
    assert [(one.resource, one.mode) for one in accesses] == [("file:a/b", "read")]
    writing = host.accesses("edit", {"edits": [{"path": "a", "move_to": "b"}, {"path": "c", "delete": True}]})
    assert [(one.resource, one.mode) for one in writing] == [
        ("file:a", "write"),
        ("file:b", "write"),
        ("file:c", "write"),
    ]
    assert [one.resource for one in host.accesses("edit", {"edits": 3})] == ["*"]


def test_a_claim_of_another_agent_refuses_edits_and_is_named(tmp_path):
    from periplus.agent.tools import claims_guard
    from periplus.journal import Writer
    from periplus.memory.coordination.claims import Asked
    from periplus.project import Project

    work = tmp_path / "work"
    work.mkdir()
    put(tmp_path, {"src/a.py": "one\n", "b.py": "one\n"})
    Project.init(str(work))
    with Project.open(str(work), Writer("other", "who_0000000000000001", "ses_0000000000000001", 1)) as other:
        claim = other.work.claim(Asked(("src/",), text="rewriting the parser")).claim.item_id
    with Project.open(str(work), Writer("me", "who_0000000000000002", "ses_0000000000000002", 1)) as mine:
        host = make_host(tmp_path, guard=claims_guard(mine))
        done = host.run(
            "edit",
            {"edits": [{"path": "b.py", "old": "one", "new": "two"}, {"path": "src/a.py", "old": "one", "new": "two"}]},
        )
        assert done.outcome == "denied"
        assert claim in done.output
        assert "rewriting the parser" in done.output
        assert host.run("write", {"path": "src/new.py", "content": "x"}).outcome == "denied"
        assert (work / "b.py").read_text() == "one\n"
        assert host.run("edit", edit("b.py", "one", "two")).outcome == "ok"
        mine.work.release([claim], force=True)
        assert host.run("edit", edit("src/a.py", "one", "two")).outcome == "ok"
