"""What a guarantee costs, of a plan or of what was published, how much noise it takes, and whether it holds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fedboard.client.boards.seen import CosignedBoards
from fedboard.client.verification.accounts import (
    epsilon_answer,
    equal_account,
    noise_answer,
    plan_account,
    read_account,
    release_names,
)
from fedboard.client.verification.evidence import Evidence, Verification, read_evidence
from fedboard.client.verification.verification import verify_evidence
from fedboard.common.board import Board
from fedboard.common.boards.witnesses import Witnesses
from fedboard.common.certificate import Certificate, Finding
from fedboard.common.errors import InputError
from fedboard.common.privacy.adjacency import Adjacency

__all__ = ["Verification", "epsilon", "noise_multiplier", "verify"]

DELTA = 1e-5
"""Where nothing else is stated."""


def noise_multiplier(
    *,
    epsilon: float,
    delta: float = DELTA,
    releases: int = 1,
    poisson: float | None = None,
) -> float:
    """The noise multiplier of each of some equal Gaussian releases, so that together they cost at most epsilon.

    Args:
        epsilon: of all together; > 0.
        delta: probability that the bound fails; in (0, 1), well below one over the number of users.
        releases: how many; >= 1.
        poisson: where each user takes part in a release by a secret coin, its probability.

    Returns:
        Deviation of the noise over the sensitivity. Exact, by the composition of Gaussian mechanisms; sampled
        releases by loss distributions, which needs the extra ``server``.

    Raises:
        InputError: a number out of its range.
        PrivacyError: a budget that cannot be met.
    """
    shares = dict.fromkeys(release_names(releases), 1.0 / max(releases, 1))
    answer = noise_answer(epsilon, delta, shares, poisson=poisson)
    found: float = answer["noise_multipliers"]["release-1"]
    return found


def epsilon(
    source: str | Path | Mapping[str, float] | None = None,
    *,
    noise_multiplier: float | None = None,
    releases: int = 1,
    delta: float | None = None,
    poisson: float | None = None,
    adjacency: str = "add-remove",
) -> float:
    """What releases cost together.

    Args:
        source: a run directory, a ledger, a board or a certificate; or a plan: release name -> noise multiplier.
            A round's releases are named ``round-1/...``.
        noise_multiplier: instead of a source, of each of some equal releases.
        releases: how many of them; >= 1.
        delta: where epsilon is stated; default: what the source states, else 1e-5.
        poisson: as for ``noise_multiplier``; for equal releases alone.
        adjacency: of a plan, ``add-remove`` or ``replace``; what is booked states its own.

    Raises:
        InputError: neither or both of source and noise_multiplier, or a source that cannot be read.
        PrivacyError: a ledger that was tampered with, or a release that is not sound.
    """
    if (source is None) == (noise_multiplier is None):
        raise InputError("give either a source or noise_multiplier=Z with releases=N")
    if source is not None and poisson is not None:
        raise InputError("poisson goes with noise_multiplier")
    at = Adjacency(adjacency)
    if source is None:
        taken = equal_account(noise_multiplier or 0, releases, poisson=poisson, adjacency=at)
    elif isinstance(source, Mapping):
        taken = plan_account(source, at, label="this plan")
    else:
        taken = read_account(Path(source), at)
    cost: float = epsilon_answer(taken, delta or taken.delta or DELTA)["epsilon"]
    return cost


def verify(
    target: "str | Path | Board | Certificate",
    *,
    witnesses: Sequence[str] = (),
    cosignatures: int | None = None,
) -> Verification:
    """Recompute every number of a certificate from the ones that it follows from.

    Args:
        target: a run directory (with its ledger and all its boards), a board file, a ``certificate.json``, or a
            board, certificate or run at hand.
        witnesses: public keys, 64 hexadecimal digits each, of whom enough must have cosigned the board, as it was
            fetched into the folder of the board file; one more check. Empty: nobody need have.
        cosignatures: how many are enough: more than half of them. None: as few as that.

    Raises:
        InputError: no certificate there, or one that cannot be read; or no such keys.
    """
    evidence = _evidence(target)
    wanted = Witnesses.of(witnesses, cosignatures)
    seen = () if wanted is None else (_cosigned_by(wanted, target, evidence.board),)
    found = verify_evidence(evidence)
    return replace(found, findings=(*found.findings, *seen))


def _cosigned_by(witnesses: Witnesses, target: object, board: Board | None) -> Finding:
    """Whether the manifests beside a board file show it, cosigned by enough witnesses."""
    place = Path(target) if isinstance(target, str | Path) else None
    folder = place if place is None or place.is_dir() else place.parent
    shown = board is not None and folder is not None and CosignedBoards(witnesses, folder).shows(board)
    detail = (
        f"enough have cosigned this board: {witnesses.sentence}"
        if shown
        else "no manifest beside the board file that enough of them have cosigned names it; fetch it with "
        "`fedboard board fetch ... --witness KEY`"
    )
    return Finding(check="witnesses", passed=shown, detail=detail)


def _evidence(target: "str | Path | Board | Certificate") -> Evidence:
    if isinstance(target, Certificate):
        return Evidence(certificate=target)
    if isinstance(target, Board):
        if target.certificate is None:
            raise InputError("this board carries no certificate")
        return Evidence(certificate=Certificate.from_dict(dict(target.certificate)), board=target)
    return read_evidence(Path(target))
