"""``prove`` and ``verify``: proofs that leave the store."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterator

from periplus.cli.face import Face, number, visible


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    add = parser.add_argument
    if command == "prove":
        add("seq", nargs="?", type=number(1), metavar="SEQ", help="the record to prove; see `periplus log`")
        add(
            "--from",
            dest="first",
            type=number(1),
            metavar="A",
            help="prove instead that the journal only grew since it had A records",
        )
        add("--to", dest="second", type=number(1), metavar="B", help="… until it had B (default: now)")
        add("--out", metavar="FILE", help="default: record-SEQ.proof or growth-A-B.proof in this folder")
    else:
        add("proof", metavar="PROOF", help="a proof file")
        add("--key", metavar="HEX|FILE", help="the public key of the store that it must come from")
        add("--head", metavar="SIZE:ROOT", help="the tree head that it must speak of")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    return _prove(face, arguments) if arguments.command == "prove" else _verify(face, arguments)


def _prove(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.base.files import Files, write_atomic
    from periplus.cli.schemas import ProveOut
    from periplus.journal.proof import verify_proof

    if (arguments.seq is None) == (arguments.first is None) or (
        arguments.second is not None and arguments.first is None
    ):
        raise UsageError("give either a SEQ, or --from A and perhaps --to B", mend="See `periplus prove --help`.")
    with face.open() as project:
        if arguments.seq is not None:
            data, kind, name = project.prove(arguments.seq), "inclusion", f"record-{arguments.seq}.proof"
        else:
            data, kind = project.prove_consistency(arguments.first, arguments.second), "consistency"
            name = f"growth-{arguments.first}-{arguments.second or 'now'}.proof"
        key = project.public_key()
    verdict = verify_proof(data, key=key)
    assert verdict.holds, verdict.reason
    assert verdict.statement is not None
    path = os.path.join(face.cwd, arguments.out or name)
    write_atomic(Files(), path, data)
    head = verdict.statement.head
    result = ProveOut(path, kind, head.size, head.root, key.hex(), len(data))

    def lines() -> Iterator[str]:
        import shlex

        name = shlex.quote(os.path.basename(path))
        yield f"Wrote {visible(path)} ({len(data):,} bytes)"
        yield f"  against the head of {head.size:,} record{'s' if head.size != 1 else ''}, root {head.root}"
        yield f"Whoever has it checks it without the store: periplus verify {visible(name)} --key {key.hex()}"

    face.emit(result, lines)
    return 0


def _verify(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.inputs import read_file, read_public_key
    from periplus.cli.schemas import VerifyOut
    from periplus.journal.proof import PROOF_BYTES_MAX, InclusionProof, verify_proof

    key = read_public_key(arguments.key) if arguments.key else None
    head = _head(arguments.head) if arguments.head else None
    path = os.path.join(face.cwd, arguments.proof)
    data = read_file(path, PROOF_BYTES_MAX)
    verdict = verify_proof(data, key=key, head=head)
    statement = verdict.statement
    kind = "" if statement is None else "inclusion" if isinstance(statement, InclusionProof) else "consistency"
    seq = statement.seq if isinstance(statement, InclusionProof) else 0
    record = verdict.line.decode("utf-8", "replace")
    result = VerifyOut(
        verdict.holds, verdict.signer, verdict.reason, kind,
        statement.head.store if statement else "", statement.head.lineage if statement else "",
        statement.head.size if statement else 0, statement.head.root if statement else "", seq, verdict.key.hex(), record,
    )  # fmt: skip

    def lines() -> Iterator[str]:
        paint = face.palette
        if not verdict.holds or statement is None:
            yield f"{paint.bad}does not hold{paint.end}: {visible(verdict.reason)}"
            return
        whose = ""
        if verdict.signer:
            whose = f"signed by {verdict.signer}" if verdict.signer.startswith("key") else "of the head given"
        yield f"{paint.good}holds{paint.end}: " + (whose or "consistent, but not whose: give --key or --head to know")
        if kind == "inclusion":
            yield f"Record {seq:,} of the {statement.head.size:,} of lineage {visible(statement.head.lineage)}:"
            yield visible(record, face.width)
        else:
            yield f"The {statement.head.size:,} records of lineage {visible(statement.head.lineage)} begin with the earlier ones."

    face.emit(result, lines)
    return 0 if verdict.holds else 3


def _head(text: str) -> tuple[int, bytes]:
    from periplus.base.digests import parse_digest
    from periplus.base.errors import UsageError

    size, found, root = text.partition(":")
    if not found or not size.isdigit() or len(size) > 15:
        raise UsageError(
            f"{text[:80]!r} is not a tree head", mend="It is SIZE:ROOT, as `periplus prove --json` prints them."
        )
    return int(size), parse_digest(root)
