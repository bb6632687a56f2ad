"""What was chosen, among what, at which cost, and what stayed a public constant: for people and for programs."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from fedboard.common.board import Board
from fedboard.common.files import write_atomically
from fedboard.simulations.tuning.private.candidates import told_of
from fedboard.simulations.tuning.private.choice import BEYOND, chosen
from fedboard.simulations.tuning.private.plan import PrivateTuneRecord

FILE = "chosen.json"


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What one part costs. Public."""

    part: str
    """Its releases in the ledger are ``part/...``."""
    share: float
    """Of the whole mu^2."""
    epsilon: float
    """By itself, at the delta of the whole."""


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a private choice. All of it is released or public."""

    number: int
    """Of the candidate that the final run trains with; 0 is the shipped settings."""
    candidates: tuple[dict[str, float | int | bool | str], ...]
    """What each lays over the configuration in the final run."""
    tried: tuple[dict[str, float | int | bool | str], ...]
    """The same in its trial, where the budget is smaller."""
    losses: tuple[float, ...] | None
    """Released: for candidates 1 to K - 1, below 0 is better than the shipped settings; None where the release was
    paid for and lost."""
    stddev: float
    """Of the noise in each."""
    beyond: float
    """A candidate is taken only if its loss is below -beyond * stddev."""
    costs: tuple[Cost, ...]
    """Their shares add up to 1."""
    epsilon: float
    """Of everything together, at delta."""
    delta: float
    constants: dict[str, Any]
    """Settings and budget shares of the final run that no candidate varies: set without looking at the ratings."""

    @property
    def sentence(self) -> str:
        """What happened, in words."""
        number, among = self.number, f"among {len(self.candidates)}"
        if self.losses is None:
            return f"the comparison was paid for and lost, so the shipped settings are kept {among}"
        if number == 0:
            return (
                f"the shipped settings are kept: no other {among} is better by more than {self.beyond:g} "
                "deviations of the noise"
            )
        return f"candidate {number} is chosen {among}: {told_of(self.candidates[number])}"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """For the certificate of the final board."""
        others = "; ".join(f"({place}) {told_of(one)}" for place, one in enumerate(self.candidates))
        last = len(self.candidates) - 1
        steps = (
            ""
            if self.tried == self.candidates
            else ", a trial taking the same steps from what is shipped for it"
        )
        return (
            "Before the first release these settings were fixed as candidates, without looking at the ratings: "
            f"{others}{steps}. Each was trained by the releases trial-0 to trial-{last} listed here and they were "
            f"compared by the release choice listed here: {self.sentence}. Every other setting is a public "
            "constant, and all of it together is what is claimed.",
        )


def chosen_of(
    record: PrivateTuneRecord, compared: Board | None, *, stated: Callable[[int], Mapping[str, Any]]
) -> Chosen:
    """The outcome: post-processing of one released board.

    Args:
        record: what was fixed before.
        compared: the board of the comparison; None where it was lost.
        stated: number of a candidate -> all settings and shares of the final run with it.
    """
    losses = None if compared is None else compared.arrays["losses"]
    stddev = 0.0 if compared is None else float(compared.arrays["stddev"][0])
    number = 0 if losses is None else chosen(losses, stddev)
    varied = {key.rpartition(".")[2] for candidate in record.candidates for key in candidate}
    hidden = {*varied, "noise_multipliers"}  # those follow from the budget and are in the certificate
    return Chosen(
        number=number,
        candidates=record.candidates,
        tried=record.tried,
        losses=None if losses is None else tuple(float(loss) for loss in losses),
        stddev=stddev,
        beyond=BEYOND,
        costs=_costs(record),
        epsilon=record.config.privacy.epsilon,
        delta=record.config.privacy.delta,
        constants={key: value for key, value in stated(number).items() if key not in hidden},
    )


def write_chosen(outcome: Chosen, out: Path) -> None:
    """Write ``chosen.json``."""
    write_atomically(out / FILE, msgspec.json.format(msgspec.json.encode(outcome, enc_hook=str), indent=1))


def _costs(record: PrivateTuneRecord) -> tuple[Cost, ...]:
    division, number = record.division, len(record.candidates)
    trials = [
        Cost(part=f"trial-{place}", share=division.trials / number, epsilon=record.trial_epsilon)
        for place in range(number)
    ]
    return (
        *trials,
        Cost(part="choice", share=division.choice, epsilon=record.choice_epsilon),
        Cost(part="final", share=division.final, epsilon=record.final_epsilon),
    )
