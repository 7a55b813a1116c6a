"""The page as tests use it: the real server on loopback, a small client with its cookie, and a page function by itself."""

from __future__ import annotations

import html.parser
import http.client
import os
import re
import urllib.parse
from typing import NamedTuple

from periplus.journal import Writer
from periplus.project import Project
from periplus.web.background import Background
from periplus.web.cache import Cache
from periplus.web.pages.model import Asked, Context, Query
from periplus.web.server import WebOptions, WebServer

ADA = Writer.named("ada", session="web-test")
NOW_MS = 1_790_000_000_000


class Element(NamedTuple):
    tag: str
    attributes: dict
    text: str


class Parsed(html.parser.HTMLParser):
    """Elements of a page with their own text, in the order of their start tags."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.rows, self._open, self.text = [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.rows.append([tag, dict(attrs), ""])
        if tag not in {"input", "meta", "link", "br", "hr", "img", "path", "rect", "line", "circle"}:
            self._open.append(self.rows[-1])

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        if not (self._open and self._open[-1][0] in {"script", "style"}):
            self.text += data
        for row in self._open:
            row[2] += data

    def all(self, tag, **attributes):
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [
            Element(*row)
            for row in self.rows
            if row[0] == tag and all(row[1].get(key) == value for key, value in wanted.items())
        ]

    def links(self):
        return [row.attributes["href"] for row in self.all("a") if "href" in row.attributes]


class Response(NamedTuple):
    status: int
    headers: dict
    body: bytes

    @property
    def html(self):
        return self.body.decode()

    @property
    def page(self):
        return Parsed(self.html)

    @property
    def text(self):
        """The text that a person reads, with single spaces."""
        return " ".join(self.page.text.split())

    @property
    def location(self):
        return self.headers.get("location", "")


class Site:
    """A running server over the store of ``folder``; ``get`` and ``post`` are those of a browser that has entered."""

    def __init__(self, folder, *, writer=ADA, **options):
        self.folder = os.fspath(folder)
        self.told, self.defects = [], []
        home = options.pop("home", self.folder)
        environment = options.pop("environment", {"PATH": os.environ["PATH"], "HOME": home})
        root = os.path.join(self.folder, ".periplus")
        opening = options.pop("opening", lambda: Project.open(self.folder, writer, store=root))
        self.options = WebOptions(
            opening, root, writer, "test", environment, home,
            self.folder, self.told.append, self.defects.append, **options,
        )  # fmt: skip
        self.server = WebServer(self.options)
        self.cookies, self.form_token = {}, ""

    def __enter__(self):
        self.server.__enter__()
        self.port = int(re.search(r":(\d+)/", self.server.url)[1])
        self.get(urllib.parse.urlsplit(self.server.url).path)
        return self

    def __exit__(self, *_):
        self.server.__exit__(None, None, None)
        assert not self.defects, self.defects

    def ask(self, method, path, body=None, headers=None, *, with_cookie=True):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            sent = {
                **(
                    {"Cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items())}
                    if with_cookie and self.cookies
                    else {}
                )
            }
            connection.request(method, path, body, {**sent, **(headers or {})})
            answer = connection.getresponse()
            for name, value in answer.getheaders():
                if name.lower() == "set-cookie":
                    key, _, rest = value.partition("=")
                    self.cookies[key] = rest.partition(";")[0]
            return Response(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path, **headers):
        response = self.ask("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        found = re.search(rb'name="form_token" value="([0-9a-f]+)"', response.body)
        if found:
            self.form_token = found[1].decode()
        return response

    def post(self, path, follow=True, **fields):
        """Post a form with its token, and follow to the page that shows the message."""
        token = self.form_token or self.server.access.form_token(next(iter(self.cookies.values())))
        body = urllib.parse.urlencode({"form_token": token, **fields}, doseq=True)
        response = self.ask("POST", path, body, {"Content-Type": "application/x-www-form-urlencoded"})
        return self.get(response.location.partition("#")[0]) if follow and response.status == 303 else response


def context(**changes):
    """The context of a page function that is called by itself."""
    made = Context(ADA, False, lambda: NOW_MS, {}, "/nonexistent", "/nonexistent", Cache(), Background(lambda: None))
    return made._replace(**changes)


def asked(project, base, path=None, **query):
    pairs = [(name.rstrip("_"), str(value)) for name, value in query.items()]
    return Asked(project, path or {}, Query(pairs), base, context())
