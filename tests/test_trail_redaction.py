"""Redaction: what was removed, and any guess of it, is nowhere in the file; what is left is still the same trail."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interop_support import KEY, Objects, shared_files
from periplus.base.errors import NotFoundError, PeriplusError, RefusedError, UsageError
from periplus.base.text.secrets import find_secrets
from periplus.interop import import_transcript
from periplus.trail import (
    Digest,
    Header,
    TextObject,
    TrailBuilder,
    TrailReader,
    Withheld,
    concat,
    encode,
    open_parts,
    sign,
    verify,
)
from periplus.trail.format.salts import entry_salt
from periplus.trail.redactions.policy import RedactionRequest, redact_trail
from periplus.trail.redactions.regex_search import find_matches
from periplus.trail.redactions.text_traces import Traces
from trail_samples import LONG_TEXT, SECRET, golden_trail, headers, sha, steps

EXHAUSTIVE = bool(os.environ.get("PERIPLUS_EXHAUSTIVE"))  # every string and step of every real trail
TOKEN = "AKIA" + "IOSFODNN7ABCDEFG"


def secrets_in(text):
    return [text[one.start : one.end] for one in find_secrets(text)]


def redact(data, objects=None, **wanted):
    done = redact_trail(
        data,
        RedactionRequest(**wanted),
        read_object=(objects or {}).get,
        find_matches=find_matches,
        find_secrets=secrets_in,
    )
    assert verify(done.data).ok
    return done


def strings_of(data):
    return [value for reader in open_parts(data) for value in map(reader.string, range(len(reader.strings)))]


def trail_of(*told, **header):
    """A signed trail of steps: a text each, or ``(opcode, operands, more)``."""
    builder = TrailBuilder(SECRET, lambda data: hashlib.sha256(data).digest())
    for one in told:
        code, operands, more = ("SAY", (one,), {}) if isinstance(one, str) else one
        builder.add(code, *operands, **more)
    return sign(builder.finish(Header("a", "t", **header)), b"k" * 32)


def revealed(data):
    return [value for value in strings_of(data) if not isinstance(value, Withheld)]


def guesses(text):
    """What somebody would look for who guesses at ``text``: made without the code that is tested."""
    data = text.encode("utf-8", "surrogatepass")
    yield data
    yield json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
    yield json.dumps(json.dumps(text)[1:-1])[1:-1].encode()
    for hashed in (data, data + b"\n", b"\0" + data, len(data).to_bytes(8, "big") + data):
        digest = hashlib.sha256(hashed).digest()
        yield from (digest, digest.hex().encode(), base64.b64encode(digest)[:42])
    yield hashlib.sha1(b"blob %d\0" % len(data) + data).digest()
    yield from (
        data.hex().encode(),
        base64.b64encode(data).rstrip(b"=")[:-2],
        base64.urlsafe_b64encode(data).rstrip(b"=")[:-2],
    )


def check_removed(whole, done, text):
    """That ``done`` is the trail ``whole``, and that nothing in it speaks of ``text``."""
    for before, after in zip(open_parts(whole), open_parts(done.data), strict=True):
        assert after.computed_identity() == before.stored_identity == after.stored_identity
        assert after.signature == before.signature
        assert list(map(len, map(list, (after.steps(), before.steps())))) == [before.step_count] * 2
        assert after.secret is None
        if before.secret is not None:
            assert before.secret not in done.data
            for index in range(len(after.strings)):
                if isinstance(after.string(index), Withheld):
                    assert entry_salt(before.secret, index) not in done.data
    if len(text.encode("utf-8", "surrogatepass")) >= 8:
        for guess in guesses(text):
            assert guess not in done.data, guess
    for value in revealed(done.data):
        if isinstance(value, str):
            assert text not in value
            assert not (len(value) >= 14 and text.startswith(value.rstrip("….")))


# Real trails


@pytest.mark.parametrize("folder", ["claude-code-jsonl", "codex-rollout"])
def test_any_string_of_a_real_trail_can_be_removed(folder):
    """Every entry of a sample, those of the header and error texts included."""
    files = 0
    for path in shared_files(folder):
        objects = Objects()
        trail = sign(import_transcript(str(path), trail_key=KEY, put_object=objects.put).trail, b"k" * 32)
        reader = TrailReader(trail)
        header = reader.header
        errors = [step.error for step in reader.steps() if step.error is not None]
        texts = [value for value in strings_of(trail) if isinstance(value, (str, TextObject)) and value != ""]
        wanted = [
            *errors[:2],
            header.agent,
            header.trail_id,
            header.title,
            header.model,
            header.tool,
            *texts[:: 1 if EXHAUSTIVE else max(1, len(texts) // 16)],
        ]
        removed = 0
        for value in dict.fromkeys(one for one in wanted if isinstance(one, (str, TextObject))):
            text = value if isinstance(value, str) else objects[value.sha256].decode()
            if not text.strip():
                continue
            done = redact(trail, objects, texts=(text,))
            assert done.chosen >= 1
            check_removed(trail, done, text)
            removed += 1
        assert removed >= min(16, len(texts))
        files += 1
    assert files >= 5


@pytest.mark.parametrize("folder", ["claude-code-jsonl", "codex-rollout"])
def test_any_step_of_a_real_trail_can_be_removed(folder):
    for path in shared_files(folder):
        objects = Objects()
        trail = import_transcript(str(path), trail_key=KEY, put_object=objects.put).trail
        reader = TrailReader(trail)
        given_steps = list(reader.steps())
        for index in range(0, len(given_steps), 1 if EXHAUSTIVE else max(1, len(given_steps) // 6)):
            done = redact(trail, objects, steps=frozenset({index}))
            step = list(TrailReader(done.data).steps())[index]
            texts = [
                value
                for value in (*step.operands, step.error, step.result, step.note)
                if value is not None and not isinstance(value, int)
            ]
            assert all(isinstance(value, Withheld) for value in texts)
            for value in (*given_steps[index].operands, given_steps[index].error, given_steps[index].note):
                if isinstance(value, str) and len(value) >= 8:
                    check_removed(trail, done, value)


# What gives a text away


@pytest.mark.parametrize(
    "tells",
    [
        f"export KEY={TOKEN}",
        json.dumps({"key": f'a "{TOKEN}"'}),
        base64.b64encode(b"x" + TOKEN.encode() + b"yz").decode(),
        base64.urlsafe_b64encode(b"??>" + TOKEN.encode()).decode(),
        TOKEN.encode().hex(),
        TOKEN.encode().hex().upper(),
        hashlib.sha256(TOKEN.encode()).hexdigest(),
        hashlib.sha256(TOKEN.encode() + b"\n").hexdigest(),
        hashlib.md5(TOKEN.encode()).hexdigest(),
        hashlib.sha384(TOKEN.encode()).hexdigest().upper(),
        base64.urlsafe_b64encode(hashlib.sha256(TOKEN.encode()).digest()).decode(),
        f"in other letters: {TOKEN.swapcase()}",
        "".join(f"\\u{ord(char):04X}" for char in TOKEN),
        "".join(f"\\x{ord(char):02x}" for char in TOKEN),
        "".join(f"%{ord(char):02X}" for char in TOKEN),
        "".join(f"&#{ord(char)};" for char in TOKEN),
        "".join(f"&#x{ord(char):X};" for char in TOKEN),
        TOKEN.encode().hex(" "),
        TOKEN.encode().hex(":").upper(),
        base64.b32encode(TOKEN.encode()).decode(),
        base64.b85encode(TOKEN.encode() + b"more").decode(),
        base64.a85encode(TOKEN.encode()).decode(),
        f"a title that breaks off: {TOKEN[:15]}…",
        f"cut off here {TOKEN[:14]}",
        f"shortened {TOKEN[:13]}... and on",
    ],
)
def test_what_would_give_a_secret_away_is_withheld_with_it(tells):
    trail = trail_of("nothing", tells, f"the key is {TOKEN}", ("COMMAND_RUN", ("echo",), {"note": "fine"}))
    done = redact(trail, texts=(TOKEN,))
    assert (done.chosen, done.traces) == (1 + (TOKEN in tells), 0 + (TOKEN not in tells))
    check_removed(trail, done, TOKEN)
    assert {"nothing", "echo", "fine"} <= set(revealed(done.data))
    assert redact(trail, texts=(TOKEN,), is_exact=True).left == (TOKEN not in tells)


@pytest.mark.parametrize(
    "text", ['say "hi"\nand\tgo', "Ünïcode ≠ ascii", "a\\b\\c and more", "<b>bold & brave</b>", "one\n\n  two   words"]
)
def test_traces_of_texts_that_are_escaped(text):
    import html
    import urllib.parse

    forms = [json.dumps(text), json.dumps(json.dumps(text)), json.dumps(text, ensure_ascii=False), " ".join(text.split()),
             urllib.parse.quote(text), urllib.parse.quote_plus(text), html.escape(text)]  # fmt: skip
    trail = trail_of(text, *(f"[{number}] {form}" for number, form in enumerate(forms)), "innocent")
    done = redact(trail, texts=(text,))
    assert {value for value in revealed(done.data) if isinstance(value, str)} >= {"innocent"}
    assert not any(isinstance(value, str) and value.startswith("[") for value in revealed(done.data))


@given(st.text(min_size=1, max_size=40), st.text(max_size=10), st.text(max_size=10), st.integers(0, 5))
@settings(max_examples=200, deadline=None)
def test_what_holds_a_text_has_a_trace_of_it(text, before, after, how):
    data = text.encode("utf-8", "surrogatepass")
    held = [
        text, json.dumps(text), data.hex(), base64.b64encode(before.encode("utf-8", "surrogatepass") + data + after.encode("utf-8", "surrogatepass")).decode(),
        hashlib.sha256(data).hexdigest(), " ".join(text.split()),
    ][how]  # fmt: skip
    if not text.strip() or (how in (2, 3) and len(data) < 10):
        return
    whole = held if how == 3 else before + held + after
    assert Traces([text], [whole]).are_in(whole)
    assert Traces([text], []).are_in_content(whole)


def test_no_trace_where_there_is_none():
    traces = Traces(
        ["src/auth.py", "Please run the tests of the engine"], ["src/", "Please run the tests of the house"]
    )
    for text in ("src/", "auth.py", "Please run the tests of the house", "", "engine"):
        assert not traces.are_in(text)


# Digests, long texts, header


def test_digests_by_which_a_guess_could_be_checked():
    content, other = f"key={TOKEN}\n", "nothing in here"
    trail = trail_of(
        ("FILE_WRITE", ("a.txt", sha(content)), {}),
        ("FILE_WRITE", ("b.txt", sha(other)), {}),
        ("FILE_WRITE", ("c.txt", sha(TOKEN)), {}),
        ("COMMAND_RUN", (f"login {TOKEN}",), {"result": sha("welcome"), "result_size": 7}),
        ("COMMAND_RUN", ("make",), {"result": sha("made"), "result_size": 4}),
        source=sha("the source"),
        base=Digest("git-sha1", bytes(20)),
        parents=(sha("parent"),),
    )
    objects = {sha(text).value: text.encode() for text in (content, other)}
    done = redact(trail, objects, texts=(TOKEN,))
    left = [value for value in revealed(done.data) if isinstance(value, Digest)]
    assert left == [sha(other), sha("made"), Digest("git-sha1", bytes(20)), sha("parent")]
    assert (done.chosen, done.digests, done.unchecked) == (1, 4, 1)
    done = redact(trail, objects, texts=(TOKEN,), digests=True)
    assert sha("made") not in revealed(done.data)
    assert sha("parent") in revealed(done.data)
    assert done.unchecked == 0


def test_a_long_text_is_looked_at_or_withheld():
    trail = trail_of(LONG_TEXT.decode(), "short", title="a title")
    held = {hashlib.sha256(LONG_TEXT).digest(): LONG_TEXT}
    assert redact(trail, held, texts=("short",)).unread == 0
    done = redact(trail, {}, texts=("short",))
    assert (done.unread, done.traces) == (1, 1)
    assert not any(isinstance(value, TextObject) for value in revealed(done.data))
    done = redact(trail, held, texts=("of a long",))
    assert done.chosen == 1
    assert hashlib.sha256(LONG_TEXT).digest() not in done.data
    assert "short" in revealed(done.data)


def test_header_and_errors():
    trail = golden_trail()
    done = redact(trail, header=frozenset({"title", "parents", "base", "agent"}))
    header = TrailReader(done.data).header
    assert all(isinstance(value, Withheld) for value in (header.title, header.base, header.agent, *header.parents))
    assert header.host == "host-1"
    check_removed(trail, done, "Hash passwords")
    assert not any(isinstance(value, str) and "Hash passwords" in value for value in revealed(done.data))
    done = redact(trail, texts=("1 failed",))
    assert isinstance(list(TrailReader(done.data).steps())[13].error, Withheld)


def test_by_path_step_pattern_and_secrets():
    trail = golden_trail()
    done = redact(trail, globs=("auth.py",))
    shown = list(TrailReader(done.data).steps())
    for index in (3, 4, 7):
        assert not any(
            isinstance(value, (str, Digest))
            for value in (*shown[index].operands, shown[index].error, shown[index].result)
        )
    assert not any(isinstance(value, str) and "auth.py" in value and "src" in value for value in revealed(done.data))
    done = redact(trail, patterns=(r"v\d", "h..t-[0-9]"))
    assert isinstance(TrailReader(done.data).header.host, Withheld)
    assert done.chosen == 1
    done = redact(trail_of(f"the key is {TOKEN}", f'{{"k":"{TOKEN}"}}', "fine"), secrets=True)
    assert done.chosen == 2
    assert "fine" in revealed(done.data)
    assert redact(trail, secrets=True).chosen == 0
    done = redact(trail, steps=frozenset({20}), is_exact=True)
    assert (done.chosen, done.traces, done.digests) == (1, 0, 0)


def test_what_was_withheld_stays_withheld():
    once = redact(golden_trail(), texts=("tests/test_auth.py",))
    again = redact(once.data, texts=("worktree-2",))
    assert (again.before, again.chosen) == (once.chosen + once.traces + once.digests, 1)
    assert set(revealed(again.data)) < set(revealed(once.data))
    assert redact(once.data, texts=("tests/test_auth.py",)).chosen == 0


def test_a_concatenation_is_redacted_in_all_its_parts():
    first, second = trail_of(f"one {TOKEN}", "here"), trail_of(f"two {TOKEN}", "there", title="second")
    whole = sign(concat([first, second]), b"s" * 32)
    done = redact(whole, texts=(TOKEN,))
    check_removed(whole, done, TOKEN)
    assert done.chosen == 2
    assert verify(done.data).digest == verify(whole).digest
    done = redact(whole, steps=frozenset({1}), part=2)
    assert "there" not in revealed(done.data)
    assert "here" in revealed(done.data)
    with pytest.raises(UsageError, match="2 parts"):
        redact(whole, steps=frozenset({1}))
    with pytest.raises(NotFoundError, match="no part 3"):
        redact(whole, steps=frozenset({1}), part=3)
    with pytest.raises(NotFoundError, match="no step 2"):
        redact(whole, steps=frozenset({2}), part=1)


@pytest.mark.slow
@given(headers, st.lists(steps(), min_size=1, max_size=5), st.data())
@settings(max_examples=50, deadline=None)
def test_any_text_of_any_trail(header, trail_steps, data):
    whole = encode(header, trail_steps, "success", SECRET)
    texts = [value for value in strings_of(whole) if isinstance(value, str) and value.strip()]
    if not texts:
        return
    text = data.draw(st.sampled_from(texts))
    done = redact(whole, texts=(text,))
    check_removed(whole, done, text)
    assert done.data == redact(whole, texts=(text,)).data


def test_a_trail_that_lies_is_not_redacted():
    from trail_samples import with_sections

    receipts = TrailReader(golden_trail()).section(6)
    with pytest.raises(PeriplusError, match="does not match its digest"):
        redact_trail(with_sections(golden_trail(), {6: receipts[:-32] + bytes(32)}), RedactionRequest(texts=("done",)))


# Expressions of people


def test_an_expression_finds_its_texts_and_a_wrong_one_is_refused():
    assert find_matches(r"\d+", ["a1b22", "c", "22"]) == {0: ("1", "22"), 2: ("22",)}
    assert find_matches("x*", ["y"]) == {}
    assert find_matches("é|\udcff", ["é\udcff"]) == {0: ("é", "\udcff")}
    for wrong in ("(", "[", "a{99999999999999999999}", "", "x" * 1001, "(?P<n>a)(?P<n>b)"):
        with pytest.raises(UsageError, match="pattern"):
            find_matches(wrong, ["a"])
    with pytest.raises(UsageError, match="more than 10,000"):
        find_matches(r"\d+", [" ".join(map(str, range(10_002)))])


@pytest.mark.parametrize("expression", ["(a+)+$", "(a|a)*b", "(.*a){25}b", r"^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_no_expression_takes_for_ever(expression):
    begun = time.monotonic()
    with pytest.raises(RefusedError, match="still searching"):
        find_matches(expression, ["a" * 5000 + "!"], seconds=0.5)
    assert time.monotonic() - begun < 20


@pytest.mark.slow
def test_a_search_that_eats_memory_ends():
    with pytest.raises((RefusedError, UsageError), match="pattern"):
        find_matches("((.?){4000}){4000}", ["a" * 2000], seconds=1)
