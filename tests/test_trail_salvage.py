"""Salvaging: of a trail cut off or changed anywhere, what is given back can be read, verifies, and is a prefix."""

import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_support import Shell, claude_session
from periplus.base.encoding.container import unpack
from periplus.base.errors import FormatError, NewerFormatError
from periplus.trail import (
    Digest,
    Header,
    Parts,
    TextObject,
    TrailReader,
    concat,
    encode,
    open_parts,
    salvage,
    sign,
    verify,
    withhold,
)
from periplus.trail.format import layout
from periplus.trail.format.identity import step_leaves
from trail_samples import (
    SECRET,
    golden_trail,
    headers,
    sealed,
    sections_of,
    small_trail,
    statuses,
    steps,
    with_sections,
)

pytestmark = pytest.mark.quick

KEY = bytes(range(60, 92))
EXHAUSTIVE = bool(os.environ.get("PERIPLUS_EXHAUSTIVE"))


def leaves(reader):
    data = reader.to_bytes()
    return list(step_leaves(data, *reader.span(layout.TAG_STEPS), reader.commitments()))


def without_times(step):
    return step._replace(delta_ms=0, duration_ms=None, source=None)


def salvaged(data):
    try:
        return salvage(data)
    except (FormatError, NewerFormatError) as error:
        if error.offset is None or not 0 <= error.offset <= len(data):
            raise AssertionError("an error without a place") from error
        return None


def kept_of(data):
    """What is left of ``data``: None for nothing; checked to be a trail whose last step tells."""
    found = salvaged(data)
    if found is None:
        return None
    report = verify(found.data)
    assert report.ok, report
    reader = TrailReader(found.data)
    if found.lost:
        *_, last = reader.steps()
        assert last.operands[0].startswith("Salvaged from a damaged trail of")
        assert reader.status == "partial"
        assert found.wrong
        assert 0 <= found.offset <= len(data)
    return found


@pytest.mark.parametrize(
    "make", [small_trail, golden_trail, lambda: sign(withhold(golden_trail(), lambda index, _: index % 3 == 0), KEY)]
)
def test_every_truncation_gives_a_prefix(make):
    data = make()
    whole = TrailReader(data)
    all_steps, all_leaves = list(whole.steps()), leaves(whole)
    spans = {tag: whole.span(tag) for tag in whole.sections()}
    best = 0
    for length in range(0, len(data), 1 if EXHAUSTIVE else 1 + len(data) // 300):
        found = kept_of(data[:length])
        if found is None:
            assert length < spans[layout.TAG_STEPS][0]
            continue
        assert found.lost
        assert found.is_exact == (length <= spans[layout.TAG_RECEIPTS][1] - 1), length
        reader = TrailReader(found.data)
        kept = list(reader.steps())[:-1]
        if length <= spans[layout.TAG_STEPS][0]:
            texts = [
                value for at in range(len(whole.strings)) if isinstance(value := whole.string(at), str | TextObject)
            ]
            assert [step.operands[0] for step in kept] == texts[: len(kept)]
            continue
        assert [without_times(step) for step in kept] == [without_times(step) for step in all_steps[: len(kept)]]
        assert leaves(reader)[:-1] == all_leaves[: len(kept)]
        assert len(kept) >= best, "more bytes, fewer steps"
        best = len(kept)
        if length >= spans[layout.TAG_TIMES][1]:
            assert [step.delta_ms for step in kept] == [step.delta_ms for step in all_steps]
            assert reader.header.agent == whole.header.agent
        if length >= spans[layout.TAG_RECEIPTS][1]:
            assert reader.header.parents[0] == Digest("sha256", whole.digest)
        if length > spans[layout.TAG_RECEIPTS][0] and layout.TAG_SOURCES in spans:
            assert [step.source for step in kept] == [step.source for step in all_steps]
    assert best == whole.step_count
    assert kept_of(data[:-1]).lost


def test_a_sound_trail_comes_back_as_it_is():
    for data in (small_trail(), sign(golden_trail(), KEY), concat([small_trail(), golden_trail()])):
        found = salvage(data)
        assert (found.data, found.lost, found.offset, found.is_exact) == (data, (), None, True)


@pytest.mark.parametrize("make", [small_trail, golden_trail])
def test_every_changed_byte_leaves_a_trail_or_a_clear_error(make):
    data = make()
    steps_start = unpack(data, 1)[layout.TAG_STEPS][0]
    kept, tried = [], 0
    for place in range(0, len(data), 1 if EXHAUSTIVE else 1 + len(data) // 300):
        changed = data[:place] + bytes((data[place] ^ 1 << place % 8,)) + data[place + 1 :]
        found = kept_of(changed)
        tried += 1
        assert found is None or found.lost
        if found is not None:
            assert not found.is_exact
            kept.append(TrailReader(found.data).step_count - 1)
            if steps_start <= place:
                assert not any("strings" in one for one in found.lost)
    count = TrailReader(data).step_count
    assert len(kept) > 0.85 * tried
    assert sum(one >= count for one in kept) > tried // 2


def test_a_wrong_digest_alone_loses_no_step():
    receipts = bytearray(sections_of(golden_trail())[layout.TAG_RECEIPTS])
    receipts[70] ^= 1
    found = kept_of(with_sections(golden_trail(), {layout.TAG_RECEIPTS: receipts}))
    assert "does not match its digest" in found.wrong
    reader = TrailReader(found.data)
    assert reader.step_count == TrailReader(golden_trail()).step_count + 1
    assert list(reader.steps())[:-1] == list(TrailReader(golden_trail()).steps())


@pytest.mark.slow
@given(headers, st.lists(steps(), min_size=1, max_size=5), statuses, st.data())
@settings(max_examples=150, deadline=None)
def test_any_damage_to_any_trail(header, trail_steps, status, data):
    whole = encode(header, trail_steps, status, SECRET)
    if data.draw(st.booleans()):
        hidden = data.draw(st.sets(st.integers(0, len(TrailReader(whole).strings) - 1)))
        whole = withhold(whole, lambda index, _: index in hidden)
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 20)))
    piece = data.draw(st.binary(max_size=20))
    changed = whole[:start] + piece + whole[end:]
    if data.draw(st.booleans()) and len(changed) > 40:
        changed = sealed(changed)
    kept_of(changed)


@given(st.binary(max_size=400))
def test_garbage_is_no_trail(garbage):
    for data in (garbage, b"PPLS\2\1" + garbage, b"PPLS\2\1\1" + garbage, b"PPLS\2\4\1" + garbage):
        found = salvaged(data)
        assert found is None or verify(found.data).ok


def test_a_newer_trail_is_not_damaged():
    with pytest.raises(NewerFormatError):
        salvage(sealed(golden_trail()[:4] + b"\3" + golden_trail()[5:]))


def test_parts_of_a_concatenation_are_kept():
    files = [small_trail(), golden_trail(), small_trail()]
    whole = sign(concat(files), KEY)
    parts = Parts(whole)
    for length in range(0, len(whole), 7 if EXHAUSTIVE else 41):
        try:
            found = salvage(whole[:length])
        except FormatError:
            assert length < parts.offset(0) + len(files[0])
            continue
        readers = open_parts(found.data)
        whole_ones = sum(parts.offset(at) + len(files[at]) <= length for at in range(3))
        assert [reader.to_bytes() for reader in readers[:whole_ones]] == files[:whole_ones]
        assert verify(found.data).ok
        assert any("signature" in one for one in found.lost)
        if whole_ones < 2:
            assert any("parts" in one or "part 3" in one for one in found.lost)
    place = parts.offset(1) + 600
    changed = whole[:place] + bytes((whole[place] ^ 4,)) + whole[place + 1 :]
    readers = open_parts(salvage(changed).data)
    assert [reader.to_bytes() == file for reader, file in zip(readers, files, strict=True)] == [True, False, True]
    wrong = bytearray(whole)
    wrong[-40] ^= 1  # in its signature alone
    assert [reader.to_bytes() for reader in open_parts(salvage(bytes(wrong)).data)] == files


def test_the_comment_has_room_for_what_is_said():
    chance = random.Random(4)
    data = bytearray(golden_trail())
    for _ in range(40):
        data[chance.randrange(6, len(data))] ^= 1 << chance.randrange(8)
    kept_of(bytes(data))


# The command line


@pytest.fixture
def sh(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    shell = Shell(tmp_path / "project", tmp_path / "home")
    (shell.folder / "whole.trail").write_bytes(golden_trail())
    (shell.folder / "cut.trail").write_bytes(golden_trail()[: TrailReader(golden_trail()).span(layout.TAG_TIMES)[0]])
    return shell


def test_show_lists_what_is_still_good(sh):
    sh.fails("trail", "show", "cut.trail", code=3, wrong="cut off")
    done = sh("trail", "show", "cut.trail", "--form", "compact", "--salvage", code=3)
    whole = sh("trail", "show", "whole.trail", "--form", "compact").lines
    assert done.lines[:-1] == whole
    assert "Salvaged from a damaged trail" in done.lines[-1]
    assert "Lost: the times of 35 steps" in done.err
    assert sh("trail", "show", "whole.trail", "--form", "compact", "--salvage").lines == whole


def test_verify_writes_what_is_still_good(sh):
    done = sh.json("trail", "verify", "cut.trail", "--salvage", "kept.trail", code=3)
    assert (done.ok, done.salvage.steps, done.salvage.exact) == (False, 36, True)
    kept = (sh.folder / "kept.trail").read_bytes()
    assert TrailReader(kept).digest.hex() == done.salvage.digest
    assert "Wrote the intact part" in sh("trail", "verify", "cut.trail", "--salvage", "again.trail", code=3).out
    assert (sh.folder / "again.trail").read_bytes() == kept, "the same every time"
    assert "verified" in sh("trail", "verify", "kept.trail").out
    assert sh.json("trail", "verify", "whole.trail", "--salvage", "none.trail").salvage is None
    assert not (sh.folder / "none.trail").exists()


def test_salvage_of_the_wrong_thing_writes_nothing(sh):
    (sh.folder / "words").write_text("no trail at all")
    sh.fails("trail", "show", "words", "--salvage", code=2, wrong="not a trail of Periplus")
    sh.fails("trail", "verify", "cut.trail", "whole.trail", "--salvage", "x", code=2, wrong="one TRAIL")
    sh.fails(
        "trail", "verify", "cut.trail", "--salvage", "cut.trail", code=2, wrong="this would overwrite the damaged file"
    )
    sh.fails("trail", "verify", "cut.trail", "--salvage", "no/where", code=2, wrong="no folder")
    (sh.folder / "stub.trail").write_bytes(golden_trail()[:20])
    sh.fails("trail", "verify", "stub.trail", "--salvage", "x", code=3, wrong="nothing of a trail is left")
    assert not (sh.folder / "x").exists()
    assert (sh.folder / "cut.trail").read_bytes() == golden_trail()[: len((sh.folder / "cut.trail").read_bytes())]


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_trail_of_the_store_whose_object_is_damaged(sh, damage):
    sh("init")
    sh("trail", "import", claude_session(sh.folder / "one.jsonl", steps=60))
    card = sh.json("trail", "list").trails[0]
    (path,) = (sh.folder / ".periplus" / "objects").glob(f"*/{card.value['object'][2:]}.t")
    data = bytearray(path.read_bytes())
    path.chmod(0o644)
    if damage == "changed":
        data[len(data) * 19 // 20] ^= 0x55
    path.write_bytes(data[: len(data) * 19 // 20] if damage == "cut" else data)
    sh.fails("trail", "show", card.id, code=3, wrong=path.name)
    assert "make cog3" in sh("trail", "show", card.id, "--salvage", code=3).out
    done = sh.json("trail", "verify", card.id, "--salvage", "kept.trail", code=3)
    assert done.salvage.steps > 10
    assert verify((sh.folder / "kept.trail").read_bytes()).ok


def test_parents_are_looked_for_in_the_store(sh):
    sh("init")
    sh("trail", "import", claude_session(sh.folder / "one.jsonl"))
    card = sh.json("trail", "list").trails[0].value
    parent = Digest("sha256", bytes.fromhex(card["digest"]))
    for name, parents in (("known", (parent,)), ("unknown", (parent, Digest("sha256", bytes(32))))):
        data = encode(Header("a", "t", parents=parents), [], "success", SECRET)
        (sh.folder / f"{name}.trail").write_bytes(data)
    (check,) = (one for one in sh.json("trail", "verify", "known.trail").trails[0].checks if one.name == "parents")
    assert (check.verdict, check.detail) == ("ok", "1 parent, each with a matching digest")
    (check,) = (one for one in sh.json("trail", "verify", "unknown.trail").trails[0].checks if one.name == "parents")
    assert (check.verdict, check.detail) == ("warning", "2 parents, 1 not at hand")
