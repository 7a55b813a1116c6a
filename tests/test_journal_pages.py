"""The pages that say which test shows what: each fault and each part of the journal has one, and it is there."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from test_every_file import KINDS

DOCS = Path(__file__).resolve().parents[1] / "docs"
NAMED = re.compile(r"`(test_\w+)::(\w+)`")


@functools.cache
def functions_of(file):
    tree = ast.parse(Path(__file__).with_name(f"{file}.py").read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_fault_is_on_the_page_and_every_test_that_it_names_exists():
    rows = re.findall(
        r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \|$", (DOCS / "internals" / "faults.md").read_text(), re.MULTILINE
    )
    assert [int(number) for number, *_ in rows] == list(range(1, 41))
    for number, _, _, tests in rows:
        named = NAMED.findall(tests)
        assert named, f"fault {number} has no test"
        for file, test in named:
            assert test in functions_of(file), f"fault {number}: there is no {file}.py::{test}"


@pytest.mark.slow
def test_every_part_of_the_journal_is_shown_by_tests_that_exist():
    rows = re.findall(
        r"^\| ([A-Z`].+?) \| (.+?) \|", (DOCS / "internals" / "journal-evidence.md").read_text(), re.MULTILINE
    )
    assert len(rows) >= 22
    for what, tests in rows:
        named = NAMED.findall(tests)
        assert named or "benchmarks.md" in tests, f"nothing shows this: {what}"
        for file, test in named:
            assert test in functions_of(file), f"{what}: there is no {file}.py::{test}"


def test_the_format_names_whatever_lies_in_a_store():
    listed = (
        (DOCS / "formats" / "journal.md").read_text().partition("## The store's folder\n\n```\n")[2].partition("```")[0]
    )
    table = (DOCS / "reference" / "store-files.md").read_text()
    on_disk = {
        name for row in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE) for name in re.findall(r"`(.+?)`", row)
    }
    assert len(on_disk) > 15
    for name in on_disk:
        first = name.removesuffix("-wal").split("/")[0]
        assert re.search(rf"^  {re.escape(first)}(/| )", listed, re.MULTILINE), f"{name} is not in the format's list"
    for kind in KINDS:  # each file that the tests of every file know
        first = re.split(r"[/(\\]", kind.path.removeprefix("("))[0].replace("config", "config.toml")
        assert first in listed, f"{kind.name} is not in the format's list"


def test_every_variable_that_a_page_names_is_one_that_a_test_reads():
    """So that the longer form is no word on paper."""
    source = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    for page in ("faults.md", "journal-evidence.md"):
        for name in set(re.findall(r"PERIPLUS_\w+", (DOCS / "internals" / page).read_text())):
            assert f'"{name}"' in source, f"{page}: nothing reads {name}"
