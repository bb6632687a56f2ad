"""Two servers when one of them, or a client, does not play by the rules."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.common.arrays import ResidueArray
from fedboard.common.contribution import Request
from fedboard.common.errors import TooFewAnswersError
from fedboard.common.messages.frame import pack_frame, unpack_frame
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.protocol import Given
from fedboard.common.protocols.two_server.helper import HelperPart, LocalHelper, RoundKey, TwoServerRules
from fedboard.common.protocols.two_server.protocol import TwoServer
from fedboard.common.protocols.two_server.session import LeaderSession, asking
from tests.common.algorithms.conftest import N_ITEMS, N_USERS
from tests.common.protocols.meetings import (
    ABOUT,
    BOARDS,
    TASK,
    Case,
    SilentNoise,
    assert_same,
    meeting,
    rows_of,
    two_servers,
)
from tests.refusals import refused

ITEMS = BOARDS["items"]
REQUESTS = TASK.requests(ITEMS)
CLIENTS = ("client-0", "client-1", "client-2")


@dataclass
class Eavesdropper:
    """What a leader that keeps everything has of a helper."""

    honest: LocalHelper = field(default_factory=lambda: LocalHelper(SilentNoise()))
    parts: dict[str, HelperPart] = field(default_factory=dict)

    def begin(self, about: bytes, requests: Sequence[Request], rules: TwoServerRules) -> RoundKey:
        return self.honest.begin(about, requests, rules)

    def take(self, about: bytes, client: str, part: HelperPart) -> None:
        self.honest.take(about, client, part)
        self.parts[client] = part

    def total(self, about: bytes, clients: Sequence[str]) -> ResidueArray:
        return self.honest.total(about, clients)


def sized(**settings: int) -> TwoServer:
    return TwoServer.sized(clients=3, users=N_USERS, settings=settings)


def begun(
    protocol: TwoServer | None = None, about: bytes = ABOUT
) -> tuple[LeaderSession, Eavesdropper, dict[str, bytes]]:
    """A session and every client's reply, none of which was taken yet."""
    helper = Eavesdropper()
    chosen = (protocol or sized()).helped_by(helper)
    server = chosen.open(about, REQUESTS, CLIENTS, n_items=N_ITEMS)
    replies = {
        name: chosen.join(about, SecureNoise()).answer(
            server.outgoing()[name], Given(contribution=rows_of(ITEMS, k, k + 1), requests=REQUESTS)
        )
        for k, name in enumerate(CLIENTS)
    }
    return server, helper, replies


def taken() -> tuple[LeaderSession, Eavesdropper, dict[str, bytes]]:
    server, helper, replies = begun()
    for name, reply in replies.items():
        server.take(name, reply)
    return server, helper, replies


# A hostile leader.


def test_the_helper_gives_one_total_and_no_other_of_any_clients() -> None:
    _, helper, _ = taken()
    helper.total(ABOUT, CLIENTS)

    for clients in (CLIENTS, CLIENTS[:2], CLIENTS[1:]):
        assert refused(helper.total, ABOUT, clients) is Refusal.ANSWERED_BEFORE
    assert refused(helper.take, ABOUT, "late", helper.parts["client-0"]) is Refusal.ANSWERED_BEFORE
    with pytest.raises(RefusedError):
        helper.begin(ABOUT, REQUESTS, sized().rules)


def test_the_helper_gives_no_total_of_other_clients_than_it_took_and_the_right_one_after_that() -> None:
    _, helper, _ = taken()

    for clients in (CLIENTS[:2], (*CLIENTS, "client-9"), (*CLIENTS, CLIENTS[0]), ()):
        assert refused(helper.total, ABOUT, clients) is Refusal.UNKNOWN_NODE
    assert helper.total(ABOUT, CLIENTS[::-1]).size


def test_the_helper_gives_no_total_of_one_client() -> None:
    server, helper, replies = begun()
    server.take("client-0", replies["client-0"])

    assert refused(helper.total, ABOUT, ("client-0",)) is Refusal.TOO_FEW


def test_one_part_under_two_names_is_taken_once() -> None:
    """Counted twice, a user would move the sum by twice the bound that the noise hides."""
    _, helper, _ = taken()
    before = helper.honest._sessions[ABOUT]._sums.vector()

    assert refused(helper.take, ABOUT, "client-7", helper.parts["client-0"]) is Refusal.DUPLICATE
    other = helper.parts["client-1"]
    assert refused(helper.take, ABOUT, "client-0", other) is Refusal.DUPLICATE
    helper.take(ABOUT, "client-0", helper.parts["client-0"])  # as when the answer to it was lost

    np.testing.assert_array_equal(helper.honest._sessions[ABOUT]._sums.vector(), before)


def test_a_part_of_another_round_or_under_other_parameters_cannot_be_opened() -> None:
    _, there, _ = taken()
    for about, protocol in ((b"run 1, round 2, this board", sized()), (ABOUT, sized(most_users=90_000))):
        helper = LocalHelper(SilentNoise())
        helper.begin(about, REQUESTS, protocol.rules)
        assert refused(helper.take, about, "client-0", there.parts["client-0"]) is Refusal.MALFORMED


def test_keys_that_the_leader_changed_are_refused() -> None:
    """Else a leader could add a large number to the helper's leaf and see whether it lay on the user's path."""
    server, helper, replies = begun()
    server.take("client-0", replies["client-0"])
    part = helper.parts["client-0"]
    fresh = LocalHelper(SilentNoise())
    fresh._identity, fresh._sessions = helper.honest._identity, helper.honest._sessions
    for place in (300, part.keys.shape[1] - 1):
        keys = part.keys.copy()
        keys[0, place] ^= 1
        assert refused(fresh.take, ABOUT, "client-5", replace(part, keys=keys)) is Refusal.MALFORMED
    twice = np.vstack([part.keys, part.keys])
    assert refused(fresh.take, ABOUT, "client-5", replace(part, keys=twice)) is Refusal.MALFORMED


def test_a_client_answers_one_key_of_a_round() -> None:
    protocol = sized()
    first, second = (LocalHelper(SilentNoise()) for _ in range(2))
    messages = [
        protocol.helped_by(helper).open(ABOUT, REQUESTS, CLIENTS, n_items=N_ITEMS).outgoing()["client-0"]
        for helper in (first, second)
    ]
    client = protocol.join(ABOUT, SecureNoise())
    given = Given(contribution=rows_of(ITEMS, 0, 1), requests=REQUESTS)
    sent = client.answer(messages[0], given)

    assert refused(client.answer, messages[1], given) is Refusal.OUT_OF_TURN
    resumed = protocol.resume(ABOUT, SecureNoise(), client.to_bytes())
    assert refused(resumed.answer, messages[1], given) is Refusal.OUT_OF_TURN
    assert resumed.answer(messages[0], given) == sent


# Hostile clients.


def changed(reply: bytes, **arrays: np.ndarray) -> bytes:
    frame = unpack_frame(reply, kinds=("two-server-rows",), limit=1 << 30)
    return pack_frame("two-server-rows", {}, {**frame.arrays, **arrays})


def test_messages_of_another_form_are_refused_on_both_sides_and_the_round_goes_on() -> None:
    server, helper, replies = begun()
    reply = replies["client-0"]
    frame = unpack_frame(reply, kinds=("two-server-rows",), limit=1 << 30)
    keys, sealed = frame.arrays["keys"], frame.arrays["sealed"]
    for bad in (
        changed(reply, keys=keys[:, :-8]),
        changed(reply, keys=keys[0]),
        changed(reply, keys=keys.astype(np.int16)),
        changed(reply, keys=np.repeat(keys, 2, axis=0)),
        changed(reply, seed=frame.arrays["seed"][:-1]),
        changed(reply, others=np.zeros(1, np.uint32)),
        changed(reply, sealed=sealed[:-1]),
        changed(reply, sealed=sealed ^ np.uint8(1)),
        changed(reply, sealed=np.zeros(0, np.uint8)),
        changed(reply, more=np.zeros(1, np.uint8)),
        pack_frame("two-server-rows", {"users": 1}, frame.arrays),
        pack_frame("two-server-ask", {}, frame.arrays),
    ):
        with pytest.raises(RefusedError):
            server.take("client-0", bad)
    assert not helper.parts
    for name, honest in replies.items():
        server.take(name, honest)
    assert not server.proceed()


def test_a_question_of_another_form_is_refused_though_a_helper_of_its_own_has_signed_it() -> None:
    protocol, given = sized(), Given(contribution=rows_of(ITEMS, 0, 1), requests=REQUESTS)
    client = protocol.join(ABOUT, SecureNoise())
    key = LocalHelper(SilentNoise()).begin(ABOUT, REQUESTS, protocol.rules).key

    def asks(key: bytes, **parts: bytes) -> bytes:
        signed = RoundKey.sign(key, Ed25519PrivateKey.generate(), bound=protocol.rules.bound(ABOUT))
        return asking(replace(signed, **parts))

    for message in (
        *(asks(bad) for bad in (b"", key[:-1], key + b"0", key[:40])),
        *(asks(key, identity=bytes(length)) for length in (0, 31, 33)),
        *(asks(key, signature=bytes(length)) for length in (0, 63, 65)),
    ):
        assert refused(client.answer, message, given) is Refusal.MALFORMED
    assert client.answer(asks(key), given)


def test_more_users_than_the_sums_have_room_for_are_refused() -> None:
    server, _, replies = begun(sized(most_users=2, survivors=2))
    server.take("client-0", replies["client-0"])
    server.take("client-1", replies["client-1"])
    assert refused(server.take, "client-2", replies["client-2"]) is Refusal.TOO_MANY_USERS


def test_garbage_that_no_honest_users_could_have_sent_is_known_to_the_leader_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, _, replies = begun()
    frame = unpack_frame(replies["client-1"], kinds=("two-server-rows",), limit=1 << 30)
    other_seed = frame.arrays["seed"] ^ np.uint8(1)  # the leader's share no longer fits the helper's
    server.take("client-0", replies["client-0"])
    server.take("client-1", changed(replies["client-1"], seed=other_seed))

    assert (
        not server.proceed()
    )  # to give the round up would tell the helper about a sum without the leader's noise
    assert "larger than honest clients can have made" in caplog.text


# A helper that is away, or hostile.


def test_a_helper_that_is_away_at_any_time_loses_clients_or_the_round_and_nothing_else() -> None:
    def away(*_: object) -> None:
        raise RefusedError(Refusal.UNREACHABLE)

    server, helper, replies = begun()
    server.take("client-0", replies["client-0"])
    real = helper.honest.take
    helper.honest.take = away  # type: ignore[method-assign]
    assert refused(server.take, "client-1", replies["client-1"]) is Refusal.UNREACHABLE
    helper.honest.take = real  # type: ignore[method-assign]
    server.take("client-2", replies["client-2"])
    helper.honest.total = away  # type: ignore[assignment,method-assign]
    with pytest.raises(TooFewAnswersError, match="unreachable") as lost:
        server.proceed()
    assert lost.value.given


def test_a_total_of_another_form_gives_the_round_up() -> None:
    server, helper, _ = taken()
    helper.honest.total = lambda *_: np.zeros(3, dtype=np.uint32)  # type: ignore[method-assign]
    with pytest.raises(TooFewAnswersError, match="not one of this round"):
        server.proceed()


def test_a_client_whose_part_the_helper_refuses_is_in_neither_share() -> None:
    met = meeting(Case(make=two_servers), ITEMS)
    messages = dict(met.server.outgoing())
    spoilt = changed(met.reply("client-1", messages["client-1"]), sealed=np.zeros(40, np.uint8))
    with pytest.raises(RefusedError):
        met.server.take("client-1", spoilt)
    met.take_all(messages, but=["client-1"])
    met.server.proceed()

    assert_same(met.told(met.server.sums()), met.expected([n for n in met.given if n != "client-1"]))
