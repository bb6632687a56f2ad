"""A private choice as a whole: one promise for all of it, recomputed from its ledger, and no noise drawn twice."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.errors import BudgetExceededError, InputError, PrivacyError
from fedboard.common.privacy.accounting.exact import delta_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.server import round as round_module
from fedboard.server.publication import BoardStore
from fedboard.simulations.config import overlay, parse_config
from fedboard.simulations.runs.directory import Part
from fedboard.simulations.simulate import simulate
from fedboard.simulations.tuning import private_run as run_module
from fedboard.simulations.tuning.private_plan import CHOICE_SHARE, PrivateTuneRecord
from fedboard.simulations.tuning.private_run import (
    LEDGER,
    PrivateTuneResult,
    read_private_record,
    start_tuning,
    tune_privately,
)
from tests.simulations.tuning.private_choices import DELTA, EPSILON, PARTS, planned, tiny, tuned

pytestmark = pytest.mark.slow


def booked(out: Path) -> list[dict[str, Any]]:
    with Ledger.open(out / LEDGER, read_only=True) as ledger:
        return ledger.events()


def mu_squared(events: list[dict[str, Any]]) -> float:
    """From bound, sign and adjacency alone, whatever sensitivity and multiplier the events state."""
    total = 0.0
    for event in events:
        worst = {"add-remove": 1.0, "replace": math.sqrt(2) if event["same_sign"] else 2.0}[
            event["adjacency"]
        ]
        total += (event["l2_bound"] * worst / event["noise_stddev"]) ** 2
    return total


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[PrivateTuneResult, Path]:
    """A finished private choice with noise that nobody can repeat. To be read only."""
    out = tmp_path_factory.mktemp("finished") / "tune"
    return tuned(tiny(privacy={"noise": "secure"}), out), out


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_everything_that_is_booked_costs_what_is_promised(
    adjacency: str, finished: tuple[PrivateTuneResult, Path], tmp_path: Path
) -> None:
    out = finished[1]
    if adjacency == "replace":
        tuned(tiny(privacy={"adjacency": adjacency}), out := tmp_path / "tune")
    events = booked(out)

    spent = mu_squared(events)

    assert delta_of(EPSILON, mu=math.sqrt(spent)) == pytest.approx(DELTA, rel=1e-6)
    assert list(dict.fromkeys(event["name"].partition("/")[0] for event in events)) == list(PARTS)
    without = mu_squared([event for event in events if not event["name"].startswith("choice/")])
    assert without == pytest.approx((1 - CHOICE_SHARE) * spent, rel=1e-9)
    assert delta_of(EPSILON, mu=math.sqrt(without)) < 0.9 * DELTA
    halved = [
        event | ({"l2_bound": event["l2_bound"] / 2} if event["name"].startswith("choice/") else {})
        for event in events
    ]
    assert delta_of(EPSILON, mu=math.sqrt(mu_squared(halved))) < 0.95 * DELTA


def test_every_board_claims_the_whole_and_can_be_checked(finished: tuple[PrivateTuneResult, Path]) -> None:
    result, out = finished
    boards = [Board.load(path) for path in sorted(out.glob("**/board-*.board"))]

    certificates = [Certificate.from_dict(dict(board.certificate or {})) for board in boards]

    assert len(certificates) == 3 * 3 + 2 + 3
    for certificate in certificates:
        assert certificate.holds
        assert certificate.claim.epsilon == EPSILON
        assert not certificate.planned  # what the final run releases follows from the choice
    last = result.final.certificate
    assert [dict(event) for event in last.releases] == booked(out)
    assert last.private
    (said,) = [sentence for sentence in last.assumptions if "candidates" in sentence]
    assert "(1) settings.item_ridge = 9" in said
    assert result.chosen.sentence in said
    assert "public constant" in said


def test_what_was_chosen_is_told_with_costs(finished: tuple[PrivateTuneResult, Path]) -> None:
    result, out = finished
    told = msgspec.json.decode((out / "chosen.json").read_bytes())

    assert told == msgspec.json.decode(msgspec.json.encode(result.chosen))
    assert [cost["part"] for cost in told["costs"]] == list(PARTS)
    assert math.fsum(cost["share"] for cost in told["costs"]) == pytest.approx(1, abs=1e-12)
    for trial in out.glob("trials/*"):  # no held-out metric of a trial: that would be a release of its own
        assert {path.name for path in trial.iterdir()} == {"boards", "ledger.sqlite"}


class StoppedError(Exception):
    """Where the process ends."""


def test_one_that_is_stopped_after_every_part_and_resumed_draws_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, out = planned(tiny(privacy={"noise": "secure"})), tmp_path / "tune"
    start_tuning(record, out)
    seen: dict[str, bytes] = {}
    news: list[str] = []

    def stop(told: str) -> None:
        if told not in news:
            news.append(told)
            raise StoppedError

    for _ in range(4):
        with pytest.raises(StoppedError):
            tune_privately(read_private_record(out), out, on_news=stop, report=False)
        boards = {str(path): path.read_bytes() for path in out.glob("**/board-*.board")}
        assert seen.items() <= boards.items()
        seen = boards
    result = tune_privately(read_private_record(out), out, on_news=stop, report=False)

    events = booked(out)
    assert set(Counter(event["name"] for event in events).values()) == {1}
    assert delta_of(EPSILON, mu=math.sqrt(mu_squared(events))) == pytest.approx(DELTA, rel=1e-6)
    assert all(Path(path).read_bytes() == content for path, content in seen.items())
    assert result.final.certificate.holds


@pytest.mark.parametrize(
    ("part", "version", "release"), [("choice", 1, "choice/losses"), ("trial-1", 2, "trial-1/round-1/linear")]
)
def test_what_was_paid_for_and_lost_is_not_released_again(
    part: str, version: int, release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, out = planned(tiny(privacy={"noise": "secure"})), tmp_path / "tune"
    start_tuning(record, out)
    publish = BoardStore.publish

    def crash(store: BoardStore, board: Board, *given: Any, **more: Any) -> Board:
        if store.folder.parent.name == part and board.version == version:
            raise StoppedError
        return publish(store, board, *given, **more)

    monkeypatch.setattr(BoardStore, "publish", crash)
    with pytest.raises(StoppedError):
        tune_privately(record, out, report=False)
    monkeypatch.setattr(BoardStore, "publish", publish)
    assert booked(out)[-1]["name"] == release

    result = tune_privately(record, out, report=False)

    assert (result.chosen.losses is None) == (part == "choice")
    if part == "choice":
        assert result.chosen.number == 0  # the shipped settings
    names = [event["name"] for event in booked(out)]
    assert len(names) == len(set(names))
    assert result.final.certificate.claim.epsilon == EPSILON


def test_with_a_seed_it_repeats_bit_for_bit_and_parts_share_no_noise(tmp_path: Path) -> None:
    results = [tuned(tiny(), tmp_path / name) for name in ("one", "two")]

    assert results[0].final.board.digest == results[1].final.board.digest
    assert results[0].chosen == results[1].chosen
    assert not results[0].final.certificate.private
    # Trial 0 alone, as a run by itself with the same seed: the same sums, other noise.
    alone = simulate(results[0].record.trial(0), tmp_path / "alone", report=False)
    trial = BoardStore(tmp_path / "one" / "trials" / "trial-0" / "boards").latest()
    assert alone.board.arrays["mean"][0] != trial.arrays["mean"][0]


def test_a_candidate_that_is_better_beyond_the_noise_is_trained_with(tmp_path: Path) -> None:
    noisy = {"epsilon": 20.0, "shares": {"mean": 1e-9}}  # its mean is noise alone
    drowned = tiny(seed=2, privacy=noisy, settings={"mean_cap": 15.0})
    candidates = ({"privacy.shares.mean": 2e-9}, {"privacy.shares.mean": 0.3})

    result = tuned(drowned, tmp_path / "tune", candidates=candidates)

    assert result.chosen.number == 2
    assert result.chosen.losses is not None
    assert result.chosen.losses[1] < -2 * result.chosen.stddev
    planned_mean = result.record.final(2).privacy.shares["mean"]
    assert planned_mean == 0.3
    (mean,) = [event for event in booked(tmp_path / "tune") if event["name"] == "final/mean/sum"]
    (drowning,) = [event for event in booked(tmp_path / "tune") if event["name"] == "trial-0/mean/sum"]
    assert mean["noise_multiplier"] < drowning["noise_multiplier"] / 1000


def test_a_part_is_not_paid_for_by_the_releases_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, out = planned(tiny()), tmp_path / "tune"
    start_tuning(record, out)
    monkeypatch.setattr(round_module, "_paid", lambda request, part: request.release)

    with pytest.raises(PrivacyError, match=r"its releases trial-0/mean/sum.* are not in the ledger"):
        tune_privately(record, out, report=False)


def test_a_part_that_would_cost_more_than_its_share_releases_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, out = planned(tiny()), tmp_path / "tune"
    start_tuning(record, out)
    monkeypatch.setattr(PrivateTuneRecord, "choice_noise", property(lambda _: 1.0))

    with pytest.raises(BudgetExceededError, match="the plan of choice is refused"):
        tune_privately(record, out, report=False)

    assert not [event for event in booked(out) if event["name"].startswith("choice/")]


def test_without_its_ledger_nothing_goes_on(tmp_path: Path) -> None:
    record, out = planned(tiny()), tmp_path / "tune"
    start_tuning(record, out)
    (out / LEDGER).unlink()

    with pytest.raises(PrivacyError, match="the ledger that pays for everything here is not there"):
        tune_privately(record, out, report=False)
    assert not list(out.glob("**/board-*.board"))


def account(folder: Path, epsilon: float) -> Path:
    path = folder / "people.sqlite"
    with Population.create(path, Budget(epsilon=epsilon, delta=DELTA, adjacency=Adjacency.ADD_REMOVE)):
        return path


def test_the_account_of_the_users_keeps_room_for_all_of_it_from_the_start(tmp_path: Path) -> None:
    people = account(tmp_path, 6.0)
    record = planned(tiny(privacy={"population": str(people), "noise": "secure"}))
    start_tuning(record, tmp_path / "tune")
    with Population.open(people, read_only=True) as opened:
        assert opened.cost(reserved=False) == 0
        assert opened.cost(reserved=True) == pytest.approx(EPSILON, rel=1e-9)
    with pytest.raises(BudgetExceededError):  # 6 has room for one of them
        start_tuning(record, tmp_path / "another")
    assert not (tmp_path / "another").exists()
    with pytest.raises(BudgetExceededError):  # nor for an ordinary run while it is under way
        simulate(tiny(privacy={"population": str(people)}), tmp_path / "run", report=False)

    def stop(told: str) -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        tune_privately(record, tmp_path / "tune", on_news=stop, report=False)
    with Population.open(people, read_only=True) as opened:
        assert 0 < opened.cost(reserved=False) < EPSILON
        assert opened.cost(reserved=True) == pytest.approx(EPSILON, rel=1e-9)

    result = tune_privately(read_private_record(tmp_path / "tune"), tmp_path / "tune", report=False)

    total = result.final.certificate.population
    assert total is not None
    assert total.budget == 6.0
    assert total.spent == pytest.approx(EPSILON, rel=1e-6)
    with Population.open(people, read_only=True) as opened:
        (member,) = opened.members()
        assert member.closed
        assert [dict(event) for event in member.booked.values()] == booked(tmp_path / "tune")
        assert opened.cost(reserved=True) == opened.cost(reserved=False)


def test_the_run_of_a_part_is_not_continued_by_itself(finished: tuple[PrivateTuneResult, Path]) -> None:
    result, out = finished

    with pytest.raises(PrivacyError, match="made for another budget or plan"):
        simulate(result.record.final(result.chosen.number), out / run_module.FINAL, resume=True, report=False)


def test_a_part_is_never_paid_for_elsewhere(tmp_path: Path) -> None:
    record, out = planned(tiny()), tmp_path / "tune"
    start_tuning(record, out)
    part = Part(ledger=out / LEDGER, budget=record.config.promise.budget, name="final")
    config = parse_config(overlay(msgspec.to_builtins(record.final(0)), {"run": {"runtime": "in-process"}}))

    with pytest.raises(InputError, match=r"need run\.runtime 'engine'"):
        simulate(config, out / "final", report=False, part=part)

    assert not (out / "final").exists()
