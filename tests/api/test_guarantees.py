"""What noise and releases cost, in and back; ``verify`` says what holds, and a simulation is never true."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

import fedboard

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("releases", [1, 9])
def test_noise_and_epsilon_are_inverse(releases: int) -> None:
    z = fedboard.noise_multiplier(epsilon=2.0, delta=1e-6, releases=releases)

    assert fedboard.epsilon(noise_multiplier=z, releases=releases, delta=1e-6) == pytest.approx(2.0, rel=1e-6)
    plan = {f"round-{k}/sum": z for k in range(releases)}
    assert fedboard.epsilon(plan, delta=1e-6) == pytest.approx(2.0, rel=1e-6)


def test_sampling_costs_less() -> None:
    plain = fedboard.epsilon(noise_multiplier=2.0, releases=5)
    sampled = fedboard.epsilon(noise_multiplier=2.0, releases=5, poisson=0.1)

    assert sampled < 0.5 * plain


def test_a_run_costs_what_its_certificate_claims(run_place: Path) -> None:
    claim = fedboard.load_board(run_place).certificate
    assert claim is not None

    assert fedboard.epsilon(run_place) == pytest.approx(claim["claim"]["epsilon"], rel=1e-6)


def test_a_sound_run_holds_and_is_not_private(run_place: Path) -> None:
    found = fedboard.verify(run_place)

    assert found.holds
    assert found.failed == ()
    assert {"ledger", "chain of boards", "budget"} <= {finding.check for finding in found.findings}
    assert not found.private
    assert not found
    assert repr(found).startswith(
        f"<Verification: all {len(found.findings)} checks passed: certificate, board"
    )
    assert "NOT PRIVATE: the noise can be reproduced from its seed" in repr(found)


def test_boards_and_certificates_at_hand_are_verified_too(run_place: Path) -> None:
    board = fedboard.load_board(run_place)
    certificate = fedboard.Certificate.from_json((run_place / "certificate.json").read_bytes())

    assert fedboard.verify(board).holds
    assert fedboard.verify(certificate).holds
    assert fedboard.verify(str(run_place / "certificate.json")).holds
    assert len(fedboard.verify(certificate).findings) < len(fedboard.verify(board).findings)


def test_a_lowered_claim_is_found_and_printed(run_place: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(run_place, tmp_path / "run"))
    plain = json.loads((run / "certificate.json").read_text())
    plain["claim"]["epsilon"] = 1.0
    (run / "certificate.json").write_text(json.dumps(plain))

    found = fedboard.verify(run)

    assert not found.holds
    assert "claim" in {finding.check for finding in found.failed}
    assert repr(found).startswith("<Verification: NOT PROVEN: ")
    assert "FAILED  claim" in repr(found)


def test_a_board_without_a_certificate_is_refused(run_place: Path) -> None:
    bare = dataclasses.replace(fedboard.load_board(run_place), certificate=None)

    with pytest.raises(fedboard.errors.InputError, match="no certificate"):
        fedboard.verify(bare)
