"""Check results: the commands that constraints and traps carry, and the outcome and time of their last run."""

from __future__ import annotations

__all__ = ["CHECKED", "FAILED", "Check", "CheckResult", "command_of", "last_check", "last_check_text", "record_check"]

from typing import TYPE_CHECKING, Final

from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import NotFoundError
from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity, Journal, Receipt, Transaction, Writer

if TYPE_CHECKING:
    from periplus.journal.state.index_values import IndexedRecord

CHECKED: Final = ("constraint", "trap")
_PASSED: Final = "check passed"
FAILED: Final = "check failed"


class CheckResult(NamedTuple):
    """The last run of a check: ``why`` is empty where it passed."""

    ts: str
    passed: bool
    why: str

    def words(self) -> str:
        return f"{_PASSED if self.passed else FAILED}{f': {self.why}' if self.why else ''}, {self.ts[:16]}Z"


class Check(NamedTuple):
    """A check that may be run: the command of a constraint or a trap."""

    entity: Entity
    command: str


def command_of(entity: Entity) -> str:
    """Return the check command of a constraint or a trap; empty where there is none."""
    if entity.item_type not in CHECKED:
        return ""
    command = entity.value.get("check")
    return command.strip() if isinstance(command, str) else ""


def record_check(journal: Journal, writer: Writer, check: Check, *, exit_code: int, why: str, took_ms: int) -> Receipt:
    """Record the outcome of a check as an observation: it is not a state of the entity. Its output is not kept."""
    entity = check.entity
    payload: dict[str, JSONValue] = {
        "v": 1, "kind": "check", "version": entity.version, "command": check.command, "exit_code": exit_code, "why": why,
        "took_ms": took_ms,
    }  # fmt: skip
    summary = f"{FAILED}: {why}" if why else _PASSED

    def write(transaction: Transaction) -> None:
        held = transaction.get(entity.item_type, entity.item_id)
        if held is None or held.deleted:
            raise NotFoundError(f"{entity.item_id} was deleted meanwhile", safe="Nothing was written.")
        transaction.observe(payload, item_type=entity.item_type, item_id=entity.item_id, summary=summary)

    return journal.mutate(write, writer)


def _runs_of(journal: Journal, entity: Entity) -> list[IndexedRecord]:
    """Return the record of the last run of the entity's check that the index has."""
    where = "item_type = ? AND item_id = ? AND action = 'observe' AND (summary = ? OR summary LIKE ?) ORDER BY ts DESC, lineage, seq DESC"
    return journal.index.records(where, (entity.item_type, entity.item_id, _PASSED, f"{FAILED}: %"), 1)


def last_check(journal: Journal, entity: Entity) -> CheckResult | None:
    """Return the outcome of the last run of the entity's check, as far as its records are here; None where there was
    none.
    """
    from periplus.journal.checkpoints.partial_history import fill_history_if_present

    if not command_of(entity):
        return None
    rows = _runs_of(journal, entity)
    if not rows and journal.index.has_floors and fill_history_if_present(journal):
        rows = _runs_of(journal, entity)
    if not rows:
        return None
    passed = rows[0].summary == _PASSED
    return CheckResult(rows[0].ts, passed, "" if passed else rows[0].summary[len(FAILED) + 2 :])


def last_check_text(journal: Journal, entity: Entity) -> str:
    """Return the outcome of the last run as text, or that it is unknown where older records are elsewhere. Empty
    where there was no run.
    """
    check = last_check(journal, entity)
    if check is not None:
        return check.words()
    if not command_of(entity) or not journal.index.has_floors:
        return ""
    from periplus.journal.checkpoints.offline_archive import absent

    if not absent(journal):
        return ""
    made = "item_type = ? AND item_id = ? AND version <> '' AND parents = ''"
    is_new = bool(journal.index.records(made, (entity.item_type, entity.item_id), 1))
    return "" if is_new else "it is unknown whether its check was run: older records are missing"
