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
    "Periplus is the memory of this project, shared by all agents and people who work on it: decisions and why, rules, traps, "
    "how things are done here, what earlier sessions did, who works on what now.\n"
    "Before a task call brief(task=…). Before you change files call brief(paths=[…]): it says who holds them and which rules and "
    'traps are about them; claim(action="take", paths=[…]) what you will change if others may be at work.\n'
    "When something puzzles you, fails, or was surely decided before, call recall(question=…), before you search the code or ask.\n"
    'Where something is defined, who uses it, which tests reach it: code(action="find" or "refs" or "impact", of=…). Where to begin: code(action="map", of=task).\n'
    "When a choice is made, the user corrects you, or something cost you time, call remember(…) at once: type decision, constraint, "
    "trap or lesson, with about=[files]. What it says has to be understood by who was not there. No secrets.\n"
    'What recall marks as stale may no longer hold: look, then revise(action="confirm" or "replace" or "state").\n'
    'Plans with steps for several agents: plan. Mail and handoffs: message; at the end of unfinished work message(action="handoff").'
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
        "What this project knows that matters before a task (`task`) or before files are changed (`paths`): who else holds those "
        "paths, rules to obey, traps, decisions, how things are done here, mail, handoffs, steps that are ready, files that will likely "
        "change, earlier sessions like it. Call it first. Most important first, within `budget` tokens.",
        BriefArguments, _reading("run_brief"), is_read_only=True, is_idempotent=True,
    ),
    Tool(
        "recall", "Search the project's memory",
        "Search all that is known of this project: memory (decisions, rules, traps, lessons, notes), earlier sessions of any agent "
        "(what was asked, answered and run), commits. Ask in your own words, or give an error message, a path, an identifier or an id. "
        "Each hit says why it is there, how fresh it is, what is stale, and where it is written down. Use it before you work something "
        "out that may have been worked out before.",
        RecallArguments, _reading("run_recall"), is_read_only=True, is_idempotent=True,
    ),
    Tool(
        "show", "Show one entity or trail",
        "One entity with all its fields and its history, or an earlier session's trail with its steps (page with `offset`; TRAIL#N is "
        "one step with all that it says).",
        ShowArguments, _reading("run_show"), is_read_only=True, is_idempotent=True,
    ),
    Tool(
        "code", "Find code and what depends on it",
        "Where code is, who uses it, what it uses, and what a change of it reaches: from the syntax of this project's files as they are now, not "
        "from text search. Each place has a grade: proven, likely, or named (only the name agrees). Before you change a signature call "
        "impact; after changes impact without `of` says which tests to run.",
        CodeArguments, _code, is_read_only=True, is_idempotent=True,
    ),
    Tool(
        "remember", "Save something to memory",
        "Save what the next one who works here has to know: a decision and why, a rule (constraint), a trap and what to do, "
        "a lesson on how things are done here, a note. One thing a call, in a sentence or a few, with `about` for the code that it is about. "
        "Text that is known already is not written again; similar entities are listed. Secrets are refused.",
        RememberArguments, _writing("run_remember"), is_idempotent=True,
    ),
    Tool(
        "revise", "Change memory",
        "Change what memory says, when it is outdated, settled or wrong: change the state (a trap resolved, a decision accepted or rejected), replace or merge entities (the old ones are superseded, never erased), split, set fields, relate to another, or confirm that it "
        "still holds. All of it can be undone by `periplus undo`.",
        ReviseArguments, _writing("run_revise"), is_destructive=True,
    ),
    Tool(
        "claim", "Claim paths to work on",
        "Who works here now and holds which paths (list); claim the paths that you are about to change, so that no other agent changes them at the same time (take); release claims (release). A claim is refused where somebody else's overlaps it, with who and until when. It "
        "is renewed by what you do and ends with your session.",
        ClaimArguments, _writing("run_claim"),
    ),
    Tool(
        "plan", "Work in steps with others",
        "Plans whose steps several agents take in turn: what is open and can be started (list, show), make a plan or add steps with what "
        "each waits for (make, add), take the next ready step with a claim on its paths (next: no two agents get the same one), and "
        "say what became of it (done, block, drop, reopen).",
        PlanArguments, _writing("run_plan"),
    ),
    Tool(
        "message", "Mail and handoffs",
        "Mail between the agents and people of this project, by name, and handoffs. inbox: what waits for you. send, answer, read: mail. "
        "handoff: at the end of unfinished work, its state for whoever comes next: what was done, files, tests, what is left. accept, "
        "close: somebody's handoff.",
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
