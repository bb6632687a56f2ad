"""``fedboard demo`` on data so small that it takes a moment: what it prints, and what lies beside its report."""

import json
from pathlib import Path

import pytest
from click.testing import Result

from fedboard.simulations.config import parse_config
from tests.cli.conftest import Command

pytestmark = pytest.mark.slow

TINY = {
    "data": {"synthetic": {"n_users": 300, "n_items": 60, "mean_ratings_per_user": 15.0}},
    "settings": {"rank": 3, "rounds": 2},
    "run": {"kernels": "numpy"},
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """One demo, read by all tests."""
    from click.testing import CliRunner

    from fedboard.cli.main import commands
    from fedboard.cli.research import demo

    out = tmp_path_factory.mktemp("demo") / "demo"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "_configuration", lambda epsilon, workers, *, small: parse_config(TINY))
        return CliRunner().invoke(commands, ["demo", "--out", str(out)]), out


def test_the_demo_shows_guarantee_metrics_and_recommendations(
    fedboard: Command, shown: tuple[Result, Path]
) -> None:
    result, out = shown

    assert result.exit_code == 0, result.stderr
    for part in (
        "Guarantee: mu ",
        "(5, 1e-05)-differential privacy for each user",
        "item-mean",
        "\nresidual ",
        "\nadadpals ",
        "\nitem-mean-private ",
        "\nbias-private ",
        "recommends (predicted rating)",
        "report.html",
        "Try next",
    ):
        assert part in result.stdout
    report = (out / "report.html").read_text(encoding="utf-8")
    assert result.stdout.splitlines()[-1].removeprefix("Verdict: test ") in report
    assert (out / "page.html").is_file()
    assert json.loads((out / "beside.json").read_text())["bias-private"]["floor"] is True
    example = out / "example-ratings.csv"
    assert fedboard("recommend", example, out).exit_code == 0


def test_the_demo_as_a_document(fedboard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedboard.cli.research import demo
    from fedboard.simulations import simulate

    tiny = {**TINY, "run": {"kernels": "numpy", "baselines": False}}
    monkeypatch.setattr(demo, "_configuration", lambda epsilon, workers, *, small: parse_config(tiny))
    monkeypatch.setattr(simulate, "write_report", lambda run: run / "report.html")

    result = fedboard("demo", "--small", "--json", "--out", tmp_path / "demo")

    record = json.loads(result.stdout)
    assert result.exit_code == 0, result.stderr
    assert set(record["beside"]) == {"adadpals", "item-mean-private", "bias-private"}
    assert record["verdict"] is None, "nothing without privacy was fitted to hold it against"
    assert Path(record["page"]).is_file()
    assert Path(record["example_ratings"]).is_file()


@pytest.mark.parametrize("small", [False, True])
def test_a_small_demo_has_fewer_people_and_the_same_promise(small: bool) -> None:
    from fedboard.cli.research.demo import _configuration

    config = _configuration(2.0, 1, small=small)

    assert config.privacy.epsilon == 2.0
    assert config.data.synthetic["n_users"] == (6_000 if small else 20_000)
