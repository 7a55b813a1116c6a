"""A store in which strangers wrote every field: markup, scripts, addresses that run, marks of direction, controls, lines without end."""

from __future__ import annotations

import os
import re
import urllib.parse

from periplus.journal import EntityType, Journal
from periplus.memory.entities.types import MEMORY_TYPES
from periplus.project import Project
from support import ADA, check_nothing
from web_memory_support import HOSTILE, write_hostile, write_huge
from web_sample import Sample

MARKUP = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">' javascript:alert(1) \u202edaeh\u2066\x1b[31m"
HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
UNCHECKED = {
    name: EntityType(name, row.prefix, is_projected=False, check=check_nothing) for name, row in MEMORY_TYPES.items()
}


def hostile_sample(folder):
    """A sample whose every text has markup behind it, and entities of each type with hostile values that no program of ours would write."""
    made = Sample(folder, say=lambda plain: f"{plain} {MARKUP}")
    write_hostile(made.folder)
    made.ids["huge"] = write_huge(made.folder)
    with Project.open(os.fspath(made.folder), ADA) as project:
        root = project.root
    with Journal(root, UNCHECKED) as journal:
        for kind, row in MEMORY_TYPES.items():
            for number, text in enumerate(HOSTILE):
                _put(journal, kind, f"{row.prefix}_99999999999999{number:02d}", text)
    return made


def _put(journal, kind, item_id, text):
    """Write an entity whose fields have the names of ours and the values of a stranger."""
    payload = {
        "v": 1, "text": text, "title": text, "state": text, "holder": text, "recipient": text, "sender": text, "paths": [text, 7], "plan": text, "about": [text, {"ref": text}],
        "created": text, "started": text, "ended": text, "expires": text, "agent": text, "model": text, "tool": text, "name": text, "steps": [text], "run": text,
        "runs": [{"id": text, "agent": text, "purpose": text, "started": text, "cost": text}, text], "after": [text], "process": {"pid": text}, "digest": text,
        "source": {"agent": text, "session": text}, "outcome": text, "options": [text], "target": text, "unfinished": text, "files": {text: text}, "priority": text,
    }  # fmt: skip
    journal.mutate(lambda transaction: transaction.put(kind, item_id, payload), ADA)


def check_harmless(address, page):
    """Check that nothing of a page comes from a stranger but text, and nothing of it from elsewhere."""
    for tag, attributes, _ in page.page.rows:
        shown = (address, tag, attributes)
        assert tag not in {
            "img",
            "iframe",
            "object",
            "embed",
            "base",
            "style",
            "video",
            "audio",
            "frame",
            "applet",
            "math",
        }, shown
        assert not [
            name
            for name in attributes
            if name.startswith("on") or name in {"style", "srcdoc", "formaction", "ping", "background"}
        ], shown
        if tag == "script":
            assert attributes.get("src", "").startswith("/static/") or attributes.get("type") == "application/json", (
                shown
            )
        if tag == "meta":
            assert "http-equiv" not in attributes, shown
        for name in ("href", "src", "action", "poster", "data", "hx-get", "hx-post", "hx-sse:connect", "xlink:href"):
            target = attributes.get(name)
            if target is None or (tag == "a" and "external" in attributes.get("rel", "")):
                continue
            assert re.match(r"/(?![/\\])|[#?]", target), shown
    assert not HIDDEN.search(page.html), address


def crawl(site, starts, most=160):
    """Each page that can be reached by links from ``starts``, with its address, at most ``most`` of them, those of new kinds first."""
    waiting, seen, kinds = list(starts), set(starts), {}
    while waiting:
        waiting.sort(key=lambda address: kinds.get(kind_of(address), 0))
        address = waiting.pop(0)
        kinds[kind_of(address)] = kinds.get(kind_of(address), 0) + 1
        if sum(kinds.values()) > most:
            return
        page = site.get(address)
        yield address, page
        if page.headers.get("content-type", "").startswith("text/html"):
            for link in page.page.links():
                target = urllib.parse.urljoin(address, link).partition("#")[0]
                if target.startswith("/") and target not in seen:
                    seen.add(target)
                    waiting.append(target)


def kind_of(address):
    """The kind of a page: its path without ids, and the names of its query."""
    parts = urllib.parse.urlsplit(address)
    path = "/".join("*" if "_" in part or part.isdigit() else part for part in parts.path.split("/"))
    return path, tuple(sorted(name for name, _ in urllib.parse.parse_qsl(parts.query)))
