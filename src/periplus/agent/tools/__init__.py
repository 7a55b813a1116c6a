"""What the agent can do: files, commands, the network, memory, questions, each a row of one table."""

from __future__ import annotations

from periplus.agent.tools.commands import Consent, Shell, declared_environment, process_tool, shell_tool
from periplus.agent.tools.editing import edit_tool, write_tool
from periplus.agent.tools.fetching import Fetcher, fetch_tool
from periplus.agent.tools.host import LocalToolHost
from periplus.agent.tools.listing import list_tool
from periplus.agent.tools.local import HostParts, open_host
from periplus.agent.tools.outputs import Output, Outputs
from periplus.agent.tools.pages import HANDLE_PREFIX, Page, PageMatch, Pages, PageSource, is_handle, search_pages
from periplus.agent.tools.processes import Process, Processes
from periplus.agent.tools.reading import read_tool
from periplus.agent.tools.scripting import Authorize, code_tool
from periplus.agent.tools.searching import find_engine, search_tool
from periplus.agent.tools.table import Arguments, ArgumentsError, Parameter, Tool
from periplus.agent.tools.talking import Asker, ask_tool, notes_of_plan, plan_tool, recall_tool, remember_tool
from periplus.agent.tools.websearch import JsonProvider, SearchProvider, WebHit, web_search_tool
from periplus.agent.tools.workspace import Guard, Workspace, claims_guard

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
