"""``fedboard certificate``: what a board promises, and whether the numbers support it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedboard.cli.tables import aligned

if TYPE_CHECKING:
    from fedboard.cli.evidence import Evidence

_TARGET = click.argument("target", type=click.Path(path_type=Path))
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")


@click.group()
def certificate() -> None:
    """Show or recompute the privacy guarantee of a run or a board."""


@certificate.command(epilog="Example: fedboard certificate show runs/demo")
@_TARGET
@_JSON
def show(target: Path, as_json: bool) -> None:
    """Print the certificate in TARGET: a run directory, a board file or a certificate.json."""
    from fedboard.cli.evidence import read_evidence

    evidence = read_evidence(target)
    if as_json:
        click.echo(evidence.certificate.to_json())
    else:
        _print(evidence)


@certificate.command(epilog="Example: fedboard certificate verify runs/demo")
@_TARGET
@_JSON
def verify(target: Path, as_json: bool) -> None:
    """Recompute every number of the certificate in TARGET.

    Checks the sensitivities, the noise, the composition and the claim; that the board is the one that the
    certificate was made for; and, for a run directory, that the ledger booked just these releases. The exit
    code is 1 if anything fails.
    """
    from fedboard.cli.evidence import read_evidence
    from fedboard.cli.verification import verify_evidence

    evidence = read_evidence(target)
    findings = verify_evidence(evidence)
    failed = [finding for finding in findings if not finding.passed]
    if as_json:
        record = {
            "holds": not failed,
            "checks": len(findings),
            "failed": [{"check": finding.check, "detail": finding.detail} for finding in failed],
        }
        click.echo(json.dumps(record))
    else:
        for finding in failed:
            click.echo(f"FAILED  {finding.check}: {finding.detail}")
        click.echo(_verdict(evidence, len(findings), len(failed)))
    if failed:
        raise click.exceptions.Exit(1)


def _verdict(evidence: "Evidence", n_checks: int, n_failed: int) -> str:
    if n_failed:
        return f"{n_failed} of {n_checks} checks failed: do not rely on this certificate."
    what = "certificate, board and ledger" if evidence.ledger else "certificate and board"
    if evidence.board is None:
        what = "the certificate (no board given, so its digest was not checked)"
    told = f"All {n_checks} checks passed: {what}."
    if evidence.certificate.population is not None and evidence.population is None:
        told += "\nThe account of its population is not here, so its total was not recomputed."
    if not evidence.certificate.private:
        told += "\nIts noise can be reproduced from a seed: a simulation, not a private release."
    return told


def _print(evidence: "Evidence") -> None:

    held = evidence.certificate
    for sentence in held.statements:
        click.echo(sentence)
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


__all__ = ["certificate"]
