"""Usage counts of skills: each use is a record of the journal."""

from __future__ import annotations

__all__ = ["Uses", "record_use", "uses_of"]

from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.base.ids import derived_id

if TYPE_CHECKING:
    from periplus.agent.skills.skill import Skill
    from periplus.journal import Transaction
    from periplus.project import Project

_TYPE: Final = "skill_use"


class Uses(NamedTuple):
    times: int = 0
    last: str = ""
    """RFC 3339; empty if it was never used."""


def record_use(project: Project, skill: Skill) -> None:
    """Record that the session of the project's writer uses a skill."""

    def write(transaction: Transaction) -> None:
        payload = {"v": 1, "skill": skill.name, "source": skill.source, "session": project.writer.session}
        transaction.observe(payload, item_type=_TYPE, item_id=_id(skill), summary=f"skill {skill.name} used")  # type: ignore[arg-type]  # texts and a number

    project.journal.mutate(write, project.writer, project=False)


def uses_of(project: Project, skills: list[Skill]) -> dict[str, Uses]:
    """Count the uses of each skill in this project by name, as far as records are here."""
    from periplus.journal.checkpoints.partial_history import fill_history_if_present

    journal = project.journal
    journal.refresh()
    journal.project()
    fill_history_if_present(journal)
    rows = journal.index.db.execute(
        "SELECT item_id, COUNT(*), MAX(ts) FROM records WHERE item_type = ? AND action = 'observe' GROUP BY item_id",
        (_TYPE,),
    ).fetchall()
    found = {str(item_id): Uses(int(times), str(last)) for item_id, times, last in rows}
    return {skill.name: found.get(_id(skill), Uses()) for skill in skills}


def _id(skill: Skill) -> str:
    return derived_id("sku", skill.source, skill.name)
