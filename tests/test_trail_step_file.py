"""The proof of a step as a file: what holds, what does not and why, and what it gives away."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.base.encoding.container import KIND_PROOF, pack, unpack
from periplus.base.encoding.varint import uint_bytes
from periplus.base.errors import NotFoundError, UsageError
from periplus.trail import (
    Digest,
    Header,
    TrailReader,
    Withheld,
    encode,
    is_step_proof,
    pack_step_proof,
    sign,
    verify_step_proof,
    withhold,
)
from periplus.trail.integrity.step_proof_file import HEADER_NAMES, STEP_PROOF_BYTES_MAX
from trail_samples import SECRET, golden_trail, headers, small_trail, statuses, steps

SIGNED = sign(golden_trail(), b"k" * 32)
KEY = TrailReader(SIGNED).signature[:32]


def sections_of(data):
    return {tag: data[start:end] for tag, (start, end) in unpack(data, KIND_PROOF).items()}


def changed(data, **sections):
    return pack(KIND_PROOF, sections_of(data) | {int(tag[1:]): content for tag, content in sections.items()})


def bare(step):
    """The step without what a proof does not speak of: its times and its source."""
    return step._replace(delta_ms=0, duration_ms=None, source=None)


@pytest.mark.slow
@given(headers, st.lists(steps(), min_size=1, max_size=6), statuses, st.data())
@settings(max_examples=60, deadline=None)
def test_every_step_of_any_trail_can_be_proved(header, trail_steps, status, data):
    whole = encode(header, trail_steps, status, SECRET)
    index = data.draw(st.integers(0, len(trail_steps) - 1))
    for trail in (whole, sign(whole, b"k" * 32)):
        reader = TrailReader(trail)
        proof = pack_step_proof(reader, index)
        verdict = verify_step_proof(
            proof, digest=reader.digest, key=reader.signature[:32] if reader.signature else None
        )
        assert verdict.holds, verdict.reason
        given_step = list(reader.steps())[index]
        operands = list(given_step.operands)
        while operands and operands[-1] is None:
            operands.pop()
        assert verdict.step == bare(given_step)._replace(operands=tuple(operands))
        told = dict(verdict.header)
        assert (told["agent"], told.get("title"), told.get("source")) == (header.agent, header.title, header.source)
        assert verdict.statement.status == status
        assert pack_step_proof(reader, index) == proof


@pytest.mark.slow
def test_no_one_bit_change_holds():
    """Neither as it is, nor with the container's digest made right: what is said is bound, all of it."""
    reader = TrailReader(SIGNED)
    for index in (13, 31):
        proof = pack_step_proof(reader, index)
        for at in range(len(proof)):
            for bit in (1, 0x80) if at % 8 else (1, 2, 4, 8, 16, 32, 64, 128):
                flipped = bytearray(proof)
                flipped[at] ^= bit
                verdict = verify_step_proof(bytes(flipped))
                assert not verdict.holds
                assert verdict.reason
                if at == 4 or at >= len(proof) - 34:
                    continue  # the version of the container, which a later one may have, and the digest itself
                sealed = bytes(flipped[:-32]) + hashlib.sha256(flipped[:-32]).digest()
                verdict = verify_step_proof(sealed)
                assert not verdict.holds, f"byte {at}, bit {bit}"
                assert verdict.reason


@given(st.binary(max_size=200), st.integers(1, 7))
@settings(max_examples=200, deadline=None)
def test_any_section_of_any_bytes_is_answered(content, tag):
    proof = pack_step_proof(TrailReader(SIGNED), 13)
    verdict = verify_step_proof(changed(proof, **{f"s{tag}": content}))
    assert not verdict.holds
    assert verdict.reason


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_answered(data):
    for one in (data, b"PPLS\x02\x03" + data, pack(KIND_PROOF, {1: data})):
        assert not verify_step_proof(one).holds


def test_what_is_larger_than_any_proof_is_not_looked_into():
    verdict = verify_step_proof(bytes(STEP_PROOF_BYTES_MAX + 1))
    assert (verdict.holds, verdict.reason) == (
        False,
        "it has 1,048,577 bytes, and no proof of a step has over 1,048,576",
    )


def test_every_truncation_is_refused():
    proof = pack_step_proof(TrailReader(SIGNED), 2)
    for end in range(len(proof)):
        assert not verify_step_proof(proof[:end]).holds


def test_why_it_does_not_hold():
    proof = pack_step_proof(TrailReader(SIGNED), 13)
    other = pack_step_proof(TrailReader(SIGNED), 14)
    small = pack_step_proof(TrailReader(small_trail()), 1)
    parts, others = sections_of(proof), sections_of(other)

    def reason(data, **asked):
        verdict = verify_step_proof(data, **asked)
        assert not verdict.holds
        return verdict.reason

    assert "not number 13 of the 35" in reason(changed(proof, s3=others[3]))
    assert "not number 13 of the 35" in reason(changed(proof, s2=others[2], s5=others[5]))
    assert "not number 14 of the 35" in reason(changed(proof, s1=others[1]))
    assert "another number of strings" in reason(changed(proof, s5=b"\0"))
    assert "string of the step" in reason(changed(proof, s5=parts[5].replace(b"1 failed", b"0 failed")))
    assert "string of the header" in reason(changed(proof, s6=parts[6].replace(b"agent-1", b"agent-2")))
    assert "trail digest" in reason(changed(proof, s1=parts[1].replace(b"partial", b"success")))
    assert "trail digest" in reason(changed(proof, s4=sections_of(small)[4], s6=sections_of(small)[6]))
    assert "signature" in reason(changed(proof, s7=parts[7][:32] + bytes(64) + parts[7][96:]))
    assert "its sections" in reason(pack(KIND_PROOF, {tag: parts[tag] for tag in parts if tag != 3}))
    assert "its sections" in reason(changed(proof, s9=b"more"))
    assert "its statement" in reason(changed(proof, s1=b'{"kind":"trail-step"}'))
    assert "impossible step number" in reason(changed(proof, s1=parts[1].replace(b'"step":13', b'"step":99')))
    assert "another trail" in reason(proof, digest=b"\1" * 32)
    assert "not by" in reason(proof, key=b"\1" * 32)
    assert "unsigned trail" in reason(small, key=KEY)
    assert verify_step_proof(proof, digest=TrailReader(SIGNED).digest, key=KEY).holds


def test_a_forged_step_in_a_tree_of_its_own_has_another_digest():
    forged = encode(Header("a", "t"), [next(iter(TrailReader(golden_trail()).steps()))], "success", SECRET)
    proof = pack_step_proof(TrailReader(forged), 0)
    assert verify_step_proof(proof).holds
    assert not verify_step_proof(proof, digest=TrailReader(SIGNED).digest).holds
    assert not verify_step_proof(proof, key=KEY).holds


def test_what_is_withheld_is_nowhere_in_the_file():
    reader = TrailReader(SIGNED)
    proof = pack_step_proof(reader, 13, withheld=("target", "error"), header_shown=("agent",))
    verdict = verify_step_proof(proof, digest=reader.digest, key=KEY)
    assert verdict.holds
    assert isinstance(verdict.step.operands[0], Withheld)
    assert (verdict.step.operands[1], verdict.step.exit_code, verdict.step.outcome) == (3, 1, "failed")
    assert isinstance(verdict.step.error, Withheld)
    assert [name for name, value in verdict.header if not isinstance(value, Withheld)] == ["agent"]
    for text in (b"test_auth", b"1 failed", b"run-1", b"host-1", b"Hash passwords", SECRET):
        assert text not in proof
    whole = pack_step_proof(reader, 13)
    assert SECRET not in whole
    assert b"Hash passwords" in whole
    assert verify_step_proof(whole).step.error == "1 failed"


def test_a_string_that_stands_twice_is_withheld_twice():
    builder_steps = [step._replace(note=step.operands[0]) for step in list(TrailReader(small_trail()).steps())[:1]]
    whole = encode(Header("a", "t", title="fix it"), builder_steps, "success", SECRET)
    proof = pack_step_proof(TrailReader(whole), 0, withheld=("text",), header_shown=HEADER_NAMES)
    assert b"fix it" not in proof
    assert verify_step_proof(proof).holds


def test_of_a_redacted_trail_what_it_tells_is_proved():
    redacted = withhold(SIGNED, lambda _, value: value in ("1 failed", "agent-1"))
    verdict = verify_step_proof(pack_step_proof(TrailReader(redacted), 13), digest=TrailReader(SIGNED).digest, key=KEY)
    assert verdict.holds
    assert isinstance(verdict.step.error, Withheld)
    assert isinstance(dict(verdict.header)["agent"], Withheld)
    assert verdict.step.operands[0] == "tests/test_auth.py"


def test_names_that_the_step_does_not_have():
    reader = TrailReader(SIGNED)
    with pytest.raises(UsageError, match="nothing called 'path'"):
        pack_step_proof(reader, 13, withheld=("path",))
    with pytest.raises(NotFoundError, match="no step 35"):
        pack_step_proof(reader, 35)


def test_hostile_openings_cannot_be_believed():
    """What a stranger's own trail could commit to: nothing but the values that trails hold."""
    for form, content in [
        (0, b"\xff"),
        (0, b"x" * 4097),
        (1, b"x" * 39),
        (2, b""),
        (2, b"\x09" + bytes(32)),
        (2, b"\x01" + bytes(31)),
    ]:
        salt = bytes(32)
        commitment = hashlib.sha256(salt + bytes((form,)) + content).digest()
        leaf = b"\0PPLT\xab\x00\x01\x01" + commitment
        opening = b"\1" + salt + bytes((form,)) + uint_bytes(len(content)) + content
        root = hashlib.sha256(leaf).digest()
        header = b"\x02" + bytes(128) + b"\0\0"
        digest = hashlib.sha256(b"PPLS/trail/2\0" + header + b"\x01" + root + bytes(32) + b"\0").hexdigest()
        statement = (
            f'{{"digest":"{digest}","format":1,"kind":"trail-step","receipt":"{"0" * 64}","root":"{root.hex()}"'
            ',"status":"success","step":0,"steps":1}'
        )
        data = pack(KIND_PROOF, {1: statement.encode(), 2: leaf, 3: b"", 4: header, 5: opening, 6: b"\0" * 4})
        verdict = verify_step_proof(data)
        assert not verdict.holds
        assert "a string of it" in verdict.reason


def test_which_files_are_proofs_of_steps():
    proof = pack_step_proof(TrailReader(SIGNED), 0)
    assert is_step_proof(proof)
    assert is_step_proof(changed(proof, s1=b'{"kind":"trail-step"'))
    for data in (
        b"",
        SIGNED,
        proof[:6],
        proof[:8],
        pack(KIND_PROOF, {1: b'{"kind":"head"}', 2: b'"kind":"trail-step"'}),
    ):
        assert not is_step_proof(data)
    assert isinstance(verify_step_proof(proof).header[5].value, (str, Digest))
