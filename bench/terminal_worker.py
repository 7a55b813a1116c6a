"""A scripted agent for the picture of ``periplus dispatch watch``: some steps are done, some take long, one asks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time


def main() -> None:
    order = sys.stdin.read()
    found = re.search(r'(?<=<data from="task">\n).*', order)
    task = found[0] if found else ""
    print(json.dumps({"type": "usage", "tokens_in": 21_400, "cached": 16_800, "out": 1_900, "cost": 0.06}), flush=True)
    if task.startswith(("Move", "Write")) and "was answered" not in order:
        print(json.dumps({"type": "text", "text": "reading src/session.py"}), flush=True)
        time.sleep(600)
    answer = {"v": 1, "run": os.environ["PERIPLUS_RUN"], "status": "done", "summary": "done, and the tests pass"}
    if task.startswith("Choose"):
        answer |= {
            "status": "question",
            "question": "Keep sessions in Redis or in the database?",
            "options": ["Redis", "the database"],
        }
    else:
        with open(re.sub(r"\W+", "-", task.lower()) + ".txt", "w", encoding="utf-8") as file:
            file.write(task)
        subprocess.run(["git", "add", "--all"], check=True)
        subprocess.run(["git", "commit", "--quiet", "--message", task], check=True)
    with open(".periplus-result.json", "w", encoding="utf-8") as file:
        json.dump(answer, file)


if __name__ == "__main__":
    main()
