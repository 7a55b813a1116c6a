"""The help of a command has an example that is one, and who types what is nearly right is told what is right."""

from __future__ import annotations

import argparse
import shlex

import pytest

from periplus.base.errors import UsageError
from periplus.cli.common.examples import EXAMPLES
from periplus.cli.common.suggestions import _MEANT, command_meant
from periplus.cli.main import ALONE, COMMANDS, PARTS, _parse, leaves, main, make_parser
from periplus.project import Project

NAMES = [command.name for command in COMMANDS]
ALL = [(command, one) for command, some in EXAMPLES.items() for one in some]


def leaf_names():
    for name in NAMES:
        (actions,) = (one for one in make_parser(name)._actions if one.dest == "command")
        yield from (leaf.prog.removeprefix("periplus ") for leaf in leaves(actions.choices[name]))


@pytest.mark.slow
def test_every_command_has_examples_and_nothing_else_has():
    assert sorted(EXAMPLES) == sorted(leaf_names())


@pytest.mark.parametrize(("command", "example"), ALL, ids=[example for _, example in ALL])
def test_an_example_is_understood(command, example):
    assert f"  periplus {example}" == f"  periplus {example}".rstrip()
    assert len(f"  periplus {example}") <= 80
    assert example == command or example.startswith(f"{command} ")
    words = shlex.split(example.partition(" < ")[0])
    assert make_parser(words[0]).parse_args(words).command == words[0]


@pytest.mark.parametrize("words", [["help", "trail", "show"], ["trail", "show", "--help"]], ids=" ".join)
def test_help_ends_with_examples(words, capsys):
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith("usage: periplus trail show")
    assert said.endswith("\nexamples:\n" + "".join(f"  periplus {one}\n" for one in EXAMPLES["trail show"]))


def test_help_has_the_commands_in_parts(capsys):
    with pytest.raises(SystemExit):
        main(["help"])
    said = capsys.readouterr().out
    for first, title in PARTS.items():
        assert f"\n  {title}:\n    {first} " in said
    assert set(PARTS) <= set(NAMES)


def test_what_other_programs_call_a_command_is_none_of_ours():
    assert set(_MEANT.values()) <= set(NAMES)
    assert not set(_MEANT) & set(NAMES)
    assert all(command_meant(word, NAMES) in NAMES for word in _MEANT)


@pytest.mark.parametrize(
    ("words", "wrong", "advice"),
    [
        (["search", "x"], "unknown command 'search'", "Did you mean `periplus recall`?"),
        (["recal"], "unknown command 'recal'", "Did you mean `periplus recall`?"),
        (["help", "nothing"], "unknown command 'nothing'", "See `periplus --help`."),
        (["recall", "how", "do", "we", "hash"], "QUESTION has several words and needs quotes", 'Type: periplus recall "how do we hash"'),
        (["run", "say", "it's $5"], "TASK has several words and needs quotes", "Type: periplus run 'say it'\\''s $5'"),
        (["evolve", "dec_1", "say", "more"], "TEXT has several words and needs quotes", 'Type: periplus evolve dec_1 "say more"'),
        (["inbox", "send", "bob", "hello", "there"], "TEXT has several words and needs quotes", 'Type: periplus inbox send bob "hello there"'),
        (["recall", "x", "--lim", "3"], "unrecognized arguments: --lim 3", "Did you mean --limit? See"),
        (["recall", "x", "--frobnicate"], "unrecognized arguments: --frobnicate", "See `periplus recall --help`."),
        (["status", "everything"], "unrecognized arguments: everything", "See `periplus status --help`."),
        (["trail", "lst"], "invalid choice: 'lst'", "Did you mean `periplus trail list`?"),
        (["claim", "src/a.py"], "invalid choice: 'src/a.py'", "Did you mean `periplus claim take src/a.py`?"),
        (["remember"], "required: TEXT", 'For example `periplus remember "Never log tokens"'),
        (["context"], "required: ACTION", "It is one of commit, log, "),
        (["claim", "--force"], "unrecognized arguments: --force", "See `periplus claim list --help`."),
        (["remember", "-t", "note", "x"], "unrecognized arguments: -t x", "Did you mean --type or --tag? See"),
        (["recall", "x", "-q"], "unrecognized arguments: -q", "See `periplus recall --help`."),
        (["connect", "codex", "--all"], "AGENT and --all cannot be combined", "See `periplus connect --help`."),
        (["brief", "x", "--budget", "50"], "at least 100 tokens", "Say --budget 100 or more."),
        (["log", "--since", "yesterday"], "is not a time", "or an age: 30m, 2h, 3d, 1w."),
        (["undo", "12"], "unrecognized arguments: 12", "For example `periplus undo --seq 12"),
    ],
)  # fmt: skip
def test_what_is_nearly_right(words, wrong, advice, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Project.init(str(tmp_path))
    assert main(words) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert wrong in said[0]
    assert advice in said[1]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["check", "a", "--json", "b"], ["check", "a", "b", "--json"]),
        (["check", "a", "--json", "b", "--as", "eve", "c"], ["check", "a", "b", "c", "--json", "--as", "eve"]),
        (["merge", "a", "--text", "x", "b"], ["merge", "a", "b", "--text", "x"]),
        (["import", "a", "--dry-run", "b"], ["import", "a", "b", "--dry-run"]),
        (["session", "end", "--json", "night"], ["session", "end", "night", "--json"]),
        (["trail", "import", "a", "--json", "b"], ["trail", "import", "a", "b", "--json"]),
    ],
)
def test_words_may_stand_behind_options(typed, meant):
    assert _parse(typed) == _parse(meant)


@pytest.mark.parametrize("typed", [["import", "a", "--dry-run", "b", "c"], ["import", "a", "b", "--dry-run", "c"]])
def test_a_word_too_many_is_refused_wherever_it_stands(typed):
    with pytest.raises(UsageError, match=r"unrecognized arguments: (b )?c$"):
        _parse(typed)


def actions_of(command):
    parser = make_parser(command)
    (commands,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    found = [one for one in commands.choices[command]._actions if isinstance(one, argparse._SubParsersAction)]
    return list(found[0].choices) if found else []


@pytest.mark.slow
def test_every_command_with_a_list_shows_something_alone():
    actions = {name: actions_of(name) for name in NAMES}
    assert {name for name, has in actions.items() if "list" in has} == {*ALONE}
    assert all(action in actions[name] for name, action in ALONE.items())


@pytest.mark.parametrize("name", ALONE)
def test_without_an_action_a_command_shows_what_there_is(name, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    main(["init", "--no-connect"])
    main(["claim", "take", "src", "--text", "types"])
    main(["plan", "make", "Rate limits", "--step", "Count"])
    capsys.readouterr()
    for more in ([], ["--json"], ["--store", "."]):
        code = main([name, ALONE[name], *more])
        named = capsys.readouterr()
        assert (main([name, *more]), capsys.readouterr()) == (code, named)
        assert code == (0 if name in ("claim", "plan", "models") else code)
        assert named.out
    with pytest.raises(SystemExit):
        main([name, "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert f"Without an ACTION: {ALONE[name]}." in said
    assert said.startswith(f"usage: periplus {name} [-h] ACTION")


def test_a_very_long_text_without_quotes_is_cut(capsys):
    assert main(["recall", *["word"] * 3000]) == 2
    assert len(capsys.readouterr().err) < 500


@pytest.mark.parametrize(("older", "now"), [("trust take", "trust withdraw"), ("skills reject", "skills refuse")])
def test_what_was_called_otherwise_is_understood(older, now, capsys):
    for words in (older, now):
        with pytest.raises(SystemExit):
            main([*words.split(), "--help"])
        assert capsys.readouterr().out.startswith(f"usage: periplus {now}")


def test_the_version_is_told_however_it_is_asked_for(capsys):
    for words in (["--version"], ["version"], ["-V"]):
        with pytest.raises(SystemExit) as left:
            main(words)
        assert left.value.code == 0
        assert capsys.readouterr().out.startswith("periplus ")


def test_a_store_above_is_told_when_one_is_made_below(capsys, tmp_path, monkeypatch):
    Project.init(str(tmp_path))
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["init", "--no-connect"]) == 0
    assert f"the parent folder has a store, {tmp_path}/.periplus" in capsys.readouterr().err
    assert main(["init", "--no-connect"]) == 0
    assert capsys.readouterr().err == ""
