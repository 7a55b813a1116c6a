"""Sessions: who works when. A session begins, gives signs of life, and is sealed, which releases its claims.

The entity's id follows from the name that the agent itself gives its session, so that it can be found by the name,
and two clones that saw the same session mean the same entity.
"""

from __future__ import annotations

__all__ = ["LIVE_S", "NewSession", "Present", "begin_session", "seal_session", "seen", "session_named", "who"]

from typing import Final

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import NotFoundError, UsageError
from periplus.base.ids import PASTED, typed_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity, Journal, Transaction, Writer
from periplus.journal.checkpoints.partial_history import fill_history_if_present
from periplus.memory.claim_status import is_live, live_claims, session_id
from periplus.memory.coordination.claims import expire, renew
from periplus.memory.fulltext.links import linked
from periplus.memory.writing.lifecycle import bring
from periplus.memory.writing.write_keys import check_repeated

LIVE_S: Final = 2 * 3600  # a session that gave no sign for that long is not shown as live
SIGN_EVERY_S: Final = 300
_NAME_CHARACTERS_MAX: Final = 200


class NewSession(NamedTuple):
    """``name`` is that of the agent's own session; ``process`` as in ``memory.entities.schemas``, if it is known."""

    name: str
    model: str = ""
    tool: str = ""
    title: str = ""
    process: dict[str, JSONValue] | None = None


class Present(NamedTuple):
    """Somebody who works here now; ``session`` is None for a claim outside of a session."""

    name: str
    session: Entity | None
    claims: tuple[Entity, ...]


def begin_session(journal: Journal, writer: Writer, new: NewSession, *, key: str = "") -> Entity:
    """Begin a session or continue it: a sealed one is opened again. Raises UsageError."""
    if not new.name.strip() or len(new.name) > _NAME_CHARACTERS_MAX:
        raise UsageError(f"{new.name[:60]!r} is not a valid session name", safe="Nothing was written.")
    journal.refresh()
    item_id = session_id(new.name)

    def write(transaction: Transaction) -> None:
        now_ms = journal.clock.now_ms()
        held = transaction.get("session", item_id)
        fields: dict[str, JSONValue] = {
            "model": new.model,
            "tool": new.tool,
            "title": new.title,
            "process": new.process,
        }
        fields = {name: value for name, value in fields.items() if value}
        if held is None or held.deleted:
            value: dict[str, JSONValue] = {
                "v": 1, "state": "open", "name": new.name, "agent": writer.name, "agent_id": writer.id,
                "started": format_ms(now_ms), "seen": format_ms(now_ms), **fields,
            }  # fmt: skip
            transaction.put("session", item_id, value, summary=f"{writer.name} begins a session")
            return
        value = {
            **held.value,
            **fields,
            "state": "open",
            "seen": max(str(held.value.get("seen", "")), format_ms(now_ms)),
        }
        value.pop("ended", None)
        if value != held.value:
            is_again = held.value.get("state") != "open"
            transaction.put("session", item_id, value, action="transition" if is_again else "update", expect=held.version,
                            summary=f"{writer.name} goes on with a session")  # fmt: skip

    receipt = journal.mutate(write, writer, key=key)
    check_repeated(journal, receipt, lambda written: written[0].item_id == item_id)
    return _session(journal, item_id, item_id)


def seen(journal: Journal, writer: Writer) -> bool:
    """Note a sign of life of the writer: claims are renewed, and the session was just seen. False where nothing had
    to be written. Writes at most every few minutes, so it may be called at every turn.
    """
    journal.refresh()
    now_ms = journal.clock.now_ms()
    if not _is_due(journal, writer, now_ms):
        return False

    def write(transaction: Transaction) -> None:
        renew(journal, transaction, writer, now_ms)
        expire(journal, transaction, now_ms, linked(journal, "claim", "state", "held"))
        held = transaction.get("session", session_id(writer.session)) if writer.session else None
        if held is not None and not held.deleted and _is_old(held, now_ms):
            value = {**held.value, "seen": format_ms(now_ms)}
            transaction.put("session", held.item_id, value, expect=held.version, summary="session seen")

    return journal.mutate(write, writer).record_count > 0


def session_named(journal: Journal, typed: str) -> str:
    """Return the name of the session that ``typed`` means: a name, or the id of its entity, which may be cut short,
    with or without blanks around. Any other text is returned without these blanks. Raises UsageError where it
    begins several ids.
    """
    bare = typed.strip(PASTED) or typed
    is_id = typed_id(bare).startswith("ses_")
    if bare == typed and not is_id:
        return typed
    journal.refresh()
    journal.project()
    known = _had(journal, typed, bare)
    if not known and journal.index.has_floors and fill_history_if_present(journal):
        known = _had(journal, typed, bare)
    if known:
        return known
    if not is_id:
        return bare
    try:
        found = journal.find(bare)
    except NotFoundError:
        return bare
    return str(found.value.get("name", "")) or bare


def _had(journal: Journal, *names: str) -> str:
    """Return the first of ``names`` that a session had, as far as the index knows; empty where it knows none."""
    for name in dict.fromkeys(names):
        is_written = journal.index.db.execute("SELECT 1 FROM records WHERE session = ? LIMIT 1", (name,)).fetchone()
        held = journal.get("session", session_id(name))
        if is_written or (held is not None and held.value.get("name") == name):
            return name
    return ""


def seal_session(journal: Journal, writer: Writer, name: str = "", *, key: str = "") -> Entity:
    """End a session, the writer's own by default, and release its claims. Raises NotFoundError."""
    if not (name or writer.session):
        raise UsageError("no session is named", safe="Nothing was written.", mend="Name one, or set PERIPLUS_SESSION.")
    journal.refresh()
    item_id = _session(
        journal, session_id(session_named(journal, name or writer.session)), name or writer.session
    ).item_id

    def write(transaction: Transaction) -> None:
        held = transaction.get("session", item_id)
        if held is None or held.deleted:
            return
        bring(journal, transaction, [held], "sealed")  # settles separate seals of clones
        if held.value.get("state") == "sealed":
            return
        now = transaction.get("session", item_id)
        assert now is not None
        value = {**now.value, "ended": format_ms(journal.clock.now_ms())}
        transaction.put("session", item_id, value, expect=now.version, summary="session ended")

    receipt = journal.mutate(write, writer, key=key)
    check_repeated(
        journal, receipt, lambda written: written[0].item_id == item_id and written[0].value.get("state") == "sealed"
    )
    return _session(journal, item_id, item_id)


def who(journal: Journal) -> list[Present]:
    """Return who works here now: open sessions with a recent sign of life or a claim, and other holders of claims; by
    name.
    """
    journal.refresh()
    now_ms = journal.clock.now_ms()
    claims: dict[tuple[str, str], list[Entity]] = {}
    for claim in live_claims(journal, now_ms):
        claims.setdefault((str(claim.value.get("session", "")), str(claim.value.get("holder", ""))), []).append(claim)
    since = format_ms(now_ms - LIVE_S * 1000)
    found = []
    for session in linked(journal, "session", "state", "open"):
        keys = [key for key in claims if key[0] == session.item_id]
        mine = [claim for key in keys for claim in claims.pop(key)]
        if mine or str(session.value.get("seen", "")) > since:
            found.append(Present(str(session.value.get("agent", "")), session, tuple(mine)))
    found += [Present(holder, None, tuple(mine)) for (_, holder), mine in claims.items()]
    return sorted(found, key=lambda one: (one.name, one.session.item_id if one.session is not None else ""))


def _is_due(journal: Journal, writer: Writer, now_ms: int) -> bool:
    held = journal.get("session", session_id(writer.session)) if writer.session else None
    if held is not None and _is_old(held, now_ms):
        return True
    claims = linked(journal, "claim", "holder_id", writer.id)
    return any(_is_aging(claim, now_ms) for claim in claims if is_live(journal, claim, now_ms))


def _is_aging(claim: Entity, now_ms: int) -> bool:
    ttl_s = claim.value.get("ttl_s", 0)
    ttl_ms = 1000 * ttl_s if isinstance(ttl_s, int) else 0
    return str(claim.value.get("expires", "")) < format_ms(now_ms + ttl_ms * 7 // 8)


def _is_old(session: Entity, now_ms: int) -> bool:
    is_open = session.value.get("state") == "open"
    return is_open and str(session.value.get("seen", "")) < format_ms(now_ms - SIGN_EVERY_S * 1000)


def _session(journal: Journal, item_id: str, name: str) -> Entity:
    found = journal.get("session", item_id)
    if found is None:
        raise NotFoundError(f"there is no session {name[:80]!r}", mend="See `periplus who`.")
    return found
