"""What ``run``, ``models`` and ``trust`` print with --json. A run itself prints its events, one a line (``periplus.agent.events``)."""

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
    """A session of the agent; with ``interrupted`` its last turn was cut off. ``last`` is the time of its last step, ``subagents`` are
    those that worked for it, each by its own name.
    """

    name: str
    title: str
    model: str
    last: str
    turns: int
    interrupted: bool
    subagents: list[RunSessionOut] = []


class RunListOut(msgspec.Struct, tag_field="schema", tag="periplus.run.list/1"):
    """The sessions of the agent, the newest first. ``cut`` says that older records are not here: sessions that lie there are left out."""

    sessions: list[RunSessionOut]
    cut: bool = False


class RunPlanOut(msgspec.Struct, tag_field="schema", tag="periplus.run.plan/1"):
    """What a run would do; nothing was sent, nothing was run. ``kinds`` of project and ``checks`` are what its own files say;
    ``instructions`` are the files of its first folder that the model would be told. ``refused`` says why such a run would be refused before
    anything is sent, by a process that has a person to ask as this one has; empty where it would not.
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
    """What the calls of a session's model cost. ``survival`` in millionths: the mean over the boundaries between turns, those at which a
    fold lay apart; null where there is none. A cost in millionths of a dollar, of the calls whose price is known.
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
    """Where a session is shown; whoever has the address may look at it until the program is ended."""

    session: str
    url: str


class ModelOut(msgspec.Struct):
    """A model; sizes in tokens (0 where not known), prices in thousandths of a dollar for a million tokens."""

    name: str
    window: int
    output: int
    price_in: int | None
    price_out: int | None


class ModelsOut(msgspec.Struct, tag_field="schema", tag="periplus.models/1"):
    """Providers with where their key comes from, and models."""

    as_of: str
    providers: dict[str, str]
    models: list[ModelOut]


class ModelKeyOut(msgspec.Struct, tag_field="schema", tag="periplus.models.key/1"):
    """A key that was kept, or taken away; never the key itself."""

    provider: str
    file: str
    kept: bool


class TrustOut(msgspec.Struct, tag_field="schema", tag="periplus.trust/1"):
    """The folders that are trusted."""

    folders: list[str]


class ServerOut(msgspec.Struct):
    """An MCP server. ``about`` is what is started or asked; ``state`` is ``not started``, ``ready`` or ``failed``.

    ``withheld`` are tools that are not to be used, with why; ``changed`` those of them that are not what they were, with what they say now.
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
    """A server that is named somewhere and not used."""

    name: str
    source: str
    why: str
    mend: str


class ServersOut(msgspec.Struct, tag_field="schema", tag="periplus.servers/1"):
    """The MCP servers of the agent here. ``untrusted`` are names of servers of the project, which count for nothing until it is trusted."""

    servers: list[ServerOut]
    problems: list[ServerProblemOut]
    untrusted: list[str]


class SetupOut(msgspec.Struct, tag_field="schema", tag="periplus.setup/1"):
    """What is set, where each comes from, and where the key of each provider that has one is; never a key."""

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
