"""Errors in the types that a project declares in its ``config.toml``, for writers of these types and for ``doctor``."""

from __future__ import annotations

__all__ = ["check_declared", "check_logged_type", "check_type", "declared_problems"]

from typing import TYPE_CHECKING, Final

from periplus.base.errors import UsageError
from periplus.memory.entities.types import row_of, rows_of

if TYPE_CHECKING:
    from periplus.journal.care.doctor import Problem
    from periplus.journal.journal import Journal
    from periplus.project.store import ProjectStore

OBSERVED: Final = frozenset({"skill", "skill_use", "task"})  # types that the run of an agent records beside entities
_THE_JOURNALS: Final = frozenset({"conflict"})


def check_declared(project: ProjectStore, name: str) -> None:
    """Raise the error of the declaration of a type, a UsageError, if it has one."""
    if project.declared is not None and name in project.declared.problems:
        raise project.declared.problems[name]


def check_type(project: ProjectStore, name: str) -> None:
    """Raise UsageError for an unknown type, or for an error in its declaration."""
    check_declared(project, name)
    if row_of(project.types, name) is None and name not in project.types:
        known = ", ".join(rows_of(project.types))
        raise UsageError(f"unknown type {name!r}", safe="Nothing was changed.", mend=f"Known are: {known}.")


def _is_in_records(journal: Journal, name: str) -> bool:
    where = "SELECT 1 FROM records WHERE item_type = ? LIMIT 1"
    return journal.index.db.execute(where, (name,)).fetchone() is not None


def check_logged_type(project: ProjectStore, name: str) -> None:
    """Check like ``check_type`` the type of records: some observations are of types that no entity has."""
    from periplus.journal.checkpoints.partial_history import fill_history_if_present

    journal = project.journal
    if name in OBSERVED or _is_in_records(journal, name):
        return
    is_unknown = row_of(project.types, name) is None and journal.index.has_floors
    if is_unknown and fill_history_if_present(journal) and _is_in_records(journal, name):
        return
    records = journal.index.db
    check_declared(project, name)
    if row_of(project.types, name) is None and name not in project.types:
        seen = {str(row[0]) for row in records.execute("SELECT DISTINCT item_type FROM records") if row[0]}
        known = ", ".join(sorted({*rows_of(project.types), *OBSERVED, *seen}))
        raise UsageError(f"unknown type {name!r}", safe="Nothing was changed.", mend=f"Known are: {known}.")


def declared_problems(project: ProjectStore) -> list[Problem]:
    """Return the errors in declarations and their schemas, entities of unknown types, and unknown tables."""
    from periplus.journal.care.doctor import Problem
    from periplus.journal.storage.settings import unknown_tables

    declared, config = project.declared, project.journal.layout.config
    wrong = (*declared.problems.values(), *declared.schema_problems()) if declared is not None else ()
    found = [
        Problem("warning", f"{error}; entities of the type are kept and can be read", config, mend=error.mend or "")
        for error in wrong
    ]
    for name, near in unknown_tables(project.journal.layout):
        mend = f"Write [{near}]." if near else "Update Periplus, if a later one wrote it."
        told = f"[{name[:80]}] is an unknown table: its settings are ignored"
        found.append(Problem("warning" if near else "note", told, config, mend=mend))
    rows = project.journal.index.db.execute("SELECT DISTINCT item_type FROM heads").fetchall()
    known = {*project.types, *(declared.problems if declared is not None else ()), *_THE_JOURNALS}
    return found + [
        Problem("note", f"there are entities of the type {name[:80]!r}, which is unknown here: they are kept, read "
                             "and synced as they are", config, mend="Declare the type, or update Periplus.")
        for name in sorted({str(row[0]) for row in rows} - known)
    ]  # fmt: skip
