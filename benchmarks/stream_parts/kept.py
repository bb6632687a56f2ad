"""What a benchmark has found so far, in files: so that it may be cut short anywhere, and goes on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_RESULTS = "results.json"


@dataclass(frozen=True, slots=True)
class Kept:
    """A folder of runs with what came of each."""

    folder: Path

    def begin(self, asked: Mapping[str, Any]) -> None:
        """Take the folder for these settings; what is in it must have been found with the same."""
        self.folder.mkdir(parents=True, exist_ok=True)
        found = self._read()
        if found and found["asked"] != dict(asked):
            raise SystemExit(
                f"{self.folder} is of another benchmark: {found['asked']}; give another --folder"
            )
        if not found:
            self._write({"asked": dict(asked), "runs": {}})

    def run(self, name: str) -> Path:
        """Directory of a run."""
        return self.folder / name

    def record(self, name: str) -> Path:
        """Where a run's process writes down its rounds."""
        return self.folder / f"{name}.rounds.jsonl"

    def rounds(self, name: str) -> list[dict[str, Any]]:
        """Rounds of a run that are over; each as it was told last."""
        if not self.record(name).exists():
            return []
        lines = [json.loads(line) for line in self.record(name).read_text().splitlines()]
        return [line for _, line in sorted({line["round"]: line for line in lines}.items())]

    def of(self, name: str) -> dict[str, Any]:
        """What is known of a run; nothing where it never ran."""
        found: dict[str, Any] = self._read()["runs"].get(name, {})
        return found

    def tell(self, name: str, **known: Any) -> dict[str, Any]:
        """Write down what is known of a run, over what was; the most memory is that of all processes it had."""
        found, before = self._read(), self.of(name)
        known["peak_memory_gb"] = max(known.get("peak_memory_gb", 0.0), before.get("peak_memory_gb", 0.0))
        found["runs"][name] = before | known
        self._write(found)
        return dict(found["runs"][name])

    def _read(self) -> dict[str, Any]:
        path = self.folder / _RESULTS
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def _write(self, found: Mapping[str, Any]) -> None:
        part = self.folder / f"{_RESULTS}.part"
        part.write_text(json.dumps(found, indent=1) + "\n")
        part.replace(self.folder / _RESULTS)
