"""``prove``, ``head`` and ``verify``: proofs that can be checked outside of the store."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.base.named_tuple import NamedTuple
from periplus.cli.common.face import Face, number, visible

if TYPE_CHECKING:
    from periplus.journal.proofs.proof_file import ProofVerdict, Prover
    from periplus.journal.storage.tree_head import TreeHead


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    add = parser.add_argument
    if command == "prove":
        add("seq", nargs="*", type=number(1), metavar="SEQ", help="the record to prove; see `periplus log`")
        add(
            "--from",
            dest="first",
            type=number(1),
            metavar="A",
            help="prove instead that the journal has only grown since it had A records",
        )
        add(
            "--to",
            dest="second",
            type=number(1),
            metavar="B",
            help="with --from: until it had B records (default: now)",
        )
        add("--bundle", action="store_true", help="put the proofs of several records, and of --from A, into one file")
        add(
            "--out",
            metavar="FILE",
            help="the file to write (default: record-SEQ.proof, growth-A-B.proof or bundle.proof in this folder)",
        )
    elif command == "head":
        add("--out", metavar="FILE", help="also write it to a file for `verify`; keep the file outside of this machine")
    else:
        add("proof", metavar="PROOF", help="a proof file, a head of `periplus head --out`, or an in-toto statement")
        add("--trail-digest", metavar="HEX", help="for the proof of a step: the expected digest of the trail")
        add("--key", metavar="HEX|FILE", help="the expected public key of the store")
        add("--head", metavar="SIZE:ROOT|FILE", help="the expected tree head")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    commands = {"prove": _prove, "head": _head, "verify": _verify}
    return commands[arguments.command](face, arguments)


# -- prove and head --------------------------------------------------------------------------------------------------


def _prove(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.files import Files, write_atomic
    from periplus.cli.common.inputs import check_target
    from periplus.cli.common.schemas import ProveOut
    from periplus.journal.proofs.proof_file import verify_proof

    _check_request(arguments)
    if arguments.out is not None:
        check_target(os.path.join(face.cwd, arguments.out))
    with face.open() as project:
        data, kind, name = _made(project.prover(face.progress("reading the records")), arguments)
        key = project.public_key()
    face.clear_progress()
    verdict = verify_proof(data, key=key)
    assert verdict.holds, verdict.reason
    assert verdict.statement is not None
    path = face.path(arguments.out or name)
    write_atomic(Files(), path, data)
    head = verdict.statement.head
    seqs = sorted(set(arguments.seq))
    result = ProveOut(path, kind, head.size, head.root, key.hex(), len(data), seqs, list(verdict.stubs))

    def lines() -> Iterator[str]:
        import shlex

        name = shlex.quote(os.path.basename(path))
        yield f"Wrote {visible(path)} ({len(data):,} bytes)"
        yield f"  against the head of {head.size:,} record{'s' if head.size != 1 else ''}, root {head.root}"
        yield from _told_stubs(verdict.stubs)
        yield f"To check it without the store: periplus verify {visible(name)} --key {key.hex()}"

    face.emit(result, lines)
    return 0


def _check_request(arguments: argparse.Namespace) -> None:
    from periplus.base.errors import UsageError

    has_records, has_growth = bool(arguments.seq), arguments.first is not None
    if arguments.bundle:
        is_clear = (has_records or has_growth) and arguments.second is None
        wanted = "--bundle takes one or more SEQ and optionally --from A, but not --to"
    else:
        is_clear = has_records != has_growth and len(arguments.seq) <= 1 and (has_growth or arguments.second is None)
        wanted = "give either SEQ, or --from A with optional --to B; use --bundle for several"
    if is_clear and arguments.second is not None and arguments.second < arguments.first:
        is_clear, wanted = False, f"--to {arguments.second} comes before --from {arguments.first}"
    if not is_clear:
        raise UsageError(wanted, mend="See `periplus prove --help`.")


def _made(prover: Prover, arguments: argparse.Namespace) -> tuple[bytes, str, str]:
    """Return the requested proof, its kind, and the name of its file."""
    if arguments.bundle:
        return prover.bundle(arguments.seq, arguments.first or 0), "bundle", "bundle.proof"
    if arguments.first is None:
        return prover.record(arguments.seq[0]), "inclusion", f"record-{arguments.seq[0]}.proof"
    name = f"growth-{arguments.first}-{arguments.second or 'now'}.proof"
    return prover.growth(arguments.first, arguments.second), "consistency", name


def _head(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.files import Files, write_atomic
    from periplus.cli.common.inputs import check_target
    from periplus.cli.common.schemas import HeadOut

    if arguments.out is not None:
        check_target(os.path.join(face.cwd, arguments.out))
    with face.open() as project:
        prover = project.prover(face.progress("reading the records"))
        head, key, signature = signed = prover.head()
        data = prover.head_file(signed)
    face.clear_progress()
    path = ""
    if arguments.out:
        path = face.path(arguments.out)
        write_atomic(Files(), path, data)
    result = HeadOut(head.store, head.lineage, head.size, head.root, key.hex(), signature.hex(), path)

    def lines() -> Iterator[str]:
        import shlex

        yield f"{head.size}:{head.root}"
        yield f"  lineage   {visible(head.lineage)} of store {visible(head.store)}"
        yield f"  key       {key.hex()}"
        yield f"  signature {signature.hex()}"
        if path:
            name = visible(shlex.quote(os.path.basename(path)))
            yield f"Wrote {visible(path)}. Keep it on another machine: `periplus verify {name}` in this project detects lost records."

    face.emit(result, lines)
    return 0


# -- verify ----------------------------------------------------------------------------------------------------------


class _Compared(NamedTuple):
    """The comparison of a proof's head with the records of this store."""

    here: str  # "", "extends", "behind", "differs" or "unknown"
    told: str
    is_bad: bool


def _verify(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import PeriplusError, UsageError
    from periplus.cli.common.inputs import read_file, read_public_key
    from periplus.cli.common.schemas import VerifyOut
    from periplus.journal.proofs.proof_file import PROOF_BYTES_MAX, verify_proof

    key = read_public_key(arguments.key) if arguments.key else None
    head = _read_head(face, arguments.head) if arguments.head else None
    data = read_file(os.path.join(face.cwd, arguments.proof), PROOF_BYTES_MAX)
    if data.lstrip()[:1] == b"{" and head is None:
        from periplus.cli.journal.attestation import verify_attestation

        return verify_attestation(face, data, key)
    from periplus.cli.journal.step_proofs import may_be_step_proof, verify_step

    if may_be_step_proof(data):
        return verify_step(face, data, key, arguments)
    if arguments.trail_digest is not None:
        raise UsageError(
            "--trail-digest goes with the proof of a step", mend="Leave it out, or make one: `periplus trail prove`."
        )
    verdict = verify_proof(data, key=key, head=head)
    compared = _Compared("", "", is_bad=False)
    if verdict.holds and key is None and head is None:
        try:
            verdict, compared = _verify_at_hand(face, data, verdict)
        except PeriplusError as error:
            if face.store is not None:
                raise
            compared = _Compared("unknown", f"the store here cannot be read: {error}", is_bad=False)
    result = VerifyOut(verdict.holds, verdict.signer, verdict.reason, *_stated(verdict), compared.here)

    def lines() -> Iterator[str]:
        paint = face.palette
        if not verdict.holds or verdict.statement is None:
            yield f"{paint.bad}does not hold{paint.end}: {visible(verdict.reason)}"
            return
        whose = f"signed by {verdict.signer}" if verdict.signer.startswith("key") else "of the head given"
        yield f"{paint.good}holds{paint.end}: " + visible(
            whose if verdict.signer else "consistent, but its origin is unknown: give --key or --head"
        )
        yield from _told(verdict, face.width)
        if compared.told:
            yield f"{paint.bad if compared.is_bad else paint.dim}{visible(compared.told)}{paint.end}"

    return face.emit(result, lines, 3 if not verdict.holds or compared.is_bad else 0)


def _verify_at_hand(face: Face, data: bytes, verdict: ProofVerdict) -> tuple[ProofVerdict, _Compared]:
    """Identify the signer by the keys that this store knows, and check whether its own records lead to the same head."""
    from periplus.base.errors import NotAStoreError
    from periplus.journal.proofs.proof_file import verify_proof
    from periplus.journal.storage.layout import Layout, find_root
    from periplus.journal.storage.tree_head import pinned_key

    assert verdict.statement is not None
    head, nothing = verdict.statement.head, _Compared("", "", is_bad=False)
    try:
        root = find_root(face.cwd, face.store)
    except NotAStoreError:
        if face.store is not None:
            raise
        return verdict, nothing
    layout = Layout(root)
    layout.refuse_links()
    pinned = pinned_key(layout, head.lineage)
    if pinned is None:
        return verdict, nothing
    verdict = verify_proof(data, key=pinned.key)
    if not verdict.holds:
        return verdict._replace(reason=f"{verdict.reason}: the one {pinned.whose}"), nothing
    verdict = verdict._replace(signer=f"{verdict.signer}, {pinned.whose}")
    return verdict, _compare(face, head)


def _compare(face: Face, head: TreeHead) -> _Compared:
    from periplus.base.errors import DamageError, PeriplusError
    from periplus.journal.checkpoints.offline_archive import absent
    from periplus.journal.proofs.heads import extends
    from periplus.journal.storage.settings import read_lineage

    try:
        with face.open() as project:
            journal = project.journal
            written = read_lineage(journal.layout)
            is_own = written is not None and written.wrote(head.lineage)
            held = journal.end(head.lineage).next_seq - 1
            found = extends(journal, head) if held else None
            gone = next(
                (one for one in absent(journal) if one.lineage == head.lineage and one.first_seq <= head.size), None
            )
    except DamageError as error:
        return _Compared("unknown", f"The records here cannot be compared with it: {error}", is_bad=True)
    except PeriplusError as error:
        return _Compared("unknown", f"not compared with the records here: {error}", is_bad=False)
    finally:
        face.clear_progress()
    if found and gone is not None:
        told = "The tree here begins with the records that it covers"
        if gone.is_stood_for:
            return _Compared("extends", f"{told}; {gone}, a checkpoint stands for them.", is_bad=False)
        return _Compared("unknown", f"{told}, but {gone}.", is_bad=True)
    if found:
        return _Compared("extends", "The records here begin with the ones that it covers.", is_bad=False)
    if found is None:
        told = f"Here are only {held:,} of the {head.size:,} records that it covers"
        lost = ": this store lost records, or was replaced by an older copy." if is_own else "."
        return _Compared("behind", told + lost, is_bad=is_own)
    told = f"The first {head.size:,} records here differ: the history was rewritten or forked."
    return _Compared("differs", told, is_bad=True)


def _stated(verdict: ProofVerdict) -> tuple[str, str, str, int, str, int, str, str, list[int], list[str], list[int]]:
    """Return the fields of ``VerifyOut`` that describe the content of the proof."""
    from periplus.journal.proofs.proof_file import BundleProof, InclusionProof

    statement = verdict.statement
    texts = [line.decode("utf-8", "replace") for line in verdict.lines]
    if statement is None:
        return "", "", "", 0, "", 0, verdict.key.hex(), "", [], [], []
    seqs = [statement.seq] if isinstance(statement, InclusionProof) else []
    if isinstance(statement, BundleProof):
        seqs = list(statement.seqs)
    head, kind = statement.head, str(statement.__struct_config__.tag)
    seq, text = (seqs[0], texts[0] if texts else "") if isinstance(statement, InclusionProof) else (0, "")
    return (
        kind, head.store, head.lineage, head.size, head.root, seq, verdict.key.hex(), text, seqs, texts,
        list(verdict.stubs),
    )  # fmt: skip


def _told(verdict: ProofVerdict, width: int | None) -> Iterator[str]:
    """Describe a valid proof in sentences."""
    kind, _, lineage, size, root, _, _, _, seqs, texts, stubs = _stated(verdict)
    if kind == "head":
        records = f"{size:,} records" if size != 1 else "record"
        yield f"The head of the first {records} of lineage {visible(lineage)}, root {root}"
    if kind == "consistency":
        yield f"The {size:,} records of lineage {visible(lineage)} begin with the earlier ones."
    if kind == "bundle":
        yield f"{len(seqs):,} of the {size:,} records of lineage {visible(lineage)}:"
    for seq, text in zip(seqs, texts, strict=True):
        if kind == "inclusion":
            yield f"Record {seq:,} of the {size:,} of lineage {visible(lineage)}:"
        if seq not in stubs:
            yield visible(text, width)
    yield from _told_stubs(tuple(stubs))
    statement = verdict.statement
    first = getattr(statement, "first_size", 0) if kind == "bundle" else 0
    if first:
        yield f"They begin with the {first:,} records of the earlier head."


def _told_stubs(stubs: tuple[int, ...]) -> Iterator[str]:
    if stubs:
        names = ", ".join(map(str, stubs[:20])) + (" …" if len(stubs) > 20 else "")
        yield f"The content of {names} was redacted: the proof covers position and leaf hash, not the other fields."


def _read_head(face: Face, text: str) -> tuple[int, bytes]:
    """Parse SIZE:ROOT, or a file of `periplus head --out`."""
    from periplus.base.encoding.digests import parse_digest
    from periplus.base.errors import UsageError
    from periplus.cli.common.inputs import read_file
    from periplus.journal.proofs.proof_file import PROOF_BYTES_MAX, HeadStatement, verify_proof

    path = os.path.join(face.cwd, text)
    if os.path.isfile(path):
        found_head = verify_proof(read_file(path, PROOF_BYTES_MAX))
        if not found_head.holds or not isinstance(found_head.statement, HeadStatement):
            raise UsageError(
                f"{visible(text)} is not a file of a tree head{': ' * bool(found_head.reason)}{found_head.reason}",
                mend="Write one with `periplus head --out FILE`.",
            )
        return found_head.statement.head.size, bytes.fromhex(found_head.statement.head.root)
    size, found, root = text.partition(":")
    if not found or not (size.isascii() and size.isdigit()) or len(size) > 15:
        raise UsageError(
            f"{text[:80]!r} is not a tree head",
            mend="It is SIZE:ROOT, as `periplus head` prints it, or a file that `periplus head --out` wrote.",
        )
    return int(size), parse_digest(root)
