"""What every protocol keeps: the trusted sum to the last bit, and nothing for who does not play by the rules.

The contract test notices what it is there for: protocols with one fault each, and the test that each fails.

What every protocol states about itself is so: parameters, trust, sizes of messages, noise.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.common.contribution import Request
from fedboard.common.errors import InputError, PrivacyError, TooFewAnswersError
from fedboard.common.messages.frame import pack_frame
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise, SeededNoise
from fedboard.common.privacy.releases.noise_shares import SharedNoise
from fedboard.common.protocol import NoiseAt
from fedboard.common.protocols.registry import PROTOCOL_NAMES, sized_protocol
from fedboard.common.protocols.sessions import OneStepClient, OneStepServer
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from fedboard.common.protocols.sums.residues import Packing, coarse_sums
from fedboard.common.protocols.two_server.helper import LocalHelper
from tests.common.algorithms.conftest import N_ITEMS, N_USERS
from tests.common.protocols.cases import CASES, ITEMS, each_board, each_case, raises
from tests.common.protocols.meetings import (
    SPLIT,
    Case,
    Meeting,
    assert_same,
    example,
    meeting,
    rows_of,
    shifts_of,
    two_servers,
)
from tests.refusals import refused

ELSEWHERE = b"run 1, round 2, this board"
Hostile = Mapping[str, bytes]


def asking_steps(case: Case) -> list[bool]:
    """Of each step of a session, whether it asks for contributions."""
    met, asked = meeting(case, ITEMS), []
    for messages in met.steps():
        asked.append(met.server.asks_contributions)
        met.take_all(messages)
    return asked


def spoiled(honest: bytes, elsewhere: bytes, *, seed: int) -> Hostile:
    """What may come in the place of an honest message."""
    random = np.random.default_rng(seed)
    return {
        "nothing": b"",
        "a few random bytes": random.bytes(40),
        "as many random bytes": random.bytes(len(honest)),
        "the last byte missing": honest[:-1],
        "half of it": honest[: len(honest) // 2],
        "a byte more": honest + b"\0",
        "that of another round": elsewhere,
    }


def side_by_side(case: Case) -> Iterator[tuple[Meeting, Mapping[str, bytes], Meeting, Mapping[str, bytes]]]:
    """The steps of a session and of one about another round, by the same clients."""
    met, other = meeting(case, ITEMS), meeting(case, ITEMS, about=ELSEWHERE)
    for messages, others in zip(met.steps(), other.steps(), strict=True):
        yield met, messages, other, others
        other.take_all(others)
    assert_same(met.told(met.server.sums()), met.expected())  # as if nothing had happened


def test_every_registered_protocol_is_held_to_the_contract() -> None:
    assert {case.make(len(SPLIT) - 1).name for case in CASES.values()} >= set(PROTOCOL_NAMES)


# The sum.


@each_case
@each_board
def test_the_sum_is_the_trusted_one_to_the_last_bit(case: Case, board: Any) -> None:
    met = meeting(case, board)
    trusted = whole_sums(FactoredSums.of(rows_of(board, 0, N_USERS)), met.requests)

    found = met.finish()

    assert_same(found, met.expected())
    for name, shift in shifts_of(met.protocol, met.requests).items():
        if not shift:
            np.testing.assert_array_equal(found[name], trusted[name])


@each_case
@pytest.mark.parametrize("seed", range(3))
def test_any_split_of_the_users_and_any_order_of_replies_gives_the_same_sum(case: Case, seed: int) -> None:
    random = np.random.default_rng(seed)
    cuts = sorted(random.integers(0, N_USERS + 1, 5 + seed).tolist())  # some clients may have nobody
    met = meeting(case, ITEMS, split=(0, *cuts, N_USERS))

    for messages in met.steps():
        for name in random.permutation(list(messages)):
            met.server.take(str(name), met.reply(str(name), messages[str(name)]))

    assert_same(met.told(met.server.sums()), met.expected())


@each_case
def test_who_drops_out_at_any_step_is_in_the_sum_if_and_only_if_it_has_contributed(case: Case) -> None:
    asks = asking_steps(case)
    for step in range(len(asks)):
        met = meeting(case, ITEMS)
        found = met.finish(lost=lambda number, name, step=step: (number, name) == (step, "client-2"))  # type: ignore[misc]
        contributed = any(asks[:step])
        assert_same(found, met.expected([n for n in met.given if contributed or n != "client-2"]))


@each_case
def test_a_session_goes_on_from_what_each_client_has_written_at_any_step(case: Case) -> None:
    met = meeting(case, ITEMS)

    for messages in met.steps():
        for name, message in messages.items():
            met.clients[name] = met.resumed(name)
            reply = met.reply(name, message)
            met.clients[name] = met.resumed(name)
            assert met.reply(name, message) == reply
            met.server.take(name, reply)

    assert_same(met.told(met.server.sums()), met.expected())


@pytest.mark.parametrize("name", ["local", "distributed-dp", "two-server"])
def test_the_noise_of_two_rounds_has_nothing_in_common(name: str) -> None:
    """Else the difference of two boards has none."""
    helped = replace(
        CASES["two-server"], make=lambda _: two_servers(3).helped_by(LocalHelper(SeededNoise(1)))
    )
    case = helped if name == "two-server" else CASES[name]
    drawn = []
    for board in (ITEMS, ITEMS.successor()):
        met = meeting(case, board, noise=SeededNoise)
        (linear,) = (request.name for request in met.requests if request.name.endswith("/linear"))
        drawn.append((met.finish()[linear] - met.expected()[linear]).ravel())

    assert min(noise.std() for noise in drawn) > 0.0
    assert abs(np.corrcoef(*drawn)[0, 1]) < 6 / np.sqrt(drawn[0].size)


# Once and only once.


@each_case
def test_the_same_message_gets_the_same_bytes_and_asking_twice_sends_the_same(case: Case) -> None:
    met = meeting(case, ITEMS)

    for messages in met.steps():
        assert dict(met.server.outgoing()) == messages
        for name, message in messages.items():
            assert met.reply(name, message) == met.reply(name, message)
        met.take_all(messages)


@each_case
def test_no_client_gives_a_second_contribution(case: Case) -> None:
    met, other = meeting(case, ITEMS), meeting(case, ITEMS, seed=1)

    for messages in met.steps():
        met.take_all(messages)
        if met.server.asks_contributions:
            for name, message in messages.items():
                given = met.clients[name].answer(message, met.given[name])
                assert met.clients[name].answer(message, other.given[name]) == given
                assert met.resumed(name).answer(message, other.given[name]) == given


@each_case
def test_the_server_takes_one_reply_of_each_client_that_it_asked(case: Case) -> None:
    met = meeting(case, ITEMS)

    for messages in met.steps():
        replies = {name: met.reply(name, message) for name, message in messages.items()}
        with pytest.raises(RefusedError):
            met.server.take("stranger", replies["client-0"])
        for name, reply in replies.items():
            met.server.take(name, reply)
            for again in (reply, replies["client-0"]):
                assert refused(met.server.take, name, again) is Refusal.DUPLICATE

    assert_same(met.told(met.server.sums()), met.expected())


# Hostile parties.


@each_case
def test_the_server_refuses_hostile_replies_and_nothing_has_changed(case: Case) -> None:
    for step, (met, messages, other, others) in enumerate(side_by_side(case)):
        for number, (name, message) in enumerate(messages.items()):
            reply = met.reply(name, message)
            for what, bad in spoiled(
                reply, other.reply(name, others[name]), seed=100 * step + number
            ).items():
                assert raises(RefusedError, met.server.take, name, bad), f"step {step}: it took {what}"
            met.server.take(name, reply)


@each_case
def test_a_client_refuses_hostile_messages_and_nothing_has_changed(case: Case) -> None:
    for step, (met, messages, _, others) in enumerate(side_by_side(case)):
        asks = met.server.asks_contributions
        for number, (name, message) in enumerate(messages.items()):
            client, given = met.clients[name], met.given[name] if asks else None
            before = client.to_bytes()
            for what, bad in spoiled(message, others[name], seed=100 * step + number).items():
                assert raises(RefusedError, client.answer, bad, given), f"step {step}: it answered {what}"
            assert not asks or raises(RefusedError, client.answer, message, None)
            assert client.to_bytes() == before
        met.take_all(messages)


@each_case
@each_board
def test_a_client_that_would_break_a_bound_sends_nothing_and_the_others_are_summed(
    case: Case, board: Any
) -> None:
    met = meeting(case, board)

    for messages in met.steps():
        if "client-1" in messages and met.server.asks_contributions:
            honest = met.given["client-1"]
            rows = honest.contribution
            swollen = replace(
                rows,
                vectors=None if rows.vectors is None else np.full_like(rows.vectors, 4000),
                totals={name: total + (1 << 40) for name, total in rows.totals.items()},
            )
            with pytest.raises(PrivacyError):
                met.clients["client-1"].answer(messages["client-1"], replace(honest, contribution=swollen))
        met.take_all(messages, but=["client-1"] if met.server.asks_contributions else [])

    assert_same(met.told(met.server.sums()), met.expected([name for name in met.given if name != "client-1"]))


@each_case
def test_with_too_few_answers_at_any_step_nothing_is_summed_and_it_is_told_whether_anything_was_given(
    case: Case,
) -> None:
    asks = asking_steps(case)
    for step in range(len(asks)):
        with pytest.raises(TooFewAnswersError) as lost:
            meeting(case, ITEMS).finish(lost=lambda number, _, step=step: number == step)  # type: ignore[misc]
        assert lost.value.given == any(asks[: step + 1])


@each_case
def test_as_many_contributions_as_are_needed_make_a_sum_and_one_fewer_does_not(case: Case) -> None:
    asks = asking_steps(case)
    needed = case.make(len(SPLIT) - 1).parameters.get("survivors", 1)
    for there in (needed, needed - 1):
        met = meeting(case, ITEMS)
        staying = list(met.given)[:there]
        lost = lambda step, name, staying=staying: asks[step] and name not in staying  # noqa: E731
        if there == needed:
            assert_same(met.finish(lost), met.expected(staying))
        else:
            with pytest.raises(TooFewAnswersError):
                met.finish(lost)


@each_case
def test_fewer_clients_than_are_needed_never_make_a_sum(case: Case) -> None:
    needed = case.make(len(SPLIT) - 1).parameters.get("survivors", 1)

    def one_fewer_is_there() -> None:
        met = meeting(case, ITEMS)
        there = list(met.given)[: needed - 1]
        met.server = met.protocol.open(met.about, met.requests, there, n_items=N_ITEMS)
        met.finish()

    with pytest.raises(TooFewAnswersError):
        one_fewer_is_there()


Sound: Any = type(example("additive_shares.py", "AdditiveShares")(2))


class OffByOne(Sound):
    def open(self, *arguments: Any, **named: Any) -> OneStepServer:
        server = super().open(*arguments, **named)
        server.adding.totals["first"][-1] += 1
        return server


class Unbound(Sound):
    def open(self, about: bytes, *arguments: Any, **named: Any) -> OneStepServer:
        return super().open(b"", *arguments, **named)

    def resume(self, about: bytes, *arguments: Any) -> OneStepClient:
        return super().resume(b"", *arguments)

    def join(self, about: bytes, *arguments: Any) -> OneStepClient:
        return super().join(b"", *arguments)


class EveryReplyCounts(Sound):
    def open(self, *arguments: Any, **named: Any) -> OneStepServer:
        class Open(OneStepServer):
            def take(self, client: str, reply: bytes) -> None:
                self._taken.discard(client)
                super().take(client, reply)

        server = super().open(*arguments, **named)
        return Open(about=server.about, clients=server.clients, adding=server.adding)


class Forgetful(Sound):
    def resume(self, about: bytes, noise: Any, state: bytes) -> OneStepClient:
        return self.join(about, noise)


class DrawsAgain(Sound):
    def join(self, about: bytes, noise: Any) -> OneStepClient:
        class Redrawing(OneStepClient):
            def answer(self, message: bytes, given: Any) -> bytes:
                self.sent = b""
                return super().answer(message, given)

        return Redrawing(about=about, pack=self.halves)


class Unchecked(Sound):
    def halves(self, given: Any) -> bytes:
        packing = Packing.of(given.requests, most_users=self.most_users)
        sums = whole_sums(FactoredSums.of(given.contribution), given.requests)
        numbers = packing.flatten({name: values >> packing.shifts[name] for name, values in sums.items()})
        return pack_frame("halves", {}, {"first": numbers, "second": np.zeros_like(numbers)})


class ChangedBeforeItIsChecked(Sound):
    def open(self, *arguments: Any, **named: Any) -> OneStepServer:
        server = super().open(*arguments, **named)
        checked = server.adding.add

        def add(message: bytes) -> None:
            server.adding.totals["second"][0] += 1
            checked(message)
            server.adding.totals["second"][0] -= 1

        server.adding.add = add
        return server


class Telling(Sound):
    def halves(self, given: Any) -> bytes:
        packing = Packing.of(given.requests, most_users=self.most_users)
        checked = packing.flatten(coarse_sums(given.contribution, given.requests, packing.shifts))
        told = {"one for each rating": "1" * given.contribution.items.size}
        return pack_frame("halves", told, {"first": checked, "second": np.zeros_like(checked)})


class Credulous(Sound):
    @classmethod
    def from_parameters(cls, parameters: Any, *, backend: str = "numpy") -> Any:
        return cls(most_users=parameters.get("most_users", N_USERS), backend=backend)


def booked(request: Request, noise: NoiseSource, folder: Path) -> BookedRelease:
    name = f"{request.source}-{noise.label}.sqlite".replace("/", " ")
    budget = Budget(epsilon=50.0, delta=1e-5, adjacency=request.release.adjacency)
    with Ledger.create(folder / name, budget) as ledger:
        return request.release.book(ledger, noise)


@each_case
def test_the_parameters_go_through_json_and_rebuild_the_protocol_on_a_client(case: Case) -> None:
    met = meeting(case, ITEMS)
    stated = json.loads(json.dumps(dict(met.protocol.parameters)))

    rebuilt = type(met.protocol).from_parameters(stated)  # type: ignore[attr-defined]
    met.clients = {name: rebuilt.join(met.about, met.noise[name]) for name in met.given}

    assert rebuilt.parameters == met.protocol.parameters
    assert_same(met.finish(), met.expected())


@each_case
def test_parameters_that_make_no_sense_are_refused_in_one_sentence(case: Case) -> None:
    protocol = case.make(len(SPLIT) - 1)
    stated = dict(protocol.parameters)
    bad = [{**stated, "unknown": 1}, *({k: v for k, v in stated.items() if k != name} for name in stated)]
    bad += [{**stated, name: value} for name in stated for value in ("", None, -1, float("nan"), [])]

    for parameters in bad:
        make = type(protocol).from_parameters  # type: ignore[attr-defined]
        assert raises(InputError, make, parameters), f"took {parameters}"


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_a_setting_that_a_protocol_does_not_have_is_refused(name: str) -> None:
    with pytest.raises(InputError):
        sized_protocol(name, clients=10, users=100, settings={"unknown": 1})


def sizes(case: Case, *, seed: int) -> list[list[int]]:
    met, found = meeting(case, ITEMS, seed=seed), []
    for messages in met.steps():
        replies = [met.reply(name, message) for name, message in messages.items()]
        found.append([len(content) for content in (*messages.values(), *replies)])
        met.take_all(messages)
    return found


@each_case
def test_the_sizes_of_messages_tell_of_the_ratings_only_where_the_protocol_says_so(case: Case) -> None:
    assert (sizes(case, seed=0) == sizes(case, seed=1)) == case.hides_ratings


@each_case
def test_what_the_ledger_books_as_noise_is_where_the_noise_is(case: Case) -> None:
    """With the noise left in, the sums are off by as much as is stated, or not at all."""
    met = meeting(case, ITEMS, noise=lambda number: SeededNoise(number))
    for messages in met.steps():
        met.take_all(messages)
    sums = met.server.sums()
    found, exact = met.told(sums), met.expected()

    assert met.protocol.noise(SecureNoise()).private
    assert not met.protocol.noise(SeededNoise(0)).private
    for request in met.requests:
        off = (found[request.name] - exact[request.name]) / request.release.column_stddev()
        assert off.std() == pytest.approx(case.spread(met.protocol), rel=0.2)
    assert sums.noise_shares == case.shares(met.protocol)
    if met.protocol.noise_at is NoiseAt.SERVER:
        assert met.protocol.noise(SeededNoise(3)).describe() == SeededNoise(3).describe()


@pytest.mark.slow
@each_case
def test_the_sums_pass_through_the_releases_that_are_booked_for_them_and_no_others(
    case: Case, tmp_path: Path
) -> None:
    met = meeting(case, ITEMS)
    for messages in met.steps():
        met.take_all(messages)
    sums, drawn = met.server.sums(), SeededNoise(0)
    told, other = met.told(sums), SharedNoise(least=1, drawn=drawn)
    if sums.noise_shares:
        other = drawn

    for request in met.requests:
        values = told[request.name]
        published = booked(request, met.protocol.noise(drawn), tmp_path).publish(
            values, noise_shares=sums.noise_shares
        )
        off = published / request.release.grid_step - values
        assert bool(off.std() > request.release.noise_stddev / 2) == (not sums.noise_shares)
        with pytest.raises(PrivacyError):
            booked(request, other, tmp_path).publish(values, noise_shares=sums.noise_shares)


FAULTS: dict[type, Callable[[Case], None]] = {
    OffByOne: test_any_split_of_the_users_and_any_order_of_replies_gives_the_same_sum,
    Unbound: test_the_server_refuses_hostile_replies_and_nothing_has_changed,
    EveryReplyCounts: test_the_server_takes_one_reply_of_each_client_that_it_asked,
    Forgetful: test_a_session_goes_on_from_what_each_client_has_written_at_any_step,
    DrawsAgain: test_the_same_message_gets_the_same_bytes_and_asking_twice_sends_the_same,
    Unchecked: test_a_client_that_would_break_a_bound_sends_nothing_and_the_others_are_summed,
    ChangedBeforeItIsChecked: test_the_server_refuses_hostile_replies_and_nothing_has_changed,
    Telling: test_the_sizes_of_messages_tell_of_the_ratings_only_where_the_protocol_says_so,
    Credulous: test_parameters_that_make_no_sense_are_refused_in_one_sentence,
}


def held_to(test: Callable[..., None], protocol: Any) -> None:
    case = Case(make=lambda clients: protocol(most_users=N_USERS))
    also = {"board": ITEMS, "seed": 0}
    test(case, **{name: value for name, value in also.items() if name in signature(test).parameters})


@pytest.mark.parametrize(("faulty", "test"), FAULTS.items(), ids=[faulty.__name__ for faulty in FAULTS])
def test_a_protocol_with_this_fault_fails(faulty: type, test: Callable[..., None]) -> None:
    held_to(test, Sound)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        held_to(test, faulty)
