"""Addresses of the page: which function answers each. The modules of the functions are imported when they are first asked for."""

from __future__ import annotations

__all__ = ["ACTS", "NAVIGATION", "ROUTES", "Route", "load"]

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from periplus.base.named_tuple import NamedTuple


class Route(NamedTuple):
    """An address, with ``{name}`` for its parts (``{name:path}`` takes slashes, too), and ``module:function``.

    A page that ``takes_damage`` is asked even where the journal is damaged, and says so itself.
    """

    address: str
    target: str
    takes_damage: bool = False


# The pages of the navigation, with the key that opens each after `g`.
NAVIGATION: Final[tuple[tuple[str, str, str], ...]] = (
    ("/", "Overview", "o"),
    ("/memory", "Memory", "m"),
    ("/sessions", "Sessions", "s"),
    ("/journal", "Journal", "j"),
    ("/work", "Work", "w"),
    ("/code", "Code", "c"),
    ("/contexts", "Contexts", "x"),
    ("/health", "Health", "h"),
)
ROUTES: Final[tuple[Route, ...]] = (
    # overview
    Route("/", "periplus.web.pages.overview:overview"),
    Route("/due", "periplus.web.pages.overview:due"),
    Route("/leave", "periplus.web.pages.leaving:leave"),
    # memory
    Route("/memory", "periplus.web.pages.memory.listing:memory_list"),
    Route("/memory/{id}", "periplus.web.pages.memory.entity:entity_page"),
    # sessions
    Route("/sessions", "periplus.web.pages.sessions.list:sessions"),
    Route("/sessions/compare", "periplus.web.pages.sessions.comparison:compare_sessions"),
    Route("/sessions/{id}", "periplus.web.pages.sessions.session:session"),
    Route("/sessions/{id}/step/{number}", "periplus.web.pages.sessions.step:step"),
    Route("/sessions/{id}/taught", "periplus.web.pages.sessions.teaching:teaching"),
    Route("/sessions/{id}/file", "periplus.web.pages.sessions.files:shared_file"),
    Route("/sessions/{id}/verified", "periplus.web.pages.sessions.files:verification"),
    # journal
    Route("/journal", "periplus.web.pages.journal.records:journal", takes_damage=True),
    Route("/journal/at", "periplus.web.pages.journal.past:past"),
    Route("/journal/difference", "periplus.web.pages.journal.past:difference"),
    Route("/journal/head", "periplus.web.pages.journal.proofs:head"),
    Route("/journal/proof", "periplus.web.pages.journal.proofs:proof"),
    Route("/journal/undo", "periplus.web.pages.journal.undo:undo_plan"),
    Route("/journal/{seq:int}", "periplus.web.pages.journal.record:record", takes_damage=True),
    # work
    Route("/work", "periplus.web.pages.work.overview:work"),
    Route("/work/plan/{id}", "periplus.web.pages.work.plan:plan"),
    Route("/work/dispatch/{id}", "periplus.web.pages.work.dispatch:dispatch"),
    # run
    Route("/run/{session:path}", "periplus.web.pages.run.session:run"),
    # code
    Route("/code", "periplus.web.pages.code.tree:tree"),
    Route("/code/symbol", "periplus.web.pages.code.symbol:symbol"),
    Route("/code/impact", "periplus.web.pages.code.impact:impact"),
    # contexts
    Route("/contexts", "periplus.web.pages.contexts.refs:contexts"),
    Route("/contexts/graph", "periplus.web.pages.contexts.graph:graph"),
    Route("/contexts/show", "periplus.web.pages.contexts.graph:commit"),
    Route("/contexts/expand", "periplus.web.pages.contexts.expansion:expand"),
    Route("/contexts/compare", "periplus.web.pages.contexts.comparison:compare"),
    # health
    Route("/health", "periplus.web.pages.health.overview:health", takes_damage=True),
)
ACTS: Final[tuple[Route, ...]] = (
    # overview
    Route("/seen", "periplus.web.pages.overview:seen"),
    # memory
    Route("/memory/{id}/confirm", "periplus.web.pages.memory.acts:confirm"),
    Route("/memory/{id}/state", "periplus.web.pages.memory.acts:change_state"),
    Route("/memory/{id}/evolve", "periplus.web.pages.memory.acts:evolve"),
    Route("/memory/{id}/set", "periplus.web.pages.memory.acts:set_fields"),
    Route("/memory/{id}/link", "periplus.web.pages.memory.acts:link"),
    Route("/memory/{id}/accept", "periplus.web.pages.memory.acts:accept"),
    Route("/memory/{id}/refuse", "periplus.web.pages.memory.acts:refuse"),
    # sessions
    # journal
    Route("/journal/undo", "periplus.web.pages.journal.undo:undo"),
    # work
    Route("/work/step/{id}/take", "periplus.web.pages.work.acts:take_step"),
    Route("/work/step/{id}/state", "periplus.web.pages.work.acts:change_state"),
    Route("/work/claim/{id}/release", "periplus.web.pages.work.acts:release_claim"),
    Route("/work/question/{id}/answer", "periplus.web.pages.work.acts:answer_question"),
    Route("/work/mail", "periplus.web.pages.work.acts:send_mail"),
    Route("/work/mail/{id}/read", "periplus.web.pages.work.acts:read_mail"),
    Route("/work/mail/{id}/answer", "periplus.web.pages.work.acts:answer_mail"),
    Route("/work/handoff", "periplus.web.pages.work.acts:write_handoff"),
    Route("/work/handoff/{id}/accept", "periplus.web.pages.work.acts:accept_handoff"),
    Route("/work/handoff/{id}/close", "periplus.web.pages.work.acts:close_handoff"),
    Route("/work/candidate/{id}/accept", "periplus.web.pages.work.acts:accept_candidate"),
    Route("/work/candidate/{id}/refuse", "periplus.web.pages.work.acts:refuse_candidate"),
    Route("/work/dispatch/{id}/stop", "periplus.web.pages.work.dispatch_acts:stop"),
    Route("/work/dispatch/{id}/retry", "periplus.web.pages.work.dispatch_acts:retry"),
    # contexts
    # health
)


def load(target: str) -> Callable[..., Any]:
    """Return the function of ``module:function``."""
    module, _, name = target.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found
