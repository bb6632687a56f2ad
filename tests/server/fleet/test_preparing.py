"""From fleet.toml to board 0, the job, the register and the folders: what devices will read, and who may join."""

import os
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.server.fleet.credentials import require_credentials
from fedboard.server.fleet.job import job_of, prepare, who_takes_part
from fedboard.server.fleet.state_folder import KeysFolder, StateFolder
from tests.server.fleet.made import N_ITEMS, a_fleet


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
