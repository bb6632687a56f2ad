"""``fedboard certificate label`` and ``registry``: a promise in words for everybody, and for a registry."""

from pathlib import Path

import click

from fedboard.cli.exit_codes import ExitCode

_TARGET = click.argument("target", type=click.Path(path_type=Path))


@click.command(epilog="Example: fedboard certificate label runs/films --out label.html")
@_TARGET
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="The file, replaced where it is there; its name ends in .html.",
)
@click.option(
    "--simulation", is_flag=True, help="Accept noise that its seed reproduces: 0 for such a label too."
)
def label(target: Path, out: Path, simulation: bool) -> int:
    """Write a privacy label of the certificate in TARGET: a run directory, a board file or a certificate.json.

    In plain words: who is protected, against whom, the odds of a bet, what is not protected, for how long. Then mu,
    epsilon and the rest for experts. One page that loads nothing; legible in black and white.

    Everything is verified first, and a certificate that does not hold gets no label. A run with seeded noise gets a
    red one that says so throughout, and exit code 5.
    """
    from fedboard.client.guarantee.evidence import read_evidence
    from fedboard.client.guarantee.label import write_label

    made = write_label(out, read_evidence(target))
    click.echo(f"{made.verdict}. {made.odds.sentence}\n{out}")
    return ExitCode.NOT_PRIVATE if made.simulation and not simulation else ExitCode.DONE


@click.command(epilog="Example: fedboard certificate registry runs/films --out films.yaml")
@_TARGET
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="The file, replaced where it is there.  [default: stdout]",
)
def registry(target: Path, out: Path | None) -> int:
    """Write a record of the certificate in TARGET for the registry of deployments of OpenDP and NIST, as YAML.

    What follows from the certificate is filled in: parameters, unit, mechanisms, accounting, trust. What only
    people can say is marked TO SAY: write it there before you send the record. Everything is verified first. A
    simulation gets no record, with exit code 3.

    Who checks a record writes it anew from the certificate and compares: only what was said differs.
    """
    from fedboard.client.guarantee.evidence import read_evidence
    from fedboard.client.guarantee.registry import registry_record
    from fedboard.common.files import write_atomically

    record = registry_record(read_evidence(target))
    if out is None:
        click.echo(record, nl=False)
    else:
        write_atomically(out, record.encode("utf-8"))
        click.echo(f"A draft for the registry of deployments: {out}; say what is marked TO SAY")
    return ExitCode.DONE
