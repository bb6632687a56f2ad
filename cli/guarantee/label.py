"""``fedboard certificate label``: a promise in words for everybody, as a picture or a page."""

from pathlib import Path

import click

from fedboard.cli.exit_codes import ExitCode

_EXAMPLES = """\b
Examples:
  fedboard certificate label runs/films --out label.svg
  fedboard certificate label runs/films --out label.html
"""


@click.command(epilog=_EXAMPLES)
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="The file, replaced where it is there: .svg is a picture, .html a page.",
)
@click.option(
    "--simulation", is_flag=True, help="Accept noise that its seed reproduces: 0 for such a label too."
)
def label(target: Path, out: Path, simulation: bool) -> int:
    """Write a privacy label of the certificate in TARGET: a run directory, a board file or a certificate.json.

    In plain words: who is protected, against whom, the odds of a bet, what is not protected, for how long. Then mu,
    epsilon and the rest for experts. What people said of the deployment ([deployment] in fleet.toml) is shown as
    theirs. One file that loads nothing; legible in black and white.

    Everything is verified first, and a certificate that does not hold gets no label. A run with seeded noise gets a
    red one that says so throughout, and exit code 5.
    """
    from fedboard.client.guarantee.evidence import read_evidence
    from fedboard.client.guarantee.label.writing import write_label

    made = write_label(out, read_evidence(target))
    click.echo(f"{made.verdict}. {made.odds.sentence}\n{out}")
    return ExitCode.NOT_PRIVATE if made.simulation and not simulation else ExitCode.DONE
