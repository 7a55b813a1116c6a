"""The folder that no path leads out of: what it does, what it refuses, and that nothing outside changes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.base.errors import ConfinementError, EnvironmentFailure, NotFoundError
from periplus.base.files import Files
from periplus.base.filesystem.confined_folder import Confined, Entry, Limits, is_reserved, judge_path
from support import FailingFiles, Stop, StoppingFiles


@pytest.fixture
def folder(tmp_path):
    """A folder within another that has a file to be harmed: ``outside/secret`` and ``outside/in``, the root."""
    root = tmp_path / "outside" / "in"
    root.mkdir(parents=True)
    (tmp_path / "outside" / "secret").write_text("secret")
    return root


def print_of(place):
    """Every name under a folder with its kind, mode, links, and bytes."""
    found = {}
    for path in sorted(place.rglob("*")):
        status = path.lstat()
        data = path.read_bytes() if stat.S_ISREG(status.st_mode) else os.readlink(path) if path.is_symlink() else ""
        found[str(path)] = (status.st_mode, status.st_nlink, data)
    return found


REFUSED = {
    "": "empty",
    "/": "absolute",
    "/etc/passwd": "absolute",
    "//server/share": "absolute",
    "/proc/self/root/etc/passwd": "absolute",
    "..": "parent",
    "../secret": "parent",
    "a/../../secret": "parent",
    "a/..": "parent",
    "./../secret": "parent",
    "...": "parent",
    "a/.. /b": "parent",
    "\u2025/secret": "parent",
    "\u2024\u2024/secret": "parent",
    "\uff0e\uff0e/secret": "parent",
    ".\u200d./secret": "parent",
    "..\u2215secret": "name",
    "..\u2044secret": "name",
    "..\uff0fsecret": "name",
    "..\\secret": "name",
    "C:\\Windows\\win.ini": "name",
    "a\x00b": "name",
    "a\nb": "name",
    "a\rb": "name",
    "a\x1b[2Jb": "name",
    "a\x7fb": "name",
    "a\x85b": "name",
    "a\u2028b": "name",
    "a\udc80b": "name",
    "a//b": "name",
    "a/": "name",
    "a.": "name",
    "a ": "name",
    "b/a . ": "name",
    "-rf": "option",
    "--upload-pack=touch x": "option",
    "~": "expansion",
    "~/.ssh/id": "expansion",
    "~root/.profile": "expansion",
    "$HOME/.profile": "expansion",
    "${HOME}": "expansion",
    "$(id)": "expansion",
    ":(top)a": "expansion",
    "*.py": "expansion",
    "a/?": "expansion",
    ".git": "reserved",
    ".git/config": "reserved",
    ".git/hooks/pre-commit": "reserved",
    ".GIT/hooks/pre-commit": "reserved",
    ".Git": "reserved",
    "sub/.git": "reserved",
    "sub/.git/config": "reserved",
    ".g\u200cit/config": "reserved",
    ".git::$INDEX_ALLOCATION/config": "reserved",
    "git~1/config": "reserved",
    "GIT~1/config": "reserved",
    "gi7eba~1/config": "reserved",
    ".\uff47it/config": "reserved",
    ".periplus/journal/x": "reserved",
    ".Periplus": "reserved",
    "x" * 256: "too_long",
    "/".join(["x" * 200] * 12): "too_long",
    "d/" * 65 + "x": "too_deep",
}
GOOD = ["a", "a/b.py", "./a", "a/./b", "src/-x", "$lib/a.ts", "$id.tsx", "[id].tsx", "..a", "a..b", ".gitignore", ".gitmodules",
        ".github/x", "git", "a b", "日本語/é", "git~x", "🙂", "a'b\"c;d|e&f", "x" * 255, "a:b", "d/" * 63 + "x"]  # fmt: skip


@pytest.mark.parametrize("path", list(REFUSED), ids=range(len(REFUSED)))
def test_a_path_is_refused_by_everything(folder, path):
    before = print_of(folder.parents[1])
    with Confined(os.fspath(folder)) as confined:
        for call in (
            lambda: confined.read(path),
            lambda: confined.write(path, b"x"),
            lambda: confined.delete(path),
            lambda: confined.make_folder(path),
            lambda: confined.remove_folder(path),
            lambda: confined.list(path),
            lambda: confined.stat(path),
            lambda: confined.real_path(path),
            lambda: list(confined.walk(path)),
            lambda: confined.move(path, "x"),
            lambda: confined.move("x", path),
        ):
            with pytest.raises(ConfinementError) as caught:
                call()
            assert caught.value.reason == REFUSED[path]
            assert caught.value.path == path
            assert len(str(caught.value)) < 400
    assert print_of(folder.parents[1]) == before


@pytest.mark.parametrize("path", GOOD)
def test_a_good_path_works(folder, path):
    with Confined(os.fspath(folder)) as confined:
        confined.write(path, b"one")
        assert confined.read(path) == b"one"
        assert confined.stat(path) == Entry(path, "file", 3, is_executable=False)
        confined.move(path, "elsewhere/" + "x")
        assert confined.stat(path) is None
        assert [entry.path for entry in confined.walk()] == ["elsewhere/x"]


def test_files_and_folders(folder):
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("x")
    with Confined(os.fspath(folder)) as confined:
        confined.write("b/tool", b"#!", is_executable=True)
        confined.write("b/tool", b"#!/bin/sh")
        assert confined.stat("b/tool").is_executable
        confined.write("b/tool", b"", is_executable=False)
        assert not confined.stat("b/tool").is_executable
        confined.make_folder("a/c")
        confined.make_folder("a/c")
        assert confined.list() == [Entry("a", "folder"), Entry("b", "folder")]
        assert confined.real_path("a/c") == os.fspath(folder / "a" / "c")
        confined.move("b", "a/c/b")
        assert confined.read("a/c/b/tool") == b""
        confined.write("a/z", b"z")
        assert [entry.path for entry in confined.walk("a")] == ["a/z", "a/c/b/tool"]
        confined.delete("a/c/b/tool")
        confined.remove_folder("a/c/b")
        for call in (
            lambda: confined.read("a/none"),
            lambda: confined.read("none/none"),
            lambda: confined.delete("a/none"),
            lambda: confined.move("a/none", "x"),
            lambda: confined.remove_folder("a/none"),
            lambda: confined.list("none"),
        ):
            with pytest.raises(NotFoundError):
                call()
        for call in (lambda: confined.move("a", "a/b"), lambda: confined.move("a/z", "a/c")):
            with pytest.raises(ConfinementError, match="refused"):
                call()
        with pytest.raises(EnvironmentFailure):
            confined.remove_folder("a")
        for call in (lambda: confined.read("a"), lambda: confined.write("a", b""), lambda: confined.write("a/z/x", b""),
                     lambda: confined.delete("a"), lambda: confined.read("."), lambda: confined.list("a/z")):  # fmt: skip
            with pytest.raises(ConfinementError) as caught:
                call()
            assert caught.value.reason == "kind"
    assert os.stat(folder / "a").st_mode & 0o777 == 0o755
    with pytest.raises(EnvironmentFailure, match="closed"):
        confined.read("a/z")
    with pytest.raises(NotFoundError):
        Confined(os.fspath(folder / "none"))


OBSTACLES = {
    "link": ("link", lambda place, outside: place.symlink_to(outside / "secret")),
    "link upwards": ("link", lambda place, _: place.symlink_to("../secret")),
    "dangling link": ("link", lambda place, outside: place.symlink_to(outside / "new")),
    "link to itself": ("link", lambda place, _: place.symlink_to(place)),
    "link to a folder": ("link", lambda place, outside: place.symlink_to(outside)),
    "link within": ("link", lambda place, _: place.symlink_to("innocent")),
    "pipe": ("kind", lambda place, _: os.mkfifo(place)),
}


@pytest.mark.parametrize("name", list(OBSTACLES))
def test_what_is_no_plain_file_or_folder(folder, name):
    reason, make = OBSTACLES[name]
    outside = folder.parent
    (folder / "innocent").write_text("innocent")
    make(folder / "odd", outside)
    before = print_of(outside)
    with Confined(os.fspath(folder)) as confined:
        for call in (
            lambda: confined.read("odd"),
            lambda: confined.write("odd", b"x"),
            lambda: confined.delete("odd"),
            lambda: confined.move("odd", "x"),
            lambda: confined.read("odd/secret"),
            lambda: confined.write("odd/secret", b"x"),
            lambda: confined.delete("odd/secret"),
            lambda: confined.move("odd/secret", "x"),
            lambda: confined.move("innocent", "odd/secret"),
            lambda: confined.make_folder("odd/new"),
            lambda: confined.make_folder("odd"),
            lambda: confined.remove_folder("odd/in"),
            lambda: confined.list("odd"),
            lambda: confined.stat("odd/secret"),
            lambda: confined.real_path("odd"),
        ):
            with pytest.raises(ConfinementError) as caught:
                call()
            assert caught.value.reason == reason
        with pytest.raises(ConfinementError):
            confined.move("innocent", "odd")
        assert confined.stat("odd").kind == ("link" if reason == "link" else "other")
        assert [entry.path for entry in confined.walk()] == ["innocent"]
    assert print_of(outside) == before


def test_a_socket_is_nothing_to_read(folder, monkeypatch):
    monkeypatch.chdir(folder)  # the name of a socket may have few characters
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as server, Confined(os.fspath(folder)) as confined:
        server.bind("socket")
        with pytest.raises(ConfinementError, match="socket"):
            confined.read("socket")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device files")
def test_a_device_is_nothing_to_write(folder):
    os.mknod(folder / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    with Confined(os.fspath(folder)) as confined:
        for call in (
            lambda: confined.read("null"),
            lambda: confined.write("null", b"x"),
            lambda: confined.delete("null"),
        ):
            with pytest.raises(ConfinementError, match="device"):
                call()
    assert stat.S_ISCHR((folder / "null").stat().st_mode)


def test_a_second_name_of_a_file_outside(folder):
    secret = folder.parent / "secret"
    os.link(secret, folder / "mine")
    before = print_of(folder.parent)
    with Confined(os.fspath(folder)) as confined:
        for call in (
            lambda: confined.write("mine", b"x"),
            lambda: confined.delete("mine"),
            lambda: confined.move("mine", "x"),
        ):
            with pytest.raises(ConfinementError) as caught:
                call()
            assert caught.value.reason == "hard_link"
    assert print_of(folder.parent) == before


class SwappingFiles(Files):
    """Puts ``swap`` to work just before call number ``at``: another process that is quick."""

    def __init__(self, swap, at):
        self.swap, self.left = swap, at

    def _tick(self):
        if self.left == 0:
            self.swap()
        self.left -= 1

    def open_at(self, folder, name, flags, mode=0o644):
        self._tick()
        return super().open_at(folder, name, flags, mode)

    def replace_at(self, *words):
        self._tick()
        super().replace_at(*words)

    def unlink_at(self, folder, name):
        self._tick()
        super().unlink_at(folder, name)

    def make_folder_at(self, folder, name, mode=0o755):
        self._tick()
        super().make_folder_at(folder, name, mode)


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("swapped", ["a", "a/b", "a/b/secret"])
@pytest.mark.parametrize("what", ["read", "write", "delete", "move", "make_folder"])
def test_a_folder_swapped_for_a_link_in_the_middle(folder, what, swapped, at):
    """Whatever is swapped at whatever call: the file outside stays as it is, and is not read."""
    outside = folder.parents[1] / "elsewhere"
    (outside / "b").mkdir(parents=True)
    for place in (outside, outside / "b"):
        (place / "secret").write_text("secret")
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "secret").write_text("inside")
    target = {"a": outside, "a/b": outside / "b", "a/b/secret": outside / "secret"}[swapped]
    before = print_of(outside)

    def swap():
        place = folder / swapped
        place.rename(folder / "gone")
        place.symlink_to(target)

    with Confined(os.fspath(folder), files=SwappingFiles(swap, at)) as confined:
        call = {
            "read": lambda: confined.read("a/b/secret"),
            "write": lambda: confined.write("a/b/secret", b"x"),
            "delete": lambda: confined.delete("a/b/secret"),
            "move": lambda: confined.move("a/b/secret", "a/b/other"),
            "make_folder": lambda: confined.make_folder("a/b/c/d"),
        }[what]
        try:
            assert call() in (None, b"inside")
        except (ConfinementError, NotFoundError):
            pass
    assert print_of(outside) == before


def test_files_and_folders_over_their_limits_are_refused(folder):
    (folder / "large").write_bytes(b"x" * 11)
    with Confined(os.fspath(folder), limits=Limits(file_bytes_max=10, entries_max=2)) as confined:
        confined.write("a", b"x" * 10)
        assert confined.read("a") == b"x" * 10
        for call in (lambda: confined.write("a", b"x" * 11), lambda: confined.read("large")):
            with pytest.raises(ConfinementError) as caught:
                call()
            assert caught.value.reason == "too_large"
        assert len(confined.list()) == 2
        confined.write("b/c", b"")
        for call in (confined.list, lambda: list(confined.walk())):
            with pytest.raises(ConfinementError) as caught:
                call()
            assert caught.value.reason == "too_large"
    assert (folder / "a").read_bytes() == b"x" * 10


def test_a_full_disk_leaves_the_old_file(folder):
    (folder / "a").write_text("old")
    with Confined(os.fspath(folder), files=FailingFiles("write", 28)) as confined, pytest.raises(EnvironmentFailure):
        confined.write("a", b"new")
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("a", "old")]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_stop_at_every_call_leaves_old_or_new(folder, share):
    at = 0
    while True:
        (folder / "a").write_text("old")
        stopping = StoppingFiles(at, share)
        try:
            with Confined(os.fspath(folder), files=stopping) as confined:
                confined.write("a", b"new")
                confined.move("a", "b/c")
            break
        except Stop:
            held = [path.read_text() for path in (folder / "a", folder / "b" / "c") if path.exists()]
            assert held in (["old"], ["new"])
            with Confined(os.fspath(folder)) as confined:
                confined.write("a", b"again")
                assert confined.read("a") == b"again"
        (folder / "b" / "c").unlink(missing_ok=True)
        at += 1
    assert at == len(stopping.calls) > 8
    assert (folder / "b" / "c").read_text() == "new"


name_characters = st.sampled_from("./\\.-~$*ab \n\0:\u2025\u2215\u200d\uff0egitGIT")
paths = st.text(name_characters, max_size=20) | st.text(max_size=30)


@pytest.mark.slow
@given(paths)
@settings(max_examples=500)
def test_a_path_is_judged_alike_with_and_without_folders(path):
    """A judged path stays below whatever it is joined to, and its judgement is repeatable."""
    try:
        names = judge_path(path)
    except ConfinementError:
        return
    joined = os.path.normpath(os.path.join("/root", path))
    assert joined == "/root" or joined.startswith("/root/")
    assert os.path.normpath("/".join(names) or ".") == os.path.normpath(path)
    assert not any(is_reserved(name) for name in names)
    assert path.isprintable() or not any(ord(char) < 32 for char in path)


@given(st.lists(st.tuples(paths, st.binary(max_size=5)), max_size=6))
@settings(max_examples=60, deadline=None)
def test_any_paths_touch_nothing_outside(tmp_path_factory, writes):
    outside = tmp_path_factory.mktemp("outside")
    root = outside / "in"
    root.mkdir()
    (outside / "secret").write_text("secret")
    with Confined(os.fspath(root), is_durable=False) as confined:
        for path, data in writes:
            with contextlib.suppress(ConfinementError):
                confined.write(path, data)
                assert confined.read(path) == data
    assert sorted(path.name for path in outside.iterdir()) == ["in", "secret"]
    assert (outside / "secret").read_text() == "secret"


def test_what_a_stopped_write_left_behind_is_swept_away(folder):
    for at in range(4):
        with Confined(os.fspath(folder), files=StoppingFiles(at)) as confined, pytest.raises(Stop):
            confined.write("a.tmp", b"new")
    assert len(list(folder.iterdir())) == 3
    (folder / "mine.tmp").write_text("")
    with Confined(os.fspath(folder)) as confined:
        assert confined.sweep() == 3
    assert [path.name for path in folder.iterdir()] == ["mine.tmp"]


def test_a_digest_of_what_was_walked(folder):
    with Confined(os.fspath(folder)) as confined:
        for name in ("b", "a", "c/d"):
            confined.write(name, name.encode())
        digests = {entry.path: hashlib.sha256(confined.read(entry.path)).hexdigest() for entry in confined.walk()}
    assert list(digests) == ["a", "b", "c/d"]
    assert digests["a"] == hashlib.sha256(b"a").hexdigest()


def test_two_threads_that_list_one_folder_both_see_all_of_it(tmp_path):
    """Copies of a descriptor share its position: what one has read the other would miss."""
    from concurrent.futures import ThreadPoolExecutor

    names = [f"file{number:04d}" for number in range(1500)]
    for name in names:
        (tmp_path / name).touch()
    with Confined(os.fspath(tmp_path)) as folder, ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: [entry.path for entry in folder.list()], range(24)):
            assert found == names
