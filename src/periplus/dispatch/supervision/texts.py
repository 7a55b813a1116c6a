"""Texts of agents and programs as records may have them, and the messages of commits."""

from __future__ import annotations

__all__ = ["commit_message", "plain"]

from typing import TYPE_CHECKING, Final

from periplus.base.text.secrets import mask_secrets

if TYPE_CHECKING:
    from periplus.memory.entities.schemas import Assignment

TEXT_MAX: Final = 4_000
_TITLE_MAX: Final = 64


def plain(text: str, most: int = TEXT_MAX) -> str:
    """Return a text without secrets and control characters, cut in its middle to ``most`` characters."""
    shown = "".join(one for one in mask_secrets(text)[0] if one.isprintable() or one in "\n\t")
    return shown if len(shown) <= most else f"{shown[: most // 3]}\n…\n{shown[-most + most // 3 + 3 :]}"


def commit_message(value: Assignment, title: str = "", **trailers: str) -> str:
    """Return the message of a commit for an assignment: a title and trailers that name step and agent."""
    head = title or " ".join(plain(value.text).split())[:_TITLE_MAX]
    told = {"Step": value.step, "Agent": value.agent, **trailers}
    return f"{head}\n\n" + "".join(f"Periplus-{name}: {said}\n" for name, said in told.items())
