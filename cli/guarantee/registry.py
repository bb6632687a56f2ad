"""``fedboard certificate registry``: a record for the OpenDP and NIST registry of deployments, made or checked."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.exit_codes import ExitCode
from fedboard.cli.guarantee.record_files import indented, read_record, record_text
from fedboard.cli.style.documents import JSON, document
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.client.guarantee.evidence import Evidence

_EXAMPLES = """\b
Examples:
  fedboard certificate registry runs/films --out films.yaml
  fedboard certificate registry runs/films --deployment fleet.toml --say region=Norway
  fedboard certificate registry runs/films --check films.yaml
"""


@click.command(epilog=_EXAMPLES)
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="The file, replaced where it is there: .json, or .yaml as the registry takes it.  [default: stdout]",
)
@click.option(
    "--deployment",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A TOML file whose section [deployment] says what the certificate does not; fleet.toml is one.",
)
@click.option(
    "--say",
    multiple=True,
    metavar="KEY=TEXT",
    help="One statement, by the keys of [deployment]; curators and authors may be given more than once.",
)
@click.option(
    "--audit",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What `fedboard audit --json FILE` wrote; its SHA-256 is stated beside the justification.",
)
@click.option(
    "--check", type=click.Path(path_type=Path), metavar="RECORD", help="Make this record again, and compare."
)
@JSON
def registry(
    target: Path,
    out: Path | None,
    deployment: Path | None,
    say: tuple[str, ...],
    audit: Path | None,
    check: Path | None,
    as_json: bool,
) -> int:
    """Write a record of the certificate in TARGET for the registry of deployments of OpenDP and NIST.

    What follows from the certificate is filled in: parameters, unit, mechanisms, accounting, trust. What only
    people can say is what the certificate carries of it ([deployment] in fleet.toml), or is said now; a sentence
    names what is missing. Everything is verified first. A simulation gets no record, with exit code 3.

    With --check nothing is written: the exit code is 1 if any field is not what follows from the certificate.

    Keys of [deployment]: name, curators, description, intended_use, region, published (YYYY-MM-DD), unprotected,
    refresh, data_source (static or dynamic), actors, access, preparation, justification, authors; and, if you like,
    sector, post_processing, sources, notes.
    """
    from fedboard.client.guarantee.evidence import read_evidence
    from fedboard.client.guarantee.holding import require_holds

    evidence = read_evidence(target)
    require_holds(evidence, "no record is made" if check is None else "no record is checked")
    said = _said(deployment, say, audit)
    if check is None:
        return _write(evidence, said, out, as_json=as_json)
    if said or out is not None:
        raise InputError("--check compares what is written: leave out --out, --deployment, --say and --audit")
    return _check(evidence, check, as_json=as_json)


def _said(deployment: Path | None, say: Sequence[str], audit: Path | None) -> dict[str, Any]:
    """What is said now, by key."""
    import msgspec

    from fedboard.common.privacy.deployment import LISTS, audit_digest, read_deployment

    found: dict[str, Any] = {} if deployment is None else msgspec.to_builtins(read_deployment(deployment))
    spoken: dict[str, Any] = {}
    for assignment in say:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"--say {assignment!r}: write KEY=TEXT")
        if key == "audit":
            raise InputError("--say audit: name the audit's record by --audit FILE")
        if key in spoken and key not in LISTS:
            raise InputError(f"--say {key}: said twice")
        spoken[key] = (*spoken.get(key, ()), text) if key in LISTS else text
    return {**found, **spoken, **({} if audit is None else {"audit": audit_digest(audit)})}


def _write(evidence: "Evidence", said: dict[str, Any], out: Path | None, *, as_json: bool) -> int:
    from fedboard.client.guarantee.registry.record import joined, record_of, require_private
    from fedboard.common.files import write_atomically

    require_private(evidence.certificate)
    record = record_of(evidence.certificate, joined(evidence.certificate.deployment, said))
    if out is not None:
        write_atomically(out, record_text(record, out).encode("utf-8"))
    if as_json:
        document(record)
    else:
        click.echo(indented(record) if out is None else f"A draft for the registry of deployments: {out}")
    return ExitCode.DONE


def _check(evidence: "Evidence", place: Path, *, as_json: bool) -> int:
    from fedboard.client.guarantee.registry.checking import check_record

    findings, said = check_record(read_record(place), evidence.certificate)
    failed = [finding for finding in findings if not finding.passed]
    if as_json:
        told = [{"check": finding.check, "detail": finding.detail} for finding in failed]
        document(
            {"holds": not failed, "checks": len(findings), "failed": told, "said_here_alone": list(said)}
        )
        return ExitCode.FAILED if failed else ExitCode.DONE
    for finding in failed:
        click.echo(f"FAILED  {finding.check}: {finding.detail}")
    if failed:
        click.echo(f"{len(failed)} of {len(findings)} fields are not what follows from the certificate.")
        return ExitCode.FAILED
    click.echo(f"All {len(findings)} fields are what follows from the certificate.")
    if said:
        click.echo(f"Said in the record alone, so nobody can check it: {', '.join(said)}.")
    return ExitCode.DONE
