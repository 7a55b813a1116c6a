"""opencode (tried with 1.18.33): ``opencode run --format json``, the prompt on standard input.

``--auto`` approves what the person's settings do not deny. The server in ``opencode.json`` and the plugin of the worktree count without
trust. Each session has an id of opencode's choice. Each step tells its tokens and its cost; the request for a title is in no line.
All sessions of a person are in one database, of which the importer reads those of a folder.
"""

from __future__ import annotations

__all__ = ["OPENCODE"]

import os
from collections.abc import Mapping
from typing import Final

from periplus.dispatch.adapters.model import Adapter, Probe, SignedIn, Sought, Start, setting_folder
from periplus.dispatch.adapters.output import JsonLines, Spent, Wants, count, members, millionths, text

_KEYS: Final = (
    "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "OPENROUTER_API_KEY", "DEEPSEEK_API_KEY",
    "GROQ_API_KEY", "MISTRAL_API_KEY", "XAI_API_KEY", "OPENCODE_API_KEY",
)  # fmt: skip


def _words(start: Start) -> tuple[str, ...]:
    session = ("--session", start.resume) if start.resume else ()
    return ("run", "--format", "json", "--auto", *session, *(("--model", start.model) if start.model else ()))


class _Reading(JsonLines):
    def event(self, event: dict[str, object]) -> None:
        self.begin(text(event.get("sessionID")))
        kind, part = event.get("type"), members(event, "part")
        if kind == "text":
            self.say(text(part.get("text")))
        elif kind == "step_finish":
            tokens = members(part, "tokens")
            cached = count(members(tokens, "cache").get("read"))
            tokens_in = count(tokens.get("input")) + cached + count(members(tokens, "cache").get("write"))
            out = count(tokens.get("output")) + count(tokens.get("reasoning"))
            self.spent += Spent(tokens_in, cached, out, millionths(part.get("cost")))
            if part.get("reason") != "tool-calls":
                self.ended, self.wants, self.problem = "done", "", ""
        elif kind == "error":
            error = members(event, "error")
            data = members(error, "data")
            self.ended = "failed"
            wants: Wants = "login" if data.get("statusCode") in (401, 403) or "Auth" in text(error.get("name")) else ""
            self.fail(text(data.get("message")) or text(error.get("name")), wants)


def _folder(environment: Mapping[str, str]) -> str:
    return os.path.join(setting_folder(environment, "XDG_DATA_HOME", ".local", "share"), "opencode")


def _transcripts(sought: Sought) -> list[str]:
    path = os.path.join(_folder(sought.environment), "opencode.db")
    return [path] if os.path.isfile(path) else []


def _signed_in(environment: Mapping[str, str]) -> SignedIn:
    for name in _KEYS:
        if environment.get(name):
            return SignedIn(is_found=True, says=f"{name} is set")
    path = os.path.join(_folder(environment), "auth.json")
    if os.path.isfile(path):
        return SignedIn(is_found=True, says=f"{path} is there")
    return SignedIn(
        is_found=False, says=f"no key and no {path}; a provider of its settings may have one", is_known=False
    )


OPENCODE: Final = Adapter(
    "opencode", "opencode", ("opencode",), "1.18", "opencode",
    # With the last two it does not wait for a network that is not there.
    (*_KEYS, "OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "OPENCODE_DISABLE_MODELS_FETCH", "npm_config_offline"),
    _words, _Reading, _transcripts, _signed_in,
    "Type: opencode auth login",
    constants={"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"},
    chooses=False, leaves=(".opencode/.gitignore", ".opencode/node_modules", ".opencode/package.json", ".opencode/bun.lock"),
    probe=Probe(("run", "--help"), ("--format", "--auto", "--session", "--model")),
)  # fmt: skip
