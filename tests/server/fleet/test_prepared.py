"""Settings, keys and what is made of them: what is read, derived, and refused with which words."""

import os
import re
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)

from fedboard.common.boards.ed25519_keys import write_pair
from fedboard.common.errors import InputError
from fedboard.server import tls
from fedboard.server.fleet.credentials import require_credentials
from fedboard.server.fleet.job import job_of, prepare, who_takes_part
from fedboard.server.fleet.settings import FleetSettings, read_settings
from fedboard.server.fleet.state_folder import KeysFolder, StateFolder
from fedboard.server.run_spec import Promise
from fedboard.server.tls import make_server_certificate
from tests.server.fleet.made import N_ITEMS, a_fleet, write_fleet
from tests.server.vouched import vouched_pair

A, B, C = ("0" * 64, "1" * 64, "2" * 64)


def keys_of(kind: type, place: str = "") -> list[str]:
    """All keys of the file, as ``section.key``."""
    found = []
    for field in msgspec.structs.fields(kind):
        inner = [
            one
            for one in (field.type, *getattr(field.type, "__args__", ()))
            if hasattr(one, "__struct_fields__")
        ]
        name = f"{place}{field.name}"
        found += keys_of(inner[0], f"{name}.") if inner else [name]
    return found


def test_a_fleet_has_at_most_thirty_settings_and_needs_four_of_them(tmp_path: Path) -> None:
    assert len(keys_of(FleetSettings)) <= 30

    least = 'name = "f"\nprivacy.epsilon = 1.0\ncatalogue.file = "c.csv"\nrounds.devices = 3\n'
    (tmp_path / "fleet.toml").write_text(least)
    settings = read_settings(tmp_path / "fleet.toml")

    assert (settings.state, settings.keys) == (tmp_path / "state", tmp_path / "keys")
    assert settings.catalogue.file == tmp_path / "c.csv"
    assert settings.rounds.quorum == 2
    assert (settings.capacity.devices, settings.capacity.users, settings.capacity.each) == (3, 3, 1)
    assert settings.network.listening.text == "127.0.0.1:8443"
    assert settings.promise == Promise(epsilon=1.0)
    assert not settings.alone
    assert not settings.simulated


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"privacy": {"epsilon": 0.0}}, "privacy.epsilon must be a finite number > 0"),
        ({"privacy": {"delta": 1.0}}, "privacy.delta must be in (0, 1)"),
        ({"privacy": {"adjacency": "replace-labels"}}, "privacy.adjacency must be add-remove or replace"),
        ({"privacy": {"seed": -1}}, "seed must be a whole number >= 0"),
        ({"rounds": {"quorum": 0}}, "rounds.quorum must be in [1, rounds.devices] = [1, 3]"),
        ({"rounds": {"deadline_seconds": 1e7}}, "rounds.deadline_seconds must be in [0.01, 250000]"),
        ({"members": {"users": 1 << 25}}, "members.users must be in [members.most, 16777216]"),
        ({"boards": {"witnesses": [A, A]}}, "boards: witnesses must be 1 to"),
        ({"boards": {"witnesses": [A], "cosignatures": 2}}, "boards: cosignatures must be in [1, 1]"),
        ({"name": "../films"}, "name must be letters"),
        ({"nodes": []}, "unknown key 'nodes'; known are"),
        ({"privacy": {"noise": "seeded"}}, "privacy: unknown key 'noise'"),
        ({"privacy": {"epsilon": "much"}}, "privacy.epsilon must be"),
        ({"privacy": {"epsilon": None}}, "privacy.epsilon is missing"),
        ({"task": {"rating_range": [5.0, 1.0]}}, "task.rating_range must be LOW < HIGH"),
        ({"rounds": {"devices": 0}}, "rounds.devices must be >= 1"),
        ({"rounds": {"quorum": 4}}, "rounds.quorum must be in [1, rounds.devices] = [1, 3]"),
        ({"rounds": {"deadline_seconds": 0.0}}, "rounds.deadline_seconds must be in [0.01, 250000]"),
        ({"rounds": {"most_lost": 1.1}}, "rounds.most_lost must be in [0, 1]"),
        ({"protocol": {"name": "two-server"}}, "protocol.helper is needed for two-server"),
        ({"protocol": {"helper": "h.example:1"}}, "protocol.helper is needed for two-server"),
        ({"protocol": {"name": "two-server", "helper": "h"}}, "protocol.helper is HOST:PORT"),
        ({"network": {"address": "films"}}, "network.address is HOST:PORT"),
        ({"network": {"listen": "0.0.0.0:99999"}}, "port of network.listen must be in [1, 65535]"),
        ({"network": {"ops": "127.0.0.1:8443"}}, "network.ops must have another port than network.listen"),
        ({"members": {"most": 2}}, "members.most must be >= rounds.devices = 3"),
        ({"members": {"users": 2}}, "members.users must be in [members.most, 16777216]"),
        ({"boards": {"witnesses": ["A" * 64]}}, "boards.witnesses must be public keys of 64 hex digits"),
        ({"boards": {"cosignatures": 1}}, "cosignatures must be 0 or left out where no witnesses"),
        ({"boards": {"witnesses": [A, B], "cosignatures": 1}}, "boards: cosignatures must be in [2, 2]"),
        ({"queries": {"epsilon": 0.0}}, "queries.epsilon must be a finite number > 0"),
        ({"queries": {"epsilon": 5.0}}, "queries.epsilon is of the training too: it must be larger"),
    ],
    ids=str,
)
def test_a_mistake_is_told_with_its_file_and_its_key(
    tmp_path: Path, sections: dict[str, Any], told: str
) -> None:
    path = write_fleet(tmp_path, **sections)

    with pytest.raises(InputError, match=re.escape(told)) as error:
        read_settings(path)
    assert str(error.value).startswith(f"{path}: ")


def test_what_is_not_toml_or_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text("[privacy")
    with pytest.raises(InputError, match="not valid TOML"):
        read_settings(tmp_path / "fleet.toml")
    with pytest.raises(InputError, match="no configuration can be read there"):
        read_settings(tmp_path / "absent.toml")


def test_the_example_is_read() -> None:
    settings = read_settings(Path(__file__).parents[3] / "examples" / "fleet" / "fleet.toml")

    assert settings.name == "films"


def test_all_times_of_a_round_follow_from_its_deadline(tmp_path: Path) -> None:
    pace = a_fleet(tmp_path, rounds={"deadline_seconds": 0.4, "quorum": None}).rounds.pace

    assert (pace.expected_nodes, pace.quorum, pace.attempts) == (3, 2, 3)
    assert (pace.grace_seconds, pace.longest_seconds) == pytest.approx((0.02, 1.6))


def test_a_seed_means_noise_that_can_be_repeated(tmp_path: Path) -> None:
    trial, real = a_fleet(tmp_path), a_fleet(tmp_path, privacy={"seed": None})

    assert (trial.simulated, trial.promise.noise, trial.promise.seed) == (True, "seeded", 0)
    assert (real.simulated, real.promise.noise) == (False, "secure")


def test_without_a_budget_of_its_own_there_is_no_training(tmp_path: Path) -> None:
    queries = a_fleet(tmp_path, privacy={"epsilon": None}, queries={"epsilon": 2.0})

    assert queries.alone
    assert queries.promise.epsilon == 2.0


def test_gateways_host_what_is_left_when_everybody_else_is_one_person(tmp_path: Path) -> None:
    settings = a_fleet(tmp_path, members={"most": 5, "users": 100})

    assert (settings.capacity.devices, settings.capacity.users, settings.capacity.each) == (5, 100, 96)


@pytest.mark.parametrize(
    ("address", "listen", "expected"),
    [
        ("127.0.0.1:7000", None, "127.0.0.1:7000"),
        ("films.example.org:7000", None, "0.0.0.0:7000"),
        ("films.example.org:443", "10.0.0.1:7000", "10.0.0.1:7000"),
    ],
)
def test_the_server_listens_where_devices_come(
    tmp_path: Path, address: str, listen: str | None, expected: str
) -> None:
    network = a_fleet(tmp_path, network={"address": address, "listen": listen}).network

    assert network.listening.text == expected


def test_more_than_half_of_the_witnesses_are_needed_where_no_number_is_given(tmp_path: Path) -> None:
    usual = a_fleet(tmp_path, boards={"witnesses": [A, B, C]}).boards.cosigners
    asked = a_fleet(tmp_path, boards={"witnesses": [A, B, C], "cosignatures": 3}).boards.cosigners

    assert usual is not None
    assert (len(usual.keys), usual.threshold) == (3, 2)
    assert asked is not None
    assert asked.threshold == 3
    assert a_fleet(tmp_path).boards.cosigners is None


@pytest.fixture
def fleet(tmp_path: Path) -> FleetSettings:
    return a_fleet(tmp_path)


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """The files of another fleet."""
    folder = tmp_path / "others"
    return vouched_pair(folder)


def refusal(fleet: FleetSettings) -> str:
    with pytest.raises(InputError) as error:
        require_credentials(fleet)
    return str(error.value)


def test_what_was_made_together_goes_together(fleet: FleetSettings) -> None:
    require_credentials(fleet)


@pytest.mark.parametrize("name", ["server.pem", "server.key", "authority.pem", "questions.key", "boards.key"])
def test_a_file_that_is_missing_or_something_else_is_named(fleet: FleetSettings, name: str) -> None:
    place = fleet.keys / name
    place.write_text("nothing of the kind\n")
    assert f"{place}" in refusal(fleet).partition(":")[0]

    place.unlink()
    told = refusal(fleet)
    assert told.startswith(f"{place} cannot be read (No such file or directory)")
    assert "fedboard fleet init" in told


def test_the_key_of_another_certificate_is_refused(fleet: FleetSettings, others: Path) -> None:
    shutil.copy(others / "server.key", fleet.keys / "server.key")

    assert "this private key belongs to another certificate; make a certificate with" in refusal(fleet)


def test_an_authority_that_did_not_sign_the_certificate_is_refused(
    fleet: FleetSettings, others: Path
) -> None:
    shutil.copy(others / "authority.pem", fleet.keys / "authority.pem")

    assert f"authority.pem does not vouch for {fleet.keys / 'server.pem'}" in refusal(fleet)


def test_a_key_behind_a_passphrase_is_refused_without_asking_for_it(fleet: FleetSettings) -> None:
    locked = ec.generate_private_key(ec.SECP384R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")
    )
    (fleet.keys / "server.key").write_bytes(locked)

    assert "in PEM form, without a passphrase" in refusal(fleet)


def test_a_signing_key_of_another_kind_is_refused(fleet: FleetSettings) -> None:
    shutil.copy(fleet.keys / "server.key", fleet.keys / "boards.key")

    assert "boards.key: boards are signed with Ed25519" in refusal(fleet)


@pytest.mark.parametrize(
    ("name", "told"),
    [("boards", "does not name the signing key"), ("questions", "of the root does not name this key")],
)
def test_a_signing_key_that_the_root_does_not_name_is_refused(
    fleet: FleetSettings, name: str, told: str
) -> None:
    for path in fleet.keys.glob(f"{name}.*"):
        path.unlink()
    write_pair(
        Ed25519PrivateKey.generate(), private=fleet.keys / f"{name}.key", public=fleet.keys / f"{name}.pub"
    )
    assert told in refusal(fleet)

    shutil.rmtree(fleet.keys / "roots")  # then readers have pinned the keys themselves
    require_credentials(fleet)


def test_a_certificate_that_has_expired_is_said_to_be_so(
    fleet: FleetSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = KeysFolder.of(fleet)
    for place in (keys.certificate, keys.key):
        place.unlink()
    monkeypatch.setattr(tls, "_SERVER_DAYS", -1)
    monkeypatch.setattr(tls, "_CLOCKS_APART", timedelta(days=5))
    make_server_certificate(
        keys.certificate, keys.key, authority=keys.authority, authority_key=keys.authority_key, names=()
    )

    assert "this certificate expired on" in refusal(fleet)


def test_features_that_a_fleet_names_are_on_its_first_board_and_with_its_server(tmp_path: Path) -> None:
    task = {"algorithm": "residual", "settings": {"rounds": 2}}
    settings = a_fleet(tmp_path, task=task)
    state, plain = StateFolder.of(settings), prepare(settings)
    assert plain.catalogue.features is None
    assert job_of(settings).features is None
    assert state.members.exists()

    settings = a_fleet(tmp_path, task=task, catalogue={"features": "catalogue.csv"})
    (state.run / "ledger.sqlite").touch()
    with pytest.raises(InputError, match="give the new one another state folder"):
        prepare(settings)
    (state.run / "ledger.sqlite").unlink()  # settings may change until the training begins
    told = prepare(settings)

    assert told.catalogue.features is not None
    assert told.catalogue.features.names == ("year", "genres: Comedy", "genres: Drama")
    assert told.digest != plain.digest
    assert job_of(settings).features == str(state.features)
    assert np.load(state.features).shape == (N_ITEMS, 3)


def test_a_training_may_follow_queries_and_queries_a_training(tmp_path: Path) -> None:
    queries = {"epsilon": 6.0}
    alone = a_fleet(tmp_path, privacy={"epsilon": None}, queries=queries)
    before = prepare(alone)

    trained = prepare(a_fleet(tmp_path, queries=queries))
    (StateFolder.of(alone).run / "ledger.sqlite").touch()

    assert before.digest != trained.digest
    assert prepare(alone).digest == trained.digest


def test_what_invitations_are_for_is_said_of_gateways_where_there_may_be_some(tmp_path: Path) -> None:
    """A certificate must not say that each device is one person's where one invitation may be for several."""
    people, gateways = a_fleet(tmp_path), a_fleet(tmp_path, members={"users": 8})

    assert "one person for one device, so that nobody is in a round twice" in who_takes_part(people)
    said = who_takes_part(gateways)
    assert "one person or a gateway of several, so that nobody who is behind one device alone is in" in said


def test_the_second_server_is_known_by_files_of_the_keys_folder(tmp_path: Path) -> None:
    settings = a_fleet(tmp_path, protocol={"name": "two-server", "helper": "helper.example:1"})
    keys = KeysFolder.of(settings)
    with pytest.raises(InputError, match="identity of the second server cannot be read there"):
        job_of(settings)

    keys.helper_identity.write_text("ab" * 32 + "\n")
    helper = job_of(settings).protocol.helper
    assert helper is not None
    assert (helper.address, helper.identity) == ("helper.example:1", "ab" * 32)
    assert (helper.authority, helper.token) == (keys.helper_authority, None)
    (keys.path / "helper.token").touch()
    with_token = job_of(settings).protocol.helper
    assert with_token is not None
    assert with_token.token == keys.path / "helper.token"


def test_vouched_devices_stand_in_a_list_of_the_keys_folder(tmp_path: Path) -> None:
    name = "secure-sum"
    plain = a_fleet(tmp_path, protocol={"name": name})
    vouched = a_fleet(tmp_path, protocol={"name": name, "settings": {"vouched_by": "0" * 64}})

    assert job_of(plain).protocol.roster is None
    assert job_of(vouched).protocol.roster == KeysFolder.of(vouched).roster


def test_devices_are_invited_to_a_name_that_the_certificate_is_for(tmp_path: Path) -> None:
    require_credentials(a_fleet(tmp_path))

    with pytest.raises(InputError, match=r"at films\.example.*keys renew .*--name films\.example"):
        require_credentials(a_fleet(tmp_path, network={"address": "films.example:8443"}))


def test_folders_are_their_owners_only_even_if_they_were_there_before(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state", "trial")
    before = os.umask(0o022)
    try:
        state.run.mkdir(parents=True)
        assert state.path.stat().st_mode & 0o077  # as a hand-made folder usually is
        state.make()
    finally:
        os.umask(before)

    folders = [state.path, *(path for path in state.path.rglob("*") if path.is_dir())]
    assert len(folders) == 3
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}


def test_further_board_keys_sign_beside_the_first(tmp_path: Path) -> None:
    for name in ("boards-b.key", "boards-a.key", "boards.pub", "other.key"):
        (tmp_path / name).touch()

    names = [path.name for path in KeysFolder(tmp_path).boards]

    assert names == ["boards.key", "boards-a.key", "boards-b.key"]
