"""Recomputing what was promised: of a run, a board or a certificate."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedboard.client.boards.seen import CosignedBoards
from fedboard.client.verification.evidence import Evidence, read_evidence
from fedboard.client.verification.verification import verify_evidence
from fedboard.common.board import Board
from fedboard.common.boards.witnesses import Witnesses
from fedboard.common.certificate import Certificate, Finding
from fedboard.common.errors import InputError
from fedboard.common.protection import Protection


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Verification:
    """What was checked, and what came of it. ``bool()`` is ``private``: it holds, and nobody can remove the noise.

    Not guaranteed: that nothing else was published, or that the code ran as stated.
    """

    findings: tuple[Finding, ...]
    """One per check, passed or not."""
    protection: Protection
    """What the releases say of the noise."""
    what: str
    """What was at hand."""

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The checks that did not pass; none where it holds."""
        return tuple(finding for finding in self.findings if not finding.passed)

    @property
    def holds(self) -> bool:
        """Whether every check passed."""
        return not self.failed

    @property
    def private(self) -> bool:
        """Whether it holds and no seed reproduces any of the noise; False for every simulation."""
        return self.holds and self.protection is Protection.PRIVATE

    def __bool__(self) -> bool:
        """As ``private``."""
        return self.private

    def __repr__(self) -> str:
        """One line; what failed on lines of its own."""
        if self.failed:
            lines = [f"  FAILED  {finding.check}: {finding.detail}" for finding in self.failed]
            head = (
                f"{len(self.failed)} of {len(self.findings)} checks failed: do not rely on this certificate"
            )
            return "\n".join([f"<Verification: NOT PROVEN: {head}>", *lines])
        return (
            f"<Verification: all {len(self.findings)} checks passed: {self.what}; {self.protection.verdict}>"
        )


def verify(
    target: "str | Path | Board | Certificate",
    *,
    witnesses: Sequence[str] = (),
    cosignatures: int | None = None,
) -> Verification:
    """Recompute every number of a certificate from the ones that it follows from.

    Args:
        target: a run directory (with its ledger and all its boards), a board file, a ``certificate.json``, or a
            board, certificate or run at hand.
        witnesses: public keys, 64 hexadecimal digits each, of whom enough must have cosigned the board, as it was
            fetched into the folder of the board file; one more check. Empty: nobody need have.
        cosignatures: how many are enough: more than half of them. None: as few as that.

    Raises:
        InputError: no certificate there, or one that cannot be read; or no such keys.
    """
    evidence = _evidence(target)
    wanted = Witnesses.of(witnesses, cosignatures)
    seen = () if wanted is None else (_cosigned_by(wanted, target, evidence.board),)
    verdict = verify_evidence(evidence)
    return Verification(
        findings=(*verdict.findings, *seen),
        protection=verdict.protection,
        what=_what(evidence),
    )


def _cosigned_by(witnesses: Witnesses, target: object, board: Board | None) -> Finding:
    """Whether the manifests beside a board file show it, cosigned by enough witnesses."""
    place = Path(target) if isinstance(target, str | Path) else None
    folder = place if place is None or place.is_dir() else place.parent
    shown = board is not None and folder is not None and CosignedBoards(witnesses, folder).shows(board)
    detail = (
        f"enough have cosigned this board: {witnesses.sentence}"
        if shown
        else "no manifest beside the board file that enough of them have cosigned names it; fetch it with "
        "`fedboard board fetch ... --witness KEY`"
    )
    return Finding(check="witnesses", passed=shown, detail=detail)


def _evidence(target: "str | Path | Board | Certificate") -> Evidence:
    if isinstance(target, Certificate):
        return Evidence(certificate=target)
    if isinstance(target, Board):
        if target.certificate is None:
            raise InputError("this board carries no certificate")
        return Evidence(certificate=Certificate.from_dict(dict(target.certificate)), board=target)
    return read_evidence(Path(target))


def _what(evidence: Evidence) -> str:
    if evidence.board is None:
        return "the certificate alone"
    return "certificate, board and ledger" if evidence.ledger else "certificate and board"
