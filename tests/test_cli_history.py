"""``log``, ``blame``, ``undo`` and ``show --at`` as a person types them."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from cli_support import Shell, decoded, fill
from periplus.base.ids import new_id
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.project import Project
from test_cli_terminal import on_terminal, wide


@pytest.fixture
def sh(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    shell = Shell(tmp_path / "project", tmp_path / "home")
    fill(shell, "one", "two", "three")
    return shell


def seqs(document):
    return [record.seq for record in document.records]


# -- log ---------------------------------------------------------------------------------------------------------------


def test_a_reader_sees_what_is_new_since_its_last_look(sh):
    first = sh.json("log", "--reader", "me")
    assert (seqs(first), first.reader, first.more, first.gaps) == ([1, 2, 3], "me", False, [])
    assert first.seen == {first.lineage: 3}
    assert sh("log", "--reader", "me").out == "Nothing new.\n"
    sh("remember", "four", "--type", "trap")
    assert "trap: four" in sh("log", "--reader", "me").lines[0]
    assert seqs(sh.json("log", "--reader", "me")) == []
    assert seqs(sh.json("log", "--reader", "you", "--limit", "1")) == [1]
    assert sh("log", "--reader", "you", "--limit", "1").lines[-1] == "more: periplus log --reader you"
    assert seqs(sh.json("log", "--reader", "you", "--since-seq", "1", "--limit", "1")) == [2]
    assert seqs(sh.json("log", "--reader", "you")) == [3, 4]


def test_a_reader_whose_output_could_not_be_written_sees_it_again(sh):
    with open("/dev/full", "w") as full:
        process = sh.start("log", "--reader", "me", stdout=full, stderr=subprocess.PIPE)
        assert b"No space left" in process.communicate(timeout=60)[1]
    assert process.returncode == 3
    assert seqs(sh.json("log", "--reader", "me")) == [1, 2, 3]


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_of_whose_output_a_part_was_written_sees_it_again(sh, tmp_path, unbuffered):
    limit = 600  # the system takes so many bytes of a write, says so, and refuses the next
    with open(tmp_path / "cut", "w") as cut:
        process = sh.start(
            "log", "--reader", "me", "--json", env={"PYTHONUNBUFFERED": unbuffered, "PYTHONDONTWRITEBYTECODE": "1"}, stdout=cut, stderr=subprocess.PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )  # fmt: skip
        told = process.communicate(timeout=60)[1].decode()
    assert "standard output cannot be written: File too large" in told
    assert (process.returncode, (tmp_path / "cut").stat().st_size) == (3, limit)
    assert seqs(sh.json("log", "--reader", "me")) == [1, 2, 3]


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_pipe_into_a_file_with_room_for_a_part_fails(sh, tmp_path, unbuffered):
    """An export that was cut off must not look like one that is whole."""
    sh("export", "whole.zip")
    whole = (sh.folder / "whole.zip").stat().st_size
    with open(tmp_path / "cut", "wb") as cut:
        cut.seek(100)  # so there is room for the file itself, and not behind these
        process = sh.start(
            "export", "-", env={"PYTHONUNBUFFERED": unbuffered, "PYTHONDONTWRITEBYTECODE": "1"}, stdout=cut, stderr=subprocess.PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (whole + 50, whole + 50)),
        )  # fmt: skip
        told = process.communicate(timeout=60)[1].decode()
    assert "cannot write standard output: File too large" in told
    assert process.returncode == 3


def test_what_came_behind_a_seq(sh):
    assert seqs(sh.json("log", "--since-seq", "1")) == [2, 3]
    assert sh("log", "--since-seq", "3").out == "No matching records.\n"
    limited = sh("log", "--since-seq", "0", "--limit", "2")
    assert limited.lines[-1] == "more: periplus log --since-seq 2"
    lineage = sh.json("log").lineage
    assert seqs(sh.json("log", "--since-seq", f"{lineage}:2", "--lineage", "all")) == [3]


@pytest.mark.parametrize(
    ("words", "code", "wrong"),
    [
        (["--since-seq", "9"], 1, "there is no record 9: the newest of lin_"),
        (["--reader", "../x"], 2, "'../x' is not a valid reader name"),
        (["--reader", ""], 2, "'' is not a valid reader name"),
        (["--reader", "me", "--before", "2"], 2, "--before cannot be combined with --reader"),
        (["--follow", "--before", "2"], 2, "--before cannot be combined with --reader"),
        (["--since-seq", "x"], 2, "'x' is not a whole number"),
        (["--before", "nobody:2"], 2, "'nobody:2' is not LINEAGE:SEQ"),
        (["--since", "yesterday"], 2, "--since 'yesterday' is not a time"),
        (["--until", "soon"], 2, "--until 'soon' is not a time"),
        (["--lineage", "lin_zzzz"], 1, "there is no lineage 'lin_zzzz'"),
        (["--action", "explode"], 2, "invalid choice: 'explode'"),
        (["--writer", "\udc80"], 2, "--writer is not UTF-8"),
    ],
)
def test_wrong_input_is_said(sh, words, code, wrong):
    sh.fails("log", *words, code=code, wrong=wrong)
    assert not (sh.folder / ".periplus" / "cursors").exists()


def test_filters(sh):
    sh("remember", "mine", "--as", "grace", env={"PERIPLUS_SESSION": "s-1"})
    grace = sh.json("log", "--writer", "grace")
    assert [record.summary for record in grace.records] == ["note: mine"]
    assert sh.json("log", "--session", "s-1").records == grace.records
    assert sh.json("log", "--session", "s-2").records == []
    assert len(sh.json("log", "--action", "create").records) == 4
    assert sh("log", "--action", "delete").out == "No matching records.\n"
    one = grace.records[0]
    assert sh.json("log", "--id", one.id[:12]).records == [one]
    assert sh.json("log", "--since", one.ts, "--writer", "grace").records == [one]
    assert sh.json("log", "--until", one.ts, "--writer", "grace").records == []
    assert sh.json("log", "--since", "2020-01-01", "--until", "2020-12-31").records == []
    page = sh("log", "--limit", "1", "--type", "note", "--writer", "ada", "--writer", "gr ace")
    assert page.lines[-1] == "older: periplus log --before 3 --type note --writer ada --writer 'gr ace'"
    assert (one.rev, one.conflict, one.lineage) == (1, False, grace.lineage)


@pytest.mark.slow
def test_a_narrow_terminal_and_a_wide_one(sh):
    sh("remember", "歯車は三百枚あります " * 20, "--type", "decision")
    for width in (20, 40, 59, 60, 80, 95, 96, 100):
        for words in (["log"], ["log", "--reader", f"w{width}"], ["log", "--since-seq", "0"]):
            _, shown = on_terminal(sh, *words, width=width)
            # below 40 columns ids are cut; the line that names the next command is never
            assert [line for line in shown.splitlines() if wide(line) > max(width, 40)] == []


def test_a_summary_has_room_in_a_terminal_of_eighty_columns(sh):
    text = "Two dozen columns are not enough to say what this is about"
    sh("remember", text)
    for width in (80, 95):
        assert f"note: {text}"[:48] in on_terminal(sh, "log", width=width)[1]
    assert re.search(r"\d\d:\d\d  r1  note: Two", on_terminal(sh, "log", width=80)[1])


# -- observations ------------------------------------------------------------------------------------------------------


@pytest.fixture
def watched(sh):
    """Behind three notes: two sessions that observe in turns, 60 records; a note; 30 more of one; a single one of the other."""
    with Project(sh.folder / ".periplus", Writer("ada", "")) as project:

        def observed(session, *types):
            def write(transaction):
                for number, name in enumerate(types):
                    transaction.observe({"n": number}, item_type=name, item_id=f"{name}_1", summary=f"step {number}")

            project.journal.mutate(write, Writer("ada", "who_0000000000000001", session, 1))

        for _ in range(10):
            observed("night", "run", "run", "session")
            observed("day", "run", "session", "task")
        project.remember(Memory("note", "between"))
        observed("night", *["run"] * 30)
        observed("day", "task")
    return sh


def said(line):
    """Seq, action, the name, and what is said of it."""
    seq, _, action, rest = line.split(maxsplit=3)
    name, _, summary = rest.partition(" ")
    return int(seq.partition("@")[0]), action, name, summary.strip()


def test_observations_in_a_row_are_a_line_for_each_session(watched):
    assert [said(line)[2:] for line in watched("log").lines[2:]] == [
        (said(watched("log").lines[2])[2], "r1  note: between"),
        ("day", "30 records: 10 run, 10 session, 10 task (7 to 63)"),
        ("night", "30 records: 20 run, 10 session (4 to 60)"),
        *[(said(line)[2:]) for line in watched("log", "--before", "4").lines],
    ]
    assert [said(line) for line in watched("log").lines[:2]] == [
        (95, "observe", "task_1", "step 0"),
        (94, "observe", "night", "30 records of run (65 to 94)"),
    ]
    assert len(watched("log", "--before", "4").lines) == 3


def test_a_fold_counts_as_one_and_the_next_page_begins_behind_it(watched):
    page = watched("log", "--limit", "2").lines
    assert [said(line)[0] for line in page[:2]] == [95, 94]
    assert page[2] == "older: periplus log --before 65"
    page = watched("log", "--before", "65", "--limit", "3").lines
    assert [said(line)[0] for line in page[:3]] == [64, 63, 60]
    assert page[3] == "older: periplus log --before 4"
    # In the middle of a stretch of which another session wrote the rest nothing is passed over.
    shown, at = 0, "96"
    while at:
        *lines, last = watched("log", "--before", at, "--limit", "1").lines
        found = re.search(r"--before (\d+)", last)
        at, lines = (found[1], lines) if found else ("", [last])
        (line,) = lines
        fold = re.match(r"(\d+) records", said(line)[3])
        shown += int(fold[1]) if fold else 1
    assert shown == 95


def test_who_asks_for_observations_sees_each(watched):
    assert len(watched("log", "--observations", "--limit", "1000").lines) == 95
    page = watched("log", "--observations", "--limit", "40", "--type", "run").lines
    assert len(page) == 41
    assert page[-1].endswith(" --type run --observations")
    assert len(watched("log", "--action", "observe", "--limit", "1000").lines) == 91
    assert seqs(watched.json("log")) == [*range(95, 75, -1)]
    assert watched.json("log", "--observations").records == watched.json("log").records
    assert seqs(watched.json("log", "--since-seq", "93")) == [94, 95]
    help_ = " ".join(watched("log", "--help").out.split())
    assert "group consecutive ones, one line a session" in help_


def test_filters_choose_what_is_folded(watched):
    assert [said(line)[2:] for line in watched("log", "--session", "day", "--type", "session").lines] == [
        ("day", "10 records of session (8 to 62)")
    ]
    assert [said(line)[2:] for line in watched("log", "--session", "night").lines] == [
        ("night", "60 records: 50 run, 10 session (4 to 94)")
    ]


def test_what_is_new_is_folded_too_and_the_reader_has_seen_it(watched):
    lines = watched("log", "--reader", "me").lines
    assert [said(line)[0] for line in lines] == [1, 2, 3, 4, 7, 64, 65, 95]
    assert said(lines[3])[2:] == ("night", "30 records: 20 run, 10 session (4 to 60)")
    assert watched("log", "--reader", "me").out == "Nothing new.\n"
    assert watched("log", "--since-seq", "64", "--limit", "5").lines[-1] == "more: periplus log --since-seq 69"
    assert len(watched("log", "--since-seq", "64", "--observations").lines) == 31


def test_a_fold_of_several_clones_names_where_each_goes_on(watched, tmp_path):
    other = Shell(tmp_path / "clone", tmp_path / "home")
    other.folder.mkdir()
    watched("export", "store.zip")
    other("import", watched.folder / "store.zip", ".")
    other("remember", "from the clone")
    page = other("log", "--lineage", "all", "--limit", "3").lines
    assert [said(line)[3] for line in page[1:3]] == ["step 0", "30 records of run (65 to 94)"]
    words = shlex.split(page[-1].removeprefix("older: periplus "))
    assert "note: between" in other(*words, "--limit", "1").lines[0]


@pytest.mark.slow
def test_a_run_beyond_what_is_read_for_a_screen_goes_on_on_the_next(sh):
    with Project(sh.folder / ".periplus", Writer("ada", "")) as project:
        for _ in range(6):
            project.journal.mutate(
                lambda transaction: [transaction.observe({}, item_type="run", item_id="run_1") for _ in range(1000)],
                Writer("ada", "who_0000000000000001", "night", 1),
            )
    (fold, older) = sh("log").lines
    size, first, last = map(int, re.findall(r"\d+", said(fold)[3].replace(",", "")))
    assert (last, first) == (6003, 6003 - size + 1)
    assert older == f"older: periplus log --before {first}"
    rest = sh("log", "--before", str(first)).lines
    assert said(rest[0])[3] == f"{6000 - size:,} records of run (4 to {first - 1:,})"


def test_a_fold_fits_a_narrow_terminal_and_says_its_count_in_any(watched):
    for width in (40, 60, 80, 120):
        _, shown = on_terminal(watched, "log", width=width)
        assert [line for line in shown.splitlines() if wide(line) > width] == []
        assert shown.count("30 records") == 3
        assert ("30 records: 10 run, 10 session, 10 task" in shown) == (width >= 80)


# -- following ---------------------------------------------------------------------------------------------------------


def following(sh, *words):
    return sh.start("log", "--follow", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_following_prints_a_line_for_each_record_until_ctrl_c(sh):
    process = following(sh, "--json", "--limit", "1")
    lines = [decoded(process.stdout.readline())]
    sh("remember", "four")
    lines.append(decoded(process.stdout.readline()))
    assert [line.record.summary for line in lines] == ["note: three", "note: four"]
    assert [line.gap for line in lines] == [None, None]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, b"", b"")


def test_following_ends_when_nobody_reads_any_more_even_if_nothing_comes(sh):
    process = following(sh)
    assert b"note: one" in process.stdout.readline()
    process.stdout.close()
    assert process.wait(30) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


def test_following_as_a_reader_moves_its_cursor(sh):
    process = following(sh, "--json", "--reader", "me")
    assert [json.loads(process.stdout.readline())["record"]["seq"] for _ in range(3)] == [1, 2, 3]
    sh("remember", "four")
    assert json.loads(process.stdout.readline())["record"]["seq"] == 4
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    left = seqs(sh.json("log", "--reader", "me"))
    assert left in ([], [4])  # the last one again, where it was stopped before its cursor moved


def test_following_an_empty_store_sees_the_first_record(tmp_path):
    (tmp_path / "home").mkdir()
    shell = Shell(tmp_path, tmp_path / "home")
    shell("init")
    process = following(shell, "--json")
    shell("remember", "first")
    assert json.loads(process.stdout.readline())["record"]["summary"] == "note: first"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_reader_of_a_store_that_may_only_be_read_is_told(sh):
    store = sh.folder / ".periplus"
    os.chmod(store, 0o555)
    try:
        done = sh("log", "--reader", "me", code=3)
        assert "note: one" in done.out
        assert "cursors" in done.err
    finally:
        os.chmod(store, 0o755)


# -- show --at, blame ----------------------------------------------------------------------------------------------------


@pytest.fixture
def known(sh):
    """A decision (record 4) that a session replaced by another (record 5), which ended the first (record 6)."""
    sh("remember", "Hash passwords with bcrypt", "--type", "decision", "--rationale", "it is there", "--as", "grace")
    first = sh.json("log", "--limit", "1").records[0].id
    sh(
        "remember",
        "Hash passwords with argon2id",
        "--type",
        "decision",
        "--supersedes",
        first,
        env={"PERIPLUS_SESSION": "s-1"},
    )
    second = sh.json("log", "--action", "create", "--limit", "1").records[0].id
    return sh, first, second


def test_show_as_it_was(known):
    sh, first, second = known
    now, then = sh.json("show", first), sh.json("show", first, "--at", "4")
    assert (now.entity.value["state"], now.at, [r.seq for r in now.history]) == ("superseded", 0, [6, 4])
    assert (then.entity.value["state"], then.at, [r.seq for r in then.history]) == ("accepted", 4, [4])
    assert "  state       accepted\n" in sh("show", first, "--at", "5").out
    sh.fails("show", second, "--at", "4", code=1, wrong="did not exist at record 4")
    sh.fails("show", first, "--at", "7", code=1, wrong="there is no record 7: the newest of lin_")
    sh.fails("show", first, "--at", "0", code=1, wrong="there is no record 0")
    sh.fails("show", first, "--at", "x", code=2, wrong="'x' is not a whole number")


def test_blame_names_the_record_of_each_field(known):
    sh, first, _ = known
    found = sh.json("blame", first)
    origins = {
        field.name: [(one.record.seq, one.record.writer, one.certain) for one in field.origins]
        for field in found.fields
    }
    assert origins.pop("state") == [(6, "ada", True)]
    assert set(map(tuple, origins.values())) == {((4, "grace", True),)}
    assert {field.name: field.value for field in found.fields} == found.entity.value
    text = sh("blame", first).out
    assert "  state            6  " in text
    assert "transition by ada (s-1)  decision superseded" in text
    sh.fails("blame", "dec_", code=2, wrong="several ids")
    sh.fails("blame", "dec_zzz", code=1, wrong="nothing has an id that begins")
    sh.fails("blame", "\udc80", code=2, wrong="ID is not UTF-8")


# -- undo ----------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_undo_of_a_session_and_back(known):
    sh, first, second = known
    plan = sh.json("undo", "--session", "s-1", "--dry-run")
    assert [(one.id, one.outcome, one.seqs, one.fields) for one in plan.entities][1] == (
        first,
        "restored",
        [6],
        ["state"],
    )
    assert (plan.dry_run, plan.seqs, plan.first_seq, plan.last_seq, plan.key) == (True, [5, 6], 0, 0, "")
    assert sh("undo", "--session", "s-1", "--dry-run").lines[-1] == "Dry run: nothing was written."
    done = sh("undo", "--session", "s-1")
    assert done.lines[-1] == "Undone by record 7-8. To redo the change: periplus undo --seq 7-8"
    assert sh.json("show", first).entity.value["state"] == "accepted"
    sh.fails("show", second, code=1, wrong=f"{second} was deleted")
    assert sh.json("log", "--limit", "1").records[0].summary == "undo of seq 5-6, session s-1"
    assert sh("undo", "--session", "s-1").lines[-1] == "Nothing was written: there is nothing left to undo."
    back = sh.json("undo", "--seq", "7", "--seq", "8")
    assert (back.first_seq, back.last_seq) == (9, 10)
    assert sh.json("show", second).entity.value["text"] == "Hash passwords with argon2id"
    assert sh("doctor").lines[-1].startswith("sound")


def test_a_conflict_is_told_with_exit_code_5_and_the_rest_is_done(known):
    """What belongs to it stays with it: the first would hold again beside what replaced its successor."""
    sh, first, second = known
    sh("remember", "of the same session", env={"PERIPLUS_SESSION": "s-1"})
    sh("remember", "argon2id it is not", "--type", "decision", "--supersedes", second)
    done = sh.json("undo", "--session", "s-1", code=5)
    assert [(one.id, one.outcome, one.reason) for one in done.entities][:2] == [
        (second, "conflict", "it was created there, and changed since: state"),
        (first, "conflict", f"it belongs to {second}, which stays as it is"),
    ]
    assert done.entities[2].outcome == "deleted"
    out = sh("undo", "--session", "s-1", code=5).out
    assert "2 in conflict: not changed." in out


@pytest.mark.parametrize(
    ("words", "code", "wrong"),
    [
        ([], 2, "one of the arguments --seq --session is required"),
        (["--seq", "1", "--session", "s"], 1, "session 's' changed nothing among those records"),
        (["--seq", "1-3", "--session", ""], 2, "--session is empty"),
        (["--seq", "0"], 2, "0 is too small"),
        (["--seq", "3-1"], 2, "'3-1' is not a range"),
        (["--seq", "1-99999999"], 2, "is not a range of 1 to 20,000 records"),
        (["--seq", "x-2"], 2, "'x' is not a whole number"),
        (["--seq", "9"], 1, "there is no record 9: the newest of lin_"),
        (["--session", "nobody"], 1, "session 'nobody' changed nothing"),
        (["--session", "\udc80"], 2, "--session is not UTF-8"),
        (["--seq", "1", "--lineage", "lin_zzz"], 1, "there is no lineage 'lin_zzz'"),
    ],
)
def test_wrong_undo_is_said_and_changes_nothing(sh, words, code, wrong):
    sh.fails("undo", *words, code=code, wrong=wrong)
    assert seqs(sh.json("log")) == [3, 2, 1]


def test_blame_and_undo_fit_a_narrow_terminal(known):
    sh, first, _ = known
    for words in (["blame", first], ["undo", "--session", "s-1", "--dry-run"]):
        raw, shown = on_terminal(sh, *words, width=50)
        assert [line for line in shown.splitlines() if wide(line) > 50] == []
        assert "\x1b[" in raw


def test_a_session_is_named_by_the_id_of_its_entity_too(sh):
    begun = sh("session", "begin", "night-1").lines[0].split()[0]
    sh("remember", "in the night", env={"PERIPLUS_SESSION": "night-1"})
    for words in (["--session", begun], ["--session", begun[:9]], ["--session", "night-1"]):
        assert [record.summary for record in sh.json("log", *words).records] == ["note: in the night"]
        assert [one.outcome for one in sh.json("undo", "--dry-run", *words).entities] == ["deleted"]
    wrong = sh.fails("undo", "--session", "ses_0000", code=1, wrong="session 'ses_0000' changed nothing")
    assert "periplus log --session ID" in wrong.err
    sh.fails("session", "end", "night-2", code=1, wrong="there is no session 'night-2'")
    assert sh("session", "end", begun[:9]).lines[0].startswith(f"{begun} sealed")


def test_who_begins_a_session_is_told_how_to_write_in_it(sh):
    told = sh("session", "begin", "night 1").lines
    assert told[1:] == ["Next: export PERIPLUS_SESSION='night 1', so that your writes belong to it"]
    again = sh("session", "begin", "night 1", env={"PERIPLUS_SESSION": "night 1"}).lines
    assert again == told[:1], "who writes in it knows"
    assert len(sh("session", "end", "night 1").lines) == 1


def test_what_was_deleted_is_said_to_be_and_where_to_look(sh):
    item = sh.json("log", "--limit", "1").records[0].id
    sh("undo", "--seq", "3")
    wrong = sh.fails("show", item[:8], code=1, wrong=f"{item} was deleted")
    assert f"periplus log --id {item}" in wrong.err
    assert sh("show", item[:8], "--at", "3").lines[0].startswith(f"note {item}")


def test_records_of_another_clone_are_marked_wherever_they_are_shown(tmp_path, sh):
    item = sh.json("log", "--limit", "1").records[0].id
    (tmp_path / "other").mkdir()
    other = Shell(tmp_path / "other", sh.home)
    sh("export", tmp_path / "s.zip")
    other("import", tmp_path / "s.zip")
    other("set", item, "text=three, again")
    mark = "@" + sh.json("log").lineage[-6:]
    assert [line.split()[0] for line in other("show", item).lines[-2:]] == ["1", f"3{mark}"]
    assert [line.split()[0] for line in other("log", "--lineage", mark[1:]).lines] == [
        f"{at}{mark}" for at in (3, 2, 1)
    ]
    wrong = other.fails("undo", "--seq", f"3{mark}", code=2, wrong="is a record of another clone")
    assert f"write 3 --lineage {mark[1:]}" in wrong.err
    assert other("undo", "--seq", "3", "--lineage", mark[1:], "--dry-run", code=5).lines


def test_a_type_that_only_observations_have_can_be_asked_for(sh):
    assert sh("log", "--type", "task").out == "No matching records.\n"
    with Project.open(sh.folder, Writer.named("ada")) as project:
        project.journal.mutate(
            lambda transaction: transaction.observe({"v": 1}, item_type="weather", item_id="wea_0000000000000000"),
            project.writer,
        )
    assert [record.type for record in sh.json("log", "--type", "weather").records] == ["weather"]
    wrong = sh.fails("log", "--type", "wether", code=2, wrong="unknown type 'wether'")
    assert "skill_use, step, task, trail, trap, weather." in wrong.err


def test_the_page_on_history_is_run(tmp_path):
    """Every command of docs/guides/history.md, in order, prints what the page shows."""
    page = (Path(__file__).resolve().parents[1] / "docs" / "guides" / "history.md").read_text()
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    shell = Shell(tmp_path / "project", tmp_path / "home")
    shell("init")
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    commands = [chunk for block in blocks for chunk in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    assert len(commands) >= 8
    ids: dict[str, str] = {}
    for chunk in commands:
        typed, _, shown = chunk.partition("\n")
        environment = {}
        words = shlex.split(typed)
        while "=" in words[0]:
            name, _, content = words.pop(0).partition("=")
            environment[name] = content
        assert words.pop(0) == "periplus"
        out = shell(*(ids.get(word, word) for word in words), env=environment).out
        for found in re.findall(r"\b(?:dec|not)_[0-9a-z]{16}\b", out):
            if found not in ids.values():
                ids[f"{found[:4]}{'abcdef'[len(ids)] * 16}"] = found
        for name, real in ids.items():
            out = out.replace(real, name)
        out = re.sub(r"20\d\d-\d\d-\d\d(T[\d:.]+Z?)?", lambda m: "TIME" if m[1] else "DATE", out)
        assert re.sub(r"version [0-9a-f]{12}", "version VERSION", out) == shown, typed


def test_every_type_that_a_store_knows_can_be_asked_for(tmp_path):
    from periplus.cli.main import main
    from periplus.project import Project
    from support import WRITER

    with Project(Project.init(str(tmp_path)).root, WRITER) as project:
        names = sorted(project.types)
    assert len(names) > 15
    for name in names:
        assert main(["log", "--type", name, "--store", str(tmp_path)]) in (0, 1), name  # 1: nothing found
    assert main(["log", "--type", "rumour", "--store", str(tmp_path)]) == 2


def test_where_the_archive_is_elsewhere_the_rest_is_shown_and_the_gap_told(tmp_path):
    shell = Shell(tmp_path / "project", tmp_path)
    shell.folder.mkdir()
    shell("init")
    store = shell.folder / ".periplus"
    config = store / "config.toml"
    config.write_text(config.read_text().replace("[journal]", "[journal]\nsegment_bytes = 1500\nlive_segments = 1"))
    for number in range(9):
        shell("remember", f"Thing number {number} of the boats", "--type", "note", "--key", f"k{number}")
        if number in (5, 8):
            shell("doctor", "--compact")
    first = shell.json("log", "--limit", "100").records[-1].id
    [archive] = store.glob("journal/lin_*/archive")
    away = archive.rename(tmp_path / "away")
    (store / "index.sqlite").unlink()
    done = shell("log", "--limit", "100")
    assert done.lines[0].startswith("gap: records 1 to ")
    assert "Thing number 8" in done.out
    assert shell.json("log", "--limit", "100").gaps[0].first == 1
    assert "gap" not in shell("log", "--limit", "2").out
    done = shell("show", first)
    assert "Thing number 0" in done.out
    assert "older records are missing" in done.out
    told = shell("doctor", code=3).out
    assert "segments before seq" in told
    assert "index" not in told
    shell("remember", "Life goes on", "--type", "note")
    shell.fails("undo", "--seq", "1", code=3, wrong="missing")
    away.rename(archive)
    assert "older records" not in shell("show", first).out
    shell("doctor")


def test_log_says_where_a_store_that_was_copied_goes_on(tmp_path, sh):
    lineage = sh.json("log").lineage
    copied = tmp_path / "copied"
    shutil.copytree(sh.folder, copied)
    sh("remember", "after", cwd=copied)
    done = sh("log", cwd=copied)
    assert any(line.endswith(": after") for line in done.lines)
    assert done.lines[-1] == f"from before the store was copied, moved or restored: periplus log --lineage {lineage}"
    assert "before it was copied" not in sh("log", "--lineage", "all", cwd=copied).out
    assert "before it was copied" not in sh("log").out
    assert "one" in sh("log", "--lineage", lineage, cwd=copied).out


# -- much at once ------------------------------------------------------------------------------------------------------


def test_of_a_long_history_show_tells_the_newest_and_where_the_rest_is(sh):
    ada = Writer.named("ada")
    with Project.open(str(sh.folder), ada) as project:
        note = next(iter(project.journal.entities()))
        for _ in range(2):  # several records of one entity in one mutation, twice

            def write(transaction):
                for number in range(30):
                    transaction.put(note.item_type, note.item_id, {**note.value, "text": f"said {number}"})

            project.journal.mutate(write, ada)
    out = sh("show", note.item_id)
    told = out.lines[out.lines.index("history") + 1 :]
    assert told[-1] == f"  … and 11 older: periplus log --id {note.item_id} --lineage all, or --json"
    assert [int(line.split()[0]) for line in told[:-1]] == list(range(63, 13, -1))
    assert len(sh.json("show", note.item_id).history) == 61
    assert "older" not in sh("show", note.item_id, "--at", "50").out


def test_of_a_large_undo_what_is_in_conflict_stands_first_and_the_rest_is_counted(sh):
    worker, ada = Writer.named("worker", session="large"), Writer.named("ada")
    with Project.open(str(sh.folder), worker) as project:
        value = next(iter(project.journal.entities())).value
        ids = [new_id("not") for _ in range(150)]
        project.journal.mutate(lambda t: [t.put("note", one, {**value, "text": one}) for one in ids], worker)
        project.journal.mutate(lambda t: [t.put("note", one, {**value, "text": "mine"}) for one in ids[-3:]], ada)
    out = sh("undo", "--session", "large", code=5)
    assert [line.split()[:2] for line in out.lines[:4]] == [
        *(["conflict", one] for one in ids[-3:]),
        ["deleted", ids[0]],
    ]
    assert out.lines[100:] == [
        "… and 50 more (50 deleted); each of them: --dry-run --json",
        "3 in conflict: not changed. See `periplus blame ID`.",
        "Undone by record 157-303. To redo the change: periplus undo --seq 157-303",
    ]
    assert len(sh.json("undo", "--session", "large", "--dry-run", code=5).entities) == 150


@pytest.mark.parametrize("pasted", ["{}", " {} ", "\ufeff{}\r\n", "\t{}"])
def test_a_session_that_was_pasted_is_found(tmp_path, pasted):
    sh = Shell(tmp_path, tmp_path)
    sh("init")
    made = sh.json("session", "begin", "s-1").session.id
    sh("remember", "Cogs turn", env={"PERIPLUS_SESSION": "s-1"})
    for name in ("s-1", made, made.upper(), made[:8]):
        typed = pasted.format(name)
        assert len(sh.json("log", "--session", typed).records) == 1, typed
        assert len(sh.json("undo", "--session", typed, "--dry-run").entities) == 1
        assert sh.json("changed", "--since", typed, code=1).since == "the session s-1"
        assert sh.json("session", "end", typed).session.state == "sealed"
        sh("session", "begin", "s-1")


def test_a_session_whose_name_has_blanks_around_it_is_another(tmp_path):
    sh = Shell(tmp_path, tmp_path)
    sh("init")
    for name, text in (("s", "Cogs turn"), (" s", "Wheels turn")):
        sh("remember", text, env={"PERIPLUS_SESSION": name})
    told = {name: [one.session for one in sh.json("log", "--session", name).records] for name in ("s", " s", "s ")}
    assert told == {"s": ["s"], " s": [" s"], "s ": ["s"]}
