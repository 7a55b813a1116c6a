"""What an exchange folder or the refs of a git remote hold (page: Exchange)."""

import re
import subprocess
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from .forms import check_head, need, parse
from .lineage import Lineage, check_stubs, read_lineage, segments
from .objects import checked, load_object


def check_head_file(data: bytes, lineage: Lineage) -> dict[str, Any]:
    """A `head.json` beside the segments of *lineage*: signed, and the records have its root."""
    said = parse(data)
    need(sorted(said) == ["format", "head", "key", "signature"] and said["format"] == 1, "another form")
    head = said["head"]
    need(head["lineage"] == lineage.id and head["store"] == lineage.store, "the head of another lineage")
    check_head(head, bytes.fromhex(said["key"]), bytes.fromhex(said["signature"]))
    need(head["size"] <= len(lineage.records), "it covers more than is here")
    need(lineage.root(head["size"]).hex() == head["root"], "the records lead to another root")
    return dict(said)


def read_folder(folder: Path, stores: Collection[str]) -> dict[str, Lineage]:
    """The lineages of an exchange folder."""
    said = parse((folder / "exchange.json").read_bytes())
    need(said["format"] == 1 and said["store"] in stores, "the folder of another store")

    def load(digest: str) -> bytes | None:
        return load_object(folder / "objects", digest)

    found, keys = {}, {}
    for place in sorted(folder.glob("journal/lin_*")):
        lineage = read_lineage(place.name, segments(place), stores, 0, load)
        head = check_head_file((place / "head.json").read_bytes(), lineage)
        keys[place.name] = bytes.fromhex(head["key"])
        found[place.name] = lineage
    check_stubs(found, keys.get)
    return found


def read_refs(repository: Path, stores: Collection[str]) -> dict[str, Lineage]:
    """The lineages in the refs `refs/periplus/…` of a git repository."""

    def git(*words: str) -> bytes:
        return subprocess.run(["git", "-C", str(repository), *words], check=True, capture_output=True).stdout

    found, keys = {}, {}
    for ref in git("for-each-ref", "--format=%(refname)", "refs/periplus/").decode().split():
        name = ref.removeprefix("refs/periplus/")
        listed = {}
        for row in git("ls-tree", "-r", "-z", ref).decode().split("\0")[:-1]:
            mode, _, rest = row.partition(" ")
            need(mode == "100644", "another mode")
            listed[rest.partition("\t")[2]] = rest.split()[1]
        found[name], keys[name] = _tree(name, listed, stores, lambda blob: git("cat-file", "blob", blob))
    check_stubs(found, keys.get)
    return found


def _tree(
    name: str, listed: dict[str, str], stores: Collection[str], blob: Callable[[str], bytes]
) -> tuple[Lineage, bytes]:
    files = {int(m[1]): blob(listed[path]) for path in listed if (m := re.fullmatch(r"segments/(\d{12})\.jsonl", path))}

    def load(digest: str) -> bytes | None:
        path = f"objects/{digest[:2]}/{digest[2:]}"
        return checked(digest, blob(listed[path])) if path in listed else None

    for path in listed:
        if path.startswith("objects/"):
            need(load(path.removeprefix("objects/").replace("/", "")), "no object")
    lineage = read_lineage(name, files, stores, 0, load)
    head = check_head_file(blob(listed["head.json"]), lineage)
    return lineage, bytes.fromhex(head["key"])
