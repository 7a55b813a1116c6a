"""A process that parses files for the index: jobs on standard input, rows on standard output.

A parser is a library in C that reads untrusted text. Where one ends its process, the other side knows by the last row which file it was.
"""

from __future__ import annotations

__all__ = ["main", "read_message", "write_message"]

import gc
import sys
from typing import BinaryIO, Final

import msgspec

from periplus.code.index.file_reader import FileReader
from periplus.code.index.parsing import Job, contents_of, row_of_contents

MESSAGE_BYTES_MAX: Final = 256 << 20


def read_message(stream: BinaryIO) -> bytes | None:
    """Return the next message, None at the end of the stream."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    size = int.from_bytes(head, "big")
    if size > MESSAGE_BYTES_MAX:
        return None
    body = stream.read(size)
    return body if len(body) == size else None


def write_message(stream: BinaryIO, body: bytes) -> None:
    stream.write(len(body).to_bytes(4, "big") + body)


def main() -> None:
    """Parse until the input ends. The first message is the root; each further one is a list of jobs."""
    root = read_message(sys.stdin.buffer)
    if root is None:
        return
    gc.disable()  # facts hold no circles; a pass of the collector would walk over all of them
    encode = msgspec.msgpack.encode
    decoder = msgspec.msgpack.Decoder(list[Job])
    with FileReader(root.decode("utf-8", "surrogateescape")) as reader:
        while (body := read_message(sys.stdin.buffer)) is not None:
            for number, job in enumerate(decoder.decode(body)):
                path = job.path.encode("latin-1").decode("utf-8", "surrogateescape")
                own = job._replace(path=path)
                write_message(sys.stdout.buffer, encode((number, row_of_contents(contents_of(reader, own), own))))
                sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
