"""``fedboard certificate``: what a board promises, and whether the numbers support it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.exit_codes import ExitCode
from fedboard.cli.guarantee.promises import label, registry
from fedboard.cli.style.colours import bad
from fedboard.cli.style.documents import JSON, document
from fedboard.cli.style.groups import Commands
from fedboard.cli.text import aligned

if TYPE_CHECKING:
    from fedboard.client.guarantee.evidence import Evidence
    from fedboard.common.certificate import Finding
    from fedboard.common.protection import Protection

_TARGET = click.argument("target", type=click.Path(path_type=Path))


@click.group(cls=Commands)
def certificate() -> None:
    """Show or recompute the privacy guarantee of a run or a board; label it, register it."""


certificate.add_command(label)
certificate.add_command(registry)


@certificate.command(epilog="Example: fedboard certificate show runs/demo")
@_TARGET
@JSON
def show(target: Path, as_json: bool) -> ExitCode:
    """Print the certificate in TARGET: a run directory, a board file or a certificate.json.

    The first line says whether it is private at all, the next what is promised, mu before epsilon. Numbers are
    rounded up to five digits; --json has all of them. The exit code is 1 where they do not hold, and what was
    recomputed stands beside them. `fedboard certificate verify` looks at board and ledger too.
    """
    from fedboard.client.guarantee.evidence import read_evidence
    from fedboard.common.certificate.record import DOES_NOT_HOLD

    evidence = read_evidence(target)
    held = evidence.certificate
    failed = [found for found in held.verify() if not found.passed] if held.verdict == DOES_NOT_HOLD else []
    if as_json:
        document(held.to_dict())
    else:
        _print(evidence, failed)
    return ExitCode.FAILED if failed else ExitCode.DONE


@certificate.command(epilog="Example: fedboard certificate verify runs/demo")
@_TARGET
@click.option(
    "--simulation", is_flag=True, help="Accept noise that its seed reproduces: 0 where everything else holds."
)
@JSON
def verify(target: Path, simulation: bool, as_json: bool) -> int:
    """Recompute every number of the certificate in TARGET.

    Checks the sensitivities, the noise, the composition and the claim; that the board is the one that the
    certificate was made for; and, for a run directory, that the ledger booked just these releases.

    The exit code is 0 only if all of it holds and all noise is private. It is 1 if anything fails, and 5 if all
    holds but noise follows from a seed, which is no guarantee to anybody.
    """
    from fedboard.client.guarantee.evidence import read_evidence
    from fedboard.client.guarantee.verification import verify_evidence
    from fedboard.common.protection import protection_of

    evidence = read_evidence(target)
    findings = verify_evidence(evidence)
    failed = [finding for finding in findings if not finding.passed]
    protection = protection_of(evidence.certificate.releases)
    if as_json:
        document(_record(findings, protection))
    else:
        for finding in failed:
            click.echo(f"{bad('FAILED')}  {finding.check}: {finding.detail}")
        click.echo(_verdict(evidence, len(findings), len(failed), protection))
    return _exit_code(protection, failed=bool(failed), simulation=simulation)


def _exit_code(protection: "Protection", *, failed: bool, simulation: bool) -> ExitCode:
    from fedboard.common.protection import Protection

    if failed:
        return ExitCode.FAILED
    return ExitCode.DONE if simulation or protection is Protection.PRIVATE else ExitCode.NOT_PRIVATE


def _record(findings: "Sequence[Finding]", protection: "Protection") -> dict[str, Any]:
    from fedboard.common.protection import Protection

    failed = [finding for finding in findings if not finding.passed]
    return {
        "holds": not failed,
        "private": not failed and protection is Protection.PRIVATE,
        "noise": protection.value,
        "checks": len(findings),
        "failed": [{"check": finding.check, "detail": finding.detail} for finding in failed],
    }


def _verdict(evidence: "Evidence", n_checks: int, n_failed: int, protection: "Protection") -> str:
    if n_failed:
        return f"{n_failed} of {n_checks} checks failed: do not rely on this certificate."
    what = "certificate, board and ledger" if evidence.ledger else "certificate and board"
    if evidence.board is None:
        what = "the certificate (no board given, so its digest was not checked)"
    told = f"All {n_checks} checks passed: {what}."
    if evidence.certificate.population is not None and evidence.population is None:
        told += "\nThe account of its population is not here, so its total was not recomputed."
    return f"{told}\n{protection.verdict}."


def _print(evidence: "Evidence", failed: "Sequence[Finding]") -> None:
    from fedboard.common.privacy.shown import shown_sentence

    held = evidence.certificate
    click.echo(held.verdict)
    for finding in failed:
        click.echo(f"{bad('FAILED')}  {finding.check}: {finding.detail}")
    click.echo(f"\n{'It claims: ' if failed else ''}{held.promise[:1].upper()}{held.promise[1:]}.")
    for sentence in held.statements:
        click.echo(shown_sentence(sentence))
    rows = [
        (
            str(event.get("name")),
            str(event.get("covers")),
            f"{event.get('noise_multiplier', float('nan')):.4g}",
        )
        for event in held.releases
    ]
    click.echo("\n" + aligned(("release", "what it covers", "noise multiplier"), rows, right=(2,)))
    for heading, sentences in (("Who could see what", held.trust), ("Taken for granted", held.assumptions)):
        click.echo(f"\n{heading}:")
        for sentence in sentences:
            click.echo(f"- {sentence}")
    click.echo(f"\nData: {held.dataset}\nSoftware: {held.software}\nBoard digest: {held.board_digest}")
