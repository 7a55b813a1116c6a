"""Guardrail against going in circles: it advises first, and ends a turn that does nothing else.

It watches for three patterns: the same call failing in the same way, endless reads that find nothing new, and failing edits of one file. It
first *advises*, with a sentence after the result. It *blocks* only a call identical to one that has failed too often. It parks the turn
only when its blocks are ignored. Test-driven work is left alone: a check that fails in a different way each time, or that runs again after
a change, is progress. A call that this rule itself blocks does not count as a failure.
"""

from __future__ import annotations

__all__ = ["Guardrail"]

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from periplus.agent.contracts import Stop, StopReason, ToolCall, ToolDecision, ToolResult, Usage
from periplus.agent.episodes import Answered, Episode, Resulted
from periplus.agent.hooks import Hook

ADVISE_FAILURES: Final = 3
BLOCK_FAILURES: Final = 6
PARK_BLOCKS: Final = 3
ADVISE_READS: Final = 20
ADVISE_REPEATED_READS: Final = 3
ADVISE_EDITS: Final = 3
_SEEN_MAX: Final = 4096
_BLOCK: Final = "this very call failed "
_REASON: Final = (
    _BLOCK
    + "{count} times in the same way, and nothing changed since. Do something else: look at what it says, or tell what is in the way."
)
_ADVICE: Final = r"\n\n\[(?:This very call failed \d|\d+ edits of |You have seen this \d|\d+ calls in a row )[^\n]*\]\Z"


class Guardrail(Hook):
    """The attempts of one turn. ``edits`` are the names of the tools that change files."""

    def __init__(self, *, edits: frozenset[str] = frozenset({"edit", "write"})) -> None:
        self._edits = edits
        self.reset_for_turn()

    @property
    def name(self) -> str:
        return "guardrail"

    def reset_for_turn(self) -> None:
        self._failures: dict[bytes, tuple[bytes, int]] = {}  # by call: how it failed, and how often in that way
        self._edit_failures: dict[str, int] = {}
        self._seen: dict[bytes, int] = {}  # by call and what it gave: how often
        self._idle_reads = 0
        self._blocked = 0
        self._is_blocking = False
        self._newly: set[bytes] = set()  # the calls that failed so often only in this step

    def authorize_tool(self, name: str, args: Mapping[str, Any]) -> ToolDecision | None:
        _, count = self._failures.get(_key(name, args), (b"", 0))
        if count < BLOCK_FAILURES:
            return None
        self._is_blocking = True
        self._blocked += 1
        return ToolDecision(allow=False, reason=_REASON.format(count=count), counts_as_stuck=False)

    def transform_tool_result(self, call: ToolCall, result: ToolResult) -> ToolResult | None:
        if result.outcome in ("denied", "cancelled"):
            return None  # nothing was tried
        advice = (
            self._failed(call, result) if result.outcome == "failed" or result.exit_code else self._worked(call, result)
        )
        if not advice:
            return None
        return msgspec.structs.replace(result, output=f"{result.output.rstrip()}\n\n[{advice}]")

    def after_step(self, step: int, usage: Usage, stop_reason: StopReason | None) -> Stop | None:
        del step, usage, stop_reason
        is_blocking, self._is_blocking = self._is_blocking, False
        self._newly.clear()
        if not is_blocking:
            self._blocked = 0
        elif self._blocked >= PARK_BLOCKS:
            return Stop(
                reason="stuck", note="The same call was tried again and again, and it failed each time in the same way."
            )
        return None

    def restore(self, episodes: Sequence[Episode]) -> None:
        """Restore the turn from its outcomes, without the advice that follows some of them."""
        import re

        calls: dict[str, ToolCall] = {}
        for episode in episodes:
            if isinstance(episode, Answered):
                self._begin_step()
                calls = {call.id: call for call in episode.message.tool_calls}
            elif isinstance(episode, Resulted) and episode.call_id in calls:
                call, result = calls.pop(episode.call_id), episode.result
                if result.outcome == "denied" and _BLOCK in result.output[:80]:
                    self._is_blocking = True
                    self._blocked += 1
                elif result.effects or not episode.is_judged:
                    plain = re.sub(_ADVICE, "", result.output)
                    self.transform_tool_result(call, msgspec.structs.replace(result, output=plain))
        if not calls:
            self._begin_step()

    def _begin_step(self) -> None:
        self._newly.clear()
        if not self._is_blocking:
            self._blocked = 0
        self._is_blocking = False

    def _failed(self, call: ToolCall, result: ToolResult) -> str:
        key, how = _key(call.name, call.args), _digest(_timeless(result.output.rstrip()))
        before, count = self._failures.get(key, (b"", 0))
        count = count + 1 if before == how else 1
        self._failures[key] = (how, count)
        if count == BLOCK_FAILURES:
            self._newly.add(key)
        elif count > BLOCK_FAILURES and key not in self._newly:
            # Whoever had been asked would have blocked it: it is of no tool, or its arguments cannot be read.
            self._blocked += not self._is_blocking  # once a step: who asks for many at once has not been told yet
            self._is_blocking = True
        if call.name in self._edits and result.outcome == "failed":
            paths = _paths(call.args)
            for path in paths:
                self._edit_failures[path] = self._edit_failures.get(path, 0) + 1
            failed, path = max((self._edit_failures[path], path) for path in paths)
            if failed >= ADVISE_EDITS:
                return f"{failed} edits of {path or 'this file'} failed. Read it again where you mean to change it, and take the text from there."
        if count >= ADVISE_FAILURES:
            return f"This very call failed {count} times in the same way. Another try gives the same; change something first."
        return ""

    def _worked(self, call: ToolCall, result: ToolResult) -> str:
        if result.effects:
            self._failures.clear()  # something changed: what failed before may work now
            self._seen.clear()
            for path in _paths(call.args):
                self._edit_failures.pop(path, None)
            self._idle_reads = 0
            return ""
        self._failures.pop(_key(call.name, call.args), None)
        seen = _key(call.name, call.args) + _digest(result.output.rstrip())
        times = self._seen[seen] = self._seen.get(seen, 0) + 1
        if len(self._seen) > _SEEN_MAX:
            self._seen.clear()
        if times == 1 and result.exit_code is not None:
            self._failures.clear()  # a command that is new may have changed what others stand on
        self._idle_reads += 1
        if times >= ADVISE_REPEATED_READS:
            return f"You have seen this {times} times; nothing in it changed."
        if self._idle_reads % ADVISE_READS == 0:
            return f"{self._idle_reads} calls in a row changed nothing. If you know enough, act on it; if not, say what is missing."
        return ""


def _paths(args: Mapping[str, Any]) -> set[str]:
    """The files that a call changes: its ``path``, or those of its ``edits``; an empty name if it names none."""
    edits = args.get("edits")
    rows = [args, *(edits if isinstance(edits, list) else ())]
    return {path for row in rows if isinstance(row, Mapping) and isinstance(path := row.get("path"), str)} or {""}


def _key(name: str, args: Mapping[str, Any]) -> bytes:
    try:
        text = msgspec.json.encode([name, dict(args)], order="sorted")
    except (TypeError, ValueError, RecursionError):
        text = repr((name, args)).encode("utf-8", "replace")
    return hashlib.sha256(text).digest()


def _timeless(text: str) -> str:
    """Remove durations, times of day and addresses, which differ each time."""
    import re

    return re.sub(
        r"\b\d+(?:\.\d+)? ?(?:ms|s|sec|seconds)\b|\b\d\d?:\d\d(?::\d\d(?:\.\d+)?)?\b|0x[0-9a-fA-F]+", "#", text
    )


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()
