"""The sections that a fleet's settings, a job and a simulation share: one sentence each, wherever it was read."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedboard.common.checks import sentence_of
from fedboard.common.contribution_bounding.participation import FullParticipation, PoissonParticipation
from fedboard.common.errors import InputError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget
from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise
from fedboard.server.fleet.settings import read_settings
from fedboard.server.run_spec import (
    Promise,
    ProtocolChoice,
    require_rows,
)
from fedboard.simulations.config import parse_config
from tests.server.fleet.made import write_fleet

WRONG_PROMISES: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": 0.0}, "privacy.epsilon must be a finite number > 0, got 0.0"),
    (
        {"delta": 1.0},
        "privacy.delta must be in (0, 1), got 1.0; usual is less than one over the number of users",
    ),
    (
        {"adjacency": "replace-values"},
        "privacy.adjacency must be add-remove or replace for a training, got 'replace-values'",
    ),
]
WRONG_NOISE = ({"noise": "none"}, "privacy.noise must be 'secure' or 'seeded', got 'none'")
DRAWN: list[dict[str, Any]] = [
    {"adjacency": "add-remove", "participation": {"kind": "poisson", "probability": 0.5}},
    {"adjacency": "replace", "participation": {"kind": "fixed-size", "size": 20}},
    {"adjacency": "replace", "participation": {"kind": "shuffled-cohorts", "cohorts": 2}},
]


def of_fleet(folder: Path, privacy: dict[str, Any]) -> None:
    read_settings(write_fleet(folder, privacy={"seed": None, **privacy}))


def of_simulation(folder: Path, privacy: dict[str, Any]) -> None:
    parse_config({"privacy": privacy}, source=str(folder / "simulation.toml"))


@pytest.mark.parametrize(
    ("read", "wrong", "sentence"),
    [(read, *wrong) for read in (of_fleet, of_simulation) for wrong in WRONG_PROMISES]
    + [(read, *WRONG_NOISE) for read in (of_simulation,)],
    ids=lambda value: getattr(value, "__name__", str(value)[:25]),
)
def test_a_promise_is_refused_in_the_same_words_wherever_it_stands(
    tmp_path: Path, read: Any, wrong: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, wrong)

    path, _, told = str(refused.value).partition(": ")
    assert told == sentence
    assert Path(path).parent == tmp_path


@pytest.mark.parametrize("privacy", DRAWN, ids=lambda privacy: privacy["participation"]["kind"])
@pytest.mark.parametrize("protocol", ["secure-sum", "distributed-dp", "two-server", "local"])
def test_who_is_drawn_is_drawn_where_somebody_sees_rows(privacy: dict[str, Any], protocol: str) -> None:
    kind = privacy["participation"]["kind"]
    says = f"participation {kind!r} draws who takes part among rows, and protocol {protocol!r} shows none"
    promise = msgspec.convert({"epsilon": 5.0, **privacy}, Promise)

    with pytest.raises(InputError, match=re.escape(says)):
        require_rows(promise, ProtocolChoice(name=protocol))
    with pytest.raises(InputError, match=re.escape(says)):
        parse_config({"privacy": privacy, "run": {"protocol": protocol}})
    require_rows(promise, ProtocolChoice())


def test_a_simulation_promises_what_its_sections_say() -> None:
    privacy = {"epsilon": 2.0, "participation": {"kind": "poisson", "probability": 0.25}, "population": "p"}
    config = parse_config({"seed": 4, "privacy": {**privacy, "lineage": "l"}})

    promise = config.promise

    assert (promise.population, promise.lineage) == ("p", "l")
    assert promise.budget == Budget(epsilon=2.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    assert promise.participation.chosen == PoissonParticipation(0.25)
    assert promise.noise_source == SeededNoise(4)


def test_every_field_of_a_promise_is_taken_from_a_simulation_s_configuration() -> None:
    """A field that is added to the promise and forgotten here would silently have its default."""
    other: dict[str, Any] = {
        "epsilon": 2.0,
        "delta": 1e-6,
        "adjacency": "replace",
        "noise": "seeded",
        "participation": {"kind": "fixed-size", "size": 5},
        "population": "p",
        "lineage": "l",
    }
    promise, usual = parse_config({"seed": 4, "privacy": other}).promise, Promise(epsilon=5.0)

    assert [
        name for name in Promise.__struct_fields__ if getattr(promise, name) == getattr(usual, name)
    ] == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"seed": -1}, "seed must be a whole number >= 0"),
        ({"lineage": "a"}, r"give privacy\.population too"),
        ({"participation": {"kind": "poisson", "probability": 1.5}}, "probability"),
        ({"participation": {"kind": "poisson", "probability": 0.5, "size": 3}}, "'poisson' has no size"),
        ({"participation": DRAWN[0]["participation"], "adjacency": "replace"}, "'add-remove' only"),
        ({"participation": DRAWN[1]["participation"]}, "a user more takes the place of another"),
    ],
)
def test_a_promise_that_cannot_be_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        msgspec.convert({"epsilon": 5.0, **wrong}, Promise)


def test_a_fleet_is_promised_secret_noise_unless_told_otherwise() -> None:
    promise = Promise(epsilon=1.0)

    assert isinstance(promise.noise_source, SecureNoise)
    assert promise.participation.chosen == FullParticipation()


@pytest.mark.parametrize("more", ["population", "lineage", "participation", "noise"])
def test_a_fleet_cannot_promise_what_it_does_not_do(tmp_path: Path, more: str) -> None:
    with pytest.raises(InputError, match=f"privacy: unknown key '{more}'"):
        of_fleet(tmp_path, {more: "people"})


def test_the_reader_s_own_words_are_kept_where_no_section_spoke() -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert({"epsilon": "much"}, Promise)

    assert sentence_of(refused.value, Promise) == "epsilon must be a number, got a text"
