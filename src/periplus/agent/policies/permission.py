"""Permission: three modes, and rules over them, by tool, command and path.

A rule is written ``effect tool`` or ``effect tool(pattern)``: ``allow shell(git status)`` allows every command that begins with these
words, ``deny edit(secrets/**)`` keeps files from being changed, ``ask web_fetch`` asks, ``allow mcp(github/get_*)`` allows calls of an MCP
server's tools. What may not be read may not be listed, searched or edited either: a ``read`` rule with a path counts for all file tools.
``tool`` and paths are globs. Of the rules that match, the strictest wins: deny, then ask, then allow.

Commands are judged by what finally runs (``policies.rules``); a text of several commands is allowed only if each of them is. A file that a
command writes counts as edited: the rules of edits apply, and outside of the project a person is asked. Removing existing things, and
commands whose effect is not known in advance, are asked for even if a rule allows them; commands that no sandbox can hold back are asked
for in every mode; catastrophic commands are always denied.
"""

from __future__ import annotations

__all__ = [
    "MODES",
    "Mode",
    "Permission",
    "PermissionApprover",
    "Rule",
    "asked_lines",
    "idle_rules",
    "parse_rule",
    "path_matches",
]

import difflib
import fnmatch
import json
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, TypeAlias

from periplus.agent.contracts import Answer, Approver, ToolCall, ToolDecision, ToolSchema
from periplus.agent.hooks import Hook
from periplus.agent.policies import rules
from periplus.agent.policies.rules import EFFECTS, Effect, Rule, allows, may_start, runs
from periplus.shell.judgement import Judgement, judge

Mode: TypeAlias = Literal["ask", "default", "autonomous"]
MODES: Final[Mapping[Mode, str]] = {
    "ask": "ask before everything but reading",
    "default": "change files; ask before commands, the network and other tools",
    "autonomous": "run everything in the sandbox, except what is catastrophic",
}
_READS: Final = frozenset({"read", "list", "search", "recall", "plan", "ask_user", "skill"})
_OF_FILES: Final = frozenset({"list", "search", "edit", "write"})  # each of them reveals a file or its contents
_EDITS: Final = frozenset({"edit", "write", "remember"})
_COMMANDS: Final[Mapping[str, str]] = {"shell": "command"}  # tool → the argument that a shell runs
_SERVERS: Final = "mcp"  # the tool that calls tools of servers, named server/tool in rules
_PATHS: Final = frozenset({"path", "edits"})  # arguments that name files
_OURS: Final = frozenset({".git", ".periplus"})  # inside the project, but not part of it
_AT_TIMES: Final = frozenset({_SERVERS, "web_search", "skill", "spawn_agent"})  # tools that a session may have
_ELSEWHERE: Final[Mapping[str, str]] = {
    "bash": "shell",
    "exec": "shell",
    "webfetch": "web_fetch",
}  # as other agents call them
_INPUTS: Final = frozenset({"list", "poll", "stop"})  # actions of ``process`` that start and send nothing


def parse_rule(text: str) -> Rule:
    """Raises UsageError."""
    return rules.parse_rule(text, _COMMANDS)


def idle_rules(rules: Iterable[Rule], tools: Sequence[ToolSchema]) -> Iterator[str]:
    """Warn of each rule that matches no call of ``tools``: a deny rule like that would deny nothing."""
    names = [one.name for one in tools]
    with_paths = {one.name for one in tools if _PATHS & one.parameters.get("properties", {}).keys()} | {_SERVERS}
    for rule in rules:
        meant = [name for name in {*names, *_AT_TIMES} if fnmatch.fnmatchcase(name, rule.tool)]
        if not meant:
            near = difflib.get_close_matches(rule.tool.lower(), [*names, *_ELSEWHERE], n=1)
            hint = f"Did you mean {_ELSEWHERE.get(near[0], near[0])}?" if near else f"There are {', '.join(names)}."
            yield f"The rule “{rule}” has no effect: there is no tool {rule.tool} here. {hint}"
        elif rule.path is not None and not with_paths.intersection(meant):
            yield f"The rule “{rule}” has no effect: {', '.join(meant)} takes no path. Write “{rule.effect} {rule.tool}”."


class Permission(Hook):
    """Policy hook that decides calls. ``home`` and ``workspace`` are absolute paths, for the judgement of commands."""

    also: ClassVar[frozenset[str]] = frozenset({"always", "explain", "set_mode", "unread"})

    def __init__(
        self, mode: Mode, rules: Iterable[Rule] = (), *, home: str = "", workspace: str = "",
        commands: Mapping[str, str] = _COMMANDS,
    ) -> None:  # fmt: skip
        self._mode = mode
        self._rules = tuple(rules)
        self._home, self._workspace = home, workspace
        self._commands = dict(commands)
        self._always: set[str] = set()

    @property
    def name(self) -> str:
        return "permission"

    def always(self, name: str, args: Mapping[str, Any]) -> None:
        """Record an "always": for a command this very call, for another tool all of its calls."""
        self._always.add(self._bound(name, args))

    def authorize_tool(self, name: str, args: Mapping[str, Any]) -> ToolDecision:
        judgement = self._judged(name, args)
        if judgement is not None and judgement.level == "catastrophic":
            return ToolDecision(allow=False, reason=f"{judgement.reason}; nobody may allow that")
        if judgement is not None and judgement.level == "unparsed":
            why = f"{judgement.reason}, so nobody can tell what would run; write it more plainly, or as a script"
            return ToolDecision(allow=False, reason=why)
        effect, rule = self._by_rules(name, args, judgement)
        if effect == "deny":
            return ToolDecision(allow=False, reason=f"the rule “{rule}” denies it")
        written, why_written = self._by_writes(judgement) if judgement is not None else (None, "")
        if written == "deny":
            return ToolDecision(allow=False, reason=why_written)
        if self._bound(name, args) in self._always:
            return ToolDecision(allow=True)
        is_loose = judgement is not None and judgement.level != "plain"
        wants = _wants_more(name, args) or (self._unseen(judgement) if judgement is not None else "")
        if effect == "ask":
            return ToolDecision(allow=True, ask=True, reason=f"the rule “{rule}” asks")
        if wants or written == "ask":
            return ToolDecision(allow=True, ask=True, reason=wants or why_written)
        is_unnamed = judgement is not None and rule is not None and rule.command is None and judgement.has_code
        if effect == "allow" and not is_loose and not is_unnamed:
            return ToolDecision(allow=True)
        if self._is_free(name, args):
            return ToolDecision(allow=True)
        named = f"{name}({_target(args)})" if name == _SERVERS else name
        why = judgement.reason if judgement is not None and is_loose else f"{named} is asked for in mode {self._mode}"
        return ToolDecision(allow=True, ask=True, reason=why)

    @property
    def mode(self) -> Mode:
        return self._mode

    def set_mode(self, mode: Mode) -> None:
        """Change the mode. Rules and the catastrophic floor stay."""
        self._mode = mode

    def unread(self, effect: Effect) -> tuple[str, ...]:
        """The paths, as globs, of the rules of that effect that keep files from being read."""
        return tuple(
            rule.path
            for rule in self._rules
            if rule.effect == effect and rule.path is not None and _is_of_reading(rule)
        )

    def explain(self, name: str, args: Mapping[str, Any]) -> str:
        """Explain in one line what would be decided, and why."""
        decision = self.authorize_tool(name, args)
        verdict = "asks" if decision.ask else "allows" if decision.allow else "denies"
        return f"{verdict}: {decision.reason or 'nothing speaks against it'}"

    # -- inside -------------------------------------------------------------------------------------------------------

    def _judged(self, name: str, args: Mapping[str, Any]) -> Judgement | None:
        argument = self._commands.get(name)
        if argument is None:
            return None
        text = args.get(argument)
        if not isinstance(text, str):
            return Judgement("unclear", f"{argument} is no text")
        folder = args.get("cwd")
        at = posixpath.join(self._workspace, folder) if isinstance(folder, str) and folder else self._workspace
        return judge(text, home=self._home, workspace=self._workspace, folder=at)

    def _by_rules(
        self, name: str, args: Mapping[str, Any], judgement: Judgement | None
    ) -> tuple[Effect | None, Rule | None]:
        matching = [
            rule
            for rule in self._rules
            if fnmatch.fnmatchcase(name, rule.tool)
            or (name in _OF_FILES and rule.effect != "allow" and rule.path is not None and _is_of_reading(rule))
        ]
        paths = sorted({self._named(path) for path in _paths(args)})
        found: dict[Effect, Rule] = {}
        for rule in matching:
            if rule.command is not None:
                done = judgement.runs if judgement is not None and rule.effect != "allow" else ()
                is_hit = any(runs(run, rule.command) for run in done)
            elif rule.path is not None and name == _SERVERS:
                target = _target(args)
                if rule.effect == "allow" and posixpath.normpath(target) != target:
                    continue  # the name would be relative to a folder that does not contain it
                # What a stranger's tool is given as a path may be forbidden by it, never allowed.
                also = paths if rule.effect != "allow" else []
                is_hit = any(path_matches(one, rule.path) for one in [*([target] if target else []), *also])
            elif rule.path is not None:
                hits = [path_matches(path, rule.path) for path in paths]
                is_hit = bool(hits) and (all(hits) if rule.effect == "allow" else any(hits))
            else:
                is_hit = True
            if is_hit:
                found.setdefault(rule.effect, rule)
        if judgement is not None and judgement.runs and "allow" not in found:
            found |= self._each_allowed(matching, judgement)
        effect = next((effect for effect in EFFECTS if effect in found), None)
        return (effect, found[effect]) if effect is not None else (None, None)

    def _named(self, path: str) -> str:
        """Name a path as rules do, relative to the workspace; tools accept absolute paths too."""
        for root in {self._workspace, os.path.realpath(self._workspace)} if self._workspace else ():
            if path.startswith(root.rstrip("/") + "/"):
                return path[len(root.rstrip("/")) + 1 :]
        return path

    def _each_allowed(self, matching: Sequence[Rule], judgement: Judgement) -> dict[Effect, Rule]:
        """Prefix rules allow a text of commands if each command has one."""
        prefixes = [rule for rule in matching if rule.effect == "allow" and rule.command is not None]
        last: Rule | None = None
        for run in judgement.runs:
            if run.only_starts:
                continue
            last = next((rule for rule in prefixes if allows(run, rule.command or ())), None)
            if last is None:
                return {}
        return {"allow": last} if last is not None else {}

    def _unseen(self, judgement: Judgement) -> str:
        """Return why a call is asked for in every mode: it may be denied, or do damage that no sandbox prevents."""
        if judgement.is_beyond:
            return judgement.reason
        for rule in self._rules:
            if rule.effect == "allow" or rule.command is None:
                continue
            if judgement.hides:
                return f"{judgement.reason}, and the rule “{rule}” may deny it"
            for run in judgement.runs:
                if may_start(run, rule.command):
                    return f"{run.words[0]} may run what the rule “{rule}” does not let run"
        return ""

    def _by_writes(self, judgement: Judgement) -> tuple[Effect | None, str]:
        """Apply the rules of edits to the files that a command would write, the strictest first."""
        found: dict[Effect, str] = {}
        for path in judgement.writes:
            real = os.path.realpath(path)
            named = self._named(posixpath.normpath(path))
            effects = self._edit_effects({named, self._named(real)})
            if "deny" in effects:
                return "deny", f"{named} would be written, and the rule “{effects['deny']}” denies it"
            if "ask" in effects:
                found.setdefault("ask", f"{named} would be written, and the rule “{effects['ask']}” asks")
            elif "allow" not in effects and self._mode != "autonomous":
                if os.path.isabs(self._named(real)) or self._named(real).partition("/")[0] in _OURS:
                    found.setdefault("ask", f"{named} would be written, which is not of the project")
                elif self._mode == "ask" and path in judgement.redirected:
                    found.setdefault("ask", f"{named} would be written, which is asked for in mode {self._mode}")
        return ("ask", found["ask"]) if found else (None, "")

    def _edit_effects(self, paths: Iterable[str]) -> dict[Effect, Rule]:
        """Apply the rules of edits to ``paths``, which are names of one file."""
        found: dict[Effect, Rule] = {}
        for path in paths:
            for tool in ("edit", "write"):
                effect, rule = self._by_rules(tool, {"path": path}, None)
                if effect is not None and rule is not None:
                    found.setdefault(effect, rule)
        return found

    def _is_free(self, name: str, args: Mapping[str, Any]) -> bool:
        if name in _READS or (name == "process" and args.get("action") in _INPUTS):
            return True
        if name == "spawn_agent":  # what it does is judged call by call, like that of its parent
            return self._mode != "ask" or args.get("mode", "read-only") == "read-only"
        if name == _SERVERS and args.get("arguments") is None:
            return True  # a listing
        if self._mode == "autonomous":
            return True
        return self._mode == "default" and name in _EDITS

    def _bound(self, name: str, args: Mapping[str, Any]) -> str:
        if name in self._commands or name in ("code", "process"):
            return f"{name} {json.dumps(args, sort_keys=True, default=str)}"
        return f"{name} {_target(args)}" if name == _SERVERS else name


class PermissionApprover:
    """Asks ``approver``, and records an "always" in ``permission``."""

    def __init__(self, permission: Permission, approver: Approver) -> None:
        self._permission, self._approver = permission, approver

    def approve(self, call: ToolCall, decision: ToolDecision) -> Answer:
        answer = self._approver.approve(call, decision)
        if answer == "always":
            self._permission.always(call.name, call.args)
        return answer


def asked_lines(call: ToolCall, decision: ToolDecision) -> list[str]:
    """The lines shown to a person who has to decide: the reason and the whole call. Line breaks of a command are kept, since joined lines
    could hide text after a comment; nothing is left out, since it would run as well.
    """
    args = dict(call.args)
    texts = [str(args.pop(name)) for name in ("command", "source") if isinstance(args.get(name), str)]
    first, *more = "\n".join(texts).split("\n")
    rows = [decision.reason, f"  {call.name}: {first}", *(f"    {row}" for row in more)]
    return rows if not args else [*rows, f"    {json.dumps(args, ensure_ascii=False, default=str)}"]


def _wants_more(name: str, args: Mapping[str, Any]) -> str:
    """Return the request to leave the sandbox, which no mode grants by itself."""
    return "it would run outside of the sandbox" if name == "shell" and args.get("unsandboxed") is True else ""


def _is_of_reading(rule: Rule) -> bool:
    return fnmatch.fnmatchcase("read", rule.tool)


def _target(args: Mapping[str, Any]) -> str:
    """The server and tool that a call of ``mcp`` calls, as rules name it."""
    server, tool = args.get("server"), args.get("tool")
    if not isinstance(server, str) or not server:
        return ""
    return f"{server}/{tool}" if isinstance(tool, str) and tool else server


def _paths(args: Mapping[str, Any]) -> Iterator[str]:
    """All paths in the arguments of a call."""
    for name, value in args.items():
        if name in ("path", "move_to") and isinstance(value, str):
            yield posixpath.normpath(value)
        elif isinstance(value, Mapping):
            yield from _paths(value)
        elif name == "edits" and isinstance(value, str):
            yield from _paths({name: _read_as_json(value)})  # models send a list as its text, and tools take it
        elif isinstance(value, list | tuple):
            for one in value[:1_000]:
                if isinstance(one, Mapping):
                    yield from _paths(one)


def _read_as_json(text: str) -> object:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list | dict) else None


def path_matches(path: str, pattern: str) -> bool:
    """As in ignore files: ``**`` goes over folders, a folder stands for all below it."""
    if pattern.endswith("/**"):
        pattern = pattern.removesuffix("/**")
        return path == pattern or path.startswith(pattern + "/") or fnmatch.fnmatchcase(path, pattern + "/*")
    return fnmatch.fnmatchcase(path, pattern) or path.startswith(pattern.rstrip("/") + "/")
