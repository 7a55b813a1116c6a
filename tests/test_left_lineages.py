"""A lineage that was left (the machine got another name, a container is gone) reaches the others all the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.journal.care.doctor import examine
from periplus.journal.carriers import GitCarrier, open_folder
from periplus.journal.exchange.sync import sync
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.settings import read_lineage
from support import WRITER, Stop, StoppingFiles, item, make_store, open_journal


@pytest.fixture(params=["folder", "git"])
def meet(request, tmp_path):
    """Exchange the store at a root through an exchange folder or a git repository; gives the report."""
    place = tmp_path / "place"
    if request.param == "git":
        subprocess.run(["git", "init", "-q", "--bare", place], check=True, capture_output=True)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_DIR": "/nonexistent",
    }

    def exchange(root, files=None, **how):
        with open_journal(root, files) as journal:
            if request.param == "folder":
                other = open_folder(os.fspath(place), files or Files())
            else:
                other = GitCarrier(
                    os.fspath(place), os.path.join(root, "cache"), place="hub", stores=journal.stores, environment=environment,
                    clock=SystemClock(),
                )  # fmt: skip
                other.connect()
            report = sync(journal, other, **how)
            assert not report.refusals
            return report

    return exchange


@pytest.fixture
def ada(tmp_path):
    root = make_store(tmp_path / "ada", SystemClock())
    write(root, 0, "one")
    write(root, 1, "two")
    return root


@pytest.fixture
def bob(tmp_path, ada):
    root = tmp_path / "bob" / ".periplus"
    root.mkdir(parents=True)
    for name in ("config.toml", ".gitignore"):
        (root / name).write_bytes(Path(ada, name).read_bytes())
    return os.fspath(root)


def write(root, number, text):
    with open_journal(root) as journal:
        return journal.mutate(lambda transaction: transaction.put("decision", item(number), {"text": text}), WRITER)


def texts(root):
    with open_journal(root) as journal:
        assert journal.damage is None
        return sorted(entity.value["text"] for entity in journal.entities())


def rename_host(root):
    """As where a machine gets another name: the very same files, written elsewhere by their own word."""
    path = Path(root, "journal", "lineage.json")
    stated = json.loads(path.read_text())
    path.write_text(json.dumps(stated | {"host": "before-" + stated["host"], "boot": "before"}))
    return stated["lineage"]


def sound(root):
    with open_journal(root) as journal:
        assert not [problem for problem in examine(journal).problems if problem.severity in ("error", "warning")]


def test_what_was_written_under_other_names_reaches_the_others(meet, ada, bob):
    for number, text in ((2, "three"), (3, "four"), (4, "five")):
        rename_host(ada)
        write(ada, number, text)
    assert len(read_lineage(Layout(ada)).left) == 3
    meet(ada)
    meet(bob)
    assert texts(bob) == texts(ada) == sorted(["one", "two", "three", "four", "five"])
    assert not [one for one in meet(ada).transfers if one.records]
    sound(ada)
    sound(bob)


def never(*roots):
    for root in roots:
        config = Path(root, "config.toml")
        config.write_text(config.read_text().replace('sync = "mutation"', 'sync = "never"'))
        Path(root, "journal", "durable").unlink(missing_ok=True)  # as in a store that never synced


def test_of_a_damaged_store_that_nobody_syncs_nothing_is_taken_in_silence(ada, bob):
    """What lies before the damage came without a word, as if that were all."""
    never(ada, bob)
    for number, text in ((2, "three"), (3, "four")):
        write(ada, number, text)
    (path,) = Path(ada, "journal").glob("lin_*/0*.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"three", b"thrae"))
    with open_journal(bob) as journal:
        report = sync(journal, open_folder(ada, Files()))
        assert [one.lineage for one in report.transfers if one.refused] == [path.parent.name]
    assert texts(bob) == []
    path.write_bytes(whole)
    with open_journal(bob) as journal:
        assert not sync(journal, open_folder(ada, Files())).refusals
    assert texts(bob) == texts(ada) == sorted(["one", "two", "three", "four"])


@pytest.mark.parametrize("is_written", [True, False], ids=["written to", "as it was copied"])
def test_where_nobody_syncs_what_was_written_before_a_move_reaches_the_others(meet, ada, bob, tmp_path, is_written):
    """No mark says there what was acknowledged: all that was written was."""
    never(ada, bob)
    write(ada, 2, "three")
    moved = copied(ada, tmp_path / "moved")
    shutil.rmtree(ada)
    if is_written:
        write(moved, 3, "four")
    meet(moved)
    meet(bob)
    assert texts(bob) == texts(moved) == sorted(["one", "two", "three"] + ["four"] * is_written)
    sound(moved)
    sound(bob)


def test_what_was_left_is_told_before_anything_of_it_is_changed(meet, ada, bob):
    left = rename_host(ada)
    write(ada, 2, "three")
    report = meet(ada, dry_run=True)
    assert left in {one.lineage for one in report.transfers if one.direction == "out"}
    assert not Path(ada, "journal", left, "head.json").exists()
    meet(bob)
    assert texts(bob) == []


def copied(root, to):
    shutil.copytree(root, to / ".periplus", ignore=shutil.ignore_patterns("cache"))
    return os.fspath(to / ".periplus")


@pytest.mark.parametrize("order", ["copy first", "owner first", "owner between"])
def test_a_copy_beside_its_living_original_says_nothing_that_it_would_not(meet, ada, bob, tmp_path, order):
    copy = copied(ada, tmp_path / "copy")
    write(copy, 2, "of the copy")
    if order == "owner first":
        write(ada, 3, "of the original")
        meet(ada)
        meet(copy)
    else:
        meet(copy)
        if order == "owner between":
            meet(bob)
            assert texts(bob) == ["of the copy", "one", "two"]
        write(ada, 3, "of the original")
        meet(ada)
    meet(copy)
    meet(ada)
    meet(bob)
    assert texts(bob) == texts(ada) == texts(copy) == ["of the copy", "of the original", "one", "two"]
    write(ada, 4, "later")
    meet(ada)
    meet(copy)
    meet(bob)
    assert "later" in texts(copy)
    assert "later" in texts(bob)
    for root in (ada, bob, copy):
        sound(root)


def test_only_what_was_acknowledged_is_signed(meet, ada, bob):
    with open_journal(ada) as journal:
        journal.mutate(lambda transaction: transaction.observe({"n": 1}), WRITER, durable=False)
    left = rename_host(ada)
    write(ada, 2, "three")
    assert read_lineage(Layout(ada)).left == {left: 2}
    meet(ada)
    meet(bob)
    assert json.loads(Path(bob, "journal", left, "head.json").read_text())["head"]["size"] == 2
    assert texts(bob) == ["one", "three", "two"]


def test_what_a_sync_of_another_covered_was_acknowledged_and_is_signed_too(meet, ada, bob):
    """The mark is of who led that sync. What it lagged by stayed with the store that was moved, and nobody else ever had it."""
    mark = Path(ada, "journal", "durable")
    before = mark.read_bytes()
    write(ada, 2, "three")
    mark.write_bytes(before)
    left = rename_host(ada)
    write(ada, 3, "four")
    assert read_lineage(Layout(ada)).left == {left: 3}
    assert not meet(ada).unsigned
    meet(bob)
    assert texts(bob) == texts(ada) == ["four", "one", "three", "two"]


def test_a_stop_at_every_call_of_the_first_exchange_after_it(meet, ada, bob, tmp_path):
    rename_host(ada)
    write(ada, 2, "three")
    for at in range(0, 400, 7):
        try:
            meet(ada, StoppingFiles(at))
        except Stop:
            continue
        break
    else:
        pytest.fail("it never came to its end")
    meet(ada)
    meet(bob)
    assert texts(bob) == ["one", "three", "two"]
    sound(ada)


def test_without_the_key_nothing_of_it_is_given_away(meet, ada, bob):
    left = rename_host(ada)
    write(ada, 2, "three")
    Path(ada, "journal", "keys", f"{left}.private.retired").unlink()
    meet(ada)
    meet(bob)
    assert texts(bob) == ["three"]
