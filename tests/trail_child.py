"""Run by tests/test_trail_equal_bytes.py in processes and Pythons of other kinds: ``trail_child.py SRC FILE…``.

Prints the SHA-256 of everything that can be made of the trails in the files, from their values, and of a trail made here.
"""

import hashlib
import importlib.util
import json
import sys
import types


class Struct:
    def __init_subclass__(cls, **options):
        super().__init_subclass__()


def compiled():
    """A worklog, the keys of its entries in whatever order a set has them in this process."""
    from periplus.trail.program import trail_of_program
    from periplus.trail.worklogs.compiler import compile_worklog

    entries = [{"op": "trail_begin", "agent": "a", "trail_id": "t", "ts": 1_767_225_600}]
    for number in range(300):
        whole = {
            "op": "file_edit",
            "path": f"src/{number % 9}.py",
            "old": f"ü {number}",
            "new": "",
            "desc": "why",
            "ts": 1_767_225_600,
        }
        entries.append({key: whole[key] for key in set(whole)})
    entries.append({"op": "trail_end", "status": "success"})
    return trail_of_program(compile_worklog(json.dumps(entries).encode()).program, bytes(range(32)))


def main(source, *paths):
    sys.path.insert(0, source)
    if importlib.util.find_spec("msgspec") is None:  # a bare Python: proofs of steps need it, nothing here does
        sys.modules["msgspec"] = types.ModuleType("msgspec")
        sys.modules["msgspec"].Struct = Struct
    from periplus.trail import Digest, Header, TrailBuilder, TrailReader, concat, encode, listing, salvage, withhold

    made = [compiled()]
    for path in paths:
        with open(path, "rb") as file:
            reader = TrailReader(file.read())
        made.append(encode(reader.header, list(reader.steps()), reader.status, reader.secret))
        made.append(withhold(made[-1], lambda index, _: index % 3 == 0))
        made.append(salvage(made[-2][: len(made[-2]) * 3 // 4]).data)
        made.append("\n".join(listing(reader, "verbose")).encode())
    builder = TrailBuilder(bytes(range(32)), lambda data: hashlib.sha256(data).digest())
    words = {f"word {number}" for number in range(200)}
    for number, word in enumerate(sorted(words)):
        builder.add("FILE_READ", f"src/{number % 7}.py", word, at_ms=number, source=number + 1)
        builder.add("COMMAND_RUN", word * 700, None, outcome="failed", exit_code=-number, error="ü€😀")
        builder.add("CHECKPOINT", Digest("git-sha1", bytes((number,)) * 20))
        builder.add_unknown(0xCF, number, None, word)
    made.append(builder.finish(Header("a", "t", tool_version="1", title="ok"), "partial"))
    made.append(concat([*made[1:-1:4], made[-1]]))
    for data in made:
        print(hashlib.sha256(data).hexdigest())


if __name__ == "__main__":
    main(*sys.argv[1:])
