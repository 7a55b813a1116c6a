"""What goes wrong outside of Periplus: one clear error each, the right exit code, and nothing lost."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cli_support import PERIPLUS, Done, Shell, claude_session, decoded, fill
from periplus.cli.main import main
from periplus.journal.records.record import RECORD_VERSION
from periplus.journal.records.segment import Header, encode_header
from periplus.project import store as store_module
from support import PEAK, FailingFiles

NOBODY = 65534

# The interpreter may lie where nobody may read: everything is imported by use before the privileges are dropped.
AS_NOBODY = """
import contextlib, io, json, os, sys, tempfile, urllib.parse
from periplus.cli.main import main
folder, words = sys.argv[1], json.loads(sys.argv[2])
with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(io.StringIO()):
    os.chdir(scratch)
    for warm in (["init"], ["remember", "x"], ["recall", "x"], ["status", "--json"], ["log"], ["show", "not_"], ["doctor"],
                 ["brief", "x"], ["trail", "list"], ["prove", "1", "--json"], ["verify", "record-1.proof"]):
        assert main(warm) == 0, warm
    with contextlib.redirect_stderr(io.StringIO()):
        assert main(["status", "--store", "/nowhere", "--json"]) == 2
os.chdir(folder)
if os.getuid() == 0:
    os.setgroups([])
    os.setgid({nobody})
    os.setuid({nobody})
code = main(words)
sys.stdout.flush()
os._exit(code)
""".replace("{nobody}", str(NOBODY))


@pytest.fixture
def sh(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    return Shell(tmp_path / "project", tmp_path / "home")


@pytest.fixture
def store(sh):
    fill(sh, *(f"Thing number {number}" for number in (1, 2, 3)))
    return sh


@pytest.fixture
def public():
    """A store in a folder that everybody can reach; pytest's own belong to one user."""
    folder = Path(tempfile.mkdtemp(prefix="periplus-"))
    folder.chmod(0o755)
    (folder / "home").mkdir()
    (folder / "project").mkdir()
    shell = Shell(folder / "project", folder / "home")
    fill(shell, *(f"Thing number {number}" for number in (1, 2, 3)))
    yield shell
    for place, _, _ in os.walk(folder):
        os.chmod(place, 0o700)
    shutil.rmtree(folder)


def as_nobody(shell, *words, code):
    process = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, os.fspath(shell.folder), json.dumps(words)],
        env=shell.environment(TMPDIR=tempfile.gettempdir()), capture_output=True, text=True, timeout=120, cwd="/",
    )  # fmt: skip
    done = Done(process.returncode, process.stdout, process.stderr)
    assert "Traceback" not in done.err, done.err
    assert done.code == code, done
    return done


def snapshot(folder):
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


def close_to_writing(folder):
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) & ~0o222)
        os.chmod(place, 0o555)


def segment(shell):
    (path,) = (shell.folder / ".periplus/journal").glob("lin_*/0*.jsonl")
    return path


def texts(shell, **how):
    return [
        record.summary.removeprefix("note: ")
        for record in reversed(shell.json("log", "--limit", "1000", **how).records)
    ]


# -- a folder that may not be read or written ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("with_index", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_read_only_store_is_read_and_never_written(public, with_index):
    if not with_index:
        (public.folder / ".periplus/index.sqlite").unlink()
    close_to_writing(public.folder)
    before = snapshot(public.folder)
    assert "Thing number 2" in as_nobody(public, "recall", "number", code=0).out
    status = decoded(as_nobody(public, "status", "--json", code=0).out)
    assert (status.records, status.entities, status.sound) == (3, {"note": 3}, True)
    assert len(as_nobody(public, "log", code=0).lines) == 3
    assert "Thing number 1" in as_nobody(public, "brief", "count the things by number", code=0).out
    refused = as_nobody(public, "remember", "Thing number 4", code=3)
    assert "Permission denied" in refused.err
    assert "Nothing was changed." in refused.err
    assert refused.out == ""
    assert snapshot(public.folder) == before


@pytest.mark.slow
@pytest.mark.parametrize("is_indexed", [True, False])
def test_an_edited_file_of_a_store_that_may_not_be_written_is_told(public, is_indexed):
    public("remember", "Steam comes first", "--type", "decision")
    (path,) = (public.folder / ".periplus/entities/decision").iterdir()
    path.write_text(path.read_text().replace("Steam", "Smoke"))
    if not is_indexed:
        (public.folder / ".periplus/index.sqlite").unlink()
    close_to_writing(public.folder)
    before = snapshot(public.folder)
    assert "Steam comes first" in as_nobody(public, "recall", "comes first", code=0).out
    (told,) = decoded(as_nobody(public, "status", "--json", code=0).out).waits
    assert told == (
        f"{path}: it has changes that the journal does not have; the journal's version is used, because this user may not write the store"
    )
    problems = decoded(as_nobody(public, "doctor", "--json", code=1).out).problems
    (problem,) = [one for one in problems if one.path == str(path)]
    assert problem.next.startswith(
        "This user may not write the store: run `periplus status` as one who may, to import it"
    )
    assert snapshot(public.folder) == before


def test_init_in_a_read_only_folder(public):
    shutil.rmtree(public.folder / ".periplus")
    close_to_writing(public.folder)
    refused = as_nobody(public, "init", code=3)
    assert f"cannot make the store {public.folder}/.periplus: Permission denied" in refused.err
    assert os.listdir(public.folder) == []


def test_a_store_that_may_not_be_read_is_not_taken_for_none(public):
    (public.folder.parent / ".periplus").mkdir()
    shutil.copy(public.folder / ".periplus/config.toml", public.folder.parent / ".periplus/config.toml")
    (public.folder / ".periplus").chmod(0o000)
    refused = as_nobody(public, "status", "--json", code=3)
    error = decoded(refused.out)
    assert error.wrong == f"cannot read the store {public.folder}/.periplus: Permission denied"
    assert (error.error, error.safe) == ("environment", "Nothing was changed.")
    (public.folder / ".periplus").chmod(0o755)


def test_a_segment_that_may_not_be_read(public):
    path = segment(public)
    path.chmod(0o000)
    (public.folder / ".periplus/index.sqlite").unlink()
    if os.getuid() == 0:
        (public.folder / ".periplus").chmod(0o755)
    refused = as_nobody(public, "log", code=3)
    assert f"cannot read {path}: Permission denied" in refused.err
    path.chmod(0o644)
    assert texts(public) == ["Thing number 1", "Thing number 2", "Thing number 3"]


def test_settings_that_this_user_may_not_read_are_not_made_anew(public):
    """They say what nothing else does: which stores were joined, what types the project has."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    config = public.folder / ".periplus" / "config.toml"
    config.write_text(config.read_text() + "live_segments = 7\n")
    before = config.read_bytes()
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", config.parent], check=True)
    config.chmod(0o000)
    refused = as_nobody(public, "doctor", "--repair", code=3)
    assert refused.err.startswith(
        f"periplus: {config} may not be read by this user: nobody can tell whether it is sound"
    )
    config.chmod(0o644)
    assert config.read_bytes() == before


@pytest.mark.slow
def test_keys_of_another_user_are_neither_missing_nor_made_anew(public):
    """A store is one user's. Who may read it, or even write there, is told what he may not read, and mends nothing."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    keys = public.folder / ".periplus/journal/keys"
    refused = as_nobody(public, "remember", "Thing number 4", code=3)
    assert (
        "Nothing was changed. It belongs to user root, and only one user can write a store: work in a clone of your own"
        in refused.err
    )
    [problem] = decoded(as_nobody(public, "doctor", "--json", code=1).out).problems
    assert (problem.severity, problem.path) == ("warning", str(keys))
    assert problem.what == "this user may not read it, so it was not checked"
    assert problem.next == "Run it as user root."
    for place, _, names in os.walk(public.folder / ".periplus"):
        for path in (place, *(os.path.join(place, name) for name in names)):
            os.chown(path, -1, NOBODY)  # open to a group, but for the private keys
            os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | (0o070 if path == place else 0o060))
    (keys / "trail").chmod(0o600)
    (private,) = keys.glob("*.private")
    private.chmod(0o600)
    before = snapshot(public.folder / ".periplus/journal")
    problems = decoded(as_nobody(public, "doctor", "--json", code=1).out).problems
    assert {(one.path, one.next) for one in problems} == {
        (str(path), "Run it as user root.") for path in (private, keys / "trail")
    }
    refused = as_nobody(public, "doctor", "--repair", code=3)
    assert refused.err.splitlines() == [
        f"periplus: {private} may not be read by this user: nobody can tell whether it is sound",
        "Nothing was changed. Run `periplus doctor --repair` as user root.",
    ]
    assert snapshot(public.folder / ".periplus/journal") == before
    private.chmod(0o660)
    (keys / "trail").chmod(0o660)
    as_nobody(public, "doctor", "--repair", code=1)  # the mode of a key is its owner's to change
    assert stat.S_IMODE(private.stat().st_mode) == 0o660
    public("doctor", "--repair")
    assert stat.S_IMODE(private.stat().st_mode) == stat.S_IMODE((keys / "trail").stat().st_mode) == 0o600


# -- no space --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_file_that_may_not_grow(store):
    """The limit on a file's size stands in for a full disk: the write ends short, then fails."""
    size = segment(store).stat().st_size
    for room in (0, 100):
        script = (
            f"ulimit -f unlimited; exec {shlex.quote(sys.executable)} -c '{_LIMITED}' {size + room}"
            f" {shlex.quote(PERIPLUS)} remember 'Too much'"
        )
        done = subprocess.run(
            ["sh", "-c", script], cwd=store.folder, env=store.environment(), capture_output=True, text=True
        )
        assert done.returncode == 3, done
        assert "Traceback" not in done.stderr
        lines = done.stderr.splitlines()
        assert 1 <= len(lines) <= 2, done.stderr
        assert lines[0].startswith("periplus: ")
        assert done.stdout == ""
        assert "No acknowledged write is lost" in lines[1]
        assert not room or f"only {room} of " in lines[0], "what did get there is told"
    assert texts(store) == ["Thing number 1", "Thing number 2", "Thing number 3"]
    store("remember", "Room again")
    assert texts(store)[-1] == "Room again"
    assert store.json("doctor").sound


_LIMITED = (
    "import os,resource,signal,sys;"
    "signal.signal(signal.SIGXFSZ,signal.SIG_IGN);"
    "resource.setrlimit(resource.RLIMIT_FSIZE,(int(sys.argv[1]),)*2);"
    "os.execv(sys.argv[2],sys.argv[2:])"
)


@pytest.mark.rig
@pytest.mark.slow
def test_a_full_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "home").mkdir()
    if os.getuid() != 0:
        pytest.skip("mounting a small disk needs root")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=640k", "tmpfs", os.fspath(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        shell = Shell(disk, tmp_path / "home")
        shell("init")
        shell("remember", "Before the flood")
        with (disk / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1024))
        kept = ["Before the flood"]
        for number in range(80):
            process = shell.start(
                "remember", f"Drop {number} " + "x" * 7000, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            _, err = process.communicate(timeout=60)
            if process.returncode:
                assert process.returncode == 3
                assert b"No space left on device" in err or b"bytes could be written" in err
                assert b"No acknowledged write is lost" in err
                break
            kept.append(f"Drop {number}")
        else:
            pytest.fail("the disk never was full")
        shell("recall", "flood")
        assert [text.partition(" x")[0] for text in texts(shell)] == kept
        (disk / "ballast").unlink()
        shell("remember", "After the flood")
        assert texts(shell)[-1] == "After the flood"
        assert shell.json("doctor").sound
    finally:
        subprocess.run(["umount", os.fspath(disk)], check=True)


# Everything that may be open is taken but for a few, after what every command imports was imported.
HARDLY_ANY = """
import os, resource, sys
import periplus.cli.main
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]),) * 2)
sys.exit(periplus.cli.main.main(sys.argv[2:]))
"""


@pytest.mark.slow
def test_hardly_a_descriptor_is_left(store):
    """From so few that nothing can be opened to enough: done, or refused in one error."""
    kept, refused = texts(store), []
    for few in (4, 8, 12, 15, 32):
        text = f"Thing with {few}"
        words = [sys.executable, "-c", HARDLY_ANY, f"{few}", "remember", text]
        done = subprocess.run(words, cwd=store.folder, env=store.environment(), capture_output=True, text=True)
        if done.returncode == 0:
            kept.append(text)
            continue
        refused.append(text)
        told = done.stderr.splitlines()
        assert (done.returncode, len(told), done.stdout) == (3, 2, ""), done
        assert "Too many open files" in told[0]
        assert "No acknowledged write is lost" in told[1]
    assert refused
    assert kept[-1] == "Thing with 32"
    held = texts(store)
    assert [text for text in held if text not in refused] == kept, "of what was refused all or nothing is there, once"
    assert len(held) == len(set(held))
    assert store.json("doctor").sound


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["log"], ["remember", "Said to a full disk"]])
def test_output_that_cannot_be_written(store, words, unbuffered):
    """That nothing acknowledged is lost did not say that it was written: who repeated the command wrote it twice."""
    with open("/dev/full", "wb") as full:
        process = store.start(*words, env={"PYTHONUNBUFFERED": unbuffered}, stdout=full, stderr=subprocess.PIPE)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert err.decode().splitlines() == [
        "periplus: standard output cannot be written: No space left on device",
        "The command itself was carried out. Check `periplus log` before you repeat it.",
    ]
    assert texts(store).count(words[-1]) == (words[0] == "remember")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["--help", "help", "--version", "remember --help", "trail show -h", "hook --help"])
def test_help_that_nobody_gets_is_no_success(store, command, unbuffered):
    """It ended with 0, or with an exception at the end of the process and 120."""
    for where, why in (
        ("/dev/full", "standard output cannot be written: No space left on device"),
        ("&-", "standard output is closed, so the result could not be shown"),
    ):
        done = subprocess.run(
            ["sh", "-c", f'"{PERIPLUS}" {command} >{where}'], cwd=store.folder, capture_output=True, text=True,
            env={**store.environment(), "PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.splitlines()[0] == f"periplus: {why}"
        assert done.stderr.splitlines()[1].startswith("Nothing was done.")
    done = subprocess.run(["sh", "-c", f'"{PERIPLUS}" {command} | true'], cwd=store.folder, env=store.environment(),
                          capture_output=True, text=True)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("beginning", ["", "../"])
def test_a_path_of_any_length_is_told_in_short(store, beginning):
    done = store.start("remember", "Long", "--about", beginning + "n" * 100_000, stderr=subprocess.PIPE)
    _, err = done.communicate(timeout=60)
    assert done.returncode == 0
    assert b" does not exist; saved anyway" in err
    assert len(err) < 1_000
    if not beginning:
        assert 400 < len(store("related", "n" * 100_000).out) < 2_000


@pytest.mark.parametrize(
    "command",
    [
        "export -",
        "head",
        "context refs",
        "log",
        "log --reader me",
        "recall Thing --json",
        "trail list",
        "status --json",
        "show not_",
        "undo --seq 2 --dry-run",
        "sync --with .. --dry-run",
    ],
)
def test_what_is_only_said_is_said_to_somebody(store, command):
    """It ended as if it were done: a backup by `export - >&-` was none, and the cursor of a reader moved on."""
    done = subprocess.run(
        ["sh", "-c", f'"{PERIPLUS}" {command} >&-'],
        cwd=store.folder,
        env=store.environment(),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines() == [
        "periplus: standard output is closed, so the result could not be shown",
        "Nothing was done. Open it, or redirect to a file: > FILE",
    ]
    if "--reader" in command:
        assert store.json("log", "--reader", "me").records


@pytest.mark.slow
def test_streams_that_are_closed(store):
    script = f'"{PERIPLUS}" remember - <&-; echo $? >&3; "{PERIPLUS}" remember "Said to nobody" >&- 2>&-; echo $? >&3'
    done = subprocess.run(
        ["sh", "-c", f"( {script} ) 3>&1"], cwd=store.folder, env=store.environment(), capture_output=True, text=True
    )
    assert done.stdout.split() == ["2", "0"]
    assert done.stderr.splitlines() == [
        "periplus: a note needs a text", "Nothing was written. See `periplus remember --help`.",
    ]  # fmt: skip
    assert texts(store)[-1] == "Said to nobody"
    assert store.json("doctor").sound


# -- not a store, another version's ----------------------------------------------------------------------------------


def test_what_is_not_a_store(sh):
    (sh.folder / ".periplus").mkdir()
    sh.fails("status", "--store", ".periplus", code=2, wrong=".periplus is not a store: it has no config.toml")
    sh.fails("remember", "x", "--store", "nowhere", code=2, wrong="no store at")
    assert os.listdir(sh.folder / ".periplus") == []


def test_git_took_the_settings_of_a_store(store, tmp_path):
    """Settings are in git and the journal is not: an older commit has none. `init` does not make a stranger of the journal."""
    store("remember", "Known before")
    config = store.folder / ".periplus/config.toml"
    written = config.read_text()
    config.unlink()
    for words in (["recall", "before"], ["status", "--store", ".periplus"]):
        done = store.fails(*words, code=2, wrong="has a journal, but its config.toml is gone")
        assert "`periplus init`" in done.err
    inner = store.folder / "src"
    inner.mkdir()
    store.fails("status", cwd=inner, code=2, wrong="has a journal, but its config.toml is gone")
    assert store("init").lines[0].startswith("Found the store")
    assert config.read_text() == written
    assert "Known before" in store("recall", "before").out
    store("remember", "Known behind")
    assert store.json("doctor").sound


def test_settings_that_are_gone_of_segments_of_two_stores(store):
    (segment,) = (store.folder / ".periplus/journal").glob("lin_*/*.jsonl")
    stranger = segment.parent.with_name("lin_0000000000000000")
    stranger.mkdir()
    header = Header(RECORD_VERSION, RECORD_VERSION, "str_0000000000000000", stranger.name, 1, "")
    (stranger / segment.name).write_bytes(encode_header(header))
    config = store.folder / ".periplus/config.toml"
    config.unlink()
    store.fails("init", code=3, wrong="the segments name several stores: str_0000000000000000, str_")
    assert not config.exists()


@pytest.mark.parametrize(
    ("text", "wrong", "mend"),
    [
        ("[hooks]\nclaimd = 'deny'\n", "[hooks] has no setting 'claimd'", "Did you mean claimed?"),
        ("[reflect]\nzeal = 1\n", "[reflect] has no setting 'zeal'", "It has accept_from."),
        ("[reflect]\naccept_from = 'all'\n", "reflect.accept_from: Expected `int`, got `str`", "Mend the file"),
        (
            "[hooks]\nclaimed = 'no'\n",
            "hooks.claimed: no such value 'no'",
            'It is "tell" or "ask" or "deny". Mend the file',
        ),
        (
            "[reflect]\naccept_from = 101\n",
            "accept_from is 101, not between 0 and 100",
            "In [reflect], set it to a number from 0",
        ),
        (
            "segment_bytes = 99999999999\n",
            "segment_bytes is 99999999999, not between 1 and 33554432",
            "In [journal], set it to",
        ),
        ("live_segments = 0\n", "live_segments is 0, not at least 1", "set it to 1 or more, or leave it out: 4."),
        ("x = [\n", "config.toml: Invalid value", "Mend the file"),
    ],
)
def test_a_wrong_setting_is_named_and_so_is_what_was_meant(store, text, wrong, mend):
    config = store.folder / ".periplus/config.toml"
    config.write_text(config.read_text() + "\n" + text)
    said = store.fails("status", code=2, wrong=wrong).err
    assert mend in said
    assert "restore it from git" in said


def test_settings_as_editors_of_windows_write_them(store):
    config = store.folder / ".periplus/config.toml"
    text = config.read_text()
    config.write_bytes(b"\xef\xbb\xbf" + (text + "\n[types.risk]\nprefix = 'risk'\n").replace("\n", "\r\n").encode())
    assert texts(store) == ["Thing number 1", "Thing number 2", "Thing number 3"]
    store("remember", "A beam", "--type", "risk")
    assert store.json("doctor").problems == []
    store("init", "--join")
    config.write_bytes(text.encode("utf-16"))
    done = store.fails("status", code=2, wrong="config.toml: not UTF-8 at byte 0")
    assert "The journal is untouched. Save it as UTF-8." in done.err


@pytest.mark.parametrize(("make", "what"), [
    (os.mkdir, "a folder"), (os.mkfifo, "no plain file"), (lambda path: os.symlink("nowhere", path), "a dangling link"),
])  # fmt: skip
def test_what_stands_in_the_place_of_the_settings_is_named(store, make, what):
    config = store.folder / ".periplus/config.toml"
    text = config.read_text()
    config.unlink()
    make(config)
    done = store.fails("status", code=2, wrong=f"{config} is {what}: the settings of the store belong there")
    assert "`periplus doctor --repair`, which parks it" in done.err
    store("doctor", "--repair")
    assert config.read_text() == text
    assert texts(store) == ["Thing number 1", "Thing number 2", "Thing number 3"]


def test_a_table_that_nothing_reads_is_told_by_doctor(store):
    config = store.folder / ".periplus/config.toml"
    before = config.read_text()
    config.write_text(before + "\n[hoks]\nclaimed = 'deny'\n")
    (problem,) = store.json("doctor", code=1).problems
    assert (problem.severity, problem.next) == ("warning", "Write [hooks].")
    assert problem.what == "[hoks] is an unknown table: its settings are ignored"
    config.write_text(before + "\n[weather]\nrain = 1\n")
    (problem,) = store.json("doctor").problems  # a later version may know it
    assert problem.severity == "note"


def test_a_store_of_a_later_version(store):
    path = store.folder / ".periplus/config.toml"
    config = path.read_text()
    path.write_text(config.replace("format = 2", "format = 3"))
    before = snapshot(store.folder)
    for words in (["status"], ["recall", "thing"], ["remember", "x"], ["init"], ["doctor"]):
        done = store.fails(*words, code=3, wrong="the store has format 3; this Periplus reads up to 2")
        assert "Nothing was changed. Update Periplus" in done.err
    assert store.json("log", code=3).error == "newer_format"
    assert snapshot(store.folder) == before
    path.write_text("[store\n")
    done = store.fails("log", code=2, wrong=str(path))
    assert "The journal is untouched. Mend the file" in done.err
    path.write_text(config)
    assert len(texts(store)) == 3


# -- a transcript that is none ---------------------------------------------------------------------------------------


def test_transcripts_that_are_none(store, tmp_path):
    kimi = {"type": "metadata", "protocol_version": "1.0"}
    files = {
        "empty.jsonl": (b"", 2, "the file is empty"),
        "blank.jsonl": (b"\n \n", 2, "nothing but blank lines"),
        "session.json": (json.dumps(kimi, indent=1).encode(), 2, "it looks like a session of Kimi Code"),
        "photo.jsonl": (b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0d", 2, "it holds NUL bytes"),
        "text.jsonl": (b"Dear diary\n", 2, "its first lines are not JSON records"),
    }
    before = store.json("status").records
    for name, (data, code, wrong) in files.items():
        (tmp_path / name).write_bytes(data)
        done = store.fails("trail", "import", tmp_path / name, code=code, wrong=wrong)
        assert str(tmp_path / name) in done.err
    store.fails("trail", "import", tmp_path, code=2, wrong=f"{tmp_path} is a folder, not a file")
    store.fails("trail", "import", "missing.jsonl", code=1, wrong=f"there is no file {store.folder}/missing.jsonl")
    os.mkfifo(tmp_path / "pipe")
    store.fails("trail", "import", tmp_path / "pipe", code=2, wrong="is a device or a pipe")
    store.fails("verify", tmp_path, code=2, wrong="is a folder, not a file")
    store.fails("trail", "show", tmp_path / "text.jsonl", code=2, wrong="text.jsonl: not a trail of Periplus")
    assert store.json("status").records == before


@pytest.mark.slow
def test_a_line_of_a_hundred_megabytes_takes_little_memory(store, tmp_path):
    path = claude_session(tmp_path / "long.jsonl")
    with path.open("ab") as file:
        file.write(b'{"type":"user","message":{"content":"')
        for _ in range(100):
            file.write(b"x" * (1 << 20))
        file.write(b'"}}\n')
    program = (
        PEAK + "import sys\nfrom periplus.cli.main import main\ncode = main(sys.argv[1:])\nprint(code, peak_bytes())"
    )
    command = [sys.executable, "-c", program, "trail", "import", str(path)]
    done = subprocess.run(command, cwd=store.folder, capture_output=True, text=True, timeout=120)
    assert "line 5: the line has over 32 MiB" in done.stderr
    code, peak = map(int, done.stdout.split())
    assert code == 2
    assert peak < 150_000_000
    assert store.json("trail", "list").trails == []


# -- the reader goes away, the person interrupts, somebody else writes --------------------------------------------------


@pytest.mark.slow
def test_a_reader_that_goes_away(store, tmp_path):
    store("trail", "import", claude_session(tmp_path / "long.jsonl", steps=1500))
    script = f'"{PERIPLUS}" trail show trl_ | head -n 1; "{PERIPLUS}" trail show trl_ --json | head -c 10'
    done = subprocess.run(["bash", "-o", "pipefail", "-c", script], cwd=store.folder, env=store.environment(),
                          capture_output=True, text=True)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == '; trail     5e551011\n{"kind":"t'


def test_an_interruption(store):
    process = store.start("remember", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # More than a pipe holds: when all but the end of it is written, the command stands in the middle of reading.
    process.stdin.write(b"x" * 200_000)
    process.stdin.flush()
    for _ in range(100):  # as a person does who sees nothing happen: between two reads one signal may go unheard
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            continue
        break
    assert process.returncode == 130
    assert process.stdout.read() == b""
    assert process.stderr.read().decode() == "\nperiplus: interrupted; acknowledged writes are kept\n"
    process.communicate()
    assert len(texts(store)) == 3


@pytest.mark.slow
def test_a_lock_that_somebody_holds(store):
    with open(store.folder / ".periplus/journal/lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(b"4711 far.example.org 2026-02-03T10:00:00.000Z periplus remember".ljust(199) + b"\n")
        lock.flush()
        assert len(texts(store)) == 3, "reading waits for nobody"
        done = store.fails("remember", "x", code=4, wrong="being written by 4711 far.example.org")
        assert "Nothing was changed; reading needs no lock. Repeat the command when that process is done." in done.err
    assert store.json("remember", "x").entity.seq == 4


# -- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_index", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_damaged_segment_is_served_where_it_is_sound(store, with_index):
    path = segment(store)
    data = bytearray(path.read_bytes())
    # With an index only what came after it is looked at: the record that it ends with.
    at = data.index(b"Thing number 3" if with_index else b"Thing number 2")
    line = data.rindex(b"\n", 0, at) + 1
    if with_index:
        data[data.index(b'"sum":"', at) + 8] ^= 1
    else:
        (store.folder / ".periplus/index.sqlite").unlink()
        data[at] ^= 1
    path.write_bytes(data)
    lost = 3 if with_index else 2
    status = store("status", code=3)
    assert any(text.startswith("state    damaged: ") and f"seq {lost}" in text for text in status.lines)
    found = store.json("status", code=3)
    assert (found.sound, found.entities) == (False, {"note": 2})
    recall = store("recall", "thing number")
    sound = [number for number in (1, 2, 3) if number != lost]
    assert [number for number in (1, 2, 3) if f"Thing number {number}" in recall.out] == sound
    assert str(path) in recall.err
    assert "Only the intact part was read. Run `periplus doctor`." in recall.err
    assert texts(store) == [f"Thing number {number}" for number in sound]
    assert "Only the intact part was read." in store("show", store.json("log").records[0].id).err
    refused = store.fails("remember", "Thing number 4", code=3, wrong=f"seq {lost}")
    assert "the damage is not overwritten" in refused.err
    assert path.read_bytes() == bytes(data)
    (problem,) = [problem for problem in store.json("doctor", code=3).problems if problem.severity == "error"]
    assert (problem.path, problem.offset, problem.seq) == (str(path), line, lost)


@pytest.mark.slow
def test_a_payload_that_is_lost_hides_only_its_own_record(store, tmp_path):
    about = [word for number in range(100) for word in ("--about", f"{number:03d}" + "x" * 700)]
    big = store.json("remember", "A note about much", *about).entity.id
    (path,) = (path for path in (store.folder / ".periplus/objects").rglob("*") if path.is_file())
    path.unlink()
    (store.folder / ".periplus/index.sqlite").unlink()
    assert "Thing number 2" in store("recall", "thing number").out
    assert store.json("status", code=3).entities == {"note": 3}
    store.fails("remember", "x", code=3, wrong="no object")
    store.fails("show", big, code=1, wrong="nothing has an id")


def test_a_damaged_index_is_built_anew(store):
    path = store.folder / ".periplus/index.sqlite"
    for damage in (lambda data: data[:8192] + b"\x99" * (len(data) - 8192), lambda data: b"no database", lambda _: b""):
        path.write_bytes(damage(path.read_bytes()))
        done = store("recall", "thing number")
        assert all(f"Thing number {number}" in done.out for number in (1, 2, 3))
        assert done.err in ("", "periplus: the index was damaged; rebuilding it from the journal\n")
        assert store.json("doctor").sound


def test_who_takes_no_key_is_not_told_to_repeat_with_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["init", "--no-connect"])
    main(["plan", "make", "Oil the wheels", "--json"])
    plan = json.loads(capsys.readouterr().out.splitlines()[-1])["plan"]["id"]
    monkeypatch.setattr(store_module, "Files", lambda: FailingFiles("sync_data", errno.EIO))
    for words, next_step in ((["remember", "They squeak"], r"Repeat the command with --key \w+: "),
                             (["plan", "done", plan], "Check `periplus log`"),
                             (["doctor", "--compact"], "Check `periplus log`")):  # fmt: skip
        assert main(words) == 6
        assert re.search(next_step, capsys.readouterr().err), words


def test_what_may_not_have_reached_the_disk_is_told_by_who_is_asked_whether_it_was_written(
    tmp_path, monkeypatch, capsys
):
    """Who was told that the outcome is unknown looked, did not find it, and wrote it a second time; status counted it all the same."""
    monkeypatch.chdir(tmp_path)
    main(["init", "--no-connect"])
    main(["remember", "They roll"])
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "Files", lambda: FailingFiles("sync_data", errno.EIO))
        assert main(["remember", "They squeak", "--key", "k1"]) == 6
    capsys.readouterr()

    def told(*words):
        assert main(list(words)) == 0
        return capsys.readouterr().out.splitlines()

    unsure, shown = told("log")
    assert re.fullmatch(
        r"unsure: record 2, create not_\w+ note: They squeak: was written but may not be on disk yet, because a sync failed. The next write retries the sync",
        unsure,
    )
    assert shown.endswith("note: They roll")
    (one,) = json.loads(told("log", "--json")[0])["unsure"]
    assert (one["seq"], one["action"], one["key"]) == (2, "create", "k1")
    assert "unsure" not in "".join(told("log", "--type", "note"))
    assert (
        told("status")[2]
        == "         the last record may not be on disk yet, because a sync failed; the next write retries it"
    )
    assert json.loads(told("status", "--json")[0])["unsure"] == 1
    told("remember", "There are four")
    assert [line.split("note: ")[1] for line in told("log")] == ["There are four", "They squeak", "They roll"]
    assert json.loads(told("status", "--json")[0])["unsure"] == 0
    assert json.loads(told("log", "--json")[0])["unsure"] == []


WITH_A_KEY = (
    ("remember", "They squeak", "--type", "trap"),
    ("remember", "They run", "--supersedes", "NOTE"),
    ("set", "NOTE", "text=They run"),
    ("state", "TRAP", "resolved"),
    ("evolve", "NOTE", "They run"),
    ("merge", "NOTE", "OTHER", "--text", "They run"),
    ("split", "NOTE", "They run", "They stop"),
    ("link", "NOTE", "references", "OTHER"),
    ("confirm", "NOTE"),
    ("plan", "make", "Oil them", "--step", "Buy oil"),
    ("plan", "add", "PLAN", "Buy oil"),
    ("handoff", "write", "They squeak"),
    ("claim", "take", "src", "--text", "wheels"),
    ("undo", "--seq", "2"),
)


@pytest.mark.parametrize("words", WITH_A_KEY, ids=" ".join)
@pytest.mark.parametrize("lasts", [True, False])
def test_the_same_command_with_the_key_finds_out(tmp_path, monkeypatch, capsys, words, lasts):
    monkeypatch.chdir(tmp_path)
    main(["init", "--no-connect"])
    ids = {}
    for name, made in (("NOTE", ["remember", "They are wheels"]), ("OTHER", ["remember", "There are four"]),
                       ("TRAP", ["remember", "They roll", "--type", "trap"]), ("PLAN", ["plan", "make", "Drive"])):  # fmt: skip
        capsys.readouterr()
        assert main([*made, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        ids[name] = (told.get("entity") or told["plan"])["id"]
    given = [ids.get(word, word) for word in words]
    with monkeypatch.context() as patch:
        files = FailingFiles("sync_data", errno.EIO)
        fails = files._fails
        files._fails = lambda name: fails(name) and (lasts or files.after == -1)
        patch.setattr(store_module, "Files", lambda: files)
        assert main(given) == 6
    (key,) = re.findall(r"--key (\w+)", capsys.readouterr().err)
    assert main([*given, "--key", key]) == 0, capsys.readouterr().err
    said = capsys.readouterr()
    assert main(["log", "--json"]) == 0
    records = [one for one in json.loads(capsys.readouterr().out)["records"] if one["key"] == key]
    assert len({one["seq"] for one in records}) == len(records) > 0, said
    assert main(["doctor"]) == 0, capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("is_buffered", [True, False])
def test_what_a_command_found_is_its_exit_code_though_nobody_reads_it(store, is_buffered):
    """As in a script with ``set -o pipefail``: `periplus doctor | head -1`."""

    def unread(*words):
        reader, writer = os.pipe()
        os.close(reader)
        environment = {} if is_buffered else {"PYTHONUNBUFFERED": "1"}
        process = store.start(*words, env=environment, stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        err = process.communicate(timeout=60)[1]
        return process.returncode, err

    assert unread("doctor") == (0, b"")
    assert unread("log") == (0, b"")
    assert unread("log", "--json") == (0, b"")
    data = segment(store).read_bytes()
    segment(store).write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    store("doctor", code=3)
    assert unread("doctor") == (3, b"")
    assert unread("doctor", "--json") == (3, b"")
