"""``fleet.toml``: what is read, and what is refused with which words."""

import re
from pathlib import Path

import pytest

from fedboard.common.errors import InputError
from fedboard.common.keys.node_keys import make_node_key
from fedboard.common.privacy.adjacency import OF_TRAININGS, Adjacency
from fedboard.server.fleet.plan.job import Job
from fedboard.server.fleet.plan.settings import read_settings
from fedboard.server.run_spec import Promise, RoundPace

EXAMPLE = Path(__file__).parents[4] / "examples" / "fleet" / "fleet.toml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("gateway-a", "gateway-b", "ann"):
        make_node_key(tmp_path / name / "node.key", name=name)
    (tmp_path / "fleet.toml").write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path


def test_the_example_is_read_with_paths_relative_to_it(folder: Path) -> None:
    settings = read_settings(folder / "fleet.toml")

    assert settings.state == folder / "state"
    assert settings.network.certificate == folder / "keys" / "server.pem"
    assert [node.name for node in settings.nodes] == ["gateway-a", "gateway-b", "ann"]
    assert all(key.startswith("-----BEGIN PUBLIC KEY-----") for key in settings.public_keys)
    assert [node.max_users for node in settings.public_keys.values()] == [2000, 2000, 1]


def test_a_public_key_may_stand_in_the_file_itself(folder: Path) -> None:
    line = (folder / "ann" / "node.pub").read_text().strip()
    before = read_settings(folder / "fleet.toml").public_keys
    text = EXAMPLE.read_text(encoding="utf-8").replace('"ann/node.pub"', f'"{line}"')
    (folder / "fleet.toml").write_text(text, encoding="utf-8")

    assert list(read_settings(folder / "fleet.toml").public_keys) == list(before)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('name = "films"', 'name = "../films"', "name must be letters"),
        ("epsilon = 5.0 ", "epsilon = 0.0 ", "privacy.epsilon must be a finite number > 0"),
        ("delta = 1e-5", "delta = 1.0", "privacy.delta must be in (0, 1)"),
        (
            "delta = 1e-5",
            'delta = 1e-5\nadjacency = "replace-labels"',
            "privacy.adjacency must be add-remove or replace",
        ),
        ("quorum = 2", "quorum = 4", "rounds.quorum must be in [1, expected_nodes]"),
        ("expected_nodes = 3", "expected_nodes = 4", "at most the number of [[nodes]]"),
        ("superlink_port = 8444", "superlink_port = 8443", "ports must differ"),
        (
            "superlink_port = 8444",
            "max_megabytes_per_minute = 63",
            "max_megabytes_per_minute must be >= network.max_request_megabytes",
        ),
        ("[network]", "[board]\nmetrics_port = 8443\n[network]", "ports must differ"),
        (
            "deadline_seconds = 60.0",
            "deadline_seconds = 1e7",
            "rounds.deadline_seconds must be in (0, 1000000)",
        ),
        ("poll_seconds = 0.1", "grace_seconds = -3", "rounds.grace_seconds must be in (0, 1000000)"),
        ("poll_seconds = 0.1", "resend_seconds = 0", "rounds.resend_seconds must be in (0, 1000000)"),
        ('"ann/node.pub"', '"ann/node.pub"\nmax_users = 16777216', "must add to at most 16777216"),
        ("port = 8443", "prot = 8443", "unknown key 'prot'"),
        ("[1.0, 5.0]", "[5.0, 1.0]", "task.rating_range must be LOW < HIGH"),
        ("max_users = 2000", "max_users = 0", "nodes.max_users must be >= 1"),
        ('name = "gateway-b"', 'name = "gateway-a"', "nodes.name must be given once each"),
        ("poll_seconds = 0.1", "poll_seconds = 0.0", "rounds.poll_seconds must be in [0.01, 60]"),
        ('name = "trusted"', 'name = "two-server"', "protocol.helper is needed for two-server"),
        ('name = "trusted"', "step_seconds = 61", "step_seconds must be in (0, rounds.deadline_seconds]"),
        ('name = "trusted"', "steps = 3", "unknown key 'steps'"),
        (
            '[protocol]\nname = "trusted"',
            'form = "dense"\n[protocol]\nname = "local"',
            "rounds.form is of protocol trusted alone",
        ),
        ("[privacy]", "[privacy", "not valid TOML"),
        ('"ann/node.pub"', '"bob/node.pub"', "the public_key of 'ann' cannot be read"),
    ],
)
def test_a_mistake_is_named(folder: Path, old: str, new: str, told: str) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert old in text
    (folder / "fleet.toml").write_text(text.replace(old, new), encoding="utf-8")

    with pytest.raises(InputError, match=re.escape(told)):
        read_settings(folder / "fleet.toml")


def test_two_nodes_cannot_share_a_key(folder: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace("ann/node.pub", "gateway-a/node.pub")
    (folder / "fleet.toml").write_text(text, encoding="utf-8")

    with pytest.raises(InputError, match="'ann' has the same public_key as 'gateway-a'"):
        _ = read_settings(folder / "fleet.toml").public_keys


def test_a_key_of_another_kind_is_refused(folder: Path) -> None:
    (folder / "ann" / "node.pub").write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBad ann\n")

    with pytest.raises(InputError, match="public_key of 'ann'"):
        _ = read_settings(folder / "fleet.toml").public_keys


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_job_promises_only_what_covers_all_that_a_user_gives(adjacency: Adjacency) -> None:
    def made() -> Job:
        return Job(
            folder="f",
            first_board="b",
            question_key="k",
            privacy=Promise(epsilon=1.0, delta=1e-5, adjacency=adjacency),
            rounds=RoundPace(expected_nodes=1, quorum=1),
        )

    if adjacency in OF_TRAININGS:
        assert made().privacy.adjacency is adjacency
    else:
        with pytest.raises(ValueError, match="adjacency must be add-remove or replace"):
            made()


@pytest.mark.parametrize(("board", "holds"), [('enabled = true\nsigning_key = "k"\n', True), ("", False)])
def test_witnesses_need_boards_that_are_handed_out(folder: Path, board: str, holds: bool) -> None:
    witnesses = f'{board}witnesses = ["{"ab" * 32}"]'
    text = EXAMPLE.read_text(encoding="utf-8").replace("[network]", f"[board]\n{witnesses}\n\n[network]")
    (folder / "fleet.toml").write_text(text, encoding="utf-8")

    if holds:
        assert read_settings(folder / "fleet.toml").board.witnesses == ("ab" * 32,)
        return
    with pytest.raises(InputError, match=r"board\.witnesses needs board\.enabled"):
        read_settings(folder / "fleet.toml")


@pytest.mark.parametrize(("told", "refused"), [("", True), ("simulation = true\n", False)])
def test_boards_of_seeded_noise_are_handed_out_only_if_told(folder: Path, told: str, refused: bool) -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace('noise = "secure"', 'noise = "seeded"')
    board = f'[board]\nenabled = true\nsigning_key = "keys/board.key"\n{told}\n[network]'
    (folder / "fleet.toml").write_text(text.replace("[network]", board), encoding="utf-8")

    if not refused:
        assert read_settings(folder / "fleet.toml").board.simulation
        return
    with pytest.raises(InputError, match=r"board\.simulation must be true"):
        read_settings(folder / "fleet.toml")
