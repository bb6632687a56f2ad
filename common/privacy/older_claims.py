"""What certificates of older formats claim, and what of it is proven.

Before format 4 a certificate claimed what its releases had cost when it was made. That is proven only where a
plan had fixed them beforehand and all of it is claimed.
"""

from collections.abc import Sequence

from fedboard.common.privacy.accounting.exact import epsilon_of_events
from fedboard.common.privacy.accounting.guarantee import Finding, Guarantee
from fedboard.common.privacy.accounting.plan import Plan, planned_events
from fedboard.common.privacy.adjacency import Adjacency, parse_adjacency
from fedboard.common.privacy.commitment import plan_finding
from fedboard.common.privacy.events import LIBRARY_TOLERANCE, Event

_NOT_PROVEN = (
    "it claims what had been spent when it was made. Without a plan nobody is promised that: whoever chose when to "
    "stop could have stopped where the outcomes suited. Proven is the budget that the ledger enforced, which this "
    "format does not state; ask whoever keeps the ledger for a certificate of format 4"
)
_UNKNOWN_PLAN = (
    "it does not list its plan, so by itself it does not show that it claims the whole plan and not what had been "
    "spent when it was made; give the run directory, whose ledger holds the plan, or the board"
)


def older_findings(
    claim: Guarantee, releases: Sequence[Event], *, planned: bool, plan: Plan | None
) -> list[Finding]:
    """Whether what a certificate of format 2 or 3 claims was fixed before the first release.

    Args:
        claim: in range.
        releases: as listed.
        planned: whether it says that there was a plan.
        plan: what a ledger or a board shows of it.
    """
    if not planned:
        return [Finding(check="commitment", passed=False, detail=_NOT_PROVEN)]
    if plan is None:
        return [Finding(check="commitment", passed=False, detail=_UNKNOWN_PLAN)]
    if not (0 < claim.delta < 1 and claim.adjacency in tuple(Adjacency)):
        return []  # found already
    cost = epsilon_of_events(planned_events(plan, parse_adjacency(claim.adjacency)), claim.delta)
    covered = cost <= claim.epsilon * (1 + LIBRARY_TOLERANCE)
    detail = f"its whole plan costs epsilon {cost!r}, {claim.epsilon!r} is claimed"
    detail += (
        "" if covered else ": what had been spent when it was made, and one could have stopped there or not"
    )
    return [Finding(check="commitment", passed=covered, detail=detail), plan_finding(releases, plan)]
