"""Supervisors that die by SIGKILL at a chosen moment: right before or after a write to the disk, or a call of git that changes something.

A moment is counted in one file by the supervisor's own ``DyingFiles`` and by a program ``git`` that stands before the real one in
PATH. Only the calls of the supervisor itself count, not those of its agents.
"""

from __future__ import annotations

__all__ = ["Graveyard"]

import os
import shutil
import signal
import time

from dispatch_support import Yard
from periplus.base.files import Files
from periplus.journal import Writer
from periplus.memory.coordination.dispatches import answer_question, open_questions
from periplus.project import Project

_COUNTED = ("sync_data", "replace", "make_folder", "sync_everything")
_GIT = """\
#!/bin/sh
supervisor=$(cat '{folder}/supervisor' 2>/dev/null)
case " $* " in
*" update-ref "*|*" worktree add "*|*" worktree lock "*|*" commit-tree "*|*" merge-tree "*|*" update-index "*|*" merge --ff-only "*)
  if [ "$supervisor" = "$PPID" ]; then
    stop=$(cat '{folder}/stop')
    printf g >> '{folder}/moments'
    if [ $(wc -c < '{folder}/moments') = $stop ]; then
      kill -9 $PPID
      [ $(($stop % 2)) = 0 ] && exit 1
    fi
    '{git}' "$@"
    code=$?
    printf G >> '{folder}/moments'
    [ $(wc -c < '{folder}/moments') = $stop ] && kill -9 $PPID
    exit $code
  fi;;
esac
exec '{git}' "$@"
"""


class DyingFiles(Files):
    def __init__(self, folder):
        self._moments = os.path.join(folder, "moments")
        with open(os.path.join(folder, "stop")) as file:
            self._stop = int(file.read())

    def _moment(self, mark):
        with open(self._moments, "ab", 0) as file:
            file.write(mark)
            if file.tell() == self._stop:
                os.kill(os.getpid(), signal.SIGKILL)


def _counted(name):
    def call(self, *given):
        self._moment(name[0].encode())
        found = getattr(Files, name)(self, *given)
        self._moment(name[0].upper().encode())
        return found

    return call


for _name in _COUNTED:
    setattr(DyingFiles, _name, _counted(_name))


class Graveyard(Yard):
    """A yard whose supervisors are children of the test."""

    def __init__(self, base, **more):
        super().__init__(base, **more)
        self.grave = base / "grave"
        self.grave.mkdir()
        programs = base / "programs"
        programs.mkdir()
        path = programs / "git"
        path.write_text(_GIT.format(folder=self.grave, git=shutil.which("git")))
        path.chmod(0o755)
        self.environment["PATH"] = f"{programs}{os.pathsep}{self.environment['PATH']}"
        self.outcome = ""

    def begin(self, dispatch, stop=0):
        """Start a supervisor that dies at the moment ``stop``, counted from now; return its process id."""
        (self.grave / "moments").write_bytes(b"")
        (self.grave / "stop").write_text(str(stop))
        pid = os.fork()
        if pid:
            return pid
        code = 99
        try:
            (self.grave / "supervisor").write_text(str(os.getpid()))
            with Project(str(self.folder / ".periplus"), Writer.named("ada"), files=DyingFiles(self.grave)) as project:
                outcome = self.supervisor(project, dispatch).run()
            (self.grave / "outcome").write_text(outcome)
            code = 0
        except BaseException:  # noqa: BLE001 - told by the code, and on the error output
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)

    def end(self, pid, project, answers=(), kill_s=0.0):
        """Wait for the end of a supervisor, answering questions; True where it was killed. It is killed after ``kill_s``."""
        began = time.monotonic()
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                assert code in (0, -signal.SIGKILL), code
                return code != 0
            now = time.monotonic()
            assert now - began < 120, [one.value for one in open_questions(project.journal)]
            if kill_s and now - began > kill_s:
                os.kill(pid, signal.SIGKILL)
            for question in open_questions(project.journal):
                for words, answer in dict(answers).items():
                    if words in question.value["text"]:
                        answer_question(project.journal, Writer.named("bob"), question.item_id, answer)
            time.sleep(0.03)

    def moments(self):
        """Return the calls of the last supervisor, a letter each; a capital letter is the end of a call."""
        return (self.grave / "moments").read_text()
