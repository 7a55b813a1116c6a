"""Definitions and references of shells: functions, variables, sourced files, tests of Bats."""

from __future__ import annotations

import time

import pytest

from code_project import outline, project
from periplus.code import symbols_of

pytestmark = pytest.mark.quick

TOOL = {
    "bin/tool": """#!/usr/bin/env bash
DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$(dirname "$0")/../lib/log.sh"
. "${BASH_SOURCE%/*}/extra.bash"
source "$DIR/plain"
source ../lib/math.sh
source /etc/profile
source "$(compute)"
VERSION=1
main() {
  local name="$1" log_level
  log "$name $log_level $VERSION $LEVEL"
  add 1; unknown; grep x
  count=$((count + 1))
  for one in "$@"; do echo "$one $PATH $1"; done
  while read -r line; do echo "$line"; done < <(add 2)
  if log x; then total="$(add 3)"; fi
  ../lib/run.sh now
}
trap main EXIT
LEVEL=2 log now
main "$@" && \\log end
""",
    "bin/extra.bash": "extra() { log; }\nsource ./lib/run.sh\n",
    "bin/plain": "#!/bin/sh\nplain() { :; }\n",
    "lib/log.sh": 'LEVEL=1\n# Log it.\nlog() { echo "$LEVEL"; nested() { :; }; }\nsource "$HERE/math.sh"\n',
    "lib/math.sh": "add() { :; }\ncount=0\n",
    "lib/run.sh": "#!/bin/sh\nadd() { :; }\nplain; extra; nested\n",
    "test/tool.bats": """setup() {
  load helper
}
@test "adds one" {
  run add 1
  [ "$status" -eq 0 ]
  check
}

@test 'logs a/b' { # comment
  local add=1
  add "$add"
}
check() { :; }
""",
    "test/helper.bash": 'source "${BATS_TEST_DIRNAME}/../lib/math.sh"\ncheck() { :; }\n',
}


@pytest.fixture(scope="module")
def tool():
    return project(TOOL)


@pytest.mark.parametrize(
    ("path", "line", "expected"),
    [
        ("bin/tool", 3, {"log": "lib/log.sh proven"}),
        ("bin/tool", 4, {"extra": "bin/extra.bash proven"}),
        ("bin/tool", 5, {"plain": "bin/plain likely", "DIR": "bin/tool:DIR proven"}),
        ("bin/tool", 6, {"math": "lib/math.sh proven"}),
        ("bin/tool", 7, {"profile": "external"}),
        ("bin/tool", 8, {"compute": "external"}),
        ("bin/tool", 11, {}),
        ("bin/tool", 12, {"log": "lib/log.sh:log proven", "VERSION": "bin/tool:VERSION proven", "LEVEL": "lib/log.sh:LEVEL proven"}),
        ("bin/tool", 13, {"add": "lib/math.sh:add, lib/run.sh:add likely", "unknown": "external"}),
        ("bin/tool", 14, {"count": "lib/math.sh:count proven"}),
        ("bin/tool", 15, {}),
        ("bin/tool", 18, {"run": "lib/run.sh proven"}),
        ("bin/tool", 20, {"main": "bin/tool:main proven"}),
        ("bin/tool", 21, {"log": "lib/log.sh:log proven"}),
        ("bin/tool", 22, {"main": "bin/tool:main proven", "log": "lib/log.sh:log proven"}),
        ("bin/extra.bash", 1, {"log": "lib/log.sh:log likely"}),
        ("bin/extra.bash", 2, {"run": "lib/run.sh likely"}),
        ("lib/log.sh", 4, {"math": "lib/math.sh likely"}),
        ("lib/run.sh", 3, {"plain": "bin/plain:plain likely", "nested": "lib/log.sh:log.nested likely"}),
        ("test/tool.bats", 2, {"helper": "test/helper.bash proven"}),
        ("test/tool.bats", 5, {"add": "lib/math.sh:add proven"}),
        ("test/tool.bats", 6, {}),
        ("test/tool.bats", 7, {"check": "test/tool.bats:check proven"}),
        ("test/tool.bats", 12, {"add": "lib/math.sh:add proven"}),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_name_leads_to_its_definition(tool, path, line, expected):
    answers = tool.answers(path, line)
    assert {name: answers.get(name) for name in expected} == expected
    if not expected:
        assert answers == {}


def test_definitions_of_all_kinds():
    text = (
        "VERSION=1\ndeclare -r CONST=x\nreadonly OTHER=2\nexport PATHS FOO=1\nalias ll='ls -l' la=ls\nhello() {\n  local x=1 y\n  z=2\n}\n"
        "function bye { :; }\nfunction ns::fn() ( sub )\n_private() { :; }\nif true; then late() { :; }; fi\nFOO=1 hello\narr+=(1)\n"
    )
    assert outline("a.sh", text) == [
        "value VERSION 1", "value CONST 2", "value OTHER 3", "value FOO 4", "macro ll 5", "macro la 5", "function hello 6",
        "function bye 10", "function ns::fn 11", "function _private 12 -", "function late 13", "value arr 15",
    ]  # fmt: skip


def test_tests_of_bats_take_in_their_bodies():
    assert outline("test/tool.bats", TOOL["test/tool.bats"]) == [
        "function setup 1", "test adds one 4 test", "test logs a/b 10 test", "function check 14",
    ]  # fmt: skip
    found = symbols_of("a.bats", TOOL["test/tool.bats"].encode()).found
    assert [(one.name, one.start_line, one.end_line) for one in found][1:3] == [
        ("adds one", 4, 8),
        ("logs a/b", 10, 13),
    ]


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("source lib/a.sh", "lib/a.sh"),
        (". './a.sh'", "./a.sh"),
        ('. "$(dirname "$0")/a.sh"', "./a.sh"),
        ('. "$(dirname -- "${BASH_SOURCE[0]}")/x/a.sh"', "./x/a.sh"),
        (". `dirname $0`/a.sh", "./a.sh"),
        ('source "${0%/*}/../a.sh"', "./../a.sh"),
        ('source "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/a.sh"', "./a.sh"),
        ('source "$ROOT/lib/a.sh"', "$ROOT/lib/a.sh"),
        ('source "${ROOT}/lib/a.sh"', "${ROOT}/lib/a.sh"),
        ('source "$ROOT/$x.sh"', None),
        ('source "$file"', None),
        ("source <(echo x)", None),
        ("load helper", "./helper.bash"),
        ("load ../x.bash", "./../x.bash"),
    ],
)
def test_paths_of_sourced_files(text, module):
    facts = project({"a.sh": f"{text}\n"}).sources.file("a.sh").facts
    assert [one.module for one in facts.imports] == ([module] if module else [])


@pytest.mark.parametrize("path", ["a.sh", "a.bash", "a.bats", "a.zsh", ".bashrc"])
def test_files_of_shells_by_their_names(path):
    assert [one.name for one in symbols_of(path, b"f() { :; }\n").found] == ["f"]


@pytest.mark.parametrize(
    "head", [b"#!/bin/bash", b"#!/usr/bin/env bash", b"#!/bin/sh -e", b"#!/usr/bin/env -S bash -e"]
)
def test_scripts_without_extension_by_their_interpreter(head):
    found = project({"bin/x": head.decode() + "\nf() { :; }\n"}).sources.file("bin/x")
    assert found is not None
    assert (found.facts.language, [one.name for one in found.definitions]) == ("bash", ["f"])


@pytest.mark.parametrize(
    "text",
    ["f() {", "@test", '@test "x" {', '@test "x" {\n' * 3_000, "source", "alias", "alias =", "local", "x=(", "$(" * 3_000,
     "f() { " * 2_000, "cat <<EOF\n$(", "a | " * 5_000, "source ./a.sh\n" * 2_000, "[[ $x == (", "read", "printf -v", "trap", "case",
     "x=1\n" * 20_000, "${" * 3_000, 'source "$(dirname ' + '"$(' * 300],
    ids=lambda text: f"{text[:30]!r}",
)  # fmt: skip
def test_a_hostile_file_is_answered_in_time(text):
    begun = time.process_time()
    symbols_of("a.sh", text.encode())
    assert time.process_time() - begun < 10


def test_files_that_source_each_other_end():
    found = project(
        {"a.sh": "source ./b.sh\nsource ./a.sh\nf\n", "b.sh": "source ./a.sh\nf() { g; }\n", "c.sh": "g() { :; }\n"}
    )
    assert found.answers("a.sh", 3) == {"f": "b.sh:f proven"}
    assert found.answers("b.sh", 2) == {"g": "c.sh:g likely"}
