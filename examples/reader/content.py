"""What public features add to a person's own model [8.3 of docs/reader-specification.md]."""

import numpy as np

OF_LABELS, OF_NUMBERS, OF_BOTH = 0.75, 0.4, 0.55
OF_KNOWN, OF_LIKED, FARTHEST = 0.35, 0.3, 3.0
BUMPS, EVERY, MOST_CURVED, MOST_CROSSED = 9, 3, 3, 192
RIDGES = (4.0, 16.0)
LEAST = 1e-12


def content_of(board):
    """Phi of every item, float32, shape (n_items, width); None where the board's features say nothing."""
    if board["features"] is None:
        return None
    numbers, labels = (part.astype(float) for part in board["features"])
    labels = unit_rows(labels)
    if numbers.shape[1] > MOST_CURVED:
        apart = standardised(numbers) / np.sqrt(numbers.shape[1])
        apart /= np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1.0)
        parts = [OF_LABELS * labels, OF_LABELS * apart]
    else:
        nothing = np.zeros((len(labels), 0))
        along = [bumps(column) for column in numbers.T]
        curved, few = (np.hstack([nothing, *each]) for each in (along, [one[:, ::EVERY] for one in along]))
        parts = [
            OF_LABELS * labels,
            OF_NUMBERS * unit_rows(curved),
            OF_BOTH * unit_rows(crossed(labels, few)),
        ]
    if not sum(part.shape[1] for part in parts):
        return None
    nothing = np.zeros(len(labels))
    known = np.log(np.maximum(board["arrays"].get("item_counts", nothing), 1.0))
    facts = standardised(np.column_stack([known, board["arrays"].get("item_biases", nothing)]))
    parts.append(np.clip(facts, -FARTHEST, FARTHEST) * (OF_KNOWN, OF_LIKED))
    return np.hstack(parts).astype(np.float32)


def bumps(number):
    """Where items stand along a number, on nine bumps; rows of norm 1, or zeros where it is unknown."""
    known = np.isfinite(number)
    deviation = number[known].std() if known.any() else 0.0
    if deviation <= 0:
        return np.zeros((len(number), 0))
    centres = np.quantile(number[known], (np.arange(BUMPS) + 0.5) / BUMPS)
    apart = 3.0 * (np.where(known, number, 0.0)[:, None] - centres) / deviation
    heights = np.exp(-0.5 * (apart**2 - np.abs(apart).min(axis=1, keepdims=True) ** 2))
    return unit_rows(np.where(known[:, None], heights, 0.0))


def crossed(labels, along):
    """Products of the commonest labels with bumps."""
    if not along.shape[1]:
        return along
    most = MOST_CROSSED // along.shape[1]
    commonest = np.sort(np.argsort(-np.count_nonzero(labels, axis=0), kind="stable")[:most])
    return (labels[:, commonest, None] * along[:, None, :]).reshape(len(labels), -1)


def standardised(numbers):
    """Columns of mean 0 and deviation 1 where they are known, zeros elsewhere."""
    known = np.isfinite(numbers)
    count = np.maximum(known.sum(axis=0), 1)
    centred = np.where(known, numbers - np.where(known, numbers, 0.0).sum(axis=0) / count, 0.0)
    spread = np.sqrt((centred**2).sum(axis=0) / count)
    return centred / np.where(spread > 0, spread, 1.0)


def unit_rows(values):
    """Rows of norm 1, or 0."""
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    return values / np.where(norms > 0, norms, 1.0)


def solved(rows, targets, width, ridge):
    """``(w, h)``: her regression on rows (x, phi), whose first ``width`` columns are x; float32."""
    z, y, n = rows.astype(float), targets.astype(float), len(targets)
    if not n:
        return np.zeros(rows.shape[1], dtype=np.float32)
    ridge = float(np.float32(ridge))
    evidence = []
    for candidate in (*RIDGES, np.inf):
        covariance = (
            np.eye(n) + z[:, :width] @ z[:, :width].T / ridge + z[:, width:] @ z[:, width:].T / candidate
        )
        lower = np.linalg.cholesky(covariance)
        left = float((np.linalg.solve(lower, y) ** 2).sum())
        scale = max(left, LEAST * max(float(y @ y), LEAST))
        evidence.append(-0.5 * n * np.log(scale) - np.log(np.diag(lower)).sum())
    shares = np.exp(np.array(evidence) - max(evidence))
    precision = (
        sum(share / candidate for share, candidate in zip(shares, RIDGES, strict=False)) / shares.sum()
    )
    penalties = np.where(np.arange(rows.shape[1]) < width, ridge, 1.0 / max(precision, LEAST))
    lighter = z / penalties
    return (lighter.T @ np.linalg.solve(np.eye(n) + lighter @ z.T, y)).astype(np.float32)
