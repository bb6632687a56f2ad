"""The ``run`` section of a simulation's configuration: where clients run, and how what they give becomes sums."""

from typing import Any, Literal

import msgspec

from fedboard.common.checks import MOST_WORKERS
from fedboard.common.errors import SettingError
from fedboard.common.protocols.properties import shows_rows
from fedboard.common.protocols.registry import USUAL, names_where, says
from fedboard.server.run_spec import Section

_MOST = {
    "workers": MOST_WORKERS,
    "nodes": 10_000,
    "clients": 100_000_000,
    "block_ratings": 1 << 30,
    "checkpoint_users": 1 << 40,
    "judged_users": 1 << 40,
}
"""Processes, nodes of a Flower runtime, clients of a protocol, ratings of a block, users between checkpoints and
users to judge by, that one machine is asked for."""


class RunConfig(Section, frozen=True, kw_only=True):
    """How it runs; but for the protocol and what belongs to it, it never changes what is computed."""

    workers: int = 1
    kernels: Literal["auto", "numpy", "compiled"] = "auto"
    """Which code computes; versions agree to rounding, so resume with the same."""
    runtime: Literal["engine", "ray", "in-process", "flower"] = "engine"
    """Where clients run: the multi-process engine, workers of a Ray cluster, a Flower grid in this process, or
    Flower's simulation on Ray."""
    address: str | None = None
    """Of the Ray cluster, ``HOST:PORT`` or ``auto``; if not given that of ``RAY_ADDRESS``, else Ray is started on
    this machine for the run, with ``workers`` cores. Runtime ``ray``."""
    carry_code: bool = True
    """Send fedboard's code to the Ray cluster that is named; else every node has the same installed. Runtime
    ``ray``."""
    nodes: int = 4
    """Nodes of a Flower runtime, each with a cohort of users; many nodes are slow (one queue for all of them)."""
    protocol: str = USUAL
    """How contributions become sums: a registered protocol, or on the engine ``package.module:Class`` or
    ``path/to/file.py:Class``."""
    protocol_settings: dict[str, Any] = msgspec.field(default_factory=dict)
    """Overrides of the protocol's own choices, by parameter name."""
    clients: int | None = None
    """Clients of a protocol to which rows are not shown, each with consecutive users; if not given every user is
    one, or on a Flower runtime every node."""
    dropout: float = 0.0
    """Share of the clients that is lost in each round, at a step drawn from the seed; on the engine, with seeded
    noise."""
    masks: Literal["real", "cancelled"] = "real"
    """``cancelled``: leave out what cancels in the sum and send no messages; the same board, for many clients."""
    streamed: bool | None = None
    """Whether ratings are gone through in blocks and never held together; by default where the data are made for
    it: a sharded data set, or people who are made up one by one. The same board."""
    block_ratings: int = 1 << 20
    """Of a streamed run: at most so many ratings, or one user's, are read at once in each worker."""
    checkpoint_users: int = 1 << 22
    """Of a streamed run with seeded noise: after so many users the sums so far are kept in the run's directory, so
    that a killed run goes on within the round. They are a secret."""
    evaluate_rounds: bool = True
    """Metrics after each round, not only at the end."""
    baselines: bool = True
    """Fit the non-private baselines for comparison."""
    judged_users: int | None = None
    """Of a streamed run: on about how many users it is judged, drawn by coins of their ids; by default on all."""
    metrics: tuple[str, ...] = ()
    """More to judge by, each as ``path/to/file.py:NAME`` or ``package.module:NAME``, whose code then runs."""

    def __post_init__(self) -> None:
        """Check what goes together.

        Raises:
            SettingError: names the key.
        """
        for name, most in _MOST.items():
            value = getattr(self, name)
            if value is not None and not 1 <= value <= most:
                raise SettingError(f"run.{name} must be a whole number in [1, {most}], got {value}")
        if not 0 <= self.dropout < 1:
            raise SettingError(f"run.dropout must be in [0, 1), got {self.dropout}")
        self._check_streamed()
        self._check_ray()
        simulated = {
            "dropout": self.dropout > 0,
            "masks 'cancelled'": self.masks == "cancelled",
            "a protocol of your own": ":" in self.protocol,
        }
        for name, asked in simulated.items():
            if asked and self.runtime != "engine":
                raise SettingError(f"{name} needs run.runtime 'engine', got {self.runtime!r}")
            if asked and says(self.protocol, shows_rows):
                raise SettingError(f"{name} needs a run.protocol other than '{names_where(shows_rows)}'")

    def _check_streamed(self) -> None:
        if not self.streamed:
            return
        if self.runtime not in ("engine", "ray"):
            raise SettingError(f"run.streamed needs run.runtime 'engine' or 'ray', got {self.runtime!r}")
        if not says(self.protocol, shows_rows):
            raise SettingError(
                f"run.streamed needs run.protocol '{names_where(shows_rows)}', got {self.protocol!r}: the sums "
                "of the others are taken over all clients at once, which streaming never holds"
            )

    def _check_ray(self) -> None:
        if self.runtime != "ray":
            if self.address is not None:
                raise SettingError(
                    f"run.address names a Ray cluster: it needs run.runtime 'ray', got {self.runtime!r}"
                )
            return
        if not says(self.protocol, shows_rows):
            raise SettingError(
                f"run.runtime 'ray' sums rows where they are computed: it needs run.protocol "
                f"'{names_where(shows_rows)}', got {self.protocol!r}; take run.runtime 'engine', or 'flower' for a "
                "cluster whose nodes are the protocol's clients"
            )
