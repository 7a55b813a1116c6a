"""A table of ways out of the folder of a replay, each tried through the worlds: refused, and nothing outside is touched.

A row is a step, or what is planted in the folder and a step. Beside the folder lies another with a file to be harmed;
before and after, everything around the folder of the replay is compared, down to modes, times of change and link counts.
"""

from __future__ import annotations

import os
import shutil
import stat
from typing import NamedTuple

import pytest

from cli_support import git, make_repository
from periplus.trail import Digest
from periplus.trail.replay import Capabilities
from replay_support import Taped, close_worlds, dry, files_in, folder_world, memory, replay

LONG = "x" * 256
DEEP = "/".join("d" * 70)


class Escape(NamedTuple):
    """``plant`` prepares the folder (its path, the outside's path); ``steps`` are tried one after the other."""

    name: str
    steps: tuple
    plant: object = None


def writing(path):
    """Every step that could do something to ``path``."""
    return (
        ("FILE_WRITE", path, "content"),
        ("FILE_EDIT", path, "secret", "harmed"),
        ("FILE_EDIT", path, "", "harmed"),
        ("FILE_DELETE", path),
        ("FILE_MOVE", path, "mine"),
        ("FILE_MOVE", "present", path),
        ("FILE_READ", path),
    )


PATHS = {
    "upwards": "../outside/secret",
    "upwards and down": "sub/../../../outside/secret",
    "upwards behind a dot": "./../outside/secret",
    "upwards alone": "..",
    "upwards at the end": "sub/..",
    "absolute": "/etc/passwd",
    "absolute twice": "//etc/passwd",
    "absolute root": "/",
    "proc self": "/proc/self/environ",
    "proc self cwd": "/proc/self/cwd/../secret",
    "proc self fd": "/proc/self/fd/0",
    "device by its name": "/dev/null",
    "device of a disk": "/dev/sda",
    "standard output": "/dev/stdout",
    "home": "~/.bashrc",
    "another's home": "~root/.bashrc",
    "variable": "$HOME/.bashrc",
    "variable in braces": "${HOME}/.bashrc",
    "command": "$(touch harmed)",
    "option": "-rf",
    "long option": "--output=/etc/passwd",
    "pathspec": ":(top,icase)secret",
    "pathspec upwards": ":/secret",
    "glob": "*",
    "glob upwards": "../*/secret",
    "question mark": "secre?",
    "new line": "a\nb",
    "carriage return": "a\rb",
    "escape of a terminal": "a\x1b]0;harmed\x07b",
    "null": "secret\0.txt",
    "null and upwards": "a\0/../../outside/secret",
    "delete character": "a\x7fb",
    "backslash upwards": "..\\outside\\secret",
    "drive": "C:\\outside\\secret",
    "two dot leader": "\u2025/outside/secret",
    "one dot leaders": "\u2024\u2024/outside/secret",
    "fullwidth dots": "\uff0e\uff0e/outside/secret",
    "dots with a joiner": ".\u200d./outside/secret",
    "division slash": "..\u2215outside\u2215secret",
    "fraction slash": "..\u2044outside\u2044secret",
    "fullwidth slash": "..\uff0foutside\uff0fsecret",
    "trailing dot": "../outside/secret.",
    "name with a trailing dot": "present.",
    "name with a trailing space": "present ",
    "dots and spaces": ".. /outside/secret",
    "three dots": ".../outside/secret",
    "huge name": LONG,
    "huge path": "/".join([LONG[:200]] * 20),
    "deep path": DEEP,
    "empty": "",
    "empty name": "a//b",
    "git config": ".git/config",
    "git hook": ".git/hooks/pre-commit",
    "git attributes": ".git/info/attributes",
    "git by case": ".GIT/config",
    "git by mixed case": ".GiT/hooks/post-checkout",
    "git with a trailing dot": ".git./config",
    "git with a trailing space": ".git /config",
    "git with a joiner": ".g\u200cit/config",
    "git by its short name": "GIT~1/config",
    "git by a stream": ".git::$INDEX_ALLOCATION/config",
    "git in fullwidth": ".\uff47\uff49\uff54/config",
    "git itself": ".git",
    "git file of a submodule": "vendor/lib/.git",
    "git of a submodule": "vendor/lib/.git/hooks/post-checkout",
    "git by modules": ".git/modules/lib/config",
    "the store": ".periplus/journal/store.json",
    "the store by case": ".PERIPLUS/journal/store.json",
    "the store deeper": "sub/.periplus/x",
}


OF_THE_STORE = "the store"  # nobody is asked to write there: what Periplus keeps is none of a run's effects


def link(name, target):
    return lambda root, outside: (root / name).symlink_to(outside / target if target else outside)


def plant_chain(root, outside):
    (root / "one").symlink_to("two")
    (root / "two").symlink_to(outside)


def plant_pipe(root, _outside):
    os.mkfifo(root / "odd")


def plant_socket(root, _outside):
    import socket

    there = os.open(root, os.O_RDONLY)  # a socket's name may have few characters
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"/proc/self/fd/{there}/odd")
    finally:
        os.close(there)


def plant_device(root, _outside):
    os.mknod(root / "odd", stat.S_IFCHR | 0o666, os.makedev(1, 3))


def plant_deep_link(root, outside):
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "c").symlink_to(outside)


PLANTED = (
    Escape("link to a file", writing("odd"), link("odd", "secret")),
    Escape("link to a folder", writing("odd/secret"), link("odd", "")),
    Escape("new file through a link", writing("odd/new"), link("odd", "")),
    Escape("new folder through a link", writing("odd/new/deep/x"), link("odd", "")),
    Escape("dangling link", writing("odd"), link("odd", "new")),
    Escape("relative link upwards", writing("odd"), lambda root, _: (root / "odd").symlink_to("../../outside/secret")),
    Escape("link to itself", writing("odd"), lambda root, _: (root / "odd").symlink_to("odd")),
    Escape("chain of links", writing("one/secret"), plant_chain),
    Escape("link deep down", writing("a/b/c/secret"), plant_deep_link),
    Escape("link to proc", writing("odd/cwd/x"), lambda root, _: (root / "odd").symlink_to("/proc/self")),
    Escape("link to the root of all", writing("odd/etc/passwd"), lambda root, _: (root / "odd").symlink_to("/")),
    Escape(
        "hard link",
        tuple(step for step in writing("odd")[:-2] if step[2:] != ("", "harmed")),
        lambda root, outside: os.link(outside / "secret", root / "odd"),
    ),
    Escape("pipe", writing("odd"), plant_pipe),
    Escape("socket", writing("odd"), plant_socket),
    Escape("device", writing("odd"), plant_device),
    Escape("pipe for a folder", writing("odd/x"), plant_pipe),
    Escape(
        "list a link",
        (("FILE_LIST", "odd"), ("FILE_LIST", "odd/*"), ("SEARCH_CODE", "secret", "odd/x")),
        link("odd", ""),
    ),
    Escape("folder of a command", (("COMMAND_RUN", "touch harmed", "odd"),), link("odd", "")),
)
OTHERS = (
    Escape(
        "list upwards", (("FILE_LIST", ".."), ("FILE_LIST", "../*"), ("FILE_LIST", "**/../.."), ("FILE_LIST", "/etc/*"))
    ),
    Escape(
        "search upwards",
        (("SEARCH_CODE", "secret", ".."), ("SEARCH_CODE", "secret", "/"), ("SEARCH_CODE", "secret", "../*")),
    ),
    Escape("command upwards", (("COMMAND_RUN", "touch harmed", ".."), ("COMMAND_RUN", "touch harmed", "/"))),
    Escape("test target as an option", (("TEST_RUN", "--rootdir=/"), ("TEST_RUN", "-p no:x"), ("TEST_RUN", "a\0b"))),
)
ESCAPES = tuple(Escape(name, writing(path)) for name, path in PATHS.items()) + PLANTED + OTHERS


def taped_of(escape):
    taped = Taped()
    for op, *operands in escape.steps:
        if op == "FILE_WRITE":
            taped.write(operands[0], operands[1])
        else:
            taped.step(op, *operands)
    return taped


def around(place):
    """All of a folder: kinds, modes, sizes, contents, links, times of change."""
    found = {}
    for path in [place, *sorted(place.rglob("*"))]:
        status = path.lstat()
        content = (
            path.read_bytes() if stat.S_ISREG(status.st_mode) else os.readlink(path) if path.is_symlink() else None
        )
        changed = status.st_ctime_ns if path != place else 0
        found[os.fspath(path)] = (status.st_mode, status.st_nlink, status.st_size, content, changed)
    return found


@pytest.fixture
def outside(tmp_path):
    place = tmp_path / "outside"
    place.mkdir()
    (place / "secret").write_text("secret")
    yield place
    close_worlds()


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """The folder of a replay as one begins: made once, for it takes git some processes."""
    place = tmp_path_factory.mktemp("template") / "r"
    folder_world(Taped(), place).close()
    return place


def test_the_table_is_long_enough():
    assert len(ESCAPES) >= 60
    assert len({escape.name for escape in ESCAPES}) == len(ESCAPES)


@pytest.mark.parametrize("escape", ESCAPES, ids=lambda escape: escape.name)
def test_no_step_leads_out_of_a_folder(tmp_path, outside, template, escape):
    if escape.name == "device" and os.geteuid() != 0:
        pytest.skip("only root makes device files")
    taped = taped_of(escape)
    shutil.copytree(template, tmp_path / "r")
    world = folder_world(
        taped, tmp_path / "r", allow_commands=True, allow_network=True, test_command=("touch", "harmed", "{target}")
    )
    root = tmp_path / "r" / "files"
    (root / "present").write_text("secret")
    if escape.plant is not None:
        escape.plant(root, outside)
    before, git_before, inside = around(outside), around(root / ".git"), files_in(root)
    one, report = replay(taped, world)
    assert report.steps == taped.reader.step_count
    for done in one.outcomes:
        if escape.name == OF_THE_STORE:
            assert (done.state, done.outcome) == ("skipped", "unknown"), (escape.steps[done.index], done)
            continue
        assert done.state == "denied", (escape.steps[done.index], done)
        assert done.outcome == "denied"
        assert done.error
    assert report.denied == (0 if escape.name == OF_THE_STORE else report.steps)
    assert around(outside) == before
    assert around(root / ".git") == git_before
    assert files_in(root) == inside
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside", "r"]
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == ["files", "home", "made.json", "tmp"]


@pytest.mark.parametrize(("name", "path"), PATHS.items(), ids=PATHS.keys())
def test_memory_and_dry_refuse_the_same_paths(name, path):
    taped = taped_of(Escape("", writing(path)))
    world = memory(taped, {"present": b"secret"})
    for one, _ in (replay(taped, world), replay(taped, dry(taped))):
        assert {done.state for done in one.outcomes} == {"skipped" if name == OF_THE_STORE else "denied"}
    assert world.files == {"present": b"secret"}


def test_a_folder_swapped_for_a_link_during_the_replay(tmp_path, outside):
    """The command of one step plants what the next falls for."""
    taped = Taped().write("a/x", "1").step("COMMAND_RUN", f"rm -r a; ln -s {outside} a").write("a/secret", "harmed")
    taped.step("FILE_DELETE", "a/secret").step("FILE_EDIT", "a/secret", "secret", "harmed").step(
        "FILE_MOVE", "a/secret", "b"
    )
    before = around(outside)
    one, _ = replay(taped, folder_world(taped, tmp_path / "r", allow_commands=True, allow_network=True))
    assert [done.state for done in one.outcomes] == ["done", "done"] + ["denied"] * 4
    assert around(outside) == before


def test_the_folder_of_the_files_swapped_for_a_link_during_the_replay(tmp_path, outside):
    """What goes by its path, commands, tests and git, went on in the other folder: a commit was made in somebody's repository."""
    git(outside, "init", "-q")
    (outside / ".git" / "index.lock").touch()
    taped = (
        Taped()
        .write("x", "1")
        .step("COMMAND_RUN", f"mv ../files ../mine; ln -s {outside} ../files", None)
        .write("secret", "harmed")
    )
    taped.step("COMMAND_RUN", "touch harmed", None).step("TEST_RUN", "x", None).step("GIT_COMMIT", "shop", "m", None)
    taped.step("CHECKPOINT", Digest("git-sha1", bytes(20)))
    before = around(outside)
    world = folder_world(
        taped, tmp_path / "r", allow_commands=True, allow_network=True, test_command=("touch", "harmed")
    )
    one, _ = replay(taped, world)
    assert [(done.state, done.outcome) for done in one.outcomes] == [
        ("done", "ok"), ("done", "ok"), ("done", "ok"), ("denied", "denied"), ("denied", "denied"), ("done", "failed"), ("done", "failed"),
    ]  # fmt: skip
    assert around(outside) == before
    assert (tmp_path / "r" / "mine" / "secret").read_text() == "harmed"


def test_a_base_with_links_and_submodules_makes_none(tmp_path, outside):
    repository = make_repository(tmp_path / "source")
    (repository / "out").symlink_to(outside)
    (repository / "secret").symlink_to("/etc/passwd")
    git(repository, "add", "-A")
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendor/lib")
    git(repository, "commit", "-q", "-m", "base")
    taped = (
        Taped().write("out/harmed", "x").step("FILE_READ", "secret").write("vendor/lib/.git/hooks/post-checkout", "x")
    )
    world = folder_world(taped, tmp_path / "r", base="HEAD", repository=os.fspath(repository))
    before = around(outside)
    assert world.left_out == ("out", "secret", "vendor/lib")
    one, _ = replay(taped, world)
    # The record went through its links to where they led; a folder of that name would be none of its effects.
    assert [done.state for done in one.outcomes] == ["skipped", "skipped", "denied"]
    assert around(outside) == before
    assert [path for path in (tmp_path / "r").rglob("*") if path.is_symlink()] == []


def test_links_of_a_record_are_noted_and_never_made(tmp_path, outside):
    """A history has them as it has files: what is written over one afterwards would go where it leads."""
    repository = make_repository(tmp_path / "source")
    target = Digest("git-sha1", bytes.fromhex(written(repository, os.fspath(outside).encode(), "blob")))
    (repository / "present").write_text("secret")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "base")
    links = {"note": "symbolic link"}
    taped = Taped().step("FILE_WRITE", "odd", target, **links).write("odd/new", "harmed").write("odd", "harmed")
    taped.step("FILE_EDIT", "odd/secret", "secret", "harmed").step("FILE_DELETE", "odd/secret")
    taped.step("FILE_MOVE", "present", "odd/present").step("FILE_MOVE", "odd/secret", "mine").step("FILE_LIST", "odd")
    taped.step("FILE_READ", "odd").step("SEARCH_CODE", "secret", "odd").step("COMMAND_RUN", "touch harmed", "odd")
    taped.step("FILE_WRITE", "odd/.git/config", taped.objects.put("x")).step("FILE_WRITE", "deep/.git", target, **links)
    taped.step("FILE_WRITE", "../up", target, **links).step("FILE_WRITE", ".periplus/up", target, **links)
    taped.step("FILE_WRITE", "other", taped.objects.put(os.fspath(outside)), **links)
    taped.step("FILE_MOVE", "odd", "moved").write("moved/x", "harmed").step("FILE_DELETE", "moved").write(
        "moved/x", "1"
    )
    world = folder_world(
        taped, tmp_path / "r", base="HEAD", repository=os.fspath(repository), allow_commands=True, allow_network=True
    )
    before = around(outside)
    one, _ = replay(taped, world)
    assert [done.state for done in one.outcomes] == (
        ["done"] + ["skipped"] * 10 + ["denied"] * 3 + ["skipped"] * 2 + ["done", "skipped", "done", "done"]
    )
    assert around(outside) == before
    assert [path for path in (tmp_path / "r").rglob("*") if path.is_symlink()] == []
    files = {path: data for path, data in files_in(tmp_path / "r" / "files").items() if path != "engine.py"}
    assert files == {"present": b"secret", "moved/x": b"1"}


@pytest.mark.parametrize("path", ["../escape", ".git/hooks/pre-commit", "sub/.git/config", ".GIT/config", "a\nb"])
def test_a_base_with_a_path_that_leads_out_is_refused(tmp_path, outside, path):
    """Git's own tools refuse most of them; a tree can be written without them."""
    from periplus.base.errors import PeriplusError

    repository = make_repository(tmp_path / "source")
    blob = git(repository, "rev-parse", "HEAD:engine.py").strip()
    names = path.split("/")
    data = b"100644 " + names[-1].encode() + b"\0" + bytes.fromhex(blob)
    for name in reversed(names[:-1]):
        data = b"40000 " + name.encode() + b"\0" + bytes.fromhex(written(repository, data))
    tree = written(repository, data)
    taped = Taped().step("NOP")
    with pytest.raises(PeriplusError):
        folder_world(taped, tmp_path / "r", base=tree, repository=os.fspath(repository))
    assert not (tmp_path / "escape").exists()
    assert not (tmp_path / "r" / "escape").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside", "r", "source"]


def written(repository, data, kind="tree"):
    """The id of an object of these bytes, a tree if nothing else is said, put into the repository unchecked."""
    import subprocess

    words = ["git", "-C", os.fspath(repository), "hash-object", "-t", kind, "-w", "--stdin", "--literally"]
    return subprocess.run(words, input=data, check=True, capture_output=True).stdout.decode().strip()


def test_environment_and_scopes_do_not_leak_into_commands(tmp_path, outside, monkeypatch):
    """What a command sees of its maker, and that a scope is not widened by what looks like its words."""
    monkeypatch.setenv("GIT_SSH_COMMAND", "touch harmed")
    monkeypatch.setenv("BASH_ENV", os.fspath(outside / "secret"))
    monkeypatch.setenv("ENV", os.fspath(outside / "secret"))
    tries = ["echo a; touch harmed", "echo `touch harmed`", "echo $(touch harmed)", "echo a\ntouch harmed", "echo a > harmed",
             "echo a | tee harmed", "echo a && touch harmed", "touch harmed", "A=1 touch harmed", "echo a & touch harmed"]  # fmt: skip
    taped = Taped()
    for command in tries:
        taped.step("COMMAND_RUN", command)
    taped.step("COMMAND_RUN", "echo -- harmed")
    world = folder_world(taped, tmp_path / "r", allow_commands=True, allow_network=True)
    one, _ = replay(taped, world, capabilities=Capabilities.of("command:echo", "network"))
    assert [done.state for done in one.outcomes] == ["denied"] * len(tries) + ["done"]
    assert files_in(tmp_path / "r" / "files") == {}


def a_trap(tmp_path):
    """A program that tells that it ran."""
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/harmed\ncat\n")
    trap.chmod(0o755)
    return trap


def plant_config(git_folder, trap):
    with (git_folder / "config").open("a") as file:
        file.write(f'[filter "trap"]\n\tclean = {trap}\n[core]\n\tfsmonitor = {trap}\n')
    (git_folder / "info" / "attributes").write_text("* filter=trap\n")


def plant_common(git_folder, trap):
    other = git_folder.parents[2] / "other"
    shutil.copytree(git_folder, other)
    plant_config(other, trap)
    (git_folder / "commondir").write_text(f"{other}\n")


def plant_git_link(git_folder, trap):
    other = git_folder.parents[2] / "other"
    git_folder.rename(other)
    git_folder.symlink_to(other)


def plant_git_file(git_folder, trap):
    other = git_folder.parents[2] / "other"
    git_folder.rename(other)
    plant_config(other, trap)
    git_folder.write_text(f"gitdir: {other}\n")


@pytest.mark.parametrize("plant", [plant_config, plant_common, plant_git_link, plant_git_file])
def test_a_folder_of_a_replay_that_a_stranger_made_runs_nothing(tmp_path, outside, template, plant):
    """To go on with somebody else's replay is no consent to what stands in its repository."""
    shutil.copytree(template, tmp_path / "r")
    plant(tmp_path / "r" / "files" / ".git", a_trap(tmp_path))
    taped = Taped().write("a", "1").step("GIT_COMMIT", "r", "m").step("CHECKPOINT", Digest("git-sha1", bytes(20)))
    one, _ = replay(taped, folder_world(taped, tmp_path / "r"))
    assert [done.outcome for done in one.outcomes] == ["ok", "failed", "failed"]
    assert "git is not run there" in one.outcomes[1].error
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize("name", ["files", "home", "tmp"])
@pytest.mark.parametrize("is_filled", [True, False])
def test_a_folder_of_a_replay_that_leads_out_is_refused(tmp_path, outside, template, name, is_filled):
    from periplus.base.errors import RefusedError

    shutil.copytree(template, tmp_path / "r")
    shutil.rmtree(tmp_path / "r" / name)
    (tmp_path / "r" / name).symlink_to(outside)
    if not is_filled:
        (tmp_path / "r" / "made.json").write_text("null")
    before = around(outside)
    with pytest.raises(RefusedError):
        folder_world(Taped(), tmp_path / "r")
    assert around(outside) == before
