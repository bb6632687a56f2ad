"""A count beyond what anybody could wait for is refused at once, with the limit, before anything is loaded."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

pytestmark = pytest.mark.slow

Command = Callable[..., Result]

HUGE = "1000000000000"
FEW = ("--set", "data.synthetic.n_users=50")
"""Read before the count is looked at."""
ENDLESS = (
    (("account", "--epsilon", "1", "--releases", HUGE), "<=10000"),
    (("account", "--noise-multiplier", "5", "--releases", HUGE), "<=10000"),
    (("account", "--noise-multiplier", "5", "--group", HUGE), "<=1000000000"),
    (("simulate", "--rounds", "1000000000", *FEW), "rounds must be a whole number from 1 to 10000"),
    (
        ("simulate", "--algorithm", "residual", "--rounds", "1000000000", *FEW),
        "rounds must be a whole number from 1 to 10000",
    ),
    (
        ("simulate", "--algorithm", "adadpsgd", "--set", "settings.steps=1000000000", *FEW),
        "steps must be a whole number from 1 to 10000",
    ),
    (
        ("simulate", "--algorithm", "langevin", "--set", "settings.steps=1000000000", *FEW),
        "steps must be a whole number from 1 to 10000",
    ),
    (("simulate", "--workers", "10000"), "run.workers must be a whole number in [1, 256]"),
    (("simulate", "--set", "run.nodes=1000000"), "run.nodes must be a whole number in [1, 10000]"),
    (("simulate", "--clients", HUGE, "--protocol", "secure-sum"), "run.clients must be a whole number in"),
    (("simulate", "--rank", "1000000000", *FEW), "rank must be a whole number from 1 to 512"),
    (("simulate", "--set", f"data.synthetic.n_users={HUGE}"), "n_users must be in [1, 1e8]"),
    (("simulate", "--set", f"data.synthetic.n_items={HUGE}"), "n_items must be in [20, 1e7]"),
    (("sweep", "--jobs", "10000"), "<=256"),
    (("tune", "--data", "synthetic", "--trials", HUGE), "<=10000"),
    (("tune", "--data", "synthetic", "--jobs", "10000"), "<=256"),
    (("demo", "--workers", "10000"), "<=256"),
    (("audit", "--repeat", HUGE), "<=10000"),
    (("audit", "--canaries", HUGE), "<=1000000"),
    (("audit", "--workers", "10000"), "<=256"),
    (("query", "mean", "--data", "synthetic", "--epsilon", "1", "--workers", "10000"), "<=256"),
    (("protocols", "show", "secure-sum", "--devices", HUGE), "<=1000000000"),
    (("recommend", "mine.csv", "boards", "-k", HUGE), "<=100000"),
    (("explain", "--neighbours", "1", "boards", "-k", HUGE), "<=100000"),
    (("explain", "1", "mine.csv", "boards", "-k", HUGE), "<=100000"),
)


@pytest.mark.parametrize(("arguments", "limit"), ENDLESS, ids=lambda part: " ".join(part)[:40])
def test_a_count_without_end_is_refused_with_its_limit(
    fedboard: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    limit: str,
) -> None:
    monkeypatch.chdir(tmp_path)

    refused = fedboard(*arguments)

    assert refused.exit_code == 2, refused.output
    assert limit in refused.stderr
    assert not any(path.is_file() for path in tmp_path.rglob("*"))
