"""The one table of a trail's opcodes: encoder, decoder, verifier, listing and documentation all read it.

The kind of an operand says how it is carried: ``str``, ``path``, ``json`` and ``bytes`` as an entry of the string
table (text, or a text object when large), ``digest`` as a digest entry, ``uint`` and ``int`` as a number. ``json``
is carried as its text and is not parsed here. A0 and A1 are the header and the footer of a trail and never steps;
C2 to CF are kept for later.
"""

from __future__ import annotations

__all__ = ["BY_CODE", "BY_NAME", "OPCODES", "Opcode", "Operand", "OperandKind", "opcode_name", "opcode_table"]

from typing import Final, Literal, NamedTuple, TypeAlias

OperandKind: TypeAlias = Literal["str", "path", "uint", "int", "digest", "bytes", "json"]


class Operand(NamedTuple):
    name: str
    kind: OperandKind
    optional: bool = False


class Opcode(NamedTuple):
    code: int
    name: str
    operands: tuple[Operand, ...]
    meaning: str


def _row(code: int, name: str, operands: str, meaning: str) -> Opcode:
    """One row; ``operands`` is ``"name:kind name:kind?"``."""
    parsed = []
    for word in operands.split():
        label, _, kind = word.partition(":")
        parsed.append(Operand(label, kind.removesuffix("?"), kind.endswith("?")))  # type: ignore[arg-type]  # a test checks the kinds
    return Opcode(code, name, tuple(parsed), meaning)


OPCODES: Final[tuple[Opcode, ...]] = (
    _row(0x90, "GIT_COMMIT", "repo:str message:str commit:digest?", "changes were committed"),
    _row(0x91, "GIT_PUSH", "repo:str remote:str?", "commits were pushed to a remote"),
    _row(0x92, "FILE_READ", "path:path range:str?", "a file, or lines of it, was read"),
    _row(0x93, "FILE_WRITE", "path:path content:digest", "a file got this content"),
    _row(0x94, "FILE_EDIT", "path:path old:str new:str", "in a file, old text was replaced by new"),
    _row(0x95, "TEST_RUN", "target:str expected:uint?", "tests were run; so many were expected to pass"),
    _row(0x96, "SEARCH_CODE", "pattern:str path:path?", "the code was searched"),
    _row(0x97, "BOTTLE_DROP", "target:str content:str", "a message was left in an agent's inbox"),
    _row(0x98, "BOTTLE_READ", "source:str", "a message from an agent was read"),
    _row(0x99, "LEVEL_UP", "level:uint", "an autonomy level was reached"),
    _row(0x9A, "SPELL_CAST", "spell:str arguments:json?", "a skill was invoked"),
    _row(0x9B, "ROOM_ENTER", "room:str", "a workspace or worktree was entered"),
    _row(0x9C, "TRUST_UPDATE", "target:str delta:int", "an agent's reputation changed"),
    _row(0x9D, "CAP_ISSUE", "action:str holder:str", "a permission was granted"),
    _row(0x9E, "BRANCH", "register:uint label:str", "go to the label when the register is not zero"),
    _row(0x9F, "NOP", "", "nothing was done"),
    _row(0xA2, "COMMENT", "text:str", "a remark of the recorder"),
    _row(0xA3, "LABEL", "name:str", "a place that BRANCH can go to"),
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

BY_CODE: Final[dict[int, Opcode]] = {opcode.code: opcode for opcode in OPCODES}
BY_NAME: Final[dict[str, Opcode]] = {opcode.name: opcode for opcode in OPCODES}


def opcode_name(code: int) -> str:
    """The name of ``code``; ``OP_C7`` for a code that this version does not know."""
    known = BY_CODE.get(code)
    return known.name if known is not None else f"OP_{code:02X}"


def opcode_table() -> str:
    """The table as Markdown, for the reference of the format."""
    lines = ["| code | name | operands | meaning |", "|---|---|---|---|"]
    for opcode in OPCODES:
        operands = ", ".join(f"{operand.name} {operand.kind}{'?' * operand.optional}" for operand in opcode.operands)
        lines.append(f"| {opcode.code:02X} | {opcode.name} | {operands or '–'} | {opcode.meaning} |")
    return "\n".join(lines) + "\n"
