"""What an audit found, as text for a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedboard.cli.text import aligned

if TYPE_CHECKING:
    from fedboard.simulations.audit.attacks.board_games import BoardGame
    from fedboard.simulations.audit.audit import AuditResult, Plan
    from fedboard.simulations.audit.findings import AuditFinding


def audit_text(result: "AuditResult", plan: "Plan") -> str:
    """Releases, board-only games, checks and the verdict."""
    return "\n\n".join(
        (_releases(result), _games(result.board), checks_text(result.findings), _verdict(result, plan))
    )


def _releases(result: "AuditResult") -> str:
    noise = {line.name: f"{line.ratio:.4f}" for line in result.noise.lines}
    rows = [
        (
            line.name,
            noise.get(line.name, "-"),
            f"{line.mu:.4f}",
            f"{line.bound.sharp:.4f}",
            f"{line.bound.split:.4f}",
        )
        for line in (*result.releases, *result.game.parties, result.game.whole)
    ]
    headers = ("release", "noise / booked", "mu claimed", "mu shown", "mu by counting")
    return aligned(headers, rows, right=(1, 2, 3, 4))


def _games(games: Sequence["BoardGame"]) -> str:
    rows = [
        (
            f"{game.name} (final board only)",
            f"{game.auc:.3f}",
            f"{game.auc_at_most:.3f}",
            f"{game.true_positives:.3f}",
            f"{game.true_positives_at_most:.3f}",
        )
        for game in games
    ]
    headers = ("game", "AUC", "at most", "true positives at 1 % false", "at most")
    return aligned(headers, rows, right=(1, 2, 3, 4))


def checks_text(findings: Sequence["AuditFinding"]) -> str:
    """A line for each check, those that failed marked."""
    rows = [("ok" if f.passed else "FAILED", str(f.part), f.check, f.detail) for f in findings]
    return aligned(("", "", "", ""), rows)


def _verdict(result: "AuditResult", plan: "Plan") -> str:
    game = result.game
    told = (
        f"Claimed: epsilon {game.claimed:.4g} at delta {game.delta:g} (proof). Audited: at least "
        f"{game.epsilon_lower_bound:.4g} ({plan.confidence:.0%}, {game.n_canaries:,} canaries)."
    )
    if result.violated:
        return (
            f"{told}\nThe claim does not hold, or this is one of the {1 - plan.confidence:.0%} of games in which "
            "chance goes beyond it: see the checks that failed, and decide with --repeat 60."
        )
    return f"{told}\nNothing exceeds what is claimed. An audit can refute a guarantee, not prove one."
