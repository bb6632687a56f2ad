"""What the product itself makes: boards with certificates, ledgers, keys, sessions. Small, and all made up."""

import sys
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from fedboard.client.participation.ledger import AnsweredBoard, DeviceLedger
from fedboard.common.algorithms.adadpals.algorithm import AdaDpals
from fedboard.common.board import Board, Catalogue
from fedboard.common.certificate import Certificate, certify
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.item_features import CatalogueFeatures
from fedboard.common.messages.enrolment import Introduction
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.commitment import Commitment
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import SecureNoise
from tests.common.algorithms.conftest import a_task, population

N_ITEMS, N_USERS = 12, 6
_BUDGET = Budget(epsilon=10.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
_RELEASE = GaussianRelease(
    name="round",
    rows=20,
    width=10,
    layout="vector",
    grid_step=2.0**-8,
    l2_bound=1000,
    same_sign=False,
    adjacency=Adjacency.ADD_REMOVE,
    noise_multiplier=5.0,
    covers="made-up sums",
)


@cache
def folder() -> Path:
    """For files of this process, in memory where there is such a thing."""
    memory = Path("/dev/shm")
    held = tempfile.TemporaryDirectory(prefix="fedboard-fuzz-", dir=memory if memory.is_dir() else None)
    _HELD.append(held)
    return Path(held.name)


_HELD: list[tempfile.TemporaryDirectory[str]] = []


def cohort() -> Cohort:
    """A few users."""
    return population(n_users=N_USERS, n_items=N_ITEMS)


@cache
def task() -> AdaDpals:
    """An algorithm."""
    return a_task(rank=3)


def catalogue() -> Catalogue:
    """Items with titles and features."""
    return Catalogue(
        item_ids=tuple(map(str, range(N_ITEMS))),
        titles=tuple(f"Title of item {item} (19{item:02d})" for item in range(N_ITEMS)),
        features=CatalogueFeatures(
            number_names=("year",),
            numbers=np.arange(N_ITEMS, dtype=np.float32)[:, np.newaxis],
            label_names=("genres: Drama",),
            labels=np.ones((N_ITEMS, 1), dtype=np.uint8),
        ),
    )


@cache
def boards() -> tuple[Board, Board]:
    """The first board of a training, and one with numbers and a certificate."""
    first = task().first_board(catalogue())
    rng = np.random.default_rng(1)
    second = first.successor(
        mean=np.array([3.4]),
        item_factors=rng.normal(size=(N_ITEMS, 3)).astype(np.float32),
        item_counts=rng.integers(1, 40, N_ITEMS).astype(np.float64),
        learnt=np.ones(N_ITEMS, dtype=np.uint8),
    )
    return first, second.with_certificate(certificate(second.digest).to_dict())


def rows() -> tuple[Contribution, tuple[Request, ...]]:
    """What the users give to the first board."""
    requests = tuple(task().requests(boards()[0]))
    return task().contribute(cohort(), boards()[0], requests), requests


def certificate(board_digest: str, *, planned: bool = True) -> Certificate:
    """Of two releases, by a plan or by a budget."""
    events = [{**replace(_RELEASE, name=f"round-{n}").event(), **SecureNoise().describe()} for n in (1, 2)]
    plan = {str(event["name"]): event["noise_multiplier"] for event in events} if planned else None
    return certify(
        events,
        commitment=Commitment.of(_BUDGET, plan),
        trust=("The server sees each contribution and forgets it.",),
        assumptions=("Each device takes part once in a release.",),
        dataset="made up",
        board_digest=board_digest,
        ledger_head="cd" * 32,
    )


@cache
def ledger() -> bytes:
    """The file of a ledger with a plan of two releases, one booked."""
    place = folder() / "ledger.sqlite"
    plan = {f"round-{number}": 5.0 for number in (1, 2)}
    with Ledger.create(place, _BUDGET, run="films", plan=plan) as made:
        made.book({**replace(_RELEASE, name="round-1").event(), **SecureNoise().describe()})
    return place.read_bytes()


@cache
def device_ledger() -> bytes:
    """The file of a device's own ledger, which has answered a round."""
    place = folder() / "device.sqlite"
    board = boards()[0]
    about = AnsweredBoard(round=board.version, board=board.digest, terms="ab" * 32)
    with DeviceLedger.create(place, _BUDGET) as made:
        made.admit("films", rows()[1], about=about)
    return place.read_bytes()


@cache
def population_account() -> bytes:
    """The file of an account of two runs, of which one has booked a release."""
    place = folder() / "population.sqlite"
    with Population.create(place, _BUDGET, lineage_epsilon=8.0) as made:
        made.join("ab" * 16, name="films", plan={f"round-{number}": 5.0 for number in (1, 2)})
        made.join("cd" * 16, name="books", plan={"round-1": 9.0})
        made.book("ab" * 16, [{**replace(_RELEASE, name="round-1").event(), **SecureNoise().describe()}])
        made.give_back("cd" * 16)
    return place.read_bytes()


def introduction(authority_pem: str) -> Introduction:
    """Of a server, to devices that join."""
    return Introduction(
        run="films",
        task="adadpals",
        protocol="trusted",
        epsilon=5.0,
        delta=1e-5,
        adjacency=Adjacency.ADD_REMOVE,
        authority=authority_pem,
        question_key="ab" * 32,
        board_key="cd" * 32,
    )
