"""Title of a session: the first meaningful prompt, else its actions. Pure."""

from __future__ import annotations

__all__ = ["Done", "better_title", "is_meaningful", "says_something"]

import re
from collections.abc import Sequence
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+")
_PICTURE: Final = re.compile(r"\[(?:Image|Pasted text|File)[^\]\n]{0,80}\]")
_READ_CHARACTERS: Final = 2_000
_NAMED_MAX: Final = 3
_KEPT_MAX: Final = 1_000
_CLIENTS_OWN: Final = frozenset(
    "/add /clear /compact /config /cost /drop /exit /help /login /logout /mcp /memory /model /new /permissions /quit /q /reset /resume /status "
    "/theme /tokens /undo /usage /vim".split()
)
# Words that agree, greet, thank, choose, or ask to go on: alone they do not tell the subject.
_EMPTY: Final = frozenset(
    """
    a about after again ahead all alright also an and answer any anything are as at be best better both but by can carry choice choose come
    continue cool correct could course d dear did do does doing done either everything exactly fine first for from fully get give go going good got great
    hello hey hi hmm how i if in is it its just keep kindly last let lets lgtm ll looks made make makes may me mind more move my need next nice no nope not now
    of off ok okay on one ones option or other our out p perfect please pls plz proceed question ready really reply resume right s said same say second
    see send set should so some sounds start step still sure t test testing thank thanks that the them then there these they thing things think third this those thx
    time to too try ty u up ur us ve very wait want was way we well what whatever when which will with works would y yea yeah yep yes yo you your yup
    bitte danke das doch es ganz genau gerne gut hallo ich ja jo klar los mach machs mal mit nein nochmal passt so super weiter wir
    accord allez bien bonjour c ce continuer continuez d d'accord est je la le les merci non oui ouais parfait vas
    adelante bueno claro continua continúa dale el esto gracias hazlo hola lo perfecto por favor seguir sigue si sí vale
    bene certo ciao grazie ok procedi va faz isso obrigado pode sim
    да давай дальше нет ок окей привет продолжай спасибо хорошо
    好 好的 好吧 可以 继续 繼續 是 是的 行 对 對 嗯 开始 开始吧 谢谢 你好 不 はい お願いします 続けて 続けてください ありがとう うん 네 예 응 좋아 좋아요 계속 계속해 안녕
    """.split()
)
_CHANGES: Final = {"FILE_WRITE": 0, "FILE_EDIT": 0, "FILE_DELETE": 0, "FILE_MOVE": 1}


def says_something(prompt: str) -> bool:
    """Test whether ``prompt`` tells a stranger what the session was about."""
    text = _PICTURE.sub(" ", prompt[:_READ_CHARACTERS])
    return any(not _is_empty(word) for word in _WORD.findall(text.casefold()))


def better_title(held: str, prompt: str) -> str:
    """Return ``prompt`` where it is more meaningful than the earlier prompt ``held``, else ``held``."""
    return prompt if prompt.strip() and (not held or _rank(prompt) < _rank(held)) else held


def is_meaningful(title: str) -> bool:
    """Test whether a prompt can be a title; else the actions may say more."""
    return bool(title) and _rank(title) < 2


def _rank(prompt: str) -> int:
    """Rank prompts: words of a person, then commands that the client passes on, then meaningless text."""
    text = prompt.strip()
    if text.startswith("/") and "/" not in text.split(maxsplit=1)[0][1:]:
        return 2 if text.split(maxsplit=1)[0] in _CLIENTS_OWN else 1
    return 0 if says_something(text) else 2


def _is_empty(word: str) -> bool:
    return word in _EMPTY or word.isnumeric() or (len(word) == 1 and word.isascii())


class Done:
    """Actions of a session, as a title."""

    def __init__(self) -> None:
        self._changed: dict[str, None] = {}
        self._read: dict[str, None] = {}
        self._tests: dict[str, None] = {}
        self._commands: dict[str, None] = {}

    def note(self, op: str, operands: Sequence[object]) -> None:
        if op in _CHANGES:
            self._keep(self._changed, operands[_CHANGES[op]])
        elif op == "FILE_READ":
            self._keep(self._read, operands[0])
        elif op == "TEST_RUN":
            self._keep(self._tests, operands[0])
        elif op == "COMMAND_RUN":
            self._keep(self._commands, operands[0])

    @staticmethod
    def _keep(kept: dict[str, None], value: object) -> None:
        if isinstance(value, str) and len(kept) < _KEPT_MAX:
            kept[value] = None

    def title(self, folder: str) -> str:
        """Name the changed files and the tests that ran; else files read or commands run. Empty without actions."""
        inside = f"{folder.rstrip('/')}/" if folder else ""
        changed = [path.removeprefix(inside) for path in self._changed]
        parts = [f"changed {_some(changed)}"] if changed else []
        parts += [f"ran {_some([*self._tests])}"] if self._tests else []
        if not parts and self._read:
            parts = [f"read {_some([path.removeprefix(inside) for path in self._read])}"]
        if not parts and self._commands:
            parts = [f"ran {_some([*self._commands])}"]
        return "; ".join(parts)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(" ".join(name.split()) for name in names[:_NAMED_MAX])
    return shown + (f" and {len(names) - _NAMED_MAX:,} more" if len(names) > _NAMED_MAX else "")
