"""A record for the registry of deployments that OpenDP keeps with NIST: ``opendp/deployments-registry-data``.

It is ``registry.yaml`` beside this file: what follows from the certificate is filled in, five digits, rounded up,
mu first; what only people can say is marked ``TO SAY``, and the registry's own rules refuse a record that still has
all of the marks. The fields are those of ``schemas/deployments-schema.yaml`` there (tier 3), as of July 2026.
"""

import re
from importlib.resources import files

from fedboard.client.verification.evidence import Evidence
from fedboard.client.verification.label import as_line, is_by_curve, least_shares, mechanisms_of
from fedboard.client.verification.verification import require_holds
from fedboard.common.certificate import Certificate
from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.guarantee import in_hundred, right_bets
from fedboard.common.privacy.adjacency import parse_adjacency
from fedboard.common.privacy.shown import shown_number, shown_sentence

_SLOT = re.compile(r"\{\{(\w+)\}\}")
_UNIT_DISTANCE = {
    "add-remove": "Data sets are adjacent if they differ by all ratings of one user, added or removed.",
    "replace": "Data sets are adjacent if they differ by all ratings of one user, exchanged for any others; "
    "that a user takes part is not protected.",
    "replace-values": "Data sets are adjacent if they differ by the values of one user, exchanged for as "
    "many others.",
    "replace-labels": "Data sets are adjacent if they differ by the labels of one user, exchanged for any others.",
}
_MODELS = {
    "Local": "Each device adds all the noise that the guarantee counts before it sends anything.",
    "Federated": "Devices keep their ratings and add noise in shares; a server adds up what they send.",
    "Central": "A server adds the noise to sums over users before anything is published; what it sees of one "
    "user is among the actors.",
}
"""Where the noise is drawn."""


def registry_record(evidence: Evidence) -> str:
    """The record of a deployment as YAML, a draft that people complete.

    Args:
        evidence: what is there of the run; it is verified first. Public.

    Raises:
        FedboardError: it does not hold.
        InputError: nothing was released yet, or questions are answered within a budget and nothing is planned.
        PrivacyError: the noise is a simulation's: nobody was protected, so there is nothing to register.
    """
    require_holds(evidence, "no record is written")
    if not evidence.certificate.planned:
        raise InputError(
            "no record is written of questions: they are no deployment; it is for a training's boards"
        )
    return record_of(evidence.certificate)


def record_of(certificate: Certificate) -> str:
    """The same of a training's certificate that was verified."""
    template = files(__package__).joinpath("registry.yaml").read_text(encoding="utf-8")
    words, lists = _words(certificate), {"trust": certificate.trust, "assumptions": certificate.assumptions}

    def told(line: str) -> str:
        indent, _, slot = line.partition("{{")
        sentences = lists.get(slot.removesuffix("}}"))
        if sentences is None:
            return _SLOT.sub(lambda found: as_line(words[found.group(1)]), line).rstrip()
        return "\n".join(f"{indent}- {as_line(shown_sentence(one))}" for one in sentences or ["none stated"])

    return "\n".join(map(told, template.split("\n")))


def _words(certificate: Certificate) -> dict[str, str]:
    """What stands within a line; text of others among them, each of which ``as_line`` keeps on its own."""
    claim, held = certificate.claim, certificate.composition
    rounds, total, model = certificate.rounds, certificate.population, _model_name(certificate)
    points = [f"{shown_number(p.epsilon)} at delta {shown_number(p.delta)}" for p in certificate.curve]
    digest, n_publications = certificate.board_digest, _publications(certificate)
    made = (
        ""
        if rounds is None
        else f"{rounds.made} rounds are made so far, {rounds.lost} lost with their budget."
    )
    account = (
        "No account of other runs on the same users is stated."
        if total is None
        else f"An account of all runs on the same users allows epsilon {shown_number(total.budget)} at delta "
        f"{shown_number(total.delta)} in all, and refuses more."
    )
    return {
        "epsilon": _number(claim.epsilon),
        "delta": _number(claim.delta),
        "model_name": model,
        "release_type": "Many releases" if n_publications > 1 else "One release",
        "dataset": certificate.dataset,
        "hidden": "" if claim.adjacency == "add-remove" else "That a user takes part is not protected.",
        "adjacent": _UNIT_DISTANCE[claim.adjacency],
        "adjacency": f"{claim.adjacency}: {parse_adjacency(claim.adjacency).sentence}",
        "mu": shown_number(held.mu),
        "rho": shown_number(held.rho),
        "exactly": "exactly" if held.exact else "at most",
        "shown_epsilon": shown_number(claim.epsilon),
        "shown_delta": shown_number(claim.delta),
        "curve": ", ".join(points),
        "odds": str(in_hundred(right_bets(claim, held))),
        "model_details": _MODELS[model],
        "publications": str(n_publications),
        "made": made,
        "account": account,
        "counted": _counted(certificate),
        "epsilon_rdp": shown_number(held.epsilon_rdp),
        "epsilon_zcdp": shown_number(held.epsilon_zcdp),
        "mechanisms": mechanisms_of(certificate),
        "noise": certificate.noise,
        "software": certificate.software,
        "digest": certificate.digest,
        "board": "" if digest is None else f"The board it came with has the digest {digest}.",
    }


def _number(value: float) -> str:
    """Five digits, rounded up, as YAML 1.1 takes a number: with a point, also before an exponent."""
    text = repr(float(shown_number(value)))
    return text if "." in text else text.replace("e", ".0e")


def _publications(certificate: Certificate) -> int:
    """How many times something is published at most, as far as is planned."""
    if certificate.rounds is not None:
        return max(certificate.rounds.planned, 1)
    return len(certificate.commitment.plan or {})


def _model_name(certificate: Certificate) -> str:
    """Local where each device's message is noised enough by itself, else what asks for more trust.

    Federated where the devices add the noise together. Where a server adds it, Central, whatever that server sees:
    the registry's models differ in whom people must trust.
    """
    least = least_shares(certificate)
    return "Local" if least == 1 else "Federated" if least else "Central"


def _counted(certificate: Certificate) -> str:
    """How the cost of all releases adds up."""
    if certificate.composition.exact:
        return (
            "Gaussian mechanisms compose exactly: mu is the root of the sum of their squared mu, and epsilon "
            "follows from the exact privacy curve. The whole plan is counted."
        )
    if is_by_curve(certificate):
        return (
            "Gaussian mechanisms compose to the root of the sum of their squared mu, everybody counted in "
            "every round although not all take part: an upper bound. The whole plan is counted."
        )
    return "Adaptive composition of the whole plan by privacy loss distributions (dp-accounting)."
