"""Calls of git for the exchange: environment, limits on output and silence, and errors for people.

A command that talks to another machine is ended after a period without output or progress: a stalled network would hold the lock of the
remote's cache, and block every later sync. Git is first asked to end, so that it ends its child processes, and killed only if it does not.
"""

from __future__ import annotations

__all__ = [
    "LIST_BYTES_MAX",
    "PREFIX",
    "SILENCE_S",
    "UNTOUCHED",
    "NoRoomError",
    "StalledError",
    "ask",
    "git_environment",
]

import os
import re
import selectors
import shlex
import tempfile
from collections.abc import Iterable, Mapping
from typing import IO, TYPE_CHECKING, Final

from periplus.base.errors import (
    ConflictError,
    DamageError,
    EnvironmentFailure,
    PeriplusError,
    environment_failure,
)

if TYPE_CHECKING:
    import subprocess

PREFIX: Final = "refs/periplus/"
LIST_BYTES_MAX: Final = 64 << 20
SILENCE_S: Final = 180.0  # servers may be silent while they check a push
UNTOUCHED: Final = "Nothing was changed there."
_LOOK_S: Final = 0.5
_ENDING_S: Final = 2.0
_READ_BYTES: Final = 1 << 16
_ERROR_BYTES_MAX: Final = 16_384
_HOOK_CHARS_MAX: Final = 300
_KEPT: Final = frozenset(
    {"GIT_ASKPASS", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "GIT_PROXY_COMMAND"}
)
_KEPT_FAMILIES: Final = ("GIT_SSH", "GIT_SSL_", "GIT_PROXY_SSL_", "GIT_HTTP_")
_SETTINGS_MAX: Final = 1_000
_GIVEN_SETTING: Final = re.compile(
    r"(?:http|url|credential|safe)\..+|core\.(?:sshcommand|askpass)", re.IGNORECASE | re.DOTALL
)
_PROGRESS: Final = re.compile(r"remote: +(?:\w+ )+\w+: +\d+(?:%| *$|, done)|remote: Total |remote: *$")
_FULL: Final = ("No space left on device", "Disk quota exceeded", "Out of diskspace", "write error")
_IN_THE_WAY: Final = ("failed to update ref", "failed to lock", "cannot lock ref", "failed to write")
_UNSTORED: Final = ("unpacker error", "unable to migrate objects")


class StalledError(EnvironmentFailure):
    """The other end has stopped answering."""


class NoRoomError(EnvironmentFailure):
    """The disk with git's cache of a remote is full."""


def git_environment(environment: Mapping[str, str], settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the environment to run git in; ``settings`` are configuration in addition to the login settings in ``environment``."""
    # Within a git hook, variables would lead git to the hook's repository. Settings for access and login are kept.
    kept = {
        key: value
        for key, value in environment.items()
        if not key.startswith("GIT_") or key in _KEPT or key.startswith(_KEPT_FAMILIES)
    }
    given = [*_given_settings(environment), *settings]
    for number, (key, value) in enumerate(given):
        kept |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return kept | {
        "GIT_CONFIG_COUNT": str(len(given)),
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }


def _given_settings(environment: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """Yield the access settings in the environment's git configuration, as build services set them."""
    count = environment.get("GIT_CONFIG_COUNT", "")
    for number in range(min(int(count), _SETTINGS_MAX) if count.isdecimal() else 0):
        key, value = environment.get(f"GIT_CONFIG_KEY_{number}"), environment.get(f"GIT_CONFIG_VALUE_{number}")
        if key is not None and value is not None and _GIVEN_SETTING.fullmatch(key):
            yield key, value


def ask(
    command: list[str], environment: dict[str, str], place: str, *, stdin: IO[bytes] | None = None,
    bytes_max: int = LIST_BYTES_MAX, pushes: str = "", may_fail: bool = False, silence_s: float | None = None,
) -> bytes:  # fmt: skip
    """Run git and return its output, at most ``bytes_max``.

    ``pushes`` is the lineage of a push; commands that talk to another machine have a ``silence_s``. Raises EnvironmentFailure (StalledError
    after that silence), and ConflictError for a push that came too late.
    """
    import subprocess

    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
                command, env=environment, stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
            )
        except FileNotFoundError as error:
            raise EnvironmentFailure("git is not installed", safe=UNTOUCHED,
                                     mend="Install git, then repeat the command.") from error  # fmt: skip
        except OSError as error:
            raise environment_failure(error, "run git") from error
        with process:
            out = _read(process, errors, bytes_max, silence_s, place)
            if len(out) > bytes_max:
                process.kill()
                raise DamageError(f"{place}: git returned more than {bytes_max:,} bytes", safe=UNTOUCHED)
        if process.returncode == 0:
            return out
        if may_fail:
            return b""
        errors.seek(max(0, os.fstat(errors.fileno()).st_size - _ERROR_BYTES_MAX))
        said = errors.read(_ERROR_BYTES_MAX).decode("utf-8", "replace")
    raise _failure(process.returncode, said, out.decode("utf-8", "replace"), place, pushes)


def _read(
    process: subprocess.Popen[bytes], errors: IO[bytes], bytes_max: int, silence_s: float | None, place: str
) -> bytes:
    assert process.stdout is not None
    if silence_s is None:
        return process.stdout.read(bytes_max + 1)
    out, told, silent_s = bytearray(), 0, 0.0
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        look_s = min(_LOOK_S, silence_s)
        while len(out) <= bytes_max:
            if selector.select(look_s):
                data = os.read(process.stdout.fileno(), _READ_BYTES)
                if not data:
                    return bytes(out)
                out += data
                silent_s = 0.0
                continue
            before, told = told, os.fstat(errors.fileno()).st_size
            silent_s = 0.0 if told != before else silent_s + look_s
            if silent_s >= silence_s:
                _end(process)
                raise StalledError(
                    f"{place} has not answered for {silence_s:,.0f} s",
                    safe="Everything received is kept. The next sync finds out whether the last push arrived.",
                    mend="Check whether `git ls-remote` with it answers, then repeat the command.",
                )
    return bytes(out)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask git to end, so that it ends its own child processes; kill it if it does not."""
    import subprocess

    process.terminate()
    try:
        process.wait(_ENDING_S)
    except subprocess.TimeoutExpired:
        process.kill()


def _failure(code: int, said: str, out: str, place: str, pushes: str) -> PeriplusError:
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("hint:")]
    told = [line for line in lines if line.startswith(("fatal:", "error:"))]
    remote = [
        line.removeprefix("remote:").strip()
        for line in lines
        if line.startswith("remote:") and not _PROGRESS.match(line)
    ]
    reason = _first(told, lines) or (remote[0] if remote else _last(code, lines))
    ours = [line for line in lines if not line.startswith("remote:") and "remote unpack failed" not in line]
    full = next((line for line in ours if any(word in line for word in _FULL)), "")
    if full:
        return NoRoomError(f"git cannot keep what it needs of {place} here: {full}", safe="No acknowledged write is lost.",
                           mend="Free some space, then repeat the command.")  # fmt: skip
    distrusted = re.search(r"dubious ownership in repository at '(.*)'", said)
    if distrusted:
        return EnvironmentFailure(
            f"git does not trust {distrusted[1]}: it belongs to another user",
            safe=UNTOUCHED,
            mend=f"If you do: git config --global --add safe.directory {shlex.quote(distrusted[1])}",
        )
    if pushes:
        rejected = next((line for line in out.splitlines() if line.startswith("!")), "")
        return _push_failure(rejected, " ".join(remote)[:_HOOK_CHARS_MAX], reason, place, pushes)
    if "bad config" in said:
        return EnvironmentFailure(f"git cannot read its settings: {reason}", safe=UNTOUCHED,
                                  mend="Mend that file, then repeat the command.")  # fmt: skip
    return EnvironmentFailure(f"git cannot reach or read {place}: {reason}", safe="Nothing was lost.",
                              mend="Try `git ls-remote` with it.")  # fmt: skip


def _first(told: list[str], lines: list[str]) -> str:
    """Return git's first error, with the line that explains it: ssh reports a failed connection before, others continue in the next line."""
    if not told:
        return ""
    at = lines.index(told[0])
    if "Could not read from remote repository" in told[0] and at:
        return lines[at - 1]
    return f"{told[0]} {lines[at + 1]}" if told[0].endswith(":") and at + 1 < len(lines) else told[0]


def _last(code: int, lines: list[str]) -> str:
    if code < 0:
        return f"git was ended by signal {-code}"
    return lines[-1] if lines else f"exit code {code}"


def _push_failure(rejected: str, hook: str, reason: str, place: str, lineage: str) -> PeriplusError:
    is_theirs = "[remote rejected]" in rejected  # rejected by the other end, not by git's own comparison
    if not is_theirs and any(words in rejected for words in ("fetch first", "non-fast-forward", "stale info")):
        return ConflictError(f"{place}: somebody else moved {PREFIX}{lineage}, which only this store writes", safe=UNTOUCHED,
                             mend="Repeat the command; if it persists, another store has the same lineage: see `periplus doctor`.")  # fmt: skip
    summary = rejected.rsplit("\t", maxsplit=1)[-1]
    if any(words in rejected for words in _UNSTORED):
        return EnvironmentFailure(
            f"{place} could not store the push: {hook or reason}", safe=f"{UNTOUCHED} What is here is as it was.",
            mend="Check its disk space, its permissions and `git fsck` there, then repeat the command.",
        )  # fmt: skip
    if rejected:
        words = f": {hook}" if hook else ""
        if any(said in rejected for said in _IN_THE_WAY):
            return EnvironmentFailure(
                f"{place} did not accept the push: {summary}{words}", safe=f"{UNTOUCHED} What is here is as it was.",
                mend="Repeat the command. If it persists, remove what is in the way there: a stale lock, or a ref below that name.",
            )  # fmt: skip
        return EnvironmentFailure(f"{place} rejected the push: {summary}{words}", safe=f"{UNTOUCHED} What is here is as it was.",
                                  mend="Ask the administrator of that repository to allow refs/periplus/*.")  # fmt: skip
    return EnvironmentFailure(
        f"git cannot push to {place}: {f'{reason} ({hook})' if hook and hook not in reason else reason}", safe="What is here is as it was.",
        mend="If it is read-only: set another URL for pushes (`git remote set-url --push`), or exchange through a folder (--with FOLDER). "
             "Otherwise repeat the command.",
    )  # fmt: skip
