"""Hooks of plugins: seams of the loop that a program answers.

Each seam defines the question and the allowed answers. An empty answer expresses no opinion. A failing program counts as a hook that
raised: at a policy seam nothing is allowed, sent or shown; at an observing seam the failure is reported and ignored.
"""

from __future__ import annotations

__all__ = ["hook_of"]

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from periplus.agent.contracts import Continue, Message, Stop, StopReason, ToolCall, ToolDecision, ToolResult, Usage
from periplus.agent.hooks import Functions, Hook
from periplus.agent.plugins.program_runner import PluginError

if TYPE_CHECKING:
    from periplus.agent.plugins.manifest import HookRow

T = TypeVar("T")
Ask = Callable[[Mapping[str, Any], Sequence[str]], dict[str, Any]]
_REPLACED_MAX: Final = 10_000


def hook_of(plugin: str, row: HookRow, ask: Ask) -> Hook:
    """Build a hook. ``ask(question, allowed fields of the answer)`` runs the program; it raises PluginError."""
    made = _Answers(plugin, row, ask)
    return Functions(f"plugin {plugin}", {row.seam: getattr(made, row.seam)})


class _Answers:
    """The seams, each as a question and the meaning of its answer."""

    def __init__(self, plugin: str, row: HookRow, ask: Ask) -> None:
        self._plugin, self._row, self._ask_program = plugin, row, ask

    def reset_for_turn(self) -> None:
        self._ask({}, ())

    def before_step(self, step: int) -> Stop | None:
        return self._read(self._ask({"step": step}, ("stop",)), "stop", Stop)

    def record_step_usage(self, usage: Usage) -> Stop | None:
        return self._read(self._ask({"usage": msgspec.to_builtins(usage)}, ("stop",)), "stop", Stop)

    def after_step(self, step: int, usage: Usage, stop_reason: StopReason | None) -> Stop | None:
        told = {"step": step, "usage": msgspec.to_builtins(usage), "stop_reason": stop_reason}
        return self._read(self._ask(told, ("stop",)), "stop", Stop)

    def authorize_tool(self, name: str, args: Mapping[str, Any]) -> ToolDecision | None:
        if not self._is_about(name):
            return None
        return self._read(self._ask({"name": name, "args": dict(args)}, ("decision",)), "decision", ToolDecision)

    def transform_tool_result(self, call: ToolCall, result: ToolResult) -> ToolResult | None:
        if not self._is_about(call.name):
            return None
        told = {"name": call.name, "args": call.args, "outcome": result.outcome, "output": result.output}
        output = self._read(self._ask(told, ("output",)), "output", str)
        return None if output is None else msgspec.structs.replace(result, output=output)

    def prepare_messages(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """Replace texts of messages by position; messages are neither added nor removed."""
        told = {"messages": [{"role": one.role, "content": one.content} for one in messages]}
        replaced = self._read(self._ask(told, ("replace",)), "replace", list[tuple[int, str]]) or []
        if len(replaced) > _REPLACED_MAX or any(not 0 <= place < len(messages) for place, _ in replaced):
            raise PluginError(f"the plugin {self._plugin} replaces a message that does not exist")
        found = list(messages)
        for place, text in replaced:
            found[place] = msgspec.structs.replace(found[place], content=text)
        return found if replaced else None

    def should_continue_after_stop(self, stop: Stop) -> Continue | None:
        """Continue with the program's text, which the model gets inside the fence."""
        told = {"reason": stop.reason, "note": stop.note}
        feedback = self._read(self._ask(told, ("continue",)), "continue", str)
        if not feedback:
            return None
        return Continue(
            feedback=f"The plugin {self._plugin} says that this is not done yet.",
            quoted=feedback,
            source=f"plugin {self._plugin}",
        )

    def _is_about(self, tool: str) -> bool:
        return not self._row.tools or any(fnmatch.fnmatchcase(tool, one) for one in self._row.tools)

    def _ask(self, told: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
        return self._ask_program({"kind": "hook", "seam": self._row.seam, **told}, known)

    def _read(self, answer: Mapping[str, Any], field: str, kind: type[T]) -> T | None:
        if field not in answer:
            return None
        try:
            return msgspec.convert(answer[field], kind)
        except msgspec.ValidationError as error:
            raise PluginError(f"the plugin {self._plugin}: {self._row.seam}: {field}: {error}") from error
