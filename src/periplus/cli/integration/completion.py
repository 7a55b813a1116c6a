"""``completion``: generate completion scripts for bash, zsh and fish from the parsers of the command line.

A script contains every command, action, option and fixed value, and does not call ``periplus``. It has to be generated again for
a version with other options. Ids are not completed.
"""

from __future__ import annotations

__all__ = ["configure", "execute", "places_of", "script_of"]

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.cli.common.face import Face

_HELP_CHARACTERS_MAX: Final = 90
_OTHER_TYPES: Final = frozenset({"periplus context select"})  # types of atoms, which writers choose freely
_PATHS: Final = frozenset({"FILE", "DIR", "FOLDER", "PATH", "SCOPE", "WHERE", "WORKLOG", "PROOF", "TRAIL"})


class Option(NamedTuple):
    """``takes`` is "" (no value), "text" (any value), "file", or "words" (one of ``words``)."""

    name: str
    help: str
    takes: str
    words: tuple[str, ...] = ()


class Place(NamedTuple):
    """A position on the command line: the words after ``typed``, the options, and whether file names fit. Each word has its help."""

    typed: str
    words: tuple[tuple[str, str], ...]
    options: tuple[Option, ...]
    files: bool


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "completion"
    parser.add_argument("shell", choices=tuple(_SCRIPTS), metavar="SHELL", help=f"one of {', '.join(_SCRIPTS)}")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.integration.completion_schemas import CompletionOut

    text = script_of(arguments.shell)
    face.emit(CompletionOut(arguments.shell, text), text.splitlines)
    return 0


def places_of() -> list[Place]:
    """Return every position that can be completed, ``periplus`` itself first."""
    from periplus.cli.main import ALONE, COMMANDS, make_parser

    top = make_parser("")
    found = [Place("", tuple((one.name, one.help) for one in COMMANDS), _options(top), files=False)]
    for command in COMMANDS:
        parser = _actions_of(make_parser(command.name, is_alone=True))[command.name]
        actions = _actions_of(parser)
        if not actions:
            found.append(_leaf(command.name, parser))
            continue
        leaves = [_leaf(f"{command.name} {name}", leaf) for name, leaf in actions.items()]
        alone = next((one for one in leaves if one.typed == f"{command.name} {ALONE.get(command.name, '')}"), None)
        found.append(Place(command.name, _helped(parser), alone.options if alone else _options(parser), files=False))
        found += leaves
    return found


def script_of(shell: str) -> str:
    """Return the script for ``shell``: bash, zsh or fish."""
    return "\n".join(_SCRIPTS[shell](places_of())) + "\n"


def _actions_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:  # noqa: SLF001 - argparse offers no other way to its subparsers
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - argparse offers no other way to the help as it is shown
            return dict(action.choices)
    return {}


def _helped(parser: argparse.ArgumentParser) -> tuple[tuple[str, str], ...]:
    """Map the parser's actions to their help texts."""
    return tuple(
        (one.dest, one.help or "")
        for action in parser._actions  # noqa: SLF001 - argparse offers no other way to its subparsers
        if isinstance(action, argparse._SubParsersAction)  # noqa: SLF001 - argparse offers no other way to the help as it is shown
        for one in action._choices_actions  # noqa: SLF001 - argparse offers no other way to the help as it is shown
    )


def _leaf(typed: str, parser: argparse.ArgumentParser) -> Place:
    places = [one for one in parser._actions if not one.option_strings]  # noqa: SLF001 - argparse offers no other way
    words = tuple((word, "") for one in places for word in _words(parser, one))
    return Place(typed, words, _options(parser), files=any(map(_is_path, places)))


def _options(parser: argparse.ArgumentParser) -> tuple[Option, ...]:
    return tuple(
        Option(name, _help(parser, action), _takes(parser, action), _words(parser, action))
        for action in parser._actions  # noqa: SLF001 - argparse offers no other way
        for name in action.option_strings
        if name.startswith("--")
    )


def _words(parser: argparse.ArgumentParser, action: argparse.Action) -> tuple[str, ...]:
    """Return the values of an argument: its choices, or known values such as names of agents and types of entities."""
    if action.choices:
        return tuple(map(str, action.choices))
    if action.metavar == "AGENT" and parser.prog == "periplus hook":
        from periplus.interop.hooks.events import AGENTS as HOOK_AGENTS

        return tuple(HOOK_AGENTS)
    if action.metavar == "AGENT":
        from periplus.cli.integration.connection import AGENTS

        return AGENTS
    if action.metavar == "TYPE" and parser.prog not in _OTHER_TYPES:
        from periplus.cli.memory.knowledge import REMEMBERED
        from periplus.memory.entities.types import TYPES

        return REMEMBERED if parser.prog == "periplus remember" else tuple(row.name for row in TYPES)
    return ()


def _takes(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    return "words" if _words(parser, action) else "file" if _is_path(action) else "text"


def _is_path(action: argparse.Action) -> bool:
    """Tell by the metavar that the value is, or may be, a file name."""
    return isinstance(action.metavar, str) and bool(_PATHS & {*action.metavar.split("|")})


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = " ".join(parser._get_formatter()._expand_help(action).split()) if action.help else ""  # noqa: SLF001 - argparse offers no other way to the help as it is shown
    return text if len(text) <= _HELP_CHARACTERS_MAX else f"{text[: _HELP_CHARACTERS_MAX - 1]}…"


# -- the scripts -------------------------------------------------------------------------------------------------------


def _quoted(text: str) -> str:
    """Quote ``text`` in single quotes for bash and zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class _Values(NamedTuple):
    """Values of an option: in the positions ``behind``, or for the option names ``anywhere``, if it means the same everywhere."""

    words: tuple[str, ...]
    behind: tuple[str, ...]
    anywhere: tuple[str, ...]


def _values(places: Sequence[Place]) -> list[_Values]:
    every: dict[str, set[tuple[str, ...]]] = {}
    for place in places:
        for option in place.options:
            every.setdefault(option.name, set()).add(option.words)
    found: dict[tuple[str, ...], tuple[dict[str, None], dict[str, None]]] = {}
    for place in places:
        for option in place.options:
            if option.takes == "words":
                behind, anywhere = found.setdefault(option.words, ({}, {}))
                if len(every[option.name]) == 1:
                    anywhere[option.name] = None
                else:
                    behind[f"{place.typed} {option.name}"] = None
    return [_Values(words, (*behind,), (*anywhere,)) for words, (behind, anywhere) in found.items()]


def _patterns(values: _Values) -> str:
    """Return the patterns for a ``case`` of bash or zsh."""
    return "|".join([*map(_quoted, values.behind), *(f"*{_quoted(f' {name}')}" for name in values.anywhere)])


def _named(place: Place, takes: str) -> str:
    return " ".join(option.name for option in place.options if option.takes == takes)


def _files_and_texts(place: Place) -> dict[str, str]:
    """Return the options of a position that take any text, those that take paths, and whether paths stand alone."""
    return {"texts": _named(place, "text"), "paths": _named(place, "file"), "files": "yes" if place.files else ""}


def _actions(places: Sequence[Place]) -> list[str]:
    return [place.typed for place in places if " " in place.typed]


def _bash(places: Sequence[Place]) -> Iterator[str]:
    yield "# bash completion of periplus. Keep it as ~/.local/share/bash-completion/completions/periplus,"
    yield "# or source it from ~/.bashrc. It is made by: periplus completion bash"
    yield "_periplus() {"
    yield "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} place='' words='' options='' texts='' paths='' files=''"
    yield "    if [[ $current == '=' ]]; then current=''; elif [[ $before == '=' ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi"
    yield "    if ((COMP_CWORD > 1)); then place=${COMP_WORDS[1]}; fi"
    yield '    if ((COMP_CWORD > 2)); then case "$place ${COMP_WORDS[2]}" in'
    yield f'        ({"|".join(map(_quoted, _actions(places)))}) place+=" ${{COMP_WORDS[2]}}" ;;'
    yield "    esac; fi"
    yield "    COMPREPLY=()"
    yield '    case "$place" in'
    for place in places:
        words = " ".join(word for word, _ in place.words)
        options = " ".join(option.name for option in place.options)
        said = {"words": words, "options": options, **_files_and_texts(place)}
        yield f"        ({_quoted(place.typed)}) {' '.join(f'{name}={_quoted(text)}' for name, text in said.items() if text)} ;;"
    yield "    esac"
    yield '    case "$place $before" in'
    for values in _values(places):
        yield f"        ({_patterns(values)}) words={_quoted(' '.join(values.words))} files='' ;;"
    yield "        (*)"
    yield "            if [[ \" $texts \" == *\" $before \"* ]]; then words='' files=''"
    yield '            elif [[ " $paths " == *" $before "* ]]; then words=\'\' files=yes'
    yield "            elif [[ $current == -* || ( -z $words && -z $files ) ]]; then words=$options files=''; fi ;;"
    yield "    esac"
    yield "    # Where COMPREPLY stays empty the shell completes files by itself, if they are wanted."
    yield "    if [[ -z $files ]]; then compopt +o default 2>/dev/null; fi"
    yield '    local IFS=$\' \\t\\n\'; COMPREPLY=($(compgen -W "$words" -- "$current"))'
    yield "}"
    yield "complete -o default -F _periplus periplus"


def _zsh(places: Sequence[Place]) -> Iterator[str]:
    yield "#compdef periplus"
    yield "# zsh completion of periplus. Keep it as _periplus in a folder of $fpath. It is made by: periplus completion zsh"
    yield "_periplus() {"
    yield "    local current=${words[CURRENT]} before=${words[CURRENT-1]} place='' texts='' paths='' files=''"
    yield "    local -a found options"
    yield "    if [[ $current == --*=* ]]; then before=${current%%=*}; compset -P '*='; fi"
    yield "    if ((CURRENT > 2)); then place=${words[2]}; fi"
    yield '    if ((CURRENT > 3)); then case "$place ${words[3]}" in'
    yield f'        ({"|".join(map(_quoted, _actions(places)))}) place+=" ${{words[3]}}" ;;'
    yield "    esac; fi"
    yield '    case "$place $before" in'
    for values in _values(places):
        yield f"        ({_patterns(values)}) compadd -- {' '.join(map(_quoted, values.words))}; return ;;"
    yield "    esac"
    yield '    case "$place" in'
    for place in places:
        yield f"        ({_quoted(place.typed)})"
        if place.words:
            yield f"            found=({' '.join(_quoted(_described(*one)) for one in place.words)})"
        options = " ".join(_quoted(_described(option.name, option.help)) for option in place.options)
        yield f"            options=({options})"
        said = " ".join(f"{name}={_quoted(text)}" for name, text in _files_and_texts(place).items())
        yield f"            {said} ;;"
    yield "    esac"
    yield '    if [[ " $texts " == *" $before "* ]]; then _message text; return; fi'
    yield '    if [[ " $paths " == *" $before "* ]]; then _files; return; fi'
    yield "    if [[ $current == -* || ( ${#found} -eq 0 && -z $files ) ]]; then _describe option options; return; fi"
    yield "    if ((${#found})); then _describe word found; fi"
    yield "    if [[ -n $files ]]; then _files; fi"
    yield "}"
    yield "if [[ ${funcstack[1]} == _periplus ]]; then _periplus; else compdef _periplus periplus; fi"


def _described(name: str, text: str) -> str:
    """Format a candidate for zsh's ``_describe``."""
    escaped = name.replace(":", "\\:")
    return f"{escaped}:{text}" if text else escaped


def _fish(places: Sequence[Place]) -> Iterator[str]:
    quoted = _fish_quoted
    yield "# fish completion of periplus. Keep it as ~/.config/fish/completions/periplus.fish. It is made by: periplus completion fish"
    yield "function __periplus_complete"
    yield "    set -l typed (commandline -opc)"
    yield "    set -l current (commandline -ct)"
    yield "    set -l before $typed[-1]"
    yield "    set -l place ''"
    yield "    set -l lead ''"
    yield "    set -l texts; set -l paths; set -l words; set -l options; set -l files"
    yield "    if string match -qr -- '^--[a-z-]+=' $current"
    yield "        set lead (string replace -r -- '=.*' '=' $current)"
    yield "        set before (string replace -- '=' '' $lead)"
    yield "    end"
    yield "    if test (count $typed) -gt 1; set place $typed[2]; end"
    yield '    if test (count $typed) -gt 2; and contains -- "$place $typed[3]" ' + " ".join(
        map(quoted, _actions(places))
    )
    yield '        set place "$place $typed[3]"'
    yield "    end"
    yield '    switch "$place $before"'
    for values in _values(places):
        yield f"        case {' '.join(map(quoted, (*values.behind, *(f'* {name}' for name in values.anywhere))))}"
        words = " ".join(map(quoted, values.words))
        yield f"            for word in {words}; printf '%s%s\\n' \"$lead\" $word; end; return"
    yield "    end"
    yield '    switch "$place"'
    for place in places:
        yield f"        case {quoted(place.typed)}"
        for name, pairs in (("words", place.words), ("options", [(one.name, one.help) for one in place.options])):
            if pairs:
                yield f"            set {name} " + " ".join(
                    quoted(f"{word}\t{text}" if text else word) for word, text in pairs
                )
        for name, some in (("texts", _named(place, "text")), ("paths", _named(place, "file"))):
            if some:
                yield f"            set {name} {some}"
        if place.files:
            yield "            set files yes"
    yield "    end"
    yield "    if contains -- $before $texts; return; end"
    yield "    if contains -- $before $paths; __fish_complete_path (string replace -- \"$lead\" '' $current); return; end"
    yield '    if string match -q -- "-*" $current; or begin; not count $words >/dev/null; and not count $files >/dev/null; end'
    yield "        printf '%s\\n' $options; return"
    yield "    end"
    yield "    if count $words >/dev/null; printf '%s\\n' $words; end"
    yield "    if count $files >/dev/null; __fish_complete_path $current; end"
    yield "end"
    yield "complete -c periplus -f -a '(__periplus_complete)'"


_SCRIPTS: Final[dict[str, Callable[[Sequence[Place]], Iterator[str]]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
