"""Memory anchored to files, lines and symbols, and its staleness against the working tree of a real git repository."""

from __future__ import annotations

import os
import subprocess

import msgspec
import pytest

from cli_support import git
from periplus.base.clock import SystemClock
from periplus.base.errors import UsageError
from periplus.memory import Memory
from periplus.memory.code_anchors import anchors
from periplus.memory.code_anchors.anchors import DEEP, Ground
from periplus.memory.entities.schemas import About
from periplus.project import Project
from support import WRITER

AUTH = '''"""Who is who."""
import hashlib


def hash_password(word):
    salt = new_salt()
    return hashlib.scrypt(word, salt=salt)


class Session:
    @property
    def name(self):
        return self._name

    def close(self):
        self._open = False
'''


@pytest.fixture
def project(tmp_path):
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "src").mkdir()
    (tmp_path / ".gitignore").write_text(".periplus/\n")
    write(tmp_path, AUTH)
    commit(tmp_path, "begin")
    root = Project.init(os.fspath(tmp_path)).root
    with Project(root, WRITER, clock=SystemClock()) as project:
        yield project


def write(folder, text, path="src/auth.py"):
    (folder / path).write_text(text)


def commit(folder, message):
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    done = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    return done.stdout.strip()[:12]


def keep(project, *about, text="passwords are hashed with scrypt"):
    return project.remember(Memory("decision", text, about=about)).entity


def stale(project, question="passwords scrypt"):
    hit = project.recall(question).hits[0]
    assert bool(hit.stale) == bool(hit.standing)
    return hit.standing


def where(project, entity, reach=DEEP):
    return [(one.state, one.path, one.start) for one in Ground(project.folder, reach=reach).standings(entity)]


# -- what is written ---------------------------------------------------------------------------------------------------


def test_a_symbol_lines_and_a_file_are_written_with_the_digest_of_what_they_name(project):
    entity = keep(project, "src/auth.py:hash_password", "src/auth.py:5-7", "src/auth.py", "src/auth.py:name")
    symbol, lines, file, short = (msgspec.convert(item, About) for item in entity.value["about"])
    assert (symbol.kind, symbol.ref, symbol.path, symbol.name) == (
        "symbol",
        "src/auth.py:hash_password",
        "src/auth.py",
        "hash_password",
    )
    assert (symbol.start, symbol.length, len(symbol.before), len(symbol.after)) == (5, 3, 2, 2)
    assert (lines.kind, lines.ref, lines.sha256, lines.start, lines.length) == (
        "range",
        "src/auth.py:5-7",
        symbol.sha256,
        5,
        3,
    )
    assert (file.kind, file.ref, file.sha256) == ("path", "src/auth.py", symbol.file)
    assert (short.ref, short.start, short.length) == ("src/auth.py:Session.name", 11, 3)
    assert [state for state, *_ in where(project, entity)] == ["fresh"] * 4


def test_it_is_found_by_its_file_too(project):
    entity = keep(project, "src/auth.py:Session.close", text="nothing is closed twice")
    assert [hit.item_id for hit in project.recall("what about src/auth.py").hits] == [entity.item_id]
    assert "nothing is closed twice" in project.brief("change src/auth.py").text


@pytest.mark.parametrize(
    ("ref", "wrong", "mend"),
    [
        ("src/auth.py:hash_pasword", "defines no hash_pasword", "Did you mean hash_password?"),
        ("src/auth.py:5-700", "has no lines 5-700", "It has 16 lines"),
        ("src/auth.py:7-5", "has no lines 7-5", "FIRST-LAST"),
        ("src/auth.py:0", "has no lines 0-0", "FIRST-LAST"),
        ("src/auth.py:3-4", "are blank", "lines that are not blank"),
        ("src/two.py:run", "defines run 2 times", "src/two.py:2-2, src/two.py:4-4"),
    ],
)
def test_what_a_file_does_not_have_is_refused_and_nothing_is_written(project, tmp_path, ref, wrong, mend):
    write(tmp_path, "class A:\n    def run(self): pass\nclass B:\n    def run(self): pass\n", "src/two.py")
    with pytest.raises(UsageError, match=wrong) as caught:
        keep(project, ref)
    assert mend in caught.value.mend
    assert project.recall("passwords").hits == ()


def test_where_symbols_cannot_be_told_the_file_is_the_anchor_and_it_is_said(project, tmp_path):
    write(tmp_path, "hash_password() { scrypt; }\n", "src/auth.pl")
    done = project.remember(Memory("note", "Perl hashes too", about=("src/auth.pl:hash_password",)))
    assert done.notes == (
        "src/auth.pl is anchored as a whole, because its symbols cannot be read: no language is known whose files are named so",
    )
    assert where(project, done.entity) == [("fresh", "src/auth.pl", 0)]
    write(tmp_path, "changed\n", "src/auth.pl")
    assert where(project, done.entity) == [("changed", "src/auth.pl", 0)]


def test_a_reference_that_names_no_file_is_kept_as_it_is(project):
    entity = keep(project, "https://example.org/a:b", "src/none.py:f", "no\0file:x")
    assert [item["ref"] for item in entity.value["about"]] == ["https://example.org/a:b", "src/none.py:f", "no\0file:x"]
    assert where(project, entity) == []


def test_payloads_of_before_and_strange_ones_are_judged_without_an_error(project):
    old = {"kind": "path", "ref": "src/auth.py", "sha256": "0" * 64}
    assert Ground(project.folder).judge(anchors.anchor_of(old)).state == "changed"
    for item in (None, 3, {}, {"kind": "entity", "ref": "x"}, {"kind": "path", "ref": "x"}):
        assert anchors.anchor_of(item) is None
    for strange in (
        {"edges": "no", "length": 4},
        {"edges": [1], "length": 4},
        {"edges": [1, 2], "length": -1, "before": 7},
    ):
        assert Ground(project.folder).judge(anchors.anchor_of({**old, **strange})).state == "changed"
    huge = anchors.anchor_of({**old, "edges": [1, 2], "length": 1 << 60, "start": 1 << 60, "name": "hash_password"})
    assert Ground(project.folder).judge(huge).state == "changed"
    outside = anchors.anchor_of({**old, "ref": "../../etc/passwd"})
    assert Ground(project.folder).judge(outside).state == "gone"


# -- what happens to the code ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ref", ["src/auth.py:hash_password", "src/auth.py:5-7"])
def test_an_edit_inside_is_stale_with_its_commit_and_fresh_again_when_reverted(project, tmp_path, ref):
    keep(project, ref)
    assert stale(project) == ()
    write(tmp_path, AUTH.replace("salt = new_salt()", "salt = old_salt()"))
    assert stale(project) == (f"{ref} changed, which is not committed",)
    changed = commit(tmp_path, "old salt")
    write(tmp_path, AUTH.replace("salt = new_salt()", "salt = old_salt()") + "\n\ndef more():\n    pass\n")
    commit(tmp_path, "more")
    assert stale(project) == (f"{ref} changed in {changed}",)
    assert f"(stale: {ref} changed in {changed})" in project.brief("passwords scrypt").text
    git(tmp_path, "revert", "--no-edit", "HEAD~1")
    assert stale(project) == ()


@pytest.mark.parametrize("ref", ["src/auth.py:hash_password", "src/auth.py:5-7", "src/auth.py:Session.name"])
def test_edits_outside_and_moves_inside_the_file_leave_it_fresh(project, tmp_path, ref):
    entity = keep(project, ref)
    write(
        tmp_path,
        AUTH.replace("self._open = False", "self._open = None").replace("import hashlib", "import a\nimport hashlib"),
    )
    assert stale(project) == ()
    head, body, tail = (
        AUTH[: AUTH.index("def hash")],
        AUTH[AUTH.index("def hash") : AUTH.index("class")],
        AUTH[AUTH.index("class") :],
    )
    write(tmp_path, head + tail + "\n\n" + body)
    assert stale(project) == ()
    write(
        tmp_path,
        head + "if True:\n" + "".join(f"    {line}\n" if line else "\r\n" for line in (body + tail).split("\n")),
    )
    assert stale(project) == ()
    assert where(project, entity)[0][0] == "fresh"


@pytest.mark.parametrize("ref", ["src/auth.py", "src/auth.py:hash_password", "src/auth.py:5-7"])
def test_other_line_ends_are_no_change(project, tmp_path, ref):
    """As `core.autocrlf` of one clone, and not of another, has them; git sees no change then."""
    entity = keep(project, ref)
    git(tmp_path, "config", "core.autocrlf", "true")
    (tmp_path / "src/auth.py").unlink()
    git(tmp_path, "checkout", "--", "src/auth.py")
    assert b"\r\n" in (tmp_path / "src/auth.py").read_bytes()
    assert stale(project) == ()
    there = keep(project, ref, text="and scrypt is slow").item_id
    git(tmp_path, "mv", "src/auth.py", "src/login.py")
    assert where(project, entity)[0][:2] == ("moved", "src/login.py")
    git(tmp_path, "mv", "src/login.py", "src/auth.py")
    git(tmp_path, "config", "core.autocrlf", "false")
    (tmp_path / "src/auth.py").unlink()
    git(tmp_path, "checkout", "--", "src/auth.py")
    assert where(project, project.journal.find(there))[0][0] == "fresh"
    write(tmp_path, AUTH.replace("salt = new_salt()", "salt = b''").replace("\n", "\r\n"))
    assert "changed" in stale(project)[0]


@pytest.mark.parametrize(
    "ref", ["src/auth.py", "src/auth.py:hash_password", "src/auth.py:5-7", "src/auth.py:Session.name"]
)
def test_a_renamed_file_is_followed(project, tmp_path, ref):
    entity = keep(project, ref)
    (tmp_path / "lib").mkdir()
    git(tmp_path, "mv", "src/auth.py", "lib/crypto.py")
    commit(tmp_path, "rename")
    assert stale(project) == ()
    assert where(project, entity)[0][:2] == ("moved", "lib/crypto.py")


@pytest.mark.parametrize("ref", ["src/auth.py:hash_password", "src/auth.py:5-7", "src/auth.py:Session"])
def test_what_moved_to_another_file_is_followed_and_stale_when_it_is_edited_there(project, tmp_path, ref):
    entity = keep(project, ref)
    start, end = ("class", "\0") if ref.endswith("Session") else ("def hash", "class")
    body = (AUTH + "\0")[AUTH.index(start) : (AUTH + "\0").index(end)]
    rest = AUTH.replace(body, "from crypto import hash_password, Session\n")
    write(tmp_path, rest.replace("import hashlib\n\n\n", "x = 1\n"))
    write(tmp_path, "import other\n\n" + body, "src/crypto.py")
    assert stale(project) == ()
    assert where(project, entity) == [("moved", "src/crypto.py", 3)]
    moved = commit(tmp_path, "move")
    write(tmp_path, "import other\n\n" + body.replace("return", "yield").replace("False", "None"), "src/crypto.py")
    assert stale(project) == (f"{ref} is gone since {moved}" if ref[-1].isalpha() else f"{ref} changed in {moved}",)


def test_a_copy_elsewhere_is_no_excuse_for_what_was_edited_in_its_place(project, tmp_path):
    write(tmp_path, AUTH, "src/copy.py")
    keep(project, "src/auth.py:Session.name")
    write(tmp_path, AUTH.replace("return self._name", "return ''"))
    assert stale(project) == ("src/auth.py:Session.name changed, which is not committed",)
    write(tmp_path, AUTH.replace("def name(self)", "def name(self, *_)"))
    assert stale(project) == ("src/auth.py:Session.name changed, which is not committed",)


@pytest.mark.parametrize("ref", ["src/auth.py", "src/auth.py:hash_password", "src/auth.py:5-7"])
def test_what_was_deleted_is_gone(project, tmp_path, ref):
    keep(project, ref)
    (tmp_path / "src" / "auth.py").unlink()
    assert stale(project) == (f"{ref} is gone, which is not committed",)
    deleted = commit(tmp_path, "delete")
    assert stale(project) == (f"{ref} is gone since {deleted}",)


def test_a_deleted_symbol_is_gone_from_a_file_that_stays(project, tmp_path):
    keep(project, "src/auth.py:Session.close")
    write(tmp_path, AUTH[: AUTH.index("    def close")])
    assert stale(project) == ("src/auth.py:Session.close is gone, which is not committed",)


def test_without_git_it_is_stale_all_the_same(tmp_path):
    (tmp_path / "src").mkdir()
    write(tmp_path, AUTH)
    with Project(Project.init(os.fspath(tmp_path)).root, WRITER) as project:
        keep(project, "src/auth.py:hash_password")
        write(tmp_path, AUTH.replace("new_salt", "old_salt"))
        assert stale(project) == ("src/auth.py:hash_password changed since this was written",)


def test_a_change_on_a_merged_branch_is_named(project, tmp_path):
    keep(project, "src/auth.py:hash_password")
    git(tmp_path, "checkout", "-q", "-b", "side")
    write(tmp_path, AUTH.replace("new_salt", "old_salt"))
    changed = commit(tmp_path, "on a branch")
    git(tmp_path, "checkout", "-q", "main")
    write(tmp_path, AUTH.replace("Who is who", "Who is not"))
    commit(tmp_path, "on main")
    git(tmp_path, "merge", "-q", "--no-edit", "side")
    assert stale(project) == (f"src/auth.py:hash_password changed in {changed}",)


def test_what_is_stale_ranks_lower(project, tmp_path):
    write(tmp_path, "def a():\n    return 1\n\n\ndef b():\n    return 2\n", "src/two.py")
    first = keep(project, "src/two.py:a", text="cache entries live an hour, first")
    last = keep(project, "src/two.py:b", text="cache entries live an hour, last")
    assert [hit.item_id for hit in project.recall("cache entries").hits] == [last.item_id, first.item_id]
    write(tmp_path, "def a():\n    return 1\n\n\ndef b():\n    return 3\n", "src/two.py")
    hits = project.recall("cache entries").hits
    assert [(hit.item_id, bool(hit.stale)) for hit in hits] == [(first.item_id, False), (last.item_id, True)]


def test_an_unchanged_or_moved_file_is_not_parsed_for_recall(project, tmp_path):
    code = (
        "import os, sys\nfrom periplus.journal import Writer\nfrom periplus.project import Project\n"
        "with Project.open(sys.argv[1], Writer('a', 'who_0000000000000000')) as project:\n"
        "    print(project.recall('passwords scrypt').hits[0].standing, 'tree_sitter' in sys.modules, 'subprocess' in sys.modules)\n"
    )

    def loaded():
        done = subprocess.run([os.sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    keep(project, "src/auth.py:hash_password")
    assert loaded() == "() False False"
    write(tmp_path, "import above\n" + AUTH)
    assert loaded() == "() False False"
    write(tmp_path, AUTH.replace("new_salt", "old_salt"))
    assert loaded() == "('src/auth.py:hash_password changed, which is not committed',) False True"


def test_the_search_for_what_left_its_file_is_bounded(project, tmp_path):
    entity = keep(project, "src/auth.py:hash_password")
    (tmp_path / "src" / "auth.py").unlink()
    for number in range(30):
        write(tmp_path, f"x = {number}\n", f"src/a{number}.py")
    write(tmp_path, AUTH, "src/zzz.py")
    assert where(project, entity) == [("moved", "src/zzz.py", 5)]
    for reach in (DEEP._replace(files_max=10), DEEP._replace(entries_max=10), DEEP._replace(bytes_max=100)):
        assert where(project, entity, reach)[0][0] == "gone"
