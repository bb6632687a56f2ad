"""What a label says: plain words first, then what experts ask for. Made from a certificate that holds."""

from collections.abc import Iterator
from dataclasses import dataclass

from fedboard.client.guarantee.facts import accounting_of, least_shares, mechanisms_of
from fedboard.client.guarantee.label.odds_words import Odds, odds_of
from fedboard.client.guarantee.label.plain_text import cut
from fedboard.common.certificate import Certificate
from fedboard.common.privacy.adjacency import parse_adjacency
from fedboard.common.privacy.releases.protection import Protection, protection_of
from fedboard.common.privacy.shown import shown_number

MOST_NAME, MOST_SAID, MOST_FACT, MOST_SENTENCES = 120, 400, 160, 12
"""What a label has room for: signs of a name, of what somebody says, of a fact; sentences."""
PRIVATE = "Protected by noise that nobody can reproduce"
SIMULATION = "Simulation – not a deployment"
NOBODY = "Nobody is protected: the noise follows from a known number, so anybody can take it out again."
_WHO, _AGAINST, _NOT, _LONG = "Who is protected", "Against whom", "What is not protected", "For how long"
_WOULD = {
    _WHO: ("Who would be protected", "By this run nobody is. With secret noise it would be:"),
    _AGAINST: (
        "Against whom it would be",
        "By this run nobody is protected. With secret noise it would be against:",
    ),
    _NOT: (
        "What would not be protected",
        "By this run nothing is protected. Even with secret noise these would not be:",
    ),
    _LONG: (
        "For how long it would be",
        "This run protects for no time at all. With secret noise it would be:",
    ),
}
"""Heading -> heading and first sentence of a simulation."""
_PROTECTED = {
    "add-remove": "Each person whose ratings were used: whether they took part at all, and every one of their "
    "ratings.",
    "replace": "Each person whose ratings were used: what their ratings are. That they took part is not hidden.",
    "replace-values": "Each person who was asked: the values that they gave. How many they gave is not hidden.",
    "replace-labels": "Each person who was asked: the labels that they gave. All else about them is not hidden.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One sentence of a label."""

    text: str
    said: bool = False
    """Whether it is somebody's word, which nothing here checks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One question that a label answers."""

    heading: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """All of a label. Every field is public, and plain text that may come from anybody: escape it."""

    name: str
    publisher: str
    """Who publishes, as they say; empty where nobody said."""
    simulation: bool
    odds: Odds
    cards: tuple[Card, ...]
    """In plain words: who, against whom, what is not, for how long."""
    facts: tuple[tuple[str, str], ...]
    """For experts, mu first."""
    trust: tuple[str, ...]
    """Who could see what and who must be trusted, in the words of the run."""

    @property
    def verdict(self) -> str:
        """The first thing to read."""
        return SIMULATION if self.simulation else PRIVATE

    def told(self) -> Iterator[str]:
        """The plain part as text, for whoever does not see the picture."""
        yield self.verdict + (f". {NOBODY}" if self.simulation else ".")
        yield self.odds.sentence
        for card in self.cards:
            yield f"{card.heading}: " + " ".join(
                f"The publisher says: {line.text}" if line.said else line.text for line in card.lines
            )


def label_of(certificate: Certificate) -> Label:
    """The label of a certificate.

    Args:
        certificate: one that was verified; what it says is not checked again. Public.
    """
    said = certificate.deployment
    simulation = protection_of(certificate.releases) is not Protection.PRIVATE
    cards = (_who(certificate), _against(certificate), _unprotected(certificate), _how_long(certificate))
    return Label(
        name=cut(said.name if said and said.name else certificate.dataset, MOST_NAME),
        publisher=cut(", ".join(said.curators), MOST_NAME) if said else "",
        simulation=simulation,
        odds=odds_of(certificate),
        cards=tuple(map(_supposed, cards)) if simulation else cards,
        facts=tuple((name, cut(value, MOST_FACT)) for name, value in _facts(certificate)),
        trust=tuple(cut(sentence, MOST_SAID) for sentence in certificate.trust[:MOST_SENTENCES]),
    )


def _supposed(card: Card) -> Card:
    """A card of a simulation: it tells what would hold, in its heading and before anything else."""
    heading, first = _WOULD[card.heading]
    return Card(heading=heading, lines=(Line(text=first), *card.lines))


def _who(certificate: Certificate) -> Card:
    lines = [
        Line(text=_PROTECTED[certificate.claim.adjacency]),
        Line(text=f"What was used: {cut(certificate.dataset, MOST_SAID)}", said=True),
    ]
    said = certificate.deployment
    if said is not None and said.intended_use:
        lines.append(Line(text=f"Used for: {cut(said.intended_use, MOST_SAID)}", said=True))
    return Card(heading=_WHO, lines=tuple(lines))


def _against(certificate: Certificate) -> Card:
    first = (
        "Anybody who sees what is published, with any computer, now or later, even if they know the ratings of "
        "everybody else."
    )
    said = certificate.deployment
    lines = [Line(text=first), Line(text=_keepers(certificate))]
    if said is not None and said.actors:
        lines.append(Line(text=cut(said.actors, MOST_SAID), said=True))
    return Card(heading=_AGAINST, lines=tuple(lines))


def _keepers(certificate: Certificate) -> str:
    """Who must add the noise, and so whom that asks to be trusted before anything is published."""
    least = least_shares(certificate)
    if least == 1:
        return (
            "Each device adds its own random noise before it sends anything: nobody else has to be trusted."
        )
    if least > 1:
        return (
            f"The devices add the random noise together. At least {least} of them must be honest, and their "
            "messages must be added up as agreed."
        )
    return (
        "Before anything is published, a server adds random noise. Whoever runs it must be trusted to do so; what "
        "they could see before is told below, in the words of the run."
    )


def _unprotected(certificate: Certificate) -> Card:
    lines = [
        "What is true of many people: if most who like one title like another, that is learnt, and can be guessed "
        "of you too, whether or not you took part.",
        "What is public anyway: the list of titles, the range of ratings, all settings.",
        "What you share in any other way.",
    ]
    if certificate.claim.adjacency != "add-remove":
        lines.append("That you took part.")
    return Card(
        heading=_NOT,
        lines=(
            *map(_line, lines),
            _line(_other_runs(certificate)),
            *_said(certificate, "unprotected", "whether anything else about the same people is published"),
        ),
    )


def _other_runs(certificate: Certificate) -> str:
    total = certificate.population
    if total is None:
        return (
            "Other runs on the same people: each one adds to what can be learnt, and this label does not count "
            "them."
        )
    return (
        "Other runs on the same people add to what can be learnt. An account is kept: all of them together may "
        f"cost epsilon {shown_number(total.budget)} at delta {shown_number(total.delta)}."
    )


def _how_long(certificate: Certificate) -> Card:
    lasting = "For ever. What is published cannot be taken back, and the odds do not get worse with time."
    return Card(
        heading=_LONG,
        lines=(
            _line(lasting),
            _line(_covered(certificate)),
            *_said(certificate, "refresh", "when the same people's ratings will be used again"),
        ),
    )


def _covered(certificate: Certificate) -> str:
    if not certificate.planned:
        return "The odds cover every answer that this run may ever give, up to its budget."
    if certificate.rounds is None:
        return "The odds cover all that this run planned to publish, whether it was published or not."
    rounds = certificate.rounds
    left = rounds.planned - rounds.made - rounds.lost
    come = f" {left} are still to come, and are counted already." if left else ""
    return f"The odds cover all {rounds.planned} planned rounds of learning together.{come}"


def _said(certificate: Certificate, key: str, what: str) -> tuple[Line, ...]:
    text = "" if certificate.deployment is None else getattr(certificate.deployment, key)
    if text:
        return (Line(text=cut(text, MOST_SAID), said=True),)
    return (_line(f"The publisher has not said {what}."),)


def _line(text: str) -> Line:
    return Line(text=text)


def _facts(certificate: Certificate) -> Iterator[tuple[str, str]]:
    claim, held = certificate.claim, certificate.composition
    private = protection_of(certificate.releases) is Protection.PRIVATE
    would = "" if private else ", with secret noise"
    if certificate.planned:
        yield f"mu{would}", ("" if held.exact else "at most ") + shown_number(held.mu)
    yield f"epsilon, delta{would}", f"{shown_number(claim.epsilon)}, {shown_number(claim.delta)}"
    yield "Unit", "one user with all her ratings"
    yield "Neighbours", f"{claim.adjacency}: {parse_adjacency(claim.adjacency).sentence}"
    yield "Mechanisms", mechanisms_of(certificate)
    yield "Accounting", accounting_of(certificate)
    yield "Noise", certificate.noise
    if certificate.rounds is not None:
        rounds = certificate.rounds
        yield "Rounds", f"{rounds.planned} planned, {rounds.made} made, {rounds.lost} lost"
    audit = certificate.deployment.audit if certificate.deployment is not None else ""
    yield "Audit", f"SHA-256 {audit}" if audit else "none named"
    yield "Board", certificate.board_digest or "none"
    yield "Certificate", f"SHA-256 {certificate.digest}"
    yield "Software", certificate.software
    yield "Not here", "accuracy, and the settings of the algorithm, which are on the board"
