"""A text that is to be taken out is found in every spelling that writers of JSON give it."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cli_support import Shell
from periplus.journal.care.text_removal import MASK, SECRET_BYTES_MIN, Needle

pytestmark = pytest.mark.quick

_CHARACTERS = "aB3- \"\\/<>&'+`=\n\tüß漢🙂é\x7f\x01"


def spelled(text: str, choose) -> str:
    """``text`` as it may stand between the quotes of a JSON string; ``choose`` decides between the ways there are."""
    parts = []
    for one in text:
        units = one.encode("utf-16-be")
        code = "".join(f"\\u{int.from_bytes(units[at : at + 2], 'big'):04x}" for at in range(0, len(units), 2))
        ways = {"\\": ["\\\\"], '"': ['\\"', code], "/": ["/", "\\/", code], "\n": ["\\n", code], "\t": ["\\t", code]}
        parts.append(choose(ways.get(one) or ([one, code, code.upper().replace("\\U", "\\u")] if one in _CHARACTERS[6:] else [one])
                            if one >= " " else ways.get(one, [code])))  # fmt: skip
    assert json.loads('"' + "".join(parts) + '"') == text
    return "".join(parts)


@given(st.text(_CHARACTERS, min_size=1, max_size=9), st.integers(0, 3), st.randoms())
@example("Grüße-7712", 1, None)
def test_every_spelling_is_found_and_masked(secret, layers, chance):
    secret = f"{secret}x!"  # long enough, and no spaces at its end
    if len(secret.encode()) < SECRET_BYTES_MIN:
        return
    needle, text = Needle(secret), secret
    for _ in range(layers):
        text = spelled(text, chance.choice if chance else lambda ways: ways[-1])
    text = f"before {text} after"
    assert needle.is_in(text.encode())
    masked = needle.masked_text(text)
    assert not needle.is_in(masked.encode())
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    assert MASK in masked
    blotted = needle.blotted(text.encode())
    assert len(blotted) == len(text.encode())
    assert not needle.is_in(blotted)


@pytest.mark.parametrize("written", [r"Gr\u00fc\u00dfe-7712", "Grüße-7712", r"Gr\u00FC\u00DFe-7712"])
def test_a_migrated_file_that_spells_it_otherwise(tmp_path, written):
    (tmp_path / "old/lessons").mkdir(parents=True)
    (tmp_path / "old/lessons/L-5.json").write_text(f'{{"id": "L-5", "text": "login with {written} please"}}')
    (tmp_path / "shop").mkdir()
    shell = Shell(tmp_path / "shop", tmp_path / "home")
    shell("init")
    shell("migrate", "--from", "../old", "--to", "dual")
    done = shell("redact", "--secret-file", "-", "--reason", "pasted", stdin="Grüße-7712")
    store = shell.folder / ".periplus"
    told = [path for path in store.rglob("*") if path.is_file() and b"-7712" in path.read_bytes()]
    assert all(os.path.relpath(path, store).split(os.sep)[0] in ("archive", "migration") for path in told), told
    assert "archive" in done.out or not told
    assert b"-7712" not in (tmp_path / "old/lessons/L-5.json").read_bytes()
    assert json.loads((tmp_path / "old/lessons/L-5.json").read_text())["text"] == f"login with {MASK} please"
    assert "sound" in shell("doctor").out


def test_three_characters_of_another_script_are_long_enough(tmp_path):
    (tmp_path / "shop").mkdir()
    shell = Shell(tmp_path / "shop", tmp_path / "home")
    shell("init")
    shell("remember", "合言葉は 山川海 です", "--type", "note")
    shell("redact", "--secret-file", "-", "--reason", "pasted", stdin="山川海")
    assert "山川海" not in shell("recall", "合言葉").out
    assert MASK in shell("recall", "合言葉").out
