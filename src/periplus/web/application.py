"""The page as an ASGI application: who may ask, which function answers, and what is said where it cannot.

A page function runs in a worker thread (`desk`); the template is rendered there, too. Errors of the house become pages with a status:
what is wrong, what is safe, what to do. A defect becomes a page without a traceback; the traceback goes to who started the server.
"""

from __future__ import annotations

__all__ = ["Application"]

import urllib.parse
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final

from periplus.base.errors import (
    DamageError,
    EnvironmentFailure,
    LockTimeoutError,
    NotAStoreError,
    NotFoundError,
    PeriplusError,
    RefusedError,
    UsageError,
)
from periplus.web.pages.model import Asked, Context, Done, Download, Form, Page, Query, View
from periplus.web.rendering.environment import Site, render
from periplus.web.routes import ACTS, NAVIGATION, ROUTES, Route, load
from periplus.web.safety.headers import HEADERS, PRIVATE
from periplus.web.static_files import static_file

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from periplus.project import Project
    from periplus.web.desk import Desk
    from periplus.web.live import Live
    from periplus.web.safety.access import Access, Refusal

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
_STATUS: Final[tuple[tuple[type[PeriplusError], int], ...]] = (
    (NotAStoreError, 503), (NotFoundError, 404), (UsageError, 400), (LockTimeoutError, 503), (RefusedError, 409),
    (DamageError, 500), (EnvironmentFailure, 503),
)  # fmt: skip
_MESSAGE: Final = "periplus_message"
_MESSAGE_CHARACTERS_MAX: Final = 600
_COOKIE_BYTES_MAX: Final = 3_500  # browsers drop a cookie of more than 4,096 (RFC 6265bis, section 5.6)
_NAME_CHARACTERS_MAX: Final = 200
_BODY_BYTES_MAX: Final = 3 << 20
_DEFECT: Final = "a defect of Periplus; what happened is in the terminal of the server"
_REFUSED: Final[Mapping[str, str]] = {
    "host": "This server answers only under its own name, 127.0.0.1 or localhost with its port.",
    "origin": "Another page sent this request.",
    "site": "Another page sent this request.",
}


class Application:
    """``on_enter`` is called when somebody used the address with the token; ``on_defect`` gets errors that are ours."""

    def __init__(
        self, desk: Desk, live: Live, access: Access, context: Context, *, project_name: str, version: str,
        on_enter: Callable[[], None], on_defect: Callable[[BaseException], None],
    ) -> None:  # fmt: skip
        from starlette.applications import Starlette
        from starlette.routing import Route as StarletteRoute

        self._desk, self._live, self._access, self._context = desk, live, access, context
        self._project_name, self._version = project_name, version
        self._on_enter, self._on_defect = on_enter, on_defect
        rows = [StarletteRoute(row.address, self._page(row), methods=["GET"]) for row in ROUTES]
        rows += [StarletteRoute(row.address, self._act(row), methods=["POST"]) for row in ACTS]
        rows.append(StarletteRoute("/live", self._events, methods=["GET"]))
        self._app = Starlette(routes=rows, exception_handlers={404: self._unknown, 405: self._unknown})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        is_begun = False

        async def guarded(message: MutableMapping[str, Any]) -> None:
            nonlocal is_begun
            if message["type"] == "http.response.start":
                is_begun = True
                own = {name for name, _ in message.get("headers", ())}
                message["headers"] = [*message.get("headers", ()), *HEADERS, *(() if PRIVATE[0] in own else (PRIVATE,))]
            await send(message)

        from starlette.requests import ClientDisconnect
        from starlette.responses import Response

        try:
            response = self._before(scope)
            await (response or self._app)(scope, receive, guarded)
        except ClientDisconnect:
            pass  # nobody waits for an answer
        except Exception as error:  # noqa: BLE001 - a defect of one answer must not end the server
            self._on_defect(error)
            if not is_begun:
                await Response(f"{_DEFECT}\n", 500, media_type="text/plain")(scope, receive, guarded)

    # -- access --------------------------------------------------------------------------------------------------------

    def _before(self, scope: Scope) -> Response | None:
        """Return the answer for what needs no page: files of ours, the address with the token, and refusals."""
        from starlette.requests import Request
        from starlette.responses import Response

        request = Request(scope)
        path = str(scope["path"])
        if "content-length" in request.headers and "transfer-encoding" in request.headers:  # RFC 9112, section 6.3
            return Response("a request has one length\n", 400, media_type="text/plain", headers={"connection": "close"})
        cookies = _cookies(request, self._access.cookie_name)
        refused = self._access.refused(request.method, dict(request.headers), cookies)
        if refused in ("host", "origin", "site"):
            return self._refusal(refused)
        if path.startswith("/static/"):
            found = static_file(path.removeprefix("/static/"))
            if found is None:
                return Response("there is no such file\n", 404, media_type="text/plain")
            data, media_type = found
            return Response(data, media_type=media_type, headers={"cache-control": "no-cache"})
        if path.startswith("/open/"):
            if request.method != "GET":  # a program that looks at links must not spend the address
                return self._refusal("token")
            return self._enter(*_split(path.removeprefix("/open/")), is_known=not refused)
        if refused:
            is_link = request.headers.get("sec-fetch-site", "") in ("cross-site", "same-site")
            return self._locked(_address(scope), is_link=is_link)
        scope["state"] = {"cookie": next(one for one in cookies if self._access.is_reader(one))}
        return None

    def _enter(self, token: str, page: str, *, is_known: bool) -> Response:
        from starlette.responses import RedirectResponse

        reader = self._access.enter(token)
        if not reader:
            return RedirectResponse(page, 303) if is_known else self._refusal("token")
        response = RedirectResponse(page, 303)
        response.set_cookie(self._access.cookie_name, reader, httponly=True, samesite="strict", path="/")
        self._on_enter()
        return response

    def _locked(self, target: str, *, is_link: bool) -> Response:
        """Return the page for a browser without the cookie, which a strict cookie makes of every link from another site."""
        values = {"target": target if is_link and not target.startswith("//") else ""}
        return self._html(render("locked.html", self._site("", is_live=False), values), 403)

    def _refusal(self, why: Refusal) -> Response:
        values = {
            "wrong": _REFUSED.get(why, "This address has been used, or is not complete."),
            "token": why == "token",
        }
        return self._html(render("refused.html", self._site("", is_live=False), values), 403)

    # -- pages ---------------------------------------------------------------------------------------------------------

    def _page(self, row: Route) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            def question(project: Project) -> Response:
                page: Page = load(row.target)
                request.state.mark = self._live.mark()
                asked = self._asked(project, request)
                return self._shown(asked, page(asked), request)

            return await self._answered(request, question, takes_damage=row.takes_damage)

        return answer

    def _act(self, row: Route) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                form = await self._form(request)
            except PeriplusError as error:
                return self._problem(request, error)

            def question(project: Project) -> Response:
                asked = self._asked(project, request)
                return self._shown(asked, load(row.target)(asked, form), request)

            return await self._answered(request, question, takes_damage=row.takes_damage, is_write=True)

        return answer

    async def _form(self, request: Request) -> Form:
        """Read what was posted. Raises RefusedError without the token of a form, and where nothing may be written."""
        if self._context.is_read_only:
            raise RefusedError(
                "this page is read-only", safe="Nothing was changed.", mend="Start it without --read-only."
            )
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/x-www-form-urlencoded":
            raise UsageError("forms are sent as application/x-www-form-urlencoded", safe="Nothing was changed.")
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > _BODY_BYTES_MAX:
                raise UsageError(f"the form is larger than {_BODY_BYTES_MAX:,} bytes", safe="Nothing was changed.")
        form = Form.of(body.decode("utf-8", "replace"))
        if not self._access.is_form_of(request.state.cookie, form.text("form_token")):
            raise RefusedError("this form is not of this page, or of a server that has ended",
                               safe="Nothing was changed.", mend="Load the page again.")  # fmt: skip
        return form

    async def _answered(
        self, request: Request, question: Callable[[Project], Response], *, takes_damage: bool, is_write: bool = False
    ) -> Response:
        try:
            return await self._desk.ask(question, takes_damage=takes_damage, is_write=is_write)
        except PeriplusError as error:
            return self._problem(request, error)
        except Exception as error:  # noqa: BLE001 - a defect of one page must not end the server
            self._on_defect(error)
            return self._problem(request, PeriplusError(_DEFECT))

    def _asked(self, project: Project, request: Request) -> Asked:
        parts = {name: str(value) for name, value in request.path_params.items()}
        query = Query.of(request.scope["query_string"].decode("ascii"))
        return Asked(project, parts, query, urllib.parse.quote(request.scope["path"]), self._context)

    def _shown(self, asked: Asked, answer: View | Done | Download, request: Request) -> Response:
        from starlette.responses import RedirectResponse, Response

        if isinstance(answer, Download):
            name = urllib.parse.quote(answer.name)
            return Response(
                answer.data,
                media_type=answer.media_type,
                headers={"content-disposition": f"attachment; filename*=UTF-8''{name}"},
            )
        if isinstance(answer, Done):
            response = RedirectResponse(answer.location, 303)
            if answer.message:
                text = _cookie_value(answer.message[:_MESSAGE_CHARACTERS_MAX])
                response.set_cookie(_MESSAGE, text, max_age=20, httponly=True, samesite="strict", path="/")
            return response
        message = urllib.parse.unquote(request.cookies.get(_MESSAGE, ""))[:_MESSAGE_CHARACTERS_MAX]
        site = self._site(request.state.cookie, message=message)._replace(mark=getattr(request.state, "mark", ""))
        values = {"here": asked, "title": answer.title, "command": answer.command, **answer.values}
        shown = self._html(render(answer.template, site, values), answer.status)
        if message:
            shown.delete_cookie(_MESSAGE, path="/")
        return shown

    def _problem(self, request: Request, error: PeriplusError, status: int = 0) -> Response:
        """Return the page that says what is wrong, what is safe, and what to do."""
        status = status or next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
        values = {"error": error, "text": str(error), "title": "Problem", "status": status}
        return self._html(render("problem.html", self._site(getattr(request.state, "cookie", "")), values), status)

    async def _unknown(self, request: Request, error: Exception) -> Response:
        """Return the page for an address that is none, or that is not asked for in this way."""
        name = request.scope["path"][:_NAME_CHARACTERS_MAX]
        if getattr(error, "status_code", 404) == 404:
            return self._problem(request, NotFoundError(f"there is no page {name}"))
        shown = self._problem(
            request, UsageError(f"{request.method} does nothing at {name}", safe="Nothing was changed."), 405
        )
        allowed = (getattr(error, "headers", None) or {}).get("Allow", "GET, POST")
        shown.headers["allow"] = ", ".join(sorted(allowed.split(", ")))
        return shown

    async def _events(self, request: Request) -> Response:
        from starlette.responses import Response, StreamingResponse

        if self._live.is_full:
            return Response(
                "too many pages are watching; load this one again to see what changed\n", 503, media_type="text/plain"
            )
        return StreamingResponse(self._live.events(request.query_params.get("at", "")), media_type="text/event-stream")

    def _site(self, cookie: str, *, message: str = "", is_live: bool = True) -> Site:
        is_read_only = self._context.is_read_only
        token = self._access.form_token(cookie) if cookie and not is_read_only else ""
        return Site(
            self._project_name,
            self._context.writer.name,
            self._version,
            token,
            is_read_only,
            is_live,
            NAVIGATION if is_live else (),
            message,
        )

    @staticmethod
    def _html(text: str, status: int) -> Response:
        from starlette.responses import Response

        return Response(text.encode("utf-8", "replace"), status, media_type="text/html; charset=utf-8")


def _address(scope: Scope) -> str:
    """Return the path and query of a request as a link. A backslash or a tab in it would lead to another host."""
    path = urllib.parse.quote(scope["path"])
    query = urllib.parse.quote(scope["query_string"].decode("ascii"), safe="%&=+/:,;@!$'()*~?")
    return f"{path}?{query}" if query else path


def _cookie_value(text: str) -> str:
    """Return a text as the value of a cookie, its end left out where a browser would not take it."""
    quoted = urllib.parse.quote(text)
    return quoted if len(quoted) <= _COOKIE_BYTES_MAX else urllib.parse.quote(text[: _COOKIE_BYTES_MAX // 12])


def _split(path: str) -> tuple[str, str]:
    """Return the token of an address that lets somebody in, and the page of ours that it leads to."""
    token, _, page = path.partition("/")
    return token, f"/{urllib.parse.quote(page.lstrip('/'))}"


def _cookies(request: Request, name: str) -> list[str]:
    """Return the values of a cookie, of which another program on this host may have set some."""
    found = []
    for header in request.headers.getlist("cookie"):
        for part in header.split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                found.append(value)
    return found[:8]
