"""A copy of a checkout with an interpreter of its own, in which the source of ``periplus`` may be changed.

The copy has a ``.venv`` whose only contents are links and one ``.pth`` file: first the source of the copy, then the packages
of the real environment. Every process that a test starts with ``sys.executable`` or ``periplus`` therefore runs the copy,
whichever environment variables the test keeps. A changed file gets a time of its own, so that no compiled file is stale.
"""

from __future__ import annotations

__all__ = ["Overlay", "Run"]

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from typing import Final, NamedTuple

from bench import mutants_plugin

_LEFT_OUT: Final = (
    ".git",
    ".venv",
    "__pycache__",
    ".*_cache",
    ".hypothesis",
    "node_modules",
    "results",
    "build",
    "dist",
)
_DATA_BYTES_MAX: Final = 6 << 30  # of a process: a mutant must not take the memory of the machine
_FILE_BYTES_MAX: Final = 2 << 30
_CODE: Final = "import json, sys, sysconfig; print(json.dumps([sys._base_executable, sysconfig.get_path('purelib'), sys.version_info[:2]]))"
_COUNTED_SINCE: Final = 1_600_000_000  # the time of the first changed file; each later one is a second newer


class Run(NamedTuple):
    code: int | None  # None: it did not end in time
    rows: list[dict[str, object]]
    said: str


class Overlay:
    def __init__(self, folder: str, checkout: str, python: str) -> None:
        self.folder = folder
        self.root = os.path.join(folder, "main")
        self.sources = os.path.join(self.root, "src", "periplus")
        self.log = os.path.join(folder, "log")
        self._changes = 0
        shutil.copytree(checkout, self.root, symlinks=True, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        for place in ("../shared", "tests/node/node_modules"):
            if os.path.isdir(found := os.path.join(checkout, place)):
                os.symlink(os.path.realpath(found), os.path.join(self.root, place))
        self._make_environment(python)
        subprocess.run([self.python, "-m", "compileall", "-q", "src"], cwd=self.root, check=True)

    def _make_environment(self, python: str) -> None:
        told = subprocess.run([python, "-c", _CODE], capture_output=True, text=True, check=True).stdout
        base, packages, version = json.loads(told)
        place, programs = os.path.join(self.root, ".venv"), os.path.dirname(os.path.abspath(python))
        self.python = os.path.join(place, "bin", "python")
        self.packages = os.path.join(place, "lib", "python{}.{}".format(*version), "site-packages")
        os.makedirs(self.packages)
        os.mkdir(os.path.join(place, "bin"))
        with open(os.path.join(place, "pyvenv.cfg"), "w", encoding="utf-8") as file:
            file.write(f"home = {os.path.dirname(base)}\ninclude-system-site-packages = false\n")
        with open(os.path.join(self.packages, "periplus.pth"), "w", encoding="utf-8") as file:
            file.write(f"{self.root}/src\nimport site; site.addsitedir({packages!r})\n")
        shutil.copy(mutants_plugin.__file__, self.packages)
        for name in os.listdir(programs):
            if name.startswith("python") or name == "periplus" or os.path.isdir(os.path.join(programs, name)):
                continue
            os.symlink(os.path.join(programs, name), os.path.join(place, "bin", name))
        for name in ("python", "python3", "python{}.{}".format(*version)):
            os.symlink(base, os.path.join(place, "bin", name))
        program = os.path.join(place, "bin", "periplus")
        with open(program, "w", encoding="utf-8") as file:
            file.write(f"#!{self.python}\nimport sys\nfrom periplus.cli.entry import run\nsys.exit(run())\n")
        os.chmod(program, 0o755)

    def read(self, path: str) -> bytes:
        with open(os.path.join(self.sources, path), "rb") as file:
            return file.read()

    def write(self, path: str, text: bytes) -> None:
        """Change a module; compiled files are told from their source by its size and the second of its time."""
        self._changes += 1
        place = os.path.join(self.sources, path)
        with open(place, "wb") as file:
            file.write(text)
        os.utime(place, (_COUNTED_SINCE + self._changes,) * 2)

    def pytest(self, arguments: list[str], *, seconds: float | None = None, is_shown: bool = False) -> Run:
        """Run tests, and end every process of the copy that is left over."""
        shutil.rmtree(self.log, ignore_errors=True)
        os.mkdir(self.log)
        words = [self.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "mutants_plugin",
                 "--mutants-log", self.log, "--basetemp", os.path.join(self.folder, "t"), *arguments]  # fmt: skip
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        said = os.path.join(self.folder, "said")
        with open(said, "wb") as output:
            process = subprocess.Popen(
                words, cwd=self.root, env=environment, stdin=subprocess.DEVNULL, stdout=None if is_shown else output,
                stderr=None if is_shown else output, start_new_session=True, preexec_fn=_limit,  # noqa: PLW1509
            )  # fmt: skip
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                self._end_processes()
                process.wait()
        with open(said, encoding="utf-8", errors="replace") as file:
            return Run(code, self._rows(), file.read())

    def _rows(self) -> list[dict[str, object]]:
        rows = []
        for name in sorted(os.listdir(self.log)):
            with open(os.path.join(self.log, name), encoding="utf-8") as file:
                for line in file:
                    with contextlib.suppress(ValueError):  # the end of a process that was killed
                        rows.append(json.loads(line))
        return rows

    def _end_processes(self) -> None:
        """Kill the processes that run with the interpreter of this copy, also those that left their session."""
        for _ in range(3):  # those that were started meanwhile
            for name in filter(str.isdigit, os.listdir("/proc")) if os.path.isdir("/proc") else ():
                with contextlib.suppress(OSError):
                    with open(f"/proc/{name}/cmdline", "rb") as file:
                        is_ours = os.fsencode(self.folder + os.sep) in file.read()
                    if is_ours and int(name) != os.getpid():
                        os.kill(int(name), signal.SIGKILL)
            time.sleep(0.02)  # between two looks for processes that have yet to end


def _limit() -> None:
    for kind, value in ((resource.RLIMIT_DATA, _DATA_BYTES_MAX), (resource.RLIMIT_FSIZE, _FILE_BYTES_MAX)):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


if sys.platform == "win32":
    raise ImportError("mutants need the processes and limits of POSIX")
