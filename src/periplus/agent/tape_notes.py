"""Notes of the tape in the log: typed contents of ``Noted`` episodes.

Everything that the tape shows is a function of the session's episodes. Answers of the world (clock, files, memory), and decisions that
another version may take differently (where a fold cuts), are asked for or decided once, noted, and read back from then on. In the log such
a note is a ``Noted`` episode: ``topic`` says which of these types its ``data`` has.
"""

from __future__ import annotations

__all__ = [
    "NOTE_VERSION",
    "Anchor",
    "Fact",
    "FilePatch",
    "FoldNote",
    "InstructionFile",
    "InstructionsNote",
    "Known",
    "Note",
    "NoteOp",
    "OpenNote",
    "SealNote",
    "SliceNote",
    "SwitchKind",
    "TailNote",
    "ToolsNote",
    "TopicNote",
    "UnfoldNote",
    "note_in",
    "noted",
]

from typing import Annotated, Any, Final, Literal, TypeAlias, cast

import msgspec

from periplus.agent.contracts import Tier
from periplus.agent.episodes import Noted
from periplus.base.errors import FormatError

NOTE_VERSION: Final = 1

NoteOp: TypeAlias = Literal["set", "add", "remove", "done", "undone"]
SwitchKind: TypeAlias = Literal["new", "park", "switch", "done", "abandon"]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]


class _Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    pass


class Fact(_Value, frozen=True):
    """A line of the tail that is not from the person: time, folder, git status, remaining budget."""

    name: str
    text: str
    quoted: str = ""
    """Text of others about it (a commit's subject, names of folders): shown after ``text``, fenced."""


class Known(_Value, frozen=True):
    """A piece of knowledge that was shown to the model; ``score`` in thousandths. See ``contracts.PageRef``."""

    handle: str
    kind: str
    preview: str
    score: int = 0
    untrusted: bool = True


class FilePatch(_Value, frozen=True):
    """The change of one file, from the bytes ``before`` to the bytes ``after`` (SHA-256 in hexadecimal, empty: no file).

    ``diff`` is a unified diff between the two, made from the bytes themselves; without one ``note`` says why.
    """

    path: str
    before: str = ""
    after: str = ""
    diff: str = ""
    note: str = ""
    added: Count = 0
    removed: Count = 0


class Anchor(_Value, frozen=True):
    """A file that the tape shows: the SHA-256 of its bytes, the number of ``lines``, and the shown parts as ``(number of the first line,
    text)``. ``is_whole``: they are the whole file, to the byte.
    """

    path: str
    sha256: str
    lines: Count
    shown: tuple[tuple[Count, str], ...] = ()
    is_whole: bool = False
    note: str = ""


class OpenNote(_Value, frozen=True, tag_field="note", tag="open"):
    """A session begins: the fixed parameters of its tape. ``budget`` and ``fold_to`` in tokens."""

    session: str = ""
    budget: Count = 0
    fold_to: Count = 0
    prompt: str = ""
    """The system prompt: the front of every request, so it is frozen with the session."""


class ToolsNote(_Value, frozen=True, tag_field="note", tag="tools"):
    """The tools from here on, as ``contracts.ToolSchema``; ``digest`` is the SHA-256 of their sent form."""

    digest: str
    tools: tuple[dict[str, Any], ...] = ()


class TailNote(_Value, frozen=True, tag_field="note", tag="tail"):
    """Contents of a turn's tail beside the request. ``outside`` are files that were changed since, and not by us."""

    facts: tuple[Fact, ...] = ()
    knowledge: tuple[Known, ...] = ()
    outside: tuple[FilePatch, ...] = ()


class InstructionFile(_Value, frozen=True):
    """An instruction file as shown to the model. ``sha256`` identifies the content that was read; empty if the file is gone. ``remark`` is
    ours: what was left out or sanitized, or why nothing is shown.
    """

    path: str
    sha256: str = ""
    text: str = ""
    remark: str = ""
    is_changed: bool = False


class InstructionsNote(_Value, frozen=True, tag_field="note", tag="instructions"):
    """Instruction files of the project that are new or changed. ``is_trusted``: the user trusts the folder."""

    files: tuple[InstructionFile, ...] = ()
    is_trusted: bool = False


class SealNote(_Value, frozen=True, tag_field="note", tag="seal"):
    """A turn is over. ``patches`` are its net changes, ``outside`` files on the disk that differ from the result of our last call;
    ``used`` are the memories that the turn used.
    """

    patches: tuple[FilePatch, ...] = ()
    outside: tuple[FilePatch, ...] = ()
    used: tuple[str, ...] = ()


class FoldNote(_Value, frozen=True, tag_field="note", tag="fold"):
    """The tape is rewritten. ``turns`` and those before become entries; with ``whole`` the entries are condensed too, keeping ``digests``
    of them. With ``step`` it is a fold within a turn: outputs of calls before that step go behind handles.
    """

    fold: Count
    why: str
    turns: Count = 0
    whole: bool = False
    digests: Count = 0
    step: Count = 0
    anchors: tuple[Anchor, ...] = ()
    tokens: Count = 0
    """Tokens of the request before the fold."""


class UnfoldNote(_Value, frozen=True, tag_field="note", tag="unfold"):
    """The last fold is taken back."""

    fold: Count


class SliceNote(_Value, frozen=True, tag_field="note", tag="slice"):
    """The working state changes: ``field`` of the slice, see ``tape.slice_fields``. ``name`` is the key in fields with keys."""

    field: str
    op: NoteOp
    name: str = ""
    value: str = ""
    tier: Tier = "claim"


class TopicNote(_Value, frozen=True, tag_field="note", tag="topic"):
    """Another topic of the session, by explicit command; topics are never guessed."""

    action: SwitchKind
    topic: str
    title: str = ""


Note: TypeAlias = (
    OpenNote | ToolsNote | TailNote | InstructionsNote | SealNote | FoldNote | UnfoldNote | SliceNote | TopicNote
)
_TOPICS: Final = frozenset({"open", "tools", "tail", "instructions", "seal", "fold", "unfold", "slice", "topic"})


def noted(turn: int, note: Note, step: int = 0) -> Noted:
    """Wrap the note in an episode."""
    data = cast("dict[str, Any]", msgspec.to_builtins(note))
    topic = str(data.pop("note"))
    return Noted(turn=turn, step=step, topic=topic, data={"v": NOTE_VERSION, **data})


def note_in(episode: Noted) -> Note | None:
    """The note in an episode; None if it belongs to somebody else. Raises FormatError for one that cannot be read."""
    if episode.topic not in _TOPICS:
        return None
    data = dict(episode.data)
    version = data.pop("v", None)
    if version != NOTE_VERSION:
        raise FormatError(f"a note of the tape of version {version!r}; this program knows {NOTE_VERSION}",
                          safe="It was left as it is.", mend="Update periplus.")  # fmt: skip
    try:
        return cast("Note", msgspec.convert({"note": episode.topic, **data}, type=Note))
    except msgspec.ValidationError as error:
        raise FormatError(f"turn {episode.turn}: no {episode.topic} of a tape: {error}", safe="It was left as it is.",
                          mend="Run `periplus doctor`.") from error  # fmt: skip
