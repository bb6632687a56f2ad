"""``fedboard account``: what noise for this epsilon, what epsilon for this plan."""

from pathlib import Path
from typing import Any, Literal

import click

from fedboard.cli.declaring import argument, command, option
from fedboard.cli.documents import JSON, document
from fedboard.cli.options import PEOPLE, RELEASES
from fedboard.cli.text import aligned
from fedboard.common.errors import InputError

_DEFAULT_DELTA = 1e-5


def _shares(text: str) -> dict[str, float]:
    divided: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.rpartition("="))
        try:
            divided[name] = float(value)
        except ValueError:
            name = ""
        if not name:
            raise InputError(f"--shares must be NAME=PART,... such as counts=0.1,items=0.9, got {part!r}")
    return divided


@command(
    "fedboard account --epsilon 1 --delta 1e-5 --releases 9",
    "fedboard account --epsilon 5 --shares counts=0.1,items=0.9",
    "fedboard account --epsilon 1 --releases 100 --poisson 0.01",
    "fedboard account --noise-multiplier 12 --releases 9",
    "fedboard account runs/demo --group 4",
)
def account(
    source: Path | None = argument(),
    epsilon: float | None = option("Print the noise with which all releases together cost this."),
    noise_multiplier: float | None = option(
        "Print what releases with this noise cost together.", metavar="Z"
    ),
    releases: int | None = option("Number of equal releases.", type=RELEASES),
    shares: dict[str, float] | None = option(
        "With --epsilon: parts of mu^2, together at most 1.", metavar="NAME=PART,...", type=_shares
    ),
    poisson: float | None = option(
        "Probability of taking part in a round.",
        more="By a coin of each user that stays secret.",
        metavar="Q",
    ),
    delta: float | None = option(
        "Probability that the bound fails.", more="Below 1 / users.  [default: SOURCE's, or 1e-5]"
    ),
    adjacency: Literal["add-remove", "replace"] | None = option(
        "Of a plan; what is booked states its own.  [default: add-remove]"
    ),
    group: int | None = option("Say what holds for K users together, too.", type=PEOPLE, metavar="K"),
    as_json: bool = JSON,
) -> None:
    """Print what releases cost together, or which noise they need.

    SOURCE is a run directory, a ledger, a board, a certificate, or a plan: a TOML file that maps release
    names to noise multipliers, or to tables with noise_multiplier and, if needed, mechanism ("gaussian" or
    "laplace") and participation. The cost is told exactly, by loss distributions, by Renyi orders and by zCDP.

    A noise multiplier is the deviation of the noise over the sensitivity under the run's own adjacency, so the
    answer to --epsilon is the same for each. Poisson participation is accounted under add-remove only: releases of
    round-1/..., round-2/... share their round's coin (all others that of the preparation), and without such names
    each release has its own.
    """
    from fedboard.client.verification.accounts import (
        epsilon_answer,
        equal_account,
        noise_answer,
        read_account,
        release_names,
    )
    from fedboard.common.privacy.adjacency import Adjacency

    if [source, epsilon, noise_multiplier].count(None) != 2:
        raise InputError("give either SOURCE, or --noise-multiplier Z, or --epsilon E, with --releases N")
    if epsilon is not None:
        if adjacency is not None or group is not None:
            raise InputError(
                "--adjacency and --group go with SOURCE or --noise-multiplier, not with --epsilon"
            )
        if (releases is None) == (shares is None):
            raise InputError("give either --releases N or --shares NAME=PART,...")
        if releases is not None:
            shares = dict.fromkeys(release_names(releases), 1.0 / releases)
        answer = noise_answer(
            epsilon, _DEFAULT_DELTA if delta is None else delta, shares or {}, poisson=poisson
        )
        document(answer) if as_json else click.echo(_noise_text(answer))
        return
    if shares is not None:
        raise InputError("--shares goes with --epsilon; a plan states the noise of each release")
    if source is not None and releases is not None:
        raise InputError("--releases goes with --noise-multiplier or --epsilon; SOURCE says which releases")
    if source is not None and poisson is not None:
        raise InputError("--poisson goes with --noise-multiplier; a plan states participation by release")
    stated = Adjacency(adjacency or Adjacency.ADD_REMOVE)
    if source is not None:
        taken = read_account(source, stated)
    else:
        taken = equal_account(
            noise_multiplier or 0, 1 if releases is None else releases, poisson=poisson, adjacency=stated
        )
    at = next(one for one in (delta, taken.delta, _DEFAULT_DELTA) if one is not None)
    answer = epsilon_answer(taken, at, group=group)
    document(answer) if as_json else click.echo(_epsilon_text(answer))


def _noise_text(answer: dict[str, Any]) -> str:
    multipliers, full = answer["noise_multipliers"], answer["full_participation"]
    if len(multipliers) > 1 and len(set(multipliers.values())) == 1:
        shown = [(f"each of {len(multipliers)}", _number(next(iter(multipliers.values()))))]
    else:
        shown = [(name, _number(value)) for name, value in multipliers.items()]
    if answer["poisson"] is None:
        compared = (
            f"All together are {full['mu']:.6g}-GDP, one release of noise multiplier "
            f"{full['noise_multiplier_of_all']:.6g}."
        )
    else:
        compared = (
            f"Each user takes part in a round with probability {answer['poisson']:g}, which nobody may learn: "
            "otherwise the guarantee is that of full participation with this noise."
        )
    head = f"Epsilon {answer['epsilon']:g} at delta {answer['delta']:g}"
    return f"{head}\n\n{aligned(('release', 'noise multiplier'), shown)}\n\n{compared}"


def _epsilon_text(answer: dict[str, Any]) -> str:
    exact, library = answer["exact"], answer["epsilon_pld"]
    rows = [("exact curve", _number(answer["epsilon"]))] if exact else []
    if answer["planned"]:
        told = "needs fedboard[pld]" if library is None else _number(library)
        rows.append(("privacy loss distributions", told))
    else:
        rows.append(("the budget, which holds however each was chosen", _number(answer["epsilon"])))
    rows += [
        ("Renyi orders", _number(answer["epsilon_rdp"])),
        ("zCDP" if exact else "zCDP bound", _number(answer["epsilon_zcdp"])),
    ]
    bound = "" if exact else "at most "
    together = f"Together {bound}{answer['mu']:.6g}-GDP and {bound}{answer['rho']:.6g}-zCDP."
    if not answer["planned"]:
        together = f"The budget has room for Gaussian releases of mu {answer['mu']:.6g} together."
    lines = [
        f"{answer['what'][:1].upper()}{answer['what'][1:]}: {answer['releases']} releases, {answer['adjacency']}, "
        f"delta {answer['delta']:g}",
        *_why(answer),
        "",
        aligned(("accounted by", "epsilon"), rows),
        "",
        together,
        f"One rating of a user who takes part, changed, added or removed: epsilon {answer['rating_epsilon']:.6g}.",
        f"Two users together: epsilon {answer['pair_epsilon']:.6g}.",
    ]
    if "group" in answer:
        lines.append(f"{answer['group']['users']} users together: epsilon {answer['group']['epsilon']:.6g}.")
    return "\n".join(lines)


def _why(answer: dict[str, Any]) -> list[str]:
    """What the numbers are about: never the part that was spent when one looked."""
    if answer.get("claimed") == "budget":
        return [
            "No plan fixed them beforehand, so the budget is what is promised: what was spent when one stops holds "
            "for nobody, because one could stop where the outcomes suit."
        ]
    if answer.get("claimed") == "plan" and answer["made"] < answer["releases"]:
        return [f"The whole plan counts, made or not; {answer['made']} of them are made so far."]
    return []


def _number(value: float) -> str:
    return f"{value:.6g}"
