"""Entity files that a person, an editor or a power cut changed: what is taken in, what is left alone, what is restored."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from periplus.base.encoding.digests import sha256
from periplus.base.errors import SecretFoundError, UsageError
from periplus.base.files import Files
from periplus.journal import EntityType, Journal
from periplus.journal.care.doctor import examine
from periplus.journal.projections.entity_file import stamp_of
from periplus.journal.projections.external_edits import ADOPTED, EDITED, take_in
from periplus.journal.projections.file_verdict import EDIT_BYTES_MAX, judge
from support import TYPES, WRITER, FailingFiles, Stop, StoppingFiles, item, make_store, open_journal, remove_index

BOM = b"\xef\xbb\xbf"


def put(number, text, **more):
    return lambda transaction: transaction.put("decision", item(number), {"text": text, **more})


def path_of(journal, number=1):
    return Path(journal.layout.entity_file("decision", item(number)))


def replace_in(path, old, new):
    """As an editor does that writes in place: same inode, perhaps the same size."""
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))


def records(journal):
    return [entry.record for _, entry in journal.entries(journal.lineage)]


def shown(journal, number=1):
    entity = journal.get("decision", item(number))
    return None if entity is None else entity.value


class OtherBoot(Files):
    """The machine was started anew: what is in no file yet is what the disk held."""

    def __init__(self, name="another"):
        self.name = name

    def boot_id(self):
        return self.name


# -- a person's edit ---------------------------------------------------------------------------------------------------


def test_an_edit_becomes_a_version_with_the_named_one_as_parent(journal):
    version = journal.mutate(put(1, "abc"), WRITER).versions[0]
    replace_in(path_of(journal), b'"abc"', b'"xyz"')
    found = take_in(journal)
    assert [(one.item_id, one.path) for one in found.edited] == [(item(1), str(path_of(journal)))]
    assert (found.adopted, found.left, found.waits) == ((), (), ())
    last = records(journal)[-1]
    assert (last.action, last.parents, last.writer, last.writer_id) == ("external_edit", (version,), EDITED.name, "")
    assert journal.get("decision", item(1)).version == found.edited[0].version
    assert shown(journal) == {"text": "xyz"}
    assert json.loads(path_of(journal).read_bytes())["version"] == found.edited[0].version


def test_an_edit_is_taken_in_once(journal):
    journal.mutate(put(1, "abc"), WRITER)
    before = path_of(journal).read_bytes()
    replace_in(path_of(journal), b'"abc"', b'"xyz"')
    edited = path_of(journal).read_bytes()
    take_in(journal)
    count = len(records(journal))
    for data in (edited, before, path_of(journal).read_bytes()):
        path_of(journal).write_bytes(data)
        found = take_in(journal)
        assert (found.edited, found.adopted, found.left) == ((), (), ())
        assert shown(journal) == {"text": "xyz"}
        assert json.loads(path_of(journal).read_bytes())["entity"] == {"text": "xyz"}
    assert len(records(journal)) == count


def test_an_edit_of_an_old_version_stands_beside_what_was_written_since(journal):
    journal.mutate(put(1, "old"), WRITER)
    old = path_of(journal).read_bytes()
    now = journal.mutate(put(1, "new"), WRITER).versions[0]
    path_of(journal).write_bytes(old.replace(b'"old"', b'"mine"'))
    found = take_in(journal)
    assert journal.get("decision", item(1)).heads == tuple(sorted([now, found.edited[0].version]))
    assert {head.payload for head in journal.heads_of("decision", item(1))} == {b'{"text":"mine"}', b'{"text":"new"}'}


def test_a_mutation_records_the_edit_in_its_way_first(journal):
    journal.mutate(put(1, "abc"), WRITER)
    replace_in(path_of(journal), b'"abc"', b'"xyz"')
    journal.mutate(put(1, "new"), WRITER)
    assert {head.payload for head in journal.heads_of("decision", item(1))} == {b'{"text":"xyz"}', b'{"text":"new"}'}
    path_of(journal).write_bytes(path_of(journal).read_bytes())
    assert take_in(journal).edited == ()


def test_the_next_write_settles_what_the_edit_parted(journal):
    journal.mutate(put(1, "abc"), WRITER)
    replace_in(path_of(journal), b'"abc"', b'"xyz"')
    journal.mutate(put(1, "new"), WRITER)
    journal.mutate(put(1, "settled"), WRITER)
    assert not journal.get("decision", item(1)).is_in_conflict
    assert shown(journal) == {"text": "settled"}
    assert b'"settled"' in path_of(journal).read_bytes()


def conflicting(journal):
    """An entity whose text two versions changed, and whose other fields only one of them did."""
    journal.mutate(put(1, "abc", a=1, b=1), WRITER)
    old = path_of(journal).read_bytes()
    journal.mutate(put(1, "new", a=2, b=1), WRITER)
    path_of(journal).write_bytes(old.replace(b'"abc"', b'"xyz"').replace(b'"b": 1', b'"b": 2'))
    take_in(journal)
    return journal.get("decision", item(1))


def test_an_edit_is_merged_field_by_field_with_what_was_written_since(journal):
    entity = conflicting(journal)
    assert {name: entity.value[name] for name in "ab"} == {"a": 2, "b": 2}
    assert [conflict.path for conflict in entity.conflicts] == [("text",)]
    document = json.loads(path_of(journal).read_bytes())
    assert (document["heads"], document["version"]) == (list(entity.heads), entity.version)
    assert document["conflicts"]
    assert take_in(journal) == ((), (), (), 0, ())


def test_an_edit_of_a_merged_view_has_all_its_heads_as_parents(journal):
    entity = conflicting(journal)
    shown = entity.value["text"].encode()
    data = path_of(journal).read_bytes()
    path_of(journal).write_bytes(data.replace(b'"text": "%b"' % shown, b'"text": "both"'))
    (one,) = take_in(journal).edited
    assert records(journal)[-1].parents == entity.heads
    now = journal.get("decision", item(1))
    assert (now.heads, now.conflicts, now.value) == ((one.version,), (), {"text": "both", "a": 2, "b": 2})
    path_of(journal).write_bytes(data)
    assert take_in(journal).rewritten == 1
    assert len(records(journal)) == 3 + 1


def test_the_list_of_conflicts_taken_out_lets_stand_what_is_shown(journal):
    entity = conflicting(journal)
    document = json.loads(path_of(journal).read_bytes())
    del document["conflicts"]
    path_of(journal).write_text(json.dumps(document, indent=2))
    (one,) = take_in(journal).edited
    assert one.version == entity.version
    now = journal.get("decision", item(1))
    assert (now.heads, now.conflicts, now.value) == ((entity.version,), (), entity.value)
    assert examine(journal).problems == []


def test_a_merged_view_is_adopted_where_it_has_no_conflict_and_else_reported(journal, tmp_path):
    with open_journal(make_store(tmp_path / "other")) as other:
        conflicting(other)
        disputed = path_of(other).read_bytes()
        other.mutate(put(2, "abc", a=1), WRITER)
        old = path_of(other, 2).read_bytes()
        other.mutate(put(2, "abc", a=2), WRITER)
        path_of(other, 2).write_bytes(old.replace(b'"abc"', b'"xyz"'))
        take_in(other)
        agreed = path_of(other, 2).read_bytes()
        view = other.get("decision", item(2))
        assert len(view.heads) == 2
    path_of(journal).parent.mkdir(parents=True)
    path_of(journal, 1).write_bytes(disputed)
    path_of(journal, 2).write_bytes(agreed)
    found = take_in(journal)
    assert [one.version for one in found.adopted] == [view.version]
    assert journal.get("decision", item(2)).value == {"text": "xyz", "a": 2}
    assert ["shows a conflict" in left.what for left in found.left] == [True]
    assert path_of(journal, 1).read_bytes() == disputed


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("line", ["version", "parents"])
def test_a_line_about_the_versions_that_was_changed_is_no_edit(journal, heads, line):
    """What the file says of the entity is what the heads say that it names: there is nothing to take in."""
    entity = conflicting(journal) if heads == 2 else journal.get(*_put(journal))
    whole = path_of(journal).read_bytes()
    document = json.loads(whole)
    document[line] = "ab" * 32 if line == "version" else ["ab" * 32]
    path_of(journal).write_text(json.dumps(document, indent=2))
    count = len(records(journal))
    found = take_in(journal)
    assert (found.edited, found.adopted, found.left, found.rewritten) == ((), (), (), 1)
    assert (len(records(journal)), path_of(journal).read_bytes()) == (count, whole)
    document["entity"]["text"] = "changed as well"
    path_of(journal).write_text(json.dumps(document, indent=2))
    assert len(take_in(journal).edited) == 1
    assert (shown(journal)["text"], journal.get("decision", item(1)).parents) == ("changed as well", entity.heads)


def _put(journal):
    journal.mutate(put(1, "abc"), WRITER)
    return "decision", item(1)


def test_an_edit_of_a_deleted_entity_is_not_lost(journal):
    journal.mutate(put(1, "abc"), WRITER)
    file = path_of(journal).read_bytes()
    journal.mutate(lambda transaction: transaction.delete("decision", item(1)), WRITER)
    assert not path_of(journal).exists()
    path_of(journal).write_bytes(file.replace(b'"abc"', b'"xyz"'))
    take_in(journal)
    assert shown(journal) == {"text": "xyz"}
    assert journal.get("decision", item(1)).is_in_conflict


def test_the_old_file_of_a_deleted_entity_is_removed_again(journal):
    journal.mutate(put(1, "abc"), WRITER)
    file = path_of(journal).read_bytes()
    journal.mutate(lambda transaction: transaction.delete("decision", item(1)), WRITER)
    path_of(journal).write_bytes(file)
    count = len(records(journal))
    take_in(journal)
    assert not path_of(journal).exists()
    assert shown(journal) is None
    assert len(records(journal)) == count


def test_a_rebuild_and_a_write_touch_no_file_but_those_of_what_changed(root):
    """Each file that is written anew is one that git and editors look at again."""
    with open_journal(root) as journal:
        for number in (1, 2, 3):
            journal.mutate(put(number, f"number {number}"), WRITER)
        paths = [path_of(journal, number) for number in (1, 2, 3)]
    before = [stamp_of(path) for path in paths]
    remove_index(root)
    with open_journal(root) as journal:
        assert take_in(journal).rewritten == 0
        assert [stamp_of(path) for path in paths] == before
        journal.mutate(put(2, "changed"), WRITER)
        after = [stamp_of(path) for path in paths]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, True]


def test_a_removed_file_is_no_deletion(journal):
    journal.mutate(put(1, "abc"), WRITER)
    data = path_of(journal).read_bytes()
    path_of(journal).unlink()
    assert take_in(journal).rewritten == 1
    assert path_of(journal).read_bytes() == data
    assert len(records(journal)) == 1


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(lambda data: BOM + data, id="byte order mark"),
        pytest.param(lambda data: json.dumps(json.loads(data)).encode(), id="one line"),
        pytest.param(lambda data: json.dumps(json.loads(data), indent=8).encode() + b"\n\n", id="indented"),
        pytest.param(lambda data: data.rstrip(), id="no newline at the end"),
    ],
)
def test_another_way_to_write_the_same_is_no_edit(journal, written):
    journal.mutate(put(1, "abc", more=["é", {"a": 1}]), WRITER)
    data = path_of(journal).read_bytes()
    path_of(journal).write_bytes(written(data))
    found = take_in(journal)
    assert (found.edited, found.adopted, found.left, found.rewritten) == ((), (), (), 1)
    assert path_of(journal).read_bytes() == data
    assert len(records(journal)) == 1


def test_an_edit_in_a_file_with_crlf_is_taken_in(journal):
    journal.mutate(put(1, "abc"), WRITER)
    data = path_of(journal).read_bytes()
    path_of(journal).write_bytes(data.replace(b'"abc"', b'"xyz"').replace(b"\n", b"\r\n"))
    assert len(take_in(journal).edited) == 1
    assert path_of(journal).read_bytes().count(b"\r") == 0


# -- what is left alone ------------------------------------------------------------------------------------------------

LEFT = {
    "conflict markers": (
        lambda data: data.replace(b'    "text"', b'<<<<<<< HEAD\n    "text"\n=======\n>>>>>>> other\n    "text"'),
        "conflict markers of git",
    ),
    "LFS pointer": (lambda _: b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n", "Git LFS"),
    "byte order mark and an edit": (lambda data: BOM + data.replace(b"abc", b"xyz"), "byte order mark"),
    "no JSON": (lambda data: data.replace(b",", b";", 1), "not JSON: Expecting ',' delimiter in line"),
    "not UTF-8": (lambda data: data.replace(b"abc", b"\xff"), "not UTF-8"),
    "a fraction": (lambda data: data.replace(b'"abc"', b"1.5"), "1.5 is no integer"),
    "a number beyond": (lambda data: data.replace(b'"abc"', b"9007199254740993"), "outside"),
    "no number": (lambda data: data.replace(b'"abc"', b"NaN"), "NaN is no integer"),
    "twice": (lambda data: data.replace(b'"text"', b'"text": "z", "text"'), "occurs twice"),
    "too deep": (lambda data: data.replace(b'"abc"', b"[" * 70 + b"]" * 70), "nested deeper"),
    "far too deep": (lambda data: data.replace(b'"abc"', b"[" * 90_000 + b"]" * 90_000), "deep"),
    "half a character": (lambda data: data.replace(b'"abc"', b'"\\ud800"'), "cannot be stored"),
    "another id": (lambda data: data.replace(item(1).encode(), item(2).encode()), "does not match its path"),
    "another type": (lambda data: data.replace(b'"type": "decision"', b'"type": "note"'), "does not match its path"),
    "a list": (lambda _: b"[]\n", "not a JSON object"),
    "a field outside": (lambda data: data.replace(b'"format"', b'"text": "here", "format"'), "belong within"),
    "a field missing": (lambda data: data.replace(b'"heads"', b'"head"'), "lacks heads"),
    "no entity": (lambda _: b'{"a": 1}\n', "lacks"),
    "a later format": (lambda data: data.replace(b'"format": 1', b'"format": 2'), "of format 2"),
    "no version": (lambda data: data.replace(b'"version": "', b'"version": "x'), "not version ids"),
    "its entity a list": (lambda data: data.replace(b'{\n    "text": "abc"\n  }', b"[]"), "not a JSON object"),
    "too large": (lambda data: data.replace(b"abc", b"x" * EDIT_BYTES_MAX), "larger than"),
    "refused": (lambda data: data.replace(b"abc", b"forbidden"), "refused by the type"),
    "a secret": (lambda data: data.replace(b"abc", b"secret"), "looks like a secret"),
}


@pytest.fixture
def strict(root):
    def check(payload):
        if payload.get("text") == "forbidden":
            raise UsageError("refused by the type")
        if payload.get("text") == "secret":
            raise SecretFoundError("looks like a secret")

    types = {**TYPES, "decision": EntityType("decision", "dec", is_projected=True, check=check)}
    with Journal(root, types) as journal:
        yield journal


@pytest.mark.parametrize("name", LEFT)
def test_what_cannot_be_taken_in_is_left_alone_and_reported(strict, name):
    change, reason = LEFT[name]
    strict.mutate(put(1, "abc"), WRITER)
    strict.mutate(put(2, "beside"), WRITER)
    path = path_of(strict)
    path.write_bytes(change(path.read_bytes()))
    data = path.read_bytes()
    for _ in range(2):
        found = take_in(strict)
        assert (found.edited, found.adopted) == ((), ())
        (left,) = found.left
        assert left.path == str(path)
        assert reason in left.what
        assert left.mend
        assert path.read_bytes() == data
    strict.mutate(put(1, "new"), WRITER)
    assert path.read_bytes() == data, "it is not written over"
    assert shown(strict) == {"text": "new"}, "nor served"
    (problem,) = [problem for problem in examine(strict).problems if problem.path == str(path)]
    assert (problem.severity, reason in problem.what) == ("warning", True)
    path.unlink()
    take_in(strict)
    assert b'"new"' in path.read_bytes()
    assert examine(strict).problems == []


def test_what_is_no_file_is_left_alone(journal, tmp_path):
    for number in (1, 2, 3):
        journal.mutate(put(number, "abc"), WRITER)
        path_of(journal, number).unlink()
    outside = tmp_path / "outside"
    outside.write_text("mine")
    path_of(journal, 1).symlink_to(outside)
    path_of(journal, 2).mkdir()
    os.mkfifo(path_of(journal, 3))
    strange = path_of(journal).with_name("strange.json")
    strange.write_text("{}")
    found = take_in(journal)
    assert {Path(left.path).name for left in found.left} == {
        *(path_of(journal, number).name for number in (1, 2, 3)),
        "strange.json",
    }
    for number in (1, 2, 3):
        journal.mutate(put(number, "new"), WRITER)
    assert outside.read_text() == "mine"
    assert strange.exists()
    assert len(records(journal)) == 6


def test_a_file_that_nobody_knows_is_adopted_only_if_it_is_what_it_says(journal, tmp_path):
    with open_journal(make_store(tmp_path / "other")) as other:
        other.mutate(put(7, "theirs"), WRITER)
        data = path_of(other, 7).read_bytes()
        want = other.get("decision", item(7))
    path_of(journal, 7).parent.mkdir(parents=True)
    path_of(journal, 7).write_bytes(data)
    (one,) = take_in(journal).adopted
    assert one.version == want.version
    got = journal.get("decision", item(7))
    assert (got.version, got.parents, got.payload, got.writer) == (
        want.version,
        want.parents,
        want.payload,
        ADOPTED.name,
    )
    assert records(journal)[-1].action == "import"
    assert path_of(journal, 7).read_bytes() == data


# -- a clone that knows files only -------------------------------------------------------------------------------------


@pytest.fixture
def history(tmp_path):
    """The files of one entity at each of its versions, as commits hold them."""
    files = []
    with open_journal(make_store(tmp_path / "origin")) as origin:
        for number in range(5):
            origin.mutate(put(1, f"v{number}"), WRITER)
            files.append(path_of(origin).read_bytes())
    return files


def adopt(journal, data):
    path_of(journal).parent.mkdir(parents=True, exist_ok=True)
    path_of(journal).write_bytes(data)
    return take_in(journal)


def test_a_version_whose_parents_are_elsewhere_is_adopted_and_sound(journal, history):
    adopt(journal, history[3])
    assert shown(journal) == {"text": "v3"}
    assert path_of(journal).read_bytes() == history[3]
    found = examine(journal)
    assert found.exit_code == 0
    assert ["is missing" in problem.what for problem in found.problems] == [True]


def test_older_versions_that_come_back_are_no_second_head(journal, history):
    adopt(journal, history[4])
    for at in (3, 0, 1, 2, 4):
        found = adopt(journal, history[at])
        assert (found.adopted, found.edited) == ((), ()), at
        assert not journal.get("decision", item(1)).is_in_conflict
        assert shown(journal) == {"text": "v4"}
        if at in (1, 2):
            assert [left.path for left in found.left] == [str(path_of(journal))]
            assert path_of(journal).read_bytes() == history[at]
    assert len(records(journal)) == 1


def test_the_next_version_follows(journal, history):
    for at in range(5):
        adopt(journal, history[at])
        assert shown(journal) == {"text": f"v{at}"}
        assert not journal.get("decision", item(1)).is_in_conflict
    assert examine(journal).problems == []


def test_an_edit_of_a_version_that_is_elsewhere_is_taken_in(journal, history):
    found = adopt(journal, history[4].replace(b'"v4"', b'"mine"'))
    assert len(found.edited) == 1
    assert shown(journal) == {"text": "mine"}
    assert examine(journal).exit_code == 0


# -- power cuts --------------------------------------------------------------------------------------------------------

CUTS = {
    "missing": None,
    "empty": lambda _: b"",
    "NUL": lambda data: bytes(len(data)),
    "NUL at the end": lambda data: data[:50] + bytes(len(data) - 50),
    "NUL in the middle": lambda data: data[:50] + bytes(40) + data[90:],
    "NUL beyond the end": lambda data: data[:-9] + bytes(99),
    "cut": lambda data: data[:-60],
    "cut after a brace": lambda data: data[: data.index(b"}") + 1],
    "an older file": "older",
}


def cut(path, how, older):
    """What the disk holds after a power cut; times and inode say nothing."""
    if how is None:
        path.unlink()
    else:
        path.write_bytes(older if how == "older" else how(path.read_bytes()))


@pytest.mark.parametrize("name", CUTS)
def test_after_a_power_cut_files_are_rebuilt_and_no_edits(root, name):
    with open_journal(root) as journal:
        journal.mutate(put(1, "old"), WRITER)
        older = path_of(journal).read_bytes()
        journal.mutate(put(1, "new"), WRITER)
        whole = path_of(journal).read_bytes()
        cut(path_of(journal), CUTS[name], older)
    with open_journal(root, OtherBoot()) as journal:
        found = take_in(journal)
        assert (found.adopted, found.edited, found.left) == ((), (), ())
        assert shown(journal) == {"text": "new"}
        assert path_of(journal).read_bytes() == whole
        assert len(records(journal)) == 2


def test_stamps_are_believed_only_in_the_boot_they_were_made_in(root, monkeypatch):
    with open_journal(root) as journal:
        journal.mutate(put(1, "abc"), WRITER)
        settle(journal)
        row = journal.index.file_row("decision", item(1))
        assert row.stamp
        whole = path_of(journal).read_bytes()
        # As a file system may leave it: size and times are right, the bytes are not.
        times = path_of(journal).stat()
        path_of(journal).write_bytes(bytes(len(whole)))
        os.utime(path_of(journal), ns=(times.st_atime_ns, times.st_mtime_ns))
        forge_stamp(journal)
        assert take_in(journal).rewritten == 0
    with open_journal(root, OtherBoot()) as journal:
        assert take_in(journal).rewritten == 1
        assert path_of(journal).read_bytes() == whole


def settle(journal):
    """Until the clock is beyond the tick in which the files were written, then look."""
    newest = max(path.stat().st_ctime_ns for path in Path(journal.layout.entities).rglob("*.json"))
    probe = Path(journal.layout.root, "probe")
    while True:
        probe.write_text("x")
        if probe.stat().st_ctime_ns > newest + 20_000_000:
            break
    probe.unlink()
    take_in(journal)


def forge_stamp(journal):
    from periplus.journal.projections.entity_file import stamp_of

    index = journal.index
    index.begin_write()
    index.set_file(
        "decision", item(1), index.file_row("decision", item(1))._replace(stamp=stamp_of(str(path_of(journal))))
    )
    index.commit()
    index.begin()


def test_many_files_are_sealed_by_one_sync(root):
    class Counting(Files):
        synced = 0

        def sync_everything(self, path):
            Counting.synced += 1
            return super().sync_everything(path)

    def many(transaction):
        for number in range(600):
            transaction.put("decision", item(number), {"text": str(number)})

    with open_journal(root, Counting()) as journal:
        journal.mutate(many, WRITER)
        assert Counting.synced == 1
        assert boots(journal) == [""]
        journal.mutate(put(1, "after"), WRITER)
        assert Counting.synced == 1
        assert boots(journal) == ["", Files().boot_id()]


def boots(journal):
    return sorted({row[0] for row in journal.index.db.execute("SELECT boot FROM files")})


def test_an_edit_within_the_tick_of_our_own_write_is_seen(journal):
    for number in range(30):
        journal.mutate(put(1, f"{number:02d}"), WRITER)
        replace_in(path_of(journal), b'"%02d"' % number, b'"%02d"' % (number + 50))  # the same size and inode
        take_in(journal)
        assert shown(journal) == {"text": f"{number + 50:02d}"}


def test_a_look_reads_no_file_that_is_as_it_was_left(journal, monkeypatch):
    for number in range(20):
        journal.mutate(put(number, "abc"), WRITER)
    settle(journal)
    read = []
    monkeypatch.setattr("periplus.journal.projections.external_edits.read_stamped", read.append)
    assert take_in(journal).rewritten == 0
    assert read == []


# -- stopped in the middle, disks that refuse --------------------------------------------------------------------------


def scene(root):
    """A store whose next look adopts one file, takes in one edit, rewrites one and removes one."""
    with open_journal(root) as journal:
        for number in (1, 2, 3):
            journal.mutate(put(number, f"v{number}"), WRITER)
        old = path_of(journal, 2).read_bytes()
        gone = path_of(journal, 3).read_bytes()
        journal.mutate(put(2, "newer"), WRITER)
        journal.mutate(lambda transaction: transaction.delete("decision", item(3)), WRITER)
        replace_in(path_of(journal, 1), b'"v1"', b'"mine"')
        path_of(journal, 2).write_bytes(old)
        path_of(journal, 3).write_bytes(gone)


@pytest.mark.slow
def test_stopped_at_every_call_nothing_is_lost_and_the_next_look_ends_it(tmp_path):
    with open_journal(make_store(tmp_path / "other")) as other:
        other.mutate(put(9, "theirs"), WRITER)
        theirs = path_of(other, 9).read_bytes()
    at = 0
    while True:
        root = make_store(tmp_path / f"at{at}")
        scene(root)
        files = StoppingFiles(at, 0.5)
        with open_journal(root) as opened:
            path_of(opened, 9).write_bytes(theirs)
        journal = Journal(root, TYPES, files=files)
        try:
            take_in(journal)
            is_stopped = False
        except Stop:
            is_stopped = True
        finally:
            journal.close()
        with open_journal(root) as journal:
            assert journal.damage is None
            take_in(journal)
            assert shown(journal, 1) == {"text": "mine"}, files.calls[-1]
            assert shown(journal, 2) == {"text": "newer"}
            assert shown(journal, 3) is None
            assert shown(journal, 9) == {"text": "theirs"}
            assert b'"mine"' in path_of(journal, 1).read_bytes()
            assert b'"newer"' in path_of(journal, 2).read_bytes()
            assert not path_of(journal, 3).exists()
            assert path_of(journal, 9).read_bytes() == theirs
            actions = sorted(record.action for record in records(journal))
            assert actions == ["create"] * 3 + ["delete", "external_edit", "import", "update"]
            troubles = {p.path for p in examine(journal).problems if p.severity != "note"}
            assert troubles <= {journal.layout.durable}, "a mark that was torn is renewed by the next write"
        if not is_stopped:
            break
        at += 1
    assert at > 12, "there were calls to stop at"


@pytest.mark.parametrize("call", ["write", "sync_data", "replace"])
def test_a_disk_that_takes_nothing_loses_no_edit(root, call):
    scene(root)
    with open_journal(root, FailingFiles(call, errno.ENOSPC)) as journal:
        found = take_in(journal)
        assert b'"mine"' in path_of(journal, 1).read_bytes() or shown(journal, 1) == {"text": "mine"}
        assert call == "replace" or found.waits
    with open_journal(root) as journal:
        take_in(journal)
        assert shown(journal, 1) == {"text": "mine"}


def test_a_folder_that_may_only_be_read_is_not_looked_at(root):
    scene(root)
    with open_journal(root) as journal:
        journal.index.is_writable = False
        assert take_in(journal) == ((), (), (), 0, ())
        assert shown(journal, 1) == {"text": "v1"}


# -- whatever is written into a file -----------------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcdef"), inner, max_size=3),
    max_leaves=8,
)
ENTITIES = st.dictionaries(st.sampled_from(["text", "tags", "more", "é"]), VALUES, max_size=4)
STEPS = st.lists(
    st.tuples(st.sampled_from(["edit", "old", "write", "remove", "look", "bytes"]), ENTITIES, st.binary(max_size=40)),
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_whatever_happens_to_a_file_every_value_written_in_it_is_held(tmp_path_factory, steps):
    """Each edit that could be stored is a version of the journal; nothing else is; looking again changes nothing."""
    root = make_store(tmp_path_factory.mktemp("edits"))
    config = Path(root, "config.toml")
    config.write_text(config.read_text().replace('sync = "mutation"', 'sync = "never"'))
    with open_journal(root) as journal:
        journal.mutate(lambda t: t.put("decision", item(1), {"text": "begin"}), WRITER)
        wanted = {sha256(b'{"text":"begin"}')}
        past = [path_of(journal).read_bytes()]
        for what, value, raw in steps:
            path = path_of(journal)
            if what == "edit" and path.exists():
                try:
                    document = json.loads(path.read_bytes())
                except ValueError:
                    continue
                if not isinstance(document, dict):
                    continue
                document["entity"] = value
                path.write_text(json.dumps(document))
                take_in(journal)
                wanted.add(payload_digest(value))
            elif what == "old":
                path.write_bytes(past[len(raw) % len(past)])
            elif what == "write":
                journal.mutate(lambda t, value=value: t.put("decision", item(1), value), WRITER)
                wanted.add(payload_digest(value))
            elif what == "remove":
                path.unlink(missing_ok=True)
            elif what == "bytes":
                path.write_bytes(raw)
            take_in(journal)
            if judge(journal, "decision", item(1), path.read_bytes() if path.exists() else b"").kind != "left":
                past.append(path.read_bytes())
        held = {sha256(bytes(record.payload)) for record in records(journal)}
        assert held == wanted
        count = len(records(journal))
        again = take_in(journal)
        assert (again.adopted, again.edited) == ((), ())
        assert len(records(journal)) == count


def payload_digest(value):
    from periplus.base.encoding.canonical import canonical

    return sha256(canonical(value))


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300) | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_bytes_break_the_judge(journal, data):
    assert judge(journal, "decision", item(1), data).kind in ("torn", "left")
