"""A context server in a process of its own: serves the store in a folder, tells where, and at its end what it counted.

python context_server_child.py '{"folder": …, "endpoints": [{…}], "limits": {…}, "wire": {…}, "policy": {…}}'
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback

from periplus.context.remotes.calls import LIMITS
from periplus.context.stores.disk_store import DiskStore
from periplus.context.wire import Limits, Policy
from periplus.server.context_server import ContextServer, ServerLimits, serve
from periplus.server.listeners import Endpoint


def main() -> None:
    given = json.loads(sys.argv[1])
    limits = ServerLimits(
        **given.get("limits", {}),
        wire=Limits(**({"streams": 32, "frame_bytes": LIMITS.frame_bytes} | given.get("wire", {}))),
        policy=Policy(**given.get("policy", {})),
    )
    server = ContextServer(
        lambda: DiskStore(given["folder"]),
        [Endpoint(**endpoint) for endpoint in given["endpoints"]],
        limits=limits,
        can_push=given.get("can_push", True),
        on_error=lambda error: traceback.print_exception(error, file=sys.stderr),
    )
    asyncio.run(serve(server, lambda addresses: print(json.dumps([str(address) for address in addresses]), flush=True)))
    print(json.dumps(server.document()), flush=True)


if __name__ == "__main__":
    main()
