"""``docs/certificate.schema.json`` is current, takes every certificate, and refuses what ``verify`` refuses."""

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from fedboard.common.algorithms.registry import ALGORITHMS
from fedboard.common.certificate import Certificate
from fedboard.common.errors import FedboardError
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.registry import PROTOCOL_NAMES
from tests.client.page.certificates import sound
from tests.common.certificates import certificate_of, questions

ROOT = Path(__file__).parent.parent.parent
SCHEMA = json.loads((ROOT / "docs" / "certificate.schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)


def faults(plain: dict[str, Any]) -> list[str]:
    return [f"{error.json_path}: {error.message[:100]}" for error in VALIDATOR.iter_errors(plain)]


def test_the_file_is_what_the_types_and_rules_say() -> None:
    command = [sys.executable, str(ROOT / "docs" / "write_schema.py"), "--check"]

    assert subprocess.run(command, check=False).returncode == 0, "run python docs/write_schema.py"
    Draft202012Validator.check_schema(SCHEMA)


def test_certificates_of_every_algorithm_protocol_and_promise_fit() -> None:
    made = {name: certificate_of(name).to_dict() for name in ALGORITHMS}
    made |= {name: certificate_of(protocol=name).to_dict() for name in PROTOCOL_NAMES}
    made |= {f"page: {name}": plain for name, plain in sound().items()}
    made["seeded"] = certificate_of(noise=SeededNoise(3)).to_dict()
    made["questions"] = questions().to_dict()

    assert [fault for plain in made.values() for fault in faults(json.loads(json.dumps(plain)))] == []
    assert made["residual"]["format"] == 4


def changed(change: Any) -> dict[str, Any]:
    plain = copy.deepcopy(PLAIN)
    change(plain)
    return plain


PLAIN = json.loads(json.dumps(certificate_of().to_dict()))
WRONG = {
    "a bound is missing": lambda plain: plain["releases"][0].pop("l2_bound"),
    "the noise is missing": lambda plain: plain["releases"][0].pop("noise_multiplier"),
    "no word on privacy": lambda plain: plain["releases"][0].pop("private"),
    "a bound is text": lambda plain: plain["releases"][0].update(l2_bound="4096"),
    "a bound is negative": lambda plain: plain["releases"][0].update(l2_bound=-1),
    "an unknown mechanism": lambda plain: plain["releases"][0].update(mechanism="hope"),
    "an unknown participation": lambda plain: plain["releases"][0].update(participation={"kind": "some"}),
    "an unknown key of a release": lambda plain: plain["releases"][0].update(epsilon=0.1),
    "an unknown key": lambda plain: plain.update(certified_by="nobody"),
    "an unknown key of the claim": lambda plain: plain["claim"].update(rho=1.0),
    "epsilon is text": lambda plain: plain["claim"].update(epsilon="5"),
    "epsilon is negative": lambda plain: plain["claim"].update(epsilon=-0.1),
    "delta is 1": lambda plain: plain["claim"].update(delta=1),
    "another unit": lambda plain: plain["claim"].update(unit="rating"),
    "another adjacency": lambda plain: plain["claim"].update(adjacency="none"),
    "no claim": lambda plain: plain.pop("claim"),
    "no format": lambda plain: plain.pop("format"),
    "a format to come": lambda plain: plain.update(format=5),
    "no commitment": lambda plain: plain.pop("commitment"),
    "no noise in the plan": lambda plain: plain["commitment"]["plan"].update({"counts": 0}),
    "rounds are a number": lambda plain: plain.update(rounds=7),
    "no digest": lambda plain: plain.pop("digest"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_the_schema_refuses_does_not_verify_either(name: str) -> None:
    """The other way round, a schema cannot: numbers must follow from each other."""
    plain = changed(WRONG[name])

    assert faults(plain) != []
    assert not _holds(plain)
    assert faults(PLAIN) == []


def _holds(plain: dict[str, Any]) -> bool:
    """What ``verify`` says of the fields that it knows; unknown ones it does not read."""
    try:
        known = Certificate.from_dict(plain)
    except FedboardError:
        return False
    unread = plain.keys() - known.to_dict().keys() or plain["claim"].keys() - {
        "epsilon",
        "delta",
        "adjacency",
        "unit",
    }
    content = {key: value for key, value in plain.items() if key != "digest"}
    return known.holds and not unread and digest(content) == plain["digest"]
