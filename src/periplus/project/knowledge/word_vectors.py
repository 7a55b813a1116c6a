"""The model of word vectors that a user named, opened once for a project; errors are for ``doctor``."""

from __future__ import annotations

__all__ = ["meaning_of", "meaning_problems"]

from typing import TYPE_CHECKING

from periplus.base.errors import PeriplusError

if TYPE_CHECKING:
    from periplus.journal.care.doctor import Problem
    from periplus.memory.text.word_vectors import Meaning
    from periplus.project.store import ProjectStore


def meaning_of(project: ProjectStore) -> Meaning | None:
    """Return the model; None where the user named none, or it cannot be opened: then words alone are searched."""
    if not project.embeddings:
        return None
    if not project.opened_meaning:
        from periplus.memory.text.word_vectors import open_meaning

        try:
            project.opened_meaning.append(open_meaning(project.embeddings))
        except PeriplusError as error:
            project.opened_meaning.append(error)
    opened = project.opened_meaning[0]
    return None if isinstance(opened, PeriplusError) else opened


def meaning_problems(project: ProjectStore) -> list[Problem]:
    """Return the problem for ``doctor`` where a model was named and cannot be used."""
    from periplus.journal.care.doctor import Problem

    if meaning_of(project) is not None or not project.embeddings:
        return []
    error = project.opened_meaning[0]
    assert isinstance(error, PeriplusError)
    return [Problem("note", f"search by meaning is off: {error}", project.embeddings, mend=error.mend or "")]
