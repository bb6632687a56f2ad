"""Certificates of versions before this one: what of them is proven still verifies, and the rest says why not.

The files are those of ``tests/earlier_formats``; their noise is seeded.
"""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from fedboard.cli.exit_codes import ExitCode
from fedboard.common.certificate import Certificate
from fedboard.common.errors import InputError
from fedboard.common.privacy.events import digest

Command = Callable[..., Result]

ARCHIVES = Path(__file__).parent.parent.parent / "earlier_formats"
RUNS = ("residual", "residual-poisson")


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """Runs with a plan, of full and of Poisson participation, and questions that no plan fixed."""
    for name in ("runs.tar.xz", "questions.tar.xz"):
        with tarfile.open(ARCHIVES / name) as packed:
            # Python before 3.11.4 knows no filters; the archives are our own.
            packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
            packed.extractall(tmp_path)
    return tmp_path


def planned(older: Path) -> Path:
    return older / "runs" / "residual"


def last_board(run: Path) -> Path:
    return max((run / "boards").glob("*.board"))


def failed(fedboard: Command, target: Path) -> dict[str, str]:
    result = fedboard("certificate", "verify", target, "--json")
    found = json.loads(result.stdout)["failed"]
    # Their noise is seeded, so nothing of them is private; what holds for a simulation has a code of its own.
    assert result.exit_code == (ExitCode.FAILED if found else ExitCode.NOT_PRIVATE)
    return {finding["check"]: finding["detail"] for finding in found}


def resealed(plain: dict[str, Any]) -> dict[str, Any]:
    content = {key: value for key, value in plain.items() if key != "digest"}
    return {**content, "digest": digest(content)}


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_a_run_that_carried_out_its_plan_keeps_its_certificate(
    fedboard: Command, older: Path, run: str
) -> None:
    plain = json.loads((older / "runs" / run / "certificate.json").read_text())

    assert (plain["format"], plain["planned"]) == (3, True)
    assert failed(fedboard, older / "runs" / run) == {}
    assert fedboard("ledger", "verify", older / "runs" / run, "--simulation").exit_code == 0


def test_the_last_board_of_such_a_run_shows_its_plan_itself(fedboard: Command, older: Path) -> None:
    assert failed(fedboard, last_board(planned(older))) == {}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_board_made_on_the_way_claimed_what_had_been_spent(
    fedboard: Command, older: Path, version: int
) -> None:
    found = failed(fedboard, planned(older) / "boards" / f"board-{version:04d}.board")

    assert "what had been spent when it was made" in found["commitment"]


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_a_run_that_was_stopped_on_the_way_does_not_verify(fedboard: Command, older: Path, run: str) -> None:
    (older / "runs" / run / "certificate.json").unlink()
    last_board(older / "runs" / run).unlink()

    assert "its whole plan costs epsilon" in failed(fedboard, older / "runs" / run)["commitment"]


def test_a_lone_certificate_does_not_show_that_it_claims_the_whole_plan(
    fedboard: Command, older: Path
) -> None:
    found = failed(fedboard, planned(older) / "certificate.json")

    assert list(found) == ["commitment"]
    assert "give the run directory, whose ledger holds the plan, or the board" in found["commitment"]


@pytest.mark.parametrize("asked", ["pure-2", "gaussian-2"])
def test_without_a_plan_it_claimed_what_was_spent_and_says_why_that_does_not_hold(
    fedboard: Command, older: Path, asked: str
) -> None:
    found = failed(fedboard, older / "questions" / f"{asked}.json")
    told = fedboard("certificate", "verify", older / "questions" / f"{asked}.json").stdout

    assert list(found) == ["commitment"]
    assert "Without a plan nobody is promised that" in told
    assert "Proven is the budget that the ledger enforced" in told
    assert not Certificate.from_json((older / "questions" / f"{asked}.json").read_text()).holds
    refused = fedboard("account", "epsilon", older / "questions" / f"{asked}.json")
    assert refused.exit_code != 0
    assert "promised to nobody" in refused.stderr


def test_a_certificate_that_does_not_say_whether_there_was_a_plan_does_not_verify(
    fedboard: Command, older: Path
) -> None:
    plain = json.loads((planned(older) / "certificate.json").read_text()) | {"format": 2}
    del plain["planned"]
    (planned(older) / "certificate.json").write_text(json.dumps(resealed(plain)))

    assert "Without a plan nobody is promised that" in failed(fedboard, planned(older))["commitment"]


@pytest.mark.parametrize("stated", [{"planned": True}, {"planned": False}])
def test_a_certificate_of_today_cannot_be_written_back_into_an_older_format(
    older: Path, stated: dict[str, bool]
) -> None:
    plain = json.loads((older / "questions" / "gaussian-2.json").read_text()) | stated

    forged = Certificate.from_dict(resealed(plain | {"format": 3}))
    assert "commitment" in {finding.check for finding in forged.verify() if not finding.passed}
    with pytest.raises(InputError, match=r"\$\.commitment is a member that"):
        Certificate.from_dict(resealed(plain | {"format": 4}))


def test_an_edit_of_an_older_certificate_is_still_found(fedboard: Command, older: Path) -> None:
    own = planned(older) / "certificate.json"
    honest = json.loads(own.read_text())
    edits: dict[str, dict[str, Any]] = {
        "digest": {"dataset": "others"},
        "statements": resealed({**honest, "statements": honest["statements"][:-1]}),
        "epsilon": resealed({**honest, "composition": {**honest["composition"], "epsilon": 1.0}}),
    }
    for check in ("digest", "statements", "epsilon"):
        own.write_text(json.dumps({**honest, **edits[check]}))
        assert check in failed(fedboard, planned(older))
