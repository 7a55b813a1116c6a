"""What docs/guides/recording.md shows is run."""

from __future__ import annotations

import json
import re
from pathlib import Path

from cli_support import Shell, make_repository

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "guides" / "recording.md").read_text()


def block(language, number=0):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[number]


def test_the_python_example_records_and_verifies(tmp_path, monkeypatch):
    folder = make_repository(tmp_path / "engine")
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(folder)
    values = {}
    exec(compile(block("python"), "docs/guides/recording.md", "exec"), values)
    assert values["index"] == 4
    shell = Shell(folder, tmp_path / "home")
    found = shell.json("trail", "list").trails[0]
    assert (found.value["title"], found.value["status"]) == ("Oil the engine", "success")
    # The example only says that it writes; the file is not there, and so it is said.
    done = shell.json("trail", "verify", "--effects", found.id, code=1).trails[0].effects[0]
    assert (done.verdict, done.first_wrong) == ("not shown", None)


def test_the_example_of_lines_is_answered_as_shown(tmp_path):
    shell = Shell(make_repository(tmp_path / "engine"), tmp_path / "home")
    shell.home.mkdir()
    shell("init")
    command, *lines = block("console").splitlines()
    assert command.startswith("$ periplus trail record --agent ada/1")
    said = [json.loads(line) for line in lines]
    sent = [one for one in said if "op" in one]
    shown = [one for one in said if "op" not in one]
    done = shell("trail", "record", "--agent", "ada/1", stdin="".join(json.dumps(one) + "\n" for one in sent))
    answers = [json.loads(line) for line in done.lines if line.startswith("{")]
    assert [list(one) for one in answers] == [list(one) for one in shown]
    assert [one.get("index") for one in answers] == [one.get("index") for one in shown]
