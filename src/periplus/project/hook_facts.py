"""What an agent is told by its hooks: facts of this project's memory, few, and only where they bear on what it does.

Nothing is written here. The entity files are not looked at either (``Project.look``), for a store of many takes long: what a person changed in
them is taken in by the next command.
"""

from __future__ import annotations

__all__ = ["answer_to"]

import os
from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError
from periplus.base.ids import derived_id
from periplus.interop.hook_events import FACTS_CHARACTERS_MAX, Answer, HookEvent, touched_paths

if TYPE_CHECKING:
    from periplus.memory.check import Applying
    from periplus.project.project import Project

_BRIEF_TOKENS: Final = 1_800
_HITS_MAX: Final = 5
_WORDS_MIN: Final = 2
_SHARE_MIN: Final = 0.34
_WORDS_WEIGHED: Final = 12
_LINE_CHARACTERS_MAX: Final = 400
_KINDS: Final = ("constraint", "trap", "decision", "lesson", "note")
_OF_MCP: Final = "mcp"  # the tool of a session that a connection of MCP began: no hook tells of it
_MORE: Final = "\n(more: periplus brief)"


def answer_to(project: Project, event: HookEvent) -> Answer:
    """What the agent is to be told of ``event``."""
    if event.kind == "session-start":
        return Answer(_at_start(project))
    if event.kind == "prompt":
        return Answer(_for_prompt(project, event.prompt))
    if event.kind == "before-tool":
        return _before_tool(project, event)
    return Answer()


def _at_start(project: Project) -> str:
    """The brief without a task: rules, traps and decisions, what others do and did since this agent's last session."""
    from periplus.memory.brief import brief as brief_of
    from periplus.project.grounds import ground_of

    now_ms = project.journal.clock.now_ms()
    brief = brief_of(
        project.journal, "", now_ms=now_ms, ground=ground_of(project, with_commits=False), budget_tokens=_BRIEF_TOKENS,
        writer=project.writer,
    )  # fmt: skip
    known = brief.text.strip() if brief.sections else ""  # nothing is known yet
    return _cut("\n\n".join(filter(None, (_of_damage(project), known))))


def _of_damage(project: Project) -> str:
    """For the agent to pass on: copies that have what was damaged may be here today and gone tomorrow."""
    from periplus.project.checkup import told_of_damage

    found = told_of_damage(project.root)
    return (
        f"Of this project's memory: {_line(found)}. Tell the person you work for to run `periplus doctor`."
        if found
        else ""
    )


def _for_prompt(project: Project, prompt: str) -> str:
    """Memories that share enough words with the prompt, or that it names; most prompts get none."""
    from periplus.base.analysis import query_terms
    from periplus.memory.recall import recall
    from periplus.memory.search import Filters
    from periplus.memory.shared_words import shared_words, word_count
    from periplus.project.grounds import ground_of

    if len(prompt.split()) < _WORDS_MIN and word_count(query_terms(prompt)) < _WORDS_MIN:
        return ""  # by its terms too, for not every script sets spaces
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
            apart = f" (apart from {', '.join(hit.rivals)}: periplus review)" if hit.rivals else ""
            lines.append(f"- {hit.item_type}: {_line(hit.text)}{conflict}{apart}{stale} [{hit.item_id}]")
    return _cut("\n".join(["What this project's memory says of this:", *lines[:_HITS_MAX]])) if lines else ""


def _before_tool(project: Project, event: HookEvent) -> Answer:
    from periplus.journal.settings import read_settings

    paths, changes = touched_paths(event)
    inside = []
    for path in paths:
        try:
            inside.append(project.work.path(path, cwd=event.cwd))
        except PeriplusError:
            continue  # outside of the project: none of its affairs
    if not inside:
        return Answer()
    found = project.work.check(list(dict.fromkeys(inside)))
    others = [(one, _why_perhaps_own(project, one)) for one in found.claims if not one.is_own]
    lines = [f"- {_line(one.path)} is claimed: {_claim(one)}{f'; {why}' if why else ''}" for one, why in others]
    lines += [f"- {_rule(one)}" for one in found.rules]
    if found.left_out:
        lines.append(f"- {found.left_out} more rules: periplus check PATH")
    facts = _cut("\n".join(["What is known of what you are about to touch:", *lines])) if lines else ""
    perhaps_own = {one.entity.item_id for one, why in others if why}
    blocked = [one for one in found.blocked if one.entity.item_id not in perhaps_own] if changes else []
    wanted = read_settings(project.journal.layout).hooks.claimed if blocked else "tell"
    if wanted == "tell":
        return Answer(facts)
    reason = "; ".join(f"{_line(one.path)} is claimed: {_claim(one)}" for one in blocked[:3])
    return Answer(facts, wanted, reason[:1000])


def _why_perhaps_own(project: Project, one: Applying) -> str:
    """Why a claim that is not known to be this session's may be it all the same, in words for the agent, which knows what it claimed."""
    value = one.entity.value
    if not value.get("session"):
        is_users = value.get("holder_id") == _user_id()
        return "taken on the command line outside of any session: perhaps by you" if is_users else ""
    if value.get("holder_id") != project.writer.id:
        return ""
    session = project.journal.get("session", str(value["session"]))
    if session is None or session.value.get("tool") != _OF_MCP:
        return ""
    return "taken over MCP by an agent of your name, of which nobody can say which session it serves: perhaps by you"


def _user_id() -> str:
    """The person whose processes we are, as the command line names who writes."""
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


def _rule(one: Applying) -> str:
    value = one.entity.value
    severity = f"{value['severity']} " if value.get("severity") else ""
    remedy = f" Do: {_line(str(value['remedy']))}" if value.get("remedy") else ""
    moved = f" (written of {_line(one.moved_from)}, which moved here)" if one.moved_from else ""
    return f"{_line(one.path)}: {severity}{one.entity.item_type}: {_line(str(value.get('text', '')))}{remedy}{moved} [{one.entity.item_id}]"


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE_CHARACTERS_MAX else f"{line[: _LINE_CHARACTERS_MAX - 1]}…"


def _cut(text: str) -> str:
    """At most FACTS_CHARACTERS_MAX characters, in whole lines."""
    if len(text) <= FACTS_CHARACTERS_MAX:
        return text
    kept = text[: FACTS_CHARACTERS_MAX - len(_MORE)]
    return (kept.rpartition("\n")[0] or kept) + _MORE
