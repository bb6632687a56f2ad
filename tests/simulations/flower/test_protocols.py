"""Protocols over Flower's messages give the engine's boards, bit for bit: the same clients, sums and noise."""

import json
from pathlib import Path
from typing import Any

import pytest

from fedboard.simulations.simulate import simulate
from tests.simulations.flower.small_runs import a_config, digests

pytestmark = pytest.mark.slow

CLIENTS = 5
RUNS: list[tuple[str, str, dict[str, Any]]] = [
    ("secure-sum", "residual", {}),
    ("secure-sum", "adadpals", {"privacy": {"personal": [{"epsilon": 1.0, "share": 0.3}]}}),
    ("distributed-dp", "adadpals", {}),
    ("distributed-dp", "adadpals", {"protocol_settings": {"vouched_by": "simulation"}}),
    ("local", "adadpals", {}),
    ("two-server", "adadpals", {}),
]


@pytest.mark.parametrize(("protocol", "algorithm", "sections"), RUNS, ids=lambda value: str(value)[:30])
def test_the_engine_and_a_grid_give_the_same_boards(
    tmp_path: Path, protocol: str, algorithm: str, sections: dict[str, Any]
) -> None:
    settings = {"rounds": 1}
    for runtime in ("engine", "in-process"):
        run = {"runtime": runtime, "protocol": protocol, "clients": CLIENTS}
        simulate(a_config(algorithm, settings=settings, **sections, **run), tmp_path / runtime, report=False)

    assert digests(tmp_path / "in-process") == digests(tmp_path / "engine")
    lines = [json.loads(line) for line in (tmp_path / "in-process" / "rounds.jsonl").read_text().splitlines()]
    assert {line["answers"] for line in lines} == {CLIENTS}
    certificate = json.loads((tmp_path / "in-process" / "certificate.json").read_text())
    assert certificate["trust"] == json.loads((tmp_path / "engine" / "certificate.json").read_text())["trust"]
    vouched = "whatever the server says or does" in " ".join(certificate["trust"])
    assert vouched == ("protocol_settings" in sections)


def test_clients_that_add_the_noise_add_their_own_in_each_round(tmp_path: Path) -> None:
    """So that the same digests mean something."""
    run = {"runtime": "in-process", "protocol": "distributed-dp", "clients": CLIENTS}
    for seed in (0, 1):
        config = a_config(settings={"rounds": 1}, privacy={"noise": "secure"} if seed else {}, **run)
        simulate(config, tmp_path / str(seed), report=False)

    assert digests(tmp_path / "0")[0] == digests(tmp_path / "1")[0]
    assert digests(tmp_path / "0")[1] != digests(tmp_path / "1")[1]
