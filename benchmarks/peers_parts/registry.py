"""Who is measured: one line a row, one adapter a library; versions of libraries stand here and nowhere else."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

ADAPTERS = Path(__file__).parent / "adapters"
KINDS = ("explicit", "implicit", "round")
OURS = "ours"


@dataclass(frozen=True, kw_only=True)
class Library:
    """A library from the package index, with an environment of its own."""

    name: str
    requirements: tuple[str, ...] = ()
    """Empty: it runs in the environment of this script."""


@dataclass(frozen=True)
class Peer:
    """One row: a library, one way of using it, and the kind of job that it does."""

    name: str
    library: Library
    adapter: str
    kind: str
    """One of ``KINDS``."""
    told: str
    """What is behind the numbers, for the table."""
    variant: Mapping[str, Any] = field(default_factory=dict)
    """Handed to the adapter."""
    _: KW_ONLY
    exact: bool = True
    """Whether it solves each half step exactly."""
    tree: bool = False
    """Whether it works in processes of its own, so that time and memory are summed over all of them."""
    workers: bool = False
    """Whether its threads, where there are several, are processes: then it is such a tree too."""

    def grows(self, threads: int) -> bool:
        """Whether several processes are to be watched."""
        return self.tree or (self.workers and threads > 1)

    @property
    def script(self) -> Path:
        return ADAPTERS / self.adapter


HERE = Library(name="fedboard")
IMPLICIT = Library(name="implicit", requirements=("implicit>=0.7.2,<0.8", "numpy>=1.26,<3", "scipy>=1.11,<2"))
LENSKIT = Library(name="lenskit", requirements=("lenskit>=2025.8,<2026",))
BUFFALO = Library(name="buffalo", requirements=("buffalo>=2.0.6,<3",))
LIBMF = Library(name="libmf", requirements=("libmf>=0.9.2,<1", "numpy>=1.26,<3"))
PFL = Library(name="pfl", requirements=("pfl>=0.6,<0.7",))
FLOWER = Library(name="flower", requirements=("flwr[simulation]>=1.41,<1.43",))

PASSES = "stochastic gradients, as many passes as sweeps"
NO_BIASES = "BiasedMFScorer without its biases: exact ALS"
NO_GRADIENTS = "exact ALS (use_cg=False)"
GRADIENTS = "three steps of conjugate gradients, its default"
OUR_ROUND = "engine, ledger on disk, exact integer sums, secure noise"
FLOWERS_ROUND = "its simulation on Ray, ten nodes that each loop over their users in NumPy"
MANUAL = {"optimizer": "manual_cg"}

PEERS: tuple[Peer, ...] = (
    Peer(f"{OURS}-explicit", HERE, "ours_als_row.py", "explicit", "exact ALS, and one user step more"),
    Peer("lenskit-explicit", LENSKIT, "lenskit_row.py", "explicit", NO_BIASES),
    Peer("libmf", LIBMF, "libmf_row.py", "explicit", PASSES, {"passes_per_sweep": 1}, exact=False),
    Peer(f"{OURS}-implicit", HERE, "ours_als_row.py", "implicit", "exact ALS, and one user step more"),
    Peer("implicit-exact", IMPLICIT, "implicit_row.py", "implicit", NO_GRADIENTS, {"use_cg": False}),
    Peer("implicit-cg", IMPLICIT, "implicit_row.py", "implicit", GRADIENTS, {"use_cg": True}, exact=False),
    Peer("lenskit", LENSKIT, "lenskit_row.py", "implicit", "ImplicitMFScorer: exact ALS"),
    Peer("buffalo-exact", BUFFALO, "buffalo_row.py", "implicit", "exact ALS (ldlt)", {"optimizer": "ldlt"}),
    Peer("buffalo-cg", BUFFALO, "buffalo_row.py", "implicit", GRADIENTS, MANUAL, exact=False),
    Peer(f"{OURS}-round", HERE, "ours_round_row.py", "round", OUR_ROUND, workers=True),
    Peer("numpy", HERE, "numpy_round_row.py", "round", "a loop over users in NumPy, no framework"),
    Peer(
        "pfl",
        PFL,
        "pfl_row.py",
        "round",
        "SimulatedBackend, GaussianMechanism, dense statistics of each user",
    ),
    Peer("flower", FLOWER, "flower_row.py", "round", FLOWERS_ROUND, tree=True),
)


def ours_of(kind: str) -> str:
    """The name of our own row in jobs of a kind."""
    return f"{OURS}-{kind}"


def chosen(names: tuple[str, ...]) -> tuple[Peer, ...]:
    """The named rows, and ours for every kind of job that they can do; all where nothing is named.

    Raises:
        ValueError: a name that is not known; the message lists those that are.
    """
    known = {peer.name: peer for peer in PEERS}
    wrong = [name for name in names if name not in known]
    if wrong:
        raise ValueError(f"no such peer: {', '.join(wrong)}; there are {', '.join(known)}")
    if not names:
        return PEERS
    kinds = {known[name].kind for name in names}
    wanted = {*names, *map(ours_of, kinds)}
    return tuple(peer for peer in PEERS if peer.name in wanted)
