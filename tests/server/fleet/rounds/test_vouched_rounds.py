"""Sums among devices that are vouched for, over a grid: a step more, which a device may miss, and who is let in."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fedboard.client.participation.policy import Policy
from fedboard.client.participation.promises import relied_on
from fedboard.common.boards.roster import IdentityKey, RosterAuthority
from fedboard.common.errors import InputError, TooFewAnswersError
from fedboard.common.messages.step import StepMessage
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.sessions import Voucher
from tests.server.fleet.local_fleet import N_NODES, Phone, digests, phone
from tests.server.fleet.rounds.test_session_rounds import N_ROUNDS, Nodes, run

pytestmark = pytest.mark.slow

AUTHORITY = RosterAuthority()
IDENTITIES = [IdentityKey() for _ in range(N_NODES)]
SHARES, CONFIRM, UNMASK = 1, 3, 4


class Known(Phone):
    """A phone with an identity, whose owner believes one authority."""

    voucher: Voucher

    def protocol_of(self, step: StepMessage, *, backend: str) -> AggregationProtocol:
        policy = Policy(epsilon=9.0, vouched_by=self.voucher.authority.hex())
        return relied_on(step.protocol, step.parameters, policy, backend=backend, voucher=self.voucher)


def known(number: int, *, authority: bytes) -> Phone:
    voucher = Voucher(identity=IDENTITIES[number], authority=authority)
    return type("Known", (Known,), {"voucher": voucher})(phone(number).ratings)


def nodes(authority: bytes = AUTHORITY.public) -> Nodes:
    return Nodes(gate=partial(known, authority=authority))


def settings(folder: Path, *, seconds: float = 3600.0) -> dict[str, Any]:
    keys = [identity.public for identity in IDENTITIES]
    place = folder / "roster"
    signed = AUTHORITY.sign(keys, fleet="trial", number=1, seconds=seconds)
    place.write_bytes(signed.content)
    of_protocol = {"survivors": 3, "most_users": 400, "vouched_by": AUTHORITY.public.hex()}
    return {"protocol_settings": of_protocol, "roster": place}


def test_a_device_that_is_lost_in_any_step_costs_no_round(tmp_path: Path) -> None:
    losing: Callable[[int, int, int], bool] = lambda number, version, step: (  # noqa: E731
        number == 3 and (version, step) in {(0, SHARES), (1, CONFIRM), (2, UNMASK)}
    )

    lines = run(tmp_path / "run", nodes(), lost=losing, **settings(tmp_path))

    assert [line["answers"] for line in lines] == [3, N_NODES, N_NODES]
    assert all(line["releases"] for line in lines)
    assert [[step["answered"] for step in line["steps"]] for line in lines] == [
        [4, 3, 3, 3, 3],
        [4, 4, 4, 3, 3],
        [4, 4, 4, 4, 3],
    ]
    assert len(digests(tmp_path / "run")) == N_ROUNDS + 1


def test_a_round_that_too_few_confirm_is_lost_and_not_opened(tmp_path: Path) -> None:
    with pytest.raises(
        TooFewAnswersError, match=r"2 clients are left in step 'confirm'.*3 or more are needed"
    ) as error:
        run(
            tmp_path / "run",
            nodes(),
            lost=lambda number, _, step: number > 1 and step == CONFIRM,
            **settings(tmp_path),
        )
    assert error.value.given


def test_devices_that_believe_another_authority_take_no_part(tmp_path: Path) -> None:
    with pytest.raises(TooFewAnswersError, match="other-roster 4"):
        run(tmp_path / "run", nodes(RosterAuthority().public), deadline_seconds=1.0, **settings(tmp_path))


def test_a_list_that_is_over_is_said_before_anybody_is_asked(tmp_path: Path) -> None:
    usual = settings(tmp_path, seconds=1e-9)
    place = usual["roster"]
    keys = [identity.public for identity in IDENTITIES]
    over = AUTHORITY.sign(keys, fleet="trial", number=1, seconds=1, clock=lambda: 0.0)
    place.write_bytes(over.content)

    with pytest.raises(InputError, match="this list of devices is over"):
        run(tmp_path / "run", nodes(), **usual)
