"""Every command line that a page or a message of ours tells people to type is one: the command, its action and its options."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from periplus.cli.main import COMMANDS, leaves, make_parser

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[1]
PAGES = [
    path
    for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    if "decisions" not in path.parts and path.name != "cli.md"
]
SOURCES = sorted((ROOT / "src/periplus").rglob("*.py"))
NAMES = {command.name for command in COMMANDS}
# A word of a command line ends where prose or code goes on.
TYPED = re.compile(r"(?:`|\$ |: |^|, |\()periplus ([a-z][a-z-]*)((?: [^\s`;|<>#…,]+)*)", re.MULTILINE)
NO_COMMANDS = {"is", "has", "and", "are", "only", "itself"}  # prose that begins a line


@cache
def options_of(command):
    parser = make_parser(command)
    (actions,) = (one for one in parser._actions if one.dest == "command")
    return {
        leaf.prog.removeprefix("periplus "): {name for action in leaf._actions for name in action.option_strings}
        for leaf in leaves(actions.choices[command])
    }


def typed_in(text):
    for match in TYPED.finditer(text):
        yield match[1], match[2].split(), match[0].strip()


def wrong_in(text):
    """What is told to be typed and could not be."""
    for command, words, whole in typed_in(text):
        if command not in NAMES:
            if command not in NO_COMMANDS:
                yield whole
            continue
        known = options_of(command)
        if command in known:
            options = known[command]
        elif not words or not re.fullmatch(r"[a-z]+", words[0]):
            continue
        elif f"{command} {words[0]}" in known:
            options = known[f"{command} {words[0]}"]
        else:
            yield whole
            continue
        for word in words:
            name = re.match(r"--[a-z][a-z-]*", word)
            if name is not None and name[0] not in options:
                yield f"{whole} has no {name[0]}"


@pytest.mark.parametrize("path", [*PAGES, *SOURCES], ids=lambda path: str(path.relative_to(ROOT)))
def test_what_people_are_told_to_type_exists(path):
    assert list(wrong_in(path.read_text())) == []


def test_what_is_wrong_is_found():
    text = "Run `periplus recal x`, `periplus trail lst`, `periplus recall x --lim 3`; `periplus recall x --limit 3` is fine.\n"
    assert list(wrong_in(text)) == [
        "`periplus recal x", "`periplus trail lst", "`periplus recall x --lim 3 has no --lim",
    ]  # fmt: skip
    assert sum(len(list(typed_in(page.read_text()))) for page in PAGES) > 200
