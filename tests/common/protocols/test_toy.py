"""A protocol is a folder and a line: with these it is listed, simulated, carried over a grid, and deployed.

The toy is the guide's own protocol: the file that ``--protocol FILE.py:Class`` takes, under a name and with a card.
"""

import difflib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from fedboard.common.board import Board
from fedboard.common.protocols.registry import PROTOCOL_NAMES
from fedboard.server.fleet.rounds.round_log import RoundLog
from tests.server.fleet.deployed import deployed

ROOT = Path(__file__).parents[3]
TOY, REGISTRY = Path(__file__).parent / "toy", Path("common/protocols/registry.py")
EXAMPLE = ROOT / "examples" / "additive_shares.py"
LINE = '    "toy": "AdditiveShares",\n'
SAYS = "Each server sees one uniformly random half of a client's sums, and both halves of the total."
AFTER = "_CLASSES: Mapping[str, str] = {\n"
TINY = (
    *("--data", "synthetic", "--kernels", "numpy", "--rank", "2", "--rounds", "1", "--no-baselines"),
    *("--set", "data.synthetic.n_users=40", "--set", "data.synthetic.n_items=20", "--noise", "seeded"),
)


class House:
    """The product with a folder and a line more: all the rest are links to the files of this checkout."""

    def __init__(self, root: Path) -> None:
        self.package = root / "fedboard"
        linked(ROOT / "api", self.package)
        for folder in ("client", "server", "simulations", "cli"):
            (self.package / folder).symlink_to(ROOT / folder)
        linked(ROOT / "common", self.package / "common", but={"protocols"})
        protocols = self.package / REGISTRY.parent
        linked(ROOT / REGISTRY.parent, protocols, but={REGISTRY.name})
        shutil.copytree(TOY, protocols / "toy", ignore=shutil.ignore_patterns("__pycache__"))
        own_file = EXAMPLE.read_text(encoding="utf-8").replace('"additive-shares"', '"toy"')
        (protocols / "toy" / "protocol.py").write_text(own_file, encoding="utf-8")
        before, _, after = (ROOT / REGISTRY).read_text(encoding="utf-8").partition(AFTER)
        (self.package / REGISTRY).write_text(before + AFTER + LINE + after, encoding="utf-8")
        self.environment = {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, *asked: Sequence[object]) -> list[tuple[int, str]]:
        """These commands of this product, one after the other in a process of its own: exit codes and outputs."""
        return run(*asked, environment=self.environment)


def linked(source: Path, target: Path, *, but: set[str] | None = None) -> None:
    """A folder whose entries are those of another."""
    target.mkdir()
    for entry in source.iterdir():
        if entry.name not in {"__pycache__", *(but or ())}:
            (target / entry.name).symlink_to(entry)


IN_TURN = """
import json, sys
from click.testing import CliRunner
from fedboard.cli.main import commands

ended = [CliRunner().invoke(commands, words) for words in json.loads(sys.argv[1])]
print(json.dumps([[one.exit_code, " ".join(one.output.split())] for one in ended]))
"""


def run(*asked: Sequence[object], environment: Mapping[str, str]) -> list[tuple[int, str]]:
    words = json.dumps([[str(word) for word in command] for command in asked])
    ended = subprocess.run(
        [sys.executable, "-c", IN_TURN, words],
        env={**os.environ, "COLUMNS": "300", "OPENBLAS_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    return [(code, output) for code, output in json.loads(ended.stdout.splitlines()[-1])]


def assert_verified(run: Path) -> None:
    """By whoever has the product as it is: nothing of a protocol is needed to recompute its certificate."""
    ended = CliRunner().invoke(commands, ["certificate", "verify", str(run), "--simulation"])
    assert ended.exit_code == 0, ended.output


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    return House(tmp_path_factory.mktemp("house"))


def test_the_toy_is_one_folder_and_one_line(house: House) -> None:
    """All that differs from the product; a link to the product's own file is no difference."""
    own = [path for path in house.package.rglob("*") if path.is_file() and not path.is_symlink()]
    touched = sorted(str(path.relative_to(house.package)) for path in own if "__pycache__" not in path.parts)
    old, new = (
        (place / REGISTRY).read_text(encoding="utf-8").splitlines() for place in (ROOT, house.package)
    )
    changed = [line for line in difflib.ndiff(old, new) if line[0] in "+-"]

    folder = [f"common/protocols/toy/{name}.py" for name in ("__init__", "card", "protocol")]
    assert touched == [str(REGISTRY), *folder]
    assert changed == [f"+ {LINE.rstrip()}"]


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


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")
def test_a_fleet_of_processes_trains_a_verified_board_under_it(house: House, tmp_path: Path) -> None:
    with deployed(tmp_path, protocol="toy", environment=house.environment) as fleet:
        fleet.wait(lambda: "the training is complete" in fleet.log("server"), "complete training")

    lines = RoundLog(fleet.state.run / "rounds.jsonl").lines()
    assert {line["protocol"] for line in lines} == {"toy"}
    assert all(3 <= line["answers"] <= 4 for line in lines if line["releases"])
    assert_verified(fleet.state.run)
    certificate = json.loads((fleet.state.run / "certificate.json").read_text())
    assert SAYS in certificate["trust"]
