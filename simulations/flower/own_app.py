"""A Flower app of somebody's own, as a folder to begin with: what ``flwr new`` gives, with fedboard in it."""

import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from fedboard.common.algorithms.registry import usual, variant_of
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically
from fedboard.server.run_spec import Promise

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_TEXTS = ("pyproject.toml", "README.md")
_IGNORED = "run/\n__pycache__/\n"
"""Neither kept nor sent to nodes: Flower packs what Git would keep."""
_MODULES = ("data.py", "client_app.py", "server_app.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApp:
    """What goes into its ``pyproject.toml``; ``flwr run --run-config`` changes all but the name."""

    name: str
    data: str
    algorithm: str
    """By name; empty for the usual one."""
    epsilon: float
    delta: float
    nodes: int

    def __post_init__(self) -> None:
        """Check what the app could only find out while it runs.

        Raises:
            InputError: names what is out of range.
        """
        if not _NAME.fullmatch(self.name):
            raise InputError(
                "an app's name is of lower-case letters, digits and hyphens and begins with a letter, got "
                f"{self.name!r}"
            )
        if not 1 <= self.nodes <= 10_000:
            raise InputError(f"nodes must be in [1, 10000], got {self.nodes}")
        if any(character in self.data for character in '"\\\n'):
            raise InputError(f"data is a path or a name without quotes and backslashes, got {self.data!r}")
        variant_of(self.algorithm or usual(Feedback.EXPLICIT))
        Promise(epsilon=self.epsilon, delta=self.delta)

    @property
    def package(self) -> str:
        """Its Python package."""
        return self.name.replace("-", "_")

    def write(self, folder: Path) -> tuple[Path, ...]:
        """Write the app.

        Args:
            folder: of its own; made if need be.

        Returns:
            The files.

        Raises:
            InputError: something is there already; nothing is written over.
        """
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"{folder}: something is there already; name a folder that is new or empty")
        (folder / self.package).mkdir(parents=True, exist_ok=True)
        texts = {folder / name: self._text(name, folder) for name in _TEXTS}
        texts |= {folder / self.package / name: self._text(name, folder) for name in _MODULES}
        texts |= {folder / self.package / "__init__.py": "", folder / ".gitignore": _IGNORED}
        for path, text in texts.items():
            write_atomically(path, text.encode())
        return tuple(texts)

    def _text(self, name: str, folder: Path) -> str:
        template = files("fedboard.simulations.flower") / "new_app" / f"{name}.tmpl"
        return Template(template.read_text(encoding="utf-8")).substitute(
            name=self.name,
            package=self.package,
            publisher="fedboard",
            data=self.data,
            folder=str((folder / "run").resolve()),
            algorithm=self.algorithm,
            epsilon=repr(float(self.epsilon)),
            delta=repr(float(self.delta)),
            nodes=self.nodes,
        )
