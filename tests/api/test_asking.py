"""One private question from Python: the answer, who pays, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

import fedboard

USERS = np.repeat(np.arange(300), 6)
ITEMS = np.tile(np.arange(6), 300)
RATED = 1.0 + (USERS + ITEMS) % 5
PEOPLE = (USERS, ITEMS, RATED)


def spent(ledger: Path) -> float:
    with fedboard.Ledger.open(ledger, read_only=True) as opened:
        return opened.spent().epsilon


def test_an_answer_is_near_the_truth_booked_and_certified(tmp_path: Path) -> None:
    ledger = tmp_path / "questions.ledger"

    reply = fedboard.ask("mean", PEOPLE, epsilon=0.5, ledger=ledger, budget=1.0, rating_range=(1, 5))

    assert (
        float(reply) == reply.value == pytest.approx(RATED.mean(), abs=1.0)
    )  # 300 users: deviation below 0.1
    assert reply.interval is not None
    assert reply.interval[0] <= reply.value <= reply.interval[1]
    assert fedboard.verify(reply.certificate)
    assert reply.certificate.claim.epsilon == pytest.approx(1.0)
    assert spent(ledger) == pytest.approx(0.5)
    assert "\n" not in repr(reply)
    assert "epsilon 0.5, 0.5 of 1 spent" in repr(reply)
    assert "private: no seed reproduces" in repr(reply)
    assert "<table" in reply._repr_html_()


def test_a_seed_gives_the_answer_of_the_command_line_and_is_not_private(tmp_path: Path) -> None:
    asked = {
        "epsilon": 0.5,
        "of": "counts",
        "share": 0.9,
        "budget": 1.0,
        "rating_range": (1, 5),
        "noise": "seeded",
        "seed": 7,
    }
    first = fedboard.ask("quantile", PEOPLE, ledger=tmp_path / "a", **asked)
    again = fedboard.ask("quantile", PEOPLE, ledger=tmp_path / "b", **asked)

    assert first.value == again.value
    assert first.rank_error is not None
    assert not fedboard.verify(first.certificate)
    assert "NOT PRIVATE" in repr(first)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({}, "who pays"),
        ({"ledger": "new.ledger"}, "budget"),
        ({"ledger": "new.ledger", "budget": 1.0, "of": "titles"}, "of must be ratings, counts or norms"),
        ({"ledger": "new.ledger", "budget": 1.0, "mechanism": "none"}, "mechanism must be auto"),
        ({"ledger": "new.ledger", "budget": 1.0, "adjacency": "friends"}, "adjacency must be one of"),
        ({"ledger": "new.ledger", "budget": 1.0, "seed": 3}, "secure noise has no seed"),
        ({"ledger": "new.ledger", "budget": 1.0, "noise": "none"}, "seeded"),
        ({"ledger": "new.ledger", "budget": 1.0, "epsilon": -1.0}, "epsilon"),
    ],
)
def test_what_cannot_be_used_is_said(wrong: dict[str, object], told: str, tmp_path: Path) -> None:
    if "ledger" in wrong:
        wrong = {**wrong, "ledger": tmp_path / str(wrong["ledger"])}

    with pytest.raises(fedboard.errors.FedboardError, match=told):
        fedboard.ask("mean", PEOPLE, **{"epsilon": 0.5, "rating_range": (1, 5), **wrong})
