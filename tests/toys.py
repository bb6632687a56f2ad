"""The guide's own algorithm and protocol under the name ``toy``, for the product with a folder and a line more."""

from pathlib import Path

from click.testing import CliRunner

from fedboard.cli.main import commands
from tests.house import ROOT, House

ALGORITHM_REGISTRY = "common/algorithms/registry.py"
ALGORITHM_LINE = '    "toy",\n'
ALGORITHM = (
    (ROOT / "examples" / "damped_means.py").read_text(encoding="utf-8").replace('"damped-means"', '"toy"')
)
"""The file that ``--algorithm FILE.py:RECORD`` takes."""
PRESETS = "[[explicit]]\nepsilon = 5.0\nsettings = { damping = 10.0 }\n"
SEARCH = "[explicit.settings]\ndamping = { log = [1.0, 100.0] }\n"
BESIDE = ALGORITHM.replace("    task=_task,\n", "    task=_task,\n    folder=files(__package__),\n").replace(
    "from dataclasses", "from importlib.resources import files\nfrom dataclasses", 1
)
"""With tuned defaults beside it."""
PROTOCOL_REGISTRY = "common/protocols/registry.py"
PROTOCOL_LINE = '    "toy": "toy:AdditiveShares",\n'
PROTOCOL = (ROOT / "examples" / "additive_shares.py").read_text(encoding="utf-8")
SAYS = "Each server sees one uniformly random half of a client's sums, and both halves of the total."


def house_with_the_algorithm(root: Path) -> House:
    """The product with the algorithm in it."""
    folder = {
        "toy/__init__.py": '"""Private item means."""\n',
        "toy/algorithm.py": BESIDE,
        "toy/presets.toml": PRESETS,
        "toy/search.toml": SEARCH,
    }
    after = "ALGORITHMS = (\n"
    return House(root, registry=ALGORITHM_REGISTRY, after=after, line=ALGORITHM_LINE, folder=folder)


def house_with_the_protocol(root: Path) -> House:
    """The product with the protocol in it."""
    folder = {"toy.py": PROTOCOL.replace('"additive-shares"', '"toy"')}
    after = "_CLASSES: Mapping[str, str] = {\n"
    return House(root, registry=PROTOCOL_REGISTRY, after=after, line=PROTOCOL_LINE, folder=folder)


def install_the_algorithm(place: Path) -> None:
    """Somebody else's package with the algorithm, as pip leaves it in a folder of ``PYTHONPATH``."""
    (place / "somebody").mkdir()
    (place / "somebody" / "__init__.py").write_text("")
    (place / "somebody" / "toys.py").write_text(ALGORITHM, encoding="utf-8")
    (place / "somebody-1.0.dist-info").mkdir()
    (place / "somebody-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: somebody\nVersion: 1.0\n"
    )
    (place / "somebody-1.0.dist-info" / "entry_points.txt").write_text(
        "[fedboard.algorithms]\ntoy = somebody.toys:ALGORITHM\n"
    )


def assert_verified(run_folder: Path) -> None:
    """By whoever has the product as it is: nothing of a toy is needed to recompute its certificate."""
    ended = CliRunner().invoke(commands, ["certificate", "verify", str(run_folder), "--simulation"])
    assert ended.exit_code == 0, ended.output
