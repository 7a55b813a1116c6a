"""Wording of a candidate by a model: requested, checked, and rejected if it says more than was seen."""

from __future__ import annotations

__all__ = ["WordingError", "reworded_draft"]

import json
import re
from typing import TYPE_CHECKING, Any, Final

from periplus.agent.contracts import Message
from periplus.agent.skills.command_mining import Draft, refusal
from periplus.agent.skills.skill import NAME_MAX
from periplus.agent.tape.fence import fence
from periplus.base.errors import UsageError

if TYPE_CHECKING:
    from periplus.agent.contracts import LLMClient

_BODY_MAX: Final = 6_000
_DESCRIPTION_MAX: Final = 400
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_BLOCKS: Final = re.compile(r"```[^\n]*\n(.*?)```", re.DOTALL)
_FIELDS: Final = ("name", "description", "body")
_SYSTEM: Final = """\
You put into words a way of working that was seen in a project. You are given commands that worked there, as data. Answer with one JSON object and nothing else:
{"name": small letters and hyphens, "description": one sentence on what it does and when to use it, "body": Markdown that says how it is done}
Say only what the commands show. In the body, the commands stand in a block of code, each exactly as given, and no other command stands there."""


class WordingError(UsageError):
    """The model's wording was rejected."""

    code = "wording"


def reworded_draft(draft: Draft, llm: LLMClient) -> Draft:
    """Return the draft in the model's words, with its commands and evidence unchanged. Raises WordingError, and what the model raises."""
    told = json.dumps(
        {"rule": draft.rule, "commands": draft.commands, "times": len(draft.seen), "failed": draft.failed},
        ensure_ascii=False,
    )
    messages = (
        Message(role="system", content=_SYSTEM),
        Message(role="user", content=fence(told, "commands that worked")),
    )
    answer = llm.complete(messages, ())
    if answer.finish_reason != "stop" or answer.tool_calls:
        raise WordingError(f"{draft.name}: the model did not answer with words ({answer.finish_reason})")
    found = _object(draft, answer.content)
    name, description, body = (found[field].strip() for field in _FIELDS)
    description = " ".join(description.split())
    if len(name) > NAME_MAX or not _NAME.fullmatch(name):
        raise WordingError(f"{draft.name}: {name[:60]!r} is not a valid skill name")
    if not description or len(description) > _DESCRIPTION_MAX or not body or len(body) > _BODY_MAX:
        raise WordingError(f"{draft.name}: its description or its body is empty or too long")
    lines = {" ".join(line.split()) for block in _BLOCKS.findall(body) for line in block.splitlines() if line.strip()}
    known = set(draft.commands) | {
        line for block in _BLOCKS.findall(draft.body) for line in block.splitlines() if line.strip()
    }
    missing = next((command for command in draft.commands if command not in lines), "")
    if missing:
        raise WordingError(f"{draft.name}: the command `{missing[:80]}` is not in its words")
    strange = next(iter(sorted(lines - known)), "")
    if strange:
        raise WordingError(f"{draft.name}: it says `{strange[:80]}`, which was not seen")
    why = refusal(name, description, body, draft.commands)
    if why:
        raise WordingError(f"{draft.name}: {why}")
    return draft._replace(name=name, description=description, body=body + "\n")


def _object(draft: Draft, text: str) -> dict[str, str]:
    inside = _BLOCKS.fullmatch(text.strip()) if text.strip().startswith("```json") else None
    try:
        found: Any = json.loads(text if inside is None else inside[1])
    except (ValueError, RecursionError):
        raise WordingError(f"{draft.name}: the model's answer is not JSON") from None
    if (
        not isinstance(found, dict)
        or set(found) != set(_FIELDS)
        or not all(isinstance(one, str) for one in found.values())
    ):
        raise WordingError(f"{draft.name}: the model's answer is not {', '.join(_FIELDS)}")
    return found
