"""The verdict on a run: what it says, and that it is honest where it is bad."""

import pytest

from fedboard.simulations.evaluation.verdict import verdict_of

REFERENCES = {
    "item-mean": {"test_rmse": 1.0},
    "user-item-bias": {"test_rmse": 0.95},
    "als": {"test_rmse": 0.87},
}
FLOORS = {"item-mean-private": {"test_rmse": 0.97}, "bias-private": {"test_rmse": 0.96}}


def test_a_good_run_is_held_against_item_means_the_best_floor_and_no_privacy() -> None:
    verdict = verdict_of({"test_rmse": 0.89}, epsilon=5.0, floors=FLOORS, references=REFERENCES)

    assert verdict is not None
    assert verdict.good
    assert verdict.sentence == (
        "test RMSE 0.890 at epsilon 5: better than item means by 0.110; better than the best simple private model "
        "(bias-private) by 0.070; worse than without privacy (als) by 0.020."
    )


@pytest.mark.parametrize(
    ("own", "says"),
    [
        (1.03, ("worse than item means by 0.030", "Not worth it here: take bias-private")),
        (0.98, ("worse than the best simple private model", "Not worth it here")),
        (0.9602, ("as good as the best simple private model (bias-private);", "Not worth it here")),
        (0.86, ("better than without privacy (als) by 0.010",)),
    ],
)
def test_a_bad_run_is_called_bad(own: float, says: tuple[str, ...]) -> None:
    verdict = verdict_of({"test_rmse": own}, epsilon=1.0, floors=FLOORS, references=REFERENCES)

    assert verdict is not None
    assert verdict.good is ("Not worth it here" not in says[-1])
    for part in says:
        assert part in verdict.sentence


def test_lists_are_better_where_the_number_is_larger() -> None:
    verdict = verdict_of(
        {"recall@20": 0.30, "ndcg@20": 0.1},
        epsilon=5.0,
        floors={"popularity-private": {"recall@20": 0.24}},
        references={"popularity": {"recall@20": 0.25}, "als": {"recall@20": 0.35}},
    )

    assert verdict is not None
    assert verdict.good
    assert "better than what is popular by 0.050; better than the best" in verdict.sentence
