"""Whether a record says what its certificate says: every field that follows is made again and compared."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from fedboard.client.guarantee.registry.record import SAID, record_of, require_private
from fedboard.common.certificate import Certificate, Finding
from fedboard.common.errors import InputError
from fedboard.common.privacy.deployment import Deployment

STATUSES = (
    *("Converted", "Draft", "Pending", "Changes Required"),
    *("Approved", "Approved (Update Requested)", "Approved (Pending)"),
)
"""Who reviews records sets them; nothing follows for them from a certificate."""
_SAID_AT: Mapping[str, tuple[str, str]] = {
    "name": ("basic", "name"),
    "curators": ("basic", "data_curators"),
    "description": ("basic", "description"),
    "intended_use": ("basic", "intended_use"),
    "region": ("basic", "data_product_region"),
    "published": ("basic", "publication_date"),
    "sector": ("basic", "data_product_sector"),
    "unprotected": ("dp_variant", "unprotected_quantities"),
    "actors": ("deployment_model", "actors"),
    "refresh": ("deployment_model", "release_type_details"),
    "data_source": ("deployment_model", "data_source_type"),
    "access": ("deployment_model", "access_type_details"),
    "post_processing": ("accounting", "post_processing"),
    "preparation": ("implementation", "preprocessing_and_hyperparameter_tuning"),
    "justification": ("implementation", "justification"),
    "sources": ("administrative", "sources"),
    "notes": ("administrative", "notes"),
    "authors": ("administrative", "registry_authors"),
}
"""Key of a statement -> where a record has it."""
_AFTER = ("unprotected", "actors", "refresh", "access", "post_processing", "notes")
"""Of them, those that stand after what follows from the certificate."""
_DEEPEST = 5
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


def check_record(
    record: Mapping[str, Any], certificate: Certificate
) -> tuple[list[Finding], tuple[str, ...]]:
    """Make the record again and compare.

    What people say is taken from the certificate where it states that, else from the record itself: nobody can
    check it, and what stands around it is checked.

    Args:
        record: as it was read; may be anything. Public.
        certificate: one that was verified. Public.

    Returns:
        A finding for each field of either, and the keys that people said in the record alone.

    Raises:
        PrivacyError: the certificate is a simulation's.
    """
    require_private(certificate)
    stated = {} if certificate.deployment is None else msgspec.to_builtins(certificate.deployment)
    read = _read(record)
    try:
        said = msgspec.convert({**read, **stated}, Deployment)
        expected = record_of(certificate, said)
    except (msgspec.ValidationError, InputError) as error:
        return [Finding(check="statements", passed=False, detail=str(error))], ()
    findings = [_compared(path, _flat(record), value) for path, value in _flat(expected).items()]
    unknown = sorted(set(_flat(record)) - set(_flat(expected)))
    findings += [Finding(check=path, passed=False, detail="does not belong there") for path in unknown]
    return findings, tuple(key for key in read if key not in stated)


def _compared(path: str, record: Mapping[str, Any], expected: Any) -> Finding:
    found = record.get(path)
    if path == "status":
        return Finding(check=path, passed=found in STATUSES, detail=f"must be one of {', '.join(STATUSES)}")
    same = type(found) is type(expected) and found == expected
    return Finding(
        check=path, passed=same, detail=f"follows as {_short(expected)}, the record has {_short(found)}"
    )


def _short(value: Any, most: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _read(record: Mapping[str, Any]) -> dict[str, Any]:
    """What people say in a record, by key; whatever else stands there."""
    found: dict[str, Any] = {}
    for key, (part, name) in _SAID_AT.items():
        section = _table(_table(record.get("deployment")).get(part))
        value = section.get(name)
        if key in _AFTER and isinstance(value, str):
            value = value.partition(SAID)[2]
        if key == "justification" and isinstance(value, str):
            value, _, tested = value.rpartition("\n\n")
            found["audit"] = next(iter(_DIGEST.findall(tested)), "")
        if key == "data_source" and isinstance(value, str):
            value = value.lower()
        found[key] = value
    return {key: value for key, value in found.items() if value not in (None, "", [])}


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _flat(value: Any) -> dict[str, Any]:
    """Path with dots -> leaf; lists are leaves, and so is what lies deeper than any record."""
    return dict(_leaves(value, "", _DEEPEST))


def _leaves(value: Any, path: str, deeper: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value and deeper:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key), deeper - 1)
    else:
        yield path, value
