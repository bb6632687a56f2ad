"""What there is to choose from, by name."""


def algorithms(feedback: str | None = None) -> tuple[str, ...]:
    """Names of the private algorithms, as ``simulate(algorithm=...)`` takes them.

    Args:
        feedback: ``explicit`` or ``implicit`` for those that learn from it; None for all.

    Raises:
        InputError: another kind of feedback.
    """
    from fedboard.common.algorithms.registry import algorithm_names
    from fedboard.common.algorithms.shared.ratings_config import Feedback
    from fedboard.common.errors import InputError

    try:
        kind = None if feedback is None else Feedback(feedback)
    except ValueError:
        raise InputError(f"feedback must be one of {', '.join(Feedback)}, got {feedback!r}") from None
    return algorithm_names(kind)


def protocols() -> tuple[str, ...]:
    """Names of the aggregation protocols, as ``simulate(protocol=...)`` takes them."""
    from fedboard.common.protocols.registry import PROTOCOL_NAMES

    return tuple(PROTOCOL_NAMES)
