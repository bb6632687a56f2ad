"""The trackers themselves: each is somebody else's package, imported where it is asked for."""

import importlib
import importlib.util
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fedboard.common.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The run, to a tracker. Public settings alone."""

    name: str
    folder: Path
    """Of the run: where a tracker that writes files writes them."""
    settings: Mapping[str, str]


class Sink(Protocol):
    """Takes numbers, round by round; steps never go back."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """All numbers of one round."""
        ...

    def close(self) -> None:
        """Nothing more comes."""
        ...


class TensorBoard:
    """Event files in ``RUN/tensorboard``."""

    def __init__(self, about: About) -> None:
        """Open a file; the settings are a text in it."""
        writer = importlib.import_module("tensorboard.summary.writer.event_file_writer")
        self._event = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
        self._summary = importlib.import_module("tensorboard.compat.proto.summary_pb2").Summary
        self._writer = writer.EventFileWriter(str(about.folder / "tensorboard"))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """A scalar each."""
        scalars = [self._summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        event = self._event(wall_time=time.time(), step=step, summary=self._summary(value=scalars))
        self._writer.add_event(event)
        self._writer.flush()

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


class MLflow:
    """A run in the experiment ``fedboard``, where ``MLFLOW_TRACKING_URI`` says."""

    def __init__(self, about: About) -> None:
        """Start the run; the settings are its parameters."""
        mlflow = importlib.import_module("mlflow")
        self._metric = importlib.import_module("mlflow.entities").Metric
        self._client = mlflow.MlflowClient()
        found = self._client.get_experiment_by_name("fedboard")
        experiment = self._client.create_experiment("fedboard") if found is None else found.experiment_id
        self._run = self._client.create_run(experiment, run_name=about.name).info.run_id
        for name, value in about.settings.items():
            self._client.log_param(self._run, name, value)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """A metric each."""
        now = int(time.time() * 1000)
        metrics = [self._metric(name, value, now, step) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def close(self) -> None:
        """End the run."""
        self._client.set_terminated(self._run)


class WandB:
    """A run in the project ``fedboard``; it goes to the service that ``wandb`` is set up for."""

    def __init__(self, about: About) -> None:
        """Start the run; what ``wandb`` would collect of the machine and the code by itself is turned off."""
        wandb = importlib.import_module("wandb")
        quiet = wandb.Settings(
            console="off",
            disable_code=True,
            disable_git=True,
            save_code=False,
            x_disable_machine_info=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_save_requirements=False,
        )
        self._run = wandb.init(
            project="fedboard",
            name=about.name,
            config=dict(about.settings),
            dir=str(about.folder),
            settings=quiet,
        )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """All at once: a later call with the same step would be left out."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """End the run."""
        self._run.finish()


SINKS: Mapping[str, tuple[Callable[[About], Sink], str]] = {
    "mlflow": (MLflow, "mlflow"),
    "wandb": (WandB, "wandb"),
    "tensorboard": (TensorBoard, "tensorboard"),
}
"""Name -> how it is opened, and the package that it needs."""


def require_installed(name: str) -> None:
    """Say now, before anything is released, that a tracker is missing.

    Raises:
        InputError: it is not one, or its package is not installed.
    """
    if name not in SINKS:
        raise InputError(f"--track {name}: there is no such tracker; take one of {', '.join(SINKS)}")
    package = SINKS[name][1]
    if importlib.util.find_spec(package) is None:
        raise InputError(
            f"--track {name} needs the package {package}, which is not installed: pip install {package}; or leave "
            "out --track"
        )


def open_sink(name: str, about: About) -> Any:
    """Open one that is installed."""
    return SINKS[name][0](about)
