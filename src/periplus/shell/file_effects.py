"""File effects of a judged command: files written, removed or read, devices, and the rules of programs for files."""

from __future__ import annotations

__all__ = ["FileEffects", "Found", "Scope"]

import fnmatch
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Final

from periplus.shell.command_words import UNKNOWN, pattern_place, split
from periplus.shell.program_tables import (
    CREDENTIAL_FOLDERS,
    CREDENTIAL_NAMES,
    DEVICE,
    HARMLESS,
    NOT_READ,
    STARTING_NAMES,
    SYSTEM_FOLDERS,
    SYSTEM_TOPS,
    TAKES_FOLDERS,
)
from periplus.shell.syntax import Pipeline
from periplus.shell.verdict import Judgement, Level, Run

_LEVELS: Final[tuple[Level, ...]] = ("plain", "unclear", "destructive", "unparsed", "catastrophic")
_WRITES_MAX: Final = 10_000
_WIDE: Final = frozenset({"*", ".*", "**", "?*", "*.*", ".??*", ".[!.]*", "[!.]*", "{*,.*}"})
_NO_FILES: Final = re.compile(r"/dev/(?:null|zero|full|tty|stdin|stdout|stderr|fd/\d+|pts/\d+)|-")
_STILL: Final = frozenset({"", "cat", "true", ":"})  # harmless values of a pager or an editor
_SED_STARTS: Final = re.compile(
    r"(?:^|[;\n{}]|/[a-zA-Z0-9]*)\s*(?:\d+|\$|/[^/\n]*/)?\s*(?:[wW]\s+\S|e(?:\s|$))|/[gpiImM0-9]*[ew](?:\s|$|;)"
)


class Found(Exception):  # noqa: N818 - a way out, not an error
    def __init__(self, reason: str) -> None:
        self.reason = reason


class Scope:
    """State of the shell at a command. A copy is a subshell."""

    def __init__(
        self, folder: str, values: Mapping[str, list[str]], functions: Mapping[str, tuple[Pipeline, ...]]
    ) -> None:
        self.folder = folder
        self.values = dict(values)
        self.functions = dict(functions)
        self.calls: tuple[str, ...] = ()
        self.input: tuple[str | None, ...] = ()  # input of a group around the command; None if unknown

    def copy(self) -> Scope:
        made = Scope(self.folder, self.values, self.functions)
        made.calls, made.input = self.calls, self.input
        return made


class FileEffects:
    """Findings so far, and the rules of programs that only affect files."""

    def __init__(self, home: str, workspace: str) -> None:
        self.home = home
        self.workspace = workspace
        self.level: Level = "plain"
        self.reason = ""
        self._runs: list[Run] = []
        self._writes: dict[str, bool] = {}  # path, and whether by a redirection
        self._rewrites: dict[str, None] = {}
        self._sets: dict[str, None] = {}
        self._is_beyond = self._hides = False
        self._elsewhere = 0  # depth within containers and other machines
        self._steps = 0

    def result(self, level: Level, reason: str) -> Judgement:
        redirected = frozenset(path for path, is_redirected in self._writes.items() if is_redirected)
        return Judgement(
            level,
            reason,
            tuple(self._runs),
            tuple(self._writes),
            redirected,
            tuple(self._sets),
            self._is_beyond,
            self._hides,
            tuple(self._rewrites),
        )

    def _note(self, level: Level, reason: str) -> None:
        if _LEVELS.index(level) > _LEVELS.index(self.level):
            self.level, self.reason = level, reason

    def _hide(self, reason: str) -> None:
        self._hides = True
        self._note("unclear", reason)

    def _set(self, name: str, values: Sequence[str]) -> None:
        """Note an assigned variable, of this shell or of a program it starts."""
        self._sets[name] = None
        is_still = name.endswith(("PAGER", "EDITOR", "VISUAL")) and _STILL.issuperset(values)
        if STARTING_NAMES.fullmatch(name) and not is_still:
            self._note("unclear", f"{name} makes programs run or load other code")

    def _write(self, target: str, scope: Scope, *, is_redirected: bool = False) -> None:
        """Note a file of this machine that would be written or deleted."""
        if self._elsewhere or _NO_FILES.fullmatch(target):
            return
        if UNKNOWN in target:
            self._note("unclear", "which file would be written is only known when it runs")
        elif len(self._writes) < _WRITES_MAX:
            self._writes[posixpath.join(scope.folder, target)] = is_redirected

    def _run_rm(self, arguments: Sequence[str], scope: Scope, _depth: int) -> None:
        options, targets = split(arguments)
        if "--no-preserve-root" in options:
            raise Found("rm --no-preserve-root would remove the root")
        is_deep = any(
            option in ("-r", "-R") or ("--recursive".startswith(option) and len(option) > 3)
            or (option[1:2] != "-" and set("rR") & set(option[1:]))
            for option in options
        )  # fmt: skip
        self._note("destructive", "rm deletes files")
        for target in targets:
            self._write(target, scope)
            self._removal(target, scope, is_deep=is_deep)

    def _run_touch(self, arguments: Sequence[str], scope: Scope, _depth: int) -> None:
        for target in split(arguments)[1]:
            self._write(target, scope)

    _run_mkdir = _run_touch

    _run_rmdir = _run_touch

    def _run_sed(self, arguments: Sequence[str], scope: Scope, _depth: int) -> None:
        """Note the files that ``sed -i`` changes; its script may also write files and start programs (GNU sed: w, W,
        e).
        """
        options, operands = split(arguments)
        if any(option.startswith("--in-place") or re.match(r"-[nErsuz]*i", option) for option in options):
            is_given = any(re.fullmatch(r"-[nErsuz]*[ef]|--expression.*|--file.*", option) for option in options)
            for target in operands if is_given else operands[1:]:
                self._write(target, scope)
        scripts = [*operands[:1], *(option for option in options if option.startswith("--expression="))]
        if any(_SED_STARTS.search(script) for script in scripts):
            self._note("unclear", "sed would write a file, or start a command")

    def _run_sort(self, arguments: Sequence[str], scope: Scope, _depth: int) -> None:
        """Note the file of ``-o FILE``, also for programs that download."""
        for at, argument in enumerate(arguments):
            name, is_given, value = argument.partition("=")
            if name in ("-o", "--output", "-O", "--output-document", "--compress-program") and not is_given:
                value = "".join(arguments[at + 1 : at + 2])
            elif not is_given and re.match(r"-[oO].", argument):
                value = argument[2:]
            elif name not in ("--output", "--output-document", "--compress-program"):
                continue
            if name == "--compress-program":
                self._note("unclear", "sort would start a program that is named in the call")
            elif value:
                self._write(value, scope)

    _run_wget = _run_sort

    def _run_curl(self, arguments: Sequence[str], scope: Scope, depth: int) -> None:
        self._run_sort([one for one in arguments if one != "-O"], scope, depth)

    def _run_shred(self, arguments: Sequence[str], scope: Scope, _depth: int) -> None:
        for target in split(arguments)[1]:
            self._write(target, scope)
            self._removal(target, scope, is_deep=False)

    _run_unlink = _run_shred

    _run_truncate = _run_shred

    def _run_mv(self, arguments: Sequence[str], scope: Scope, _depth: int) -> None:
        options, targets = split(arguments)
        is_named = any(option.startswith(("-t", "--target-directory")) for option in options)
        for target in targets:
            self._write(target, scope)
        for target in targets if is_named else targets[:-1]:
            self._removal(target, scope, is_deep=True, verb="moved away")

    def _run_chmod(self, arguments: Sequence[str], scope: Scope, _depth: int) -> None:
        options, targets = split(arguments)
        if any(option == "--recursive" or (option[1:2] != "-" and "R" in option) for option in options):
            self._note("destructive", "permissions would be changed for a whole tree")
            for target in targets[1:] or targets:
                self._removal(target, scope, is_deep=True, verb="given other permissions", is_inner_fine=True)

    _run_chown = _run_chmod

    _run_chgrp = _run_chmod

    def _run_dd(self, arguments: Sequence[str], scope: Scope, _depth: int) -> None:
        for argument in arguments:
            if argument.startswith("of="):
                self._written(argument[3:], scope)
        self._note("destructive", "dd overwrites data")

    def _run_tee(self, arguments: Sequence[str], scope: Scope, _depth: int) -> None:
        for target in split(arguments)[1]:
            self._written(target, scope)

    def _run_cp(self, arguments: Sequence[str], scope: Scope, _depth: int) -> None:
        for at, argument in enumerate(arguments):
            name, is_given, value = argument.partition("=")
            if name in ("-t", "--target-directory"):
                self._written(value if is_given else "".join(arguments[at + 1 : at + 2]), scope)
                return
        targets = split(arguments)[1]
        if len(targets) > 1:
            self._written(targets[-1], scope)

    _run_install = _run_cp

    _run_ln = _run_cp

    def _run_rsync(self, arguments: Sequence[str], scope: Scope, _depth: int) -> None:
        options, targets = split(arguments)
        if any(option.startswith(("--del", "--remove-source")) for option in options) and targets:
            self._note("destructive", "rsync --delete deletes files")
            if ":" not in targets[-1]:
                self._removal(targets[-1], scope, is_deep=True)

    def _path(self, value: str, scope: Scope) -> str:
        return posixpath.normpath(posixpath.join(scope.folder, value)).replace("//", "/")

    def _is_top(self, path: str) -> bool:
        return (
            path in SYSTEM_TOPS
            or path in ("/", self.home)
            or re.fullmatch(r"/(home|Users)/[^/]+|/root", path) is not None
        )

    def _removal(
        self, target: str, scope: Scope, *, is_deep: bool, verb: str = "removed", is_inner_fine: bool = False
    ) -> None:
        """Note a removal, with all below it where ``is_deep``. Raises Found for protected paths."""
        if UNKNOWN in target:
            if self._is_top(self._path(target.replace(UNKNOWN, "").rstrip("*") or ".", scope)):
                self._note("destructive", f"if a variable is empty, {target.replace(UNKNOWN, '…')} would be {verb}")
            self._note("unclear", f"what would be {verb} is only known when it runs")
            return
        path = self._path(target, scope)
        parent, name = posixpath.split(path)
        if name in _WIDE:
            path, is_deep = parent, True  # all that lies in it
        elif any(sign in path for sign in "*?["):
            for protected in (*SYSTEM_TOPS, self.home, self.workspace):
                if protected and protected.count("/") == path.count("/") and fnmatch.fnmatchcase(protected, path):
                    raise Found(f"{protected} would be {verb} ({target})")
            path = parent if parent not in ("/", self.home) else path
        if not is_deep:
            if path.startswith(tuple(folder + "/" for folder in ("/etc", "/boot", "/bin", "/sbin", "/lib"))):
                raise Found(f"{path} would be {verb}: it belongs to the system")
            if self._is_credential(path):
                raise Found(f"{path} would be {verb}: it holds credentials")
            return
        if path == "/" or path in SYSTEM_TOPS:
            raise Found(f"{path} would be {verb} with all below it")
        if path == self.home or self.home.startswith(path + "/") or re.fullmatch(r"/(home|Users)/[^/]+|/root", path):
            raise Found(f"{path} would be {verb}: it is a home folder, or contains one")
        if not is_inner_fine and path.startswith(tuple(folder + "/" for folder in SYSTEM_FOLDERS)):
            raise Found(f"{path} would be {verb}: it belongs to the system")
        if self._is_credential(path) or any(path == posixpath.join(self.home, name) for name in CREDENTIAL_FOLDERS):
            raise Found(f"{path} would be {verb}: it holds credentials")
        if self.workspace and not is_inner_fine:
            if path == self.workspace or self.workspace.startswith(path + "/"):
                raise Found(f"{path} would be {verb}: it is the project, or contains it")
            if path == posixpath.join(self.workspace, ".git"):
                raise Found(f"{path} would be {verb}: the project's whole history")

    def _written(self, target: str, scope: Scope, *, is_redirected: bool = False) -> None:
        self._write(target, scope, is_redirected=is_redirected)
        path = self._path(target.replace(UNKNOWN, "unknown"), scope)
        if DEVICE.match(path):
            raise Found(f"{path} would be overwritten: it is a device")
        if path.startswith(
            tuple(folder + "/" for folder in ("/etc", "/boot", "/bin", "/sbin", "/lib", "/usr/bin", "/usr/lib", "/sys"))
        ) or (path.startswith("/proc/") and not path.startswith("/proc/self/")):
            raise Found(f"{path} would be written: it belongs to the system")
        if self._is_credential(path):
            raise Found(f"{path} would be written: it holds credentials")

    def _credentials(self, program: str, arguments: Sequence[str], scope: Scope) -> None:
        if program in NOT_READ:
            return
        skipped = pattern_place(program, arguments) if program in HARMLESS else None
        if program in HARMLESS and skipped is None:
            return
        folders = {posixpath.join(self.home, name) for name in CREDENTIAL_FOLDERS}
        is_deep = program in TAKES_FOLDERS or any(
            re.fullmatch(r"-[a-zA-Z]*[rRa][a-zA-Z]*|--recursive|--archive", one) for one in arguments
        )
        for at, argument in enumerate(arguments):
            if at == skipped or UNKNOWN in argument:
                continue
            for piece in {
                argument,
                argument.lstrip("@"),
                argument.partition("=")[2].lstrip("@"),
                argument.partition(":")[0],
            }:
                if not piece or not ("/" in piece or piece.startswith(".")):
                    continue
                path = self._path(self._untilde(piece), scope)
                if self._is_credential(path) or (is_deep and path in folders):
                    raise Found(f"{piece} holds credentials: {program} would read or send them")

    def _untilde(self, value: str) -> str:
        return self.home + value[1:] if value == "~" or value.startswith("~/") else value

    def _is_credential(self, path: str) -> bool:
        if path in ("/etc/shadow", "/etc/gshadow", "/etc/sudoers") or re.fullmatch(r"/proc/[^/]+/environ", path):
            return True
        for home in (self.home, "/root"):
            if path.startswith(home + "/"):
                rest = path[len(home) + 1 :]
                if any(fnmatch.fnmatchcase(rest, pattern) for pattern in CREDENTIAL_NAMES):
                    return not rest.endswith(".pub")
        return re.fullmatch(r"/(?:home|Users)/[^/]+/\.ssh/id_[a-z0-9_]+", path) is not None

    def _devices(self, program: str, arguments: Sequence[str], scope: Scope) -> None:
        if program in ("cp", "mv", "shred", "install", "fdisk", "parted", "hdparm", "badblocks"):
            for argument in arguments:
                if DEVICE.match(self._path(argument, scope)) and (program != "cp" or argument == arguments[-1]):
                    raise Found(f"{program} would overwrite {argument}: it is a device")
