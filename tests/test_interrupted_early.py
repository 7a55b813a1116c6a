"""Ctrl-C while a command is still being loaded: its exit code and its words, no traceback, and no import that is broken off."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from periplus.cli.common.schemas import ErrorOut
from periplus.cli.main import COMMANDS, main

# The process interrupts itself when it begins to load a module, and says at its end whether that module was loaded.
INTERRUPTED_AT = """
import atexit, os, signal, sys
wanted = sys.argv.pop(1)
class AtTheModule:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, AtTheModule())
atexit.register(lambda: os.write(1, b"loaded" if wanted in sys.modules else b"broken off"))
sys.argv[0] = "periplus"
from periplus.cli.entry import run
run()
"""
WAITING = ("remember", "-", "--json")  # for a text, before it prints anything
SAID = b"\nperiplus: interrupted; acknowledged writes are kept\n"


def interrupted_at(module, *words, cwd, **streams):
    return subprocess.Popen([sys.executable, "-c", INTERRUPTED_AT, module, *words], cwd=cwd, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **streams)  # fmt: skip


@pytest.mark.parametrize("module", ["typing", "periplus.base.import_trimming", "periplus.cli.common.interrupts"])
def test_before_there_is_a_command(module, tmp_path):
    process = interrupted_at(module, "status", cwd=tmp_path)
    assert process.communicate() == (b"", SAID)
    assert process.returncode == 130


def is_told_of(out):
    """Whether ``out`` is the one document that ``--json`` has of an interrupt."""
    told = ErrorOut("interrupted", "interrupted", "Acknowledged writes are kept.", "", 130)
    return out.endswith(b"\n") and msgspec.json.decode(out, type=ErrorOut) == told


@pytest.mark.parametrize("module", ["periplus.base.import_trimming", "periplus.cli.common.interrupts"])
def test_json_before_there_is_a_command(module, tmp_path):
    process = interrupted_at(module, "status", "--json", cwd=tmp_path)
    out, err = process.communicate()
    assert (err, process.returncode, is_told_of(out)) == (SAID, 130, True)


def test_json_within_a_command(tmp_path):
    assert main(["init", str(tmp_path)]) == 0
    process = interrupted_at("periplus.cli.memory.knowledge", *WAITING, cwd=tmp_path)
    said = process.stderr.readline() + process.stderr.readline()
    out, rest = process.communicate()
    assert (said + rest, process.returncode, is_told_of(out.removesuffix(b"loaded"))) == (SAID, 130, True)


def test_nobody_reads_that_a_command_was_interrupted(tmp_path):
    assert main(["init", str(tmp_path)]) == 0
    with interrupted_at("periplus.cli.memory.knowledge", *WAITING, cwd=tmp_path) as process:
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (SAID, 130)


@pytest.mark.parametrize("module", ["argparse", "periplus.cli.main", "msgspec", "periplus.journal.records.record"])
def test_an_import_is_not_broken_off(module, tmp_path):
    assert main(["init", str(tmp_path)]) == 0
    process = interrupted_at(module, "trail", "record", "--agent", "ada/1", cwd=tmp_path)
    said = process.stderr.readline() + process.stderr.readline()  # the command would wait for the steps of a run
    out, rest = process.communicate()
    assert (said + rest, process.returncode) == (SAID, 130)
    assert b"broken off" not in out


def test_who_called_a_hook_is_not_disturbed(tmp_path):
    assert "hook" in {command.name for command in COMMANDS}
    process = interrupted_at("periplus.cli.hook_entry", "hook", "claude-code", cwd=tmp_path)
    assert process.communicate() == (b"", b"")
    assert process.returncode == 0


def test_an_interrupt_that_was_turned_off_stays_so(tmp_path):
    """As ``nohup`` and a shell's ``&`` do it."""
    code = INTERRUPTED_AT.replace("wanted =", "signal.signal(signal.SIGINT, signal.SIG_IGN); wanted =")
    done = subprocess.run(
        [sys.executable, "-c", code, "argparse", "completion", "bash"], cwd=tmp_path, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")
