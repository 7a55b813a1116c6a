"""``completion``: the scripts, run by the shells that they are for, against the tables that the help is made of."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys

import pytest

from cli_support import PERIPLUS, decoded
from periplus.cli.integration.completion import places_of, script_of
from periplus.cli.main import ALONE, COMMANDS, COMMON_OPTIONS, leaves, main, make_parser

pytestmark = pytest.mark.quick

SHELLS = ("bash", "zsh", "fish")
FILES = "<files>"
BASH = """
source "$1"; shift
wanted=yes
compopt() { [[ $* == '+o default' ]] && wanted=''; }
COMP_WORDS=(periplus "$@"); COMP_CWORD=$#
_periplus
for one in "${COMPREPLY[@]}"; do printf '%s\\n' "$one"; done
if [[ -n $wanted && ${#COMPREPLY[@]} -eq 0 ]]; then echo '<files>'; fi
"""
# The functions of zsh's own completion system, as far as the script calls them: each prints what it would offer.
ZSH = """
compdef() { :; }
compset() { current=${current#*=}; }
compadd() { shift; for one in "$@"; do [[ $one == $current* ]] && print -r -- $one; done; return 0; }
_describe() { local one; for one in "${(@P)2}"; do one=${one%%:*}; [[ $one == $current* ]] && print -r -- $one; done; return 0; }
_files() { print '<files>'; }
_message() { :; }
source "$1"; shift
words=(periplus "$@"); CURRENT=$(($# + 1))
_periplus
"""
FISH = "source $argv[1]; complete -C $argv[2]"


@pytest.fixture(scope="module")
def completed(tmp_path_factory):
    """What ``shell`` offers where ``words`` are typed, the last one being completed."""
    folder = tmp_path_factory.mktemp("completion")
    (folder / "a file").write_text("")
    for shell in SHELLS:
        (folder / f"periplus.{shell}").write_text(script_of(shell))

    def complete(shell, *words):
        if shutil.which(shell) is None:
            pytest.skip(f"{shell} is not installed here")
        script = os.fspath(folder / f"periplus.{shell}")
        if shell == "bash":  # splits words at =
            apart = [
                part for word in words for part in (word.replace("=", "\0=\0").split("\0") if "=" in word else [word])
            ]
            apart = [part for at, part in enumerate(apart) if part or at == len(apart) - 1]
            command = ["bash", "--norc", "--noprofile", "-c", BASH, "bash", script, *apart]
        elif shell == "zsh":
            command = ["zsh", "-f", "-c", ZSH, "zsh", script, *words]
        else:
            command = ["fish", "--no-config", "-c", FISH, script, " ".join(["periplus", *words])]
        environment = {"PATH": os.environ["PATH"], "HOME": os.fspath(folder), "LANG": "C.UTF-8"}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, cwd=folder, env=environment, check=True
        )
        assert done.stderr == ""
        lines = [line.partition("\t")[0] for line in done.stdout.splitlines()]
        lead = words[-1].partition("=")[0] + "=" if "=" in words[-1] else ""
        found = [
            FILES if line.startswith(("a file", "a\\ file", "periplus.")) else line.removeprefix(lead) for line in lines
        ]
        return {*found}

    return complete


def actions_of(parser):
    found = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    return found[0].choices if found else {}


def options_of(parser):
    return {name for one in parser._actions for name in one.option_strings if name.startswith("--")}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["sta"], {"status", "state"}),
        (["--v"], {"--version"}),
        (["claim", ""], {"take", "list", "release"}),
        (["claim", "take", "--sh"], {"--shared"}),
        (["claim", "--j"], {"--json"}),
        (["models", "--as"], {"--ask", "--as"}),
        (["log", "--action", "cr"], {"create"}),
        (["log", "--action=cr"], {"create"}),
        (["status", "--color", ""], {"auto", "always", "never"}),
        (["trail", "show", "--form", ""], {"text", "hex", "verbose", "compact", "json"}),
        (["completion", ""], {"bash", "zsh", "fish"}),
        (["link", "con_1", "su"], {"supersedes"}),
        (["recall", "text", "--li"], {"--limit"}),
        (["connect", "c"], {"claude-code", "codex", "cursor", "cline", "continue", "copilot-cli", "crush"}),
        (["disconnect", "ge"], {"gemini"}),
        (["hook", "stop", "--agent", "co"], {"codex", "copilot-cli"}),
        (["remember", "text", "--type", ""], {"decision", "constraint", "trap", "lesson", "note"}),
        (["recall", "text", "--type", "de"], {"decision"}),
        (["log", "--type", "pl"], {"plan"}),
        (["context", "select", "--type", ""], set()),
        (["log", "--before", ""], set()),
        (["log", "--before", "--f"], set()),
        (["import", ""], {FILES}),
        (["doctor", "--from", ""], {FILES}),
        (["export", "--markdown", ""], {FILES}),
        (["nonsense", ""], set()),
        (["claim", "nonsense", "--nothing"], set()),
    ],
)
def test_what_is_offered(completed, shell, words, offered):
    assert completed(shell, *words) == offered


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_every_option_is_offered(completed, shell):
    """Of the parsers themselves: a command or an option that is new is offered with no word said here."""
    assert completed(shell, "") == {command.name for command in COMMANDS}
    for command in COMMANDS:
        parser = actions_of(make_parser(command.name, is_alone=True))[command.name]
        actions = actions_of(parser)
        for name, leaf in actions.items():
            assert completed(shell, command.name, name, "--") == options_of(leaf)
        if actions:
            assert completed(shell, command.name, "") == {*actions}
            alone = actions[ALONE[command.name]] if command.name in ALONE else parser
            assert completed(shell, command.name, "--") == options_of(alone)
        else:
            assert completed(shell, command.name, "--") == options_of(parser)


@pytest.mark.slow
def test_the_table_has_a_place_for_everything_that_has_arguments():
    places = {place.typed: place for place in places_of()}
    progs = [leaf.prog for one in COMMANDS for leaf in leaves(actions_of(make_parser(one.name))[one.name])]
    assert {prog.removeprefix("periplus ") for prog in progs} <= set(places)
    for prog in progs:
        assert {*COMMON_OPTIONS} <= {option.name for option in places[prog.removeprefix("periplus ")].options}
    told = [text for place in places.values() for _, text in place.words] + [
        option.help for place in places.values() for option in place.options
    ]
    assert not [text for text in told if "%(" in text or "\n" in text]


def test_bash_takes_the_script_as_it_is_printed(tmp_path):
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed here")
    script = tmp_path / "periplus"
    script.write_bytes(subprocess.run([PERIPLUS, "completion", "bash"], capture_output=True, check=True).stdout)
    assert script.read_text() == script_of("bash")
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", 'source "$1"; complete -p periplus', "bash", script],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("complete -o default -F _periplus periplus\n", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_printed_without_a_store_and_as_json(shell, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert script == script_of(shell)
    assert script.isascii() or shell != "bash"
    assert main(["completion", shell, "--json"]) == 0
    document = decoded(capsys.readouterr().out)
    assert (document.shell, document.script) == (shell, script)
    assert os.listdir(tmp_path) == []


def test_words_need_no_quotes_in_any_shell():
    for place in places_of():
        words = [word for word, _ in place.words] + [word for one in place.options for word in (one.name, *one.words)]
        assert [word for word in words if not all(c.isalnum() or c in "-_." for c in word)] == []


def test_the_help_loads_nothing_of_it():
    code = (
        "import sys\nfrom periplus.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "loaded = [name for name in sys.modules if 'completion' in name or name.endswith('_commands')]\n"
        "sys.exit(repr(loaded) if loaded else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "completion" in done.stdout
