"""What the canary games say, as findings."""

from collections.abc import Sequence

from scipy.special import bdtrc

from fedboard.simulations.audit.attacks.game import GameResult
from fedboard.simulations.audit.findings import AuditFinding, Part
from fedboard.simulations.audit.measures.bounds import Line


def game_findings(
    games: Sequence[GameResult],
    ratings: GameResult,
    small: Sequence[Line],
    *,
    confidence: float,
    family_error: float,
) -> tuple[AuditFinding, ...]:
    """What the canary games say: the whole board at its confidence, single releases family-wise.

    A correct run is flagged with probability ``1 - confidence`` in each game, so of many games more must be
    violated than chance would explain.

    Args:
        games: of canaries at the bound, with a seed each.
        ratings: one of canaries whose own devices answer.
        small: what canaries showed on releases of few numbers.
        confidence: of each bound.
        family_error: probability that anything else of a correct run is flagged.
    """
    first = games[0]
    violated = sum(game.violated for game in games)
    allowed = 0 if len(games) == 1 else _by_chance(len(games), 1.0 - confidence, family_error)
    lower, claimed = first.epsilon_lower_bound, first.claimed
    told = f"epsilon at least {lower:.4g} shown, {claimed:.4g} claimed"
    if len(games) > 1:
        told += f"; {violated} of {len(games)} games above the claim, up to {allowed} by chance"
    dropped = sum(game.rejected for game in games)
    own = ratings.whole
    return (
        _canaries("the whole board keeps its claim", violated <= allowed, told),
        _canaries(
            "the whole board keeps its claim to users in the file",
            own.strict <= own.mu,
            f"epsilon at least {ratings.epsilon_lower_bound:.4g} shown by ratings alone, {claimed:.4g} claimed",
        ),
        single_finding([*games, ratings], small),
        _canaries(
            "canaries at the bound are accepted",
            dropped == 0,
            f"{dropped} of {len(games) * first.n_canaries} dropped by the aggregator",
        ),
        explained_finding([*games, ratings]),
        *uniform_findings([*games, ratings], family_error),
    )


def single_finding(games: Sequence[GameResult], small: Sequence[Line]) -> AuditFinding:
    """Single releases, and what parties of a protocol hold, against their own claims."""
    above = {line.name for game in games for line in game.violated_releases}
    above |= {line.name for line in small if line.strict > line.mu}
    first = games[0]
    told = f"{len(first.releases)} releases, {len(small)} small ones over many runs"
    if first.parties:
        told += f", {', '.join(line.name for line in first.parties)}"
    if above:
        told = f"broken by {', '.join(sorted(above))}"
    return _canaries("each release keeps its claim", not above, told)


def explained_finding(games: Sequence[GameResult]) -> AuditFinding:
    """Whether everybody's sums are what they are by themselves, however many canaries are in the file."""
    changed = {name: most for game in games for name, most in game.unexplained.items()}
    told = "the same sums of others to the last bit"
    if changed:
        told = (
            f"sums of others change by up to {max(changed.values())} grid units: {', '.join(sorted(changed))}"
        )
    return _canaries("canaries in the file change their own rows alone", not changed, told)


def uniform_findings(games: Sequence[GameResult], family_error: float) -> tuple[AuditFinding, ...]:
    """Whether masked numbers and single shares look like nothing at all; nothing is said where there are none."""
    found = [p for game in games for p in game.uniform]
    if not found:
        return ()
    told = f"{len(found)} vectors, smallest p {min(found):.1e}"
    return (
        _canaries(
            "masked numbers and single shares are uniform", min(found) * len(found) >= family_error, told
        ),
    )


def _canaries(check: str, passed: bool, detail: str) -> AuditFinding:
    return AuditFinding(part=Part.CANARIES, check=check, passed=passed, detail=detail)


def _by_chance(n_games: int, probability: float, error: float) -> int:
    """The number of violations that chance exceeds with at most this probability."""
    return next(number for number in range(n_games + 1) if bdtrc(number, n_games, probability) <= error)
