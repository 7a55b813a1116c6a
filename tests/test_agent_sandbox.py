"""What is tried from inside each layer to get out, and what comes of it.

Every escape is a command that says ESCAPED where it got through. All of a layer run in one go; a row is judged by what it
said, and the world outside by what is left of it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from agent_tools_support import PATH, shell_host
from periplus.agent.sandbox import Confinement, find_sandbox
from periplus.agent.sandbox.landlock import allowed_paths

PYTHON = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
FOUND = {layer: find_sandbox(PATH, layers=(layer,)) for layer in ("bubblewrap", "landlock")}
LAYERS = [
    pytest.param(
        layer, marks=pytest.mark.skipif(sandbox.layer != layer or PYTHON is None, reason=f"{sandbox.about}, {PYTHON}")
    )
    for layer, sandbox in FOUND.items()
]


class Escape(NamedTuple):
    """``but``: the layers that are known not to keep it; see docs/guides/agent/sandbox.md."""

    name: str
    command: str
    but: tuple[str, ...] = ()


def python(code):
    return f'{PYTHON} -c "{code}"'


CONNECT = "import socket,os; s=socket.socket({family},socket.{kind}); s.settimeout(3); {act}; print(chr(69)+'SCAPED')"
ESCAPES = [
    # writes outside
    Escape("write_outside", "echo x > $OUT/new && echo ESCAPED"),
    Escape("append_outside", "echo x >> $OUT/held && echo ESCAPED"),
    Escape("write_by_parent_folders", "echo x > ../outside/new2 && echo ESCAPED"),
    Escape("write_by_symlink", "ln -s $OUT sub/lnk; echo x > sub/lnk/new3 && echo ESCAPED"),
    Escape("write_by_hard_link", "ln $OUT/held sub/hard && echo x > sub/hard && echo ESCAPED"),
    Escape("move_in", "mv $OUT/held sub/stolen && echo ESCAPED"),
    Escape("move_out", "cp a.txt sub/b; mv sub/b $OUT/b && echo ESCAPED"),
    Escape("delete_outside", "rm -f $OUT/held; test -e $OUT || exit; test -e $OUT/held || echo ESCAPED"),
    Escape("truncate_outside", "truncate -s 0 $OUT/held && test -e $OUT/held && test ! -s $OUT/held && echo ESCAPED"),
    Escape("make_folder_outside", "mkdir $OUT/folder && echo ESCAPED"),
    Escape("change_mode_outside", "chmod 777 $OUT/held && echo ESCAPED", but=("landlock",)),
    Escape("write_system", "echo x > /etc/periplus-escape && echo ESCAPED"),
    Escape("write_proc_root", "echo x > /proc/self/root$OUT/new4 && echo ESCAPED"),
    Escape("write_victims_root", "echo x > /proc/$VICTIM/root$OUT/new5 && echo ESCAPED"),
    Escape("write_victims_cwd", "echo x > /proc/$VICTIM/cwd/new6 && echo ESCAPED"),
    Escape("write_tool_folder", "echo x > $HIDDEN/.local/bin/ls && echo ESCAPED"),
    Escape("write_sysctl", "echo x > /proc/sys/kernel/domainname && echo ESCAPED"),
    Escape("make_device", "mknod sub/dev b 7 0 && echo ESCAPED"),
    Escape("read_disk", "for d in /dev/vda /dev/sda /dev/nvme0n1 /dev/mem; do head -c1 $d >sub/raw && test -s sub/raw && echo ESCAPED; done"),
    Escape("write_kernel_log", "test -c /dev/kmsg && echo x > /dev/kmsg && echo ESCAPED"),
    Escape("mount", "mount -t tmpfs none sub && echo ESCAPED"),
    Escape("mount_in_a_namespace", "unshare -Urm sh -c 'mount -t tmpfs none sub' && echo ESCAPED"),
    Escape("remount", "mount -o remount,rw,bind / && echo ESCAPED"),
    Escape("change_root", "chroot / true && echo ESCAPED"),
    Escape("enter_victims_namespace", "nsenter -t $VICTIM -m true && echo ESCAPED"),
    # secrets
    Escape("read_key", "grep HOMESECRET $HIDDEN/.ssh/id_rsa && echo ESCAPED"),
    Escape("list_home", "ls $HIDDEN/.ssh && echo ESCAPED"),
    Escape("read_by_symlink", "ln -s $HIDDEN sub/h; grep HOMESECRET sub/h/.ssh/id_rsa && echo ESCAPED"),
    Escape("read_by_hard_link", "ln $HIDDEN/.netrc sub/n; grep HOMESECRET sub/n && echo ESCAPED"),
    Escape("read_by_proc_root", "grep HOMESECRET /proc/self/root$HIDDEN/.netrc && echo ESCAPED"),
    Escape("read_by_victims_root", "grep HOMESECRET /proc/$VICTIM/root$HIDDEN/.netrc && echo ESCAPED"),
    Escape("read_victims_environment", "grep -a VICTIMSECRET /proc/$VICTIM/environ && echo ESCAPED"),
    Escape("read_hosts_environment", "grep -a HOSTSECRET /proc/$HOST/environ && echo ESCAPED"),
    Escape("read_victims_memory", "head -c1 /proc/$VICTIM/mem; test -s /proc/$VICTIM/maps && head -c1 /proc/$VICTIM/maps | grep . && echo ESCAPED"),
    Escape("read_victims_files", "ls /proc/$VICTIM/fd/ | grep . && cat /proc/$VICTIM/fd/* </dev/null 2>/dev/null | grep VICTIM && echo ESCAPED"),
    Escape("read_shadow", "grep . /etc/shadow && echo ESCAPED"),
    Escape("open_by_handle", python("import ctypes;l=ctypes.CDLL(None,use_errno=True);b=ctypes.create_string_buffer(136);b[0]=b'\\x08';"
           "b[4]=b'\\x01';b[8]=b'\\x02';r=l.open_by_handle_at(-100,b,0);e=ctypes.get_errno();print(chr(69)+'SCAPED' if r>=0 or e not in (1,9,95) else e)")),
    # the network
    Escape("tcp", "exec 3<>/dev/tcp/127.0.0.1/$PORT && echo ESCAPED"),
    Escape("tcp6", python(CONNECT.format(family="socket.AF_INET6", kind="SOCK_STREAM", act="s.connect(('::1',int(os.environ['PORT'])))"))),
    Escape("udp", python(CONNECT.format(family="socket.AF_INET", kind="SOCK_DGRAM", act="s.sendto(b'out',('127.0.0.1',int(os.environ['PORT'])));"
           "s.sendto(b'ask',('127.0.0.1',int(os.environ['PORT'])))")), but=("bubblewrap",)),
    Escape("unix_socket", python(CONNECT.format(family="socket.AF_UNIX", kind="SOCK_STREAM", act="s.connect(os.environ['UNIX'])"))),
    Escape("unix_socket_in_the_folder", python(CONNECT.format(family="socket.AF_UNIX", kind="SOCK_STREAM", act="s.connect(os.environ['UNIX_HERE'])"))),
    Escape("abstract_socket", python(CONNECT.format(family="socket.AF_UNIX", kind="SOCK_STREAM", act="s.connect(chr(0)+os.environ['ABSTRACT'])"))),
    Escape("raw_socket", python("import socket;socket.socket(socket.AF_INET,socket.SOCK_RAW,1);print(chr(69)+'SCAPED')")),
    Escape("packet_socket", python("import socket;socket.socket(socket.AF_PACKET,socket.SOCK_RAW,3);print(chr(69)+'SCAPED')")),
    # other processes
    Escape("signal", "kill -0 $VICTIM && echo ESCAPED"),
    Escape("kill", "kill -9 $VICTIM && echo ESCAPED"),
    Escape("trace", python("import ctypes,os;l=ctypes.CDLL(None);print(chr(69)+'SCAPED' if l.ptrace(16,int(os.environ['VICTIM']),0,0)==0 else 'no')")),
    Escape("stop_group", "kill -STOP -- -$VICTIM && echo ESCAPED"),
    # git and the store
    Escape("git_hook", "echo x > .git/hooks/pre-commit && echo ESCAPED"),
    Escape("git_hook_by_link", "ln -s ../../a.txt .git/hooks/post-commit && echo ESCAPED"),
    Escape("git_hook_by_move", "cp a.txt sub/c; mv sub/c .git/hooks/pre-push && echo ESCAPED"),
    Escape("git_config", "echo x >> .git/config && echo ESCAPED"),
    Escape("git_config_by_move", "cp a.txt sub/d; mv sub/d .git/config && echo ESCAPED"),
    Escape("git_common_folder", "echo x > .git/commondir && echo ESCAPED"),
    Escape("git_away", "mv .git sub/git && echo ESCAPED"),
    Escape("git_exchange", "mv .git .git-old && mkdir .git && echo ESCAPED"),
    Escape("git_delete", "rm -rf .git; test -e .git/config || echo ESCAPED"),
    Escape("git_unmount", "umount .git && echo ESCAPED"),
    Escape("git_attributes", "mkdir -p .git/info && echo x > .git/info/attributes && echo ESCAPED"),
    Escape("store", "echo x > .periplus/config.toml && echo ESCAPED"),
    Escape("store_away", "mv .periplus sub/store && echo ESCAPED"),
]  # fmt: skip
ALLOWED = [
    ("read_system", "test -r /usr/bin/env && echo GOOD"),
    ("write_inside", "echo x > sub/fine && rm sub/fine && echo GOOD"),
    ("change_inside", "echo more >> a.txt && echo GOOD"),
    ("temporary", "f=$(mktemp) && echo x > $f && echo GOOD"),
    ("home_of_its_own", "echo x > $HOME/.cache-file && echo GOOD"),
    ("read_git", "test -r .git/config && echo GOOD"),
    ("run_tool", "$HIDDEN/.local/bin/tool | grep -q TOOL && echo GOOD"),
    ("python", f"{PYTHON} -c 'print(1)' | grep -q 1 && echo GOOD"),
    ("threads_and_pipes", f"{PYTHON} -c 'import subprocess;subprocess.run([\"true\"],check=True)' && echo GOOD"),
    ("own_proc", "test -r /proc/self/status && echo GOOD"),
    ("signal_own", "sleep 60 & kill $! && echo GOOD"),
    ("read_other_files", 'test "$LAYER" = bubblewrap || grep -q held $OUT/held && echo GOOD'),
]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """For each layer what every row said, and what was left outside."""
    made = {}

    def get(layer):
        if layer not in made:
            made[layer] = attempt(tmp_path_factory.mktemp(layer), FOUND[layer])
        return made[layer]

    return get


def attempt(place, sandbox):
    outside, home, work = place / "outside", place / "home", place / "work"
    for folder in (
        outside,
        home / ".ssh",
        home / ".local" / "bin",
        work / ".git" / "hooks",
        work / ".periplus",
        work / "sub",
    ):
        folder.mkdir(parents=True)
    (outside / "held").write_text("held\n")
    (outside / "held").chmod(0o644)
    (home / ".ssh" / "id_rsa").write_text("HOMESECRET\n")
    (home / ".netrc").write_text("HOMESECRET\n")
    (home / ".local" / "bin" / "tool").write_text("#!/bin/sh\necho TOOL\n")
    (home / ".local" / "bin" / "tool").chmod(0o755)
    (work / ".git" / "config").write_text("[core]\n")
    (work / ".periplus" / "config.toml").write_text("")
    (work / "a.txt").write_text("a\n")
    victim = subprocess.Popen(["sleep", "600"], env={"VICTIMSECRET": "1"}, cwd=outside, start_new_session=True)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local, \
            socket.socket(socket.AF_UNIX) as local_here, socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:  # fmt: skip
        port = server.getsockname()[1]
        datagrams.bind(("127.0.0.1", port))
        datagrams.setblocking(False)
        local.bind(str(place / "s"))
        local.listen()
        local_here.bind(str(work / "s"))
        local_here.listen()
        abstract.bind(f"\0periplus-{os.getpid()}-{place.name}")
        abstract.listen()
        variables = {
            "OUT": outside, "HIDDEN": home, "VICTIM": victim.pid, "HOST": os.getpid(), "PORT": port, "UNIX": place / "s",
            "UNIX_HERE": work / "s",
            "ABSTRACT": f"periplus-{os.getpid()}-{place.name}", "LAYER": sandbox.layer,
        }  # fmt: skip
        script = ["exec 2>&1 </dev/null"]
        for name, command in [*((one.name, one.command) for one in ESCAPES), *ALLOWED]:
            script += [f"echo '#{name}'", f"(\n{command}\n)"]
        try:
            with shell_host(place, sandbox=sandbox, home=str(home)) as host:
                process = host.shell.start(
                    ["/bin/bash", "-c", "\n".join(script)], ".", "escapes",
                    more={name: str(value) for name, value in variables.items()},
                )  # fmt: skip
                assert process.wait(120)
                said = process.output.text()
            alive = victim.poll() is None
            state = Path(f"/proc/{victim.pid}/stat").read_text().rpartition(")")[2].split()[0] if alive else "gone"
            try:
                heard = datagrams.recv(100)
            except BlockingIOError:
                heard = b""
        finally:
            victim.kill()
            victim.wait()
    rows = {}
    for part in said.split("\n#")[0:]:
        name, _, rest = part.lstrip("#").partition("\n")
        rows[name] = rest
    left = {
        "outside": sorted(os.listdir(outside)), "held": (outside / "held").read_text(), "git": sorted(os.listdir(work / ".git")),
        "hooks": os.listdir(work / ".git" / "hooks"), "config": (work / ".git" / "config").read_text(),
        "store": (work / ".periplus" / "config.toml").read_text(), "victim": state, "heard": heard,
        "tool": os.listdir(home / ".local" / "bin"),
    }  # fmt: skip
    return rows, left


def test_the_table_is_long_enough():
    assert len(ESCAPES) >= 50
    assert len({one.name for one in ESCAPES}) == len(ESCAPES)


@pytest.mark.parametrize("escape", ESCAPES, ids=lambda one: one.name)
@pytest.mark.parametrize("layer", LAYERS)
def test_an_escape_comes_to_nothing(worlds, layer, escape):
    said = worlds(layer)[0][escape.name]
    assert ("ESCAPED" in said) is (layer in escape.but), said


@pytest.mark.parametrize(("name", "command"), ALLOWED, ids=lambda one: one if " " not in one else "")
@pytest.mark.parametrize("layer", LAYERS)
def test_what_work_needs_goes_on(worlds, layer, name, command):
    assert "GOOD" in worlds(layer)[0][name]


@pytest.mark.parametrize("layer", LAYERS)
def test_nothing_outside_was_changed(worlds, layer):
    assert worlds(layer)[1] == {
        "outside": ["held"], "held": "held\n", "git": ["config", "hooks"], "hooks": [], "config": "[core]\n", "store": "",
        "victim": "S", "heard": b"", "tool": ["tool"],
    }  # fmt: skip
    assert not os.path.exists("/etc/periplus-escape")


@pytest.mark.parametrize("layer", LAYERS)
def test_with_the_network_allowed_it_is_there_and_nothing_else_is(tmp_path, layer):
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        shell_host(tmp_path, sandbox=FOUND[layer], allow_network=True) as host,
    ):
        port = server.getsockname()[1]
        done = host.run(
            "shell", {"command": f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo CONNECTED; echo x > {tmp_path}/new"}
        )
        assert "CONNECTED" in done.output
        assert not (tmp_path / "new").exists()


def test_what_is_left_out_is_not_among_what_is_allowed(tmp_path):
    for name in ("a/b/c", "a/d", "e"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a" / "link").symlink_to(tmp_path / "e")
    root = str(tmp_path)
    assert allowed_paths(root, ["/elsewhere"]) == [root]
    assert allowed_paths(root, [f"{root}/a/b"]) == [f"{root}/a/d", f"{root}/e"]
    assert allowed_paths(root, [root]) == []


def test_a_sandbox_that_does_not_work_is_not_taken(tmp_path):
    fake = tmp_path / "bwrap"
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    fake.chmod(0o755)
    found = find_sandbox(str(tmp_path), layers=("bubblewrap",))
    assert (found.layer, found.about) == ("none", "no sandbox: bubblewrap does not work here")
    assert find_sandbox("", layers=("bubblewrap",)).about == "no sandbox: bubblewrap is not there"


def test_half_a_sandbox_starts_nothing(tmp_path):
    """Where a step fails the command is not run: here the folder to start in is not there."""
    if FOUND["landlock"].layer == "none":
        pytest.skip(FOUND["landlock"].about)
    words = FOUND["landlock"].wrap(
        ["touch", str(tmp_path / "ran")], str(tmp_path / "nowhere"), Confinement(str(tmp_path), str(tmp_path))
    )
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 126
    assert "the sandbox could not be made" in done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("layer", LAYERS)
def test_git_is_read_in_a_linked_worktree_and_not_written(tmp_path, layer):
    """Its git folder lies below the home folder, which is hidden."""
    home = tmp_path / "home"
    shop = home / "shop"
    shop.mkdir(parents=True)

    def git(*words):
        environment = {"PATH": PATH, "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        subprocess.run(["git", *who, *words], cwd=shop, env=environment, check=True, capture_output=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "Begin")
    git("worktree", "add", "-q", str(tmp_path / "work"))
    commands = "git log --format=%s; git commit --allow-empty -m No; echo x > $(git rev-parse --git-common-dir)/config"
    said = shell_says(tmp_path, layer, home, commands)
    assert said.startswith("Begin\n")
    assert "No\n" not in said
    assert "[core]" in (shop / ".git/config").read_text()
    assert (
        subprocess.run(["git", "log", "--all", "--format=%s"], cwd=shop, check=True, capture_output=True).stdout
        == b"Begin\n"
    )


@pytest.mark.parametrize("layer", LAYERS)
def test_a_git_file_opens_no_folder_that_git_did_not_make_for_it(tmp_path, layer):
    kept = tmp_path / "home/shop/worktrees/kept"
    kept.mkdir(parents=True)
    (kept / "secret").write_text("HOMESECRET")
    (tmp_path / "work").mkdir()
    (tmp_path / "work/.git").write_text(f"gitdir: {kept}\n")
    assert "HOMESECRET" not in shell_says(tmp_path, layer, tmp_path / "home", f"cat {kept}/secret")
    (kept / "gitdir").write_text(f"{tmp_path}/elsewhere/.git\n")
    assert "HOMESECRET" not in shell_says(tmp_path, layer, tmp_path / "home", f"cat {kept}/secret")


def shell_says(place, layer, home, commands):
    with shell_host(place, sandbox=FOUND[layer], home=str(home)) as host:
        process = host.shell.start(["/bin/bash", "-c", f"exec 2>&1; {commands}"], ".", "git")
        assert process.wait(60)
        return process.output.text()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_the_layer_in_use_is_told(tmp_path):
    for layer, sandbox in FOUND.items():
        if sandbox.layer == layer:
            with shell_host(tmp_path, sandbox=sandbox) as host:
                schema = next(one for one in host.schemas() if one.name == "shell")
                assert "Sandbox: writes in the folder" in schema.description
                assert sandbox.about.lower().startswith(layer)
