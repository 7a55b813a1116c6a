"""Any command as an agent: a row ``[agents.NAME]`` of the user's ``agent.toml``.

::

    [agents.mine]
    command = ["mine", "--file", "{prompt_file}"]   # never the prompt itself
    prompt = "file"                                  # or "stdin", which is the default
    environment = ["MINE_API_KEY"]                   # variables that it is given
    resume = ["mine", "--continue", "{session}"]     # goes on with a session; without it each run is a new one
    transcript = "{home}/.mine/{session}.jsonl"      # a pattern of the files that `periplus trail import` reads

Words may contain ``{prompt_file}``, ``{worktree}``, ``{run_folder}``, ``{session}``, ``{model}`` and ``{run}``.

Its output is text, in which these lines of JSON count, all members but ``type`` optional:

* ``{"type":"usage","tokens_in":1200,"cached":200,"out":30,"cost":0.004}`` what was spent since the last such line: ``cached`` is part of
  ``tokens_in``, the cost is in dollars;
* ``{"type":"session","id":"…"}`` the id that ``resume`` needs, where it is not that of Periplus;
* ``{"type":"text","text":"…"}`` the agent's words;
* ``{"type":"wants","what":"login","text":"…"}`` what a person has to do: login, limit, permission or network;
* ``{"type":"done"}`` and ``{"type":"failed","text":"…"}`` its own word on the end.
"""

from __future__ import annotations

__all__ = ["command_adapter"]

import glob
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, get_args

from periplus.dispatch.adapters.model import Adapter, SignedIn, Sought, Start
from periplus.dispatch.adapters.output import JsonLines, Spent, Wants, count, millionths, text

if TYPE_CHECKING:
    from periplus.agent.settings import AgentRow

_FOUND_MAX: Final = 100
_PLACE: Final = re.compile(r"\{(prompt_file|worktree|run_folder|session|model|run|home)\}")


def command_adapter(row: AgentRow) -> Adapter:
    """Return the adapter of a row of the user's settings."""

    def words(start: Start) -> tuple[str, ...]:
        places = {
            "prompt_file": start.prompt_path, "worktree": start.worktree, "run_folder": start.run_folder, "model": start.model,
            "session": start.resume or start.session, "run": start.run,
        }  # fmt: skip
        chosen = row.resume if start.resume and row.resume else row.command
        return tuple(_filled(word, places) for word in chosen[1:])

    def transcripts(sought: Sought) -> list[str]:
        if not row.transcript:
            return []
        places = {"worktree": sought.worktree, "session": sought.session, "home": sought.home}
        pattern = _filled(row.transcript, {name: glob.escape(value) for name, value in places.items()})
        pattern = pattern if os.path.isabs(pattern) else os.path.join(glob.escape(sought.worktree), pattern)
        return sorted(path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path))[:_FOUND_MAX]

    return Adapter(
        row.name, row.name, row.command[:1], "", "", row.environment, words, _Reading, transcripts, _signed_in,
        f"Sign in to {row.name} as its documentation says.", prompt=row.prompt, can_resume=bool(row.resume),
    )  # fmt: skip


def _filled(word: str, places: Mapping[str, str]) -> str:
    """Return a word with its places filled in once: what is filled in is not searched again."""
    return _PLACE.sub(lambda found: places.get(found[1], ""), word)


class _Reading(JsonLines):
    def event(self, event: dict[str, object]) -> None:
        kind, said = event.get("type"), text(event.get("text"))
        if kind == "usage":
            tokens_in, cached, out = (count(event.get(name)) for name in ("tokens_in", "cached", "out"))
            self.spent += Spent(tokens_in, cached, out, millionths(event.get("cost")))
        elif kind == "session":
            self.begin(text(event.get("id")))
        elif kind == "text":
            self.say(said)
        elif kind == "wants":
            named = event.get("what")
            wants: Wants = next((one for one in get_args(Wants) if one == named), "")
            self.fail(said or f"it wants: {wants}", wants)
        elif kind == "failed":
            self.ended = "failed"
            self.fail(said)
        elif kind == "done":
            self.ended, self.wants, self.problem = "done", "", ""

    def line(self, line: str) -> None:
        super().line(line)
        self.say(line)


def _signed_in(_: Mapping[str, str]) -> SignedIn:
    return SignedIn(is_found=False, says="it cannot be known for a command", is_known=False)
