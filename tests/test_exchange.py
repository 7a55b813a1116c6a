"""Exchange of lineages: one contract for every carrier, forks, stops at every call, hostile and damaged copies."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import pytest

from periplus.base.clock import SystemClock
from periplus.base.errors import ConflictError, DamageError, ForkError, RefusedError, UsageError
from periplus.base.files import Files
from periplus.journal.care.doctor import examine
from periplus.journal.care.redaction import redact
from periplus.journal.carriers import GitCarrier, open_folder
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.exchange.sync import sync
from periplus.journal.records.record import decode_line, seal_line
from periplus.journal.records.stub import make_stub
from periplus.journal.storage.settings import read_lineage
from periplus.journal.storage.tree_head import SignedHead, TreeHead, encode_head, head_message
from support import WRITER, Stop, StoppingFiles, item, make_store, open_journal, settle

KINDS = ("store", "exchange", "git")


def put(number, text):
    return lambda t: t.put("decision", item(number), {"text": text})


def clone(root, folder, **settings):
    """A clone has the settings and no journal."""
    path = folder / ".periplus"
    path.mkdir(parents=True)
    (path / "config.toml").write_bytes(Path(root, "config.toml").read_bytes())
    return os.fspath(path)


class Medium:
    """Where clones meet: a third clone's store, an exchange folder, or a git repository."""

    def __init__(self, kind, folder, root):
        self.kind = kind
        self.path = folder / "medium"
        if kind == "store":
            clone(root, self.path)
        if kind == "git":
            git("init", "-q", "--bare", self.path)

    def carrier(self, journal, files=None, *, name="cache"):
        if self.kind != "git":
            return open_folder(os.fspath(self.path), files or Files())
        cache = Path(journal.layout.root, name)
        found = GitCarrier(
            os.fspath(self.path), os.fspath(cache), place="hub", stores=journal.stores, environment=environment(),
            clock=SystemClock(),
        )  # fmt: skip
        found.connect()
        return found

    def exchange(self, root, **how):
        """One sync of the store at ``root``, opened for it; raises what was refused."""
        with open_journal(root) as journal:
            report = sync(journal, self.carrier(journal), **how)
            for error in report.refusals:
                raise error
            return report


def environment():
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_DIR": "/nonexistent"}


def git(*words, **how):
    kept = {key: value for key, value in environment().items() if key != "GIT_DIR"}
    return subprocess.run(["git", *map(os.fspath, words)], env=kept, check=True, capture_output=True, **how).stdout


def tree(folder, *, without=()):
    """Every file below ``folder`` and its bytes' digest, but locks and the index, which say nothing of their own."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not name.endswith(("lock", "-wal", "-shm", "index.sqlite", *without)):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def taken(root):
    """All but what is the store's own: a lineage that is refused does not keep ours from going out."""
    own = read_lineage(open_folder(root, Files()).layout).lineage
    return {name: digest for name, digest in tree(root).items()
            if not name.startswith(("journal/tree/", f"journal/peers/{own}"))}  # fmt: skip


def state(root):
    with open_journal(root) as journal:
        journal.project()
        return [
            (entity.item_type, entity.item_id, entity.version, entity.heads, entity.rev, entity.payload)
            for entity in sorted(journal.entities(), key=lambda entity: (entity.item_type, entity.item_id))
        ]


def files_of(root):
    return tree(Path(root, "entities"))


def records(root):
    """Leaves by lineage."""
    with open_journal(root) as journal:
        assert journal.damage is None
        return {name: [entry.leaf for _, entry in journal.entries(name)] for name in journal.lineages()}


@pytest.fixture
def ada(tmp_path):
    root = make_store(tmp_path / "ada", SystemClock())
    with open_journal(root) as journal:
        for number in range(4):
            journal.mutate(put(number, f"ada's {number}"), WRITER)
        journal.mutate(lambda t: [t.put("note", item(n, "not"), {"text": "n" * 70_000}) for n in (1, 2)], WRITER)
    return root


@pytest.fixture
def bob(tmp_path, ada):
    root = clone(ada, tmp_path / "bob")
    with open_journal(root) as journal:
        for number in range(3, 6):
            journal.mutate(put(number, f"bob's {number}"), WRITER)
    return root


@pytest.fixture(params=KINDS)
def medium(request, tmp_path, ada):
    return Medium(request.param, tmp_path, ada)


@pytest.fixture
def exchange_folder(tmp_path, ada):
    return Medium("exchange", tmp_path, ada)


# -- the contract of every carrier -----------------------------------------------------------------------------------


def test_both_sides_hold_the_same_in_the_end(medium, ada, bob):
    first = medium.exchange(ada)
    assert [(one.direction, one.records, one.objects) for one in first.transfers] == [("out", 6, 1)]
    second = medium.exchange(bob)
    mine = {one.direction: one.records for one in second.transfers if one.records}
    assert mine == {"in": 6, "out": 3}
    assert second.conflicts == [("decision", item(3))]
    third = medium.exchange(ada)
    assert [one.records for one in third.transfers if one.direction == "in" and one.records] == [3]
    assert third.conflicts == [("decision", item(3))]
    assert state(ada) == state(bob)
    assert files_of(ada) == files_of(bob)
    assert records(ada) == records(bob)
    for root in (ada, bob):
        with open_journal(root) as journal:
            assert "error" not in {problem.severity for problem in examine(journal).problems}


def test_a_sync_with_nothing_new_changes_nothing(medium, ada, bob, tmp_path):
    for root in (ada, bob, ada, bob, ada):
        medium.exchange(root)
    before = [tree(tmp_path / name) for name in ("ada", "bob", "medium")]
    report = medium.exchange(ada)
    assert [one.records for one in report.transfers] == [0] * len(report.transfers)
    assert [tree(tmp_path / name) for name in ("ada", "bob", "medium")] == before


@pytest.mark.slow
def test_what_came_later_follows_through_many_segments(medium, ada, bob):
    for root in (ada, bob):
        config = Path(root, "config.toml")
        config.write_text(config.read_text() + "segment_bytes = 900\n")
    for turn in range(4):
        for root in (ada, bob):
            with open_journal(root) as journal:
                for number in range(3):
                    journal.mutate(put(turn * 3 + number, f"turn {turn} in {journal.lineage}"), WRITER)
            medium.exchange(root)
    medium.exchange(ada)
    assert state(ada) == state(bob)
    assert files_of(ada) == files_of(bob)
    assert records(ada) == records(bob)
    with open_journal(ada) as journal:
        assert len(journal.reader(journal.lineage).segments()) > 3


def test_a_dry_run_says_what_would_happen_and_changes_nothing(medium, ada, bob, tmp_path):
    medium.exchange(ada)
    with open_journal(bob) as journal:
        journal.project()
    before = [tree(tmp_path / name) for name in ("ada", "bob", "medium")]
    with open_journal(bob) as journal, tempfile.TemporaryDirectory() as aside:
        planned = sync(journal, medium.carrier(journal, name=os.path.join(aside, "git")), dry_run=True)
    assert [tree(tmp_path / name) for name in ("ada", "bob", "medium")] == before
    done = medium.exchange(bob)
    assert planned.dry_run
    assert [one for one in planned.transfers if one.records] == [one for one in done.transfers if one.records]
    assert {one.direction: one.records for one in planned.transfers if one.records} == {"in": 6, "out": 3}


def test_an_unfinished_write_stays_at_home(medium, ada, bob):
    with open_journal(ada) as journal:
        segment = Path(journal.reader(journal.lineage).path_of(1))
        lineage = journal.lineage
    with segment.open("ab") as file:
        file.write(b'{"v":2,"seq":7,"ts":"2026-')
    medium.exchange(ada)
    medium.exchange(bob)
    assert len(records(bob)[lineage]) == 6
    copy = Path(bob, "journal", lineage, "000000000001.jsonl").read_bytes()
    assert segment.read_bytes().startswith(copy)
    assert copy.endswith(b"}\n")


def test_two_stores_that_write_one_lineage_are_told_and_neither_takes_the_other(medium, ada, bob, tmp_path):
    shutil.copytree(Path(ada).parent, tmp_path / "twin")
    twin = os.fspath(tmp_path / "twin/.periplus")
    settle(twin)  # nobody noticed that it is a copy
    for root, text in ((ada, "the owner's"), (twin, "the twin's")):
        with open_journal(root) as journal:
            journal.mutate(put(9, text), WRITER)
            lineage = journal.lineage
    leaves = [records(root)[lineage][6].hex() for root in (ada, twin)]
    medium.exchange(ada)
    medium.exchange(bob)
    before = [tree(root, without=(".json",)) for root in (ada, bob, medium.path)]
    with pytest.raises(ForkError) as caught:
        medium.exchange(twin)
    assert all(leaf in str(caught.value) for leaf in leaves)
    assert [tree(root, without=(".json",)) for root in (ada, bob, medium.path)] == before
    assert state(twin) != state(ada)


def test_a_store_put_back_to_an_earlier_state_leaves_its_lineage_and_gets_the_rest_back(medium, ada, bob):
    kept = {path: path.read_bytes() for path in Path(ada).rglob("*") if path.is_file()}
    with open_journal(ada) as journal:
        old = journal.lineage
        journal.mutate(put(9, "written after the snapshot"), WRITER)
    medium.exchange(ada)
    for path in Path(ada).rglob("*"):  # in place, as a file system does it: no inode tells
        if path.is_file() and path not in kept:
            path.unlink()
    for path, data in kept.items():
        with path.open("r+b") as file:
            file.truncate()
            file.write(data)
    report = medium.exchange(ada)
    assert report.left == old
    with open_journal(ada) as journal:
        assert journal.lineage not in ("", old)
        assert journal.own.previous == old
        assert journal.get("decision", item(9)).value == {"text": "written after the snapshot"}
        assert journal.mutate(put(9, "goes on"), WRITER).first_seq == 1
    medium.exchange(ada)
    medium.exchange(bob)
    medium.exchange(ada)
    assert state(ada) == state(bob)


def converge(medium, roots, dice, steps):
    for _ in range(steps):
        root = dice.choice(roots)
        if dice.random() < 0.4:
            medium.exchange(root)
            continue
        with open_journal(root) as journal:
            number = dice.randrange(4)
            held = journal.get("decision", item(number))
            if held is not None and dice.random() < 0.2:
                journal.mutate(lambda t, n=number: t.delete("decision", item(n)), WRITER)
            else:
                fields = {} if held is None else held.value
                fields |= {dice.choice(["a", "b", "c"]): dice.randrange(5), "text": f"{dice.randrange(9)}"}
                journal.mutate(lambda t, n=number, f=fields: t.put("decision", item(n), f), WRITER)
    for root in (*roots, *roots):
        medium.exchange(root)
    for held in (records, state, files_of):
        assert all(held(root) == held(roots[0]) for root in roots)


@pytest.mark.slow
def test_the_clones_converge_whatever_they_do_in_whatever_order(medium, ada, tmp_path):
    roots = [ada, *(clone(ada, tmp_path / name) for name in ("bob", "cleo"))]
    converge(medium, roots, random.Random(20260131), 40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_any_number_of_clones_converges(exchange_folder, ada, tmp_path, seed):
    dice = random.Random(f"clones {seed}")
    roots = [ada, *(clone(ada, tmp_path / f"clone{number}") for number in range(dice.randint(3, 6)))]
    converge(exchange_folder, roots, dice, 80)


@pytest.mark.slow
def test_what_was_redacted_is_taken_out_of_every_copy(medium, ada, bob):
    """A stub and its record are one; the stub wins, and a git ref that carried the record has no past any more."""
    secret = "correct horse battery staple"
    with open_journal(ada) as journal:
        journal.mutate(put(7, f"the password is {secret}"), WRITER)
        journal.mutate(lambda t: t.put("note", item(7, "not"), {"text": secret + "n" * 70_000}), WRITER)
    for root in (ada, bob, ada):
        medium.exchange(root)
    with open_journal(bob) as journal:
        assert make_checkpoint(journal, WRITER)
    assert any(secret.encode() in path.read_bytes() for path in Path(bob, "journal", "checkpoints").iterdir())
    before = records(bob)
    with open_journal(ada) as journal:
        redact(journal, WRITER, secret=secret, reason="pasted by mistake")
    for root in (ada, bob, ada):
        medium.exchange(root)
    assert records(ada) == records(bob)
    assert all(records(bob)[lineage][: len(leaves)] == leaves for lineage, leaves in before.items())
    assert state(ada) == state(bob)
    assert files_of(ada) == files_of(bob)
    needles = (secret.encode(), zlib.compress((secret + "n" * 70_000).encode())[:40])
    for folder in (ada, bob, medium.path):
        for path in Path(folder).rglob("*"):
            if path.is_file() and "cache" not in path.parts:
                assert not any(needle in path.read_bytes() for needle in needles), path
    if medium.kind == "git":
        for ref in git("-C", medium.path, "for-each-ref", "--format=%(refname)").decode().split():
            for commit in git("-C", medium.path, "rev-list", ref).decode().split():
                assert secret.encode() not in git("-C", medium.path, "grep", "-a", "-h", "-e", ".", commit)
        for cache in (path for root in (ada, bob) for path in Path(root).iterdir() if (path / "HEAD").is_file()):
            assert git("-C", cache, "for-each-ref")
            assert secret.encode() not in git("-C", cache, "cat-file", "--batch-all-objects", "--batch", "--buffer")
    for root in (ada, bob):
        with open_journal(root) as journal:
            assert "error" not in {problem.severity for problem in examine(journal).problems}


def test_a_stub_that_no_audit_record_names_is_refused(exchange_folder, ada, bob):
    exchange_folder.exchange(ada)
    exchange_folder.exchange(bob)
    folder = exchange_folder.path / "journal"
    path = next(path for path in folder.glob("lin_*/000000000001.jsonl") if b"ada's" in path.read_bytes())
    lines = path.read_bytes().split(b"\n")
    _, leaf = decode_line(lines[2])
    lines[2] = make_stub(lines[2], leaf, "0" * 64)[:-1]
    path.write_bytes(b"\n".join(lines))
    before = taken(bob)
    with pytest.raises(DamageError, match="no record says so"):
        exchange_folder.exchange(bob)
    assert taken(bob) == before


def test_an_audited_stub_that_a_carrier_changed_is_refused(exchange_folder, ada, bob):
    """Its fields are no part of the tree: it could take the place of another entity's version, were it not for the audit."""
    with open_journal(ada) as journal:
        journal.mutate(put(7, "the password is correct horse battery staple"), WRITER)
        redact(journal, WRITER, secret="correct horse battery staple", reason="pasted by mistake")
    exchange_folder.exchange(ada)
    folder = exchange_folder.path / "journal"
    path = next(path for path in folder.glob("lin_*/000000000001.jsonl") if b'"leaf":"' in path.read_bytes())
    lines = path.read_bytes().split(b"\n")
    at = next(at for at, line in enumerate(lines) if b'"leaf":"' in line)
    body = lines[at][: lines[at].rindex(b',"sum"')].replace(item(7).encode(), item(1).encode())
    lines[at] = seal_line(body)[0][:-1]
    path.write_bytes(b"\n".join(lines))
    before = taken(bob)
    with pytest.raises(DamageError, match="no record says so"):
        exchange_folder.exchange(bob)
    assert taken(bob) == before


# -- what is refused -------------------------------------------------------------------------------------------------


def test_another_project_and_the_store_itself_are_refused(ada, tmp_path):
    other = make_store(tmp_path / "other", SystemClock())
    with open_journal(ada) as journal:
        with pytest.raises(RefusedError, match="another project"):
            sync(journal, open_folder(other, Files()))
        with pytest.raises(UsageError, match="this very store"):
            sync(journal, open_folder(str(Path(ada).parent), Files()))


def test_a_folder_of_other_things_is_refused(ada, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "me.png").write_bytes(b"")
    with pytest.raises(UsageError, match="neither a store nor an exchange folder"):
        open_folder(os.fspath(tmp_path / "photos"), Files())
    with pytest.raises(UsageError, match="there is no folder"):
        open_folder(os.fspath(tmp_path / "not" / "there"), Files())


def forged(head, key, **changes):
    fields = {"store": head.head.store, "lineage": head.head.lineage, "size": head.head.size, "root": head.head.root}
    found = TreeHead(**fields | changes)
    raw = key.public_key().public_bytes_raw().hex()
    return SignedHead(1, found, raw, key.sign(head_message(found)).hex())


def test_a_key_that_changed_is_refused(exchange_folder, ada, bob):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    exchange_folder.exchange(ada)
    exchange_folder.exchange(bob)
    with open_journal(ada) as journal:
        journal.mutate(put(9, "more"), WRITER)
        lineage = journal.lineage
    exchange_folder.exchange(ada)
    path = exchange_folder.path / "journal" / lineage / "head.json"
    with open_journal(bob) as journal:
        head = exchange_folder.carrier(journal).head(lineage)
    path.write_bytes(encode_head(forged(head, Ed25519PrivateKey.generate())))
    before = taken(bob)
    with pytest.raises(RefusedError, match="was first seen with key"):
        exchange_folder.exchange(bob)
    assert taken(bob) == before


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [({"size": 7}, "cut short"), ({"root": "0" * 64}, "another past"), ({"size": 5}, "half a batch"),
     ({"lineage": "lin_0000000000000000"}, "is of lin_0"), ({"store": "str_0000000000000000"}, "is of lin_")],
)  # fmt: skip
def test_a_head_that_does_not_fit_the_records_is_refused(exchange_folder, ada, bob, changes, wrong):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    exchange_folder.exchange(ada)
    lineage = read_lineage(open_folder(ada, Files()).layout).lineage
    path = exchange_folder.path / "journal" / lineage / "head.json"
    with open_journal(bob) as journal:
        head = exchange_folder.carrier(journal).head(lineage)
    raw = bytes.fromhex(Path(ada, "journal/keys", f"{lineage}.private").read_text())
    path.write_bytes(encode_head(forged(head, Ed25519PrivateKey.from_private_bytes(raw), **changes)))
    with pytest.raises((DamageError, RefusedError), match=wrong):
        exchange_folder.exchange(bob)
    assert lineage not in records(bob)


def test_a_head_that_nobody_signed_is_refused(exchange_folder, ada, bob):
    exchange_folder.exchange(ada)
    path = next((exchange_folder.path / "journal").glob("lin_*/head.json"))
    text = path.read_text()
    signature = json.loads(text)["signature"]
    path.write_text(text.replace(signature, signature[::-1]))
    with pytest.raises(DamageError, match="not signed by the key"):
        exchange_folder.exchange(bob)
    path.unlink()
    with pytest.raises(RefusedError, match="no signed head"):
        exchange_folder.exchange(bob)
    assert len(records(bob)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("how", ["flip", "cut"])
def test_a_damaged_copy_is_refused_at_every_sampled_byte(exchange_folder, ada, bob, how):
    exchange_folder.exchange(ada)
    path = next((exchange_folder.path / "journal").glob("lin_*/000000000001.jsonl"))
    sound = path.read_bytes()
    before = taken(bob)
    for place in range(0, len(sound), 37):
        path.write_bytes(
            sound[:place] if how == "cut" else sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :]
        )
        with pytest.raises((DamageError, RefusedError, ForkError)):
            exchange_folder.exchange(bob)
        assert taken(bob) == before
    path.write_bytes(sound)
    assert 6 in [one.records for one in exchange_folder.exchange(bob).transfers]


@pytest.mark.slow
def test_a_damaged_store_never_gives_what_was_not_written(ada, bob, tmp_path):
    """A store's own foreign copies carry a head; its own records beyond it are checked by their sums and its mark."""
    lineage = read_lineage(open_folder(ada, Files()).layout).lineage
    path = Path(ada, "journal", lineage, "000000000001.jsonl")
    sound = path.read_bytes()
    whole = records(ada)[lineage]
    for place in range(0, len(sound), 97):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        twin = tmp_path / f"bob{place}"
        shutil.copytree(bob, twin / ".periplus")
        with open_journal(os.fspath(twin / ".periplus")) as journal:
            report = sync(journal, open_folder(ada, Files()))
            assert report.refusals
        held = records(os.fspath(twin / ".periplus")).get(lineage, [])
        assert held == whole[: len(held)]
        shutil.rmtree(twin)


def test_a_missing_object_keeps_its_records_out_until_it_comes(exchange_folder, ada, bob):
    exchange_folder.exchange(ada)
    held = next((exchange_folder.path / "objects").glob("*/*"))
    data = held.read_bytes()
    held.unlink()
    before = taken(bob)
    with pytest.raises(RefusedError, match="is missing"):
        exchange_folder.exchange(bob)
    assert taken(bob) == before
    held.write_bytes(data)
    assert 6 in [one.records for one in exchange_folder.exchange(bob).transfers]


def test_a_shorter_copy_shortens_nothing(exchange_folder, ada, bob, tmp_path):
    exchange_folder.exchange(ada)
    shutil.copytree(exchange_folder.path, tmp_path / "old")
    with open_journal(ada) as journal:
        journal.mutate(put(9, "more"), WRITER)
    exchange_folder.exchange(ada)
    exchange_folder.exchange(bob)
    before = records(bob)
    shutil.rmtree(exchange_folder.path)
    os.rename(tmp_path / "old", exchange_folder.path)
    report = exchange_folder.exchange(bob)
    assert records(bob) == before
    sent = [one for one in report.transfers if one.direction == "out" and one.records]
    assert sorted(one.records for one in sent) == [1, 3]  # and what the copy lacks goes to it


def test_links_in_an_exchange_folder_are_not_followed(exchange_folder, ada, bob, tmp_path):
    exchange_folder.exchange(ada)
    folder = next((exchange_folder.path / "journal").glob("lin_*"))
    os.rename(folder, tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DamageError, match="symbolic link"):
        exchange_folder.exchange(bob)
    folder.unlink()
    os.rename(tmp_path / "elsewhere", folder)
    os.rename(folder / "000000000001.jsonl", tmp_path / "segment")
    (folder / "000000000001.jsonl").symlink_to(tmp_path / "segment")
    with pytest.raises(DamageError, match="symbolic link"):
        exchange_folder.exchange(bob)


# -- a git repository that means harm ----------------------------------------------------------------------------------


def make_ref(hub, lineage, entries):
    """A ref whose tree has ``entries``: mode, path, bytes."""
    stream = [f"commit refs/periplus/{lineage}\ncommitter x <x@x> 0 +0000\ndata 0\n".encode()]
    for mode, path, data in entries:
        stream.append(f"M {mode} inline {path}\ndata {len(data)}\n".encode() + data + b"\n")
    git("-C", hub, "fast-import", "--quiet", "--force", input=b"".join(stream))


def test_odd_trees_in_a_git_repository_are_refused_and_do_not_hinder_others(ada, bob, tmp_path):
    hub = Medium("git", tmp_path, ada)
    hub.exchange(ada)
    lineage = read_lineage(open_folder(ada, Files()).layout).lineage
    segment = git("-C", hub.path, "cat-file", "blob", f"refs/periplus/{lineage}:segments/000000000001.jsonl")
    head = git("-C", hub.path, "cat-file", "blob", f"refs/periplus/{lineage}:head.json")
    first = "segments/000000000001.jsonl"
    odd = {
        "lin_0000000000000001": [("120000", first, b"/etc/passwd"), ("100644", "head.json", head)],
        "lin_0000000000000002": [("100644", first, segment), ("120000", "head.json", b"/etc/passwd")],
        "lin_0000000000000003": [("100644", "head.json", b"{" * 20_000), ("100644", first, segment)],
        "lin_0000000000000004": [("100644", "head.json", head), ("100644", first, segment)],
        "lin_0000000000000005": [("100644", "somewhere/else", b"x"), ("100755", "run.sh", b"touch x")],
        "lin_0000000000000006": [("100644", f"{first}/000000000001.jsonl", segment)],
    }
    for name, entries in odd.items():
        make_ref(hub.path, name, entries)
    git("-C", hub.path, "update-ref", "refs/periplus/not-a-lineage", f"refs/periplus/{lineage}")
    with open_journal(bob) as journal:
        report = sync(journal, hub.carrier(journal))
        came = {one.lineage: one for one in report.transfers if one.direction == "in"}
        assert came[lineage].records == 6
        assert all(came[name].refused is not None for name in odd if name in came)
        assert {f"lin_000000000000000{number}" for number in range(1, 5)} <= set(came)
        assert sorted(journal.lineages()) == sorted([lineage, journal.lineage])
    assert not list(tmp_path.rglob("x"))


def test_a_tree_with_a_path_that_leads_elsewhere_is_refused(ada, bob, tmp_path):
    hub = Medium("git", tmp_path, ada)
    hub.exchange(ada)

    def write(kind, data):
        words = ("hash-object", "-w", "-t", kind, "--literally", "--stdin")
        return bytes.fromhex(git("-C", hub.path, *words, input=data).decode().strip())

    tree_of = write("tree", b"40000 ..\0" + write("tree", b"100644 head.json\0" + write("blob", b"harm")))
    body = f"tree {tree_of.hex()}\nauthor x <x@x> 0 +0000\ncommitter x <x@x> 0 +0000\n\nx"
    git("-C", hub.path, "update-ref", "refs/periplus/lin_0000000000000009", write("commit", body.encode()).hex())
    with open_journal(bob) as journal:
        report = sync(journal, hub.carrier(journal))
        came = {one.lineage: one for one in report.transfers if one.direction == "in"}
        assert came["lin_0000000000000009"].refused is not None
        assert [one.records for name, one in came.items() if name != "lin_0000000000000009"] == [6]


def test_a_ref_that_somebody_else_moved_is_not_pushed_over(ada, tmp_path):
    hub = Medium("git", tmp_path, ada)
    hub.exchange(ada)
    lineage = read_lineage(open_folder(ada, Files()).layout).lineage
    with open_journal(ada) as journal:
        journal.mutate(put(8, "more"), WRITER)
        carrier = hub.carrier(journal)
        make_ref(hub.path, lineage, [("100644", "segments/000000000001.jsonl", b"other")])
        moved = git("-C", hub.path, "rev-parse", f"refs/periplus/{lineage}")
        report = sync(journal, carrier)
    assert [type(one.refused) for one in report.transfers if one.direction == "out"] == [ConflictError]
    assert git("-C", hub.path, "rev-parse", f"refs/periplus/{lineage}") == moved


# -- stops -----------------------------------------------------------------------------------------------------------


def copied(root, folder):
    """Copy a store, and let the copy be the same clone."""
    shutil.copytree(Path(root).parent, folder)
    settle(folder / ".periplus")
    return os.fspath(folder / ".periplus")


def stopped_at_every_call(make, run, check):
    for at in range(200):
        files = StoppingFiles(at, share=0.5)
        place = make(at)
        try:
            run(place, files)
        except Stop:
            check(place)
        else:
            return at
    pytest.fail("there is no end to the calls")


@pytest.mark.slow
def test_a_stop_at_every_call_of_taking(exchange_folder, ada, bob, tmp_path):
    exchange_folder.exchange(ada)
    whole = records(ada)

    def make(at):
        return copied(bob, tmp_path / f"bob{at}")

    def run(root, files):
        with open_journal(root, files) as journal:
            sync(journal, exchange_folder.carrier(journal), dry_run=False)

    def check(root):
        held = records(root)
        for lineage, leaves in whole.items():
            assert held.get(lineage, []) in ([], leaves)
        exchange_folder.exchange(root)
        assert records(root).items() >= whole.items()
        assert not Path(root, "journal/incoming").exists()
        with open_journal(root) as journal:
            assert "error" not in {problem.severity for problem in examine(journal).problems}

    assert stopped_at_every_call(make, run, check) > 25


@pytest.mark.slow
def test_a_stop_at_every_call_of_giving(ada, bob, tmp_path):
    whole = records(ada)

    def make(at):
        return Medium("exchange", tmp_path / f"m{at}", ada)

    def run(medium, files):
        medium.path.parent.mkdir()
        with open_journal(ada) as journal:
            sync(journal, medium.carrier(journal, files))

    def check(medium):
        root = clone(ada, medium.path.parent / "reader")
        with open_journal(root) as journal:
            if (medium.path / "exchange.json").exists():
                sync(journal, medium.carrier(journal))
                assert records(root) in ({}, whole)
        medium.exchange(ada)
        medium.exchange(root)
        assert records(root) == whole

    assert stopped_at_every_call(make, run, check) > 15


@pytest.mark.slow
def test_a_stop_at_every_call_of_giving_to_a_store(ada, bob, tmp_path):
    whole = records(ada)
    theirs = records(bob)

    def make(at):
        shutil.copytree(Path(bob).parent, tmp_path / f"bob{at}")
        return os.fspath(tmp_path / f"bob{at}/.periplus")

    def run(root, files):
        with open_journal(ada) as journal:
            sync(journal, open_folder(root, files))

    def check(root):
        held = records(root)  # as a reader finds it at any moment
        assert held.items() >= theirs.items()
        assert all(held.get(lineage, []) in ([], leaves) for lineage, leaves in whole.items())
        run(root, Files())
        assert records(root).items() >= {**whole, **theirs}.items()
        with open_journal(root) as journal:
            journal.mutate(put(50, "a writer goes on"), WRITER)
            assert "error" not in {problem.severity for problem in examine(journal).problems}

    assert stopped_at_every_call(make, run, check) > 15


@pytest.mark.slow
def test_hard_stops_in_a_redaction_that_arrives_are_finished_by_the_next_sync(exchange_folder, ada, bob, tmp_path):
    secret = "correct horse battery staple"
    with open_journal(ada) as journal:
        journal.mutate(lambda t: t.put("note", item(7, "not"), {"text": secret + "n" * 70_000}), WRITER)
    for root in (ada, bob, ada):
        exchange_folder.exchange(root)
    with open_journal(ada) as journal:
        redact(journal, WRITER, secret=secret, reason="pasted by mistake")
    exchange_folder.exchange(ada)

    def make(at):
        return copied(bob, tmp_path / f"bob{at}")

    def run(root, files):
        with open_journal(root, files) as journal:
            sync(journal, exchange_folder.carrier(journal))

    def check(root):
        records(root)
        exchange_folder.exchange(root)
        assert state(root) == state(ada)
        for path in Path(root).rglob("*"):
            assert not path.is_file() or secret.encode() not in path.read_bytes(), path
        held = {path.name for path in Path(root, "objects").glob("*/*") if path.suffix != ".tmp"}
        assert held == {path.name for path in Path(ada, "objects").glob("*/*")}

    assert stopped_at_every_call(make, run, check) > 15


WRITING = """
import sys
sys.path[:0] = {paths!r}
from support import WRITER, item, open_journal
with open_journal({root!r}) as journal:
    for number in range({count}):
        journal.mutate(lambda t: t.put("decision", item(1000 + number % 50), {{"text": str(number)}}), WRITER)
"""


@pytest.mark.slow
def test_syncs_beside_a_store_that_is_written_lose_nothing(ada, bob):
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")]
    code = WRITING.format(paths=paths, root=bob, count=150)
    writing = subprocess.Popen([sys.executable, "-c", code])
    with open_journal(ada) as journal:
        rounds = 0
        while writing.poll() is None:
            journal.mutate(put(rounds % 50, f"round {rounds}"), WRITER)
            report = sync(journal, open_folder(bob, Files()))
            assert [error for error in report.refusals if not isinstance(error, ConflictError)] == []
            rounds += 1
        assert writing.returncode == 0
        assert rounds > 1
        sync(journal, open_folder(bob, Files()))
        assert len(list(journal.entries(journal.lineage))) == 6 + rounds
    assert records(ada) == records(bob)
    assert state(ada) == state(bob)
    lineage = read_lineage(open_folder(bob, Files()).layout).lineage
    assert len(records(bob)[lineage]) == 3 + 150
