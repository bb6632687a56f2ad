"""What a device needs works where only the base install is: no compiler, no plots, no accounting library."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys

EXTRAS = {"cryptography", "dp_accounting", "jinja2", "llvmlite", "matplotlib", "numba", "pyarrow", "rich"}


class BaseInstall:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, BaseInstall())

from click.testing import CliRunner

from fedboard.cli.main import commands

assert not {"numpy", "scipy"} & set(sys.modules), "fedboard --help must not import them"
run, ratings = sys.argv[1:]
for arguments in (
    ["--help"],
    ["recommend", ratings, run],
    ["neighbours", "7", run],
    ["certificate", "show", run],
    ["certificate", "verify", run],
    ["simulate", "--data", "synthetic"],
):
    result = CliRunner().invoke(commands, arguments)
    print(arguments[0], result.exit_code, result.stderr.strip(), sep="|")
"""


def test_a_device_recommends_and_verifies_without_the_extras(finished: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text("item,rating\n1,5\n2,1\n")
    command = [sys.executable, "-c", SCRIPT, finished, mine]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "--help|0|",
        "recommend|0|",
        "neighbours|0|",
        "certificate|0|",
        "certificate|0|",
        "simulate|2|fedboard: this needs fedboard[all]: pip install 'fedboard[all]'",
    ]
    assert not (tmp_path / "runs").exists()
