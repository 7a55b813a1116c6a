"""Child program of ``periplus.agent.sandbox.landlock``: restrict itself, then become the command.

It gets the allowed paths as one JSON document, followed by the words of the command. It needs nothing but Python. If any step fails,
nothing is started: half a sandbox is none.
"""

from __future__ import annotations

__all__ = ["main"]

import ctypes
import json
import os
import platform
import signal
import struct
import sys
from typing import Any

_EXECUTE, _WRITE, _READ, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE = 1 << 4, 1 << 5
_MAKE_CHAR, _MAKE_DIR, _MAKE_REG, _MAKE_SOCK = 1 << 6, 1 << 7, 1 << 8, 1 << 9
_MAKE_FIFO, _MAKE_BLOCK, _MAKE_SYM = 1 << 10, 1 << 11, 1 << 12
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_LOOK = _EXECUTE | _READ | _READ_DIR
_CHANGE = _WRITE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_FIFO | _MAKE_SYM | _REFER | _TRUNCATE
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NO_NEW_PRIVILEGES, _SECCOMP, _DEATH_SIGNAL, _DROP_BOUND = 38, 22, 1, 24
_FILTER_MODE = 2
_FAILED = 126
_ARCHITECTURES = {"x86_64": (0xC000003E, 41, 101, 0x40000000), "aarch64": (0xC00000B7, 198, 117, 0)}
_ALWAYS_REFUSED = {  # io_uring makes sockets without socket(); the others reach into other processes or the kernel
    "x86_64": (425, 426, 427, 310, 311, 321, 250, 248, 249, 175, 313, 246, 169, 165, 272, 308),
    "aarch64": (425, 426, 427, 270, 271, 280, 219, 217, 218, 105, 273, 104, 142, 40, 97, 268),
}


def main() -> None:
    asked = json.loads(sys.argv[1])
    words = sys.argv[2:]
    try:
        library = ctypes.CDLL(None, use_errno=True)
        _call(library.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0), "die with the parent")
        _drop_privileges(library)
        _call(library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "give up new privileges")
        os.chdir(asked["cwd"])
        _bind(library, asked)
        _filter(library, with_network=asked["network"])
    except (OSError, KeyError) as error:
        sys.stderr.write(f"the sandbox could not be made: {error}\n")
        sys.exit(_FAILED)
    try:
        os.execvp(words[0], words)  # noqa: S606 - what this program is for
    except OSError as error:
        sys.stderr.write(f"{words[0]}: {error.strerror}\n")
        sys.exit(127)


def _call(result: int, doing: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot {doing}: {os.strerror(code)}")
    return result


def _drop_privileges(library: Any) -> None:
    """Drop all capabilities, even for root."""
    for number in range(64):
        if library.prctl(_DROP_BOUND, number, 0, 0, 0) < 0:
            break
    header = struct.pack("=Ii", 0x20080522, 0)
    nothing = struct.pack("=6I", 0, 0, 0, 0, 0, 0)
    _call(library.capset(header, nothing), "drop capabilities")


def _bind(library: Any, asked: dict[str, Any]) -> None:
    version = asked["version"]
    handled = (1 << 13) - 1
    handled |= (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0) | (_IOCTL if version >= 5 else 0)
    network = 3 if version >= 4 and not asked["network"] else 0
    scoped = 3 if version >= 6 else 0
    size = 8 if version < 4 else 16 if version < 6 else 24
    attributes = struct.pack("=QQQ", handled, network, scoped)[:size]
    ruleset = _call(library.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0), "make a ruleset")
    for path in asked["read"]:
        _allow(library, ruleset, path, _LOOK & handled)
    for path in asked["write"]:
        _allow(library, ruleset, path, (_LOOK | _CHANGE) & handled)
    for path in asked["devices"]:
        _allow(library, ruleset, path, (_READ | _READ_DIR | _WRITE | _TRUNCATE | _IOCTL) & handled)
    _call(library.syscall(_RESTRICT_SELF, ruleset, 0), "restrict itself")
    os.close(ruleset)


def _allow(library: Any, ruleset: int, path: str, access: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return  # missing, or not accessible: nothing to allow
    try:
        if not os.path.isdir(f"/proc/self/fd/{fd}"):
            access &= _OF_FILES
        rule = struct.pack("=Qi", access, fd)
        _call(library.syscall(_ADD_RULE, ruleset, 1, rule, 0), f"allow {path}")
    finally:
        os.close(fd)


def _filter(library: Any, *, with_network: bool) -> None:
    """Refuse sockets of all families except the network's where it is allowed, and system calls that would get around the rest."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise OSError(0, f"no filter of system calls is known for {machine}")
    audit, socket, ptrace, other_abi = _ARCHITECTURES[machine]
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    allow, refuse, kill = 0x7FFF0000, 0x00050001, 0x80000000
    rows: list[tuple[int, int, int, int]] = [(load, 0, 0, 4), (equal, 1, 0, audit), (give, 0, 0, kill), (load, 0, 0, 0)]
    if other_abi:
        rows += [(at_least, 0, 1, other_abi), (give, 0, 0, refuse)]
    for number in (ptrace, *_ALWAYS_REFUSED[machine]):
        rows += [(equal, 0, 1, number), (give, 0, 0, refuse)]
    families = (2, 10) if with_network else ()
    rows += [(equal, 0, 2 + len(families) * 2, socket), (load, 0, 0, 16)]
    for family in families:
        rows += [(equal, 0, 1, family), (give, 0, 0, allow)]
    rows += [(give, 0, 0, refuse), (give, 0, 0, allow)]
    program = b"".join(struct.pack("=HBBI", *row) for row in rows)
    held = ctypes.create_string_buffer(program)
    header = struct.pack("=HxxxxxxQ", len(rows), ctypes.addressof(held))
    _call(library.prctl(_SECCOMP, _FILTER_MODE, header, 0, 0), "filter system calls")


if __name__ == "__main__":
    main()
