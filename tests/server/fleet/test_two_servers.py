"""A fleet with a second server over TLS: it helps in every round, and devices answer for their own helper alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedboard.client.participation.policy import Policy
from fedboard.client.participation.promises import relied_on
from fedboard.common.errors import InputError, TooFewAnswersError
from fedboard.common.messages.step import StepMessage
from fedboard.common.protocol import AggregationProtocol
from fedboard.server.helper.service import RunningHelper
from fedboard.server.run_spec import HelperServer
from tests.server.fleet.local_fleet import N_NODES, Phone, digests, events, phone
from tests.server.fleet.rounds.test_session_rounds import Nodes, run
from tests.server.vouched import vouched_pair

N_ROUNDS = 3


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


def settings(folder: Path, helper: RunningHelper, identity: str) -> dict[str, Any]:
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
    lines = run(tmp_path / "run", relying_on(helper.identity), **settings(folder, helper, helper.identity))

    assert [line["answers"] for line in lines] == [N_NODES] * N_ROUNDS
    assert all(line["releases"] for line in lines)
    assert len(digests(tmp_path / "run")) == N_ROUNDS + 1


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["seeded", "secure"])
def test_where_all_devices_refuse_nothing_is_spent_and_the_helpers_name_in_their_policy_mends_it(
    folder: Path, helper: RunningHelper, tmp_path: Path, noise: str
) -> None:
    usual = {**settings(folder, helper, helper.identity), "noise": noise, "attempts": 1}
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
        run(tmp_path / "run", relying_on("ab" * 32), **settings(folder, helper, "ab" * 32))


@pytest.mark.slow
def test_a_round_waits_for_a_helper_that_is_away_until_the_deadline(
    folder: Path, helper: RunningHelper, tmp_path: Path
) -> None:
    usual = settings(folder, helper, helper.identity)
    away = msgspec.structs.replace(usual["helper"], address="127.0.0.1:9")
    changed = {**usual, "helper": away, "deadline_seconds": 1.2}

    with pytest.raises(TooFewAnswersError, match=r"round 0: the second server does not begin .*unreachable"):
        run(tmp_path / "run", relying_on(helper.identity), **changed)
