"""``fedboard keys``, and the server's command as far as it goes without devices."""

import csv
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fedboard.cli.main import commands
from fedboard.common.board import Board

EXAMPLE = Path(__file__).parents[2] / "examples" / "fleet" / "fleet.toml"


def fedboard(*words: object) -> Result:
    return CliRunner().invoke(commands, [str(word) for word in words])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    keys = tmp_path / "keys"
    assert fedboard("keys", "authority", "--out", keys, "--name", "films").exit_code == 0
    assert fedboard("keys", "server", "--out", keys, "--name", "fleet.example.org").exit_code == 0
    assert fedboard("keys", "board", "--out", keys).exit_code == 0
    for name in ("gateway-a", "gateway-b", "ann"):
        assert fedboard("keys", "node", "node", "--out", tmp_path / name).exit_code == 0
    (tmp_path / "fleet.toml").write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    with (tmp_path / "catalogue.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("item", "title"), *((f"i{n}", f"Film {n}") for n in range(60))])
    return tmp_path


def test_keys_come_with_the_right_modes_and_are_not_overwritten(folder: Path) -> None:
    for private in ("authority.key", "server.key", "board-signing.key"):
        assert stat.S_IMODE((folder / "keys" / private).stat().st_mode) == 0o600
    before = (folder / "ann" / "node.key").read_bytes()

    again = fedboard("keys", "node", "node", "--out", folder / "ann")

    assert again.exit_code == 2
    assert "is there already" in again.stderr
    assert (folder / "ann" / "node.key").read_bytes() == before


def test_check_makes_board_0_and_says_what_it_promises(folder: Path) -> None:
    checked = fedboard("server", "--config", folder / "fleet.toml", "--check")

    assert checked.exit_code == 0, checked.stderr
    assert "residual over 60 items, epsilon 5 at delta 1e-05" in checked.stdout
    assert "secure noise, 3 nodes admitted" in checked.stdout
    board = Board.load(folder / "state" / "first.board")
    assert board.version == 0
    assert board.catalogue.titles is not None
    assert board.catalogue.titles[7] == "Film 7"
    assert fedboard("server", "--config", folder / "fleet.toml", "--check").exit_code == 0


def test_another_training_is_not_laid_over_the_one_that_is_there(folder: Path) -> None:
    config = folder / "fleet.toml"
    assert fedboard("server", "--config", config, "--check").exit_code == 0
    config.write_text(config.read_text().replace("epsilon = 5.0", "epsilon = 1.0"))

    refused = fedboard("server", "--config", config, "--check")

    assert refused.exit_code == 2
    assert "another state folder" in refused.stderr


def test_a_device_that_names_no_server_has_nobody_to_ask(tmp_path: Path) -> None:
    assert fedboard("ratings", "init", tmp_path, "--epsilon", "3").exit_code == 0

    refused = fedboard("client", "--config", tmp_path / "device.toml")

    assert refused.exit_code == 2
    assert "no [server] is given" in refused.stderr
