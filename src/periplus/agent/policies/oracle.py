"""Oracle: when the model says that it is done, the project's own check decides.

A check that fails or cannot be run starts another round, and the model sees its output in this turn. After ``rounds`` the turn may end, and
says that the check still fails.
"""

from __future__ import annotations

__all__ = ["CHECK_S_MAX", "CommandOracle", "NullOracle", "OraclePolicy"]

from collections.abc import Sequence
from typing import Final

from periplus.agent.contracts import Continue, Oracle, Stop, StopReason, ToolHost, ToolResult, Usage
from periplus.agent.episodes import Episode, Fed
from periplus.agent.hooks import Hook

ROUNDS: Final = 3
_SHOWN_CHARACTERS_MAX: Final = 12_000
_CALL_S: Final = 600  # of one call of the tool: then the command goes on behind it, and is waited for
CHECK_S_MAX: Final = 3_600
_WHOLE: Final = "The whole of it: "


class NullOracle:
    """An oracle that always agrees."""

    def verify(self) -> tuple[bool, str]:
        return True, ""


class CommandOracle:
    """A command of the project, run by the host's command tool. It agrees if the command ends with 0.

    A command that goes on in the background after the deadline of its call is awaited; after ``most_s`` it is stopped and counts as failed.
    """

    def __init__(
        self, host: ToolHost, command: str, *, tool: str = "shell", argument: str = "command",
        most_s: float = CHECK_S_MAX, call_s: float = _CALL_S,
    ) -> None:  # fmt: skip
        self._host, self._command = host, command
        self._tool, self._argument = tool, argument
        self._most_s, self._call_s = most_s, min(call_s, most_s)

    def verify(self) -> tuple[bool, str]:
        result = self._host.run(self._tool, {self._argument: self._command, "deadline_s": self._call_s})
        where = f"\n{_WHOLE}{result.handle}" if result.handle else ""
        ended = ""
        if result.outcome == "ok" and result.exit_code is None:
            result, ended = self._awaited(result)
        if result.outcome == "ok" and result.exit_code == 0:
            return True, result.output
        ended = ended or (f"exit code {result.exit_code}" if result.exit_code is not None else result.outcome)
        return False, f"$ {self._command}\n{result.output.rstrip()}\n({ended}){where}"

    def _awaited(self, begun: ToolResult) -> tuple[ToolResult, str]:
        """The result of a command that goes on behind its call, and how it ended where it did not end by itself."""
        listed = self._host.run("process", {"action": "list"}).output.splitlines()
        name = next((row.partition("\t")[0] for row in listed if begun.handle and begun.handle in row.split("\t")), "")
        if not name:
            return begun, "it did not say how it ended"
        waited_s = self._call_s
        while waited_s < self._most_s:
            wait_s = min(self._call_s, self._most_s - waited_s)
            result = self._host.run("process", {"action": "poll", "id": name, "wait_s": wait_s})
            if result.exit_code is not None or result.outcome != "ok":
                return result, ""
            waited_s += wait_s
        return self._host.run("process", {"action": "stop", "id": name}), f"stopped: not over after {waited_s:,.0f} s"


class OraclePolicy(Hook):
    """Asks ``oracle`` before the turn is done. ``verdict`` is the output of the turn's last check, None before one."""

    def __init__(self, oracle: Oracle, *, rounds: int = ROUNDS) -> None:
        self._oracle, self._rounds = oracle, rounds
        self._asked = 0
        self.verdict: bool | None = None

    @property
    def name(self) -> str:
        return "oracle"

    def reset_for_turn(self) -> None:
        self._asked = 0
        self.verdict = None

    def after_step(self, step: int, usage: Usage, stop_reason: StopReason | None) -> Stop | None:
        """At the end of the last round the check is asked once more: what stands then is said as it is."""
        del step, usage
        if stop_reason != "done" or self._asked < self._rounds:
            return None
        self.verdict, output = self._verified()
        if self.verdict:
            return None
        note = f"The check still fails after {self._rounds} more rounds: {_last_line(output)}"
        return Stop(reason="stuck", note=note)

    def should_continue_after_stop(self, stop: Stop) -> Continue | None:
        if stop.reason != "done" or self._asked >= self._rounds:
            return None
        self.verdict, output = self._verified()
        if self.verdict:
            return None
        self._asked += 1
        left = self._rounds - self._asked
        feedback = (
            "You said that you are done, but the project's check does not agree. Go on until it does "
            f"({left} more round{'s' * (left != 1)} after this one). What it said:"
        )
        return Continue(feedback=feedback, quoted=_shown(output), source=self.name)

    def restore(self, episodes: Sequence[Episode]) -> None:
        """Count the rounds of the turn so far; the check itself runs again."""
        self._asked = sum(isinstance(one, Fed) and one.source == self.name for one in episodes)

    def _verified(self) -> tuple[bool, str]:
        try:
            is_right, output = self._oracle.verify()
        except Exception as error:  # noqa: BLE001 - a check that cannot be run has not agreed, whatever kept it from it
            return False, f"The check could not be run: {type(error).__name__}: {error}"
        return is_right, output


def _shown(output: str) -> str:
    if len(output) <= _SHOWN_CHARACTERS_MAX:
        return output
    half = _SHOWN_CHARACTERS_MAX // 2
    return f"{output[:half]}\n… {len(output) - 2 * half:,} characters left out; run the check to see them …\n{output[-half:]}"


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith(_WHOLE)]
    return " ".join(line[:200] for line in lines[-2:]) if lines else "it said nothing"
