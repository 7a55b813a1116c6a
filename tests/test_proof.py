"""Proofs leave the store: whoever has the file and the key can check it, and every changed bit is noticed."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from periplus.base.container import KIND_PROOF, pack, unpack
from periplus.base.errors import NotFoundError
from periplus.journal.keys import public_key
from periplus.journal.proof import prove_consistency, prove_record, verify_proof
from support import WRITER, item, make_store, open_journal


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proofs")
    with open_journal(make_store(folder)) as journal:
        for number in range(13):
            journal.mutate(lambda t, n=number: t.put("decision", item(n), {"text": f"number {n}"}), WRITER)
        key = public_key(journal.layout, journal.lineage)
        inclusion = [prove_record(journal, seq) for seq in range(1, 14)]
        growth = [prove_consistency(journal, first, second) for second in (7, 13) for first in range(1, second + 1)]
        with pytest.raises(NotFoundError):
            prove_record(journal, 14)
        with pytest.raises(NotFoundError):
            prove_record(journal, 0)
        with pytest.raises(NotFoundError):
            prove_consistency(journal, 9, 7)
    shutil.rmtree(folder)
    return key, inclusion, growth


def test_every_record_and_growth_is_proved_without_the_store(made):
    key, inclusion, growth = made
    for seq, data in enumerate(inclusion, 1):
        verdict = verify_proof(data, key=key)
        assert verdict.holds, verdict.reason
        assert verdict.signer.startswith("key ")
        assert verdict.statement.seq == seq
        assert f'"number {seq - 1}"'.encode() in verdict.line
    assert all(verify_proof(data, key=key).holds for data in growth)


def test_without_a_key_it_holds_but_says_not_whose(made):
    _, inclusion, _ = made
    verdict = verify_proof(inclusion[3])
    assert (verdict.holds, verdict.signer) == (True, "")
    head = verdict.statement.head
    assert verify_proof(inclusion[3], head=(head.size, bytes.fromhex(head.root))).signer == "head"
    assert not verify_proof(inclusion[3], head=(head.size + 1, bytes.fromhex(head.root))).holds
    assert not verify_proof(inclusion[3], key=bytes(32)).holds


def test_every_changed_bit_is_refused(made):
    key, inclusion, growth = made
    for data in (inclusion[4], growth[3]):
        for place in range(len(data)):
            for bit in (1, 0x80):
                forged = bytearray(data)
                forged[place] ^= bit
                assert not verify_proof(bytes(forged), key=key).holds
        assert not any(verify_proof(data[:length], key=key).holds for length in range(len(data)))


def test_forgeries_with_a_mended_container_are_refused(made):
    """The container's digest is no secret: whoever changes a section can make it anew, so each part must hold itself."""
    key, inclusion, growth = made
    for data in (inclusion[4], growth[3]):
        sections = {tag: data[start:end] for tag, (start, end) in unpack(data, KIND_PROOF).items()}
        for tag, content in sections.items():
            for place in range(len(content)):
                changed = bytearray(content)
                changed[place] ^= 1
                forged = pack(KIND_PROOF, {**sections, tag: bytes(changed)})
                assert not verify_proof(forged, key=key).holds, f"section {tag}, byte {place}"
        for tag in sections:
            less = {other: content for other, content in sections.items() if other != tag}
            assert not verify_proof(pack(KIND_PROOF, less), key=key).holds


@given(st.binary(max_size=300))
def test_any_bytes_give_a_verdict(data):
    assert not verify_proof(data).holds
    assert not verify_proof(b"PPLS\x02\x03" + data).holds
