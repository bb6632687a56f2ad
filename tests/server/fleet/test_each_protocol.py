"""A fleet of processes over TLS: under each protocol, and with an algorithm and a protocol that are others' own."""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from fedboard.common.certificate import Certificate
from fedboard.server.fleet.state_folder import RoundLog
from fedboard.server.helper.service import RunningHelper
from tests.ports import free_ports
from tests.server.fleet.deployed import ROUNDS, USERS, Fleet, deployed
from tests.toys import SAYS, assert_verified, house_with_the_protocol, install_the_algorithm

pytestmark = pytest.mark.slow


def a_helper(fleet: Fleet, port: int, stack: ExitStack) -> None:
    """The second server, in this process; whoever runs it gives its files."""
    keys, folder = fleet.keys, fleet.folder / "helper"
    folder.mkdir()
    (keys.path / "helper.token").write_text("ab" * 32)
    (keys.path / "helper.token").chmod(0o600)
    (keys.path / "helper.pem").write_bytes(keys.authority.read_bytes())
    helper = stack.enter_context(
        RunningHelper(
            state=folder / "state",
            identity=folder / "identity.key",
            certificate=keys.certificate,
            private_key=keys.key,
            token=keys.path / "helper.token",
            address=f"127.0.0.1:{port}",
        )
    )
    (keys.path / "helper.identity").write_text(helper.identity)
    for device in fleet.folder.glob("*/device.toml"):
        text = device.read_text()
        assert "seeded_noise = true" in text
        device.write_text(
            text.replace("seeded_noise = true", f'seeded_noise = true, helper = "{helper.identity}"')
        )


@pytest.mark.parametrize(
    "protocol",
    [
        "two-server",
        pytest.param("trusted", marks=pytest.mark.thorough),
        pytest.param("distributed-dp", marks=pytest.mark.thorough),
        pytest.param("local", marks=pytest.mark.thorough),
    ],
)
def test_a_training_under_each_protocol_is_complete_and_certified(tmp_path: Path, protocol: str) -> None:
    (port,) = free_ports(1)
    section: dict[str, object] = {"name": protocol}
    if protocol == "two-server":
        sizes = {"most_items": 60, "most_users": 6 * USERS}
        section |= {"helper": f"127.0.0.1:{port}", "settings": sizes}

    with (
        ExitStack() as stack,
        deployed(
            tmp_path,
            before=lambda fleet: a_helper(fleet, port, stack) if protocol == "two-server" else None,
            protocol=section,
        ) as fleet,
    ):
        fleet.trained()
        lines = RoundLog(fleet.state.run / "rounds.jsonl").lines()
        boards = fleet.boards()

    assert {line["protocol"] for line in lines} == {protocol}
    assert [line["lost"] for line in lines] == [False] * (ROUNDS + 1)
    assert all(3 <= line["answers"] <= 4 for line in lines)
    certificate = Certificate.from_dict(dict(boards[-1].certificate or {}))
    assert certificate.holds
    assert certificate.claim.epsilon <= 5.0 * (1 + 1e-9)


def test_a_fleet_of_processes_trains_a_verified_board_of_one_under_the_other(tmp_path: Path) -> None:
    for name in ("house", "site", "fleet"):
        (tmp_path / name).mkdir()
    house = house_with_the_protocol(tmp_path / "house")
    install_the_algorithm(tmp_path / "site")
    both = {**house.environment, "PYTHONPATH": f"{house.environment['PYTHONPATH']}:{tmp_path / 'site'}"}

    with deployed(
        tmp_path / "fleet",
        protocol={"name": "toy"},
        task={"algorithm": "toy", "settings": None},
        environment=both,
    ) as fleet:
        fleet.trained()

    lines = RoundLog(fleet.state.run / "rounds.jsonl").lines()
    assert {line["protocol"] for line in lines} == {"toy"}
    assert all(3 <= line["answers"] <= 4 for line in lines if line["releases"])
    certificate = json.loads((fleet.state.run / "certificate.json").read_text())
    assert SAYS in certificate["trust"]
    boards = fleet.boards()
    assert [board.task for board in boards] == ["toy"] * 3
    assert abs(boards[-1].arrays["item_biases"]).max() > 0
    assert_verified(fleet.state.run)
