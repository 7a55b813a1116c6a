"""Consolidation of turns into skill candidates, shared by both durable memories."""

from __future__ import annotations

__all__ = ["Learned", "learn_skills"]

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from periplus.agent.skills.command_mining import Draft, TurnRuns, mine
from periplus.agent.skills.model_wording import WordingError, reworded_draft
from periplus.base.errors import PeriplusError

if TYPE_CHECKING:
    from periplus.agent.contracts import LLMClient


class Learned(NamedTuple):
    """Counts: new candidates, refused ones (by a check, or by a person before), and errors."""

    skills: int = 0
    rejected: int = 0
    errors: tuple[str, ...] = ()


def learn_skills(
    turns: Sequence[TurnRuns],
    session: str,
    llm: LLMClient | None,
    is_known: Callable[[Draft], bool],
    propose: Callable[[Sequence[tuple[Draft, str]]], tuple[int, int]],
) -> Learned:
    """Learn candidates. ``propose`` records drafts, each with the author of its words, and returns how many were new and how many a person
    had rejected.

    A model is asked to word the candidates that ``is_known`` does not know yet. If its words are rejected, or it gives no answer, the
    candidate keeps the words of the rule.
    """
    mined = mine(turns, session)
    errors: list[str] = []
    drafts: list[tuple[Draft, str]] = []
    for draft in mined.drafts:
        if llm is None or is_known(draft):
            drafts.append((draft, "rule"))
            continue
        try:
            drafts.append((reworded_draft(draft, llm), "model"))
        except WordingError as error:
            errors.append(f"the model's wording was rejected: {error}")
            drafts.append((draft, "rule"))
        except PeriplusError as error:
            errors.append(f"the model could not be asked: {error}")
            drafts.append((draft, "rule"))
            llm = None
    new, before = propose(drafts)
    return Learned(new, len(mined.refused) + before, tuple(errors))
