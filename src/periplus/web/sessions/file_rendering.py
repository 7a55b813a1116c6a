"""Rendering of a shared file: from trails, the objects that are shown, and the notes of the file, always the same bytes.

Every text is escaped by the template engine, and each control and direction character is shown as a symbol, so no text
of a trail becomes markup. The page has no script; its policy forbids scripts and anything from elsewhere. The trails
and objects stand at its end in data blocks, which a browser does not run.
"""

from __future__ import annotations

__all__ = ["PROGRAM", "Rendered", "engine", "render_file", "renderer_id"]

import base64
import functools
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from periplus.base.errors import NotFoundError, UsageError
from periplus.interop.exports.trail_source import ExportSource
from periplus.trail import Parts, is_concatenation, open_parts
from periplus.trail.format.layout import FORM_WITHHELD
from periplus.trail.model import TOOL_VERSION
from periplus.web.rendering.environment import environment
from periplus.web.rendering.text import visible
from periplus.web.sessions.facts import Fact, facts_of, title_of
from periplus.web.sessions.file_notes import FileNotes
from periplus.web.sessions.file_payload import Block
from periplus.web.sessions.overview import Overview, overview_of
from periplus.web.sessions.timeline import timeline
from periplus.web.sessions.values import Item, Limits

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup

PROGRAM: Final = f"periplus {TOOL_VERSION}"
_DEPTH_MAX: Final = 8
_LINES_PER_CHARACTERS: Final = 40
_WEB: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Entry(NamedTuple):
    item: Item
    child: Markup | str


class Page(NamedTuple):
    title: str
    facts: tuple[Fact, ...]
    overview: Overview
    withheld: int
    source: ExportSource
    prefix: str = ""


class Rendered(NamedTuple):
    """The bytes of the file. ``left_out`` counts steps over the limit."""

    data: bytes
    left_out: int


def engine() -> jinja2.Environment:
    """Return the template engine of all pages. Raises UsageError without the extra."""
    try:
        return environment()
    except ImportError as error:
        raise UsageError(
            "pages need the extra `web`, which is not installed", safe="Nothing was written.",
            mend="Install it: pip install 'periplus[web]'",
        ) from error  # fmt: skip


@functools.cache
def style() -> str:
    with open(os.path.join(_WEB, "templates", "sessions", "file.css"), encoding="utf-8") as file:
        return file.read().strip()


@functools.cache
def renderer_id() -> str:
    """Return a digest of what makes the page: the code of the pages' texts, the templates, and the template engine."""
    import jinja2

    hashed = hashlib.sha256(f"jinja2 {jinja2.__version__}\0".encode())
    for folder in ("sessions", "rendering", os.path.join("templates", "sessions")):
        for name in sorted(os.listdir(os.path.join(_WEB, folder))):
            if name.endswith((".py", ".html", ".css")):
                with open(os.path.join(_WEB, folder, name), "rb") as file:
                    hashed.update(f"{folder}/{name}\0".encode() + file.read() + b"\0")
    return hashed.hexdigest()[:16]


def css_sha256() -> str:
    return base64.b64encode(hashlib.sha256(style().encode()).digest()).decode()


def open_source(data: bytes, objects: Mapping[bytes, bytes]) -> ExportSource:
    """Return a trail with the objects that may be shown. Raises FormatError."""

    def read(sha256: bytes) -> bytes:
        found = objects.get(sha256)
        if found is None:
            raise NotFoundError("the object is not carried")
        return found

    readers = open_parts(data)
    digest = Parts(data).digest if is_concatenation(data) else readers[0].digest
    return ExportSource("session", data, readers, digest, read)


def render_file(
    trails: Sequence[bytes], objects: Mapping[bytes, bytes], notes: FileNotes, blocks: Sequence[Block] = ()
) -> Rendered:
    """Return the file of ``trails``: the session's own, then those of its subagents. ``blocks`` carry them where the
    file is to hold them. Raises FormatError for bytes that are no trail.
    """
    templates = engine()
    sources = [open_source(data, objects) for data in trails]
    making = _Making(templates, sources, notes)
    css = style()
    text = templates.get_template("sessions/file.html").render(
        page=making.page(sources[0]), notes=notes, notes_json=msgspec.json.encode(notes).decode(), css=_safe(css),
        css_sha256=css_sha256(), anchor=_anchor(""), timeline=making.timeline,
        payload=_safe("".join(block.markup() for block in blocks)),
    )  # fmt: skip
    return Rendered(text.encode("utf-8") + b"\n", making.left_out)


class _Making:
    def __init__(self, templates: jinja2.Environment, sources: Sequence[ExportSource], notes: FileNotes) -> None:
        self._template = templates.get_template("sessions/timeline.html")
        self._parts = {source.digest.hex(): source for source in sources[1:]}
        self._links = {link.digest: link.file for link in notes.links}
        self._limits = Limits(
            notes.characters,
            max(20, notes.characters // _LINES_PER_CHARACTERS),
            max(20, notes.characters // _LINES_PER_CHARACTERS),
        )
        self._room = notes.steps
        self._depth = 0
        self.left_out = 0

    def page(self, source: ExportSource, prefix: str = "") -> Page:
        overview = overview_of(source)
        withheld = sum(reader.strings.forms.count(FORM_WITHHELD) for reader in source.readers)
        return Page(title_of(source, overview), facts_of(source, overview), overview, withheld, source, prefix)

    def timeline(self, page: Page) -> Markup:
        shown = min(page.source.step_count, self._room)
        self._room -= shown
        left_out = page.source.step_count - shown
        self.left_out += left_out
        entries = self._entries(page, shown)
        return _safe(
            self._template.render(entries=entries, left_out=left_out, prefix=page.prefix, anchor=_anchor(page.prefix))
        )

    def _entries(self, page: Page, shown: int) -> Iterator[Entry]:
        for item in timeline(page.source, self._limits, 0, shown):
            yield Entry(item, self._child(item, page.prefix) if item.child else "")

    def _child(self, item: Item, prefix: str) -> Markup | str:
        from markupsafe import Markup

        if item.child in self._links:
            return Markup('<p class="note"><a href="{}">Its session</a></p>').format(self._links[item.child])
        source = self._parts.pop(item.child, None)  # a trail is shown once, even where several steps name it
        if source is None or self._depth >= _DEPTH_MAX:
            return Markup('<p class="note">Its trail has the digest <code>{}</code></p>').format(item.child)
        self._depth += 1
        page = self.page(source, f"{prefix}s{item.number}-")
        inner = self.timeline(page)
        self._depth -= 1
        title = Markup.escape(visible(page.title))
        return Markup("<details><summary>Its session: {} <small>{:,} steps</small></summary>{}</details>").format(
            title, page.overview.totals.steps, inner
        )


def _anchor(prefix: str) -> Callable[[int], str]:
    return lambda number: f"#{prefix}s{number}"


def _safe(text: str) -> Markup:
    from markupsafe import Markup

    return Markup(text)  # noqa: S704  # our own style sheet, data blocks, and what the engine has escaped
