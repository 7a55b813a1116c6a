"""Small JSON files of the user's own, which several processes read and change at once."""

import fcntl
import json
import os
import subprocess
import sys

import pytest
from tests.support import Stop, StoppingFiles

from periplus.agent.mcpclient.server_entry import ServerRow
from periplus.agent.mcpclient.tool_pins import Pins
from periplus.agent.models.api_keys import Keys
from periplus.agent.plugins.trust_list import PluginTrust
from periplus.agent.trust import Trust
from periplus.agent.user_file import LOCK_NAME
from periplus.base.errors import LockTimeoutError, RefusedError, UsageError

WRITERS = 4
ROUNDS = 25
CHILD = """
import os, sys
from periplus.agent.mcpclient.tool_pins import Pins
from periplus.agent.mcpclient.server_entry import ServerRow
from periplus.agent.models.api_keys import Keys
from periplus.agent.plugins.trust_list import PluginTrust
from periplus.agent.trust import Trust

folder, root, me = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
shared = ServerRow("shared", ("run",), source="x")
for at in range(ROUNDS):
    Pins(folder).note(shared, {f"{me}-{at}": me, "all": me})
    Pins(folder).keep(ServerRow(f"{me}-{at}", ("run",), source="x"), {"t": "1"})
    PluginTrust(folder).give(f"{root}/{me}-{at}", "d")
    Trust(folder).give(f"{root}/{me}-{at}")
    Keys(folder, {}).set(f"p{me}-{at}", "k")
    assert Trust(folder).take(f"{root}/{me}-{at}") is (at % 2 == 0) or Trust(folder).give(f"{root}/{me}-{at}") is None
""".replace("ROUNDS", str(ROUNDS))


@pytest.mark.slow
def test_of_processes_that_write_at_once_none_loses_anything(tmp_path):
    folder, root = tmp_path / "config", tmp_path / "root"
    root.mkdir()
    names = [f"{me}-{at}" for me in range(WRITERS) for at in range(ROUNDS)]
    for name in names:
        (root / name).mkdir()
    command = [sys.executable, "-c", CHILD, os.fspath(folder), os.fspath(root)]
    writers = [
        subprocess.Popen([*command, str(me)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for me in range(WRITERS)
    ]
    for one in writers:
        assert one.stdout.readline() == "ready\n"
    for one in writers:  # all of them at once
        one.stdin.write("\n")
        one.stdin.flush()
    for one in writers:
        one.communicate(timeout=120)
        assert one.returncode == 0
    shared = Pins(os.fspath(folder)).held(ServerRow("shared", ("run",), source="x"))
    assert set(shared) == {*names, "all"}
    assert shared["all"] in {str(me) for me in range(WRITERS)}  # who saw it first
    assert all(Pins(os.fspath(folder)).held(ServerRow(one, ("run",), source="x")) == {"t": "1"} for one in names)
    assert PluginTrust(os.fspath(folder)).paths() == sorted(os.fspath(root / one) for one in names)
    assert set(Keys(os.fspath(folder), {}).providers()) == {f"p{one}" for one in names}
    left = {one for one in names if int(one.partition("-")[2]) % 2}
    assert set(Trust(os.fspath(folder)).folders()) == {os.fspath(root / one) for one in left}
    assert {path.name for path in folder.iterdir()} == {
        "servers.json",
        "plugins.json",
        "trusted.json",
        "keys.json",
        LOCK_NAME,
    }
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.glob("*.json"))


USERS = {
    "trusted.json": (lambda folder, files=None: Trust(folder, files), lambda user: user.folders(), lambda user: user.give("/")),
    "plugins.json": (lambda folder, files=None: PluginTrust(folder, files), lambda user: user.paths(), lambda user: user.give("/x", "d")),
    "keys.json": (lambda folder, files=None: Keys(folder, {}, files), lambda user: user.providers(), lambda user: user.set("x", "k")),
    "servers.json": (
        lambda folder, files=None: Pins(folder, files), lambda user: user.held(ServerRow("s", ("a",))),
        lambda user: user.keep(ServerRow("s", ("a",)), {"t": "1"}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", USERS)
@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b'"x"', b'{"a": 3}', b"\xff\xfe", b'{"a":' * 5_000, b" " * (9 << 20)]
)
def test_a_damaged_file_is_named_with_what_mends_it_and_left_as_it_is(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    path.chmod(0o600)
    make, look, change = USERS[name]
    user = make(os.fspath(tmp_path))
    for deed in (look, change):
        with pytest.raises(UsageError) as caught:
            deed(user)
        assert os.fspath(path) in str(caught.value)
        assert "emove it" in caught.value.mend or "Move it away" in caught.value.mend
        assert caught.value.safe
    assert path.read_bytes() == data


@pytest.mark.parametrize("name", USERS)
def test_what_is_not_the_users_alone_is_neither_believed_nor_written(tmp_path, name):
    make, look, change = USERS[name]
    user = make(os.fspath(tmp_path))
    change(user)
    path = tmp_path / name
    before = path.read_bytes()
    path.chmod(0o622)
    for deed in (look, change):
        with pytest.raises(RefusedError, match=name):
            deed(user)
    assert path.read_bytes() == before
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(RefusedError, match=name):
        change(user)
    path.unlink()
    (tmp_path / "elsewhere").write_bytes(before)
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedError, match=name):
        change(user)
    assert (tmp_path / "elsewhere").read_bytes() == before


@pytest.mark.parametrize("name", USERS)
def test_a_crash_leaves_the_old_or_the_new_and_no_lock(tmp_path, name):
    make, look, change = USERS[name]
    counting = StoppingFiles(-1)
    change(make(os.fspath(tmp_path), counting))
    new = look(make(os.fspath(tmp_path)))
    assert len(counting.calls) > 4
    for at in range(len(counting.calls)):
        (tmp_path / name).unlink()
        old = look(make(os.fspath(tmp_path)))
        with pytest.raises(Stop):
            change(make(os.fspath(tmp_path), StoppingFiles(at, 0.5)))
        assert look(make(os.fspath(tmp_path))) in (old, new)
        change(make(os.fspath(tmp_path)))
        assert look(make(os.fspath(tmp_path))) == new


def test_a_lock_that_is_not_given_back_is_told_with_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("periplus.agent.user_file.LOCK_PATIENCE_S", 0.05)  # a constant, and no code of ours
    Trust(os.fspath(tmp_path)).give("/")
    with open(tmp_path / LOCK_NAME, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(LockTimeoutError, match=r"another process is changing .*trusted\.json") as caught:
            Trust(os.fspath(tmp_path)).give(os.fspath(tmp_path))
        assert caught.value.safe == "Nothing was changed."
        assert Trust(os.fspath(tmp_path)).folders() == ["/"]  # reading waits for nobody


def test_a_name_of_a_folder_that_is_no_text_is_kept(tmp_path):
    odd = os.fsencode(tmp_path) + b"/\xff\xfe"
    os.mkdir(odd)
    config = os.fspath(tmp_path / "config")
    Trust(config).give(os.fsdecode(odd))
    PluginTrust(config).give(os.fsdecode(odd), "d")
    assert Trust(config).state(os.fsdecode(odd)) == "trusted"
    assert PluginTrust(config).get(os.fsdecode(odd)).digest == "d"
    assert json.loads((tmp_path / "config" / "trusted.json").read_bytes())
