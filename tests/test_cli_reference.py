"""The reference is the one of this command line, and every help says what it must."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path
from typing import get_args

import pytest

from command_runner import run_command
from periplus.agent.events import Event
from periplus.cli.main import COMMANDS, leaves, make_parser
from periplus.cli.reference import ALL_SCHEMAS, cli_reference, json_reference, write_reference
from periplus.cli.reference_pages.entities import FIELDS, entity_reference
from periplus.cli.reference_pages.events import event_reference
from periplus.cli.reference_pages.python_api import PARTS, python_reference
from periplus.memory.entities.schemas import Common
from periplus.memory.entities.types import TYPES

pytestmark = pytest.mark.quick

DOCS = Path(__file__).resolve().parents[1] / "docs/reference"


@pytest.mark.slow
def test_the_reference_is_current(tmp_path):
    write_reference(os.fspath(tmp_path))
    for path in tmp_path.iterdir():
        assert (DOCS / path.name).read_text() == path.read_text(), (
            "run: python -m periplus.cli.reference docs/reference"
        )


def test_every_type_state_transition_cascade_and_field_stands_in_the_reference_of_entities():
    text = entity_reference()
    used = {name for row in TYPES for name in row.schema.__struct_fields__}
    assert set(FIELDS) == used, "each field is told of, and nothing that is none"
    parts = dict(zip(text.split("\n## ")[2:], text.split("\n## ")[2:], strict=True))
    for row in TYPES:
        (part,) = (one for one in parts if one.startswith(f"{row.name}\n"))
        assert f"| [{row.name}](#{row.name}) | `{row.prefix}` | {row.meaning} |" in text
        for state, following in row.transitions.items():
            assert re.search(
                rf"^\| {state}( \(initial\))?( \(final\))? \| {', '.join(sorted(following)) or '–'} \|$",
                part,
                re.MULTILINE,
            )
        for cascade in row.cascades:
            assert f"becomes {cascade.to} with it" in part
        for name in set(row.schema.__struct_fields__) - set(Common.__struct_fields__):
            assert f"| `{name}` | " in part


def test_every_event_says_what_it_is_and_what_each_of_its_fields_holds():
    text = event_reference()
    for one in get_args(Event):
        assert one.__doc__, one.__name__
        (part,) = (part for part in text.split("\n## ") if part.startswith(f"{one.__struct_config__.tag}\n"))
        common = {"turn", "step", "agent"}
        assert all(f"\n| `{name}` | " in part for name in set(one.__struct_fields__) - common)
    for anchor in re.findall(r"\(#(\w+)\)", text):
        assert f"\n## {anchor}\n" in text


@pytest.mark.parametrize("part", [part for _, _, part in PARTS], ids=lambda part: part.__name__)
def test_every_method_of_the_python_api_says_what_it_does_in_the_reference(part):
    text = python_reference()
    for name, value in vars(part).items():
        function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if not name.startswith("_") and (inspect.isfunction(function) or isinstance(value, property)):
            assert function.__doc__, name
            assert f".{name}\n" in text


@pytest.mark.slow
def test_the_reference_names_every_command_option_and_schema():
    text = cli_reference()
    for command in COMMANDS:
        for leaf in leaves_of(command.name):
            assert f"\n## {leaf.prog}\n" in text
            for action in leaf._actions:
                assert all(f"`{option}" in text for option in action.option_strings if option not in ("-h", "--help"))
    schemas = json_reference()
    for name, schema in ALL_SCHEMAS.items():
        assert f"\n## {name}\n" in schemas
        assert f"| `schema` | `{schema.__struct_config__.tag}` |" in schemas


def test_no_two_documents_have_one_name():
    names = [str(one.__struct_config__.tag) for one in set(ALL_SCHEMAS.values())]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_option_says_what_it_is_and_its_default(command):
    for leaf in leaves_of(command.name):
        assert leaf.description
        for action in leaf._actions:
            assert action.help, (leaf.prog, action.dest)
            if action.default not in (None, False, "", [], "==SUPPRESS=="):
                said = "this one" if action.default == "." else action.default
                assert f"(default: {said}" in action.help, (leaf.prog, action.dest)


@pytest.mark.parametrize(
    "words",
    [
        [],
        *([command.name] for command in COMMANDS),
        *(["trail", action] for action in ("compile", "decode", "encode", "import", "list", "show", "verify")),
    ],
    ids=" ".join,
)
def test_help_reads_well_at_eighty_columns(words, tmp_path):
    environment = {"PATH": os.environ["PATH"], "COLUMNS": "80"}
    code, out, err = run_command([*words, "--help"], environment=environment, cwd=tmp_path)
    text = out.decode()
    assert (code, err) == (0, b"")
    assert text.startswith(f"usage: {' '.join(['periplus', *words])}")
    paragraph = text.split("\n\n")[1]
    assert paragraph[0].isupper()
    assert paragraph.endswith(".")
    assert all(len(line) <= 80 for line in text.splitlines())
    assert os.listdir(tmp_path) == []


def leaves_of(name):
    for action in make_parser(name)._actions:
        if isinstance(action.choices, dict):
            return leaves(action.choices[name])
    raise LookupError(name)
