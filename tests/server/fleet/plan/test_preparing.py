"""From ``fleet.toml`` to board 0: the catalogue that devices will read."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.common.keys.node_keys import make_node_key
from fedboard.server.fleet.plan.job import Job
from fedboard.server.fleet.plan.preparing import prepare, who_takes_part
from fedboard.server.fleet.plan.settings import read_settings
from fedboard.server.fleet.plan.state_folder import StateFolder
from tests.server.fleet.opened import a_fleet

EXAMPLE = Path(__file__).parents[4] / "examples" / "fleet" / "fleet.toml"
N_ITEMS = 30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("gateway-a", "gateway-b", "ann"):
        make_node_key(tmp_path / name / "node.key", name=name)
    films = [f"{n},Film {n} ({1950 + n}),{('Drama', 'Comedy')[n % 2]}" for n in range(N_ITEMS)]
    (tmp_path / "films.csv").write_text("movieId,title,genres\n" + "\n".join(films))
    return tmp_path


def settings_with(folder: Path, features: str) -> Path:
    text = EXAMPLE.read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("file = "))
    path = folder / "fleet.toml"
    path.write_text(text.replace(line, f'file = "films.csv"\n{features}'), encoding="utf-8")
    return path


def test_features_that_a_fleet_names_are_on_its_first_board_and_with_its_server(folder: Path) -> None:
    plain = prepare(read_settings(settings_with(folder, "")))
    state = StateFolder.of(read_settings(folder / "fleet.toml"))
    assert plain.catalogue.features is None
    assert Job.load(state.job).features is None

    with pytest.raises(InputError, match="give the new one another state folder"):
        prepare(read_settings(settings_with(folder, 'features = "films.csv"')))
    state.first_board.unlink()
    told = prepare(read_settings(folder / "fleet.toml"))

    assert told.catalogue.features is not None
    assert told.catalogue.features.names == ("year", "genres: Comedy", "genres: Drama")
    assert told.digest != plain.digest
    assert Job.load(state.job).features == str(state.features)
    assert np.load(state.features).shape == (N_ITEMS, 3)


def test_what_invitations_are_for_is_said_of_gateways_where_there_may_be_some(tmp_path: Path) -> None:
    """A certificate must not say that each device is one person's where one invitation may be for several."""
    gateways = a_fleet(tmp_path)
    assert gateways.enrolment is not None
    alone = msgspec.structs.replace(gateways.enrolment, max_users_per_device=1)
    people = msgspec.structs.replace(gateways, enrolment=alone)

    assert "one person for one device, so that nobody is in a round twice" in who_takes_part(people)
    said = who_takes_part(gateways)
    assert "one person or a gateway of several, so that nobody who is behind one device alone is in" in said
