"""The pages of memory as tests ask for them: by their functions, and as a browser sends their forms."""

from __future__ import annotations

import html
import os
import re

from periplus.journal import Journal
from periplus.memory import Memory
from periplus.project import Project
from periplus.web.pages.memory.entity import entity_page
from periplus.web.pages.model import Form
from support import ADA, TYPES
from web_support import Parsed, asked


def shown(project, item_id, **query):
    """The values of an entity's page."""
    return entity_page(asked(project, f"/memory/{item_id}", {"id": item_id}, **query)).values


def do(project, act, item_id, **fields):
    """Post a form that was made from the entity as it is now, unless it is given a version."""
    fields.setdefault("version", project.show(item_id).version)
    form = Form([(name.replace("__", "."), value) for name, value in fields.items()])
    return act(asked(project, f"/memory/{item_id}/act", {"id": item_id}), form)


def of_type(project, kind):
    return next(iter(project.journal.entities(kind)))


def write_known(project):
    """Write a file, and memory about it."""
    with open(os.path.join(project.folder, "auth.py"), "w", encoding="utf-8") as file:
        file.write("def hash_password(text):\n    return text\n\n\ndef other():\n    return 2\n")
    about = ("auth.py:hash_password",)
    for memory in (
        Memory("decision", "Passwords are hashed with argon2id", tags=("auth", "security"), about=about),
        Memory("constraint", "Never log tokens", tags=("security",), about=("auth.py",)),
        Memory("trap", "The cache hides errors", extra={"severity": "high", "remedy": "Remove .cache"}),
        Memory("note", "Bob looks after the release"),
    ):
        project.remember(memory)


def remembered(folder, *memories):
    """Write memory to the project in a folder that nobody holds open here; the ids."""
    with Project.open(os.fspath(folder), ADA) as project:
        return [project.remember(one).entity.item_id for one in memories]


def form_of(page, address):
    """The hidden fields and inputs of a form, as a browser would send them unchanged."""
    part = page.html.partition(f'action="{address}"')[2].partition("</form>")[0]
    inputs = [row.attributes for row in Parsed(part).all("input") if row.attributes.get("type") != "checkbox"]
    fields = {one["name"]: one.get("value", "") for one in inputs}
    for name, text in re.findall(r'<textarea[^>]*name="([^"]+)"[^>]*>\n?(.*?)</textarea>', part, re.DOTALL):
        fields[name] = html.unescape(text)
    for name, options in re.findall(r'<select[^>]*name="([^"]+)">(.*?)</select>', part, re.DOTALL):
        found = re.findall(r'<option(?: value="([^"]*)")? ?(selected)?>([^<]*)', options)
        value, _, text = next((one for one in found if one[1]), found[0])
        fields[name] = value or text
    return fields


HOSTILE = (
    '<script>alert(1)</script><img src=x onerror=alert(1)>"\'><svg onload=alert(1)>',
    "javascript:alert(1)",
    'see https://evil.example/x"onmouseover=alert(1) and javascript:alert(1)',
    "\u202egnp.exe\u2066 hidden \u200b",
    "nul \x00 and \x1b[31m escape\x07",
    "{{ 7*7 }} {% raw %} ${7*7}",
)  # fmt: skip


def is_harmless(page):
    """Check that nothing of a page comes from a stranger but text."""
    tags = Parsed(page.html)
    assert tags.all("img") == []
    assert [row for row in tags.all("script") if not row.attributes.get("src", "").startswith("/static/")] == []
    for row in tags.rows:
        assert not [name for name in row[1] if name.startswith("on") or name == "style"], row
        for name in ("href", "src", "action"):
            target = row[1].get(name)
            assert target is None or (target.startswith(("/", "#")) and not target.startswith("//")), row
    assert not set(page.html) & set("\x00\x07\x1b\u202e\u2066\u200b")
    return True


def write_hostile(folder):
    """Write decisions with a hostile text in every field, each changed once, as another program might; the ids."""
    with Project.open(os.fspath(folder), ADA) as project:
        root = project.root
    ids = []
    with Journal(root, TYPES) as journal:  # nothing is checked
        for number, text in enumerate(HOSTILE):
            target = "dec_0000000000000000"
            payload = {
                "v": 1, "text": text, "state": text, "tags": [text], "author": text, "created": text, "rationale": text, "confirmed": text,
                "about": [{"kind": "path", "ref": text}, {"kind": text, "ref": text}, {"kind": "symbol", "ref": text, "path": text, "name": text}, text, 7],
                "evidence": [{"kind": "step", "ref": text, "quote": text}, {"kind": "commit", "ref": text}, {"kind": text, "ref": text}, text],
                "relations": [{"kind": text, "target": text}, {"kind": "references", "target": target}, text, {"kind": 3}],
                "provenance": {"kind": text, "name": text, "source": text}, text: text, "deep": {text: [text, {text: text}]},
                "alternatives": [text, text], "expires": text,
            }  # fmt: skip
            ids.append(f"dec_000000000000000{number}")
            journal.mutate(
                lambda transaction, item_id=ids[-1], payload=payload: transaction.put("decision", item_id, payload), ADA
            )
            changed = {**payload, "text": text[::-1], "rationale": 5, "tags": text, "about": text}
            journal.mutate(
                lambda transaction, item_id=ids[-1], changed=changed: transaction.put("decision", item_id, changed), ADA
            )
    return ids


def write_huge(folder):
    """Write a decision with a line of 10 MB, and far too many of everything; the id."""
    with Project.open(os.fspath(folder), ADA) as project:
        root = project.root
    big, long = "x" * 10_000_000, "y" * 300_000
    payload = {
        "v": 1, "text": big, "rationale": long, "alternatives": [long] * 3, "tags": [f"t{n}" for n in range(5_000)],
        "evidence": [{"kind": "commit", "ref": long, "quote": long}] * 9, "about": [{"kind": "path", "ref": long}] * 9,
        "relations": [{"kind": "references", "target": f"dec_{n:016d}"} for n in range(1_000)], **{f"f{n}": "y" for n in range(2_000)},
    }  # fmt: skip
    with Journal(root, TYPES) as journal:
        journal.mutate(lambda transaction: transaction.put("decision", "dec_0000000000000001", payload), ADA)
    return "dec_0000000000000001"
