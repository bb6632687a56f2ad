"""The guide's own algorithm and protocol under the name ``toy``, for the product with a file more and its name."""

from pathlib import Path

from click.testing import CliRunner

from fedboard.cli.main import commands
from tests.house import ROOT, House

ALGORITHM = (
    (ROOT / "examples" / "damped_means.py").read_text(encoding="utf-8").replace('"damped-means"', '"toy"')
)
"""The file that ``--algorithm FILE.py:RECORD`` takes."""
PROTOCOL_REGISTRY = "common/protocols/registry.py"
PROTOCOL_NAMED = {
    "PROTOCOL_NAMES: Final = (": '"toy", ',
    "    match name:\n": '        case "toy":\n            from fedboard.common.protocols.toy import CARD\n',
}
PROTOCOL = (ROOT / "examples" / "additive_shares.py").read_text(encoding="utf-8")
SAYS = "Each server sees one uniformly random half of a client's sums, and both halves of the total."


def house_with_the_protocol(root: Path) -> House:
    """The product with the protocol in it."""
    folder = {"toy.py": PROTOCOL.replace('"additive-shares"', '"toy"')}
    return House(root, registry=PROTOCOL_REGISTRY, added=PROTOCOL_NAMED, folder=folder)


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
