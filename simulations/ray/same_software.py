"""Every worker computes by the code and the versions of the process that asked it, or not at all."""

from collections.abc import Callable
from typing import Any, Final

from fedboard.common.errors import InputError
from fedboard.simulations.ray.software import difference, software_here

DECISIVE: Final = ("ray", "numpy", "scipy", "numba", "llvmlite")
"""Distributions whose version may show in the last bit of a sum."""
_SAME: set[frozenset[tuple[str, str]]] = set()
"""What this process was found to have."""


def call_if_same(expected: dict[str, str], function: Callable[..., Any], *arguments: Any) -> Any:
    """In a worker, which may be of a node that joined after the others were looked at.

    Args:
        expected: ``software_here(DECISIVE)`` of the process that asks.
        function: what it wants called.
        arguments: for it.

    Raises:
        InputError: other software is installed here.
    """
    key = frozenset(expected.items())
    if key not in _SAME:
        from ray.util import get_node_ip_address

        node = str(get_node_ip_address())  # type: ignore[no-untyped-call]
        require_same_software(node, expected, software_here(DECISIVE))
        _SAME.add(key)
    return function(*arguments)


def require_same_software(node: str, expected: dict[str, str], there: dict[str, str]) -> None:
    """See that a node has what is here.

    Raises:
        InputError: it has not; says what differs.
    """
    other = difference(node, expected, there)
    if other is not None:
        raise InputError(
            f"{other}; boards would differ in their last bits, or not come about at all. Give every node the same, "
            "or let it have fedboard's code from here with run.carry_code = true"
        )
