"""A device's page: what was given, refused and is left, from its own record; nothing of its owner's ratings."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fedboard.client.answering.rounds import RatingSource
from fedboard.client.device.config import DeviceConfig, load_device
from fedboard.client.device.ledger import AnsweredBoard
from fedboard.client.device.live_source import REASONS, DeviceSource, limits_of, live_key
from fedboard.client.device.new_device import make_device
from fedboard.client.device.policy import Policy
from fedboard.client.ratings.store import OwnRating, RatingStore
from fedboard.common.errors import InputError
from fedboard.common.wire.refusals import Refusal
from tests.common.tasks.conftest import a_task

PLAN = a_task(epsilon=5.0).plan()
HER_ITEMS = ("item-17031", "item-17033", "item-17037")
NOTHING: Mapping[str, Any] = {"server": "films.example.org:8443", "asked": 0}


@pytest.fixture
def config(tmp_path: Path) -> DeviceConfig:
    """A device with three ratings that has answered nothing."""
    config = load_device(make_device(tmp_path / "ann", epsilon=8.0, delta=1e-5, adjacency="add-remove"))
    assert config.ratings.store is not None
    with RatingStore.open(config.ratings.store) as store:
        store.put([OwnRating(item=item, rating=2.71828) for item in HER_ITEMS])
    return config


def answering(config: DeviceConfig) -> None:
    """She answered the first round of a run, and refused two questions."""
    about = AnsweredBoard(round=0, board="b" * 64, terms="t" * 64)
    with config.open_ledger() as ledger:
        ledger.admit("movies", PLAN[0], scale=0.5, about=about)
    refusals = config.refusals()
    for code in (Refusal.OVER_LIMIT, Refusal.NOT_PRIVATE, Refusal.OVER_LIMIT):
        refusals.add(code)


def test_a_device_that_gave_nothing_has_all_of_its_limit_left(config: DeviceConfig) -> None:
    state = DeviceSource(config=config, tally=lambda: NOTHING).read()

    assert (state["name"], state["state"]) == ("ann", "running")
    assert (state["budget"]["spent"], state["budget"]["left"], state["budget"]["delta"]) == (0.0, 8.0, 1e-5)
    assert state["runs"] == state["given"] == state["refused"] == []
    assert state["asked"] == NOTHING


def test_what_was_given_and_refused_is_told_as_soon_as_it_is_written(config: DeviceConfig) -> None:
    tally = dict(NOTHING)
    source = DeviceSource(config=config, tally=lambda: tally)
    source.read()
    before = source.signature()
    answering(config)

    state = source.read()

    assert source.signature() != before
    with config.open_ledger(read_only=True) as ledger:
        assert state["budget"]["spent"] == ledger.spent().epsilon > 0
    (run,) = state["runs"]
    assert (run["run"], list(run["rounds"]), run["releases"], run["scale"]) == (
        "movies",
        [0],
        len(PLAN[0]),
        0.5,
    )
    assert [one["release"] for one in state["given"]] == [request.name for request in PLAN[0]]
    assert [(one["code"], one["times"]) for one in state["refused"]] == [
        ("not-private", 1),
        ("over-limit", 2),
    ]
    assert state["refused"][1]["told"] == "it would take you beyond your limit"
    tally["asked"] = 3
    assert source.signature() != before


def test_nothing_of_her_ratings_is_told_and_the_store_is_not_even_opened(
    config: DeviceConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(config)

    def opened(*_: object, **__: object) -> RatingSource:
        raise AssertionError("her ratings were opened")

    monkeypatch.setattr(RatingStore, "open", opened)
    monkeypatch.setattr(DeviceConfig, "open_source", opened)

    state = DeviceSource(config=config, tally=lambda: NOTHING).read()

    told = json.dumps(state)
    assert state["runs"]
    assert not [item for item in (*HER_ITEMS, "2.71828", "n_ratings") if item in told]


def test_a_damaged_record_is_a_state_and_no_crash(config: DeviceConfig) -> None:
    answering(config)
    config.ledger.write_bytes(b"not a ledger")

    state = DeviceSource(config=config, tally=lambda: NOTHING).read()

    assert state["state"] == "unreadable"
    assert "ledger.sqlite" in state["told"]


def test_every_code_has_its_words() -> None:
    assert set(REASONS) == set(Refusal)


def test_limits_are_those_of_the_policy_in_words() -> None:
    policy = Policy(epsilon=1.0, runs=("films-*", "books"), seeded_noise=True, least_noise=1.5)

    told = {one["name"]: one["value"] for one in limits_of(policy)}

    assert told["runs that may ask"] == "films-*, books"
    assert told["tasks that may be asked"] == "any"
    assert told["second server that is relied on"] == "none"
    assert told["most epsilon for one run"] == "the whole limit"
    assert told["takes simulations, which are not private"] == "yes"
    assert told["least noise multiplier of a release"] == "1.5"


def test_the_key_of_the_page_is_its_owners_alone_and_stays_the_same(config: DeviceConfig) -> None:
    key = live_key(config)

    path = config.state / "live.key"
    assert live_key(config) == key
    assert len(key) >= 40
    assert path.stat().st_mode & 0o777 == 0o600
    assert config.state.stat().st_mode & 0o777 == 0o700
    path.write_text("short")
    with pytest.raises(InputError, match="no key of a live page"):
        live_key(config)
