"""A scripted agent for measures of dispatches: sleeps, or changes one file, commits and hands in. Its order is on standard input."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time


def main() -> None:
    order = sys.stdin.read()
    found = re.search(r'(?<=<data from="task">\n)(\w+) (\w+)', order)
    assert found is not None
    if found[1] == "sleep":
        time.sleep(3_600)
    with open(found[2], "w", encoding="utf-8") as file:
        file.write("done\n")
    subprocess.run(["git", "add", found[2]], check=True)
    subprocess.run(["git", "commit", "--quiet", "--message", "Work"], check=True)
    with open(".periplus-result.json", "w", encoding="utf-8") as file:
        json.dump({"v": 1, "run": os.environ["PERIPLUS_RUN"], "status": "done", "summary": "done"}, file)


if __name__ == "__main__":
    main()
