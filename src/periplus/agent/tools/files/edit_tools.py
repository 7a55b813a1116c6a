"""The tools ``edit`` and ``write``: one or several files, all or nothing."""

from __future__ import annotations

__all__ = ["edit_tool", "write_tool"]

from typing import Final

from periplus.agent.contracts import Access, ToolResult
from periplus.agent.tools.files.change_log import Change, effect_of
from periplus.agent.tools.files.edit_engine import edit_lines
from periplus.agent.tools.files.text_encoding import BinaryFileError, Lines, Text, decode, encode, split_ends
from periplus.agent.tools.files.workspace import Workspace
from periplus.agent.tools.tool_table import Arguments, ArgumentsError, Parameter, Tool
from periplus.base.errors import ConflictError, NotFoundError, PeriplusError, RefusedError, UsageError

CONTENT_CHARS_MAX: Final = 4_000_000
_EDIT: Final = (
    Parameter("path", "text", required=True),
    Parameter("old", "text", "text to replace, found once; line ends need not match", most=CONTENT_CHARS_MAX),
    Parameter("new", "text", most=CONTENT_CHARS_MAX),
    Parameter("every", "flag", "replace all exact matches"),
    Parameter("create", "text", "content of a new file", most=CONTENT_CHARS_MAX),
    Parameter("delete", "flag"),
    Parameter("move_to", "text", "new path"),
)
_WRITE: Final = (
    Parameter("path", "text", required=True),
    Parameter("content", "text", required=True, most=CONTENT_CHARS_MAX),
    Parameter("executable", "flag"),
)


def edit_tool(work: Workspace) -> Tool:
    def accesses(args: Arguments) -> list[Access]:
        paths = [one.text(name) for one in args.records("edits") for name in ("path", "move_to") if one.has(name)]
        return [Access(resource=work.resource(path), mode="write") for path in dict.fromkeys(paths)]

    return Tool(
        "edit", "Change files, all or none: each edit replaces old by new, or creates, deletes or moves a file.",
        (Parameter("edits", "list", "in order", required=True, fields=_EDIT),), lambda args: _edit(work, args), accesses,
        lambda args: [effect_of(change) for change in _drafted(work, args).changes()],
    )  # fmt: skip


def write_tool(work: Workspace) -> Tool:
    def accesses(args: Arguments) -> list[Access]:
        return [Access(resource=work.resource(args.text("path")), mode="write")]

    return Tool(
        "write",
        "Write a whole file. One that exists must have been read.",
        _WRITE,
        lambda args: _write(work, args),
        accesses,
        lambda args: [effect_of(change) for change in (_written(work, args)[0],) if change is not None],
    )


class _Draft:
    """The files after the edits so far; nothing is written yet."""

    def __init__(self, work: Workspace) -> None:
        self._work = work
        self._before: dict[str, bytes | None] = {}
        self._after: dict[str, bytes | None] = {}
        self._modes: dict[str, int | None] = {}
        self.said: list[str] = []

    def take(self, edit: Arguments) -> None:
        path = self._work.path(edit.text("path"))
        kinds = [name for name in ("old", "create", "delete", "move_to") if edit.has(name)]
        if len(kinds) > 1:  # some models send every argument, unused ones empty
            kinds = [name for name in kinds if (edit.flag(name) if name == "delete" else edit.text(name))]
        if kinds == ["delete"] and not edit.flag("delete"):
            kinds = []
        if len(kinds) != 1 or (kinds == ["old"] and not edit.has("new")) or (kinds != ["old"] and edit.text("new")):
            raise ArgumentsError(
                f"{path}: an edit has old and new, or create, or delete, or move_to", safe="Nothing was changed."
            )
        if kinds == ["old"]:
            self._replace(path, edit)
        elif kinds == ["create"]:
            self._create(path, edit.text("create"))
        elif kinds == ["delete"]:
            self._need(path)
            self._after[path] = None
            self.said.append(f"{path}: deleted")
        else:
            self._move(path, self._work.path(edit.text("move_to")))

    def _replace(self, path: str, edit: Arguments) -> None:
        try:
            text = decode(self._need(path))
        except BinaryFileError as error:
            raise UsageError(
                f"{path}: {error}", safe="Nothing was changed.", mend="Write it again with a command."
            ) from error
        edited = edit_lines(text.lines, edit.text("old"), edit.text("new"), every=edit.flag("every"))
        self._after[path] = encode(text._replace(lines=edited.lines))
        places = ", ".join(f"{place}" for place in edited.places[:20]) + (" …" if len(edited.places) > 20 else "")
        tolerated = f" (tolerated: {', '.join(edited.tolerated)})" if edited.tolerated else ""
        self.said.append(f"{path}: line {places}{tolerated}")

    def _create(self, path: str, content: str) -> None:
        if self._now(path) is not None:
            raise ConflictError(
                f"{path} exists already", safe="Nothing was changed.", mend="Replace its text, or write it."
            )
        self._after[path] = content.encode()
        self.said.append(f"{path}: created")

    def _move(self, path: str, target: str) -> None:
        data = self._need(path)
        if self._now(target) is not None:
            raise ConflictError(
                f"{target} exists already", safe="Nothing was changed.", mend="Delete it first, or name another."
            )
        mode = self._modes.pop(path, None)
        self._modes[target] = mode if mode is not None else self._work.folder.mode(path)
        self._after[path], self._after[target] = None, data
        self.said.append(f"{path}: moved to {target}")

    def _need(self, path: str) -> bytes:
        data = self._now(path)
        if data is None:
            raise NotFoundError(f"no file {path}", safe="Nothing was changed.")
        return data

    def _now(self, path: str) -> bytes | None:
        if path not in self._after:
            try:
                held = self._work.current(path)
            except NotFoundError:
                held = None
            self._before[path] = self._after[path] = held
        return self._after[path]

    def changes(self) -> list[Change]:
        return [
            Change(path, self._before[path], after, mode=self._modes.get(path))
            for path, after in self._after.items()
            if after != self._before[path] or self._modes.get(path) is not None
        ]


def _edit(work: Workspace, args: Arguments) -> ToolResult:
    draft = _drafted(work, args)
    effects = work.apply(draft.changes())
    return ToolResult(outcome="ok", output="\n".join(draft.said), untrusted=False, effects=effects)


def _drafted(work: Workspace, args: Arguments) -> _Draft:
    draft = _Draft(work)
    edits = args.records("edits")
    for number, edit in enumerate(edits, 1):
        try:
            draft.take(edit)
        except PeriplusError as error:
            if len(edits) > 1:
                error.wrong = f"edit {number} of {len(edits)}: {error.wrong}"
            if edit.text("path") not in error.wrong:
                error.wrong = f"{edit.text('path')}: {error.wrong}"
            raise
    return draft


def _write(work: Workspace, args: Arguments) -> ToolResult:
    change, said = _written(work, args)
    effects = work.apply([change]) if change is not None else ()
    return ToolResult(outcome="ok", output=said, untrusted=False, effects=effects)


def _written(work: Workspace, args: Arguments) -> tuple[Change | None, str]:
    """The change to write, None if the file has that content already, and the message."""
    path = work.path(args.text("path"))
    content = args.text("content")
    try:
        held = work.current(path)
    except NotFoundError:
        held = None
    executable = args.flag("executable") if args.has("executable") else None
    if held is None:
        return Change(path, None, content.encode(), executable), f"{path}: created"
    if work.seen(path) is None:
        raise RefusedError(
            f"{path} exists already and was not read", safe="Nothing was changed.",
            mend=f"read(path={path!r}) first, or edit it.",
        )  # fmt: skip
    data, about = _as_held(held, content)
    if data == held and executable is None:
        return None, f"{path}: it held that already"
    return Change(path, held, data, executable), f"{path}: written{f' ({about} kept)' if about else ''}"


def _as_held(held: bytes, content: str) -> tuple[bytes, str]:
    """The bytes of ``content`` in the file's present encoding and line ends."""
    try:
        text = decode(held)
    except BinaryFileError:
        return content.encode(), ""
    lines = split_ends(content)
    ends = set(text.lines.ends)
    if len(ends) == 1 and "\r" not in content:
        lines = Lines(lines.text, tuple(ends) * len(lines.ends))
    kept = Text(lines, text.encoding, text.mark)
    return encode(kept), kept.about
