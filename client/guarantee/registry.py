"""A record for the registry of deployments that OpenDP keeps with NIST: ``opendp/deployments-registry-data``.

It is ``registry.yaml`` beside this file: what follows from the certificate is filled in, five digits, rounded up,
mu first; what only people can say is marked ``TO SAY``, and the registry's own rules refuse a record that still has
all of the marks. The fields are those of ``schemas/deployments-schema.yaml`` there (tier 3), as of July 2026.
"""

import re
from importlib.resources import files

from fedboard.client.guarantee.evidence import Evidence
from fedboard.client.guarantee.facts import as_line, is_by_curve, least_shares, mechanisms_of
from fedboard.client.guarantee.verification import require_holds
from fedboard.common.certificate import Certificate
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


def registry_record(evidence: Evidence) -> str:
    """The record of a deployment as YAML, a draft that people complete.

    Args:
        evidence: what is there of the run; it is verified first. Public.

    Raises:
        FedboardError: it does not hold.
        InputError: nothing was released yet.
        PrivacyError: the noise is a simulation's: nobody was protected, so there is nothing to register.
    """
    require_holds(evidence, "no record is written")
    return record_of(evidence.certificate)


def record_of(certificate: Certificate) -> str:
    """The same of a certificate that was verified."""
    template = files(__package__).joinpath("registry.yaml").read_text(encoding="utf-8")
    texts, words = _texts(certificate), _words(certificate)
    parts = _PARAGRAPHS.split(
        template
    )  # text, indent, slot, text, ...: nothing that is filled in is a slot itself
    told = [_WORD.sub(lambda slot: words[slot.group(1)], part) for part in parts[::3]]
    slots = [_indented(texts[name], by) for by, name in zip(parts[1::3], parts[2::3], strict=True)]
    return "".join(part + slot for part, slot in zip(told, [*slots, ""], strict=True))


def _indented(text: str, by: str) -> str:
    """Paragraphs of a literal block: no line of others begins further left, or holds a sign that YAML does not."""
    lines = [as_line(line) for line in text.strip().split("\n")]
    return "\n".join(f"{by}{line}" if line else "" for line in lines)


def _words(certificate: Certificate) -> dict[str, str]:
    """What stands in one of a few words or numbers, none of which is anybody's text."""
    asked, claim = _is_interactive(certificate), certificate.claim
    return {
        "product": "Summary statistics" if asked else "Machine learning model",
        "epsilon": _number(claim.epsilon),
        "delta": _number(claim.delta),
        "model_name": _model_name(certificate),
        "release_type": "Many releases" if _publications(certificate) > 1 else "One release",
        "access_type": "Interactive" if asked else "Non-interactive",
    }


def _number(value: float) -> str:
    """Five digits, rounded up, as YAML 1.1 takes a number: with a point, also before an exponent."""
    text = repr(float(shown_number(value)))
    return text if "." in text else text.replace("e", ".0e")


def _texts(certificate: Certificate) -> dict[str, str]:
    return {
        "data_domain": _data_domain(certificate),
        "unprotected": _unprotected(certificate),
        "unit_details": _unit_details(certificate),
        "parameters_details": _parameters_details(certificate),
        "model_details": _model_details(certificate),
        "trust": _trust(certificate),
        "releases_details": _releases_details(certificate),
        "access_details": _access_details(certificate),
        "post_processing": _post_processing(certificate),
        "composition": _composition(certificate),
        "mechanisms": _mechanisms(certificate),
        "evidence": _evidence(certificate),
    }


def _is_interactive(certificate: Certificate) -> bool:
    """Whether questions are asked one after another, within a budget, rather than as planned."""
    return not certificate.planned


def _publications(certificate: Certificate) -> int:
    """How many times something is published at most, as far as is planned; of questions, so far."""
    if certificate.rounds is not None:
        return max(certificate.rounds.planned, 1)
    held = certificate.commitment
    return len(certificate.releases if held.plan is None else held.plan)


def _model_name(certificate: Certificate) -> str:
    """Local where each device's message is noised enough by itself, else what asks for more trust.

    Federated where the devices add the noise together. Where a server adds it, Central, whatever that server sees:
    the registry's models differ in whom people must trust.
    """
    least = least_shares(certificate)
    return "Local" if least == 1 else "Federated" if least else "Central"


def _data_domain(certificate: Certificate) -> str:
    """What data sets there could be."""
    of_items = "" if _is_interactive(certificate) else " of any items of the public catalogue"
    return (
        f"{certificate.dataset}. A data set is any number of users, each with any values in the public "
        f"range{of_items}."
    )


def _unprotected(certificate: Certificate) -> str:
    """What the boards hold that is not noised."""
    public = (
        "The catalogue of items, the range of ratings, and all settings of the algorithm and of its noise."
    )
    hidden = (
        "" if certificate.claim.adjacency == "add-remove" else " That a user takes part is not protected."
    )
    return f"Published as they are: {public}{hidden}"


def _unit_details(certificate: Certificate) -> str:
    """Which data sets are adjacent."""
    adjacency = certificate.claim.adjacency
    meant = parse_adjacency(adjacency).sentence
    return (
        f"One user with all her ratings. {_UNIT_DISTANCE[adjacency]} ({adjacency}: {meant}.) Distance is the "
        "number of such changes; adjacent is a distance of at most 1."
    )


def _parameters_details(certificate: Certificate) -> str:
    """Mu, what it is worth at this delta and at others, and what a bet is."""
    claim, held = certificate.claim, certificate.composition
    bets = in_hundred(right_bets(claim, held))
    points = ", ".join(
        f"{shown_number(point.epsilon)} at delta {shown_number(point.delta)}" for point in certificate.curve
    )
    mu = ""
    if certificate.planned:
        exact = "exactly" if held.exact else "at most"
        mu = (
            f"mu {shown_number(held.mu)}: {exact} {shown_number(held.mu)}-Gaussian differential privacy (and "
            f"{exact} {shown_number(held.rho)}-zCDP). "
        )
    return (
        f"{mu}epsilon {shown_number(claim.epsilon)} at delta {shown_number(claim.delta)}; on the same curve "
        f"epsilon {points}. Who bets on one user is right at most {bets} times in 100, 50 by tossing a coin. "
        "All numbers are rounded up to five digits."
    )


def _trust(certificate: Certificate) -> str:
    """Who could see what, in the words of the protocol that ran."""
    return "\n".join(f"- {sentence}" for sentence in certificate.trust) or "Not stated by the run."


def _model_details(certificate: Certificate) -> str:
    """Where the noise is drawn."""
    return {
        "Local": "Each device adds all the noise that the guarantee counts before it sends anything.",
        "Federated": "Devices keep their ratings and add noise in shares; a server adds up what they send.",
        "Central": "A server adds the noise to sums over users before anything is published; what it sees of one "
        "user is among the actors.",
    }[_model_name(certificate)]


def _releases_details(certificate: Certificate) -> str:
    """What is counted, and whether it ends."""
    if _is_interactive(certificate):
        return (
            f"Questions are answered one after another, {len(certificate.releases)} releases so far; the "
            "whole budget is stated, and a ledger refuses what it does not cover."
        )
    rounds = certificate.rounds
    made = (
        ""
        if rounds is None
        else f" {rounds.made} rounds are made so far, {rounds.lost} lost with their budget."
    )
    total = certificate.population
    account = (
        "No account of other runs on the same users is stated."
        if total is None
        else f"An account of all runs on the same users allows epsilon {shown_number(total.budget)} at delta "
        f"{shown_number(total.delta)} in all, and refuses more."
    )
    return (
        f"{_publications(certificate)} publications are planned, one after each round; the privacy loss "
        f"stated is that of the whole plan, whether it was made or not.{made} {account}"
    )


def _access_details(certificate: Certificate) -> str:
    """What people can do with the data product."""
    if _is_interactive(certificate):
        return "The curator asks; each answer is noised and booked before it is seen. There is one budget for all."
    return "Boards are published as files; nobody can query the data."


def _post_processing(certificate: Certificate) -> str:
    """What is done after the noise."""
    if _is_interactive(certificate):
        return "Answers are computed from released numbers alone."
    return (
        "Item factors are computed from released sums alone, as the published algorithm says. "
        "Recommendations are made on people's own devices from a board and their own ratings."
    )


def _composition(certificate: Certificate) -> str:
    """How the cost of all releases adds up."""
    held = certificate.composition
    if _is_interactive(certificate):
        how = "Adaptive composition within a budget that is checked before each release (a privacy filter)."
    elif held.exact:
        how = (
            "Gaussian mechanisms compose exactly: mu is the root of the sum of their squared mu, and epsilon "
            "follows from the exact privacy curve. The whole plan is counted."
        )
    elif is_by_curve(certificate):
        how = (
            "Gaussian mechanisms compose to the root of the sum of their squared mu, everybody counted in "
            "every round although not all take part: an upper bound. The whole plan is counted."
        )
    else:
        how = "Adaptive composition of the whole plan by privacy loss distributions (dp-accounting)."
    return (
        f"{how} Converted from Renyi orders the same would be stated as epsilon {shown_number(held.epsilon_rdp)}, "
        f"from zCDP as {shown_number(held.epsilon_zcdp)}."
    )


def _mechanisms(certificate: Certificate) -> str:
    """Which mechanisms, from which randomness, by which software, and what is taken for granted."""
    assumed = "\n".join(f"- {shown_sentence(sentence)}" for sentence in certificate.assumptions)
    return (
        f"- Releases: {mechanisms_of(certificate)}; what one user adds to each is bounded beforehand.\n"
        "- Floating point: contributions lie on an integer grid, sums are exact integers, and what is added "
        "to them are whole numbers.\n"
        f"- Randomness: {certificate.noise}.\n"
        f"- Software: {certificate.software}. Each release is booked in a hash-chained ledger before its "
        "noise is drawn." + (f"\n\nTaken for granted:\n\n{assumed}" if assumed else "")
    )


def _evidence(certificate: Certificate) -> str:
    """By what anybody can recompute the record."""
    board = (
        ""
        if certificate.board_digest is None
        else f" The board it came with has the digest {certificate.board_digest}."
    )
    return (
        f"Every number here follows from the certificate with SHA-256 {certificate.digest}.{board} `fedboard "
        "certificate verify` recomputes the certificate, `fedboard certificate show --as registry` writes this "
        "record anew."
    )
