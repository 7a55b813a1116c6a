"""Redaction: the secret is nowhere in the store afterwards, everything else is, and every proof still holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from periplus.base.errors import NotFoundError, RefusedError, UsageError
from periplus.base.files import Files
from periplus.journal import Writer
from periplus.journal.care.doctor import examine
from periplus.journal.care.redaction import redact
from periplus.journal.care.text_removal import MASK
from periplus.journal.carriers import open_folder
from periplus.journal.checkpoints.checkpoint_files import usable_checkpoints
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.exchange.sync import sync
from periplus.journal.proofs.proof_file import prove_record, verify_proof
from periplus.journal.records.record import PAYLOAD_INLINE_MAX
from periplus.journal.records.stub import make_stub
from periplus.journal.recovery.removed_content import taken_out
from support import WRITER, Stop, StoppingFiles, item, make_store, open_journal
from test_exchange import clone

SECRET = 'hunter2 "quoted" \\ and ünder'


def holders(root: str) -> list[str]:
    """The files of the store that hold the secret in a form that can be read, objects unpacked."""
    from periplus.journal.care.text_removal import Needle

    needle = Needle(SECRET)
    found = [str(path) for path in Path(root).rglob("*") if path.is_file() and needle.is_in(path.read_bytes())]
    with open_journal(root) as journal:
        objects = journal.objects
        found += [digest.hex() for digest in objects.digests() if needle.is_in(objects.get(digest))]
    return found


def put(journal, number, text, **fields):
    journal.mutate(lambda t: t.put("decision", item(number), {"text": text, **fields}, summary=text), WRITER)


@pytest.fixture
def root(tmp_path):
    """Six records: the secret in the past of one entity, in the present of another, and in a large payload."""
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        put(journal, 1, "nothing to hide")
        put(journal, 2, f"the password is {SECRET}")
        put(journal, 2, "the password is in the vault")
        put(journal, 3, f"use {SECRET} to log in", about=[f"x {SECRET} y"], keep="this stays")
        put(journal, 4, "large " + "y" * PAYLOAD_INLINE_MAX + SECRET)
        put(journal, 4, "small")
    assert holders(root)
    return root


def test_a_secret_leaves_the_store(root):
    with open_journal(root) as journal:
        proofs = {seq: prove_record(journal, seq) for seq in range(1, 7)}
        done = redact(journal, WRITER, secret=SECRET, reason="it was pasted by mistake")
        assert sorted(one.seq for one in done.records) == [2, 4, 5]
        assert done.entities == [("decision", item(3))]
        assert len(done.objects) == 1
        assert done.remaining == []
        value = journal.get("decision", item(3)).value
        assert value == {"text": f"use {MASK} to log in", "about": [f"x {MASK} y"], "keep": "this stays"}
        assert journal.get("decision", item(2)).value["text"] == "the password is in the vault"
        audit = journal.index.records("action = 'redact'", (), 10)
        assert [(one.seq, one.summary) for one in audit] == [(8, "3 records redacted: it was pasted by mistake")]
    assert holders(root) == []
    with open_journal(root) as journal:
        found = examine(journal)
        assert (found.exit_code, found.problems) == (0, [])
        assert [entry.record.seq for _, entry in journal.entries(journal.lineage)] == list(range(1, 9))
        for seq in (1, 3, 6):
            assert verify_proof(prove_record(journal, seq)).holds
            assert verify_proof(proofs[seq]).holds
        put(journal, 5, "life goes on")
        assert journal.get("decision", item(5)) is not None


@pytest.mark.parametrize("names", ["the text", "the record"])
def test_what_an_earlier_redaction_gave_as_its_reason(root, tmp_path, names):
    """Its record goes, too; what it said of others still counts, here and in clones."""
    bob = clone(root, tmp_path / "bob")
    with open_journal(root) as journal:
        large = next(
            entry.record.payload_ref for _, entry in journal.entries(journal.lineage) if entry.record.payload_ref
        )
        redact(journal, WRITER, secret=SECRET, reason="pasted with the key of ann@example.org")
        audit = journal.end().next_seq - 1
        how = {"secret": "ann@example.org"} if names == "the text" else {"seqs": [audit]}
        done = redact(journal, WRITER, reason="a name", **how)
        assert [(one.seq, one.action) for one in done.records] == [(audit, "redact")]
        assert bytes.fromhex(large.sha256) in taken_out(journal)
        put(journal, 7, "goes on")
        assert [one.what for one in examine(journal).problems] == []
    assert not any(b"ann@example.org" in path.read_bytes() for path in Path(root).rglob("*") if path.is_file())
    assert holders(root) == []
    with open_journal(bob) as journal:
        assert sync(journal, open_folder(root, Files())).refusals == []
        assert journal.get("decision", item(7)) is not None
        assert bytes.fromhex(large.sha256) in taken_out(journal)


def test_what_stands_beside_the_content_goes_too(root):
    """The key of a command, the name of who wrote, the session; of others they stay as they are."""
    name = "ann@example.org"
    who = Writer(f"ann {name}", "who_0000000000000ann", f"ses {name}", 7)
    with open_journal(root) as journal:
        journal.mutate(lambda t: t.put("decision", item(7), {"text": "plain"}), who, key=f"key {name}")
        journal.mutate(lambda t: t.put("decision", item(8), {"text": name}), WRITER, key="a key")
        done = redact(journal, WRITER, secret=name, reason="why")
        assert done.remaining == []
        entries = {entry.record.seq: entry.record for _, entry in journal.entries(journal.lineage)}
        assert (entries[7].writer, entries[7].session, entries[7].key) == (f"ann {MASK}", f"ses {MASK}", "")
        assert (entries[8].writer, entries[8].key) == (WRITER.name, "a key")
        assert journal.get("decision", item(7)).value == {"text": "plain"}
        assert examine(journal).problems == []
    assert not any(name.encode() in path.read_bytes() for path in Path(root).rglob("*") if path.is_file())


def test_what_a_stub_keeps_is_told_as_what_it_is(root):
    with open_journal(root) as journal:
        done = redact(journal, WRITER, secret=item(2), reason="why")
        (told,) = [one for one in done.remaining if one.where.endswith(".jsonl")]
        assert "an id" in told.mend
        assert "remove" not in told.mend


def test_what_a_killed_process_left_beside_a_file_goes_too(root, tmp_path):
    """Here, and where the redaction comes to by sync."""
    other = tmp_path / "other" / ".periplus"
    other.mkdir(parents=True)
    (other / "config.toml").write_bytes(Path(root, "config.toml").read_bytes())
    with open_journal(str(other)) as journal:
        put(journal, 9, "something of their own")
        sync(journal, open_folder(root, Files()))
    left = [Path(place, "entities", "decision", f".{item(2)}.json.4711.0a1b2c3d.tmp") for place in (root, other)]
    for path in left:
        path.write_text(f"the password is {SECRET}")
    with open_journal(root) as journal:
        assert redact(journal, WRITER, secret=SECRET, reason="it was pasted by mistake").remaining == []
        assert sync(journal, open_folder(str(other), Files())).refusals == []
    with open_journal(str(other)) as journal:
        journal.project()
    assert [path for path in left if path.exists()] == []
    assert holders(root) == holders(str(other)) == []


def test_redacting_twice_finds_nothing_more(root):
    with open_journal(root) as journal:
        redact(journal, WRITER, secret=SECRET, reason="why")
        end = journal.end().next_seq
        again = redact(journal, WRITER, secret=SECRET, reason="why")
        assert (again.records, again.entities, again.objects, again.remaining) == ([], [], [], [])
        assert journal.end().next_seq == end


@pytest.mark.parametrize("is_read", [False, True])
def test_a_process_that_was_open_meanwhile_goes_on(root, is_read):
    """Its index is a file that is gone, and says of the segments where records lay before."""
    with open_journal(root) as other, open_journal(root) as journal:
        put(journal, 7, SECRET)
        put(journal, 7, "clean")
        put(journal, 8, "behind it")
        if is_read:
            other.refresh()
        redact(journal, WRITER, secret=SECRET, reason="pasted by mistake")
        for number in (9, 10):
            put(other, number, "later")
            assert other.damage is None
            assert b"later" in other.get("decision", item(number)).payload
        assert not other.index.is_memory
        assert not other.index.is_replaced()
    with open_journal(root) as journal:
        assert {item(number) for number in (7, 8, 9, 10)} <= {one.item_id for one in journal.entities()}
        assert examine(journal).exit_code == 0


def test_others_write_while_segments_are_rewritten(root):
    with open_journal(root) as journal:
        for number in range(20, 26):
            put(journal, number, f"of segment {number}")
            journal.roll()
    written = []

    def write(_done, _total):
        """As another process does at any time: where the lock were held it would not get it."""
        with open_journal(root) as other:
            number = 100 + len(written)
            other.mutate(lambda t: t.put("note", item(number, "not"), {"text": "meanwhile"}), WRITER, patience_s=0.0)
            written.append(item(number, "not"))

    with open_journal(root) as journal:
        done = redact(journal, WRITER, secret=SECRET, reason="it was pasted by mistake", progress=write)
        assert (sorted(one.seq for one in done.records), done.remaining) == ([2, 4, 5], [])
        assert len(written) > 2 * len(journal.reader(journal.lineage).segments()) - 2, (
            "while it looked, and while it rewrote"
        )
        assert all(journal.get("note", one) for one in written)
    assert holders(root) == []
    with open_journal(root) as journal:
        assert examine(journal).exit_code == 0


def test_a_dry_run_changes_nothing(root):
    with open_journal(root) as journal:
        journal.project()
        before = {
            path: path.read_bytes() for path in Path(root).rglob("*") if path.is_file() and "index" not in path.name
        }
        done = redact(journal, WRITER, secret=SECRET, reason="why", dry_run=True)
        assert sorted(one.seq for one in done.records) == [2, 4, 5]
        assert done.remaining == []  # what a redaction rewrites or makes anew is nothing that it cannot reach
        after = {
            path: path.read_bytes() for path in Path(root).rglob("*") if path.is_file() and "index" not in path.name
        }
        assert after.keys() == before.keys()
        assert [path.name for path in after if after[path] != before[path] and path.name != "lock"] == []


def test_records_named_by_their_seq(root):
    with open_journal(root) as journal:
        done = redact(journal, WRITER, seqs=[2], reason="why")
        assert [one.seq for one in done.records] == [2]
        record = next(entry.record for _, entry in journal.entries(journal.lineage) if entry.record.seq == 2)
        assert record.is_stub
        with pytest.raises(RefusedError, match=r"record 4 is the present version of decision dec_0+3") as told:
            redact(journal, WRITER, seqs=[4], reason="why")
        assert "`periplus undo --seq SEQ`" in told.value.mend
        with pytest.raises(NotFoundError, match="there is no record 99"):
            redact(journal, WRITER, seqs=[99], reason="why")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reason": "why"}, "nothing to redact"),
        ({"secret": SECRET, "reason": " "}, "recorded with its reason"),
        ({"secret": SECRET, "reason": f"because {SECRET}"}, "the reason repeats the secret"),
        ({"secret": "abc", "reason": "why"}, "has 3 bytes"),
        ({"secret": "x" * 70_000, "reason": "why"}, "has 70,000 bytes"),
    ],
)
def test_what_cannot_be_redacted(root, arguments, message):
    with open_journal(root) as journal:
        end = journal.end()
        with pytest.raises(UsageError, match=message) as caught:
            redact(journal, WRITER, **arguments)
        assert "Nothing was changed" in caught.value.safe
        assert journal.end() == end


def test_archived_segments_and_checkpoints_are_redacted_too(tmp_path):
    root = make_store(tmp_path)
    config = Path(root, "config.toml")
    config.write_text(config.read_text() + "live_segments = 1\n")
    with open_journal(root) as journal:
        put(journal, 1, f"once it was {SECRET}")
        for number in range(3):
            journal.roll()
            put(journal, 2, f"still {SECRET}, {number}")
            make_checkpoint(journal, WRITER)
        folder = Path(journal.layout.lineage_folder(journal.lineage), "archive")
        assert len(list(folder.glob("*.jsonl"))) >= 1
        assert any("archive" in path for path in holders(root))
        assert any("checkpoints" in path for path in holders(root))
        proof = prove_record(journal, 1)
        done = redact(journal, WRITER, secret=SECRET, reason="why")
        assert done.remaining == []
    assert holders(root) == []
    with open_journal(root) as journal:
        found = examine(journal)
        assert [one for one in found.problems if one.severity != "note"] == []
        assert len(list(usable_checkpoints(journal))) == 1
        assert journal.get("decision", item(2)).value == {"text": f"still {MASK}, 2"}
    assert verify_proof(proof).holds
    for suffix in ("", "-wal", "-shm"):
        Path(root, f"index.sqlite{suffix}").unlink(missing_ok=True)
    with open_journal(root) as journal:
        assert journal.damage is None
        assert journal.get("decision", item(1)).value == {"text": f"once it was {MASK}"}


@pytest.mark.parametrize("who", ["ada", "bob"])
def test_what_a_checkpoint_keeps_of_superseded_versions_goes_too(tmp_path, who):
    """The secret stands in no head, but in the version that two heads are merged over: in the checkpoint, and in the index made of it."""
    ada = make_store(tmp_path / "ada")
    bob = clone(ada, tmp_path / "bob")
    with open_journal(ada if who == "ada" else bob) as journal:
        put(journal, 1, f"once it was {SECRET}")
    with open_journal(bob) as journal:
        sync(journal, open_folder(ada, Files()))
    for root, text in ((ada, "no more"), (bob, "not any more")):
        with open_journal(root) as journal:
            put(journal, 1, text)
    with open_journal(ada) as journal:
        sync(journal, open_folder(bob, Files()))
        journal.roll()
        make_checkpoint(journal, WRITER)
    for suffix in ("", "-wal", "-shm"):
        Path(ada, f"index.sqlite{suffix}").unlink(missing_ok=True)
    with open_journal(ada) as journal:
        assert len(journal.get("decision", item(1)).heads) == 2
        assert journal.index.has_floors
    assert any("index.sqlite" in path for path in holders(ada))
    assert any("checkpoints" in path for path in holders(ada))
    with open_journal(ada if who == "ada" else bob) as journal:
        redact(journal, WRITER, secret=SECRET, reason="why")
    with open_journal(ada) as journal:
        sync(journal, open_folder(bob, Files()))
    assert holders(ada) == holders(bob) == []
    with open_journal(ada) as journal:
        entity = journal.get("decision", item(1))
        assert len(entity.heads) == 2
        assert entity.conflicts


def test_a_stub_that_no_audit_names_is_damage(root):
    with open_journal(root) as journal:
        entry = next(entry for _, entry in journal.entries(journal.lineage) if entry.record.seq == 2)
        path = Path(journal.reader(journal.lineage).path_of(1))
    data = path.read_bytes()
    line = data[entry.offset : entry.offset + entry.length - 1]
    path.write_bytes(data.replace(line + b"\n", make_stub(line, entry.leaf, "0" * 64)))
    with open_journal(root) as journal:
        found = examine(journal)
        assert found.exit_code == 3
        assert [(one.severity, one.seq) for one in found.problems if "audit record" in one.what] == [("error", 2)]


def test_torn_bytes_and_parked_files_are_blotted(root):
    with open_journal(root) as journal:
        path = Path(journal.reader(journal.lineage).path_of(1))
        folder = path.parent
    with path.open("ab") as file:
        file.write(b'{"v":2,"seq":7,"summary":"' + SECRET.encode())
    (folder / "000000000009.jsonl.parked").write_bytes(b"parked " + SECRET.encode() + b" end\n")
    with open_journal(root) as journal:
        put(journal, 6, "voids the torn bytes")
        redact(journal, WRITER, secret=SECRET, reason="why")
    assert holders(root) == []
    assert (folder / "000000000009.jsonl.parked").read_bytes().startswith(b"parked xxx")
    with open_journal(root) as journal:
        assert journal.damage is None
        assert journal.get("decision", item(6)).value == {"text": "voids the torn bytes"}


def test_a_record_shorter_than_its_stub_with_voided_bytes_behind_it(root):
    """What comes after is moved, and what a later record voids with it."""
    with open_journal(root) as journal:
        path = Path(journal.reader(journal.lineage).path_of(1))
        journal.mutate(lambda t: t.put("decision", item(6), {"t": SECRET}), WRITER)
        journal.mutate(lambda t: t.put("decision", item(6), {"t": ""}), WRITER)
    for number in (7, 8):
        with path.open("ab") as file:
            file.write(b'{"v":2,"seq":7,"summary":"' + SECRET.encode())
        with open_journal(root) as journal:
            put(journal, number, f"voids the torn bytes, and {SECRET}")
            put(journal, number, "gone")
    size = path.stat().st_size
    with open_journal(root) as journal:
        before = [entry.leaf for _, entry in journal.entries(journal.lineage)]
        redact(journal, WRITER, secret=SECRET, reason="why")
    assert path.stat().st_size > size
    assert holders(root) == []
    with open_journal(root) as journal:
        assert journal.damage is None
        assert [entry.leaf for _, entry in journal.entries(journal.lineage)][: len(before)] == before
        found = examine(journal)
        assert found.exit_code == 0
        assert sum("voided" in problem.what for problem in found.problems) == 2
        put(journal, 9, "goes on")


@pytest.mark.slow
def test_a_stop_at_every_call_and_the_same_command_again(tmp_path):
    at, stops = 0, 0
    while True:
        folder = tmp_path / str(at)
        folder.mkdir()
        root = make_store(folder)
        with open_journal(root) as journal:
            put(journal, 1, f"it is {SECRET}")
            put(journal, 1, "gone")
            put(journal, 2, f"now {SECRET}")
            put(journal, 3, "z" * PAYLOAD_INLINE_MAX + SECRET)
        files = StoppingFiles(at)
        try:
            with open_journal(root, files=files) as journal:
                redact(journal, WRITER, secret=SECRET, reason="why")
        except Stop:
            stops += 1
        with open_journal(root) as journal:
            assert journal.damage is None, at
            assert journal.get("decision", item(1)).value == {"text": "gone"}
            redact(journal, WRITER, secret=SECRET, reason="why")
            assert journal.get("decision", item(2)).value == {"text": f"now {MASK}"}
            put(journal, 4, "goes on")
            seqs = [entry.record.seq for _, entry in journal.entries(journal.lineage)]
            assert seqs == list(range(1, len(seqs) + 1))
        assert [path for path in holders(root) if not path.endswith(".tmp")] == [], at
        if at >= len(files.calls):
            break
        at += 1
    assert stops > 30


def test_a_redaction_that_finds_nothing_leaves_the_checkpoint(root):
    """Each time it made the checkpoint anew, and wrote a record of it."""
    with open_journal(root) as journal:
        redact(journal, WRITER, secret=SECRET, reason="why")
        make_checkpoint(journal, WRITER)
        end, [usable] = journal.end().next_seq, usable_checkpoints(journal)
        for _ in range(2):
            assert redact(journal, WRITER, secret=SECRET, reason="why").records == []
        assert journal.end().next_seq == end
        assert [one.path for one in usable_checkpoints(journal)] == [usable.path]


def test_a_checkpoint_that_alone_holds_the_secret_goes(root):
    """As where a redaction was stopped when the records were emptied: another process had made it meanwhile."""
    with open_journal(root) as journal:
        make_checkpoint(journal, WRITER)
        [usable] = usable_checkpoints(journal)
        held = Path(usable.path).read_bytes()
        redact(journal, WRITER, secret=SECRET, reason="why")
        Path(usable.path).write_bytes(held)
        assert holders(root) == [usable.path]
        redact(journal, WRITER, secret=SECRET, reason="why")
    assert holders(root) == []
