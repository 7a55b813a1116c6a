"""A folder with the tools of files over it."""

from __future__ import annotations

from contextlib import contextmanager

from periplus.agent.sandbox import Unconfined
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
from periplus.agent.tools.files.search_tools import by_python
from periplus.agent.tools.shell.commands import Shell, process_tool, shell_tool
from periplus.agent.tools.shell.processes import Processes
from periplus.agent.tools.text_pages.command_output import Outputs
from periplus.base.files import Files

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


HOST_ENVIRONMENT = {"PATH": PATH, "HOME": "/root", "SECRET_OF_HOST": "s3cret-of-the-host", "LC_ALL": "C.UTF-8"}


@contextmanager
def shell_host(tmp_path, *, sandbox=None, consent=None, allow_network=False, home="", root="work"):
    """The tools of files and commands; every process is ended with the block."""
    folder = tmp_path / root
    folder.mkdir(exist_ok=True)
    outputs = Outputs(str(tmp_path / "state-output"), Files())
    work = Workspace(str(folder), str(tmp_path / "state"), pages=Pages({"output": outputs}))
    processes = Processes(outputs)
    shell = Shell(work, processes, sandbox or Unconfined(), environment=HOST_ENVIRONMENT, home=home,
                  consent=consent or (lambda wish, what: True), allow_network=allow_network)  # fmt: skip
    host = LocalToolHost(work, [read_tool(work), list_tool(work), search_tool(work, by_python), edit_tool(work),
                                write_tool(work), shell_tool(shell), process_tool(processes)])  # fmt: skip
    host.watch(on_cancel=processes.cancel, on_close=processes.close)
    host.watch(on_close=outputs.close)
    host.shell = shell
    try:
        yield host
    finally:
        host.close()
