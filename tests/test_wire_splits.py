"""Recorded conversations: the bytes stay what they are, and however they are cut, the machines say the same."""

from __future__ import annotations

import itertools
import json
import os
import random
from pathlib import Path

import pytest

from wire_conversations import CONVERSATIONS, v1_frames

GOLDEN = Path(__file__).parent / "golden" / "wire"
LONG = {} if os.environ.get("PERIPLUS_EXHAUSTIVE") else {"objects": 7}
by_name = pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda one: one.name)


def golden(conversation):
    kept = json.loads((GOLDEN / f"{conversation.name}.json").read_text())
    return kept, [(way, bytes.fromhex(data)) for way, data in kept["transfers"]]


def document(conversation):
    transfers, client_events, server_events = conversation.record()
    return {
        "transfers": transfers,
        "client": [repr(one) for one in client_events],
        "server": [repr(one) for one in server_events],
    }


def whole(data, start):
    return [data]


@by_name
def test_the_bytes_of_a_conversation_stay_what_they_are(conversation):
    assert document(conversation) == golden(conversation)[0]


@by_name
def test_byte_by_byte_the_events_are_the_same(conversation):
    kept, transfers = golden(conversation)
    single = lambda data, start: [data[at : at + 1] for at in range(len(data))]  # noqa: E731 - two cuts side by side
    for cut in (whole, single):
        assert [repr(one) for one in conversation.replay_server(transfers, cut)] == kept["server"]
        if kept["client"]:
            assert [repr(one) for one in conversation.replay_client(transfers, cut)] == kept["client"]


@pytest.mark.slow
@by_name
def test_cut_anywhere_the_events_are_the_same(conversation):
    """One cut at every position; in the quick form of the long one at each seventh, and at all around the borders of transfers."""
    stride = LONG.get(conversation.name, 1)
    _, transfers = golden(conversation)
    for replay, direction in ((conversation.replay_server, "up"), (conversation.replay_client, "down")):
        expected = replay(transfers, whole)
        if not expected:
            continue
        total, near = 0, set()
        for way, data in transfers:
            if way == direction:
                near |= set(range(total + 1, total + 13)) | {total + len(data) - 1}
                total += len(data)
        for place in range(1, total):
            if place % stride and place not in near:
                continue

            def cut(data, start, place=place):
                at = place - start
                return [data[:at], data[at:]] if 0 < at < len(data) else [data]

            assert replay(transfers, cut) == expected, place


@by_name
def test_cut_at_random_the_events_are_the_same(conversation):
    _, transfers = golden(conversation)
    for replay in (conversation.replay_server, conversation.replay_client):
        expected = replay(transfers, whole)
        for seed in range(40):
            rng = random.Random(seed)

            def cut(data, start, rng=rng):
                cuts = sorted({0, len(data), *(rng.randrange(len(data) + 1) for _ in range(rng.randrange(12)))})
                return [data[a:b] for a, b in itertools.pairwise(cuts)] or [data]

            assert replay(transfers, cut) == expected


def test_what_a_version_1_peer_reads():
    """The answers of the golden conversation, in the old forms, spelled out."""
    conversation = next(one for one in CONVERSATIONS if one.name == "v1")
    _, transfers = golden(conversation)
    frames = [v1_frames(data) for way, data in transfers if way == "down"]
    ((kind, sequence, form),) = frames[0]
    assert (kind, sequence) == (0x81, 7)
    assert set(form) == {"atoms", "expansion_path", "total_tokens", "type_summary"}
    assert form["type_summary"] == {"String": 5}
    assert form["atoms"][0] == {
        "content": "atom 0 xxxxxxxxxxxxx", "type_sig": {"name": "String", "kind": "STAR", "parameters": [], "constraints": []},
        "timestamp": "2023-11-14T22:13:20.000+00:00", "source_hash": "source 0", "relevance_score": 0.9,
    }  # fmt: skip
    assert frames[1] == [(0xFF, 8, {"error": "The answer is larger than 65,535 bytes; ask for a stream."})]
    assert [(kind, sequence) for kind, sequence, _ in frames[2]] == [(0xFF, 9), (0xFF, 10)]
    assert "stands for more than one" in frames[2][0][2]["error"]
    assert [(kind, sequence, form.get("chunk_id"), len(form.get("atoms", ()))) for kind, sequence, form in frames[3]] == [
        (0x82, 11, 0, 10), (0x82, 11, 1, 10), (0x82, 11, 2, 4), (0x83, 11, None, 0),
    ]  # fmt: skip
    chunks = [form for _, _, form in frames[3]]
    assert [form["is_final"] for form in chunks[:3]] == [False, False, True]
    assert [form["cumulative_tokens"] for form in chunks[:3]] == [30, 60, 72]
    assert chunks[2]["progress"] == 1.0
    assert set(chunks[0]["atoms"][0]) == {"content", "type", "relevance", "hash"}
    assert chunks[3] == {"status": "complete"}
    assert frames[4][0][0] == 0x84
    assert set(frames[4][0][2]) == {"atoms", "total"}
    assert frames[5] == [(0x85, 13, {"hash": frames[5][0][2]["hash"]})]
    assert [form for _, _, form in frames[6]] == [
        {"error": "The request is not of the form of version 1: delta_atoms[0].content."},
        {"error": "The request is not JSON."},
        {"error": "The request is not of the form of version 1: min_relevance."},
    ]
    assert frames[7][0][0] == 0xFF
