"""Tools of the agent: files, commands, the network, memory, questions. Each is a row of one table."""

from __future__ import annotations

from periplus.agent.tools.dialogue_tools import Asker, ask_tool, notes_of_plan, plan_tool, recall_tool, remember_tool
from periplus.agent.tools.files.edit_tools import edit_tool, write_tool
from periplus.agent.tools.files.list_tools import list_tool
from periplus.agent.tools.files.read_tools import read_tool
from periplus.agent.tools.files.search_tools import find_engine, search_tool
from periplus.agent.tools.files.workspace import Guard, Workspace, claims_guard
from periplus.agent.tools.local_host import HostParts, open_host
from periplus.agent.tools.shell.code_tools import Authorize, code_tool
from periplus.agent.tools.shell.commands import Consent, Shell, declared_environment, process_tool, shell_tool
from periplus.agent.tools.shell.processes import Process, Processes
from periplus.agent.tools.text_pages.command_output import Output, Outputs
from periplus.agent.tools.text_pages.page_source import (
    HANDLE_PREFIX,
    Page,
    PageMatch,
    Pages,
    PageSource,
    is_handle,
    search_pages,
)
from periplus.agent.tools.tool_host import LocalToolHost
from periplus.agent.tools.tool_table import Arguments, ArgumentsError, Parameter, Tool
from periplus.agent.tools.web.page_fetch import Fetcher, fetch_tool
from periplus.agent.tools.web.web_search import JsonProvider, SearchProvider, WebHit, web_search_tool

__all__ = [
    "HANDLE_PREFIX",
    "Arguments",
    "ArgumentsError",
    "Asker",
    "Authorize",
    "Consent",
    "Fetcher",
    "Guard",
    "HostParts",
    "JsonProvider",
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
    "SearchProvider",
    "Shell",
    "Tool",
    "WebHit",
    "Workspace",
    "ask_tool",
    "claims_guard",
    "code_tool",
    "declared_environment",
    "edit_tool",
    "fetch_tool",
    "find_engine",
    "is_handle",
    "list_tool",
    "notes_of_plan",
    "open_host",
    "plan_tool",
    "process_tool",
    "read_tool",
    "recall_tool",
    "remember_tool",
    "search_pages",
    "search_tool",
    "shell_tool",
    "web_search_tool",
    "write_tool",
]
