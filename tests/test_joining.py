"""Two people make a store for one project, each in a clone of its own: what git meets, and how the two become one."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path

import msgspec
import pytest

from cli_support import Shell
from periplus.base.clock import SystemClock
from periplus.base.errors import UsageError
from periplus.base.files import Files
from periplus.journal import create_store
from periplus.journal.care.doctor import examine
from periplus.journal.carriers import open_folder
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.exchange.sync import sync
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.settings import conflict_sides, read_lineage, read_settings
from periplus.journal.storage.store_joining import join_stores
from periplus.journal.storage.tree_head import read_peer, write_peer
from support import WRITER, item, open_journal

IDENTITY = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")


def git(folder, *words, check=True):
    found = subprocess.run(
        ["git", *IDENTITY, *map(str, words)], cwd=folder, check=False, capture_output=True, text=True
    )
    assert found.returncode == 0 or not check, found.stderr
    return found


class People:
    """A remote repository, and clones of it in which nobody has a store yet."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.remote = folder / "remote.git"
        git(folder, "init", "-q", "--bare", self.remote)
        for name in names:
            git(folder, "clone", "-q", self.remote, name)
            if name == names[0]:
                (folder / name / "app.py").write_text("x = 1\n")
                self.keep(folder / name, "begin")
        self.shells = {name: Shell(folder / name, folder) for name in names}

    def keep(self, folder, message):
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", message)
        git(folder, "push", "-q", "origin", "HEAD")

    def __getitem__(self, name):
        return self.shells[name]


def two_stores(tmp_path) -> People:
    """Ada's store is in the remote; Bob, who had not pulled, made one too, and his pull stops at the settings."""
    people = People(tmp_path, ("ada", "bob"))
    for name in ("ada", "bob"):
        people[name]("init")
        people[name]("remember", f"{name} chose this", "--type", "decision")
        people[name]("remember", f"{name} noted that")
    people.keep(people["ada"].folder, "ada's store")
    people["ada"]("sync", "--with", "origin")
    git(people["bob"].folder, "add", "-A")
    git(people["bob"].folder, "commit", "-q", "-m", "bob's store")
    assert "config.toml" in git(people["bob"].folder, "pull", "--no-rebase", check=False).stdout
    assert "<<<<" in (people["bob"].folder / ".periplus" / "config.toml").read_text()
    return people


def texts(shell):
    """What the store has, by the words of the records of all clones."""
    return {row.summary for row in shell.json("log", "--lineage", "all").records if row.action == "create"}


WRITTEN = {
    f"{kind}: {name} {what}"
    for name in ("ada", "bob")
    for kind, what in (("decision", "chose this"), ("note", "noted that"))
}


def settle_by(how, shell):
    config = shell.folder / ".periplus" / "config.toml"
    if how != "join":
        git(shell.folder, "checkout", f"--{how}", "--", config)
    return shell.json("init", "--join")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["join", "theirs"])
def test_two_stores_of_one_project_become_one_and_nothing_is_lost(tmp_path, how):
    people = two_stores(tmp_path)
    ada, bob = people["ada"], people["bob"]
    ids = {read_lineage(Layout(str(shell.folder / ".periplus"))).store for shell in (ada, bob)}
    assert "init --join" in bob.fails("status", code=2, wrong="it contains a merge conflict of git").err
    joined = settle_by(how, bob)
    assert {joined.store, *joined.joined} == ids
    assert "<<<<" not in (bob.folder / ".periplus" / "config.toml").read_text()
    people.keep(bob.folder, "one store")
    bob("sync", "--with", "origin")
    theirs = ids - {ada.json("status").store}
    found = ada.json("sync", "--with", "origin")  # Bob's records wait: what says that they are ours has not come yet
    assert [(one.store, one.direction) for one in found.waiting] == [(theirs.copy().pop(), "in")]
    said = ada("sync", "--with", "origin").out
    assert "waiting   1 lineage of store" in said
    assert "git pull" in said
    assert "Nothing new" not in said
    assert texts(ada) == {one for one in WRITTEN if " ada " in one}
    waits = [one for one in ada.json("doctor").problems if "waits in a git remote" in one.what]
    assert [(one.severity, theirs.copy().pop() in one.what) for one in waits] == [("note", True)]
    assert "git pull" in waits[0].next
    git(ada.folder, "pull", "-q")
    ada("sync", "--with", "origin")
    assert ada.json("sync", "--with", "origin").waiting == []
    assert "waits" not in ada("doctor").out
    bob("sync", "--with", "origin")
    for shell in (ada, bob):
        assert texts(shell) == WRITTEN
        assert shell("doctor").out.count("sound")
        assert {read_lineage(Layout(str(shell.folder / ".periplus"))).store} <= ids
    assert listing(ada) == listing(bob)
    carl = tmp_path / "carl"
    git(tmp_path, "clone", "-q", people.remote, carl)
    third = Shell(carl, tmp_path)
    third("sync", "--with", "origin")
    assert texts(third) == WRITTEN
    third("doctor")
    assert listing(third) == listing(bob)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["clone", "folder"])
def test_what_waits_for_settings_is_told_on_both_sides(tmp_path, where):
    people = two_stores(tmp_path)
    ada, bob = people["ada"], people["bob"]
    bob("init", "--join")
    if where == "clone":
        bob("sync", "--with", ada.folder)
        sent = bob("sync", "--with", ada.folder).out
        assert "waiting   1 lineage of store" in sent
        assert "Run `git pull` there" in sent
        found = ada.json("sync", "--with", bob.folder)
    else:
        ada("sync", "--with", tmp_path / "stick")  # the stick is of ada's store, and carries what was joined to it
        bob("sync", "--with", tmp_path / "stick")
        found = ada.json("sync", "--with", tmp_path / "stick")
    assert [one.direction for one in found.waiting] == ["in"]
    assert found.refused == []
    assert texts(ada) == {one for one in WRITTEN if " ada " in one}
    said = ada("sync", "--with", bob.folder if where == "clone" else tmp_path / "stick").out
    assert "config.toml here does not name that store" in said
    assert "sound" in ada("doctor").out
    people.keep(bob.folder, "one store")
    git(ada.folder, "pull", "-q")
    done = ada.json("sync", "--with", bob.folder if where == "clone" else tmp_path / "stick")
    assert done.waiting == []
    assert texts(ada) == WRITTEN


def listing(shell):
    folder = shell.folder / ".periplus" / "entities"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.json")}


@pytest.mark.slow
def test_settings_of_another_store_are_told_as_what_they_are(tmp_path):
    bob = two_stores(tmp_path)["bob"]
    git(bob.folder, "checkout", "--theirs", "--", bob.folder / ".periplus" / "config.toml")
    before = sorted((bob.folder / ".periplus" / "journal").rglob("*.jsonl"))
    kept = [path.read_bytes() for path in before]
    for words in (("remember", "more"), ("status",), ("init",)):
        done = bob(*words, code=3)
        assert "config.toml names store" in done.out + done.err
        assert "periplus init --join" in done.out + done.err
    assert "init --join" in bob("doctor", code=3).out
    assert [path.read_bytes() for path in before] == kept
    bob("init", "--join")
    bob("remember", "more")
    git(bob.folder, "add", "-A")
    git(bob.folder, "commit", "-q", "-m", "joined")
    bob("status")
    bob("doctor")


def test_a_clone_without_settings_takes_the_id_that_a_branch_of_its_remote_has(tmp_path):
    people = People(tmp_path, ("ada", "bob"))
    ada, bob = people["ada"], people["bob"]
    made = ada.json("init")
    ada("remember", "ada chose this", "--type", "decision")
    people.keep(ada.folder, "ada's store")
    ada("sync", "--with", "origin")
    git(bob.folder, "fetch", "-q")
    found = bob.json("init")
    assert (found.store, found.created) == (made.store, True)
    assert found.known_from.startswith("origin/")
    bob("sync", "--with", "origin")
    assert texts(bob) == {"decision: ada chose this"}
    git(bob.folder, "add", "-A")
    git(bob.folder, "commit", "-q", "-m", "the store")
    git(bob.folder, "pull", "-q", "--no-rebase")
    bob("status")
    assert bob.json("init").known_from == ""


def test_what_a_branch_says_in_the_place_of_an_id_is_not_taken(tmp_path):
    people = People(tmp_path, ("ada", "bob"))
    ada, bob = people["ada"], people["bob"]
    (ada.folder / ".periplus").mkdir()
    for number, text in enumerate(
        ['id = "str_../../x"', 'id = "dec_0000000000000000"', "<<<<<<< a", "id = 3", "\0" * 10]
    ):
        (ada.folder / ".periplus" / "config.toml").write_text(f"[store]\n{text}\nformat = 2\n")
        git(ada.folder, "checkout", "-q", "-b", f"b{number}")
        people.keep(ada.folder, "odd")
    git(bob.folder, "fetch", "-q")
    found = bob.json("init")
    assert found.known_from == ""
    assert found.store.startswith("str_")


def test_the_id_that_most_branches_have_is_taken(tmp_path):
    people = People(tmp_path, ("ada", "bob"))
    ada, bob = people["ada"], people["bob"]
    (ada.folder / ".periplus").mkdir()
    for number, store in enumerate(["str_1111111111111111", "str_2222222222222222", "str_1111111111111111"]):
        (ada.folder / ".periplus" / "config.toml").write_text(f'[store]\nid = "{store}"\nformat = 2\n# {number}\n')
        git(ada.folder, "checkout", "-q", "-b", f"b{number}")
        people.keep(ada.folder, "one")
    git(bob.folder, "fetch", "-q")
    assert bob.json("init").store == "str_1111111111111111"


# -- the journal's side ----------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path):
    """Roots of two stores of their own, three records in each."""
    roots = []
    for name in ("one", "two"):
        root = create_store(str(tmp_path / name / ".periplus"), Files(), SystemClock()).root
        with open_journal(root) as journal:
            for number in range(3):
                put(journal, f"{name} {number}")
        roots.append(root)
    return roots


NUMBERS = itertools.count(1)


def put(journal, text):
    name = item(next(NUMBERS))
    journal.mutate(lambda transaction: transaction.put("decision", name, {"text": text}), WRITER)
    return name


def take_settings(root, of):
    Path(root, "config.toml").write_bytes(Path(of, "config.toml").read_bytes())
    return join_stores(root, Files())


def joined_both(one, two):
    take_settings(two, one)
    Path(one, "config.toml").write_bytes(Path(two, "config.toml").read_bytes())


def held(root):
    with open_journal(root) as journal:
        return sorted(entity.value["text"] for entity in journal.entities())


def exchange(root, other, **how):
    with open_journal(root) as journal:
        report = sync(journal, open_folder(other, Files()), **how)
        assert not report.refusals
        return report


def test_what_is_joined_goes_on_by_folders_checkpoints_and_repairs(pair):
    one, two = pair
    joined_both(one, two)
    exchange(one, two)
    exchange(two, one)
    everything = sorted(f"{name} {number}" for name in ("one", "two") for number in range(3))
    assert held(one) == held(two) == everything
    with open_journal(two) as journal:  # whose lineage names another id than the settings name first
        assert read_lineage(Layout(two)).store != read_settings(Layout(two)).store.id
        journal.roll()
        put(journal, "two, in a new segment")
        make_checkpoint(journal, WRITER)
        journal.roll()
        put(journal, "two, behind the checkpoint")
    for name in ("index.sqlite", "index.sqlite-wal", "index.sqlite-shm"):
        Path(two, name).unlink(missing_ok=True)
    with open_journal(two) as journal:
        assert journal.damage is None
        assert not [one for one in examine(journal).problems if one.severity != "note"]
    exchange(two, one)
    assert held(one) == held(two) == sorted([*everything, "two, in a new segment", "two, behind the checkpoint"])


@pytest.mark.parametrize("of", ["its own store", "the others' store"])
def test_settings_of_before_two_stores_were_joined_are_no_damage_and_nothing_is_mended(pair, of):
    """As a checkout of an old commit brings them, in a clone that holds records of both."""
    one, two = pair
    before = Path(one if of == "its own store" else two, "config.toml").read_bytes()
    joined_both(one, two)
    exchange(one, two)
    config = Path(one, "config.toml")
    joined, segments = config.read_bytes(), {path: path.read_bytes() for path in Path(one).rglob("*.jsonl")}
    config.write_bytes(before)
    shell = Shell(Path(one).parent, Path(one).parent)
    for words in (("remember", "more"), ("doctor",), ("doctor", "--repair"), ("doctor", "--compact"), ("sync", "--with", two),
                  ("export", "../out.zip")):  # fmt: skip
        done = shell(*words, code=3)
        assert "config.toml names store" in done.out + done.err, words
        assert "seq" not in done.out + done.err, words
    assert {path: path.read_bytes() for path in Path(one).rglob("*.jsonl")} == segments
    config.write_bytes(joined)
    shell("remember", "more")
    assert shell("doctor").lines[-1].startswith("sound")


@pytest.mark.parametrize("was_remembered_as_the_others", [False, True])
def test_a_lineage_that_comes_without_a_head_is_remembered_as_of_its_own_store(
    pair, tmp_path, was_remembered_as_the_others
):
    one, two = pair
    joined_both(one, two)
    exchange(one, two)
    three = tmp_path / "three" / ".periplus"
    three.mkdir(parents=True)
    for name in ("config.toml", ".gitignore"):
        (three / name).write_bytes(Path(one, name).read_bytes())
    stores = {own.lineage: own.store for own in (read_lineage(Layout(root)) for root in pair)}
    layout = Layout(str(three))
    exchange(three, one)
    for lineage, store in stores.items() if was_remembered_as_the_others else ():
        (other,) = set(stores.values()) - {store}
        write_peer(layout, Files(), msgspec.structs.replace(read_peer(layout, lineage), store=other))
    for root in (one, two, three):
        exchange(root, tmp_path / "stick")  # with the heads that their owners signed
    assert {lineage: read_peer(layout, lineage).store for lineage in stores} == stores
    assert all(read_peer(layout, lineage).seen.signature for lineage in stores)
    with open_journal(three) as journal:
        assert [one.what for one in examine(journal).problems if one.severity != "note"] == []


def test_a_clone_that_does_not_know_yet_is_given_only_what_it_can_read(pair, tmp_path):
    one, two = pair
    third = create_store(str(tmp_path / "three" / ".periplus"), Files(), SystemClock()).root
    Path(third, "config.toml").write_bytes(Path(one, "config.toml").read_bytes())
    for name in ("lineage.json",):
        Path(third, "journal", name).unlink()
    joined_both(one, two)
    exchange(one, two)
    settings = Path(one, "config.toml").read_bytes()
    exchange(one, third)
    assert held(third) == ["one 0", "one 1", "one 2"]
    Path(third, "config.toml").write_bytes(settings)
    exchange(one, third)
    assert len(held(third)) == 6


def test_who_has_the_store_open_while_another_is_joined_reads_on(pair):
    one, two = pair
    with open_journal(one) as journal:
        put(journal, "before")
        joined_both(one, two)
        exchange(two, one)
        journal.refresh()
        assert journal.damage is None
        put(journal, "after")
        assert len(list(journal.entities())) == 8
    assert len(held(one)) == 8


def test_another_project_stays_another(pair):
    one, two = pair
    with open_journal(one) as journal, pytest.raises(Exception, match="of another project"):
        sync(journal, open_folder(two, Files()))


def test_joining_is_idempotent_and_keeps_the_rest_of_the_settings(pair):
    one, two = pair
    config = Path(one, "config.toml")
    begun = config.read_text().replace("[store]\n", "[store]  # of this project\n# never change this:\n")
    text = "# ours\n" + begun + 'segment_bytes = 70000\n\n[types.thing]\nprefix = "thi"\n'
    config.write_text(text)
    before = config.read_bytes()
    alone = join_stores(one, Files())
    assert (alone.is_new, alone.joined) == (False, ())
    assert config.read_bytes() == before
    first = take_settings(two, one)
    kept = Path(two, "config.toml").read_bytes()
    assert first.is_new
    assert kept.replace(f'joined = ["{first.joined[0]}"]\n'.encode(), b"") == before
    again = join_stores(two, Files())
    assert (again.is_new, again.joined) == (False, first.joined)
    assert Path(two, "config.toml").read_bytes() == kept


def test_ids_that_are_written_otherwise_are_left_to_the_person(pair):
    one, two = pair
    store = read_settings(Layout(one)).store.id
    config = Path(two, "config.toml")
    config.write_text(f'store.id = "{store}"\nstore.format = 2\n')
    before = config.read_bytes()
    with pytest.raises(UsageError) as caught:
        join_stores(two, Files())
    assert "joined = [" in caught.value.mend
    assert config.read_bytes() == before
    config.write_text(f'store = {{format = 2, id = "{store}", joined = ["{read_lineage(Layout(two)).store}"]}}\n')
    assert not join_stores(two, Files()).is_new


def conflict(ours: str, theirs: str, style: str) -> str:
    middle = "||||||| base\n" if style == "diff3" else ""
    return f"<<<<<<< HEAD\n{ours}{middle}=======\n{theirs}>>>>>>> other\n"


@pytest.mark.parametrize("style", ["merge", "diff3"])
def test_a_conflict_over_the_id_is_settled_alike_by_both(pair, style):
    one, two = pair
    ids = [read_settings(Layout(root)).store.id for root in pair]
    texts = [Path(root, "config.toml").read_text() for root in pair]
    lines = [f'id = "{store}"\n' for store in ids]
    Path(one, "config.toml").write_text(texts[0].replace(lines[0], conflict(lines[0], lines[1], style)))
    Path(two, "config.toml").write_text(texts[1].replace(lines[1], conflict(lines[1], lines[0], style)))
    for root in pair:
        found = join_stores(root, Files())
        assert (found.store_id, found.joined, found.is_new) == (min(ids), (max(ids),), True)
    assert Path(one, "config.toml").read_bytes() == Path(two, "config.toml").read_bytes()
    exchange(one, two)
    assert len(held(one)) == 6


def test_a_conflict_over_more_than_the_id_is_left_to_the_person(pair):
    one, _ = pair
    text = Path(one, "config.toml").read_text()
    other = text.replace('sync = "mutation"', 'sync = "never"').replace("str_", "str_")
    Path(one, "config.toml").write_text(conflict(text, other, "merge"))
    before = Path(one, "config.toml").read_bytes()
    with pytest.raises(Exception, match="differ in more than the store's id"):
        join_stores(one, Files())
    Path(one, "config.toml").write_text(conflict(text, "[store]\n", "merge"))
    with pytest.raises(Exception, match="a side of the conflict cannot be read"):
        join_stores(one, Files())
    Path(one, "config.toml").write_bytes(before)
    assert json.dumps(conflict_sides(before.decode())) == json.dumps([text, other])
