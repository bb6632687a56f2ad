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

_PARAGRAPHS = re.compile(r"^( *)\{\{(\w+)\}\}$", re.MULTILINE)
"""A slot that has a line to itself."""
_WORD = re.compile(r"\{\{(\w+)\}\}")
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
    texts, words = _texts(certificate), _words(certificate)
    parts = _PARAGRAPHS.split(template)  # text, indent, slot, text, ...: what is filled in is no slot itself
    told = [_WORD.sub(lambda slot: words[slot.group(1)], part) for part in parts[::3]]
    slots = [_indented(texts[name], by) for by, name in zip(parts[1::3], parts[2::3], strict=True)]
    return "".join(part + slot for part, slot in zip(told, [*slots, ""], strict=True))


def _indented(text: str, by: str) -> str:
    """Paragraphs of a literal block: no line of others begins further left, or holds a sign that YAML does not."""
    lines = [as_line(line) for line in text.strip().split("\n")]
    return "\n".join(f"{by}{line}" if line else "" for line in lines)


def _words(certificate: Certificate) -> dict[str, str]:
    """What stands in one of a few words or numbers, none of which is anybody's text."""
    return {
        "epsilon": _number(certificate.claim.epsilon),
        "delta": _number(certificate.claim.delta),
        "model_name": _model_name(certificate),
        "release_type": "Many releases" if _publications(certificate) > 1 else "One release",
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


def _texts(certificate: Certificate) -> dict[str, str]:
    """What follows from the certificate, in sentences; text of others among them."""
    adjacency, held, claim = certificate.claim.adjacency, certificate.composition, certificate.claim
    hidden = "" if adjacency == "add-remove" else " That a user takes part is not protected."
    exact = "exactly" if held.exact else "at most"
    points = ", ".join(
        f"{shown_number(point.epsilon)} at delta {shown_number(point.delta)}" for point in certificate.curve
    )
    rounds, total, digest = certificate.rounds, certificate.population, certificate.board_digest
    made = (
        ""
        if rounds is None
        else f" {rounds.made} rounds are made so far, {rounds.lost} lost with their budget."
    )
    account = (
        "No account of other runs on the same users is stated."
        if total is None
        else f"An account of all runs on the same users allows epsilon {shown_number(total.budget)} at delta "
        f"{shown_number(total.delta)} in all, and refuses more."
    )
    assumed = "\n".join(f"- {shown_sentence(sentence)}" for sentence in certificate.assumptions)
    board = "" if digest is None else f" The board it came with has the digest {digest}."
    return {
        "data_domain": f"{certificate.dataset}. A data set is any number of users, each with any values in the "
        "public range of any items of the public catalogue.",
        "unprotected": "Published as they are: The catalogue of items, the range of ratings, and all settings of "
        f"the algorithm and of its noise.{hidden}",
        "unit_details": f"One user with all her ratings. {_UNIT_DISTANCE[adjacency]} ({adjacency}: "
        f"{parse_adjacency(adjacency).sentence}.) Distance is the number of such changes; adjacent is a distance "
        "of at most 1.",
        "parameters_details": f"mu {shown_number(held.mu)}: {exact} {shown_number(held.mu)}-Gaussian differential "
        f"privacy (and {exact} {shown_number(held.rho)}-zCDP). epsilon {shown_number(claim.epsilon)} at delta "
        f"{shown_number(claim.delta)}; on the same curve epsilon {points}. Who bets on one user is right at most "
        f"{in_hundred(right_bets(claim, held))} times in 100, 50 by tossing a coin. All numbers are rounded up to "
        "five digits.",
        "model_details": _MODELS[_model_name(certificate)],
        "trust": "\n".join(f"- {sentence}" for sentence in certificate.trust) or "Not stated by the run.",
        "releases_details": f"{_publications(certificate)} publications are planned, one after each round; the "
        f"privacy loss stated is that of the whole plan, whether it was made or not.{made} {account}",
        "composition": f"{_counted(certificate)} Converted from Renyi orders the same would be stated as epsilon "
        f"{shown_number(held.epsilon_rdp)}, from zCDP as {shown_number(held.epsilon_zcdp)}.",
        "mechanisms": f"- Releases: {mechanisms_of(certificate)}; what one user adds to each is bounded "
        "beforehand.\n- Floating point: contributions lie on an integer grid, sums are exact integers, and what is "
        f"added to them are whole numbers.\n- Randomness: {certificate.noise}.\n- Software: "
        f"{certificate.software}. Each release is booked in a hash-chained ledger before its noise is drawn."
        + (f"\n\nTaken for granted:\n\n{assumed}" if assumed else ""),
        "evidence": f"Every number here follows from the certificate with SHA-256 {certificate.digest}.{board} "
        "`fedboard certificate verify` recomputes the certificate, `fedboard certificate show --as registry` "
        "writes this record anew.",
    }


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
