"""A protocol is a folder and a line: with these it is listed, simulated, carried over a grid, and deployed.

The toy is the guide's own protocol: the file that ``--protocol FILE.py:Class`` takes, under a name and with a card.
A fleet trains under it in ``tests/server/fleet/test_toys.py``.
"""

import json
from pathlib import Path

import pytest

from fedboard.common.board import Board
from fedboard.common.protocols.registry import PROTOCOL_NAMES
from tests.house import House, run
from tests.toys import PROTOCOL_LINE, PROTOCOL_REGISTRY, SAYS, assert_verified, house_with_the_protocol

pytestmark = pytest.mark.slow

TINY = (
    *(
        "--data",
        "synthetic",
        "--kernels",
        "numpy",
        "--rank",
        "2",
        "--rounds",
        "1",
        "--no-baselines",
        "--no-report",
    ),
    *("--set", "data.synthetic.n_users=40", "--set", "data.synthetic.n_items=20", "--noise", "seeded"),
)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    return house_with_the_protocol(tmp_path_factory.mktemp("house"))


def test_the_toy_is_one_folder_and_one_line(house: House) -> None:
    """All that differs from the product; a link to the product's own file is no difference."""
    folder = [f"common/protocols/toy/{name}.py" for name in ("__init__", "card", "protocol")]
    assert house.touched == [PROTOCOL_REGISTRY, *folder]
    assert house.changed_lines == [f"+ {PROTOCOL_LINE.rstrip()}"]


def test_everything_that_lists_protocols_lists_the_toy(house: House) -> None:
    names, costs = ", ".join(["toy", *PROTOCOL_NAMES]), house.package.parent / "costs"
    made_up = ("--items", 20, "--rank", 2, "--ratings", 5, "--kernels", "numpy", "--users", 12)

    listed, shown, simulate, audit, refused, compared = house.run(
        ("protocols", "list"),
        ("protocols", "show", "toy"),
        ("simulate", "--help"),
        ("audit", "--help"),
        ("simulate", *TINY, "--protocol", "other"),
        (
            "protocols",
            "compare",
            *made_up,
            "--protocols",
            "trusted,toy",
            "--json",
            costs,
            "--out",
            f"{costs}.d",
        ),
    )

    assert "toy two toys half of her sums items x rank, twice 1" in listed[1]
    assert SAYS in shown[1]
    for _, said in (simulate, audit):
        assert f"How contributions become sums: {names}" in said
    assert refused[0] == 2
    assert f"protocol must be one of {names}, got 'other'" in refused[1]
    assert compared[0] == 0, compared[1]
    assert json.loads(costs.read_text())["protocols"]["toy"]["steps"] == 1


def test_without_the_line_it_is_refused() -> None:
    """The control: it is the line that does it."""
    (refused,) = run(("simulate", *TINY, "--protocol", "toy"), environment={})

    assert refused[0] == 2
    assert f"protocol must be one of {', '.join(PROTOCOL_NAMES)}, got 'toy'" in refused[1]


def test_the_same_verified_board_on_the_engine_over_a_grid_and_without_messages(
    house: House, tmp_path: Path
) -> None:
    runs = {
        "engine": ("--runtime", "engine", "--workers", 2),
        "in-process": ("--runtime", "in-process"),
        "cancelled": ("--masks", "cancelled"),
    }
    asked = ("simulate", *TINY, "--protocol", "toy", "--clients", 4)
    ended = house.run(*((*asked, *words, "--out", tmp_path / name) for name, words in runs.items()))
    assert [code for code, _ in ended] == [0, 0, 0], ended

    boards = {}
    for name in runs:
        out = tmp_path / name
        assert_verified(out)
        trust = json.loads((out / "certificate.json").read_text())["trust"]
        assert SAYS in trust
        boards[name] = [Board.load(path) for path in sorted((out / "boards").glob("*.board"))]

    digests = {name: [board.digest for board in of_run] for name, of_run in boards.items()}
    assert digests["engine"] == digests["in-process"]
    assert len(digests["engine"]) > 1
    last = {name: of_run[-1].arrays for name, of_run in boards.items()}  # whose certificates differ
    assert all((last["cancelled"][name] == values).all() for name, values in last["engine"].items())
