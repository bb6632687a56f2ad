"""What lies in files and may be anybody's: configurations, stores, ledgers, evidence, ratings.

Each message is written where no disk is, under the name that its reader expects, and read from there.
"""

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from fedboard.client.participation.config import load_device
from fedboard.client.participation.ledger import DeviceLedger
from fedboard.client.participation.records import NewestRoster, RefusalCounts
from fedboard.client.ratings.cohort_file import CohortFile, write_cohort
from fedboard.client.ratings.own_file import read_own_ratings, read_ratings
from fedboard.client.ratings.store import OwnRating, RatingStore
from fedboard.client.verification.accounts import read_account
from fedboard.client.verification.evidence import read_evidence
from fedboard.common.boards.ed25519_keys import KeyPair, read_public
from fedboard.common.errors import FedboardError, InputError, PrivacyError
from fedboard.common.messages.devices import DeviceKey
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.ledger.chain_rows import chained_row
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.server.catalogue.features import load_item_features
from fedboard.server.fleet.settings import read_settings
from fedboard.simulations.config import parse_config, read_config
from fedboard.simulations.data.loading import load_ratings
from fleets import specimens
from fleets.fuzz_port import Target

_DEVICE = """state = "state"
[ratings]
store = "ratings.sqlite"
[policy]
epsilon = 8.0
delta = 1e-5
adjacency = "add-remove"
smallest_catalogue = 5
published_only = false
[server]
address = "127.0.0.1:8443"
authority = "authority.pem"
key = "device.key"
question_key = "question-signing.pub"
"""
_PLAN = b'[round-1]\nlinear = 8.0\n[round-2]\nlinear = { noise_multiplier = 9.0 }\n["shared"]\nitems = 7\n'
_EXAMPLES = Path(__file__).parents[2] / "examples"
_RANGE = (1.0, 5.0)
_ROWS = (FedboardError, sqlite3.Error)
"""The second is what whoever asks a database has to expect: the port lets nobody in then."""


def file_targets() -> dict[str, Target]:
    """By name: ``file``, and what it is."""
    return {**_configurations(), **_databases(), **_own_files(), **_tables()}


def _file(
    file: str,
    read: Callable[[Path], object],
    *contents: bytes,
    form: str = "",
    share: float = 0.2,
    refusals: tuple[type[BaseException], ...] = (InputError, FedboardError),
) -> Target:
    """Reads a file of this name; the same name in each message."""

    def from_bytes(content: bytes) -> object:
        place = specimens.folder() / str(os.getpid()) / file
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content)
        for beside in place.parent.glob(f"{place.name}-*"):
            beside.unlink()
        return read(place)

    return Target(from_bytes, refusals, contents, form, share)


def _configurations() -> dict[str, Target]:
    def account(place: Path) -> object:
        return read_account(place, Adjacency.ADD_REMOVE)

    return {
        "file/device": _file("device.toml", load_device, _DEVICE.encode()),
        "file/fleet": _file("fleet.toml", read_settings, (_EXAMPLES / "fleet" / "fleet.toml").read_bytes()),
        "file/simulation": _file(
            "run.toml",
            lambda place: parse_config(read_config(place)),
            (_EXAMPLES / "simulate.toml").read_bytes(),
        ),
        "file/plan": _file("plan.toml", account, _PLAN),
    }


def _databases() -> dict[str, Target]:
    """Ledgers and stores, whose rows follow each other again where they can: a file holds no secret."""
    store = specimens.folder() / "store.sqlite"
    if not store.exists():
        with RatingStore.create(store) as made:
            made.put([OwnRating(item=str(number), rating=3.0) for number in range(3)])

    def stored(place: Path) -> object:
        with RatingStore.open(place) as opened:
            return list(opened.ratings())

    def run(place: Path) -> object:
        with Ledger.open(place, read_only=True) as found:
            found.verify()
            return found.spent(), found.claim(), found.events()

    def device(place: Path) -> object:
        with DeviceLedger.open(place, read_only=True) as found:
            return found.limit, found.given(), found.spent()

    def population(place: Path) -> object:
        with Population.open(place, read_only=True) as found:
            found.verify()
            runs = [found.total(member.run) for member in found.members()]
            return runs, found.cost(reserved=True), found.cost(reserved=False)

    kinds = {
        "ledger-rows": (run, specimens.ledger()),
        "device-ledger": (device, specimens.device_ledger()),
        "population": (population, specimens.population_account()),
    }
    found = {
        f"file/{name}": _file(f"{name}.sqlite", _chained_again(read), content, refusals=_ROWS)
        for name, (read, content) in kinds.items()
    }
    return {**found, "file/rating-store": _file("mine.sqlite", stored, store.read_bytes())}


def _chained_again(read: Callable[[Path], object]) -> Callable[[Path], object]:
    def from_rows(place: Path) -> object:
        failures = (sqlite3.Error, ArithmeticError, ValueError, TypeError, RecursionError, PrivacyError)
        with (
            contextlib.suppress(*failures),
            contextlib.closing(sqlite3.connect(place, isolation_level=None)) as database,
        ):
            _chain(database)
        return read(place)

    return from_rows


def _chain(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA synchronous = OFF")
    previous = digest(json.loads(database.execute("SELECT header FROM meta").fetchone()[0]))
    rows = database.execute("SELECT rowid, seq, time, run, event FROM events ORDER BY seq").fetchall()
    for row, seq, time, run, event in rows:
        record: dict[str, Any] = dict(json.loads(event))
        name = record.get("name")
        linked = chained_row(seq=seq, time=time, run=run, name=name, record=record, previous=previous)
        database.execute(
            "UPDATE events SET name = ?, event = ?, previous = ?, hash = ? WHERE rowid = ?",
            (name, linked.text, previous, linked.hash, row),
        )
        previous = linked.hash


def _own_files() -> dict[str, Target]:
    """What a device keeps, and what states a guarantee."""
    whole = specimens.folder() / "cohort"
    catalogue = specimens.boards()[0].catalogue
    write_cohort(whole, specimens.cohort(), catalogue.item_ids)
    keys = specimens.folder() / "keys"
    if not keys.exists():
        DeviceKey().write(keys)

    def of_cohort(place: Path) -> object:
        for file in whole.iterdir():
            if file.name != place.name:
                (place.parent / file.name).write_bytes(file.read_bytes())
        return CohortFile.open(place.parent).cohort(specimens.boards()[0]).n_users

    def private(place: Path) -> KeyPair:
        place.chmod(0o600)
        return DeviceKey.load(place)

    stated = specimens.certificate("ab" * 32).to_json().encode()
    rosters = b'{"films": {"number": 3, "digest": "%s"}}' % (b"ab" * 32)
    cohort = {
        f"file/cohort-{name.partition('.')[0]}": _file(
            name, of_cohort, (whole / name).read_bytes(), form="json" * name.endswith("json")
        )
        for name in ("cohort.json", "items.npy", "indptr.npy")
    }
    return {
        **cohort,
        "file/certificate": _file("certificate.json", read_evidence, stated, form="json"),
        "file/board": _file("one.board", read_evidence, specimens.boards()[1].to_bytes(), form="board"),
        "file/seen-rosters": _file("rosters.json", NewestRoster, rosters, form="json"),
        "file/refusal-counts": _file("counts.json", RefusalCounts, b'{"malformed": 3}', form="json"),
        "file/private-key": _file("device.key", private, (keys / DeviceKey.PRIVATE_NAME).read_bytes()),
        "file/public-key": _file(
            "key.pub",
            lambda place: read_public(place, signed="boards"),
            (keys / DeviceKey.PUBLIC_NAME).read_bytes(),
        ),
    }


def _tables() -> dict[str, Target]:
    """Ratings, and tables of items."""
    catalogue = specimens.boards()[1].catalogue
    own = b"item,rating,timestamp\n3,4.5,1700000000\n5,2,\nTitle of item 7 (1907),3.5,1\n"
    lines = [(user, item, 1 + item % 5) for user in range(1, 4) for item in range(1, 5)]
    hundred = "".join(f"{user}\t{item}\t{rating}\t978300760\n" for user, item, rating in lines)
    films = "item,year,genres\n" + "".join(f"{n},{1950 + n},a|b{n % 2}\n" for n in range(1, 11))
    arrays = BytesIO()
    np.savez(
        arrays,
        user=np.arange(6) % 3,
        item=np.repeat(np.arange(2), 3),
        rating=np.ones(6),
        item_id=np.array(["a", "b", "c"]),
    )

    def loaded(form: str | None) -> Callable[[Path], object]:
        return lambda place: load_ratings(place, format=form, rating_range=_RANGE).n_users

    ids = tuple(map(str, range(1, 11)))
    return {
        "file/own-ratings": _file(
            "own.csv", lambda place: read_own_ratings(place, catalogue, rating_range=(0.5, 5.0)), own
        ),
        "file/imported-ratings": _file("mine.csv", read_ratings, own),
        "file/ratings-100k": _file("u.data", loaded("movielens-100k"), hundred.encode()),
        "file/ratings-npz": _file("ratings.npz", loaded(None), arrays.getvalue()),
        "file/features-table": _file(
            "films.csv", lambda place: load_item_features(place, ids), films.encode()
        ),
    }
