"""The directory of one run: what is written there, when, and what a resumed run finds."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec

from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically
from fedboard.simulations.config import SimulationConfig

_BARE = frozenset({"boards", "config.json.part"})
"""What a run that was killed while it made its directory leaves behind."""


_DECISIVE = ("kernels", "protocol", "protocol_settings", "clients", "dropout", "masks")
"""Keys of the ``run`` section that show in the board or its certificate: a resumed run keeps them."""


class RunDirectory:
    """Paths and records of a run. Records are written whole or not at all."""

    def __init__(self, path: Path) -> None:
        """Name the directory; nothing is written yet."""
        self.path = path
        self.config = path / "config.json"
        self.metrics = path / "metrics.jsonl"
        self.ledger = path / "ledger.sqlite"
        self.boards = path / "boards"
        self.certificate = path / "certificate.json"
        self.baselines = path / "baselines.json"
        self.beside = path / "beside.json"
        self.distributions = path / "distributions.json"
        self.partial_sums = path / "partial-sums.secret"

    def require_free(self) -> None:
        """Refuse a directory that is in use.

        Raises:
            InputError: a run or something else is there already.
        """
        if self.config.exists():
            raise InputError(
                f"{self.path} holds a run already; go on with --resume, or give another directory with --out"
            )
        if self.path.exists() and not (self.path.is_dir() and {p.name for p in self.path.iterdir()} <= _BARE):
            raise InputError(f"{self.path} is in use by something else; give another directory with --out")

    def start(self, config: SimulationConfig) -> None:
        """Make a fresh directory for this configuration.

        Raises:
            InputError: a run or something else is there already, or the directory cannot be made.
        """
        self.require_free()
        try:
            self.boards.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be made ({error.strerror})") from error
        self.write_json(self.config, msgspec.to_builtins(config))

    def resume(self, config: SimulationConfig) -> None:
        """Check that the run there is the one that is asked for; only how it runs may differ.

        Raises:
            InputError: no run is there, or it was started with another configuration.
        """
        if not self.config.exists():
            raise InputError(f"{self.path} holds no run to resume; start it without --resume")
        stored, asked = self.read_json(self.config), msgspec.json.decode(msgspec.json.encode(config))
        for config_of in (stored, asked):  # where the account is; its id is in the ledger
            config_of["privacy"].pop("population", None)
        for config_of in (stored, asked):
            config_of["run"] = {key: config_of["run"].get(key) for key in _DECISIVE}
        if asked["run"]["kernels"] == "auto":
            asked["run"]["kernels"] = stored["run"]["kernels"]
        different = sorted(k for k in {*stored, *asked} if stored.get(k) != asked.get(k))
        if different:
            raise InputError(
                f"{self.path} was started with another {different[0]!r}; "
                "resume with the same configuration, or start a new run with another --out"
            )

    def stored_kernels(self) -> str:
        """The kernels that the run was started with."""
        kernels: str = self.read_json(self.config)["run"]["kernels"]
        return kernels

    def discard(self) -> None:
        """Remove a run that failed before it had published or spent anything."""
        shutil.rmtree(self.path, ignore_errors=True)

    def write_json(self, path: Path, value: Any) -> None:
        """Write one JSON record atomically."""
        write_atomically(path, json.dumps(value, indent=1, sort_keys=True, allow_nan=False).encode())

    def read_json(self, path: Path) -> Any:
        """Read one JSON record."""
        return json.loads(path.read_text(encoding="utf-8"))

    def lines(self) -> list[dict[str, Any]]:
        """Metric records so far; a last line that a crash cut short is left out."""
        if not self.metrics.exists():
            return []
        found = []
        for line in self.metrics.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return found

    def keep_lines(self, lines: list[dict[str, Any]]) -> None:
        """Replace the metric records."""
        text = "".join(json.dumps(line, sort_keys=True, allow_nan=False) + "\n" for line in lines)
        write_atomically(self.metrics, text.encode())

    def append(self, line: dict[str, Any]) -> None:
        """Add one metric record."""
        with self.metrics.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line, sort_keys=True, allow_nan=False) + "\n")
