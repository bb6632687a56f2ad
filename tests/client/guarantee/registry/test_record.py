"""Records of the registry: valid by its rules, made of what follows and of what was said, of no simulation."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft7Validator

from fedboard.client.guarantee.facts import accounting_of
from fedboard.client.guarantee.label.content import label_of
from fedboard.client.guarantee.registry.checking import STATUSES, check_record
from fedboard.client.guarantee.registry.record import NEEDED, joined, record_of, slug_of
from fedboard.common.certificate import Certificate
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.deployment import SECTORS, Deployment
from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise
from fedboard.common.protocols.registry import PROTOCOL_NAMES
from tests.client.page.certificates import release, sound
from tests.common.certificates import ACCOUNT, SAID, certificate_of, planned_events, questions
from tests.common.privacy.commitments import planned

RULES = json.loads(Path(__file__).with_name("registry_rules.json").read_text(encoding="utf-8"))
VALIDATOR = Draft7Validator(RULES, format_checker=Draft7Validator.FORMAT_CHECKER)
STATED = certificate_of(deployment=SAID)


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
CERTIFICATES |= {"stated": STATED, "questions": questions(), "replace": exchanged()}


@pytest.mark.parametrize("name", CERTIFICATES)
def test_a_record_fits_the_rules_and_is_found_to_follow(name: str) -> None:
    certificate = CERTIFICATES[name]

    record = record_of(certificate, SAID)

    assert faults(record) == []
    findings, said = check_record(json.loads(json.dumps(record)), certificate)
    assert [finding for finding in findings if not finding.passed] == []
    assert set(said) == (set() if name == "stated" else set(msgspec.to_builtins(SAID)))


def test_the_rules_refuse_what_the_registry_refuses() -> None:
    """A twin of the schema that let everything pass would show nothing."""
    good = record_of(STATED, SAID)
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
    known = RULES["properties"]["deployment"]["properties"]["basic"]["properties"]
    assert tuple(known["data_product_sector"]["enum"]) == SECTORS
    assert tuple(RULES["properties"]["status"]["enum"]) == STATUSES


def test_what_follows_is_filled_in_mu_first_and_rounded_up() -> None:
    record = record_of(STATED, SAID)["deployment"]

    details = at(record, "privacy_loss.privacy_parameters_details")
    mu, epsilon = STATED.composition.mu, STATED.claim.epsilon
    told = details.split()
    assert told[0] == "mu"
    assert mu <= float(told[1].rstrip(":")) <= mu * 1.0001
    assert epsilon <= at(record, "privacy_loss.privacy_parameters.epsilon") <= epsilon * 1.0001
    assert details.index("mu") < details.index("epsilon")
    assert STATED.digest in at(record, "administrative.notes")
    assert SAID.audit in at(record, "implementation.justification")
    assert SAID.refresh in at(record, "deployment_model.release_type_details")
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
    record = record_of(CERTIFICATES[name], SAID)

    assert at(record, "deployment.deployment_model.model_name") == model
    for sentence in CERTIFICATES[name].trust:
        assert sentence in at(record, "deployment.deployment_model.actors")


def test_of_questions_the_budget_is_stated_and_no_mu() -> None:
    record = record_of(CERTIFICATES["questions"], SAID)["deployment"]

    assert at(record, "privacy_loss.privacy_parameters_details").startswith("epsilon 2 at delta")
    assert at(record, "deployment_model.access_type") == "Interactive"
    assert "privacy filter" in at(record, "accounting.composition")
    assert "Recommendations" not in at(record, "accounting.post_processing")


@pytest.mark.parametrize(
    ("name", "told", "short"),
    [
        ("plan", "Gaussian mechanisms compose exactly", "exact curve"),
        ("fixed size", "everybody counted in every round although not all take part", "everybody counted"),
        ("budget", "a privacy filter", "privacy filter"),
    ],
)
def test_how_the_cost_was_counted_is_told_as_it_was(name: str, told: str, short: str) -> None:
    certificate = Certificate.from_dict(sound()[name])

    assert told in at(record_of(certificate, SAID), "deployment.accounting.composition")
    assert short in accounting_of(certificate)


def test_amplification_by_sampling_is_told_to_come_from_loss_distributions() -> None:
    pytest.importorskip("dp_accounting")
    events = [
        release(n, Adjacency.ADD_REMOVE, kind="poisson", probability=0.5, round=f"round-{n}")
        for n in range(2)
    ]
    certificate = certificate_of(events=events)

    assert "privacy loss distributions" in at(
        record_of(certificate, SAID), "deployment.accounting.composition"
    )
    assert "secret coins" in at(record_of(certificate, SAID), "deployment.implementation.mechanisms")
    assert label_of(certificate).facts[0][1].startswith("at most ")


def test_an_account_of_other_runs_is_told() -> None:

    record = record_of(certificate_of(population=ACCOUNT), SAID)

    assert "allows epsilon 8.0001 at delta 1e-05 in all" in at(
        record, "deployment.deployment_model.release_type_details"
    )


def test_a_simulation_gets_no_record_and_has_none_checked() -> None:
    simulated = certificate_of(noise=SeededNoise(1), deployment=SAID)

    with pytest.raises(PrivacyError, match="no record is made of a simulation"):
        record_of(simulated, SAID)
    with pytest.raises(PrivacyError, match="no record is made of a simulation"):
        check_record({"deployment": {"basic": {"name": 5}}}, certificate_of(noise=SeededNoise(1)))


def test_what_only_people_can_say_is_asked_for_by_its_keys() -> None:
    with pytest.raises(
        InputError, match=f"give {', '.join(NEEDED)}, each by --say KEY=TEXT, or in a section"
    ):
        record_of(STATED, Deployment())
    with pytest.raises(InputError, match="give region, authors, each"):
        record_of(STATED, msgspec.structs.replace(SAID, region="", authors=()))


def test_a_certificate_is_not_contradicted() -> None:
    assert joined(SAID, {"region": SAID.region, "notes": "more"}).notes == "more"
    with pytest.raises(InputError, match=r"the certificate states deployment\.region otherwise"):
        joined(SAID, {"region": "Elsewhere"})
    with pytest.raises(InputError, match=r"unknown key 'curator'; known are .*; did you mean 'curators'"):
        joined(None, {"curator": "A"})
    with pytest.raises(InputError, match=r"deployment\.published must be a day"):
        joined(None, {"published": "soon"})


def test_the_slug_is_the_registrys() -> None:
    said = msgspec.structs.replace(
        SAID, name="Spanish Next-Word", curators=("A & B", "C"), published="2022-02-01"
    )

    assert slug_of(said) == "spanish-next-word-a-b-c-2022"


def leaves(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in leaves(inner, (*path, key))]
    return [path]


def other(value: Any) -> Any:
    """Something else of the same kind."""
    if isinstance(value, float):
        return value * 0.8
    return f"{value}x" if isinstance(value, str) else [value]


ALL = leaves(record_of(STATED, SAID))


@pytest.mark.parametrize("path", ALL, ids=".".join)
def test_whatever_is_changed_in_a_record_is_found(path: tuple[str, ...]) -> None:
    """The certificate states all that people say, so there is no field that could be changed unseen."""
    record = json.loads(json.dumps(record_of(STATED, SAID)))
    place = record
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = other(place[path[-1]])

    findings, _ = check_record(record, STATED)

    assert ".".join(path) in {finding.check for finding in findings if not finding.passed}


@pytest.mark.parametrize(
    "path", [path for path in ALL if path[-1] not in ("status", "url_slug", "tier")], ids=".".join
)
def test_a_field_that_is_missing_is_found(path: tuple[str, ...]) -> None:
    record = json.loads(json.dumps(record_of(STATED, SAID)))
    place = record
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]

    assert not all(finding.passed for finding in check_record(record, STATED)[0])


def test_a_number_is_found_also_where_people_said_the_rest_in_the_record_alone() -> None:
    certificate = CERTIFICATES["trusted"]
    record = json.loads(json.dumps(record_of(certificate, SAID)))
    details = record["deployment"]["privacy_loss"]
    details["privacy_parameters_details"] = details["privacy_parameters_details"].replace("mu 1.", "mu 0.", 1)

    failed = [finding.check for finding in check_record(record, certificate)[0] if not finding.passed]

    assert failed == ["deployment.privacy_loss.privacy_parameters_details"]


def test_the_record_of_another_certificate_is_not_this_ones() -> None:
    other = certificate_of("adadpals", deployment=SAID)

    failed = {f.check for f in check_record(record_of(other, SAID), STATED)[0] if not f.passed}

    assert "deployment.administrative.notes" in failed


@pytest.mark.parametrize("status", STATUSES)
def test_who_reviews_may_set_the_status(status: str) -> None:
    findings, _ = check_record({**record_of(STATED, SAID), "status": status}, STATED)

    assert all(finding.passed for finding in findings)


@pytest.mark.parametrize(
    "record",
    [{}, {"deployment": 5}, {"deployment": {"basic": []}}, {"deployment": {"basic": {"name": {"a": 1}}}}],
)
def test_what_is_no_record_fails_and_breaks_nothing(record: dict[str, Any]) -> None:
    for certificate in (STATED, CERTIFICATES["trusted"]):
        assert not all(finding.passed for finding in check_record(record, certificate)[0])
