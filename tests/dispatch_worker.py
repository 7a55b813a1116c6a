"""A worker of tests: plays the script that its prompt names, ``[script NAME]``, a file of the folder in WORKER_SCRIPTS.

The file is a list of attempts, each a list of acts (``dispatch_agents.ACTS``); the last one repeats. A prompt for a review plays
``NAME.review``, and the agent of a loop's phase ``NAME.PHASEn``, where n is its number. The prompt itself is kept beside the script, so that a test can read what the agent was told.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import dispatch_agents


def main():
    prompt = sys.stdin.read()
    name = re.search(r"\[script ([\w.-]+)\]", prompt)[1]
    phase = re.search(r"Phase (\w+), agent (\d+) of", prompt)
    if phase:
        name += f".{phase[1]}{phase[2]}"
    elif "`verdict` is" in prompt:
        name += ".review"
    folder = Path(os.environ["WORKER_SCRIPTS"])
    attempts = json.loads((folder / name).read_text())
    with open(folder / f"{name}.count", "ab", 0) as file:
        at = file.tell()
        file.write(b".")
    (folder / f"{name}.prompt{at}").write_text(prompt)
    with open(folder / "runs", "ab", 0) as file:  # each start, so that a test sees whether a run was started twice
        file.write(f"{os.environ['PERIPLUS_RUN']} {name}\n".encode())
    for act in attempts[min(at, len(attempts) - 1)]:
        ((verb, value),) = act.items()
        dispatch_agents.ACTS[verb](value)


if __name__ == "__main__":
    main()
