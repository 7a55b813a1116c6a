"""Mail between agents: a message to a name, read once, answered in its thread."""

from __future__ import annotations

__all__ = [
    "MESSAGE_CHARACTERS_MAX",
    "answer",
    "mail",
    "mark_read",
    "meant_by",
    "send",
    "taken_over",
    "thread_of",
    "waits",
    "writes_here",
]

from collections.abc import Mapping, Sequence
from typing import Final

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import NotFoundError, RefusedError, UsageError
from periplus.base.ids import is_id, new_id
from periplus.journal import ABSENT, Entity, Journal, Receipt, Transaction, Writer
from periplus.memory.fulltext.links import linked
from periplus.memory.writing.lifecycle import Changed, bring
from periplus.memory.writing.write_keys import as_written, check_repeated, has_fields

MESSAGE_CHARACTERS_MAX: Final = 8_000
NAME_CHARACTERS_MAX: Final = 100
_NAMES_MAX: Final = 10_000
_WRITES: Final = "SELECT 1 FROM records WHERE writer = ?1 UNION ALL SELECT 1 FROM heads WHERE writer = ?1 LIMIT 1"
_NEAR: Final = 0.8  # of difflib's ratio: one letter too many in a name of three has 0.86


def send(
    journal: Journal, writer: Writer, recipient: str, text: str, *, ref: str = "", needs_answer: bool = False, key: str = ""
) -> Entity:  # fmt: skip
    """Leave a message for ``recipient``. ``ref`` is the id, or the beginning of the id, of what it is about."""
    journal.refresh()
    about = journal.find(ref).item_id if ref else ""
    item_id = new_id("msg")
    value = _message(journal, writer, recipient, text, about, item_id, needs_answer=needs_answer)
    receipt = journal.mutate(
        lambda transaction: transaction.put("message", item_id, value, expect=ABSENT, summary=f"message to {recipient}"),
        writer, key=key,
    )  # fmt: skip
    return _written(journal, receipt, item_id, {"recipient": value["recipient"], "text": value["text"]})


def answer(journal: Journal, writer: Writer, reference: str, text: str, *, key: str = "") -> Entity:
    """Answer a message, in its thread. Raises RefusedError for one that was sent to somebody else."""
    journal.refresh()
    asked = _find(journal, reference)
    item_id = new_id("msg")

    sender, _, store = str(asked.value.get("sender", "")).rpartition("@")
    if is_id(store):
        raise UsageError(f"the message came from another project, {store}: an answer cannot reach it", safe="Nothing was written.",
                         mend=f"Write to {sender} there: periplus inbox send {sender} TEXT --store DIR")  # fmt: skip

    def write(transaction: Transaction) -> None:
        held = _mine(transaction, writer, asked.item_id)
        thread = str(held.value.get("thread", "")) or held.item_id
        value = _message(journal, writer, str(held.value.get("sender", "")), text, held.item_id, thread)
        transaction.put("message", item_id, value, expect=ABSENT, summary=f"answer to {held.value.get('sender')}")
        if held.value.get("state") != "answered":
            bring(journal, transaction, [held], "answered")

    said: dict[str, JSONValue] = {"ref": asked.item_id, "text": text.strip()}
    return _written(journal, journal.mutate(write, writer, key=key), item_id, said)


def mark_read(journal: Journal, writer: Writer, references: Sequence[str], *, key: str = "") -> Changed:
    """Note that the writer has read messages; those read before are left unchanged."""
    journal.refresh()
    found = [_find(journal, reference) for reference in references]

    def write(transaction: Transaction) -> None:
        held = [_mine(transaction, writer, one.item_id) for one in found]
        bring(journal, transaction, [one for one in held if one.value.get("state") == "sent"], "read")

    receipt = journal.mutate(write, writer, key=key)
    ids = {one.item_id for one in found}
    check_repeated(
        journal,
        receipt,
        lambda written: all(one.item_id in ids and one.value.get("state") == "read" for one in written),
    )
    entities = tuple(entity for one in found if (entity := journal.get("message", one.item_id)) is not None)
    return Changed(entities, receipt if receipt.record_count else None)


def mail(journal: Journal, recipient: str, *, with_read: bool = False) -> list[Entity]:
    """Return the messages to ``recipient`` that are unread or wait for an answer, oldest first."""
    journal.refresh()
    found = linked(journal, "message", "recipient", recipient)
    if not with_read:
        found = [one for one in found if waits(one.value)]
    return sorted(found, key=lambda one: (str(one.value.get("created")), one.item_id))


def thread_of(journal: Journal, reference: str) -> list[Entity]:
    """All messages of the thread that a message belongs to, oldest first."""
    journal.refresh()
    one = _find(journal, reference)
    thread = str(one.value.get("thread", "")) or one.item_id
    found = {each.item_id: each for each in (*linked(journal, "message", "thread", thread), one)}
    first = journal.get("message", thread)
    if first is not None:
        found[first.item_id] = first
    return sorted(found.values(), key=lambda each: (str(each.value.get("created")), each.item_id))


def waits(message: Mapping[str, JSONValue]) -> bool:
    """Return True for a message that is unread or waits for an answer."""
    state = message.get("state")
    return state == "sent" or (state == "read" and message.get("needs_answer") is True)


def taken_over(message: Mapping[str, JSONValue], store: str, item_id: str, created_ms: int) -> dict[str, JSONValue]:
    """Return a message of another project as one of ours: its sender is named with the store, for answers do not
    reach it.
    """
    sender = str(message.get("sender", ""))[: NAME_CHARACTERS_MAX - len(store) - 1]
    return {
        "v": 1, "state": "sent", "sender": f"{sender}@{store}", "recipient": message.get("recipient"), "text": message.get("text"),
        "thread": item_id, "needs_answer": False, "created": format_ms(created_ms),
    }  # fmt: skip


def writes_here(journal: Journal, name: str) -> bool:
    """Return True where somebody of that name wrote to the store."""
    # An index that begins at a checkpoint lacks older records, but has the writers of present entities.
    return bool(name) and journal.index.db.execute(_WRITES, (name,)).fetchone() is not None


def meant_by(journal: Journal, name: str) -> str:
    """Return a known name nearly equal to ``name``, where nobody of that name wrote here: messages to ``name`` would
    not be read. Empty where none is near; names that differ in their numbers are different names.
    """
    from periplus.memory.retrieval.recall import bring_up_to_date

    bring_up_to_date(journal)
    if not name or writes_here(journal, name):
        return ""
    every = "SELECT writer FROM records UNION SELECT writer FROM heads LIMIT ?"
    known = sorted(str(row[0]) for row in journal.index.db.execute(every, (_NAMES_MAX,)))
    for other in known:
        if other.casefold() == name.casefold():
            return other
    import difflib  # 20 ms, for the few names that nobody has

    letters = _letters(name)
    near = {other.casefold(): other for other in known if _letters(other) != letters}
    found = difflib.get_close_matches(name.casefold(), near, 1, _NEAR)
    return near[found[0]] if found else ""


def _letters(name: str) -> str:
    return "".join(filter(str.isalpha, name.casefold()))


def _message(
    journal: Journal, writer: Writer, recipient: str, text: str, ref: str, thread: str, *, needs_answer: bool = False
) -> dict[str, JSONValue]:  # fmt: skip
    if not recipient.strip() or len(recipient) > NAME_CHARACTERS_MAX:
        raise UsageError(f"{recipient[:60]!r} is not a valid name of a recipient", safe="Nothing was written.")
    if not text.strip():
        raise UsageError("a message needs a text", safe="Nothing was written.")
    if len(text) > MESSAGE_CHARACTERS_MAX:
        raise UsageError(f"the text has {len(text):,} characters; the limit is {MESSAGE_CHARACTERS_MAX:,}",
                         safe="Nothing was written.", mend="Name a file for the rest.")  # fmt: skip
    value: dict[str, JSONValue] = {
        "v": 1, "state": "sent", "sender": writer.name, "recipient": recipient.strip(), "text": text.strip(), "thread": thread,
        "needs_answer": needs_answer, "created": format_ms(journal.clock.now_ms()),
    }  # fmt: skip
    if ref:
        value["ref"] = ref
    if writer.session:
        value["session"] = writer.session
    return value


def _find(journal: Journal, reference: str) -> Entity:
    found = journal.find(reference)
    if found.item_type != "message":
        raise NotFoundError(f"{found.item_id} is a {found.item_type}, not a message", mend="See `periplus inbox mail`.")
    return found


def _mine(transaction: Transaction, writer: Writer, item_id: str) -> Entity:
    held = transaction.get("message", item_id)
    if held is None or held.deleted:
        raise NotFoundError(f"the message {item_id} was deleted meanwhile", safe="Nothing was written.")
    if held.value.get("recipient") != writer.name:
        raise RefusedError(f"{item_id} was sent to {held.value.get('recipient')}, not to {writer.name}",
                           safe="Nothing was written.", mend=f"Say who you are with --as NAME. To look at it: periplus show {item_id}")  # fmt: skip
    return held


def _written(journal: Journal, receipt: Receipt, item_id: str, said: Mapping[str, JSONValue]) -> Entity:
    """Return the message that was written, with the content ``said``; for a repeated write the first one."""
    check_repeated(
        journal, receipt, lambda written: written[0].item_type == "message" and has_fields(written[0].value, said)
    )
    return as_written(journal, receipt, "message", journal.written_by(receipt)[0][1] if receipt.repeated else item_id)
