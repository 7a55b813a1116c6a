"""Proofs for runs and sets of leaves, against the definition of the tree in RFC 9162, and against whatever a stranger sends."""

import random
from functools import cache
from hashlib import sha256
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.base.errors import DamageError, UsageError
from periplus.merkle import (
    PagedTree,
    Tree,
    inclusion_path,
    leaf_hash,
    prove,
    prove_indices,
    verify_indices,
    verify_range,
)

pytestmark = pytest.mark.quick

LEAVES = [leaf_hash(b"leaf %d" % place) for place in range(700)]


@cache
def tree_of(size):
    return Tree(LEAVES[:size])


def split(count):
    k = 1
    while 2 * k < count:
        k *= 2
    return k


def mth(leaves):
    """RFC 9162 §2.1.1, word by word."""
    if len(leaves) == 1:
        return leaves[0]
    k = split(len(leaves))
    return sha256(b"\x01" + mth(leaves[:k]) + mth(leaves[k:])).digest()


def needed(indices, start, end):
    """The nodes that a proof cannot do without: the highest ones over none of the leaves, by the tree's definition."""
    if not any(start <= index < end for index in indices):
        return {(start, end)}
    if end - start == 1:
        return set()
    middle = start + split(end - start)
    return needed(indices, start, middle) | needed(indices, middle, end)


def shape(indices, start, end):
    """What a verifier hashes together: two sizes with one shape cannot be told apart by any proof."""
    if not any(start <= index < end for index in indices):
        return "n"
    if end - start == 1:
        return "l"
    middle = start + split(end - start)
    return "(" + shape(indices, start, middle) + shape(indices, middle, end) + ")"


def flipped(data, bit):
    return data[: bit // 8] + bytes((data[bit // 8] ^ 1 << bit % 8,)) + data[bit // 8 + 1 :]


def placed(indices):
    return [(index, LEAVES[index]) for index in indices]


@pytest.mark.slow
def test_every_run_of_every_small_tree_is_proved_by_the_nodes_that_it_needs_and_no_others():
    for size in range(1, 34):
        tree, root = tree_of(size), mth(LEAVES[:size])
        for start in range(size):
            for end in range(start + 1, size + 1):
                nodes = prove(tree, start, end)
                assert verify_range(LEAVES[start:end], start, size, nodes, root)
                wanted = needed(range(start, end), 0, size)
                assert sorted(nodes) == sorted(mth(LEAVES[low:high]) for low, high in wanted)
                assert prove_indices(tree, range(start, end)) == nodes
                assert verify_indices(placed(range(start, end)), size, nodes, root)


def test_every_set_of_leaves_of_every_small_tree_is_proved_by_the_nodes_that_it_needs_and_no_others():
    for size in range(1, 11):
        tree, root = tree_of(size), mth(LEAVES[:size])
        for count in range(1, size + 1):
            for indices in combinations(range(size), count):
                nodes = prove_indices(tree, indices)
                assert verify_indices(placed(indices), size, nodes, root)
                assert sorted(nodes) == sorted(mth(LEAVES[low:high]) for low, high in needed(indices, 0, size))


@pytest.mark.slow
@given(st.integers(1, 700), st.data())
@settings(max_examples=200, deadline=None)
def test_sets_and_runs_of_larger_trees_hold_and_trees_of_pages_prove_the_same(size, data):
    tree, root = tree_of(size), tree_of(size).root()
    indices = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=20))
    page_leaves = data.draw(st.sampled_from([1, 2, 16, 256]))
    starts = range(0, size, page_leaves)
    read = []

    def leaves(page):
        read.append(page)
        return LEAVES[page * page_leaves : min(size, (page + 1) * page_leaves)]

    paged = PagedTree(
        size, [Tree(LEAVES[at : min(size, at + page_leaves)]).root() for at in starts], leaves, page_leaves
    )
    assert paged.root() == root
    assert not read
    nodes = prove_indices(tree, indices)
    assert prove_indices(paged, indices) == nodes
    assert set(read) <= {index // page_leaves for index in indices}
    assert verify_indices(placed(sorted(set(indices))), size, nodes, root)
    start, end = min(indices), max(indices) + 1
    read.clear()
    run = prove(tree, start, end)
    assert prove(paged, start, end) == run
    assert set(read) <= {start // page_leaves, (end - 1) // page_leaves}
    assert verify_range(LEAVES[start:end], start, size, run, root)
    assert len(run) <= 2 * size.bit_length()


def test_the_proof_of_one_leaf_is_its_inclusion_path():
    for size in (1, 2, 3, 7, 8, 9, 33, 100):
        for index in range(size):
            assert prove(tree_of(size), index, index + 1) == inclusion_path(LEAVES[:size], index)


def test_a_proof_of_an_earlier_size_holds_for_the_root_of_that_size():
    tree = tree_of(100)
    for size in (1, 5, 64, 77):
        assert verify_range(LEAVES[1:4][: size - 1] or LEAVES[:1], min(1, size - 1), size, prove(
            tree, min(1, size - 1), min(4, size), size), tree_of(size).root())  # fmt: skip


CASES = [(1, 0, 1), (2, 0, 1), (5, 1, 4), (8, 3, 5), (13, 12, 13), (13, 0, 13), (100, 37, 64)]


@pytest.mark.parametrize(("size", "start", "end"), CASES)
def test_every_changed_bit_of_a_run_is_refused(size, start, end):
    tree, root = tree_of(size), tree_of(size).root()
    nodes, leaves = prove(tree, start, end), LEAVES[start:end]
    assert verify_range(leaves, start, size, nodes, root)
    for bit in range(256):
        assert not verify_range(leaves, start, size, nodes, flipped(root, bit))
        for place in range(len(nodes)):
            changed = [*nodes[:place], flipped(nodes[place], bit), *nodes[place + 1 :]]
            assert not verify_range(leaves, start, size, changed, root)
        for place in range(len(leaves)):
            changed = [*leaves[:place], flipped(leaves[place], bit), *leaves[place + 1 :]]
            assert not verify_range(changed, start, size, nodes, root)
    for bit in range(70):
        assert not verify_range(leaves, start ^ 1 << bit, size, nodes, root)
        if verify_range(leaves, start, size ^ 1 << bit, nodes, root):
            assert shape(range(start, end), 0, size) == shape(range(start, end), 0, size ^ 1 << bit)
    for place in range(len(nodes)):
        assert not verify_range(leaves, start, size, [*nodes[:place], *nodes[place + 1 :]], root)
    assert not verify_range(leaves, start, size, [*nodes, LEAVES[0]], root)
    assert not verify_range(leaves[:-1], start, size, nodes, root)
    assert not verify_range([*leaves, LEAVES[end]], start, size, nodes, root)


@pytest.mark.parametrize(("size", "indices"), [(5, (0, 4)), (13, (1, 2, 11)), (100, (0, 17, 18, 63, 64, 99))])
def test_every_changed_bit_of_a_set_is_refused(size, indices):
    tree, root = tree_of(size), tree_of(size).root()
    nodes, leaves = prove_indices(tree, indices), placed(indices)
    assert verify_indices(leaves, size, nodes, root)
    for bit in range(256):
        assert not verify_indices(leaves, size, nodes, flipped(root, bit))
        for place in range(len(nodes)):
            changed = [*nodes[:place], flipped(nodes[place], bit), *nodes[place + 1 :]]
            assert not verify_indices(leaves, size, changed, root)
        for place, (index, leaf) in enumerate(leaves):
            changed = [*leaves[:place], (index, flipped(leaf, bit)), *leaves[place + 1 :]]
            assert not verify_indices(changed, size, nodes, root)
    for bit in range(70):
        for place, (index, leaf) in enumerate(leaves):
            changed = [*leaves[:place], (index ^ 1 << bit, leaf), *leaves[place + 1 :]]
            assert not verify_indices(changed, size, nodes, root)
            assert not verify_indices(sorted(changed), size, nodes, root)
        if verify_indices(leaves, size ^ 1 << bit, nodes, root):
            assert shape(indices, 0, size) == shape(indices, 0, size ^ 1 << bit)
    assert not verify_indices(leaves[::-1], size, nodes, root)
    assert not verify_indices([leaves[0], *leaves], size, nodes, root)


def test_the_verifiers_share_no_code_with_what_they_verify():
    import periplus.merkle.verify_multi as verifier

    names = {getattr(value, "__module__", None) for value in vars(verifier).values()}
    assert {name for name in names if name and name.startswith("periplus")} == {verifier.__name__}
    assert "import periplus" not in Path(verifier.__file__).read_text(encoding="utf-8")
    assert "from periplus" not in Path(verifier.__file__).read_text(encoding="utf-8")


def test_a_leaf_that_looks_like_a_node_is_none():
    left, right = LEAVES[:2]
    root = tree_of(2).root()
    pretended = left + right  # what the root hashes, offered as the data of the one leaf of a smaller tree
    assert not verify_range([leaf_hash(pretended)], 0, 1, [], root)
    assert not verify_range([leaf_hash(b"\x01" + pretended)], 0, 1, [], root)
    assert leaf_hash(pretended) != root
    # A node in the place of a leaf would hold: sizes and leaf hashes are the verifier's own, see the module.
    assert verify_range([root], 0, 1, [], root)


JUNK = st.one_of(
    st.none(), st.integers(-5, 2**70), st.binary(max_size=40), st.text(max_size=5), st.floats(), st.booleans(),
    st.lists(st.sampled_from([*LEAVES[:3], b"short", None, 7, (1, LEAVES[1]), (True, LEAVES[0]), (0, b"")]), max_size=4),
)  # fmt: skip


@given(JUNK, JUNK, JUNK, JUNK, JUNK)
@settings(max_examples=300, deadline=None)
def test_whatever_the_verifiers_are_given_they_answer(leaves, start, size, nodes, root):
    assert verify_range(leaves, start, size, nodes, root) in (True, False)
    assert verify_indices(leaves, size, nodes, root) in (True, False)
    assert not verify_range([], 0, 0, [], tree_of(1).root())
    assert not verify_indices([], 5, [], tree_of(5).root())


def test_random_proofs_never_hold():
    chance = random.Random(5)
    root = tree_of(50).root()
    for _ in range(3_000):
        nodes = [chance.choice(LEAVES) for _ in range(chance.randrange(8))]
        start = chance.randrange(50)
        leaves = LEAVES[start : start + chance.randrange(1, 5)]
        held = verify_range(leaves, start, 50, nodes, root)
        assert not held or nodes == prove(tree_of(50), start, start + len(leaves))


def test_what_cannot_be_proved_is_said():
    tree = tree_of(9)
    for start, end in ((0, 0), (3, 3), (5, 4), (-1, 2), (8, 10)):
        with pytest.raises(UsageError, match="no run of leaves"):
            prove(tree, start, end)
    for indices in ((), (9,), (-1, 2)):
        with pytest.raises(UsageError, match="does not have"):
            prove_indices(tree, indices)
    with pytest.raises(UsageError, match="power of two"):
        PagedTree(3, [LEAVES[0]], lambda _: LEAVES[:3], 3)
    with pytest.raises(UsageError, match="roots of pages"):
        PagedTree(300, [LEAVES[0]], lambda _: LEAVES[:3])
    with pytest.raises(DamageError, match="page 0 of the tree has 3 leaves"):
        prove(PagedTree(300, LEAVES[:2], lambda _: LEAVES[:3]), 3, 4)
    with pytest.raises(UsageError, match="no complete node"):
        tree.node(1, 4)
