"""The record: each field of the registry's schema, filled by what follows, by what was said, or by both."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from fedboard.client.guarantee.registry import derived
from fedboard.common.certificate import Certificate
from fedboard.common.checks import sentence_of
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.deployment import SECTION, Deployment
from fedboard.common.privacy.releases.protection import Protection, protection_of

NEEDED = (
    *("name", "curators", "description", "intended_use", "region", "published", "unprotected", "refresh"),
    *("data_source", "actors", "access", "preparation", "justification", "authors"),
)
"""Keys of ``Deployment`` without which a record has a hole; the others may be left out."""
SAID = "\n\nThe curator says: "
"""Stands between what the certificate says and what somebody says."""
_SOURCES = {"static": "Static", "dynamic": "Dynamic"}
_NOT_WORDS = re.compile(r"\W+")


def record_of(certificate: Certificate, deployment: Deployment) -> dict[str, Any]:
    """The record of a deployment.

    Args:
        certificate: one that was verified. Public.
        deployment: what people say; the certificate's own, and more where that says nothing. Public.

    Raises:
        PrivacyError: the noise is a simulation's: nobody was protected, so there is nothing to register.
        InputError: something that only people can say was not said.
    """
    require_private(certificate)
    missing = [key for key in NEEDED if not getattr(deployment, key)]
    if missing:
        raise InputError(
            f"a record needs what only people can say: give {', '.join(missing)}, each by --say KEY=TEXT, or "
            f"in a section [{SECTION}] of fleet.toml or of a file for --deployment"
        )
    body = {
        "basic": _basic(certificate, deployment),
        "dp_variant": {
            "variant_name": "Approximate DP",
            "data_domain": derived.data_domain(certificate),
            "unprotected_quantities": _both(derived.unprotected(certificate), deployment.unprotected),
        },
        "privacy_loss": {
            "privacy_unit": "User-level",
            "privacy_unit_details": derived.unit_details(certificate),
            "privacy_parameters": derived.parameters(certificate),
            "privacy_parameters_details": derived.parameters_details(certificate),
        },
        "deployment_model": _model(certificate, deployment),
        "accounting": {
            "post_processing": _both(derived.post_processing(certificate), deployment.post_processing),
            "composition": derived.composition(certificate),
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": deployment.preparation,
            "mechanisms": derived.mechanisms(certificate),
            "justification": f"{deployment.justification}\n\n{derived.audit(deployment.audit)}",
        },
        "administrative": {
            **({"sources": deployment.sources} if deployment.sources else {}),
            "notes": _both(derived.evidence(certificate), deployment.notes),
            "registry_authors": list(deployment.authors),
        },
    }
    return {"url_slug": slug_of(deployment), "status": "Draft", "tier": 3, "deployment": body}


def _basic(certificate: Certificate, deployment: Deployment) -> dict[str, Any]:
    interactive = derived.is_interactive(certificate)
    return {
        "name": deployment.name,
        "data_curators": list(deployment.curators),
        "intended_use": deployment.intended_use,
        "data_product_type": "Summary statistics" if interactive else "Machine learning model",
        "data_product_region": deployment.region,
        "description": deployment.description,
        "publication_date": deployment.published,
        **({"data_product_sector": deployment.sector} if deployment.sector else {}),
    }


def _model(certificate: Certificate, deployment: Deployment) -> dict[str, Any]:
    return {
        "model_name": derived.model_name(certificate),
        "model_name_details": derived.model_details(certificate),
        "actors": _both(derived.trust(certificate), deployment.actors),
        "release_type": "Many releases" if derived.publications(certificate) > 1 else "One release",
        "release_type_details": _both(derived.releases_details(certificate), deployment.refresh),
        "data_source_type": _SOURCES[deployment.data_source],
        "access_type": "Interactive" if derived.is_interactive(certificate) else "Non-interactive",
        "access_type_details": _both(derived.access_details(certificate), deployment.access),
    }


def require_private(certificate: Certificate) -> None:
    """Refuse a simulation.

    Raises:
        PrivacyError: it is one.
    """
    if protection_of(certificate.releases) is not Protection.PRIVATE:
        raise PrivacyError(
            "no record is made of a simulation: its noise can be reproduced from a seed, so nobody was "
            "protected; run it "
            'with secure noise (privacy.noise = "secure")'
        )


def joined(stated: Deployment | None, added: Mapping[str, Any]) -> Deployment:
    """What a certificate states, and what else is said of the deployment.

    Args:
        stated: under the certificate's digest.
        added: keys of ``Deployment`` that somebody says now.

    Raises:
        InputError: they contradict each other, or a text cannot stand there.
    """
    held = {} if stated is None else msgspec.to_builtins(stated)
    others = [key for key in added if key in held and held[key] != msgspec.to_builtins(added[key])]
    if others:
        raise InputError(
            f"the certificate states {', '.join(f'{SECTION}.{key}' for key in others)} otherwise, and what "
            "it states cannot be said anew; leave it out"
        )
    try:
        return msgspec.convert({**held, **added}, Deployment)
    except msgspec.ValidationError as error:
        raise InputError(sentence_of(error, Deployment)) from None


def slug_of(deployment: Deployment) -> str:
    """The name of its page in the registry, by the registry's own rule."""
    parts = (deployment.name, "-".join(deployment.curators), deployment.published.partition("-")[0])
    return "_".join(_NOT_WORDS.sub("_", part.lower()) for part in parts).replace("_", "-")


def _both(follows: str, said: str) -> str:
    return f"{follows}{SAID}{said}" if said else follows
