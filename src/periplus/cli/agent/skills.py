"""``skills``: list the agent's skills, and accept or refuse suggested ones; ``plugins``: list plugins, and trust them or not."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from typing import TYPE_CHECKING, Any, Final

from periplus.cli.agent.environment import user_folder
from periplus.cli.common.face import Face, plain, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from periplus.agent.plugins import FoundPlugin
    from periplus.agent.skills import FoundSkills, Skill
    from periplus.agent.skills.usage_records import Uses
    from periplus.cli.agent.skill_schemas import PluginOut, SkillCandidateOut, SkillOut
    from periplus.journal import Entity
    from periplus.project import Project

_PROJECT_SKILLS: Final = ".agents/skills"
_USER_SKILLS: Final = "skills"


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)

    def action(name: str, what: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".", allow_abbrev=False)

    if command == "plugins":
        action("list", "list plugins, what they contain, and which are trusted")
        trust = action("trust", "trust a plugin in its current state, so that its programs may run")
        trust.add_argument("plugin", metavar="NAME", help="the plugin's name, or its folder")
        trust.add_argument("--unsandboxed", action="store_true", help="even if no sandbox works")
        action("untrust", "stop trusting a plugin").add_argument(
            "plugin", metavar="NAME", help="the plugin's name, or its folder"
        )
        return
    listing = action("list", "list skills, how often each was used, and suggested ones")
    listing.add_argument("--all", action="store_true", help="include accepted and refused ones")
    action("show", "show one skill or candidate").add_argument(
        "name", metavar="NAME", help="a skill's name, or a candidate's name or id"
    )
    accept = action("accept", "accept a candidate: write it as a skill into the project, or into your own folder")
    accept.add_argument("candidate", metavar="ID", help="the id of the candidate, a prefix of it, or its name")
    accept.add_argument("--name", metavar="NAME", help="use this name instead")
    accept.add_argument("--mine", action="store_true", help="write it into your own folder, for all projects")
    reject = action("refuse", "refuse a candidate; it is not suggested again")
    reject.add_argument("candidate", metavar="ID", help="the id of the candidate, a prefix of it, or its name")
    reject.add_argument("--reason", metavar="TEXT", help="the reason, kept with the candidate")
    mine = action("mine", "look for skills and lessons in a session of the agent")
    mine.add_argument("session", nargs="?", default="", metavar="SESSION", help="the session (default: the last one)")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    if arguments.command == "plugins":
        return _plugins(face, arguments)
    return {"list": _list, "show": _show, "accept": _accept, "refuse": _reject, "mine": _mine}[arguments.action](
        face, arguments
    )


# -- skills ----------------------------------------------------------------------------------------------------------------


def _found(face: Face, project: Project) -> tuple[FoundSkills, bool]:
    """Return the skills as a session would find them now, and whether the folder is trusted."""
    from periplus.agent.plugins import find_plugins
    from periplus.agent.skills import SkillPlace, find_skills, places_of

    config, root = user_folder(face), project.folder
    is_trusted = _is_trusted(face, root)
    places = places_of(config, root, is_trusted=is_trusted)
    for one in find_plugins(config, root, is_trusted=is_trusted):
        if one.is_on and one.manifest is not None and one.manifest.skills:
            places.append(SkillPlace(one.path, one.manifest.skills, one.manifest.source))
    return find_skills(places), is_trusted


def _is_trusted(face: Face, root: str) -> bool:
    from periplus.agent.trust import Trust

    return Trust(user_folder(face)).state(root) == "trusted"


def _list(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.agent.skills.candidates import skill_candidates
    from periplus.agent.skills.usage_records import uses_of
    from periplus.cli.agent.skill_schemas import SkillProblemOut, SkillsOut

    with face.open() as project:
        found, is_trusted = _found(face, project)
        used = uses_of(project, list(found.skills))
        waiting = skill_candidates(project.journal, with_decided=arguments.all)
    out = SkillsOut(
        is_trusted, [_skill_out(one, used[one.name]) for one in found.skills], [_candidate_out(one) for one in waiting],
        [SkillProblemOut(*one) for one in found.problems],
    )  # fmt: skip

    def lines() -> Iterator[str]:
        paint, width = face.palette, face.width
        for one in out.skills:
            held = ", held back" if one.held and one.source != "user" else ""
            often = f"used {one.used}×, last {one.last}" if one.used else "not used yet"
            yield f"{paint.name}{one.name}{paint.end}  {visible(one.source)}{held}, {often}"
            yield f"  {visible(one.description, width and width - 2)}"
        for candidate in out.candidates:
            yield f"{paint.name}{candidate.id}{paint.end}  {visible(candidate.name)}  candidate, {candidate.state}, seen {len(candidate.seen)}×"
            yield f"  {visible(candidate.description, width and width - 2)}"
        for problem in out.problems:
            yield f"not used: {visible(problem.file)}: {visible(problem.text)}"
        if not out.skills and not out.candidates:
            yield "There are no skills."
        if any(one.state == "pending" for one in out.candidates):
            yield "Next: periplus skills show ID, accept ID, or refuse ID"

    face.emit(out, lines)
    return 0 if out.skills or out.candidates else 1


def _show(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.agent.skills.candidates import find_skill_candidate
    from periplus.agent.skills.skill_pages import SkillPages
    from periplus.agent.skills.usage_records import uses_of
    from periplus.cli.agent.skill_schemas import SkillShownOut

    name = _given(arguments.name, "NAME")
    with face.open() as project:
        found, _ = _found(face, project)
        skill = found.named(name)
        if skill is not None:
            files = [page.handle.split("/", 3)[3] for page in SkillPages(found).files(skill)]
            out = SkillShownOut(_skill_out(skill, uses_of(project, [skill])[skill.name]), skill.body, files, None)
        else:
            out = SkillShownOut(None, "", [], _candidate_out(find_skill_candidate(project.journal, name)))

    def lines() -> Iterator[str]:
        rows: list[tuple[str, Any]] = []
        body = out.body
        if out.skill is not None:
            one = out.skill
            rows = [("name", one.name), ("from", f"{one.source}, {one.file}"), ("for", one.description), ("used", f"{one.used}× {one.last}".strip()),
                    ("files", ", ".join(out.files)), ("found", ", ".join(one.held)), ("note", "; ".join(one.notes))]  # fmt: skip
        elif out.candidate is not None:
            two = out.candidate
            body = two.body
            rows = [("candidate", two.id), ("name", two.name), ("state", two.state), ("for", two.description), ("rule", two.rule),
                    ("words of", two.wording), ("worked in", ", ".join(two.seen)), ("failed", two.failed or ""),
                    ("accepted as", two.accepted_as), ("rejected for", two.reason)]  # fmt: skip
        for label, value in rows:
            if value:
                yield f"{label:13}{visible(str(value))}"
        yield ""
        yield from map(visible, body.rstrip("\n").split("\n"))

    face.emit(out, lines)
    return 0


def _accept(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.agent.skills.candidates import accept_skill, find_skill_candidate
    from periplus.agent.trust import Trust
    from periplus.base.files import Files
    from periplus.base.filesystem.confined_folder import Confined
    from periplus.cli.agent.skill_schemas import SkillDecidedOut

    config = user_folder(face)
    reference = _given(arguments.candidate, "ID")
    with face.open() as project:
        candidate = find_skill_candidate(project.journal, reference)
        was_trusted = _is_trusted(face, project.folder)
        if arguments.mine:
            os.makedirs(config, mode=0o700, exist_ok=True)
        base, folder = (config, _USER_SKILLS) if arguments.mine else (project.folder, _PROJECT_SKILLS)
        with Confined(base, files=Files()) as confined:
            path = accept_skill(project.journal, project.writer, candidate, confined, folder, name=arguments.name or "")
        if was_trusted and not arguments.mine:
            Trust(config).give(project.folder)  # the change is what the user has just accepted
    name = path.split("/")[-2]
    out = SkillDecidedOut(candidate.item_id, name, "accepted", os.path.join(base, path), arguments.mine or was_trusted)

    def lines() -> Iterator[str]:
        yield f"Accepted: {visible(out.file)}. You can edit and commit this file."
        if not out.counts:
            yield "It is used once you trust this folder: periplus trust give"

    face.emit(out, lines)
    return 0


def _reject(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.agent.skills.candidates import find_skill_candidate, reject_skill
    from periplus.cli.agent.skill_schemas import SkillDecidedOut

    reference = _given(arguments.candidate, "ID")
    reason = _given(arguments.reason, "--reason") if arguments.reason is not None else ""
    with face.open() as project:
        candidate = find_skill_candidate(project.journal, reference)
        reject_skill(project.journal, project.writer, candidate, reason)
    out = SkillDecidedOut(candidate.item_id, str(candidate.value.get("name", "")), "rejected", "", counts=False)
    face.emit(out, lambda: [f"Rejected {out.id}: it is not suggested again."])
    return 0


def _mine(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.agent.memories import StoreMemory
    from periplus.agent.persistence.run_log import stored_sessions
    from periplus.agent.skills.candidates import skill_candidates, turns_seen
    from periplus.base.errors import NotFoundError
    from periplus.base.ids import PASTED
    from periplus.cli.agent.skill_schemas import SkillsMinedOut
    from periplus.cli.common.face import counted

    wanted = plain(arguments.session, "SESSION").strip(PASTED)
    with face.open() as project:
        names = [one.name for one in stored_sessions(project)]
        if wanted and wanted not in names:
            raise NotFoundError(
                f"the agent has no session {wanted!r}",
                safe="Nothing was written.",
                mend="See `periplus run --list`.",
            )
        if not names:
            face.emit(SkillsMinedOut("", 0, 0, 0, 0, []), lambda: ["The agent has not run in this project."])
            return 1
        memory = StoreMemory(project)
        try:
            session = wanted or names[0]
            found = memory.consolidate(session)
        finally:
            memory.close()
        waiting = sum(
            any(turn.rpartition("#")[0] == session for turn in turns_seen(one))
            for one in skill_candidates(project.journal)
        )
    out = SkillsMinedOut(session, found.lessons, found.skills, waiting, found.skills_rejected, list(found.errors))

    def lines() -> Iterator[str]:
        yield f"{visible(out.session)}: {out.skills} skills and {out.lessons} lessons suggested, {out.rejected} skills refused"
        yield from (f"  {visible(one)}" for one in out.errors)
        if waiting > out.skills:
            yield f"Suggested earlier and still open: {counted(waiting - out.skills, 'skills')}."
        if waiting:
            yield "Next: periplus skills list"
        if out.lessons:
            yield "Next: periplus candidates list"

    face.emit(out, lines)
    return 0 if out.waiting or out.lessons else 1


def _given(text: str, what: str) -> str:
    from periplus.base.errors import UsageError

    if not plain(text, what).strip():
        raise UsageError(f"{what} is empty", safe="Nothing was changed.", mend="See `periplus skills list`.")
    return text.strip()


def _skill_out(one: Skill, used: Uses) -> SkillOut:
    from periplus.cli.agent.skill_schemas import SkillOut

    return SkillOut(
        one.name,
        one.source,
        one.description,
        one.file,
        list(one.held),
        list(one.notes),
        one.is_offered,
        used.times,
        used.last,
    )


def _candidate_out(one: Entity) -> SkillCandidateOut:
    from periplus.agent.skills.candidates import turns_seen
    from periplus.cli.agent.skill_schemas import SkillCandidateOut
    from periplus.memory.entities.types import SKILL_CANDIDATE, state_of

    value, failed = one.value, one.value.get("failed")

    def text(name: str) -> str:  # a candidate from elsewhere is unchecked
        return said if isinstance(said := value.get(name), str) else ""

    commands = value.get("commands")
    return SkillCandidateOut(
        one.item_id, text("name"), state_of(SKILL_CANDIDATE, value), text("description"), text("body"), text("rule"),
        text("wording") or "rule", list(map(str, commands)) if isinstance(commands, list) else [], turns_seen(one),
        failed if isinstance(failed, int) else 0, text("accepted_as"), text("reason"),
    )  # fmt: skip


# -- plugins ---------------------------------------------------------------------------------------------------------------


def _plugins(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.agent.plugins import PluginTrust, find_plugins
    from periplus.agent.plugins.discovery import named_plugin
    from periplus.base.errors import NotFoundError, UsageError
    from periplus.cli.agent.skill_schemas import PluginsOut

    config = user_folder(face)
    root = _root(face)
    is_trusted = _is_trusted(face, root)
    found = find_plugins(config, root, is_trusted=is_trusted)
    said = ""
    if arguments.action != "list":
        trust = PluginTrust(config)
        _given(arguments.plugin, "NAME")
        one = _known_path(trust, found, arguments.plugin) or named_plugin(found, arguments.plugin)
        if arguments.action == "untrust":
            if not trust.take(one.path):
                raise NotFoundError(
                    f"the plugin {one.name} is not trusted",
                    safe="Nothing was changed.",
                    mend="See `periplus plugins list`.",
                )
            said = f"{visible(one.name)} is not trusted any more."
        else:
            if one.held is None or one.manifest is None:
                raise UsageError(
                    f"the plugin {one.name} cannot be: {one.problem}",
                    safe="Nothing was changed.",
                    mend="Fix it first.",
                )
            trust.give(one.path, one.held.digest, unsandboxed=arguments.unsandboxed)
            said = f"{visible(one.name)} {visible(one.manifest.version)} is trusted in its current state ({one.held.digest[:12]}); any change to its files turns it off."
        found = find_plugins(config, root, is_trusted=is_trusted)
        found = [here for here in found if here.path == one.path]
    out = PluginsOut(is_trusted, [_plugin_out(one) for one in found])

    def lines() -> Iterator[str]:
        for one in out.plugins:
            yield from _plugin_lines(face, one)
        if said:
            yield said
        elif not out.plugins:
            yield (
                "There are no plugins."
                if is_trusted
                else "You have no plugins. Plugins of this folder are ignored until you trust the folder."
            )

    face.emit(out, lines)
    return 0 if out.plugins or said else 1


def _root(face: Face) -> str:
    """Return the project's folder; plugins need no store."""
    from periplus.base.errors import NotAStoreError
    from periplus.base.filesystem.store_location import find_root, project_root

    try:
        return os.path.dirname(find_root(face.cwd, face.store))
    except NotAStoreError:
        if face.store is not None:
            raise
        return project_root(face.cwd)


def _known_path(trust: Any, found: Sequence[FoundPlugin], name: str) -> FoundPlugin | None:
    """Return a trusted plugin that is gone or hidden, by its path, so that its trust can be withdrawn."""
    from periplus.agent.plugins import FoundPlugin

    path = os.path.realpath(name)
    if path in trust.paths() and not any(os.path.realpath(one.path) == path for one in found):
        return FoundPlugin(os.path.basename(path), path, "user", "broken", problem="missing")
    return None


def _plugin_out(one: FoundPlugin) -> PluginOut:
    from periplus.cli.agent.skill_schemas import PluginHookOut, PluginOut, PluginServerOut, PluginToolOut

    made = one.manifest
    return PluginOut(
        one.name, made.version if made else "", made.description if made else "", one.source, one.state, one.path, one.problem, one.unsandboxed,
        bool(made and made.skills),
        [PluginToolOut(row.name, row.description, list(row.command), list(row.accesses)) for row in (made.tools if made else ())],
        [PluginHookOut(row.seam, list(row.command)) for row in (made.hooks if made else ())],
        [PluginServerOut(row.name, list(row.command), row.url) for row in (made.servers if made else ())],
    )  # fmt: skip


def _plugin_lines(face: Face, one: PluginOut) -> Iterator[str]:
    paint, width = face.palette, face.width
    yield f"{paint.name}{visible(one.name)}{paint.end} {visible(one.version)}  {one.source}, {one.state}  {visible(one.path)}".rstrip()
    if one.description:
        yield f"  {visible(one.description, width and width - 2)}"
    for tool in one.tools:
        reach = f", reaches: {', '.join(tool.accesses)}" if tool.accesses else ""
        yield f"  tool {visible(tool.name)}: {visible(' '.join(tool.command))}{reach}"
    for hook in one.hooks:
        yield f"  hook {visible(hook.seam)}: {visible(' '.join(hook.command))}"
    for server in one.servers:
        yield f"  server {visible(server.name)}: {visible(server.url or ' '.join(server.command))}"
    if one.skills:
        yield "  skills"
    if one.problem:
        yield f"  {visible(one.problem)}"
