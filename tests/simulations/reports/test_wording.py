"""Numbers and names as they are written."""

from fedboard.simulations.reports.wording import lower_is_better, metric_label


def test_metrics_are_named_and_know_their_direction() -> None:
    assert metric_label("test_rmse") == "Test RMSE (stars)"
    assert metric_label("validation_ndcg@20") == "Validation NDCG@20"
    assert metric_label("recall@20") == "Recall@20"
    assert metric_label("recall") == "Recall, k = 100, 80, 60, 40, 20"
    assert lower_is_better("test_mae")
    assert not lower_is_better("overlap@10")
