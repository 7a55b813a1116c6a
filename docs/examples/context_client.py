"""Read a context of a server, best first and proved, until a budget of tokens is used up.

python context_client.py tls://example.org:7600 main 2000 token.txt authority.pem
"""

import asyncio
import sys

from periplus.base.errors import PeriplusError
from periplus.context.remotes.address import Trust, parse_address
from periplus.context.remotes.async_client import ContextClient


async def read(address: str, ref: str, budget: int, token_file: str = "", authority: str | None = None) -> None:
    token = open(token_file, encoding="utf-8").read().strip() if token_file else ""
    async with ContextClient(parse_address(address), token=token, trust=Trust(ca_file=authority)) as client:
        head = (await client.refs())[ref]
        async for chunk in client.stream(head, prove=True):  # each chunk is verified before it is here
            for entry in chunk.entries:
                print(entry.atom.relevance / 1_000_000, entry.atom.source, entry.atom.content.splitlines()[0])
            if chunk.cumulative_tokens >= budget:
                break  # the server stops as well, and frees what it held


if __name__ == "__main__":
    try:
        asyncio.run(read(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:]))
    except PeriplusError as error:
        sys.exit(f"{error}\n{error.safe} {error.mend}")
