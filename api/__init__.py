"""fedboard: recommendation that learns from everybody and collects from nobody.

    import fedboard

    result = fedboard.simulate(epsilon=5.0, data="synthetic", out="runs/first")
    print(result.certificate.claim)
    board = fedboard.load_board("runs/first")
    print(fedboard.recommend({"1": 5.0}, board, k=10))

What is listed here is the public face; everything deeper (``fedboard.common``, ...) may change. Names are looked
up when they are used, so ``import fedboard`` costs a device nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedboard.asking import Reply, ask
    from fedboard.common import errors
    from fedboard.common.board import Board
    from fedboard.common.certificate import Certificate
    from fedboard.common.privacy.accounting.budget import Budget
    from fedboard.common.privacy.ledger.ledger import Ledger
    from fedboard.guarantees import Verification, epsilon, noise_multiplier, verify
    from fedboard.ratings import Ratings, load_ratings
    from fedboard.recommending import explain, load_board, neighbours, recommend
    from fedboard.run import Run
    from fedboard.simulating import Sweep, simulate, sweep

    __version__: str

_PLACES = {
    name: module
    for module, names in {
        "fedboard.asking": ("Reply", "ask"),
        "fedboard.common.board": ("Board",),
        "fedboard.common.certificate": ("Certificate",),
        "fedboard.common.privacy.accounting.budget": ("Budget",),
        "fedboard.common.privacy.ledger.ledger": ("Ledger",),
        "fedboard.guarantees": ("Verification", "epsilon", "noise_multiplier", "verify"),
        "fedboard.ratings": ("Ratings", "load_ratings"),
        "fedboard.recommending": ("explain", "load_board", "neighbours", "recommend"),
        "fedboard.run": ("Run",),
        "fedboard.simulating": ("Sweep", "simulate", "sweep"),
    }.items()
    for name in names
}
"""Name -> module that has it."""


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


if not TYPE_CHECKING:  # a checker knows every name, so that it finds a misspelt one

    def __getattr__(name: str) -> Any:
        """Look a name up at its first use."""
        if name == "errors":
            return import_module("fedboard.common.errors")
        if name == "__version__":
            from importlib.metadata import version

            return version("fedboard")
        if name not in _PLACES:
            raise AttributeError(
                f"module 'fedboard' has no attribute {name!r}; it offers {', '.join(__all__)}"
            )
        try:
            found = getattr(import_module(_PLACES[name]), name)
        except ModuleNotFoundError as error:
            if str(error.name).startswith("fedboard"):
                raise
            wanted = f"fedboard.{name} needs {error.name}, which the base install leaves out"
            raise ImportError(f"{wanted}: pip install '.[sim]' in the checkout", name=error.name) from error
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """What is offered."""
    return [*__all__, "__version__"]


__all__ = [
    "Board",
    "Budget",
    "Certificate",
    "Ledger",
    "Ratings",
    "Reply",
    "Run",
    "Sweep",
    "Verification",
    "algorithms",
    "ask",
    "epsilon",
    "errors",
    "explain",
    "load_board",
    "load_ratings",
    "neighbours",
    "noise_multiplier",
    "protocols",
    "recommend",
    "simulate",
    "sweep",
    "verify",
]
