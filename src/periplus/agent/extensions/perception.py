"""Perception as an extension of a session: facts of the tail, a hook that shows instruction files, pages of map and symbols."""

from __future__ import annotations

__all__ = ["open_perception"]

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from periplus.agent.contracts import Stop
from periplus.agent.extensions.contract import Extension
from periplus.agent.hooks import Hook
from periplus.agent.perception.file_ranking import Task
from periplus.agent.perception.git_status import GitView, is_without
from periplus.agent.perception.instruction_files import FILE_CHARACTERS_MAX, InstructionReader, memory_lines
from periplus.agent.perception.project_map import MapPages, overview
from periplus.agent.perception.project_root import is_home, kind_of
from periplus.agent.perception.symbol_pages import SymbolPages
from periplus.agent.tape_notes import Fact, InstructionsNote, noted
from periplus.base.errors import PeriplusError
from periplus.base.filesystem.confined_folder import Confined

if TYPE_CHECKING:
    from periplus.agent.extensions.contract import ExtensionContext
    from periplus.agent.tape.state import TapeState
    from periplus.agent.tools.text_pages.page_source import PageSource
    from periplus.code.queries.view import CodeView

_SHARE: Final = 8  # instructions take at most this fraction (1/n) of the tape's budget
_TOKEN_CHARACTERS: Final = 4
_RULES_TOKENS: Final = 50_000
_OVERVIEW_CONTEXT: Final = 16_000
_TASK_CHARACTERS: Final = 2_000
_VOTING: Final = 10
_VOTES: Final = 40
_PROMPT: Final = """
# Pages of the project as it is now
`@periplus/map/index.md` ranks its files for the request, with what they define (`@periplus/map/src.md`: of a folder); `@periplus/symbols/NAME.md` has where a name is defined and used.
"""


def open_perception(context: ExtensionContext) -> Extension:
    """Open perception; in the home folder, which is no project, only the git status."""
    if is_home(context.root, context.options.home):
        git = GitView(context.root)
        return Extension(facts=lambda: [fact for fact in [git.fact()] if fact is not None])
    folder = Confined(context.root)
    seen = _Perception(context, folder)
    pages: dict[str, PageSource] = {
        "map": MapPages(context.root, seen.task, unread=seen.unread, code=seen.code),
        "symbols": SymbolPages(context.root, unread=seen.unread, code=seen.code),
    }
    return Extension(hooks=[seen.hook], facts=seen.facts, prompt=_PROMPT, pages=pages, close=folder.close)


class _Perception:
    def __init__(self, context: ExtensionContext, folder: Confined) -> None:
        self._context, self._git = context, GitView(context.root)
        budget = context.options.settings.number("context_tokens") * _TOKEN_CHARACTERS // _SHARE
        reader = InstructionReader(
            folder, path_of=self._path, memory=self._memory_lines, unread=self.unread,
            characters_max=min(2 * FILE_CHARACTERS_MAX, budget),
        )  # fmt: skip
        self.hook = _Telling(context, reader)

    def facts(self) -> list[Fact]:
        """Facts for the tail of a new turn, without those that turns in place already say."""
        state = self._context.session.tape.state
        git = self._git.fact()
        found = [git] if git is not None and not (is_without(git) and _said(state, "git") == git.text) else []
        kind = kind_of(self._context.root).line()
        if kind and _said(state, "project") != kind:
            found.append(Fact("project", kind))
        is_first = state.turn == 0  # the request is not taken yet
        if is_first and self._context.options.settings.number("context_tokens") >= _OVERVIEW_CONTEXT:
            text, quoted = overview(self._context.root, self.unread)
            found += [Fact("files", text, quoted)] if text else []
        return found

    def task(self) -> Task:
        """The current task, by which files are ranked."""
        state = self._context.session.tape.state
        text = state.turns[-1].request.text[:_TASK_CHARACTERS] if state.turns else ""
        active = tuple(path for path in state.topics.current.active_files if not path.startswith("@"))
        return Task(text, active, self._votes(text, active[-_VOTING:]))

    def _votes(self, text: str, active: Sequence[str]) -> dict[str, tuple[float, str]]:
        """Votes of commits and earlier sessions: files that were changed for similar tasks, or together with the active ones."""
        if not text.strip() and not active:
            return {}
        try:
            files = self._context.project.related(active, text, limit=_VOTES).files
        except PeriplusError:
            return {}  # a path unknown to memory, or a busy store: file names have to do
        best = max((one.score for one in files), default=0)
        return {one.path: (one.score / best, "; ".join(one.why[:2])) for one in files} if best > 0 else {}

    def code(self) -> AbstractContextManager[CodeView | None]:
        """Open the code map of the folder that is worked in, or None where it is not at hand."""
        from periplus.project.knowledge.code import fresh_view

        return fresh_view(self._context.project.journal.layout.code, os.path.realpath(self._context.root))

    def unread(self, path: str) -> bool:
        return self._context.session.host.work.unread(path)

    def _path(self, path: str) -> str:
        return self._context.session.host.work.path(path)  # the host is opened after its extensions

    def _memory_lines(self) -> frozenset[str]:
        from periplus.project.agent_hooks.instructions import rules_text

        project = self._context.project
        try:
            return memory_lines(rules_text(project.journal, project.ground(), budget_tokens=_RULES_TOKENS))
        except PeriplusError:
            return frozenset()  # without a comparison, show everything


class _Telling(Hook):
    """Hook that shows new or changed instruction files before the model is asked."""

    def __init__(self, context: ExtensionContext, reader: InstructionReader) -> None:
        self._context, self._reader = context, reader

    @property
    def name(self) -> str:
        return "perception"

    def reset_for_turn(self) -> None:
        self._reader.begin_turn()

    def before_step(self, step: int) -> Stop | None:
        state = self._context.session.tape.state
        files = self._reader.due(state.instructions)
        if files:
            note = InstructionsNote(files=files, is_trusted=self._context.options.settings.trusted)
            self._context.session.witness(noted(state.turn, note, step - 1))
        return None


def _said(state: TapeState, name: str) -> str:
    """The fact's text in the last turn in place that has it."""
    for turn in reversed(state.turns):
        for fact in turn.note.facts:
            if fact.name == name:
                return fact.text
    return ""
