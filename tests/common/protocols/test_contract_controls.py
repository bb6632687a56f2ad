"""The contract test notices what it is there for: protocols with one fault each, and the test that each fails."""

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
import pytest

from fedboard.common.protocols.shared.sessions import OneStepClient, OneStepServer
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from fedboard.common.protocols.sums.residues import Packing
from fedboard.common.protocols.sums.truncated import coarse_sums
from fedboard.common.wire.frame import pack_frame
from tests.common.protocols import test_contract as contract
from tests.common.protocols import test_contract_statements as statements
from tests.common.protocols.meetings import Case, example
from tests.common.tasks.conftest import N_USERS

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


class Vague(Sound):
    trust = replace(Sound.trust, network_sees="")


FAULTS: dict[type, Callable[[Case], None]] = {
    OffByOne: contract.test_any_split_of_the_users_and_any_order_of_replies_gives_the_same_sum,
    Unbound: contract.test_the_server_refuses_hostile_replies_and_nothing_has_changed,
    EveryReplyCounts: contract.test_the_server_takes_one_reply_of_each_client_that_it_asked,
    Forgetful: contract.test_a_session_goes_on_from_what_each_client_has_written_at_any_step,
    DrawsAgain: contract.test_the_same_message_gets_the_same_bytes_and_asking_twice_sends_the_same,
    Unchecked: contract.test_a_client_that_would_break_a_bound_sends_nothing_and_the_others_are_summed,
    ChangedBeforeItIsChecked: contract.test_the_server_refuses_hostile_replies_and_nothing_has_changed,
    Telling: statements.test_the_sizes_of_messages_tell_of_the_ratings_only_where_the_protocol_says_so,
    Credulous: statements.test_parameters_that_make_no_sense_are_refused_in_one_sentence,
    Vague: statements.test_the_trust_model_is_told_in_whole_sentences,
}


def held_to(test: Callable[..., None], protocol: Any) -> None:
    case = Case(make=lambda clients: protocol(most_users=N_USERS))
    also = {"board": contract.ITEMS, "seed": 0}
    test(case, **{name: value for name, value in also.items() if name in signature(test).parameters})


@pytest.mark.parametrize(("faulty", "test"), FAULTS.items(), ids=[faulty.__name__ for faulty in FAULTS])
def test_a_protocol_with_this_fault_fails(faulty: type, test: Callable[..., None]) -> None:
    held_to(test, Sound)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        held_to(test, faulty)
