"""The file of a role: front matter with what the supervisor reads, and below it the text that the agent reads.

    ---
    name: reviewer
    description: Reads the change of another agent.
    tools: [read, run]
    model: strong
    budget_tokens: 24000
    sections: [plan, rules, brief]
    oracle: none
    answer: review
    ---
    You judge a change …

``name`` and ``description`` are required. A name that is not known is an error, since a misspelled one would be a setting that does not hold.
"""

from __future__ import annotations

__all__ = ["FILE_BYTES_MAX", "SECTIONS", "Answer", "ModelClass", "Role", "Source", "is_role_name", "parse_role"]

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast, get_args

from periplus.agent.skills.front_matter import Front, parse_front
from periplus.agent.skills.injection_screening import injection_phrases
from periplus.base.errors import FormatError

Source: TypeAlias = Literal["shipped", "user", "project"]
ModelClass: TypeAlias = Literal["small", "standard", "strong"]
Answer: TypeAlias = Literal["result", "review", "proposals"]

FILE_BYTES_MAX: Final = 32 * 1024
NAME_MAX: Final = 40
DESCRIPTION_MAX: Final = 300
TEXT_CHARACTERS_MAX: Final = 8_000
BUDGET_TOKENS_MIN: Final = 4_000
BUDGET_TOKENS_MAX: Final = 200_000
BUDGET_TOKENS: Final = 12_000
TOOLS: Final = ("edit", "memory", "read", "run", "web")
SECTIONS: Final = ("brief", "files", "others", "paths", "plan", "rules", "tests", "traps")
ORACLES: Final = ("plan", "none")
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_KNOWN: Final = ("name", "description", "tools", "model", "budget_tokens", "sections", "oracle", "answer")


@dataclass(frozen=True, slots=True)
class Role:
    """A role. ``tools`` are kinds of tools that an adapter maps to its agent's own; they grant nothing that permission does not.
    ``budget_tokens`` is the room of the whole prompt, ``sections`` are the parts of the brief in it. ``oracle`` is ``plan`` where the
    plan's check decides. ``held`` lists phrases of a project's role that try to take over its reader.
    """

    name: str
    description: str
    text: str
    source: Source
    file: str
    tools: tuple[str, ...] = ("read",)
    model: ModelClass = "standard"
    budget_tokens: int = BUDGET_TOKENS
    sections: tuple[str, ...] = SECTIONS
    oracle: str = "plan"
    answer: Answer = "result"
    held: tuple[str, ...] = ()

    @property
    def is_advice(self) -> bool:
        """Return whether the text is a project's, which is fenced; that of the user or of a shipped role is an instruction."""
        return self.source == "project"


def parse_role(data: bytes, name: str, source: Source, path: str) -> Role:
    """Parse the bytes of the role ``name``. Raises FormatError with file and line."""
    if len(data) > FILE_BYTES_MAX:
        raise FormatError(
            f"it has more than {FILE_BYTES_MAX:,} bytes", path=path, mend="A role is a page of text; shorten it."
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FormatError("it is not UTF-8", path=path, offset=error.start) from error
    if "\0" in text:
        raise FormatError("it is not a text", path=path, offset=data.index(0))
    front = parse_front(text, path)
    read = _Front(front, path)
    read.refuse_unknown()
    if read.text("name", most=NAME_MAX, is_required=True) != name:
        raise read.wrong("name", f"it differs from the file, which is {name}.md", "Give both the same name.")
    body = front.body.strip()
    if not body:
        raise FormatError("there is nothing after its front matter", path=path, line=text.count("\n") + 1, mend="Write down what the agent does in this role.")  # fmt: skip
    if len(body) > TEXT_CHARACTERS_MAX:
        raise FormatError(
            f"its text has {len(body):,} characters, at most {TEXT_CHARACTERS_MAX:,}", path=path, line=text[: text.index(body) + TEXT_CHARACTERS_MAX].count("\n") + 1,
            mend="A role is a page of text; shorten it.",
        )  # fmt: skip
    return Role(
        name, read.text("description", most=DESCRIPTION_MAX, is_required=True), body, source, path,
        tools=read.words("tools", TOOLS, ("read",)), model=cast("ModelClass", read.word("model", get_args(ModelClass), "standard")),
        budget_tokens=read.number("budget_tokens", BUDGET_TOKENS_MIN, BUDGET_TOKENS_MAX, BUDGET_TOKENS),
        sections=read.words("sections", SECTIONS, SECTIONS), oracle=read.word("oracle", ORACLES, "plan"),
        answer=cast("Answer", read.word("answer", get_args(Answer), "result")),
        held=injection_phrases(text) if source == "project" else (),
    )  # fmt: skip


def is_role_name(name: str) -> bool:
    return len(name) <= NAME_MAX and _NAME.fullmatch(name) is not None


class _Front:
    """Reads typed values of front matter; each error names the line."""

    def __init__(self, front: Front, path: str) -> None:
        self._front, self._path = front, path

    def refuse_unknown(self) -> None:
        for name in self._front.values:
            if name not in _KNOWN:
                raise self.wrong(name, "no role has that", f"Known are {', '.join(_KNOWN)}.")

    def text(self, name: str, *, most: int, is_required: bool = False) -> str:
        value = self._front.values.get(name, "")
        if not isinstance(value, str):
            raise self.wrong(name, "it must be text")
        line = " ".join(value.split())
        if not line and is_required:
            raise self.wrong(name, "it is empty or missing", f"Write {name}: into the front matter.")
        if len(line) > most:
            raise self.wrong(name, f"it has {len(line):,} characters, at most {most:,}")
        return line

    def word(self, name: str, known: Sequence[str], default: str) -> str:
        if name not in self._front.values:
            return default
        found = self.text(name, most=NAME_MAX)
        if found not in known:
            raise self.wrong(name, f"{found!r} is none of {', '.join(known)}")
        return found

    def words(self, name: str, known: Sequence[str], default: tuple[str, ...]) -> tuple[str, ...]:
        if name not in self._front.values:
            return default
        found = self._front.values[name]
        if not isinstance(found, tuple):
            raise self.wrong(name, "it must be a list", f"Write it as {name}: [{known[0]}, {known[1]}].")
        for one in found:
            if one not in known:
                raise self.wrong(name, f"{one[:60]!r} is none of {', '.join(known)}")
        return tuple(dict.fromkeys(found))

    def number(self, name: str, least: int, most: int, default: int) -> int:
        if name not in self._front.values:
            return default
        digits = self.text(name, most=NAME_MAX).replace("_", "")
        if not digits.isascii() or not digits.isdigit() or not least <= int(digits) <= most:
            raise self.wrong(name, f"it must be a number from {least} to {most}")
        return int(digits)

    def wrong(self, name: str, what: str, mend: str = "") -> FormatError:
        return FormatError(f"{name}: {what}", path=self._path, line=self._front.lines.get(name, 1), mend=mend)
