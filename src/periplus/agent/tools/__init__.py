"""What the agent can do: files, commands, the network, memory, questions, each a row of one table."""

from __future__ import annotations

from periplus.agent.tools.commands import Consent, Shell, declared_environment, process_tool, shell_tool
from periplus.agent.tools.editing import edit_tool, write_tool
from periplus.agent.tools.host import LocalToolHost
from periplus.agent.tools.listing import list_tool
from periplus.agent.tools.outputs import Output, Outputs
from periplus.agent.tools.pages import HANDLE_PREFIX, Page, PageMatch, Pages, PageSource, is_handle, search_pages
from periplus.agent.tools.processes import Process, Processes
from periplus.agent.tools.reading import read_tool
from periplus.agent.tools.searching import find_engine, search_tool
from periplus.agent.tools.table import Arguments, ArgumentsError, Parameter, Tool
from periplus.agent.tools.workspace import Guard, Workspace, claims_guard

__all__ = [
    "HANDLE_PREFIX",
    "Arguments",
    "ArgumentsError",
    "Consent",
    "Guard",
    "LocalToolHost",
    "Output",
    "Outputs",
    "Page",
    "PageMatch",
    "PageSource",
    "Pages",
    "Parameter",
    "Process",
    "Processes",
    "Shell",
    "Tool",
    "Workspace",
    "claims_guard",
    "declared_environment",
    "edit_tool",
    "find_engine",
    "is_handle",
    "list_tool",
    "process_tool",
    "read_tool",
    "search_pages",
    "search_tool",
    "shell_tool",
    "write_tool",
]
