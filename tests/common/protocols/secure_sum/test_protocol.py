"""Secure sums: exact whoever drops out when, and given up where too few are left."""

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from fedboard.common.errors import InputError, PrivacyError, TooFewAnswersError
from fedboard.common.messages.refusals import RefusedError
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.protocols.secure_sum.messages import STEPS, MaskingStep
from fedboard.common.protocols.secure_sum.protocol import SecureSum
from fedboard.common.protocols.secure_sum.rules import share_of
from fedboard.common.protocols.secure_sum.server import Messages
from tests.common.protocols.secure_sum.secure_sums import BOUND, Summing, a_request, given


def carried_through(summing: Summing, lost: list[set[str]]) -> set[str]:
    """Run all steps; who gave masked numbers."""
    gone: set[str] = set()
    contributed: set[str] = set()
    for step, leaving in enumerate(lost):
        gone |= leaving
        summing.step(but=gone)
        if step == MaskingStep.MASKED:
            contributed = set(summing.numbers) - gone
    return contributed


@pytest.mark.slow
@drawn(data=st.data())
@settings(max_examples=40, deadline=None)
def test_the_sum_is_exact_whoever_drops_out_at_which_step(data: st.DataObject) -> None:
    count = data.draw(st.integers(3, 11), label="clients")
    summing = Summing.of(count, width=data.draw(st.integers(1, 6), label="numbers"))
    most = share_of(count, 0.3)
    steps = data.draw(
        st.lists(
            st.tuples(st.sampled_from(sorted(summing.numbers)), st.integers(0, 3)),
            max_size=most,
            unique_by=lambda leaving: leaving[0],
        ),
        label="who leaves when",
    )

    contributed = carried_through(summing, [{name for name, at in steps if at == step} for step in range(4)])

    assert contributed >= set(summing.numbers) - {name for name, at in steps if at < 3}
    np.testing.assert_array_equal(summing.total(), summing.expected(contributed))


@pytest.mark.slow
def test_a_ring_of_neighbourhoods_sums_exactly_with_a_fifth_dropped() -> None:
    summing = Summing.of(60, dropout=0.2, colluding=0.0)
    names = sorted(summing.numbers)

    contributed = carried_through(
        summing, [set(names[:4]), set(names[4:6]), set(names[6:12]), set(names[12:14])]
    )

    around = summing.server._graph.around
    assert around.size < 55
    assert contributed == set(names[12:])
    np.testing.assert_array_equal(summing.total(), summing.expected(contributed))


def test_without_dropouts_extreme_numbers_are_summed_without_wrapping_around() -> None:
    summing = Summing.of(5, width=1)
    summing.numbers = {name: np.array([sign * BOUND]) for name, sign in zip(summing.numbers, (1, 1, 1, 1, 1))}  # noqa: B905

    carried_through(summing, [set()] * 4)

    assert summing.total() == [5 * BOUND]


def test_below_the_smallest_set_of_survivors_nobody_is_asked_for_a_share() -> None:
    summing = Summing.of(10).until(MaskingStep.MASKED)

    with pytest.raises(TooFewAnswersError) as given_up:
        summing.step(but=set(sorted(summing.numbers)[:4]))

    assert given_up.value.given
    assert not summing.server.outgoing()
    assert not summing.server.asks_contributions


def test_clients_with_too_few_neighbours_left_are_not_asked_on() -> None:
    """Eight of twelve may go on; with three neighbours fewer than are needed nobody could be unmasked."""
    summing = Summing.of(12, survivors=5)
    names = sorted(summing.numbers)
    summing.until(MaskingStep.SHARES)

    with pytest.raises(TooFewAnswersError) as given_up:
        summing.step(but=set(names[:6]))

    assert not given_up.value.given


def test_one_vector_is_held_however_many_clients_reply() -> None:
    summing = Summing.of(6, width=1000).until(MaskingStep.MASKED)
    total = summing.server._total

    summing.step()

    assert summing.server._total is total
    assert total.nbytes == 4000
    assert not summing.server._boxes


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name.lower())
def test_a_message_is_made_to_be_sent_and_not_where_a_reply_is_taken(
    step: MaskingStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    summing = Summing.of(4).until(step)
    replies = summing.collect()
    monkeypatch.delattr(Messages, "__getitem__")

    for name, reply in replies.items():
        summing.server.take(name, reply)

    with pytest.raises(RefusedError, match="unknown-node"):
        summing.server.take("nobody", replies["client-0"])


# What is refused before anything is said.


@pytest.mark.parametrize(
    "settings",
    [
        {"dropout": 0.5, "colluding": 0.1},
        {"dropout": -0.1},
        {"dropout": True},
        {"colluding": 1.0},
        {"survivors": 1},
        {"survivors": 11},
        {"survivors": 2.5},
        {"most_users": 0},
        {"most_users": 1 << 40},
        {"rounds": 3},
    ],
)
def test_settings_that_cannot_be_kept_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(InputError):
        SecureSum.sized(clients=10, users=10, settings=settings)


@pytest.mark.parametrize("clients", [1, 2])
def test_two_clients_are_refused_because_each_would_learn_the_others_numbers(clients: int) -> None:
    with pytest.raises(InputError, match="each of two would learn"):
        SecureSum.sized(clients=clients, users=10, settings={})
    protocol = SecureSum.sized(clients=3, users=10, settings={})
    with pytest.raises(TooFewAnswersError):
        protocol.open(b"", [a_request()], [f"{k}" for k in range(clients)], n_items=0)


def test_a_name_that_comes_twice_is_refused() -> None:
    protocol = SecureSum.sized(clients=3, users=10, settings={})

    with pytest.raises(InputError, match="each once"):
        protocol.open(b"", [a_request()], ["a", "b", "c", "a"], n_items=0)


def test_more_rows_than_there_is_room_for_are_not_sent() -> None:
    summing = Summing.of(4)
    protocol = SecureSum.from_parameters({**summing.protocol.parameters, "most_users": 1})
    summing.clients["client-0"] = protocol.join(b"run, round, board", SecureNoise())
    summing.until(MaskingStep.MASKED)
    two = given(summing.numbers["client-0"])
    rows = two.contribution
    doubled = np.repeat(rows.totals["numbers"], 2, axis=0)
    object.__setattr__(rows, "totals", {"numbers": doubled})
    object.__setattr__(rows, "indptr", np.zeros(3, dtype=np.int64))

    with pytest.raises(PrivacyError, match="have room for 1"):
        summing.clients["client-0"].answer(dict(summing.server.outgoing())["client-0"], two)
