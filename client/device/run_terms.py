"""What a run may not change under way, as digests that a device remembers and a person can pin."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from fedboard.common.board import Board, Catalogue


def catalogue_digest(catalogue: Catalogue) -> str:
    """SHA-256 over the item ids in their order, hex. Public."""
    return _sha256(list(catalogue.item_ids))


def terms_of(board: Board) -> str:
    """SHA-256 over task, configuration (with every noise multiplier) and catalogue of a board, hex. Public.

    Features of the items are part of it where there are any: devices compute from them.
    """
    configuration: Mapping[str, Any] = dict(board.config)
    features = board.catalogue.features
    told = [] if features is None else [features.digest]
    return _sha256([board.task, configuration, catalogue_digest(board.catalogue), *told])


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
