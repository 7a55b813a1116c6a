"""``periplus trail replay`` as a person types it."""

from __future__ import annotations

import os
import subprocess

import pytest

from cli_support import Shell, claude_session, git, make_repository
from periplus.journal import Writer
from periplus.project import Project
from periplus.trail import Digest, Header, TrailBuilder, TrailReader, verify
from periplus.trail.replay.command_runner import Runner

IS_OPEN = bool(Runner("/", "/", os.environ["PATH"]).why_not())  # the network cannot be kept from commands here


@pytest.fixture
def shell(tmp_path):
    make_repository(tmp_path / "engine")
    (tmp_path / "home").mkdir()
    Project.init(os.fspath(tmp_path / "engine"))
    return Shell(tmp_path / "engine", tmp_path / "home")


def recorded(shell, *steps, base=True):
    """A file of a trail on the repository's newest commit; FILE_WRITE takes its content as text."""
    builder = TrailBuilder(bytes(32))
    with Project.open(os.fspath(shell.folder), Writer("ada", "who_0000000000000000", "", 1)) as project:
        for op, *operands in steps:
            more = operands.pop() if operands and isinstance(operands[-1], dict) else {}
            if op == "FILE_WRITE":
                operands[1] = Digest("sha256", project.journal.objects.put(operands[1].encode()))
            builder.add(op, *operands, **more)
    commit = Digest("git-sha1", bytes.fromhex(git(shell.folder, "rev-parse", "HEAD").strip()))
    path = shell.folder / "run.trail"
    path.write_bytes(builder.finish(Header("agent-1", "run-1", base=commit if base else None)))
    return path


EDIT = ("FILE_EDIT", "engine.py", "revision = 1", "revision = 2")


def test_dry_is_the_default_and_touches_nothing(shell):
    session = claude_session(shell.home / "s.jsonl", steps=2)
    name = shell.json("trail", "import", session).trails[0].id
    done = shell("trail", "replay", name)
    assert "would run by a shell: make cog0" in done.out
    assert done.lines[-1].startswith("nothing was done: ")
    result = shell.json("trail", "replay", name)
    assert (result.world, result.verdict, result.states["would"]) == ("dry", "same", 2)
    assert git(shell.folder, "status", "--porcelain", "--", "engine.py") == ""


def test_what_a_dry_replay_did_not_do_it_does_not_call_done(shell):
    trail = recorded(shell, ("COMMENT", "thinking"), ("LABEL", "here"), EDIT)
    assert shell("trail", "replay", trail).lines[-1] == "nothing was done: 3 of 3 steps (2 with nothing to do, 1 would)"


def test_a_history_is_carried_out_in_memory_with_what_its_repository_holds(shell):
    git(shell.folder, "mv", "engine.py", "motor.py")
    git(shell.folder, "commit", "-q", "-m", "rename")
    name = shell.json("trail", "import", "--git").trails[0].id
    result = shell.json("trail", "replay", name, "--world", "memory")
    assert (result.verdict, result.states.get("skipped", 0)) == ("same", 0)
    outside = shell.json("trail", "replay", name, "--world", "memory", "--repository", "/", code=1)
    assert outside.states["skipped"] >= 1


def test_a_folder_of_its_own_is_compared_and_kept(shell, tmp_path):
    trail = recorded(shell, EDIT, ("FILE_WRITE", "new/a.txt", "new\n"), ("PROMPT", "go on"))
    done = shell(
        "trail",
        "replay",
        trail,
        "--world",
        "folder",
        "--base",
        "HEAD",
        "--in",
        "../r",
        "--out",
        "again.trail",
        "--keep",
    )
    assert "no difference: 3 of 3 steps (2 done, 1 skipped)" in done.out
    assert (tmp_path / "r" / "files" / "engine.py").read_text() == "revision = 2\n"
    assert (tmp_path / "r" / "files" / "new" / "a.txt").read_text() == "new\n"
    assert (shell.folder / "engine.py").read_text() == "revision = 1\n"
    data = (shell.folder / "again.trail").read_bytes()
    assert verify(data).ok
    assert TrailReader(data).header.parents == (Digest("sha256", TrailReader(trail.read_bytes()).digest),)
    kept = done.lines[-1].split()[-1]
    assert kept in shell("trail", "list").out
    assert shell("trail", "verify", kept)
    shell.json("trail", "replay", kept, "--world", "folder", "--base", "HEAD")
    shell.fails(
        "trail",
        "replay",
        trail,
        "--world",
        "folder",
        "--in",
        "../r",
        "--base",
        "HEAD",
        code=5,
        wrong="has a replay already",
    )


def test_a_difference_is_shown_and_is_the_exit_code(shell):
    trail = recorded(shell, ("FILE_EDIT", "engine.py", "none", "x"), EDIT)
    done = shell("trail", "replay", trail, "--world", "folder", "--base", "HEAD", code=1)
    assert "step 0 FILE_EDIT, outcome: recorded ok, found failed: the old text is not in the file" in done.out
    assert "The folder was removed" in done.out
    result = shell.json("trail", "replay", trail, "--world", "memory", "--base", "HEAD", "--stop", code=1)
    assert (result.verdict, result.done, result.next, result.first.step) == ("diverged", 1, 1, 0)


def test_what_is_refused_is_exit_code_5(shell, tmp_path):
    trail = recorded(shell, ("FILE_WRITE", "../../../harmed", "x"))
    done = shell("trail", "replay", trail, "--world", "folder", code=5)
    assert "it leads upwards" in done.out
    assert not (tmp_path / "harmed").exists()
    trail = recorded(shell, EDIT)
    result = shell.json(
        "trail", "replay", trail, "--world", "folder", "--base", "HEAD", "--allow", "write:src/**", code=5
    )
    assert result.denied == 1
    assert result.first.found == "denied: write is not allowed on engine.py"


def test_commands_need_consent(shell, tmp_path):
    trail = recorded(
        shell,
        ("COMMAND_RUN", "cat engine.py > copy", {"exit_code": 0}),
        ("TEST_RUN", "tests", None, {"note": "exit 0"}),
    )
    folder = ("trail", "replay", trail, "--world", "folder", "--base", "HEAD")
    assert shell.json(*folder).states == {"skipped": 2}
    network = ["--allow-network"] if IS_OPEN else []
    result = shell.json(*folder, "--in", "../r", "--allow-commands", *network)
    assert (result.verdict, result.states) == ("same", {"done": 2})
    assert (tmp_path / "r" / "files" / "copy").read_text() == "revision = 1\n"


def test_pause_and_resume(shell, tmp_path):
    trail = recorded(shell, EDIT, ("FILE_WRITE", "a", "1"), ("FILE_WRITE", "b", "2"))
    folder = ("trail", "replay", trail, "--world", "folder", "--base", "HEAD", "--in", "../r")
    done = shell(*folder, "--pause-after", "1")
    assert done.lines[-1] == "The next step is 1; continue with --resume"
    assert not (tmp_path / "r" / "files" / "a").exists()
    shell.fails(
        "trail",
        "replay",
        trail,
        "--world",
        "folder",
        "--in",
        "../r",
        "--resume",
        code=5,
        wrong="begun with --base 'HEAD'",
    )
    result = shell.json(*folder, "--resume")
    assert (result.verdict, result.done) == ("same", 3)
    assert (tmp_path / "r" / "files" / "b").read_text() == "2"
    assert shell.json(*folder, "--resume").done == 3


def test_an_interrupted_replay_is_gone_on_with(shell, tmp_path):
    """Ctrl-C in a terminal: the command ends with the replay."""
    import signal
    import subprocess

    trail = recorded(
        shell, ("FILE_WRITE", "a", "1"), ("COMMAND_RUN", "echo begun; sleep 1000"), ("FILE_WRITE", "b", "2")
    )
    network = ["--allow-network"] if IS_OPEN else []
    folder = ("trail", "replay", trail, "--world", "folder", "--in", "../r", "--allow-commands", *network)
    process = shell.start(*folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    log = tmp_path / "r" / "replay.log"
    while not (log.exists() and b'"command":"runs"' in log.read_bytes()):
        assert process.poll() is None
        os.sched_yield()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, b"interrupted" in err) == (130, True)
    result = shell.json(*folder, "--resume", code=1)
    assert (result.first.step, result.first.op, result.done) == (1, "COMMAND_RUN", 3)
    assert "it is unknown" in result.first.found


@pytest.mark.parametrize(
    ("words", "code", "wrong"),
    [
        (["--resume"], 2, "--resume needs"),
        (["--in", "x"], 2, "--in needs --world folder"),
        (["--allow-commands"], 2, "--allow-commands needs --world folder"),
        (["--world", "folder", "--in", "none", "--resume"], 1, "no replay to continue in"),
        (["--world", "folder", "--base", "HEAD", "--from", "."], 2, "--from and --base cannot be combined"),
        (["--base", "HEAD"], 2, "--base and --from cannot be used with --world dry"),
        (["--world", "folder", "--base", "none"], 1, "no commit"),
        (["--world", "folder", "--base=--output=x"], 1, "no commit"),
        (["--world", "folder", "--from", "none"], 1, "no folder"),
        (["--world", "folder", "--in", "full"], 5, "not the folder of a replay"),
        (["--world", "memory", "--base", "recorded"], 1, "does not name the commit it started from"),
        (["--steps", "x"], 2, "is not a range of steps"),
        (["--allow", "fly"], 2, "unknown action"),
        (["--out", "none/x"], 2, "no folder"),
        (["--world", "folder", "--test-command", "'"], 2, "--test-command"),
    ],
)
def test_wrong_input(shell, words, code, wrong):
    trail = recorded(shell, EDIT, base=False)
    full = shell.folder / "full"
    full.mkdir()
    (full / "mine").write_text("mine")
    before = sorted(shell.folder.rglob("*"))
    shell.fails("trail", "replay", trail, *words, code=code, wrong=wrong)
    assert [path for path in sorted(shell.folder.rglob("*")) if ".periplus" not in path.parts] == [
        path for path in before if ".periplus" not in path.parts
    ]


def test_a_concatenation_is_one_run(shell, tmp_path):
    trail = recorded(shell, ("FILE_WRITE", "a", "1"))
    shell("trail", "concat", trail, trail, "--out", "two.trail")
    result = shell.json("trail", "replay", "two.trail", "--world", "memory")
    assert (result.steps, result.done, result.verdict) == (2, 2, "same")


def test_a_git_history_is_replayed_to_the_same_files(shell, tmp_path):
    name = shell.json("trail", "import", "--git").trails[0].id
    result = shell.json("trail", "replay", name, "--world", "folder", "--in", "../r")
    assert (result.verdict, result.difference_count) == ("same", 0)
    assert (tmp_path / "r" / "files" / "engine.py").read_text() == "revision = 1\n"


LEFT_OUT = [":memory:", "a*b", "dm", "part/.periplus/config.toml"]


def a_history_of_everything(folder):
    """Bits, links, submodules, odd names, ignored files, branches, merges, roots, and files where folders were."""
    script = """
    printf '*.log\\n' > .gitignore; echo k > kept.log; echo x > tool; echo 1 > a; git add -A -f . ':!.periplus'; git commit -qm root
    chmod +x tool; ln -s a link; git add tool link; git commit -qm modes
    git checkout -qb side; rm a; mkdir a; echo d > a/b; git mv tool tool2; git add a; git commit -qm 'a folder for a file'
    git checkout -q main; echo 2 > other; mkdir dir; echo q > dir/q; git add other dir; git commit -qm other; git merge -q side -m merge
    git rm -qr a; echo file > a; rm link; echo now > link; git add a link; git commit -qm 'a file for a folder, and for a link'
    git update-index --add --cacheinfo 160000,1111111111111111111111111111111111111111,lib
    chmod -x tool2; git add tool2; git commit -qm submodule
    git rm -q --cached lib; echo l > lib; git add lib; git commit -qm 'a file for a submodule'
    git checkout -q --orphan alone; git rm -qrf .; echo z > z; git add z; git commit -qm alone
    git checkout -q main; git merge -q --allow-unrelated-histories alone -m unrelated
    git checkout -qb two; echo c > other; ln -sfn dir dl; git add other dl; git commit -qm two
    git checkout -q main; echo m > other; git commit -qam main; git merge -q two -m x || true
    echo both > other; git add other; git commit -qm settled; git commit -q --allow-empty -m empty
    git mv dl dm; git commit -qm 'a link moved'; git mv z zz; mkdir z; git mv zz z/z; git commit -qm 'into itself'
    mkdir -p part/.periplus; echo v > part/.periplus/config.toml; git add -A part; git commit -qm 'a store of a part'
    echo m > :memory:; echo x > 'a*b'; git add ./:memory: './a*b'; git commit -qm 'names for a shell'
    git add -f .periplus/config.toml; git commit -qm store; git mv .periplus/config.toml cfg; git commit -qm 'out of it'
    git mv cfg .periplus/config.toml; git commit -qm 'and back'
    """
    who = {f"GIT_{role}_{what}": "ada@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    found = {"PATH": os.environ["PATH"], "HOME": os.fspath(folder.parent), "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["sh", "-ec", script], cwd=folder, env=found | who, check=True, capture_output=True)


@pytest.mark.slow
@pytest.mark.skipif(IS_OPEN, reason="the network cannot be kept from commands here")
def test_a_history_of_everything_is_replayed_to_each_of_its_trees(shell, tmp_path):
    """Links were written as files, bits and submodules were lost, and each commit of a second branch differed."""
    a_history_of_everything(shell.folder)
    name = shell.json("trail", "import", "--git").trails[0].id
    result = shell.json("trail", "replay", name, "--world", "folder", "--in", "../r", "--allow-commands")
    assert (result.differences, result.verdict) == ([], "same")
    files = tmp_path / "r" / "files"
    tracked = set(git(shell.folder, "ls-files").split())
    made = {
        os.fspath(path.relative_to(files)) for path in files.rglob("*") if path.is_file() and ".git" not in path.parts
    }
    assert tracked - made == {".periplus/config.toml", *LEFT_OUT}
    assert result.left_out == LEFT_OUT
    assert (files / "other").read_text() == "both\n"
    assert [path for path in files.rglob("*") if path.is_symlink()] == []
    memory = shell.json("trail", "replay", name, "--world", "memory")
    assert (memory.verdict, memory.differences) == ("same", [])
    narrow = shell.json("trail", "replay", name, "--world", "memory", "--allow", "write:a", "--allow", "delete", code=5)
    assert "taken over" in next(one for one in narrow.differences if one.op == "CHECKPOINT").found


def test_a_history_of_everything_is_shown_by_its_commits(shell, tmp_path):
    """Nothing was: where no checkpoint stood, git's own commits said nothing."""
    a_history_of_everything(shell.folder)
    name = shell.json("trail", "import", "--git").trails[0].id
    found = shell.json("trail", "verify", "--effects", name).trails[0].effects[0]
    assert (found.verdict, found.missing) == ("verified", [])
    commits = [step for step in found.steps if step.op == "GIT_COMMIT"]
    assert len(commits) > 20
    assert {step.verdict for step in commits} == {"right"}
    assert {step.verdict for step in found.steps if step.op.startswith("FILE_")} == {
        "right",
        "outside",
    }  # those of the store


@pytest.mark.slow
def test_a_history_is_paused_and_gone_on_with_where_links_are_noted(shell, tmp_path):
    a_history_of_everything(shell.folder)
    name = shell.json("trail", "import", "--git").trails[0].id
    words = ("trail", "replay", name, "--world", "folder", "--in", "../r")
    shell.json(*words, "--pause-after", "1")
    for _ in range(5):
        result = shell.json(*words, "--resume", "--pause-after", "10")
    with (tmp_path / "r" / "carried.jsonl").open("a") as torn:
        torn.write('["120000","1111')
    result = shell.json(*words, "--resume")
    assert (result.verdict, result.differences) == ("same", [])
    assert result.left_out == LEFT_OUT


@pytest.mark.slow
def test_the_newest_part_of_a_history_is_replayed_from_what_it_began_with(shell):
    a_history_of_everything(shell.folder)
    name = shell.json("trail", "import", "--git", "--max-commits", "3").trails[0].id
    for more in ((), ("--base", "recorded")):
        result = shell.json("trail", "replay", name, "--world", "folder", *more)
        assert (result.verdict, result.differences) == ("same", [])


def test_a_git_history_with_the_store_in_it_is_replayed_without_it(shell, tmp_path):
    """Its files were refused, each commit with them differed, and the exit code was that of an attack."""
    shell("remember", "Replays have no store", "--type", "lesson")
    (shell.folder / "engine.py").write_text("revision = 2\n")
    git(shell.folder, "add", "-A")
    git(shell.folder, "commit", "-q", "-m", "two")
    name = shell.json("trail", "import", "--git").trails[0].id
    for world in ("dry", "memory", "folder"):
        more = ("--in", "../r") if world == "folder" else ()
        result = shell.json("trail", "replay", name, "--world", world, *more)
        assert (result.verdict, result.difference_count) == ("same", 0)
        assert result.states["skipped"]
    files = tmp_path / "r" / "files"
    assert not (files / ".periplus").exists()
    assert (files / "engine.py").read_text() == "revision = 2\n"


def test_of_absolute_paths_that_lie_elsewhere_it_is_told_what_to_type(shell):
    """Many agents do not write down where they ran: all that they did was refused, and nothing said what helps."""
    trail = recorded(shell, ("FILE_READ", "/home/ada/shop/engine.py"))
    for world in ("dry", "memory"):
        assert "--recorded-in FOLDER" in shell("trail", "replay", trail, "--world", world, code=5).lines[-1]
    words = ("--world", "memory", "--base", "HEAD", "--recorded-in", "/home/ada/shop")
    assert "--recorded-in" not in shell("trail", "replay", trail, *words).out


def test_a_store_that_a_command_makes_is_none_of_the_files_that_are_compared(shell, tmp_path):
    tree = git(shell.folder, "rev-parse", "HEAD^{tree}").strip()
    trail = recorded(shell, ("COMMAND_RUN", "mkdir .periplus && echo v = 2 > .periplus/config.toml"),
                     ("CHECKPOINT", Digest("git-sha1", bytes.fromhex(tree))))  # fmt: skip
    words = ("--world", "folder", "--base", "HEAD", "--allow-commands", "--allow-network")
    assert shell.json("trail", "replay", trail, *words).verdict == "same"


def test_the_page_about_replays_is_real(shell):
    """Each command of the page, with the id of the day in the place of the page's."""
    import re
    import shlex
    from pathlib import Path

    page = (Path(__file__).parents[1] / "docs" / "guides" / "replay.md").read_text()
    lines = [line[len("$ periplus ") :] for line in page.splitlines() if line.startswith("$ periplus ")]
    assert len(lines) == 4
    found = ""
    for line in lines:
        done = shell(*shlex.split(re.sub(r"trl_\w{16}", found, line)))
        found = found or re.search(r"trl_\w{16}", done.out)[0]
    assert "no error" in done.out or "ok" in done.out


def test_the_python_of_the_page_is_real(shell, capsys):
    import re
    from pathlib import Path

    page = (Path(__file__).parents[1] / "docs" / "guides" / "replay.md").read_text()
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    data = recorded(
        shell, ("FILE_EDIT", "src/a.py", "x", "y", {"outcome": "failed"}), ("FILE_READ", "a.py")
    ).read_bytes()
    exec(compile(code, "docs/guides/replay.md", "exec"), {"data": data, "read_content": lambda digest: None})
    assert capsys.readouterr().out == "same None {'a.py': b'x = 1\\n'}\n"


def test_a_live_recording_replays_to_the_same_trees(tmp_path):
    """An agent works in a repository (programs, links, bytes, names of all scripts) and records what it does."""
    from recorder_support import Agent, repository

    folder = repository(tmp_path / "engine")
    (tmp_path / "home").mkdir()
    shell = Shell(folder, tmp_path / "home")
    Project.init(os.fspath(folder))
    with Project.open(os.fspath(folder), Writer("ada", "who_0000000000000000", "", 1)) as project:
        with project.record(agent="ada", folder=os.fspath(folder)) as run:
            agent = Agent(folder, run)
            agent.write("src/new.py", b"one\ntwo\n")
            agent.edit("src/new.py", "two", "three")
            agent.edit("engine.py", "revision = 0", "revision = 7")
            agent.edit("docs/windows.txt", "two", "2")
            agent.move("src/new.py", "lib/new.py")
            agent.move("bin/start", "bin/begin")
            agent.write("build/ignored", b"x")
            agent.write("gone.txt", b"x")
            agent.delete("gone.txt")
        name = next(iter(project.trails())).item_id
    assert shell("trail", "show", name).out.count("CHECKPOINT") >= 1
    result = shell.json("trail", "replay", name, "--world", "folder", "--base", "HEAD", "--in", "../r")
    assert (result.verdict, result.differences, result.left_out) == ("same", [], ["latest"])
    assert (tmp_path / "r" / "files" / "lib" / "new.py").read_text() == "one\nthree\n"
    (folder / "other.py").write_text("x")
    git(folder, "add", "other.py")
    git(folder, "commit", "-q", "-m", "another base")
    result = shell.json("trail", "replay", name, "--world", "folder", "--base", "HEAD", code=1)
    assert (result.first.op, result.first.what) == ("CHECKPOINT", "tree")
    assert shell.json("trail", "replay", name, "--world", "memory", "--base", "recorded").verdict == "same"
    assert shell.json("trail", "replay", name, "--world", "folder", "--base", "recorded").verdict == "same"
