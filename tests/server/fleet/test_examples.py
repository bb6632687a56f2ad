"""A fleet whose devices hold files of examples: policy and ledger are each one's own, the board is everybody's."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fedboard.client.participation.config import load_device
from fedboard.client.participation.status import given_so_far
from fedboard.client.ratings.examples_file import ExamplesTable
from fedboard.common.algorithms.registry import example_algorithm_of
from fedboard.common.algorithms.representation.algorithm import representation_of
from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.errors import TooFewAnswersError
from fedboard.common.messages.refusals import Refusal
from fedboard.common.messages.signing import PUBLIC_NAME
from fedboard.server.calibrating import ExampleTraining, calibrated_example_task
from fedboard.server.run_spec import Promise
from fedboard.simulations.data.synthetic.examples import SharedLinear
from fedboard.simulations.flower.training import LocalNodes
from tests.client.asking import SERVER
from tests.client.ratings.written import write_examples
from tests.server.fleet.local_fleet import Fleet, answers_of_devices, run_job

N_DEVICES = 3
POPULATION = SharedLinear(users=300, examples=6, dimension=5).sample(0)
FEATURES = POPULATION.source.catalogue.item_ids
PROMISE = Promise(epsilon=5.0, delta=1e-5, noise="seeded")
DEVICE = """\
ratings = {{ examples = "examples.csv" }}
policy = {{ epsilon = {epsilon}, delta = 1e-5, seeded_noise = true, smallest_catalogue = {smallest} }}

[server]
address = "127.0.0.1:1"
authority = "none.pem"
key = "none.key"
question_key = "{key}"
"""


@dataclass(frozen=True)
class Devices:
    """A fleet of gateways, and the refusals that they heard of."""

    fleet: Fleet
    heard: list[Refusal]

    def place(self, number: int) -> Path:
        return self.fleet.folder.parent / f"device-{number}" / "device.toml"

    def run(self) -> Board:
        places = [self.place(number) for number in range(N_DEVICES)]
        return run_job(LocalNodes(answers_of_devices(places, self.heard), 100), self.fleet.job)


def devices(
    folder: Path, algorithm: str, *, smallest: int = 5, epsilon: float = 6.0, **settings: object
) -> Devices:
    SERVER.write(folder)
    task = calibrated_example_task(
        ExampleTraining(algorithm=example_algorithm_of(algorithm), promise=PROMISE)
    )
    settings = {"quorum": N_DEVICES, "enrolled": None, "users": 300, "deadline_seconds": 1.0, **settings}
    first = task.first_board(POPULATION.source.catalogue)
    found = Devices(
        Fleet(folder / "fleet", first_board=first, n_nodes=N_DEVICES, settings=settings), heard=[]
    )
    for number in range(N_DEVICES):
        found.place(number).parent.mkdir()
        key = folder / PUBLIC_NAME
        found.place(number).write_text(DEVICE.format(key=key, smallest=smallest, epsilon=epsilon))
        rows = np.arange(number * 100, number * 100 + 100, dtype=np.int32)
        table = ExamplesTable(
            features=FEATURES,
            users=tuple(f"person {row:03}" for row in rows),
            examples=POPULATION.examples.rows(rows),
        )
        write_examples(found.place(number).parent / "examples.csv", table)
    return found


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Devices, Board]:
    found = devices(tmp_path_factory.mktemp("shared"), "representation")
    return found, found.run()


@pytest.mark.slow
def test_devices_with_examples_learn_a_board_that_is_certified_and_booked_by_each(
    learnt: tuple[Devices, Board],
) -> None:
    found, board = learnt

    truth, shared = POPULATION.representation, representation_of(board)
    assert np.linalg.norm(truth - shared @ (shared.T @ truth)) < 0.2
    assert Certificate.from_dict(dict(board.certificate or {})).holds
    for number in range(N_DEVICES):
        given, epsilon = given_so_far(load_device(found.place(number)))
        assert [entry.release for entry in given] == [
            "initialisation",
            *(f"round-{t}/{part}" for t in (1, 2, 3) for part in ("curvature", "gradient")),
        ]
        assert epsilon == pytest.approx(5.0, rel=1e-6)
    assert found.heard == []


@pytest.mark.slow
def test_masked_sums_carry_them_too(tmp_path: Path) -> None:
    found = devices(tmp_path, "representation", protocol="secure-sum")

    shared = representation_of(found.run())

    truth = POPULATION.representation
    assert np.linalg.norm(truth - shared @ (shared.T @ truth)) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "code"),
    [({"smallest": 6}, Refusal.SINGLES_OUT), ({"epsilon": 2.0}, Refusal.OVER_LIMIT)],
)
def test_a_device_answers_what_its_policy_allows_and_nothing_else(
    tmp_path: Path, policy: dict[str, float], code: Refusal
) -> None:
    found = devices(tmp_path, "representation", **policy)  # type: ignore[arg-type]

    with pytest.raises(TooFewAnswersError):
        found.run()

    assert set(found.heard) == {code}
    assert given_so_far(load_device(found.place(0))) == ((), 0.0)
