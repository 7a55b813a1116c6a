"""Files that are no session themselves: what they are, and which file to give instead.

A person who names one mostly names a file beside the session, in the same folder or in one of the same storage. Where the
session is on the disk, the sentence has its path. Links are not followed, and few files are looked at.
"""

from __future__ import annotations

__all__ = ["Refusal", "refusal_of"]

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.base.errors import PeriplusError
from periplus.interop.conversion.original_records import own_file
from periplus.interop.conversion.source import Head
from periplus.interop.formats import FORMATS, importer_of
from periplus.interop.readers.json_values import decode_table, list_of, table_of, text_of

if TYPE_CHECKING:
    from periplus.interop.formats import Format

_ENTRIES_MAX: Final = 1000
_PROBED_MAX: Final = 16
_NAMED_MAX: Final = 3
_RECORDS_MAX: Final = 100
_NAME_CHARS_MAX: Final = 200
_HASH: Final = re.compile(rb"sha256:[0-9a-f]{64}\s*")
_ENTIRE: Final = "; or all that Entire keeps in a repository: periplus trail import --kept REPOSITORY"
_TRANSCRIPT: Final = "full.jsonl"
_STORAGE: Final = "periplus trail import ~/.local/share/opencode/opencode.db"


class Refusal(NamedTuple):
    """``what`` is the end of a sentence that begins with "it is"; ``instead`` is the sentence about the file to give,
    empty where the files beside it should be searched; ``also`` follows either.
    """

    what: str
    instead: str = ""
    also: str = ""


def refusal_of(head: Head, looks: str) -> Refusal | None:
    """Return what the file that begins with ``head`` is, and the file to give instead; None where that is not known.
    ``looks`` describes a file of no known kind, empty for a session whose format cannot be imported.
    """
    known = next((found for rule in _RULES if (found := rule(head)) is not None), None)
    if known is not None and known.instead:
        return known
    beside = _beside(head.path) if known is not None or looks else []
    if not beside:
        return None
    return Refusal(known.what if known is not None else looks, _give(beside), known.also if known is not None else "")


def _give(paths: Iterable[str]) -> str:
    import shlex

    named = [shlex.quote(path) for path in paths][:_NAMED_MAX]
    return f"Give the session instead: periplus trail import {' '.join(named)}"


# Files beside


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """Return the files and folders in a folder by name, without links; none where it cannot be read."""
    found: list[os.DirEntry[str]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(found) >= _ENTRIES_MAX:
                    break
                if not entry.is_symlink():
                    found.append(entry)
    except (OSError, ValueError):
        return []
    return sorted(found, key=lambda entry: entry.name)


def _beside(path: str) -> list[str]:
    """Return the sessions in the folder of the file, those of the same name first."""
    folder, own = os.path.split(path)
    stem = own.partition(".")[0]
    names = [entry.name for entry in _entries(folder or ".") if entry.is_file(follow_symlinks=False)]
    names = sorted((name for name in names if name != own), key=lambda name: name.partition(".")[0] != stem)
    found: list[str] = []
    for name in names[:_PROBED_MAX]:
        if len(found) < _NAMED_MAX and _format(os.path.join(folder, name)) is not None:
            found.append(os.path.join(folder, name))
    same = [one for one in found if os.path.basename(one).partition(".")[0] == stem]
    return same or found


def _format(path: str) -> Format | None:
    try:
        head = Head.of(path)
    except PeriplusError:
        return None
    return next((row for row in FORMATS if importer_of(row).is_mine(head)), None)


def _existing(*paths: str) -> list[str]:
    return [path for path in paths if os.path.isfile(path) and not os.path.islink(path)]


# Kinds of files


def _entire(head: Head) -> Refusal | None:
    """Detect the files around a transcript in a checkpoint of Entire."""
    folder, name = os.path.split(head.path)
    members = head.document.members if head.data.lstrip()[:1] == b"{" else {}
    if "checkpoint_id" in members and "strategy" in members:
        what = "it is about a checkpoint of Entire"
        paths = [text_of(table_of(one).get("transcript")) for one in list_of(members.get("sessions"))[:_NAMED_MAX]]
        inner = [os.path.join(folder, *path.split("/")[-2:]) for path in paths if path and ".." not in path]
        given = _existing(*inner) or _existing(os.path.join(folder, _TRANSCRIPT))
    elif _HASH.fullmatch(head.data):
        what, given = "it is the digest of a transcript in a checkpoint of Entire", None
    elif name in ("prompt.txt", "context.md", "summary.txt") and (
        head.data.startswith(b"# Session Context") or _existing(os.path.join(folder, _TRANSCRIPT))
    ):
        what, given = "it has only the prompts of a session that Entire keeps", None
    else:
        return None
    given = _existing(os.path.join(folder, _TRANSCRIPT)) if given is None else given
    instead = _give(given) if given else f"Give {_TRANSCRIPT} of the checkpoint"
    return Refusal(what, instead, _ENTIRE)


def _commits(head: Head) -> Refusal | None:
    first = table_of(next(iter(head.document.elements), None)) if head.data.lstrip()[:1] == b"[" else {}
    return (
        Refusal("it is a list of commits, as Entire links them to its checkpoints")
        if "commit" in first and "subject" in first
        else None
    )


def _opencode(head: Head) -> Refusal | None:
    """Detect messages, parts and other files of opencode's storage."""
    path = os.path.abspath(head.path)
    packed = head.data[:65536].replace(b'": ', b'":')
    is_part = b'"messageID":"' in packed or (b'{"id":"p' in packed and b'"time":{"start":' in packed)
    if is_part and b'"type":"' in packed:
        what, up = "it is a part of a session of opencode", 3
    elif b'"sessionID":"' in packed and b'"role":"' in packed and b'"time":' in packed:
        what, up = "it is a message of a session of opencode", 3
    elif b'"worktree":"' in packed and b'"time":' in packed and "project" in path.split(os.sep):
        what, up = "it is a project of opencode, which has no session in it", 2
    elif os.path.basename(path) == "migration" and head.data.strip().isdigit():
        what, up = "it is the version of opencode's storage", 1
    else:
        return None
    storage = path
    for _ in range(up):
        storage = os.path.dirname(storage)
    found = list(_sessions_of_storage(storage) or _sessions_of_storage(os.path.dirname(path)))
    session = text_of((decode_table(head.data) or {}).get("sessionID"))
    own = [one for one in found if session and os.path.basename(one) in (f"{session}.json", f"ses_{session}.json")]
    if own or found:
        return Refusal(what, _give(own or found))
    return Refusal(what, f"Give storage/session/PROJECT/ses_….json of the same storage, or the database: {_STORAGE}")


def _sessions_of_storage(storage: str) -> list[str]:
    found = []
    for project in _entries(os.path.join(storage, "session"))[:_PROBED_MAX]:
        if project.is_dir(follow_symlinks=False):
            names = (entry for entry in _entries(project.path) if entry.is_file(follow_symlinks=False))
            found += [entry.path for entry in names if entry.name.endswith(".json")]
    return found[:_RECORDS_MAX]


def _schema(head: Head) -> Refusal | None:
    if re.search(rb"(?i)^[ \t]*CREATE TABLE\b", head.data[:8192], re.MULTILINE) is None:
        return None
    instead = "" if _beside(head.path) else "Give the database itself, such as opencode.db."
    return Refusal("it is the schema of a database, without its content", instead)


def _subagent_card(head: Head) -> Refusal | None:
    if not head.path.endswith(".meta.json"):
        return None
    session = head.path.removesuffix(".meta.json") + ".jsonl"
    what = "it is the card of a subagent of Claude Code"
    return Refusal(what, _give(_existing(session)) if _existing(session) else f"Give {os.path.basename(session)}.")


def _trajectories(head: Head) -> Refusal | None:
    """Detect what agent-trajectories makes of its documents: the index, and the summary in Markdown."""
    folder, name = os.path.split(head.path)
    if head.data.startswith(b"# Trajectory: "):
        given = _existing(os.path.splitext(head.path)[0] + ".json")
        what = "it is the summary of a trajectory of agent-trajectories"
        return Refusal(what, _give(given) if given else f"Give {os.path.splitext(name)[0]}.json.")
    members = head.document.members if b'"trajectories"' in head.data and head.data.lstrip()[:1] == b"{" else {}
    listed = table_of(members.get("trajectories"))
    if not listed or "version" not in members:
        return None
    given = []
    for path in [text_of(table_of(one).get("path")) for one in list(listed.values())[:_RECORDS_MAX]]:
        parts = path.split("/")
        if ".." not in parts:
            given += _existing(os.path.join(folder, parts[-1])) or _existing(os.path.join(folder, *parts[-3:]))
    what = "it is the index of agent-trajectories"
    return Refusal(what, _give(given) if given else "Give a file that it lists, such as completed/MONTH/traj_….json.")


def _agent_trace(head: Head) -> Refusal | None:
    """Detect records of Agent Trace: which lines of which files a conversation wrote.

    They are not imported. A record has no prompt, call, order or earlier text, so every step of its trail would be made
    up; ``trail export --format agent-trace`` writes such records from sessions, which is the way they can be true.
    """
    records: Iterator[dict[str, object]] = iter(head.records)
    members = head.document.members if head.data.lstrip()[:1] == b"{" else {}
    for record in (members, *list(records)[:1]):
        files = [table_of(one) for one in list_of(record.get("files"))[:_RECORDS_MAX]]
        if "version" in record and any("conversations" in one for one in files):
            break
    else:
        return None
    tool = text_of(table_of(record.get("tool")).get("name"))
    urls = []
    for conversation in (table_of(one) for file in files for one in list_of(file.get("conversations"))[:_NAMED_MAX]):
        url = text_of(conversation.get("url"))[:_NAME_CHARS_MAX]
        if url and url not in urls:
            urls.append(url)
    what = "it is an Agent Trace record, which says only which lines a conversation wrote"
    trajectory = text_of(record.get("trajectory"))
    beside = (
        _existing(os.path.join(os.path.dirname(head.path), f"{trajectory}.json")) if trajectory.isidentifier() else []
    )
    if beside:
        return Refusal(what, _give(beside))
    of_whom = f" {' '.join(urls[:_NAMED_MAX])}" if urls else ""
    own = own_file(tool, "")
    where = f": periplus trail import {own}" if own else f", as {tool[:_NAME_CHARS_MAX] or 'its agent'} stored it."
    return Refusal(what, f"Give the file of the conversation{of_whom} itself{where}")


def _beads(head: Head) -> Refusal | None:
    if not any("issue_type" in record and "title" in record for record in head.records):
        return None
    return Refusal("it looks like issues of Beads, which are work to do and no session",
                   "Give the session file of the agent that worked on them, such as ~/.claude/projects/*/*.jsonl.")  # fmt: skip


def _openhands_event(head: Head) -> Refusal | None:
    folder = os.path.dirname(os.path.abspath(head.path))
    state = os.path.join(os.path.dirname(folder), "base_state.json")
    if os.path.basename(folder) != "events" or not _existing(state):
        return None
    return Refusal("it is one event of OpenHands", _give([state]))


_RULES: Final[tuple[Callable[[Head], Refusal | None], ...]] = (
    _entire, _subagent_card, _trajectories, _agent_trace, _opencode, _schema, _openhands_event, _beads, _commits,
)  # fmt: skip
