"""opencode's database, as a stranger may have made it: one clear error or a trail that is sound, and nothing beside it."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from contextlib import closing

import pytest

from interop_samples import OPENCODE, SAMPLES, as_database
from interop_support import KEY, Objects, check, named
from periplus.base.errors import FormatError, UsageError
from periplus.interop import import_transcript, import_transcripts
from periplus.interop.importers.opencode.database import Database

pytestmark = pytest.mark.quick


def take(path):
    found = list(import_transcripts(str(path), trail_key=KEY, put_object=Objects().put))
    for imported in found:
        check(imported)
    return found


def with_rows(path, *statements):
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement, values in statements:
            connection.execute(statement, values)
    connection.close()
    return path


def test_subagents_are_children_in_files_and_in_the_database(tmp_path):
    for name in ("opencode-files", "opencode-database"):
        (imported,) = take(SAMPLES[name].write(tmp_path, OPENCODE))
        (child,) = imported.children
        assert (child.agent, child.session_id, imported.session_id) == ("opencode/subagent", "ses_b", "ses_a")
        (spawn,) = named(imported, "AGENT_SPAWN")
        assert spawn.operands[2].value == child.trail_digest
        assert [step.outcome for step in named(imported, "FILE_EDIT")] == ["denied"]
        (asked,) = named(imported, "ASK")
        assert asked.operands == ("Which?", "this")
        assert imported.tokens == (9 + 3, 5, 2)


def test_kilo_code_keeps_the_same_database(tmp_path):
    """It is known by a table of its own, and read in spite of an index whose functions SQLite 3.40 does not trust."""
    (theirs,) = take(as_database(tmp_path, OPENCODE))
    path = with_rows(
        as_database(tmp_path, OPENCODE),
        ("CREATE TABLE kilo_board (id TEXT PRIMARY KEY)", ()),
        ("CREATE INDEX by_role ON message (id, json_extract(data, '$.role'))", ()),
    )
    (ours,) = take(path)
    assert (ours.agent, ours.children[0].agent) == ("kilo-code", "kilo-code/subagent")
    assert (ours.format, ours.session_id) == ("kilo-code", theirs.session_id)
    assert (ours.counts, ours.tokens, ours.skipped) == (theirs.counts, theirs.tokens, theirs.skipped)


def test_every_session_is_a_trail_of_its_own(tmp_path):
    path = with_rows(
        as_database(tmp_path, OPENCODE),
        ("INSERT INTO session VALUES ('ses_c', NULL, '/other', '1.3')", ()),
        ("INSERT INTO message VALUES ('msg_9', 'ses_c', 1, ?)", (json.dumps({"role": "user"}),)),
        ("INSERT INTO part VALUES ('prt_Z', 'msg_9', ?)", (json.dumps({"type": "text", "text": "hello"}),)),
    )
    found = take(path)
    assert [(one.session_id, len(one.children)) for one in found] == [("ses_a", 1), ("ses_c", 0)]
    before = {one.session_id: one.trail_digest for one in found}
    with_rows(path, ("INSERT INTO part VALUES ('prt_ZZ', 'msg_9', ?)", (json.dumps({"type": "text", "text": "more"}),)))
    after = {one.session_id: one.trail_digest for one in take(path)}
    assert before["ses_a"] == after["ses_a"]
    assert before["ses_c"] != after["ses_c"]
    with pytest.raises(UsageError, match="several"):
        import_transcript(str(path), trail_key=KEY, put_object=Objects().put)


def test_sessions_that_are_each_others_parents_end(tmp_path):
    path = as_database(tmp_path, OPENCODE)
    with_rows(path, ("UPDATE session SET parent_id = 'ses_b' WHERE id = 'ses_a'", ()))
    assert take(path) == []  # neither is a root: nothing to import, and no endless descent
    with_rows(path, ("UPDATE session SET parent_id = id WHERE id = 'ses_a'", ()))
    (imported,) = take(path)
    assert len(imported.children) == 1


def test_a_chain_of_subagents_is_bounded(tmp_path):
    rows = [("INSERT INTO session VALUES (?, ?, '/w', '1')", (f"s{n}", f"s{n - 1}" if n else None)) for n in range(100)]
    found = take(with_rows(as_database(tmp_path, OPENCODE), *rows))
    depth, one = 0, next(one for one in found if one.session_id == "s0")
    while one.children:
        depth, one = depth + 1, one.children[0]
    assert depth == 8
    assert one.skipped == {"session of a subagent that is left out": 1}


def test_a_view_in_the_place_of_a_table_is_refused(tmp_path):
    path = tmp_path / "opencode.db"
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS id, x AS session_id, x AS data FROM c"
    with_rows(
        path,
        (f"CREATE VIEW message AS {endless}", ()),
        ("CREATE TABLE part (id TEXT, message_id TEXT, data TEXT)", ()),
    )
    with pytest.raises(FormatError, match="SQLite"):
        take(path)


def test_another_program_s_database_is_told_apart(tmp_path):
    path = with_rows(tmp_path / "other.db", ("CREATE TABLE cookies (id)", ()))
    with pytest.raises(FormatError, match="SQLite database"):
        take(path)


def test_rows_of_the_wrong_kind_are_counted(tmp_path):
    path = with_rows(
        as_database(tmp_path, OPENCODE),
        ("UPDATE message SET data = 5 WHERE id = 'msg_3'", ()),
        ("UPDATE part SET data = x'FF00' WHERE id = 'prt_6'", ()),
        ("UPDATE part SET data = NULL WHERE id = 'prt_5'", ()),
        ("UPDATE part SET data = '[1]' WHERE id = 'prt_7'", ()),
    )
    (imported,) = take(path)
    assert imported.unreadable_lines == [3]
    assert imported.skipped["part that cannot be read"] == 3
    assert imported.counts["prompts"] == 1


def test_a_row_that_is_too_large_is_counted(tmp_path):
    path = as_database(tmp_path, OPENCODE)
    with_rows(path, ("UPDATE part SET data = zeroblob(40 << 20) WHERE id = 'prt_6'", ()))
    (imported,) = take(path)
    assert imported.skipped["part that cannot be read"] == 1


def test_nothing_is_written_beside_it(tmp_path):
    path = as_database(tmp_path, OPENCODE)
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    take(path)
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before


def test_what_is_still_in_the_log_is_read(tmp_path):
    """While opencode runs, its last writes stand in a log beside the database."""
    path = as_database(tmp_path, OPENCODE)
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("INSERT INTO message VALUES ('msg_2a', 'ses_a', 1760000002000, ?)", (json.dumps({"role": "user"}),))
    writer.execute("INSERT INTO part VALUES ('prt_2a', 'msg_2a', ?)", (json.dumps({"type": "text", "text": "and?"}),))
    writer.commit()
    (imported,) = take(path)
    writer.close()
    assert imported.counts["prompts"] == 2


@pytest.mark.slow
def test_changed_bytes_give_an_error_or_a_sound_trail(tmp_path):
    path = as_database(tmp_path, OPENCODE)
    whole = path.read_bytes()
    chance = random.Random(5)
    refused = taken = 0
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 4, 40))):
            data[chance.randrange(len(data)) if chance.random() < 0.7 else chance.randrange(200)] = chance.randrange(
                256
            )
        path.write_bytes(data)
        try:
            take(path)
            taken += 1
        except FormatError as error:
            assert str(path) in str(error)  # noqa: PT017 - either is right
            refused += 1
    assert refused > 20
    assert taken > 20


@pytest.mark.parametrize("what", ["damaged", "another's"])
def test_a_database_that_is_refused_is_closed(tmp_path, what):
    path = as_database(tmp_path, OPENCODE)
    if what == "damaged":
        path.write_bytes(path.read_bytes()[:100] + bytes([0xFF]) * (path.stat().st_size - 100))
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DROP TABLE part")
    kept = []  # errors, and by their tracebacks all that was made on the way
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(FormatError) as caught:
            Database(os.fspath(path))
        kept.append(caught)
    assert len(os.listdir("/proc/self/fd")) == before


def test_links_in_the_folder_are_not_followed(tmp_path):
    """A session that somebody sent takes no other file of this machine with it."""
    path = SAMPLES["opencode-files"].write(tmp_path, OPENCODE)
    storage = path.parents[2]
    (full,) = take(path)
    elsewhere = tmp_path / "elsewhere"
    os.rename(storage / "part" / "msg_1", elsewhere)
    os.symlink(elsewhere, storage / "part" / "msg_1")
    (imported,) = take(path)
    assert imported.counts["prompts"] == full.counts["prompts"] - 1
    os.unlink(storage / "part" / "msg_1")
    os.mkdir(storage / "part" / "msg_1")
    os.symlink(elsewhere / "prt_1.json", storage / "part" / "msg_1" / "prt_1.json")
    assert take(path)[0].counts["prompts"] == full.counts["prompts"] - 1
