"""A rule of ``memory.reflection.reflect``: corrections that a person made after an agent had acted.

Only sentences that say how things are to be done count, in the person's own words. Sentences about this moment only
("don't commit yet"), questions, pasted text, and sentences that point at something unnamed ("don't do that") are not
rules. English, German, French and Spanish.
"""

from __future__ import annotations

__all__ = ["corrections"]

import re
from collections.abc import Iterator, Sequence
from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.memory.reflection.proposal import Act, Proposal, Seen, SessionActs

_PROMPT_CHARACTERS_MAX: Final = 2_000
_SENTENCE_CHARACTERS_MIN: Final = 12
_SENTENCE_CHARACTERS_MAX: Final = 300
_OF_A_PROMPT: Final = 2
_WITHOUT_ANOTHER: Final = 50  # confidence of a rule that says only what not to do

_OPENING: Final = (
    r"^(?:(?:no|nope|nein|non|please|bitte|and|but|also|ok|okay|so|oh|hmm|wait|stop|actually|again|remember|well|yes|yeah|hey|i said|as i said"
    r"|like i said|s'il te pla[iî]t|por favor)\b[\s,.:;!–-]*)*"
)
_DO: Final = (
    r"(?:use|using|add|adding|commit|push|mock|mocking|write|create|touch|edit|modify|change|put|call|import|install|run|rely|depend|skip|catch"
    r"|swallow|hardcode|hard-code|duplicate|introduce|return|log|print|delete|remove|rename|name|store|pass|assume|generate|bypass|disable"
    r"|ignore|amend|squash|force|merge|document|comment|copy|inline|nest|wrap|test|expose|leak|mention|include)"
)
_RULES: Final[tuple[tuple[int, re.Pattern[str]], ...]] = tuple(
    (confidence, re.compile(pattern, re.IGNORECASE))
    for confidence, pattern in (
        (75, _OPENING + r"(?:always|never)\s+(?!mind\b|said\b|asked\b|works?\b|been\b|seen\b|had\b)[a-z]+"),
        (75, _OPENING + r"(?:from now on|going forward|in future|as a (?:general )?rule|by convention)\b"),
        (70, r"^(?:[^,]{0,40},\s*)?(?:we|you) (?:should |must |want to |have to |do )?(?:always|never) [a-z]+"),
        (
            65,
            _OPENING
            + r"we (?:should be|should|must) [^?]*\b(?:wherever|everywhere|in all (?:cases|places)|whenever)\b",
        ),
        (65, _OPENING + r"we (?:do not|don[’']t) " + _DO + r"\b"),
        (60, _OPENING + r"(?:use|prefer) \S[^.?]*(?:\binstead of\b|\brather than\b|\bover\b|, not\b|\bnot\b) ?\S"),
        (
            60,
            _OPENING + r"(?:do not|don[’']t) (?:ever )?" + _DO + r"\b[^.?]*\b(?:use|mock|add|but|just|only|instead)\b",
        ),
        (50, _OPENING + r"(?:do not|don[’']t|stop) (?:ever )?" + _DO + r"\b"),
        (75, _OPENING + r"(?:immer|niemals|nie wieder|nie)\s+\w+\s+\w+"),
        (60, _OPENING + r"(?:verwende|benutze|nimm|nutze) \S[^.?]*\b(?:statt|anstatt|anstelle)\b"),
        (50, _OPENING + r"(?:verwende|benutze|nimm|nutze|ändere|committe|pushe) (?:nie|niemals|nicht|kein\w*)\b"),
        (75, _OPENING + r"(?:toujours|jamais|ne \w+ jamais)\s+\w+"),
        (60, _OPENING + r"(?:utilise[zr]?|préfère) \S[^.?]*(?:\bau lieu d|\bplutôt qu)"),
        (75, _OPENING + r"(?:siempre|nunca)\s+\w+"),
        (60, _OPENING + r"(?:usa|utiliza) \S[^.?]*\ben (?:vez|lugar) de\b"),
    )
)
_INSTEAD: Final = re.compile(_OPENING + r"(?:instead,? )?" + _DO + r"\s+\S+ \S[^?]*$", re.IGNORECASE)
_MOMENTARY: Final = re.compile(
    r"\b(?:yet|for now|right now|this time|just now|for the moment|at the moment|until|today|first|in this (?:step|pr|commit|prompt|case)|now,? just"
    r"|anything|erstmal|noch nicht|pour l['’]instant|por ahora|todavía|for this|the (?:last|previous) (?:change|commit)|you (?:just|did|wrote)|(?:those|these) \w+)\b",
    re.IGNORECASE,
)
_UNNAMED: Final = re.compile(
    r"\b" + _DO + r"\s+(?:it|that|this|them|those|these|so|anything|everything|code)\b(?!\s+\w+\s+\w+)|^\W*\w+\s+\w+\W*$"
    r"|(?:do not|don[’']t|stop) (?:modify|change|edit|touch|remove|delete|rename|write|create)\w*\s+\S+\W*$", re.IGNORECASE,
)  # fmt: skip
_PASTED: Final = re.compile(
    r"^\s*(?:[<{\[|>+$#]|/\w+|```|Traceback|Operation stopped|\[Request|This session is being|Caveat:)|```|Traceback \(most recent"
    r"|^(?:[+-] {2,}|\s*\d+[→|:])", re.MULTILINE,
)  # fmt: skip
_AROUND: Final = re.compile(
    r"<(ide_\w+|system-reminder|environment_context|hook_context)>.*?</\1>\s*", re.DOTALL
)  # text that a program added
_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+|\n+|\s+[–—]+\s+|\s--+\s")
_REASON: Final = re.compile(r"the user said:\s*(.+)", re.DOTALL | re.IGNORECASE)


class _Said(NamedTuple):
    sentence: str
    confidence: int
    session: SessionActs
    act: Act
    after: Act


def corrections(sessions: Sequence[SessionActs], beside: Sequence[SessionActs]) -> Iterator[Proposal]:
    """Yield the proposals of the rule ``correction``."""
    ours = {session.trail for session in sessions}
    same: dict[str, list[_Said]] = {}
    for session in {one.trail: one for one in (*beside, *sessions)}.values():
        for said in _said_in(session):
            same.setdefault(re.sub(r"\W+", " ", said.sentence.lower()).strip(), []).append(said)
    for key, found in same.items():
        mine = [one for one in found if one.session.trail in ours]
        if not mine:
            continue
        last = mine[-1]
        count = len({one.session.trail for one in found})
        told = f"after the agent had {_done(last.after)}"
        why = f"a person said so in {count} sessions, the last time {told}" if count > 1 else f"a person said so {told}"
        seen = [Seen(last.session.trail, last.act.step, last.sentence)]
        seen += [Seen(one.session.trail, one.act.step, one.sentence) for one in reversed(found) if one is not last]
        about = (last.after.text,) if last.after.kind == "change" and not last.after.text.startswith("/") else ()
        yield Proposal(
            "correction", "constraint", ("correction", key), last.sentence, why, tuple(seen),
            min(95, last.confidence + 15 * (count - 1)), about,
        )  # fmt: skip


def _said_in(session: SessionActs) -> Iterator[_Said]:
    if not session.by_person:
        return
    after: Act | None = None
    is_first = True
    for act in session.acts:
        if act.outcome == "denied" and (reason := _REASON.search(act.error)) is not None:
            for sentence, confidence in _directives(reason.group(1)):
                yield _Said(sentence, confidence, session, act, act)
        if act.kind != "prompt":
            after = act if after is None or act.kind in ("change", "command", "test") or after.kind == "say" else after
            continue
        if not is_first and after is not None:
            for sentence, confidence in _directives(act.text):
                yield _Said(sentence, confidence, session, act, after)
        is_first, after = False, None


def _directives(prompt: str) -> list[tuple[str, int]]:
    """Return the sentences of a prompt that say how things are to be done, each with its confidence."""
    prompt = _AROUND.sub("", prompt) if "</" in prompt else prompt
    if len(prompt) > _PROMPT_CHARACTERS_MAX or _PASTED.search(prompt) or "[masked:" in prompt:
        return []
    found: list[tuple[str, int]] = []
    parts = [" ".join(part.split()) for part in _SENTENCE.split(prompt)]
    for at, sentence in enumerate(parts):
        if not _SENTENCE_CHARACTERS_MIN <= len(sentence) <= _SENTENCE_CHARACTERS_MAX or sentence.endswith("?"):
            continue
        if "?" in sentence or _MOMENTARY.search(sentence) or _UNNAMED.search(sentence):
            continue
        confidence = max((sure for sure, rule in _RULES if rule.search(sentence)), default=0)
        more = next(iter(parts[at + 1 : at + 2]), "")
        if (
            confidence == _WITHOUT_ANOTHER
            and _INSTEAD.match(more)
            and len(sentence) + len(more) < _SENTENCE_CHARACTERS_MAX
        ):
            found.append((f"{sentence} {more}", confidence + 10))  # with what to do instead
        elif confidence:
            found.append((sentence, confidence))
    return found[:_OF_A_PROMPT]


def _done(act: Act) -> str:
    if act.kind == "change":
        return f"changed {act.text}"
    if act.kind in ("command", "test"):
        return f"run `{act.text[:80]}`"
    return "answered" if act.kind == "say" else "looked around"
