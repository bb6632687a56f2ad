"""A server that lies: what it gets of clients that believe it, and that it gets nothing of clients that are vouched
for and confirm the set of survivors to one another."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedboard.common.boards.roster import IdentityKey, RosterAuthority
from fedboard.common.errors import InputError, TooFewAnswersError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.protocols.distributed_dp import DistributedDp
from fedboard.common.protocols.secure_sum.confirming import VouchedSession
from fedboard.common.protocols.secure_sum.members import Secrets, Vouched, survivors_statement, to_bits
from fedboard.common.protocols.secure_sum.messages import VOUCHED_STEPS, MaskingStep, Wanted, ask
from fedboard.common.protocols.secure_sum.protocol import SecureSum
from fedboard.common.protocols.secure_sum.rules import SumRules
from fedboard.common.protocols.sessions import Voucher
from tests.common.protocols.secure_sum.lying_server import LyingServer
from tests.common.protocols.secure_sum.secure_sums import (
    ABOUT,
    AUTHORITY,
    BOUND,
    Listed,
    Summing,
    content_of,
    with_content,
)
from tests.refusals import refused

FLEET: dict[str, Any] = {"dropout": 0.1, "colluding": 0.01}
CLIENTS = 60
LISTED = Listed.of(CLIENTS)
SMALL = Listed.of(10)
Refuses = Callable[..., Refusal]


def inputs_are_in(count: int = CLIENTS, **settings: Any) -> Summing:
    summing = Summing.of(count, **settings)
    for _ in range(3):
        summing.step()
    return summing


@pytest.mark.slow
def test_the_attack_before_and_after() -> None:
    """The victim's own numbers with one share of the noise; and nothing."""
    rows = []
    for listed in (None, LISTED):
        summing = inputs_are_in(width=256, kind=DistributedDp, listed=listed, **FLEET)
        assert isinstance(summing.protocol, DistributedDp)
        rules, attack = summing.protocol.rules, LyingServer(summing, target={7})

        opened = attack.run()

        noise = 0.0
        if opened is not None:
            noise = float(np.std(opened - summing.expected({attack.name(7)}))) / BOUND
        rows.append((attack.answered, 0 if opened is None else 1, noise, rules.honest))
    (all_of_them, alone, noise, honest), (nobody, nothing, _, _) = rows
    assert (all_of_them, alone) == (CLIENTS, 1)
    assert noise == pytest.approx(1 / np.sqrt(honest), rel=0.4)  # 256 numbers: 0.4 are nine deviations
    assert (nobody, nothing) == (0, 0)
    assert set(attack.refusals) == {Refusal.NOT_CONFIRMED}


@pytest.mark.slow
def test_what_stops_it_is_the_confirmation_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else that a vouched client checks passes: without this step its number comes out."""
    monkeypatch.setattr(VouchedSession, "require_confirmed", lambda *_: None)
    summing = inputs_are_in(listed=LISTED, **FLEET)
    attack = LyingServer(summing, target={7})

    opened = attack.run()

    assert opened is not None
    np.testing.assert_array_equal(opened, summing.expected({attack.name(7)}))


def test_a_small_fleet_that_believes_its_server_gives_it_sums_over_fewer_than_the_rules_ask() -> None:
    summing = inputs_are_in(20, dropout=0.4, colluding=0.0)
    attack = LyingServer(summing, target=set(range(6)))

    opened = attack.run()

    assert summing.protocol.rules.survivors == 12
    assert opened is not None
    np.testing.assert_array_equal(opened, summing.expected({attack.name(k) for k in range(6)}))


def told(summing: Summing, stayed: set[str], **changed: int) -> bytes:
    """A message of the confirming step in which these stayed."""
    server = summing.server
    marked = np.array([name in stayed for name in server._graph.names])
    sets = {
        "there": to_bits(server._listed.places(server._graph.names, None)),
        "stayed": to_bits(server._listed.places(server._graph.names, marked)),
    }
    return ask(MaskingStep.CONFIRM, server._session, sets, clients=changed.get("clients", len(stayed)))


def opening(summing: Summing, client: str, stayed: set[str], signed: dict[str, bytes]) -> bytes:
    """A message of the last step: these stayed, as these have signed."""
    server = summing.server
    names, number = server._graph.names, server._graph.names.index(client)
    kinds = [
        Wanted.SELF_SEED if names[other] in stayed else Wanted.MASK_SEED
        for other in server._graph.joined[number].tolist()
    ]
    marked = np.array([name in signed for name in names])
    ordered = sorted(signed, key=lambda name: server._listed.place[name])
    arrays = {
        "wanted": np.array(kinds, dtype=np.uint8),
        "signers": to_bits(server._listed.places(server._graph.names, marked)),
        "signatures": np.stack([content_of(signed[name]) for name in ordered]),
    }
    return ask(MaskingStep.UNMASK, server._session, arrays, clients=len(stayed))


def halves(summing: Summing) -> dict[str, bytes | Refusal]:
    """Each half is told that the last client of the other half dropped out; what each says in the last step."""
    names = list(summing.clients)
    sides = {
        name: set(names) - {names[-1] if k < len(names) // 2 else names[0]} for k, name in enumerate(names)
    }
    asked = [name for name in names if name in sides[name]]
    signed = {name: summing.clients[name].answer(told(summing, sides[name]), None) for name in asked}
    found: dict[str, bytes | Refusal] = {}
    for name in asked:
        ours = {other: signature for other, signature in signed.items() if sides[other] == sides[name]}
        try:
            found[name] = summing.clients[name].answer(opening(summing, name, sides[name], ours), None)
        except RefusedError as error:
            found[name] = error.code
    return found


def test_two_halves_that_are_told_two_sets_open_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    summing = inputs_are_in(listed=SMALL, count=10)
    assert summing.protocol.rules.quorum(10) == 6
    found = halves(summing)
    assert len(found) == 10
    assert set(found.values()) == {Refusal.NOT_CONFIRMED}

    monkeypatch.setattr(SumRules, "quorum", lambda self, devices: devices // 2)  # control: half is not enough
    assert not set(map(str, halves(inputs_are_in(listed=SMALL, count=10)).values())) & {"not-confirmed"}


def test_clients_of_the_servers_own_making_surround_a_victim_that_is_not_told_who_is_real() -> None:
    """Without a list all others may be the server: their numbers are known, and what is left is the victim's."""
    summing = Summing.of(10)
    others = [name for name in summing.clients if name != "client-0"]
    summing.clients |= {name: summing.protocol.join(ABOUT, SecureNoise()) for name in others}
    while summing.step():
        pass

    known = summing.expected(set(summing.clients) - {"client-0"})
    np.testing.assert_array_equal(summing.total() - known, summing.numbers["client-0"])


def forged(summing: Summing, message: bytes, *, place: int | None = None, signer: IdentityKey) -> bytes:
    """The victim's message with other keys for its first neighbour, signed by the server's own key."""
    rows = content_of(message, "neighbours").copy()
    server = summing.server
    assert server.roster is not None
    old = Vouched(rows[0].tobytes())
    keys = Secrets.fresh().advertised(server._session)
    at = old.place if place is None else place
    statement = b"fedboard masked sum keys 1\0" + server._session + server.roster.digest + keys.content
    row = keys.content + at.to_bytes(4, "little") + signer.sign(statement)
    rows[0] = np.frombuffer(row, dtype=np.uint8)
    order = sorted(range(len(rows)), key=lambda k: Vouched(rows[k].tobytes()).keys.identity)
    return with_content(message, rows[order], "neighbours")


def victims_message(summing: Summing, victim: str = "client-0") -> bytes:
    summing.step()
    return summing.server.outgoing()[victim]


def test_an_advertisement_that_its_owner_has_not_signed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    summing = Summing.of(10, listed=SMALL)
    message = victims_message(summing)

    assert (
        refused(summing.reply, "client-0", forged(summing, message, signer=IdentityKey()))
        is Refusal.BAD_SIGNATURE
    )
    beyond = forged(summing, message, signer=IdentityKey(), place=10)
    assert refused(summing.reply, "client-0", beyond) is Refusal.NOT_CONFIRMED

    monkeypatch.setattr(Vouched, "require", lambda *_, **__: None)  # control: what stops it is the signature
    assert summing.reply("client-0", forged(summing, message, signer=IdentityKey()))


def test_neighbours_that_the_graph_does_not_give_are_refused_though_they_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server with some listed devices may put all of them around one client."""
    summing = Summing.of(CLIENTS, listed=LISTED, **FLEET)
    message = victims_message(summing)
    server = summing.server
    own = server._graph.names.index("client-0")
    near = set(server._graph.joined[own].tolist())
    far = next(x for x in range(CLIENTS) if x not in near and x != own)
    rows = content_of(message, "neighbours").copy()
    rows[0] = np.frombuffer(server._listed.advertised[server._graph.names[far]], dtype=np.uint8)
    order = sorted(range(len(rows)), key=lambda k: Vouched(rows[k].tobytes()).keys.identity)
    surrounded = with_content(message, rows[order], "neighbours")

    assert refused(summing.reply, "client-0", surrounded) is Refusal.NOT_CONFIRMED

    def as_told(self: VouchedSession, rows: Any, members: Any, *, clients: int) -> list[int]:
        return [Vouched(row.tobytes()).place for row in rows]

    monkeypatch.setattr(VouchedSession, "places_of", as_told)  # control: what stops it is the graph
    assert summing.reply("client-0", surrounded)


def test_the_members_of_whom_the_graph_is_made_are_those_that_are_counted() -> None:
    summing = Summing.of(10, listed=SMALL)
    message = victims_message(summing)
    own = summing.server._listed.place["client-0"]
    fewer = np.unpackbits(content_of(message, "members"), bitorder="little").copy()
    fewer[own] = 0
    without_her = with_content(message, np.packbits(fewer, bitorder="little"), "members", clients=9)
    fewer[own], fewer[12] = 1, 1
    beyond = with_content(message, np.packbits(fewer, bitorder="little"), "members")
    miscounted = with_content(message, content_of(message, "members"), "members", clients=9)

    for changed in (without_her, beyond, miscounted):
        assert refused(summing.reply, "client-0", changed) is Refusal.MALFORMED
    assert summing.reply("client-0", message)


def confirmed(summing: Summing) -> dict[str, bytes]:
    return dict(summing.collect())


def test_confirmations_of_another_round_and_of_another_session_are_none() -> None:
    everybody = set(SMALL_NAMES)
    other = confirmed(inputs_are_in(listed=SMALL, count=10, about=b"the round before"))
    again = confirmed(inputs_are_in(listed=SMALL, count=10))
    summing = inputs_are_in(listed=SMALL, count=10)
    right = confirmed(summing)
    for signed in (other, again, {**right, "client-3": other["client-3"]}):
        message = opening(summing, "client-0", everybody, signed)
        assert refused(summing.reply, "client-0", message) is Refusal.NOT_CONFIRMED

    assert summing.reply("client-0", opening(summing, "client-0", everybody, right))


SMALL_NAMES = [f"client-{k}" for k in range(10)]


def test_a_client_that_confirms_twice_counts_once() -> None:
    summing = inputs_are_in(listed=SMALL, count=10)
    everybody = set(SMALL_NAMES)
    replies = confirmed(summing)
    few = {name: replies[name] for name in SMALL_NAMES[:5]}
    server = summing.server

    message = opening(summing, "client-0", everybody, few)
    doubled = with_content(message, np.concatenate([content_of(message, "signatures")] * 2), "signatures")
    for content in (message, doubled):  # five of ten, twice
        assert refused(summing.reply, "client-0", content) is Refusal.NOT_CONFIRMED

    server.take("client-0", replies["client-0"])
    assert refused(server.take, "client-0", replies["client-0"]) is Refusal.DUPLICATE
    assert refused(server.take, "client-1", replies["client-0"]) is Refusal.BAD_SIGNATURE
    assert (
        refused(summing.clients["client-1"].answer, told(summing, everybody - {"client-9"}), None)
        is Refusal.OUT_OF_TURN
    )


@pytest.mark.parametrize(
    ("gone", "code"),
    [
        ({"client-1", "client-2", "client-3", "client-4"}, Refusal.TOO_FEW),
        ({"client-0"}, Refusal.MALFORMED),
    ],
    ids=["few", "herself"],
)
def test_a_client_confirms_no_sum_over_too_few_and_none_without_itself(gone: set[str], code: Refusal) -> None:
    summing = inputs_are_in(listed=SMALL, count=10)
    assert summing.protocol.rules.survivors == 7

    client = summing.clients["client-0"]
    assert refused(client.answer, told(summing, set(SMALL_NAMES) - gone), None) is code
    lied = told(summing, set(SMALL_NAMES) - gone, clients=10)  # whatever the server says that they are
    assert refused(client.answer, lied, None) is code
    assert client.answer(told(summing, set(SMALL_NAMES)), None)


def test_a_client_confirms_no_sum_with_less_noise_than_is_booked() -> None:
    """The device counts the shares itself: of survivors that it confirms, those that may collude do not count."""
    summing = Summing.of(10, listed=SMALL, kind=DistributedDp)
    assert isinstance(summing.protocol, DistributedDp)
    rules = summing.protocol.rules

    assert (rules.survivors, rules.honest, rules.honest_among(rules.survivors)) == (7, 6, 6)
    rules.require_sum_over(7)
    object.__setattr__(rules, "survivors", 4)  # rules that no ``SharingRules`` would be made with
    assert refused(rules.require_sum_over, 6) is Refusal.TOO_FEW


def test_survivors_who_were_never_masked_with_and_neighbours_who_were_are_told_of_alike() -> None:
    summing = inputs_are_in(listed=SMALL, count=10)
    message = told(summing, set(SMALL_NAMES))
    there = np.unpackbits(content_of(message, "there"), bitorder="little")[:10].copy()
    place = summing.server._listed.place["client-4"]
    there[place] = 0
    changed = with_content(message, np.packbits(there, bitorder="little"), "there")
    assert refused(summing.reply, "client-0", changed) is Refusal.MALFORMED  # stayed, and was not there

    stayed = with_content(changed, np.packbits(there, bitorder="little"), "stayed", clients=9)
    assert refused(summing.reply, "client-0", stayed) is Refusal.NOT_CONFIRMED  # her mask is in the sum


def test_shares_are_given_of_the_set_that_was_confirmed_and_of_no_other() -> None:
    summing = inputs_are_in(listed=SMALL, count=10)
    replies = confirmed(summing)
    message = opening(summing, "client-0", set(SMALL_NAMES), replies)
    wanted = content_of(message, "wanted").copy()
    wanted[3] = Wanted.MASK_SEED

    code = refused(summing.reply, "client-0", with_content(message, wanted, "wanted"))

    assert code is Refusal.NOT_CONFIRMED
    assert summing.reply("client-0", message)


@pytest.mark.parametrize("lost_in", list(VOUCHED_STEPS), ids=lambda step: step.name.lower())
def test_who_is_lost_in_any_step_changes_nothing_for_the_others(lost_in: MaskingStep) -> None:
    summing = Summing.of(10, listed=SMALL)
    lost = {"client-2", "client-7"}
    gone: set[str] = set()
    for step in VOUCHED_STEPS:
        gone |= lost if step is lost_in else set()
        summing.step(but=gone)
        assert not gone & summing.server.outgoing().keys()

    kept = lost_in in (MaskingStep.CONFIRM, MaskingStep.UNMASK)
    expected = summing.expected(set(SMALL_NAMES) - (set() if kept else lost))
    np.testing.assert_array_equal(summing.total(), expected)


@pytest.mark.parametrize("step", list(VOUCHED_STEPS), ids=lambda step: step.name.lower())
def test_where_too_few_are_left_the_round_is_given_up_in_every_step(step: MaskingStep) -> None:
    summing = Summing.of(10, listed=SMALL).until(step)
    with pytest.raises(TooFewAnswersError) as error:
        summing.step(but=set(SMALL_NAMES[:6]))
    assert error.value.given == (step not in (MaskingStep.KEYS, MaskingStep.SHARES))
    assert not summing.server.outgoing()
    assert not summing.server.proceed()


def test_a_session_goes_on_from_its_state_in_every_step() -> None:
    summing = Summing.of(10, listed=SMALL)
    own = summing.protocol.vouched(SMALL.voucher(3))
    more = True
    while more:
        summing.clients["client-3"] = own.resume(ABOUT, SecureNoise(), summing.clients["client-3"].to_bytes())
        more = summing.step()
    np.testing.assert_array_equal(summing.total(), summing.expected(set(SMALL_NAMES)))


def first_message(listed: Listed = SMALL) -> bytes:
    return next(iter(Summing.of(len(listed.identities), listed=listed).server.outgoing().values()))


def test_a_device_takes_no_list_but_one_of_its_authority_that_holds_and_names_it() -> None:
    protocol = Summing.of(10, listed=SMALL).protocol
    good = SMALL.voucher(0)
    known: list[int] = []

    def no_older(roster: Any) -> None:
        if roster.number < 2:
            raise RefusedError(Refusal.OTHER_ROSTER)
        known.append(roster.number)

    def answer(voucher: Voucher | None, message: bytes = first_message()) -> object:
        own = protocol if voucher is None else protocol.vouched(voucher)
        return own.join(ABOUT, SecureNoise()).answer(message, None)

    def voucher(**changes: Any) -> Voucher:
        usual: dict[str, Any] = {"identity": good.identity, "authority": good.authority}
        return Voucher(**{**usual, **changes})

    assert answer(good)
    assert refused(answer, None) is Refusal.OTHER_ROSTER
    assert refused(answer, voucher(authority=RosterAuthority().public)) is Refusal.OTHER_ROSTER
    assert refused(answer, voucher(identity=IdentityKey())) is Refusal.OTHER_ROSTER
    assert refused(answer, voucher(clock=lambda: 1e11)) is Refusal.OTHER_ROSTER
    assert refused(answer, voucher(admit=no_older)) is Refusal.OTHER_ROSTER
    keys = [identity.public for identity in SMALL.identities]
    newer = AUTHORITY.sign(keys, fleet="test", number=2, seconds=60)
    listed = Listed(SMALL.identities, newer)
    assert answer(voucher(admit=no_older), first_message(listed))
    assert known == [2]
    other = RosterAuthority().sign(keys, fleet="test", number=9, seconds=60)
    swapped = with_content(first_message(), np.frombuffer(other.content, dtype=np.uint8), "roster")
    assert refused(answer, good, swapped) is Refusal.OTHER_ROSTER


def test_a_device_with_an_authority_answers_no_session_without_a_list() -> None:
    """Else a server would say that nobody is vouched for, and lie as before."""
    summing = Summing.of(10)
    device = SecureSum.sized(clients=10, users=10, settings={}).vouched(SMALL.voucher(0))
    message = summing.server.outgoing()["client-0"]

    assert refused(device.join(ABOUT, SecureNoise()).answer, message, None) is Refusal.OTHER_ROSTER


def test_noise_in_shares_is_sized_for_the_whole_list() -> None:
    """More devices than the noise was sized for could hold more that collude than it allows for."""
    protocol = DistributedDp.sized(clients=10, users=10, settings={"vouched_by": AUTHORITY.public.hex()})
    larger = Listed.of(12)

    with pytest.raises(InputError, match="12 devices, more than this run was sized for"):
        protocol.among(larger.roster)
    device = protocol.vouched(larger.voucher(0)).join(ABOUT, SecureNoise())
    usual = Summing.of(10, kind=DistributedDp, listed=Listed.of(10))
    message = with_content(
        usual.server.outgoing()["client-0"], np.frombuffer(larger.roster.content, dtype=np.uint8), "roster"
    )
    assert refused(device.answer, message, None) is Refusal.BAD_PROTOCOL


def test_the_list_is_that_of_the_authority_which_the_run_names() -> None:
    """Else a certificate would name somebody who has vouched for nobody."""
    named = SecureSum.sized(clients=10, users=10, settings={"vouched_by": "ab" * 32})
    device = named.vouched(SMALL.voucher(0)).join(ABOUT, SecureNoise())

    assert refused(device.answer, first_message(), None) is Refusal.OTHER_ROSTER


def test_where_clients_see_neighbours_alone_their_number_and_themselves_are_held_to_the_members() -> None:
    """Among many, 57 have as many neighbours as 58: nothing but the set of members tells."""
    summing = Summing.of(58, listed=LISTED, **FLEET)
    message = victims_message(summing)
    own = summing.server._listed.place["client-0"]
    bits = np.unpackbits(content_of(message, "members"), bitorder="little").copy()
    miscounted = with_content(message, content_of(message, "members"), "members", clients=57)
    bits[own] = 0
    without_her = with_content(message, np.packbits(bits, bitorder="little"), "members", clients=57)

    for changed in (miscounted, without_her):
        assert refused(summing.reply, "client-0", changed) is Refusal.MALFORMED


@pytest.mark.slow
def test_among_many_a_sum_is_confirmed_as_it_is_counted_and_only_by_those_in_it_with_enough_neighbours() -> (
    None
):
    summing = inputs_are_in(listed=LISTED, survivors=40, **FLEET)
    server, everybody = summing.server, set(summing.clients)
    client = summing.clients["client-0"]
    names, own = server._graph.names, server._graph.names.index("client-0")
    around = [names[other] for other in server._graph.joined[own].tolist()]
    far = next(name for name in names if name not in around and name != "client-0")

    assert (
        refused(client.answer, told(summing, everybody - {far}, clients=CLIENTS), None) is Refusal.MALFORMED
    )
    assert refused(client.answer, told(summing, everybody - {"client-0"}), None) is Refusal.MALFORMED
    cut = everybody - set(around[: len(around) - server._graph.around.needed + 1])
    assert len(cut) >= 40
    assert refused(client.answer, told(summing, cut), None) is Refusal.TOO_FEW
    assert client.answer(told(summing, everybody - {far}), None)


def test_devices_that_are_listed_and_take_no_part_do_not_fill_up_a_sum() -> None:
    """A server that counts them would have the sum over the few that are there."""
    listed = Listed.of(12)
    summing = Summing.of(10, listed=listed, survivors=7)
    for _ in range(3):
        summing.step()
    server = summing.server
    message = told(summing, set(SMALL_NAMES[:6]))
    there, stayed = (
        np.unpackbits(content_of(message, n), bitorder="little").copy() for n in ("there", "stayed")
    )
    absent = [place for place in range(12) if place not in server._listed.place.values()]
    there[absent], stayed[absent] = 1, 1
    filled = with_content(message, np.packbits(there, bitorder="little"), "there")
    filled = with_content(filled, np.packbits(stayed, bitorder="little"), "stayed", clients=8)

    assert refused(summing.reply, "client-0", filled) is Refusal.MALFORMED


def test_who_is_not_in_the_sum_confirms_nothing_and_a_signature_more_than_signers_is_none() -> None:
    summing = inputs_are_in(listed=SMALL, count=10)
    rest = set(SMALL_NAMES) - {"client-9"}
    client = summing.clients["client-0"]
    signed = {name: summing.clients[name].answer(told(summing, rest), None) for name in sorted(rest)}
    message = opening(summing, "client-0", rest, signed)
    more = np.concatenate([content_of(message, "signatures"), content_of(message, "signatures")[:1]])
    vouched = client._vouched()
    assert vouched is not None
    sets = content_of(told(summing, rest), "there"), content_of(told(summing, rest), "stayed")
    statement = vouched.set_of(client._memory.members, *sets).statement
    by_her = SMALL.identities[9].sign(statement)
    outside = with_content(
        signed["client-0"], np.frombuffer(by_her, dtype=np.uint8)
    )  # client-9 colludes, and signs for a sum that she is not in
    few = {name: signed[name] for name in sorted(rest)[:5]}

    for content in (
        with_content(message, more, "signatures"),
        opening(summing, "client-0", rest, {**few, "client-9": outside}),
    ):
        assert refused(client.answer, content, None) is Refusal.NOT_CONFIRMED
    assert client.answer(message, None)


def test_more_than_half_of_the_list_is_asked_for_although_the_rules_ask_for_fewer() -> None:
    summing = Summing.of(10, listed=SMALL, survivors=4, dropout=0.4)
    assert (summing.protocol.rules.fewest, summing.protocol.rules.fewest_of(10)) == (4, 6)
    message = victims_message(summing)
    few = with_content(message, content_of(message, "members"), "members", clients=5)

    assert refused(summing.reply, "client-0", few) is Refusal.TOO_FEW
    other = Summing.of(10, listed=SMALL, survivors=4, dropout=0.4)
    with pytest.raises(TooFewAnswersError, match="6 or more are needed"):
        other.step(but=set(SMALL_NAMES[:5]))


def test_what_is_signed_says_all_of_which_set_it_is() -> None:
    ones, fewer = np.ones(10, dtype=np.bool_), np.arange(10) < 9
    said: dict[str, Any] = {"session": bytes(32), "roster": SMALL.roster}
    said |= {"members": ones, "there": ones, "stayed": ones}

    def statement(**changes: Any) -> bytes:
        now = {**said, **changes}
        return survivors_statement(now.pop("session"), now.pop("roster"), **now)

    changed = {
        "session": bytes(31) + b"1",
        "roster": Listed(SMALL.identities, Listed.of(10).roster).roster,
        **dict.fromkeys(("members", "there", "stayed"), fewer),
    }
    assert len({statement(), *(statement(**{name: value}) for name, value in changed.items())}) == 6


def test_the_server_takes_keys_of_a_listed_device_once_and_signed_by_it() -> None:
    """So that one client cannot make the others refuse what the server then hands them."""
    summing = Summing.of(10, listed=SMALL)
    replies = summing.collect()
    content = content_of(replies["client-1"]).copy()
    unsigned, beyond = content.copy(), content.copy()
    unsigned[-1] ^= 1
    beyond[96:100] = (10, 0, 0, 0)
    for changed in (unsigned, beyond):
        broken = with_content(replies["client-1"], changed)
        assert refused(summing.server.take, "client-1", broken) is Refusal.BAD_SIGNATURE

    twin = summing.protocol.vouched(SMALL.voucher(0)).join(ABOUT, SecureNoise())
    summing.server.take("client-0", replies["client-0"])
    again = twin.answer(summing.messages[MaskingStep.KEYS]["client-1"], None)
    assert refused(summing.server.take, "client-1", again) is Refusal.DUPLICATE
    summing.server.take("client-1", replies["client-1"])
