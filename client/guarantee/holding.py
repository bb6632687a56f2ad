"""Nothing is made of a promise that is not kept, or not made yet."""

from fedboard.client.guarantee.evidence import Evidence
from fedboard.client.guarantee.verification import verify_evidence
from fedboard.common.errors import FedboardError, InputError


def require_holds(evidence: Evidence, otherwise: str) -> None:
    """Verify, and go on only if every check passes.

    Args:
        evidence: what is there of the run.
        otherwise: what is not done then, as a sentence begins.

    Raises:
        FedboardError: a check fails.
        InputError: nothing was released yet.
    """
    findings = verify_evidence(evidence)
    failed = [finding for finding in findings if not finding.passed]
    if failed:
        raise FedboardError(
            f"{otherwise}: {len(failed)} of {len(findings)} checks failed, the first {failed[0].check}: "
            f"{failed[0].detail}; see `fedboard certificate verify`"
        )
    if not evidence.certificate.releases:
        raise InputError(f"{otherwise}: nothing was released yet, so there is nothing to promise")
