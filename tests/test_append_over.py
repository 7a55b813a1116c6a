"""What others wrote is stepped over by a writer that has no use for it, and is there for whoever asks for it.

As in ``test_append_path``, folders count as settled at once: else no test would come to that path.
"""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.base.errors import DamageError, PeriplusError
from periplus.base.files import FolderWatch
from periplus.journal.index.overlay import names_in
from periplus.journal.records import record as record_module
from periplus.journal.storage import segment_writer
from support import WRITER, Stop, StoppingFiles, item, make_store, open_journal, segment_path

FIRST = 3  # records that are there when a test begins


def put(number, text="a text", **options):
    return lambda transaction: transaction.put("note", item(number, "not"), {"text": text}, **options)


@pytest.fixture(autouse=True)
def _settled(monkeypatch):
    monkeypatch.setattr(FolderWatch, "_SETTLED_NS", 0)


@pytest.fixture
def root(tmp_path):
    return make_store(tmp_path)


@pytest.fixture
def two(root):
    """Two journals of one store that have both written, so that both know their way."""
    with open_journal(root) as mine, open_journal(root) as other:
        for number, journal in enumerate((mine, other, mine)):
            journal.mutate(put(number), WRITER, project=False)
        yield mine, other


def write_many(journal, count=4, first=10):
    for number in range(first, first + count):
        journal.mutate(put(number, f"text {number}"), WRITER, project=False)


def texts(journal):
    return {entity.item_id: entity.value["text"] for entity in journal.entities("note")}


def check_sound(root, count):
    with open_journal(root) as journal:
        assert journal.damage is None
        assert [entry.record.seq for _, entry in journal.entries(journal.lineage)] == list(range(1, count + 1))


def test_what_others_wrote_is_stepped_over_and_there_when_it_is_asked_for(two, root):
    mine, other = two
    write_many(other)
    assert mine.mutate(put(50), WRITER, project=False).first_seq == FIRST + 5
    assert [one.record_count for one in mine._added] == [4], "stepped over"
    write_many(other, first=20)
    assert mine.mutate(put(51), WRITER, project=False).first_seq == FIRST + 10
    assert [one.record_count for one in mine._added] == [4, 4]
    assert mine.get("note", item(12, "not")).value == {"text": "text 12"}
    assert not mine._added
    other.refresh()
    assert texts(mine) == texts(other)
    check_sound(root, FIRST + 10)


def test_an_entity_that_others_wrote_is_known_before_it_is_written(two, root):
    mine, other = two
    version = other.mutate(put(1, "of another"), WRITER, project=False).versions[0]
    with pytest.raises(PeriplusError, match="changed since you read it"):
        mine.mutate(put(1, "late", expect="absent"), WRITER, project=False)
    other.mutate(put(2, "of another"), WRITER, project=False)
    mine.mutate(put(1, "mine", expect=version), WRITER, project=False)
    other.refresh()
    assert mine.get("note", item(1, "not")).parents == (version,)
    assert len(other.get("note", item(1, "not")).heads) == 1
    check_sound(root, FIRST + 3)


def test_a_key_that_others_wrote_is_found(two, root):
    mine, other = two
    first = other.mutate(put(7), WRITER, key="k", project=False)
    mine.mutate(put(8), WRITER, project=False)
    assert mine._added
    again = mine.mutate(put(7, "again"), WRITER, key="k", project=False)
    assert (again.repeated, again.first_seq) == (True, first.first_seq)
    check_sound(root, FIRST + 2)


def test_a_text_that_is_written_with_escapes_is_taken_in_at_once(two):
    mine, other = two
    other.mutate(put(7, "x", summary="a \x01 character"), WRITER, project=False)
    mine.mutate(put(8), WRITER, project=False)
    assert not mine._added
    assert mine.get("note", item(7, "not")).value == {"text": "x"}


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 0.7, 0.95, 0.9999])
def test_a_changed_byte_of_what_others_wrote_is_damage_and_nothing_is_written(two, root, share):
    mine, other = two
    write_many(other)
    path = segment_path(mine)
    data = bytearray(path.read_bytes())
    start = mine.end().offset
    place = start + int((len(data) - start) * share)
    data[place] ^= 0x04
    with path.open("r+b") as file:  # the same file, of the same size
        file.write(data)
    with pytest.raises(DamageError):
        mine.mutate(put(50), WRITER, project=False)
    assert path.stat().st_size == len(data)
    data[place] ^= 0x04
    with path.open("r+b") as file:
        file.write(data)
    with open_journal(root) as journal:
        assert journal.mutate(put(50), WRITER, project=False).first_seq == FIRST + 5
    check_sound(root, FIRST + 5)


def test_a_record_that_makes_no_version_is_met_when_it_is_read(two, monkeypatch):
    """Sound by its checksum, and not to be understood: what is sound is served, and nothing more is written."""
    mine, other = two

    def without_payload(record):
        return record_module.encode_line(msgspec.structs.replace(record, payload=msgspec.UNSET))

    with monkeypatch.context() as patch:
        patch.setattr(segment_writer, "encode_line", without_payload)
        other.mutate(put(7), WRITER, project=False)
    mine.mutate(put(8), WRITER, project=False)
    assert mine._added
    assert mine.damage is None
    assert mine.get("note", item(8, "not")).value == {"text": "a text"}
    assert isinstance(mine.damage, DamageError)
    with pytest.raises(DamageError):
        mine.mutate(put(9), WRITER, project=False)


def test_who_was_killed_before_he_told_what_he_wrote_is_looked_at_closely(two, root, monkeypatch):
    mine, other = two
    mine.mutate(put(4), WRITER, project=False)
    other.mutate(put(5), WRITER, project=False)

    def stop(*_):
        raise Stop

    monkeypatch.setattr(other._writer._flush, "wrote", stop)
    with pytest.raises(Stop):
        other.mutate(put(6, "not told"), WRITER, key="k", project=False)
    assert mine.mutate(put(7), WRITER, project=False).first_seq == FIRST + 4
    assert not mine._added
    assert mine.mutate(put(6, "again"), WRITER, key="k", project=False).repeated
    assert mine.get("note", item(6, "not")).value == {"text": "not told"}
    check_sound(root, FIRST + 4)


def test_more_than_a_little_is_read_as_ever(two, root):
    mine, other = two
    for number in range(10, 14):
        other.mutate(put(number, "x" * 20_000), WRITER, project=False)
    assert mine.mutate(put(50), WRITER, project=False).first_seq == FIRST + 5
    assert not mine._added
    check_sound(root, FIRST + 5)


def test_stopped_at_every_call_beside_another_writer(root):
    with open_journal(root) as other:
        other.mutate(put(0), WRITER, project=False)
        at, count = 0, 1
        while True:
            files = StoppingFiles(1 << 62)
            with open_journal(root, files) as mine:
                mine.mutate(put(1, f"mine {at}"), WRITER, project=False)
                other.mutate(put(2, f"other {at}"), WRITER, project=False)
                other.mutate(put(3, f"other {at}"), WRITER, project=False)
                count += 3
                files.at = len(files.calls) + at
                try:
                    mine.mutate(put(4, f"perhaps {at}"), WRITER, key=f"k{at}", project=False)
                    is_stopped = False
                except Stop:
                    is_stopped = True
            receipt = other.mutate(put(4, f"perhaps {at}"), WRITER, key=f"k{at}", project=False)
            assert receipt.repeated or is_stopped
            other.mutate(put(5, f"after {at}"), WRITER, project=False)
            count += 2
            check_sound(root, count)
            assert texts(other)[item(4, "not")] == f"perhaps {at}"
            if not is_stopped:
                break
            at += 1
    assert at > 2


OPERATIONS = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from(["put", "put", "put", "delete", "get", "key", "all", "project", "expect"]),
        st.integers(0, 4),
    ),
    min_size=5, max_size=40,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(OPERATIONS)
def test_three_that_write_in_any_order_hold_what_a_dict_holds(tmp_path_factory, operations):
    root = make_store(tmp_path_factory.mktemp("s"))
    model: dict[str, str] = {}
    versions: dict[str, str] = {}
    journals = [open_journal(root) for _ in range(3)]
    try:
        for number, journal in enumerate(journals):
            journal.mutate(put(100 + number), WRITER, project=False)
            model[item(100 + number, "not")] = "a text"
        for step, (who, what, number) in enumerate(operations):
            journal, name, text = journals[who], item(number, "not"), f"step {step}"
            if what in ("put", "key"):
                key = f"key-{step}" if what == "key" else ""
                receipt = journal.mutate(put(number, text), WRITER, key=key, project=False)
                versions[name] = receipt.versions[0]
                model[name] = text
                if key:
                    again = journals[(who + 1) % 3].mutate(put(number, "no"), WRITER, key=key, project=False)
                    assert again == receipt._replace(repeated=True)
            elif what == "delete" and name in model:
                journal.mutate(lambda t, name=name: t.delete("note", name), WRITER, project=False)
                del model[name]
            elif what == "expect" and name in model:
                expected = versions[name]
                receipt = journal.mutate(put(number, text, expect=expected), WRITER, project=False)
                versions[name], model[name] = receipt.versions[0], text
            elif what == "project":
                journal.mutate(put(200), WRITER)
                model[item(200, "not")] = "a text"
            elif what == "get":
                journal.refresh()
                found = journal.get("note", name)
                assert (found.value["text"] if found is not None else None) == model.get(name)
            elif what == "all":
                journal.refresh()
                assert texts(journal) == model
        for journal in journals:
            journal.refresh()
            assert texts(journal) == model
    finally:
        for journal in journals:
            journal.close()


def test_names_are_found_or_said_to_need_a_closer_look():
    numbers = random.Random(7)
    lines, ids = [], []
    for number in range(200):
        ids.append(item(number, numbers.choice(["dec", "not", "a_b"])))
        said = numbers.choice(["plain", 'a "quoted" text', '"item_id":"not_x"', "back\\slash", "ünïcode"])
        lines.append(msgspec.json.encode({"v": 2, "summary": said, "item_id": ids[-1], "payload": {"item_id": said}}))
    for line, name in zip(lines, ids, strict=True):
        found = names_in(line)
        assert found is None or name.encode() in found
    assert names_in(b'{"item_id":"dec_1"}\n{"item_id" : "dec_2"}') is None
    assert names_in(b'{"item_id":"\\u0064ec_1"}') is None
    assert names_in(b'{"seq":1}') == []


def test_a_segment_that_others_began_is_found(root):
    config = Path(root, "config.toml")
    config.write_text(config.read_text() + "\n[journal]\nsegment_bytes = 65536\n" if "[journal]" not in config.read_text()
                      else config.read_text().replace("[journal]\n", "[journal]\nsegment_bytes = 65536\n"))  # fmt: skip
    with open_journal(root) as mine, open_journal(root) as other:
        for number in range(40):
            for journal, text in ((mine, "m"), (other, "o")):
                journal.mutate(put(number % 7, text * 1500 + str(number)), WRITER, project=False)
        assert len(mine.reader(mine.lineage).segments()) > 1
        assert mine.mutate(put(99), WRITER, project=False).first_seq == 81
    check_sound(root, 81)
