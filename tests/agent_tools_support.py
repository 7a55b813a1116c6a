"""A folder with the tools of files over it."""

from __future__ import annotations

from periplus.agent.tools import (
    LocalToolHost,
    Pages,
    Workspace,
    edit_tool,
    find_engine,
    list_tool,
    read_tool,
    search_tool,
    write_tool,
)

PATH = "/usr/local/bin:/usr/bin:/bin"


def make_host(tmp_path, *, files=None, guard=None, pages=None, engine=None, root="work"):
    folder = tmp_path / root
    folder.mkdir(exist_ok=True)
    work = Workspace(str(folder), str(tmp_path / "state"), pages=pages or Pages(), guard=guard, files=files)
    tools = [
        read_tool(work), list_tool(work), search_tool(work, engine or find_engine(PATH)), edit_tool(work), write_tool(work),
    ]  # fmt: skip
    return LocalToolHost(work, tools)


def edit(path, old, new, **more):
    return {"edits": [{"path": path, "old": old, "new": new, **more}]}
