"""A skill: a written way of working, in the published format of Agent Skills (a folder with a ``SKILL.md``).

Its name is that of its folder. ``source`` decides its trust: the user's own skill is the person's word, one of a project or plugin is
fenced advice. ``held`` lists phrases in it that try to take over the reader.
"""

from __future__ import annotations

__all__ = ["NAME_MAX", "SKILL_FILE", "Skill", "check_name", "read_skill", "skill_text"]

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from periplus.agent.skills.front_matter import Front, parse_front
from periplus.agent.skills.injection_screening import injection_phrases
from periplus.base.errors import FormatError

SKILL_FILE: Final = "SKILL.md"
FILE_BYTES_MAX: Final = 128 * 1024
NAME_MAX: Final = 64
DESCRIPTION_MAX: Final = 1_024
_COMPATIBILITY_MAX: Final = 500
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_KNOWN: Final = (
    "name",
    "description",
    "license",
    "compatibility",
    "metadata",
    "allowed-tools",
    "disable-model-invocation",
)
USER: Final = "user"


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill. ``folder`` is its path below ``root``, from where no link is followed. ``notes`` are shown on closer inspection; if
    ``is_offered`` is false, only a person names it. ``origin`` is the folder that ``root`` is a copy of.
    """

    name: str
    description: str
    body: str
    root: str
    folder: str
    source: str
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    is_offered: bool = True
    origin: str = ""

    @property
    def is_users(self) -> bool:
        return self.source == USER

    @property
    def is_held(self) -> bool:
        """Return whether the skill is withheld: not the user's own, and with suspicious phrases."""
        return bool(self.held) and not self.is_users

    @property
    def file(self) -> str:
        """The path of its file, for people."""
        return f"{self.root}/{self.folder}/{SKILL_FILE}"

    def place_of(self, path: str) -> str:
        """The path of one of its files, for people: a plugin's file in the plugin, not in the copy that is read."""
        return f"{self.origin or self.root}/{self.folder}/{path}"

    @property
    def handle(self) -> str:
        return f"@periplus/skills/{self.name}/{SKILL_FILE}"


def check_name(name: str, path: str, line: int | None = None) -> str:
    """Check a skill's name. Raises FormatError."""
    if len(name) > NAME_MAX or not _NAME.fullmatch(name):
        raise FormatError(f"name: {name[:80]!r} is not a valid skill name", path=path, line=line,
                          mend=f"Up to {NAME_MAX} small letters, digits and single hyphens between them.")  # fmt: skip
    return name


def read_skill(data: bytes, root: str, folder: str, source: str) -> Skill:
    """Parse the bytes of a skill's file in ``folder`` below ``root``. Raises FormatError with the line."""
    path, folder_name = f"{root}/{folder}/{SKILL_FILE}", folder.rpartition("/")[2]
    if len(data) > FILE_BYTES_MAX:
        raise FormatError(
            f"it has more than {FILE_BYTES_MAX:,} bytes", path=path, mend="Move long parts into files beside it."
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FormatError("it is not UTF-8", path=path, offset=error.start) from error
    if "\0" in text:
        raise FormatError("it is not a text", path=path, offset=data.index(0))
    front = parse_front(text, path)
    name = check_name(_text(front, "name", path, most=NAME_MAX, least=1), path, front.lines.get("name"))
    if name != folder_name:
        raise FormatError(f"name: it is {name!r}, and its folder {folder_name[:80]!r}", path=path, line=front.lines["name"],
                          mend="Give both the same name.")  # fmt: skip
    if not front.body.strip():
        raise FormatError("there is nothing after its front matter", path=path, mend="Write down how the work is done.")
    metadata = front.values.get("metadata", {})
    if not isinstance(metadata, dict):
        raise FormatError("metadata: it must map names to texts", path=path, line=front.lines["metadata"])
    notes = [f"{one} is not used (line {front.lines[one]})" for one in front.values if one not in _KNOWN]
    if "allowed-tools" in front.values:
        notes.append("allowed-tools grants nothing here: your permission rules hold")
    description = " ".join(_text(front, "description", path, most=DESCRIPTION_MAX, least=1).split())
    return Skill(
        name, description, front.body, root, folder, source, license=_text(front, "license", path, most=200),
        compatibility=_text(front, "compatibility", path, most=_COMPATIBILITY_MAX), metadata=metadata, notes=tuple(notes),
        held=injection_phrases(text), is_offered=_text(front, "disable-model-invocation", path, most=5).lower() != "true",
    )  # fmt: skip


def skill_text(name: str, description: str, body: str, metadata: Mapping[str, str]) -> str:
    """Format a skill as the text of its file, which ``read_skill`` reads back."""
    head = [f"name: {name}", f"description: {_quoted(' '.join(description.split()))}"]
    if metadata:
        head += ["metadata:", *(f"  {key}: {_quoted(value)}" for key, value in sorted(metadata.items()))]
    return "\n".join(["---", *head, "---", "", body.strip("\n"), ""])


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "")


def _text(front: Front, name: str, path: str, *, most: int, least: int = 0) -> str:
    value = front.values.get(name, "")
    line = front.lines.get(name)
    if not isinstance(value, str):
        raise FormatError(f"{name}: it must be text", path=path, line=line)
    value = value.strip()
    if len(value) < least:
        what = "it is missing" if line is None else "it is empty"
        raise FormatError(f"{name}: {what}", path=path, line=line or 1, mend=f"Write {name}: into its front matter.")
    if len(value) > most:
        raise FormatError(f"{name}: it has {len(value):,} characters, at most {most:,}", path=path, line=line)
    return value
