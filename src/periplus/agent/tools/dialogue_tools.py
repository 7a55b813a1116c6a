"""Tools for dialogue and notes: ``ask_user`` asks the person, ``remember`` and ``recall`` use memory, ``plan`` notes the working state."""

from __future__ import annotations

__all__ = ["Asker", "ask_tool", "notes_of_plan", "plan_tool", "recall_tool", "remember_tool"]

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from periplus.agent.contracts import Access, Memory, Tier, ToolResult
from periplus.agent.tools.tool_table import Arguments, ArgumentsError, Parameter, Tool, check_arguments

if TYPE_CHECKING:
    from periplus.agent.tape_notes import SliceNote

Asker: TypeAlias = Callable[[str, Sequence[str]], str | None]
"""Asks the person a question with options; None without a person or an answer."""

_RECALLED_MAX: Final = 20
_TIERS: Final[Mapping[str, Tier]] = {"observed": "observed", "tool": "tool", "claim": "claim"}
_PREVIEW_CHARS: Final = 400
_ASK: Final = (
    Parameter("question", "text", required=True),
    Parameter("options", "list", "answers to choose from", most=10),
)
_REMEMBER: Final = (
    Parameter("title", "text", required=True, most=200),
    Parameter(
        "content", "text", "what and why, for a reader who does not know this session", required=True, most=8_000
    ),
    Parameter("kind", "text", choices=("decision", "constraint", "trap", "fact", "lesson")),
    Parameter("paths", "list", "files it is about", most=20),
    Parameter("tags", "list", most=20),
)
_RECALL: Final = (
    Parameter("query", "text", required=True, most=1_000),
    Parameter("paths", "list", "files it is about", most=20),
    Parameter("count", "integer", least=1, most=_RECALLED_MAX),
)
_PLAN: Final = (
    Parameter("steps", "list", "the whole plan", most=50, fields=(
        Parameter("text", "text", required=True, most=300), Parameter("state", "text", choices=("open", "doing", "done")),
    )),
    Parameter("requirements", "list", "what must hold; done once seen to hold", most=50, fields=(
        Parameter("text", "text", required=True, most=300), Parameter("done", "flag"),
    )),
    Parameter("findings", "list", most=20, fields=(
        Parameter("text", "text", required=True, most=500),
        Parameter("source", "text", "observed: seen by yourself", choices=("observed", "tool", "claim")),
    )),
    Parameter("mission", "text", most=500),
)  # fmt: skip


def ask_tool(asker: Asker | None) -> Tool:
    def run(args: Arguments) -> ToolResult:
        if asker is None:
            return _nobody()
        answer = asker(args.text("question"), args.texts("options"))
        return _nobody() if answer is None else ToolResult(outcome="ok", output=answer, untrusted=False)

    return Tool(
        "ask_user",
        "Ask the person what they alone can decide.",
        _ASK,
        run,
        lambda _: (Access(resource="person:", mode="write"),),
    )


def _nobody() -> ToolResult:
    said = "nobody can be asked, or nobody answers: decide by what is known, and say so at the end"
    return ToolResult(outcome="denied", output=said, untrusted=False)


def remember_tool(memory: Memory) -> Tool:
    def run(args: Arguments) -> ToolResult:
        kind = args.text("kind", "fact")
        tags = (*((kind,) if kind not in args.texts("tags") else ()), *args.texts("tags"))
        found = memory.remember(args.text("content"), args.text("title"), "project", tags, args.texts("paths"))
        return ToolResult(outcome="ok", output=f"remembered as {found}", untrusted=False)

    return Tool(
        "remember", "Store what later sessions should know.", _REMEMBER, run,
        lambda _: (Access(resource="memory:", mode="write"),),
    )  # fmt: skip


def recall_tool(memory: Memory) -> Tool:
    def run(args: Arguments) -> ToolResult:
        found = memory.recall(args.text("query"), args.integer("count", 6), args.texts("paths") or None)
        rows = [f"{one.handle} ({one.kind})\n  {' '.join(one.preview.split())[:_PREVIEW_CHARS]}" for one in found]
        return ToolResult(outcome="ok", output="\n".join(rows) or "nothing was found")

    return Tool(
        "recall", "Search the project's memory; read a handle for the full text.", _RECALL, run,
        lambda _: (Access(resource="memory:", mode="read"),),
    )  # fmt: skip


def plan_tool(note: Callable[[SliceNote], None] | None = None) -> Tool:
    """Build the tool ``plan``. ``note`` receives the changes; without it the call itself is the record, see ``notes_of_plan``."""

    def run(args: Arguments) -> ToolResult:
        notes = _notes(args)
        if not notes:
            raise ArgumentsError("plan: it needs steps, requirements, findings or a mission", safe="Nothing was noted.")
        for one in notes if note is not None else ():
            assert note is not None
            note(one)
        open_ = [step.text("text") for step in args.records("steps") if step.text("state") != "done"]
        return ToolResult(
            outcome="ok",
            output=f"noted; {len(open_)} steps are open" if args.has("steps") else "noted",
            untrusted=False,
        )

    return Tool(
        "plan",
        "Note the plan, the requirements, what was found.",
        _PLAN,
        run,
        lambda _: (Access(resource="plan:", mode="write"),),
    )


def notes_of_plan(args: Mapping[str, Any]) -> list[SliceNote]:
    """Changes of the working state by a call of ``plan``; none for an invalid call. A pure function of the call."""
    try:
        return _notes(check_arguments(plan_tool(), args))
    except ArgumentsError:
        return []


def _notes(args: Arguments) -> list[SliceNote]:
    from periplus.agent.tape_notes import SliceNote

    notes = []
    if args.has("mission"):
        notes.append(SliceNote(field="mission", op="set", value=args.text("mission")))
    if args.has("steps"):
        notes.append(SliceNote(field="plan", op="set"))
    notes += [
        SliceNote(field="plan", op="add", name=one.text("text"), value=one.text("state", "open"))
        for one in args.records("steps")
    ]
    notes += [
        SliceNote(field="requirements", op="done" if one.flag("done") else "add", value=one.text("text"))
        for one in args.records("requirements")
    ]
    for one in args.records("findings"):
        tier = _TIERS[one.text("source", "claim")]
        notes.append(SliceNote(field="findings", op="add", value=one.text("text"), tier=tier))
    return notes
