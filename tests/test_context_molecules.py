"""Molecules: what is accepted, what their digest covers, and what the loss of an atom makes of them."""

from __future__ import annotations

import hashlib

import pytest

from periplus.base.errors import UsageError
from periplus.context.deltas.molecule_table import MoleculeTable, project, without
from periplus.context.model import BrokenMolecule, Context, Molecule, molecule_digest
from periplus.context.validation import check_molecule, normalised

pytestmark = pytest.mark.quick

A, B, C, D = (hashlib.sha256(name.encode()).digest() for name in "abcd")


def test_every_field_of_a_molecule_is_part_of_its_digest():
    base = Molecule((A, B), {"after": ((0, 1),)}, "Molecule", {"k": 1})
    others = [
        Molecule((B, A), {"after": ((0, 1),)}, "Molecule", {"k": 1}),
        Molecule((A, B, C), {"after": ((0, 1),)}, "Molecule", {"k": 1}),
        Molecule((A, B), {"before": ((0, 1),)}, "Molecule", {"k": 1}),
        Molecule((A, B), {"after": ((1, 0),)}, "Molecule", {"k": 1}),
        Molecule((A, B), {"after": ()}, "Molecule", {"k": 1}),
        Molecule((A, B), {}, "Molecule", {"k": 1}),
        Molecule((A, B), {"after": ((0, 1),)}, "Chain", {"k": 1}),
        Molecule((A, B), {"after": ((0, 1),)}, "Molecule", {"k": 2}),
    ]
    assert len({molecule_digest(each) for each in [base, *others]}) == len(others) + 1


def test_the_order_in_which_relations_are_given_is_not_part_of_the_digest():
    one = Molecule((A, B), {"x": ((0, 1), (1, 0)), "y": ()})
    two = Molecule((A, B), {"y": (), "x": ((1, 0), (0, 1), (1, 0))})
    assert molecule_digest(one) == molecule_digest(two)
    assert check_molecule("molecules[0]", two) == one
    assert list(check_molecule("molecules[0]", two).relations) == ["x", "y"]


def test_a_known_digest():
    """Written out by hand from the docstring, so that no change of the code can move both."""
    molecule = Molecule((A,), {"r": ((0, 0),)}, "T", {})
    expected = hashlib.sha256(
        b"periplus molecule 1\0" + b"\0" * 7 + b"\1T" + b"\0\0\0\1" + A + b"\0\0\0\1" + b"\0" * 7 + b"\1r"
        b"\0\0\0\1" + b"\0" * 8 + b"\0" * 7 + b"\2{}"
    )
    assert molecule_digest(molecule) == expected.digest()


def test_a_molecule_has_an_atom():
    with pytest.raises(UsageError, match=r"^molecules\[1\]\.atoms: a molecule has at least one atom"):
        normalised(Context(molecules=(Molecule((A,)), Molecule(()))))


def test_a_projection_keeps_atoms_that_unify_and_its_relations_at_their_new_places():
    types = {A: "String", B: "List[String]", C: "Int", D: "List[Any]"}
    molecule = Molecule((A, B, C, D), {"after": ((0, 1), (1, 3), (3, 1)), "beside": ((0, 2),)}, "Chain", {"k": 1})
    lists = project(molecule, "List[Int]", types.__getitem__)
    assert lists == Molecule((D,), {}, "Chain", {"k": 1})
    lists = project(molecule, "List[Any]", types.__getitem__)
    assert lists == Molecule((B, D), {"after": ((0, 1), (1, 0))}, "Chain", {"k": 1})
    assert project(molecule, "Any", types.__getitem__) == molecule
    assert project(molecule, "Float", types.__getitem__).atoms == ()
    with pytest.raises(UsageError):
        project(molecule, "List[", types.__getitem__)


def test_an_atom_without_a_relation_leaves_a_smaller_molecule_with_its_relations_at_the_new_places():
    molecule = Molecule((A, B, C, D), {"after": ((1, 3), (3, 3)), "kept empty": ()}, "Chain", {"k": 1})
    assert without(molecule, {A, C}) == Molecule(
        (B, D), {"after": ((0, 1), (1, 1)), "kept empty": ()}, "Chain", {"k": 1}
    )
    assert without(molecule, {B}) is None
    assert without(Molecule((A,)), {A}) is None


def test_a_table_follows_removals_reports_what_broke_and_forgets_the_report_when_told():
    plain = Molecule((A, B))
    tied = Molecule((A, C, D), {"after": ((0, 1),)})
    table = MoleculeTable([plain, tied])
    table.apply({D})
    assert table.molecules() == tuple(sorted((plain, Molecule((A, C), tied.relations)), key=molecule_digest))
    table.apply({A})
    assert table.molecules() == (Molecule((B,)),)
    (report,) = table.broken()
    assert report == BrokenMolecule(molecule_digest(Molecule((A, C), tied.relations)), (A,))
    assert table.names(report.digest)
    assert report.digest not in table
    table.apply({report.digest})
    assert table.broken() == ()


def test_a_broken_molecule_that_is_added_again_is_whole():
    tied = Molecule((A, B), {"after": ((0, 1),)})
    table = MoleculeTable([tied])
    table.apply({A})
    assert len(table) == 0
    table.apply((), [tied])
    assert table.molecules() == (tied,)
    assert table.broken() == ()


def test_a_molecule_removed_with_its_atom_is_not_reported():
    tied = Molecule((A, B), {"after": ((0, 1),)})
    table = MoleculeTable([tied])
    table.apply({A, molecule_digest(tied)})
    assert (table.molecules(), table.broken()) == ((), ())
