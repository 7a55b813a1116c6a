"""Recorded commands where a replay runs them: in its own folder, each part of a command once."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_support import git
from periplus.base.errors import ConfinementError
from periplus.trail.replay import Capabilities
from periplus.trail.replay.command_text import Sibling, chosen_tests, part_for_tests, rebased
from replay_support import Taped, close_worlds, files_in, folder_world, replay

ADA = "/home/ada/shop"
HERE = "/r e/it's"


@pytest.fixture(autouse=True)
def closed():
    yield
    close_worlds()


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("make", "make"),
        ("cd /home/ada/shop && make", "cd Q && make"),
        ("cd '/home/ada/shop/web'; make", "cd Q/web; make"),
        ("(cd -P /home/ada/shop/ && make)", "(cd -P Q && make)"),
        ("bash -lc 'cd /home/ada/shop && make'", "bash -lc B"),
        ("cat <<X\ncd /etc\nX\ncd /home/ada/shop", "cat <<X\ncd /etc\nX\ncd Q"),
        ('cp /home/ada/shop/*.py "/home/ada/shop/$X" > a', 'cp Q/*.py "/r e/it\'s/$X" > a'),
        ("cat /home/ada/shopping /srv/home/ada/shop", "cat /home/ada/shopping /srv/home/ada/shop"),
        ("cd a && cd .. && cd $X && cd ..", "cd a && cd .. && cd $X && cd .."),
        ("echo 'cd /etc'", "echo 'cd /etc'"),
    ],
)
def test_the_folder_of_the_record_becomes_that_of_the_replay(command, run):
    quoted = "'/r e/it'\"'\"'s'"
    want = run.replace("Q/web", quoted[:-1] + "/web'").replace("Q", quoted)
    found = rebased(command, ADA, HERE)
    if "B" in run:
        words = subprocess.run(["sh", "-c", f"printf %s {found[9:]}"], capture_output=True, text=True, check=True)
        assert words.stdout == f"cd {quoted} && make"
    else:
        assert found == want


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("cat > /home/ada/shop/a <<X\n> /home/ada/shop/b\nX", "cat > Q/a <<X\n> /home/ada/shop/b\nX"),
        ("> '/home/ada/shop/a b'; make 2>>/home/ada/shop/log 2>&1", "> 'Q/a b'; make 2>>Q/log 2>&1"),
        ("bash -c 'make >/home/ada/shop/log'", "bash -c 'make >Q/log'"),
        ("PYTHONPATH=/home/ada/shop/src:/home/ada/shop/lib:/usr/lib make", "PYTHONPATH=Q/src:Q/lib:/usr/lib make"),
        ('export P="a:/home/ada/shop/b:$P" && make', 'export P="a:Q/b:$P" && make'),
        ("make --root=/home/ada/shop -C/home/ada/shop -DX='/home/ada/shop/x'", "make --root=Q -CQ -DX='Q/x'"),
        ("docker run -v /home/ada/shop:/app x", "docker run -v Q:/app x"),
        ("make --root=/home/ada/shopping -C/home/ada/shopping a:/home/ada/shop", ""),
        ("cd a; (cd .. && make); cd ..", ""),
        ("cat <<A <<B > f\nx\nA\ncd /etc\nB\ncd /home/ada/shop", "cat <<A <<B > f\nx\nA\ncd /etc\nB\ncd Q"),
        ("echo $((1<<2)); cat <<X\ncd /etc\nX\ncd /home/ada/shop", "echo $((1<<2)); cat <<X\ncd /etc\nX\ncd Q"),
        (
            "cat <<\\X-1\ncd /etc\nX-1\ncat <<'a b'\ncd /etc\na b\r\ncd /home/ada/shop",
            "cat <<\\X-1\ncd /etc\nX-1\ncat <<'a b'\ncd /etc\na b\r\ncd Q",
        ),
        ("pushd a && cd b && popd && cd a", ""),
        ("case $1 in a) cd a;; (b) cd b;; esac; cd ../c", ""),
    ],
)
def test_so_it_does_where_it_is_written_to_or_is_a_value(command, run):
    assert rebased(command, ADA, "/r") == (run or command).replace("Q", "/r")


def test_a_word_keeps_its_quotes_whatever_the_folder_is_called(tmp_path):
    """A shell reads the new words; the new folder has a quote and a blank in its name."""
    command = "printf '%s\\n' X=/home/ada/shop/a \"--x=/home/ada/shop/$Y:/home/ada/shop\" '/home/ada/shop/b c' Y=/home/ada/shop:'/home/ada/shop'"
    said = subprocess.run(["sh", "-c", rebased(command, ADA, HERE)], capture_output=True, text=True, check=True).stdout
    assert said == f"X={HERE}/a\n--x={HERE}/:{HERE}\n{HERE}/b c\nY={HERE}:{HERE}\n"


@pytest.mark.parametrize(
    "command",
    ["cd /etc && cat passwd", "cd /home/ada/shop/../other; rm -rf x", "make && cd .. && make", "cd a/../../b; ls", "pushd /tmp",
     "bash -c 'cd /etc; ls'", 'bash -c "cd /home/ada/shop && echo $X"', "cd /home/ada/shopping", "cd '/'",
     "(cd a && make); cd .. && rm x", "pushd a; make; popd; cd .. && rm x", "bash -c 'cd a; make'; cd ..; rm x"],
)  # fmt: skip
def test_a_command_that_goes_elsewhere_is_refused(command):
    with pytest.raises(ConfinementError):
        rebased(command, ADA, HERE)


def test_a_command_that_begins_with_its_own_folder_runs_in_that_of_the_replay(tmp_path):
    """The folder of the record is still there on the same machine, and was what such a command changed."""
    real = tmp_path / "shop"
    (real / "sub").mkdir(parents=True)
    taped = Taped().write("sub/a.txt", "1")
    taped.step("COMMAND_RUN", f"cd {real} && test -f sub/a.txt && echo 2 > b.txt", None, exit_code=0)
    taped.step("COMMAND_RUN", f"cd {real}/sub; cp a.txt {real}/c.txt", os.fspath(real), exit_code=0)
    taped.step("TEST_RUN", "test -f a.txt", None, note=f"cd {real}/sub && test -f a.txt")
    taped.step("COMMAND_RUN", f"cd {tmp_path} && touch out", None, exit_code=0)
    plan = {"allow_commands": True, "allow_network": True, "recorded_root": os.fspath(real)}
    one, report = replay(taped, folder_world(taped, tmp_path / "r", **plan), recorded_root=os.fspath(real))
    assert [(done.state, done.outcome) for done in one.outcomes] == [("done", "ok")] * 4 + [("denied", "denied")]
    assert report.difference_count == 1
    assert files_in(tmp_path / "r" / "files") == {"b.txt": b"2\n", "c.txt": b"1", "sub/a.txt": b"1"}
    assert [path.name for path in sorted(real.rglob("*"))] == ["sub"]
    assert not (tmp_path / "out").exists()


def test_what_is_written_where_it_was_recorded_is_written_in_the_replay(tmp_path):
    """``cat > /home/ada/shop/a.py`` wrote ada's own file, and ``PYTHONPATH`` had her own code tested."""
    real = tmp_path / "shop"
    real.mkdir()
    (real / "a.txt").write_text("ada's")
    taped = Taped().write("a.txt", "good\n")
    taped.step("COMMAND_RUN", f"cat > {real}/b.txt <<'X'\nmade\nX", None, exit_code=0)
    taped.step(
        "TEST_RUN",
        f"LOOK={real} sh -c 'grep -q good $LOOK/a.txt'",
        None,
        note=f"LOOK={real} sh -c 'grep -q good $LOOK/a.txt'",
    )
    plan = {"allow_commands": True, "allow_network": True, "recorded_root": os.fspath(real)}
    _, report = replay(taped, folder_world(taped, tmp_path / "r", **plan), recorded_root=os.fspath(real))
    assert report.verdict == "same"
    assert files_in(tmp_path / "r" / "files") == {"a.txt": b"good\n", "b.txt": b"made\n"}
    assert files_in(real) == {"a.txt": b"ada's"}


def test_a_command_that_is_run_as_words_is_run_where_the_replay_is(tmp_path):
    """With ``--allow command:touch`` no shell reads the command, and its words went to the folder of the record."""
    real = tmp_path / "shop"
    real.mkdir()
    taped = Taped().step("COMMAND_RUN", f"touch {real}/a '{real}/b c'", None, exit_code=0)
    plan = {"allow_commands": True, "allow_network": True, "recorded_root": os.fspath(real)}
    world = folder_world(taped, tmp_path / "r", **plan)
    replay(taped, world, recorded_root=os.fspath(real), capabilities=Capabilities.of("command:touch", "network"))
    assert sorted(files_in(tmp_path / "r" / "files")) == ["a", "b c"]
    assert files_in(real) == {}


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_command_that_was_written_for_bash_is_run_by_it(tmp_path):
    """Agents write for bash. To another shell ``&>`` is a command in the background: tests that failed ended well."""
    taped = Taped().write("sub/a", "")
    taped.step("TEST_RUN", "false", None, note="false &> log", outcome="failed", exit_code=1)
    taped.step(
        "COMMAND_RUN", "pushd sub && [[ -e a ]] && popd && set -o pipefail && source /dev/null", None, exit_code=0
    )
    one, report = replay(taped, folder_world(taped, tmp_path / "r", allow_commands=True, allow_network=True))
    assert [done.exit_code for done in one.outcomes] == [None, 1, 0]
    assert report.verdict == "same"


PAIR = [Sibling("TEST_RUN", "b", has_failed=False), Sibling("GIT_COMMIT", "m", has_failed=False)]


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("make && a && date && b && git commit -m m", "make && a && : && : && :"),
        ("cd x && a 2>&1 | tail; b > log | tail", "cd x && a 2>&1 | tail; : | :"),
        ("export X=1; b; a; make", "export X=1; :; a; make"),
        ("if b; then a; fi", "if :; then a; fi"),
        ("while b; do a; done", "while false; do a; done"),
        ("bash -c 'a && git -C . commit -m m'", "bash -c 'a && :'"),
        ("a && git commit -F - <<X\nrm\nX\nls", "a && :\n\nls"),
        ("a && git commit -m \"$(cat <<'X'\nit is\nX\n)\" && git status", "a && : && git status"),
    ],
)
def test_a_part_that_has_a_step_of_its_own_is_not_run_with_another(command, run):
    assert part_for_tests(command, "a", PAIR) == run


def test_a_part_that_failed_fails_again_where_another_is_run():
    assert part_for_tests("b || a", "a", [Sibling("TEST_RUN", "b", has_failed=True)]) == "false || a"
    assert part_for_tests("a && git commit -m x", "a", []) == "a && git commit -m x"


HOSTILE = st.lists(st.sampled_from(["a", "b", "cd ", "/home/ada/shop", "'", '"', "$(", ")", "<<X\n", "X\n", "\n", ";", "|", "&&", "if ",
                                    "bash -c ", "git commit -m ", "\\", "\0", "\ud800", "{ ", "> ", "..", "~", "\u00fc"]), max_size=40)  # fmt: skip


@given(HOSTILE)
def test_any_text_is_taken(words):
    text = "".join(words)
    part_for_tests(text, "a", PAIR)
    chosen_tests("a", text, ADA, lambda _path: True)
    with contextlib.suppress(ConfinementError):
        rebased(text, ADA, HERE)


def test_a_long_command_takes_no_long_time():
    begun = time.process_time()
    for text in (
        "a;" * 30_000,
        "b && " * 12_000,
        "bash -c '" * 7_000,
        "cd a&&" * 10_000,
        "<<X\n" * 12_000,
        "'" * 60_000,
    ):
        part_for_tests(text, "a", PAIR * 12)
        rebased(text, ADA, HERE)
    assert time.process_time() - begun < 20


def test_a_command_of_two_tests_and_a_commit_is_carried_out_once(tmp_path):
    command = "echo made >> log && sh one.sh && sh two.sh && git commit -qam x"
    taped = Taped().write("one.sh", "echo one >> log").write("two.sh", "echo two >> log")
    taped.step("TEST_RUN", "sh one.sh", None, note=command, source=7).step(
        "TEST_RUN", "sh two.sh", None, note=command, source=7
    )
    taped.step("GIT_COMMIT", "shop", "x", None, note=command, source=7)
    world = folder_world(taped, tmp_path / "r", allow_commands=True, allow_network=True)
    one, report = replay(taped, world)
    assert [done.outcome for done in one.outcomes] == ["ok"] * 5
    assert report.verdict == "same"
    assert files_in(tmp_path / "r" / "files")["log"] == b"made\none\ntwo\n"
    assert git(tmp_path / "r" / "files", "log", "--format=%s") == "x\nbase\n"


@pytest.mark.parametrize(
    ("target", "command", "said"),
    [
        ("python -m pytest -q t/a.py::x", "cd sub && python -m pytest -q t/a.py::x | tail", "sub: t/a.py::x"),
        ("pytest", "pytest && git push", ":"),
        ("pytest", "(cd sub && make); pytest", ":"),
        ("pytest", "bash -c 'cd sub && pytest' && cd x", "sub:"),
        ("t/a.py", "", ": t/a.py"),
    ],
)
def test_a_test_command_is_given_what_the_recorded_one_tested(tmp_path, target, command, said):
    """The whole recorded command stood in the place of {target}."""
    taped = Taped().write("sub/t/a.py", "").write("say.sh", 'echo "${PWD##*files}: $*" >> "$HOME/said"')
    taped.step("TEST_RUN", target, None, note=command or None)
    world = folder_world(taped, tmp_path / "r", allow_commands=True, allow_network=True,
                         test_command=("sh", os.fspath(tmp_path / "r" / "files" / "say.sh"), "{target}"))  # fmt: skip
    replay(taped, world)
    assert (tmp_path / "r" / "home" / "said").read_text().strip(" /\n") == said
