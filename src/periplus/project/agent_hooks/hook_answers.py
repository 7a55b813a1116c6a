"""Answers to hooks: the few facts of this project's memory that concern what the agent does.

Nothing is written here. The entity files are not read either (``Project.look``), for a store of many files takes
long: the next command imports what a person changed in them.
"""

from __future__ import annotations

__all__ = ["answer_to", "rule_line"]

import os
from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError
from periplus.base.ids import derived_id
from periplus.interop.hooks.events import (
    AGENTS,
    FACTS_CHARACTERS_MAX,
    Answer,
    HookEvent,
    command_of,
    named_files,
    patched_paths,
    touched_paths,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from periplus.memory.coordination.path_check import Applying
    from periplus.project.agent_hooks.told_facts import Told
    from periplus.project.store import ProjectStore

_BRIEF_TOKENS: Final = 1_800
_HITS_MAX: Final = 5
_WORDS_MIN: Final = 2
_SHARE_MIN: Final = 0.34
_WORDS_WEIGHED: Final = 12
_LINE_CHARACTERS_MAX: Final = 400
_KINDS: Final = ("constraint", "trap", "decision", "lesson", "note")
_PATHS_MAX: Final = 200
_CLAIMED_CHARACTERS_MAX: Final = 700
_OF_FILES: Final = "What is known of these files:"
_OF_MCP: Final = "mcp"  # the tool name of a session that an MCP connection began: no hook reports it
_MORE: Final = "\n(more: periplus brief)"
_BRIEF_TOLD: Final = "the brief of the start"


def answer_to(project: ProjectStore, event: HookEvent, home: str = "", told: Told | None = None) -> Answer:
    """Return the answer to ``event``, without the lines about files that ``told`` has; ``home`` is where ``~`` leads
    in commands.
    """
    if event.kind == "session-start":
        return Answer(_at_start(project))
    if event.kind == "prompt":
        return _with_brief(project, event, told, _for_prompt(project, event.prompt))
    if event.kind in ("before-tool", "after-tool"):
        return _of_tool(project, event, home, told)
    return Answer()


def _at_start(project: ProjectStore) -> str:
    """Return the brief without a task: rules, traps and decisions, what others do and did since this agent's last
    session.
    """
    from periplus.memory.briefing.brief import brief as brief_of
    from periplus.project.knowledge.grounds import ground_of

    now_ms = project.journal.clock.now_ms()
    brief = brief_of(
        project.journal, "", now_ms=now_ms, ground=ground_of(project, with_commits=False), budget_tokens=_BRIEF_TOKENS,
        writer=project.writer,
    )  # fmt: skip
    known = brief.text.strip() if brief.sections else ""  # nothing is known yet
    return _cut("\n\n".join(filter(None, (_of_damage(project), known))))


def _with_brief(project: ProjectStore, event: HookEvent, told: Told | None, facts: str) -> Answer:
    """Return ``facts``, after the brief of the start if the agent reads no answer then and has not got the brief yet."""
    if told is None or "session-start" in AGENTS[event.agent].tells or not told.fresh([_BRIEF_TOLD]):
        return Answer(facts)
    return Answer(_cut("\n\n".join(filter(None, (_at_start(project), facts)))), told=(_BRIEF_TOLD,))


def _of_damage(project: ProjectStore) -> str:
    """Return a warning for the agent to pass on: copies that have the damaged parts may be gone tomorrow."""
    from periplus.project.checkup_report import told_of_damage

    found = told_of_damage(project.root)
    return (
        f"Of this project's memory: {_line(found)}. Tell the person you work for to run `periplus doctor`."
        if found
        else ""
    )


def _for_prompt(project: ProjectStore, prompt: str) -> str:
    """Return memories that share enough words with the prompt, or that it names; most prompts get none."""
    from periplus.base.text.search_terms import query_terms
    from periplus.memory.retrieval.recall import recall
    from periplus.memory.retrieval.search import Filters
    from periplus.memory.retrieval.word_overlap import shared_words, word_count
    from periplus.project.knowledge.grounds import ground_of

    if len(prompt.split()) < _WORDS_MIN and word_count(query_terms(prompt)) < _WORDS_MIN:
        return ""  # by its terms, too: not every script uses spaces
    found = recall(
        project.journal,
        prompt,
        now_ms=project.journal.clock.now_ms(),
        ground=ground_of(project, with_commits=False),
        limit=2 * _HITS_MAX,
        filters=Filters(types=_KINDS),
    )
    enough = max(_WORDS_MIN, _SHARE_MIN * min(word_count(found.terms), _WORDS_WEIGHED))
    lines = []
    for hit, shared in zip(found.hits, shared_words(found.terms, [hit.text for hit in found.hits]), strict=True):
        is_named = any(why.startswith(("its id", "about ")) for why in hit.why)
        if is_named or shared >= enough:
            stale = f" (stale: {', '.join(hit.standing)})" if hit.standing else ""
            conflict = f" (in conflict: {', '.join(hit.conflicts)})" if hit.conflicts else ""
            apart = f" (competes with {', '.join(hit.rivals)}: periplus review)" if hit.rivals else ""
            lines.append(f"- {hit.item_type}: {_line(hit.text)}{conflict}{apart}{stale} [{hit.item_id}]")
    return _cut("\n".join(["What this project's memory says of this:", *lines[:_HITS_MAX]])) if lines else ""


def _of_tool(project: ProjectStore, event: HookEvent, home: str, told: Told | None) -> Answer:
    """Return memory about the files that a tool reads or changes, and whether it may change them."""
    from periplus.project.knowledge.work import ProjectWork

    paths, changes = touched_paths(event)
    command, folder = command_of(event)
    if command:
        paths = named_files(command, folder)
    inside = _inside(project, paths, folder or event.cwd)
    found = ProjectWork(project).check(inside) if inside else None
    claims = list(found.claims) if found is not None else []
    blocked = list(found.blocked) if found is not None and changes else []
    if command and (writes := _writes(project, command, folder, home)):
        written = ProjectWork(project).check_written(writes)
        blocked = list(written.blocked)
        claims += [one for one in written.claims if one not in claims]
    others = [(one, _why_perhaps_own(project, one)) for one in claims if not one.is_own]
    perhaps_own = {one.entity.item_id for one, why in others if why}
    answer = _decided(project, [one for one in blocked if one.entity.item_id not in perhaps_own])
    if event.kind not in AGENTS[event.agent].tells:
        return answer
    lines = {
        _key(one): f"- {_line(one.path)} is claimed: {_claim(one)}{f'; {why}' if why else ''}" for one, why in others
    }
    lines |= {line: line for one in (found.rules if found is not None else ()) if (line := rule_line(one))}
    fresh = told.fresh(lines) if told is not None else list(lines)
    shown = [lines[key] for key in fresh]
    if found is not None and found.left_out and shown:
        shown.append(f"- {found.left_out} more rules: periplus check PATH")
    facts = _cut("\n".join([_OF_FILES, *shown])) if shown else ""
    return answer._replace(facts=facts, told=tuple(key for key in fresh if lines[key] in facts))


def _key(one: Applying) -> str:
    """Return the key of a claim for ``told``: a longer claim is not a new one."""
    value = one.entity.value
    return " ".join(
        str(part) for part in (one.path, one.entity.item_id, value.get("holder"), value.get("mode"), value.get("text"))
    )


def _decided(project: ProjectStore, blocked: Sequence[Applying]) -> Answer:
    """Decide on a change that claims of others forbid, by the setting of the project."""
    from periplus.journal.storage.settings import read_settings

    policy = read_settings(project.journal.layout).hooks.on_claim if blocked else "tell"
    if policy == "tell":
        return Answer()
    import shlex

    claimed = "; ".join(f"{_line(one.path)} is claimed: {_claim(one)}" for one in blocked[:3])
    holder = _line(str(blocked[0].entity.value.get("holder", "")))
    mend = (
        f"Nothing was changed. Do something else, or ask: periplus inbox send {shlex.quote(holder)} '…'. "
        "To see whether it is free again: periplus check PATH"
    )
    return Answer("", "deny" if policy == "refuse" else "ask", f"{claimed[:_CLAIMED_CHARACTERS_MAX]}. {mend}")


def _inside(project: ProjectStore, paths: Sequence[str], cwd: str) -> list[str]:
    """Return ``paths`` as the project names them, each once, and the targets of links; paths outside of the project
    are left out.
    """
    found: dict[str, None] = {}
    for path in paths:
        for one in (path, os.path.realpath(os.path.join(cwd or project.folder, path))):
            try:
                found[project.path(one, cwd=cwd)] = None
            except (PeriplusError, ValueError):
                continue  # outside of the project
    return list(found)[:_PATHS_MAX]


def _writes(project: ProjectStore, command: str, folder: str, home: str) -> list[str]:
    """Return the paths of the project that a command would write. Checked only where somebody else has a claim."""
    from periplus.memory.claim_status import holds, live_claims
    from periplus.memory.coordination.path_check import WRITTEN_MAX

    project.journal.refresh()
    claims = live_claims(project.journal, project.journal.clock.now_ms())
    if all(holds(project.writer, claim) for claim in claims):
        return []
    from periplus.shell.judgement import judge

    start = folder or project.folder
    found = judge(command, home=home or "/nonexistent", workspace=project.top, folder=start)
    return _inside(project, [*found.writes, *found.rewrites, *patched_paths(command, start)][:WRITTEN_MAX], start)


def _why_perhaps_own(project: ProjectStore, one: Applying) -> str:
    """Say why a claim may be this session's own without being known as such; the agent knows what it claimed."""
    value = one.entity.value
    if not value.get("session"):
        is_users = value.get("holder_id") == _user_id()
        return "taken on the command line outside of any session: perhaps by you" if is_users else ""
    if value.get("holder_id") != project.writer.id:
        return ""
    session = project.journal.get("session", str(value["session"]))
    if session is None or session.value.get("tool") != _OF_MCP:
        return ""
    return "taken over MCP by an agent of your name, in an unknown session: perhaps by you"


def _user_id() -> str:
    """Return the id of the person whose processes these are, as the command line names writers."""
    import pwd

    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    return derived_id("who", name, os.uname().nodename)


def _claim(one: Applying) -> str:
    value = one.entity.value
    text = f": {_line(str(value['text']))}" if value.get("text") else ""
    return (
        f"{value.get('mode', 'exclusive')} by {value.get('holder')}, until {str(value.get('expires', ''))[:16]}Z{text}"
        f" [{one.entity.item_id}]"
    )


def rule_line(one: Applying) -> str:
    """Return the line about a file by which an agent is told of a constraint or a trap."""
    value = one.entity.value
    severity = f"{value['severity']} " if value.get("severity") else ""
    remedy = f" Do: {_line(str(value['remedy']))}" if value.get("remedy") else ""
    moved = f" (written for {_line(one.moved_from)}, which moved here)" if one.moved_from else ""
    return f"- {_line(one.path)}: {severity}{one.entity.item_type}: {_line(str(value.get('text', '')))}{remedy}{moved} [{one.entity.item_id}]"


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE_CHARACTERS_MAX else f"{line[: _LINE_CHARACTERS_MAX - 1]}…"


def _cut(text: str) -> str:
    """Cut a text to FACTS_CHARACTERS_MAX characters, in whole lines."""
    if len(text) <= FACTS_CHARACTERS_MAX:
        return text
    kept = text[: FACTS_CHARACTERS_MAX - len(_MORE)]
    return (kept.rpartition("\n")[0] or kept) + _MORE
