"""Proofs leave the store: whoever has the file and the key can check it, and every changed bit is noticed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from periplus.base.encoding.canonical import canonical, decode_canonical
from periplus.base.encoding.container import KIND_PROOF, pack, unpack
from periplus.base.errors import DamageError, NotFoundError, UsageError
from periplus.journal.proofs.proof_file import (
    BUNDLE_RECORDS_MAX,
    BundleProof,
    HeadStatement,
    Prover,
    prove_consistency,
    prove_record,
    verify_proof,
)
from periplus.journal.records.record import decode_line, seal_line
from periplus.journal.records.stub import make_stub
from periplus.journal.storage.keys import public_key
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.tree_head import read_peer
from support import WRITER, item, make_store, open_journal, segment_path

pytestmark = pytest.mark.quick


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


# ---- several records in one file, and heads


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    with open_journal(make_store(tmp_path_factory.mktemp("bundles"))) as journal:
        for number in range(11):
            journal.mutate(lambda t, n=number: t.put("decision", item(n), {"text": f"number {n}"}), WRITER)
        prover = Prover(journal)
        key = public_key(journal.layout, journal.lineage)
        yield journal, prover, key


def sections_of(data):
    return {tag: data[start:end] for tag, (start, end) in unpack(data, KIND_PROOF).items()}


def test_a_bundle_proves_several_records_and_the_growth(several):
    _, prover, key = several
    data = prover.bundle([7, 2, 11, 2], 4)
    verdict = verify_proof(data, key=key)
    assert verdict.holds, verdict.reason
    assert isinstance(verdict.statement, BundleProof)
    assert (verdict.statement.seqs, verdict.statement.first_size) == ((2, 7, 11), 4)
    assert [decode_line(line)[0].seq for line in verdict.lines] == [2, 7, 11]
    assert verdict.line == verdict.lines[0]
    for seqs, first in (([], 1), ([], 11), ([1], 0), (range(1, 12), 11)):
        verdict = verify_proof(prover.bundle(seqs, first), key=key)
        assert verdict.holds, verdict.reason
        assert len(verdict.lines) == len(seqs)
    alone = verify_proof(prover.growth(4), key=key).statement
    assert (alone.first_root, alone.head) == (
        verify_proof(data).statement.first_root,
        verify_proof(data).statement.head,
    )


def test_every_changed_bit_of_a_bundle_is_refused(several):
    _, prover, key = several
    data = prover.bundle([3, 4, 9], 5)
    for place in range(len(data)):
        forged = bytearray(data)
        forged[place] ^= 1
        assert not verify_proof(bytes(forged), key=key).holds
    sections = sections_of(data)
    for tag, content in sections.items():
        for place in range(len(content)):
            changed = bytearray(content)
            changed[place] ^= 1
            forged = pack(KIND_PROOF, {**sections, tag: bytes(changed)})
            assert not verify_proof(forged, key=key).holds, f"section {tag}, byte {place}"
        assert not verify_proof(pack(KIND_PROOF, {t: c for t, c in sections.items() if t != tag}), key=key).holds


def test_a_bundle_claims_no_more_than_it_shows(several):
    """The statement is not signed but for its head: every way to say more than the paths show must be refused."""
    _, prover, key = several
    sections = sections_of(prover.bundle([3, 9], 5))
    statement = decode_canonical(sections[1])

    def holds(lines=sections[2], path=sections[3], **changes):
        forged = pack(KIND_PROOF, {**sections, 1: canonical(statement | changes), 2: lines, 3: path})
        return verify_proof(forged, key=key).holds

    assert holds()
    nodes, lines = statement["nodes"], sections[2].split(b"\n")
    assert not holds(seqs=[9, 3])
    assert not holds(seqs=[3, 9, 10])
    assert not holds(seqs=[3])
    assert not holds(seqs=[3, 3], lines=lines[0] + b"\n" + lines[0])
    assert not holds(seqs=[3, 8])
    assert not holds(seqs=[0, 9])
    assert not holds(seqs=[-1, 9])
    assert not holds(first_size=0)
    assert not holds(first_size=6)
    assert not holds(first_root="")
    assert not holds(first_root="11" * 32)
    assert not holds(first_size=12)
    assert not holds(nodes=nodes[:-1])
    assert not holds(nodes=[*nodes, 0])
    assert not holds(nodes=[nodes[0] + 1, nodes[1] - 1, nodes[2]])
    assert not holds(nodes=[2**40, *nodes[1:]])
    assert not holds(nodes=[-1, *nodes[1:]])
    assert not holds(lines=b"\n".join(reversed(lines)))
    first, second = nodes[0] * 32, (nodes[0] + nodes[1]) * 32
    ways = (sections[3][:first], sections[3][first:second], sections[3][second:])
    assert not holds(  # each of them is in the tree, and the file speaks of them in an order of its own
        seqs=[9, 3],
        lines=b"\n".join(reversed(lines)),
        path=ways[1] + ways[0] + ways[2],
        nodes=[nodes[1], nodes[0], nodes[2]],
    )
    assert not holds(
        seqs=[3, 3],
        lines=lines[0] + b"\n" + lines[0],
        path=ways[0] + ways[0] + ways[2],
        nodes=[nodes[0], nodes[0], nodes[2]],
    )
    assert not holds(lines=sections[2] + b"\n")
    assert not holds(path=sections[3] + bytes(32))
    assert not holds(format=2)
    assert not holds(more=1)
    assert not holds(kind="head")
    assert not holds(seqs=[], nodes=[], first_size=0, first_root="", lines=b"", path=b"")


def test_a_bundle_that_cannot_be(several):
    journal, prover, _ = several
    with pytest.raises(NotFoundError, match="there is no record 12"):
        prover.bundle([3, 12])
    with pytest.raises(NotFoundError, match="not from 12"):
        prover.bundle([3], 12)
    with pytest.raises(UsageError, match="too many for one proof"):
        prover.bundle(range(1, BUNDLE_RECORDS_MAX + 2))
    for number in range(20, 24):
        text = "long " * 12_000
        journal.mutate(
            lambda t, n=number, x=text: [t.put("note", item(n * 10 + i, "not"), {"text": x}) for i in range(5)], WRITER
        )
    with pytest.raises(UsageError, match="bytes are too many"):
        prover.bundle(range(12, 32))
    assert verify_proof(prover.bundle(range(12, 22))).holds


def test_a_head_counts_through_its_signature_alone(several):
    _, prover, key = several
    data = prover.head_file()
    verdict = verify_proof(data, key=key)
    assert verdict.holds, verdict.reason
    assert isinstance(verdict.statement, HeadStatement)
    sections = sections_of(data)
    for tag in (4, 5):
        assert not verify_proof(pack(KIND_PROOF, {t: c for t, c in sections.items() if t != tag})).holds
    statement = decode_canonical(sections[1])
    statement["head"]["size"] += 1
    assert not verify_proof(pack(KIND_PROOF, {**sections, 1: canonical(statement)})).holds


def test_a_prover_sees_what_came_since_and_needs_no_index(several):
    journal, prover, key = several
    size = prover.head().head.size
    journal.mutate(lambda t: t.put("note", item(900, "not"), {"text": "one more"}), WRITER)
    assert prover.head().head.size == size + 1
    line = verify_proof(prover.record(size + 1), key=key).line
    journal.index.db.execute("DELETE FROM records")
    assert verify_proof(prover.record(size + 1), key=key).line == line
    assert verify_proof(prover.record(3), key=key).holds


def test_the_stub_of_a_record_proves_its_place_and_nothing_that_is_put_into_it(several):
    _, prover, key = several
    sections = sections_of(prover.record(5))
    record, leaf = decode_line(sections[2])
    stub = make_stub(sections[2], leaf, "")[:-1]
    verdict = verify_proof(pack(KIND_PROOF, {**sections, 2: stub}), key=key)
    assert (verdict.holds, verdict.stubs) == (True, (5,))
    for words in (b',"payload":{"text":"never said"}', b',"summary":"never said"', b',"salt":"AAAA"',
                  b',"payload_ref":{"sha256":"%b","bytes":1}' % leaf.hex().encode()):  # fmt: skip
        forged = seal_line(stub[:-26].rstrip() + words)[0][:-1]
        assert decode_line(forged)[1] == leaf
        verdict = verify_proof(pack(KIND_PROOF, {**sections, 2: forged}), key=key)
        assert (verdict.holds, verdict.reason) == (False, "the record has a content that its leaf hash does not cover")
    assert record.seq == 5


def test_where_nobody_syncs_what_was_written_is_proved(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        with pytest.raises(NotFoundError, match="no records of its own"):
            Prover(journal).head()
        with pytest.raises(NotFoundError, match="there is no record 1"):
            Prover(journal).record(1)
    config = tmp_path / ".periplus/config.toml"
    config.write_text(config.read_text().replace('"mutation"\n', '"never"\n'))
    with open_journal(root) as journal:
        journal.mutate(lambda t: t.put("note", item(1, "not"), {"text": "perhaps"}), WRITER)
        assert verify_proof(Prover(journal).record(1)).holds


def test_without_a_mark_the_records_say_what_is_durable(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        for number in range(4):
            journal.mutate(lambda t, n=number: t.put("decision", item(n), {"text": f"number {n}"}), WRITER)
    for name in ("durable", "flush"):
        (tmp_path / ".periplus/journal" / name).unlink()
    with open_journal(root) as journal:
        assert journal.durable_end() == 3  # the last record says what its writer knew of those before it
        assert verify_proof(Prover(journal).record(3)).holds
        journal.mutate(lambda _: None, WRITER)
        assert journal.durable_end() == 4


def test_a_damaged_record_is_not_proved_but_its_neighbours_are(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        for number in range(4):
            journal.mutate(lambda t, n=number: t.put("decision", item(n), {"text": f"number {n}"}), WRITER)
        prover = Prover(journal)
        whole = prover.record(2)
        path = segment_path(journal)
        path.write_bytes(path.read_bytes().replace(b"number 2", b"nummer 2"))
        with pytest.raises(DamageError, match="cannot be read"):
            prover.record(3)
        assert prover.record(2) == whole


def test_golden_bundle_head_and_memory_stay_readable(tmp_path):
    folder = Path(__file__).parent / "golden" / "proofs"
    key = bytes.fromhex((folder / "key").read_text())
    bundle = verify_proof((folder / "bundle.proof").read_bytes(), key=key)
    assert (bundle.holds, bundle.statement.seqs, bundle.statement.first_size) == (True, (2, 5, 7), 3)
    assert b'"number 4"' in bundle.lines[1]
    head = verify_proof((folder / "head.proof").read_bytes(), key=key)
    assert (head.holds, head.statement.head) == (True, bundle.statement.head)
    layout, lineage = Layout(os.fspath(tmp_path)), head.statement.head.lineage
    os.makedirs(layout.peers)
    shutil.copy(folder / "peer.json", layout.peer_file(lineage))
    peer = read_peer(layout, lineage)
    assert (peer.key, peer.seen.size, peer.seen.root, peer.own) == (key.hex(), 7, head.statement.head.root, True)
