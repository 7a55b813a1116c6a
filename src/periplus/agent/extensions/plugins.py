"""Plugins as an extension of a session. An untrusted or changed plugin brings nothing, and that is reported."""

from __future__ import annotations

__all__ = ["PluginExtension", "open_plugins", "plugin_servers"]

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from periplus.agent.contracts import Access, ToolResult
from periplus.agent.extensions.contract import Extension
from periplus.agent.plugins.discovery import FoundPlugin, find_plugins
from periplus.agent.plugins.folder_copy import copy_out
from periplus.agent.plugins.program_hooks import hook_of
from periplus.agent.plugins.program_runner import PluginError, ProgramCancelledError, ProgramPlace, Programs
from periplus.agent.skills.discovery import SkillPlace
from periplus.agent.tools.files.tree_watch import TreeWatch
from periplus.agent.tools.text_pages.command_output import shorten
from periplus.agent.tools.tool_table import Tool
from periplus.base.errors import PeriplusError
from periplus.base.files import Files

if TYPE_CHECKING:
    from periplus.agent.extensions.contract import ExtensionContext
    from periplus.agent.hooks import Hook
    from periplus.agent.mcpclient.server_entry import ServerRow
    from periplus.agent.plugins.manifest import HookRow, Manifest, ToolRow
    from periplus.agent.tools.tool_table import Arguments

_COPIES: Final = "plugins"
_ANSWER: Final = ("outcome", "output")


@dataclass(frozen=True, slots=True)
class PluginExtension(Extension):
    """The extension of plugins. ``skills`` are the skill folders of plugins, for the skills extension. ``plugins`` are the active ones, as
    found.
    """

    skills: Sequence[SkillPlace] = ()
    plugins: Sequence[FoundPlugin] = ()


def open_plugins(context: ExtensionContext) -> Extension | None:
    """Open the plugins, before the extensions that use their skills and servers; None without plugins."""
    found = _found(context)
    if not found:
        return None
    said = [line for one in found if (line := _why_off(one))]
    sandbox = context.session.sandbox
    files = Files()
    programs = Programs(
        sandbox, root=os.path.realpath(context.root), environment=context.options.environment, home=context.options.home,
        hidden=context.options.hidden, files=files, unread=lambda: context.session.host.work.unread.masked(context.session.host.work.folder),
    )  # fmt: skip
    opened = []
    for one in found:
        if not one.is_on:
            continue
        if sandbox.layer == "none" and not one.unsandboxed:
            said.append(
                f"The plugin {one.name} is off: no sandbox works here ({sandbox.about}), and you did not allow it to run without one."
            )
            continue
        try:
            opened.append(_Opened(context, one, programs, files))
        except PeriplusError as error:
            said.append(f"The plugin {one.name} is off: {error}")
    return PluginExtension(
        tools=_tools(opened, said), hooks=[hook for one in opened for hook in one.hooks()],
        servers=[row for one in opened for row in one.servers()], cancel=programs.cancel, close=programs.close, said=said,
        skills=[place for one in opened for place in one.skills()], plugins=[one.found for one in opened],
    )  # fmt: skip


def _found(context: ExtensionContext) -> list[FoundPlugin]:
    """The plugins of this session. A subagent has its session's plugins as they were at its start; otherwise a changed plugin file would
    lift its rules.
    """
    if context.options.under is None:
        return find_plugins(context.options.config, context.root, is_trusted=context.options.settings.trusted)
    return [
        one
        for held in context.options.under.session.brought
        if isinstance(held, PluginExtension)
        for one in held.plugins
    ]


def _why_off(one: FoundPlugin) -> str:
    if one.state == "unknown":
        return f"The plugin {one.name} ({one.source}) is off until you trust it: periplus plugins trust {one.name}"
    if one.state == "changed":
        return f"The plugin {one.name} was changed since you trusted it, and is off. Look at {one.path}, then: periplus plugins trust {one.name}"
    return f"The plugin {one.name} is off: {one.problem}" if one.state == "broken" else ""


def _tools(opened: Sequence[_Opened], said: list[str]) -> list[Tool]:
    held: dict[str, Tool] = {}
    for one in opened:
        for tool in one.tools():
            if tool.name in held:
                said.append(
                    f"The tool {tool.name} of the plugin {one.manifest.name} is left out: another tool has that name."
                )
            held.setdefault(tool.name, tool)
    return list(held.values())


def plugin_servers(
    config: str, root: str, state: str, *, is_trusted: bool, has_sandbox: Callable[[], bool]
) -> list[ServerRow]:
    """The servers of active plugins, from their copies in ``state``, the agent's folder in the store."""
    files = Files()
    rows: list[ServerRow] = []
    for one in find_plugins(config, root, is_trusted=is_trusted):
        manifest = one.manifest if one.is_on else None
        if manifest is not None and manifest.servers and one.held is not None and (one.unsandboxed or has_sandbox()):
            rows += _servers(manifest, _copied(one, state, files)[1], one.held.files)
    return rows


def _copied(found: FoundPlugin, state: str, files: Files) -> tuple[str, str]:
    """The folder of copies, and the plugin's own copy."""
    assert found.held is not None
    copies = os.path.join(state, _COPIES)
    for folder in (state, copies):
        files.make_folder(folder, 0o700)
    return os.path.realpath(copies), copy_out(found.held, os.path.realpath(copies), found.name, files)


def _servers(manifest: Manifest, copy: str, names: Collection[str]) -> list[ServerRow]:
    """The plugin's servers, with its folder written out in their commands."""

    def words(command: Sequence[str]) -> tuple[str, ...]:
        found = [word.replace("{plugin}", copy) for word in command]
        if found and ("/" in found[0] or found[0] in names):
            found[0] = os.path.normpath(os.path.join(copy, found[0]))
        return tuple(found)

    return [replace(row, command=words(row.command)) for row in manifest.servers]


class _Opened:
    """An active plugin, running from its copy."""

    def __init__(self, context: ExtensionContext, found: FoundPlugin, programs: Programs, files: Files) -> None:
        assert found.manifest is not None
        assert found.held is not None
        self.found = found
        self.manifest: Manifest = found.manifest
        self._context, self._programs = context, programs
        copies, self._copy = _copied(found, os.path.dirname(context.state), files)
        own = os.path.join(copies, f"own-{found.name}")
        self._place = ProgramPlace(found.name, self._copy, own, frozenset(found.held.files))
        self._watch: TreeWatch | None = None

    def tools(self) -> list[Tool]:
        return [self._tool(row) for row in self.manifest.tools]

    def hooks(self) -> list[Hook]:
        return [hook_of(self.manifest.name, row, self._asker(row)) for row in self.manifest.hooks]

    def servers(self) -> list[ServerRow]:
        return _servers(self.manifest, self._copy, self._place.files)

    def skills(self) -> list[SkillPlace]:
        skills = self.manifest.skills
        return [SkillPlace(self._copy, skills, self.manifest.source, self.found.path)] if skills else []

    def _asker(self, row: HookRow) -> Callable[[Mapping[str, Any], Sequence[str]], dict[str, Any]]:
        def ask(question: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
            return self._programs.ask(self._place, row.command, question, deadline_s=row.deadline_s, known=known)

        return ask

    def _tool(self, row: ToolRow) -> Tool:
        name = f"{self.manifest.name.replace('-', '_')}_{row.name}"

        def run(args: Arguments) -> ToolResult:
            return self._run(row, args)

        return Tool(
            name, f"{row.description} (plugin {self.manifest.name})", row.parameters, run, lambda _: _accesses(row)
        )

    def _run(self, row: ToolRow, args: Arguments) -> ToolResult:
        question = {
            "kind": "tool",
            "name": row.name,
            "args": args.plain(),
            "root": os.path.realpath(self._context.root),
        }
        is_writer = "write" in row.accesses
        if is_writer:
            self._watched().before()
        try:
            answer = self._programs.ask(
                self._place, row.command, question, deadline_s=row.deadline_s, reach=row.accesses, known=_ANSWER
            )  # fmt: skip
            result = self._result(row, answer)
        except ProgramCancelledError as error:
            result = ToolResult(outcome="cancelled", output=str(error), untrusted=False)
        except PluginError as error:
            result = ToolResult(outcome="failed", output=str(error))
        return self._changed(result) if is_writer else result

    def _result(self, row: ToolRow, answer: Mapping[str, Any]) -> ToolResult:
        outcome, output = answer.get("outcome", "ok"), answer.get("output", "")
        if outcome not in ("ok", "failed") or not isinstance(output, str):
            raise PluginError(f"the plugin {self.manifest.name}: {row.name} answered with an invalid outcome or output",
                              mend="outcome is ok or failed, output a text.")  # fmt: skip
        outputs = self._context.session.host.outputs
        shown, handle = output, ""
        if outputs is not None and shorten(output, "") != output:
            handle = outputs.keep(output)
            shown = shorten(output, handle)
        return ToolResult(outcome=outcome, output=shown, handle=handle)

    def _watched(self) -> TreeWatch:
        if self._watch is None:
            self._watch = TreeWatch(self._context.session.host.work)
        return self._watch

    def _changed(self, result: ToolResult) -> ToolResult:
        """Add the files that the program changed. They belong to the turn and are undone with it."""
        import msgspec

        effects = self._watched().after()
        if not effects:
            return result
        names = ", ".join(str(one["path"]) for one in effects[:20])
        claimed = self._context.session.host.work.claimed([one["path"] for one in effects])
        note = f"\nfiles changed: {names}" + (f"\nclaimed by another agent: {claimed}" if claimed else "")
        return msgspec.structs.replace(result, output=result.output.rstrip("\n") + note, effects=effects)


def _accesses(row: ToolRow) -> tuple[Access, ...]:
    if "write" in row.accesses:
        return (Access(resource="*", mode="write"),)
    found = [Access(resource=f"process:plugin {row.name}", mode="write")]
    found += [Access(resource="file:.", mode="read")] if "read" in row.accesses else []
    found += [Access(resource="network:", mode="write")] if "network" in row.accesses else []
    return tuple(found)
