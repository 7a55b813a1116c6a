"""What was written once is read for ever, and written again as it was: files of ``tests/golden/contexts-v1``.

Each has a context as people read it, its record and objects in hexadecimal, and what follows from them. They are promises: a
change of the format makes new files beside them.
"""

import json
from pathlib import Path

import pytest

from periplus.context.model import Atom, Context, Molecule, annotation_record, atom_digest, molecule_digest
from periplus.context.records.record import check, decode, encode, normalised, prepare, read_header
from periplus.context.types import Kind, TypeSignature, parse
from periplus.context.v1_names import atom_alias, context_alias_of
from periplus.merkle import Tree, leaf_hash, prove, verify_range

pytestmark = pytest.mark.quick

FOLDER = Path(__file__).with_name("golden") / "contexts-v1"
NAMES = ["changes", "empty", "few", "long", "many"]


def context_of(form):
    return Context(
        base=bytes.fromhex(form["base"]) if form["base"] else None,
        atoms=tuple(
            Atom(each["content"], each["type"], each["time_ms"], each["relevance"], each["source"], tuple(each["tags"]))
            for each in form["atoms"]
        ),
        molecules=tuple(
            Molecule(
                tuple(map(bytes.fromhex, each["atoms"])),
                {name: tuple(map(tuple, pairs)) for name, pairs in each["relations"].items()},
                each["type"],
                each["metadata"],
            )
            for each in form["molecules"]
        ),
        removed=tuple(map(bytes.fromhex, form["removed"])),
        metadata=form["metadata"],
        merged=tuple(map(bytes.fromhex, form["merged"])),
    )


def golden(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def written(form):
    """What the file of a context says: from the context, ``depth`` and ``live`` alone."""
    one = encode(context_of(form["context"]), depth=form["depth"], live=form["live"])
    prepared = prepare(context_of(form["context"]))
    atoms = prepared.context.atoms
    tree = Tree([leaf_hash(annotation_record(*row)) for row in zip(prepared.atom_digests, atoms, strict=True)])
    start, end = len(atoms) // 3, -(-2 * len(atoms) // 3)
    return {
        "context": form["context"],
        "depth": form["depth"],
        "live": form["live"],
        "digest": one.digest.hex(),
        "atoms_root": tree.root().hex(),
        "identities": [atom_digest(atom).hex() for atom in atoms[:3]],
        "molecules": [molecule_digest(molecule).hex() for molecule in prepared.context.molecules],
        "aliases": [atom_alias(atom) for atom in atoms[:3]],
        "alias_of_the_context_as_a_root": context_alias_of(context_of(form["context"]), None),
        "proof": {
            "start": start,
            "end": end,
            "nodes": [node.hex() for node in prove(tree, start, end)] if atoms else [],
        },
        "objects": [data.hex() for _, data in one.objects],
    }


@pytest.mark.parametrize("name", NAMES)
def test_what_was_written_is_written_again_as_it_was(name):
    form = golden(name)
    assert written(form) == form


@pytest.mark.parametrize("name", NAMES)
def test_what_was_written_is_read(name):
    form = golden(name)
    one = encode(context_of(form["context"]), depth=form["depth"], live=form["live"])
    objects = {digest: bytes.fromhex(text) for (digest, _), text in zip(one.objects, form["objects"], strict=True)}
    record = bytes.fromhex(form["objects"][0])
    view = check(record, objects.__getitem__)
    assert view.header.digest.hex() == form["digest"]
    assert view.header.atoms_root.hex() == form["atoms_root"]
    assert (view.header.depth, view.header.live) == (form["depth"], form["live"])
    assert decode(record, objects.__getitem__) == normalised(context_of(form["context"]))
    assert read_header(record).header == view.header
    start, end = form["proof"]["start"], form["proof"]["end"]
    rows = [row for page in view.pages(objects.__getitem__) for row in view.rows_of(page, objects.__getitem__)]
    leaves = [leaf_hash(annotation_record(*row)) for row in rows[start:end]]
    nodes = [bytes.fromhex(node) for node in form["proof"]["nodes"]]
    assert verify_range(leaves, start, len(rows), nodes, view.header.atoms_root) is bool(rows)


def test_no_file_is_forgotten():
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == sorted([*NAMES, "types"])


def test_types_print_as_they_did():
    for text, form in golden("types").items():
        signature = parse(text)
        assert str(signature) == text
        assert as_form(signature) == form
        assert of_form(form) == signature


def as_form(signature):
    return {
        "name": signature.name,
        "kind": signature.kind.value,
        "parameters": [as_form(parameter) for parameter in signature.parameters],
        "constraints": list(signature.constraints),
    }


def of_form(form):
    return TypeSignature(
        form["name"], Kind(form["kind"]), tuple(map(of_form, form["parameters"])), tuple(form["constraints"])
    )
