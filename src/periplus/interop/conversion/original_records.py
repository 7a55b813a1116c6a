"""Agents as other tools name them, with the format and the place of their own records.

A tool that keeps sessions of agents says of which agent a session is: SpecStory writes ``Codex CLI``, git-ai ``codex``,
Entire ``Codex``. The first word is enough to tell them apart.
"""

from __future__ import annotations

__all__ = ["Original", "original_of", "own_file"]

import re
from typing import Final, NamedTuple

_ID_CHARS_MAX: Final = 200
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_WORD: Final = re.compile(r"[a-z]+")


class Original(NamedTuple):
    """``format`` is the name of a row of ``formats.FORMATS``, ``agent`` the name in trails; ``file`` is a pattern for
    the shell, with ``{}`` for the session's id.
    """

    format: str
    agent: str
    file: str


_ORIGINALS: Final[dict[str, Original]] = {
    "amp": Original("amp", "amp", "~/.local/share/amp/threads/{}.json"),
    "antigravity": Original(
        "antigravity", "antigravity", "~/.gemini/antigravity*/brain/{}/.system_generated/logs/transcript.jsonl"
    ),
    "claude": Original("claude-code", "claude-code", "~/.claude/projects/*/{}.jsonl"),
    "cline": Original("cline", "cline", "~/.cline/data/sessions/{}/*.messages.json"),
    "codex": Original("codex", "codex", "~/.codex/sessions/*/*/*/rollout-*-{}.jsonl"),
    "cursor": Original("cursor", "cursor", "~/.cursor/projects/*/agent-transcripts/{}/{}.jsonl"),
    "droid": Original("droid", "droid", "~/.factory/sessions/*/{}.jsonl"),
    "factory": Original("droid", "droid", "~/.factory/sessions/*/{}.jsonl"),
    "gemini": Original("gemini-cli", "gemini-cli", "~/.gemini/tmp/*/chats/session-*.json"),
    "goose": Original("goose", "goose", "~/.local/share/goose/sessions/sessions.db"),
    "grok": Original("grok-build", "grok-build", "~/.grok/sessions/*/{}/chat_history.jsonl"),
    "hermes": Original("hermes", "hermes", "~/.hermes/state.db"),
    "kimi": Original("kimi-code", "kimi-code", "~/.kimi-code/sessions/*/*{}/agents/main/wire.jsonl"),
    "mistral": Original("mistral-vibe", "mistral-vibe", "~/.vibe/logs/session/*{}*/messages.jsonl"),
    "opencode": Original("opencode", "opencode", "~/.local/share/opencode/opencode.db"),
    "pi": Original("pi-agent", "pi-agent", "~/.pi/agent/sessions/*/*_{}.jsonl"),
    "qwen": Original("qwen-code", "qwen-code", "~/.qwen/projects/*/chats/{}.jsonl"),
    "windsurf": Original("windsurf", "windsurf", "~/.windsurf/transcripts/{}.jsonl"),
}


def original_of(agent: str) -> Original | None:
    """Return the agent's own record by any name of the agent; None for an agent whose records are not imported."""
    word = _WORD.search(agent[:_ID_CHARS_MAX].lower())
    return _ORIGINALS.get(word.group()) if word is not None else None


def own_file(agent: str, session_id: str) -> str:
    """Return the pattern of the file with the agent's own record of the session, to be typed in a shell; empty where
    its place is unknown.
    """
    original = original_of(agent)
    if original is None:
        return ""
    is_plain = len(session_id) <= _ID_CHARS_MAX and _PLAIN.fullmatch(session_id) is not None
    return original.file.replace("{}", session_id if is_plain else "*")
