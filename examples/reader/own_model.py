"""A person's own model on a board, and her best items [8 and 9 of docs/reader-specification.md]. Nothing leaves."""

import numpy as np
from content import content_of, solved
from manifests import RefusedError

ALGORITHMS = ("adadpals", "adadpsgd", "residual", "langevin", "topk")


def ridge_solution(vectors, targets, ridge, gram=0.0):
    """``(X^T X + ridge I + gram)^-1 X^T y`` in 64 bit, as 32-bit numbers; zeros without ratings."""
    rows = vectors.astype(np.float64)
    if not len(rows):
        return np.zeros(vectors.shape[1], dtype=np.float32)
    system = rows.T @ rows + np.float64(np.float32(ridge)) * np.eye(rows.shape[1]) + gram
    return np.linalg.solve(system, rows.T @ targets.astype(np.float64)).astype(np.float32)


def fitted(board, ratings):
    """Her own vector and the scores of all items, from ``{item id: rating}``; for presence ratings count as 1."""
    task, config, arrays = board["task"], board["config"], board["arrays"]
    if task not in ALGORITHMS or config.get("biases"):
        raise RefusedError("unknown-task")
    numbers = {item: number for number, item in enumerate(board["ids"])}
    rated = sorted((numbers[item], rating) for item, rating in ratings.items())
    items, explicit = np.array([item for item, _ in rated], dtype=int), config["feedback"] == "explicit"
    own = np.array([rating if explicit else 1.0 for _, rating in rated], dtype=np.float32)
    if explicit and not all(config["rating_low"] <= rating <= config["rating_high"] for rating in own):
        raise ValueError(f"ratings are from {config['rating_low']} to {config['rating_high']}")
    factors = arrays["item_factors"]
    if task == "topk":
        return by_lists(arrays, items)
    growth = max(len(items), 1) ** config["user_ridge_exponent"]
    strength = ridge_of(board, explicit=explicit)
    if task in ("residual", "langevin") and explicit:
        mean = float(arrays["mean"][0]) if "mean" in arrays else 0.0
        scale = np.float32(np.sqrt(strength / config["user_bias_ridge"]))
        rows = np.column_stack([np.full(len(items), scale), factors[items]]).astype(np.float32)
        targets = own - np.float32(mean) - arrays["item_biases"][items]
        content = content_of(board) if task == "residual" else None
        if content is None:
            vector = ridge_solution(rows, targets, strength * growth)
        else:
            both, factors = np.hstack([rows, content[items]]), np.hstack([factors, content])
            vector = solved(both, targets, rows.shape[1], strength * growth)
        vector[0] *= scale
        along = factors.astype(float) @ vector[1:].astype(float)
        return vector, mean + arrays["item_biases"].astype(float) + vector[0] + along
    mean = float(arrays["mean"][0]) if explicit else 0.0
    everything = factors.astype(float)
    gram = config["unobserved_weight"] * everything.T @ everything
    vector = ridge_solution(factors[items], own - np.float32(mean), strength * growth, gram)
    scores = mean + everything @ vector.astype(float)
    return (np.append(np.float32(0), vector) if task in ("residual", "langevin") else vector), scores


def ridge_of(board, *, explicit):
    """How strongly her own model is held to zero [8.2]."""
    config, arrays = board["config"], board["arrays"]
    of_ratings = board["task"] == "residual" and explicit
    unit = float(arrays["spread"][0]) ** 2 if of_ratings and "spread" in arrays else 1.0
    rounds = (3 if config.get("start") == "spectral" else 2) + config["rounds"]
    if config.get("final_user_ridge") is not None and board["version"] >= rounds:
        return config["final_user_ridge"] * unit
    if of_ratings and "user_ridge" in arrays:
        return float(arrays["user_ridge"][0])
    return config["user_ridge"] * unit


def by_lists(arrays, items):
    """The model of ``topk`` [8.4]."""
    factors = arrays["item_factors"]
    if "item_scale" not in arrays:
        return np.zeros(1 + factors.shape[1], dtype=np.float32), arrays["item_counts"].astype(float)
    learnt = items[arrays["learnt"][items] != 0]
    vector = factors[learnt].sum(axis=0, dtype=np.float64).astype(np.float32)
    scaled = factors * arrays["item_scale"].astype(np.float32)[:, None]
    scores = arrays["item_biases"].astype(float) + scaled.astype(float) @ vector.astype(float)
    return np.append(np.float32(1), vector), scores


def best(board, ratings, k=20):
    """Her k best items, best first: ``(id, score)`` [9]."""
    _, scores = fitted(board, ratings)
    allowed = [
        number
        for number, item in enumerate(board["ids"])
        if board["arrays"]["learnt"][number] and item not in ratings
    ]
    ranked = sorted(allowed, key=lambda number: (-scores[number], number))[:k]
    if board["config"]["feedback"] == "explicit":
        scores = np.clip(scores, board["config"]["rating_low"], board["config"]["rating_high"])
    return [(board["ids"][number], float(scores[number])) for number in ranked]
