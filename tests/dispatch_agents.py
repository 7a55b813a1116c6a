"""A scripted worker: plays roles of an agent in its working folder, without a model and without a network.

``python dispatch_agents.py [--prompt FILE]`` takes its script from the prompt (standard input, or FILE): the last fenced block that begins
with ```` ```worker ````, or from the variable ``WORKER_SCRIPT``, which wins. It is a list of acts, each an object with one key of ACTS, such
as ``[{"write": {"a.txt": "x"}}, {"commit": "A"}, {"result": {"status": "done", "summary": "…"}}]``. By attempt: a list of such lists under
``{"attempts": [...]}`` with ``"counter": FILE``; the last one repeats.

It prints the lines of a command of the user's own (periplus.dispatch.adapters.command).
"""

from __future__ import annotations

__all__ = ["ACTS", "PROGRAM", "RESULT", "agent_row", "prompt_of", "read_script"]

import json
import os
import re
import signal
import subprocess
import sys
import time

PROGRAM = os.path.abspath(__file__)
RESULT = ".periplus-result.json"
_BLOCK = re.compile(r"^```worker\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FOREVER_S = 3_600


def prompt_of(*acts, **more):
    """A prompt with a script for the worker."""
    script = more or list(acts)
    return f"Do as the script says.\n\n```worker\n{json.dumps(script)}\n```\n"


def agent_row(name="scripted", *, prompt="stdin", environment=(), resume=True):
    """The table ``[agents.NAME]`` of a user's agent.toml for this worker."""
    words = [sys.executable, "-P", PROGRAM, "--session", "{session}"]
    words += ["--prompt", "{prompt_file}"] if prompt == "file" else []
    table = {"command": words, "prompt": prompt, "environment": [*environment, "WORKER_SCRIPT"]}
    lines = [f"[agents.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    if resume:
        lines.append(f"resume = {json.dumps([*words, '--resumed'])}")
    return "\n".join(lines) + "\n"


def read_script(prompt, environment):
    """The acts of this attempt."""
    given = environment.get("WORKER_SCRIPT", "")
    if not given:
        found = _BLOCK.findall(prompt)
        given = found[-1] if found else "[]"
    script = json.loads(given)
    if isinstance(script, dict):
        script = script["attempts"][min(_attempt(script["counter"]), len(script["attempts"]) - 1)]
    return script


def _attempt(counter):
    """How often this worker was started before, counted in the bytes of a file."""
    with open(counter, "ab", 0) as file:
        at = file.tell()
        file.write(b".")
    return at


def _tell(**event):
    print(json.dumps(event), flush=True)


def _write(files):
    for path, text in files.items():
        if os.path.dirname(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def _append(files):
    for path, text in files.items():
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)


def _replace(change):
    with open(change["path"], encoding="utf-8") as file:
        text = file.read()
    _write({change["path"]: text.replace(change["old"], change["new"])})


def _git(words):
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    print(done.stdout + done.stderr, end="", flush=True)


def _commit(message):
    _git(["add", "-A"])
    _git(["commit", "-qm", message])


def _result(answer):
    """The result file, bound to this run unless the script names another ``run``."""
    _write({RESULT: json.dumps({"v": 1, "run": os.environ.get("PERIPLUS_RUN", ""), **answer})})


def _detach(child):
    """Leave a process behind that has a session of its own. Its parent has ended when this returns."""
    if (first := os.fork()) == 0:
        os.setsid()
        if os.fork() == 0:
            if child.get("pid_file"):
                _write({child["pid_file"]: str(os.getpid())})
            if child.get("ignores_term"):
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(child.get("seconds", _FOREVER_S))
            if child.get("write"):
                _write(child["write"])
        os._exit(0)
    os.waitpid(first, 0)


def _fork(child):
    if os.fork() == 0:
        time.sleep(child.get("seconds", _FOREVER_S))
        os._exit(0)


def _hang(how):
    """Say nothing until killed: ``ignores_term`` as a program that does not listen, ``works`` as one that computes."""
    if how.get("ignores_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    until = time.monotonic() + how.get("seconds", _FOREVER_S)
    while time.monotonic() < until:
        if how.get("works"):
            sum(range(100_000))
        else:
            time.sleep(min(1, max(0, until - time.monotonic())))


def _flood(size):
    line = b"x" * 8_191 + b"\n"
    for _ in range(size // len(line) + 1):
        os.write(1, line)


def _wait_for(path):
    """Until a file is there: the test says when to go on."""
    while not os.path.exists(path):
        time.sleep(0.01)


def _raise_signal(name):
    os.kill(os.getpid(), getattr(signal, name))


def _environment(path):
    _write({path: json.dumps(dict(os.environ))})


ACTS = {
    "write": _write,
    "append": _append,
    "replace": _replace,
    "remove": os.remove,
    "commit": _commit,
    "git": _git,
    "result": _result,
    "question": lambda asked: _result({"status": "question", **asked}),
    "lie": lambda summary: _result({"status": "done", "summary": summary}),
    "review": lambda verdict: _result({"status": "done", **verdict}),
    "say": lambda text: _tell(type="text", text=text),
    "print": lambda text: print(text, flush=True),
    "usage": lambda spent: _tell(type="usage", **spent),
    "wants": lambda wanted: _tell(type="wants", **wanted),
    "session": lambda name: _tell(type="session", id=name),
    "environment": _environment,
    "detach": _detach,
    "fork": _fork,
    "hang": _hang,
    "flood": _flood,
    "wait_for": _wait_for,
    "python": lambda code: exec(code, {"os": os, "signal": signal, "subprocess": subprocess, "time": time}),
    "signal": _raise_signal,
    "fail": sys.exit,
    "exit": sys.exit,
}


def main(words):
    prompt = ""
    if "--prompt" in words:
        with open(words[words.index("--prompt") + 1], encoding="utf-8") as file:
            prompt = file.read()
    elif not sys.stdin.isatty():
        prompt = sys.stdin.read()
    if "--session" in words:
        _tell(type="session", id=words[words.index("--session") + 1])
    for act in read_script(prompt, os.environ):
        ((name, value),) = act.items()
        ACTS[name](value)


if __name__ == "__main__":
    main(sys.argv[1:])
