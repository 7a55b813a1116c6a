"""``periplus``: the table of commands and the parser. Only the module of the command that was typed is imported.

Exit codes: 0 done, 1 found a problem (or nothing found), 2 wrong usage or input, 3 damaged store or file, or the machine refused,
4 lock not had in time, 5 refused, 6 outcome unknown, 7 a run reached a limit, 70 a defect of Periplus itself, 130 interrupted.
"""

from __future__ import annotations

__all__ = [
    "ALONE",
    "COMMANDS",
    "COMMON_OPTIONS",
    "OVERVIEW",
    "PARTS",
    "Command",
    "leaves",
    "main",
    "make_parser",
    "run",
]

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
_TELLS_OF_DAMAGE: Final = ("status", "doctor")  # in their output; others warn after theirs
# Commands that only print: with a closed standard output they would do nothing and yet succeed.
_ONLY_SAYS: Final = frozenset({
    "", "agents", "blame", "brief", "candidates list", "changed", "claim list", "code calls", "code find", "code impact", "code map", "code outline",
    "code refs", "code search", "code show", "code status", "completion", "context diff", "context expand", "context log",
    "context refs", "context show", "dispatch agents", "dispatch list", "dispatch show", "dispatch standing", "handoff list",
    "inbox mail", "log", "loop list", "loop show", "models list", "plan list", "plan show", "plugins list", "recall", "related", "review", "servers list", "show",
    "skills list", "status", "trail diff", "trail list", "trail show", "trust list", "who",
})  # fmt: skip
COMMON_OPTIONS: Final = ("--json", "--store", "--color", "--as")


class Command(NamedTuple):
    """A row of the table: ``module`` has ``configure(parser, command)`` and ``execute(face, arguments)``."""

    name: str
    help: str
    module: str


COMMANDS: Final[tuple[Command, ...]] = (
    Command("init", "create the store of this project", "periplus.cli.store.maintenance"),
    Command("connect", "give coding agents access to this project's memory: MCP server, hooks, instructions, skill", "periplus.cli.integration.connection"),
    Command("disconnect", "remove what connect wrote into the agents' files", "periplus.cli.integration.connection"),
    Command("agents", "list coding agents: found, connected, heard through hooks, with sessions to import", "periplus.cli.integration.agents"),
    Command("tour", "show what Periplus does, on this repository, in seconds, offline", "periplus.cli.tour.demonstration"),
    Command("status", "show what the store contains and whether it is intact", "periplus.cli.store.maintenance"),
    Command("doctor", "check the whole store, explain each problem, and repair it with --repair", "periplus.cli.store.maintenance"),
    Command("completion", "print a completion script for bash, zsh or fish", "periplus.cli.integration.completion"),
    Command("remember", "save a decision, constraint, trap, lesson or note", "periplus.cli.memory.knowledge"),
    Command("recall", "search the memory of this project", "periplus.cli.memory.knowledge"),
    Command("brief", "collect what an agent should know before a task, within a token budget", "periplus.cli.memory.knowledge"),
    Command("related", "list files, memory and work related to given files or to a task", "periplus.cli.memory.relevance"),
    Command("show", "show one entity with all its fields and its history", "periplus.cli.memory.knowledge"),
    Command("review", "list memory that is stale, expired, in conflict or fails its check", "periplus.cli.memory.review"),
    Command("confirm", "confirm that an entity still holds, and anchor it to the current code", "periplus.cli.memory.review"),
    Command("probe", "run the check commands of constraints and traps, if you allow it", "periplus.cli.memory.review"),
    Command("set", "set fields of an entity", "periplus.cli.memory.lifecycle"),
    Command("state", "change the state of entities, and of the entities that depend on them", "periplus.cli.memory.lifecycle"),
    Command("evolve", "replace an entity by a new one that supersedes it", "periplus.cli.memory.lifecycle"),
    Command("merge", "replace several entities by one", "periplus.cli.memory.lifecycle"),
    Command("split", "replace one entity by several", "periplus.cli.memory.lifecycle"),
    Command("link", "record how one entity is related to another", "periplus.cli.memory.lifecycle"),
    Command("reflect", "propose memory from trails: failures, corrections, routines", "periplus.cli.memory.candidates"),
    Command("candidates", "list proposed memory, accept or refuse it", "periplus.cli.memory.candidates"),
    Command("code", "find symbols, their uses, what a change reaches and the tests to run", "periplus.cli.code.commands"),
    Command("changed", "list what others changed since your last session, a record or a time", "periplus.cli.memory.relevance"),
    Command("who", "list who works here now, and on what", "periplus.cli.work.sessions"),
    Command("session", "begin or end a session of work", "periplus.cli.work.sessions"),
    Command("check", "show who claims paths, and which constraints and traps apply to them", "periplus.cli.work.claims"),
    Command("claim", "claim paths, list claims, release them", "periplus.cli.work.claims"),
    Command("plan", "make plans with steps, and take the next step that is ready", "periplus.cli.work.plans"),
    Command("dispatch", "let several agents do a plan, each step tested and merged; watch, stop, answer them", "periplus.cli.dispatch.commands"),
    Command("loop", "let several agents review, find ideas, debug or research in phases, each with a gate", "periplus.cli.dispatch.loop.commands"),
    Command("handoff", "hand over unfinished work, or take it over", "periplus.cli.work.handoffs"),
    Command("inbox", "read and send mail; accept or refuse memory of other projects", "periplus.cli.work.inbox"),
    Command("trail", "record, import, show, verify and replay what agents did", "periplus.cli.trail.commands"),
    Command("context", "commit, merge, select, stream and exchange typed pieces of knowledge", "periplus.cli.context.commands"),
    Command("log", "list the records of the journal: the newest, the unread, or new ones as they arrive", "periplus.cli.journal.history"),
    Command("blame", "show which record set each field of an entity, when and by whom", "periplus.cli.journal.history"),
    Command("undo", "reverse the changes of records or of a session, by new records", "periplus.cli.journal.history"),
    Command("prove", "write a proof of a record that can be checked without the store", "periplus.cli.journal.proofs"),
    Command("head", "sign and print the tree head, one hash over all records", "periplus.cli.journal.proofs"),
    Command("verify", "verify a proof", "periplus.cli.journal.proofs"),
    Command("redact", "remove a secret from the store for good; proofs stay valid", "periplus.cli.journal.redaction"),
    Command("sync", "exchange records with another clone through a folder or a git remote", "periplus.cli.store.sync"),
    Command("export", "write the whole store to one file and verify it", "periplus.cli.store.package"),
    Command("import", "create a store from a file that export wrote", "periplus.cli.store.package"),
    Command("migrate", "import a folder of version 1 (notification log), mirror it, or go back to it", "periplus.cli.store.migration"),
    Command("run", "let the agent do a task here; each run is recorded as a trail", "periplus.cli.agent.run"),
    Command("setup", "choose the provider, the key and the model of the agent", "periplus.cli.agent.setup"),
    Command("models", "list models, and store the API keys of their providers", "periplus.cli.agent.models"),
    Command("servers", "list the agent's MCP servers, check them, and accept changed tools", "periplus.cli.agent.servers"),
    Command("trust", "list or change the folders whose own settings the agent follows", "periplus.cli.agent.trust"),
    Command("skills", "list the agent's skills, and accept or refuse suggested ones", "periplus.cli.agent.skills"),
    Command("plugins", "list the agent's plugins, and trust them or not", "periplus.cli.agent.skills"),
    Command("web", "show memory, sessions, work and history in a browser, on this machine", "periplus.cli.integration.web"),
    Command("mcp", "serve this project's memory to MCP clients, over standard input or HTTP on loopback", "periplus.cli.integration.mcp"),
    Command("hook", "handle an event of a coding agent (agents call this, people do not)", "periplus.cli.integration.hook"),
)  # fmt: skip
# ``periplus`` alone, with common options at most: no name is typed for it.
OVERVIEW: Final = Command("", "show what waits for you, and what to type next", "periplus.cli.work.overview")
# Headings of the help, by the first command below each.
PARTS: Final[dict[str, str]] = {
    "init": "getting started",
    "remember": "memory",
    "code": "code",
    "changed": "coordination",
    "trail": "runs and contexts",
    "log": "history and proofs",
    "sync": "exchange",
    "run": "the agent of Periplus",
    "web": "to look at",
    "mcp": "called by agents",
}
# The default actions of commands that have actions.
ALONE: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "candidates",
            "claim",
            "dispatch",
            "handoff",
            "loop",
            "models",
            "plan",
            "plugins",
            "servers",
            "skills",
            "trail",
            "trust",
        ),
        "list",
    ),
    "inbox": "mail",
}
# Options that mean another action than the default one.
_ALONE_WITH: Final = {("dispatch", "--resume"): "start"}
# A late import may fail for want of file descriptors, after a write that is durable already.
_MEND_FILES: Final = "Raise the limit (ulimit -n). If the command writes, check `periplus log` before you repeat it."
_OLDER_NAMES: Final = {("trust", "take"): "withdraw", ("skills", "reject"): "refuse"}


class _Formatter(argparse.HelpFormatter):
    """A formatter that knows its width: argparse creates one per argument, and would ask shutil, a slow import."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_help_width())

    def add_argument(self, action: argparse.Action) -> None:
        """Reserve width for the indentation of subcommands, which argparse forgets; the longest name would get a line of its own."""
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
    """The same for texts whose line breaks are kept."""


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
    typed = ""  # the command that was typed, in the top-level parser
    argv: Sequence[str] = ()

    def _get_formatter(self) -> argparse.HelpFormatter:
        kind = self.formatter_class
        return (_RawFormatter if kind is argparse.RawDescriptionHelpFormatter else _Formatter)(self.prog)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> object:
        """Accept ``--option=--``: argparse takes its value for the end-of-options mark, and returns an empty list."""
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        from periplus.cli.common.suggestions import advice

        raise _usage_error(*advice(message, f"{self.prog} {self.typed}".strip(), _Parser.argv))

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Report a failed write, which argparse ignores. Raises BrokenPipeError, EnvironmentFailure."""
        if message:
            _say(message) if file is sys.stdout else super()._print_message(message, file)

    def format_help(self) -> str:
        if self.epilog is None:
            from periplus.cli.common.examples import epilog

            self.epilog = epilog(self.prog.removeprefix("periplus ")) or None
        return super().format_help()


def _say(text: str) -> None:
    """Write the whole output of a call such as --help. Raises BrokenPipeError, EnvironmentFailure."""
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
            f"standard output cannot be written: {error.strerror or error}", safe="Nothing was done."
        ) from error


def _usage_error(wrong: str, mend: str) -> UsageError:
    from periplus.base.errors import UsageError  # imported here, because `--help` loads only this module

    return UsageError(wrong, mend=mend)


def run() -> NoReturn:
    """Run the entry point of the ``periplus`` command, except for hooks; see ``entry``."""
    _prepare_streams()
    _leave(main(sys.argv[1:]))


def _leave(code: int) -> NoReturn:
    """Exit without taking the loaded objects apart, which would cost up to a seventh of a short command. Handlers of ``atexit``
    and threads run as usual.
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
        pass  # ``main`` has flushed the output and reported failures
    os._exit(code)


def main(argv: Sequence[str]) -> int:
    """Run one command line; return its exit code."""
    as_json = "--json" in argv
    code = 0
    try:
        code = _execute(_parse(argv))
        _flush_output()
    except BrokenPipeError:
        # The reader of our output closed it, as `| head` does. That is no error.
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
    """Flush standard output. Raises BrokenPipeError, EnvironmentFailure."""
    try:
        sys.stdout.flush()
    except OSError as error:
        from periplus.cli.common.face import unwritable

        raise unwritable(error) from error


def _is_for_talk() -> bool:
    """Return whether plain `periplus` goes on with a session: at a terminal, with the agent set up."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.isfile(os.path.join(base, "periplus", "agent.toml"))


def _told(error: Exception) -> PeriplusError:
    """Convert ``error`` to the error that is shown. With PERIPLUS_TRACEBACK a defect is raised unchanged."""
    from periplus.base.errors import EnvironmentFailure, PeriplusError, UsageError, room_advice

    if isinstance(error, PeriplusError):
        return error
    if isinstance(error, RecursionError):
        return UsageError("the input is nested too deeply", safe="Nothing was changed.")
    if isinstance(error, MemoryError):
        return EnvironmentFailure("the system has no memory left", safe="No acknowledged write is lost.")
    if isinstance(error, OSError):
        place = f" ({error.filename})" if error.filename else ""
        wrong = f"the system refused: {error.strerror or error}{place}"
        mend = _MEND_FILES if error.errno in (errno.EMFILE, errno.ENFILE) else ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            mend = room_advice(error.filename)
        if place and error.errno in (errno.EACCES, errno.EPERM):
            mend = "Check the owner and the mode of that path, then repeat the command."
        return EnvironmentFailure(wrong, safe="No acknowledged write is lost.", mend=mend)
    if os.environ.get("PERIPLUS_TRACEBACK"):
        raise error
    told = PeriplusError(
        f"a defect of Periplus: {type(error).__name__}: {error}",
        safe="Acknowledged writes are kept.",
        mend="Set PERIPLUS_TRACEBACK=1 and repeat the command to report it.",
    )
    told.exit_code, told.code = EXIT_DEFECT, "defect"
    return told


def _prepare_streams() -> None:
    """Make the standard streams accept any text. A stream that the caller closed is opened on the null device, so that no file
    gets its descriptor.

    Under PYTHONUNBUFFERED, standard output reports success for a partial write, as to a nearly full disk. It is therefore wrapped
    in a buffer, which continues until everything is written or the system refuses.
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
        option = argv[1].partition("=")[0] if argv[1:] else ""
        argv = [argv[0], _ALONE_WITH.get((argv[0], option), ALONE[argv[0]]), *argv[1:]]
    if _is_overview(argv):
        return _parse_overview(argv)
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
        parser.exit(2)
    _check_store(arguments)
    return arguments


def _check_store(arguments: argparse.Namespace) -> None:
    if arguments.store == "":  # as from an unset variable: do not fall back to another store
        raise _usage_error("--store is empty", "Name a folder, or omit the option.")


def _is_overview(argv: Sequence[str]) -> bool:
    """Return whether only common options are typed, and no command: `periplus`, `periplus --json`."""
    words = iter(argv)
    for word in words:
        option, equals, _ = word.partition("=")
        if option not in COMMON_OPTIONS:
            return False
        if option != "--json" and not equals:
            next(words, "")
    return True


def _parse_overview(argv: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="periplus", allow_abbrev=False)
    _common(parser)
    arguments = parser.parse_args(argv)
    _check_store(arguments)
    arguments.command, arguments.talks = OVERVIEW.name, not argv and _is_for_talk()
    return arguments


def _names_no_action(words: Sequence[str]) -> bool:
    """Return whether the words after a command that has actions name none: they are empty, or start with an option other than --help."""
    return not words or (words[0].startswith("-") and not {"-h", "--help"} & {*words})


def make_parser(typed: str, *, is_alone: bool = False) -> argparse.ArgumentParser:
    """Return the parser of the command line. Only ``typed`` gets its arguments; with ``is_alone`` the other commands are left
    out, because a parser for each takes longer than many commands do.
    """
    parser = _Parser(
        prog="periplus",
        description="The memory and the logbook of coding agents.",
        epilog="Run `periplus COMMAND --help` for the options of a command.\n"
        "`periplus` alone shows what waits for you.\nStart with `periplus init` or `periplus tour`.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
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
    """Raise UsageError for mistakes that argparse would answer with a list of all commands."""
    if argv and argv[0].startswith("--") and argv[0].partition("=")[0] in COMMON_OPTIONS:
        raise _usage_error(
            f"{argv[0]} comes before the command", f"Put it after the command: periplus COMMAND {argv[0]}"
        )
    if any("\0" in word for word in argv):  # the system passes none, but a caller of ``main`` may
        raise _usage_error("an argument contains a NUL character", "Remove it.")
    names = [command.name for command in COMMANDS]
    if argv and argv[0] == typed and typed not in names:
        from periplus.cli.common.suggestions import command_meant

        near = command_meant(typed, names)
        guess = f"Did you mean `periplus {near}`? " if near else ""
        raise _usage_error(f"unknown command {typed!r}", guess + "See `periplus --help`.")


def _leaf_of(parser: argparse.ArgumentParser, typed: argparse.Namespace) -> argparse.ArgumentParser:
    """Return the parser of the command, or of its action, in ``typed``."""
    for action in parser._actions:  # noqa: SLF001 - argparse offers no other way to its subparsers
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - likewise
            name = getattr(typed, action.dest)
            return _leaf_of(action.choices[name], typed) if name in action.choices else parser
    return parser


def leaves(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Return the parser itself, or the leaves of its subcommands."""
    for action in parser._actions:  # noqa: SLF001 - argparse offers no other way to its subparsers
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - likewise
            return [leaf for sub in action.choices.values() for leaf in leaves(sub)]
    return [parser]


def _common(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("common options")
    group.add_argument(
        "--json",
        action="store_true",
        help="print JSON: one document, or one a line where there are several",
    )
    group.add_argument(
        "--store", metavar="DIR", help="the store, or its parent folder (default: the store of this project)"
    )
    group.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="when to use colour (default: auto, on terminals that support it)",
    )
    group.add_argument(
        "--as",
        dest="writer",
        metavar="NAME",
        help="the name to write under (default: PERIPLUS_AGENT, or your user name)",
    )


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
    command = next(row for row in (*COMMANDS, OVERVIEW) if row.name == arguments.command)
    face = standard_face(as_json=arguments.json, store=arguments.store, color=arguments.color, name=arguments.writer)
    _refuse_unheard(face, arguments)
    execute = _module(command).execute
    try:
        code = execute(face, arguments)
        if arguments.command not in _TELLS_OF_DAMAGE:
            face.warn(face.damage)
        face.warn_of_folder()
        return code  # noqa: TRY300 - the except below is for the command alone, and a warning raises nothing
    except BrokenPipeError:  # the command has finished; only its reader is gone
        give_up_output()
        return face.code
    except Exception as error:  # any error clears the progress bar; only a damaged index is handled here
        face.clear_progress()
        if not face.discard_index(error):
            _perhaps_damaged(error, face)
            _without_key(error, arguments)
            raise
    # The index is derived, and the second run rebuilds it. A write that is repeated is recognized as a duplicate.
    sys.stderr.write("periplus: the index was damaged; rebuilding it from the journal\n")
    return execute(face, arguments)


def _refuse_unheard(face: Face, arguments: argparse.Namespace) -> None:
    """Raise EnvironmentFailure if a command that only prints has no standard output."""
    action = getattr(arguments, "action", "")
    words = f"{arguments.command} {action}" if isinstance(action, str) and action else arguments.command
    is_said = (words == "export" and arguments.file == "-") or (words == "head" and not arguments.out)
    if face.is_unheard and (words in _ONLY_SAYS or is_said or getattr(arguments, "dry_run", False)):
        raise _unheard()


def _unheard() -> PeriplusError:
    from periplus.base.errors import EnvironmentFailure

    return EnvironmentFailure(
        "standard output is closed, so the result could not be shown",
        safe="Nothing was done.", mend="Open it, or redirect to a file: > FILE",
    )  # fmt: skip


def _perhaps_damaged(error: Exception, face: Face) -> None:
    """Mention damage of the store in an error that something was not found."""
    from periplus.base.errors import NotFoundError

    if isinstance(error, NotFoundError) and face.damage is not None:
        error.mend = "The store is damaged, and this may be in the unreadable part. Run `periplus doctor`."


def _without_key(error: Exception, arguments: argparse.Namespace) -> None:
    """Explain how to find out the outcome of a command that has no --key."""
    from periplus.base.errors import OutcomeUnknownError

    if isinstance(error, OutcomeUnknownError) and not hasattr(arguments, "key"):
        error.mend = "Check `periplus log`; if it was not written, repeat the command."


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
        give_up_output()  # do not fail again at the end of the process
    sys.stderr.write(f"periplus: {visible(cut_short(str(error)))}\n")
    rest = " ".join(part for part in (error.safe, error.mend) if part)
    if rest:
        sys.stderr.write(visible(cut_short(rest)) + "\n")
    return error.exit_code
