"""Trees and proofs against the definitions of RFC 9162, and the verifier against whatever a stranger may send."""

import math
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.base.errors import UsageError
from periplus.merkle import (
    EMPTY_ROOT,
    Tree,
    consistency_path,
    inclusion_path,
    leaf_hash,
    node_hash,
    root_of,
    verify_consistency,
    verify_inclusion,
)

SIZE_MAX = 70
LEAVES = [leaf_hash(b"leaf %d" % place) for place in range(SIZE_MAX)]
TREE = Tree(LEAVES)


# ---- the definitions of the RFC, word by word, over lists of leaf hashes


def split(count):
    k = 1
    while 2 * k < count:
        k *= 2
    return k


def mth(leaves):
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = split(len(leaves))
    return sha256(b"\x01" + mth(leaves[:k]) + mth(leaves[k:])).digest()


def path_of(m, leaves):
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    if m < k:
        return [*path_of(m, leaves[:k]), mth(leaves[k:])]
    return [*path_of(m - k, leaves[k:]), mth(leaves[:k])]


def subproof(m, leaves, whole):
    if m == len(leaves):
        return [] if whole else [mth(leaves)]
    k = split(len(leaves))
    if m <= k:
        return [*subproof(m, leaves[:k], whole), mth(leaves[k:])]
    return [*subproof(m - k, leaves[k:], False), mth(leaves[:k])]


def inclusion_sides(index, size):
    """On which side each node of an inclusion path is hashed: all of (index, size) that a path can show."""
    sides = ""
    while size > 1:
        k = split(size)
        if index < k:
            sides, size = "r" + sides, k
        else:
            sides, index, size = "l" + sides, index - k, size - k
    return sides


def consistency_sides(first, second):
    if first in (0, second):
        return "same" if first else "empty"
    sides = ""
    while first != second:
        k = split(second)
        if first <= k:
            sides, second = "r" + sides, k
        else:
            sides, first, second = "l" + sides, first - k, second - k
    return sides


# ---- known answers: the leaves, roots and paths of the certificate-transparency reference tests

KNOWN_LEAVES = [
    leaf_hash(bytes.fromhex(text))
    for text in [
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    ]
]
KNOWN_ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
LEAF_1 = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
LEAF_4 = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
NODE_23 = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
NODE_45 = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"
NODE_67 = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
NODE_4567 = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
KNOWN_INCLUSIONS = [
    (0, 1, []),
    (0, 8, [LEAF_1, NODE_23, NODE_4567]),
    (5, 8, [LEAF_4, NODE_67, KNOWN_ROOTS[4]]),
    (2, 3, [KNOWN_ROOTS[2]]),
    (1, 5, [KNOWN_ROOTS[1], NODE_23, LEAF_4]),
]
KNOWN_CONSISTENCIES = [
    (1, 1, []),
    (1, 8, [LEAF_1, NODE_23, NODE_4567]),
    (6, 8, [NODE_45, NODE_67, KNOWN_ROOTS[4]]),
    (2, 5, [NODE_23, LEAF_4]),
]


def hexes(nodes):
    return [node.hex() for node in nodes]


@pytest.mark.parametrize("size", range(9))
def test_roots_are_those_of_the_reference(size):
    assert root_of(KNOWN_LEAVES[:size]).hex() == KNOWN_ROOTS[size]
    assert Tree(KNOWN_LEAVES).root(size).hex() == KNOWN_ROOTS[size]


@pytest.mark.parametrize(("index", "size", "path"), KNOWN_INCLUSIONS)
def test_known_inclusion_paths(index, size, path):
    assert hexes(Tree(KNOWN_LEAVES).inclusion(index, size)) == path
    assert hexes(inclusion_path(KNOWN_LEAVES[:size], index)) == path
    nodes = [bytes.fromhex(text) for text in path]
    assert verify_inclusion(KNOWN_LEAVES[index], index, size, nodes, bytes.fromhex(KNOWN_ROOTS[size]))


@pytest.mark.parametrize(("first", "second", "path"), KNOWN_CONSISTENCIES)
def test_known_consistency_paths(first, second, path):
    assert hexes(Tree(KNOWN_LEAVES).consistency(first, second)) == path
    assert hexes(consistency_path(KNOWN_LEAVES[:second], first)) == path
    nodes = [bytes.fromhex(text) for text in path]
    roots = bytes.fromhex(KNOWN_ROOTS[first]), bytes.fromhex(KNOWN_ROOTS[second])
    assert verify_consistency(first, second, nodes, *roots)


# ---- every size up to SIZE_MAX against the definitions


def test_every_root_and_inclusion_path_equals_the_definition():
    for size in range(SIZE_MAX + 1):
        leaves = LEAVES[:size]
        assert TREE.root(size) == mth(leaves)
        for index in range(size):
            path = TREE.inclusion(index, size)
            assert path == path_of(index, leaves)
            assert verify_inclusion(LEAVES[index], index, size, path, mth(leaves))


def test_every_consistency_path_equals_the_definition():
    for second in range(SIZE_MAX + 1):
        assert TREE.consistency(0, second) == []
        assert verify_consistency(0, second, [], EMPTY_ROOT, TREE.root(second))
        for first in range(1, second + 1):
            path = TREE.consistency(first, second)
            assert path == subproof(first, LEAVES[:second], True)
            assert verify_consistency(first, second, path, TREE.root(first), TREE.root(second))


@given(st.lists(st.integers(0, 40), max_size=8), st.data())
@settings(deadline=None)
def test_a_tree_grown_in_any_steps_is_the_same_tree(steps, data):
    tree = Tree()
    for step in steps:
        begin = tree.size
        added = [leaf_hash(b"%d" % place) for place in range(begin, begin + step)]
        if data.draw(st.booleans()):
            tree.extend(iter(added))
        else:
            for leaf in added:
                tree.append(leaf)
    leaves = [leaf_hash(b"%d" % place) for place in range(sum(steps))]
    assert tree.size == len(leaves)
    assert tree.root() == mth(leaves)
    if leaves:
        size = data.draw(st.integers(1, len(leaves)))
        index = data.draw(st.integers(0, size - 1))
        first = data.draw(st.integers(1, size))
        assert tree.inclusion(index, size) == path_of(index, leaves[:size])
        assert tree.consistency(first, size) == subproof(first, leaves[:size], True)


def test_a_large_tree_proves_with_paths_of_logarithmic_length():
    leaves = [leaf_hash(place.to_bytes(4, "big")) for place in range(100_001)]
    tree = Tree(leaves)
    assert tree.root() == node_hash(root_of(leaves[:65_536]), root_of(leaves[65_536:]))
    for index in (0, 1, 65_535, 65_536, 99_999, 100_000):
        path = tree.inclusion(index)
        assert len(path) <= math.ceil(math.log2(tree.size))
        assert verify_inclusion(leaves[index], index, tree.size, path, tree.root())
    for first in (1, 65_535, 65_536, 65_537, 100_000):
        path = tree.consistency(first)
        assert len(path) <= math.ceil(math.log2(tree.size)) + 1
        assert verify_consistency(first, tree.size, path, tree.root(first), tree.root())


# ---- nothing else verifies


def flips(data):
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


@pytest.mark.parametrize(("index", "size"), [(0, 1), (0, 2), (3, 7), (6, 7), (4, 8), (12, 13), (5, 33)])
def test_one_flipped_bit_of_an_inclusion_proof_is_rejected(index, size):
    leaf, path, root = LEAVES[index], TREE.inclusion(index, size), TREE.root(size)
    assert verify_inclusion(leaf, index, size, path, root)
    assert not any(verify_inclusion(wrong, index, size, path, root) for wrong in flips(leaf))
    assert not any(verify_inclusion(leaf, index, size, path, wrong) for wrong in flips(root))
    for place, node in enumerate(path):
        for wrong in flips(node):
            assert not verify_inclusion(leaf, index, size, [*path[:place], wrong, *path[place + 1 :]], root)


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 3), (3, 7), (4, 8), (6, 8), (7, 13), (13, 33)])
def test_one_flipped_bit_of_a_consistency_proof_is_rejected(first, second):
    path, old, new = TREE.consistency(first, second), TREE.root(first), TREE.root(second)
    assert verify_consistency(first, second, path, old, new)
    assert not any(verify_consistency(first, second, path, wrong, new) for wrong in flips(old))
    assert not any(verify_consistency(first, second, path, old, wrong) for wrong in flips(new))
    for place, node in enumerate(path):
        for wrong in flips(node):
            changed = [*path[:place], wrong, *path[place + 1 :]]
            assert not verify_consistency(first, second, changed, old, new)


def test_an_inclusion_proof_holds_for_no_other_place():
    for size in range(1, 34):
        for index in range(size):
            path = TREE.inclusion(index, size)
            for bit in range(8):
                other = index ^ 1 << bit
                assert not verify_inclusion(LEAVES[index], other, size, path, TREE.root(size))


def test_an_inclusion_proof_holds_for_another_size_only_where_the_place_is_the_same():
    accepted = 0
    for size in range(1, 34):
        for index in range(size):
            path = TREE.inclusion(index, size)
            for other in (size ^ 1 << bit for bit in range(8)):
                same = index < other and inclusion_sides(index, other) == inclusion_sides(index, size)
                assert verify_inclusion(LEAVES[index], index, other, path, TREE.root(size)) == same
                accepted += same
                assert not (same and index == size - 1)  # the last leaf's path shows the size
    assert accepted


def test_a_consistency_proof_holds_for_other_sizes_only_where_the_places_are_the_same():
    for second in range(2, 34):
        for first in range(1, second):
            path, old, new = TREE.consistency(first, second), TREE.root(first), TREE.root(second)
            sides = consistency_sides(first, second)
            for bit in range(7):
                other = first ^ 1 << bit
                assert not verify_consistency(other, second, path, old, new)
                other = second ^ 1 << bit
                same = first < other and consistency_sides(first, other) == sides
                assert verify_consistency(first, other, path, old, new) == same


def test_a_path_with_a_node_more_or_fewer_is_rejected():
    for size in range(1, 34):
        root = TREE.root(size)
        for index in range(size):
            path = TREE.inclusion(index, size)
            assert not verify_inclusion(LEAVES[index], index, size, [*path, LEAVES[0]], root)
            assert not verify_inclusion(LEAVES[index], index, size, [LEAVES[0], *path], root)
            if path:
                assert not verify_inclusion(LEAVES[index], index, size, path[1:], root)
                assert not verify_inclusion(LEAVES[index], index, size, path[:-1], root)
        for first in range(1, size):
            path = TREE.consistency(first, size)
            roots = TREE.root(first), root
            assert not verify_consistency(first, size, [*path, LEAVES[0]], *roots)
            assert not verify_consistency(first, size, [LEAVES[0], *path], *roots)
            assert not verify_consistency(first, size, path[1:], *roots)
            assert not verify_consistency(first, size, path[:-1], *roots)


def test_a_changed_history_has_no_consistency_proof():
    changed = Tree([leaf_hash(b"another"), *LEAVES[1:]])
    for second in range(2, 20):
        for first in range(1, second + 1):
            path = changed.consistency(first, second)
            assert not verify_consistency(first, second, path, TREE.root(first), changed.root(second))


def test_the_empty_and_the_equal_tree():
    root = TREE.root()
    assert verify_consistency(0, 0, [], EMPTY_ROOT, EMPTY_ROOT)
    assert not verify_consistency(0, 0, [], EMPTY_ROOT, root)
    assert not verify_consistency(0, 5, [], root, root)
    assert not verify_consistency(0, 5, [root], EMPTY_ROOT, root)
    assert not verify_consistency(5, 5, [], root, LEAVES[0])
    assert not verify_consistency(5, 5, [root], root, root)
    assert not verify_consistency(3, 5, [], root, root)
    assert not verify_consistency(5, 3, [], root, root)
    assert not verify_inclusion(EMPTY_ROOT, 0, 0, [], EMPTY_ROOT)


# ---- hostile input: an answer, never an exception

odd = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.text(max_size=40),
    st.binary(max_size=40),
    st.integers(-(2**70), 2**70),
    st.just(10**400),
    st.lists(st.one_of(st.binary(min_size=32, max_size=32), st.binary(max_size=33), st.integers()), max_size=70),
    st.just(bytearray(32)),
    st.dictionaries(st.integers(), st.integers(), max_size=2),
)
hashes = st.binary(min_size=32, max_size=32)
sizes = st.integers(0, 2**66)


@pytest.mark.slow
@given(st.one_of(hashes, odd), st.one_of(sizes, odd), st.one_of(sizes, odd), odd, st.one_of(hashes, odd))
def test_hostile_input_never_verifies_and_never_raises(one, two, three, path, five):
    assert verify_inclusion(one, two, three, path, five) in ((three == 1 and two == 0 and one == five), False)
    assert type(verify_consistency(two, three, path, one, five)) is bool


@pytest.mark.parametrize("wrong", [True, 1.0, "1", None, -1, 1 << 64, 10**400])
def test_a_count_that_is_no_count_is_refused(wrong):
    path, root = TREE.inclusion(1, 2), TREE.root(2)
    assert verify_inclusion(LEAVES[1], 1, 2, path, root)
    assert not verify_inclusion(LEAVES[1], wrong, 2, path, root)
    assert not verify_inclusion(LEAVES[1], 1, wrong, path, root)
    assert not verify_consistency(wrong, 2, path, LEAVES[0], root)
    assert not verify_consistency(1, wrong, path, LEAVES[0], root)


@pytest.mark.parametrize("wrong", [b"", b"x" * 31, b"x" * 33, "x" * 32, None, bytearray(32), 7])
def test_a_hash_that_is_no_hash_is_refused(wrong):
    path, root = TREE.inclusion(0, 2), TREE.root(2)
    assert not verify_inclusion(wrong, 0, 2, path, root)
    assert not verify_inclusion(LEAVES[0], 0, 2, path, wrong)
    assert not verify_inclusion(LEAVES[0], 0, 2, [wrong], root)
    assert not verify_inclusion(wrong, 0, 1, [], wrong)
    assert not verify_consistency(1, 2, [wrong], LEAVES[0], root)
    assert not verify_consistency(1, 1, [], wrong, wrong)


def test_a_path_is_bounded_and_is_a_list():
    nodes = [LEAVES[0]] * 65
    assert not verify_inclusion(LEAVES[0], 0, (1 << 64) - 1, nodes, LEAVES[0])
    assert not verify_inclusion(LEAVES[0], 0, 2, iter([LEAVES[1]]), TREE.root(2))
    assert not verify_inclusion(LEAVES[0], 0, 2, {LEAVES[1]: 0}, TREE.root(2))
    assert not verify_inclusion(LEAVES[0], 0, 2, LEAVES[1], TREE.root(2))
    assert verify_inclusion(LEAVES[0], 0, 2, (LEAVES[1],), TREE.root(2))


def test_a_path_of_64_nodes_is_walked():
    found = LEAVES[0]
    for _ in range(64):
        found = node_hash(found, LEAVES[1])
    assert verify_inclusion(LEAVES[0], 0, (1 << 64) - 1, [LEAVES[1]] * 64, found)


# ---- what the tree refuses


@pytest.mark.parametrize(
    "call",
    [
        lambda tree: tree.inclusion(-1),
        lambda tree: tree.inclusion(3),
        lambda tree: tree.inclusion(2, 2),
        lambda tree: tree.inclusion(0, 0),
        lambda tree: tree.inclusion(0, 4),
        lambda tree: tree.consistency(4),
        lambda tree: tree.consistency(3, 2),
        lambda tree: tree.consistency(-1),
        lambda tree: tree.consistency(1, 4),
        lambda tree: tree.root(4),
        lambda tree: tree.root(-1),
        lambda tree: tree.append(b"short"),
        lambda tree: tree.extend([LEAVES[3], b"x" * 33]),
    ],
)
def test_what_does_not_exist_is_a_usage_error_and_changes_nothing(call):
    tree = Tree(LEAVES[:3])
    with pytest.raises(UsageError):
        call(tree)
    assert tree.size == 3
    assert tree.root() == mth(LEAVES[:3])
