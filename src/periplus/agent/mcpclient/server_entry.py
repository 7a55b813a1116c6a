"""A server of tools, as somebody configured it."""

from __future__ import annotations

__all__ = ["CALL_SECONDS", "CALL_SECONDS_MAX", "Problem", "ServerRow"]

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

CALL_SECONDS: Final = 60
CALL_SECONDS_MAX: Final = 3_600


@dataclass(frozen=True, slots=True)
class ServerRow:
    """A server that is started (``command``) or one that is asked (``url``); ``source`` says who named it.

    ``environment`` and ``headers`` may hold secrets: they are given to the server, and are neither shown nor written anywhere. Of its
    tools those that a glob of ``allow`` fits may be used (all, where it is empty), and none that one of ``deny`` fits.
    """

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    source: str = ""
    timeout_s: int = CALL_SECONDS
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class Problem(NamedTuple):
    """A server that somebody named and that is not used, and why; ``mend`` is what to do about it."""

    name: str
    source: str
    why: str
    mend: str = ""
