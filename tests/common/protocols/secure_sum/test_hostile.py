"""Secure sums among hostile parties: what the server refuses of clients, and clients of the server."""

import os
import time
from itertools import combinations

import numpy as np
import pytest

from fedboard.common.errors import InputError, TooFewAnswersError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.protocols.secure_sum.masking import combine
from fedboard.common.protocols.secure_sum.messages import STEPS, MaskingStep, Wanted, ask
from fedboard.common.protocols.secure_sum.rules import MOST_CLIENTS
from tests.common.protocols.secure_sum.secure_sums import (
    ABOUT,
    BOUND,
    Summing,
    content_of,
    given,
    with_content,
)
from tests.common.protocols.secure_sum.test_masking import LOW_ORDER
from tests.refusals import refused


def finished(summing: Summing) -> None:
    """The session comes to its end, and the sum is right."""
    while summing.step():
        pass
    np.testing.assert_array_equal(summing.total(), summing.expected(set(summing.numbers)))


# Clients against the server and each other.


@pytest.mark.parametrize("point", LOW_ORDER)
@pytest.mark.parametrize("place", [0, 32])
def test_the_server_refuses_keys_of_low_order(point: str, place: int) -> None:
    summing = Summing.of(3)
    keys = bytearray(content_of(summing.collect()["client-0"]).tobytes())
    keys[place : place + 32] = bytes.fromhex(point)
    bad = with_content(summing.replies[MaskingStep.KEYS]["client-0"], np.frombuffer(keys, dtype=np.uint8))

    assert refused(summing.server.take, "client-0", bad) is Refusal.MALFORMED
    finished(summing)


def test_the_server_refuses_somebody_elses_keys() -> None:
    summing = Summing.of(3)
    replies = summing.collect()
    summing.server.take("client-0", replies["client-0"])
    theirs, ours = content_of(replies["client-0"]), content_of(replies["client-1"])
    for keys in (theirs, np.r_[theirs[:32], ours[32:]], np.r_[ours[:32], theirs[:32], ours[64:]]):
        bad = with_content(replies["client-1"], keys)
        assert refused(summing.server.take, "client-1", bad) is Refusal.DUPLICATE
    twice = with_content(replies["client-1"], np.r_[ours[:32], ours[:32], ours[64:]])
    assert refused(summing.server.take, "client-1", twice) is Refusal.DUPLICATE

    for name in ("client-1", "client-2"):
        summing.server.take(name, replies[name])
    assert summing.server.proceed()
    finished(summing)


@pytest.mark.parametrize("step", list(STEPS))
def test_replies_that_are_cut_of_another_shape_or_of_another_session_are_refused(step: MaskingStep) -> None:
    summing, earlier = Summing.of(4).until(step), Summing.of(4).until(step)
    reply, replayed = summing.collect()["client-1"], earlier.collect()["client-1"]
    content = content_of(reply)
    bad = [reply[:cut] for cut in (0, 7, 12, len(reply) // 2, len(reply) - 1)]
    bad += [
        reply + b"\0",
        replayed,
        with_content(reply, content[:-1]),
        with_content(reply, content.view("i1")),
    ]
    bad += [with_content(reply, content, "more"), with_content(reply, content, session="")]
    bad += [with_content(reply, content, clients=3), with_content(reply, np.r_[content, content])]
    bad += [summing.messages[step]["client-1"]]

    for message in bad:
        refused(summing.server.take, "client-1", message)
    for name, good in summing.replies[step].items():
        summing.server.take(name, good)
    if summing.server.proceed():
        finished(summing)
    np.testing.assert_array_equal(summing.total(), summing.expected(set(summing.numbers)))


def test_a_reply_of_an_earlier_step_and_one_after_the_end_are_refused() -> None:
    summing = Summing.of(4)
    while summing.step():
        pass

    for step in STEPS:
        assert (
            refused(summing.server.take, "client-0", summing.replies[step]["client-0"])
            is Refusal.UNKNOWN_NODE
        )


def test_wrong_shares_of_one_client_are_passed_over() -> None:
    summing = Summing.of(12).until(MaskingStep.UNMASK)
    replies = summing.collect()
    shares = content_of(replies["client-4"])
    replies["client-4"] = with_content(replies["client-4"], shares ^ 1)

    for name, reply in replies.items():
        summing.server.take(name, reply)
    summing.server.proceed()

    np.testing.assert_array_equal(summing.total(), summing.expected(set(summing.numbers)))


def test_too_many_wrong_shares_are_told_and_the_round_is_given_up() -> None:
    summing = Summing.of(8).until(MaskingStep.UNMASK)
    for name, reply in summing.collect().items():
        summing.server.take(name, with_content(reply, content_of(reply) ^ 1))

    with pytest.raises(TooFewAnswersError, match="a mask could not be taken away") as given_up:
        summing.server.proceed()
    assert given_up.value.given


def test_a_client_that_hands_out_wrong_shares_spoils_the_round_only_if_it_is_needed() -> None:
    """Boxes that do not open: its neighbours go on without; its own mask cannot be taken away."""
    for leaves, spoiled in ((MaskingStep.SHARES, False), (MaskingStep.UNMASK, True)):
        summing = Summing.of(8).until(MaskingStep.SHARES)
        replies = summing.collect()
        boxes = content_of(replies["client-2"]).copy()
        boxes[:, 0] ^= 1
        for name, reply in replies.items():
            if not (name == "client-2" and leaves is MaskingStep.SHARES):
                summing.server.take(name, with_content(reply, boxes) if name == "client-2" else reply)
        summing.server.proceed()
        summing.step()
        if spoiled:
            with pytest.raises(TooFewAnswersError):
                summing.step()
        else:
            summing.step()
            others = set(summing.numbers) - {"client-2"}
            np.testing.assert_array_equal(summing.total(), summing.expected(others))


@pytest.mark.parametrize("added", [1 << 31, (1 << 31) - 1, 40 * BOUND, -40 * BOUND])
def test_an_attempt_to_overflow_the_modulus_is_known_to_the_server_alone(
    added: int, caplog: pytest.LogCaptureFixture
) -> None:
    summing = Summing.of(5).until(MaskingStep.MASKED)
    replies = summing.collect()
    masked = content_of(replies["client-0"]).copy()
    masked += np.uint32(added % (1 << 32))
    replies["client-0"] = with_content(replies["client-0"], masked)
    for name, reply in replies.items():
        summing.server.take(name, reply)
    summing.server.proceed()

    summing.step()  # to give the round up would tell everybody about an exact sum

    expected = (summing.expected(set(summing.numbers)) + added + 2**31) % 2**32 - 2**31
    np.testing.assert_array_equal(summing.total(), expected)
    assert "larger than honest clients can have made" in caplog.text


# The server against clients.


def unmasking(summing: Summing, client: str, wanted: dict[str, Wanted], **changed: int) -> bytes:
    """A message that asks a client for these shares of others."""
    graph, server = summing.server._graph, summing.server
    joined = graph.joined[graph.names.index(client)]
    kinds = np.array([wanted[graph.names[other]] for other in joined.tolist()], dtype=np.uint8)
    clients = 1 + sum(kind is Wanted.SELF_SEED for name, kind in wanted.items() if name != client)
    return ask(MaskingStep.UNMASK, server._session, {"wanted": kinds}, **{"clients": clients, **changed})


def everybody(summing: Summing, but: set[str]) -> dict[str, Wanted]:
    return {name: Wanted.MASK_SEED if name in but else Wanted.SELF_SEED for name in summing.numbers}


def test_a_client_that_is_asked_twice_for_different_sets_answers_the_first() -> None:
    summing = Summing.of(7, survivors=5).until(MaskingStep.UNMASK)
    client = summing.clients["client-0"]
    first, second = (
        unmasking(summing, "client-0", everybody(summing, {name})) for name in ("client-1", "client-2")
    )

    reply = client.answer(first, None)

    assert refused(client.answer, second, None) is Refusal.OUT_OF_TURN
    assert client.answer(first, None) == reply
    again = summing.protocol.resume(ABOUT, SecureNoise(), client.to_bytes())
    assert refused(again.answer, second, None) is Refusal.OUT_OF_TURN


@pytest.mark.parametrize("step", [MaskingStep.KEYS, MaskingStep.SHARES, MaskingStep.MASKED])
def test_a_step_is_answered_once(step: MaskingStep) -> None:
    summing, other = Summing.of(5).until(step), Summing.of(5)
    summing.collect()
    message = summing.messages[step]["client-0"]
    changed = dict(other.server.outgoing())["client-0"]
    if step is MaskingStep.SHARES:
        changed = with_content(message, content_of(message, "neighbours"), "neighbours", clients=4)
    if step is MaskingStep.MASKED:
        changed = with_content(message, content_of(message, "boxes") ^ 1, "boxes")
    client, replies = summing.clients["client-0"], summing.replies[step]

    assert refused(client.answer, changed, given(summing.numbers["client-0"])) is Refusal.OUT_OF_TURN
    assert client.answer(message, given(summing.numbers["client-1"])) == replies["client-0"]


def test_steps_out_of_turn_are_refused() -> None:
    whole = Summing.of(4)
    while whole.step():
        pass
    fresh = whole.protocol.join(ABOUT, SecureNoise())
    for step in (MaskingStep.SHARES, MaskingStep.MASKED, MaskingStep.UNMASK):
        message = whole.messages[step]["client-0"]
        assert refused(fresh.answer, message, given(whole.numbers["client-0"])) is Refusal.OUT_OF_TURN


@pytest.mark.parametrize("count", [3, 8, 20])
def test_two_sets_of_survivors_never_give_enough_shares_of_both_kinds(count: int) -> None:
    """A server that tells one half of the clients that somebody stayed and the other that she dropped out."""
    summing = Summing.of(count, dropout=0.3).until(MaskingStep.UNMASK)
    names, around = sorted(summing.numbers), summing.server._graph.around
    victim, others = names[0], names[1:]
    kinds = {Wanted.SELF_SEED: 0, Wanted.MASK_SEED: 0}
    for number, name in enumerate(others):
        told = everybody(summing, set() if number % 2 else {victim})
        try:
            summing.clients[name].answer(unmasking(summing, name, told), None)
        except RefusedError:
            continue
        kinds[told[victim]] += 1

    given_away = sum(kinds.values()) + around.colluding  # who colludes gives a share of either kind
    assert min(kinds.values()) > 0 or count == 3
    assert given_away < 2 * around.needed
    assert given_away + 1 >= 2 * (around.needed - 1), "a threshold lower by one or two would not do"


def test_whichever_halves_the_server_chooses_one_secret_of_the_victim_stays_secret() -> None:
    """All ways to split six neighbours; a threshold of half of them would give both secrets away."""
    summing = Summing.of(7, survivors=5).until(MaskingStep.UNMASK)
    names, graph = sorted(summing.numbers), summing.server._graph
    victim = graph.names.index(names[0])
    held = {name: summing.clients[name]._memory.held for name in names[1:]}
    secrets = summing.clients[names[0]]._memory.secrets

    def found(kind: int, told: tuple[str, ...], needed: int) -> bool:
        shares = {}
        for name in told:
            place = graph.place(victim, graph.names.index(name))
            number = graph.joined[victim].tolist().index(graph.names.index(name)) + 1
            shares[number] = held[name][place][kind]
        chosen = dict(list(shares.items())[:needed])
        return len(chosen) == needed and combine(chosen) == (secrets.self_seed, secrets.mask_seed)[kind]

    assert found(0, tuple(names[1:]), graph.around.needed)
    assert found(1, tuple(names[1:]), graph.around.needed)
    for size in range(7):
        for half in combinations(names[1:], size):
            rest = tuple(name for name in names[1:] if name not in half)
            assert not (found(0, half, graph.around.needed) and found(1, rest, graph.around.needed))
    half, rest = tuple(names[1:4]), tuple(names[4:])
    low = graph.around.size // 2
    assert len(half) >= low, "control: with a threshold of half the neighbours both quorums are there"
    assert len(rest) >= low


def test_sets_of_survivors_that_are_too_small_are_refused() -> None:
    summing = Summing.of(10).until(MaskingStep.UNMASK)
    client, names = summing.clients["client-0"], sorted(summing.numbers)
    few = everybody(summing, set(names[1:5]))

    assert refused(client.answer, unmasking(summing, "client-0", few), None) is Refusal.TOO_FEW
    claimed = unmasking(summing, "client-0", everybody(summing, set(names[1:4])), clients=10)
    assert refused(client.answer, claimed, None) is Refusal.MALFORMED
    assert refused(client.answer, unmasking(summing, "client-0", few, clients=11), None) is Refusal.MALFORMED
    nobody = everybody(summing, set(names[1:]))
    assert refused(client.answer, unmasking(summing, "client-0", nobody, clients=10), None) is Refusal.TOO_FEW
    finished(summing)


def test_who_was_not_there_cannot_be_asked_about_and_who_was_must_be() -> None:
    summing = Summing.of(10).until(MaskingStep.SHARES)
    summing.step(but={"client-9"})
    summing.until(MaskingStep.UNMASK)
    client = summing.clients["client-0"]
    right = everybody(summing, set()) | {"client-9": Wanted.NOTHING}
    for name, kind in (
        ("client-9", Wanted.MASK_SEED),
        ("client-9", Wanted.SELF_SEED),
        ("client-3", Wanted.NOTHING),
    ):
        message = unmasking(summing, "client-0", {**right, name: kind}, clients=9)
        assert refused(client.answer, message, None) is Refusal.MALFORMED
    good = unmasking(summing, "client-0", right)
    assert refused(client.answer, with_content(good, content_of(good, "wanted") + 2, "wanted"), None)
    assert client.answer(good, None)


def test_a_client_checks_its_neighbours() -> None:
    summing = Summing.of(6, survivors=5).until(MaskingStep.SHARES)
    message = dict(summing.server.outgoing())["client-0"]
    rows = content_of(message, "neighbours")
    own = np.frombuffer(content_of(summing.replies[MaskingStep.KEYS]["client-0"]), dtype=np.uint8)
    low = rows.copy()
    low[0, 32:64] = 0
    bad = {
        "one too few": with_content(message, rows[:-1], "neighbours"),
        "one twice": with_content(message, np.vstack([rows[:1], rows[:-1]]), "neighbours"),
        "another order": with_content(message, rows[::-1], "neighbours"),
        "itself": with_content(message, np.vstack([own, rows[1:]]), "neighbours"),
        "a key of low order": with_content(message, low, "neighbours"),
        "another size of the whole": with_content(message, rows, "neighbours", clients=7),
        "fewer clients than survive": with_content(message, rows[:3], "neighbours", clients=4),
        "two clients": with_content(message, rows[:1], "neighbours", clients=2),
        "no clients": with_content(message, rows[:0], "neighbours", clients=0),
        "endlessly many": with_content(message, rows, "neighbours", clients=1 << 40),
        "words": with_content(message, rows, "neighbours", clients="six"),
    }
    client = summing.clients["client-0"]
    before = client.to_bytes()
    for what, changed in bad.items():
        refused(client.answer, changed, None)
        assert client.to_bytes() == before, what
    assert client.answer(message, None)


def test_a_server_does_not_make_a_client_search_for_neighbourhoods_that_are_endless() -> None:
    summing = Summing.of(10, dropout=0.449999, survivors=3).until(MaskingStep.SHARES)
    message = dict(summing.server.outgoing())["client-0"]
    rows, client = content_of(message, "neighbours"), summing.clients["client-0"]
    many = with_content(message, rows, "neighbours", clients=MOST_CLIENTS)

    begun = time.process_time()
    assert refused(client.answer, many, None) is Refusal.BAD_PROTOCOL
    assert time.process_time() - begun < 30
    assert client.answer(message, None)


def test_nothing_is_masked_among_too_few_neighbours() -> None:
    summing = Summing.of(10, survivors=3).until(MaskingStep.MASKED)
    message = dict(summing.server.outgoing())["client-0"]
    client, mine = summing.clients["client-0"], given(summing.numbers["client-0"])
    there = content_of(message, "there").copy()
    there[4:] = 0

    assert refused(client.answer, with_content(message, there, "there", clients=5), mine) is Refusal.TOO_FEW
    assert refused(client.answer, with_content(message, there + 2, "there"), mine) is Refusal.MALFORMED
    assert refused(client.answer, message, None) is Refusal.MALFORMED
    assert client.answer(message, mine)


def test_a_message_of_an_old_session_is_refused_although_it_is_about_the_same_round() -> None:
    summing, old = Summing.of(4), Summing.of(4)
    for step in STEPS:
        old.step()
        if step is not MaskingStep.KEYS:
            message = old.messages[step]["client-0"]
            summing.until(step)
            mine = given(summing.numbers["client-0"])
            assert refused(summing.clients["client-0"].answer, message, mine) is Refusal.NO_SESSION
    elsewhere = dict(Summing.of(4, about=b"another round").server.outgoing())["client-0"]
    fresh = summing.protocol.join(ABOUT, SecureNoise())
    assert refused(fresh.answer, elsewhere, None) is Refusal.NO_SESSION


def test_what_is_no_state_cannot_be_resumed() -> None:
    protocol = Summing.of(3).protocol
    for state in (b"", b"\xc1", os.urandom(100)):
        with pytest.raises(InputError, match="not the state"):
            protocol.resume(ABOUT, SecureNoise(), state)
