"""Values of reflection: acts of a session, and proposals with the steps that they rest on."""

from __future__ import annotations

__all__ = ["Act", "ActKind", "Proposal", "Proposer", "Seen", "SessionActs"]

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from periplus.base.named_tuple import NamedTuple

ActKind = Literal["prompt", "say", "command", "test", "change", "other"]


class Act(NamedTuple):
    """A step as reflection sees it. ``text`` is what was said, the command, or the path that was changed."""

    step: int
    kind: ActKind
    text: str
    outcome: str = "ok"
    error: str = ""


class SessionActs(NamedTuple):
    """A trail as reflection sees it; ``by_person`` is False where its prompts are another agent's."""

    trail: str
    acts: tuple[Act, ...]
    by_person: bool = True


class Seen(NamedTuple):
    """A step that a proposal rests on, by trail and index, with its words."""

    trail: str
    step: int
    quote: str = ""


class Proposal(NamedTuple):
    """A proposal of what to keep. ``subject`` is what it is about, whatever its words: two with one subject are the
    same.

    ``about`` are paths of the project; only a trap has a ``remedy``. ``commits`` are commits that it rests on, each with the place
    in it that was read.
    """

    rule: str
    item_type: str
    subject: tuple[str, ...]
    text: str
    why: str
    seen: tuple[Seen, ...]
    confidence: int
    about: tuple[str, ...] = ()
    remedy: str = ""
    commits: tuple[tuple[str, str], ...] = ()


class Proposer(Protocol):
    """Finds what the rules do not, such as a model. ``found`` is what the rules propose for ``sessions``."""

    def propose(self, sessions: Sequence[SessionActs], found: Sequence[Proposal]) -> Iterable[Proposal]: ...
