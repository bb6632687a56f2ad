"""The arrays that a device reads of a board of top-k lists."""

import numpy as np

from fedboard.common.board import Board
from fedboard.common.tasks.shared.array_rules import ArrayRule, number, prepared, vectors
from fedboard.common.tasks.topk.config import STAGES, Stage, TopKConfig
from fedboard.common.tasks.topk.releases import KERNELS, start_columns
from fedboard.common.tasks.topk.rounds import model_width

_LEAST_COUNT, _MOST_USERS = 1e-12, 1e12
_MOST_SCALE = 1e12


def array_rules(board: Board, settings: TopKConfig) -> tuple[ArrayRule, ...]:
    """The rules of all of them; the board's version and catalogue alone are looked at. Public."""
    n_items = board.catalogue.n_items
    real, single, byte = np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.uint8)
    if board.version == 0:
        return (vectors("item_factors", board, 1),)
    after = STAGES[min(board.version, len(STAGES)) - 1]
    width = {Stage.COUNTS: start_columns(settings, n_items), Stage.START: settings.width}.get(
        after, model_width(settings, board)
    )
    rules = [
        *(rule for rule in prepared(board) if rule.name != "item_counts"),
        ArrayRule(name="item_counts", dtype=real, shape=(n_items,), low=_LEAST_COUNT, high=_MOST_USERS),
        ArrayRule(name="personal", dtype=byte, shape=(1,), low=0, high=1),
        number("population", 1.0, _MOST_USERS),
        vectors("item_factors", board, width),
    ]
    if board.catalogue.features is not None and after in (Stage.DIRECTIONS, Stage.ENERGIES):
        shape = (KERNELS, settings.kernel_rank, settings.kernel_rank)
        rules.append(ArrayRule(name="kernel_forms", dtype=single, shape=shape))
    if after is Stage.ENERGIES:
        rules.append(ArrayRule(name="item_scale", dtype=real, shape=(n_items,), low=0.0, high=_MOST_SCALE))
        rules.append(ArrayRule(name="item_biases", dtype=single, shape=(n_items,)))
    return tuple(rules)
