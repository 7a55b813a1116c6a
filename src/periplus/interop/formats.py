"""Foreign formats that can be imported, in one table. A new format is a module and a row.

The module of a row is imported when a file may have its format, or a session is read. It has two functions:
``is_mine(head)`` detects the format from the beginning of a file, ``read(source)`` returns its sessions as trails.
"""

from __future__ import annotations

__all__ = ["FORMATS", "Format", "Importer", "Place", "format_names", "format_of", "importer_of", "kinds_of_files"]

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    from periplus.interop.conversion.source import Head, Source
    from periplus.interop.model import Imported

# Contents of one file: a record a line; one document; the card of a session whose records are in files beside it; a
# database of sessions.
Shape: TypeAlias = Literal["lines", "document", "folder", "database"]


class Place(NamedTuple):
    """Storage of an agent's sessions: files that match ``pattern`` and not ``not_pattern``, in ``folder`` of the home
    folder and up to ``depth`` folders below it; with ``in_project``, of the project folder.

    ``held_in`` is the JSON member near the beginning of a file that names the folder of the session, or several names
    of versions separated by ``|``; ``projectHash`` is the SHA-256 of its path. If empty, the file holds sessions of
    many folders, and the importer filters them. ``card`` replaces the end of the path where another file has the
    member; files with another end are none of a session. With ``is_far`` the member
    may stand anywhere in the file.
    ``held_in`` is the JSON member near the beginning of a file that names the folder of the session; ``projectHash``
    is the SHA-256 of its path. If empty, the file holds sessions of many folders, and the importer filters them.
    ``card`` replaces the end of the file name where another file beside it has the member. With ``is_far`` the member
    may stand anywhere in the file. ``beside`` is the way from the folder of a file to the document that has the member.
    A part of ``folder`` may be ``*``: every folder there. ``told_as`` is a pattern for the words near the beginning of a
    file that name the folder, within a text in JSON.
    """

    folder: tuple[str, ...]
    depth: int
    pattern: str
    not_pattern: str = ""
    held_in: str = "cwd"
    card: tuple[str, str] = ("", "")
    in_project: bool = False
    is_far: bool = False
    beside: str = ""
    told_as: str = ""


class Format(NamedTuple):
    """``agent`` and ``what`` are names for people; ``grows`` means that a running agent appends to the file, so that
    it can be followed.
    """

    name: str
    agent: str
    what: str
    module: str
    shape: Shape
    grows: bool
    places: tuple[Place, ...] = ()


class Importer(Protocol):
    """Functions of a row's module."""

    @staticmethod
    def is_mine(head: Head) -> bool:
        """Detect the format from the beginning of a file. Never raises, whatever the file holds."""

    @staticmethod
    def read(source: Source) -> Iterable[Imported]:
        """Yield the sessions in the file, mostly one. Raises FormatError, EnvironmentFailure."""


# Folders of a person in VS Code, on Linux, on a Mac, and on a machine that is edited remotely; in editors based on it.
_CODE: Final = (
    (".config", "Code", "User"),
    ("Library", "Application Support", "Code", "User"),
    (".config", "Code - Insiders", "User"),
    ("Library", "Application Support", "Code - Insiders", "User"),
    (".vscode-server", "data", "User"),
)
_LIKE_CODE: Final = tuple(
    (*folder, name, "User")
    for name in ("Cursor", "VSCodium", "Windsurf", "Antigravity")
    for folder in ((".config",), ("Library", "Application Support"))
)
_FOLDER_OF_COMMAND: Final = r'"Cwd"\s*:\s*"\\"((?:[^"\\\n]|\\.){1,4096}?)\\""'  # JSON within a text
_FOLDER_OF_TASK: Final = r"# Current (?:Working|Workspace) Directory \(((?:[^\"\\\n]|\\.){1,4096}?)\) Files"


def _chats() -> tuple[Place, ...]:
    """Return the places of sessions of Copilot Chat: those of windows with a folder, and of windows without one."""
    return tuple(
        place
        for user in _CODE
        for place in (
            Place(
                (*user, "workspaceStorage", "*", "chatSessions"),
                0,
                "*.json*",
                held_in="folder",
                beside="../workspace.json",
            ),
            Place((*user, "globalStorage", "emptyWindowChatSessions"), 0, "*.json*", held_in="folder"),
        )
    )


def _tasks(extension: str) -> tuple[Place, ...]:
    """Return the places of the tasks of an extension of VS Code."""
    return tuple(
        Place(
            (*user, "globalStorage", extension, "tasks", "*"),
            0,
            "api_conversation_history.json",
            told_as=_FOLDER_OF_TASK,
        )
        for user in (*_CODE, *_LIKE_CODE)
    )


# In the order of detection: formats with an explicit mark come before those recognised by likeness.
FORMATS: Final[tuple[Format, ...]] = (
    Format(
        "codex", "Codex", "a session of Codex", "periplus.interop.importers.codex", "lines", grows=True,
        places=(Place((".codex", "sessions"), 4, "rollout-*.jsonl"),),
    ),
    Format(
        "claude-code", "Claude Code", "a session of Claude Code", "periplus.interop.importers.claude_code.files", "lines", grows=True,
        places=(Place((".claude", "projects"), 1, "*.jsonl", "agent-*", is_far=True),),
    ),
    Format(
        "qwen-code", "Qwen Code", "a session of Qwen Code", "periplus.interop.importers.qwen", "lines", grows=True,
        places=(Place((".qwen", "projects"), 2, "*.jsonl"),),
    ),
    Format(
        "copilot-cli", "Copilot CLI", "a session of Copilot CLI", "periplus.interop.importers.copilot", "lines", grows=True,
        places=(Place((".copilot", "session-state"), 1, "*.jsonl"),),
    ),
    Format(
        "copilot-chat", "Copilot Chat", "a session of Copilot Chat", "periplus.interop.importers.copilot_chat.files", "document", grows=False,
        places=_chats(),
    ),
    Format(
        "roo-code", "Roo Code", "a task of Roo Code", "periplus.interop.importers.roo_code", "folder", grows=False,
        places=_tasks("rooveterinaryinc.roo-cline"),
    ),
    Format(
        "kilo-code", "Kilo Code", "sessions of Kilo Code", "periplus.interop.importers.kilo_code", "database", grows=False,
        places=(Place((".local", "share", "kilo"), 0, "kilo*.db", held_in=""), *_tasks("kilocode.kilo-code")),
    ),
    Format(
        "antigravity", "Antigravity", "a transcript of Antigravity", "periplus.interop.importers.antigravity", "lines", grows=True,
        places=tuple(
            Place((".gemini", name, "brain", "*", ".system_generated", "logs"), 0, "transcript.jsonl", told_as=_FOLDER_OF_COMMAND)
            for name in ("antigravity-cli", "antigravity")
        ),
    ),
    Format(
        "windsurf", "Windsurf", "a transcript of Windsurf", "periplus.interop.importers.windsurf", "lines", grows=True,
        places=(Place((".windsurf", "transcripts"), 0, "*.jsonl"),),
    ),
    Format(
        "droid", "Droid", "a session of Droid", "periplus.interop.importers.droid", "lines", grows=True,
        places=(Place((".factory", "sessions"), 1, "*.jsonl"),),
    ),
    Format(
        "pi-agent", "Pi, OpenClaw", "a session of Pi or OpenClaw", "periplus.interop.importers.pi.session", "lines", grows=True,
        places=(Place((".pi", "agent", "sessions"), 1, "*.jsonl"), Place((".openclaw", "agents"), 2, "*.jsonl", "*.trajectory.jsonl")),
    ),
    Format(
        "openclaw", "OpenClaw", "sessions of OpenClaw", "periplus.interop.importers.pi.openclaw", "database", grows=False,
        places=(Place((".openclaw", "agents"), 2, "openclaw-agent.sqlite", held_in=""),),
    ),
    Format(
        "kimi-code", "Kimi Code", "a session of Kimi Code", "periplus.interop.importers.kimi_code", "lines", grows=True,
        places=(Place((".kimi-code", "sessions"), 4, "wire.jsonl", held_in="cwd|workDir", card=("agents/main/wire.jsonl", "state.json")),),
    ),
    Format(
        "crush", "Crush", "sessions of Crush", "periplus.interop.importers.crush", "database", grows=False,
        places=(Place((".crush",), 0, "crush.db", held_in="", in_project=True),),
    ),
    Format(
        "hermes", "Hermes", "sessions of Hermes", "periplus.interop.importers.hermes.files", "database", grows=False,
        places=(Place((".hermes",), 0, "state.db", held_in=""), Place((".hermes", "profiles"), 1, "state.db", held_in=""),
                Place((".hermes", "sessions"), 0, "session_*.json")),
    ),
    Format(
        "gptme", "gptme", "a conversation of gptme", "periplus.interop.importers.gptme", "lines", grows=True,
        places=(Place((".local", "share", "gptme", "logs"), 1, "conversation.jsonl", held_in="workspace",
                      card=("conversation.jsonl", "config.toml")),),
    ),
    Format(
        "grok-build", "Grok Build", "a session of Grok Build", "periplus.interop.importers.grok_build", "lines", grows=True,
        places=(Place((".grok", "sessions"), 2, "chat_history.jsonl", card=("chat_history.jsonl", "summary.json")),),
    ),
    Format(
        "mistral-vibe", "Mistral Vibe", "a session of Mistral Vibe", "periplus.interop.importers.mistral_vibe", "lines", grows=True,
        places=(Place((".vibe", "logs", "session"), 1, "messages.jsonl", held_in="working_directory",
                      card=("messages.jsonl", "meta.json")),),
    ),
    Format(
        "goose", "Goose", "sessions of Goose", "periplus.interop.importers.goose.files", "database", grows=False,
        places=(Place((".local", "share", "goose", "sessions"), 0, "sessions.db", held_in=""),
                Place((".local", "share", "goose", "sessions"), 0, "*.jsonl", held_in="working_dir")),
    ),
    Format(
        "cursor", "Cursor", "a transcript of Cursor", "periplus.interop.importers.cursor", "lines", grows=True,
        places=(Place((".cursor", "projects"), 3, "*.jsonl"),),
    ),
    Format(
        "gemini-cli", "Gemini CLI", "a session of Gemini CLI", "periplus.interop.importers.gemini", "lines", grows=True,
        places=(Place((".gemini", "tmp"), 2, "session-*.json*", held_in="projectHash"),),
    ),
    Format("atif", "ATIF", "a trajectory in ATIF", "periplus.interop.importers.atif.document", "document", grows=False),
    Format(
        "amp", "Amp", "a thread of Amp", "periplus.interop.importers.amp", "document", grows=False,
        places=(Place((".local", "share", "amp", "threads"), 0, "T-*.json", held_in="uri"),),
    ),
    Format(
        "continue", "Continue", "a session of Continue", "periplus.interop.importers.continue_dev", "document", grows=False,
        places=(Place((".continue", "sessions"), 0, "*.json", "sessions.json", held_in="workspaceDirectory"),),
    ),
    Format("openhands", "OpenHands", "events of OpenHands", "periplus.interop.importers.openhands.event_files", "lines", grows=True,
           places=(Place((".openhands", "conversations"), 1, "base_state.json", held_in="working_dir",
                         is_far=True),)),
    Format("mini-swe-agent", "mini-swe-agent", "a trajectory of mini-swe-agent", "periplus.interop.importers.mini_swe_agent", "document", grows=False,
           places=(Place((".config", "mini-swe-agent"), 0, "*.traj.json"),)),
    Format("swe-agent-traj", "SWE-agent", "a trajectory of SWE-agent", "periplus.interop.importers.swe_agent", "document", grows=False),
    Format(
        "opencode", "opencode", "sessions of opencode", "periplus.interop.importers.opencode.files", "database", grows=False,
        places=(Place((".local", "share", "opencode"), 0, "opencode.db", held_in=""),
                Place((".local", "share", "opencode", "storage", "session"), 1, "ses_*.json",
                      held_in="directory")),
    ),
    Format(
        "cline", "Cline", "a session of Cline", "periplus.interop.importers.cline", "folder", grows=False,
        places=(Place((".cline", "data", "sessions"), 1, "*.messages.json", card=(".messages.json", ".json")),
                *_tasks("saoudrizwan.claude-dev")),
    ),
    Format("inspect", "Inspect", "a log of Inspect", "periplus.interop.importers.inspect_ai.log", "document", grows=False),
    Format("otel", "OpenTelemetry", "a trace of OpenTelemetry", "periplus.interop.importers.otel.traces", "document", grows=False),
    Format(
        "aider", "aider", "a chat history of aider", "periplus.interop.importers.aider.history", "lines", grows=True,
        places=(Place((), 0, ".aider.chat.history.md", held_in="", in_project=True),),
    ),
    Format(
        "specstory", "SpecStory", "a session that SpecStory kept", "periplus.interop.importers.archives.specstory", "lines", grows=True,
        places=(Place((".specstory", "history"), 2, "*.md", held_in="", in_project=True),),
    ),
    Format("git-ai", "git-ai", "a note of git-ai", "periplus.interop.importers.archives.git_ai", "document", grows=False),
    Format(
        "agent-trajectories", "agent-trajectories", "a trajectory of agent-trajectories",
        "periplus.interop.importers.archives.agent_trajectories", "document", grows=False,
        places=(Place((".trajectories",), 2, "traj_*.json", "*.trace.json", held_in="", in_project=True),),
    ),
)  # fmt: skip


def format_names() -> tuple[str, ...]:
    return tuple(row.name for row in FORMATS)


def format_of(name: str) -> Format:
    """Return the row called ``name``. Raises KeyError."""
    for row in FORMATS:
        if row.name == name:
            return row
    raise KeyError(name)


def importer_of(row: Format) -> Importer:
    return cast("Importer", importlib.import_module(row.module))


def kinds_of_files() -> str:
    """Return the importable formats and their places, as part of a sentence."""
    kinds = []
    for row in FORMATS:
        place = f" (~/{'/'.join(row.places[0].folder)})" if row.places and not row.places[0].in_project else ""
        kinds.append(f"{row.agent}{place}")
    return f"{', '.join(kinds[:-1])} and {kinds[-1]}"
