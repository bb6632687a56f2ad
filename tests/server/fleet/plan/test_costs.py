"""The cost model against messages as they are, and the direction in which each size pushes each cost."""

import json
from dataclasses import replace

import pytest

from fedboard.client.answering.rounds import respond
from fedboard.common.board import Board
from fedboard.common.errors import InputError
from fedboard.common.rounds.question import Answer, Question
from fedboard.common.wire.sealing import ReplyKey
from fedboard.server.fleet.plan.costs import (
    Fleet,
    Rates,
    board_bytes,
    dense_bytes,
    factored_bytes,
    node_terms,
    round_costs,
    server_terms,
    sized_algorithms,
)
from fedboard.simulations.config import parse_config
from fedboard.simulations.flower.cohorts import StoredCohort, write_cohorts
from fedboard.simulations.problem import Problem, load_problem
from fedboard.simulations.simulate import Silent, simulate
from tests.client.asking import ASKER, signed

USERS, ITEMS = 120, 150
HEADERS = 300
"""What header lengths may differ by: names, shapes and numbers have more or fewer digits."""


ROUNDS = {"adadpsgd": "steps", "langevin": "steps"}
"""What an algorithm calls its rounds."""
SETTINGS: dict[str, dict[str, int]] = {"bias-private": {}}
"""Where they are fixed, and a round is the same whatever the rank."""


def trained(tmp_path_factory: pytest.TempPathFactory, algorithm: str, rank: int) -> tuple[Problem, Board]:
    config = parse_config(
        {
            "algorithm": algorithm,
            "data": {"synthetic": {"n_users": USERS, "n_items": ITEMS, "mean_ratings_per_user": 20.0}},
            "settings": SETTINGS.get(algorithm, {"rank": rank, ROUNDS.get(algorithm, "rounds"): 2}),
            "run": {"kernels": "numpy", "evaluate_rounds": False, "baselines": False},
        }
    )
    problem, boards = load_problem(config), list[Board]()

    class Keeping(Silent):
        def round_finished(self, line: object) -> None:
            boards.append(Board.load(run / "boards" / f"board-{len(boards) + 1:04d}.board"))

    run = tmp_path_factory.mktemp(f"{algorithm}-{rank}") / "run"
    simulate(config, run, listener=Keeping(), problem=problem, report=False)
    return problem, boards[-2]  # its question is that of the last round


@pytest.fixture(scope="module", params=[(a, r) for a in sized_algorithms() for r in (3, 12)], ids=str)
def question(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, int, Problem, Board]:
    algorithm, rank = request.param
    return (algorithm, rank, *trained(tmp_path_factory, algorithm, rank))


@pytest.mark.slow
@pytest.mark.parametrize("n_nodes", [1, 6, USERS])
@pytest.mark.parametrize("form", ["factored", "dense"])
def test_an_answer_has_the_bytes_of_the_model(
    question: tuple[str, int, Problem, Board],
    form: str,
    n_nodes: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    algorithm, rank, problem, board = question
    folder = tmp_path_factory.mktemp("cohorts")
    write_cohorts(folder, problem.train, n_nodes)
    node = StoredCohort(folder / "cohort-000000", ASKER)
    key = ReplyKey()
    asked = Question(
        run="trial-0123456789abcdef",
        protocol="trusted",
        form=form,
        board=board,
        private_noise=False,
        reply_key=key.public,
    )

    content = respond(signed(asked.content), source=node, gate=node)

    answer = Answer.from_bytes(key.open(content, about=asked.about), limit=len(content))
    own = problem.train.rows(0, answer.n_users)
    fleet = Fleet(
        users=USERS,
        items=ITEMS,
        rank=rank,
        ratings_per_user=own.n_ratings / own.n_users,
        users_per_node=own.n_users,
        algorithm=algorithm,
    )
    model = factored_bytes(fleet) if form == "factored" else dense_bytes(fleet)
    assert abs(len(content) - model) < HEADERS


@pytest.mark.slow
def test_a_board_has_the_bytes_of_the_model(question: tuple[str, int, Problem, Board]) -> None:
    algorithm, rank, problem, board = question
    catalogue = problem.catalogue
    text = len(json.dumps([catalogue.item_ids, catalogue.titles]))
    fleet = Fleet(
        users=USERS,
        items=ITEMS,
        rank=rank,
        ratings_per_user=20,
        algorithm=algorithm,
        title_bytes=text / ITEMS,
    )

    per_item = fleet.round.board_bytes + fleet.title_bytes
    stored = sum(array.nbytes for array in board.arrays.values())

    assert abs(stored - ITEMS * fleet.round.board_bytes) <= 64
    assert abs(len(board.to_bytes()) - board_bytes(fleet)) < 5_000
    assert board_bytes(replace(fleet, items=2 * ITEMS)) - board_bytes(fleet) == pytest.approx(
        ITEMS * per_item, abs=1
    )


GROWING = {
    "users": ("server_bytes_in", "server_bytes_out", "server_seconds", "carry_seconds"),
    "items": ("board_bytes", "dense_bytes_per_node", "node_seconds", "server_seconds"),
    "rank": ("board_bytes", "factored_bytes_per_node", "dense_bytes_per_node", "node_seconds"),
    "ratings_per_user": ("factored_bytes_per_node", "node_seconds", "server_seconds"),
    "users_per_node": ("factored_bytes_per_node", "node_seconds"),
}


@pytest.mark.parametrize("algorithm", sized_algorithms())
@pytest.mark.parametrize("name", list(GROWING))
def test_more_of_anything_costs_more(name: str, algorithm: str) -> None:
    small = Fleet(users=10_000, items=5_000, rank=8, ratings_per_user=40, algorithm=algorithm)
    large = replace(small, **{name: 4 * getattr(small, name)})

    before, after = round_costs(small), round_costs(large)

    for cost in GROWING[name]:
        if name == "rank" and small.round == large.round:
            assert getattr(after, cost) >= getattr(before, cost), cost
            continue
        assert getattr(after, cost) > getattr(before, cost), cost


def test_gateways_send_sums_where_these_are_smaller_and_spare_the_server_the_boards() -> None:
    phones = Fleet(users=1_000_000, items=20_000, rank=32, ratings_per_user=100)
    gateways = replace(phones, users_per_node=10_000)

    assert round_costs(phones).form == "factored"
    assert round_costs(gateways).form == "dense"
    assert gateways.nodes == 100
    assert round_costs(gateways).server_bytes_out * 9_999 < round_costs(phones).server_bytes_out
    assert round_costs(gateways).server_memory_bytes < round_costs(phones).server_memory_bytes


def test_the_seconds_are_rates_times_their_quantities() -> None:
    fleet = Fleet(users=1_000, items=500, rank=4, ratings_per_user=20)
    nothing = Rates(**dict.fromkeys(Rates.__slots__, 0.0))

    for side, terms in (
        ("node_seconds", node_terms(fleet, "factored")),
        ("server_seconds", server_terms(fleet, "factored")),
    ):
        for name, amount in terms.items():
            alone = round_costs(fleet, replace(nothing, **{name: 0.5}))
            assert getattr(alone, side) == pytest.approx(0.5 * amount)
    assert round_costs(fleet, replace(nothing, carry_per_answer=0.5)).carry_seconds == 500


def test_what_the_door_carries_is_paid_by_the_answer_and_the_byte() -> None:
    fleet = Fleet(users=1_000, items=500, rank=4, ratings_per_user=20)
    nothing = Rates(**dict.fromkeys(Rates.__slots__, 0.0))

    def carrying(**rates: float) -> float:
        return round_costs(fleet, replace(nothing, **rates), carrier="direct").carry_seconds

    assert carrying(carry_per_answer=0.5) == 0
    assert carrying(direct_per_answer=0.5) == 500
    assert carrying(direct_per_byte=0.5) == 500 * board_bytes(fleet)
    assert round_costs(fleet, carrier="direct").poll_seconds == Rates().direct_per_poll
    assert round_costs(fleet).poll_seconds == Rates().carry_per_poll


@pytest.mark.parametrize(
    ("change", "words"),
    [({"users": 0}, "users must be >= 1"), ({"ratings_per_user": 11}, r"must be in \(0, 10\]")],
)
def test_a_fleet_that_cannot_be_is_refused(change: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        replace(Fleet(users=5, items=10, rank=2, ratings_per_user=3), **change)  # type: ignore[arg-type]
