"""What a device and a server keep, and what states a guarantee: stores, ledgers, evidence, keys."""

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from fleets.fuzz.databases import DATABASE, chain_again
from fleets.fuzz.files import file_parser
from fleets.fuzz.specimens import (
    boards,
    certificate,
    cohort,
    device_ledger,
    folder,
    ledger,
    members_register,
    population_account,
)
from fleets.fuzz.trials import Parser

from fedboard.client.answering.refusal_counts import RefusalCounts
from fedboard.client.device.ledger import DeviceLedger
from fedboard.client.device.newest_roster import NewestRoster
from fedboard.client.guarantee.account_sources import read_account
from fedboard.client.guarantee.evidence import read_evidence
from fedboard.client.ratings.cohort_file import CohortFile, write_cohort
from fedboard.client.ratings.store import OwnRating, RatingStore
from fedboard.common.errors import FedboardError
from fedboard.common.keys.ed25519_keys import read_public
from fedboard.common.keys.node_keys import load_private_key, make_node_key, public_key_pem
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.server.fleet.members.register import Register

_OF_ROWS = (FedboardError, sqlite3.Error)
"""The second is what whoever asks the register has to expect: the door lets nobody in then."""


def account_parsers() -> list[Parser]:
    """Of devices, servers and those who verify."""
    return [*_of_devices_own(), *_of_guarantees(), *_of_keys()]


def _of_devices_own() -> list[Parser]:
    store = folder() / "store.sqlite"
    if not store.exists():
        with RatingStore.create(store) as made:
            made.put([OwnRating(item=str(n), rating=3.0) for n in range(3)])
    whole = folder() / "cohort"
    write_cohort(whole, cohort(), boards()[0].catalogue.item_ids)

    def stored(place: Path) -> object:
        for beside in place.parent.glob(f"{place.name}-*"):
            beside.unlink()
        with RatingStore.open(place) as opened:
            return list(opened.ratings())

    def of_cohort(name: str) -> Callable[[Path], object]:
        def read(place: Path) -> object:
            for file in whole.iterdir():
                if file.name != name:
                    (place.parent / file.name).write_bytes(file.read_bytes())
            return CohortFile.open(place.parent).cohort(boards()[0]).n_users

        return read

    return [
        file_parser(
            "rating-store",
            "mine.sqlite",
            stored,
            (store.read_bytes(),),
            None,
            refusals=(FedboardError,),
            share=0.1,
        ),
        *(
            file_parser(
                f"cohort-{name.partition('.')[0]}",
                name,
                of_cohort(name),
                ((whole / name).read_bytes(),),
                "json" if name.endswith("json") else None,
                share=0.1,
            )
            for name in ("cohort.json", "items.npy", "indptr.npy")
        ),
    ]


def _of_guarantees() -> list[Parser]:
    def opened(place: Path) -> object:
        for beside in place.parent.glob(f"{place.name}-*"):
            beside.unlink()
        with Ledger.open(place, read_only=True) as found:
            found.verify()
            return found.spent(), found.claim(), found.events()

    stated = certificate("ab" * 32).to_json().encode()
    board = boards()[1].to_bytes()
    return [
        *_of_rows(),
        file_parser(
            "ledger", "ledger.sqlite", opened, (ledger(),), None, refusals=(FedboardError,), share=0.1
        ),
        file_parser("certificate", "certificate.json", read_evidence, (stated,), "json", share=0.2),
        file_parser("board", "one.board", read_evidence, (board,), "board", share=0.2),
    ]


def _of_rows() -> list[Parser]:
    """Ledgers and registers as databases whose rows were changed, and chained again."""

    def again(read: Callable[[Path], object]) -> Callable[[Path], object]:
        def from_rows(place: Path) -> object:
            for beside in place.parent.glob(f"{place.name}-*"):
                beside.unlink()
            chain_again(place)
            return read(place)

        return from_rows

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

    def register(place: Path) -> object:
        with Register(place) as found:
            return (
                found.state(),
                found.admitted(),
                found.members(),
                found.invitations(),
                found.presented_again(),
            )

    kinds: Mapping[str, tuple[Callable[[Path], object], bytes]] = {
        "ledger-rows": (again(run), ledger()),
        "device-ledger": (again(device), device_ledger()),
        "population": (again(population), population_account()),
        "account-of-ledger": (again(lambda place: read_account(place, Adjacency.ADD_REMOVE)), ledger()),
        "members": (again(register), members_register()),
    }
    return [
        file_parser(name, f"{name}.sqlite", read, (content,), DATABASE, refusals=_OF_ROWS, share=0.5)
        for name, (read, content) in kinds.items()
    ]


def _of_keys() -> list[Parser]:
    private = folder() / "nodes" / "own.key"
    if not private.exists():
        make_node_key(private, name="ann")

    def node(place: Path) -> object:
        place.chmod(0o600)
        return load_private_key(place)

    def public(place: Path) -> object:
        return public_key_pem(place.read_text(errors="surrogateescape"), source="file")

    pem = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
    small: Mapping[str, tuple[Callable[[Path], object], bytes]] = {
        "seen-rosters": (NewestRoster, b'{"films": {"number": 3, "digest": "%s"}}' % (b"ab" * 32)),
        "refusal-counts": (RefusalCounts, b'{"malformed": 3, "expired": 1}'),
    }
    return [
        file_parser("node-key", "node.key", node, (private.read_bytes(),), "lines", share=0.2),
        file_parser(
            "node-public-key",
            "node.pub",
            public,
            (private.with_suffix(".pub").read_bytes(),),
            "lines",
            share=0.2,
        ),
        file_parser(
            "public-key",
            "key.pub",
            lambda place: read_public(place, signed="boards"),
            (f"{pem}-----END PUBLIC KEY-----\n".encode(),),
            "lines",
            share=0.2,
        ),
        *(file_parser(name, f"{name}.json", read, (of,), "json") for name, (read, of) in small.items()),
    ]
