"""What the tape notes in the log: the episodes of its own, as values with a type.

All that the tape shows is a function of the session's episodes. What the world has to be asked for (clock, files, memory), and what
was decided by a measure that another version may take otherwise (where a fold cuts), is asked or decided once, noted, and read
back from then on. In the log such a note is a ``Noted`` episode: ``topic`` says which of these values its ``data`` is.
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
    """A line of the tail that is not the person's: the clock, the folder, how git stands, what is left of the budget."""

    name: str
    text: str
    quoted: str = ""
    """What others wrote of it (a commit's subject, names of folders): shown behind ``text``, fenced."""


class Known(_Value, frozen=True):
    """A piece of knowledge that was put before the model; ``score`` in thousandths. See ``contracts.PageRef``."""

    handle: str
    kind: str
    preview: str
    score: int = 0
    untrusted: bool = True


class FilePatch(_Value, frozen=True):
    """What became of one file: from the bytes ``before`` to the bytes ``after`` (SHA-256 in hexadecimal, empty: no file).

    ``diff`` is a unified diff between the two, made from the bytes themselves; where there is none ``note`` says why.
    """

    path: str
    before: str = ""
    after: str = ""
    diff: str = ""
    note: str = ""
    added: Count = 0
    removed: Count = 0


class Anchor(_Value, frozen=True):
    """A file that the tape shows: its bytes by their SHA-256, how many ``lines`` it has, and of these the runs that are shown, as
    ``(number of the first line, text)``. ``is_whole``: they are all of it, to the byte.
    """

    path: str
    sha256: str
    lines: Count
    shown: tuple[tuple[Count, str], ...] = ()
    is_whole: bool = False
    note: str = ""


class OpenNote(_Value, frozen=True, tag_field="note", tag="open"):
    """A session begins: what shapes its tape for good. ``budget`` and ``fold_to`` in tokens."""

    session: str = ""
    budget: Count = 0
    fold_to: Count = 0
    prompt: str = ""
    """The system prompt: the front of every request, so it is frozen with the session."""


class ToolsNote(_Value, frozen=True, tag_field="note", tag="tools"):
    """The tools that the model is told of from here on, as ``contracts.ToolSchema``; ``digest`` is the SHA-256 of them as they are sent."""

    digest: str
    tools: tuple[dict[str, Any], ...] = ()


class TailNote(_Value, frozen=True, tag_field="note", tag="tail"):
    """What a turn's tail says beside the request. ``outside`` are files that were changed since, and not by us."""

    facts: tuple[Fact, ...] = ()
    knowledge: tuple[Known, ...] = ()
    outside: tuple[FilePatch, ...] = ()


class InstructionFile(_Value, frozen=True):
    """A file by which a project speaks to agents, as the model is shown it. ``sha256`` stands for what was read: for another content it
    is another; empty where the file is gone. ``remark`` is ours: what was left out or made harmless, or why nothing is shown.
    """

    path: str
    sha256: str = ""
    text: str = ""
    remark: str = ""
    is_changed: bool = False


class InstructionsNote(_Value, frozen=True, tag_field="note", tag="instructions"):
    """What the project says to agents, where work comes to it first or it was changed. ``is_trusted``: the user trusts the folder."""

    files: tuple[InstructionFile, ...] = ()
    is_trusted: bool = False


class SealNote(_Value, frozen=True, tag_field="note", tag="seal"):
    """A turn is over. ``patches`` are net over the turn, ``outside`` what lay on the disk otherwise than our last call left it;
    ``used`` are the memories that the turn went by.
    """

    patches: tuple[FilePatch, ...] = ()
    outside: tuple[FilePatch, ...] = ()
    used: tuple[str, ...] = ()


class FoldNote(_Value, frozen=True, tag_field="note", tag="fold"):
    """The tape is rewritten. ``turns`` and those before it become entries; with ``whole`` the entries are condensed too, ``digests`` of
    them being kept. With ``step`` it is a fold within a turn: what the calls before that step gave goes behind handles.
    """

    fold: Count
    why: str
    turns: Count = 0
    whole: bool = False
    digests: Count = 0
    step: Count = 0
    anchors: tuple[Anchor, ...] = ()
    tokens: Count = 0
    """What the request had before."""


class UnfoldNote(_Value, frozen=True, tag_field="note", tag="unfold"):
    """The fold is taken back."""

    fold: Count


class SliceNote(_Value, frozen=True, tag_field="note", tag="slice"):
    """The working state changes: ``field`` of the slice, see ``lifetimes``. ``name`` is the key where the field has keys."""

    field: str
    op: NoteOp
    name: str = ""
    value: str = ""
    tier: Tier = "claim"


class TopicNote(_Value, frozen=True, tag_field="note", tag="topic"):
    """Another topic of the session, by explicit command and never guessed from what somebody says."""

    action: SwitchKind
    topic: str
    title: str = ""


Note: TypeAlias = (
    OpenNote | ToolsNote | TailNote | InstructionsNote | SealNote | FoldNote | UnfoldNote | SliceNote | TopicNote
)
_TOPICS: Final = frozenset({"open", "tools", "tail", "instructions", "seal", "fold", "unfold", "slice", "topic"})


def noted(turn: int, note: Note, step: int = 0) -> Noted:
    """The note as an episode."""
    data = cast("dict[str, Any]", msgspec.to_builtins(note))
    topic = str(data.pop("note"))
    return Noted(turn=turn, step=step, topic=topic, data={"v": NOTE_VERSION, **data})


def note_in(episode: Noted) -> Note | None:
    """The note in an episode; None where it is somebody else's. Raises FormatError for one that cannot be read."""
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
