"""What the guide shows for MLflow, Weights & Biases and TensorBoard tells each the run's own numbers."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "running.md").read_text(encoding="utf-8")
READING, *TRACKERS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
ROUNDS = (
    {"event": "round", "round": 0, "epsilon_spent": 1.5, "metrics": {}},
    {"event": "round", "round": 1, "epsilon_spent": 2.5, "metrics": {"validation_rmse": 0.9}},
    {"event": "final", "metrics": {"test_rmse": 0.8}},
)
TOLD = [(0, {"epsilon_spent": 1.5}), (1, {"epsilon_spent": 2.5, "simulation/validation_rmse": 0.9})]


class Tracker:
    """Stands for the three packages: it has the names that are used, and keeps what it is told."""

    def __init__(self) -> None:
        self.told: dict[int, dict[str, float]] = {}

    def keep(self, values: dict[str, float], *, step: int) -> None:
        self.told.setdefault(step, {}).update(values)

    @contextmanager
    def opened(self, *_: object, **__: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(
            log=self.keep, add_scalar=lambda name, value, step: self.keep({name: value}, step=step)
        )

    def modules(self) -> dict[str, dict[str, object]]:
        return {
            "mlflow": {
                "set_experiment": lambda name: None,
                "start_run": self.opened,
                "log_metrics": self.keep,
            },
            "wandb": {"init": self.opened},
            "tensorboardX": {"SummaryWriter": self.opened},
        }


@pytest.mark.parametrize("snippet", TRACKERS)
def test_each_tracker_is_told_the_rounds_of_the_run(
    snippet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, tracker = tmp_path / "runs" / "first", Tracker()
    run.mkdir(parents=True)
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in ROUNDS), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name, members in tracker.modules().items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)

    exec(compile(READING + snippet, "docs/guide/running.md", "exec"), {"__name__": "__main__"})

    assert len(TRACKERS) == 3
    assert sorted(tracker.told.items()) == TOLD
