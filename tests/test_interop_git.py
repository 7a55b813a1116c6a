from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from interop_support import KEY, Objects, check, named, plain, steps_of
from periplus.base.errors import EnvironmentFailure, FormatError, NotFoundError
from periplus.interop import import_git
from periplus.interop.git_history.git_output import _tokens
from periplus.trail.format.reader import TrailReader
from periplus.trail.opcodes import opcode_name

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


class Repository:
    def __init__(self, path, *options):
        self.path = path
        path.mkdir(exist_ok=True)
        self.seconds = 1_700_000_000
        self.git("init", "-q", "-b", "main", *options)

    def git(self, *arguments):
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        identity = {
            "GIT_AUTHOR_NAME": "Ada Löw", "GIT_AUTHOR_EMAIL": "ada@sea.example", "GIT_COMMITTER_NAME": "B",
            "GIT_COMMITTER_EMAIL": "b@x", "GIT_AUTHOR_DATE": f"{self.seconds} +0100", "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_COMMITTER_DATE": f"{self.seconds + 50} +0000", "HOME": str(self.path),
        }  # fmt: skip
        done = subprocess.run(
            ["git", *arguments], cwd=self.path, env=kept | identity, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, message, **files):
        for name, content in files.items():
            (self.path / name).write_text(content)
        self.git("add", "-A")
        self.seconds += 1000
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "harbour")


def take(repository, **options):
    imported = import_git(str(repository.path), trail_key=KEY, put_object=Objects().put, **options)
    check(imported)
    return imported


def test_a_history_with_odd_names_renames_and_a_merge(repository):
    root = repository.commit("root\n\nbody of it", lamp="1\n2\n3\n4\n5\n")
    names = ["with space", "größe", "new\nline", "-dash", ":colon", "tab\there", 'quo"te']
    repository.commit("odd names", **dict.fromkeys(names, "x"))
    repository.git("mv", "--", "lamp", "beacon")
    repository.commit("moved")
    repository.git("mv", "--", "beacon", "lantern")
    (repository.path / "lantern").write_text("1\n2\n3\n4\nsix\n")
    repository.commit("moved and changed")
    repository.git("checkout", "-q", "-b", "side")
    repository.commit("on the side", lantern="side\n2\n3\n4\nsix\n")
    repository.git("checkout", "-q", "main")
    repository.commit("on main", other="y", lantern="main\n2\n3\n4\nsix\n")
    with pytest.raises(subprocess.CalledProcessError) as stopped:
        repository.git("merge", "-q", "side")
    assert "CONFLICT" in stopped.value.stdout
    (repository.path / "lantern").write_text("both\n2\n3\n4\nsix\n")
    merge = repository.commit("merged")
    for name in names:
        os.unlink(repository.path / name)
    repository.commit("gone")
    imported = take(repository)

    commits = named(imported, "GIT_COMMIT")
    assert [step.operands[1] for step in commits[:4]] == [
        "root\n\nbody of it",
        "odd names",
        "moved",
        "moved and changed",
    ]
    assert sorted(step.operands[1] for step in commits[4:6]) == ["on main", "on the side"]
    assert [step.operands[1] for step in commits[6:]] == ["merged", "gone"]
    assert {step.operands[0] for step in commits} == {"harbour"}
    assert commits[6].operands[2].value.hex() == merge
    assert {step.note for step in commits} == {"Ada Löw <ada@sea.example>"}
    assert imported.session_id == TrailReader(imported.trail).header.trail_id == root

    steps = plain(imported)
    blob = repository.git("rev-parse", f"{root}:lamp")
    assert steps[0] == ("FILE_WRITE", "lamp", f"git-sha1:{blob[:8]}")
    assert sorted(name for op, name, _ in steps[2 : 2 + len(names)]) == sorted(names)
    assert ("FILE_MOVE", "lamp", "beacon") in steps
    moved = steps.index(("FILE_MOVE", "beacon", "lantern"))
    assert steps[moved + 1][:2] == ("FILE_WRITE", "lantern")
    in_merge = steps[next(at for at, step in enumerate(steps) if step[2:3] == ("merged",)) - 2]
    assert in_merge == ("FILE_WRITE", "lantern", "git-sha1:" + repository.git("rev-parse", f"{merge}:lantern")[:8])
    assert sorted(name for op, name, *_ in steps if op == "FILE_DELETE") == sorted(names)
    assert imported.counts == {"commits": 8, "steps": len(steps), "files": 11}


def test_times_and_sources_are_those_of_the_commits(repository):
    repository.commit("one", a="1")
    repository.commit("two", b="2")
    imported = take(repository)
    assert (imported.started_ms, imported.ended_ms) == (1_700_001_000_000, 1_700_002_000_000)
    assert [step.source for step in steps_of(imported)] == [1, 1, 2, 2]
    assert [step.delta_ms for step in steps_of(imported)] == [0, 0, 1_000_000, 0]


def test_the_newest_commits_only(repository):
    for n in range(5):
        repository.commit(f"c{n}", file=str(n))
    imported = take(repository, commits_max=2)
    assert [step.operands[1] for step in named(imported, "GIT_COMMIT")] == ["c3", "c4"]
    assert imported.session_id == take(repository).session_id, "the history is the same, cut or whole"
    assert imported.source_sha256 != take(repository).source_sha256


def test_the_same_history_gives_the_same_bytes_from_anywhere_in_it(repository, tmp_path, monkeypatch):
    repository.commit("one", a="1")
    repository.commit("two", b="2")
    first = take(repository)
    assert take(repository) == first
    (repository.path / "sub").mkdir()
    again = import_git(str(repository.path / "sub"), trail_key=KEY, put_object=Objects().put)
    assert again.trail == first.trail
    monkeypatch.setenv("GIT_DIR", str(tmp_path))  # as a hook would leave it
    assert take(repository).trail == first.trail


def test_progress_and_a_bare_repository(repository, tmp_path):
    repository.commit("one", a="1")
    repository.git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    told = []
    imported = import_git(
        str(tmp_path / "bare.git"), trail_key=KEY, put_object=Objects().put, progress=lambda *args: told.append(args)
    )
    assert told == [(1, 1)]
    assert named(imported, "GIT_COMMIT")[0].operands[0] == "bare"


def test_a_repository_of_sha256(tmp_path):
    repository = Repository(tmp_path / "wide", "--object-format=sha256")
    commit = repository.commit("one", a="1")
    step = named(take(repository), "GIT_COMMIT")[0]
    assert (step.operands[2].algorithm, step.operands[2].value.hex()) == ("git-sha256", commit)


def test_links_and_submodules(repository, tmp_path):
    inner = Repository(tmp_path / "inner")
    inner.commit("x", x="1")
    os.symlink("target", repository.path / "link")
    repository.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", str(inner.path), "inner")
    repository.commit("both")
    imported = take(repository)
    assert [step.note for step in named(imported, "FILE_WRITE")] == [None, "submodule", "symbolic link"]
    assert named(imported, "FILE_WRITE")[1].operands[1].value.hex() == inner.git("rev-parse", "HEAD")
    assert imported.skipped == {}


def test_bits_and_kinds_that_change(repository):
    """Of each commit what it made of the files: the bit alone too, a link where a file was, and a file for a submodule."""
    repository.commit("first", tool="#!/bin/sh\n", plain="x", old="a\nb\nc\nd\ne\n")
    (repository.path / "tool").chmod(0o755)
    repository.commit("may run")
    (repository.path / "tool").chmod(0o644)
    (repository.path / "plain").unlink()
    (repository.path / "plain").symlink_to("tool")
    repository.commit("may not, and a link")
    repository.git("mv", "old", "new")
    (repository.path / "new").chmod(0o755)
    repository.commit("moved and may run")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},lib")
    repository.git("commit", "-q", "-m", "submodule")
    repository.git("rm", "-q", "--cached", "lib")
    repository.commit("no submodule", lib="a file")
    steps = [step for step in steps_of(take(repository)) if step.operands[0] in ("tool", "plain", "old", "new", "lib")]
    assert [(opcode_name(step.code), step.operands[0], step.note) for step in steps[3:]] == [
        ("FILE_WRITE", "tool", "executable"),
        ("FILE_WRITE", "plain", "symbolic link"),
        ("FILE_WRITE", "tool", "no longer executable"),
        ("FILE_MOVE", "old", None),
        ("FILE_WRITE", "new", "executable"),
        ("FILE_WRITE", "lib", "submodule"),
        ("FILE_WRITE", "lib", None),
    ]


def test_what_is_in_the_way_goes_first(repository):
    """Git names all changes of a commit at once, by their paths; steps are taken one after the other."""
    repository.commit("files", a="1", z="a file that moves\n" * 9)
    os.unlink(repository.path / "a")
    (repository.path / "a").mkdir()
    repository.commit("a folder", **{"a/b": "2"})
    shutil.rmtree(repository.path / "a")
    repository.commit("a file", a="3")
    repository.git("mv", "z", "y")
    (repository.path / "z").mkdir()
    repository.git("mv", "y", "z/z")
    repository.commit("into itself")
    steps = [step[:2] for step in plain(take(repository)) if not step[0].startswith("GIT")]
    assert steps == [
        ("FILE_WRITE", "a"), ("FILE_WRITE", "z"),
        ("FILE_DELETE", "a"), ("FILE_WRITE", "a/b"),
        ("FILE_DELETE", "a/b"), ("FILE_WRITE", "a"),
        ("FILE_DELETE", "z"), ("FILE_WRITE", "z/z"),
    ]  # fmt: skip


def test_where_a_history_is_no_line_it_says_what_a_commit_began_with(repository):
    first = repository.commit("first", a="1")
    repository.git("checkout", "-q", "-b", "side")
    side = repository.commit("side", b="1")
    repository.git("checkout", "-q", "main")
    main = repository.commit("main", c="1")
    repository.git("merge", "-q", "side", "-m", "merged")
    merge = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "-q", "--orphan", "other")
    other = repository.commit("other", d="1")
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--allow-unrelated-histories", "other", "-m", "both")
    both = repository.git("rev-parse", "HEAD")
    imported = take(repository)
    commits = [step.operands[2].value.hex() for step in named(imported, "GIT_COMMIT")]
    states = [(step.operands[0].value.hex(), step.note) for step in named(imported, "CHECKPOINT")]
    empty = repository.git("hash-object", "-t", "tree", "/dev/null")
    order = [commits.index(one) for one in (side, main, other)]
    assert sorted(commits) == sorted([first, side, main, merge, other, both])
    assert [state for state in states if state[1] == "merged"] == [(merge, "merged"), (both, "merged")]
    assert ((empty, "checked out") in states) == (order[2] > 0)
    assert (first, "checked out") in states
    cut = take(repository, commits_max=1)
    assert TrailReader(cut.trail).header.base.value.hex() == merge
    assert [step.note for step in named(cut, "CHECKPOINT")] == ["checked out", "merged"]
    assert TrailReader(imported.trail).header.base is None


def test_nothing_that_the_repository_configures_is_run(repository):
    proof = repository.path / "was run"
    trap = repository.path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch '{proof}'\ncat\n")
    trap.chmod(0o755)
    (repository.path / ".gitattributes").write_text("* diff=trap filter=trap\n")
    repository.commit("one", a="1\n")
    repository.commit("two", a="2\n")
    for setting in (
        "core.fsmonitor", "core.pager", "core.sshCommand", "diff.external", "diff.trap.command", "diff.trap.textconv",
        "filter.trap.smudge", "filter.trap.clean", "gpg.program", "core.editor", "core.gitProxy", "pager.log",
        "core.alternateRefsCommand",
    ):  # fmt: skip
        repository.git("config", setting, str(trap))
    for setting in ("log.showSignature", "log.follow", "diff.relative", "log.mailmap", "diff.noprefix", "color.ui"):
        repository.git("config", setting, "always" if setting == "color.ui" else "true")
    repository.git("config", "log.showRoot", "false")
    repository.git("config", "diff.renames", "false")
    repository.git("config", "i18n.logOutputEncoding", "UTF-16")
    hooks = repository.path / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        shutil.copy(trap, hooks / hook)
    if proof.exists():
        proof.unlink()  # what the settings above made of this test's own git
    imported = take(repository)
    assert not proof.exists()
    assert [step.operands[1] for step in named(imported, "GIT_COMMIT")] == ["one", "two"]
    assert {"a", ".gitattributes"} <= {*imported.files}


def test_secrets_in_a_history_are_masked(repository):
    secret = "ghp_" + "A1b2C3d4E5" * 3 + "f6G7h8"
    repository.commit(f"add {secret}", **{secret: "x"})
    imported = take(repository)
    assert secret.encode() not in imported.trail
    assert imported.masked == 2


def test_what_is_no_repository(tmp_path, repository):
    def refuse(path, kind, wrong):
        with pytest.raises(kind, match=wrong):
            import_git(str(path), trail_key=KEY, put_object=Objects().put)

    (tmp_path / "plain").mkdir()
    refuse(tmp_path / "absent", NotFoundError, "no folder")
    refuse(tmp_path / "plain", FormatError, "not a git repository")
    refuse(repository.path, NotFoundError, "no commits")
    file = tmp_path / "file"
    file.touch()
    refuse(file, NotFoundError, "no folder")


def test_without_git_the_error_says_so(repository, monkeypatch, tmp_path):
    repository.commit("one", a="1")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match="git is not installed"):
        take(repository)


def test_a_folder_whose_name_is_no_utf_8(tmp_path):
    repository = Repository(tmp_path / "non\udcffutf8")
    repository.commit("one", a="1")
    imported = take(repository)
    assert imported.title == "history of non\\xffutf8"
    assert imported.cwd is not None
    assert imported.cwd.endswith("/non\\xffutf8")


def test_a_damaged_repository_is_one_clear_error(repository):
    first = repository.commit("one", a="1")
    repository.commit("two", a="2")
    target = repository.path / ".git/objects" / first[:2] / first[2:]
    target.chmod(0o600)
    target.write_bytes(b"damaged")
    with pytest.raises(FormatError, match="could not read the history"):
        take(repository)


def test_tokens_in_all_splits():
    import io

    data = b"one\0\0two\nlines\0three"

    class Slow(io.BytesIO):
        size = 1

        def read(self, _=-1):
            return super().read(self.size)

    for size in range(1, len(data) + 1):
        stream = Slow(data)
        stream.size = size
        assert list(_tokens(stream)) == [b"one", b"", b"two\nlines", b"three"]
