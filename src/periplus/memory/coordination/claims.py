"""Claims: who works on which paths now, decided when the claim is written.

Two claims conflict where any path could belong to both (``memory.scopes``), unless both are shared. A claim is
decided under the journal's lock, on its newest records: of two writers that ask at once one is refused, and told who
holds the claim, since when and until when.

A claim ends at its ``expires``, whatever its state says: every reader compares the clock, and the next claim that is
written notes ``expired`` on those that have ended, with all that entails. The holder's activity moves ``expires`` on
(``renew``).

A claim also ends once the step that it is for no longer needs it. Who finishes a step releases its claim, but in
another clone somebody may have taken the step meanwhile. Every reader looks at the step, too, and the next claim that
is written notes ``released``.

The holder of a claim is the writer's id and, where both have one, the session. A writer without a session counts as
any of the sessions of that writer: the hooks of an agent know its session, the commands that it types may not.

Waiting writers (``memory.coordination.claim_queue``) form a queue of claims in the state ``waiting``: a later writer
who asks for the same comes after them, unless they wait for that writer. A place is good while its process lives, or
for a minute after its last sign where that cannot be seen.
"""

from __future__ import annotations

__all__ = [
    "TTL_S",
    "TTL_S_MAX",
    "TTL_S_MIN",
    "Acquired",
    "Asked",
    "Blocked",
    "Clash",
    "acquire",
    "checked_scopes",
    "claimed_error",
    "claimed_words",
    "clashes",
    "clock_skew_text",
    "expire",
    "in_the_way",
    "put_claim",
    "release",
    "renew",
]

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.clock import format_ms, parse_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import ClaimedError, NotFoundError, RefusedError, UsageError
from periplus.base.ids import new_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal import ABSENT, Entity, Journal, Receipt, Transaction, Writer
from periplus.memory.claim_status import (
    holds,
    is_for_ended_step,
    is_held,
    is_live,
    is_waiting,
    live_claims,
    place_in_line,
    scopes_in,
    scopes_of,
    session_id,
    waiting_claims,
)
from periplus.memory.fulltext.links import linked
from periplus.memory.scopes import Scope, first_overlap, is_covered, parse_scopes
from periplus.memory.writing.write_keys import Written, check_repeated

if TYPE_CHECKING:
    from periplus.memory.writing.lifecycle import Changed

TTL_S: Final = 2 * 3600
_AHEAD_MS: Final = 60_000  # clocks of machines may differ by seconds
TTL_S_MIN: Final = 10
TTL_S_MAX: Final = 7 * 24 * 3600
_EXPIRED_AT_ONCE: Final = 100
_NAMED_MAX: Final = 3
_TITLE_CHARACTERS: Final = 80
_RENEW_SHARE: Final = 8  # a claim is written anew once this part of its time is gone


class Asked(NamedTuple):
    """A wanted claim. ``scopes`` are as they are typed; ``step`` is the id of the step that it is for."""

    scopes: tuple[str, ...]
    mode: str = "exclusive"
    text: str = ""
    ttl_s: int = TTL_S
    step: str = ""


class Acquired(NamedTuple):
    """``is_new`` is False where a claim of the writer covered it already and was renewed."""

    claim: Entity
    receipt: Receipt | None
    is_new: bool


class Blocked(NamedTuple):
    """A claim of somebody else, with the two scopes that overlap."""

    claim: Entity
    ours: str
    theirs: str


def _ahead(
    journal: Journal, writer: Writer, scopes: Sequence[Scope], mode: str, now_ms: int, live: Sequence[Entity], own: str
) -> list[Blocked]:  # fmt: skip
    """Return the claims that precede ``writer`` in the queue for ``scopes`` and do not wait for the writer; ``own``
    is the writer's place.
    """
    line = waiting_claims(journal, now_ms)
    mine = next((claim for claim in line if claim.item_id == own), None)
    before = [claim for claim in line if mine is None or place_in_line(claim) < place_in_line(mine)]
    held = [claim for claim in live if holds(writer, claim)]
    before = [
        claim for claim in before
        if not any(first_overlap(scopes_of(claim), scopes_of(one)) and _excludes(claim, one) for one in held)
    ]  # fmt: skip
    return in_the_way(journal, writer, scopes, mode, now_ms, claims=before)


def _excludes(one: Entity, other: Entity) -> bool:
    return not one.value.get("mode") == other.value.get("mode") == "shared"


def claimed_words(scopes: Sequence[str], step: str, text: str) -> str:
    """Return a claim as text for people: the scopes, and the step with its text."""
    named = ", ".join(scopes)
    if not step:
        return named
    said = " ".join(text.split())
    said = said if len(said) <= _TITLE_CHARACTERS else f"{said[: _TITLE_CHARACTERS - 1]}…"
    return f"{named}{', for ' if named else ''}the step {step}{': ' if said else ''}{said}"


class Clash(NamedTuple):
    """Live claims that exclude each other and were taken by clones that did not know of each other; ``mine`` was
    written here. ``dispatch`` is the one that ``mine`` was taken for, empty for any other claim.
    """

    mine: Entity
    other: Entity
    scope: str
    other_scope: str
    dispatch: str = ""


def clashes(journal: Journal, now_ms: int) -> list[Clash]:
    """Pair each claim of this clone with each claim of another clone that excludes it and is of another holder or dispatch.
    Agents have names by their step, so that those of two dispatches of one step are namesakes.
    """
    live = live_claims(journal, now_ms)
    others = [claim for claim in live if claim.lineage != journal.lineage]
    found = []
    for mine in live:
        if mine.lineage != journal.lineage:
            continue
        scopes = scopes_of(mine)
        dispatch = _dispatch_of(journal, mine)
        for other in others:
            theirs = _dispatch_of(journal, other) if dispatch else ""
            is_twice = bool(theirs) and theirs != dispatch
            is_same = mine.value.get("holder_id") == other.value.get("holder_id")
            if (is_same and not is_twice) or not _excludes(mine, other):
                continue
            pair = first_overlap(scopes, scopes_of(other))
            if pair is not None:
                found.append(Clash(mine, other, pair[0].text, pair[1].text, dispatch))
            elif is_twice and mine.value.get("step") == other.value.get("step"):
                step = f"the step {mine.value.get('step')}"
                found.append(Clash(mine, other, step, step, dispatch))
    return found


def _dispatch_of(journal: Journal, claim: Entity) -> str:
    """Return the id of the dispatch that a claim was taken for; empty for any other claim."""
    step = claim.value.get("step")
    for one in linked(journal, "assignment", "step", step) if isinstance(step, str) and step else ():
        if one.value.get("claim") == claim.item_id:
            return str(one.value.get("dispatch", ""))
    return ""


def in_the_way(
    journal: Journal, writer: Writer, scopes: Sequence[Scope], mode: str, now_ms: int, *, claims: Sequence[Entity] | None = None
) -> list[Blocked]:  # fmt: skip
    """Return the live claims of others that keep ``writer`` from ``scopes``. ``claims`` are the claims to look at, if
    they are known.
    """
    found = []
    for claim in live_claims(journal, now_ms) if claims is None else claims:
        if holds(writer, claim) or (mode == "shared" and claim.value.get("mode") == "shared"):
            continue
        pair = first_overlap(scopes, scopes_of(claim))
        if pair is not None:
            found.append(Blocked(claim, pair[0].text, pair[1].text))
    return found


def claimed_error(blocked: Sequence[Blocked], now_ms: int) -> ClaimedError:
    """Return the error that says who holds the claims, since when and until when."""
    told = []
    for one in blocked[:_NAMED_MAX]:
        value = one.claim.value
        what = f"{one.ours} is" if one.ours == one.theirs else f"{one.ours} overlaps {one.theirs}, which is"
        is_held = value.get("state") != "waiting"
        age = _span(now_ms - (parse_ms(str(value.get("created", ""))) or now_ms))
        left = _span((parse_ms(str(value.get("expires", ""))) or now_ms) - now_ms)
        if not is_held:
            told.append(f"{what} waited for by {value.get('holder')} (for {age}) [{one.claim.item_id}]")
            continue
        left += clock_skew_text(str(value.get("created", "")), now_ms)
        told.append(f"{what} claimed by {value.get('holder')} ({value.get('mode', 'exclusive')}, for {age}, expires in {left}: "
                    f"{str(value.get('text', ''))[:80]}) [{one.claim.item_id}]")  # fmt: skip
    if len(blocked) > _NAMED_MAX:
        told.append(f"and {len(blocked) - _NAMED_MAX} more")
    import shlex  # imported only for this message

    first, holder = blocked[0].claim.item_id, str(blocked[0].claim.value.get("holder", ""))
    ask = f"ask {holder} (`periplus inbox send {shlex.quote(holder)} '…'`)" if holder else "ask the holder"
    return ClaimedError(
        "; ".join(told),
        claims=tuple(one.claim.item_id for one in blocked),
        safe="Nothing was written.",
        mend=f"Wait with --wait SECONDS, {ask}, or `periplus claim release {first} --force`.",
    )


def acquire(journal: Journal, writer: Writer, asked: Asked, *, place: str = "", key: str = "") -> Acquired:
    """Claim what is asked for, or renew the claim of the writer that covers it. ``place`` is the id of the waiting
    claim that becomes this one. Raises ClaimedError, UsageError.
    """
    scopes = checked_scopes(asked)
    new_claim = place or new_id("clm")
    made: list[tuple[str, bool]] = []

    def write(transaction: Transaction) -> None:
        now_ms = journal.clock.now_ms()
        held = linked(journal, "claim", "state", "held")
        live = [claim for claim in held if is_live(journal, claim, now_ms)]
        blocked = in_the_way(journal, writer, scopes, asked.mode, now_ms, claims=live)
        mine = _covering(writer, live, asked, scopes)
        if mine is None:
            blocked += _ahead(journal, writer, scopes, asked.mode, now_ms, live, place)
        if blocked:
            raise claimed_error(blocked, now_ms)
        expire(journal, transaction, now_ms, held)
        if mine is None:
            put_claim(journal, transaction, writer, new_claim, asked, scopes, now_ms)
        else:
            ttl_s = max(asked.ttl_s, int(str(mine.value.get("ttl_s", 0))))
            _prolong(transaction, mine, ttl_s, now_ms, text=_text_anew(mine, asked, scopes))
        made[:] = [(new_claim, True) if mine is None else (mine.item_id, False)]

    receipt = journal.mutate(write, writer, key=key)
    check_repeated(journal, receipt, lambda written: _is_asked(written[-1], asked, scopes))
    if receipt.repeated:
        made = [(journal.written_by(receipt)[-1][1], False)]
    claim = journal.get("claim", made[0][0])
    if claim is None:
        raise NotFoundError(f"the claim {made[0][0]} was deleted meanwhile")
    return Acquired(claim, receipt if receipt.record_count else None, made[0][1])


def release(
    journal: Journal, writer: Writer, references: Sequence[str] = (), *, force: bool = False, reason: str = "", key: str = ""
) -> Changed:  # fmt: skip
    """Release claims by their ids; without any, all claims of the writer. With ``force`` also those of others.

    Raises RefusedError for a claim of somebody else, NotFoundError for what is not a claim, UsageError for one that
    has ended.
    """
    from periplus.memory.writing.lifecycle import Changed, bring

    journal.refresh()
    named = [journal.find(reference) for reference in references]
    for one in named:
        if one.item_type != "claim":
            raise NotFoundError(f"{one.item_id} is a {one.item_type}, not a claim", mend="See `periplus claim list`.")
    touched: list[tuple[str, str]] = []

    def write(transaction: Transaction) -> None:
        wanted = [claim for one in named if (claim := transaction.get("claim", one.item_id)) is not None]
        if not references:
            wanted = [claim for claim in linked(journal, "claim", "state", "held") if holds(writer, claim)]
        for claim in wanted:
            if not force and not holds(writer, claim):
                raise RefusedError(
                    f"{claim.item_id} is a claim of {claim.value.get('holder')}",
                    safe="Nothing was written.",
                    mend="Ask the holder, or insist with --force.",
                )
        touched[:] = bring(journal, transaction, wanted, "released", reason)

    def is_same(written: Sequence[Written]) -> bool:
        let_go = {one.item_id for one in written if one.item_type == "claim" and one.value.get("state") == "released"}
        return bool(let_go & {one.item_id for one in named}) if named else bool(let_go)

    receipt = journal.mutate(write, writer, key=key)
    check_repeated(journal, receipt, is_same)
    keys = dict.fromkeys([*[(one.item_type, one.item_id) for one in named], *touched])
    entities = tuple(entity for one in keys if (entity := journal.get(*one)) is not None)
    return Changed(entities, receipt if receipt.record_count else None)


def renew(journal: Journal, transaction: Transaction, writer: Writer, now_ms: int) -> None:
    """Within a mutation: move on the end of the writer's own claims that lost an eighth of their time."""
    for claim in live_claims(journal, now_ms):
        if holds(writer, claim):
            ttl_s = int(str(claim.value.get("ttl_s", TTL_S)))
            if str(claim.value.get("expires")) < format_ms(now_ms + ttl_s * 1000 * (_RENEW_SHARE - 1) // _RENEW_SHARE):
                _prolong(transaction, claim, ttl_s, now_ms)


def expire(journal: Journal, transaction: Transaction, now_ms: int, held: Sequence[Entity]) -> None:
    """Within a mutation: note the end of those of ``held`` that have ended, with what that entails, and of those
    whose holder no longer waits.
    """
    from periplus.memory.writing.lifecycle import bring

    needless = [claim for claim in held if is_held(claim, now_ms) and is_for_ended_step(journal, claim)]
    bring(journal, transaction, needless[:_EXPIRED_AT_ONCE], "released")
    over = [claim for claim in held if not is_held(claim, now_ms)]
    line = linked(journal, "claim", "state", "waiting")
    over += [claim for claim in line if not is_waiting(claim, now_ms, journal.files)]
    over = over[:_EXPIRED_AT_ONCE]
    bring(journal, transaction, over, "expired", "")


def put_claim(
    journal: Journal, transaction: Transaction, writer: Writer, item_id: str, asked: Asked, scopes: Sequence[Scope], now_ms: int
) -> None:  # fmt: skip
    """Within a mutation: write a claim, whatever others hold; a waiting claim is held from now on."""
    del journal
    waited = transaction.get("claim", item_id)
    now = format_ms(now_ms)
    names = ", ".join(scope.text for scope in scopes[:_NAMED_MAX]) + (" …" if len(scopes) > _NAMED_MAX else "")
    value: dict[str, JSONValue] = {
        "v": 1, "text": asked.text.strip() or f"works on {names or asked.step}", "author": writer.name, "created": now,
        "updated": now, "provenance": {"kind": "person", "name": writer.name}, "state": "held",
        "scopes": [scope.text for scope in scopes], "mode": asked.mode, "holder": writer.name, "holder_id": writer.id,
        "ttl_s": asked.ttl_s, "expires": format_ms(now_ms + 1000 * asked.ttl_s),
    }  # fmt: skip
    if writer.session:
        value["session"] = session_id(writer.session)
    if asked.step:
        value["step"] = asked.step
    if waited is None:
        transaction.put("claim", item_id, value, expect=ABSENT, summary=f"{writer.name} claims {names or asked.step}")
    else:
        transaction.put("claim", item_id, value, action="transition", expect=waited.version,
                        summary=f"{writer.name} waited for {names or asked.step} and has it")  # fmt: skip


def checked_scopes(asked: Asked) -> tuple[Scope, ...]:
    if asked.mode not in ("exclusive", "shared"):
        raise UsageError(f"a claim is exclusive or shared, not {asked.mode!r}", safe="Nothing was written.")
    if not TTL_S_MIN <= asked.ttl_s <= TTL_S_MAX:
        raise UsageError(f"a claim lasts {TTL_S_MIN} to {TTL_S_MAX:,} seconds, not {asked.ttl_s:,}",
                         safe="Nothing was written.")  # fmt: skip
    scopes = parse_scopes(asked.scopes)
    if not scopes and not asked.step:
        raise UsageError("a claim needs a scope", safe="Nothing was written.", mend="Name a path, or . for everything.")
    return scopes


def _covering(writer: Writer, live: Sequence[Entity], asked: Asked, scopes: Sequence[Scope]) -> Entity | None:
    """Return a live claim of the writer, of the same mode and step, that covers all that is asked for."""
    for claim in live:
        is_same = claim.value.get("mode", "exclusive") == asked.mode and claim.value.get("step", "") == asked.step
        if is_same and holds(writer, claim) and str(claim.value.get("session", "")) == session_id(writer.session):
            held = scopes_of(claim)
            if all(is_covered(scope, held) for scope in scopes):
                return claim
    return None


def _text_anew(claim: Entity, asked: Asked, scopes: Sequence[Scope]) -> str:
    """Return the text of a renewed claim; empty where there is none, or it speaks only of a part of what is claimed."""
    return asked.text.strip() if all(is_covered(scope, scopes) for scope in scopes_of(claim)) else ""


def _prolong(transaction: Transaction, claim: Entity, ttl_s: int, now_ms: int, *, text: str = "") -> None:
    expires = max(str(claim.value.get("expires", "")), format_ms(now_ms + 1000 * ttl_s))
    value = {**claim.value, "expires": expires, "ttl_s": ttl_s, "updated": format_ms(now_ms)}
    if text:
        value["text"] = text
    transaction.put("claim", claim.item_id, value, expect=claim.version, summary="claim renewed")


def _is_asked(written: Written, asked: Asked, scopes: Sequence[Scope]) -> bool:
    """Return True where an earlier record is of a claim that covers what is asked for."""
    value = written.value
    if written.item_type != "claim" or value.get("state") != "held":
        return False
    is_alike = value.get("mode", "exclusive") == asked.mode and value.get("step", "") == asked.step
    held = scopes_in(value)
    return is_alike and all(is_covered(scope, held) for scope in scopes)


def clock_skew_text(created: str, now_ms: int) -> str:
    """Return a note for a claim whose time lies in the future: the clock that wrote it is ahead, or was set back
    since. The claim holds until that clock's time.
    """
    ahead_ms = (parse_ms(created) or now_ms) - now_ms
    return f" by a clock that is {_span(ahead_ms)} ahead of this one" if ahead_ms > _AHEAD_MS else ""


def _span(ms: int) -> str:
    """Return a length of time as people say it."""
    seconds = max(0, ms) // 1000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h {seconds % 3600 // 60} min"
