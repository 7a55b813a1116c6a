"""The page answers who has entered, from its own address, and nobody else; what others send is refused and changes nothing."""

from __future__ import annotations

import http.client
import os
import re
import secrets
import socket
import urllib.parse

import pytest

from periplus.base.errors import UsageError
from periplus.project import Project
from periplus.web.pages.leaving import leave
from periplus.web.safety.access import READERS_MAX
from support import record_count
from web_support import ADA, Site, asked

FORM = "application/x-www-form-urlencoded"
TITLE_LOCKED = "Who has the address may enter"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    Project.init(os.fspath(folder))
    with Site(folder) as made:
        yield made


@pytest.fixture
def lone(tmp_path):
    """A site whose tokens the test may spend."""
    Project.init(os.fspath(tmp_path))
    with Site(tmp_path) as made:
        yield made


def stranger(site, path, **headers):
    return site.ask(
        "GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()}, with_cookie=False
    )


def path_of(url):
    return urllib.parse.urlsplit(url).path


def exchange(port, request):
    """What the server says to bytes until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def records(site):
    with Project.open(site.folder, ADA) as project:
        return record_count(project)


# -- the address and the cookie ------------------------------------------------------------------------------------------


def test_an_address_lets_one_browser_in_and_the_next_address_is_told(tmp_path):
    Project.init(os.fspath(tmp_path))
    site = Site(tmp_path)
    first = path_of(site.server.url)
    with site:
        assert site.get("/work").status == 200
        (second,) = site.told
        assert path_of(second) != first
        again = stranger(site, first)
        assert (again.status, "Set-Cookie" in again.headers) == (403, False)
        assert "has been used" in again.text
        assert path_of(site.server.url) == path_of(second)  # a refused address spends nothing
        assert site.get(first).location == "/"  # who is in already is led to the page
        other = stranger(site, path_of(second))
        assert (other.status, other.location) == (303, "/")
        assert "periplus_" in other.headers["set-cookie"]
        assert len(site.told) == 2


def test_only_a_get_spends_the_address(lone):
    path = path_of(lone.server.url)
    for method in ("HEAD", "POST", "OPTIONS", "PUT"):
        assert lone.ask(method, path, with_cookie=False).status in (403, 405)
    assert path_of(lone.server.url) == path
    assert stranger(lone, path).status == 303


def test_the_cookie_is_hidden_from_scripts_and_from_other_sites(lone):
    (cookie,) = (value for name, value in cookies_of(lone, path_of(lone.server.url)) if name == f"periplus_{lone.port}")
    value, *attributes = cookie.split("; ")
    assert len(value) >= 40
    assert {one.lower() for one in attributes} == {
        "httponly",
        "samesite=strict",
        "path=/",
    }  # no domain, and gone with the browser


def cookies_of(site, path):
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return [value.split("=", 1) for name, value in answer.getheaders() if name.lower() == "set-cookie"]
    finally:
        connection.close()


def test_many_browsers_are_bounded_and_the_oldest_has_to_enter_again(lone):
    first = dict(lone.cookies)
    for _ in range(READERS_MAX - 1):
        assert stranger(lone, path_of(lone.server.url)).status == 303
    lone.cookies = dict(first)
    assert lone.get("/work").status == 200
    assert stranger(lone, path_of(lone.server.url)).status == 303
    lone.cookies = dict(first)
    assert lone.get("/work").status == 403


@pytest.mark.parametrize(
    "guess",
    [
        "", "x", "%00", "..", "%2e%2e%2f", "a" * 8_000, "%C3%A9", "%FF%FE", "*", "None", "0",
    ],
)  # fmt: skip
def test_a_guessed_token_lets_nobody_in(site, guess):
    answer = stranger(site, f"/open/{guess}")
    assert (answer.status, "set-cookie" in answer.headers) == (403, False)


def test_what_is_almost_the_token_lets_nobody_in(site):
    token = site.server.access.token
    for guess in (
        token[:-1],
        token + "A",
        token.swapcase(),
        token[1:],
        token + "%00",
        token[::-1],
        secrets.token_urlsafe(24),
    ):
        assert stranger(site, f"/open/{guess}").status == 403
    assert site.server.access.token == token
    for path in ("/open", f"//open/{token}", f"/open%2F{token}/x", f"/OPEN/{token}"):
        answer = stranger(site, path)
        assert "set-cookie" not in answer.headers or answer.status == 303


@pytest.mark.parametrize("value", ["", "x", "\u00e9", '"', "a" * 6_000, "; periplus=x"])
def test_a_guessed_cookie_shows_nothing(site, value):
    cookie = f"periplus_{site.port}={value}".encode().decode("latin-1")
    answer = stranger(site, "/work", Cookie=cookie)
    assert (answer.status, TITLE_LOCKED in answer.text) == (403, True)
    assert "form_token" not in answer.html


def test_a_cookie_that_another_program_of_this_host_has_set_does_not_lock_the_browser_out(site):
    (own,) = (
        f"{name}={value}" for name, value in site.cookies.items() if name.startswith("periplus_1") or name[9:].isdigit()
    )
    answer = stranger(site, "/work", Cookie=f"periplus_{site.port}=evil; theme=dark; {own}")
    assert answer.status == 200


def test_cookies_and_forms_of_an_older_server_are_refused(tmp_path):
    Project.init(os.fspath(tmp_path))
    with Site(tmp_path) as old:
        old_cookie = next(value for name, value in old.cookies.items() if name == f"periplus_{old.port}")
        old_token = old.server.access.form_token(old_cookie)
    with Site(tmp_path) as new:
        answer = stranger(new, "/work", Cookie=f"periplus_{new.port}={old_cookie}")
        assert answer.status == 403
        before = records(new)
        new.form_token = old_token
        answer = new.post("/work/mail", follow=False, to="bob", text="hello")
        assert (answer.status, records(new)) == (409, before)
        assert "Load the page again" in answer.text


# -- where a request comes from ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:{port}", "127.0.0.1", "localhost", "127.0.0.1:1", "127.0.0.1:{port}0", "127.0.0.1:0{port}",
        "localhost.:{port}", "127.0.0.1.:{port}", "127.1:{port}", "0.0.0.0:{port}", "2130706433:{port}", "[::ffff:127.0.0.1]:{port}",
        "[::1]", "[::1", "[::2]:{port}", "127.0.0.1:{port}.evil.example", "127.0.0.1:{port}@evil.example",
        "evil.example#127.0.0.1:{port}", "127.0.0.1.nip.io:{port}", "localhost:{port}/x", "localhost :{port}", "", "a" * 5_000,
    ],
)  # fmt: skip
def test_another_name_in_host_is_refused(site, host):
    for path in ("/work", f"/open/{site.server.access.token}", "/static/page.css", "/live"):
        answer = site.ask("GET", path, headers={"Host": host.format(port=site.port)})
        assert answer.status in (400, 403), path
        assert "set-cookie" not in answer.headers
        assert "answers only under its own name" in answer.text or answer.status == 400


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "[::1]:{port}"])
def test_its_own_names_are_answered(site, host):
    assert site.ask("GET", "/work", headers={"Host": host.format(port=site.port)}).status == 200


def test_a_request_without_a_host_or_with_two_is_refused(site):
    cookie = "; ".join(f"{name}={value}" for name, value in site.cookies.items()).encode()
    host = b"Host: 127.0.0.1:%d\r\n" % site.port
    for request in (
        b"GET /work HTTP/1.1\r\nCookie: %s\r\n\r\n" % cookie,
        b"GET /work HTTP/1.0\r\nCookie: %s\r\n\r\n" % cookie,
        b"GET /work HTTP/1.1\r\n%sHost: evil.example\r\nCookie: %s\r\n\r\n" % (host, cookie),
        b"GET /work HTTP/1.1\r\nHost: evil.example\r\n%sCookie: %s\r\n\r\n" % (host, cookie),
        b"GET http://evil.example/work HTTP/1.1\r\nHost: evil.example\r\nCookie: %s\r\n\r\n" % cookie,
    ):
        assert re.match(rb"HTTP/1.1 (400|403) ", exchange(site.port, request)), request


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://localhost:{port}"},  # not the name that was asked
        {"Origin": "http://127.0.0.1:{port}.evil.example"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
        {"Sec-Fetch-Site": "anything"},
    ],
)
def test_what_another_site_posts_is_refused(site, headers):
    """Even where a browser sent the cookie along, and the site knew the token of a form."""
    before = records(site)
    body = urllib.parse.urlencode({"form_token": token_of(site), "to": "bob", "text": "evil"})
    sent = {name: value.format(port=site.port) for name, value in headers.items()}
    answer = site.ask("POST", "/work/mail", body, {"Content-Type": FORM, **sent})
    assert (answer.status, records(site)) == (403, before)
    assert "Another page sent this request" in answer.text


def token_of(site):
    return site.server.access.form_token(site.cookies[f"periplus_{site.port}"])


@pytest.mark.parametrize("mode", ["cors", "no-cors", "same-origin", "websocket"])
@pytest.mark.parametrize("path", ["/work", "/live", "/static/page.js", "/"])
def test_another_site_cannot_load_or_embed_anything(site, mode, path):
    for dest in ("empty", "script", "image", "iframe", "object", "style"):
        headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
        assert site.ask("GET", path, headers=headers).status == 403
    framed = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    assert site.ask("GET", path, headers=framed).status == 403


LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


def test_a_link_from_another_site_leads_to_a_page_that_opens_it_by_a_link_of_ours(site):
    answer = site.ask("GET", "/memory/dec_1?at=3&q=a%20b", headers=LINK, with_cookie=False)
    assert (answer.status, TITLE_LOCKED in answer.text) == (403, True)
    assert "/memory/dec_1?at=3&q=a%20b" in answer.page.links()
    assert "form_token" not in answer.html
    plain = site.ask("GET", "/memory/dec_1?at=3", with_cookie=False)
    assert plain.page.links() == ["#main", "/"]  # nobody followed a link


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example/x", "/%2Fevil.example", "/\\evil.example", "/%5Cevil.example", "/%09/evil.example", "/%0A/evil.example",
        "/x?\\", "/%E2%80%AEevil", "/javascript:alert(1)", "/%00", "/%3Fq", "/%23x", "/;/evil.example", "/%22%3E%3Cscript%3E",
    ],
)  # fmt: skip
def test_the_link_of_the_locked_page_leads_to_this_server(site, path):
    answer = site.ask("GET", path, headers=LINK, with_cookie=False)
    assert answer.status == 403
    for link in answer.page.links():
        resolved = urllib.parse.urljoin(
            f"http://127.0.0.1:{site.port}/", re.sub(r"[\t\r\n]", "", link).replace("\\", "/")
        )
        assert urllib.parse.urlsplit(resolved).netloc == f"127.0.0.1:{site.port}"
    assert "<script>" not in answer.html


def test_an_address_with_a_token_leads_to_a_page_of_ours_only(lone):
    for page in (
        "//evil.example",
        "/%2Fevil.example",
        "/\\evil.example",
        "/%5C/evil.example",
        "/%09/evil.example",
        "https://evil.example",
    ):
        location = stranger(lone, f"{path_of(lone.server.url)}/{page}").location
        assert re.match(r"/[^/\\\t]", location), location


# -- forms --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/json", "multipart/form-data; boundary=x", "application/x-www-form-urlencodedx"],
)
def test_a_body_of_another_type_is_refused(site, kind):
    before = records(site)
    body = urllib.parse.urlencode({"form_token": token_of(site), "to": "bob", "text": "evil"})
    answer = site.ask("POST", "/work/mail", body, {"Content-Type": kind} if kind else {})
    assert (answer.status, records(site)) == (400, before)


@pytest.mark.parametrize("token", [None, "", "0" * 64, "x", "é", "form_token"])
def test_a_form_without_its_token_is_refused(site, token):
    before = records(site)
    fields = {"to": "bob", "text": "evil", **({} if token is None else {"form_token": token})}
    answer = site.ask("POST", "/work/mail", urllib.parse.urlencode(fields), {"Content-Type": FORM})
    assert (answer.status, records(site)) == (409, before)
    assert "Nothing was changed" in answer.text


def test_the_form_of_one_browser_is_refused_from_another(lone):
    theirs = token_of(lone)
    stranger(lone, path_of(lone.server.url))  # takes the cookie of another browser
    assert token_of(lone) != theirs
    lone.form_token = theirs
    assert lone.post("/work/mail", follow=False, to="bob", text="hello").status == 409
    lone.form_token = token_of(lone)
    assert lone.post("/work/mail", follow=False, to="bob", text="hello").status == 303


def test_too_large_a_form_is_refused(site):
    before = records(site)
    for body in (
        "text=" + "a" * (4 << 20),
        "&".join(f"a{number}=" for number in range(10_000)),
        "text=" + "%00" * 700_000,
    ):
        answer = site.ask("POST", "/work/mail", f"{body}&form_token={token_of(site)}", {"Content-Type": FORM})
        assert (answer.status, records(site)) == (400, before)


def test_writing_is_recorded_as_the_person_and_from_the_page(lone):
    assert lone.post("/work/mail", to="bob", text="hello").status == 200
    with Project.open(lone.folder, ADA) as project:
        last = project.log(limit=1).records[0]
    assert (last.writer, last.session) == ("ada", "web-test")


def test_a_read_only_page_has_no_forms_and_takes_none(tmp_path):
    Project.init(os.fspath(tmp_path))
    with Site(tmp_path, is_read_only=True) as site:
        before = records(site)
        page = site.get("/work")
        assert ("form_token" in page.html, "read-only" in page.text) == (False, True)
        answer = site.post("/work/mail", follow=False, to="bob", text="hello")
        assert (answer.status, records(site)) == (409, before)
        assert "read-only" in answer.text


# -- headers ------------------------------------------------------------------------------------------------------------------


def test_every_answer_forbids_what_is_not_ours(site):
    answers = [
        site.get("/work"), site.get("/nowhere"), site.get("/static/page.css"), site.get("/static/none"), site.get("/work?at=%"),
        site.get("/leave?to=x"), stranger(site, "/work"), stranger(site, "/open/x"), site.ask("GET", "/work", headers={"Host": "evil"}),
        site.ask("OPTIONS", "/work"), site.ask("DELETE", "/work"), site.ask("HEAD", "/work"), site.ask("POST", "/work/mail", ""),
        site.ask("POST", "/work", ""), site.get("/work/mail"),
    ]  # fmt: skip
    for answer in answers:
        check_headers(answer.headers)
    assert {answer.status for answer in answers} == {200, 400, 403, 404, 405}
    assert "set-cookie" not in answers[0].headers


def check_headers(headers):
    policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert (policy["script-src"], policy["style-src"]) == ("'self'", "'self'")
    assert {policy[name] for name in ("base-uri", "frame-ancestors", "font-src")} == {"'none'"}
    assert policy["form-action"] == "'self'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] in ("no-store", "no-cache")
    assert "server" not in headers
    assert not [name for name in headers if name.startswith("access-control-")]


def test_what_is_no_http_is_refused_with_the_same_headers(site):
    for request in (b"\x16\x03\x01\x02\x00\x01\x00", b"hello\r\n\r\n", b"GET /work\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                    b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA:" + b"a" * 70_000,
                    b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n"):  # fmt: skip
        head, _, body = exchange(site.port, request).partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        assert re.match("HTTP/1.1 (400|501) ", status), request
        assert b"Traceback" not in body
        check_headers({name.lower(): value for name, value in (line.split(": ", 1) for line in lines)})


def test_events_are_sent_with_the_same_headers_and_only_to_who_has_entered(site):
    assert stranger(site, "/live").status == 403
    cookie = "; ".join(f"{name}={value}" for name, value in site.cookies.items())
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=30)
    try:
        connection.request("GET", "/live", headers={"Cookie": cookie})
        answer = connection.getresponse()
        check_headers({name.lower(): value for name, value in answer.getheaders()})
        assert answer.getheader("content-type").startswith("text/event-stream")
        assert b"watching" in answer.read1(200)
    finally:
        connection.close()


# -- files and ids ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py", "/static/..%5cserver.py", "/static//etc/passwd",
        "/static/%2fetc%2fpasswd", "/static/vendor/../page.css", "/static/vendor/htmx/../../../server.py", "/static/page.css%00.js",
        "/static/page.css/", "/static/PAGE.CSS", "/static/", "/static/.", "/static/" + "a/" * 4_000, "/static/%FF", "/static/%252e%252e/x",
        "/static/vendor/htmx", "/static/./page.css", "/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
    ],
)  # fmt: skip
def test_no_other_file_is_served(site, path):
    head, _, body = exchange(
        site.port,
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nCookie: {site.cookies and '; '.join(f'{k}={v}' for k, v in site.cookies.items())}\r\n"
        "Connection: close\r\n\r\n".encode(),
    ).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 404"), head
    assert b"root:" not in body
    assert b"def " not in body


@pytest.mark.parametrize("part", ["..", "%2e%2e", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "%00", "x%00y", "a" * 12_000, "%FF%FE", "%E2%80%AE", "dec_1'--", "<b>", "%3Cscript%3E", "*", "%20", "-1", "plan_%0a"])  # fmt: skip
def test_no_id_leads_anywhere_else(site, part):
    for base in ("/work/plan/", "/work/dispatch/"):
        answer = site.get(base + part)
        assert answer.status in (400, 404), base
        assert "<script>" not in answer.html
        assert "Traceback" not in answer.html
        check_headers(answer.headers)


# -- addresses of others ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "", "x", "javascript:alert(1)", "JAVASCRIPT:alert(1)", " javascript:alert(1)", "java\nscript:alert(1)", "data:text/html,<script>alert(1)</script>",
        "vbscript:x", "file:///etc/passwd", "ftp://example.com", "//evil.example", "http:", "http://", "https:evil.example", "https:/evil.example",
        "https:///evil.example", "https:\\\\evil.example", "https://good.example\\@evil.example", "https://evil.example\\.good.example", "https://exa mple.com",
        "https://good.example\t.evil.example", "https://good.example\n@evil.example", "https://evil.example:port", "https://evil.example:99999", "https://evil.example:80:90",
        "https://evil%2eexample", "https://good.example%2f@[", "https://[::1", "https://a..example", "https://.example", "https://\u00a0evil.example",
        "blob:https://evil.example/x", "view-source:https://evil.example", "https://ev<il.example", "https://-\u202e.example", "https://" + "a" * 70 + ".example",
    ],
)  # fmt: skip
def test_what_is_no_plain_address_of_the_web_is_not_led_to(address):
    with pytest.raises(UsageError):
        leave(asked(None, "/leave", to=address))


@pytest.mark.parametrize(
    ("address", "target", "host", "is_foreign"),
    [
        ("https://example.com/a?b=c#d", "https://example.com/a?b=c#d", "example.com", False),
        ("HTTP://EXAMPLE.com:8080", "http://example.com:8080", "example.com", False),
        ("https://good.example@evil.example/x", "https://evil.example/x", "evil.example", False),
        ("https://good.example:443@evil.example", "https://evil.example", "evil.example", False),
        ("https://a@b@evil.example", "https://evil.example", "evil.example", False),
        ("https://evil.example/@good.example", "https://evil.example/@good.example", "evil.example", False),
        ("https://evil.example?@good.example", "https://evil.example?@good.example", "evil.example", False),
        ("https://evil.example#@good.example", "https://evil.example#@good.example", "evil.example", False),
        ("https://\u0430pple.com", "https://xn--pple-43d.com", "xn--pple-43d.com", True),
        ("https://xn--pple-43d.com", "https://xn--pple-43d.com", "xn--pple-43d.com", True),
        ("https://good\u3002example", "https://good.example", "good.example", True),
        ("https://\uff47ood.example", "https://good.example", "good.example", True),
        ("http://[2001:db8::1]:8/x", "http://[2001:db8::1]:8/x", "[2001:db8::1]", False),
        ("http://2130706433/", "http://2130706433/", "2130706433", False),
    ],
)
def test_the_host_that_is_shown_is_the_host_that_is_led_to(site, address, target, host, is_foreign):
    answer = site.get("/leave?" + urllib.parse.urlencode({"to": address}))
    assert answer.status == 200
    assert [one for one in answer.page.links() if one.startswith("http")] == [target]
    assert f"It leads to {host} ." in answer.text or f"It leads to {host}." in answer.text
    assert ("may look like others" in answer.text) == is_foreign
    (link,) = (one for one in answer.page.all("a") if one.attributes["href"] == target)
    assert "noreferrer" in link.attributes["rel"]
    assert ("is no part of the host" in answer.text) == ("@" in urllib.parse.urlsplit(address).netloc)
