"""Words of a command: wrappers, options, the standard input of shells, printed text."""

from __future__ import annotations

__all__ = [
    "UNKNOWN",
    "Layer",
    "Unwrapped",
    "behind_options",
    "braces",
    "code_of",
    "command_option",
    "downloads",
    "echoed",
    "ends_data",
    "is_bomb",
    "is_interpreter",
    "names_what_runs",
    "pattern_place",
    "printed",
    "reads_input",
    "rewritten_by",
    "split",
    "unwrap",
    "unwrapped",
    "words_for_host",
]

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from periplus.shell.program_tables import (
    BUILDERS,
    CONTAINER_VALUED,
    DOWNLOADERS,
    INTERPRETERS,
    REMOTE,
    REWRITERS,
    SHELLS,
    WRAPPERS,
    Wrapper,
)
from periplus.shell.syntax import Group, Pipeline, Simple

UNKNOWN: Final = "\x01"  # stands for text that only a shell can determine
_LAYERS_MAX: Final = 64
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_ASSIGNING: Final = frozenset({"env", "sudo", "doas", "systemd-run"})
_WITH_OPTIONS: Final = frozenset(
    {"docker", "podman", "nerdctl", "docker-compose", "podman-compose", "kubectl", "oc", "lxc"}
)
_SSH_VALUED: Final = frozenset(f"-{letter}" for letter in "BbcDEeFIiJLlmOopQRSWw")
_BUILDER_VALUED: Final = frozenset({"-j", "-l", "-o", "-W", "-I", "-k"})
# Options of interpreters that take code, and others that take a value.
_CODE: Final[Mapping[str, tuple[re.Pattern[str], frozenset[str]]]] = {
    "python": (re.compile(r"-[a-zA-Z]*c"), frozenset({"-W", "-X"})),
    "pypy": (re.compile(r"-[a-zA-Z]*c"), frozenset({"-W", "-X"})),
    "ipython": (re.compile(r"-[a-zA-Z]*c"), frozenset()),
    "perl": (re.compile(r"-[a-zA-Z0-9.]*[eE]"), frozenset()),
    "ruby": (re.compile(r"-[a-zA-Z]*e"), frozenset({"-I", "-r"})),
    "php": (re.compile(r"-[rRBE]|--run"), frozenset({"-d", "-c", "-z"})),
    "deno": (re.compile(r"-[ep]|--eval|--print"), frozenset()),
    "pwsh": (re.compile(r"-(?:c|command|Command|e|ec|enc|EncodedCommand)"), frozenset()),
    "powershell": (re.compile(r"-(?:c|command|Command|e|ec|enc|EncodedCommand)"), frozenset()),
    "": (re.compile(r"-[eEp]|-pe|-c|--eval|--print"), frozenset({"-r", "--require", "--import", "--loader"})),
}


class Layer(NamedTuple):
    """``words`` begin with a program as written; ``at`` is their place in the whole command; ``wrapper`` describes a
    program that starts another.
    """

    words: tuple[str, ...]
    at: int
    wrapper: Wrapper | None

    @property
    def program(self) -> str:
        return posixpath.basename(self.words[0].lstrip("\\"))


class Unwrapped(NamedTuple):
    """A command from the outside in: ``layers`` (the last one runs in the end), ``sets`` are variables assigned by
    ``env`` and the like on the way, ``texts`` are texts that options on the way give to a shell.
    """

    layers: tuple[Layer, ...]
    sets: tuple[tuple[str, str], ...] = ()
    texts: tuple[str, ...] = ()

    @property
    def is_elsewhere(self) -> bool:
        """True where it runs in a container, with other paths."""
        return any(one.wrapper is not None and one.wrapper.is_elsewhere for one in self.layers)


def unwrap(words: Sequence[str]) -> Unwrapped:
    """Split ``words`` into layers, each without the wrapper of the one before. The last layer has no wrapper, or one
    that starts nothing.
    """
    rest, at = list(words), 0
    layers: list[Layer] = []
    sets: list[tuple[str, str]] = []
    texts: list[str] = []
    while at < len(rest) and len(layers) < _LAYERS_MAX:
        name = posixpath.basename(rest[at].lstrip("\\"))
        wrapper, behind = _wrapper_of(name, rest, at)
        if wrapper is None:
            layers.append(Layer(tuple(rest[at:]), at, None))
            break
        layers.append(Layer(tuple(rest[at:]), at, wrapper))
        if name == "command" and rest[behind : behind + 1] and rest[behind][:2] in ("-v", "-V"):
            break  # prints the path of the program
        at = behind
        while at < len(rest) and rest[at].startswith(("-", "+")) and len(rest[at]) > 1:
            option, is_given, value = rest[at].partition("=")
            if rest[at] == "--":
                at += 1
                break
            if name == "env" and (option in ("-S", "--split-string") or option.startswith("-S")):
                text = (
                    value if is_given and option == "--split-string" else rest[at][2:] or "".join(rest[at + 1 : at + 2])
                )
                at += 1 if (is_given and option == "--split-string") or rest[at][2:] else 2
                rest[at:at] = _split_string(text)
                continue
            if option in wrapper.texts:
                texts.append(value if is_given else "".join(rest[at + 1 : at + 2]))
                at = len(rest)
                break
            at += 2 if rest[at] in wrapper.valued else 1
        if name in _ASSIGNING:
            while at < len(rest) and _ASSIGNMENT.match(rest[at]):
                sets.append((rest[at].partition("=")[0], rest[at].partition("=")[2]))
                at += 1
        at += wrapper.operands
        if name == "flock" and rest[at : at + 1] in (["-c"], ["--command"]):
            texts.append("".join(rest[at + 1 : at + 2]))
            at = len(rest)
        if wrapper.is_elsewhere and rest[at : at + 1] == ["--"]:
            at += 1
    return Unwrapped(tuple(layers), tuple(sets), tuple(texts))


def _wrapper_of(name: str, words: Sequence[str], at: int) -> tuple[Wrapper | None, int]:
    """Return the wrapper at ``at``, and the place at which its options begin."""
    if name in _WITH_OPTIONS:  # options before the verb
        verb = _behind(words, at + 1)
        if words[verb : verb + 1] in (["compose"], ["container"]):
            verb = _behind(words, verb + 1)
        return WRAPPERS.get((name, "".join(words[verb : verb + 1]))), verb + 1
    pair = WRAPPERS.get((name, words[at + 1])) if at + 1 < len(words) else None
    if pair is not None:
        return pair, at + 2
    return WRAPPERS.get(name), at + 1


def _behind(words: Sequence[str], at: int) -> int:
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in CONTAINER_VALUED else 1
    return at


def _split_string(text: str) -> list[str]:
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def unwrapped(words: Sequence[str]) -> tuple[str, list[str]] | tuple[None, list[str]]:
    """Return the program that runs in the end, and its arguments."""
    layers = unwrap(words).layers
    if not layers or (layers[-1].wrapper is not None and layers[-1].program != "command"):
        return None, []
    return layers[-1].program, list(layers[-1].words[1:])


def is_interpreter(program: str) -> bool:
    """Test for an interpreter of another language: ``python3.12`` like ``python3``."""
    return (
        program in INTERPRETERS
        or re.fullmatch(r"(?:python|pypy|perl|ruby|php|lua|node)-?\d+(?:\.\d+)*", program) is not None
    )


def code_of(program: str, arguments: Sequence[str]) -> tuple[str, int] | None:
    """Return the code that an interpreter gets as an argument (``python -c``, ``perl -ne``, ``node -p``) and its
    place; None without code.
    """
    family = next((name for name in _CODE if program.startswith(name)), "")
    option, valued = _CODE[family]
    at = 0
    while at < len(arguments):
        argument = arguments[at]
        if family in ("deno", "bun") and argument == "eval":
            return "".join(arguments[at + 1 : at + 2]), at + 1
        if not argument.startswith("-") or argument == "-":
            return None
        name, is_given, value = argument.partition("=")
        if is_given and option.fullmatch(name):
            return value, at
        if option.fullmatch(argument):
            return "".join(arguments[at + 1 : at + 2]), at + 1
        at += 2 if argument in valued else 1
    return None


def names_what_runs(words: Sequence[str]) -> int:
    """Return the number of words that determine what runs: all four of ``make -C a test``, two of ``python x.py 1``
    and ``python -c CODE``, one of ``git log -3``.
    """
    program, arguments = posixpath.basename(words[0]), words[1:]
    if is_interpreter(program):
        given = code_of(program, arguments)
        if given is not None:
            return min(len(words), given[1] + 1)
        if program.startswith(("python", "pypy")) and "-m" in arguments:
            return min(len(words), arguments.index("-m") + 3)
        return _first_operand(arguments, _CODE[next((name for name in _CODE if program.startswith(name)), "")][1])
    if program in BUILDERS:
        is_other = any(one.startswith(("-f", "-C", "--file", "--makefile", "--directory")) for one in arguments)
        return len(words) if is_other else _first_operand(arguments, _BUILDER_VALUED)
    if program in REMOTE:
        return min(len(words), len(words) - len(words_for_host(arguments)) + 1)
    return 1


def _first_operand(arguments: Sequence[str], valued: frozenset[str]) -> int:
    """Return the number of words up to the first operand, the program included; all where there is none."""
    return len(arguments) - len(behind_options(arguments, valued)[1:]) + 1


def behind_options(arguments: Sequence[str], valued: frozenset[str]) -> Sequence[str]:
    """Return the arguments from the first operand on."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        if arguments[at] == "--":
            return arguments[at + 1 :]
        at += 2 if arguments[at] in valued else 1
    return arguments[at:]


def words_for_host(arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments of ssh(1) behind the host, which run at the other side."""
    behind = behind_options(arguments, _SSH_VALUED)[1:]
    return behind[1:] if list(behind[:1]) == ["--"] else behind


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate options and operands as getopt does: after ``--`` everything is an operand."""
    options: list[str] = []
    operands: list[str] = []
    for at, argument in enumerate(arguments):
        if argument == "--":
            return options, [*operands, *arguments[at + 1 :]]
        (options if argument.startswith("-") and argument != "-" else operands).append(argument)
    return options, operands


def rewritten_by(program: str, arguments: Sequence[str]) -> list[str]:
    """Return the files and folders that a program changes beside its purpose."""
    options, operands = split(arguments)
    if program == "git":
        return _rewritten_by_git(arguments)
    if program == "find":
        ends = next(
            (at for at, argument in enumerate(arguments) if argument.startswith(("-", "(", "!"))), len(arguments)
        )
        return (list(arguments[:ends]) or ["."]) if "-delete" in arguments else []
    if program == "rsync":
        return [] if len(operands) < 2 or ":" in operands[-1] else operands[-1:]
    if program in ("perl", "ruby"):
        in_place = any(re.match(r"-[A-Za-z0-9]*i", option) for option in options)
        codes = sum(re.fullmatch(r"-[A-Za-z0-9]*e", option) is not None for option in options)
        return operands[codes or 1 :] if in_place else []
    if program == "ruff":
        return operands[1:] if operands[:1] == ["format"] or "--fix" in options else []
    if program in REWRITERS:
        wanted = REWRITERS[program]
        return operands if not wanted or not wanted.isdisjoint(options) else []
    return []


def _rewritten_by_git(arguments: Sequence[str]) -> list[str]:
    folder, at = "", 0
    while at < len(arguments) and arguments[at].startswith("-"):
        if arguments[at] == "-C" and at + 1 < len(arguments):
            folder = posixpath.join(folder, arguments[at + 1])
        at += 2 if arguments[at] in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path") else 1
    verb, more = "".join(arguments[at : at + 1]), arguments[at + 1 :]
    options, operands = split(more)
    is_staged_only = not {"--staged", "-S"}.isdisjoint(options) and {"--worktree", "-W"}.isdisjoint(options)
    if verb == "reset" and "--hard" in options:
        operands = ["."]
    elif verb not in ("checkout", "restore", "rm", "mv") or "--cached" in options or is_staged_only:
        return []
    elif verb == "checkout" and "--" in more:
        operands = list(more[list(more).index("--") + 1 :])
    return [posixpath.join(folder, operand.removeprefix(":/")) for operand in operands]


def command_option(arguments: Sequence[str]) -> int | None:
    """Return the place of the text of ``sh -c``."""
    for at, argument in enumerate(arguments):
        if not argument.startswith(("-", "+")) or argument in ("-", "--"):
            return None
        if argument[1:2] != "-" and "c" in argument[1:]:
            return at + 1 + (list(arguments[at + 1 : at + 2]) == ["--"])
        if argument in ("-o", "-O", "+o", "--rcfile", "--init-file"):
            return _shifted(command_option(arguments[at + 2 :]), at + 2)
    return None


def _shifted(place: int | None, by: int) -> int | None:
    return None if place is None else place + by


def reads_input(program: str, arguments: Sequence[str]) -> bool:
    """Test that a shell or interpreter runs its standard input."""
    if program in SHELLS and command_option(arguments) is not None:
        return False
    operands = [argument for argument in arguments if not argument.startswith("-") or argument == "-"]
    if (
        any(argument in ("-c", "-e", "-m", "-p", "-n", "-pe", "-ne", "--eval") for argument in arguments)
        and program not in SHELLS
    ):
        return False
    return not operands or operands[0] in ("-", "/dev/stdin", "/dev/fd/0") or "-s" in arguments


def ends_data(program: str | None) -> bool:
    """Test that the output of a program is no copy of its input: a checksum, a count."""
    return (
        program in ("wc", "sha256sum", "sha1sum", "md5sum", "cksum", "grep", "jq", "head", "sort", "uniq")
        and program != "head"
    )


def printed(program: str | None, arguments: Sequence[str]) -> list[str] | None:
    """Return the output of ``echo`` and ``printf`` where it is known."""
    if program not in ("echo", "printf") or any(UNKNOWN in argument for argument in arguments):
        return None
    words = [argument for argument in arguments if not re.fullmatch(r"-[neE]+", argument)]
    text = " ".join(words)
    if program == "printf" and words and "%" in words[0]:
        text = " ".join(words[1:]) or words[0]
    return [text.replace("\\n", "\n")]


def echoed(script: Sequence[Pipeline]) -> list[str]:
    """Return the value of a substitution that contains only ``echo`` or ``printf`` of known words."""
    if len(script) != 1 or len(script[0].commands) != 1 or not isinstance(script[0].commands[0], Simple):
        return []
    words = [word.literal for word in script[0].commands[0].words]
    if not words or words[0] not in ("echo", "printf") or None in words:
        return []
    return printed(words[0], [word for word in words[1:] if word is not None]) or []


def braces(word: str, depth: int = 0) -> list[str]:
    """Expand ``a{b,c}`` like a shell; a word with an unknown part stays as it is."""
    match = re.search(r"\{([^{}]*,[^{}]*)\}", word)
    if match is None or depth > 4:
        return [word]
    found = [word[: match.start()] + piece + word[match.end() :] for piece in match.group(1).split(",")[:64]]
    return [one for piece in found for one in braces(piece, depth + 1)][:256]


def _commands_in(script: Sequence[Pipeline]) -> Iterator[tuple[Simple, Pipeline]]:
    for pipeline in script:
        for command in pipeline.commands:
            if isinstance(command, Simple):
                yield command, pipeline
            elif isinstance(command, Group):
                yield from _commands_in(command.body)


def downloads(script: Sequence[Pipeline]) -> bool:
    return any(
        unwrapped([word.shown for word in command.words])[0] in DOWNLOADERS for command, _ in _commands_in(script)
    )


def is_bomb(name: str, body: Sequence[Pipeline]) -> bool:
    """Detect a function that starts itself twice in one pipeline, or in the background and again."""
    calls = [
        (command, pipeline)
        for command, pipeline in _commands_in(body)
        if command.words and command.words[0].shown == name
    ]
    in_one = any(sum(pipeline is other for _, other in calls) > 1 for _, pipeline in calls)
    return in_one or (len(calls) > 1 and any(pipeline.background for _, pipeline in calls)) or any(
        pipeline.background and len(pipeline.commands) > 1 for _, pipeline in calls
    )  # fmt: skip


def pattern_place(program: str, arguments: Sequence[str]) -> int | None:
    """Return the place of the pattern among the arguments of a searching program; None for programs whose arguments
    are all only mentioned.
    """
    if program not in ("grep", "egrep", "fgrep", "rg", "ag", "ack"):
        return None
    for at, argument in enumerate(arguments):
        if argument in ("-e", "--regexp"):
            return at + 1
        if not argument.startswith("-"):
            return at
    return len(arguments)
