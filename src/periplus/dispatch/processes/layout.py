"""Names of the files in a run folder. All are of mode 0600, in a folder of mode 0700."""

from __future__ import annotations

__all__ = ["ENDED", "LAUNCH", "LOCK", "OUTPUT", "PROCESS", "PROMPT", "RESERVED", "TAIL", "TOKEN_VARIABLE"]

LAUNCH = "launch.json"  # what to start: argv, cwd, names of the environment, limits
PROMPT = "prompt"  # the job's standard input
LOCK = "lock"  # held by the keeper for its life
PROCESS = "process"  # ids of the keeper and of the job's leader; exists once the job may have run
OUTPUT = "output"  # the first part of the output, as it came
TAIL = "output.tail"  # the last part of a longer one
ENDED = "ended.json"  # how the job ended
RESERVED = ".ended.json.tmp"  # disk space for it, taken before the job starts

# Marks the processes of one job in their environment: the only trace of those that left its session once the keeper is dead.
TOKEN_VARIABLE = "PERIPLUS_JOB"  # noqa: S105 - no secret
