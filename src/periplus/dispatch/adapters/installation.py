"""Trial of an adapter on this machine without a request to a model: program, version, options, login, server and hooks."""

from __future__ import annotations

__all__ = ["check"]

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from periplus.dispatch.adapters.environment import built_environment, program_folders
from periplus.dispatch.adapters.model import Adapter
from periplus.project.agent_hooks.connection import Finding, Machine, program_path

_START_S: Final = 60.0
_BYTES_MAX: Final = 1 << 20
_VERSION: Final = re.compile(r"\d+\.\d+(?:\.\d+)?")


def check(adapter: Adapter, machine: Machine, scratch: str) -> list[Finding]:
    """Return the findings of a trial; ``scratch`` is an empty folder of no project, in which the program is started."""
    return list(_findings(adapter, machine, scratch))


def _findings(adapter: Adapter, machine: Machine, scratch: str) -> Iterator[Finding]:
    programs = adapter.programs or machine.command[:1]
    folders = machine.path or program_folders(machine.environment)
    found = next((path for name in programs if (path := program_path(name, folders))), "")
    if not found:
        wrong = f"{' or '.join(programs)} is not on the PATH"
        yield Finding(adapter.name, "program", "", "", wrong, f"Install {adapter.title}, or put it on your PATH.")
        return
    yield Finding(adapter.name, "program", found, f"{found} is found", "", "")
    environment = built_environment(
        machine.environment, adapter.environment, adapter.constants, agent=adapter.name, session="", run=""
    )
    start = (found, *(() if adapter.programs else machine.command[1:]))
    is_started = False
    for finding in (_version(adapter, start, scratch, environment), _options(adapter, start, scratch, environment)):
        if finding is not None:
            is_started = not finding.wrong
            yield finding
    if is_started or not adapter.probe.options:
        yield _login(adapter, machine.environment)
        if adapter.connects:
            yield from _connection(adapter, machine, scratch, environment)


def _version(adapter: Adapter, start: tuple[str, ...], scratch: str, environment: Mapping[str, str]) -> Finding | None:
    if not adapter.probe.options:
        return None  # a command of the user's, which need not know --version
    command = (*start, "--version")
    code, said = _output(command, scratch, environment)
    mend = f"Run `{shlex.join(command)}` to see what is wrong."
    if code != 0:
        return Finding(adapter.name, "version", start[0], "", _ended(code, said), mend)
    version = _VERSION.search(said)
    if version is None or not adapter.versions:
        return Finding(adapter.name, "version", start[0], said.partition("\n")[0][:80], "", "")
    is_tried = version[0] == adapter.versions or version[0].startswith(f"{adapter.versions}.")
    says = version[0] if is_tried else f"{version[0]}; tried with {adapter.versions}"
    return Finding(adapter.name, "version", start[0], says, "", "")


def _options(adapter: Adapter, start: tuple[str, ...], scratch: str, environment: Mapping[str, str]) -> Finding | None:
    if not adapter.probe.options:
        return None
    command = (*start, *adapter.probe.words)
    code, said = _output(command, scratch, environment)
    mend = f"Run `{shlex.join(command)}` to see what is wrong."
    if code != 0:
        return Finding(adapter.name, "starts", start[0], "", _ended(code, said), mend)
    lacking = [option for option in adapter.probe.options if option not in said]
    if lacking:
        wrong = f"this version has no {', '.join(lacking)}"
        return Finding(adapter.name, "starts", start[0], "", wrong, f"Install {adapter.title} {adapter.versions}.")
    return Finding(adapter.name, "starts", start[0], "starts without a person", "", "")


def _login(adapter: Adapter, environment: Mapping[str, str]) -> Finding:
    signed_in = adapter.signed_in(environment)
    if signed_in.is_found or not signed_in.is_known:
        mend = "" if signed_in.is_found else adapter.sign_in
        return Finding(adapter.name, "login", "", signed_in.says, "", mend)
    return Finding(adapter.name, "login", "", "", signed_in.says, adapter.sign_in)


def _connection(adapter: Adapter, machine: Machine, scratch: str, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Start the server and a hook in the environment that they have under this agent."""
    from periplus.interop.agents.connection_probe import ANSWER_S, probe_hook, probe_server

    server = (*machine.command, "mcp")
    probed = probe_server(server, cwd=scratch, environment=environment)
    mend = f"Run `{shlex.join(server)}` to see what is wrong; it must answer within {ANSWER_S:g} s."
    says = "" if probed.wrong else f"answers after {probed.seconds:.1f} s"
    yield Finding(adapter.name, "server answers", "", says, probed.wrong, mend if probed.wrong else "")
    hook = (*machine.command, "hook", "SessionStart", "--agent", adapter.connects)
    probed = probe_hook(hook, cwd=scratch, environment=environment)
    mend = f"Run `{shlex.join(hook)}` to see what is wrong."
    says = "" if probed.wrong else "silent where they have nothing to say"
    yield Finding(adapter.name, "hooks run", "", says, probed.wrong, mend if probed.wrong else "")


def _output(command: tuple[str, ...], cwd: str, environment: Mapping[str, str]) -> tuple[int | None, str]:
    """Run a program without input; return its exit code and output, None where it did not start or end in time."""
    import os
    import signal
    import subprocess
    import tempfile

    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(  # noqa: S603 - a program of the table or of the user's settings; no shell
                list(command), cwd=cwd, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            return None, error.strerror or str(error)
        try:
            code: int | None = process.wait(_START_S)
        except subprocess.TimeoutExpired:
            code = None
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # all of it has ended
        process.wait()
        output.seek(0)
        return code, output.read(_BYTES_MAX).decode("utf-8", "replace")


def _ended(code: int | None, said: str) -> str:
    first = said.strip().partition("\n")[0][:200]
    how = "it does not start, or does not end" if code is None else f"it ended with {code}"
    return f"{how}{f': {first}' if first else ''}"
