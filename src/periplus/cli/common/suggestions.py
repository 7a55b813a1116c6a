"""Suggestions for mistyped commands and options. Loaded only after a mistake."""

from __future__ import annotations

__all__ = ["advice", "command_meant", "help_of", "take_up", "words_left_over"]

import argparse
import difflib
import os
import re
from collections.abc import Iterable, Sequence
from typing import Final

from periplus.base.errors import UsageError
from periplus.cli.common.examples import EXAMPLES

_TYPED_MAX: Final = 200
_TEXTS: Final = ("TEXT", "QUESTION", "TASK")
_CHOICE: Final = re.compile(r"argument ACTION: invalid choice: '(.*?)' \(choose from (.*)\)", re.DOTALL)

# Names that other programs use.
_MEANT: Final[dict[str, str]] = {
    **dict.fromkeys(("search", "find", "query", "ask", "grep", "lookup", "get-memory"), "recall"),
    **dict.fromkeys(("add", "save", "note", "store", "learn", "write", "put", "new", "decide", "memorize"), "remember"),
    **dict.fromkeys(("ls", "list", "history", "tail", "journal"), "log"),
    **dict.fromkeys(("cat", "get", "view", "inspect"), "show"),
    **dict.fromkeys(("install", "integrate", "enable", "attach"), "connect"),
    **dict.fromkeys(("uninstall", "disable", "detach"), "disconnect"),
    **dict.fromkeys(("chat", "agent", "start", "exec", "do", "talk"), "run"),
    **dict.fromkeys(("config", "configure", "login", "auth", "settings"), "setup"),
    **dict.fromkeys(("revert", "rollback", "restore-record"), "undo"),
    **dict.fromkeys(("edit", "update", "change"), "evolve"),
    **dict.fromkeys(("delete", "remove", "rm", "resolve", "close", "archive"), "state"),
    **dict.fromkeys(("lock", "reserve"), "claim"),
    **dict.fromkeys(("todo", "task", "tasks", "step", "steps", "next"), "plan"),
    **dict.fromkeys(("mail", "message", "messages", "send"), "inbox"),
    **dict.fromkeys(("backup", "dump"), "export"),
    **dict.fromkeys(("restore", "load"), "import"),
    **dict.fromkeys(("push", "pull", "share"), "sync"),
    **dict.fromkeys(("repair", "fsck", "fix", "validate", "health"), "doctor"),
    **dict.fromkeys(("serve", "server"), "mcp"),
    **dict.fromkeys(("forget", "purge", "wipe", "scrub", "mask"), "redact"),
    **dict.fromkeys(("stale", "expired"), "review"),
    **dict.fromkeys(("trails", "sessions", "transcript", "runs", "record", "replay"), "trail"),
    **dict.fromkeys(("demo", "tutorial", "quickstart"), "tour"),
    **dict.fromkeys(("info", "stats"), "status"),
    **dict.fromkeys(("model", "key", "keys"), "models"),
    **dict.fromkeys(("context-for", "prepare"), "brief"),
}


def command_meant(typed: str, names: Sequence[str]) -> str:
    """Return the command that ``typed`` resembles, or that has this name in other programs; empty if there is none."""
    near = difflib.get_close_matches(typed, names, 1)
    return near[0] if near else _MEANT.get(typed.lower(), "")


def advice(message: str, prog: str, argv: Sequence[str]) -> tuple[str, str]:
    """Return ``(wrong, mend)`` for an error of argparse: its message, and a similar choice or an example."""
    see = f"See `{prog} --help`."
    words = [word for word in argv if not word.startswith("-")]
    leaf = _leaf(words)
    found = _CHOICE.match(message)
    if found is not None:
        typed, choices = found[1][:_TYPED_MAX], re.findall(r"'(.*?)'", found[2])
        near = difflib.get_close_matches(typed, choices, 1)
        if not near and prog.endswith(" claim") and (os.sep in typed or "." in typed):
            near = [f"take {typed}"]
        guess = f"Did you mean `{prog} {near[0]}`? " if near else ""
        return message, guess + see
    if message.endswith("required: ACTION"):
        actions = [key.split()[1] for key in EXAMPLES if key.startswith(f"{words[0]} ")]
        return message, f"It is one of {', '.join(actions)}. {see}"
    example = f"For example `periplus {EXAMPLES[leaf][0]}`. " if leaf and "required" in message else ""
    return message, example + see


def help_of(argv: Sequence[str]) -> str:
    """Return a pointer to the help, for an error without better advice."""
    leaf = _leaf([word for word in argv if not word.startswith("-")])
    return f"See `{f'periplus {leaf}'.strip()} --help`."


def _leaf(words: Sequence[str]) -> str:
    return next((key for key in (" ".join(words[:2]), " ".join(words[:1])) if key in EXAMPLES), "")


def take_up(
    extra: Sequence[str], leaf: argparse.ArgumentParser, typed: argparse.Namespace, argv: Sequence[str]
) -> bool:
    """Assign words of ``argv`` that follow an option to their arguments; return whether all were assigned.

    argparse fills an optional argument with nothing as soon as an option precedes its word, as in ``import FILE --dry-run
    FOLDER``, and ends a list there (https://github.com/python/cpython/issues/59317).
    """
    if any(word.startswith("-") for word in extra):
        return False
    words = list(extra)
    for place in leaf._actions:  # noqa: SLF001 - argparse offers no other way
        if place.option_strings or place.type is not None or place.choices is not None:
            continue
        found = getattr(typed, place.dest)
        is_free = found == place.default and found not in argv  # the default may have been typed
        if place.nargs == "?" and is_free and words:
            setattr(typed, place.dest, words.pop(0))
        elif place.nargs in ("*", "+"):
            setattr(typed, place.dest, [*(getattr(typed, place.dest) or ()), *words])
            words = []
    return not words


def words_left_over(extra: Sequence[str], leaf: argparse.ArgumentParser, typed: argparse.Namespace) -> UsageError:
    """Return the error for words without an argument: a text without quotes, or a mistyped option."""
    see = f"See `{leaf.prog} --help`."
    wrong = f"unrecognized arguments: {' '.join(extra)[:_TYPED_MAX]}"
    options = [name for action in leaf._actions for name in action.option_strings]  # noqa: SLF001 - argparse offers no other way
    for word in extra:
        if word.startswith("--"):
            near = difflib.get_close_matches(word.partition("=")[0], options, 1, 0.7)
            return UsageError(wrong, mend=(f"Did you mean {near[0]}? " if near else "") + see)
        if re.fullmatch(r"-[a-zA-Z]", word):
            near = [name for name in options if name.startswith(f"--{word[1].lower()}")]
            return UsageError(wrong, mend=(f"Did you mean {' or '.join(near)}? " if near else "") + see)
    places = [action for action in leaf._actions if not action.option_strings]  # noqa: SLF001 - likewise
    if not places and (found := _leaf(leaf.prog.split()[1:])):
        see = f"For example `periplus {EXAMPLES[found][0]}`. {see}"
    text = places[-1] if places else None
    if (
        text is None
        or text.metavar not in _TEXTS
        or text.nargs not in (None, "?")
        or any(w.startswith("-") for w in extra)
    ):
        return UsageError(wrong, mend=see)
    before = [str(getattr(typed, action.dest)) for action in places[:-1]]
    whole = " ".join([str(getattr(typed, text.dest)), *extra])
    if len(whole) > _TYPED_MAX:
        whole = f"{whole[:_TYPED_MAX]}…"
    quoted = f'"{whole}"' if not set('"$`\\!') & set(whole) else "'" + whole.replace("'", "'\\''") + "'"
    return UsageError(
        f"{text.metavar} has several words and needs quotes",
        mend=f"Type: {' '.join([leaf.prog, *_shown(before), quoted])}",
    )


def _shown(words: Iterable[str]) -> list[str]:
    return [word if re.fullmatch(r"[\w./@:-]+", word) else f'"{word}"' for word in words]
