"""Table of the adapters, in the order of listing."""

from __future__ import annotations

__all__ = ["ADAPTERS", "adapter_named", "adapters_with"]

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import NotFoundError, UsageError
from periplus.dispatch.adapters.aider import AIDER
from periplus.dispatch.adapters.claude_code import CLAUDE_CODE
from periplus.dispatch.adapters.codex import CODEX
from periplus.dispatch.adapters.command import command_adapter
from periplus.dispatch.adapters.gemini import GEMINI
from periplus.dispatch.adapters.model import Adapter
from periplus.dispatch.adapters.opencode import OPENCODE
from periplus.dispatch.adapters.periplus_agent import PERIPLUS

if TYPE_CHECKING:
    from periplus.agent.settings import AgentRow

ADAPTERS: Final = (PERIPLUS, CLAUDE_CODE, CODEX, GEMINI, OPENCODE, AIDER)


def adapters_with(rows: Sequence[AgentRow]) -> dict[str, Adapter]:
    """Return all adapters by name, with those of the user's settings. Raises UsageError for a name that is taken."""
    found = {adapter.name: adapter for adapter in ADAPTERS}
    for row in rows:
        if row.name in found:
            raise UsageError(f"agents.{row.name}: there is an agent of this name already", safe="Nothing was started.",
                             mend="Give the one in your agent.toml another name.")  # fmt: skip
        found[row.name] = command_adapter(row)
    return found


def adapter_named(name: str, rows: Sequence[AgentRow] = ()) -> Adapter:
    """Return the adapter called ``name``. Raises NotFoundError, and what adapters_with raises."""
    found = adapters_with(rows)
    if name not in found:
        raise NotFoundError(f"there is no agent {name!r}", safe="Nothing was started.",
                            mend=f"Known are: {', '.join(found)}; for another one add [agents.NAME] to your agent.toml.")  # fmt: skip
    return found[name]
