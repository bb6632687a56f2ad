"""Results of an audit as plain JSON values."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.accounting.exact import epsilon_of
from fedboard.simulations.audit.audit import AuditResult
from fedboard.simulations.audit.board_games import QUESTIONS, BoardGame
from fedboard.simulations.audit.game import GameResult
from fedboard.simulations.audit.statistics import CONFIDENCE, Line
from fedboard.simulations.audit.subject import AuditFinding


def audit_record(result: AuditResult, about: dict[str, Any]) -> dict[str, Any]:
    """Everything that an audit found; ``epsilon_claimed`` and ``epsilon_lower_bound`` at the top.

    Args:
        result: of ``audit``.
        about: what was audited: algorithm, data, seed and so on.
    """
    game = result.game
    return {
        **about,
        "epsilon_claimed": game.claimed,
        "epsilon_booked": game.epsilon,
        "epsilon_lower_bound": game.epsilon_lower_bound,
        "epsilon_lower_bound_by_counting": epsilon_of(game.delta, mu=game.whole.split),
        "delta": game.delta,
        "confidence": CONFIDENCE,
        "canaries": game.n_canaries,
        "violated": result.violated,
        "starts_at": "file",
        "whole_board": _line(game.whole, game.delta),
        "releases": [_line(line, game.delta) for line in result.releases],
        "parties": [_line(line, game.delta) for line in game.parties],
        "from_ratings": {
            "canaries": result.ratings.n_canaries,
            "epsilon_lower_bound": result.ratings.epsilon_lower_bound,
            "whole_board": _line(result.ratings.whole, game.delta),
        },
        "file": {
            "games": result.file.n_games,
            "right": result.file.right,
            "right_at_most": result.file.allowed,
            "largest_share_of_bound": dict(result.file.shares),
        },
        "noise": {
            "tests": result.noise.n_tests,
            "smallest_p": result.noise.least_p,
            "releases": [
                {"name": line.name, "numbers": line.n_numbers, "ratio": line.ratio}
                for line in result.noise.lines
            ],
        },
        "board_only": [_board_game(played) for played in result.board],
        "repeat": _repeat(result.games),
        "findings": [asdict(finding) for finding in result.findings],
    }


def stopped_record(finding: AuditFinding, budget: Budget, about: dict[str, Any]) -> dict[str, Any]:
    """What is known of a run that broke a check of its own: that it is not as it should be."""
    claimed = {"epsilon_claimed": budget.epsilon, "delta": budget.delta}
    return {**about, **claimed, "violated": True, "starts_at": "file", "findings": [asdict(finding)]}


def _line(line: Line, delta: float) -> dict[str, Any]:
    return {
        "name": line.name,
        "mu_claimed": line.mu,
        "mu_estimate": line.estimate,
        "mu_lower_bound": line.sharp,
        "mu_lower_bound_by_counting": line.split,
        "epsilon_claimed": epsilon_of(delta, mu=line.mu),
        "epsilon_lower_bound": epsilon_of(delta, mu=line.sharp),
        "reach_of_canaries": line.reach,
    }


def _board_game(game: BoardGame) -> dict[str, Any]:
    return {
        "name": game.name,
        "question": QUESTIONS[game.name],
        "targets": game.n_targets,
        "auc": game.auc,
        "auc_at_most": game.auc_at_most,
        "true_positives_at_1_percent": game.true_positives,
        "true_positives_at_most": game.true_positives_at_most,
        "roc": game.roc.tolist(),
    }


def _repeat(games: Sequence[GameResult]) -> dict[str, Any]:
    return {
        "games": len(games),
        "violations": sum(game.violated for game in games),
        "releases_above_claim": sum(len(game.violated_releases) for game in games),
        "epsilon_lower_bounds": [game.epsilon_lower_bound for game in games],
        "epsilon_lower_bounds_by_counting": [epsilon_of(game.delta, mu=game.whole.split) for game in games],
    }
