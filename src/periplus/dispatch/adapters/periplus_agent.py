"""Our own agent: ``periplus run - --json --mode autonomous``, the prompt on standard input.

The name of the session is ours; an existing one goes on, after its interrupted turn if there is one. Each answer tells its usage. Its
trail is written into the store while it runs, so there is no transcript to import, and it knows the project without being connected. Its sandbox lets git be read and not written, since what
lies there is run by others; so the supervisor commits what it changed.
"""

from __future__ import annotations

__all__ = ["PERIPLUS"]

import os
from collections.abc import Mapping
from typing import Final

from periplus.base.errors import PeriplusError
from periplus.dispatch.adapters.model import Adapter, Explanation, Probe, SignedIn, Sought, Start, setting_folder
from periplus.dispatch.adapters.output import JsonLines, Spent, Wants, count, members, text

_KEYS: Final = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
_LIMITS: Final = ("steps", "budget", "overflow", "length")


def _words(start: Start) -> tuple[str, ...]:
    session = ("--resume", start.resume) if start.resume else ("--session", start.session)
    return (
        *start.command[1:], "run", "-", "--json", "--mode", "autonomous", *session,
        *(("--model", start.model) if start.model else ()), *(("--budget", str(start.cents)) if start.cents else ()),
        *(("--budget-tokens", str(start.tokens)) if start.tokens else ()),
    )  # fmt: skip


class _Reading(JsonLines):
    def event(self, event: dict[str, object]) -> None:
        kind, is_own = event.get("event"), not event.get("agent")
        if kind == "run_started" and is_own:
            self.begin(text(event.get("session")))
        elif kind == "answer_completed":
            usage = members(event, "usage")
            names = ("prompt_tokens", "cached", "completion_tokens", "cost")
            self.spent += Spent(*(count(usage.get(name)) for name in names))
            if is_own:
                self.say(text(event.get("text")))
        elif kind == "retry_scheduled" and is_own:
            self.fail(text(event.get("error")))
        elif kind == "turn_ended" and is_own:
            reason = text(event.get("reason"))
            self.say(text(event.get("text")))
            if reason == "done":
                self.ended, self.wants, self.problem = "done", "", ""
            else:
                wants: Wants = "limit" if reason in _LIMITS else ""
                self.ended = "failed"
                self.fail(f"{reason}: {text(event.get('note'))}", wants)


def _transcripts(_: Sought) -> list[str]:
    return []


def _signed_in(environment: Mapping[str, str]) -> SignedIn:
    from periplus.agent.models.api_keys import Keys

    folder = os.path.join(setting_folder(environment, "XDG_CONFIG_HOME", ".config"), "periplus")
    try:
        providers = Keys(folder, environment).providers()
    except PeriplusError as error:
        return SignedIn(is_found=False, says=str(error))
    if providers:
        return SignedIn(is_found=True, says=f"keys of {', '.join(sorted(providers))}")
    return SignedIn(is_found=False, says="no key of a provider; a local one needs none", is_known=False)


PERIPLUS: Final = Adapter(
    "periplus", "Periplus", (), "", "", (*_KEYS, "PERIPLUS_MODEL", "PERIPLUS_MAX_STEPS", "PERIPLUS_CONTEXT_TOKENS"),
    _words, _Reading, _transcripts, _signed_in,
    "Type: periplus setup", records=True, commits=False,
    codes={
        4: Explanation("", "it did not get a lock in time"),
        5: Explanation("", "it was refused something"),
        7: Explanation("limit", "it reached a limit"),
        130: Explanation("", "it was interrupted"),
    },
    probe=Probe(("run", "--help"), ("--json", "--mode", "--session", "--resume")),
)  # fmt: skip
