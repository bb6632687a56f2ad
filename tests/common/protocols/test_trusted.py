"""The trusted protocol: exact for any split and order, and deaf to whoever breaks a bound."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.algorithms.adadpals.algorithm import AdaDpals
from fedboard.common.board import Board
from fedboard.common.contribution import Contribution, Request
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from fedboard.common.protocols.trusted import Trusted
from tests.common.algorithms.conftest import N_USERS, a_prepared_board, a_task, population

TASK = a_task()
BOARDS = (TASK.first_board(a_prepared_board(TASK).catalogue), a_prepared_board(TASK))


def requests_of(board: Board) -> tuple[Request, ...]:
    return TASK.requests(board)


def rows(board: Board, start: int = 0, stop: int = N_USERS, task: AdaDpals = TASK) -> Contribution:
    return task.contribute(population().rows(start, stop), board, task.requests(board))


def obvious_sums(contribution: Contribution, requests: tuple[Request, ...]) -> dict[str, np.ndarray]:
    """Python integers, one entry at a time."""
    sums = {r.name: np.zeros((r.release.rows, r.release.width), dtype=object) for r in requests}
    for j in range(contribution.n_users):
        v = [int(x) for x in contribution.vectors[j]] if contribution.vectors is not None else []
        packed = [v[a] * v[b] for a in range(len(v)) for b in range(a, len(v))]
        for request in requests:
            if request.name in contribution.totals:
                sums[request.name][0] += contribution.totals[request.name][j].astype(object)
        for k in range(contribution.indptr[j], contribution.indptr[j + 1]):
            i, w = contribution.items[k], int(contribution.weights[k])
            for request in requests:
                if request.name == "counts":
                    sums["counts"][i, 0] += w
                elif request.name.endswith("quadratic"):
                    sums[request.name][i] += np.array([w * x for x in packed], dtype=object)
                elif request.name.endswith("linear"):
                    r = int(contribution.responses[k])
                    sums[request.name][i] += np.array([w * r * x for x in v], dtype=object)
    return {name: values.astype(np.int64) for name, values in sums.items()}


@pytest.mark.parametrize("board", BOARDS, ids=["preparation", "items"])
def test_the_combined_sum_is_the_obvious_one_to_the_last_bit(board: Board) -> None:
    protocol, requests = Trusted(), requests_of(board)

    combined = protocol.combine([protocol.encode(rows(board), requests)], requests)

    for name, expected in obvious_sums(rows(board), requests).items():
        np.testing.assert_array_equal(whole_sums(combined, requests)[name], expected)


@pytest.mark.parametrize("board", BOARDS, ids=["preparation", "items"])
def test_blocks_of_items_are_the_rows_of_the_whole_sum(board: Board) -> None:
    requests = [r for r in requests_of(board) if r.source.per_item]
    sums = FactoredSums.of(rows(board))
    n_items = requests[0].release.rows

    whole = sums.block(requests, 0, n_items)
    blocks = [sums.block(requests, start, min(start + 7, n_items)) for start in range(0, n_items, 7)]

    for name, expected in whole.items():
        np.testing.assert_array_equal(np.concatenate([block[name] for block in blocks]), expected)


def swell_vector(c: Contribution) -> Contribution:
    vectors = c.vectors.copy()
    vectors[5] = 4000
    return replace(c, vectors=vectors)


def swell_weights(c: Contribution) -> Contribution:
    weights = c.weights.copy()
    weights[c.indptr[5] : c.indptr[6]] = 16384
    return replace(c, weights=weights)


def swell_response(c: Contribution) -> Contribution:
    responses = c.responses.copy()
    responses[c.indptr[5]] = 4097
    return replace(c, responses=responses)


def repeat_item(c: Contribution) -> Contribution:
    items = c.items.copy()
    items[c.indptr[5] + 1] = items[c.indptr[5]]
    return replace(c, items=items)


def name_unknown_item(c: Contribution) -> Contribution:
    items = c.items.copy()
    items[c.indptr[6] - 1] = c.n_items
    return replace(c, items=items)


HOSTILE = [swell_vector, swell_weights, swell_response, repeat_item, name_unknown_item]


@pytest.mark.parametrize("attack", HOSTILE)
def test_a_client_refuses_to_send_a_row_that_breaks_a_bound(
    attack: Callable[[Contribution], Contribution],
) -> None:
    board = BOARDS[1]

    with pytest.raises(PrivacyError, match="nothing was sent"):
        Trusted().encode(attack(rows(board)), requests_of(board))


@pytest.mark.parametrize("attack", HOSTILE)
def test_the_aggregator_drops_a_row_that_breaks_a_bound_and_keeps_the_others(
    attack: Callable[[Contribution], Contribution],
) -> None:
    board, requests = BOARDS[1], requests_of(BOARDS[1])
    cohort = population()
    kept = np.ones(cohort.n_ratings, dtype=np.bool_)
    kept[cohort.indptr[5] : cohort.indptr[6]] = False

    combined = Trusted().combine([attack(rows(board))], requests)

    honest = FactoredSums.of(TASK.contribute(cohort.where(kept), board, requests))
    assert combined.rejected_rows == 1
    for name, expected in whole_sums(honest, requests).items():
        np.testing.assert_array_equal(whole_sums(combined, requests)[name], expected)


def test_the_aggregator_drops_a_total_beyond_its_bound() -> None:
    board, requests = BOARDS[0], requests_of(BOARDS[0])
    honest = rows(board)
    totals = {name: values.copy() for name, values in honest.totals.items()}
    totals["mean/sum"][4] = (1 << 20) + 1

    combined = Trusted().combine([replace(honest, totals=totals)], requests)

    assert combined.rejected_rows == 1
    expected = np.delete(honest.totals["mean/sum"], 4, axis=0).sum()
    assert whole_sums(combined, requests)["mean/sum"][0, 0] == expected


def test_a_negative_number_of_ratings_is_dropped() -> None:
    board, requests = BOARDS[0], requests_of(BOARDS[0])
    honest = rows(board)
    totals = {name: values.copy() for name, values in honest.totals.items()}
    totals["mean/number"][4] = -totals["mean/number"][4]

    combined = Trusted().combine([replace(honest, totals=totals)], requests)

    assert combined.rejected_rows == 1


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(InputError, match="no settings but form = 'factored'"):
        Trusted.from_parameters({"form": "dense"})
