"""Fetching: what is refused however it is spelled, and what a real server of this machine says to a fetcher that may ask it."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from html import escape
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.agent.tools.text_pages.command_output import Outputs
from periplus.agent.tools.tool_table import check_arguments
from periplus.agent.tools.web.html_tokenizer import EndTag, html_tokens
from periplus.agent.tools.web.page_fetch import Fetcher, fetch_tool
from periplus.agent.tools.web.page_text import text_of_html
from periplus.agent.tools.web.public_addresses import check_host, is_public
from periplus.agent.tools.web.web_search import JsonProvider, SearchService, open_provider, web_search_tool
from periplus.base.errors import EnvironmentFailure, FormatError, NotFoundError, RefusedError, UsageError
from periplus.base.files import Files

PRIVATE = [
    "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "169.254.0.1", "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1",
    "255.255.255.255", "168.63.129.16", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "fec0::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::8.8.8.8", "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::", "2001:db8::1", "2001::1", "100::1", "64:ff9b:1::1", "nonsense", "",
]  # fmt: skip
PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "93.184.215.14",
    "2606:4700:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:808:808::",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_of_the_internet_is_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is_of_the_internet_is(address):
    assert is_public(address)


@settings(max_examples=200, deadline=None)
@given(st.ip_addresses(v=4))
def test_an_address_within_another_is_judged_as_itself(address):
    assert is_public(f"::ffff:{address}") == is_public(str(address))
    assert is_public(f"64:ff9b::{address}") == is_public(str(address))


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST", "localhost.", "a.localhost", "printer.local", "metadata.google.internal", "router.lan", "intranet",
     "2130706433", "0x7f000001", "017700000001", "127.1", "0177.0.0.1", "127.0.0.1", "[::1]", "::1", "", "x" * 300, "a.onion"],
)  # fmt: skip
def test_names_of_this_machine_in_any_spelling_are_refused(host):
    with pytest.raises(RefusedError):
        check_host(host)
    assert check_host("Example.COM.") == "example.com"


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("file:///etc/passwd", RefusedError), ("ftp://example.com/", RefusedError), ("gopher://example.com", RefusedError),
        ("http://user:pw@example.com/", RefusedError), ("http://example.com:22/", RefusedError), ("http://a b/", UsageError),
        ("http://127.0.0.1/", RefusedError), ("http://[::1]/", RefusedError), ("http://[::ffff:127.0.0.1]/", RefusedError),
        ("http://2130706433/", RefusedError), ("http://example.com\\@localhost/", UsageError), ("http://", RefusedError),
        ("http://exa\tmple.com/", UsageError), ("http://example.com:99999/", UsageError), ("http://[::1", UsageError),
        ("example.com", RefusedError), ("http://localhost:8080/", RefusedError), ("http://169.254.169.254/latest/meta-data/", RefusedError),
    ],
)  # fmt: skip
def test_addresses_that_are_not_fetched(url, error):
    def resolver(host, port):
        raise AssertionError(f"{host} was asked for")

    with pytest.raises(error):
        Fetcher(resolver=resolver).fetch(url)


@pytest.mark.parametrize("answer", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::ffff:192.168.0.1"], ["fe80::1%lo"]])
def test_a_name_that_leads_inside_is_refused(answer):
    with pytest.raises(RefusedError, match="not a public address"):
        Fetcher(resolver=lambda host, port: answer).fetch("http://example.com/")


def test_a_name_without_an_address_is_an_error():
    with pytest.raises(NotFoundError):
        Fetcher(resolver=lambda host, port: []).fetch("http://example.com/")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.server.asked.append((self.path, dict(self.headers)))
        status, headers, body = self.server.pages.get(self.path, (404, {"Content-Type": "text/plain"}, b"nothing here"))
        if callable(body):
            body(self)
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server():
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.daemon_threads = True
    made.pages, made.asked = {}, []
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def fetcher(server, answers=None, **more):
    """One that takes 127.0.0.1 for public, and any other loopback address not."""
    asked = []

    def resolver(host, port):
        asked.append(host)
        return (answers or {}).get((host, asked.count(host)), ["127.0.0.1"])

    made = Fetcher(
        resolver=resolver, is_allowed=lambda one: one == "127.0.0.1", ports=frozenset({server.server_port}), **more
    )
    return made, asked, f"http://site.example:{server.server_port}"


HTML = (
    "<html><head><title>A  title</title><style>x{}</style></head><body><nav>menu</nav><h1>Head</h1><p>One <b>two</b>\n three"
    "<script>bad()</script></p><ul><li>a<li>b <a href='/x?y=1'>link</a></ul><pre>code\n  here</pre>"
    "<table><tr><td>1</td><td>2</td></tr></table></body></html>"
)


def test_a_page_comes_as_text_with_its_links(server, tmp_path):
    server.pages["/page?q=%C3%BC"] = (
        200,
        {"Content-Type": "text/html; charset=latin-1"},
        HTML.replace("One", "Öne").encode("latin-1"),
    )
    made, asked, base = fetcher(server)
    outputs = Outputs(str(tmp_path / "out"), Files())
    tool = fetch_tool(made, outputs)
    done = tool.run(check_arguments(tool, {"url": f"{base}/page?q=ü"}))
    assert done.outcome == "ok"
    assert done.output.split("\n", 1)[0] == f"{base}/page?q=ü: 200, text/html, 'A title'"
    body = done.output.split("\n", 1)[1]
    assert body == f"# Head\n\nÖne two three\n\n- a\n- b link ({base}/x?y=1)\n\n```\ncode\n  here\n```\n\n1 | 2"
    assert outputs.read(done.handle) == body
    assert asked == ["site.example"]
    headers = server.asked[0][1]
    assert headers["Host"] == f"site.example:{server.server_port}"
    assert not {"Cookie", "Authorization"} & set(headers)
    raw = tool.run(check_arguments(tool, {"url": f"{base}/page?q=ü", "raw": True}))
    assert "<script>" in raw.output
    missing = tool.run(check_arguments(tool, {"url": f"{base}/nowhere"}))
    assert (missing.outcome, "404" in missing.output) == ("failed", True)
    outputs.close()


@pytest.mark.parametrize(
    "charset", ["punycode", "undefined", "idna", "unicode_escape", "a\0b", "no-such", "rot13", "hex"]
)
def test_a_charset_that_is_none_of_the_web_is_read_as_utf_8(server, tmp_path, charset):
    """Some codecs of Python take a time that grows with the square of the text, others are for something else."""
    server.pages["/"] = (200, {"Content-Type": f'text/plain; charset="{charset}"'}, "one ü \\n".encode())
    made, _, base = fetcher(server)
    outputs = Outputs(str(tmp_path / "out"), Files())
    tool = fetch_tool(made, outputs)
    assert tool.run(check_arguments(tool, {"url": f"{base}/"})).output.split("\n", 1)[1] == "one ü \\n"
    outputs.close()


@pytest.mark.parametrize(
    "charset", ["Shift_JIS", "windows-1251", "KOI8-R", "GB18030", "EUC-KR", "utf-16le", "ISO-8859-15"]
)
def test_a_charset_of_the_web_is_read_as_that(server, tmp_path, charset):
    text = {"Shift_JIS": "日本", "GB18030": "中文", "EUC-KR": "한국", "ISO-8859-15": "ü€"}.get(charset, "да")
    server.pages["/"] = (200, {"Content-Type": f"text/plain; charset={charset}"}, text.encode(charset))
    made, _, base = fetcher(server)
    outputs = Outputs(str(tmp_path / "out"), Files())
    tool = fetch_tool(made, outputs)
    assert tool.run(check_arguments(tool, {"url": f"{base}/"})).output.split("\n", 1)[1] == text
    outputs.close()


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("http://127.0.0.1:{port}/secret", "address of this machine"), ("http://localhost:{port}/secret", "private network"),
        ("http://169.254.169.254/latest", "is not a web port"), ("file:///etc/passwd", "http and https only"),
        ("http://inside.example:{port}/secret", "not a public address"), ("//inside.example:{port}/secret", "not a public address"),
        ("http://u:p@site.example:{port}/", "a user or a password"), ("/loop", "over 5 redirects"),
    ],
)  # fmt: skip
def test_a_redirect_is_judged_like_a_first_request(server, target, said):
    server.pages["/loop"] = (302, {"Location": target.format(port=server.server_port)}, b"")
    server.pages["/secret"] = (200, {"Content-Type": "text/plain"}, b"SECRET")
    made, _, base = fetcher(server, {("inside.example", 1): ["127.0.0.2"]})
    with pytest.raises(RefusedError, match=said):
        made.fetch(f"{base}/loop")
    assert all(path != "/secret" for path, _ in server.asked)


def test_a_redirect_to_a_public_page_is_followed(server):
    server.pages["/a"] = (301, {"Location": "../b"}, b"")
    server.pages["/b"] = (200, {"Content-Type": "text/plain"}, b"there")
    made, asked, base = fetcher(server)
    assert made.fetch(f"{base}/a").body == b"there"
    assert asked == ["site.example", "site.example"]


def test_a_name_that_changes_its_meaning_gains_nothing(server):
    """The address that was judged is the one that is connected to: it is asked for once."""
    server.pages["/"] = (200, {"Content-Type": "text/plain"}, b"first")
    made, asked, base = fetcher(server, {("site.example", 2): ["127.0.0.3"]})
    assert made.fetch(f"{base}/").body == b"first"
    assert asked == ["site.example"]
    with pytest.raises(RefusedError, match=r"127\.0\.0\.3"):
        made.fetch(f"{base}/")


def test_a_connection_whose_other_side_is_not_public_is_given_up(server):
    judged = []

    def is_allowed(address):
        judged.append(address)
        return len(judged) == 1  # the name's address passes, the peer's does not

    made = Fetcher(
        resolver=lambda host, port: ["127.0.0.1"], is_allowed=is_allowed, ports=frozenset({server.server_port})
    )
    with pytest.raises(RefusedError, match=r"the connection leads to 127\.0\.0\.1"):
        made.fetch(f"http://site.example:{server.server_port}/")
    assert server.asked == []


def test_a_body_is_taken_up_to_a_limit_and_the_cut_is_told(server, tmp_path):
    server.pages["/big"] = (200, {"Content-Type": "text/plain"}, b"x" * 100_000)
    made, _, base = fetcher(server, body_bytes_max=1000)
    found = made.fetch(f"{base}/big")
    assert (len(found.body), found.is_cut) == (1000, True)
    outputs = Outputs(str(tmp_path / "out"), Files())
    tool = fetch_tool(made, outputs)
    assert "its first 1,000 bytes" in tool.run(check_arguments(tool, {"url": f"{base}/big"})).output
    outputs.close()


@pytest.mark.slow
@pytest.mark.parametrize("part", ["headers", "body", "nothing"])
def test_a_server_that_drips_is_left_at_the_deadline(server, part):
    stop = threading.Event()

    def drip(handler):
        try:
            if part == "body":
                handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
            if part == "headers":
                handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
            while not stop.wait(0.05):
                if part != "nothing":
                    handler.wfile.write(b"x")
        except OSError:
            pass  # the other side is gone, as it should

    server.pages["/drip"] = (200, {}, drip)
    made, _, base = fetcher(server, seconds=0.5)
    begun = time.monotonic()
    try:
        with pytest.raises(EnvironmentFailure):
            made.fetch(f"{base}/drip")
    finally:
        stop.set()
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"z" * 100_000,
    ],
)
def test_what_is_no_answer_is_an_error(server, said):
    def answer(handler):
        try:
            handler.wfile.write(said)
        except OSError:
            pass  # it hung up already

    server.pages["/bad"] = (200, {}, answer)
    made, _, base = fetcher(server)
    with pytest.raises(EnvironmentFailure):
        made.fetch(f"{base}/bad")


@pytest.mark.parametrize("part", ["headers", "body"])
def test_what_is_fetched_can_be_cancelled(server, tmp_path, part):
    asked, stop = threading.Event(), threading.Event()

    def hold(handler):
        if part == "body":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nsome")
        asked.set()
        stop.wait(60)

    server.pages["/hold"] = (200, {}, hold)
    made, _, base = fetcher(server)
    outputs = Outputs(str(tmp_path / "out"), Files())
    tool = fetch_tool(made, outputs)
    found = []
    thread = threading.Thread(target=lambda: found.append(tool.run(check_arguments(tool, {"url": f"{base}/hold"}))))
    thread.start()
    assert asked.wait(60)
    made.cancel()
    thread.join(60)
    stop.set()
    assert found[0].outcome == "cancelled"


def test_https_is_checked_against_the_name(tmp_path):
    """A certificate that nobody vouches for is refused."""
    certificate, key = self_signed(tmp_path, "site.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.pages, made.asked = {"/": (200, {"Content-Type": "text/plain"}, b"safe")}, []
    made.handle_error = lambda *args: None
    made.socket = context.wrap_socket(made.socket, server_side=True)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    try:
        strict, _, _ = fetcher(made)
        url = f"https://site.example:{made.server_port}/"
        with pytest.raises(EnvironmentFailure, match="certificate"):
            strict.fetch(url)
        trusting, _, _ = fetcher(made, tls=ssl.create_default_context(cafile=certificate))
        assert trusting.fetch(url).body == b"safe"
        with pytest.raises(EnvironmentFailure, match="certificate"):
            trusting.fetch(url.replace("site", "other"))
    finally:
        made.shutdown()
        made.server_close()
        thread.join()


def self_signed(folder, name):
    import datetime as dt

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(key, hashes.SHA256())
    )  # fmt: skip
    (folder / "c.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    (folder / "k.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    return str(folder / "c.pem"), str(folder / "k.pem")


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("<>/apreulitdhb1 \"'=&;!-[]?#\n")) | st.text())
def test_any_html_gives_some_text(html):
    title, text = text_of_html(html, "http://a.example/")
    assert isinstance(title, str)
    assert len(text) <= 12 * len(html) + 100


WORD = st.text(st.sampled_from("abc ü\n'\"=/&;#"), max_size=8)
ATTRIBUTES = st.dictionaries(st.sampled_from(["href", "alt", "data-x", "title"]), WORD, max_size=3)
TAGS = st.sampled_from(["p", "div", "a", "h2", "li", "td", "pre", "b", "custom-tag"])


def _written(tag, attributes, inner):
    inside = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
    return f"<{tag}{inside}>{inner}</{tag}>"


TREES = st.recursive(
    WORD.map(escape) | st.sampled_from(["<br/>", "<img alt=x>", "<!-- a > b -->", "<!DOCTYPE html>", "<script>a<b && '</x>'</script>"]),
    lambda inner: st.builds(_written, TAGS, ATTRIBUTES, st.lists(inner, max_size=4).map("".join)),
    max_leaves=12,
)  # fmt: skip


class Oracle(HTMLParser):
    """The parser of the standard library, which reads pages without mistakes as everybody does."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append(("start", tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag):
        self.found.append(("end", tag))

    def handle_data(self, data):
        self.found.append(("text", data))


def _joined(tokens):
    out = []
    for token in tokens:
        if token[0] == "text" and out and out[-1][0] == "text":
            out[-1] = ("text", out[-1][1] + token[1])
        else:
            out.append(token)
    return out


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(TREES)
def test_a_page_without_mistakes_has_the_tokens_that_everybody_reads(page):
    oracle = Oracle()
    oracle.feed(page)
    oracle.close()
    found = []
    for token in html_tokens(page):
        if isinstance(token, str):
            found.append(("text", token))
        elif isinstance(token, EndTag):
            found.append(("end", token.name))
        else:
            found += [("start", token.name, token.attributes), *([("end", token.name)] if token.is_closed else [])]
    assert _joined(found) == _joined(oracle.found)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<![x[y]]>a", "a"), ("a<![", "a"), ("<!-->a<!--->b<!-- c --!>d<!-- e", "abd"), ("a</", "a</"), ("a</>b</1>c", "abc"),
        ("a < b <3 &lt;", "a < b <3 <"), ("<p don't>a", "a"), ("a<p title='b>c", "a"), ("a<p", "a"), ("<?x?>a", "a"),
        ("<a href=x/>a</a>", "a (http://a.example/x/)"), ("<a href=x href=y>a</a>", "a (http://a.example/x)"),
        ("<SCRIPT>a</scriptx>b</Script >c", "c"), ("&#" + "9" * 5_000 + ";a", "\ufffda"), ("&#x" + "f" * 5_000 + ";a", "\ufffda"),
        ("<textarea><b>&amp;</textarea>", "<b>&"), ("<head><title></head><i>x</title></head>a", "a"),
    ],
)  # fmt: skip
def test_a_page_with_mistakes_is_read_as_the_standard_says(page, text):
    assert text_of_html(page, "http://a.example/")[1] == text


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "<a ",
        "<!--",
        "<!",
        "<![",
        "<a b='",
        "</",
        "<",
        "&#",
        "<?",
        "<a b=",
        "<script>",
        "<title>",
        "</x ",
        "<a b='x' ",
        "<a b=\"'>",
    ],
)
def test_what_nothing_closes_takes_no_longer_the_more_of_it_there_is(piece):
    """It is quick because that is held: ``html.parser`` of Python 3.11 takes the square, and such a page would hold the agent for days."""
    text_of_html(piece * (2_000_000 // len(piece)), "http://a.example/")


def test_a_page_that_is_nested_too_deep_is_read_all_the_same():
    _, text = text_of_html("<ul><li>" * 20_000 + "deep" + "<script>" * 5_000 + "bad", "http://a.example/")
    assert "deep" in text
    assert "bad" not in text


def test_the_system_resolver_gives_addresses():
    from periplus.agent.tools.web.public_addresses import resolve

    assert {"127.0.0.1", "::1"} & set(resolve("localhost", 80))
    with pytest.raises(socket.gaierror):
        resolve("no-such-name.invalid", 80)


def provider(server, **more):
    made, _, base = fetcher(server)
    return JsonProvider(
        f"{base}/search?q={{query}}&n={{count}}",
        fetcher=made,
        **({"results": "web.results", "headers": {"X-Key": "k"}} | more),
    )


def test_a_search_asks_its_provider(server):
    rows = [{"title": f"T{n}", "url": f"https://e.example/{n}", "description": "some\n text"} for n in range(5)]
    rows.insert(1, {"title": "bad", "url": "javascript:alert(1)"})
    body = json.dumps({"web": {"results": rows}}).encode()
    server.pages["/search?q=a%20%26b&n=3"] = (200, {"Content-Type": "application/json"}, body)
    tool = web_search_tool(provider(server))
    done = tool.run(check_arguments(tool, {"query": "a &b", "count": 3}))
    assert done.output.split("\n") == [
        "T0",
        "  https://e.example/0",
        "  some text",
        "T1",
        "  https://e.example/1",
        "  some text",
    ]
    assert server.asked[0][1]["X-Key"] == "k"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((200, {}, b"{}"), FormatError), ((200, {}, b"nonsense"), FormatError), ((200, {}, b'{"web":{"results":3}}'), FormatError),
        ((401, {}, b""), EnvironmentFailure), ((302, {"Location": "/elsewhere"}, b""), RefusedError),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_an_error_and_the_key_goes_nowhere_else(server, answer, error):
    server.pages["/search?q=x&n=8"] = answer
    with pytest.raises(error):
        provider(server)("x", 8)
    assert [path for path, _ in server.asked] == ["/search?q=x&n=8"]


def test_a_provider_without_a_place_for_the_question_is_refused():
    with pytest.raises(UsageError, match=r"no \{query\}"):
        JsonProvider("https://e.example/", results="")


def test_the_provider_of_the_settings_may_lie_on_this_machine_and_nothing_else_may(server):
    base = f"http://127.0.0.1:{server.server_address[1]}"
    server.pages["/s?q=oil&format=json"] = (
        200,
        {},
        b'{"results":[{"title":"Oil","url":"https://e.example/","content":"how to"}]}',
    )
    service = SearchService(
        address=f"{base}/s?q={{query}}&format=json",
        results="results",
        text="content",
        key_header="X-Key",
        key_prefix="Token ",
    )
    assert [tuple(hit) for hit in open_provider(service, "abc")("oil", 3)] == [("Oil", "https://e.example/", "how to")]
    assert server.asked[0][1]["X-Key"] == "Token abc"
    server.pages["/s?q=away&format=json"] = (302, {"Location": "http://169.254.169.254/"}, b"")
    with pytest.raises(RefusedError):
        open_provider(service, "abc")("away", 3)
    with pytest.raises(RefusedError):
        open_provider(SearchService(address="http://10.0.0.1/?q={query}"), "")("oil", 3)


@pytest.mark.parametrize(
    ("address", "key_header", "key", "error"),
    [
        ("ftp://e.example/{query}", "", "", "not an address"),
        ("http://[::1/{query}", "", "", "not an address"),
        ("https://user:word@e.example/{query}", "", "", "not an address"),
        ("https://e.example/", "", "", r"no \{query\}"),
        ("https://e.example/{query}", "X-Key", "", "no key"),
        ("http://e.example/{query}", "X-Key", "abc", "without TLS"),
    ],
)
def test_a_provider_of_the_settings_that_is_none_is_refused(address, key_header, key, error):
    with pytest.raises(UsageError, match=error):
        open_provider(SearchService(address=address, key_header=key_header), key)
