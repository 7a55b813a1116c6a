"""Claude Code (tried with 2.1.332): ``claude -p`` with JSON lines, the prompt on standard input.

Permissions are rules for the tools of a worker (``--allowedTools``) under ``dontAsk``, so that rules of the person that deny something
still hold; ``bypassPermissions`` is refused to root. With ``-p`` no folder has to be trusted, and the server in ``.mcp.json`` is approved
through ``--settings``. The id of the session is ours, and ``--resume`` goes on with it in the same folder.

A ``result`` line has the usage of this process in ``model_usage_since_last_result``; ``modelUsage`` and ``total_cost_usd`` are those of
the whole session once it was resumed. Its ``permission_denials`` contain calls that hooks refused, which a person need not allow. Before the result, each message tells its prompt and hardly any output.
"""

from __future__ import annotations

__all__ = ["CLAUDE_CODE"]

import glob
import os
from collections.abc import Mapping
from typing import Final

from periplus.dispatch.adapters.model import Adapter, Probe, SignedIn, Sought, Start, setting_folder
from periplus.dispatch.adapters.output import JsonLines, Spent, count, members, millionths, text

_TOOLS: Final = "Bash,Edit,Glob,Grep,NotebookEdit,Read,Skill,Task,TodoWrite,WebFetch,WebSearch,Write,mcp__periplus"
_MESSAGES_MAX: Final = 100_000
_SHOWN_MAX: Final = 5


def _words(start: Start) -> tuple[str, ...]:
    session = ("--resume", start.resume) if start.resume else ("--session-id", start.session)
    # The costs of a session that goes on are counted from its beginning, so a limit would end it at once.
    limit = ("--max-budget-usd", f"{start.cents / 100:.2f}") if start.cents and not start.resume else ()
    return (
        "-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "dontAsk", "--allowedTools", _TOOLS,
        "--permission-prompts", "none", "--settings", '{"enableAllProjectMcpServers":true}', *session, *limit,
        *(("--model", start.model) if start.model else ()),
    )  # fmt: skip


class _Reading(JsonLines):
    def __init__(self, before: Spent = Spent()) -> None:  # noqa: B008 - a frozen value
        super().__init__(before)
        self._told = Spent()  # of results
        self._asked = Spent()  # of messages since the last one
        self._messages: set[str] = set()
        self._by_hooks: set[str] = set()  # calls that a hook refused, such as ours for a claim

    def event(self, event: dict[str, object]) -> None:
        self.begin(text(event.get("session_id")))
        kind = event.get("type")
        if kind == "assistant":
            self._message(event)
        elif kind == "user":
            self._refusals(event)
        elif kind == "result":
            self._result(event)
        elif kind == "system" and event.get("subtype") == "api_retry":
            why = text(event.get("error"))
            self.fail(f"the provider answered {why or event.get('error_status')}", "login" if "auth" in why else "")

    def _message(self, event: dict[str, object]) -> None:
        message = members(event, "message")
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if members(part).get("type") == "text" and not event.get("parent_tool_use_id"):
                self.say(text(part.get("text")))
        name = text(message.get("id"))
        if name and name not in self._messages and len(self._messages) < _MESSAGES_MAX:
            self._messages.add(name)
            self._asked += _of_usage(members(message, "usage"))
            self.spent = self._told + self._asked

    def _refusals(self, event: dict[str, object]) -> None:
        calls = event.get("tool_result_meta")
        for call in calls if isinstance(calls, list) else ():
            decision = members(call, "permission_decision")
            if decision.get("source") == "hook" and len(self._by_hooks) < _MESSAGES_MAX:
                self._by_hooks.add(text(members(call).get("id")))

    def _result(self, event: dict[str, object]) -> None:
        models = event.get("model_usage_since_last_result")
        if isinstance(models, dict):
            for one in models.values():
                self._told += _of_model(members(one))
        else:
            self._told += _of_usage(members(event, "usage"))._replace(
                cost_millionths=millionths(event.get("total_cost_usd"))
            )
        self._asked = Spent()
        self.spent = self._told
        self.say(text(event.get("result")))
        if event.get("is_error"):
            errors = event.get("errors")
            first = text(errors[0]) if isinstance(errors, list) and errors else text(event.get("result"))
            self.ended = "failed"
            self.fail(first, "limit" if text(event.get("subtype")).startswith("error_max") else "")
            return
        self.ended, self.wants, self.problem = "done", "", ""
        denied = event.get("permission_denials")
        names = [
            text(members(one).get("tool_name"))
            for one in (denied if isinstance(denied, list) else ())
            if text(members(one).get("tool_use_id")) not in self._by_hooks
        ]
        if names:
            self.fail(f"calls were refused: {', '.join(list(dict.fromkeys(names))[:_SHOWN_MAX])}", "permission")


def _of_usage(usage: dict[str, object]) -> Spent:
    cached = count(usage.get("cache_read_input_tokens"))
    whole = count(usage.get("input_tokens")) + cached + count(usage.get("cache_creation_input_tokens"))
    return Spent(whole, cached, count(usage.get("output_tokens")))


def _of_model(usage: dict[str, object]) -> Spent:
    cached = count(usage.get("cacheReadInputTokens"))
    whole = count(usage.get("inputTokens")) + cached + count(usage.get("cacheCreationInputTokens"))
    return Spent(whole, cached, count(usage.get("outputTokens")), millionths(usage.get("costUSD")))


def _folder(environment: Mapping[str, str]) -> str:
    return setting_folder(environment, "CLAUDE_CONFIG_DIR", ".claude")


def _transcripts(sought: Sought) -> list[str]:
    folder = glob.escape(os.path.join(_folder(sought.environment), "projects"))
    return sorted(glob.glob(os.path.join(folder, "*", f"{glob.escape(sought.session)}.jsonl")))


def _signed_in(environment: Mapping[str, str]) -> SignedIn:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        if environment.get(name):
            return SignedIn(is_found=True, says=f"{name} is set")
    path = os.path.join(_folder(environment), ".credentials.json")
    if os.path.isfile(path):
        return SignedIn(is_found=True, says=f"{path} is there")
    return SignedIn(is_found=False, says="no key and no stored login (a keychain is not looked into)", is_known=False)


CLAUDE_CODE: Final = Adapter(
    "claude-code", "Claude Code", ("claude",), "2.1", "claude-code",
    ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "ANTHROPIC_CUSTOM_HEADERS", "CLAUDE_CODE_OAUTH_TOKEN",
     "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"),
    _words, _Reading, _transcripts, _signed_in,
    "Start `claude` and type /login, or set ANTHROPIC_API_KEY.",
    constants={"DISABLE_AUTOUPDATER": "1"},
    models={"small": "haiku"},  # an alias of the program; the larger classes are as dear as the person has chosen
    probe=Probe(("--help",), ("--output-format", "--permission-mode", "--permission-prompts", "--allowedTools", "--session-id", "--resume", "--settings")),
)  # fmt: skip
