"""The extensions that every session of a face has, in the order in which they are opened. A row imports its part when it is asked."""

from __future__ import annotations

__all__ = ["STANDARD"]

from typing import Final

from periplus.agent.extension import Opener

STANDARD: Final[tuple[Opener, ...]] = ()
