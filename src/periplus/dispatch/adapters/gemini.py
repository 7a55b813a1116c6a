"""Gemini CLI (tried with 0.61.0): JSON lines, the prompt on standard input.

``GEMINI_CLI_TRUST_WORKSPACE`` trusts the folder for this process, so that the server and hooks in ``.gemini/settings.json`` count
(``--skip-trust`` comes after the settings were read, and they do not); ``yolo`` approves the tools. The id of the session is ours, and ``--resume`` takes it in the same folder. The usage of ``result`` is that of this process, comes
only at the end, and knows no prices. The exit code after an error of the provider is the HTTP status modulo 256.

Its commands run without the person's global settings of git (``GIT_CONFIG_GLOBAL=/dev/null``), but with ``GIT_CONFIG_COUNT`` of the run.
"""

from __future__ import annotations

__all__ = ["GEMINI"]

import glob
import os
from collections.abc import Mapping
from typing import Final

from periplus.dispatch.adapters.model import Adapter, Explanation, Probe, SignedIn, Sought, Start
from periplus.dispatch.adapters.output import TEXT_MAX, JsonLines, Spent, count, members, text

_KEYS: Final = ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS")
_SHORT: Final = 8  # of the id in the name of a transcript
_HEAD: Final = 4_096


def _words(start: Start) -> tuple[str, ...]:
    session = ("--resume", start.resume) if start.resume else ("--session-id", start.session)
    model = ("--model", start.model) if start.model else ()
    return ("--output-format", "stream-json", "--approval-mode", "yolo", *session, *model)


class _Reading(JsonLines):
    def __init__(self, before: Spent = Spent()) -> None:  # noqa: B008 - a frozen value
        super().__init__(before)
        self._said = ""

    def event(self, event: dict[str, object]) -> None:
        kind = event.get("type")
        if kind == "message" and event.get("role") == "assistant":
            self._said = (self._said + text(event.get("content")))[-TEXT_MAX:]
            self.say(self._said)
            return
        self._said = ""
        if kind == "init":
            self.begin(text(event.get("session_id")))
        elif kind == "error":
            self.fail(text(event.get("message")))
        elif kind == "result":
            stats = members(event, "stats")
            tokens_in = count(stats.get("input_tokens"))
            thought = max(0, count(stats.get("total_tokens")) - tokens_in)  # thoughts count as output, too
            self.spent = Spent(tokens_in, count(stats.get("cached")), max(count(stats.get("output_tokens")), thought))
            if event.get("status") == "error":
                self.ended = "failed"
                self.fail(text(members(event, "error").get("message")))
            else:
                self.ended, self.wants, self.problem = "done", "", ""


def _transcripts(sought: Sought) -> list[str]:
    """Return the files whose name has the beginning of the id, and which name all of it."""
    folder = glob.escape(os.path.join(sought.home, ".gemini", "tmp"))
    pattern = os.path.join(folder, "*", "chats", f"session-*-{glob.escape(sought.session[:_SHORT])}.json*")
    return sorted(path for path in glob.glob(pattern) if sought.session.encode() in _head(path))


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b""


def _signed_in(environment: Mapping[str, str]) -> SignedIn:
    for name in _KEYS:
        if environment.get(name):
            return SignedIn(is_found=True, says=f"{name} is set")
    path = os.path.join(environment.get("HOME", ""), ".gemini", "oauth_creds.json")
    if os.path.isfile(path):
        return SignedIn(is_found=True, says=f"{path} is there")
    return SignedIn(is_found=False, says="no key and no stored login (a keychain is not looked into)", is_known=False)


GEMINI: Final = Adapter(
    "gemini", "Gemini CLI", ("gemini",), "0.61", "gemini",
    (*_KEYS, "GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA",
     "GEMINI_MODEL"),
    _words, _Reading, _transcripts, _signed_in,
    "Start `gemini` and choose how to sign in, or set GEMINI_API_KEY.",
    constants={"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true"},
    codes={
        41: Explanation("login", "it is not signed in"),
        42: Explanation("", "it did not accept the session or the prompt"),
        44: Explanation("", "its sandbox did not start"),
        52: Explanation("", "its settings have an error"),
        53: Explanation("limit", "it reached its limit of turns"),
        130: Explanation("", "it was interrupted"),
    },
    probe=Probe(("--help",), ("--output-format", "--approval-mode", "--session-id", "--resume")),
)  # fmt: skip
