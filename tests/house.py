"""The product with a folder and a line more, as who extends it has it: the rest are the files of this checkout."""

import difflib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]


class House:
    """An importable ``fedboard`` below ``root`` whose files are links to this checkout's, but for what is new."""

    def __init__(
        self, root: Path, *, registry: str, after: str, line: str, folder: Mapping[str, str]
    ) -> None:
        """Put a folder beside a registry, and a line into it.

        Args:
            root: an empty folder, for ``PYTHONPATH``.
            registry: path of the registry from the top of the checkout.
            after: the line of it that the new one follows.
            line: the new one.
            folder: file of the new folder to its text; the first part of each path is the folder's name.
        """
        self.package, self.registry = root / "fedboard", Path(registry)
        linked(ROOT / "api", self.package)
        for name in ("client", "server", "simulations", "cli"):
            (self.package / name).symlink_to(ROOT / name)
        linked(ROOT / "common", self.package / "common", but={self.registry.parent.name})
        beside = self.package / self.registry.parent
        linked(ROOT / self.registry.parent, beside, but={self.registry.name})
        for path, text in folder.items():
            (beside / path).parent.mkdir(exist_ok=True)
            (beside / path).write_text(text, encoding="utf-8")
        before, found, rest = (ROOT / self.registry).read_text(encoding="utf-8").partition(after)
        assert found, f"{registry} has no line {after!r}"
        (self.package / self.registry).write_text(before + after + line + rest, encoding="utf-8")
        self.environment = {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, *asked: Sequence[object]) -> list[tuple[int, str]]:
        """These commands of this product, one after the other in a process of its own: exit codes and outputs."""
        return run(*asked, environment=self.environment)

    @property
    def touched(self) -> list[str]:
        """Files that are no link to the checkout's, from the top; links are no difference."""
        own = [path for path in self.package.rglob("*") if path.is_file() and not path.is_symlink()]
        return sorted(str(path.relative_to(self.package)) for path in own if "__pycache__" not in path.parts)

    @property
    def changed_lines(self) -> list[str]:
        """Of the registry, as ``diff`` writes them."""
        old, new = (
            (place / self.registry).read_text(encoding="utf-8").splitlines() for place in (ROOT, self.package)
        )
        return [line for line in difflib.ndiff(old, new) if line[0] in "+-"]


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
    """Commands of ``fedboard``, one after the other in a process of their own: exit codes and outputs."""
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
