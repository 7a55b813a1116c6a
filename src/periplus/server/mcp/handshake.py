"""Answers to a client's first requests, from the catalogue, before the SDK is loaded.

Loading the SDK takes over a second. ``Front`` answers the handshake, the lists and pings exactly as the SDK would (a test
compares), and only if they follow the protocol exactly. Everything else is left to the SDK, which first gets the messages that
were answered here, so that its state is the same.
"""

from __future__ import annotations

__all__ = ["Front"]

from typing import Any, Final

import msgspec

from periplus import __version__
from periplus.server.mcp.catalogue import (
    HANDSHAKE_VERSIONS,
    INSTRUCTIONS,
    LIST_TTL_MS,
    MODERN_VERSION,
    NAME,
    TITLE,
    prompt_documents,
    template_documents,
    tool_documents,
)

_META: Final = "io.modelcontextprotocol/"
_INFO: Final = {"name": NAME, "title": TITLE, "version": __version__}
_HEARD_MAX: Final = 100
_LISTS: Final = {
    "tools/list": ("tools", tool_documents),
    "prompts/list": ("prompts", prompt_documents),
    "resources/templates/list": ("resourceTemplates", template_documents),
}


class Front:
    """One connection, until the SDK takes it over. ``heard`` are the lines that were answered, for the SDK."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self._version = ""

    def answer(self, line: bytes) -> bytes | None:
        """Return the answer to a line; empty if none is due; None if the SDK has to handle it."""
        if len(self.heard) >= _HEARD_MAX:
            return None
        try:
            message = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return None
        answered = self._answered(message)
        if answered is None:
            return None
        self.heard.append(line)
        return answered

    def _answered(self, message: dict[str, Any]) -> bytes | None:
        method, request_id, params = message.get("method"), message.get("id"), message.get("params", {})
        if set(message) - {"jsonrpc", "id", "method", "params"} or not isinstance(params, dict):
            return None
        if "id" not in message:
            is_due = method == "notifications/initialized" and self._version in HANDSHAKE_VERSIONS and not params
            return b"" if is_due else None
        if not isinstance(request_id, (int, str)) or isinstance(request_id, bool):
            return None
        result = self._initialized(params) if method == "initialize" else self._listed(str(method), params)
        if result is None:
            return None
        return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "result": result}) + b"\n"

    def _initialized(self, params: dict[str, Any]) -> dict[str, Any] | None:
        version, client = params.get("protocolVersion"), params.get("clientInfo")
        if (
            self._version
            or version not in HANDSHAKE_VERSIONS
            or set(params) - {"protocolVersion", "clientInfo", "capabilities"}
        ):
            return None
        plain = isinstance(client, dict) and all(isinstance(client.get(name), str) for name in ("name", "version"))
        if not plain or not isinstance(params.get("capabilities"), dict):
            return None
        self._version = str(version)
        return {
            "protocolVersion": self._version, "capabilities": _capabilities(), "serverInfo": _INFO, "instructions": INSTRUCTIONS,
        }  # fmt: skip

    def _listed(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        meta = params.get("_meta")
        if meta is not None:
            return self._modern(method, params, meta)
        if self._version not in HANDSHAKE_VERSIONS or params:
            return None
        if method == "ping":
            return {}
        if method not in _LISTS:
            return None
        name, documents = _LISTS[method]
        return {name: documents()}

    def _modern(self, method: str, params: dict[str, Any], meta: object) -> dict[str, Any] | None:
        if self._version not in ("", MODERN_VERSION) or set(params) != {"_meta"} or not isinstance(meta, dict):
            return None
        client, capabilities = meta.get(f"{_META}clientInfo"), meta.get(f"{_META}clientCapabilities")
        plain = isinstance(client, dict) and all(isinstance(client.get(name), str) for name in ("name", "version"))
        known = {f"{_META}{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities")}
        if (
            meta.get(f"{_META}protocolVersion") != MODERN_VERSION
            or not plain
            or not isinstance(capabilities, dict)
            or set(meta) - known
        ):
            return None
        if method == "server/discover":
            result: dict[str, Any] = {
                "supportedVersions": [MODERN_VERSION], "capabilities": _capabilities(), "instructions": INSTRUCTIONS,
            }  # fmt: skip
        elif method in _LISTS:
            name, documents = _LISTS[method]
            result = {name: documents()}
        else:
            return None
        self._version = MODERN_VERSION
        return {
            **result,
            "ttlMs": LIST_TTL_MS,
            "cacheScope": "public",
            "resultType": "complete",
            "_meta": {f"{_META}serverInfo": _INFO},
        }


def _capabilities() -> dict[str, Any]:
    return {"prompts": {"listChanged": False}, "resources": {"subscribe": False, "listChanged": False},
            "tools": {"listChanged": False}}  # fmt: skip
