"""What two neighbours share: a mask that cancels, and boxes that only they can open."""

import numpy as np
import pytest

from fedboard.common.protocols.secure_sum.advertised import Secrets, pair_mask, self_mask
from fedboard.common.protocols.secure_sum.masking import BOX_BYTES, NO_SHARE, apply_masks, close_box, open_box

SESSION, OTHER = bytes(32), b"\1" * 32
SHARES = (b"a" * 17, b"b" * 17)


def test_the_masks_of_two_neighbours_cancel() -> None:
    ours, theirs = Secrets.fresh(), Secrets.fresh()
    we, they = ours.advertised(SESSION), theirs.advertised(SESSION)
    vector = np.arange(1000, dtype=np.uint32)

    apply_masks(vector, [pair_mask(ours.mask_pair(SESSION), we.identity, they, session=SESSION)])
    assert (vector != np.arange(1000)).mean() > 0.99
    apply_masks(vector, [pair_mask(theirs.mask_pair(SESSION), they.identity, we, session=SESSION)])

    np.testing.assert_array_equal(vector, np.arange(1000))


def test_no_two_masks_of_a_client_have_a_key_in_common() -> None:
    several = [Secrets.fresh() for _ in range(5)]
    keys = []
    for session in (SESSION, OTHER):
        told = [secrets.advertised(session) for secrets in several]
        keys += [self_mask(secrets.self_seed, session=session).key for secrets in several]
        keys += [
            pair_mask(several[a].mask_pair(session), told[a].identity, told[b], session=session).key
            for a in range(5)
            for b in range(a)
        ]

    assert len(set(keys)) == len(keys) == 2 * (5 + 10)


def test_a_box_is_opened_by_its_receiver_for_its_session_and_sender_alone() -> None:
    sender, receiver, stranger = (Secrets.fresh() for _ in range(3))
    own, to = sender.advertised(SESSION), receiver.advertised(SESSION)
    parties = own.identity + to.identity
    box = close_box(sender.share_pair(), to.share_key, SHARES, session=SESSION, parties=parties)
    turned = parties[32:] + parties[:32]

    def opened(
        secrets: Secrets, *, session: bytes = SESSION, parties: bytes, box: bytes
    ) -> tuple[bytes, bytes]:
        return open_box(secrets.share_pair(), own.share_key, box, session=session, parties=parties)

    assert len(box) == BOX_BYTES
    assert opened(receiver, parties=parties, box=box) == SHARES
    nothing = (NO_SHARE, NO_SHARE)
    assert opened(stranger, parties=parties, box=box) == nothing
    assert opened(receiver, session=OTHER, parties=parties, box=box) == nothing
    assert opened(receiver, parties=turned, box=box) == nothing
    assert opened(receiver, parties=parties, box=bytes(BOX_BYTES)) == nothing


@pytest.mark.parametrize("place", [0, 16, 33, 49])
def test_a_box_that_was_changed_does_not_open(place: int) -> None:
    sender, receiver = Secrets.fresh(), Secrets.fresh()
    own, to = sender.advertised(SESSION), receiver.advertised(SESSION)
    parties = own.identity + to.identity
    box = bytearray(close_box(sender.share_pair(), to.share_key, SHARES, session=SESSION, parties=parties))
    box[place] ^= 1

    found = open_box(receiver.share_pair(), own.share_key, bytes(box), session=SESSION, parties=parties)

    assert found == (NO_SHARE, NO_SHARE)
