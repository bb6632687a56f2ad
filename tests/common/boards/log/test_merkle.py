"""The tree of RFC 6962: its published roots, and proofs of which every one holds and none that was changed."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedboard.common.boards.log.merkle import (
    EMPTY_ROOT,
    consistency_proof,
    inclusion_proof,
    is_consistent,
    is_included,
    leaf_hash,
    root_of,
)

ENTRIES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
"""Of the first 1 to 8 of them, as the tests of certificate transparency's reference code have them."""
SIZES = st.integers(1, 40)


def leaves(size: int) -> list[bytes]:
    return [leaf_hash(str(number).encode()) for number in range(size)]


def test_roots_are_those_of_the_reference() -> None:
    made = [leaf_hash(bytes.fromhex(entry)) for entry in ENTRIES]

    assert [root_of(made[:size]).hex() for size in range(1, 9)] == ROOTS
    assert root_of([]) == EMPTY_ROOT == hashlib.sha256(b"").digest()


@given(SIZES, st.data())
def test_every_leaf_is_shown_to_be_in_its_place_and_nowhere_else(size: int, data: st.DataObject) -> None:
    index, other = (data.draw(st.integers(0, size - 1)) for _ in range(2))
    made = leaves(size)
    proof, root = inclusion_proof(made, index), root_of(made)

    assert is_included(made[index], index, size, proof, root)
    if other != index:
        assert not is_included(made[other], index, size, proof, root)
        assert not is_included(made[index], other, size, proof, root)
    for wrong in changed(proof, data):
        assert not is_included(made[index], index, size, wrong, root)
    assert not is_included(made[index], size, size, proof, root)
    assert not is_included(made[index], -1, size, proof, root)


@given(SIZES, st.data())
def test_every_earlier_tree_is_shown_to_be_one_and_no_other_is(size: int, data: st.DataObject) -> None:
    old = data.draw(st.integers(0, size))
    made = leaves(size)
    proof, root, before = consistency_proof(made, old), root_of(made), root_of(made[:old])

    assert is_consistent(old, before, size, root, proof)
    forked = [*made[: max(old - 1, 0)], leaf_hash(b"another")]
    assert not is_consistent(len(forked), root_of(forked), size, root, consistency_proof(made, len(forked)))
    if 0 < old < size:
        for wrong in changed(proof, data):
            assert not is_consistent(old, before, size, root, wrong)
        assert not is_consistent(old, root_of(forked), size, root, proof)
        assert not is_consistent(old - 1, before, size, root, proof)
        assert not is_consistent(old, before, size, root_of([*made[:-1], leaf_hash(b"x")]), proof)


@given(st.integers(1, 12), st.integers(1, 12), st.lists(st.binary(min_size=32, max_size=32), max_size=6))
def test_no_made_up_proof_leads_from_one_log_to_another(old: int, more: int, made_up: list[bytes]) -> None:
    one, other = leaves(old), [leaf_hash(b"other"), *leaves(old + more)[1:]]

    assert not is_consistent(old, root_of(one), old + more, root_of(other), made_up)
    honest = consistency_proof(other, old)
    assert not is_consistent(old, root_of(one), old + more, root_of(other), honest)


def changed(proof: list[bytes], data: st.DataObject) -> list[list[bytes]]:
    """The proof with a bit flipped, with a hash more, less, and in another order."""
    if not proof:
        return [[bytes(32)]]
    place, bit = data.draw(st.integers(0, len(proof) - 1)), data.draw(st.integers(0, 255))
    flipped = bytearray(proof[place])
    flipped[bit // 8] ^= 1 << bit % 8
    wrong = [[*proof[:place], bytes(flipped), *proof[place + 1 :]], [*proof, bytes(32)], proof[:-1]]
    wrong += [[*proof[:place], *proof[place + 1 :]], [bytes(32), *proof]]
    return [*wrong, proof[::-1]] if len(proof) > 1 else wrong


def test_there_is_no_proof_of_what_is_not_there() -> None:
    with pytest.raises(ValueError, match="index"):
        inclusion_proof(leaves(3), 3)
    with pytest.raises(ValueError, match="old_size"):
        consistency_proof(leaves(3), 4)
