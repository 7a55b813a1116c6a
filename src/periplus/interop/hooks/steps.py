"""Hook events as steps: the same steps that an import of the session makes of these prompts and calls.

Nothing is invented that a hook is not told. The model's prose and its calls are in the transcript only; the text that
the model saw as a result is known for some tools, and for others the step has no digest of it.
"""

from __future__ import annotations

__all__ = ["steps_of"]

import re
from collections.abc import Callable, Sequence
from typing import Final

from periplus.interop.conversion.intake import Intake, Planned
from periplus.interop.hooks.events import AGENTS, HookEvent
from periplus.interop.readers.json_values import integer_of, list_of, table_of, text_of
from periplus.trail.format.reader import TrailReader
from periplus.trail.model import Outcome
from periplus.trail.recording.live_step import LiveStep

_EXIT_CODE: Final = re.compile(r"(?:Error: )?(?:Command failed with )?[Ee]xit code:? (-?\d{1,9})\b")
_ANSWER_CHARACTERS_MAX: Final = 2000


def steps_of(events: Sequence[HookEvent], put_object: Callable[[bytes], bytes]) -> list[tuple[int, LiveStep]]:
    """Return the steps in order, each with the place of its event. ``put_object`` stores long texts and file
    contents.
    """
    intake = Intake(put_object)
    for place, event in enumerate(events, 1):
        intake.source = place
        if event.kind == "prompt":
            intake.note_time(event.at_ms)
            if event.prompt.strip():
                intake.step("PROMPT", intake.mask(event.prompt))
        elif event.kind == "after-tool":
            _call(intake, event)
    imported = intake.finish(
        "hooks", secret=bytes(32), source=bytes(32), agent="hooks", trail_id="hooks", status="success", tool="hooks"
    )
    reader = TrailReader(imported.trail)
    at_ms = reader.header.started_ms
    found = []
    for step in reader.steps():
        at_ms += step.delta_ms
        found.append(((step.source or 1) - 1, LiveStep(step._replace(delta_ms=0, source=None), at_ms)))
    return found


def _call(intake: Intake, event: HookEvent) -> None:
    steps = _plan(intake, event)
    response = event.response
    facts = table_of(response)
    is_exact = not (event.is_failed and event.error)  # the model saw an error in some wrapping
    text = _text(response) if is_exact else event.error
    outcome, exit_code = _outcome(event, facts, text)
    if steps[0].op == "ASK" and outcome == "ok":
        answers = [text_of(answer) for answer in table_of(facts.get("answers")).values()]
        if any(answers):
            steps[0].operands[1] = intake.mask("\n".join(filter(None, answers)))[:_ANSWER_CHARACTERS_MAX]
    duration_ms = event.duration_ms if event.duration_ms >= 0 else None
    intake.note_time(event.at_ms - (duration_ms or 0))
    call = intake.call(steps)
    intake.at_ms = None  # the event is sent after the call: its time does not measure the duration
    intake.resolve(
        call, outcome, text, exit_code=exit_code, error=event.error or None, duration_ms=duration_ms, is_exact=is_exact
    )


def _plan(intake: Intake, event: HookEvent) -> list[Planned]:
    """Plan a call like the importer of the agent's own sessions."""
    arguments, cwd = event.arguments, event.cwd or None
    if AGENTS[event.agent].format == "claude-code":
        from periplus.interop.conversion.claude_tools import plan_tool, tool_call

        if isinstance(arguments, dict):
            return plan_tool(intake, event.tool, arguments, cwd)
        return [tool_call(intake, "", event.tool, arguments)]
    if AGENTS[event.agent].format == "codex":
        from periplus.interop.conversion.codex_tools import plan_tool as plan_codex

        if event.tool == "apply_patch" and isinstance(arguments, dict) and isinstance(arguments.get("command"), str):
            arguments = arguments["command"]  # the patch itself, as in the agent's sessions
        return plan_codex(intake, "shell_command" if event.tool == "Bash" else event.tool, arguments, "", cwd)
    from periplus.interop.conversion.tool_calls import plan_call

    return plan_call(intake, event.tool, arguments, cwd)


def _text(response: object) -> str | None:
    """Return the text that the model saw, where the answer contains it; else None."""
    if isinstance(response, str):
        return response
    if isinstance(response, dict):
        if "stdout" in response or "stderr" in response:
            if None in (response.get("stdout", ""), response.get("stderr", "")):
                return None  # one part was too long and left out: the other alone is not what the model saw
            return "\n".join(filter(None, (text_of(response.get("stdout")), text_of(response.get("stderr")))))
        for name in ("llmContent", "output", "text_result_for_llm"):
            if isinstance(response.get(name), str):
                return text_of(response[name])
        response = response.get("content") if "agentId" in response or "isError" in response else None
    texts = [table_of(block).get("text") for block in list_of(response)]
    if texts and all(isinstance(text, str) for text in texts):
        return "\n".join(map(str, texts))
    return None


def _outcome(event: HookEvent, facts: dict[str, object], text: str | None) -> tuple[Outcome, int | None]:
    exit_code = next(
        (code for name in ("exitCode", "exit_code") if (code := integer_of(facts.get(name))) is not None), None
    )
    if facts.get("interrupted") is True:
        return "cancelled", exit_code
    if event.is_failed or facts.get("isError") is True or facts.get("is_error") is True:
        match = _EXIT_CODE.match(text or "")
        return "failed", int(match.group(1)) if match is not None else exit_code
    return ("failed" if exit_code else "ok"), exit_code
