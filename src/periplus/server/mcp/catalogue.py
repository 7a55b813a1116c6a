"""The table of everything that the server offers. Protocol documents, schemas and documentation are generated from it.

It does not need the SDK, so clients can be answered before the SDK is loaded.
"""

from __future__ import annotations

__all__ = [
    "HANDSHAKE_VERSIONS", "INSTRUCTIONS", "LIST_TTL_MS", "MODERN_VERSION", "NAME", "PROMPTS", "TEMPLATES", "TITLE", "TOOLS", "Tool",
    "prompt_documents", "template_documents", "tool_documents",
]  # fmt: skip

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from periplus.server.mcp.tool_arguments import (
    BriefArguments,
    ClaimArguments,
    CodeArguments,
    MessageArguments,
    PlanArguments,
    RecallArguments,
    RememberArguments,
    ReviseArguments,
    ShowArguments,
    input_schema,
)

if TYPE_CHECKING:
    from periplus.project import Project
    from periplus.server.mcp.tool_results import Answer

NAME: Final = "periplus"
TITLE: Final = "Periplus: this project's memory"
HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSION: Final = "2026-07-28"
LIST_TTL_MS: Final = 3_600_000  # the lists change only with the program
INSTRUCTIONS: Final = (
    "Periplus is the memory of this project, shared by all agents and people here.\n"
    "Before a task: brief(task=…). Before you change files: brief(paths=[…]), and claim them if others may be at work.\n"
    "When something puzzles you, fails, or was surely decided before: recall, before you search or ask.\n"
    "Where code is, who uses it, which tests reach it, where to begin: code.\n"
    "When a choice is made, the user corrects you, or something cost you time: remember it at once.\n"
    "What is marked stale may no longer hold: look, then revise.\n"
    'Work left unfinished: message(action="handoff").\n'
    "An answer takes at most `budget` tokens, and names the call that shows the rest."
)  # fmt: skip


class Tool(NamedTuple):
    """``load`` returns the function of the tool, imported at its first call."""

    name: str
    title: str
    description: str
    arguments: type[msgspec.Struct]
    load: Callable[[], Callable[[Project, Any], Answer]]
    is_read_only: bool = False
    is_destructive: bool = False
    is_idempotent: bool = False


def _reading(name: str) -> Callable[[], Callable[[Project, Any], Answer]]:
    def load() -> Callable[[Project, Any], Answer]:
        from periplus.server.mcp import read_tools

        found: Callable[[Project, Any], Answer] = getattr(read_tools, name)
        return found

    return load


def _writing(name: str) -> Callable[[], Callable[[Project, Any], Answer]]:
    def load() -> Callable[[Project, Any], Answer]:
        from periplus.server.mcp import write_tools

        found: Callable[[Project, Any], Answer] = getattr(write_tools, name)
        return found

    return load


def _code() -> Callable[[Project, Any], Answer]:
    from periplus.server.mcp.code_tool import run_code

    return run_code


TOOLS: Final[tuple[Tool, ...]] = (
    Tool(
        "brief", "What to know before a task",
        "What to know before a task, or before you change `paths`: who holds them, rules, traps, decisions, how things are done here, "
        "mail, handoffs, ready steps, files that change together, earlier sessions. Call it first.",
        BriefArguments, _reading("run_brief"), is_read_only=True, is_idempotent=True,
    ),
    Tool(
        "recall", "Search the project's memory",
        "Search memory, earlier sessions of any agent (what was asked, answered, run) and commits: in your own words, or by an error "
        "message, path or identifier. Use it before you work out what may have been worked out before.",
        RecallArguments, _reading("run_recall"), is_read_only=True, is_idempotent=True,
    ),
    Tool(
        "show", "Show one entity or trail",
        "An entity by `id` with its history, or an earlier session's steps; TRAIL#N is one step in full.",
        ShowArguments, _reading("run_show"), is_read_only=True, is_idempotent=True,
    ),
    Tool(
        "code", "Find code and what depends on it",
        "Where code is, who uses it, what a change reaches: from the syntax of the files as they are now. Of grade named, only the "
        "name agrees. Before you change a signature: impact. After changes: impact without `of` names the tests to run.",
        CodeArguments, _code, is_read_only=True, is_idempotent=True,
    ),
    Tool(
        "remember", "Save something to memory",
        "Save what the next one here has to know: one thing, in a sentence or a few, for who was not there, with `about` for its code. "
        "Known text is not saved twice; similar entities are listed. No secrets.",
        RememberArguments, _writing("run_remember"), is_idempotent=True,
    ),
    Tool(
        "revise", "Change memory",
        "Change memory that is outdated, settled or wrong. Nothing is erased; `periplus undo` takes it back.",
        ReviseArguments, _writing("run_revise"), is_destructive=True,
    ),
    Tool(
        "claim", "Claim paths to work on",
        "Who works here and holds which paths (list). Take what you will change, so that nobody else changes it meanwhile; refused "
        "where another's claim overlaps. A claim ends with your session.",
        ClaimArguments, _writing("run_claim"),
    ),
    Tool(
        "plan", "Work in steps with others",
        "Plans whose steps several agents take in turn: no two get the same.",
        PlanArguments, _writing("run_plan"),
    ),
    Tool(
        "message", "Mail and handoffs",
        "Mail between agents and people here, by name. Handoffs: the state of unfinished work, for whoever comes next.",
        MessageArguments, _writing("run_message"),
    ),
)  # fmt: skip

OUTPUT_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "entries": {
            "type": "array",
            "items": {"type": "object", "properties": {"id": {"type": "string"}, "text": {"type": "string"}}},
            "description": "What the text says, entry by entry.",
        },
        "left_out": {"type": "integer", "description": "How many entries did not fit the budget."},
        "more": {"type": "string", "description": "The call that shows them."},
    },
    "required": ["entries", "left_out"],
}

PROMPTS: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": "start",
        "title": "Start a session",
        "description": "What is known before a task, who else is at work, and what waits for you.",
        "arguments": [{"name": "task", "description": "What is to be done, in a sentence.", "required": False}],
    },
    {
        "name": "end",
        "title": "End a session",
        "description": "What to write down before you leave: what was learned, what is unfinished, what you hold.",
        "arguments": [],
    },
)

TEMPLATES: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": "entity",
        "title": "An entity",
        "uriTemplate": "periplus://entity/{id}",
        "description": "A decision, constraint, trap, lesson, note, plan, … as a JSON document.",
        "mimeType": "application/json",
    },
    {
        "name": "trail",
        "title": "A session's trail",
        "uriTemplate": "periplus://trail/{id}",
        "description": "What an agent did in a session, step by step, one line each.",
        "mimeType": "text/plain",
    },
    {
        "name": "proof",
        "title": "A proof of a record",
        "uriTemplate": "periplus://proof/{seq}",
        "description": "A file that proves that record SEQ of this store's journal says what it says; `periplus verify` checks it.",
        "mimeType": "application/octet-stream",
    },
)


def tool_documents() -> list[dict[str, Any]]:
    """Return the tools as `tools/list` lists them, in table order."""
    return [
        {
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": input_schema(tool.arguments),
            "outputSchema": OUTPUT_SCHEMA,
            "annotations": {
                "title": tool.title,
                "readOnlyHint": tool.is_read_only,
                "destructiveHint": tool.is_destructive,
                "idempotentHint": tool.is_idempotent,
                "openWorldHint": False,
            },
        }
        for tool in TOOLS
    ]


def prompt_documents() -> list[dict[str, Any]]:
    return [dict(prompt) for prompt in PROMPTS]


def template_documents() -> list[dict[str, Any]]:
    return [dict(template) for template in TEMPLATES]
