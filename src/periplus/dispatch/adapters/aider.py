"""aider, from its documentation and source (https://aider.chat/docs/scripting.html, ``aider/coders/base_coder.py``).

Tried with 0.86.2: the start, what it leaves behind, and that it ends with 0 although its model cannot be reached. Not tried: edits,
usage, and going on with a session.

The prompt is a file (``--message-file``). Questions are answered with yes, except for those that need an explicit yes, such as running a
command. A session is the chat history in the worktree, so it goes on in that worktree alone. Its usage is a line of text after each
message, with rounded numbers: ``Tokens: 4.5k sent, 1.2k cache hit, 300 received. Cost: $0.01 message, $0.02 session.``
"""

from __future__ import annotations

__all__ = ["AIDER"]

import os
import re
from collections.abc import Mapping
from typing import Final

from periplus.dispatch.adapters.model import Adapter, Probe, SignedIn, Sought, Start
from periplus.dispatch.adapters.output import Reading, Spent, millionths

_KEYS: Final = (
    "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "DEEPSEEK_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY",
    "XAI_API_KEY",
)  # fmt: skip
_HISTORY: Final = ".aider.chat.history.md"
_TOKENS: Final = re.compile(r"^Tokens: (.{1,200})")
_PART: Final = re.compile(r"(?<![\d.])(\d{1,9}(?:\.\d{1,3})?)(k?) (sent|cache hit|received)")
_COST: Final = re.compile(r"\$(\d{1,9}(?:\.\d{1,12})?) session")
_PROBLEM: Final = re.compile(
    r"^(?:litellm\.)?(\w*(?:Error|Exception)\b.*)|^.*(API key|authentication).*", re.IGNORECASE
)


def _words(start: Start) -> tuple[str, ...]:
    return (
        "--message-file", start.prompt_path, "--yes-always", "--no-gitignore", "--no-check-update", "--no-show-release-notes",
        "--no-analytics", "--no-pretty", "--no-fancy-input", "--no-stream", "--no-detect-urls", "--no-attribute-author",
        "--no-attribute-committer", *(("--restore-chat-history",) if start.resume else ()),
        *(("--model", start.model) if start.model else ()),
    )  # fmt: skip


class _Reading(Reading):
    def line(self, line: str) -> None:
        super().line(line)
        found = _TOKENS.match(line.strip())
        if found is None:
            problem = _PROBLEM.match(self.last_line)
            if problem is not None:
                self.fail(self.last_line)
            elif self.last_line:
                self.say(self.last_line)
            return
        parts = {name: round(float(number) * (1000 if k else 1)) for number, k, name in _PART.findall(found[1])}
        cost = _COST.search(found[1])
        # The cost is that of the process so far.
        total = millionths(float(cost[1])) if cost is not None else self.spent.cost_millionths
        more = Spent(parts.get("sent", 0), parts.get("cache hit", 0), parts.get("received", 0))
        self.spent = (self.spent + more)._replace(cost_millionths=total)
        self.wants, self.problem = "", ""


def _transcripts(sought: Sought) -> list[str]:
    path = os.path.join(sought.worktree, _HISTORY)
    return [path] if os.path.isfile(path) else []


def _signed_in(environment: Mapping[str, str]) -> SignedIn:
    for name in _KEYS:
        if environment.get(name):
            return SignedIn(is_found=True, says=f"{name} is set")
    return SignedIn(is_found=False, says="no key in the environment; its own settings may have one", is_known=False)


AIDER: Final = Adapter(
    "aider", "aider", ("aider",), "", "", (*_KEYS, "OPENAI_API_BASE", "AIDER_MODEL"),
    _words, _Reading, _transcripts, _signed_in,
    "Set the key of a provider, for example ANTHROPIC_API_KEY.",
    prompt="file", leaves=(".aider*",),
    probe=Probe(("--help",), ("--message-file", "--yes-always", "--restore-chat-history")),
)  # fmt: skip
