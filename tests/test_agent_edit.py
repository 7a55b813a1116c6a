"""The edit engine: what is found, what is tolerated and told, what is refused, and that nothing else changes."""

from __future__ import annotations

import errno
import os
import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_tools_support import edit, make_host
from periplus.agent.tools.files.change_log import Change, ChangeLog
from periplus.agent.tools.files.edit_engine import EditError, edit_lines
from periplus.agent.tools.files.text_encoding import BinaryFileError, decode, encode, split_ends
from periplus.base.encoding.digests import sha256
from periplus.base.errors import ConflictError, DamageError, EnvironmentFailure, NotFoundError
from periplus.base.files import Files
from periplus.base.filesystem.confined_folder import Confined
from support import Stop, StoppingFiles

ENDS = st.sampled_from(["\n", "\r\n"])
ROW = st.text(st.sampled_from("ab \t(){}=x1é"), max_size=8)
RAW = st.lists(st.tuples(ROW, ENDS), max_size=12).map(lambda rows: "".join(a + b for a, b in rows))
TEXT = st.tuples(RAW, ROW).map("".join)
SETTINGS = settings(max_examples=200, deadline=None)


@pytest.mark.slow
@SETTINGS
@given(st.text())
def test_ends_of_lines_come_back_as_they_were(text):
    assert split_ends(text).joined() == text


@SETTINGS
@given(st.binary(max_size=80) | TEXT.map(lambda t: t.encode()) | TEXT.map(lambda t: t.encode("utf-16")))
def test_what_can_be_decoded_gives_the_same_bytes_again(data):
    try:
        text = decode(data)
    except BinaryFileError:
        return
    assert encode(text) == data


@pytest.mark.slow
@SETTINGS
@given(TEXT, TEXT, st.text(st.sampled_from("QZ\n "), max_size=8), st.text(st.sampled_from("qz\n"), max_size=8), ENDS)
def test_an_exact_edit_changes_what_it_names_and_nothing_else(before, after, old, new, end):
    old, new = "Q" + old + "Q", "q" + new + "q"
    if before.endswith("\r") or before[-1:] + after[:1] == "\r\n":
        return
    raw = before + old.replace("\n", end) + after
    out = edit_lines(split_ends(raw), old, new).lines.joined()
    assert out.startswith(before)
    assert out.endswith(after)
    middle = out[len(before) : len(out) - len(after)]
    assert middle.replace("\r\n", "\n") == new
    held = [end] * old.count("\n")
    made = [piece.endswith("\r") for piece in middle.split("\n")[:-1]]
    assert made[: len(held)] == [end == "\r\n"] * min(len(held), len(made))


@pytest.mark.slow
@SETTINGS
@given(
    RAW,
    RAW,
    st.lists(st.text("xyz", min_size=1, max_size=4), min_size=2, max_size=4),
    st.integers(1, 3),
    st.integers(0, 2),
)
def test_an_indentation_that_is_off_is_put_right_and_told(before, after, rows, deep, extra):
    """The file has the block ``deep`` deeper than it was given; what is put in comes out as deep."""
    held = "".join("    " * deep + f"K{row}\n" for row in rows)
    raw = before + held + after
    old = "".join(f"K{row}\n" for row in rows)
    new = "".join("  " * extra + f"N{row}\n" for row in rows)
    edited = edit_lines(split_ends(raw), old, new)
    wanted = "".join("    " * deep + "  " * extra + f"N{row}\n" for row in rows)
    assert edited.lines.joined() == before + wanted + after
    assert edited.tolerated == ("indentation",)


@SETTINGS
@given(RAW, st.text("ab", min_size=1, max_size=4), st.integers(2, 4))
def test_what_stands_several_times_is_refused_unless_all_are_meant(between, word, times):
    piece = f"K{word}K"
    raw = (between + piece + "\n") * times
    with pytest.raises(EditError, match=f"found {times} times"):
        edit_lines(split_ends(raw), piece, "N")
    out = edit_lines(split_ends(raw), piece, "N", every=True)
    assert out.lines.joined() == raw.replace(piece, "N")
    assert len(out.places) == times


@pytest.mark.parametrize(
    ("held", "old", "new", "wanted", "tolerated"),
    [
        ("a  \nb\n", "a\nb\n", "c\n", "c\n", "blanks at the ends of lines"),
        ("say “hi”\n", 'say "hi"\n', "bye\n", "bye\n", "typographic quotes, dashes and blanks"),
        ("a\nb", "a\nb\n", "c\nd\n", "c\nd", "the file's last line has no end"),
        ("a\nb\n", "1\ta\n2\tb\n", "1\ta\n2\tc\n", "a\nc\n", "line numbers copied from the listing"),
        ("\tif x:\n\t\ty\n", "if x:\n    y\n", "if z:\n    w\n", "\tif z:\n\t\tw\n", "indentation"),
        ("a\nb\n", "a\r\nb\r\n", "c\r\nd\r\n", "c\nd\n", "line ends"),
        ("x = 1\n", "        x = 1\n", "        y = 2\n", "y = 2\n", "indentation"),
    ],
)
def test_each_tolerance_is_told(held, old, new, wanted, tolerated):
    edited = edit_lines(split_ends(held), old, new)
    assert edited.lines.joined() == wanted
    assert tolerated in edited.tolerated


@pytest.mark.parametrize(
    ("held", "old", "new", "said"),
    [
        ("a\n", "", "b", "is empty"),
        ("a\n\n\n", "\n\n", "b", "is blank"),
        ("a\n", " \t", "b", "is blank"),
        ("a\n", "a", "a", "nothing would change"),
        ("a\n", "zzz", "b", "not in the file"),
        ("aaa\n", "aa", "b", "overlaps itself"),
        ("  k\n    k\n", "\tk\n", "n\n", "matches 2 places"),
        ("alpha beta gamma\nx\n", "alpha beta gamma\ny\n", "q\n", "its first line is at 1"),
        ("a\n  b\n", "  a\n  b\n", "c\nd\n", "not in the file"),
    ],
)
def test_what_is_refused(held, old, new, said):
    with pytest.raises(EditError, match=said):
        edit_lines(split_ends(held), old, new)


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [("utf-8", b""), ("utf-8", b"\xef\xbb\xbf"), ("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff"),
     ("utf-32-le", b"\xff\xfe\0\0"), ("latin-1", b""), ("utf-16-le", b"")],
)  # fmt: skip
def test_the_encoding_and_its_mark_are_kept(tmp_path, encoding, mark):
    host = make_host(tmp_path)
    path = tmp_path / "work" / "a.txt"
    path.write_bytes(mark + "eins é\r\nzwei\r\ndrei".encode(encoding))
    assert host.run("read", {"path": "a.txt"}).outcome == "ok"
    done = host.run("edit", edit("a.txt", "zwei", "2\n3"))
    assert done.outcome == "ok", done.output
    assert path.read_bytes() == mark + "eins é\r\n2\r\n3\r\ndrei".encode(encoding)


def test_a_character_that_the_encoding_cannot_hold_is_refused(tmp_path):
    host = make_host(tmp_path)
    path = tmp_path / "work" / "a.txt"
    path.write_bytes("é zwei".encode("latin-1"))
    done = host.run("edit", edit("a.txt", "zwei", "€"))
    assert done.outcome == "failed"
    assert "latin-1, which cannot hold '€'" in done.output
    assert path.read_bytes() == "é zwei".encode("latin-1")


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o700, 0o664])
def test_the_mode_is_kept(tmp_path, mode):
    host = make_host(tmp_path)
    path = tmp_path / "work" / "run.sh"
    path.write_text("echo a\n")
    path.chmod(mode)
    host.run("read", {"path": "run.sh"})
    assert host.run("edit", edit("run.sh", "a", "b")).outcome == "ok"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert host.run("write", {"path": "run.sh", "content": "echo c\n"}).outcome == "ok"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert host.run("write", {"path": "run.sh", "content": "echo d\n", "executable": True}).outcome == "ok"
    assert stat.S_IMODE(path.stat().st_mode) == mode | 0o111


def test_a_file_changed_since_it_was_read_is_not_edited(tmp_path):
    host = make_host(tmp_path)
    path = tmp_path / "work" / "a.txt"
    path.write_text("one\ntwo\n")
    host.run("read", {"path": "a.txt"})
    path.write_text("one\ntwo\nthree\n")
    done = host.run("edit", edit("a.txt", "one", "1"))
    assert done.outcome == "failed"
    assert "changed since it was read" in done.output
    assert path.read_text() == "one\ntwo\nthree\n"
    assert host.run("write", {"path": "a.txt", "content": "x"}).outcome == "failed"
    host.run("read", {"path": "a.txt"})
    assert host.run("edit", edit("a.txt", "one", "1")).outcome == "ok"
    assert host.run("edit", edit("a.txt", "two", "2")).outcome == "ok"  # its own change is known


def test_a_file_that_was_not_read_is_not_written_over(tmp_path):
    host = make_host(tmp_path)
    path = tmp_path / "work" / "a.txt"
    path.write_text("one\n")
    done = host.run("write", {"path": "a.txt", "content": "x"})
    assert (done.outcome, path.read_text()) == ("failed", "one\n")
    assert "was not read" in done.output
    assert host.run("write", {"path": "new/deep/b.txt", "content": "x"}).outcome == "ok"
    assert (tmp_path / "work" / "new" / "deep" / "b.txt").read_text() == "x"


@pytest.mark.parametrize("make", ["link", "outside", "dangling", "hard", "git", "device"])
def test_links_and_the_like_are_refused(tmp_path, make):
    host = make_host(tmp_path)
    work = tmp_path / "work"
    outside = tmp_path / "secret.txt"
    outside.write_text("one")
    path = "a.txt"
    if make == "link":
        (work / "b.txt").write_text("one")
        (work / path).symlink_to("b.txt")
    elif make == "outside":
        (work / path).symlink_to(outside)
    elif make == "dangling":
        (work / path).symlink_to("nowhere")
    elif make == "hard":
        os.link(outside, work / path)
    elif make == "device":
        os.mkfifo(work / path)
    else:
        (work / ".git").mkdir()
        (work / ".git" / "config").write_text("one")
        path = ".git/config"
    done = host.run("edit", edit(path, "one", "two"))
    assert done.outcome == "denied", done.output
    host.run("read", {"path": path})  # a second name may be read; a change would be one of both
    assert host.run("write", {"path": path, "content": "two"}).outcome == "denied"
    assert outside.read_text() == "one"


def test_several_files_change_together_or_not_at_all(tmp_path):
    host = make_host(tmp_path)
    work = tmp_path / "work"
    for name in "abc":
        (work / f"{name}.txt").write_text(f"{name} old\n")
    (work / "c.txt").chmod(0o755)
    edits = [
        {"path": "a.txt", "old": "old", "new": "new"},
        {"path": "b.txt", "delete": True},
        {"path": "c.txt", "move_to": "d/e.txt"},
        {"path": "f.txt", "create": "fresh\n"},
        {"path": "a.txt", "old": "a new", "new": "a newer"},
    ]
    bad = host.run("edit", {"edits": [*edits, {"path": "a.txt", "old": "nowhere", "new": "x"}]})
    assert bad.outcome == "failed"
    assert "edit 6 of 6" in bad.output
    assert sorted(os.listdir(work)) == ["a.txt", "b.txt", "c.txt"]
    done = host.run("edit", {"edits": edits})
    assert done.outcome == "ok", done.output
    assert (work / "a.txt").read_text() == "a newer\n"
    assert (work / "d" / "e.txt").read_text() == "c old\n"
    assert os.access(work / "d" / "e.txt", os.X_OK)
    assert sorted(os.listdir(work)) == ["a.txt", "d", "f.txt"]
    assert {one["path"]: (one["before"] is None, one["after"] is None) for one in done.effects} == {
        "a.txt": (False, False), "b.txt": (False, True), "c.txt": (False, True), "d/e.txt": (True, False),
        "f.txt": (True, False),
    }  # fmt: skip
    host.undo("0")
    assert sorted(os.listdir(work)) == ["a.txt", "b.txt", "c.txt", "d"]
    assert (work / "a.txt").read_text() == "a old\n"
    assert os.access(work / "c.txt", os.X_OK)


def _tree(work):
    return {path.name: path.read_bytes() for path in work.rglob("*") if path.is_file()}


BEFORE = {"a": b"a1", "b": b"b1", "gone": b"g1"}
AFTER = {"a": b"a2", "b": b"b2", "fresh": b"f2"}
CHANGES = [
    Change("a", b"a1", b"a2"),
    Change("b", b"b1", b"b2"),
    Change("gone", b"g1", None),
    Change("fresh", None, b"f2"),
]


def _begin(tmp_path, files):
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    for name, data in BEFORE.items():
        (work / name).write_bytes(data)
    return work, ChangeLog(str(tmp_path / "state"), Confined(str(work), files=files), files)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_change_of_several_files_is_whole_wherever_it_is_stopped(tmp_path, share):
    counting = StoppingFiles(-1)
    work, log = _begin(tmp_path / "count", counting) if (tmp_path / "count").mkdir() is None else (None, None)
    counting.calls.clear()
    log.apply("1", CHANGES)
    total = len(counting.calls)
    assert _tree(work) == AFTER
    seen = set()
    for at in range(total):
        place = tmp_path / f"at{at}"
        place.mkdir()
        files = StoppingFiles(-1)
        work, log = _begin(place, files)
        files.calls.clear()
        files.at, files.share = at, share
        with pytest.raises(Stop):
            log.apply("1", CHANGES)
        again = ChangeLog(str(place / "state"), Confined(str(work)), Files())
        recovered = again.recover()
        tree = _tree(work)
        assert tree in (BEFORE, AFTER), (at, files.calls[at], recovered)
        seen.add(len(tree.get("a", b"")) and tree["a"])
        assert again.recover() == ((), (), ())
        if tree == AFTER:
            again.undo("1")
            assert _tree(work) == BEFORE
        else:
            again.apply("2", CHANGES)
            assert _tree(work) == AFTER
    assert seen == {b"a1", b"a2"}


def test_recovery_takes_back_what_another_has_changed_meanwhile(tmp_path):
    files = StoppingFiles(-1)
    work, log = _begin(tmp_path, files)
    renames = 0

    class AfterOne(StoppingFiles):
        def replace_at(self, *args):
            nonlocal renames
            super().replace_at(*args)
            renames += 1
            if renames == 1:
                raise Stop

    log = ChangeLog(str(tmp_path / "other"), Confined(str(work), files=AfterOne(10_000)), files)
    with pytest.raises(Stop):
        log.apply("1", CHANGES)
    assert (work / "a").read_bytes() == b"a2"
    (work / "b").write_bytes(b"of another")
    recovered = ChangeLog(str(tmp_path / "other"), Confined(str(work)), Files()).recover()
    assert recovered.left == ("b",)
    assert recovered.taken_back == ("a",)
    assert _tree(work) == BEFORE | {"b": b"of another"}


def test_a_turn_is_undone_from_its_snapshots_and_not_over_later_work(tmp_path):
    host = make_host(tmp_path)
    work = tmp_path / "work"
    (work / "a").write_text("1\n")
    for turn in "123":
        host.begin_turn(turn)
        assert host.run("edit", edit("a", f"{turn}\n", f"{int(turn) + 1}\n")).outcome == "ok"
    host.begin_turn("4")
    host.run("write", {"path": "b", "content": "b"})
    with pytest.raises(ConflictError, match="changed since"):
        host.undo("2")
    assert (work / "a").read_text() == "4\n"
    assert host.undo("4") == ("b",)
    assert not (work / "b").exists()
    assert host.undo("3") == ("a",)
    assert host.undo("2") == ("a",)
    assert (work / "a").read_text() == "2\n"
    with pytest.raises(NotFoundError):
        host.undo("2")
    assert host.work.changes.turns() == ["1"]


def test_what_others_wrote_since_stays_where_it_stands_in_other_lines(tmp_path):
    host = make_host(tmp_path)
    work = tmp_path / "work"
    (work / "a").write_bytes(b"one\ntwo\nthree\r\nfour\nfive")
    (work / "b").write_text("b\n")
    host.begin_turn("1")
    assert host.run("edit", edit("a", "two", "TWO")).outcome == "ok"
    assert host.run("edit", edit("b", "b", "B")).outcome == "ok"
    (work / "a").write_bytes(b"zero\none\nTWO\nthree\r\nfour\nFIVE")
    with pytest.raises(ConflictError, match="changed since") as refused:
        host.work.changes.undo("1")
    assert "/undo merge" in refused.value.mend
    assert (work / "b").read_text() == "B\n"
    assert host.work.changes.undo("1", is_merging=True) == (("a", "b"), (), ("a",))
    assert (work / "a").read_bytes() == b"zero\none\ntwo\nthree\r\nfour\nFIVE"
    assert (work / "b").read_text() == "b\n"


@pytest.mark.parametrize("now", [b"1\nX\n3\n4\n", b"1\nB\nnew\n3\n4\n", b"1\n3\n4\n", None, b"1\nB\n3\0\n4\n"])
def test_nothing_is_merged_where_nobody_can_tell_what_is_meant(tmp_path, now):
    host = make_host(tmp_path)
    file = tmp_path / "work" / "a"
    file.write_bytes(b"1\n2\n3\n4\n")
    host.begin_turn("1")
    host.run("edit", edit("a", "2", "B"))
    if now is None:
        file.unlink()
    else:
        file.write_bytes(now)
    with pytest.raises(ConflictError, match="in the same lines"):
        host.work.changes.undo("1", is_merging=True)
    assert (file.read_bytes() if file.exists() else None) == now
    assert host.work.changes.turns() == ["1"]


def test_what_a_call_will_change_is_told_before_and_is_what_it_changes(tmp_path):
    from periplus.agent.contracts import PlanningHost

    host = make_host(tmp_path)
    assert isinstance(host, PlanningHost)
    (tmp_path / "work" / "a").write_text("one\n")
    for name, args in [
        ("edit", {"edits": [{"path": "a", "old": "one", "new": "two"}, {"path": "b", "create": "b"}]}),
        ("write", {"path": "c", "content": "c"}),
        ("edit", {"edits": [{"path": "c", "move_to": "d"}, {"path": "b", "delete": True}]}),
    ]:
        plan = host.plan(name, args)
        assert [host.digest(one["path"]) for one in plan] == [one["before"] for one in plan]
        done = host.run(name, args)
        assert tuple(plan) == done.effects
        assert [host.digest(one["path"]) for one in plan] == [one["after"] for one in plan]
        assert all(host.work.kept(one["after"]) is not None for one in plan if one["after"])
    assert host.plan("edit", edit("a", "nowhere", "x")) == ()
    assert host.plan("read", {"path": "a"}) == ()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o700, 0o755])
def test_permissions_go_with_a_file_that_moves_and_come_back_with_one_that_was_deleted(tmp_path, mode):
    host = make_host(tmp_path)
    work = tmp_path / "work"
    for name in "ab":
        (work / name).write_text("secret\n")
        (work / name).chmod(mode)
    assert host.run("edit", {"edits": [{"path": "a", "move_to": "c"}, {"path": "b", "delete": True}]}).outcome == "ok"
    assert stat.S_IMODE((work / "c").stat().st_mode) == mode
    host.begin_turn("1")
    assert host.run("edit", edit("c", "secret", "open")).outcome == "ok"
    assert host.run("edit", {"edits": [{"path": "c", "move_to": "d"}]}).outcome == "ok"
    host.undo("1")
    host.undo("0")
    assert sorted(os.listdir(work)) == ["a", "b"]
    assert [stat.S_IMODE((work / name).stat().st_mode) for name in "ab"] == [mode, mode]
    assert (work / "a").read_text() == "secret\n"


def test_a_line_of_the_log_with_bytes_that_are_no_text_is_told_with_its_place(tmp_path):
    work, log = _begin(tmp_path, Files())
    log.apply("1", CHANGES[:1])
    path = tmp_path / "state" / "changes.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second.replace(b'"done"', b'"d\xedne"'))
    with pytest.raises(DamageError) as caught:
        ChangeLog(str(tmp_path / "state"), Confined(str(work)), Files()).turns()
    assert (caught.value.path, caught.value.offset) == (str(path), len(first))


def test_a_line_of_the_log_that_did_not_fit_on_the_disk_spoils_none_behind_it(tmp_path):
    work, log = _begin(tmp_path, Files())
    log.apply("1", CHANGES[:1])
    whole = (tmp_path / "state" / "changes.jsonl").read_bytes()

    class HalfALine(Files):
        """The disk is full in the middle of a line of the log; other files still fit."""

        def write(self, fd, data):
            if bytes(data).startswith(b'{"kind"'):
                os.write(fd, bytes(data)[: len(data) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(fd, data)

    full = ChangeLog(str(tmp_path / "state"), Confined(str(work)), HalfALine())
    with pytest.raises(EnvironmentFailure):
        full.apply("2", CHANGES[1:])
    assert _tree(work) == BEFORE | {"a": b"a2"}
    assert (tmp_path / "state" / "changes.jsonl").read_bytes() == whole
    log.apply("2", CHANGES[1:])
    assert ChangeLog(str(tmp_path / "state"), Confined(str(work)), Files()).turns() == ["1", "2"]


def test_a_change_that_could_not_be_taken_back_at_once_is_taken_back_before_the_next(tmp_path):
    class FullFor(Files):
        """The disk is full from the second file on, until ``is_full`` is False."""

        is_full = False
        renames = 0

        def replace_at(self, *args):
            self.renames += 1
            if self.is_full and self.renames > 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            super().replace_at(*args)

    files = FullFor()
    work, log = _begin(tmp_path, files)
    files.is_full = True
    with pytest.raises(EnvironmentFailure):
        log.apply("1", CHANGES)
    assert (work / "a").read_bytes() == b"a2"  # there was no room to put it back
    files.is_full = False
    log.apply("2", CHANGES[1:2])
    assert _tree(work) == BEFORE | {"b": b"b2"}
    again = ChangeLog(str(tmp_path / "state"), Confined(str(work)), Files())
    assert again.recover() == ((), (), ())
    assert again.turns() == ["2"]


SECRET_BYTES = b"login = 'zanzibar-horse-battery'\n"


def redacting_log(tmp_path):
    """A log in whose store ``SECRET_BYTES`` were redacted, and the folder."""
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    gone = sha256(SECRET_BYTES)
    return work, ChangeLog(str(tmp_path / "state"), Confined(str(work)), Files(), lambda digest: digest == gone)


def test_what_was_redacted_is_changed_and_undone_and_kept_on_no_disk(tmp_path):
    work, log = redacting_log(tmp_path)
    (work / "a.py").write_bytes(SECRET_BYTES)
    log.apply("1", [Change("a.py", SECRET_BYTES, b"login = ask()\n"), Change("b.py", None, SECRET_BYTES)])
    assert log.undo("1").paths == ("a.py", "b.py")
    assert (work / "a.py").read_bytes() == SECRET_BYTES
    log.apply("2", [Change("a.py", SECRET_BYTES, b"login = ask()\n")])
    log.record("3", [Change("c.py", SECRET_BYTES, b"")], {})
    assert not [one for one in log.objects.digests() if SECRET_BYTES in log.objects.get(one)]
    assert not [one for one in (tmp_path / "state").rglob("*") if one.is_file() and SECRET_BYTES in one.read_bytes()]

    _, later = redacting_log(tmp_path)
    with pytest.raises(NotFoundError, match="was redacted, and is kept nowhere"):
        later.undo("2")
    assert (work / "a.py").read_bytes() == b"login = ask()\n"
    assert later.turns() == ["2", "3"]


@pytest.mark.parametrize("is_written", [False, True])
def test_a_change_of_what_was_redacted_that_was_stopped_is_taken_back_as_far_as_can_be(tmp_path, is_written):
    work, log = redacting_log(tmp_path)
    (work / "a.py").write_bytes(SECRET_BYTES)
    (work / "b.py").write_bytes(b"1")
    log.apply("1", [Change("a.py", SECRET_BYTES, b"2"), Change("b.py", b"1", SECRET_BYTES)])
    lines = (tmp_path / "state" / "changes.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "state" / "changes.jsonl").write_bytes(
        lines[0]
    )  # as if it had been stopped before the line that ends it
    if not is_written:
        (work / "b.py").write_bytes(b"1")
    _, later = redacting_log(tmp_path)
    found = later.recover()
    if is_written:
        assert (found.finished, found.left) == (("a.py", "b.py"), ())
        assert (work / "b.py").read_bytes() == SECRET_BYTES
    else:
        assert (found.finished, found.left) == ((), ("a.py",))
        assert (work / "a.py").read_bytes() == b"2"
        assert (work / "b.py").read_bytes() == b"1"
    assert later.recover() == type(found)()
