"""``fedboard tune --private`` on the command line; what it does is tested with ``simulations.tuning``."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_pictures")]

NO_ACCOUNT = ("--set", "privacy.population=nowhere.db")
QUIET = ("--set", "run.baselines=false", "--set", "run.evaluate_rounds=false")


def test_a_private_choice_is_made_told_and_verified(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    out = tmp_path / "tune"
    asked = ("tune", "--private", *tiny, *QUIET, "--algorithm", "adadpals", "--epsilon", "4")
    asked += ("--set", "privacy.noise=secure")

    made = fedboard(*asked, "--candidate", "clip_norm=0.3,shares.counts=0.1", "--out", out)
    again = fedboard("tune", "--out", out, "--resume", "--json")
    verified = fedboard("certificate", "verify", out / "final")
    ledger = fedboard("certificate", "verify", out / "ledger.sqlite")

    assert made.exit_code == again.exit_code == 0, made.output + again.output
    assert verified.exit_code == ledger.exit_code == 0, verified.output + ledger.output
    assert "trial 1 of 1 is done: settings.clip_norm = 0.3, privacy.shares.counts = 0.1" in made.stderr
    for told in ("share of mu^2", "Guarantee: (4, 1e-05)"):
        assert told in made.stdout
    assert [line.split() for line in made.stdout.splitlines() if line.startswith("together")] == [
        ["together", "1.0000", "4.0000"]
    ]
    assert "these numbers are not private, for simulations only" in made.stdout
    summary = json.loads(again.stdout)
    assert summary["guarantee"]["epsilon"] == 4
    assert summary["noise_private"] is True
    assert summary["chosen"]["number"] in (0, 1)
    assert summary["releases"] == len(
        json.loads((out / "final" / "certificate.json").read_text())["releases"]
    )


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("--private",), 2, "say which with --epsilon"),
        (("--private", "--epsilon", "5", "--set", "privacy.participation.kind=poisson",
          "--set", "privacy.participation.probability=0.5"), 3, "full participation"),
        (("--private", "--epsilon", "5", "--feedback", "implicit"), 2, "implicit feedback has none"),
        (("--private", "--epsilon", "5", "--jobs", "2"), 2, "--jobs does not go with --private"),
        (("--private", "--epsilon", "5", "--candidate", "rounds"), 2, "--candidate needs KEY=VALUE"),
        (("--private", "--epsilon", "5", "--candidate", "privacy.epsilon=9"), 2, "only settings and shares"),
        (("--private", "--epsilon", "5"), 2, "give at least one --candidate"),
        (("--private", "--epsilon", "5", *NO_ACCOUNT, "--candidate", "rounds=3"), 2, "nowhere"),
        (("--candidate", "rounds=3"), 2, "--candidate goes with --private"),
    ],
)  # fmt: skip
def test_what_cannot_be_accounted_for_is_refused_and_leaves_nothing(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path, flags: tuple[str, ...], code: int, message: str
) -> None:
    result = fedboard("tune", *tiny, "--algorithm", "adadpals", *flags, "--out", tmp_path / "tune")

    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert not (tmp_path / "tune").exists()
