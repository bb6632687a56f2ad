"""Sums with a second server over TLS, and among devices that are vouched for: who is relied on, lost or away."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedboard.client.participation.policy import Policy
from fedboard.client.participation.promises import relied_on
from fedboard.common.boards.roster import IdentityKey, RosterAuthority
from fedboard.common.errors import InputError, TooFewAnswersError
from fedboard.common.messages.step import StepMessage
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.sessions import Voucher
from fedboard.server.helper.service import RunningHelper
from fedboard.server.run_spec import HelperServer
from tests.server.fleet.local_fleet import N_NODES, Phone, digests, events, phone
from tests.server.fleet.rounds.test_session_rounds import N_ROUNDS, Nodes, run
from tests.server.vouched import vouched_pair

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


def vouched(folder: Path, *, seconds: float = 3600.0) -> dict[str, Any]:
    keys = [identity.public for identity in IDENTITIES]
    place = folder / "roster"
    signed = AUTHORITY.sign(keys, fleet="trial", number=1, seconds=seconds)
    place.write_bytes(signed.content)
    of_protocol = {"survivors": 3, "most_users": 400, "vouched_by": AUTHORITY.public.hex()}
    return {"protocol_settings": of_protocol, "roster": place}


@pytest.mark.slow
def test_a_device_that_is_lost_in_any_step_costs_no_round(tmp_path: Path) -> None:
    losing: Callable[[int, int, int], bool] = lambda number, version, step: (  # noqa: E731
        number == 3 and (version, step) in {(0, SHARES), (1, CONFIRM), (2, UNMASK)}
    )

    lines = run(tmp_path / "run", nodes(), lost=losing, **vouched(tmp_path))

    assert [line["answers"] for line in lines] == [3, N_NODES, N_NODES]
    assert all(line["releases"] for line in lines)
    assert [[step["answered"] for step in line["steps"]] for line in lines] == [
        [4, 3, 3, 3, 3],
        [4, 4, 4, 3, 3],
        [4, 4, 4, 4, 3],
    ]
    assert len(digests(tmp_path / "run")) == N_ROUNDS + 1


@pytest.mark.slow
def test_a_round_that_too_few_confirm_is_lost_and_not_opened(tmp_path: Path) -> None:
    with pytest.raises(
        TooFewAnswersError, match=r"2 clients are left in step 'confirm'.*3 or more are needed"
    ) as error:
        run(
            tmp_path / "run",
            nodes(),
            lost=lambda number, _, step: number > 1 and step == CONFIRM,
            **vouched(tmp_path),
        )
    assert error.value.given


@pytest.mark.slow
def test_devices_that_believe_another_authority_take_no_part(tmp_path: Path) -> None:
    with pytest.raises(TooFewAnswersError, match="other-roster 4"):
        run(tmp_path / "run", nodes(RosterAuthority().public), deadline_seconds=1.0, **vouched(tmp_path))


@pytest.mark.slow
def test_a_list_that_is_over_is_said_before_anybody_is_asked(tmp_path: Path) -> None:
    usual = vouched(tmp_path, seconds=1e-9)
    place = usual["roster"]
    keys = [identity.public for identity in IDENTITIES]
    over = AUTHORITY.sign(keys, fleet="trial", number=1, seconds=1, clock=lambda: 0.0)
    place.write_bytes(over.content)

    with pytest.raises(InputError, match="this list of devices is over"):
        run(tmp_path / "run", nodes(), **usual)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = vouched_pair(tmp_path_factory.mktemp("keys"), pair="helper")
    (place / "token").write_text("ab" * 32)
    (place / "token").chmod(0o600)
    return place


@pytest.fixture
def helper(folder: Path, tmp_path: Path) -> Iterator[RunningHelper]:
    with RunningHelper(
        state=tmp_path / "helper",
        identity=folder / "identity.key",
        certificate=folder / "helper.pem",
        private_key=folder / "helper.key",
        token=folder / "token",
    ) as started:
        yield started


class Pinning(Phone):
    """A phone whose owner relies on one helper."""

    identity = ""

    def protocol_of(self, step: StepMessage, *, backend: str) -> AggregationProtocol:
        policy = Policy(epsilon=9.0, helper=self.identity)
        return relied_on(step.protocol, step.parameters, policy, backend=backend)


def relying_on(identity: str) -> Nodes:
    kind = type("Relying", (Pinning,), {"identity": identity})
    return Nodes(gate=lambda number: kind(phone(number).ratings))


def helped(folder: Path, helper: RunningHelper, identity: str) -> dict[str, Any]:
    return {
        "protocol": "two-server",
        "protocol_settings": {"most_items": 25, "most_users": 400},
        "deadline_seconds": 240.0,
        "helper": HelperServer(
            address=f"127.0.0.1:{helper.port}",
            authority=folder / "authority.pem",
            identity=identity,
            token=folder / "token",
        ),
    }


@pytest.mark.slow
def test_a_second_server_helps_in_every_round(folder: Path, helper: RunningHelper, tmp_path: Path) -> None:
    lines = run(tmp_path / "run", relying_on(helper.identity), **helped(folder, helper, helper.identity))

    assert [line["answers"] for line in lines] == [N_NODES] * N_ROUNDS
    assert all(line["releases"] for line in lines)
    assert len(digests(tmp_path / "run")) == N_ROUNDS + 1


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["seeded", "secure"])
def test_where_all_devices_refuse_nothing_is_spent_and_the_helpers_name_in_their_policy_mends_it(
    folder: Path, helper: RunningHelper, tmp_path: Path, noise: str
) -> None:
    usual = {**helped(folder, helper, helper.identity), "noise": noise, "attempts": 1}
    for _ in range(2):
        with pytest.raises(
            TooFewAnswersError, match=r"4 nodes .* refuse.* nothing is spent .*other-helper 4"
        ):
            run(tmp_path / "run", relying_on("ab" * 32), **usual)
        assert not events(tmp_path / "run")

    lines = run(tmp_path / "run", relying_on(helper.identity), **usual)

    assert [line["lost"] for line in lines] == [False] * N_ROUNDS


def test_a_server_that_reaches_another_helper_than_the_named_one_says_so(
    folder: Path, helper: RunningHelper, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="not the one whose identity is pinned"):
        run(tmp_path / "run", relying_on("ab" * 32), **helped(folder, helper, "ab" * 32))


@pytest.mark.slow
def test_a_round_waits_for_a_helper_that_is_away_until_the_deadline(
    folder: Path, helper: RunningHelper, tmp_path: Path
) -> None:
    usual = helped(folder, helper, helper.identity)
    away = msgspec.structs.replace(usual["helper"], address="127.0.0.1:9")
    changed = {**usual, "helper": away, "deadline_seconds": 1.2}

    with pytest.raises(TooFewAnswersError, match=r"round 0: the second server does not begin .*unreachable"):
        run(tmp_path / "run", relying_on(helper.identity), **changed)
