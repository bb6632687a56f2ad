"""Keys: the published vectors of X25519, and points that everybody would share a secret with."""

import pytest

from fedboard.common.protocols.secure_sum.advertised import Advertised, Secrets, commitment_to
from fedboard.common.protocols.secure_sum.masking import KeyPair, require_usable
from fedboard.common.wire.refusals import RefusedError

LOW_ORDER = (
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
)
SESSION = bytes(range(32))


def test_secrets_are_shared_as_rfc_7748_publishes_it() -> None:
    """Section 6.1."""
    alice = KeyPair.of(bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"))
    bob = KeyPair.of(bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"))

    assert alice.public.hex() == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    assert bob.public.hex() == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert alice.shared(bob.public).hex() == bob.shared(alice.public).hex() == shared


@pytest.mark.parametrize("point", LOW_ORDER)
def test_a_point_of_low_order_is_refused(point: str) -> None:
    pair = Secrets.fresh().mask_pair(SESSION)

    with pytest.raises(RefusedError):
        pair.shared(bytes.fromhex(point))
    with pytest.raises(RefusedError):
        require_usable(bytes.fromhex(point))
    for place in range(2):
        keys = [pair.public, pair.public, bytes(32)]
        keys[place] = bytes.fromhex(point)
        with pytest.raises(RefusedError):
            Advertised(b"".join(keys)).require_usable()


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_key_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(RefusedError):
        require_usable(b"\t" * length)


def test_keys_and_commitment_follow_from_the_secrets_and_the_session() -> None:
    secrets = Secrets.fresh()
    told = secrets.advertised(SESSION)

    assert told == secrets.advertised(SESSION)
    assert told.mask_key == secrets.mask_pair(SESSION).public
    assert told.share_key == secrets.share_pair().public
    assert told.commitment == commitment_to(secrets.self_seed, session=SESSION)
    assert told.mask_key != secrets.advertised(bytes(32)).mask_key
    assert told.commitment != secrets.advertised(bytes(32)).commitment


def test_no_two_sessions_have_a_secret_in_common_and_none_is_printed() -> None:
    several = [Secrets.fresh() for _ in range(50)]
    found = {part for each in several for part in (each.self_seed, each.mask_seed, each.share_private)}

    assert len(found) == 150
    assert repr(several[0]) == "Secrets()"
