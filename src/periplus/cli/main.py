"""``periplus``: one table of commands; a command's module is imported when it is the one that was typed.

Exit codes: 0 done, 1 found a problem (or nothing found), 2 wrong usage or input, 3 damaged store or file, or
the machine refused, 4 lock not had in time, 5 refused, 6 outcome unknown, 7 a run reached a limit, 70 a defect of Periplus itself, 130 interrupted.
"""

from __future__ import annotations

__all__ = ["ALONE", "COMMANDS", "COMMON_OPTIONS", "PARTS", "Command", "leaves", "main", "make_parser", "run"]

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import SupportsWrite

    from periplus.base.errors import PeriplusError, UsageError
    from periplus.cli.common.face import Face

    Configure = Callable[[argparse.ArgumentParser, str], None]
    Execute = Callable[[Face, argparse.Namespace], int]

EXIT_USAGE: Final = 2
EXIT_DEFECT: Final = 70
_TELLS_OF_DAMAGE: Final = ("status", "doctor")  # in their output; others warn behind theirs
# Commands that are called for what they say: with a closed standard output they would do nothing and look done.
_ONLY_SAYS: Final = frozenset({
    "blame", "brief", "candidates list", "changed", "claim list", "completion", "context diff", "context expand", "context log",
    "context refs", "context show", "handoff list", "inbox mail", "log", "models list", "plan list", "plan show", "plugins list",
    "recall", "related", "review", "servers list", "show", "skills list", "status", "trail diff", "trail list", "trail show",
    "trust list", "who",
})  # fmt: skip
COMMON_OPTIONS: Final = ("--json", "--store", "--color", "--as")


class Command(NamedTuple):
    """A row of the table: ``module`` has ``configure(parser, command)`` and ``execute(face, arguments)``."""

    name: str
    help: str
    module: str


COMMANDS: Final[tuple[Command, ...]] = (
    Command("init", "make this project's store", "periplus.cli.store.maintenance"),
    Command("connect", "let coding agents use this project's memory: server, hooks, instructions, skill", "periplus.cli.integration.connection"),
    Command("disconnect", "take out of agents' files what connect put there", "periplus.cli.integration.connection"),
    Command("tour", "the whole story on this repository, in seconds, offline", "periplus.cli.tour.demonstration"),
    Command("status", "what is in the store, and whether it is sound", "periplus.cli.store.maintenance"),
    Command("doctor", "check the whole store: find, explain, and with --repair mend", "periplus.cli.store.maintenance"),
    Command("completion", "print the script by which bash, zsh or fish complete commands and options", "periplus.cli.integration.completion"),
    Command("remember", "write down a decision, constraint, trap, lesson or note", "periplus.cli.memory.knowledge"),
    Command("recall", "find what is known about something", "periplus.cli.memory.knowledge"),
    Command("brief", "what an agent should know before a task, within a budget", "periplus.cli.memory.knowledge"),
    Command("related", "files likely to change, memory and work related to files or a task", "periplus.cli.memory.relevance"),
    Command("show", "one entity, whole, with its history", "periplus.cli.memory.knowledge"),
    Command("review", "what of memory is stale, expired, or fails its check", "periplus.cli.memory.review"),
    Command("confirm", "say that something still holds, and anchor it to the code as it is now", "periplus.cli.memory.review"),
    Command("probe", "run the check commands of constraints and traps, with your consent", "periplus.cli.memory.review"),
    Command("set", "set fields of an entity", "periplus.cli.memory.lifecycle"),
    Command("state", "bring entities into a state, with what that entails", "periplus.cli.memory.lifecycle"),
    Command("evolve", "say something anew in place of an entity, which it supersedes", "periplus.cli.memory.lifecycle"),
    Command("merge", "say one thing in place of several entities", "periplus.cli.memory.lifecycle"),
    Command("split", "say several things in place of one entity", "periplus.cli.memory.lifecycle"),
    Command("link", "say how an entity is related to another", "periplus.cli.memory.lifecycle"),
    Command("reflect", "propose memory from what trails show: failures, corrections, routines", "periplus.cli.memory.candidates"),
    Command("candidates", "proposed memory, to accept or refuse", "periplus.cli.memory.candidates"),
    Command("changed", "what others changed since your last session, a record or a time", "periplus.cli.memory.relevance"),
    Command("who", "who works here now, on what", "periplus.cli.work.sessions"),
    Command("session", "begin or end a session of work", "periplus.cli.work.sessions"),
    Command("check", "whose claim paths are now, and which rules and traps are about them", "periplus.cli.work.claims"),
    Command("claim", "say which paths you work on now; see who holds what; let go", "periplus.cli.work.claims"),
    Command("plan", "work in steps: make plans, take the next step that is ready", "periplus.cli.work.plans"),
    Command("handoff", "pass on the state of work, and take it over", "periplus.cli.work.handoffs"),
    Command("inbox", "your mail; what other projects know, to accept or refuse", "periplus.cli.work.inbox"),
    Command("trail", "import, list, show and verify the records of agent runs", "periplus.cli.trail.commands"),
    Command("context", "commit, merge, select, stream and exchange typed pieces of knowledge", "periplus.cli.context.commands"),
    Command("log", "the records of the journal: the newest, the new ones, or as they come", "periplus.cli.journal.history"),
    Command("blame", "which record set each field of an entity, when and by whom", "periplus.cli.journal.history"),
    Command("undo", "take back what records or a session changed, by new records", "periplus.cli.journal.history"),
    Command("prove", "write a proof of a record that needs no store to check", "periplus.cli.journal.proofs"),
    Command("head", "sign and print the tree head: one hash over every record", "periplus.cli.journal.proofs"),
    Command("verify", "check a proof", "periplus.cli.journal.proofs"),
    Command("redact", "take a secret out of the store for good; proofs still hold", "periplus.cli.journal.redaction"),
    Command("sync", "exchange records with another clone, through a folder or a git remote", "periplus.cli.store.sync"),
    Command("export", "write the whole store to one file, verified", "periplus.cli.store.package"),
    Command("import", "make a project's store from such a file", "periplus.cli.store.package"),
    Command("migrate", "take in a folder of the notification log (v1), keep both the same, go back", "periplus.cli.store.migration"),
    Command("run", "let the agent do a task here; every run is a trail", "periplus.cli.agent.run"),
    Command("setup", "choose a provider and a model for the agent, once", "periplus.cli.agent.setup"),
    Command("models", "which models can answer, and the keys of their providers", "periplus.cli.agent.models"),
    Command("servers", "which MCP servers the agent has, whether they work, and which tools changed", "periplus.cli.agent.servers"),
    Command("trust", "which folders may say how the agent works in them", "periplus.cli.agent.trust"),
    Command("skills", "ways of working that the agent has here, and those that its sessions suggest", "periplus.cli.agent.skills"),
    Command("plugins", "programs of others that the agent may run: list them, trust them", "periplus.cli.agent.skills"),
    Command("mcp", "serve this project's memory to any MCP client, over standard input or HTTP on loopback", "periplus.cli.integration.mcp"),
    Command("hook", "what agents call at their events: take note, and say what is known", "periplus.cli.integration.hook"),
)  # fmt: skip
# What the help says above the first command of each part.
PARTS: Final[dict[str, str]] = {
    "init": "begin",
    "remember": "memory",
    "changed": "beside others",
    "trail": "what agents did, and what they are to know",
    "log": "history and proofs",
    "sync": "between machines and formats",
    "run": "an agent of our own",
    "mcp": "called by agents",
}
# What a command that has actions does where none is named: it shows what there is.
ALONE: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("candidates", "claim", "handoff", "models", "plan", "plugins", "servers", "skills", "trail", "trust"), "list"
    ),
    "inbox": "mail",
}
# What is imported late may be what no descriptor is left for, behind a write that was durable by then.
_MEND_FILES: Final = "Raise the limit (ulimit -n). If this was to write, `periplus log` says whether it has."
_OLDER_NAMES: Final = {("trust", "take"): "withdraw", ("skills", "reject"): "refuse"}


class _Formatter(argparse.HelpFormatter):
    """argparse makes one for each argument, and asks shutil for the width; that import costs more than the rest."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_help_width())

    def add_argument(self, action: argparse.Action) -> None:
        """Argparse forgets that the names of commands stand further in: the longest would have a line of its own."""
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - argparse offers no other way to its subparsers
            self._action_max_length += self._indent_increment

    def _format_action(self, action: argparse.Action) -> str:
        text = super()._format_action(action)
        is_command = isinstance(action, argparse._SubParsersAction._ChoicesPseudoAction)  # noqa: SLF001 - likewise
        return f"\n  {PARTS[action.dest]}:\n{text}" if is_command and action.dest in PARTS else text

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)


class _RawFormatter(_Formatter, argparse.RawDescriptionHelpFormatter):
    """The same for a text whose lines stand as they were written."""


def _help_width() -> int:
    try:
        return max(40, int(os.environ.get("COLUMNS", "")) - 2)
    except ValueError:
        pass
    try:
        return max(40, min(100, os.get_terminal_size(1).columns - 2))
    except OSError:
        return 98


class _Parser(argparse.ArgumentParser):
    typed = ""  # the command, where this is the parser of the whole line
    argv: Sequence[str] = ()

    def _get_formatter(self) -> argparse.HelpFormatter:
        kind = self.formatter_class
        return (_RawFormatter if kind is argparse.RawDescriptionHelpFormatter else _Formatter)(self.prog)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> object:
        """Argparse takes the value of ``--option=--`` for the mark behind which all are words, and gives a list of none."""
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        from periplus.cli.common.suggestions import advice

        raise _usage_error(*advice(message, f"{self.prog} {self.typed}".strip(), _Parser.argv))

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Argparse takes no notice of what cannot be written, and leaves with 0. Raises BrokenPipeError, EnvironmentFailure."""
        if message:
            _say(message) if file is sys.stdout else super()._print_message(message, file)

    def format_help(self) -> str:
        if self.epilog is None:
            from periplus.cli.common.examples import epilog

            self.epilog = epilog(self.prog.removeprefix("periplus ")) or None
        return super().format_help()


def _say(text: str) -> None:
    """Write what is all that was asked for. Raises BrokenPipeError, EnvironmentFailure."""
    if getattr(sys.stdout, "name", "") == os.devnull:  # see ``_prepare_streams``
        raise _unheard()
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        from periplus.base.errors import EnvironmentFailure

        raise EnvironmentFailure(
            f"what it says cannot be written to standard output: {error.strerror or error}", safe="Nothing was done."
        ) from error


def _usage_error(wrong: str, mend: str) -> UsageError:
    from periplus.base.errors import UsageError  # here, for `--help` needs no more than this module

    return UsageError(wrong, mend=mend)


def run() -> NoReturn:
    """The entry point of the ``periplus`` command, but for hooks; see ``entry``."""
    _prepare_streams()
    _leave(main(sys.argv[1:]))


def _leave(code: int) -> NoReturn:
    """End the process. All that was opened is closed by now: to take apart what was loaded, object by object, would cost as much as
    a seventh of a short command. What asked to be called at the end is called; threads, and who watches the process, have it as ever.
    """
    threading = sys.modules.get("threading")
    if (threading is not None and threading.active_count() > 1) or sys.getprofile() or sys.gettrace():
        sys.exit(code)
    import atexit

    atexit._run_exitfuncs()  # noqa: SLF001 - Python offers no other way to do that without the rest
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        pass  # ``main`` has flushed what counts, and told what could not be written
    os._exit(code)


def main(argv: Sequence[str]) -> int:
    """Run one command line; gives its exit code."""
    as_json = "--json" in argv
    if not argv and _is_for_talk():
        argv = ["run"]
    code = 0
    try:
        code = _execute(_parse(argv))
        _flush_output()
    except BrokenPipeError:
        # The reader of our output went away, as `| head` does: no error by itself. Nothing more can be written there.
        from periplus.cli.common.face import give_up_output

        give_up_output()
    except KeyboardInterrupt:
        return _interrupted(as_json=as_json)
    except Exception as error:  # noqa: BLE001 - all of them end here: a person never sees a traceback
        told = _told(error)
        if told.exit_code == EXIT_USAGE and not told.mend:
            from periplus.cli.common.suggestions import help_of

            told.mend = help_of(argv)
        return _report(told, as_json=as_json)
    return code


def _interrupted(*, as_json: bool) -> int:
    from periplus.cli.common.interrupts import EXIT_INTERRUPTED, INTERRUPTED, INTERRUPTED_DOCUMENT

    try:
        if as_json:
            sys.stdout.write(INTERRUPTED_DOCUMENT)
        sys.stdout.flush()
    except OSError:
        from periplus.cli.common.face import give_up_output

        give_up_output()
    sys.stderr.write(INTERRUPTED)
    return EXIT_INTERRUPTED


def _flush_output() -> None:
    """Raises BrokenPipeError, EnvironmentFailure."""
    try:
        sys.stdout.flush()
    except OSError as error:
        from periplus.cli.common.face import unwritable

        raise unwritable(error) from error


def _is_for_talk() -> bool:
    """Whether a person who types nothing but the program's name is at a terminal, and has set up the agent."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.isfile(os.path.join(base, "periplus", "agent.toml"))


def _told(error: Exception) -> PeriplusError:
    """``error`` as a person is told of it. With PERIPLUS_TRACEBACK a defect is raised as it is."""
    from periplus.base.errors import EnvironmentFailure, PeriplusError, UsageError, room_advice

    if isinstance(error, PeriplusError):
        return error
    if isinstance(error, RecursionError):
        return UsageError("the input is nested too deeply", safe="Nothing was changed.")
    if isinstance(error, MemoryError):
        return EnvironmentFailure("the system has no memory left", safe="Nothing that was acknowledged is lost.")
    if isinstance(error, OSError):
        place = f" ({error.filename})" if error.filename else ""
        wrong = f"the system refused: {error.strerror or error}{place}"
        mend = _MEND_FILES if error.errno in (errno.EMFILE, errno.ENFILE) else ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            mend = room_advice(error.filename)
        if place and error.errno in (errno.EACCES, errno.EPERM):
            mend = "Check the owner and the mode of that path, then repeat the command."
        return EnvironmentFailure(wrong, safe="Nothing that was acknowledged is lost.", mend=mend)
    if os.environ.get("PERIPLUS_TRACEBACK"):
        raise error
    told = PeriplusError(
        f"a defect of Periplus: {type(error).__name__}: {error}",
        safe="What was acknowledged is kept.",
        mend="Set PERIPLUS_TRACEBACK=1 and repeat the command to report it.",
    )
    told.exit_code, told.code = EXIT_DEFECT, "defect"
    return told


def _prepare_streams() -> None:
    """Streams that take every text; one that the caller closed goes nowhere, so that no file gets its descriptor.

    Under PYTHONUNBUFFERED standard output is a stream that takes it for a whole write where the system took a part, as of a disk that is
    nearly full, and says nothing of the rest: it is written through a buffer all the same, which goes on until all is there or the system refuses.
    """
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 - it stands until the process ends
            assert stream.fileno() >= descriptor
            setattr(sys, name, stream)
        elif name == "stdout" and isinstance(stream.buffer, io.RawIOBase):
            sys.stdout = open(stream.fileno(), mode, encoding=stream.encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
        elif mode == "w":
            stream.reconfigure(errors="backslashreplace")


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
    elif list(argv) in (["version"], ["-V"]):
        argv = ["--version"]
    elif tuple(argv[:2]) in _OLDER_NAMES:
        argv = [argv[0], _OLDER_NAMES[argv[0], argv[1]], *argv[2:]]
    elif argv and argv[0] in ALONE and _names_no_action(argv[1:]):
        argv = [argv[0], ALONE[argv[0]], *argv[1:]]
    typed = next((word for word in argv if not word.startswith("-")), "")
    _check_first(argv, typed)
    _Parser.argv = argv
    parser = make_parser(typed, is_alone=argv[:1] == [typed])
    arguments, extra = parser.parse_known_args(argv)
    if extra:
        from periplus.cli.common.suggestions import take_up, words_left_over

        leaf = _leaf_of(parser, arguments)
        if not take_up(extra, leaf, arguments, argv):
            raise words_left_over(extra, leaf, arguments)
    if arguments.version:
        from periplus import __version__
        from periplus.base.speed import FORM

        _say(f"periplus {__version__} ({FORM})\n")
        parser.exit(0)
    if not arguments.command:
        parser.print_help(sys.stdout)
        parser.exit(2 if argv else 0)
    if arguments.store == "":  # as of a variable that is not set: no other store is to be taken for it
        raise _usage_error("--store is empty", "Name a folder, or leave the option out.")
    return arguments


def _names_no_action(words: Sequence[str]) -> bool:
    """Whether what stands behind a command that has actions begins with options, or is nothing; help is of the command itself."""
    return not words or (words[0].startswith("-") and not {"-h", "--help"} & {*words})


def make_parser(typed: str, *, is_alone: bool = False) -> argparse.ArgumentParser:
    """The parser of the whole command line, of whose commands only ``typed`` knows its arguments; with ``is_alone`` it knows no other
    command either: to make a parser for each takes longer than many commands do.
    """
    parser = _Parser(
        prog="periplus",
        description="The memory and the logbook of coding agents.",
        epilog="`periplus COMMAND --help` says more.\nStart with `periplus init` or `periplus tour`.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", prog="periplus")
    for command in COMMANDS:
        if is_alone and command.name != typed:
            continue
        description = command.help[0].upper() + command.help[1:] + "."
        if command.name in ALONE:
            description += f" Without an ACTION: {ALONE[command.name]}."
        sub = commands.add_parser(command.name, help=command.help, description=description, allow_abbrev=False)
        if command.name == typed:
            parser.typed = typed
            _module(command).configure(sub, command.name)
            for leaf in leaves(sub):
                _common(leaf)
    return parser


def _check_first(argv: Sequence[str], typed: str) -> None:
    """What argparse would answer with a list of all commands."""
    if argv and argv[0].startswith("--") and argv[0].partition("=")[0] in COMMON_OPTIONS:
        raise _usage_error(f"{argv[0]} stands before the command", f"Type it behind: periplus COMMAND {argv[0]}")
    if any("\0" in word for word in argv):  # the system hands none on; who calls ``main`` may
        raise _usage_error("an argument holds a NUL character", "Leave it out.")
    names = [command.name for command in COMMANDS]
    if argv and argv[0] == typed and typed not in names:
        from periplus.cli.common.suggestions import command_meant

        near = command_meant(typed, names)
        guess = f"Did you mean `periplus {near}`? " if near else ""
        raise _usage_error(f"there is no command {typed!r}", guess + "See `periplus --help`.")


def _leaf_of(parser: argparse.ArgumentParser, typed: argparse.Namespace) -> argparse.ArgumentParser:
    """The parser of the command, and of its action where it has some, that ``typed`` is of."""
    for action in parser._actions:  # noqa: SLF001 - argparse offers no other way to its subparsers
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - likewise
            name = getattr(typed, action.dest)
            return _leaf_of(action.choices[name], typed) if name in action.choices else parser
    return parser


def leaves(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The parser itself, or where it has subcommands, theirs."""
    for action in parser._actions:  # noqa: SLF001 - argparse offers no other way to its subparsers
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - likewise
            return [leaf for sub in action.choices.values() for leaf in leaves(sub)]
    return [parser]


def _common(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("everywhere")
    group.add_argument(
        "--json",
        action="store_true",
        help="JSON on standard output: one document, or one on a line where there are many",
    )
    group.add_argument(
        "--store", metavar="DIR", help="the store, or the folder that it lies in (default: this project's)"
    )
    group.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colour in the output (default: auto, on a terminal that has it)",
    )
    group.add_argument("--as", dest="writer", metavar="NAME", help="who writes (default: PERIPLUS_AGENT, or you)")


def _module(command: Command) -> _CommandModule:
    import importlib

    module = importlib.import_module(command.module)
    return _CommandModule(module.configure, module.execute)


class _CommandModule(NamedTuple):
    configure: Configure
    execute: Execute


def _execute(arguments: argparse.Namespace) -> int:
    from periplus.base.import_trimming import load_msgspec
    from periplus.cli.common.face import give_up_output, standard_face

    load_msgspec()
    command = next(row for row in COMMANDS if row.name == arguments.command)
    face = standard_face(as_json=arguments.json, store=arguments.store, color=arguments.color, name=arguments.writer)
    _refuse_unheard(face, arguments)
    execute = _module(command).execute
    try:
        code = execute(face, arguments)
        if arguments.command not in _TELLS_OF_DAMAGE:
            face.warn(face.damage)
        face.warn_of_folder()
        return code  # noqa: TRY300 - the except below is for the command alone, and a warning raises nothing
    except BrokenPipeError:  # what the command found is found, whoever reads of it
        give_up_output()
        return face.code
    except Exception as error:  # whatever it is, the bar goes; only a damaged index is dealt with here
        face.clear_progress()
        if not face.discard_index(error):
            _perhaps_damaged(error, face)
            _without_key(error, arguments)
            raise
    # The index is derived: the second run builds it anew. Writing twice is no danger, a duplicate is found.
    sys.stderr.write("periplus: the index was damaged; it is built anew from the journal\n")
    return execute(face, arguments)


def _refuse_unheard(face: Face, arguments: argparse.Namespace) -> None:
    """Raises EnvironmentFailure where a command that does nothing but say something has nowhere to say it."""
    action = getattr(arguments, "action", "")
    words = f"{arguments.command} {action}" if isinstance(action, str) and action else arguments.command
    is_said = (words == "export" and arguments.file == "-") or (words == "head" and not arguments.out)
    if face.is_unheard and (words in _ONLY_SAYS or is_said or getattr(arguments, "dry_run", False)):
        raise _unheard()


def _unheard() -> PeriplusError:
    from periplus.base.errors import EnvironmentFailure

    return EnvironmentFailure(
        "standard output is closed: what the command says would go nowhere",
        safe="Nothing was done.", mend="Open it, or write to a file: > FILE",
    )  # fmt: skip


def _perhaps_damaged(error: Exception, face: Face) -> None:
    """Who did not find something in a damaged store is told that it may have been there."""
    from periplus.base.errors import NotFoundError

    if isinstance(error, NotFoundError) and face.damage is not None:
        error.mend = "The store is damaged, and what is asked for may be in what cannot be read: run `periplus doctor`."


def _without_key(error: Exception, arguments: argparse.Namespace) -> None:
    """Who does not know what became of a command that takes no key finds out otherwise."""
    from periplus.base.errors import OutcomeUnknownError

    if isinstance(error, OutcomeUnknownError) and not hasattr(arguments, "key"):
        error.mend = "`periplus log` says whether it was written. Where it was not, repeat the command."


def _report(error: PeriplusError, *, as_json: bool) -> int:
    from periplus.cli.common.face import cut_short, give_up_output, visible

    try:
        if as_json:
            import json

            document = {
                "schema": "periplus.error/1", "error": error.code, "wrong": str(error), "safe": error.safe,
                "next": error.mend, "exit_code": error.exit_code,
            }  # fmt: skip
            sys.stdout.write(json.dumps(document) + "\n")
        sys.stdout.flush()
    except OSError:
        give_up_output()  # what could not be written must not fail once more when the process ends
    sys.stderr.write(f"periplus: {visible(cut_short(str(error)))}\n")
    rest = " ".join(part for part in (error.safe, error.mend) if part)
    if rest:
        sys.stderr.write(visible(cut_short(rest)) + "\n")
    return error.exit_code
