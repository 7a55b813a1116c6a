"""Random histories of a few clones, over all that a journal can hold: what an independent reader is to make sense of."""

from __future__ import annotations

import gc
import hashlib
import os
import random
import shutil
from pathlib import Path

from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.journal import Journal, Writer
from periplus.journal.care.redaction import redact
from periplus.journal.carriers import open_folder
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.exchange.sync import sync
from periplus.memory.entities.types import memory_types
from support import Stop, StoppingFiles, item, make_store

SECRET = "correct horse battery staple"
UNICODE = (
    "",
    "plain",
    'qu"ote \\ slash',
    "new\nline\ttab\x01\x7f",
    "ünïcode “quoted” 🎉",
    "\u2028\ufeffe\u0301",
    SECRET,
)
TYPES = {row.name: row._replace(check=lambda _payload: None) for row in memory_types().values()}
KINDS = {
    "decision": "dec",
    "note": "not",
    "plan": "pln",
    "trap": "trp",
    "candidate": "cnd",
    "session": "ses",
    "agent": "agt",
}


def open_any(root: str, files: Files | None = None) -> Journal:
    """The store at *root*, with the real types and none of their checks."""
    return Journal(root, TYPES, files=files, clock=SystemClock())


def value(dice: random.Random, depth: int = 0):
    """Any value, from few, so that clones often write the same."""
    kind = dice.randrange(9 if depth < 3 else 6)
    if kind == 0:
        return dice.choice((None, True, False, 0, 1))
    if kind == 1:
        return dice.choice((-(2**53) + 1, 2**53 - 1, 7))
    if kind < 5:
        return dice.choice(UNICODE)
    if kind == 5:
        return {"$dec": dice.choice(("1.5", "2.5"))}
    if kind == 6:
        return [value(dice, depth + 1) for _ in range(dice.randrange(4))]
    return {name: value(dice, depth + 1) for name in dice.sample(("a", "b", "ü", "{}"), dice.randrange(4))}


FIELDS = {
    "text": lambda dice: dice.choice(UNICODE),
    "tags": lambda dice: [dice.choice("abcdef") for _ in range(dice.randrange(5))],
    "alternatives": lambda dice: [value(dice, 2) for _ in range(dice.randrange(3))],
    "capabilities": lambda dice: dice.sample("abcdef", dice.randrange(5)),
    "depends_on": lambda dice: dice.choice((None, ["a"], ["b", "a"], [])),
    "extra": value,
    "deep": lambda dice: {name: value(dice, 1) for name in dice.sample("abc", dice.randrange(4))},
    "state": lambda dice: dice.choice(("open", "done", "active")),
    "reason": lambda dice: dice.choice(("why", "because")),
    "ended": lambda dice: dice.choice((1, 2)),
    "run": lambda dice: dice.choice((1, 2)),
    "updated": lambda dice: dice.choice(("2026-01-01", "2026-02-01", "2026-03-01", 7)),
    "confirmed": lambda dice: dice.choice(("2026-01-01 ada", "2026-02-01 bob")),
    "step": lambda dice: dice.choice((1, 2)),
    "item_id": lambda dice: dice.choice("xy"),
    "payload": lambda dice: value(dice, 2),
}


def changed(dice: random.Random, item_type: str, held: dict) -> dict:
    """*held* with a few fields changed, or taken out. A type that has no tags gets none."""
    new = dict(held)
    for name in dice.sample(sorted(FIELDS), dice.randint(1, 4)):
        if name == "tags" and item_type in ("agent", "candidate", "session"):
            continue
        if dice.random() < 0.2:
            new.pop(name, None)
        else:
            new[name] = FIELDS[name](dice)
    if dice.random() < 0.02:
        new["large"] = dice.choice("xyz\u00e9") * 70_000
    return new


def clone(root: str, folder: Path) -> str:
    """A clone of the store that has its settings and no journal."""
    path = folder / ".periplus"
    path.mkdir(parents=True)
    for name in ("config.toml", ".gitignore"):
        shutil.copy(Path(root, name), path)
    return os.fspath(path)


def first_store(folder: Path) -> str:
    """A store with short segments."""
    root = make_store(folder, SystemClock())
    settings = Path(root, "config.toml")
    settings.write_text(settings.read_text() + "segment_bytes = 9000\nlive_segments = 1\n")
    return root


def exchange(root: str, other: str) -> None:
    """Sync with a clone. What was redacted on one side, and is not yet on the other, may keep a lineage out."""
    with open_any(root) as journal:
        report = sync(journal, open_folder(other, Files()))
        for error in report.refusals:
            if "redacted" not in str(error):
                raise error


def write(journal: Journal, dice: random.Random, name: str) -> None:
    """One mutation of one to four records."""

    def batch(transaction) -> None:
        for _ in range(dice.choice((1, 1, 1, 2, 4))):
            item_type = dice.choice(sorted(KINDS))
            item_id = item(dice.randrange(3), KINDS[item_type])
            held = transaction.get(item_type, item_id)
            if held is not None and not held.deleted and dice.random() < 0.1:
                transaction.delete(item_type, item_id)
            else:
                transaction.put(
                    item_type, item_id, changed(dice, item_type, held.value if held and not held.deleted else {})
                )
        if dice.random() < 0.1:
            transaction.observe({"tool": dice.choice(UNICODE)})

    writer = Writer(dice.choice((name, 'ünïcode "w"')), "who_0000000000000000", dice.choice(("", "ses")), 1)
    journal.mutate(batch, writer, key=dice.choice(("", f"key {dice.randrange(10**6)}")))


def adopt(journal: Journal, dice: random.Random) -> None:
    """Git goes on from what is held, by a version that is not: what is recorded of the file that it brought."""

    def place(transaction) -> None:
        item_type = dice.choice(("decision", "plan", "trap"))
        item_id = item(dice.randrange(3), KINDS[item_type])
        held = transaction.get(item_type, item_id)
        if held is not None:
            between = hashlib.sha256(b"%d" % dice.randrange(4)).hexdigest()
            payload = changed(dice, item_type, {} if held.deleted else held.value)
            payload = {**payload, "extra": dice.randrange(10**9)}  # taking in leaves out a version that is held
            transaction.place("import", item_type, item_id, payload, (between,), after=tuple(sorted(held.heads)))

    journal.mutate(place, Writer("adopted from file", "", "", 1))


def carry(root: str, other: str, dice: random.Random) -> None:
    """Git brings a version of another clone, and not what it was made from: it comes after what is held."""
    item_type = dice.choice(("decision", "plan", "trap"))
    item_id = item(dice.randrange(3), KINDS[item_type])
    with open_any(other) as journal:
        found = journal.get(item_type, item_id)
    if found is None or len(found.heads) > 1:
        return

    def place(transaction) -> None:
        held = transaction.get(item_type, item_id)
        after = held.heads if held is not None else ()
        transaction.place("import", item_type, item_id, found.value, found.parents, after=tuple(sorted(after)))

    with open_any(root) as journal:
        journal.mutate(place, Writer("adopted from file", "", "", 1))


def step(roots: list[str], dice: random.Random) -> None:
    """Something that happens in one of the clones."""
    root = dice.choice(roots)
    what = dice.random()
    if what < 0.15:
        exchange(root, dice.choice([one for one in roots if one != root]))
        return
    if what > 0.94:
        carry(root, dice.choice([one for one in roots if one != root]), dice)
        return
    if what < 0.25:  # a process dies as it writes
        try:
            with open_any(root, StoppingFiles(dice.randrange(2, 30), dice.random())) as journal:
                write(journal, dice, Path(root).parent.name)
        except Stop:
            gc.collect()  # what it held goes with a process, and here with its journal
        return
    with open_any(root) as journal:
        has_written = journal.lineage in journal.lineages()
        writer = Writer("keeper", "who_1", "", 1)
        if what < 0.37 and has_written:
            make_checkpoint(journal, writer)
        elif what < 0.40 and has_written:
            journal.roll()
        elif what < 0.42 and has_written:
            redact(journal, writer, secret=SECRET, reason="it was pasted")
        else:
            for _ in range(dice.randint(1, 4)):
                write(journal, dice, Path(root).parent.name)
                if dice.random() < 0.15:
                    adopt(journal, dice)
        journal.project()


def keep_house(root: str) -> None:
    """What the dice may not have thrown: an object, a stub, checkpoints, and an archive behind them."""
    writer = Writer("keeper", "who_1", "", 1)
    with open_any(root) as journal:
        for text in ("x" * 70_000, SECRET):
            journal.mutate(lambda t, text=text: t.put("note", item(8, "not"), {"text": text}), writer)
        redact(journal, writer, secret=SECRET, reason="it was pasted")
        for _ in range(3):
            journal.roll()
            journal.mutate(lambda t: t.observe({"tool": "broom"}), writer)
            make_checkpoint(journal, writer)


def tear(root: str) -> None:
    """A write that ended within a batch, with room for the next one behind it in the segment."""
    last_write(root)
    with open_any(root) as journal:
        journal.roll()
    last_write(root)
    with open_any(root) as journal:
        path = max(Path(root, "journal", journal.lineage).glob("*.jsonl"))
    line = path.read_bytes().splitlines(keepends=True)[-1]
    with path.open("ab") as file:
        file.write(line[: len(line) // 2])


def last_write(root: str) -> None:
    """A record whose sync covers all that is there."""
    with open_any(root) as journal:
        journal.mutate(lambda t: t.put("note", item(9, "not"), {"text": "the end"}), Writer("keeper", "who_1", "", 1))
