"""A reader that was written from docs/formats/ alone finds in every store what the program says of it."""

from __future__ import annotations

import ast
import json
import os
import random
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

import reader_histories as histories
from cli_support import Shell, claude_session, git, shared_project
from independent_reader import exchange as exchanged
from independent_reader.forms import Refused, check_head, check_proof, sealed_canonical
from independent_reader.objects import load_object
from independent_reader.state import entities
from independent_reader.store import Store, check_manifest
from independent_reader.trail_at_rest import unrest
from periplus.journal import Writer
from periplus.journal.care.doctor import examine
from periplus.journal.care.redaction import redact
from periplus.journal.proofs.tiles import LineageTree
from periplus.memory import Memory
from periplus.project import Project
from support import WRITER, item, make_store, open_journal, segment_path

KEEPER = Writer("keeper", "who_1", "", 1)
TESTS = Path(__file__).parent
REFERENCE = (TESTS.parent / "docs" / "reference" / "entities.md").read_text(encoding="utf-8")
GOLDEN = TESTS / "golden"


def read(root) -> Store:
    return Store(Path(root), REFERENCE)


def test_it_shares_nothing_with_the_program():
    used = set()
    for path in (TESTS / "independent_reader").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                used |= {name.name.split(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                used.add(str(node.module).split(".")[0])
    assert used - {"cryptography"} <= sys.stdlib_module_names
    assert "json" in used


# -- what the program says of a store, and what the reader makes of its bytes -----------------------------------------


def agrees_with_the_library(root) -> Store:
    """Every entity, every record, the doctor: of the store at *root*."""
    with histories.open_any(root) as journal:
        assert journal.project(5.0)
        shown = {(one.item_type, one.item_id): one for one in journal.entities()}
        records = {name: [entry.leaf for _, entry in journal.entries(name)] for name in journal.lineages()}
        doctor = [problem for problem in examine(journal).problems if problem.severity == "error"]
    store = read(root)
    assert store.problems() == []
    assert doctor == []
    assert {name: one.leaves for name, one in store.lineages.items() if one.records} == records
    ours = {place: one for place, one in store.entities.items() if not one.deleted}
    assert ours.keys() == shown.keys()
    for place, one in ours.items():
        other = shown[place]
        assert (one.version, one.rev, one.payload) == (other.version, other.rev, other.value), place
        assert sorted(head.id for head in one.heads) == sorted(other.heads), place
        theirs = [[list(conflict.path), [value.version for value in conflict.values]] for conflict in other.conflicts]
        assert [[c["path"], [value["version"] for value in c["values"]]] for c in one.conflicts] == theirs, place
    return store


def live_through(folder: Path, seed: int, steps: int) -> list[str]:
    dice = random.Random(seed)
    first = histories.first_store(folder / "ada")
    roots = [first, *(histories.clone(first, folder / name) for name in ("bob", "cleo"))]
    for _ in range(steps):
        histories.step(roots, dice)
    histories.keep_house(first)
    for root in roots:  # what a process wrote that died before its sync is on the disk, and in no file yet
        histories.tear(root)
        histories.last_write(root)
    return roots


def tally(stores):
    """What the histories came to, so that it is seen that they came to something."""
    conflicts = sum(bool(one.conflicts) for store in stores for one in store.entities.values())
    stubs = sum(record.is_stub for store in stores for record in store.records)
    voided = sum(len(lineage.voided) for store in stores for lineage in store.lineages.values())
    checkpoints = [one.read_bytes() for store in stores for one in store.folder.glob("journal/checkpoints/*.jsonl")]
    archived = sum(len(list(store.folder.glob("journal/lin_*/archive/*.jsonl"))) for store in stores)
    objects = sum(len(list(store.folder.glob("objects/??/*"))) for store in stores)
    return {"conflicts": conflicts, "stubs": stubs, "voided": voided, "checkpoints": len(checkpoints), "archived": archived,
            "objects": objects, "ancestors": sum(one.count(b'"ancestors":') for one in checkpoints)}  # fmt: skip


@pytest.mark.slow
def test_histories_of_three_clones(tmp_path):
    stores = []
    for seed in (3, 6, 9):
        for root in live_through(tmp_path / str(seed), seed, 60):
            stores.append(agrees_with_the_library(root))  # noqa: PERF401 - the traceback names the root
    assert all(tally(stores).values()), tally(stores)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 106 if os.environ.get("PERIPLUS_EXHAUSTIVE") else 103))
def test_many_histories_of_three_clones(tmp_path, seed):
    for root in live_through(tmp_path, seed, 120):
        agrees_with_the_library(root)


def test_a_stub_that_is_longer_moves_what_the_tiles_have_seen(tmp_path):
    """Their head says where the last record that they cover ended, which lies further on since."""
    root = histories.first_store(tmp_path)
    with histories.open_any(root) as journal:
        for text in (histories.SECRET, "no secret"):
            journal.mutate(lambda t, text=text: t.put("note", histories.item(1, "not"), {"text": text}), KEEPER)
        size = LineageTree(journal).size
        head = json.loads(Path(root, "journal", "tree", journal.lineage, "head").read_bytes())
        redact(journal, KEEPER, secret=histories.SECRET, reason="it was pasted")
    lineage = agrees_with_the_library(root).lineages[head["lineage"]]
    assert lineage.records[0].is_stub
    assert head["offset"] < lineage.records[size - 1].end
    assert head == json.loads(Path(root, "journal", "tree", head["lineage"], "head").read_bytes())
    with histories.open_any(root) as journal:
        tree = LineageTree(journal)
        assert (tree.size, tree.rebuilt) == (len(lineage.records), 0)
    agrees_with_the_library(root)


@pytest.mark.slow
def test_one_byte_that_is_another_is_found(tmp_path):
    """The reader is no rubber stamp: any byte of a segment but those of voided places makes it object."""
    dice = random.Random(7)
    root = Path(live_through(tmp_path, 5, 40)[0])
    store = agrees_with_the_library(root)
    paths = sorted(root.glob("journal/lin_*/*.jsonl")) + sorted(root.glob("journal/lin_*/archive/*.jsonl"))
    looked = 0
    while looked < 60:
        path = dice.choice(paths)
        data = path.read_bytes()
        at = dice.randrange(len(data))
        name, first = next(part for part in path.parts if part.startswith("lin_")), int(path.stem)
        if any((first, start) <= (first, at) < (first, start + length) for segment, start, length in
               store.lineages[name].voided if segment == first):  # fmt: skip
            continue
        end = max((r.end for r in store.lineages[name].records if r.segment == first), default=0)
        if at >= end:
            continue
        looked += 1
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :])
        changed = read(root)
        assert changed.problems() or changed.lineages[name].held_back, (path, at)
        path.write_bytes(data)
    assert read(root).problems() == []


def test_where_nobody_syncs_a_record_says_that_those_before_it_were_acknowledged(tmp_path):
    root = Path(make_store(tmp_path))
    config = root / "config.toml"
    config.write_text(config.read_text().replace('sync = "mutation"', 'sync = "never"'))
    with open_journal(str(root)) as journal:
        for number in range(3):
            journal.mutate(lambda t, n=number: t.put("note", item(n, "not"), {"text": f"text {n}"}), WRITER)
        path = segment_path(journal)
    data = path.read_bytes()
    assert read(root).problems() == []
    path.write_bytes(data.replace(b"text 1", b"text 7"))
    assert "damage at byte" in str(read(root).problems())
    path.write_bytes(data.replace(b"text 2", b"text 7"))
    assert read(root).problems() == [], "it may be a write that did not end"


# -- older formats: what stands in tests/golden for ever --------------------------------------------------------------


def test_the_golden_journal():
    store = read(GOLDEN / "journal-v2")
    assert store.problems() == []
    (lineage,) = store.lineages.values()
    assert [leaf.hex() for leaf in lineage.leaves] == json.loads((GOLDEN / "journal-v2" / "leaves.json").read_text())
    proof = check_proof((GOLDEN / "journal-v2" / "record-1.proof").read_bytes())
    assert proof["signed_by"] == (GOLDEN / "journal-v2" / "key.public").read_text().strip()
    assert proof["leaves"] == {1: lineage.leaves[0]}
    assert lineage.root(proof["head"]["size"]).hex() == proof["head"]["root"]


@pytest.mark.parametrize("name", ["bundle", "head"])
def test_the_golden_proofs(name):
    data = (GOLDEN / "proofs" / f"{name}.proof").read_bytes()
    proof = check_proof(data)
    assert proof["signed_by"] == (GOLDEN / "proofs" / "key").read_text().strip()
    for at in range(len(data)):
        with pytest.raises((Refused, ValueError, KeyError)):
            check_proof(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


@pytest.mark.parametrize("name", ["alone-v1.t", "primed-v1.t"])
def test_the_golden_trails_at_rest(name):
    assert unrest((GOLDEN / "rest" / name).read_bytes()) == (GOLDEN / "trail-v2.bin").read_bytes()


def test_a_head_that_was_seen_before_such_files_were_sealed():
    said = sealed_canonical((GOLDEN / "proofs" / "peer.json").read_bytes().rstrip(b"\n"))
    head = {
        "lineage": said["lineage"],
        "root": said["seen"]["root"],
        "size": said["seen"]["size"],
        "store": said["store"],
    }
    check_head(head, bytes.fromhex(said["key"]), bytes.fromhex(said["seen"]["signature"]))
    with pytest.raises(Refused):
        check_head(
            head | {"size": head["size"] + 1}, bytes.fromhex(said["key"]), bytes.fromhex(said["seen"]["signature"])
        )


# -- what a person types ----------------------------------------------------------------------------------------------

RISK = """
[types.risk]
prefix = "rsk"
projected = true
states = ["open", "closed"]
"""


def fill_on(shell, *texts):
    """Notes, without the price of a process for each."""
    with Project.open(str(shell.folder), Writer("ada", "who_0000000000000000", "", 1)) as project:
        for text in texts:
            project.remember(Memory("note", text))


@pytest.fixture(scope="module")
def shells(tmp_path_factory):
    """Ada's and Bob's clones of one project after a day of work, synced by a git remote and by a folder."""
    folder = tmp_path_factory.mktemp("people")
    found = shared_project(folder, "bob")
    for name, shell in found.items():
        settings = folder / name / ".periplus" / "config.toml"
        settings.write_text(settings.read_text() + "segment_bytes = 6000\nlive_segments = 1\n" + RISK)
        for number in range(4):
            shell(
                "remember",
                f"{name} says \u201cünïcode\u201d 🎉 \\ {number}",
                "--type",
                "decision",
                "--tag",
                f"t{number}",
            )
        shell("remember", f"{name}: the bank may close", "--type", "risk", "--about", "engine.py")
        shell("remember", f"{name}: " + "a long note, " * 500, "--type", "note")
        shell("plan", "make", f"{name}'s work", "--step", "measure", "--step", "cut")
    ada, bob = found["ada"], found["bob"]
    transcript = claude_session(folder / "session.jsonl", cwd=str(folder / "ada"), steps=12)
    ada("trail", "import", transcript)
    for who in (ada, bob, ada):
        who("sync", "--with", "origin")
    (decision, other, third) = [
        row.id for row in ada.json("log", "--type", "decision", "--limit", "3", "--lineage", "all").records
    ]
    for who, name in ((ada, "ada"), (bob, "bob")):
        who("set", decision, f"text={name} knows better", "confidence=70", f'tags=["{name}"]')
        who("evolve", other, f"{name} says it anew")
    ada("state", third, "superseded")
    bob("set", third, "rationale=because")
    for who in (ada, bob, ada):
        who("sync", "--with", folder / "stick")
    bob("set", third, "rationale=agreed")
    ada("undo", "--seq", str(ada.json("log", "--limit", "1").records[0].seq))
    ada("remember", f"the password is {histories.SECRET}", "--type", "note")
    ada("remember", "as large as an object: " + "x" * 7000, "--type", "lesson")
    ada("redact", "--secret-file", "-", "--reason", "pasted", stdin=histories.SECRET)
    for who in (ada, bob):
        who("doctor", "--compact")
        fill_on(who, *(f"a note behind the checkpoint, {number} " + "long " * 200 for number in range(6)))
        who("doctor", "--compact")
        who("head")
        who("log", "--reader", "me", "--limit", "3")
    for who in (ada, bob, ada):
        who("sync", "--with", "origin")
        who("sync", "--with", folder / "stick")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ada", "bob"])
def test_what_the_commands_say_is_what_the_reader_sees(shells, name):
    shell = shells[name]
    store = read(shell.folder / ".periplus")
    assert store.problems() == []
    doctor = shell.json("doctor")
    assert doctor.sound
    held = {(r.lineage, r.seq): r for r in store.records}
    versions = {r.version for r in store.records if r.version}
    assert doctor.counts["records"] == len(held)
    assert doctor.counts["versions"] == len(versions)
    logged = shell.json("log", "--lineage", "all", "--limit", "100000", "--observations").records
    assert {(row.lineage, row.seq) for row in logged} == held.keys()
    for row in logged:
        record = held[row.lineage, row.seq]
        said = {"ts": row.ts, "writer": row.writer, "session": row.session, "action": row.action, "item_type": row.type,
                "item_id": row.id, "key": row.key, "summary": row.summary}  # fmt: skip
        assert said == {field: record.body.get(field, "") for field in said}
        assert (row.leaf, row.version) == (record.leaf.hex(), record.version or "")
    assert len(store.lineages) == 2
    assert any(one.conflicts for one in store.entities.values())
    assert any(record.is_stub for record in store.records)
    assert any(place == "risk" for place, _ in store.entities)


@pytest.mark.slow
def test_what_is_shown_is_what_the_reader_merges(shells):
    shell = shells["ada"]
    store = read(shell.folder / ".periplus")
    interesting = [one for one in store.entities.values() if len(one.heads) > 1 or one.item_type in ("risk", "trail")]
    assert len(interesting) >= 4
    for one in interesting:
        entity = shell.json("show", one.item_id).entity
        assert (entity.version, entity.rev, entity.value) == (one.version, one.rev, one.payload)
        assert sorted(entity.heads) == sorted(head.id for head in one.heads)
        assert [json.loads(msgspec.json.encode(c))["path"] for c in entity.conflicts] == [
            c["path"] for c in one.conflicts
        ]


@pytest.mark.slow
def test_two_seals_of_one_source_are_no_conflict_to_the_reader_either(tmp_path):
    """Clones that import one session and one history before they sync, again as these have grown, and one of them redacts."""
    people = shared_project(tmp_path, "bob", "cleo")
    names = ("ada", "bob", "cleo")

    def meet():
        for name in (*names, *names):
            people[name]("sync", "--with", "../stick")

    def are_read(heads):
        """Each clone's trails, as the reader merges them and the program shows them."""
        for who in people.values():
            store = read(who.folder / ".periplus")
            assert store.problems() == []
            trails = [one for one in store.entities.values() if one.item_type == "trail"]
            assert sorted(len(one.heads) for one in trails) == sorted(heads)
            for one in trails:
                assert one.conflicts == []
                entity = who.json("show", one.item_id).entity
                assert (entity.version, entity.rev, entity.value) == (one.version, one.rev, one.payload)
                assert not entity.conflicts
                data = load_object(store.folder / "objects", one.payload["object"])
                assert data is not None
                assert len(data) == one.payload["bytes"]
                yield one.payload

    session = claude_session(tmp_path / "session.jsonl", prompt=f"log in with {histories.SECRET}", steps=2)
    for who in people.values():
        who("trail", "import", session)
        who("trail", "import", "--git")
    meet()
    assert not any(card["withheld"] for card in are_read([3, 3]))
    people["bob"].json("redact", "--secret-file", "-", "--reason", "pasted", stdin=histories.SECRET)
    meet()
    assert (
        sum(bool(card["withheld"]) for card in are_read([3, 3])) == 3
    )  # in each clone the session, and not the history
    claude_session(session, prompt=f"log in with {histories.SECRET}", steps=3)
    for who in people.values():
        (who.folder / "engine.py").write_text("revision = 7\n")
        git(who.folder, "commit", "-q", "-a", "-m", "Turn the crank again")
        who("trail", "import", session)
        who("trail", "import", "--git")
    meet()
    assert sum(bool(card["withheld"]) for card in are_read([3, 3])) == 3


def test_what_it_was_is_what_the_reader_replays(tmp_path):
    """`show --at`: an entity as the records up to a seq of a lineage make it."""
    (tmp_path / "home").mkdir()
    (tmp_path / "shop").mkdir()
    shell = Shell(tmp_path / "shop", tmp_path / "home")
    shell("init")
    shell("remember", "Ports start at 8000", "--type", "decision")
    (row,) = shell.json("log").records
    for number in range(3):
        shell("set", row.id, f"rationale=for the {number}th time")
    store = read(tmp_path / "shop" / ".periplus")
    for seq in range(1, 5):
        past = entities([r for r in store.records if r.seq <= seq], store.rules)["decision", row.id]
        shown = shell.json("show", row.id, "--at", str(seq)).entity
        assert (shown.version, shown.rev, shown.value) == (past.version, past.rev, past.payload)


def test_proofs_are_checked_without_the_program(shells, tmp_path):
    shell = shells["ada"]
    store = read(shell.folder / ".periplus")
    lineage = store.lineages[store.own]
    key = (store.folder / "journal" / "keys" / f"{store.own}.public").read_text().strip()
    size = len(lineage.records)
    stub = next(record.seq for record in lineage.records if record.is_stub)
    asked = {
        "record": ["3"], "stub": [str(stub)], "growth": ["--from", "2", "--to", str(size - 1)],
        "bundle": ["1", str(stub), str(size), "--bundle", "--from", "5"],
    }  # fmt: skip
    for name, words in asked.items():
        shell("prove", *words, "--out", tmp_path / name)
    shell("head", "--out", tmp_path / "head")
    for name in (*asked, "head"):
        proof = check_proof((tmp_path / name).read_bytes())
        assert proof["signed_by"] == key
        assert proof["head"]["root"] == lineage.root(proof["head"]["size"]).hex()
        assert proof["head"]["lineage"] == store.own
        for seq, leaf in proof["leaves"].items():
            assert leaf == lineage.leaves[seq - 1]
        if proof.get("first_size"):
            assert proof["first_root"] == lineage.root(proof["first_size"]).hex()
    assert set(check_proof((tmp_path / "bundle").read_bytes())["leaves"]) == {1, stub, size}


def test_an_exported_store_is_read_without_the_program(shells, tmp_path):
    shells["ada"]("export", tmp_path / "all.zip")
    with zipfile.ZipFile(tmp_path / "all.zip") as packed:
        packed.extractall(tmp_path)
    top = tmp_path / "periplus"
    said = check_manifest(top)
    store = read(top)
    assert [p for p in store.problems() if not p.startswith("entities/")] == []
    whole = read(shells["ada"].folder / ".periplus")
    assert {n: one.leaves for n, one in store.lineages.items()} == {n: one.leaves for n, one in whole.lineages.items()}
    assert store.files() == whole.files()
    heads = {head["lineage"]: (head["size"], head["root"]) for head in said["heads"]}
    assert heads == {n: (len(one.records), one.root(len(one.records)).hex()) for n, one in store.lineages.items()}


def test_what_was_exchanged_is_read_without_the_program(shells):
    """The refs of the git remote and the exchange folder hold what the stores hold."""
    store = read(shells["ada"].folder / ".periplus")
    ours = {name: one.leaves for name, one in store.lineages.items()}
    for found in (
        exchanged.read_refs(shells["ada"].folder.parent / "hub.git", store.ids),
        exchanged.read_folder(shells["ada"].folder.parent / "stick", store.ids),
    ):
        assert [problem for one in found.values() for problem in one.problems] == []
        assert {name: one.leaves for name, one in found.items()} == ours
        assert any(record.is_stub for one in found.values() for record in one.records)
