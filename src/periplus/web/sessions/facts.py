"""Facts of a session for the head of its page: names, times, counts, and the digest of its trail."""

from __future__ import annotations

__all__ = ["Fact", "facts_of", "title_of"]

from collections.abc import Iterator
from typing import Final, NamedTuple

from periplus.base.clock import format_ms
from periplus.interop.exports.trail_source import ExportSource
from periplus.web.rendering.text import count_text, duration_text, money_text
from periplus.web.sessions.overview import Overview
from periplus.web.sessions.texts import Texts
from periplus.web.sessions.values import Limits

_LINE: Final = Limits(400, 4, 0)
_KEY_BYTES: Final = 32


class Fact(NamedTuple):
    name: str
    text: str
    is_code: bool = False


def title_of(source: ExportSource, overview: Overview) -> str:
    """Return the title of a session: its own, else its first prompt, else its name."""
    texts, header = Texts(source, _LINE), source.readers[0].header
    first = next((mark.text for mark in overview.marks if mark.kind == "prompt"), "")
    return texts.line(header.title) or first or texts.line(header.trail_id) or source.name


def facts_of(source: ExportSource, overview: Overview) -> tuple[Fact, ...]:
    return tuple(_facts(source, overview))


def _facts(source: ExportSource, overview: Overview) -> Iterator[Fact]:
    texts, totals = Texts(source, _LINE), overview.totals
    header = source.readers[0].header
    yield Fact("Agent", texts.line(header.agent))
    if header.model is not None:
        yield Fact("Model", texts.line(header.model))
    if totals.begin_ms:
        yield Fact("Began", f"{format_ms(totals.begin_ms)[:16].replace('T', ' ')} UTC")
        yield Fact("Took", duration_text(totals.end_ms - totals.begin_ms))
    yield Fact("Ended", ", ".join(dict.fromkeys(reader.status for reader in source.readers)))
    yield Fact("Steps", f"{totals.steps:,}")
    if totals.count("PROMPT"):
        yield Fact("Prompts", f"{totals.count('PROMPT'):,}")
    if overview.files:
        yield Fact("Changed", count_text(len(overview.files) + overview.files_left_out, "file"))
    if totals.passed or totals.failed:
        yield Fact("Tests", f"{count_text(totals.passed, 'run')} passed, {totals.failed:,} failed")
    if totals.wrong:
        yield Fact("Failures", count_text(totals.wrong, "step"))
    if totals.count("GIT_COMMIT"):
        yield Fact("Commits", f"{totals.count('GIT_COMMIT'):,}")
    usage = totals.usage
    if usage.given or usage.out:
        yield Fact("Tokens", f"{usage.given:,} in, {usage.cached_percent} % of them cached, {usage.out:,} out")
    if usage.cost:
        yield Fact("Cost", money_text(usage.cost))
    if source.root:
        yield Fact("Worked in", source.root, True)
    if header.base is not None:
        yield Fact("Began from", texts.line(header.base), True)
    yield Fact("Digest", source.digest.hex(), True)
    for reader in source.readers:
        if reader.signature is not None:
            yield Fact("Signed with", reader.signature[:_KEY_BYTES].hex(), True)
