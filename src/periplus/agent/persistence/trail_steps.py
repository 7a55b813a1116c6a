"""Trail steps of a session's episodes: an opcode and its values, as ``trail.livestep`` takes them."""

from __future__ import annotations

__all__ = ["EpisodeSteps"]

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from periplus.agent.contracts import Outcome, Spawned, ToolCall, ToolResult
from periplus.agent.episodes import (
    RUN_TOPIC,
    Answered,
    Decided,
    Ended,
    Episode,
    Fed,
    Noted,
    Requested,
    Resulted,
    Resumed,
)

TrailStep: TypeAlias = tuple[str, dict[str, object]]

_OUTCOMES: Final[Mapping[Outcome, str]] = {
    "ok": "ok", "failed": "failed", "denied": "denied", "cancelled": "cancelled", "indeterminate": "unknown",
}  # fmt: skip
# By tool name: the opcode, and each operand with its argument names, the first present one counts.
_TOOLS: Final[Mapping[str, tuple[str, Mapping[str, tuple[str, ...]]]]] = {
    "read": ("FILE_READ", {"path": ("path",)}),
    "list": ("FILE_LIST", {"path": ("path",)}),
    "search": ("SEARCH_CODE", {"pattern": ("pattern", "query"), "path": ("path",)}),
    "shell": ("COMMAND_RUN", {"command": ("command",), "cwd": ("cwd",)}),
    "web_fetch": ("WEB_FETCH", {"url": ("url",)}),
    "web_search": ("WEB_SEARCH", {"query": ("query",)}),
    "ask_user": ("ASK", {"question": ("question",)}),
    "spawn_agent": ("AGENT_SPAWN", {"agent": ("agent", "name"), "task": ("task", "prompt")}),
}
# These are steps of their own, beside the steps of the files that they changed.
_BESIDE_FILES: Final = frozenset({"shell", "spawn_agent"})
_DEFAULTS: Final = {"FILE_LIST": ".", "AGENT_SPAWN": "agent"}  # defaults of such a call
_OPTIONAL: Final = frozenset({("SEARCH_CODE", "path"), ("COMMAND_RUN", "cwd")})
_RESULT_CHARACTERS_MAX: Final = 4_000_000


class EpisodeSteps:
    """Converts episodes to trail steps; feed it every written episode in order. ``content`` returns a file's content by path and digest,
    if it still has it; ``turn`` returns the written episodes of a turn: another process may have written the answer whose calls run
    now.
    """

    def __init__(
        self, model: str, content: Callable[[str, str], bytes | None], turn: Callable[[int], Iterable[Episode]]
    ) -> None:
        self._model = model
        self._content = content
        self._turn = turn
        self._calls: dict[str, ToolCall] = {}

    def steps(self, episode: Episode) -> list[TrailStep]:
        match episode:
            case Requested():
                return [("PROMPT", {"text": episode.text})]
            case Fed(source="person"):
                return [("PROMPT", {"text": episode.text, "note": "said while it ran"})]
            case Fed():
                return [("COMMENT", {"text": f"{episode.source}: {episode.text}\n{episode.quoted}".rstrip()})]
            case Answered():
                return self._answer(episode)
            case Decided():
                return [("ASK", {"question": episode.reason or "may this call run?", "answer": episode.answer})]
            case Resulted():
                return self._result(self._called(episode), episode)
            case Noted(topic=topic, data=data) if topic == RUN_TOPIC:
                return [
                    ("COMMENT", {"text": f"commands are confined by: {data.get('about')}; mode {data.get('mode')}"})
                ]
            case Resumed():
                return [("COMMENT", {"text": f"turn {episode.turn} is taken up by another process"})]
            case Ended() if episode.reason != "done":
                return [("COMMENT", {"text": f"parked: {episode.note or episode.reason}"})]
        return []

    def _called(self, episode: Resulted) -> ToolCall:
        """The call to which this result belongs, with its arguments."""
        if episode.call_id not in self._calls:
            answers = [one.message for one in self._turn(episode.turn) if isinstance(one, Answered)]
            self._calls = {call.id: call for call in answers[-1].tool_calls} if answers else {}
        return self._calls.get(episode.call_id) or ToolCall(id=episode.call_id, name=episode.name)

    def _answer(self, episode: Answered) -> list[TrailStep]:
        message = episode.message
        self._calls = {call.id: call for call in message.tool_calls}
        usage = message.usage
        called: dict[str, object] = {
            "model": message.model or self._model or "unknown", "tokens_in": max(0, usage.prompt_tokens - usage.cached), "cached": usage.cached,
            "out": usage.completion_tokens, "cost": usage.cost, "duration_ms": episode.latency_ms,
        }  # fmt: skip
        said: list[TrailStep] = [("SAY", {"text": message.content})] if message.content.strip() else []
        return [("MODEL_CALL", called), *said]

    def _result(self, call: ToolCall, episode: Resulted) -> list[TrailStep]:
        result = episode.result
        facts: dict[str, object] = {"outcome": _OUTCOMES[result.outcome], "duration_ms": episode.duration_ms}
        if result.exit_code is not None:
            facts["exit_code"] = result.exit_code
        if result.outcome in ("failed", "denied", "cancelled", "indeterminate"):
            facts["error"] = result.output[:1000]
        if episode.is_judged:
            facts["note"] = "found out after a crash"
        files = [self._file(effect, facts) for effect in result.effects if effect.get("path")]
        if files and call.name not in _BESIDE_FILES:
            return files
        return [self._call(call, result, facts), *files]

    def _file(self, effect: Mapping[str, Any], facts: Mapping[str, object]) -> TrailStep:
        path, after = str(effect["path"]), effect.get("after")
        own = {name: value for name, value in facts.items() if name != "exit_code"}
        if not after:
            return ("FILE_DELETE", {"path": path, **own})
        held = self._content(path, str(after))
        content = {"content": held} if held is not None else {"content_sha256": str(after)}
        return ("FILE_WRITE", {"path": path, **content, **own})

    def _call(self, call: ToolCall, result: ToolResult, facts: dict[str, object]) -> TrailStep:
        if result.output and result.outcome == "ok" and len(result.output) <= _RESULT_CHARACTERS_MAX:
            facts = {**facts, "result": result.output}
        op, operands = _TOOLS.get(call.name, ("TOOL_CALL", {}))
        values: dict[str, object] = {}
        for name, arguments in operands.items():
            given = next(
                (call.args[key] for key in arguments if isinstance(call.args.get(key), str)), _DEFAULTS.get(op)
            )
            if given is not None:
                values[name] = given
        is_whole = all(name in values for name in operands if (op, name) not in _OPTIONAL)
        if op == "TOOL_CALL" or not is_whole:
            return ("TOOL_CALL", {"server": "", "name": call.name or "?", "arguments": call.args, **facts})
        if isinstance(result.spawned, Spawned) and result.spawned.trail:
            values["trail"] = result.spawned.trail
        return (op, {**values, **facts})
