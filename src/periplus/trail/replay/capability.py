"""Capabilities of a replay: actions and scopes, in layers of which each must allow an action.

A layer is a set of grants. Delegation adds a layer and cannot remove one, so it only narrows, whatever the scopes are.
A grant is written ``action`` or ``action:scope``: for files the scope is a glob of paths (``*`` within a name, ``**``
over any number of folders), for commands the first words of a command.

A command is shell text. A grant with a scope covers only a plain command (words and quotes, nothing that a shell would
interpret), which then runs without a shell; any other command needs ``command`` without a scope.
"""

from __future__ import annotations

__all__ = ["ACTIONS", "Action", "Capabilities", "CommandForm", "Grant", "plain_words"]

import re
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from periplus.base.errors import UsageError
from periplus.base.text.path_globs import glob_matches

Action: TypeAlias = Literal["read", "list", "search", "write", "delete", "command", "test", "commit", "network"]
CommandForm: TypeAlias = Literal["shell", "words", "denied"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)

_PATHS: Final = frozenset({"read", "list", "search", "write", "delete"})
_WORDS: Final = frozenset({"command", "test"})
_SCOPE_CHARS_MAX: Final = 1_000
_GRANTS_MAX: Final = 1_000
_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+=:,./ '\"-]*")


class Grant(NamedTuple):
    """A permitted action. An empty ``scope`` permits it for anything."""

    action: Action
    scope: str = ""

    @classmethod
    def read(cls, text: str) -> Grant:
        """Parse a grant. Raises UsageError."""
        name, _, scope = text.partition(":")
        action = next((one for one in ACTIONS if one == name), None)
        if action is None:
            raise UsageError(f"unknown action {name[:40]!r}", mend=f"One of: {', '.join(ACTIONS)}.")
        if len(scope) > _SCOPE_CHARS_MAX:
            raise UsageError(f"a scope of over {_SCOPE_CHARS_MAX:,} characters")
        if scope and action not in _PATHS | _WORDS:
            raise UsageError(f"{action} has no scope", mend=f"Write just {action}.")
        if action in _WORDS and scope and plain_words(scope) is None:
            raise UsageError(f"{scope[:40]!r} is not the beginning of a plain command", mend="Write its first words.")
        return cls(action, scope)


class Capabilities:
    """A set of permissions: every layer must have a grant for an action. Immutable."""

    __slots__ = ("_layers",)

    def __init__(self, grants: Iterable[Grant]) -> None:
        layer = tuple(grants)
        if len(layer) > _GRANTS_MAX:
            raise UsageError(f"over {_GRANTS_MAX:,} grants")
        self._layers: tuple[tuple[Grant, ...], ...] = (layer,)

    @classmethod
    def of(cls, *texts: str) -> Capabilities:
        return cls(map(Grant.read, texts))

    @classmethod
    def everything(cls) -> Capabilities:
        return cls(map(Grant, ACTIONS))

    def narrowed(self, grants: Iterable[Grant]) -> Capabilities:
        """Return these capabilities limited to ``grants``, for delegation."""
        inner = Capabilities(grants)
        inner._layers = (*self._layers, *inner._layers)
        return inner

    def allows(self, action: Action, path: str | None = None) -> bool:
        """Return whether ``action`` is allowed on ``path``; without a path, whether it is allowed on anything at all."""
        return all(
            any(
                grant.action == action and (path is None or not grant.scope or glob_matches(path, grant.scope))
                for grant in layer
            )
            for layer in self._layers
        )

    def allows_everywhere(self, action: Action) -> bool:
        """Return whether ``action`` is allowed on every path."""
        return all(any(grant.action == action and not grant.scope for grant in layer) for layer in self._layers)

    def command_form(self, action: Literal["command", "test"], text: str) -> CommandForm:
        """Return how a command may run: by a shell, as words without one, or not at all."""
        forms = {_form(layer, action, text) for layer in self._layers}
        return "denied" if "denied" in forms else "words" if "words" in forms else "shell"


def plain_words(text: str) -> list[str] | None:
    """Return the words of a command that means the same without a shell; None for any other."""
    import shlex

    if not _PLAIN.fullmatch(text):
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    return words if words and words[0] and "=" not in words[0] and words[0][0] != "-" else None


def _form(layer: tuple[Grant, ...], action: str, text: str) -> CommandForm:
    scopes = [grant.scope for grant in layer if grant.action == action]
    if "" in scopes:
        return "shell"
    words = plain_words(text)
    if words is None:
        return "denied"
    begins = (plain_words(scope) or [] for scope in scopes)
    return "words" if any(words[: len(begin)] == begin for begin in begins) else "denied"
