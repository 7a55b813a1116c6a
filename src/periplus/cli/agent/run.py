"""``run``: the agent, with its output as lines of text."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from periplus.cli.agent.environment import leave_out_relative_folders, user_folder
from periplus.cli.common.face import Face, number, plain, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from periplus.agent.assembly import AgentSession
    from periplus.agent.contracts import LLMClient, StopReason, StreamingClient
    from periplus.agent.events import Sink
    from periplus.agent.persistence.run_log import StoredSession
    from periplus.agent.settings import Settings
    from periplus.cli.agent.run_output import EventLines
    from periplus.project import Project

_EXIT: Final[dict[StopReason, int]] = {
    "done": 0, "stuck": 1, "error": 1, "filter": 5, "steps": 7, "budget": 7, "overflow": 7, "length": 7, "aborted": 130,
}  # fmt: skip
_LAST: Final = "last"
_LISTED: Final = 20
_NEWEST: Final = 5
_SAID_SHOWN: Final = 200
_TASK_MAX: Final = 1 << 20


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "run"
    add = parser.add_argument
    add("task", nargs="?", default=None, metavar="TASK", help="the task; - reads standard input")
    add("--model", metavar="PROVIDER/MODEL", help="the model to use")
    add(
        "--mode",
        choices=("ask", "default", "autonomous"),
        help="when the agent asks for permission (default: from your settings)",
    )
    add("--allow", metavar="RULE", action="append", help="allow without asking, for example 'shell(git status)'")
    add("--deny", metavar="RULE", action="append", help="never allow")
    add("--oracle", metavar="COMMAND", help="a command that must succeed before the task counts as done")
    add("--max-steps", metavar="N", type=number(1, 10_000), help="at most N steps")
    add(
        "--budget", metavar="CENTS", type=number(1, 100_000_000), help="at most this cost, for models with known prices"
    )
    add("--budget-tokens", metavar="N", type=number(1, 1_000_000_000), help="at most N tokens")
    add("--session", metavar="NAME", help="the name of the session; an existing one is continued")
    add(
        "--resume",
        nargs="?",
        const=_LAST,
        metavar="NAME",
        help="continue a session (default: choose from a list, or without a terminal the last interrupted one)",
    )
    add("--list", action="store_true", dest="listing", help="list the sessions")
    add(
        "--stats",
        nargs="?",
        const=_LAST,
        metavar="NAME",
        help="show the cost of a session's model calls (default: the last session)",
    )
    add(
        "--monitor",
        action="store_true",
        help="show a local web page of what the model sees; without a task, of a past session",
    )
    add(
        "--otel",
        action="store_true",
        help="send spans without texts to the collector at OTEL_EXPORTER_OTLP_ENDPOINT",
    )
    add("--port", metavar="N", type=number(1, 65_535), help="the port of the page (default: a free one)")
    add("--full", action="store_true", help="show complete diffs and complete command output")
    add("--dry-run", action="store_true", help="show the settings of the run, send nothing")
    add("--record", metavar="FILE", help="record the conversation with the model in FILE")
    add("--play", metavar="FILE", help="take answers from FILE, written by --record, instead of from a model")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    leave_out_relative_folders()
    return _run(face, arguments)


def _run(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.agent.monitor import look_at, need_page, observing
    from periplus.cli.agent.run_output import EventLines

    for name in ("task", "session", "resume", "stats", "oracle", "model"):
        plain(getattr(arguments, name) or "", name.upper() if name == "task" else f"--{name}")
    for rule in (*(arguments.allow or ()), *(arguments.deny or ())):
        plain(rule, "a rule")
    if arguments.listing:
        with face.open() as project:
            return _list(face, project)
    if arguments.stats is not None:
        from periplus.cli.agent.stats import show_stats

        with face.open() as project:
            return show_stats(face, project, "" if arguments.stats == _LAST else arguments.stats)
    if arguments.port is not None and not arguments.monitor:
        raise UsageError("--port needs --monitor", safe="Nothing was run.")
    if arguments.monitor:
        need_page()
    if arguments.task == "-":
        face.tell_reading("the task")
    task = sys.stdin.read(_TASK_MAX + 1) if arguments.task == "-" else arguments.task
    plain(task or "", "the task")
    if len(task or "") > _TASK_MAX:
        raise UsageError(f"the task has more than {_TASK_MAX:,} characters", safe="Nothing was run.",
                         mend="Put it into a file of the project, and tell the agent to read that file.")  # fmt: skip
    is_bare = not (task or "").strip()
    is_terminal = sys.stdin.isatty() and face.stdout.isatty() and not face.as_json
    if is_bare and arguments.monitor and arguments.resume is None and (arguments.session or not is_terminal):
        return look_at(face, arguments.session or "", arguments.port or 0)
    if is_bare and not arguments.dry_run and is_terminal:
        return _talk(face, arguments)
    if is_bare and arguments.resume is None:
        raise UsageError(
            "the task is missing",
            safe="Nothing was run.",
            mend='Give a task: periplus run "fix the failing test"',
        )
    with face.open() as project:
        settings = _settings(face, arguments, project)
        if arguments.dry_run:
            return _dry_run(face, settings, task or "", project)
        name = _session_name(face, project, arguments)
        client, model = _client(face, arguments, settings)
        try:
            _warm(client)
            told = EventLines(face, is_full=arguments.full)
            another = _another(face, arguments, settings)
            with observing(face, arguments, settings, told, name, model) as emit:
                return _run_session(
                    face, project, settings, client, model, name, (task or "").strip(), told, emit, another
                )
        finally:
            close = getattr(client, "close", None)
            if close is not None:
                close()


def _settings(face: Face, arguments: argparse.Namespace, project: Project) -> Settings:
    from periplus.agent.settings import load_settings
    from periplus.agent.trust import Trust
    from periplus.cli.common.inputs import typed_rules

    folder = user_folder(face)
    state = Trust(folder).state(project.folder)
    if state == "changed":
        face.stderr.write("periplus: the settings of this folder changed since you trusted it, and are ignored.\n"
                          "Review them, then run `periplus trust give`.\n")  # fmt: skip
    rules = [*typed_rules("allow", arguments.allow), *typed_rules("deny", arguments.deny)]
    flags: dict[str, Any] = {
        "model": arguments.model, "mode": arguments.mode, "oracle": arguments.oracle, "max_steps": arguments.max_steps,
        "budget_cents": arguments.budget, "budget_tokens": arguments.budget_tokens, "rules": rules or None,
        "telemetry": arguments.otel or None,
    }  # fmt: skip
    return load_settings(folder, project.folder, trusted=state == "trusted", environment=face.environment, flags=flags)


def _client(face: Face, arguments: argparse.Namespace, settings: Settings) -> tuple[LLMClient, str]:
    from periplus.agent.models.api_keys import Keys
    from periplus.agent.models.client_factory import open_model, parse_model
    from periplus.agent.models.conversation_replay import RecordedClient, RecordingClient
    from periplus.base.errors import UsageError
    from periplus.cli.common.inputs import check_file

    if arguments.play and arguments.record:
        raise UsageError("--play and --record cannot be combined", safe="Nothing was run.",
                         mend="Use one of them; a recording can be copied like any file.")  # fmt: skip
    if arguments.play:
        check_file(os.path.join(face.cwd, arguments.play))
        return RecordedClient(os.path.join(face.cwd, arguments.play), strict=False), settings.text(
            "model"
        ) or "recorded"
    if not settings.text("model"):
        raise UsageError("no model is chosen", safe="Nothing was sent.",
                         mend="Choose one with `periplus setup`, or name one with --model PROVIDER/MODEL (see `periplus models list`).")  # fmt: skip
    name = parse_model(settings.text("model"))
    keys = Keys(user_folder(face), face.environment)
    opened: StreamingClient
    opened, facts = open_model(
        name, settings.providers, keys.key(name.provider), max_tokens=settings.number("max_output_tokens")
    )
    cents = settings.number("budget_cents")
    if cents and (facts.price_in is None or facts.price_out is None):
        wrong = f"a budget of {cents:,} cents cannot be enforced, because the price of {name} is unknown"
        if arguments.budget and not settings.number("budget_tokens"):
            raise UsageError(wrong, safe="Nothing was sent.", mend="Give it in tokens: --budget-tokens N")
        face.stderr.write(f"periplus: {visible(wrong)}; use --budget-tokens to limit tokens.\n")
    if arguments.record:
        return RecordingClient(opened, os.path.join(face.cwd, arguments.record)), str(name)
    return opened, str(name)


def _another(face: Face, arguments: argparse.Namespace, settings: Settings) -> Callable[[str], LLMClient] | None:
    """Return a function that opens another client, for a subagent; None while answers are recorded or played."""
    if arguments.play or arguments.record:
        return None
    from periplus.agent.models.api_keys import Keys
    from periplus.agent.models.client_factory import open_model, parse_model

    def opened(model: str) -> LLMClient:
        name = parse_model(model or settings.text("model"))
        key = Keys(user_folder(face), face.environment).key(name.provider)
        return open_model(name, settings.providers, key, max_tokens=settings.number("max_output_tokens"))[0]

    return opened


def _warm(client: LLMClient) -> None:
    """Start loading the SDK while the session is opened. The caller closes the client."""
    warm = getattr(client, "warm", None)
    if warm is not None:
        warm()


def _can_ask(face: Face) -> bool:
    """Return whether a person can be asked."""
    return sys.stdin.isatty() and face.stderr.isatty() and not face.as_json


def _run_session(
    face: Face, project: Project, settings: Settings, client: LLMClient, model: str, name: str, task: str,
    told: EventLines, emit: Sink, another: Callable[[str], LLMClient] | None,
) -> int:  # fmt: skip
    from periplus.agent.assembly import SessionOptions, begin
    from periplus.agent.execution.cancellation import CancelToken
    from periplus.agent.persistence.run_log import session_title
    from periplus.agent.tape.fence import one_line
    from periplus.cli.agent.run_output import ConsolePerson, going_on, interrupting

    token = CancelToken()
    person = ConsolePerson(face, token) if _can_ask(face) else None
    begun = SessionOptions(
        settings=settings, name=name, title=task or session_title(project, name) or name, environment=face.environment, home=face.home, model=model,
        hidden=(user_folder(face),), config=user_folder(face),
        agent=project.writer.name, approver=person, asker=person.ask if person is not None else None, emit=emit,
        verifies=person is None, another=another,
    )  # fmt: skip
    told.gone = lambda: token.cancel("the reader of the output is gone")
    with begin(project, client, begun) as session, _telling_what_goes_on(session, told, name):
        _look_up(session, told)
        for line in session.said:
            told.say(line)
        with interrupting(token):
            if session.is_interrupted:
                told.say(f"Continuing session {name}, which was interrupted.")
                for text in session.unheard:
                    told.say(f"Passing on what was said meanwhile: {one_line(text, _SAID_SHOWN)}")
                ended = session.resume(token=token)
                if task and ended is not None and ended.reason == "done":
                    ended = session.turn(task, token=token)
                elif task:
                    told.say(f"Not started, because the interrupted turn did not finish: {one_line(task, _SAID_SHOWN)}")
            else:
                ended = session.turn(task, token=token) if task else None
    if ended is None:
        told.say(
            f"Session {name} was not interrupted, so there is nothing to resume. To continue it with a new task: {going_on(name)}"
        )
        return 1
    told.finish(ended, name, session.trail_id)
    return _EXIT[ended.reason]


def _look_up(session: AgentSession, told: EventLines) -> None:
    """Show diffs and outputs from what the session keeps."""
    from periplus.base.errors import PeriplusError

    host = session.host

    def page(handle: str) -> str | None:
        try:
            return host.outputs.read(handle) if host.outputs is not None else None
        except (PeriplusError, OSError):
            return None

    told.look_up(host.work.kept, page)


@contextmanager
def _telling_what_goes_on(session: AgentSession, told: EventLines, name: str) -> Iterator[None]:
    """Replace the advice of an error: to repeat the command would begin another session, but this one has a turn to continue."""
    import shlex

    from periplus.base.errors import PeriplusError

    try:
        yield
    except PeriplusError:
        if session.is_interrupted:
            told.say(f"The turn was interrupted. To continue: periplus run --resume {shlex.quote(name)}")
        raise


def _talk(face: Face, arguments: argparse.Namespace) -> int:
    """Run a session at the terminal. The store is opened by the thread of the session."""
    from collections.abc import Iterator as Yields

    from periplus.agent.assembly import SessionOptions, begin
    from periplus.agent.events import Event
    from periplus.agent.persistence.run_log import session_title
    from periplus.cli.agent.monitor import observing
    from periplus.cli.agent.run_output import EventLines
    from periplus.tui.conversation import Conversation
    from periplus.tui.terminal import talk

    with face.open() as project:
        settings, name, root = (
            _settings(face, arguments, project),
            _session_name(face, project, arguments),
            project.folder,
        )
    client, model = _client(face, arguments, settings)
    lines = EventLines(face, by_line=True, is_full=arguments.full)
    face.draws_bars = False

    @contextmanager
    def opening(conversation: Conversation, name: str) -> Yields[AgentSession]:
        def told(event: Event) -> None:
            conversation.heard(event)
            lines(event)

        with face.open() as project, observing(face, arguments, settings, told, name, model) as emit:
            begun = SessionOptions(
                settings=settings, name=name, title=session_title(project, name) or "at the terminal",
                environment=face.environment, home=face.home, model=model,
                hidden=(user_folder(face),), config=user_folder(face),
                agent=project.writer.name, approver=conversation, asker=conversation.ask, emit=emit,
                another=_another(face, arguments, settings),
            )  # fmt: skip
            _warm(client)  # meanwhile, the person types
            conversation.rests = project.journal.rest
            with begin(project, client, begun) as session:
                _look_up(session, lines)
                say(
                    f"Periplus, with {model} in {root}; commands are confined by: {session.sandbox.layer}. /help lists the commands."
                )
                for line in session.said:
                    say(line)
                yield session

    def say(text: str) -> None:
        sys.stdout.write(visible_lines(text) + "\n")
        sys.stdout.flush()

    conversation = Conversation(
        say, lambda path: os.path.exists(os.path.join(root, path)), model, settings.mode, name, opening
    )
    conversation.shows = lambda number, is_idle: lines.show(number, paged=is_idle)
    if _can_pick(face):
        conversation.picks = lambda found: _chosen(face, found) or ""
    try:
        talk(conversation, root, colour=bool(face.palette.bold))
    finally:
        close = getattr(client, "close", None)
        if close is not None:
            close()
    import shlex

    face.out(f"To continue this session: periplus run --session {shlex.quote(conversation.name)}")
    return 0


def visible_lines(text: str) -> str:
    """Make a text of several lines safe for a terminal."""
    return "\n".join(visible(line) for line in text.split("\n"))


def _session_name(face: Face, project: Project, arguments: argparse.Namespace) -> str:
    from periplus.agent.persistence.run_log import stored_sessions
    from periplus.agent.subagents import parent_of
    from periplus.base.errors import NotFoundError, UsageError
    from periplus.base.ids import PASTED

    named = arguments.resume if arguments.resume is not None else arguments.session or ""
    named = named.strip(PASTED) or named
    if parent_of(named):
        raise UsageError(f"{named} is the session of a subagent", safe="Nothing was run.",
                         mend=f"Resume its parent session: periplus run --resume {parent_of(named)}")  # fmt: skip
    if not named.isprintable() or named != named.strip():
        raise UsageError(f"{named[:60]!r} is not a valid session name", safe="Nothing was run.",
                         mend="Use letters, digits and visible characters.")  # fmt: skip
    if arguments.resume is None:
        return named or f"run-{project.journal.random(5).hex()}"
    if arguments.resume == _LAST and not face.as_json and sys.stdin.isatty() and face.stdout.isatty():
        return _picked(face, [one for one in stored_sessions(project) if not parent_of(one.name)])
    for one in stored_sessions(project):
        if parent_of(one.name):
            continue
        if named == one.name or (arguments.resume == _LAST and one.is_interrupted):
            return one.name
    wrong = "no session of the agent was interrupted" if arguments.resume == _LAST else "the agent has no such session"
    newest = [one.name for one in stored_sessions(project) if not parent_of(one.name)][:_NEWEST]
    told = f"The newest: {', '.join(newest)}. " if newest else ""
    mend = 'See `periplus run --list`. To continue a finished session with a new task: periplus run --session NAME "…"'
    raise NotFoundError(wrong, safe="Nothing was run.", mend=f"{told}{mend}")


def _can_pick(face: Face) -> bool:
    """Return whether the terminal can show a list to choose from."""
    return face.environment.get("TERM", "dumb") != "dumb"


def _chosen(face: Face, found: Sequence[StoredSession], selected: int = 0) -> str:
    """Let the person choose a session on the other screen; return its name, empty if the person left."""
    from periplus.tui.conversation import session_row
    from periplus.tui.picker import pick

    def write(text: str) -> None:
        face.stdout.write(text)
        face.stdout.flush()

    rows = [visible(session_row(one)) for one in found]
    place = pick(rows, write, visible, selected=selected, is_coloured=bool(face.palette.bold))
    return found[place].name if place is not None else ""


def _picked(face: Face, found: list[StoredSession]) -> str:
    """Let the person choose a session from a list. The last interrupted one, or the last, is chosen at first."""
    from periplus.base.errors import NotFoundError

    if not found:
        raise NotFoundError("the agent has no sessions", safe="Nothing was run.", mend='Start one: periplus run "…"')
    usual = next((at for at, one in enumerate(found) if one.is_interrupted), 0)
    if not _can_pick(face):
        return _picked_by_number(face, found, usual + 1)
    name = _chosen(face, found, usual)
    if not name:
        raise NotFoundError(
            "no session was chosen", safe="Nothing was run.", mend="Name one: periplus run --resume NAME"
        )
    return name


def _picked_by_number(face: Face, found: list[StoredSession], usual: int) -> str:
    """Let the person choose by a number, on a terminal that cannot show a list; empty input picks the ``usual`` one."""
    from periplus.base.errors import UsageError
    from periplus.tui.conversation import session_row

    more, found = len(found) - _LISTED, found[:_LISTED]
    usual = usual if usual <= len(found) else 1
    for at, one in enumerate(found, 1):
        face.out(f"{at:3}. {visible(session_row(one))}")
    if more > 0:
        face.out(f"     ({more:,} more, older: periplus run --list --json; periplus run --resume NAME)")
    sys.stdout.write(f"Which one? (a number; default: {usual}) ")
    sys.stdout.flush()
    said = sys.stdin.readline(1_000).strip() or str(usual)
    if not said.isascii() or not said.isdigit() or not 1 <= int(said) <= len(found):
        raise UsageError(
            f"{said!r:.80} is not in the list", safe="Nothing was run.", mend="Name one: periplus run --resume NAME"
        )
    return found[int(said) - 1].name


def _list(face: Face, project: Project) -> int:
    from periplus.agent.persistence.run_log import stored_sessions
    from periplus.agent.subagents import lineage_of
    from periplus.cli.agent.schemas import RunListOut, RunSessionOut

    below: dict[str, list[RunSessionOut]] = {}
    for one in stored_sessions(project):
        told = RunSessionOut(one.name, one.title, one.model, one.last, one.turns, one.is_interrupted)
        below.setdefault(lineage_of(one.name)[-1], []).append(told)
    found = [told for root, all_ in below.items() for told in all_ if told.name == root]
    for root in found:
        root.subagents += [told for told in below[root.name] if told is not root]
    is_cut = project.journal.index.has_floors
    if face.as_json:
        face.emit(RunListOut(found, is_cut), lambda: ())
        return 0 if found else 1
    for root in found[:_LISTED]:
        turns = f"{root.turns} turn{'s' * (root.turns != 1)}{', interrupted' if root.interrupted else ''}"
        face.out(f"{visible(root.name)}  {root.last}  {turns}  {visible(root.title)}")
        for child in sorted(root.subagents, key=lambda child: child.name):
            face.out(f"  {visible(child.name)}  {'interrupted  ' if child.interrupted else ''}{visible(child.title)}")
    if len(found) > _LISTED:
        older = found[_LISTED:]
        cut = sum(one.interrupted for one in older)
        face.out(
            f"({len(older):,} more, older{f'; {cut:,} of them interrupted' if cut else ''}: periplus run --list --json)"
        )
    if is_cut:
        face.out("older records are missing, so sessions may be missing from this list: periplus status")
    elif not found:
        face.out("The agent has not run in this project.")
    return 0 if found else 1


def _dry_run(face: Face, settings: Settings, task: str, project: Project) -> int:
    from periplus.agent.assembly import STATE, refuse_check_that_cannot_run
    from periplus.agent.perception import inspect_folder
    from periplus.agent.sandbox import find_sandbox
    from periplus.agent.tape import prompt_for
    from periplus.base.errors import RefusedError
    from periplus.cli.agent.run_output import in_words
    from periplus.cli.agent.schemas import RunPlanOut
    from periplus.cli.agent.servers import gathered

    state = os.path.join(project.journal.layout.root, STATE)
    sandbox = find_sandbox(face.environment.get("PATH", os.defpath))
    seen = inspect_folder(project.folder, face.home)
    refused = ""
    try:
        refuse_check_that_cannot_run(settings, sandbox, can_ask=_can_ask(face))
    except RefusedError as error:
        refused = str(error)
    out = RunPlanOut(
        model=settings.text("model"), mode=settings.mode, sandbox=sandbox.layer, sandbox_about=sandbox.about,
        max_steps=settings.number("max_steps"), oracle=settings.text("oracle"), network=settings.flag("network"),
        rules=[str(rule) for rule in settings.rules], request=task.strip(),
        prompt_characters=len(prompt_for(settings.text("instructions"))), root=seen.root,
        kinds=[kind.name for kind in seen.kind.kinds], checks=list(seen.kind.checks),
        instructions=[one.path for one in seen.instructions],
        servers=[row.name for row in gathered(face, settings, project.folder, user_folder(face), state).rows],
        refused=refused,
    )  # fmt: skip

    def lines() -> list[str]:
        values = {name: getattr(out, name) for name in out.__struct_fields__}
        told = {name: ", ".join(value) if isinstance(value, list) else str(value) for name, value in values.items()}
        said = [name for name in told if name != "refused" or refused]
        return [f"{name.replace('_', ' ')}: {visible(in_words(told[name]))}" for name in said]

    return face.emit(out, lines, 5 if refused else 0)
