"""``periplus hook EVENT``: called by coding agents at every turn and tool call, so it must be fast and must never disturb the
agent.

The order of work follows what must not be lost: read the event (bounded in size and time), write it to the spool of the store
(durable, without a lock), print the facts that concern it. The next command with time takes the spool in; at the end of a turn,
or if many or old events wait, a background process does.

Whatever fails (no store, a damaged one, a full disk, bad input, a closed pipe, no time), the hook prints nothing, exits with 0,
and leaves a note for ``periplus doctor``: in the store, or else in the user's state folder.

Only what every call needs is imported here.
"""

from __future__ import annotations

__all__ = ["run_hook", "settle", "tell_hook", "user_notes_file"]

import json
import os
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from periplus.base.filesystem.failure_notes import Note, leave_note
from periplus.base.filesystem.spool import SPOOLED_FILE_BYTES_MAX, Spool
from periplus.base.filesystem.store_location import find_root
from periplus.base.named_tuple import NamedTuple
from periplus.interop.hooks.events import (
    AGENTS,
    DOUBLE_MS,
    Answer,
    HookEvent,
    encode_event,
    folder_of,
    kind_of,
    mark_of,
    read_event,
    reply_to,
)

if TYPE_CHECKING:
    from periplus.journal import Journal, Writer
    from periplus.project.agent_hooks.told_facts import Told

INPUT_BYTES_MAX: Final = 16 << 20
INPUT_S_MAX: Final = 2.0
HURRY_S_MAX: Final = 2.0  # for computing an answer, while the agent waits
ALL_S_MAX: Final = 10.0  # for storing the event, which takes milliseconds on a healthy disk
SETTLE_PATIENCE_S: Final = 60.0
WAITING_MAX: Final = 100
WAITING_S_MAX: Final = 300
_CHUNK: Final = 1 << 16
_CODE: Final = os.path.join("cache", "code.sqlite")
_OF_USES: Final = "What this edit reaches:"
_PROJECT_VARIABLES: Final = ("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR", "CURSOR_PROJECT_DIR")
_NEVER_SPOOLED: Final = "before-tool"
_ENDS: Final = frozenset({"session-start", "subagent-end", "compact", "turn-end", "session-end"})
_ANSWERED: Final = frozenset(
    {"session-start", "prompt", "before-tool"}
)  # and other events whose answers an agent reads
_OF_TOOLS: Final = frozenset({"before-tool", "after-tool"})
_BEGUN_ANEW: Final = frozenset(
    {"session-start", "compact", "session-end"}
)  # after these, earlier answers are no longer in the agent's context


class _LateError(BaseException):
    """Time is up. Not an Exception, so that no handler on the way catches it."""


class _Call(NamedTuple):
    event: str
    agent: str
    store: str
    is_patient: bool
    unknown: str = ""  # unknown options


def run_hook(words: Sequence[str]) -> NoReturn:
    """Run the hook and exit. ``words`` follow ``hook`` on the command line."""
    global _is_own_process  # noqa: PLW0603 - a signal's handler is given nothing else
    _is_own_process = True
    tell_hook(words)
    os._exit(0)  # nothing is buffered or open; shutting the interpreter down would double the time


def tell_hook(words: Sequence[str]) -> None:
    """Read the event from standard input and answer on standard output. Raises nothing."""
    call = _Call("", "", "", is_patient=False)
    folder = ""
    before: Any = signal.SIG_DFL
    try:
        try:
            before = signal.signal(signal.SIGALRM, _late)
            signal.setitimer(signal.ITIMER_REAL, ALL_S_MAX)
            call = _parse(words)
            folder = os.getcwd()
            if os.environ.get("PERIPLUS_HOOKS", "").lower() in ("off", "0", "no"):
                return
            if call.unknown:
                _note_once(call, folder, f"unknown options were ignored: {call.unknown}")
            _tell(call)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    except BaseException as error:  # noqa: BLE001 - an agent is never disturbed; doctor shows the note
        try:
            (_note_once if type(error).__name__ == "NotAStoreError" else _note)(call, folder, _what(error))
        except BaseException:  # noqa: BLE001, S110 - there is nobody left to tell
            pass


def _what(error: BaseException) -> str:
    return "no more time" if isinstance(error, _LateError) else f"{type(error).__name__}: {error}"


def _late(_number: int, _frame: object) -> None:
    if _is_own_process:  # exit at once: an exception cannot pass through SQLite
        try:
            _note(
                _Call("late", "hook", os.environ.get("PERIPLUS_STORE", ""), is_patient=False),
                _place[-1],
                "no more time",
            )
            if os.path.basename(_place[-1]) == ".periplus":
                _settle_later(_place[-1], is_patient=False)
        finally:
            os._exit(0)
    raise _LateError


_is_own_process = False
_place = ["/"]  # the store, once found


def _parse(words: Sequence[str]) -> _Call:
    """Parse the arguments by hand, because argparse costs more than the rest of a hook. Unknown options are noted and skipped: a
    newer agent may pass them.
    """
    from periplus.base.errors import UsageError

    event, agent, store, is_patient = "", "claude-code", os.environ.get("PERIPLUS_STORE", ""), False
    unknown: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, has_value, value = word.partition("=")
        if name in ("--agent", "--store", "--as", "--color"):
            given = value if has_value else rest.pop(0) if rest else ""
            agent, store = given if name == "--agent" else agent, given if name == "--store" else store
        elif word == "--wait":
            is_patient = True
        elif word.startswith("-"):
            unknown += [name[:40]] if name != "--json" else []
        elif not event:
            event = word
    if not event:
        raise UsageError("no event is named", mend="Type: periplus hook EVENT --agent AGENT")
    return _Call(event, _caller(agent), store, is_patient, " ".join(unknown)[:200])


def _caller(agent: str) -> str:
    """Return the agent that runs this hook.

    Copilot CLI also loads the hook files of VS Code and Claude Code, and VS Code loads those of Copilot CLI. Of them, only
    Copilot CLI sets ``COPILOT_HOOK_DIR``.
    """
    if os.environ.get("COPILOT_HOOK_DIR"):
        return "copilot-cli"
    return "vscode" if agent == "copilot-cli" else agent


def _tell(call: _Call) -> None:
    kind = kind_of(call.event)
    document = _document(_read_input())
    from periplus.base.text.secrets import mask_secrets

    now_ns = time.time_ns()
    event = read_event(call.agent, call.event, document, now_ns // 1_000_000, mask_secrets)
    event = event._replace(writer=os.environ.get("PERIPLUS_AGENT", "")[:100], client=_client())
    root = find_root(_start(document), call.store or None)
    _place.append(root)
    spool = Spool(os.path.join(root, "hooks", "spool"))
    is_double = False
    if kind != _NEVER_SPOOLED:
        try:
            within_ns = None if event.call else DOUBLE_MS * 1_000_000
            is_double = not spool.leave(_encoded(event), now_ns, mark_of(event), within_ns)
        except Exception as error:  # noqa: BLE001 - what can still be told is told
            _note(call, root, f"the event was lost: {type(error).__name__}: {error}")
    signal.setitimer(signal.ITIMER_REAL, HURRY_S_MAX)
    if kind == "session-start":
        _export(event)
    if kind in _BEGUN_ANEW and event.source != "resume":
        _forget_told(call, root, event)
    if (
        kind in _ANSWERED or kind in AGENTS[event.agent].tells
    ) and not is_double:  # answer an event once if the agent sends it twice
        try:
            _answer(root, event, event.cwd if os.path.isdir(event.cwd) else _start(document))
        except (Exception, _LateError) as error:  # noqa: BLE001 - what is to be done later is not given up for it
            _note(call, root, _what(error))
    if kind in _ENDS or _is_due(spool, now_ns):
        _settle_later(root, is_patient=call.is_patient)


def _encoded(event: HookEvent) -> bytes:
    data = encode_event(event)
    if len(data) <= SPOOLED_FILE_BYTES_MAX:
        return data
    from periplus.interop.hooks.size_limit import encode_within

    return encode_within(event, SPOOLED_FILE_BYTES_MAX)


def _start(document: dict[str, Any]) -> str:
    """Return the folder of the project: the one that the agent was started for, even if its shell has moved."""
    told = [os.environ.get(name, "") for name in _PROJECT_VARIABLES]
    return next((folder for folder in [*told, folder_of(document)] if folder and os.path.isdir(folder)), os.getcwd())


# Input and output


def _read_input() -> bytes:
    """Read standard input to its end, or to the end of one JSON document if the writer keeps it open. Raises FormatError."""
    from periplus.base.errors import FormatError

    deadline = time.monotonic() + INPUT_S_MAX
    data = bytearray()
    is_too_large = False
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    while True:
        if not poll.poll(0):
            if data.rstrip().endswith(b"}") and not is_too_large and _is_document(data):
                return bytes(data)
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not poll.poll(1000 * left_s):
                raise FormatError(f"standard input did not end within {INPUT_S_MAX:g} s ({len(data):,} bytes came)")
        piece = os.read(0, _CHUNK)
        if not piece:
            break
        if is_too_large or len(data) + len(piece) > INPUT_BYTES_MAX:
            is_too_large = True  # keep reading: the writer must not get a broken pipe
            data.clear()
            if time.monotonic() > deadline:
                break
        else:
            data += piece
    if is_too_large:
        raise FormatError(f"standard input is over {INPUT_BYTES_MAX:,} bytes")
    return bytes(data)


def _is_document(data: bytes | bytearray) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _document(data: bytes) -> dict[str, Any]:
    from periplus.base.errors import FormatError

    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"standard input is not a JSON document ({len(data):,} bytes): {type(error).__name__}"
        ) from error
    if not isinstance(found, dict):
        raise FormatError("standard input is not a JSON object")
    return found


def _write(text: str) -> None:
    view = memoryview(text.encode())
    while view:
        view = view[os.write(1, view) :]


# Answers


def _answer(root: str, event: HookEvent, folder: str) -> None:
    if event.kind == "session-start" and event.source != "compact" and os.environ.get("PERIPLUS_RUN"):
        return  # the prompt of a dispatched agent has the brief of its step, until it is compacted
    if not os.path.exists(os.path.join(root, "index.sqlite")):
        return  # building it takes longer than an agent should wait; the background process does it
    from periplus.project.agent_hooks.told_facts import Told

    told = Told(os.path.join(root, "hooks"), event.agent, event.session, event.sub)
    marks: list[str] = []
    if event.kind in _OF_TOOLS:
        is_silent, marks = _glance(root, event, folder, told)
        if is_silent:
            _reply(root, event, Answer(), told, _uses_of_edit(root, event, folder, told), [])
            return
    from periplus.base.import_trimming import load_msgspec

    load_msgspec()
    from periplus.memory.fulltext.indexer import MemoryIndexer
    from periplus.project.project import Project

    if not MemoryIndexer.is_ready(root):
        return  # of an older version, or still being filled
    with Project(root, _writer(event)) as project:
        project.beside = (os.path.abspath(folder),)  # the worktree of the agent
        project.journal.is_hurried = True
        answer = project.hooks.answer(event, home=os.environ.get("HOME", ""), told=told)
    uses = _uses_of_edit(root, event, folder, told) if answer.decision != "deny" else []
    _reply(root, event, answer, told, uses, marks)


def _reply(root: str, event: HookEvent, answer: Answer, told: Told, uses: Sequence[str], marks: Sequence[str]) -> None:
    """Print the answer with lines about the ``uses`` of the edited code. Store what was told, and its number of tokens."""
    if uses:
        answer = answer._replace(
            facts="\n".join([*filter(None, [answer.facts]), _OF_USES, *(f"- {one}" for one in uses)])
        )
    reply = reply_to(event, answer)
    if reply is not None:
        _write(json.dumps(reply, ensure_ascii=False) + "\n")
    noted = [*answer.told, *uses, *marks]
    is_writable = (noted or reply is not None) and os.access(root, os.W_OK)
    if noted and is_writable:
        told.add(noted)
    if reply is not None and is_writable:
        from periplus.project.agent_hooks.said_tokens import add_said

        inside = [text for one in reply.values() for text in (one.values() if isinstance(one, dict) else (one,))]
        said = [text for text in (answer.facts, answer.reason) if text in inside]
        add_said(os.path.join(root, "hooks"), event.agent, event.session, said, time.time_ns() // 1_000_000)


def _uses_of_edit(root: str, event: HookEvent, folder: str, told: Told) -> list[str]:
    """Return lines on what uses the symbols whose signatures the edit changes, without those that were told; where the code map is not at
    hand, none.
    """
    from periplus.interop.hooks.events import touched_paths

    if (
        event.kind != "before-tool"
        or event.kind not in AGENTS[event.agent].tells
        or not os.path.exists(os.path.join(root, _CODE))
    ):
        return []
    paths, changes = touched_paths(event)
    if not changes:
        return []
    from periplus.base.filesystem.store_location import worktree_root
    from periplus.project.agent_hooks.edited_signatures import dependents_lines, glance_at_edit

    project = os.path.dirname(root)
    try:
        edit = glance_at_edit(root, event, _names_in(project, paths, folder), worktree_root(project, folder))
        return told.fresh(dependents_lines(edit)) if edit is not None else []
    except Exception as error:  # noqa: BLE001 - claims and rules are told all the same
        _note(_Call(event.name, event.agent, "", is_patient=False), root, _what(error))
        return []


def _glance(root: str, event: HookEvent, folder: str, told: Told) -> tuple[bool, list[str]]:
    """Return whether it is clear, without opening the project, that a tool call needs no answer; otherwise return marks of what
    was checked, which stay valid until the next write.
    """
    from periplus.base.clock import format_ms
    from periplus.base.filesystem.store_location import worktree_root
    from periplus.base.ids import derived_id
    from periplus.interop.hooks.events import command_of, is_reading, named_files, patched_paths, touched_paths
    from periplus.memory.coordination.path_glance import glance

    paths, changes = touched_paths(event)
    command, start = command_of(event)
    start = start or folder
    if command:
        paths = named_files(command, start)
    project = os.path.dirname(root)
    names = _names_in(project, paths, start)
    if not names and not command:
        return True, []  # outside of the project
    name = event.writer or event.agent
    holder = derived_id("who", name, os.uname().nodename)
    session = event.session if event.session.startswith("ses_") else derived_id("ses", event.session)
    top = worktree_root(project, folder)
    seen = glance(root, names, holder, session, top, format_ms(time.time_ns() // 1_000_000))
    if seen is None:
        return False, []
    if command and seen.claimed and event.kind == "before-tool" and not is_reading(command):
        from periplus.shell.judgement import judge

        found = judge(command, home=os.environ.get("HOME") or "/nonexistent", workspace=top, folder=start)
        if seen.bears_on(
            _names_in(project, [*found.writes, *found.rewrites, *patched_paths(command, start)], start), top
        ):
            return False, []
    if not (names and seen.has_rules) and not seen.bears_on(names, top):
        return True, []
    marks = [f"{one}\0{seen.state}" for one in names]
    return not changes and not told.fresh(marks), [] if changes else marks


def _names_in(project: str, paths: Sequence[str], start: str) -> list[str]:
    """Return ``paths`` and the targets of links among them, relative to the project; those outside are left out."""
    from periplus.base.filesystem.store_location import name_in

    wholes = [os.path.normpath(os.path.join(start, path)) for path in paths if "\0" not in path]
    wholes += [real for whole in wholes if (real := os.path.realpath(whole)) != whole]
    return list(dict.fromkeys(name for whole in wholes if (name := name_in(project, whole)) is not None))


def _forget_told(call: _Call, root: str, event: HookEvent) -> None:
    from periplus.project.agent_hooks.told_facts import Told

    try:
        Told(os.path.join(root, "hooks"), event.agent, event.session, event.sub).forget()
    except OSError as error:
        _note(call, root, f"the record of shown facts could not be written: {error}")


def _client() -> str:
    """Return the agent's process. Its end also ends a session that sent no event for it."""
    from periplus.base.files import Files
    from periplus.base.process.process_marks import client_mark, text_of_mark

    try:
        mark = client_mark(Files())
    except (OSError, ValueError):
        return ""
    return text_of_mark(mark) if mark is not None else ""


def _writer(event: HookEvent) -> Writer:
    from periplus.base.ids import derived_id
    from periplus.journal import Writer

    name = event.writer or event.agent
    return Writer(name, derived_id("who", name, os.uname().nodename), event.session, os.getpid())


def _export(event: HookEvent) -> None:
    """Pass session and agent name to the commands of this session, through the file that the agent offers for variables."""
    path = os.environ.get("CLAUDE_ENV_FILE", "")
    if not path or not event.session.replace("-", "").replace("_", "").isalnum():
        return
    lines = f"export PERIPLUS_SESSION={event.session}\n"
    if not event.writer:
        lines += f"export PERIPLUS_AGENT={event.agent}\n"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, lines.encode())
    finally:
        os.close(fd)


# Deferred work


def _is_due(spool: Spool, now_ns: int) -> bool:
    waiting = spool.waiting()
    if not waiting:
        return False
    oldest_ns = int(waiting[0].partition("-")[0])
    if len(waiting) < WAITING_MAX and now_ns - oldest_ns < WAITING_S_MAX * 1_000_000_000:
        return False
    from periplus.base.process.locks import holder_of

    return holder_of(os.path.join(os.path.dirname(spool.folder), "lock")) is None


def _settle_later(root: str, *, is_patient: bool) -> None:
    """Start a background process that outlives the hook and the agent, and takes in waiting events."""
    pid = os.fork()
    if pid:
        if is_patient:
            signal.setitimer(signal.ITIMER_REAL, 0)
            os.waitpid(pid, 0)
        return
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if not is_patient:
            os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        code = "from periplus.cli.hook_entry import settle; import sys; settle(sys.argv[1], has_time=len(sys.argv) > 2)"
        words = [] if is_patient else ["has time"]
        os.execv(sys.executable, [sys.executable, "-c", code, root, *words])  # noqa: S606 - our own interpreter, no shell
    finally:
        os._exit(0)


def settle(root: str, *, has_time: bool = False) -> None:
    """Take in events that wait in the store ``root``, and seal abandoned runs. With ``has_time``, also make a due checkpoint and
    check the whole store from time to time. Raises nothing.
    """
    try:
        os.nice(5)
        try:
            _settle(root, has_time=has_time)
        except Exception as error:  # its module is not imported here before it is raised
            from periplus.journal import Layout, discard_indexes
            from periplus.journal.index.connection import IndexDamageError

            if not isinstance(error, IndexDamageError):
                raise

            discard_indexes(Layout(root).index)  # damaged, and derived
            _settle(root, has_time=has_time)
    except Exception as error:  # noqa: BLE001 - nobody listens; doctor shows the note
        _note(_Call("settle", "periplus", "", is_patient=False), root, _what(error))


def _settle(root: str, *, has_time: bool) -> None:
    from periplus.base.ids import derived_id
    from periplus.journal import Writer
    from periplus.project.agent_hooks.said_tokens import fold
    from periplus.project.agent_hooks.session_end import seal_abandoned_sessions
    from periplus.project.agent_hooks.told_facts import remove_old
    from periplus.project.project import Project

    writer = Writer("hooks", derived_id("who", "hooks", os.uname().nodename), "", os.getpid())
    with Project(root, writer) as project:
        project.hooks.take_in(patience_s=SETTLE_PATIENCE_S)
        seal_abandoned_sessions(project, project.hooks.note)
        remove_old(os.path.join(root, "hooks"))
        fold(os.path.join(root, "hooks"))
        project.journal.project()
        if has_time and os.access(root, os.W_OK):
            _make_checkpoint(project.journal, writer)
            from periplus.project.care.checkup import check_up_if_due

            check_up_if_due(project)


def _make_checkpoint(journal: Journal, writer: Writer) -> None:
    """Make the checkpoint that a command left undone because it takes long."""
    from periplus.base.errors import LockTimeoutError
    from periplus.journal.checkpoints.creation import make_due

    try:
        make_due(journal, writer, work_bytes_max=sys.maxsize)
    except LockTimeoutError:
        pass  # another process is making it


# Notes


def user_notes_file(environment: Mapping[str, str]) -> str:
    """Return the file for notes that cannot go into a store; empty without a home folder."""
    state = environment.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        home = environment.get("HOME", "")
        state = os.path.join(home, ".local", "state") if home.startswith("/") else ""
    return os.path.join(state, "periplus", "hook-notes") if state else ""


def _note_once(call: _Call, folder: str, what: str) -> None:
    """Leave a note once for a lasting condition that is no fault: user-wide hooks also run in folders without a store."""
    from periplus.base.filesystem.failure_notes import read_notes

    paths = [user_notes_file(os.environ)]
    try:
        paths.append(os.path.join(find_root(folder, call.store or None), "hooks", "notes"))
    except Exception:  # noqa: BLE001, S110 - no store: then nothing was noted in it
        pass
    said = " ".join(what.split())[:300]
    if not any(note.what == said and note.folder == folder[-300:] for path in paths for note in read_notes(path)):
        _note(call, folder, what)


def _note(call: _Call, folder: str, what: str) -> None:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    note = Note(at, f"{call.agent} {call.event}"[:80], folder, what)
    try:
        root = folder if os.path.basename(folder) == ".periplus" else find_root(folder, call.store or None)
        if leave_note(os.path.join(root, "hooks", "notes"), note):
            return
    except Exception:  # noqa: BLE001, S110 - no store, or none that can be written: then elsewhere
        pass
    path = user_notes_file(os.environ)
    if path:
        leave_note(path, note)
