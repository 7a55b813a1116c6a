"""A folder of the notification log as years of use leave it, and what is to be said of it."""

from __future__ import annotations

import json
import os
import random
from typing import NamedTuple

SECRET = "AKIA" + "IOSFODNN7ABCDEFG"


class Sample(NamedTuple):
    entities: int
    duplicates: int
    unreadable: int
    refused: int
    torn: int
    orphans: int


def words(rng, count):
    pool = "Ärger cache lock ürün 数据 retry naïve build 🚢 deploy token bucket index schéma log Straße".split()
    return " ".join(rng.choice(pool) for _ in range(count))


def document(rng, kind, number):
    """An entity as one version or another of the old program wrote it."""
    one = {"id": f"{kind[:3].upper()}-{number}", "type": kind}
    if rng.random() < 0.2:
        one = {"item_id": one["id"], "item_type": kind}
    if kind in ("plan", "task", "message"):
        one |= {
            "goal": words(rng, 6),
            "steps": [{"n": n, "done": rng.random() < 0.5} for n in range(rng.randint(0, 4))],
        }
        one |= {"progress": rng.random(), "ratio": 1e-7, "big": 2**70, "none": None}
    else:
        one[rng.choice(["text", "content", "description"])] = words(rng, rng.randint(3, 40))
        one["confidence"] = rng.choice([0.8, 0.855, 1, 0, 75, 1.0])
        one[rng.choice(["tags", "labels"])] = [words(rng, 1) for _ in range(rng.randint(0, 3))]
        one[rng.choice(["created", "created_at", "createdAt"])] = rng.choice(
            ["2025-03-04T05:06:07Z", 1740000000.25, 1740000000250]
        )
        one[rng.choice(["author", "agent"])] = rng.choice(["ada", "codex", "клод"])
        if kind == "decision":
            one["status"] = rng.choice(["accepted", "Proposed", "open"])
            one["rationale"] = words(rng, 12)
        if kind == "trap":
            one["severity"] = rng.choice(["high", "sev1"])
        if kind == "note":
            one["about"] = ["src/a.py", "docs/ü.md"]
    deep = {}
    for level in range(rng.choice([0, 3, 90])):
        deep = {"level": level, "in": deep}
    one["meta"] = deep
    return one


def text_of(rng, value):
    text = json.dumps(
        value, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 2, 4, "\t"]), sort_keys=rng.random() < 0.3
    )
    text += rng.choice(["", "\n", "\n\n"])
    if rng.random() < 0.2:
        text = text.replace("\n", "\r\n")
    return ("\ufeff" if rng.random() < 0.1 else "") + text


def make_v1(root, count=200, seed=1):
    """Make the folder ``root``; gives what its accounting must come to."""
    rng = random.Random(seed)
    root.mkdir(parents=True)
    lines = []
    paths = []
    kinds = ["decision", "constraint", "trap", "lesson", "note", "plan", "task", "message"]
    for number in range(count):
        kind = rng.choice(kinds)
        value = document(rng, kind, number)
        name = value.get("id") or value.get("item_id")
        folder = root if rng.random() < 0.1 else root / rng.choice([kind, f"{kind}s"])
        folder.mkdir(exist_ok=True)
        path = folder / f"{name}.json"
        path.write_bytes(text_of(rng, value).encode())
        paths.append(path)
        event = {"ts": f"2025-03-04T05:{number % 60:02d}:00Z", "event": "create", "item_type": kind, "item_id": name, "agent": "ada", "session": "s1", "summary": words(rng, 4)}  # fmt: skip
        lines.append(json.dumps(event))
    copies = root / "backup"
    copies.mkdir()
    for path in paths[:5]:  # the same entity once more, in a folder of no type
        (copies / f"copy-of-{path.name}").write_bytes(path.read_bytes())
    unreadable = bad_files(root)
    refused = refused_files(root)
    lines += lines[:10]  # repeated, and out of order
    lines += [json.dumps({"ts": "x", "action": "update", "type": "task", "item_id": f"gone-{n}"}) for n in range(3)]
    lines += ['{"ts":"2025-', "\0\0\0\0", "[1]"]
    (root / "events.jsonl").write_bytes("\ufeff".encode() + "\r\n".join(lines).encode() + b'\r\n{"torn":')
    (root / "README.md").write_text("What this folder is\n")
    (root / ".events.lock").write_text("")
    return Sample(count, 5, unreadable, refused, 4, 3)


def bad_files(root):
    folder = root / "tasks"
    folder.mkdir(exist_ok=True)
    bad = {
        "half.json": b'{"id":"half","type":"task","goal":"to be wri',
        "empty.json": b"",
        "latin.json": b'{"id":"latin","goal":"\xe4"}',
        "nul.json": b"\0" * 512,
        "list.json": b'[{"id":"a"},{"id":"b"}]',
        "twice.json": b'{"id":"twice","goal":1,"goal":2}',
        "deep.json": b'{"id":"deep","goal":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    }
    for name, data in bad.items():
        (folder / name).write_bytes(data)
    (folder / "folder.json").mkdir()
    (folder / "link.json").symlink_to("/etc/hostname")
    os.mkfifo(folder / "pipe.json")
    (root / "elsewhere").symlink_to("/etc")
    return len(bad) + 3


def refused_files(root):
    (root / "tasks" / "huge.json").write_bytes(b'{"id":"huge","text":"' + b"x" * (5 << 20) + b'"}')
    (root / "tasks" / "secret.json").write_text(json.dumps({"id": "secret", "goal": f"use {SECRET}"}))
    (root / "notes").mkdir(exist_ok=True)
    (root / "notes" / "secret.json").write_text(json.dumps({"id": "s2", "text": "a", "env": {"aws": SECRET}}))
    (root / "nameless.json").write_text('{"version": 3}')
    return 4


def contents(root):
    """Every file's bytes by path, links and folders by what they are: two folders compared byte for byte."""
    found = {}
    for folder, folders, names in os.walk(root):
        for name in [*folders, *names]:
            path = os.path.join(folder, name)
            place = os.path.relpath(path, root)
            if os.path.islink(path):
                found[place] = ("link", os.readlink(path))
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    found[place] = ("file", file.read())
            else:
                found[place] = ("other", "")
    return found
