"""What a record says that follows from the certificate, in words and numbers: five digits, rounded up, mu first."""

from fedboard.client.guarantee.facts import is_by_curve, least_shares, mechanisms_of
from fedboard.common.certificate import Certificate
from fedboard.common.privacy.accounting.odds import in_hundred, right_bets
from fedboard.common.privacy.adjacency import parse_adjacency
from fedboard.common.privacy.shown import shown_number, shown_sentence

_UNIT_DISTANCE = {
    "add-remove": "Data sets are adjacent if they differ by all ratings of one user, added or removed.",
    "replace": "Data sets are adjacent if they differ by all ratings of one user, exchanged for any others; "
    "that a user takes part is not protected.",
    "replace-values": "Data sets are adjacent if they differ by the values of one user, exchanged for as "
    "many others.",
    "replace-labels": "Data sets are adjacent if they differ by the labels of one user, exchanged for any others.",
}


def is_interactive(certificate: Certificate) -> bool:
    """Whether questions are asked one after another, within a budget, rather than as planned."""
    return not certificate.planned


def publications(certificate: Certificate) -> int:
    """How many times something is published at most, as far as is planned; of questions, so far."""
    if certificate.rounds is not None:
        return max(certificate.rounds.planned, 1)
    held = certificate.commitment
    return len(certificate.releases if held.plan is None else held.plan)


def model_name(certificate: Certificate) -> str:
    """Local where each device's message is noised enough by itself, else what asks for more trust.

    Federated where the devices add the noise together. Where a server adds it, Central, whatever that server sees:
    the registry's models differ in whom people must trust.
    """
    least = least_shares(certificate)
    return "Local" if least == 1 else "Federated" if least else "Central"


def data_domain(certificate: Certificate) -> str:
    """What data sets there could be."""
    of_items = "" if is_interactive(certificate) else " of any items of the public catalogue"
    return (
        f"{certificate.dataset}. A data set is any number of users, each with any values in the public "
        f"range{of_items}."
    )


def unprotected(certificate: Certificate) -> str:
    """What the boards hold that is not noised."""
    public = (
        "The catalogue of items, the range of ratings, and all settings of the algorithm and of its noise."
    )
    hidden = (
        "" if certificate.claim.adjacency == "add-remove" else " That a user takes part is not protected."
    )
    return f"Published as they are: {public}{hidden}"


def unit_details(certificate: Certificate) -> str:
    """Which data sets are adjacent."""
    adjacency = certificate.claim.adjacency
    meant = parse_adjacency(adjacency).sentence
    return (
        f"One user with all her ratings. {_UNIT_DISTANCE[adjacency]} ({adjacency}: {meant}.) Distance is the "
        "number of such changes; adjacent is a distance of at most 1."
    )


def parameters(certificate: Certificate) -> dict[str, float]:
    """Epsilon and delta as claimed, five digits, rounded up."""
    claim = certificate.claim
    return {"epsilon": float(shown_number(claim.epsilon)), "delta": float(shown_number(claim.delta))}


def parameters_details(certificate: Certificate) -> str:
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


def trust(certificate: Certificate) -> str:
    """Who could see what, in the words of the protocol that ran."""
    return "\n".join(f"- {sentence}" for sentence in certificate.trust) or "Not stated by the run."


def model_details(certificate: Certificate) -> str:
    """Where the noise is drawn."""
    return {
        "Local": "Each device adds all the noise that the guarantee counts before it sends anything.",
        "Federated": "Devices keep their ratings and add noise in shares; a server adds up what they send.",
        "Central": "A server adds the noise to sums over users before anything is published; what it sees of one "
        "user is among the actors.",
    }[model_name(certificate)]


def releases_details(certificate: Certificate) -> str:
    """What is counted, and whether it ends."""
    if is_interactive(certificate):
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
        f"{publications(certificate)} publications are planned, one after each round; the privacy loss "
        f"stated is that of the whole plan, whether it was made or not.{made} {account}"
    )


def access_details(certificate: Certificate) -> str:
    """What people can do with the data product."""
    if is_interactive(certificate):
        return "The curator asks; each answer is noised and booked before it is seen. There is one budget for all."
    return "Boards are published as files; nobody can query the data."


def post_processing(certificate: Certificate) -> str:
    """What is done after the noise."""
    if is_interactive(certificate):
        return "Answers are computed from released numbers alone."
    return (
        "Item factors are computed from released sums alone, as the published algorithm says. "
        "Recommendations are made on people's own devices from a board and their own ratings."
    )


def composition(certificate: Certificate) -> str:
    """How the cost of all releases adds up."""
    held = certificate.composition
    if is_interactive(certificate):
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


def mechanisms(certificate: Certificate) -> str:
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


def audit(digest: str) -> str:
    """Which test of the code it rests on."""
    if not digest:
        return "No record of an audit is named."
    return (
        "It rests on an audit of the pipeline by `fedboard audit` (noise, sensitivity, planted users, what "
        f"boards alone give away); SHA-256 of its record: {digest}."
    )


def evidence(certificate: Certificate) -> str:
    """By what anybody can recompute the record."""
    board = (
        ""
        if certificate.board_digest is None
        else f" The board it came with has the digest {certificate.board_digest}."
    )
    return (
        f"Every number here follows from the certificate with SHA-256 {certificate.digest}.{board} `fedboard "
        "certificate verify` recomputes the certificate, `fedboard certificate registry --check` this record."
    )
