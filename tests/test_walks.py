"""The walks and the terms of the documentation are those of the code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from bench.walks import OPERATIONS, walked

ROOT = Path(__file__).resolve().parents[1]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
HEADINGS = {
    "remember": "One `remember`",
    "recall": "One `recall`",
    "import": "One import",
    "turn": "One turn of the agent",
    "sync": "One `sync`",
    "hook": "One hook",
}


def named(text):
    """The names in back quotes that stand at the beginning of a step."""
    return re.findall(r"^\d+\. `([\w.]+)`", text, re.MULTILINE)


def steps_of(operation):
    section = ARCHITECTURE.partition(f"\n### {HEADINGS[operation]}\n")[2].partition("\n#")[0]
    return named(section)


def resolve(dotted):
    """The module and the object that ``dotted``, relative to ``periplus``, names."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(["periplus", *parts[:cut]]))
        except ModuleNotFoundError:
            continue
        module = found
        for part in parts[cut:]:
            found = getattr(found, part)
        return module, found
    raise AssertionError(f"periplus.{dotted} is no module")


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_walk_goes_as_the_page_says(tmp_path, operation):
    steps = steps_of(operation)
    assert len(steps) >= 4
    for step in steps:
        resolve(step)
    walk = walked(operation, str(tmp_path))
    way = [f"{stay.module.removeprefix('periplus.')}.{name}" for stay in walk.stays for name in stay.functions]
    assert [step for step in steps if step not in way] == []
    places = [way.index(step) for step in steps]
    assert places == sorted(places), [
        steps[place] for place in range(1, len(places)) if places[place] < places[place - 1]
    ]


def test_every_operation_has_a_walk_on_the_page():
    assert set(HEADINGS) == set(OPERATIONS)


def test_every_name_on_the_page_exists():
    for dotted in re.findall(r"`((?:base|cli|journal|project)(?:\.\w+)+)`", ARCHITECTURE):
        resolve(dotted)


def test_every_package_of_the_store_serves_a_promise():
    table = ARCHITECTURE.partition("\n## Which promise each package serves\n")[2].partition("\n## ")[0]
    served = re.findall(r"`((?:journal|project)\.\w+)`", table)
    source = ROOT / "src" / "periplus"
    there = {f"{room}.{path.stem}" for room in ("journal", "project") for path in (source / room).iterdir()
             if path.suffix == ".py" or (path / "__init__.py").exists()} - {"journal.__init__", "project.__init__"}  # fmt: skip
    assert sorted(served) == sorted(there)


def test_every_term_of_the_glossary_is_owned_by_a_module():
    tables = GLOSSARY.split("\n## ")[1:]
    terms = []
    for table in tables:
        rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| `([\w.]+)` \|$", table, re.MULTILINE)
        words = [word for word, _, _ in rows]
        assert words == sorted(words)
        terms += words
        for _, _, module in rows:
            importlib.import_module(f"periplus.{module}")
    assert len(terms) == len(set(terms)) >= 40
