"""A scripted agent for the tour: a program of its own, without a model, that plays the part of its step.

It reads its order from standard input like any agent, edits files in its worktree, commits and hands in. Where the order says that
an earlier try did not do, it plays the better one.
"""

from __future__ import annotations

__all__ = ["main"]

import json
import os
import re
import subprocess
import sys

_LINE = "printf '%s\\n' \"$*\"{plain} | tr 'A-Z' 'a-z' | tr ' ' '-'{short}\n"
_HEAD = "#!/bin/sh\n# Prints its words in lower case, joined by hyphens.\n"
_PLAIN, _SHORT, _TOO_SHORT = " | tr -d '.,!'", " | cut -c1-24", " | cut -c1-4"


def main() -> None:
    order = sys.stdin.read()
    task = _found(r'(?<=<data from="task">\n).*', order)
    if "conflicts with" in order:
        _git("merge", "--quiet", "--no-edit", _found(r"periplus/dsp_\w+", order))
        _write("slug.sh", _HEAD + _LINE.format(plain=_PLAIN, short=_SHORT))
    elif task == "Cut long slugs":
        _write("slug.sh", _HEAD + _LINE.format(plain="", short=_SHORT if "exit code 1" in order else _TOO_SHORT))
    elif task == "Leave out punctuation":
        _write("slug.sh", _HEAD + _LINE.format(plain=_PLAIN, short=""))
    elif "An earlier attempt" not in order:
        sys.exit("the connection to the model was lost")
    else:
        _write("README.md", "# Slugs\n\n    sh slug.sh Set Sail At Dawn\n")
    print(json.dumps({"type": "usage", "tokens_in": 1_800, "cached": 600, "out": 240, "cost": 0.004}))
    _git("add", "--all")
    _git("commit", "--quiet", "--message", "Change as ordered")
    answer = {"v": 1, "run": os.environ["PERIPLUS_RUN"], "status": "done", "summary": "done, and the test passes"}
    _write(".periplus-result.json", json.dumps(answer))


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[0] if found else "HEAD"


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _git(*words: str) -> None:
    subprocess.run(["git", *words], check=False, capture_output=True)  # noqa: S603, S607 - of its own worktree, as any agent does


if __name__ == "__main__":
    main()
