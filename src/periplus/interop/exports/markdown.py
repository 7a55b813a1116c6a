"""Export of a trail as a Markdown report, for a reviewer of the agent's work.

The order is that of a review: a table of facts, the evidence, prompts and results turn by turn, the changes file by
file, failures, and all steps at the end in a folded section. The report contains no judgement.

Texts of people, agents and programs are untrusted. They stand in code spans and fenced blocks only, with fences
longer than any run of their character inside, so that they cannot become a heading, a link, an image, a mention or
HTML.
"""

from __future__ import annotations

__all__ = ["markdown_lines"]

import difflib
import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from periplus.base.clock import format_ms
from periplus.interop.exports.trail_source import ExportSource, Moment
from periplus.trail import Digest, Report, visible
from periplus.trail.listings.sequence_alignment import align_texts

TURNS_MAX: Final = 200
FILES_MAX: Final = 200
EDITS_MAX: Final = 40  # of one file
DIFF_LINES_MAX: Final = 120  # of one edit
DIFF_LINES_ALL: Final = 4_000
TROUBLES_MAX: Final = 50
STEPS_MAX: Final = 500
_QUOTE_LINES_MAX: Final = 14
_QUOTE_CHARS_MAX: Final = 4_000
_COLUMNS: Final = 100
_HEADING_CHARS_MAX: Final = 100
_COMPARED_CHARS_MAX: Final = 200_000
_READS: Final = frozenset({"FILE_READ", "FILE_LIST", "SEARCH_CODE"})
_CHANGES: Final = frozenset({"FILE_WRITE", "FILE_EDIT", "FILE_DELETE", "FILE_MOVE"})
_DONE: Final = frozenset({"ok", "unknown"})  # some agents do not store outcomes: the requested action is shown anyway
_WRONG: Final = frozenset({"failed", "denied", "cancelled"})
_NAMES: Final = (
    ("FILE_READ", "file read", "files read"),
    ("SEARCH_CODE", "search", "searches"),
    ("FILE_EDIT", "edit", "edits"),
    ("FILE_WRITE", "file written", "files written"),
    ("FILE_DELETE", "file deleted", "files deleted"),
    ("FILE_MOVE", "file moved", "files moved"),
    ("COMMAND_RUN", "command", "commands"),
    ("TEST_RUN", "test run", "test runs"),
    ("GIT_COMMIT", "commit", "commits"),
    ("WEB_FETCH", "page fetched", "pages fetched"),
    ("WEB_SEARCH", "web search", "web searches"),
    ("TOOL_CALL", "other tool call", "other tool calls"),
    ("AGENT_SPAWN", "agent sent", "agents sent"),
    ("MODEL_CALL", "model call", "model calls"),
)


class _Change:
    """Changes of one file."""

    def __init__(self) -> None:
        self.edits: list[tuple[int, str, str, str]] = []  # step, what, old, new
        self.count = self.added = self.removed = 0
        self.fate = ""


class _Turn:
    """Steps from one prompt to the next."""

    def __init__(self, prompt: str, index: int, at_ms: int) -> None:
        self.prompt, self.index, self.begin_ms, self.end_ms = prompt, index, at_ms, at_ms
        self.ops: Counter[str] = Counter()
        self.paths: dict[str, None] = {}
        self.tests: list[tuple[str, str]] = []
        self.commits: list[tuple[str, str]] = []
        self.wrong = 0
        self.said = self.label = ""


class _Run:
    """Data of the report, gathered in one pass."""

    def __init__(self, source: ExportSource) -> None:
        self.turns: list[_Turn] = []
        self.ops: Counter[str] = Counter()
        self.changes: dict[str, _Change] = {}
        self.troubles: list[Moment] = []
        self.trouble_count = 0
        self.tests: Counter[str] = Counter()
        self.last_test = ""
        self.unseen = 0  # changes whose contents are missing: their lines cannot be counted
        self.fresh = self.cached = self.out = self.cost = 0
        self.begin_ms = self.end_ms = 0
        self.plan = ""
        self._label = ""  # of the branch of the next prompt, where a session was rewound
        self._known: dict[str, str] = {}  # contents that the trail contains
        for moment in source.moments():
            self._take(source, moment)

    def _take(self, source: ExportSource, moment: Moment) -> None:
        step, op = moment.step, moment.op
        self.begin_ms = self.begin_ms or moment.at_ms
        self.end_ms = max(self.end_ms, moment.at_ms + (step.duration_ms or 0))
        if op == "PROMPT" or not self.turns:
            text = source.text(moment.operand(0)) if op == "PROMPT" else ""
            self.turns.append(_Turn(text, moment.number, moment.at_ms))
            self.turns[-1].label, self._label = self._label, ""
        turn = self.turns[-1]
        turn.end_ms = max(turn.end_ms, moment.at_ms + (step.duration_ms or 0))
        self.ops[op] += 1
        turn.ops[op] += 1
        if step.outcome in _WRONG:
            self.trouble_count += 1
            turn.wrong += 1
            if len(self.troubles) < TROUBLES_MAX:
                self.troubles.append(moment)
        if op == "LABEL":
            self._label = source.text(moment.operand(0))
        elif op == "SAY":
            turn.said = source.text(moment.operand(0))
        elif op == "PLAN_UPDATE":
            self.plan = source.text(moment.operand(0))
        elif op == "TEST_RUN":
            self.tests[step.outcome] += 1
            self.last_test = step.outcome
            turn.tests.append((source.text(moment.operand(0)), step.outcome))
        elif op == "MODEL_CALL":
            fresh, cached, out, cost = (_number(moment, number) for number in range(1, 5))
            self.fresh, self.cached, self.out, self.cost = (
                self.fresh + fresh, self.cached + cached, self.out + out, self.cost + cost,
            )  # fmt: skip
        elif op == "GIT_COMMIT" and step.outcome == "ok":
            commit = moment.operand(2)
            turn.commits.append(
                (commit.value.hex() if isinstance(commit, Digest) else "", source.text(moment.operand(1)))
            )
        elif op in _CHANGES and step.outcome in _DONE:
            self._change(source, moment, turn)

    def _change(self, source: ExportSource, moment: Moment, turn: _Turn) -> None:
        path = source.path(moment.operand(0))
        turn.paths[path] = None
        change = self.changes.setdefault(path, _Change())
        change.count += 1
        old = new = ""
        what = "edited"
        if moment.op == "FILE_EDIT":
            old, new = source.text(moment.operand(1)), source.text(moment.operand(2))
            known = self._known.get(path)
            if known is not None and old:
                is_every = "every occurrence" in source.text(moment.step.note)
                self._known[path] = known.replace(old, new, -1 if is_every else 1)
        elif moment.op == "FILE_WRITE":
            what, old = "written whole", self._known.get(path, "")
            data = source.content(moment.operand(1))
            new = data.decode("utf-8", "replace") if data is not None else ""
            if data is None:
                what += "; its contents are not available"
                self.unseen += 1
            if data is not None and len(new) <= _COMPARED_CHARS_MAX:
                self._known[path] = new
        elif moment.op == "FILE_DELETE":
            what = change.fate = "deleted"
            self._known.pop(path, None)
        else:
            what = change.fate = f"moved to {source.path(moment.operand(1))}"
            if (moved := self._known.pop(path, None)) is not None:
                self._known[source.path(moment.operand(1))] = moved
        if moment.step.outcome != "ok":
            what += "; its outcome is unknown"
        added, removed = _line_counts(old, new)
        change.added += added
        change.removed += removed
        if len(change.edits) < EDITS_MAX:
            change.edits.append((moment.number, what, old, new))


def markdown_lines(source: ExportSource, report: Report, steps: Iterable[str]) -> Iterator[str]:
    """Yield the lines of the report. ``report`` is the result of verifying the trail, ``steps`` its compact listing."""
    run = _Run(source)
    header = source.readers[0].header
    title = source.text(header.title) or (run.turns[0].prompt if run.turns else "") or source.text(header.trail_id)
    yield f"# What the agent did: {_span(title, 100)}"
    yield ""
    yield from _facts(source, run)
    yield from _belief(source, report)
    yield from _turns(run)
    yield from _changes(run)
    yield from _troubles(source, run)
    if run.plan:
        yield from ("## The plan at the end", "", *_fenced(run.plan, "json"), "")
    yield from _steps(source, steps)


def _facts(source: ExportSource, run: _Run) -> Iterator[str]:
    header = source.readers[0].header
    yield "| | |"
    yield "|---|---|"
    model = source.text(header.model)
    yield f"| agent | {_span(source.text(header.agent))}{f' with {_span(model)}' if model else ''} |"
    if run.begin_ms:
        yield f"| when | {format_ms(run.begin_ms)[:16].replace('T', ' ')} UTC, for {_elapsed(run.end_ms - run.begin_ms)} |"
    yield f"| ended | {', '.join(reader.status for reader in source.readers)} |"
    counts = [f"{run.ops[op]:,} {one if run.ops[op] == 1 else many}" for op, one, many in _NAMES if run.ops[op]]
    yield f"| did | {source.step_count:,} steps{': ' if counts else ''}{', '.join(counts)} |"
    if run.changes:
        added, removed = (sum(getattr(one, name) for one in run.changes.values()) for name in ("added", "removed"))
        files = len(run.changes)
        unseen = (
            f"; the content of {run.unseen:,} write{'s' * (run.unseen != 1)} is not available" if run.unseen else ""
        )
        yield f"| changed | {files:,} file{'s' * (files != 1)}, +{added:,} −{removed:,} lines{unseen} |"
    if run.tests:
        tested = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(run.tests.items()))
        yield f"| tests | {tested}; the last one: **{run.last_test}** |"
    if run.trouble_count:
        yield f"| failures | {run.trouble_count:,} step{'s' * (run.trouble_count != 1)} failed, denied or cancelled |"
    if run.fresh or run.out:
        dollars = run.cost / 1_000_000
        cost = f", {dollars:,.{2 if dollars >= 1 else 4}f} US$" if run.cost else ""
        yield f"| tokens | {run.fresh + run.cached:,} in ({run.cached:,} of them cached), {run.out:,} out{cost} |"
    if source.root:
        yield f"| worked in | {_span(source.root)} |"
    if header.base is not None:
        yield f"| began from | {_span(source.text(header.base))} |"
    yield ""


def _belief(source: ExportSource, report: Report) -> Iterator[str]:
    yield "## Evidence"
    yield ""
    yield f"The trail is {_span(source.digest.hex())}."
    yield ""
    if report.ok:
        yield "- It is intact: every step matches this digest."
    else:
        yield f"- **It does not verify**: {_span(report.summary, 200)}"
    for check in report.checks:
        if check.name.split(":")[-1].strip() == "signature":
            yield f"- Signature: {visible(check.detail)}."
    for reader in source.readers:
        header = reader.header
        if source.text(header.tool) == "git":
            yield "- Imported from git history: commit ids identify their contents."
        elif header.source is not None:
            yield f"- Imported from an agent's own session file, {_span(source.text(header.source))}, and as reliable as that file."
        elif source.text(header.tool) == "periplus":
            yield "- Recorded while the agent ran, step by step."
        if reader.is_redacted:
            yield "- Some texts are withheld; digest and signature are those of the whole trail."
    yield "- `--effects` checks, from the base commit, that the steps produce the code."
    yield ""
    name = shlex.quote(source.name)
    yield from _fenced(f"periplus trail verify {name}\nperiplus trail verify --effects {name}", "sh")
    yield ""


def _turns(run: _Run) -> Iterator[str]:
    yield "## Prompts and actions"
    yield ""
    turns = [turn for turn in run.turns if turn.prompt or turn.said or any(_done(turn))]
    for number, turn in enumerate(turns[:TURNS_MAX], 1):
        when = f" · {_elapsed(turn.end_ms - turn.begin_ms)}" if turn.end_ms > turn.begin_ms else ""
        yield f"### {number}. {_span(turn.prompt, _HEADING_CHARS_MAX) if turn.prompt else 'Before any prompt'}"
        yield ""
        if len(turn.prompt) > _HEADING_CHARS_MAX or "\n" in turn.prompt.strip():
            yield from _fenced(_shortened(turn.prompt), "text")
            yield ""
        done = ", ".join(_done(turn))
        where = f" · {_span(turn.label, 80)}" if turn.label else ""
        yield f"Step {turn.index:,}{where}{when}{': ' if done else ', no actions'}{done}."
        yield ""
        if turn.said:
            yield "The agent's last words:"
            yield ""
            yield from _fenced(_shortened(turn.said), "text")
            yield ""
    if len(turns) > TURNS_MAX:
        yield f"… and {len(turns) - TURNS_MAX:,} more prompts."
        yield ""


def _done(turn: _Turn) -> Iterator[str]:
    looked = sum(turn.ops[op] for op in _READS)
    if looked:
        yield f"looked at files {looked:,} time{'s' * (looked != 1)}"
    if turn.paths:
        shown = list(turn.paths)[:8]
        more = f" and {len(turn.paths) - 8:,} more" if len(turn.paths) > 8 else ""
        yield f"changed {', '.join(_span(path, 80) for path in shown)}{more}"
    if turn.ops["COMMAND_RUN"]:
        yield f"ran {turn.ops['COMMAND_RUN']:,} command{'s' * (turn.ops['COMMAND_RUN'] != 1)}"
    if turn.tests:
        outcomes = Counter(outcome for _, outcome in turn.tests)
        yield f"ran tests {len(turn.tests):,}× ({', '.join(f'{count:,} {name}' for name, count in outcomes.items())})"
    for commit, message in turn.commits[:8]:
        first = message.split("\n", 1)[0]
        yield f"committed {_span(commit[:12])} {_span(first, 80)}" if commit else f"committed {_span(first, 80)}"
    if turn.wrong:
        yield f"{turn.wrong:,} step{'s' * (turn.wrong != 1)} did not succeed"


def _changes(run: _Run) -> Iterator[str]:
    if not run.changes:
        return
    yield "## What changed"
    yield ""
    yield "According to the steps. Edits without a step, for example by a command, are missing."
    yield ""
    room = DIFF_LINES_ALL
    for path, change in list(run.changes.items())[:FILES_MAX]:
        times = f"{change.count:,} change{'s' * (change.count != 1)}"
        fate = f", {_span(change.fate, 100)}" if change.fate else ""
        yield "<details>"
        yield f"<summary>{_html(path)} · {times}, +{change.added:,} −{change.removed:,}</summary>"
        yield ""
        if fate:
            yield fate[2:]
            yield ""
        for index, what, old, new in change.edits:
            yield f"Step {index:,}: {_span(what, 120)}"
            yield ""
            lines = list(_diff(old, new, min(DIFF_LINES_MAX, room)))
            room -= len(lines)
            if lines:
                yield from _fenced("\n".join(lines), "diff")
                yield ""
        if change.count > len(change.edits):
            yield f"… and {change.count - len(change.edits):,} more."
            yield ""
        yield "</details>"
        yield ""
    if len(run.changes) > FILES_MAX:
        yield f"… and {len(run.changes) - FILES_MAX:,} more files."
        yield ""


def _troubles(source: ExportSource, run: _Run) -> Iterator[str]:
    if not run.troubles:
        return
    yield "## Failures"
    yield ""
    yield "| step | what | outcome |"
    yield "|---:|---|---|"
    for moment in run.troubles:
        what = source.text(moment.operand(1 if moment.op == "TOOL_CALL" else 0))
        code = f" ({moment.step.exit_code})" if moment.step.exit_code is not None else ""
        error = source.text(moment.step.error).strip()
        said = f": {_span(error, 120)}" if error else ""
        yield f"| {moment.number:,} | {moment.op} {_span(what, 80)} | {moment.step.outcome}{code}{said} |"
    yield ""
    if run.trouble_count > len(run.troubles):
        yield f"… and {run.trouble_count - len(run.troubles):,} more."
        yield ""


def _steps(source: ExportSource, steps: Iterable[str]) -> Iterator[str]:
    shown = []
    for line in steps:
        shown.append(line)
        if len(shown) > STEPS_MAX:
            break
    if not shown:
        return
    yield "## Every step"
    yield ""
    yield "<details>"
    yield f"<summary>{source.step_count:,} step{'s' * (source.step_count != 1)}</summary>"
    yield ""
    more = ["…", "the rest: periplus trail show"] if len(shown) > STEPS_MAX else []
    yield from _fenced("\n".join(shown[:STEPS_MAX] + more), "text")
    yield ""
    yield "</details>"


# -- untrusted text --------------------------------------------------------------------------------------------------


def _span(text: str, width: int = 200) -> str:
    """Return ``text`` on one line in a code span, cut to ``width`` characters, safe within a table."""
    line = visible(" ".join(text.split()))
    if len(line) > width:
        line = line[: width - 1] + "…"
    if not line:
        return "–"
    ticks = "`" * (_longest_run(line, "`") + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}".replace("|", "\\|")


def _fenced(text: str, language: str) -> Iterator[str]:
    """Yield ``text`` in a fence that its contents cannot close."""
    lines = [visible(line.expandtabs(4)) for line in text.split("\n")]
    lines = [line.rstrip(" ") for line in lines]
    fence = "`" * max(3, _longest_run(text, "`") + 1)
    yield fence + language
    yield from lines
    yield fence


def _html(text: str) -> str:
    line = visible(" ".join(text.split()))[:200]
    escaped = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<code>{re.sub('[^A-Za-z0-9 ./&;-]', lambda found: f'&#{ord(found[0])};', escaped)}</code>"


def _longest_run(text: str, character: str) -> int:
    return max((len(run) for run in re.findall(f"{re.escape(character)}+", text)), default=0)


def _shortened(text: str) -> str:
    """Return the beginning of a text with wrapped lines."""
    lines: list[str] = []
    cut = text[:_QUOTE_CHARS_MAX].strip("\n")
    for line in cut.expandtabs(4).splitlines():
        lines += textwrap.wrap(line, _COLUMNS, drop_whitespace=False, break_on_hyphens=False) or [""]
    is_cut = len(text) > _QUOTE_CHARS_MAX or len(lines) > _QUOTE_LINES_MAX
    return "\n".join(lines[:_QUOTE_LINES_MAX] + ([f"… ({len(text):,} characters in all)"] if is_cut else []))


def _diff(old: str, new: str, limit: int) -> Iterator[str]:
    if limit <= 0 or not (old or new):
        return
    before, after = old.splitlines(), new.splitlines()
    if len(old) + len(new) <= _COMPARED_CHARS_MAX:
        lines = list(_unified(before, after))
    else:
        lines = [f"-{line}" for line in before[:limit]] + [f"+{line}" for line in after[:limit]]
    yield from lines[:limit]
    if len(lines) > limit:
        yield f"… {len(lines) - limit:,} more lines"


class _Aligned(difflib.SequenceMatcher[str]):
    """SequenceMatcher in bounded time: that of the library is unbounded for hostile edits."""

    def __init__(self, before: list[str], after: list[str]) -> None:
        super().__init__(None, before, after, autojunk=False)
        self._blocks = [difflib.Match(*one) for one in align_texts(before, after)]
        self._blocks.append(difflib.Match(len(before), len(after), 0))

    def get_matching_blocks(self) -> list[difflib.Match]:
        return self._blocks


def _unified(before: list[str], after: list[str]) -> Iterator[str]:
    """Yield a unified diff without file names, with two lines of context."""
    for group in _Aligned(before, after).get_grouped_opcodes(2):
        places = ((group[0][1], group[-1][2]), (group[0][3], group[-1][4]))
        old, new = (_range(begin, end) for begin, end in places)
        yield f"@@ -{old} +{new} @@"
        for tag, low_a, high_a, low_b, high_b in group:
            if tag == "equal":
                yield from (f" {line}" for line in before[low_a:high_a])
            else:
                yield from (f"-{line}" for line in before[low_a:high_a])
                yield from (f"+{line}" for line in after[low_b:high_b])


def _range(begin: int, end: int) -> str:
    size = end - begin
    first = begin + 1 if size else begin  # an empty range stands after the line before it
    return f"{first}" if size == 1 else f"{first},{size}"


def _line_counts(old: str, new: str) -> tuple[int, int]:
    """Return the lines added and removed between two texts."""
    if len(old) + len(new) > _COMPARED_CHARS_MAX:
        return len(new.splitlines()), len(old.splitlines())
    before, after = old.splitlines(), new.splitlines()
    common = sum(one.length for one in align_texts(before, after))
    return len(after) - common, len(before) - common


def _number(moment: Moment, index: int) -> int:
    value = moment.operand(index)
    return int(value) if isinstance(value, int) else 0


def _elapsed(ms: int) -> str:
    seconds = ms // 1000
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
