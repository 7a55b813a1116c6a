"""Which files a folder has: by git's rules in a worktree of git, by a walk elsewhere."""

from __future__ import annotations

import os
import shutil
import socket

import pytest

from listing_support import ENVIRONMENT, Listed, git, make_repository, write
from periplus.base.errors import EnvironmentFailure, UsageError
from periplus.code.listing import blob_id, is_settled, list_files

BARE = {"HEAD": "ref: refs/heads/main\n", "objects/keep": "", "refs/keep": ""}


@pytest.fixture
def project(tmp_path):
    return make_repository(tmp_path / "project", {"a.py": "a\n", "pkg/b.py": "b\n", ".gitignore": "*.log\n"})


@pytest.fixture
def owned(tmp_path):
    """A program that leaves a file when it is run, and that file."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho ran >> {tmp_path}/ran\ncat\n")
    program.chmod(0o755)
    return program, tmp_path / "ran"


def test_clean_files_have_the_ids_of_the_index(project):
    listed = Listed(project)
    found = listed.again()
    assert {path: state.oid for path, state in found.items()} == {
        "a.py": blob_id(b"a\n"), "pkg/b.py": blob_id(b"b\n"), ".gitignore": blob_id(b"*.log\n")
    }  # fmt: skip
    assert listed.listing.kind == "git"
    assert listed.listing.why == ""
    assert listed.listing.dirty == {}


def test_the_index_is_read_only_where_it_changed(project):
    listed = Listed(project)
    listed.again()
    listed.again()
    assert listed.listing.base is None
    git(project, "rm", "-q", "--cached", "a.py")
    assert listed.again()["a.py"].stamp is not None
    assert list(listed.listing.base) == [".gitignore", "pkg/b.py"]


def test_git_is_not_asked_to_write(project):
    """The index stays as it is, even where its time stamps are outdated; and another process may hold its lock."""
    os.utime(project / "a.py", ns=(0, 0))
    held = (project / ".git/index").read_bytes()
    (project / ".git/index.lock").write_bytes(b"")
    assert Listed(project).again()["a.py"].stamp[1] == 0
    assert (project / ".git/index").read_bytes() == held


def test_edited_deleted_untracked_and_ignored_files(project):
    listed = Listed(project)
    listed.again()
    write(
        project, {"a.py": "other\n", "new.py": "", "x.log": "", ".periplus/entities/e.json": "", "pkg/.periplus/x": ""}
    )
    os.unlink(project / "pkg/b.py")
    assert listed.paths() == [".gitignore", "a.py", "new.py"]
    assert listed.listing.dirty["pkg/b.py"] is None
    listed.check()


def test_a_tracked_store_is_not_listed(project):
    write(project, {".periplus/config.toml": ""})
    git(project, "add", "-f", ".periplus")
    assert Listed(project).paths() == [".gitignore", "a.py", "pkg/b.py"]


@pytest.mark.parametrize("kind", ["sha1", "sha256"])
def test_a_repository_without_commits(tmp_path, kind):
    git(tmp_path, "init", "-q", f"--object-format={kind}")
    listed = Listed(tmp_path)
    assert listed.again() == {}
    write(tmp_path, {"a.py": "a\n"})
    listed.check()
    git(tmp_path, "add", "a.py")
    assert listed.again()["a.py"].oid == blob_id(b"a\n", kind)
    assert listed.listing.algorithm == kind
    assert git(tmp_path, "hash-object", "a.py").decode().strip() == blob_id(b"a\n", kind)


@pytest.mark.parametrize("name", ["line\nend.py", 'quote".py', "tab\t.py", " space .py", "\udcff\udc80.py", "ü.py", "-x.py", "\\.py", ":(top)x.py"])  # fmt: skip
def test_any_name(project, name):
    listed = Listed(project)
    write(project, {name: "1", f"{name}.d/{name}": "2"})
    listed.check()
    git(project, "add", "-A")
    listed.check()
    write(project, {name: "3"})
    listed.check()
    assert {name, f"{name}.d/{name}"} < set(listed.paths())


def test_symbolic_links_and_special_files_are_not_listed(project):
    (project / "link.py").symlink_to("a.py")
    git(project, "add", "link.py")
    (project / "loop").symlink_to("loop")
    (project / "up").symlink_to("..")
    os.mkfifo(project / "fifo.py")
    with socket.socket(socket.AF_UNIX) as held:
        here = os.open(project, os.O_RDONLY)
        held.bind(f"/proc/self/fd/{here}/socket.py" if os.path.exists("/proc/self/fd") else str(project / "socket.py"))
        os.close(here)
    listed = Listed(project)
    assert listed.paths() == [".gitignore", "a.py", "pkg/b.py"]
    (project / "link.py").unlink()
    write(project, {"link.py": "now a file"})
    assert "link.py" in listed.paths()


@pytest.mark.parametrize("target", ["other", "pkg", "nowhere", "."])
def test_a_folder_that_became_a_link_holds_nothing(project, target):
    listed = Listed(project)
    listed.again()
    shutil.move(project / "pkg", project / "other")
    (project / "pkg").symlink_to(target)
    assert listed.paths() == [".gitignore", "a.py", "other/b.py"]
    write(project, {".gitignore": "pkg\n"})
    listed.check()


def test_a_file_in_place_of_a_folder_and_back(project):
    listed = Listed(project)
    listed.again()
    shutil.rmtree(project / "pkg")
    write(project, {"pkg": "a file"})
    assert listed.paths() == [".gitignore", "a.py", "pkg"]
    os.unlink(project / "pkg")
    write(project, {"pkg/b.py": "b\n"})
    listed.check()


def test_unmerged_files(project):
    git(project, "branch", "side")
    write(project, {"a.py": "ours\n"})
    os.unlink(project / "pkg/b.py")
    git(project, "commit", "-qam", "ours")
    git(project, "checkout", "-q", "side")
    write(project, {"a.py": "theirs\n", "pkg/b.py": "theirs\n"})
    git(project, "commit", "-qam", "theirs")
    listed = Listed(project)
    listed.again()
    git(project, "merge", "main", fails=True)
    listed.check()
    assert set(listed.listing.indexes[0].watched) == {"a.py", "pkg/b.py"}
    assert {path for path, stamp in listed.listing.dirty.items() if stamp} == {"a.py", "pkg/b.py"}


def test_intent_to_add(project):
    write(project, {"new.py": "new\n"})
    git(project, "add", "-N", "new.py")
    state = Listed(project).again()["new.py"]
    assert (state.oid, state.stamp[0]) == ("", 4)


@pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
def test_files_that_git_does_not_compare_are_looked_at(project, mark):
    git(project, "update-index", mark, "a.py")
    listed = Listed(project)
    assert listed.again()["a.py"].oid == ""
    write(project, {"a.py": "edited behind git\n"})
    assert listed.again()["a.py"].stamp[0] == 18
    os.unlink(project / "a.py")
    assert listed.paths() == [".gitignore", "pkg/b.py"]
    assert listed.listing.base is None


def test_sparse_checkout(project):
    write(project, {"one/c.py": "c\n", "two/d.py": "d\n"})
    git(project, "add", "-A")
    git(project, "commit", "-qm", "more")
    listed = Listed(project)
    listed.again()
    git(project, "sparse-checkout", "set", "--sparse-index", "one")
    assert listed.paths() == [".gitignore", "a.py", "one/c.py"]
    write(project, {"two/d.py": "d\n"})  # as in the index, and there again without git's knowledge
    assert listed.paths() == [".gitignore", "a.py", "one/c.py", "two/d.py"]
    anew = Listed(project)
    assert "two/d.py" in anew.paths()
    shutil.rmtree(project / "two")
    assert listed.paths() == anew.paths() == [".gitignore", "a.py", "one/c.py"]
    assert listed.listing.base is None


def test_contents_as_old_as_the_index_are_found_changed(project):
    """An edit of the same size within the step of the clock: git compares the contents."""
    listed = Listed(project)
    for number in range(20):
        write(project, {"a.py": f"{number:05}"})
        git(project, "add", "a.py")
        write(project, {"a.py": f"{number + 1:05}"})
        state = listed.again()["a.py"]
        assert state.oid in ("", blob_id(f"{number + 1:05}".encode()))


def test_a_stamp_settles():
    assert is_settled((1, 0, 5_000_000_000, 9), 8_000_000_000)
    assert not is_settled((1, 0, 5_000_000_000, 9), 6_000_000_000)


def test_linked_worktrees(project):
    git(project, "worktree", "add", "-q", "-b", "side", "../tree")
    git(project, "worktree", "add", "-q", "-b", "inner", "inner")
    tree = project.parent / "tree"
    write(tree, {"only.py": "here\n"})
    git(tree, "add", "-A")
    for folder, wanted in ((tree, ["only.py"]), (project, []), (project / "inner", [])):
        listed = Listed(folder)
        listed.check()
        assert listed.paths() == sorted([".gitignore", "a.py", "pkg/b.py", *wanted])


def test_submodules(project):
    inner = make_repository(project.parent / "inner", {"deep.py": "1\n", ".gitignore": "*.o\n"})
    middle = make_repository(project.parent / "middle", {"m.py": "2\n"})
    git(middle, "submodule", "--quiet", "add", str(inner), "lib/inner")
    git(middle, "commit", "-qm", "inner")
    git(project, "submodule", "--quiet", "add", str(middle), "ext/middle")
    listed = Listed(project)
    listed.again()
    assert {"ext/middle/m.py", "ext/middle/.gitmodules"} < set(listed.paths())
    git(project, "submodule", "--quiet", "update", "--init", "--recursive")  # no index changes above the new one
    listed.check()
    assert "ext/middle/lib/inner/deep.py" in listed.paths()
    assert [index.prefix for index in listed.listing.indexes] == ["", "ext/middle/", "ext/middle/lib/inner/"]
    assert listed.listing.base is None
    write(project / "ext/middle/lib/inner", {"x.o": "", "new.py": "", "deep.py": "edited\n"})
    listed.check()
    git(project, "submodule", "deinit", "-f", "ext/middle")
    assert not [path for path in listed.paths() if path.startswith("ext/")]


def test_a_damaged_submodule_is_said_and_the_rest_is_listed(project):
    inner = make_repository(project.parent / "inner", {"deep.py": "1\n"})
    git(project, "submodule", "--quiet", "add", str(inner), "sub")
    listed = Listed(project)
    listed.again()
    index = project / ".git/modules/sub/index"
    kept = index.read_bytes()
    index.write_bytes(b"broken")
    assert listed.paths() == [".gitignore", ".gitmodules", "a.py", "pkg/b.py"]
    assert listed.listing.why.startswith("sub/: git failed: ")
    index.write_bytes(kept)
    listed.check()
    assert "sub/deep.py" in listed.again()


def test_a_submodule_behind_a_link_is_not_entered(project):
    inner = make_repository(project.parent / "inner", {"deep.py": "1\n"})
    git(project, "submodule", "--quiet", "add", str(inner), "ext/sub")
    shutil.move(project / "ext", project.parent / "moved")
    (project / "ext").symlink_to("../moved")
    (project / "ext/sub/.git").write_text(f"gitdir: {project}/.git/modules/ext/sub\n")  # as before from where it is now
    assert Listed(project).paths() == [".gitignore", ".gitmodules", "a.py", "pkg/b.py"]


def test_an_untracked_repository_within_is_left_out(project):
    make_repository(project / "nested", {"n.py": ""})
    assert Listed(project).paths() == [".gitignore", "a.py", "pkg/b.py"]


def test_a_folder_of_the_worktree_as_root(project):
    inner = make_repository(project.parent / "inner", {"deep.py": "1\n"})
    git(project, "submodule", "--quiet", "add", str(inner), "pkg/sub")
    write(project, {"pkg/new.py": "", "outside.py": "", "a.py": "edited\n", "pkg/b.py": "edited\n", "pkg/x.log": ""})
    listed = Listed(project / "pkg")
    assert listed.paths() == ["b.py", "new.py", "sub/deep.py"]
    assert sorted(listed.listing.dirty) == ["b.py", "new.py"]


def test_a_folder_that_a_repository_further_up_ignores_is_walked(tmp_path):
    make_repository(tmp_path / "home", {".profile": "", ".gitignore": "*\n!.profile\n"})
    write(tmp_path / "home", {"project/a.py": ""})
    listed = Listed(tmp_path / "home/project")
    assert listed.paths() == ["a.py"]
    assert (listed.listing.kind, "ignores it" in listed.listing.why) == ("folder", True)


def test_an_empty_folder_of_a_repository_stays_with_git(project):
    (project / "empty").mkdir()
    listed = Listed(project / "empty")
    assert listed.paths() == []
    assert listed.listing.kind == "git"


def test_line_ends_are_those_of_the_index(project):
    """A clean file with other line ends on the disk has the id of the blob, not of its bytes."""
    write(project, {".gitattributes": "*.txt text eol=crlf\n", "t.txt": "one\r\n"})
    git(project, "add", "-A")
    git(project, "commit", "-qm", "text")
    assert Listed(project).again()["t.txt"].oid == blob_id(b"one\n")


def test_a_broken_index_is_said_and_the_folder_walked(project):
    (project / ".git/index").write_bytes(b"broken")
    write(project, {"x.log": "", "node_modules/m.js": ""})
    listed = Listed(project)
    assert listed.paths() == [".gitignore", "a.py", "pkg/b.py", "x.log"]
    assert (listed.listing.kind, listed.listing.indexes) == ("folder", ())
    assert listed.listing.why.startswith("git failed: ")


def test_without_git(project):
    listed = Listed(project, {"PATH": str(project.parent)})
    assert listed.paths() == [".gitignore", "a.py", "pkg/b.py"]
    assert listed.listing.why.startswith("git is not installed")


def test_git_in_the_project_is_not_run(project, owned):
    shutil.copy(owned[0], project / "git")
    here = os.path.relpath(project)
    listed = Listed(project, ENVIRONMENT | {"PATH": f".:{here}::{ENVIRONMENT['PATH']}"})
    assert "git" in listed.again()
    assert listed.listing.kind == "git"
    assert not owned[1].exists()


def other_git(folder, script):
    """An environment in which git is a program that does not work."""
    write(folder, {"git": f"#!/bin/sh\n{script}\n"})
    (folder / "git").chmod(0o755)
    return ENVIRONMENT | {"PATH": f"{folder}:{ENVIRONMENT['PATH']}"}


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("kill -9 $$", "git was ended by signal 9"), ("exit 3", "git failed with exit code 3"), ("echo oops >&2; exit 1", "git failed: oops"),
        ("exec yes", "git returned more than 67,108,864 bytes"),
    ],
)  # fmt: skip
def test_a_git_that_fails_is_said(project, tmp_path, script, why):
    listed = Listed(project, other_git(tmp_path / "bin", script))
    assert listed.paths() == [".gitignore", "a.py", "pkg/b.py"]
    assert listed.listing.why == why


def test_a_git_that_hangs_is_given_up(project, tmp_path):
    environment = other_git(tmp_path / "bin", "exec tail -f /dev/null")
    open_before = len(os.listdir("/dev/fd"))
    with pytest.raises(EnvironmentFailure, match="too long"):
        list_files(str(project), environment, seconds_max=0.1)
    assert len(os.listdir("/dev/fd")) == open_before


def test_settings_that_never_end_are_not_waited_for(project):
    (project / ".git/config").rename(project / ".git/kept")
    os.mkfifo(project / ".git/config")
    with pytest.raises(EnvironmentFailure, match="too long"):
        list_files(str(project), ENVIRONMENT, seconds_max=0.2)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to give a folder to another user")
def test_a_repository_of_another_user_is_said(project):
    for path in (project, project / ".git"):
        os.chown(path, 4321, 4321)
    listed = Listed(project)
    assert listed.paths() == [".gitignore", "a.py", "pkg/b.py"]
    assert "belongs to another user" in listed.listing.why


def test_nothing_that_the_settings_of_a_repository_name_is_run(project, owned):
    program, ran = owned
    write(project, {
        ".gitattributes": "*.py filter=one\na.py filter=two=three\npkg/* filter=lfs\n",
        ".git/more": f'[filter "two=three"]\n\tprocess = {program}\n\tclean = {program}\n\trequired = true\n',
    })  # fmt: skip
    for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        shutil.copy(program, project / ".git/hooks" / name)
    with (project / ".git/config").open("a") as file:
        file.write(
            f'[FILTER "one"]\n\tclean = {program}\n\trequired\n[include]\n\tpath = more\n[filter "lfs"]\n\tprocess = {program}\n'
            f"[core]\n\tfsmonitor = {program}\n\thooksPath = .git/hooks\n\tworktree = /\n\tpager = {program}\n\tsshCommand = {program}\n"
            f"[alias]\n\tls-files = !{program}\n\tdiff-files = !{program}\n[pager]\n\tls-files = {program}\n[diff]\n\texternal = {program}\n"
        )
    os.utime(
        project / ".git/index", (1, 1)
    )  # all files are newer: their time stamps prove nothing, git has to read them
    listed = Listed(project)
    found = listed.again()
    assert sorted(found) == [".gitattributes", ".gitignore", "a.py", "pkg/b.py"]
    assert found["a.py"].oid == blob_id(b"a\n")
    assert (listed.listing.kind, ran.exists()) == ("git", False)
    for setting in ("filter.one", "filter.two=three", "filter.lfs"):
        git(project, "config", "--unset-all", f"{setting}.required", fails=None)
    git(project, f"--work-tree={project}", "-c", "core.fsmonitor=false", "diff-files", fails=None)
    assert ran.exists(), "git itself does not run a filter here, so that the above proves nothing"


@pytest.mark.parametrize(
    ("place", "settings", "name"),
    [
        (".git/config", "[FILTER{name}]", "x"), (".git/more", "[filter{name}]", "x"), (".git/config.worktree", "[filter{name}]", "x"),
        ("../user", "[filter{name}]", "lfs"),
    ],
)  # fmt: skip
def test_a_filter_is_not_run_wherever_it_is_set(project, owned, place, settings, name):
    program, ran = owned
    write(project, {".gitattributes": f"*.py filter={name}\n"})
    more = {"more": "[include]\n\tpath = more\n", "config.worktree": "[extensions]\n\tworktreeConfig = true\n"}
    with (project / ".git/config").open("a") as file:
        file.write(more.get(os.path.basename(place), ""))
    with (project / place).open("a") as file:
        file.write(settings.format(name=f' "{name}"') + f"\n\tclean = {program}\n")
    os.utime(project / ".git/index", (1, 1))
    listed = Listed(project, ENVIRONMENT | {"GIT_CONFIG_GLOBAL": str(project.parent / "user")})
    assert listed.again()["a.py"].oid == blob_id(b"a\n")
    assert not ran.exists()
    git(project, "-c", f"include.path={project.parent}/user", "diff-files")
    assert ran.exists(), "git itself does not run a filter here, so that the above proves nothing"


def test_nothing_is_run_for_a_folder_that_looks_like_a_bare_repository(project, owned):
    program, ran = owned
    write(project, {f"pkg/{path}": data for path, data in BARE.items()})
    write(project, {"pkg/config": f"[core]\n\trepositoryformatversion = 0\n\tworktree = ..\n\tfsmonitor = {program}\n"})
    listed = Listed(project / "pkg")
    assert "b.py" in listed.paths()
    assert (listed.listing.kind, listed.listing.why) == ("folder", "")
    assert "pkg/b.py" in Listed(project).again()
    assert not ran.exists()


def test_settings_of_a_repository_further_up_do_not_count(project, owned):
    """A ``.git`` that only looks like one: git would go on to the next one above, whose filters nobody looked at."""
    program, ran = owned
    with (project / ".git/config").open("a") as file:
        file.write(f'[filter "x"]\n\tclean = {program}\n')
    write(
        project,
        {
            "pkg/.git/HEAD": "nonsense",
            "pkg/.git/objects/x": "",
            "pkg/.git/refs/x": "",
            ".gitattributes": "* filter=x\n",
        },
    )
    os.utime(project / ".git/index", (1, 1))
    listed = Listed(project / "pkg")
    assert listed.paths() == ["b.py"]
    assert (listed.listing.kind, listed.listing.why[:10]) == ("folder", "git failed")
    assert not ran.exists()


def test_variables_of_a_hook_of_git_do_not_count(project, tmp_path):
    other = make_repository(tmp_path / "other", {"o.py": ""})
    hook = {
        "GIT_DIR": f"{other}/.git",
        "GIT_INDEX_FILE": f"{other}/.git/index",
        "GIT_WORK_TREE": str(other),
        "GIT_PREFIX": "x/",
    }
    found = Listed(project, ENVIRONMENT | hook).again()
    assert {path: bool(state.oid) for path, state in found.items()} == dict.fromkeys(
        (".gitignore", "a.py", "pkg/b.py"), True
    )


def test_paths_that_lead_out_are_not_listed(project):
    """An index may be made by hand: git itself refuses to write such a path."""
    git(project, "config", "core.protectNTFS", "false")
    write(project, {"pkg/xx/yy": "", "pkg/.giu/config": ""})
    git(project, "add", "-A")
    data = (project / ".git/index").read_bytes()
    body = data[:-20].replace(b"pkg/xx/yy", b"pkg/../yy").replace(b"pkg/.giu/config", b"pkg/.git/config")
    import hashlib

    (project / ".git/index").write_bytes(body + hashlib.sha1(body).digest())
    write(project, {"yy": ""})
    assert Listed(project).paths()[:3] == [".gitignore", "a.py", "pkg/.giu/config"]
    assert not [path for path in Listed(project).paths() if ".." in path or ".git/" in path]


@pytest.mark.parametrize("most", [0, 1, 3, 5, 6])
def test_the_number_of_files_is_limited(project, most):
    write(project, {"u.py": "", "v.py": "", "w.py": "", "pkg/b.py": "edited"})
    known = ()
    for _ in range(2):
        found = list_files(str(project), ENVIRONMENT, known, files_max=most)
        base = found.base if found.base is not None else base  # noqa: F821 - of the first round
        known = found.indexes
        listed = set(base) | {path for path, stamp in found.dirty.items() if stamp}
        assert (len(listed), found.left_out if found.base is not None else 6 - most) == (most, 6 - most)


def test_the_number_of_walked_files_is_limited(tmp_path):
    write(tmp_path, {f"{number}.py": "" for number in range(5)})
    found = list_files(str(tmp_path), ENVIRONMENT, files_max=3)
    assert (sorted(found.dirty), found.left_out) == (["0.py", "1.py", "2.py"], 2)


def test_a_folder_without_git(tmp_path):
    write(tmp_path, {
        "a.py": "", "build/made.py": "", "dist/b.js": "", "node_modules/m.js": "", "x/__pycache__/c.pyc": "", ".github/w.yml": "",
        "env3/pyvenv.cfg": "", "env3/lib/p.py": "", "target/CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55\n# by cargo",
        "target/debug/x.rs": "", "notes/CACHEDIR.TAG": "a file of that name", "notes/n.md": "", ".periplus/config.toml": "",
        "\udcff/\n.py": "",
    })  # fmt: skip
    make_repository(tmp_path / "clone", {"r.py": "", "i.log": "", ".gitignore": ""})
    write(tmp_path / "clone", {".gitignore": "*.log\n"})
    (tmp_path / "up").symlink_to("..")
    (tmp_path / "link.py").symlink_to("a.py")
    listed = Listed(tmp_path)
    assert listed.paths() == sorted([
        "a.py", "build/made.py", "dist/b.js", ".github/w.yml", "notes/CACHEDIR.TAG", "notes/n.md", "\udcff/\n.py",
        "clone/r.py", "clone/i.log", "clone/.gitignore",
    ])  # fmt: skip
    assert (listed.listing.kind, listed.listing.why, listed.listing.indexes) == ("folder", "", ())
    stamp = listed.listing.dirty["a.py"]
    write(tmp_path, {"a.py": "changed"})
    assert listed.again()["a.py"].stamp != stamp


def test_a_folder_that_is_as_deep_as_it_gets(tmp_path):
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(30):  # beyond the longest path that the system takes
        name = "d" * 200
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(os.open("f.py", os.O_CREAT | os.O_WRONLY, dir_fd=below))
        os.close(at)
        at = below
    os.close(at)
    found = list_files(str(tmp_path), ENVIRONMENT)
    assert 15 < len(found.dirty) < 30
    assert found.why == "1 folders cannot be read"


def test_what_is_no_folder_is_refused(tmp_path):
    write(tmp_path, {"file": ""})
    with pytest.raises(UsageError):
        list_files(str(tmp_path / "file"), ENVIRONMENT)
    with pytest.raises(EnvironmentFailure):
        list_files(str(tmp_path / "absent"), ENVIRONMENT)
