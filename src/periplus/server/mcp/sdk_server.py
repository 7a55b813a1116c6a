"""The catalogue and the tool calls as handlers of the official SDK, which is imported where it is used."""

from __future__ import annotations

__all__ = ["Answers", "DeskThread", "make_server", "missing_sdk"]

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from periplus import __version__
from periplus.base.errors import EnvironmentFailure, NotFoundError, PeriplusError, UsageError
from periplus.server.mcp.catalogue import (
    INSTRUCTIONS,
    LIST_TTL_MS,
    NAME,
    PROMPTS,
    TITLE,
    prompt_documents,
    template_documents,
    tool_documents,
)
from periplus.server.mcp.prompts import prompt_text
from periplus.server.mcp.resources import Content, list_page, read_resource
from periplus.server.mcp.tool_calls import Caller, Desk
from periplus.server.mcp.tool_wording import told_error

_T = TypeVar("_T")
_INVALID_PARAMS: Final = -32602
_INTERNAL: Final = -32603
_NOT_FOUND: Final = -32002  # for resources, up to 2025-11-25; later revisions use "invalid params"


def missing_sdk(error: ImportError) -> EnvironmentFailure:
    return EnvironmentFailure(f"the MCP SDK is not installed ({error.name})", safe="Nothing was changed.",
                              mend="Install it: pip install 'periplus[mcp]'")  # fmt: skip


class DeskThread:
    """A desk, and the only thread that may use it."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="desk")

    async def run(self, work: Callable[[Desk], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, self.desk)

    def close(self) -> None:
        """Wait for the current call, end the sessions, close the store."""
        self._threads.submit(self.desk.close).result()
        self._threads.shutdown()


def make_server(answers: Answers) -> Any:
    """Return an SDK server with the handlers of ``answers``."""
    from mcp.server.caching import CacheHint
    from mcp.server.lowlevel import Server

    lasting = CacheHint(ttl_ms=LIST_TTL_MS, scope="public")
    return Server(
        NAME,
        version=__version__,
        title=TITLE,
        instructions=INSTRUCTIONS,
        cache_hints={
            "tools/list": lasting,
            "prompts/list": lasting,
            "resources/templates/list": lasting,
            "server/discover": lasting,
        },
        on_list_tools=answers.list_tools,
        on_call_tool=answers.call_tool,
        on_list_resources=answers.list_resources,
        on_list_resource_templates=answers.list_templates,
        on_read_resource=answers.read_resource,
        on_list_prompts=answers.list_prompts,
        on_get_prompt=answers.get_prompt,
    )


class Answers:
    """The handlers of the SDK server, which define what it offers."""

    def __init__(self, thread: DeskThread, connection: str) -> None:
        """``connection`` names the peer's session, if the transport has only one."""
        self._thread = thread
        self._connection = connection

    async def list_tools(self, context: Any, params: Any) -> Any:  # noqa: ARG002 - as the SDK calls it
        _refuse_cursor(params)
        return _as("ListToolsResult", {"tools": tool_documents()})

    async def list_prompts(self, context: Any, params: Any) -> Any:  # noqa: ARG002 - as the SDK calls it
        _refuse_cursor(params)
        return _as("ListPromptsResult", {"prompts": prompt_documents()})

    async def list_templates(self, context: Any, params: Any) -> Any:  # noqa: ARG002 - as the SDK calls it
        _refuse_cursor(params)
        return _as("ListResourceTemplatesResult", {"resourceTemplates": template_documents()})

    async def call_tool(self, context: Any, params: Any) -> Any:
        caller = self._caller(context)
        reply = await self._thread.run(lambda desk: desk.call(caller, params.name, params.arguments))
        document: dict[str, Any] = {"content": [{"type": "text", "text": reply.text}], "isError": reply.is_error}
        if reply.data is not None:
            document["structuredContent"] = reply.data
        return _as("CallToolResult", document)

    async def list_resources(self, context: Any, params: Any) -> Any:
        caller = self._caller(context)
        cursor = params.cursor if params is not None else None
        page = await self._asked(lambda desk: desk.within(caller, lambda project: list_page(project, cursor)), context)
        document: dict[str, Any] = {"resources": page.resources}
        return _as("ListResourcesResult", document | ({"nextCursor": page.next_cursor} if page.next_cursor else {}))

    async def read_resource(self, context: Any, params: Any) -> Any:
        caller, uri = self._caller(context), str(params.uri)
        content: Content = await self._asked(
            lambda desk: desk.within(caller, lambda project: read_resource(project, uri)), context
        )
        document: dict[str, Any] = {"uri": content.uri, "mimeType": content.mime_type}
        if content.data is None:
            document["text"] = content.text
        else:
            from base64 import b64encode

            document["blob"] = b64encode(content.data).decode()
        return _as("ReadResourceResult", {"contents": [document]})

    async def get_prompt(self, context: Any, params: Any) -> Any:
        caller = self._caller(context)
        text = await self._asked(
            lambda desk: desk.within(caller, lambda project: prompt_text(project, params.name, params.arguments)),
            context,
        )
        row = next(row for row in PROMPTS if row["name"] == params.name)
        message = {"role": "user", "content": {"type": "text", "text": text}}
        return _as("GetPromptResult", {"description": row["description"], "messages": [message]})

    async def leave(self, said: str) -> None:
        """End what the client's transport session ``said`` began: the client ended it."""
        connection = self._of_several(said)
        await self._thread.run(lambda desk: desk.leave(connection))

    def _of_several(self, said: str) -> str:
        """Return the session of one connection of a transport with several."""
        from periplus.base.ids import derived_id

        return f"{self._connection}-{derived_id('con', said)[4:12]}"

    async def _asked(self, work: Callable[[Desk], _T], context: Any) -> _T:
        """Return the result of ``work``; raise failures as protocol errors that say what is wrong."""
        from mcp.shared.exceptions import MCPError

        def guarded(desk: Desk) -> _T:
            try:
                return work(desk)
            except Exception as error:  # raised again in the desk's words
                raise desk.told(error) from error

        try:
            return await self._thread.run(guarded)
        except PeriplusError as error:
            code = _INVALID_PARAMS if isinstance(error, UsageError) else _INTERNAL
            if (
                isinstance(error, NotFoundError)
                and context.method == "resources/read"
                and context.protocol_version < "2026"
            ):
                code = _NOT_FOUND
            raise MCPError(code=code, message=told_error(error)) from error

    def _caller(self, context: Any) -> Caller:
        """Return the caller: the client's own name, and the session of its connection if the transport has several."""
        params = context.session.client_params
        client = params.client_info.name if params is not None else ""
        connection = self._connection
        if context.request is not None:
            connection = self._of_several(context.request.headers.get("mcp-session-id") or client)
        return Caller(client[:200], connection)


def _as(name: str, document: dict[str, Any]) -> Any:
    """Convert ``document`` to the SDK's result of that name, which fits each revision of the protocol."""
    import mcp_types

    return getattr(mcp_types, name).model_validate(document, by_name=False)


def _refuse_cursor(params: Any) -> None:
    """Refuse a cursor for a list of one page."""
    if params is not None and params.cursor:
        from mcp.shared.exceptions import MCPError

        raise MCPError(code=_INVALID_PARAMS, message=f"{params.cursor[:40]!r} is not a cursor of this list.")
