"""Sections of a configuration: which ratings, what is held out, where clients run and how sums are made."""

from typing import Any, Literal

import msgspec

from fedboard.common.checks import MOST_WORKERS
from fedboard.common.errors import InputError, SettingError
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


class DataConfig(Section, frozen=True, kw_only=True):
    """Which ratings."""

    source: str = "synthetic"
    """A file, a folder or ``synthetic``; ``synthetic:KEY=NUMBER,...`` is as many made-up people as are asked for,
    generated block by block: keys users, items, mean, minimum, seed."""
    format: str | None = None
    """Reader by name; found out from the file if not given."""
    columns: dict[str, str] | None = None
    """Column names of a generic table: keys ``user``, ``item``, ``rating``."""
    rating_range: tuple[float, float] | None = None
    """Public range of ratings; needed for generic tables."""
    titles: str | None = None
    """A file with item titles."""
    features: str | None = None
    """A public file with features of the items, such as genres, ``titles`` for what the titles say, or ``none``;
    see ``fedboard.server.catalogue.features``. By default those that MovieLens data bring. For algorithms that use
    them."""
    catalogue: Literal["rated", "listed", "declared"] = "rated"
    """``rated``: the items that somebody rated, which says so of each; ``listed``: every item of the titles
    file; ``declared``: the list that an npz file brings of its own, and you vouch that it is public. Secure noise
    needs one of the last two, and a list that stands apart from the ratings."""
    synthetic: dict[str, Any] = msgspec.field(default_factory=dict)
    """Settings of the generator, see ``fedboard.simulations.data.SyntheticConfig``."""

    def __post_init__(self) -> None:
        """See that the people of ``synthetic:`` can be made.

        Raises:
            SettingError: there is no such key, or no number where one should be.
        """
        if not self.source.startswith("synthetic:"):
            return
        from fedboard.simulations.data.synthetic.people import people_config

        if self.synthetic:
            raise SettingError(
                f"data.synthetic is for the source 'synthetic'; of these people say it in the source: {self.source}"
            )
        try:
            people_config(self.source)
        except InputError as error:
            raise SettingError(str(error)) from error

    @property
    def made_up(self) -> bool:
        """Whether the ratings are made here, and there is no file of them."""
        return self.source == "synthetic" or self.source.startswith("synthetic:")


class SplitConfig(Section, frozen=True, kw_only=True):
    """What is held out for judging."""

    kind: Literal["auto", "ratings", "users"] = "auto"
    """``ratings``: a share of all ratings; ``users``: whole users (top-k); ``auto`` follows the feedback."""
    seed: int = 0
    """Of the coins; with its id and hers alone it decides about a rating."""
    validation: float | None = None
    """Share of the ratings that is expected; default 0.1, or none where the data set has its own test part."""
    test: float = 0.1
    """Share of the ratings that is expected (``ratings``)."""
    held_out_users: float = 0.1
    """Probability that a user is held out, for each of validation and test; in (0, 0.5) (``users``)."""
    positive_above: float = 3.5
    """Ratings above this count as positive (``users``)."""
    folds: int | None = None
    """k of a k-fold split, >= 2: one of k is the test part, in place of ``test`` or of users held out for it."""
    fold: int = 0
    """Which one, in 0..folds - 1; over all of them each rating, or user, is tested once."""
    test_from: int | float | str | None = None
    """A public date, such as ``"2005-12-01"``, or a whole number as the file counts: what was given from then on is
    the test part, of ratings or of every user's positives."""
    validation_from: int | float | str | None = None
    """Likewise, not later: what was given between the two is for validation; by default nothing."""
    leave_last: int | None = None
    """k >= 1: the last k ratings, or positives, of each user are the test part, the k before them validation."""

    @property
    def by_time(self) -> bool:
        """Whether the times of the ratings decide."""
        return self.test_from is not None or self.leave_last is not None

    def __post_init__(self) -> None:
        """Check that one rule decides.

        Raises:
            SettingError: several do, or half of one.
        """
        named = {"folds": self.folds, "test_from": self.test_from, "leave_last": self.leave_last}
        given = [f"split.{name}" for name, value in named.items() if value is not None]
        if len(given) > 1:
            raise SettingError(f"{' and '.join(given)} each say what is held out; keep one of them")
        if self.validation_from is not None and self.test_from is None:
            raise SettingError("split.validation_from needs split.test_from, from when on ratings are tested")


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
