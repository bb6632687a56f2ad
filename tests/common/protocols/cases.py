"""The protocols that are held to the contract."""

import math
from collections.abc import Callable

import pytest

from tests.common.algorithms.conftest import N_USERS
from tests.common.protocols.meetings import BOARDS, SPLIT, Case, example, registered, two_servers

CASES = {
    "trusted": Case(make=registered("trusted"), hides_ratings=False),
    "local": Case(
        make=registered("local"), spread=lambda _: math.sqrt(N_USERS), shares=lambda _: len(SPLIT) - 1
    ),
    "secure-sum": Case(make=registered("secure-sum")),
    "distributed-dp": Case(
        make=registered("distributed-dp"),
        spread=lambda protocol: math.sqrt((len(SPLIT) - 1) / protocol.parameters["honest"]),
        shares=lambda protocol: protocol.rules.honest_among(6),  # all stay
    ),
    "two-server": Case(make=two_servers),
    "additive-shares": Case(make=example("additive_shares.py", "AdditiveShares")),
}
ITEMS = BOARDS["items"]
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
each_board = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS.keys())


def raises(error: type[Exception], action: Callable[..., object], *arguments: object) -> bool:
    """Whether this error comes, where the reason why it should is to be told."""
    try:
        action(*arguments)
    except error:
        return True
    return False
