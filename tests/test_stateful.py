"""Three clones of one project, changed in every way that there is, beside a model that is a dict of versions.

After every step a clone shows, for each entity, the heads that the versions it holds have, and where there is one head,
its content. At the end all hold the same records, and then the same bytes of entity files, rebuilt from zero too.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from periplus.base.encoding.canonical import canonical
from periplus.base.errors import UsageError
from periplus.base.files import Files
from periplus.journal import Journal
from periplus.journal.care.doctor import examine
from periplus.journal.care.redaction import redact
from periplus.journal.care.text_removal import MASK
from periplus.journal.carriers import open_folder
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.exchange.sync import sync
from periplus.journal.records.record import version_id
from stateful_support import stateful_settings
from support import TYPES, WRITER, Stop, StoppingFiles, item, make_store, open_journal

CLONES = st.integers(0, 2)
NUMBERS = st.integers(0, 3)
TEXTS = st.sampled_from(
    ["calm sea", "rough sea", "the harbour of Muziris", "hidden rocks", "password swordfish", "ünïcode ☂"]
)
SECRET = "swordfish"


class Held:
    """A clone as the model sees it: the versions that it holds, and which of them have lost their content there."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.versions: set[str] = set()

    def heads(self, graph, number):
        mine = {version for version in self.versions if graph[version][0] == number}
        named = {parent for version in mine for parent in graph[version][1]}
        return sorted(mine - named)


class Clones(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp(prefix="clones-"))
        self.graph: dict[str, tuple[int, tuple[str, ...], dict | None]] = {}
        first = make_store(self.folder / "0", None) if (self.folder / "0").mkdir() is None else ""
        config = Path(first, "config.toml")
        config.write_text(config.read_text() + "segment_bytes = 1500\n")
        self.clones = [Held(first)]
        for number in (1, 2):
            root = self.folder / str(number) / ".periplus"
            root.mkdir(parents=True)
            for name in ("config.toml", ".gitignore"):  # as a clone of git has them
                (root / name).write_bytes(Path(first, name).read_bytes())
            self.clones.append(Held(os.fspath(root)))

    def teardown(self):
        if not hasattr(self, "clones"):
            return
        try:
            self.converge()
        finally:
            shutil.rmtree(self.folder)

    # -- what can happen -------------------------------------------------------------------------------------------------

    @rule(who=CLONES, number=NUMBERS, text=TEXTS, tag=st.sampled_from(["", "a", "b"]))
    def put(self, who, number, text, tag):
        value = {"text": text} | ({"tag": tag} if tag else {})
        with open_journal(self.clones[who].root) as journal:
            self.write(self.clones[who], journal, number, value)

    @rule(who=CLONES, number=NUMBERS)
    def delete(self, who, number):
        with open_journal(self.clones[who].root) as journal:
            self.write(self.clones[who], journal, number, None)

    @rule(who=CLONES, first=NUMBERS, second=NUMBERS, text=TEXTS)
    def put_both(self, who, first, second, text):
        clone = self.clones[who]
        if first == second:
            return
        with open_journal(clone.root) as journal:
            receipt = journal.mutate(
                lambda t: [t.put("decision", item(number), {"text": text}) for number in (first, second)], WRITER
            )
            for number, version in zip((first, second), receipt.versions, strict=True):
                self.note(clone, number, version, {"text": text})

    @rule(who=CLONES, number=NUMBERS, text=TEXTS, at=st.integers(0, 12), share=st.sampled_from([0.0, 0.4, 0.999, 1.0]))
    def crash(self, who, number, text, at, share):
        """A stop at some call of a mutation: it is there whole or not at all, and nothing else changed."""
        clone = self.clones[who]
        heads = clone.heads(self.graph, number)
        value = {"text": text}
        wanted = version_id("decision", item(number), deleted=False, payload=canonical(value), parents=tuple(heads))
        try:
            with open_journal(clone.root, files=StoppingFiles(at, share)) as journal:
                journal.mutate(lambda t: t.put("decision", item(number), value), WRITER)
        except Stop:
            with open_journal(clone.root) as journal:
                journal.mutate(lambda _: None, WRITER)  # nothing, but it makes durable what a stopped writer left
                is_there = wanted in heads_in(journal, number)
        else:
            is_there = True
        if is_there:
            self.note(clone, number, wanted, value)

    @rule(one=CLONES, other=CLONES)
    def exchange(self, one, other):
        if one == other:
            return
        a, b = self.clones[one], self.clones[other]
        with open_journal(a.root) as journal:
            report = sync(journal, open_folder(b.root, Files()))
            assert report.refusals == []
        a.versions |= b.versions
        b.versions = set(a.versions)

    @rule(one=CLONES, other=CLONES, at=st.integers(0, 40))
    def exchange_stops(self, one, other, at):
        """A stop in the middle of an exchange; the next one ends it, so the model says nothing in between."""
        if one == other:
            return
        a, b = self.clones[one], self.clones[other]
        files = StoppingFiles(at)
        try:
            with Journal(a.root, TYPES, files=files) as journal:
                sync(journal, open_folder(b.root, files))
        except Stop:
            pass
        self.exchange(one, other)

    @rule(who=CLONES)
    def roll(self, who):
        if self.clones[who].versions:
            with open_journal(self.clones[who].root) as journal:
                if journal.lineage:
                    journal.roll()

    @rule(who=CLONES, loses=st.booleans())
    def checkpoint(self, who, loses):
        with open_journal(self.clones[who].root) as journal:
            if journal.lineage and journal.end().next_seq > 1:
                make_checkpoint(journal, WRITER)
        if loses:
            self.lose_what_is_derived(who)  # what is opened next is loaded from the checkpoint

    @rule(who=CLONES, at=st.integers(0, 30))
    def checkpoint_stops(self, who, at):
        clone = self.clones[who]
        try:
            with open_journal(clone.root, files=StoppingFiles(at)) as journal:
                if journal.lineage and journal.end().next_seq > 1:
                    make_checkpoint(journal, WRITER)
        except Stop:
            pass

    @rule(who=CLONES)
    def redact(self, who):
        clone = self.clones[who]
        with open_journal(clone.root) as journal:
            if not journal.lineage:
                return
            done = redact(journal, WRITER, secret=SECRET, reason="it was pasted by mistake")
            cleaned = set()
            # Each head that said it says the rest of it anew in its own place: no conflict ends by it.
            for number in range(4):
                for head in clone.heads(self.graph, number):
                    said = self.graph[head][2]
                    if said is None or SECRET not in said["text"]:
                        continue
                    value = {key: text.replace(SECRET, MASK) for key, text in said.items()}
                    wanted = version_id(
                        "decision", item(number), deleted=False, payload=canonical(value), parents=(head,)
                    )
                    self.note(clone, number, wanted, value, parents=(head,))
                    cleaned.add(item(number))
                assert heads_in(journal, number) == clone.heads(self.graph, number)
            assert {item_id for _, item_id in done.entities} == cleaned

    @rule(who=CLONES)
    def lose_what_is_derived(self, who):
        root = Path(self.clones[who].root)
        for suffix in ("", "-wal", "-shm"):
            (root / f"index.sqlite{suffix}").unlink(missing_ok=True)
        shutil.rmtree(root / "journal/tree", ignore_errors=True)

    # -- what must hold --------------------------------------------------------------------------------------------------

    @invariant()
    def a_clone_shows_what_it_holds(self):
        for clone in getattr(self, "clones", ()):
            if not clone.versions:
                continue
            with open_journal(clone.root) as journal:
                assert journal.damage is None
                for number in range(4):
                    heads = clone.heads(self.graph, number)
                    assert heads_in(journal, number) == heads
                    entity = journal.get("decision", item(number))
                    if len(heads) == 1:
                        value = self.graph[heads[0]][2]
                        assert (None if entity is None else entity.value) == value
                    elif heads and any(self.graph[head][2] is not None for head in heads):
                        assert list(entity.heads) == heads

    def converge(self):
        for one, other in ((0, 1), (1, 2), (0, 2), (0, 1)):
            self.exchange(one, other)
        files = []
        for clone in self.clones:
            with open_journal(clone.root) as journal:
                journal.project()
                report = examine(journal)
                told = [one for one in report.problems if one.severity != "note" and "tiles" not in one.what]
                assert (
                    told == []
                )  # but for tiles whose growth was stopped: derived, and made again when they are needed
                shown = [(e.item_id, e.version, e.heads, e.rev, e.payload, e.conflicts) for e in journal.entities()]
            self.lose_what_is_derived(self.clones.index(clone))
            with open_journal(clone.root) as journal:
                assert shown == [
                    (e.item_id, e.version, e.heads, e.rev, e.payload, e.conflicts) for e in journal.entities()
                ]
            folder = Path(clone.root, "entities")
            files.append(({path.name: path.read_bytes() for path in folder.rglob("*.json")}, shown))
        assert files[0] == files[1] == files[2]

    # -- inside ----------------------------------------------------------------------------------------------------------

    def write(self, clone, journal, number, value):
        heads = clone.heads(self.graph, number)
        if value is None:
            try:
                receipt = journal.mutate(lambda t: t.delete("decision", item(number)), WRITER)
            except UsageError:
                assert all(self.graph[head][2] is None for head in heads)
                return
        else:
            receipt = journal.mutate(lambda t: t.put("decision", item(number), value), WRITER)
        self.note(clone, number, receipt.versions[0], value)

    def note(self, clone, number, version, value, parents=None):
        parents = tuple(clone.heads(self.graph, number)) if parents is None else parents
        payload = None if value is None else canonical(value)
        assert version == version_id("decision", item(number), deleted=value is None, payload=payload, parents=parents)
        self.graph[version] = (number, parents, value)
        clone.versions.add(version)


def heads_in(journal, number):
    return sorted(head.version for head in journal.heads_of("decision", item(number)))


TestClones = pytest.mark.slow(Clones.TestCase)
TestClones.settings = stateful_settings(examples=12, steps=30)
