"""Codex (tried with 0.171.0): ``codex exec --json``, the prompt on standard input, all settings through ``-c``.

Codex reads neither server nor hooks of a project that nobody trusted, and in a linked worktree the hooks of the main one. So both are
given as settings of the run: the server as ``mcp_servers.periplus``, the hooks as ``hooks`` with the digest that a review of just these
would have left (``periplus.interop.agents.codex_review``). The project is not trusted thereby, and hooks of its own stay unreviewed.

The sandbox is off: it keeps the git folder of a linked worktree from being written, so nothing could be committed. Each session has an
id of Codex's choice (``thread.started``). The usage of ``turn.completed`` is that of the whole session, and comes only at the end.
"""

from __future__ import annotations

__all__ = ["CODEX"]

import glob
import json
import os
import re
from collections.abc import Mapping
from typing import Final

from periplus.dispatch.adapters.model import Adapter, Probe, SignedIn, Sought, Start, setting_folder
from periplus.dispatch.adapters.output import JsonLines, Spent, count, members, text, wants_of
from periplus.interop.agents import GREETING, Site, agent_named
from periplus.interop.agents.codex_review import hook_hash
from periplus.interop.agents.config_parts import JsonPart

_PASSED: Final = [
    "PERIPLUS_AGENT",
    "PERIPLUS_SESSION",
    "PERIPLUS_RUN",
    "PERIPLUS_STORE",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
]
_SOURCE: Final = "/<session-flags>/config.toml"  # Codex's name for the place of settings that -c gives


def _words(start: Start) -> tuple[str, ...]:
    server = {
        "command": start.command[0], "args": [*start.command[1:], "mcp"], "env_vars": _PASSED, "required": True,
        "default_tools_approval_mode": "approve",
    }  # fmt: skip
    settings = {
        "sandbox_mode": "danger-full-access", "approval_policy": "never", "check_for_update_on_startup": False,
        "mcp_servers.periplus": server, "hooks": _hooks(start.command),
    }  # fmt: skip
    given = tuple(word for name, value in settings.items() for word in ("-c", f"{name}={_toml(value)}"))
    model = ("--model", start.model) if start.model else ()
    if start.resume:
        return ("exec", "resume", "--json", *given, *model, "--", start.resume, "-")
    return ("exec", "--json", *given, *model, "-")


def _hooks(command: tuple[str, ...]) -> dict[str, object]:
    """Return the hooks that connecting would write for a person, with the digest of each under the name that Codex gives it."""
    site = Site("user", "", "", "", "", False, command, "", GREETING)
    events: dict[str, list[object]] = {}
    state: dict[str, object] = {}
    for part in agent_named("codex").parts(site):
        for entry in part.entries if isinstance(part, JsonPart) else ():
            event, group = entry.keys[-1], members(entry.value)
            label = re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()
            at = len(events.setdefault(event, []))
            events[event].append(group)
            hooks = group.get("hooks")
            matcher = group.get("matcher")
            for place, hook in enumerate(hooks if isinstance(hooks, list) else ()):
                digest = hook_hash(label, matcher if isinstance(matcher, str) else None, hook)
                state[f"{_SOURCE}:{label}:{at}:{place}"] = {"trusted_hash": digest}
    return {**events, "state": state}


def _toml(value: object) -> str:
    """Return a value as inline TOML."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_toml(name)}={_toml(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_toml, value)) + "]"
    return json.dumps(value).replace("\x7f", "\\u007f")  # which JSON leaves as it is, and TOML does not allow


class _Reading(JsonLines):
    def event(self, event: dict[str, object]) -> None:
        kind = event.get("type")
        if kind == "thread.started":
            self.begin(text(event.get("thread_id")))
        elif kind == "item.completed":
            item = members(event, "item")
            if item.get("type") == "agent_message":
                self.say(text(item.get("text")))
        elif kind == "error":
            message = text(event.get("message"))
            self.problem = message or self.problem
            self.wants = wants_of(message) or self.wants
        elif kind == "turn.failed":
            self.ended = "failed"
            self.fail(text(members(event, "error").get("message")))
        elif kind == "turn.completed":
            usage = members(event, "usage")
            whole = Spent(
                *(count(usage.get(name)) for name in ("input_tokens", "cached_input_tokens", "output_tokens"))
            )
            self.spent = whole - self.before
            self.ended, self.wants, self.problem = "done", "", ""


def _folder(environment: Mapping[str, str]) -> str:
    return setting_folder(environment, "CODEX_HOME", ".codex")


def _transcripts(sought: Sought) -> list[str]:
    folder = glob.escape(os.path.join(_folder(sought.environment), "sessions"))
    return sorted(glob.glob(os.path.join(folder, "*", "*", "*", f"rollout-*-{glob.escape(sought.session)}.jsonl")))


def _signed_in(environment: Mapping[str, str]) -> SignedIn:
    if environment.get("CODEX_API_KEY"):
        return SignedIn(is_found=True, says="CODEX_API_KEY is set")
    path = os.path.join(_folder(environment), "auth.json")
    if os.path.isfile(path):
        return SignedIn(is_found=True, says=f"{path} is there")
    config = os.path.join(_folder(environment), "config.toml")
    says = f"no login in {path}; a model provider of {config} may need none"
    return SignedIn(is_found=False, says=says, is_known=not os.path.isfile(config))


CODEX: Final = Adapter(
    "codex", "Codex", ("codex",), "0.171", "codex",
    ("CODEX_HOME", "CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORGANIZATION", "OPENAI_PROJECT"),
    _words, _Reading, _transcripts, _signed_in,
    "Type: codex login",
    chooses=False, adds_up=True,
    probe=Probe(("exec", "--help"), ("--json", "--config", "--model", "resume")),
)  # fmt: skip
