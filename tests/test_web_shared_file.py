"""The shared file of a session: it needs nothing else, no text becomes markup, and a changed one is found."""

from __future__ import annotations

import base64
import re
import zlib

import pytest

from periplus.trail import Digest, TrailReader, open_parts, sign, verify
from periplus.web.sessions.file_payload import read_file_parts, unpacked
from periplus.web.sessions.shared_file import BYTES_LEAST, FileOptions, make_file
from periplus.web.sessions.verification import verify_shared_file
from real_trails import sessions
from session_support import HOSTILE, Elements, Objects, built, hostile, long_trail, small

TAGS = {
    "html", "head", "meta", "title", "style", "body", "a", "header", "h1", "h2", "dl", "div", "dt", "dd", "details", "summary", "p",
    "code", "ul", "ol", "li", "nav", "main", "footer", "small", "em", "b", "ins", "del", "span", "pre", "time", "script",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "title", "tabindex", "charset", "http-equiv", "content", "name", "class", "href", "id", "datetime", "open", "type", "data-kind", "data-encoding",
    "aria-label",
}  # fmt: skip
SECRET = "AKIA" + "IOSFODNN7ABCDEFG"


def made_of(data, objects, **options):
    withheld = frozenset(options.pop("withheld", ()))
    trail_of = options.pop("trail_of", lambda _digest: None)
    return make_file(data, objects.get, FileOptions(withheld=withheld, **options), trail_of=trail_of)


def verdicts(report):
    return {check.name: check.verdict for check in report.checks}


def check_harmless(page):
    found = Elements(page)
    assert found.tags <= TAGS
    assert found.attributes <= ATTRIBUTES
    assert found.scripts == 0
    assert all(address.startswith("#") or re.fullmatch(r"[a-z0-9_-]+\.html", address) for address in found.addresses)
    assert not set(page) & {chr(code) for code in (*range(9), 11, 12, *range(14, 32), 127, 0x202E, 0x2066, 0x9B)}
    return found


@pytest.fixture(scope="module")
def small_file():
    return made_of(*built(small), with_trail=True)


def test_the_file_needs_nothing_else(small_file):
    page = small_file.data.decode()
    check_harmless(page)
    policy = re.search('http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "url(" not in page.split("</style>")[0]
    assert "@import" not in page


def test_the_page_shows_the_session(small_file):
    text = Elements(small_file.data.decode()).text
    said = (
        "Oil the wheels",
        "Make the engine count its cogs",
        "no rule",
        "failed, exit 2",
        "90 % cached",
        "$0.01",
        "engine: count cogs",
    )
    assert all(one in text for one in said)
    assert small_file.notes.digest in text


def test_the_ids_of_steps_are_unique_and_linked(small_file):
    found = Elements(small_file.data.decode())
    assert len(found.ids) == len(set(found.ids))
    assert {address[1:] for address in found.addresses if address.startswith("#")} <= set(found.ids)


def test_the_trail_can_be_taken_out_with_any_tool(small_file):
    text = re.search('data-kind="trail" data-encoding="zlib base64">([^<]*)<', small_file.data.decode())[1]
    data = zlib.decompress(base64.b64decode(text))
    assert data == built(small)[0]


def test_hostile_texts_stay_texts():
    page = made_of(*built(hostile, title=HOSTILE[0], agent=HOSTILE[1]), with_trail=True).data.decode()
    found = check_harmless(page)
    for said in (
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "{{ 7*7 }}{% raw %}${7*7}",
        "&lt;b&gt; &amp;&#x3c;",
        "[U+202E]",
        "nul ␀ esc ␛[31m bell ␇ c1 [U+009B]",
    ):
        assert said in found.text


def test_a_line_of_ten_megabytes_is_cut():
    def fill(builder, objects):
        builder.add("SAY", "<" * 10_000_000)
        builder.add("FILE_WRITE", "a", objects.digest("&" * 10_000_000))
        builder.add("COMMAND_RUN", "x " + "\u202e" * 4_000, error="y" * 4_000)

    for with_trail in (False, True):
        made = made_of(*built(fill), with_trail=with_trail)
        assert len(made.data) < 300_000
        check_harmless(made.data.decode())
        assert "10,000,000 bytes" in Elements(made.data.decode()).text


@pytest.mark.slow
@pytest.mark.parametrize("with_trail", [False, True])
def test_a_thousand_steps_are_under_two_megabytes(with_trail):
    made = made_of(*long_trail(1_000), with_trail=with_trail)
    assert len(made.data) <= BYTES_LEAST < 2_000_000
    assert made.left_out == 0


@pytest.mark.slow
def test_a_thousand_steps_of_hostile_texts_are_under_two_megabytes():
    def fill(builder, objects):
        for number in range(1_000):
            builder.add("SAY", "<&\"'>\u202e" * 600 + str(number))

    made = made_of(*built(fill), with_trail=True)
    assert len(made.data) < 2_000_000
    assert verify_shared_file(made.data).is_complete


def test_a_good_file_verifies(small_file):
    report = verify_shared_file(small_file.data)
    assert report.is_complete, report.checks
    assert verdicts(report) == {"file": "ok", "digest": "ok", "objects": "ok", "page": "ok"}
    assert report.digest == TrailReader(built(small)[0]).digest.hex()


def test_a_signature_is_shown_and_checked():
    data, objects = built(small)
    signed = sign(data, bytes(range(32)))
    key = TrailReader(signed).signature[:32]
    made = made_of(signed, objects, with_trail=True)
    assert key.hex() in Elements(made.data.decode()).text
    assert verify_shared_file(made.data, key=key).is_complete
    assert not verify_shared_file(made.data, key=bytes(32)).is_sound


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"no rule", b"no rules"),
        (b"failed, exit 2", b"ok"),
        (b"<h2>Steps", b"<h2>Stepz"),
        (b"</footer>", b"</footer><script>1</script>"),
        (b"--bg:#fff", b"--bg:#eee"),
        (b"default-src 'none'", b"default-src *"),
        (b"<footer>", b"<!-- --><footer>"),
        (b"</html>", b"</html>\n"),
    ],
)
def test_a_changed_page_is_found(small_file, old, new):
    assert old in small_file.data
    report = verify_shared_file(small_file.data.replace(old, new, 1))
    assert verdicts(report)["page"] == "error"
    assert not report.is_sound


def test_every_cut_is_found(small_file):
    for end in range(0, len(small_file.data), 997):
        report = verify_shared_file(small_file.data[:end])
        assert not report.is_complete
        assert not report.is_sound


def test_a_changed_trail_object_or_note_is_found(small_file):
    data = small_file.data
    other = made_of(*built(small, secret=b"\1" * 32), with_trail=True)
    own, others = (re.search(b'data-kind="trail"[^>]*>([^<]*)<', one)[1] for one in (data, other.data))
    assert verdicts(verify_shared_file(data.replace(own, others)))["digest"] == "error"
    objects = re.findall(b'data-kind="object"[^>]*>([^<]*)<', data)
    assert verdicts(verify_shared_file(data.replace(objects[0], objects[1], 1)))["objects"] == "error"
    assert not verify_shared_file(data.replace(own, own[:-8])).is_sound
    assert not verify_shared_file(data.replace(b"16000", b"8000")).is_sound
    assert not verify_shared_file(data.replace(b"has_trail&#34;:true", b"has_trail&#34;:false")).is_sound


def test_a_page_of_another_version_is_not_compared(small_file):
    renderer = small_file.notes.renderer.encode()
    report = verify_shared_file(small_file.data.replace(renderer, b"0" * 16).replace(b"no rule", b"no rules"))
    assert verdicts(report)["page"] == "skipped"
    assert report.is_sound
    assert not report.is_complete
    assert "was not compared" in report.summary
    assert verify_shared_file(small_file.data.replace(renderer, b"0" * 16)).is_complete, (
        "the same bytes, whoever made them"
    )


def test_a_file_without_its_trail_is_verified_by_the_store():
    data, objects = built(small)
    digest = TrailReader(data).digest
    for withheld in ((), ("command", "new")):
        made = made_of(data, objects, withheld=withheld)
        alone = verify_shared_file(made.data)
        assert alone.is_sound
        assert not alone.is_complete
        assert alone.digest == digest.hex()
        store = {"trail_of": {digest: data}.get, "read_object": objects.get}
        assert verify_shared_file(made.data, **store).is_complete
        assert not verify_shared_file(made.data.replace(b"no rule", b"no rules"), **store).is_sound
        lacking = verify_shared_file(made.data, trail_of={digest: data}.get)
        assert verdicts(lacking)["page"] == "skipped"


def test_fields_are_withheld_from_the_page_and_from_the_trail():
    data, objects = built(small)
    made = made_of(data, objects, with_trail=True, withheld=("command", "title", "content"))
    page = made.data.decode()
    assert "make lint" not in page
    assert "Oil the wheels" not in page
    carried = unpacked(read_file_parts(made.data).blocks)
    assert b"make lint" not in carried.trails[0]
    assert [len(one) for one in carried.objects.values()] == [5_000], "the long text, but no written file"
    assert verify(carried.trails[0]).digest == TrailReader(data).digest
    assert made.withheld == 4
    assert verify_shared_file(made.data).is_complete


def test_a_secret_leaves_the_trail_and_the_objects():
    def fill(builder, objects):
        builder.add("PROMPT", "deploy it")
        builder.add("COMMAND_RUN", f"export AWS_ACCESS_KEY_ID={SECRET}")
        builder.add("FILE_WRITE", ".env", objects.digest(f"AWS_ACCESS_KEY_ID={SECRET}\n"))

    made = made_of(*built(fill), with_trail=True)
    carried = unpacked(read_file_parts(made.data).blocks)
    assert SECRET.encode() not in b"".join((made.data, *carried.trails, *carried.objects.values()))
    assert made.withheld >= 2
    assert "deploy it" in made.data.decode()
    assert verify_shared_file(made.data).is_complete


def test_the_session_of_a_subagent_is_nested_and_verified():
    child, child_objects = built(
        lambda builder, _: builder.add("SAY", "found the cogs"), title="Find cogs", secret=b"\2" * 32
    )
    digest = TrailReader(child).digest

    def fill(builder, objects):
        builder.add("PROMPT", "look")
        builder.add("AGENT_SPAWN", "explore", "find the cogs", Digest("sha256", digest))
        builder.add("AGENT_SPAWN", "explore", "once more", Digest("sha256", digest))

    data, objects = built(fill)
    trails = {digest: child}
    made = made_of(data, Objects(objects | child_objects), with_trail=True, trail_of=trails.get)
    page = made.data.decode()
    assert made.notes.parts == (digest.hex(),)
    assert page.count('<div class="text">found the cogs</div>') == 1
    assert 'id="s1-s0"' in page
    assert verify_shared_file(made.data).is_complete
    other = made.data.replace(re.findall(b'data-kind="trail"[^>]*>([^<]*)<', made.data)[1], b"")
    assert not verify_shared_file(other).is_sound


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<!doctype html>",
        b"<!doctype html><title>x</title>",
        b'<!doctype html><meta name="periplus-session" content="{}">',
    ],
)
def test_other_pages_do_not_verify(data):
    assert not verify_shared_file(data).is_sound


def test_a_packed_bomb_is_refused(small_file):
    own = re.search(b'data-kind="trail"[^>]*>([^<]*)<', small_file.data)[1]
    bomb = base64.b64encode(zlib.compress(bytes(2 << 30 >> 4), 9))
    report = verify_shared_file(small_file.data.replace(own, bomb))
    assert not report.is_sound


@pytest.mark.slow
def test_every_real_session_makes_a_harmless_file_that_verifies():
    for data in sessions():
        made = make_file(data, lambda _digest: None, FileOptions(with_trail=True))
        check_harmless(made.data.decode())
        steps = sum(reader.step_count for reader in open_parts(data))
        assert len(made.data) < max(2_000_000, 2_000 * steps)
        report = verify_shared_file(made.data)
        assert report.is_complete, report.checks
