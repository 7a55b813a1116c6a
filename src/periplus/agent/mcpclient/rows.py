"""A server of tools, as somebody configured it."""

from __future__ import annotations

__all__ = ["ServerRow"]

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ServerRow:
    """A server that is started (``command``) or one that is asked (``url``); ``source`` says who named it.

    ``environment`` and ``headers`` may hold secrets: they are given to the server, and are neither shown nor written anywhere.
    """

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    source: str = ""
