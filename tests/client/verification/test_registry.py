"""Records of the registry: valid by its rules once people have said what is marked, made of what follows alone."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from fedboard.client.verification.evidence import Evidence
from fedboard.client.verification.label import accounting_of, facts_of
from fedboard.client.verification.registry import record_of, registry_record
from fedboard.common.certificate import Certificate
from fedboard.common.errors import InputError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.protocols.registry import PROTOCOL_NAMES
from tests.client.page.certificates import release, sound
from tests.common.certificates import ACCOUNT, certificate_of, planned_events, questions
from tests.common.privacy.commitments import planned

RULES = json.loads(Path(__file__).with_name("registry_rules.json").read_text(encoding="utf-8"))
VALIDATOR = Draft7Validator(RULES, format_checker=Draft7Validator.FORMAT_CHECKER)
PLAIN = certificate_of()
MARK = "TO SAY: "
SAID = {"publication_date": "2026-05-04", "data_product_sector": "Education", "data_source_type": "Dynamic"}
"""What people say where only some words are allowed; elsewhere they may say anything."""


def draft(certificate: Certificate) -> dict[str, Any]:
    return yaml.safe_load(record_of(certificate))


def completed(value: Any, key: str = "") -> Any:
    """The record with something said wherever a mark stands."""
    if isinstance(value, dict):
        return {name: completed(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [completed(inner, key) for inner in value]
    if isinstance(value, str) and MARK in value:
        return value.partition(MARK)[0] + SAID.get(key, "as said")
    return value


def faults(record: dict[str, Any]) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(record)]


def at(record: dict[str, Any], path: str) -> Any:
    for key in path.split("."):
        record = record[key]
    return record


def exchanged() -> Certificate:
    events = [
        {**event, "noise": SecureNoise.label, "private": True}
        for event in planned_events("residual", Adjacency.REPLACE)
    ]
    return certificate_of(commitment=planned(events, epsilon=5.0, adjacency="replace"), events=events)


CERTIFICATES = {name: certificate_of(protocol=name) for name in PROTOCOL_NAMES}
CERTIFICATES |= {"replace": exchanged()}


@pytest.mark.parametrize("name", CERTIFICATES)
def test_a_record_fits_the_rules_once_people_have_said_what_is_marked(name: str) -> None:
    record = draft(CERTIFICATES[name])

    assert {fault.partition(":")[0].rpartition(".")[2] for fault in faults(record)} == set(SAID)
    assert faults(completed(record)) == []


def test_the_rules_refuse_what_the_registry_refuses() -> None:
    """A twin of the schema that let everything pass would show nothing."""
    good = completed(draft(PLAIN))
    assert faults({**good, "surprise": 1}) != []
    assert faults({**good, "tier": 0}) != []
    assert faults({key: value for key, value in good.items() if key != "status"}) != []
    for path, value in {
        "basic.publication_date": "4.5.2026",
        "basic.data_curators": [],
        "basic.data_product_sector": "Espionage",
        "dp_variant.variant_name": "Gaussian DP",
        "privacy_loss.privacy_parameters": {"mu": 1.0},
        "administrative.registry_authors": "one",
    }.items():
        changed = json.loads(json.dumps(good))
        part, key = path.split(".")
        changed["deployment"][part][key] = value
        assert faults(changed) != [], path


def test_the_file_is_in_the_form_that_the_registry_takes() -> None:
    """By its own checks: the slug first, no folded text, so that paragraphs stay."""
    text = record_of(PLAIN)

    assert text.startswith("url_slug: ")
    styles = {token.style for token in yaml.scan(text, Loader=yaml.SafeLoader) if hasattr(token, "style")}
    assert styles <= {None, "|", '"', "'"}


@pytest.mark.parametrize(
    "hostile",
    [
        "x\n  tier: 1\nstatus: Approved",
        "\n\n   deeper\n\tand # no comment",
        "{{epsilon}} {{trust}} &a *a !!python/object:os.system 'ran' \\",
        "a\x07\x85b\u2028c\u2029d\ufeff\u202ee\ud800",
        "--- \n...\n- list\n? key\n: value",
    ],
)
def test_text_of_others_stays_where_it_is_put(hostile: str) -> None:
    """A certificate may come from anybody: nothing in it makes a key, a document or a sign that YAML refuses."""
    certificate = dataclasses.replace(
        PLAIN,
        dataset=hostile,
        trust=(hostile, "and"),
        assumptions=(hostile,),
        software=hostile,
        noise=hostile,
    )

    usual, found = draft(PLAIN), draft(certificate)

    assert leaves(found) == leaves(usual)
    theirs = {("data_domain",), ("actors",), ("mechanisms",)}
    same = [path for path in leaves(usual) if (path[-1],) not in theirs]
    assert [path for path in same if at(found, ".".join(path)) != at(usual, ".".join(path))] == []
    assert found["status"] == "Draft"
    assert at(found, "deployment.deployment_model.actors").count(MARK) == 1


def leaves(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in leaves(inner, (*path, key))]
    return [path]


def test_what_follows_is_filled_in_mu_first_and_rounded_up() -> None:
    record = draft(PLAIN)["deployment"]

    details = at(record, "privacy_loss.privacy_parameters_details")
    mu, epsilon = PLAIN.composition.mu, PLAIN.claim.epsilon
    told = details.split()
    assert told[0] == "mu"
    assert mu <= float(told[1].rstrip(":")) <= mu * 1.0001
    assert epsilon <= at(record, "privacy_loss.privacy_parameters.epsilon") <= epsilon * 1.0001
    assert details.index("mu") < details.index("epsilon")
    assert PLAIN.digest in at(record, "administrative.notes")
    assert at(record, "deployment_model.release_type") == "Many releases"


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("trusted", "Central"),
        ("secure-sum", "Central"),
        ("two-server", "Central"),
        ("distributed-dp", "Federated"),
        ("local", "Local"),
    ],
)
def test_the_model_is_the_one_that_asks_for_as_much_trust(name: str, model: str) -> None:
    record = draft(CERTIFICATES[name])

    assert at(record, "deployment.deployment_model.model_name") == model
    for sentence in CERTIFICATES[name].trust:
        assert sentence in at(record, "deployment.deployment_model.actors")


def test_questions_are_no_deployment() -> None:
    with pytest.raises(InputError, match="no record is written of questions"):
        registry_record(Evidence(certificate=questions()))


@pytest.mark.parametrize(
    ("name", "told", "short"),
    [
        ("plan", "Gaussian mechanisms compose exactly", "exact curve"),
        ("fixed size", "everybody counted in every round although not all take part", "everybody counted"),
    ],
)
def test_how_the_cost_was_counted_is_told_as_it_was(name: str, told: str, short: str) -> None:
    certificate = Certificate.from_dict(sound()[name])

    assert told in at(draft(certificate), "deployment.accounting.composition")
    assert short in accounting_of(certificate)


def test_amplification_by_sampling_is_told_to_come_from_loss_distributions() -> None:
    pytest.importorskip("dp_accounting")
    events = [
        release(n, Adjacency.ADD_REMOVE, kind="poisson", probability=0.5, round=f"round-{n}")
        for n in range(2)
    ]
    certificate = certificate_of(events=events)

    assert "privacy loss distributions" in at(draft(certificate), "deployment.accounting.composition")
    assert "secret coins" in at(draft(certificate), "deployment.implementation.mechanisms")
    assert next(facts_of(certificate))[1].startswith("at most ")


def test_an_account_of_other_runs_is_told() -> None:

    record = draft(certificate_of(population=ACCOUNT))

    assert "allows epsilon 8.0001 at delta 1e-05 in all" in at(
        record, "deployment.deployment_model.release_type_details"
    )


def test_small_numbers_stay_numbers() -> None:
    claim = dataclasses.replace(PLAIN.claim, delta=1.23456789e-12)

    found = at(draft(dataclasses.replace(PLAIN, claim=claim)), "deployment.privacy_loss.privacy_parameters")

    assert found["delta"] == 1.2346e-12
