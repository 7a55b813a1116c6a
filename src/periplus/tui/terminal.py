"""The input line at the bottom of the terminal (prompt_toolkit), and the output above it."""

from __future__ import annotations

__all__ = ["Colours", "is_hung_up", "talk"]

import os
import re
import select
import signal
import sys
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, Final

from periplus.base.errors import UsageError
from periplus.tui.conversation import COMMANDS, Conversation

_OFFERED_MAX: Final = 50
_LOOKED_AT_MAX: Final = 5_000
_SGR: Final = re.compile(r"(\x1b\[[0-9;]*m)")
_PASSED: Final = frozenset({".git", ".periplus", "node_modules", ".venv", "__pycache__"})


def talk(conversation: Conversation, root: str, *, colour: bool) -> None:
    """Read lines at the terminal until the person leaves. Raises UsageError if prompt_toolkit is not installed.

    If the terminal is closed, the turn is interrupted as it is, and continued the next time.
    """
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import Completer, Completion
        from prompt_toolkit.key_binding import KeyBindings
        from prompt_toolkit.output import ColorDepth
        from prompt_toolkit.patch_stdout import patch_stdout
        from prompt_toolkit.utils import is_dumb_terminal
    except ImportError as error:
        raise UsageError("a session at the terminal needs the package prompt_toolkit", safe="Nothing was run.",
                         mend="Install it: pip install 'periplus[tui]', or run one task: periplus run \"…\"") from error  # fmt: skip

    class Words(Completer):
        def get_completions(self, document: Any, _event: Any) -> Iterable[Any]:
            word = document.get_word_before_cursor(WORD=True)
            if word.startswith("/") and document.text_before_cursor.strip() == word:
                yield from (Completion(one, -len(word)) for one in COMMANDS if one.startswith(word))
            elif word.startswith("@"):
                yield from (Completion("@" + path, -len(word)) for path in _paths(root, word[1:]))

    keys = KeyBindings()

    @keys.add("escape", eager=True)
    def _(_event: Any) -> None:
        conversation.stop()

    # A terminal that cannot rewrite lines gets no status line, and output would follow the prompt.
    sign = "" if is_dumb_terminal() else "› "
    conversation.tells_state = not sign
    prompt: Any = PromptSession(
        completer=Words(), complete_while_typing=False, key_bindings=keys, bottom_toolbar=conversation.status,
        refresh_interval=0.5, color_depth=None if colour else ColorDepth.DEPTH_1_BIT, enable_suspend=True,
    )  # fmt: skip
    with patch_stdout(raw=True), redirect_stdout(Colours(sys.stdout)), redirect_stderr(Colours(sys.stderr)):
        conversation.begin()
        try:
            while not conversation.is_over:
                try:
                    conversation.submit(prompt.prompt(sign))
                except KeyboardInterrupt:
                    conversation.stop()
                except (EOFError, OSError) as error:
                    if is_hung_up(0):
                        # The terminal is gone. SIGHUP may come too late, or be ignored.
                        signal.signal(signal.SIGHUP, signal.SIG_DFL)
                        signal.raise_signal(signal.SIGHUP)
                    elif isinstance(error, OSError):
                        raise
                    break
        finally:
            conversation.leave()


class Colours:
    """A stream that passes only sequences for colours and weights; other control sequences become ``?``."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        parts = _SGR.split(text)
        self._stream.write("".join(part if at % 2 else _unarmed(part) for at, part in enumerate(parts)))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _unarmed(text: str) -> str:
    return text.replace("\x1b", "?").replace("\x9b", "?")


def is_hung_up(fd: int) -> bool:
    """Return whether the terminal was closed.

    It counts as a terminal until its processes get the signal, while reads end before that, so both are checked.
    """
    poll = select.poll()
    poll.register(fd, 0)  # poll reports a hang-up without being asked
    return not os.isatty(fd) or any(event & select.POLLHUP for _, event in poll.poll(0))


def _paths(root: str, begun: str) -> list[str]:
    """Return files of the project whose path contains the typed text, the shortest first."""
    found: list[str] = []
    seen = 0
    for place, folders, names in os.walk(root):
        folders[:] = sorted(folder for folder in folders if folder not in _PASSED)
        for one in names:
            seen += 1
            path = os.path.relpath(os.path.join(place, one), root)
            if begun.lower() in path.lower() and path.isprintable() and " " not in path:
                found.append(path)
        if seen > _LOOKED_AT_MAX:
            break
    return sorted(found, key=lambda path: (len(path), path))[:_OFFERED_MAX]
