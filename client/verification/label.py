"""A privacy label: what a certificate promises, in words for everybody, as one HTML file; and what releases say of
themselves, in words of experts.

What it says and in which order follows "We Need a Standard": Toward an Expert-Informed Privacy Label for
Differential Privacy (Dibia et al. 2025, arXiv:2507.15997): the promise and whom it protects first, in plain words,
then the parameters that experts ask for. The file is ``label.html`` beside this one, filled from the certificate
alone: no script, nothing that is fetched, all text of others escaped and kept to itself.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from fedboard.client.verification.evidence import Evidence
from fedboard.client.verification.verification import require_holds
from fedboard.common.certificate import Certificate
from fedboard.common.privacy.accounting.grouping import mechanisms_of as grouped
from fedboard.common.privacy.accounting.guarantee import (
    PAIR,
    in_hundred,
    right_bets,
    right_bets_of_epsilon,
    right_bets_of_mu,
)
from fedboard.common.privacy.adjacency import parse_adjacency
from fedboard.common.privacy.events import is_amplified
from fedboard.common.privacy.shown import shown_number
from fedboard.common.reports.filling import filled, source_hash

_SPACE = re.compile(r"\s+")
_JOINERS = "\u200c\u200d"
"""Signs without width that scripts of India and Iran need."""
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn")
_MOST_MARKS = 4
"""Combining marks in a row; real scripts need no more, and a pile of them leaves its line."""
_MECHANISMS = {"gaussian": "Gaussian", "laplace": "Laplace", "exponential": "exponential"}


def mechanisms_of(certificate: Certificate) -> str:
    """Which mechanisms made the releases, how many are made and planned, and whether coins draw who takes part.

    Args:
        certificate: one that was verified. Public.
    """
    kinds = [str(event["mechanism"]) for event in certificate.releases]
    made = ", ".join(
        f"{kinds.count(kind)} by the {_MECHANISMS[kind]} mechanism" for kind in sorted(set(kinds))
    )
    held = certificate.commitment
    planned = "" if held.plan is None else f"; {len(held.plan)} planned in all"
    sampled = (
        "; who takes part is drawn by secret coins" if any(map(is_amplified, certificate.releases)) else ""
    )
    return f"{made}{planned}{sampled}"


def accounting_of(certificate: Certificate) -> str:
    """How the cost was counted."""
    if not certificate.planned:
        return "a budget that is checked before each release (privacy filter)"
    if certificate.composition.exact:
        return "exact curve of Gaussian mechanisms (Gaussian differential privacy), whole plan"
    if is_by_curve(certificate):
        return (
            "curve of Gaussian mechanisms, everybody counted in every round, whole plan; mu is an upper bound"
        )
    return "privacy loss distributions, whole plan; mu is an upper bound"


def is_by_curve(certificate: Certificate) -> bool:
    """Whether epsilon of a plan follows from the curve of one Gaussian mechanism, if only as a bound."""
    return grouped(certificate.releases).is_gaussian


def least_shares(certificate: Certificate) -> int:
    """Of how many honest devices the noise must come at least; 0 where a server adds it to any release."""
    return min(int(event["shares"]["least"]) if "shares" in event else 0 for event in certificate.releases)


def as_line(text: str) -> str:
    """The text as one line, without control characters, without those that change the direction of others."""
    kept, marks = [], 0
    for sign in _SPACE.sub(" ", text).strip():
        marks = marks + 1 if unicodedata.combining(sign) else 0
        if (unicodedata.category(sign) in _HIDDEN and sign not in _JOINERS) or marks > _MOST_MARKS:
            continue
        kept.append(sign)
    return "".join(kept)


def cut(text: str, most: int) -> str:
    """The line, at most so many signs long, with an ellipsis where something was left out."""
    line = as_line(text)
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


MOST_NAME, MOST_SAID, MOST_FACT, MOST_SENTENCES = 120, 400, 160, 12
"""What a label has room for: signs of a name, of a sentence, of a fact; sentences."""
_PROTECTED = {
    "add-remove": "Each person whose ratings were used: whether they took part at all, and every one of their "
    "ratings.",
    "replace": "Each person whose ratings were used: what their ratings are. That they took part is not hidden.",
    "replace-values": "Each person who was asked: the values that they gave. How many they gave is not hidden.",
    "replace-labels": "Each person who was asked: the labels that they gave. All else about them is not hidden.",
}
COIN = 50
_BETS = {
    "add-remove": "that you took part",
    "replace": "which of two lists of ratings was yours",
    "replace-values": "which of two lists of values was yours",
    "replace-labels": "which of two lists of labels was yours",
}
_PAIR_BETS = {"add-remove": "that two people of one household took part, both or neither"}
_OF_TWO = "on two people of one household together"
COLUMNS, WIDTH, HEIGHT = 20, 16, 22
_FIGURE = (
    '<circle cx="8" cy="5" r="3.6"/>'
    '<path d="M2.5 19v-4.2a4.3 4.3 0 0 1 4.3-4.3h2.4a4.3 4.3 0 0 1 4.3 4.3V19z"/>'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """How often somebody is right at most."""

    hundred: int
    """Right bets in a hundred, rounded up."""
    sentence: str
    household: str
    """The same for two people together."""


def verified_label(evidence: Evidence) -> str:
    """Verify, and give the text of the file: of a certificate that holds, and of nothing else.

    Raises:
        FedboardError: it does not hold.
        InputError: nothing was released yet.
        PrivacyError: the noise is a simulation's: nobody was protected, so there is nothing to promise.
    """
    require_holds(evidence, "no label is written")
    return label_page(evidence.certificate)


def odds_of(certificate: Certificate) -> Odds:
    """The odds of a certificate that holds."""
    claim, held = certificate.claim, certificate.composition
    hundred = in_hundred(right_bets(claim, held))
    pair = in_hundred(
        right_bets_of_mu(PAIR * held.mu)
        if held.exact
        else right_bets_of_epsilon(certificate.implied.pair_epsilon, claim.delta)
    )
    of_two = _PAIR_BETS.get(claim.adjacency, _OF_TWO)
    return Odds(
        hundred=hundred,
        sentence=f"Someone who bets {_BETS[claim.adjacency]} is right at most {hundred} times in 100.",
        household=f"Who bets {of_two}: at most {pair} times.",
    )


def label_page(certificate: Certificate) -> str:
    """The text of the file.

    Args:
        certificate: one that was verified; what it says is not checked again. Public; its texts may come from
            anybody.
    """
    template = files(__package__).joinpath("label.html").read_text(encoding="utf-8")
    style = template.partition("<style>")[2].partition("</style>")[0]
    odds = odds_of(certificate)
    hidden = "" if certificate.claim.adjacency == "add-remove" else "That you took part. "
    plain = {
        "name": cut(certificate.dataset, MOST_NAME),
        "odds": odds.sentence,
        "household": odds.household,
        "who": _PROTECTED[certificate.claim.adjacency],
        "used": cut(certificate.dataset, MOST_SAID),
        "keepers": _keepers(certificate),
        "other_runs": hidden + _other_runs(certificate),
        "covered": _covered(certificate),
    }
    slots = {
        "policy": f"default-src 'none'; style-src '{source_hash(style)}'; base-uri 'none'; form-action 'none'",
        "figures": _figures(odds.hundred),
        "facts": "".join(
            f"<dt>{escape(name)}</dt><dd><bdi>{escape(cut(value, MOST_FACT))}</bdi></dd>\n"
            for name, value in facts_of(certificate)
        ),
        "trust": _trust([cut(sentence, MOST_SAID) for sentence in certificate.trust[:MOST_SENTENCES]]),
    }
    return filled(template, {**slots, **{name: escape(text) for name, text in plain.items()}})


def _trust(sentences: Sequence[str]) -> str:
    if not sentences:
        return "<p>The run does not say who could see what.</p>\n"
    told = "".join(f"<li><bdi>{escape(sentence)}</bdi></li>\n" for sentence in sentences)
    return (
        f"<p>Who could see what, and who must be trusted, in the words of the run:</p>\n<ul>\n{told}</ul>\n"
    )


def _figures(right: int) -> str:
    """A hundred little figures, without colour: outlined right by a coin, filled right beyond that, pale wrong."""
    told = escape(f"{right} of 100 bets right, at most; {COIN} by tossing a coin")
    drawn = "".join(
        f'<g class="{"coin" if n < COIN else "more" if n < right else "wrong"}" '
        f'transform="translate({n % COLUMNS * WIDTH} {n // COLUMNS * HEIGHT})">{_FIGURE}</g>'
        for n in range(100)
    )
    wide, tall = COLUMNS * WIDTH, 100 // COLUMNS * HEIGHT
    return f'<svg viewBox="0 0 {wide} {tall}" role="img" aria-label="{told}">{drawn}</svg>'


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


def _covered(certificate: Certificate) -> str:
    if not certificate.planned:
        return "The odds cover every answer that this run may ever give, up to its budget."
    if certificate.rounds is None:
        return "The odds cover all that this run planned to publish, whether it was published or not."
    rounds = certificate.rounds
    left = rounds.planned - rounds.made - rounds.lost
    come = f" {left} are still to come, and are counted already." if left else ""
    return f"The odds cover all {rounds.planned} planned rounds of learning together.{come}"


def facts_of(certificate: Certificate) -> Iterator[tuple[str, str]]:
    """What experts ask for, mu first."""
    claim, held = certificate.claim, certificate.composition
    if certificate.planned:
        yield "mu", ("" if held.exact else "at most ") + shown_number(held.mu)
    yield "epsilon, delta", f"{shown_number(claim.epsilon)}, {shown_number(claim.delta)}"
    yield "Unit", "one user with all their ratings"
    yield "Neighbours", f"{claim.adjacency}: {parse_adjacency(claim.adjacency).sentence}"
    yield "Mechanisms", mechanisms_of(certificate)
    yield "Accounting", accounting_of(certificate)
    yield "Noise", certificate.noise
    if certificate.rounds is not None:
        rounds = certificate.rounds
        yield "Rounds", f"{rounds.planned} planned, {rounds.made} made, {rounds.lost} lost"
    yield "Board", certificate.board_digest or "none"
    yield "Certificate", f"SHA-256 {certificate.digest}"
    yield "Software", certificate.software
    yield "Not here", "accuracy, and the settings of the algorithm, which are on the board"
