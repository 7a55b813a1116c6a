"""The table of a trail's opcodes: encoder, decoder, verifier, listing and documentation all read it.

A row also says how version 1 (Trail-FLUX) stores the step, if it can: ``s`` is the key of a string in two slots of 16
bits, ``n`` a number in one slot; behind each are the keys by which a worklog gives the operand, in the order in which
they are looked for. The entries of that column belong to the first operands of the row, in their order.

The kind of an operand determines its encoding: ``str``, ``path``, ``json`` and ``bytes`` are an entry of the string
table (text, or a text object when large), ``digest`` is a digest entry, ``uint`` and ``int`` are numbers. ``json`` is
stored as its text and is not parsed here. A0 and A1 are steps only in a worklog and in version 1: in version 2 they are
the header and the footer of a trail, so they have rows of their own. C2 to CF are reserved.
"""

from __future__ import annotations

__all__ = [
    "BY_CODE",
    "BY_NAME",
    "FLUX_BY_CODE",
    "OPCODES",
    "TRAIL_BEGIN",
    "TRAIL_END",
    "WORKLOG_BY_NAME",
    "FluxKind",
    "FluxOperand",
    "Opcode",
    "Operand",
    "OperandKind",
    "flux_table",
    "opcode_name",
    "opcode_table",
]

from typing import Final, Literal, NamedTuple, TypeAlias

OperandKind: TypeAlias = Literal["str", "path", "uint", "int", "digest", "bytes", "json"]


FluxKind: TypeAlias = Literal["s", "n"]


class Operand(NamedTuple):
    name: str
    kind: OperandKind
    optional: bool = False


class FluxOperand(NamedTuple):
    """An operand in version 1; the first of the worklog ``keys`` that is present wins."""

    kind: FluxKind
    keys: tuple[str, ...]

    @property
    def slots(self) -> int:
        return 2 if self.kind == "s" else 1


class Opcode(NamedTuple):
    """A row of the table; ``flux`` is None if version 1 has no such opcode."""

    code: int
    name: str
    operands: tuple[Operand, ...]
    meaning: str
    flux: tuple[FluxOperand, ...] | None = None

    @property
    def flux_slots(self) -> int:
        """The number of 16-bit slots that a step has in version 1."""
        return sum(operand.slots for operand in self.flux or ())

    def keys(self, place: int) -> tuple[str, ...]:
        """Return the worklog keys of operand ``place``: those of version 1, then its own name."""
        name = self.operands[place].name
        keys = self.flux[place].keys if self.flux is not None and place < len(self.flux) else ()
        return keys if name in keys else (*keys, name)


def _row(code: int, name: str, operands: str, meaning: str, flux: str | None = None) -> Opcode:
    """Make a row; ``operands`` is ``"name:kind name:kind?"``, ``flux`` is ``"kind:key/key kind:key"``."""
    parsed = []
    for word in operands.split():
        label, _, kind = word.partition(":")
        parsed.append(Operand(label, kind.removesuffix("?"), kind.endswith("?")))  # type: ignore[arg-type]  # a test checks the kinds
    if flux is None:
        return Opcode(code, name, tuple(parsed), meaning)
    carried = []
    for word in flux.split():
        kind, _, keys = word.partition(":")
        carried.append(FluxOperand(kind, tuple(keys.split("/"))))  # type: ignore[arg-type]  # likewise
    return Opcode(code, name, tuple(parsed), meaning, tuple(carried))


OPCODES: Final[tuple[Opcode, ...]] = (
    _row(
        0x90,
        "GIT_COMMIT",
        "repo:str message:str commit:digest?",
        "changes were committed",
        "n:repo_id/repo s:message/message_hash",
    ),
    _row(0x91, "GIT_PUSH", "repo:str remote:str?", "commits were pushed to a remote", "n:repo_id/repo"),
    _row(0x92, "FILE_READ", "path:path range:str?", "a file, or lines of it, was read", "s:path"),
    _row(0x93, "FILE_WRITE", "path:path content:digest", "a file got this content", "s:path s:content/content_hash"),
    _row(
        0x94,
        "FILE_EDIT",
        "path:path old:str new:str",
        "in a file, old text was replaced by new",
        "s:path s:old/old_hash s:new/new_hash",
    ),
    _row(
        0x95,
        "TEST_RUN",
        "target:str expected:uint?",
        "tests were run; so many were expected to pass",
        "s:test_path/path n:count/expected_count",
    ),
    _row(0x96, "SEARCH_CODE", "pattern:str path:path?", "the code was searched", "s:pattern"),
    _row(
        0x97,
        "BOTTLE_DROP",
        "target:str content:str",
        "a message was left in an agent's inbox",
        "s:target s:content/content_hash",
    ),
    _row(0x98, "BOTTLE_READ", "source:str", "a message from an agent was read", "s:source"),
    _row(0x99, "LEVEL_UP", "level:uint", "an autonomy level was reached", "n:level/new_level"),
    _row(0x9A, "SPELL_CAST", "spell:str arguments:json?", "a skill was invoked", "s:spell_id/spell"),
    _row(0x9B, "ROOM_ENTER", "room:str", "a workspace or worktree was entered", "s:room_id/room"),
    _row(0x9C, "TRUST_UPDATE", "target:str delta:int", "an agent's reputation changed", "s:target n:delta"),
    _row(0x9D, "CAP_ISSUE", "action:str holder:str", "a permission was granted", "s:action s:holder"),
    _row(0x9E, "BRANCH", "register:uint label:str", "go to the label when the register is not zero", "n:reg/register"),
    _row(0x9F, "NOP", "", "nothing was done", ""),
    _row(0xA2, "COMMENT", "text:str", "a remark of the recorder", "s:comment/text"),
    _row(0xA3, "LABEL", "name:str", "a place that BRANCH can go to", "s:label/name"),
    _row(0xA4, "COMMAND_RUN", "command:str cwd:path?", "a command was run"),
    _row(0xA5, "FILE_DELETE", "path:path", "a file was deleted"),
    _row(0xA6, "FILE_MOVE", "source:path target:path", "a file was moved or renamed"),
    _row(0xA7, "FILE_LIST", "path:path", "a folder, or files by a pattern, were listed"),
    _row(0xA8, "WEB_FETCH", "url:str", "a page was fetched"),
    _row(0xA9, "WEB_SEARCH", "query:str", "the web was searched"),
    _row(0xAA, "TOOL_CALL", "server:str name:str arguments:json", "a tool was called that has no opcode of its own"),
    _row(0xAB, "PROMPT", "text:str", "a person or a parent asked something of the agent"),
    _row(0xAC, "SAY", "text:str", "the agent said something"),
    _row(
        0xAD,
        "MODEL_CALL",
        "model:str tokens_in:uint cached:uint out:uint cost:uint?",
        "a model was called; tokens, and cost in millionths of a dollar",
    ),
    _row(0xAE, "AGENT_SPAWN", "agent:str task:str trail:digest?", "another agent was given a task; its trail"),
    _row(0xAF, "PLAN_UPDATE", "plan:json", "the plan was written or changed"),
    _row(0xC0, "ASK", "question:str answer:str?", "a person was asked, and perhaps answered"),
    _row(0xC1, "CHECKPOINT", "state:digest", "the files stood at this git tree or commit"),
)

# Only in version 1 and in worklogs; version 1 gives both a layout of their own.
TRAIL_BEGIN: Final = _row(
    0xA0, "TRAIL_BEGIN", "agent:str trail_id:str ts:uint?", "the trail begins", "s:agent s:trail_id n:ts/timestamp"
)
TRAIL_END: Final = _row(0xA1, "TRAIL_END", "status:str", "the trail ends", "n:status")

BY_CODE: Final[dict[int, Opcode]] = {opcode.code: opcode for opcode in OPCODES}
BY_NAME: Final[dict[str, Opcode]] = {opcode.name: opcode for opcode in OPCODES}
FLUX_BY_CODE: Final[dict[int, Opcode]] = {
    opcode.code: opcode for opcode in (*OPCODES, TRAIL_BEGIN, TRAIL_END) if opcode.flux is not None
}
WORKLOG_BY_NAME: Final[dict[str, Opcode]] = {**BY_NAME, TRAIL_BEGIN.name: TRAIL_BEGIN, TRAIL_END.name: TRAIL_END}


def opcode_name(code: int) -> str:
    """Return the name of ``code``; ``OP_C7`` for a code that this version does not know."""
    known = BY_CODE.get(code) or FLUX_BY_CODE.get(code)
    return known.name if known is not None else f"OP_{code:02X}"


def opcode_table() -> str:
    """Return the table as Markdown, for the reference of the format."""
    lines = ["| code | name | operands | meaning |", "|---|---|---|---|"]
    for opcode in OPCODES:
        operands = ", ".join(f"{operand.name} {operand.kind}{'?' * operand.optional}" for operand in opcode.operands)
        lines.append(f"| {opcode.code:02X} | {opcode.name} | {operands or '–'} | {opcode.meaning} |")
    return "\n".join(lines) + "\n"


def flux_table() -> str:
    """Return the table of version 1 as Markdown: the slots of each step, and its worklog keys."""
    lines = ["| code | name | slots | operands: kind and keys of a worklog |", "|---|---|---|---|"]
    for code, opcode in sorted(FLUX_BY_CODE.items()):
        operands = ", ".join(
            f"{operand.kind} {' or '.join(f'`{key}`' for key in operand.keys)}" for operand in opcode.flux or ()
        )
        is_step = opcode not in (TRAIL_BEGIN, TRAIL_END)
        lines.append(f"| {code:02X} | {opcode.name} | {opcode.flux_slots if is_step else '–'} | {operands or '–'} |")
    return "\n".join(lines) + "\n"
