"""The tools ``shell`` and ``process``: commands in the sandbox, and background processes.

The environment of a command is explicit: what ``declared_environment`` takes over by name, and nothing else of the host's. Leaving the
sandbox and using the network need a person's consent; without a person they are denied.
"""

from __future__ import annotations

__all__ = ["Consent", "Shell", "declared_environment", "process_tool", "shell_tool"]

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from periplus.agent.contracts import Access, Outcome, ToolResult
from periplus.agent.sandbox import Confinement, Sandbox, Unconfined
from periplus.agent.tools.files.tree_watch import TreeWatch
from periplus.agent.tools.files.workspace import Workspace
from periplus.agent.tools.shell.processes import Process, Processes
from periplus.agent.tools.text_pages.command_output import shorten
from periplus.agent.tools.tool_table import Arguments, ArgumentsError, Parameter, Tool
from periplus.base.errors import RefusedError
from periplus.base.filesystem.git_files import shared_git_folder
from periplus.shell.judgement import judge

ConsentKind: TypeAlias = Literal["unsandboxed", "network"]
Consent: TypeAlias = Callable[[ConsentKind, str], bool]
"""Asks a person whether a command may leave the sandbox or use the network."""

_NAMED_MAX: Final = 20
_NOT_CLAIMED: Final = frozenset({"..", ".git", ".periplus"})
_SYSTEM_PATH: Final = "/bin:/usr/bin"
DEADLINE_S: Final = 60.0
DEADLINE_S_MAX: Final = 600.0
COMMAND_CHARS_MAX: Final = 50_000
_TAKEN_OVER: Final = (
    "PATH",
    "LANG",
    "LANGUAGE",
    "TZ",
    "USER",
    "LOGNAME",
    "JAVA_HOME",
    "GOROOT",
    "RUSTUP_HOME",
    "VIRTUAL_ENV",
)
_SHELL: Final = (
    Parameter("command", "text", required=True, most=COMMAND_CHARS_MAX),
    Parameter("cwd", "text", "folder"),
    Parameter(
        "deadline_s",
        "number",
        f"then it continues in the background; default {DEADLINE_S:.0f}",
        least=0,
        most=int(DEADLINE_S_MAX),
    ),
    Parameter("background", "flag", "do not wait"),
    Parameter("terminal", "flag", "give it a terminal"),
    Parameter("network", "flag", "needs consent"),
    Parameter("unsandboxed", "flag", "needs consent"),
)
_PROCESS: Final = (
    Parameter("action", "text", required=True, choices=("list", "poll", "input", "stop")),
    Parameter("id", "text"),
    Parameter("text", "text", "input as it is typed; end a line with \\n", most=100_000),
    Parameter("close", "flag", "no more input follows"),
    Parameter("wait_s", "number", "wait for its end, at most", least=0, most=int(DEADLINE_S_MAX)),
)


def declared_environment(
    host: Mapping[str, str], *, home: str, temporary: str, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a command: host variables for tools and language by name, our own, and ``more``."""
    taken = {name: host[name] for name in _TAKEN_OVER if name in host}
    taken |= {name: value for name, value in host.items() if name.startswith("LC_")}
    path = [folder for folder in taken.get("PATH", os.defpath).split(":") if folder.startswith("/")]
    own = {
        "PATH": ":".join(path) or os.defpath, "HOME": home, "TMPDIR": temporary, "TERM": "dumb", "PAGER": "cat",
        "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0",
    }  # fmt: skip
    return {"LANG": "C.UTF-8", **taken, **own, **(more or {})}


class Shell:
    """The settings for running commands: folder, user, sandbox, and the person to ask."""

    def __init__(
        self, work: Workspace, processes: Processes, sandbox: Sandbox, *, environment: Mapping[str, str], home: str = "",
        consent: Consent | None = None, writable: Sequence[str] = (), hidden: Sequence[str] = (),
        allow_network: bool = False,
    ) -> None:  # fmt: skip
        """``environment`` is the host's, of which little is taken over; ``home`` and ``hidden`` are hidden folders."""
        self.work, self.processes, self.sandbox = work, processes, sandbox
        self._consent, self._writable, self._allow_network = consent, tuple(writable), allow_network
        self._hidden_home, self._hidden = home, tuple(hidden)
        shared = shared_git_folder(
            work.root
        )  # may be below a hidden folder; without it git reads nothing in a linked worktree
        self._kept = (shared,) if shared else ()
        self.temporary, self.home = (os.path.join(work.state, name) for name in ("tmp", "home"))
        for folder in (self.temporary, self.home):
            work.files.make_folder(folder, 0o700)
        self.environment = declared_environment(environment, home=self.home, temporary=self.temporary)
        self.watch = TreeWatch(work)
        self._told_why_not = ""
        # A program in the home folder or /tmp would be missing in the sandbox.
        places = (_SYSTEM_PATH, self.environment["PATH"]) if sandbox.layer != "none" else (self.environment["PATH"],)
        self._program = next((found for one in places if (found := shutil.which("bash", path=one))), "/bin/sh")

    def words(self, command: str) -> list[str]:
        return [self._program, "-c", command]

    def start(
        self, words: Sequence[str], cwd: str, about: str, *, network: bool = False, unsandboxed: bool = False, terminal: bool = False,
        takes_input: bool = False, passed: Sequence[int] = (), more: Mapping[str, str] | None = None, kept: Sequence[str] = (),
    ) -> Process:  # fmt: skip
        """Start a program in the folder ``cwd`` of the workspace. Raises RefusedError for what was not allowed."""
        sandbox = self.sandbox
        if unsandboxed or sandbox.layer == "none":
            self._ask("unsandboxed", about, "" if unsandboxed else f" ({sandbox.about})")
            sandbox = Unconfined()
        elif network and not self._allow_network:
            self._ask("network", about, "")
        masked = self.work.unread.masked(self.work.folder) if sandbox.layer != "none" else ()
        confinement = Confinement.of(
            self.work.root, self.temporary, self._hidden_home, writable=(self.home, *self._writable), kept=(*kept, *self._kept),
            hidden=(*self._hidden, *masked), allow_network=network or self._allow_network,
        )  # fmt: skip
        folder = self.work.folder.real_path(cwd)
        environment = {**self.environment, **({"TERM": "xterm-256color"} if terminal else {}), **(more or {})}
        return self.processes.start(
            sandbox.wrap(words, folder, confinement), folder, environment, about, terminal=terminal, passed=passed,
            takes_input=takes_input,
        )  # fmt: skip

    def changed(self, process: Process, result: ToolResult) -> ToolResult:
        """Add the files that the command changed. The reason for not tracking changes is told once."""
        effects = self.watch.after()
        watched = {one["path"] for one in effects}  # this includes calls from within a program
        merged = (*(one for one in result.effects if one["path"] not in watched), *effects)
        why_not = self.watch.why_not
        note = ""
        if effects:
            names = ", ".join(one["path"] for one in effects[:_NAMED_MAX])
            more = f" and {len(effects) - _NAMED_MAX:,} more" if len(effects) > _NAMED_MAX else ""
            note = f"\nfiles changed{'' if process.is_over else ' so far'}: {names}{more}"
            claimed = self.work.claimed([one["path"] for one in effects])
            note += f"\nclaimed by another agent: {claimed}" if claimed else ""
        elif why_not and why_not != self._told_why_not:
            self._told_why_not = why_not
            note = f"\nchanges by commands are not tracked here and cannot be undone: {why_not}"
        return msgspec.structs.replace(
            result, output=result.output.rstrip("\n") + note if note else result.output, effects=merged
        )

    def _ask(self, wish: ConsentKind, about: str, why: str) -> None:
        if self._consent is None or not self._consent(wish, about):
            said = "nobody can be asked" if self._consent is None else "it was not given"
            raise _NoConsentError(
                f"{'running outside of the sandbox' if wish == 'unsandboxed' else 'the network'} needs consent{why}, and {said}",
                safe="Nothing was run.", mend="Do without it, or ask the person.",
            )  # fmt: skip


class _NoConsentError(RefusedError):
    code = "no_consent"


def shell_tool(shell: Shell) -> Tool:
    about = f"Run a command with bash. Sandbox: {_SANDBOX_WORDS[shell.sandbox.layer]}. Its output is kept; text that is cut has a handle."
    return Tool("shell", about, _SHELL, lambda args: _run(shell, args), lambda _: (Access(resource="*", mode="write"),))


_SANDBOX_WORDS: Final = {
    "bubblewrap": "writes in the folder and /tmp only, .git read-only, no network",
    "landlock": "writes in the folder and $TMPDIR only, .git read-only, no network, no new names in the top folder beside .git",
    "none": "none, each command needs consent",
}


def _run(shell: Shell, args: Arguments) -> ToolResult:
    command = args.text("command")
    if not command.strip() or "\0" in command:
        raise ArgumentsError("shell: command is empty, or has a zero byte", safe="Nothing was run.")
    cwd = shell.work.path(args.text("cwd", ".") or ".")
    cancels = shell.processes.cancels
    with shell.work.turnstile.held(shell.work):
        shell.work.guard(_written_by(shell, command, cwd))
        return _watched(shell, command, cwd, args, cancels)


def _written_by(shell: Shell, command: str, cwd: str) -> list[str]:
    """Files of the workspace that the command line says it writes."""
    root = shell.work.root
    judgement = judge(command, home=shell.home, workspace=root, folder=os.path.join(root, cwd))
    paths = (os.path.relpath(path, root) for path in judgement.writes)
    return list(
        dict.fromkeys(
            path for path in paths if path.partition(os.sep)[0] not in _NOT_CLAIMED and not {*"*?["} & {*path}
        )
    )


def _watched(shell: Shell, command: str, cwd: str, args: Arguments, cancels: int) -> ToolResult:
    shell.watch.before()
    try:
        process = shell.start(
            shell.words(command), cwd, command, network=args.flag("network"), unsandboxed=args.flag("unsandboxed"),
            terminal=args.flag("terminal"), takes_input=args.flag("background") or args.flag("terminal"),
        )  # fmt: skip
    except _NoConsentError as error:
        return ToolResult(outcome="denied", output=f"{error}\n{error.mend}", untrusted=False)
    seconds = 0.0 if args.flag("background") else args.number("deadline_s", DEADLINE_S)
    shell.processes.in_foreground(process, seconds, cancels)
    return shell.changed(process, _told(process, process.output.news()))


def _told(process: Process, said: str) -> ToolResult:
    handle = process.output.handle
    shown = shorten(said, handle)
    if not process.is_over:
        title = (
            f"runs as {process.id} for {process.seconds:.1f} s; process(action='poll', id={process.id!r}) shows new output,"
            f" read(path={handle!r}) all of it"
        )
        return ToolResult(outcome="ok", output=f"{title}\n{shown}", handle=handle)
    outcome: Outcome = "ok" if process.exit_code == 0 else "failed"
    how = f"exit {process.exit_code}"
    if process.exit_code is not None and process.exit_code < 0:
        how = f"ended by signal {-process.exit_code}"
    if process.stopped_by:
        outcome, how = "cancelled", f"{process.stopped_by}, {how}"
    masked = f"; {process.output.masked} secrets were masked" if process.output.masked else ""
    return ToolResult(
        outcome=outcome,
        output=f"{how} in {process.seconds:.1f} s{masked}\n{shown}",
        handle=handle,
        exit_code=process.exit_code,
    )


def process_tool(processes: Processes) -> Tool:
    def accesses(args: Arguments) -> list[Access]:
        is_looking = args.text("action") in ("list", "poll")
        return [Access(resource=f"process:{args.text('id')}", mode="read" if is_looking else "write")]

    return Tool("process", "Background processes.", _PROCESS, lambda args: _process(processes, args), accesses)


def _process(processes: Processes, args: Arguments) -> ToolResult:
    action = args.text("action")
    if action == "list":
        rows = [f"{one.id}\t{_state(one)}\t{one.output.handle}\t{one.about[:120]}" for one in processes.list()]
        return ToolResult(outcome="ok", output="\n".join(rows) or "no process was started")
    process = processes.get(args.text("id"))
    if action == "stop":
        process.stop("stopped")
        return _ended(process)
    if action == "input":
        process.write(args.text("text").encode(), is_last=args.flag("close"))
    if args.has("wait_s"):
        processes.in_foreground(process, args.number("wait_s"))
    elif action == "input":
        process.wait(0.2)  # show an immediate answer at once
    return _ended(process)


def _ended(process: Process) -> ToolResult:
    """Describe an ended process; a look at a failed command is not itself a failure."""
    told = _told(process, process.output.news())
    return ToolResult(outcome="ok", output=told.output, handle=told.handle, exit_code=told.exit_code)


def _state(process: Process) -> str:
    return f"exit {process.exit_code}" if process.is_over else f"runs for {process.seconds:.0f} s"
