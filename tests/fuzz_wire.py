"""Mutated conversations for the machines of the wire: frames changed by bits, bytes, lengths, types, streams, order and number.

``python tests/fuzz_wire.py COUNT [SEED]`` runs so many frames and says how long it took and what memory it held.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from collections import Counter

from periplus.context.wire import ERRORS, FRAMES, Closed, Limits, Policy, ServerMachine, WireError
from periplus.context.wire import payloads as p
from periplus.context.wire.frames import HEADER_BYTES, PREFACE, frame_header, read_header
from periplus.context.wire.payload_codec import has_zstd
from wire_conversations import CONVERSATIONS, Conversation, cancel_last, end, grant_back
from wire_support import Answerer, blob, digest

BLOBS = (b"", b"\x00", b"\xff" * 9, b"\xc1", b"\xdb\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xdf\x7f\xff\xff\xff", b"\x91" * 4_000,
         b"[" * 4_000, b'{"a":' * 2_000, b"\xc6\xff\xff\xff\xff", b"(\xb5/\xfd\xa4\xff\xff\xff\xff", b"\xcb\x7f\xf8" + b"\x00" * 6)  # fmt: skip
INTERESTING = (0, 1, 2, 0x7F, 0x80, 0xFF, 0xFFFF, 0x10000, 2**31 - 1, 2**31, 2**32 - 1)
REACHED = Counter()  # events by their kind: a fuzzer that reaches none of a kind tries nothing there
POLICY = Policy(frame_rate=1e9, request_burst=1 << 30, frame_burst=1 << 30)


def frames_of(data):
    found, at = [], len(PREFACE) if data.startswith(PREFACE) else 0
    while at < len(data):
        header = read_header(data, at)
        found.append(data[at : at + HEADER_BYTES + header.length])
        at += HEADER_BYTES + header.length
    return found


def compressed():
    """Conversations with frames that are packed; none where zstd is not installed."""
    if not has_zstd():
        return
    for encoding in ("msgpack", "json"):
        packed = Conversation(
            f"packed {encoding}", [lambda c: c.request(p.StreamRequest(digest("c"))), lambda c: c.request(p.ObjectsGet((blob(7, 9_000)[0],)))],
            encoding=encoding, limits=Limits(), chunks=3, proof=b"z" * 2_000, objects=dict([blob(7, 9_000)]),
        )  # fmt: skip
        packed.capabilities = ("prove", "push", "watch", "zstd")
        yield packed


def corpus():
    """For each side: (handshake bytes, frames) by conversation; recorded anew, with the shapes that machines write today."""
    up, down, old = [], [], []
    for conversation in (*CONVERSATIONS, *compressed()):
        transfers, _, _ = conversation.record()
        sent = b"".join(bytes.fromhex(data) for way, data in transfers if way == "up")
        came = b"".join(bytes.fromhex(data) for way, data in transfers if way == "down")
        if conversation.name == "v1":
            old.append(sent)
        else:
            up.append((conversation, frames_of(sent)))
            down.append((conversation, frames_of(came)))
    return up, down, old


def mutate(rng, frame, others):
    """One frame, changed."""
    data = bytearray(frame)
    kind = rng.randrange(12)
    if kind < 3 and data:
        for _ in range(1 << rng.randrange(4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 3:
        data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xC0, 0xFF, rng.randrange(256)))
    elif kind == 4:  # a length that lies
        data[0:4] = (rng.choice(INTERESTING) & 0xFFFFFFFF).to_bytes(4, "big")
    elif kind == 5:  # another type, the payload as it is
        data[4] = rng.choice((*FRAMES, rng.randrange(256)))
    elif kind == 6:  # another stream
        data[6:10] = (rng.choice((*INTERESTING, rng.randrange(12))) & 0xFFFFFFFF).to_bytes(4, "big")
    elif kind == 7:  # hostile payload, honest header
        blob = rng.choice(BLOBS)
        data = bytearray(frame_header(len(blob), data[4], data[5], int.from_bytes(data[6:10], "big")) + blob)
    elif kind == 8:  # flags
        data[5] = rng.choice((1, 2, 0x80, 0xFF))
    elif kind == 9:  # cut, with the length made to fit
        payload = bytes(data[HEADER_BYTES : HEADER_BYTES + rng.randrange(len(data) - HEADER_BYTES + 1)])
        data = bytearray(frame_header(len(payload), data[4], data[5], int.from_bytes(data[6:10], "big")) + payload)
    elif kind == 10:  # the payload of another frame
        payload = rng.choice(others)[HEADER_BYTES:]
        data = bytearray(frame_header(len(payload), data[4], data[5], int.from_bytes(data[6:10], "big")) + payload)
    else:  # bytes put in, the length made to fit
        at = HEADER_BYTES + rng.randrange(len(data) - HEADER_BYTES + 1)
        data[at:at] = rng.choice(BLOBS) or b"\x00"
        data[0:4] = (len(data) - HEADER_BYTES).to_bytes(4, "big")
    return bytes(data)


def check(machine, events):
    """What holds whatever came: at most one end, with a code of the table; memory within what the limits say."""
    ends = [event for event in events if isinstance(event, Closed)]
    assert len(ends) <= 1
    for closed in ends:
        assert closed.by_peer or closed.code in ERRORS, closed
        assert closed.code != "internal", closed
    assert machine.is_closed is bool(ends)
    assert machine.open_streams <= machine.limits.streams
    assert machine.held_bytes < 32 << 20


def run_server(rng, conversation, frames):
    """A conversation of a client, in which some frames are changed, doubled, moved or left out. How many frames that were."""
    machine = ServerMachine(0.0, limits=Limits(streams=8), policy=POLICY)
    answerer = Answerer(chunks=3)
    machine.receive(PREFACE, 0.0)
    return drive(rng, machine, frames, lambda event: answerer(machine, event))


def run_client(rng, conversation, frames):
    machine = conversation.client()
    steps = iter(
        [
            one
            for one in conversation.steps
            if one not in (cancel_last, end) or (one is cancel_last and rng.random() < 0.3)
        ]
    )
    machine.receive(PREFACE, 0.0)

    def ask():
        """All requests at once, as soon as there is a connection: the answers that were recorded come to their streams."""
        for step in steps if machine.is_open and not machine.is_closed else ():
            try:
                step(machine)
            except WireError:
                pass  # what the golden conversation does next may not be possible in this one

    return drive(rng, machine, frames, lambda event: grant_back(machine, event), ask)


def drive(rng, machine, frames, answer, step=None):
    count = 0
    events = []
    begin = rng.choice((0, 0, 1, 1, 1, 1, 1, 1))  # most leave the handshake as it is
    plan = list(frames)
    for _ in range(rng.randrange(3)):
        place = rng.randrange(begin, len(plan) + 1)
        if rng.random() < 0.5 and place < len(plan):
            del plan[place]
        else:
            plan.insert(place, rng.choice(frames))
    share = rng.choice((0.05, 0.2, 0.6))
    for place, frame in enumerate(plan):
        data = mutate(rng, frame, frames) if place >= begin and rng.random() < share else frame
        count += 1
        cut = rng.randrange(len(data) + 1) if rng.random() < 0.3 else len(data)
        for piece in (data[:cut], data[cut:]):
            new = machine.receive(piece, 0.0)
            events += new
            for event in new:
                try:
                    answer(event)
                except WireError:
                    pass  # the stream ended with what came after the request
        machine.data_to_send()
        if step is not None:
            step()
        if machine.is_closed:
            break
    check(machine, events)
    REACHED.update(type(event).__name__ for event in events)
    return count


def run_old(rng, data):
    """Version 1: a stream of bytes, changed here and there."""
    machine = ServerMachine(0.0, policy=POLICY)
    answerer = Answerer()
    changed = bytearray(data)
    for _ in range(1 << rng.randrange(5)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    events = machine.receive(bytes(changed), 0.0)
    for event in events:
        try:
            answerer(machine, event)
        except WireError:
            pass  # an answer to a request that the end of the connection took along
    check(machine, events)
    return 8


def fuzz(count, seed=0):
    """``count`` frames at least; how many of each kind of end there were is not looked at: ``check`` looks at each."""
    rng = random.Random(seed)
    up, down, old = corpus()
    done = 0
    while done < count:
        choice = rng.random()
        if choice < 0.55:
            done += run_server(rng, *rng.choice(up))
        elif choice < 0.95:
            done += run_client(rng, *rng.choice(down))
        else:
            done += run_old(rng, rng.choice(old))
    return done


if __name__ == "__main__":
    wanted = int(sys.argv[1])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    done = fuzz(wanted, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(dict(REACHED))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{done} frames, {time.process_time() - start:.1f} s of CPU, {before >> 10} MiB before, at most {after >> 10} MiB"
    )
