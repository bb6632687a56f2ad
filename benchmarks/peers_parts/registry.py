"""Who is measured: one line a row, one adapter a library; versions of libraries stand here and nowhere else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One row: a library, one way of using it, and the kinds of job that it can do."""

    name: str
    library: Library
    adapter: str
    kinds: tuple[str, ...]
    told: str
    variant: Mapping[str, Any] = field(default_factory=dict)
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

PEERS: tuple[Peer, ...] = (
    Peer(
        name=f"{OURS}-explicit",
        library=HERE,
        adapter="ours_als_row.py",
        kinds=("explicit",),
        told="exact ALS, and one user step more",
    ),
    Peer(
        name="lenskit-explicit",
        library=LENSKIT,
        adapter="lenskit_row.py",
        kinds=("explicit",),
        told="BiasedMFScorer without its biases: exact ALS",
    ),
    Peer(
        name="libmf",
        library=LIBMF,
        adapter="libmf_row.py",
        kinds=("explicit",),
        told="stochastic gradients, as many passes as sweeps",
        variant={"passes_per_sweep": 1},
        exact=False,
    ),
    Peer(
        name=f"{OURS}-implicit",
        library=HERE,
        adapter="ours_als_row.py",
        kinds=("implicit",),
        told="exact ALS, and one user step more",
    ),
    Peer(
        name="implicit-exact",
        library=IMPLICIT,
        adapter="implicit_row.py",
        kinds=("implicit",),
        told="exact ALS (use_cg=False)",
        variant={"use_cg": False},
    ),
    Peer(
        name="implicit-cg",
        library=IMPLICIT,
        adapter="implicit_row.py",
        kinds=("implicit",),
        told="three steps of conjugate gradients, its default",
        variant={"use_cg": True},
        exact=False,
    ),
    Peer(
        name="lenskit",
        library=LENSKIT,
        adapter="lenskit_row.py",
        kinds=("implicit",),
        told="ImplicitMFScorer: exact ALS",
    ),
    Peer(
        name="buffalo-exact",
        library=BUFFALO,
        adapter="buffalo_row.py",
        kinds=("implicit",),
        told="exact ALS (ldlt)",
        variant={"optimizer": "ldlt"},
    ),
    Peer(
        name="buffalo-cg",
        library=BUFFALO,
        adapter="buffalo_row.py",
        kinds=("implicit",),
        told="three steps of conjugate gradients, its default",
        variant={"optimizer": "manual_cg"},
        exact=False,
    ),
    Peer(
        name=f"{OURS}-round",
        library=HERE,
        adapter="ours_round_row.py",
        kinds=("round",),
        told="engine, ledger on disk, exact integer sums, secure noise",
        workers=True,
    ),
    Peer(
        name="numpy",
        library=HERE,
        adapter="numpy_round_row.py",
        kinds=("round",),
        told="a loop over users in NumPy, no framework",
    ),
    Peer(
        name="pfl",
        library=PFL,
        adapter="pfl_row.py",
        kinds=("round",),
        told="SimulatedBackend, GaussianMechanism, dense statistics of each user",
    ),
    Peer(
        name="flower",
        library=FLOWER,
        adapter="flower_row.py",
        kinds=("round",),
        told="its simulation on Ray, ten nodes that each loop over their users in NumPy",
        tree=True,
    ),
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
    kinds = {kind for name in names for kind in known[name].kinds}
    wanted = {*names, *map(ours_of, kinds)}
    return tuple(peer for peer in PEERS if peer.name in wanted)
