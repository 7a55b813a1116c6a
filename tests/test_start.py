"""What makes commands start fast must not change what they say: the short ways give what the long ones give."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from hashlib import sha256
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from periplus.base.clock import parse_past_ms
from periplus.base.encoding.canonical import canonical
from periplus.base.encoding.toml_subset import plain_tables
from periplus.cli.main import COMMANDS, leaves, main, make_parser
from periplus.journal import Entity
from periplus.journal.records.record import version_id
from periplus.journal.storage.settings import new_settings_text

_PIECES = [
    "[store]", "[ journal ] # c", "[store", "[a.b]", "[[a]]", 'id = "x"', 'id="a # b" # c', 'id = ""', 'id = """', "id = 'x'", 'id = "a\\n"',
    "format = 1", "format = 0", "format = -1", "format = 01", "format = 1_000", "format = 1.5", "flag = true", "flag = false # no", "flag = TRUE",
    "# comment", "#\x01", "", "   ", "\tkey\t=\t2", "a.b = 1", '"q" = 1', "key", "= 1", "key = ", "key = 1 2", "ключ = 1", 'id = "é"', "\r", "x = 1\r",
    "n = 99999999999999999999", "n = 12345678901234567 # n", "store = 1",
]  # fmt: skip


@given(st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=12)), max_size=7).map("\n".join))
def test_what_is_read_without_the_library_is_what_the_library_reads(text):
    found = plain_tables(text)
    if found is not None:
        assert found == tomllib.loads(text)


def test_the_settings_of_a_new_store_need_no_library():
    text = new_settings_text("str_0123456789abcdef")
    assert plain_tables(text) == tomllib.loads(text)
    assert plain_tables(text + '[reflect]\naccept_from = 80  # sure\n[hooks]\nclaimed = "ask"\n') is not None


_TEXTS = st.one_of(
    st.text(max_size=6), st.sampled_from(["note", "dec_0123456789abcdef", 'a"b', "a\\b", "é", "\x7f", "\u2028", " "])
)


@given(_TEXTS, _TEXTS, st.booleans(), st.one_of(st.none(), st.just(b'{"a":1}')), st.lists(_TEXTS, max_size=3))
def test_a_version_is_the_hash_of_its_canonical_form(item_type, item_id, deleted, payload, parents):
    whole = {"item_type": item_type, "item_id": item_id, "deleted": deleted, "parents": sorted(parents),
             "payload": None if payload is None else orjson.loads(payload)}  # fmt: skip
    expected = sha256(canonical(whole)).hexdigest()
    assert version_id(item_type, item_id, deleted=deleted, payload=payload, parents=tuple(parents)) == expected


_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.text(max_size=6), _VALUES, max_size=4))
def test_a_payload_is_decoded_as_it_was_judged(value):
    import json

    payload = json.dumps(value, ensure_ascii=False).encode()
    entity = Entity("note", "not_1", "", (), (), 1, False, payload, "", "", "", "", 0)
    expected = orjson.loads(payload)
    assert entity.value == expected
    assert repr(entity.value) == repr(expected)  # 1 is not 1.0


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_a_parser_that_knows_one_command_says_the_same_of_it(command):
    def shown(parser):
        return [leaf.format_help() for leaf in leaves(parser) if leaf.prog.split()[1] == command]

    assert shown(make_parser(command, is_alone=True)) == shown(make_parser(command)) != []


def test_a_command_behind_an_option_is_understood_or_told_as_ever(capsys):
    assert main(["--nonsense", "recall"]) == 2
    said = capsys.readouterr().err
    assert "recall --help" in said


@pytest.mark.parametrize(
    ("text", "ago_ms"), [("30m", 1_800_000), ("45min", 2_700_000), ("2h", 7_200_000), ("3d", 259_200_000), ("1w", 604_800_000),
                         ("0h", 0), ("h", None), ("2", None), ("2y", None), ("-1h", None), ("1.5h", None), ("9999999h", None), ("1 h", None)])  # fmt: skip
def test_so_long_ago_is_a_time(text, ago_ms):
    now_ms = 1_767_225_600_000
    assert parse_past_ms(text, now_ms) == (None if ago_ms is None else now_ms - ago_ms)
    assert parse_past_ms("2026-01-01", 5) == parse_past_ms("2026-01-01T00:00:00Z", 7) == now_ms


def test_typing_extensions_is_there_for_who_asks_later():
    code = (
        "import sys\nfrom periplus.base.import_trimming import load_msgspec\nload_msgspec()\n"
        "assert 'msgspec' in sys.modules and 'typing_extensions' not in sys.modules\n"
        "import typing_extensions, msgspec\nfrom typing import Required, TypedDict\n"
        "class Said(TypedDict, total=False):\n    a: Required[int]\n    b: str\n"
        "assert msgspec.json.decode(b'{\"a\": 1}', type=Said) == {'a': 1}\n"
        "try:\n    msgspec.json.decode(b'{}', type=Said)\nexcept msgspec.ValidationError:\n    print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "refused\n"


def test_the_package_is_run_as_the_command(tmp_path):
    def run(*words):
        return subprocess.run([sys.executable, "-m", "periplus", *words], cwd=tmp_path, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
                              input="", capture_output=True, text=True, timeout=60)  # fmt: skip

    assert run("--version").stdout.startswith("periplus ")
    assert run("init").returncode == 0
    wrong = run("recal")
    assert (wrong.returncode, "Did you mean `periplus recall`?" in wrong.stderr) == (2, True)
    assert run("hook", "SessionStart", "--agent", "claude-code").returncode == 0
    # What an agent is told to start is a program, not a file of the package.
    assert run("connect", "claude-code", "--yes").returncode == 0
    started = orjson.loads((tmp_path / ".mcp.json").read_bytes())["mcpServers"]["periplus"]
    assert started["command"] == str(Path(sys.executable).with_name("periplus"))
