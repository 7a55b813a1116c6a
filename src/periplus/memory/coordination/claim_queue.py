"""The queue for a claim: a waiting claim is written by its own process only.

Nobody serves the queue: the first in it sees that the paths were released and takes them, under the lock; a later
writer is refused while somebody is before it (``coordination.claims.acquire``). A waiting process gives a sign every
half minute. A killed process is known to be gone where its system can tell, and otherwise a minute after its last
sign.
"""

from __future__ import annotations

__all__ = ["PLACE_S", "wait_for"]

import os
import time
from collections.abc import Callable, Sequence
from typing import Final

from periplus.base.clock import format_ms, parse_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import ClaimedError, PeriplusError
from periplus.base.ids import new_id
from periplus.base.process.process_marks import process_mark
from periplus.journal import ABSENT, Journal, Transaction, Writer
from periplus.memory.claim_status import session_id, waiting_claims
from periplus.memory.coordination.claims import Acquired, Asked, acquire, checked_scopes
from periplus.memory.writing.lifecycle import bring

PLACE_S: Final = 60
_LOOK_S: Final = 2.0  # how often a waiting process checks those before it


def wait_for(
    journal: Journal, writer: Writer, asked: Asked, *, wait_s: float, wait: Callable[[float], bool], key: str = "",
    now: Callable[[], float] = time.monotonic,
) -> Acquired:  # fmt: skip
    """``acquire``, waiting in the queue for up to ``wait_s`` seconds. ``wait`` sleeps that many seconds and returns
    True to give up.

    Raises what ``acquire`` raises; the place in the queue is given up with it.
    """
    from periplus.journal.history.follow import follow
    from periplus.journal.history.log import RecordFilter

    deadline = now() + wait_s
    is_given_up = False
    place = ""

    def rest(seconds: float) -> bool:
        nonlocal is_given_up
        is_given_up = is_given_up or wait(seconds)
        return is_given_up

    try:
        while True:
            journal.refresh()
            seen = {lineage: journal.end(lineage).next_seq - 1 for lineage in journal.lineages()}
            try:
                done = acquire(journal, writer, asked, place=place, key=key)
            except ClaimedError as error:
                left = min(deadline - now(), _over_in_s(journal, error.claims))
                if deadline - now() <= 0 or is_given_up:
                    raise
                place = _stand(journal, writer, asked, place)
            else:
                if done.claim.item_id == place:
                    place = ""
                return done
            for news in follow(
                journal, seen, RecordFilter(types=("claim",)), wait=rest, timeout_s=max(0.01, left), now=now
            ):
                if any(record.item_id != place for record in news.records):
                    break
    finally:
        if place:
            _leave(journal, writer, place)


def _stand(journal: Journal, writer: Writer, asked: Asked, place: str) -> str:
    """Take a place at the end of the queue, or give a sign for the place that there is."""
    scopes = checked_scopes(asked)
    item_id = place or new_id("clm")
    held = journal.get("claim", item_id) if place else None
    now_ms = journal.clock.now_ms()
    if held is not None and (parse_ms(str(held.value.get("expires", ""))) or 0) - now_ms > PLACE_S * 500:
        return item_id

    def write(transaction: Transaction) -> None:
        now = format_ms(now_ms)
        mine = transaction.get("claim", item_id) if place else None
        names = ", ".join(scope.text for scope in scopes[:3])
        if mine is not None and mine.value.get("state") == "waiting":
            value: dict[str, JSONValue] = {**mine.value, "expires": format_ms(now_ms + 1000 * PLACE_S), "updated": now}
            transaction.put("claim", item_id, value, expect=mine.version, summary=f"{writer.name} waits for {names}")
            return
        line = waiting_claims(journal, now_ms)
        places = [at for one in line if isinstance(at := one.value.get("place"), int)]
        mark = process_mark(os.getpid(), journal.files)
        value = {
            "v": 1, "text": asked.text.strip() or f"works on {names}", "author": writer.name, "created": now, "updated": now,
            "provenance": {"kind": "person", "name": writer.name}, "state": "waiting",
            "scopes": [scope.text for scope in scopes], "mode": asked.mode, "holder": writer.name, "holder_id": writer.id,
            "ttl_s": asked.ttl_s, "expires": format_ms(now_ms + 1000 * PLACE_S), "place": max(places, default=0) + 1, "process": mark._asdict(),
        }  # fmt: skip
        if writer.session:
            value["session"] = session_id(writer.session)
        expect = ABSENT if mine is None else mine.version
        transaction.put("claim", item_id, value, expect=expect, summary=f"{writer.name} waits for {names}")

    journal.mutate(write, writer)
    return item_id


def _leave(journal: Journal, writer: Writer, place: str) -> None:
    """Leave the queue. A failure here keeps nobody waiting: the place ends with the process."""

    def write(transaction: Transaction) -> None:
        held = transaction.get("claim", place)
        if held is not None and held.value.get("state") == "waiting":
            bring(journal, transaction, [held], "released", "waited no longer")

    try:
        journal.mutate(write, writer)
    except (PeriplusError, OSError):
        return


def _over_in_s(journal: Journal, claims: Sequence[str]) -> float:
    """Return the seconds until the next look: when the first of ``claims`` ends; soon where one of them is waiting
    itself.
    """
    now_ms = journal.clock.now_ms()
    found = [claim for item_id in claims if (claim := journal.get("claim", item_id)) is not None]
    ends = [parse_ms(str(claim.value.get("expires", ""))) or now_ms for claim in found]
    soon = _LOOK_S if any(claim.value.get("state") == "waiting" for claim in found) else PLACE_S / 2
    return min(max(0, min(ends, default=now_ms) - now_ms) / 1000, soon)
