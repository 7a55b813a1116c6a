"""Configuration entry of an MCP server."""

from __future__ import annotations

__all__ = ["CALL_SECONDS", "CALL_SECONDS_MAX", "Problem", "ServerRow"]

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

CALL_SECONDS: Final = 60
CALL_SECONDS_MAX: Final = 3_600


@dataclass(frozen=True, slots=True)
class ServerRow:
    """A server that is started (``command``) or reached by ``url``. ``source`` says who configured it.

    ``environment`` and ``headers`` may hold secrets: they are given to the server and are neither shown nor written anywhere. Tools that
    match a glob of ``allow`` may be used (all, if it is empty), except those that match one of ``deny``.
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
    """A configured server that is not used, and why; ``mend`` says how to fix it."""

    name: str
    source: str
    why: str
    mend: str = ""
