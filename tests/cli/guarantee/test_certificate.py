"""``fedboard certificate`` accepts what is sound and names what was tampered with."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from fedboard.cli.exit_codes import ExitCode
from fedboard.common.board import Board
from fedboard.common.certificate import Certificate, certify
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise, SeededNoise
from tests.common.certificates import certificate_of
from tests.common.privacy.commitments import planned

pytestmark = pytest.mark.slow

Command = Callable[..., Result]


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of a finished run, to tamper with."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def edit_certificate(run: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    path = run / "certificate.json"
    plain = json.loads(path.read_text())
    edit(plain)
    path.write_text(json.dumps(plain))


def failed_checks(result: Result) -> list[str]:
    assert result.exit_code == 1
    record = json.loads(result.stdout)
    assert record["holds"] is False
    return [entry["check"] for entry in record["failed"]]


def test_a_sound_run_passes_with_its_board_and_ledger(fedboard: Command, secret: Path) -> None:
    text = fedboard("certificate", "verify", secret)
    as_json = fedboard("certificate", "verify", secret, "--json")

    assert text.exit_code == as_json.exit_code == 0
    assert "checks passed: certificate, board and ledger." in text.stdout
    assert "\nprivate: no seed reproduces the noise" in text.stdout
    record = json.loads(as_json.stdout)
    assert (record["holds"], record["private"], record["noise"], record["failed"]) == (
        True,
        True,
        "private",
        [],
    )


def test_a_run_that_holds_but_whose_noise_is_seeded_has_an_exit_code_of_its_own(
    fedboard: Command, finished: Path
) -> None:
    text = fedboard("certificate", "verify", finished)
    as_json = fedboard("certificate", "verify", finished, "--json")
    accepted = fedboard("certificate", "verify", finished, "--simulation", "--json")

    assert text.exit_code == as_json.exit_code == ExitCode.NOT_PRIVATE
    assert "checks passed: certificate, board and ledger." in text.stdout
    assert "NOT PRIVATE: the noise can be reproduced from its seed" in text.stdout
    record = json.loads(as_json.stdout)
    assert (record["holds"], record["private"], record["noise"]) == (True, False, "simulation")
    assert accepted.exit_code == 0
    assert json.loads(accepted.stdout) == record


def test_what_does_not_hold_is_not_private_either_and_no_flag_accepts_it(
    fedboard: Command, secret: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(secret, tmp_path / "run"))
    edit_certificate(run, lower_claim)

    result = fedboard("certificate", "verify", run, "--simulation", "--json")

    assert result.exit_code == ExitCode.FAILED
    assert json.loads(result.stdout)["private"] is False


@pytest.mark.parametrize(
    ("participation", "rounds"),
    [("full", 2), ("poisson:0.5", 1)],  # accounting for rounds that are sampled takes its time
)
def test_a_run_that_is_stopped_on_the_way_claims_its_whole_plan_and_verifies(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path, participation: str, rounds: int
) -> None:
    run = tmp_path / "run"
    flags = ("--rounds", rounds, "--noise", "secure", "--no-baselines", "--no-report", "--participation")
    done = fedboard("simulate", *tiny, *flags, participation, "--out", run)
    assert done.exit_code == 0, done.stderr
    boards = sorted((run / "boards").glob("*.board"))
    whole = Certificate.from_json((run / "certificate.json").read_bytes()).claim
    (run / "certificate.json").unlink()

    while len(boards) > 1:
        boards.pop().unlink()
        stopped = Certificate.from_dict(dict(Board.load(boards[-1]).certificate or {}))
        verified = fedboard("certificate", "verify", run, "--json")
        assert json.loads(verified.stdout)["failed"] == []
        assert stopped.claim == whole
        assert stopped.commitment is not None
        assert len(stopped.releases) < len(stopped.commitment.plan or {})


def test_one_seeded_release_among_secret_ones_makes_the_whole_a_simulation(
    fedboard: Command, tmp_path: Path
) -> None:
    """Somebody resumed with another noise source: what is published holds seeded noise."""
    releases = [a_release("first", SecureNoise()), a_release("second", SeededNoise(3))]
    terms = planned(releases, epsilon=20.0)
    mixed = certify(releases, commitment=terms, trust=(), assumptions=(), dataset="made up")
    (tmp_path / "mixed.json").write_text(mixed.to_json())

    result = fedboard("certificate", "verify", tmp_path / "mixed.json", "--json")

    assert result.exit_code == ExitCode.NOT_PRIVATE
    assert json.loads(result.stdout)["private"] is False


def a_release(name: str, noise: NoiseSource) -> dict[str, Any]:
    release = GaussianRelease(
        name=name,
        rows=20,
        width=10,
        layout="vector",
        grid_step=2.0**-8,
        l2_bound=1000,
        same_sign=False,
        adjacency=Adjacency.ADD_REMOVE,
        noise_multiplier=5.0,
        covers="made-up sums",
    )
    return {**release.event(), **noise.describe()}


def test_a_board_and_a_certificate_can_be_verified_alone(fedboard: Command, secret: Path) -> None:
    board = fedboard("certificate", "verify", secret / "boards" / "board-0004.board")
    alone = fedboard("certificate", "verify", secret / "certificate.json")

    assert board.exit_code == alone.exit_code == 0
    assert "certificate and board." in board.stdout
    assert "its digest was not checked" in alone.stdout


def test_show_of_an_edited_certificate_fails_and_prints_what_was_recomputed(
    fedboard: Command, run: Path
) -> None:
    proven = Certificate.from_json((run / "certificate.json").read_bytes()).claim.epsilon
    before = fedboard("certificate", "show", run)
    assert (before.exit_code, before.stdout.startswith("NOT PRIVATE: ")) == (0, True)
    edit_certificate(run, lower_claim)

    shown, as_json = fedboard("certificate", "show", run), fedboard("certificate", "show", run, "--json")

    assert (shown.exit_code, as_json.exit_code) == (1, 1)
    assert f"FAILED  claim: epsilon {proven / 2!r} is claimed, the releases cost {proven!r}\n" in shown.stdout
    assert shown.stdout.index("FAILED  claim") < shown.stdout.index("\nIt claims: ")


def test_an_unfinished_run_shows_the_certificate_of_its_newest_board(fedboard: Command, run: Path) -> None:
    (run / "certificate.json").unlink()
    (run / "boards" / "board-0004.board").unlink()

    result = fedboard("certificate", "verify", run)

    assert result.exit_code == ExitCode.NOT_PRIVATE, result.stdout
    assert "round-2" not in fedboard("certificate", "show", run).stdout


def lower_claim(plain: dict[str, Any]) -> None:
    plain["claim"]["epsilon"] /= 2


def less_noise(plain: dict[str, Any]) -> None:
    plain["releases"][0]["noise_multiplier"] *= 2


def claim_secure_noise(plain: dict[str, Any]) -> None:
    plain["private"] = True


def drop_release(plain: dict[str, Any]) -> None:
    del plain["releases"][2]


def soften_trust(plain: dict[str, Any]) -> None:
    plain["trust"][0] = "Nobody sees anything."


@pytest.mark.parametrize(
    ("edit", "caught"),
    [
        (lower_claim, "claim"),
        (less_noise, "release 'moments'"),
        (claim_secure_noise, "noise"),
        (drop_release, "booked releases"),
        (soften_trust, "digest"),
    ],
)
def test_an_edited_certificate_is_caught(
    fedboard: Command, run: Path, edit: Callable[[dict[str, Any]], None], caught: str
) -> None:
    edit_certificate(run, edit)

    failed = failed_checks(fedboard("certificate", "verify", run, "--json"))

    assert caught in failed
    assert "carried certificate" in failed or "digest" in failed
    text = fedboard("certificate", "verify", run / "certificate.json")
    opening = fedboard("certificate", "show", run).stdout
    assert text.exit_code == 1
    assert opening.startswith("NOT PROVEN: this certificate does not hold")
    assert "do not rely on the certificate" in text.stdout


def test_another_board_than_the_certified_one_is_caught(fedboard: Command, run: Path) -> None:
    board = Board.load(run / "boards" / "board-0004.board")
    forged = board.successor(mean=board.arrays["mean"] + 1).with_certificate(dict(board.certificate or {}))
    forged.save(run / "boards" / "board-0004.board")

    failed = failed_checks(fedboard("certificate", "verify", run, "--json"))

    assert failed == ["board digest", "chain of boards"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("certificate.json", b"{}", "not a certificate"),
        ("certificate.json", b'{"claim": ', "not a certificate"),
        ("note.txt", b"hello", "not a complete fedboard board"),
    ],
)
def test_what_is_no_certificate_is_refused(
    fedboard: Command, tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)

    result = fedboard("certificate", "verify", tmp_path / name)

    assert result.exit_code == 2
    assert message in result.stderr
    assert fedboard("certificate", "show", tmp_path / "missing").exit_code == 2
    assert fedboard("certificate", "show", tmp_path).exit_code == 2


def test_a_run_directory_without_its_ledger_does_not_verify(fedboard: Command, run: Path) -> None:
    (run / "ledger.sqlite").unlink()

    assert failed_checks(fedboard("certificate", "verify", run, "--json")) == ["ledger"]


def test_a_run_gets_a_label_and_a_record_as_long_as_its_ledger_agrees(
    fedboard: Command, secret: Path, finished: Path, tmp_path: Path
) -> None:
    place = tmp_path / "record.yaml"

    label = fedboard("certificate", "show", "--as", "label", secret, "--out", tmp_path / "label.html")
    record = fedboard("certificate", "show", "--as", "registry", secret, "--out", place)
    simulated = fedboard("certificate", "show", "--as", "label", finished, "--out", tmp_path / "red.html")
    unregistered = fedboard("certificate", "show", "--as", "registry", finished)
    told = fedboard("certificate", "show", "--as", "registry", secret).stdout

    assert [label.exit_code, record.exit_code] == [0, 0], record.stderr
    assert told == place.read_text(encoding="utf-8"), "who checks a record compares it with this"
    assert simulated.exit_code == unregistered.exit_code == ExitCode.REFUSED
    run = Path(shutil.copytree(secret, tmp_path / "run"))
    with sqlite3.connect(run / "ledger.sqlite") as connection:
        connection.execute("DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)")
    connection.close()
    for command in (("label", run, "--out", tmp_path / "no.html"), ("registry", run)):
        assert fedboard("certificate", "show", "--as", *command).exit_code == ExitCode.FAILED
    assert not (tmp_path / "no.html").exists()


def file_of(place: Path, plain: dict[str, Any]) -> Path:
    place.write_text(json.dumps(plain), encoding="utf-8")
    return place


def fewer_bets(plain: dict[str, Any]) -> None:
    plain["composition"]["mu"] = 0.01


@pytest.mark.parametrize("edit", [lower_claim, claim_secure_noise, fewer_bets])
def test_what_does_not_hold_gets_none(
    fedboard: Command, tmp_path: Path, edit: Callable[[dict[str, Any]], None]
) -> None:
    plain = certificate_of(noise=SeededNoise(1)).to_dict()
    edit(plain)
    plain["digest"] = digest({key: value for key, value in plain.items() if key != "digest"})
    target = file_of(tmp_path / "certificate.json", plain)

    result = fedboard("certificate", "show", "--as", "label", target, "--out", tmp_path / "label.html")

    record = fedboard("certificate", "show", "--as", "registry", target, "--out", tmp_path / "record.yaml")

    assert result.exit_code == record.exit_code == ExitCode.FAILED
    assert "no label is written: " in result.stderr
    assert "no record is written: " in record.stderr
    assert not (tmp_path / "record.yaml").exists()
    assert not (tmp_path / "label.html").exists()


def test_nothing_is_promised_before_the_first_release(fedboard: Command, tmp_path: Path) -> None:
    early = file_of(tmp_path / "early.json", certificate_of(events=()).to_dict())

    nothing = fedboard("certificate", "show", "--as", "label", early, "--out", tmp_path / "label.html")

    assert "nothing was released yet" in nothing.stderr
    assert list(tmp_path.glob("label.*")) == []
