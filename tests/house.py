"""The product with a file more and its name, as who extends it has it: the rest are the files of this checkout."""

import difflib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedboard.common import kernels

ROOT = Path(__file__).parents[1]


class House:
    """An importable ``fedboard`` below ``root`` whose files are links to this checkout's, but for what is new."""

    def __init__(
        self, root: Path, *, registry: str, added: Mapping[str, str], folder: Mapping[str, str]
    ) -> None:
        """Put a folder beside a registry, and what names it into the registry.

        Args:
            root: an empty folder, for ``PYTHONPATH``.
            registry: path of the registry from the top of the checkout.
            added: what stands there already to what is put right behind it.
            folder: file of the new folder to its text; the first part of each path is the folder's name.
        """
        self.package, self.registry = root / "fedboard", Path(registry)
        beside = str(self.registry.parent)
        text = (ROOT / self.registry).read_text(encoding="utf-8")
        for after, new in added.items():
            assert text.count(after) == 1, f"{registry} has not one {after!r}"
            text = text.replace(after, after + new)
        own = {f"{beside}/{path}": text for path, text in folder.items()}
        extended(self.package, {**own, registry: text})
        self.environment = environment_of(root)

    def run(self, *asked: Sequence[object]) -> list[tuple[int, str]]:
        """These commands of this product, one after the other in a process of its own: exit codes and outputs."""
        return run(*asked, environment=self.environment)

    @property
    def touched(self) -> list[str]:
        """Files that are no link to the checkout's, from the top; links are no difference."""
        return touched(self.package)

    @property
    def changed_lines(self) -> list[str]:
        """Of the registry, as ``diff`` writes them."""
        old, new = (
            (place / self.registry).read_text(encoding="utf-8").splitlines() for place in (ROOT, self.package)
        )
        return [line for line in difflib.ndiff(old, new) if line[0] in "+-"]


CACHE = """
from pathlib import Path
from numba.core import config
from numba.core.caching import UserProvidedCacheLocator

class OfTheProduct(UserProvidedCacheLocator):
    @classmethod
    def get_suitable_cache_subpath(cls, py_file):
        kernels = Path(config.CACHE_DIR).parents[1]  # kernels/__pycache__/kernels-DIGEST
        return super().get_suitable_cache_subpath(kernels / Path(py_file).parent.name / Path(py_file).name)
"""
"""Kernels that are compiled for the product are for its copies: numba goes by the folder, and theirs is another."""


def environment_of(root: Path) -> dict[str, str]:
    """For processes that take ``fedboard`` from this folder."""
    (root / "compiled_kernels.py").write_text(CACHE, encoding="utf-8")
    return {
        "PYTHONPATH": str(root),
        "NUMBA_CACHE_DIR": str(Path(kernels.__path__[0]) / "__pycache__"),
        "NUMBA_CACHE_LOCATOR_CLASSES": "compiled_kernels.OfTheProduct",
    }


def touched(package: Path) -> list[str]:
    """Files of a copy of the product that are no link to the checkout's, from the top; bytecode is none."""
    own = [path for path in package.rglob("*") if path.is_file() and not path.is_symlink()]
    return sorted(str(path.relative_to(package)) for path in own if "__pycache__" not in path.parts)


def extended(package: Path, texts: Mapping[str, str]) -> None:
    """Make a copy of the product, of links where nothing is new.

    Args:
        package: the folder ``fedboard`` to make.
        texts: files to what is in them, new ones and those that take a file's place; paths from the top.
    """
    linked(ROOT / "api", package, {})
    for folder in ("client", "common", "server", "simulations", "cli"):
        linked(ROOT / folder, package / folder, below(folder, texts))


def linked(source: Path, target: Path, texts: Mapping[str, str]) -> None:
    """A folder of links to the entries of another, if there is one; folders on the way to a text are real."""
    target.mkdir(parents=True)
    heads = {path.partition("/")[0] for path in texts}
    for entry in source.iterdir() if source.exists() else ():
        if entry.name not in heads | {"__pycache__"}:
            (target / entry.name).symlink_to(entry)
    for head in heads:
        if head in texts:
            (target / head).write_text(texts[head], encoding="utf-8")
        else:
            linked(source / head, target / head, below(head, texts))


def below(folder: str, texts: Mapping[str, str]) -> dict[str, str]:
    """The texts in this folder, by their path from there."""
    return {
        path.removeprefix(f"{folder}/"): text for path, text in texts.items() if path.startswith(f"{folder}/")
    }


IN_TURN = """
import json, sys
from click.testing import CliRunner
from fedboard.cli.main import commands
from fedboard.client.starting import start_quickly

start_quickly()
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
