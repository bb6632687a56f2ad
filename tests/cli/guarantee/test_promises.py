"""``fedboard certificate show --as label`` and ``registry``: of what holds, and of nothing else."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedboard.cli.exit_codes import ExitCode
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.releases.noise import SeededNoise
from tests.cli.conftest import Command
from tests.common.certificates import certificate_of


def file_of(place: Path, plain: dict[str, Any]) -> Path:
    place.write_text(json.dumps(plain), encoding="utf-8")
    return place


def test_a_private_certificate_gets_a_label(fedboard: Command, tmp_path: Path) -> None:
    target = file_of(tmp_path / "certificate.json", certificate_of().to_dict())
    place = tmp_path / "label.html"

    result = fedboard("certificate", "show", "--as", "label", target, "--out", place)

    assert (result.exit_code, result.stderr) == (ExitCode.DONE, "")
    assert result.stdout.startswith("Someone who bets that you took part")
    text = place.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert certificate_of().dataset in text


def lowered(plain: dict[str, Any]) -> None:
    plain["claim"]["epsilon"] = 0.1


def called_private(plain: dict[str, Any]) -> None:
    plain.update(private=True, noise="secure")


def fewer_bets(plain: dict[str, Any]) -> None:
    plain["composition"]["mu"] = 0.01


@pytest.mark.parametrize("edit", [lowered, called_private, fewer_bets])
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


def test_a_record_is_written_to_a_file_or_told(fedboard: Command, tmp_path: Path) -> None:
    target = file_of(tmp_path / "certificate.json", certificate_of().to_dict())
    place = tmp_path / "record.yaml"

    written, told = (
        fedboard("certificate", "show", "--as", "registry", target, "--out", place),
        fedboard("certificate", "show", "--as", "registry", target),
    )

    assert (written.exit_code, told.exit_code) == (ExitCode.DONE, ExitCode.DONE)
    assert "say what is marked TO SAY" in written.stdout
    assert told.stdout == place.read_text(encoding="utf-8"), "who checks a record compares it with this"
