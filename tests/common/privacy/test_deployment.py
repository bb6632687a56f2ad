"""What people say of a deployment: read from a file, kept within bounds, carried by a certificate."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedboard.common.certificate import Certificate
from fedboard.common.errors import InputError
from fedboard.common.privacy.deployment import Deployment, read_deployment
from fedboard.common.privacy.events import digest
from tests.common.certificates import SAID, certificate_of

AUDIT = {"violated": False, "broken": None, "findings": [], "epsilon_claimed": 5.0}


def written(folder: Path, text: str, audit: object = AUDIT) -> Path:
    (folder / "audit.json").write_text(json.dumps(audit))
    path = folder / "fleet.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_section_is_read_and_the_audit_becomes_its_digest(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        'name = "of the fleet"\n[deployment]\nname = "Filme für alle"\n'
        'curators = ["A", "B"]\naudit = "audit.json"\n',
    )

    said = read_deployment(path)

    assert (said.name, said.curators) == ("Filme für alle", ("A", "B"))
    assert said.audit == hashlib.sha256((tmp_path / "audit.json").read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[task]\n", r"has no section \[deployment\]"),
        ("[deployment\n", "not valid TOML"),
        ('[deployment]\ncurator = "A"\n', r"unknown key 'curator'; known are .*; did you mean 'curators'"),
        ("[deployment]\nname = 3\n", "deployment.name must be a text, got a whole number"),
        ('[deployment]\ncurators = ["A", " "]\n', "curators has an empty name"),
        (f'[deployment]\nname = "{"x" * 201}"\n', "name has at most 200 characters, got 201"),
        ('[deployment]\nname = "a\\u001b[31mred"\n', "name has control characters"),
        ('[deployment]\nname = "two\\nlines"\n', "name has control characters"),
        ('[deployment]\nsector = "Espionage"\n', "sector must be one of Technology"),
        ('[deployment]\npublished = "4.5.2026"\n', "published must be a day as YYYY-MM-DD"),
        ('[deployment]\npublished = "2026-02-30"\n', "published must be a day as YYYY-MM-DD"),
        ('[deployment]\ndata_source = "both"\n', "data_source"),
        ('[deployment]\naudit = "nowhere.json"\n', "nowhere.json: cannot be read"),
    ],
)
def test_what_cannot_be_a_statement_is_refused_in_a_sentence(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_deployment(written(tmp_path, text))


@pytest.mark.parametrize(
    "audit", [AUDIT | {"violated": True}, AUDIT | {"broken": "noise x 0.8"}, [], {"x": 1}, 5]
)
def test_an_audit_that_found_something_or_is_none_justifies_nothing(tmp_path: Path, audit: object) -> None:
    with pytest.raises(
        InputError, match=r"justifies nothing|not the JSON that `fedboard audit --json` writes"
    ):
        read_deployment(written(tmp_path, '[deployment]\naudit = "audit.json"\n', audit))


def resealed(plain: dict[str, Any]) -> dict[str, Any]:
    return {**plain, "digest": digest({key: value for key, value in plain.items() if key != "digest"})}


def test_a_certificate_has_the_newest_format_only_where_it_carries_a_statement() -> None:
    silent, said = certificate_of(), certificate_of(deployment=SAID)

    assert (silent.format, said.format) == (4, 5)
    assert "deployment" not in silent.to_dict()
    assert "deployment" not in silent.to_json()
    for certificate in (silent, said):
        again = Certificate.from_json(certificate.to_json())
        assert again == certificate
        assert again.holds


@pytest.mark.parametrize(
    ("change", "passes"),
    [
        (lambda plain: plain["deployment"].update(name="Another"), {"digest"}),
        (lambda plain: plain.pop("deployment"), {"digest", "format"}),
        (lambda plain: plain.update(format=4), {"digest", "format"}),
    ],
)
def test_a_changed_statement_or_format_is_found(
    change: Callable[[dict[str, Any]], object], passes: set[str]
) -> None:
    plain = json.loads(certificate_of(deployment=SAID).to_json())

    change(plain)

    failed = {finding.check for finding in Certificate.from_dict(plain).verify() if not finding.passed}
    assert failed == passes


def test_a_certificate_cannot_state_what_a_file_could_not() -> None:
    plain = json.loads(certificate_of(deployment=SAID).to_json())
    plain["deployment"]["name"] = "\u0007"

    with pytest.raises(InputError, match=r"not a certificate: deployment\.name has control characters"):
        Certificate.from_dict(resealed(plain))


def test_an_empty_statement_is_a_statement() -> None:
    assert certificate_of(deployment=Deployment()).holds


def test_the_guide_names_every_key() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guide" / "privacy-label.md").read_text(encoding="utf-8")
    section = guide.partition("[deployment]")[2].partition("```")[0]

    assert [key for key in Deployment.__struct_fields__ if key not in section] == []
