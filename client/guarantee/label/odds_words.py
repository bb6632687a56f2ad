"""The promise as a bet, in the words of the board page."""

from dataclasses import dataclass

from fedboard.common.certificate import Certificate
from fedboard.common.privacy.accounting.odds import (
    in_hundred,
    right_bets,
    right_bets_of_epsilon,
    right_bets_of_mu,
)
from fedboard.common.privacy.accounting.rating_level import PAIR
from fedboard.common.privacy.releases.protection import Protection, protection_of

COIN = 50
_BETS = {
    "add-remove": "that you took part",
    "replace": "which of two lists of ratings was yours",
    "replace-values": "which of two lists of values was yours",
    "replace-labels": "which of two lists of labels was yours",
}
_PAIR_BETS = {"add-remove": "that two people of one household took part, both or neither"}
_OF_TWO = "on two people of one household together"


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """How often somebody is right at most."""

    hundred: int
    """Right bets in a hundred, rounded up."""
    heading: str
    sentence: str
    coin: str
    """What it compares with."""
    household: str
    """The same for two people together."""


def odds_of(certificate: Certificate) -> Odds:
    """The odds of a certificate that holds; those of a simulation are what they would be with secret noise."""
    claim, held = certificate.claim, certificate.composition
    hundred = in_hundred(right_bets(claim, held))
    pair = in_hundred(
        right_bets_of_mu(PAIR * held.mu)
        if held.exact
        else right_bets_of_epsilon(certificate.implied.pair_epsilon, claim.delta)
    )
    real = protection_of(certificate.releases) is Protection.PRIVATE
    bet = _BETS[claim.adjacency]
    told = f"who bets {bet}{' is' if real else ' would be'} right at most {hundred} times in 100"
    of_two = _PAIR_BETS.get(claim.adjacency, _OF_TWO)
    return Odds(
        hundred=hundred,
        heading="The odds" if real else "The odds that there would be",
        sentence=f"Someone {told}."
        if real
        else f"With secret noise, someone {told}. As it is, no odds hold.",
        coin=f"Tossing a coin is right {COIN} times.",
        household=f"Who bets {of_two}: {'at' if real else 'it would be at'} most {pair} times.",
    )
