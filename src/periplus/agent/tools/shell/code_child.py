"""Child program of ``periplus.agent.tools.shell.code_tools``, in the sandbox: run a program whose functions are tools.

It reads the program from one pipe, talks to the host over both, and needs nothing but Python. Like a Python prompt, it prints the value of
an expression at the end of the program.
"""

from __future__ import annotations

__all__ = ["ToolError", "main"]

import ast
import json
import os
import sys
from collections.abc import Callable
from typing import Any


class ToolError(Exception):
    """A tool failed; ``outcome`` says how."""

    def __init__(self, outcome: str, output: str) -> None:
        super().__init__(f"{outcome}: {output}")
        self.outcome, self.output = outcome, output


def main() -> None:
    answers = os.fdopen(int(sys.argv[1]), "rb")
    asks = int(sys.argv[2])
    for fd in (answers.fileno(), asks):
        os.set_inheritable(fd, False)  # child processes must not inherit them
    begun = json.loads(answers.readline())
    names = {"__name__": "__main__", "ToolError": ToolError}
    for name, fields in begun["names"].items():
        names[name] = _function(name, fields, answers, asks)
    tree = ast.parse(begun["source"], "<code>")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<code>", "exec"), names)  # noqa: S102 - what this program is for, in the sandbox
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), "<code>", "eval"), names)  # noqa: S307 - as above
        if value is not None:
            sys.stdout.write(f"{value if isinstance(value, str) else repr(value)}\n")


def _function(name: str, fields: list[str], answers: Any, asks: int) -> Callable[..., str]:
    def call(*args: Any, **named: Any) -> str:
        if len(args) > len(fields):
            raise TypeError(f"{name} takes {', '.join(fields)}")
        given = dict(zip(fields, args, strict=False)) | named
        data = memoryview(json.dumps({"name": name, "args": given}).encode() + b"\n")
        while data:
            data = data[os.write(asks, data) :]
        line = answers.readline()
        if not line:
            raise ToolError("cancelled", "the host is gone")
        answer = json.loads(line)
        if answer["outcome"] != "ok":
            raise ToolError(answer["outcome"], answer["output"])
        return str(answer["output"])

    call.__name__ = name
    return call


if __name__ == "__main__":
    main()
