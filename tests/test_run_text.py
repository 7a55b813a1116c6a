"""Lines of a run as a person sees them: diffs, outputs and answers, at a terminal and through a pipe."""

from __future__ import annotations

import io
import re

import pytest

from periplus.agent.contracts import Usage
from periplus.agent.events import (
    AgentStarted,
    AnswerCompleted,
    AnswerRestarted,
    Noticed,
    TextGrown,
    ToolEnded,
    ToolStarted,
)
from periplus.agent.tools.files.change_log import Change, effect_of
from periplus.agent.tools.text_pages.command_output import shorten
from periplus.base.encoding.digests import sha256
from periplus.cli.agent.markdown_output import BLOCK_CHARS_MAX, Blocks
from periplus.cli.agent.run_output import EventLines
from periplus.cli.common.face import Face

SGR = re.compile(r"\x1b\[[0-9;]*m")
HANDLE = "@periplus/output/1.txt"


class Screen(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self):
        return self._is_terminal


class Watched:
    """What is told to ``EventLines``, and what it shows of it."""

    def __init__(self, *, is_terminal=True, as_json=False, is_full=False, by_line=False, **environment):
        """``by_line`` as at an input line; the test then has standard output go to ``screen``."""
        self.screen = Screen(is_terminal)
        face = Face(
            self.screen, io.StringIO(), {"TERM": "xterm", "COLUMNS": "60"} | environment, "/", as_json=as_json,
            store=None, color="auto", name=None,
        )  # fmt: skip
        self.lines = EventLines(face, by_line=by_line, is_full=is_full)
        self.contents, self.pages, self._calls = {}, {}, 0
        self.lines.look_up(self.contents.get, self.pages.get)

    def says(self, text, piece=7):
        for at in range(0, len(text), piece):
            self.lines(TextGrown(turn=1, text=text[at : at + piece]))
        self.ends_answer()

    def ends_answer(self):
        self.lines(AnswerCompleted(turn=1, text="", calls=0, usage=Usage(), finish_reason="stop", latency_ms=1))

    def edits(self, *changes):
        for change in changes:
            self.contents |= {sha256(one).hex(): one for one in change[1:3] if one is not None}
        call = self.begins("edit", {"edits": [{"path": change.path} for change in changes]})
        self.lines(ToolEnded(turn=1, call_id=call, name="edit", outcome="ok", output="x: line 1", effects=tuple(map(effect_of, changes))))  # fmt: skip

    def runs(self, text, *, outcome="ok", title="exit 0 in 0.1 s", note="", name="shell", agent=""):
        self.pages[HANDLE] = text
        call = self.begins(name, {"command": "make"}, agent)
        output = f"{title}\n{shorten(text, HANDLE)}"
        output = output.rstrip("\n") + note if note else output
        self.lines(ToolEnded(turn=1, call_id=call, name=name, outcome=outcome, output=output, handle=HANDLE, exit_code=0, agent=agent))  # fmt: skip

    def begins(self, name, args, agent=""):
        self._calls += 1
        self.lines(ToolStarted(turn=1, call_id=f"c{self._calls}", name=name, args=args, agent=agent))
        return f"c{self._calls}"

    @property
    def shown(self):
        return self.screen.getvalue()

    @property
    def plain(self):
        return SGR.sub("", self.shown).splitlines()

    def show(self, number=0):
        before = len(self.shown)
        self.lines.show(number)
        return SGR.sub("", self.shown[before:]).splitlines()


def test_an_edit_shows_its_lines_in_colours():
    watched = Watched()
    watched.edits(Change("calc.py", b"def add(a, b):\n\treturn a - b\n", b"def add(a, b):\n\treturn a + b\n"))
    assert watched.plain == [
        "· edit calc.py",
        "    1  def add(a, b):",
        "    2 -    return a - b",
        "    2 +    return a + b",
    ]
    # What differs within a line is bold.
    assert "\x1b[2m2 \x1b[0m\x1b[31m-    return a \x1b[1m-\x1b[0m\x1b[31m b\x1b[0m" in watched.shown
    assert "\x1b[2m2 \x1b[0m\x1b[32m+    return a \x1b[1m+\x1b[0m\x1b[32m b\x1b[0m" in watched.shown
    assert watched.show() == [
        "calc.py",
        "@@ -1,2 +1,2 @@",
        "1  def add(a, b):",
        "2 -    return a - b",
        "2 +    return a + b",
    ]


def test_a_narrow_terminal_and_a_pipe_have_the_changed_lines_alone():
    for how in ({"COLUMNS": "40"}, {"is_terminal": False}):
        watched = Watched(**how)
        watched.edits(Change("calc.py", b"def add(a, b):\n\treturn a - b\n", b"def add(a, b):\n\treturn a + b\n"))
        assert watched.plain == ["· edit calc.py", "    -    return a - b", "    +    return a + b"]
        assert ("\x1b[" in watched.shown) == ("COLUMNS" in how)


def test_hunks_keep_the_numbers_of_their_lines_and_a_mark_between_them():
    old = [f"line {number}" for number in range(1, 41)]
    new = [*old[:9], "line ten", *old[10:29], "in between", *old[29:]]
    watched = Watched()
    watched.edits(Change("a.py", "\n".join(old).encode(), "\n".join(new).encode()))
    assert watched.plain[1:] == [
        "     7  line 7", "     8  line 8", "     9  line 9", "    10 -line 10", "    10 +line ten", "    11  line 11", "    12  line 12",
        "    13  line 13", "    ⋮", "    27  line 27", "    28  line 28", "    29  line 29", "    30 +in between", "    31  line 30",
        "    32  line 31", "    33  line 32",
    ]  # fmt: skip
    assert len([line for line in watched.show() if line.startswith("@@ ")]) == 2


@pytest.mark.parametrize(
    ("old", "new", "bold"),
    [
        ("a = sum(rows)", "a = max(rows)", ["sum", "max"]),
        ("f(a)", "f(a, b)", [", b"]),
        ("wholly different", "nothing alike at all", []),
        ("x" * 600, "x" * 599 + "y", []),  # too long to compare
        ("\tif a:\x1b[31m", "\tif a and b:", [" and b"]),
    ],
)
def test_what_differs_within_a_line_is_bold(old, new, bold):
    watched = Watched(COLUMNS="100")
    watched.edits(Change("a.py", f"{old}\n".encode(), f"{new}\n".encode()))
    assert re.findall(r"\x1b\[1m(.*?)\x1b\[0m", watched.shown) == bold


@pytest.mark.parametrize("how", [{"is_terminal": False}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_an_edit_has_no_colours_where_there_are_none(how):
    watched = Watched(**how)
    watched.edits(Change("calc.py", b"a\n", b"b\n"))
    number = "" if how == {"is_terminal": False} else "1 "
    assert watched.shown == f"· edit calc.py\n    {number}-a\n    {number}+b\n"


def test_of_a_long_edit_the_first_lines_are_shown_and_the_rest_counted():
    made = Change("a.py", None, b"".join(b"line %d\n" % number for number in range(24)))
    watched = Watched(COLUMNS="40")
    watched.edits(made)
    assert watched.plain[1:] == [
        *(f"    +line {number}" for number in range(8)),
        "    … 16 more lines; all: --full",
    ]
    assert len(watched.show()) == 26
    watched = Watched()
    watched.edits(made)
    assert watched.plain[1:] == [
        *(f"    {number:2} +line {number - 1}" for number in range(1, 21)),
        "    … 4 more lines; all: --full",
    ]
    watched = Watched(is_full=True)
    watched.edits(made)
    assert watched.plain[-1] == "    24 +line 23"
    assert "more lines" not in watched.shown


def test_several_files_have_their_names_above_their_lines():
    watched = Watched()
    watched.edits(Change("gone.py", b"x\n", None), Change("made.py", None, b"y\n"), Change("bin", b"\0", b"\0\0"),
                  Change("a", b"same", None), Change("b", None, b"same"), Change("c", b"mode", b"mode"))  # fmt: skip
    assert watched.plain[1:] == [
        "    gone.py", "    1 -x", "    made.py", "    1 +y", "    bin", "    (no text, or too much of it: 1 to 2 bytes)", "    a → b",
    ]  # fmt: skip


def test_a_diff_whose_bytes_are_not_kept_says_so():
    watched = Watched()
    change = Change("a", b"x", b"y")
    watched.lines.look_up(lambda _: None, lambda _: None)
    watched.edits(change)
    assert watched.plain[-1] == "    (its content before is not kept)"


def test_secrets_and_sequences_in_a_diff_are_not_shown():
    key = "AKIA" + "IOSFODNN7ABCDEFG"
    watched = Watched()
    watched.edits(Change("a\x1b[2J", None, f"key = '{key}'\n\x1b]0;owned\x07\x1b[31mred\u202e\r\n".encode()))
    assert key not in watched.shown
    assert SGR.sub("", watched.shown).replace("\n", "").isprintable()
    assert watched.plain[-1] == "    2 +\\x1b]0;owned\\x07red\\u202e"


def test_a_command_shows_the_end_of_what_it_printed():
    watched = Watched()
    watched.runs("".join(f"line {number}\n" for number in range(10)), note="\nfiles changed: a.py")
    assert watched.plain == [
        "· shell make", "    (the last 4 of 10 lines; all: --full)",
        "    line 6", "    line 7", "    line 8", "    line 9", "    files changed: a.py",
    ]  # fmt: skip
    assert watched.show() == [f"line {number}" for number in range(10)]
    watched.lines.look_up(lambda _: None, lambda _: "")  # another session
    assert watched.show() == [f"line {number}" for number in range(10)]
    watched.lines.look_up(watched.contents.get, watched.pages.get)
    watched.runs("")
    assert watched.plain[-1] == "· shell make"


def test_at_an_input_line_what_is_folded_has_a_number_to_show_it_by(monkeypatch):
    watched = Watched(by_line=True)
    monkeypatch.setattr("sys.stdout", watched.screen)
    assert watched.show() == ["(nothing was edited, and no command printed anything)"]
    watched.runs("".join(f"line {number}\n" for number in range(10)))
    watched.edits(Change("a.py", None, b"".join(b"row %d\n" % number for number in range(21))))
    call = watched.begins("read", {"path": "gone.py"})
    said = "\n".join(f"reason {number}" for number in range(9))
    watched.lines(ToolEnded(turn=1, call_id=call, name="read", outcome="failed", output=said))
    shown = watched.plain
    assert "    … 6 more lines above; /show 1 shows them" in shown
    assert "    … 1 more line; /show 2 shows it" in shown
    assert "    … 5 more lines; /show 3 shows them" in shown
    assert watched.show(1) == [f"line {number}" for number in range(10)]
    assert watched.show(2)[-1] == "21 +row 20"
    assert watched.show(3) == watched.show() == said.splitlines()
    assert watched.show(4) == ["(there is no 4; the last is 3)"]
    for _ in range(100):
        watched.runs("again\n")
    assert watched.show(3) == ["(3 is no longer kept; the trail of the session has it: periplus trail list)"]
    assert watched.show(4) == ["again"]


def test_a_command_that_failed_shows_its_end_too():
    watched = Watched(is_terminal=False)
    watched.runs("1\n2\n3\n4\n5\n6\n", outcome="failed", title="exit 1 in 0.1 s")
    assert watched.plain[1:] == [
        "  failed: exit 1 in 0.1 s", "    (the last 4 of 6 lines; all: --full)", "    3", "    4", "    5", "    6",
    ]  # fmt: skip


def test_of_what_the_model_is_told_in_part_all_is_shown():
    """The model sees the beginning and the end of a long output; the person has all of it."""
    said = [f"line {number} {'x' * 90}" for number in range(1_000)]
    watched = Watched(is_full=True)
    watched.runs("\n".join(said) + "\n")
    assert [line.strip() for line in watched.plain[1:]] == said
    assert watched.show() == said


def test_what_was_written_over_and_coloured_by_a_command_is_shown_plainly_and_cut():
    watched = Watched()
    watched.runs("10 %\r20 %\r99 %\r\n\x1b[1;31mred\x1b[0m\x1b[2J\n" + "w" * 5_000)
    assert watched.plain[1:3] == ["    99 %", "    red\\x1b[2J"]
    assert watched.plain[3] == "    " + "w" * 55 + "…"


def test_subagents_have_the_lines_they_had():
    watched = Watched()
    watched.runs("1\n2\n", agent="s/a1")
    watched.runs("1\n2\n", agent="s/a1", outcome="failed", title="exit 1 in 0.1 s")
    assert watched.plain == ["    a1 · shell make", "    a1 · shell make", "    a1   failed: exit 1 in 0.1 s"]


def test_what_ends_beside_another_call_says_whose_it_is():
    watched = Watched()
    first, second = watched.begins("shell", {"command": "one"}), watched.begins("shell", {"command": "two"})
    for call in (first, second):
        watched.lines(ToolEnded(turn=1, call_id=call, name="shell", outcome="ok", output="exit 0 in 1 s\nhere", handle="@periplus/output/9.txt"))  # fmt: skip
    assert watched.plain[2:] == ["  shell one printed:", "    here", "    here"]


ANSWER = """# Plan

I **mend** `calc.py` and Vec<T>
in two lines:

1. one

2. two

```python
a = 1

b = 2
```

| a | b |
|---|---|
| 1 | 2 |
"""


def test_an_answer_is_rendered_at_a_terminal():
    pytest.importorskip("rich")
    watched = Watched()
    watched.says(ANSWER)
    assert watched.plain == [
        "Plan", "", "I mend calc.py and Vec<T>", "in two lines:", "", " 1 one", " 2 two", "", " a = 1", "", " b = 2", "",
        " a  b", " ────", " 1  2",
    ]  # fmt: skip
    assert "\x1b[1mmend\x1b[0m" in watched.shown


def test_an_answer_is_rendered_without_colours():
    pytest.importorskip("rich")
    watched = Watched(NO_COLOR="1")
    watched.says("**so** it is\n")
    assert watched.shown == "so it is\n"


@pytest.mark.parametrize("how", [{"is_terminal": False}, {"TERM": "dumb"}])
def test_elsewhere_an_answer_is_the_text_that_it_is(how):
    watched = Watched(**how)
    watched.says(ANSWER)
    assert watched.shown == ANSWER


def test_without_rich_an_answer_is_the_text_that_it_is(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rich", None)
    watched = Watched()
    watched.says(ANSWER)
    assert watched.shown == ANSWER


def test_a_block_is_shown_once_it_is_whole():
    pytest.importorskip("rich")
    watched = Watched(NO_COLOR="1")
    watched.lines(TextGrown(turn=1, text="One *par"))
    watched.lines(AgentStarted(turn=1, session="s/a1", name="", mode="ask", task="x"))
    watched.lines(Noticed(turn=1, text="by the way"))
    watched.lines(TextGrown(turn=1, text="agraph*.\n"))
    assert watched.plain == ["  ↳ a1 begins (ask)", "(by the way)"]
    watched.lines(TextGrown(turn=1, text="\nAnd **an"))
    assert watched.plain[2:] == ["One paragraph."]
    watched.lines(AnswerRestarted(turn=1))
    watched.says("Anew.")
    assert watched.plain[3:] == ["", "And **an", "(the answer was interrupted and starts again)", "Anew."]


@pytest.mark.parametrize(
    "text",
    ["\x1b]0;owned\x07 \x1b[2J", "&#27;[2J &#x9b;2J &#x202e; &#13; &#12;", "[x](http://e.org/\x1b[2J&#27;)",
     "```\x1b[2J\n\x1b[2J&#27;\n```", "<b>\x1b[2J</b>", "| \x1b[2J | a |\n|---|---|\n| \x9b2J | b |", "\x1b[31mred"],
)  # fmt: skip
def test_nothing_in_an_answer_moves_the_cursor(text):
    watched = Watched()
    watched.says(text)
    rest = SGR.sub("", watched.shown).replace("\n", "")
    assert rest.isprintable()
    assert "\\x1b[31m" in rest or "\x1b[31mred" not in watched.shown


@pytest.mark.parametrize("piece", [1, 3, 1000])
def test_blocks_hold_everything_whatever_the_pieces_are(piece):
    text = (
        ANSWER + "\n- a\n\n  b\n\n  ```\n  x\n\n  - y\n  ```\n- c\n\nend\n~~~~\n```\n\n~~~\n~~~~\nSteps:\n- a\n\n- b\n"
    )
    blocks, found = Blocks(), []
    for at in range(0, len(text), piece):
        found += blocks.feed(text[at : at + piece])
    found += blocks.end()
    assert [one.text for one in found] == [
        "# Plan", "I **mend** `calc.py` and Vec<T>\nin two lines:", "1. one\n\n2. two", "```python\na = 1\n\nb = 2\n```",
        "| a | b |\n|---|---|\n| 1 | 2 |", "- a\n\n  b\n\n  ```\n  x\n\n  - y\n  ```\n- c", "end", "~~~~\n```\n\n~~~\n~~~~",
        "Steps:\n- a\n\n- b",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["w" * 70_000, "word\n" * 14_000, "```\n" + "- x\n\n" * 14_000 + "```"])
def test_a_block_that_is_too_long_is_shown_as_it_came(text):
    blocks = Blocks()
    found = [one for at in range(0, len(text), 999) for one in blocks.feed(text[at : at + 999])]
    found += blocks.end()
    assert all(one.is_raw for one in found)
    assert max(len(one.text) for one in found) < BLOCK_CHARS_MAX + 2_000
    watched = Watched()
    watched.says(text, 999)
    assert watched.shown.rstrip("\n") == text.rstrip("\n")
