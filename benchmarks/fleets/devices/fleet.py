"""The files of a fleet whose devices join with invitations, and their joining."""

import csv
import json
import time
from dataclasses import dataclass
from pathlib import Path

from fedboard.client.joining.joining import join
from fedboard.client.private_files import make_private_folder
from fedboard.client.ratings.cohort_file import write_cohort
from fedboard.client.ratings.store import OwnRating, RatingStore
from fedboard.common.cohort import Cohort
from fedboard.common.wire.addresses import parse_address
from fedboard.common.wire.enrolment import Invitation, digest_of_introduction, fresh_secret
from fedboard.common.wire.signing import QuestionKey
from fedboard.server.fleet.members.register import Register
from fedboard.server.fleet.plan.introducing import introduction_of
from fedboard.server.fleet.plan.settings import FleetSettings, read_settings
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.tls import make_authority, make_server_certificate
from fleets.deployment import free_ports, toml

EPSILON, DELTA = 5.0, 1e-6
_MANY = 10_000_000
_INVITED_HOURS = 24.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Of a fleet."""

    devices: int
    users: int
    """Of each device."""
    rounds: int
    """Alternations; two rounds come before them."""
    carrier: str
    polls_per_second: float
    quorum: float
    """Share of the devices."""


def make_fleet(folder: Path, size: Size, item_ids: tuple[str, ...]) -> FleetSettings:
    """Keys, certificates, catalogue and ``fleet.toml``; nobody has joined."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, authority_key = folder / "authority.pem", folder / "authority.key"
    make_authority(authority, authority_key, name="many devices")
    certificate, key = folder / "server.pem", folder / "server.key"
    make_server_certificate(certificate, key, authority=authority, authority_key=authority_key, names=())
    with (folder / "catalogue.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("item", "title"), *zip(item_ids, item_ids, strict=True)])
    QuestionKey().write(folder)
    port, behind = free_ports(2)
    (folder / "fleet.toml").write_text(toml(_sections(size, port, behind)))
    return read_settings(folder / "fleet.toml")


def _sections(size: Size, port: int, behind: int) -> dict[str, object]:
    return {
        "name": "many",
        "task": {"algorithm": "residual", "settings": {"rounds": size.rounds}},
        "privacy": {"epsilon": EPSILON, "delta": DELTA, "noise": "secure"},
        "catalogue": {"file": "catalogue.csv", "statement": "ratings of a benchmark"},
        "rounds": {
            "expected_nodes": size.devices,
            "quorum": max(1, int(size.quorum * size.devices)),
            "deadline_seconds": 1800.0,
            "grace_seconds": 300.0,
            "resend_seconds": 600.0,
            "poll_seconds": 0.5,
        },
        "network": {
            "listen": "127.0.0.1",
            "port": port,
            "superlink_port": behind,
            "certificate": "server.pem",
            "key": "server.key",
            "authority": "authority.pem",
            "question_key": "question-signing.key",
            "connections_per_address": 0,  # they all come from this machine
            "polls_per_second": size.polls_per_second,
        },
        "enrolment": {
            "address": f"127.0.0.1:{port}",
            "max_devices": size.devices,
            "max_users_per_device": size.users,
            "max_users": size.devices * size.users,
            "carrier": size.carrier,
            "joins_per_minute": _MANY,
            "joins_per_address": _MANY,
        },
    }


def invite(settings: FleetSettings, names: list[str], users: int) -> dict[str, Invitation]:
    """One invitation each, as ``fedboard fleet invite`` makes them."""
    assert settings.enrolment is not None
    introduction = digest_of_introduction(introduction_of(settings))
    address = parse_address(settings.enrolment.address, name="address")
    made = {}
    with Register(StateFolder.of(settings).members) as register:
        for name in names:
            made[name] = Invitation(address=address, introduction=introduction, secret=fresh_secret())
            register.invite(made[name].secret, name=name, max_users=users, seconds=_INVITED_HOURS * 3600)
    return made


def enrol(folder: Path, invitation: Invitation, ratings: Cohort, item_ids: tuple[str, ...]) -> float:
    """A device with its ratings joins; seconds that joining took.

    Args:
        folder: of the device.
        invitation: its own.
        ratings: of its users; one person's are in a store, several in a gateway's folder.
        item_ids: of the items.
    """
    make_private_folder(folder)
    if ratings.n_users == 1:
        where = 'store = "ratings.sqlite"'
        with RatingStore.create(folder / "ratings.sqlite") as store:
            given = zip(ratings.items.tolist(), ratings.ratings.tolist(), strict=True)
            store.put(OwnRating(item=item_ids[item], rating=rating) for item, rating in given)
    else:
        where = 'cohort = "cohort"'
        write_cohort(folder / "cohort", ratings, item_ids)
    limit = f"epsilon = {json.dumps(1.2 * EPSILON)}, delta = {json.dumps(DELTA)}"
    (folder / "device.toml").write_text(f"ratings = {{ {where} }}\npolicy = {{ {limit} }}\n")
    began = time.monotonic()
    join(invitation, folder)
    return time.monotonic() - began
