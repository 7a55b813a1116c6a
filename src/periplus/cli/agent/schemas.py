"""JSON documents of ``run``, ``models``, ``servers``, ``trust`` and ``setup``. A run itself prints its events, one a line
(``periplus.agent.events``).
"""

from __future__ import annotations

__all__ = [
    "RUN_SCHEMAS",
    "ModelKeyOut",
    "ModelOut",
    "ModelsOut",
    "RunListOut",
    "RunMonitorOut",
    "RunPlanOut",
    "RunSessionOut",
    "RunStatsOut",
    "ServerOut",
    "ServerProblemOut",
    "ServersOut",
    "SetupOut",
    "TrustOut",
]

from typing import Final

import msgspec

from periplus.agent.observation.metrics import CallMetrics, Totals, TurnMetrics


class RunSessionOut(msgspec.Struct):
    """A session of the agent. ``interrupted``: its last turn did not finish. ``last`` is the time of its last step, ``subagents``
    lists the sessions of its subagents.
    """

    name: str
    title: str
    model: str
    last: str
    turns: int
    interrupted: bool
    subagents: list[RunSessionOut] = []


class RunListOut(msgspec.Struct, tag_field="schema", tag="periplus.run.list/1"):
    """The sessions of the agent, the newest first. ``cut`` says that older records are missing, so that older sessions may be missing, too."""

    sessions: list[RunSessionOut]
    cut: bool = False


class RunPlanOut(msgspec.Struct, tag_field="schema", tag="periplus.run.plan/1"):
    """The settings of a run; nothing was sent and nothing was run. ``kinds`` of project and ``checks`` come from its own files;
    ``instructions`` are the instruction files for the model. ``refused`` says why the run would be refused, empty if it would
    not.
    """

    model: str
    mode: str
    sandbox: str
    sandbox_about: str
    max_steps: int
    oracle: str
    network: bool
    rules: list[str]
    prompt_characters: int
    request: str
    root: str
    kinds: list[str]
    checks: list[str]
    instructions: list[str]
    servers: list[str] = []
    refused: str = ""


class RunStatsOut(msgspec.Struct, tag_field="schema", tag="periplus.run.stats/1"):
    """The cost of a session's model calls. ``survival`` in millionths is the mean share of the prompt prefix that is reused from
    turn to turn, ``survival_at_folds`` that at folds; null if there was none. Costs are in millionths of a dollar, for the calls
    whose price is known.
    """

    session: str
    title: str
    model: str
    totals: Totals
    survival: int | None
    survival_at_folds: int | None
    folds: int
    turns: list[TurnMetrics]
    calls: list[CallMetrics]


class RunMonitorOut(msgspec.Struct, tag_field="schema", tag="periplus.run.monitor/1"):
    """The address of the page; anybody who has it can look until the program ends."""

    session: str
    url: str


class ModelOut(msgspec.Struct):
    """A model. Sizes are in tokens (0 if unknown), prices in thousandths of a dollar for a million tokens."""

    name: str
    window: int
    output: int
    price_in: int | None
    price_out: int | None


class ModelsOut(msgspec.Struct, tag_field="schema", tag="periplus.models/1"):
    """Providers with the source of their key, and models."""

    as_of: str
    providers: dict[str, str]
    models: list[ModelOut]


class ModelKeyOut(msgspec.Struct, tag_field="schema", tag="periplus.models.key/1"):
    """A key that was saved or removed; never the key itself."""

    provider: str
    file: str
    kept: bool


class TrustOut(msgspec.Struct, tag_field="schema", tag="periplus.trust/1"):
    """The trusted folders."""

    folders: list[str]


class ServerOut(msgspec.Struct):
    """An MCP server. ``about`` is its command or address; ``state`` is ``not started``, ``ready`` or ``failed``.

    ``withheld`` are tools that are not used, with the reason; ``changed`` are those whose description changed, with the new one.
    """

    name: str
    source: str
    about: str
    state: str
    server: str = ""
    start_ms: int = 0
    tools: list[str] = []
    withheld: dict[str, str] = {}
    changed: dict[str, str] = {}
    error: str = ""


class ServerProblemOut(msgspec.Struct):
    """A server that is configured but not used."""

    name: str
    source: str
    why: str
    mend: str


class ServersOut(msgspec.Struct, tag_field="schema", tag="periplus.servers/1"):
    """The MCP servers of the agent. ``untrusted`` are names of servers of the project, which are not used until its folder is trusted."""

    servers: list[ServerOut]
    problems: list[ServerProblemOut]
    untrusted: list[str]


class SetupOut(msgspec.Struct, tag_field="schema", tag="periplus.setup/1"):
    """The settings, the source of each, and the source of each provider's key; never a key."""

    values: dict[str, str]
    sources: dict[str, str]
    keys: dict[str, str]


RUN_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {
    "run --dry-run": RunPlanOut,
    "run --list": RunListOut,
    "run --monitor": RunMonitorOut,
    "run --stats": RunStatsOut,
    "setup": SetupOut,
    "models list": ModelsOut,
    "models key": ModelKeyOut,
    "servers list": ServersOut,
    "servers check": ServersOut,
    "servers accept": ServersOut,
    "trust list": TrustOut,
    "trust give": TrustOut,
    "trust withdraw": TrustOut,
}
