"""The tool ``list``: a folder, the files that match a glob, or the pages under a handle."""

from __future__ import annotations

__all__ = ["list_tool"]

from typing import Final

from periplus.agent.contracts import Access, ToolResult
from periplus.agent.tools.files.folder_walk import Walk
from periplus.agent.tools.files.workspace import Workspace
from periplus.agent.tools.text_pages.page_source import is_handle
from periplus.agent.tools.tool_table import Arguments, Parameter, Tool
from periplus.base.errors import UsageError
from periplus.base.filesystem.confined_folder import EntryKind

SHOWN_MAX: Final = 500
_PARAMETERS: Final = (
    Parameter("path", "text", "folder, or handle; default ."),
    Parameter("glob", "text", "only files that fit, e.g. **/*.py", most=500),
    Parameter("depth", "integer", "default 1, with glob all", least=1, most=64),
    Parameter("ignored", "flag", "with what .gitignore names"),
    Parameter("start", "integer", "first entry", least=1),
)


def list_tool(work: Workspace) -> Tool:
    def accesses(args: Arguments) -> list[Access]:
        return [Access(resource=work.resource(args.text("path", ".")), mode="read")]

    return Tool("list", "List files with their sizes.", _PARAMETERS, lambda args: _list(work, args), accesses)


def _list(work: Workspace, args: Arguments) -> ToolResult:
    path = args.text("path", ".") or "."
    if is_handle(path):
        rows = [f"{page.handle}\t{page.size or ''}\t{page.title}".rstrip() for page in work.pages.list(path)]
        return _window(path, rows, args, [])
    from periplus.base.text.path_globs import glob_matches

    name = work.path(path)
    entry = work.folder.stat(name)
    if entry is not None and entry.kind != "folder":
        raise _no_folder(name, entry.kind)
    walk = Walk(work.folder, with_ignored=args.flag("ignored"), unread=work.unread)
    glob = args.text("glob")
    depth = args.integer("depth") if args.has("depth") else None if glob else 1
    rows = []
    for one in walk.entries(name, depth):
        inner = one.path if name == "." else one.path[len(name) + 1 :]
        if glob and (one.kind == "folder" or not glob_matches(inner, glob)):
            continue
        rows.append(
            {"folder": f"{one.path}/", "file": f"{one.path}\t{one.size}"}.get(one.kind, f"{one.path}\t{one.kind}")
        )
    notes = [f"cannot be listed: {why}" for why in walk.unread[:5]]
    notes += walk.told()
    if walk.stopped:
        notes.append(f"the walk stopped here: {walk.stopped}; list a smaller folder")
    return _window(name, rows, args, notes)


def _no_folder(name: str, kind: EntryKind) -> UsageError:
    if kind == "file":
        return UsageError(f"{name} is a file, not a folder", mend=f"read(path={name!r}) shows it.")
    if kind == "link":
        return UsageError(
            f"{name} is a link, and file tools do not follow links",
            mend="Name its target, if that lies in the project.",
        )
    return UsageError(f"{name} is a device, a pipe or a socket", mend="Leave it alone: nothing here reads it.")


def _window(name: str, rows: list[str], args: Arguments, notes: list[str]) -> ToolResult:
    start = args.integer("start", 1) - 1
    shown = rows[start : start + SHOWN_MAX]
    left = len(rows) - start - len(shown)
    if left > 0:
        said = "".join(f", {key}={args.text(key)!r}" for key in ("glob",) if args.has(key))
        said += f", depth={args.integer('depth')}" if args.has("depth") else ""
        said += ", ignored=true" if args.flag("ignored") else ""
        shown.append(f"… {left:,} entries left out; list(path={name!r}{said}, start={start + SHOWN_MAX + 1})")
    return ToolResult(outcome="ok", output="\n".join([*(shown or [f"nothing in {name}"]), *notes]))
