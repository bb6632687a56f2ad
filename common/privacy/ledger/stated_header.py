"""What the header of a ledger must state before it is relied upon: anybody may have written the file."""

from collections.abc import Mapping
from typing import Any

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.commitment import sound_plan
from fedboard.common.privacy.ledger.chain_rows import POPULATION, RUN, TAMPERED

_BUDGET = {"epsilon", "delta", "adjacency"}


def require_header(header: Mapping[str, Any], *, kind: str) -> None:
    """Refuse a header that no ledger of this kind was made with.

    Raises:
        PrivacyError: which part of it is missing, or is something else.
    """
    if kind not in (RUN, POPULATION):  # it pays for nothing: the record of a second server
        return
    budget = require_budget(header.get("budget"))
    if kind == POPULATION:
        limit = header.get("lineage_epsilon", "missing")
        if limit is not None and not _is_number(limit):
            raise PrivacyError(f"{TAMPERED}: the budget of a lineage in its header is no number")
        return
    if not isinstance(header.get("run"), str):
        raise PrivacyError(f"{TAMPERED}: its header names no run")
    require_plan(header.get("plan", "missing"), budget)
    account = header.get("population")
    if account is not None:
        lineage = account.get("lineage") if isinstance(account, Mapping) else 0
        if not (lineage is None or isinstance(lineage, str)) or not isinstance(account.get("id"), str):
            raise PrivacyError(f"{TAMPERED}: its header names no population")


def require_plan(plan: object, budget: Budget) -> None:
    """Refuse what is neither a plan nor None.

    Raises:
        PrivacyError: why it is none.
    """
    if plan is None:
        return
    if not isinstance(plan, Mapping):
        raise PrivacyError(f"{TAMPERED}: what stands there as a plan is none")
    sound_plan(plan, budget)


def require_budget(stated: object) -> Budget:
    """The budget that is stated.

    Raises:
        PrivacyError: it is none, or a number is out of range.
    """
    if not isinstance(stated, Mapping) or set(stated) != _BUDGET:
        raise PrivacyError(f"{TAMPERED}: its header states no budget")
    if not _is_number(stated["epsilon"]) or not _is_number(stated["delta"]):
        raise PrivacyError(f"{TAMPERED}: the budget in its header is no number")
    return Budget(**stated)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
