"""An answer as it is told: aligned lines, or a document, and its certificate in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.style.documents import document
from fedboard.cli.text import aligned

if TYPE_CHECKING:
    from fedboard.common.certificate import Certificate


def tell(record: dict[str, Any], certificate: "Certificate", *, place: Path | None, as_json: bool) -> None:
    """Print an answer.

    Args:
        record: as of a question to a data set, or to a fleet.
        certificate: of it.
        place: where the certificate is written; None: nowhere.
        as_json: as one document.
    """
    if place is not None:
        place.write_text(certificate.to_json() + "\n", encoding="utf-8")
    if as_json:
        document({**record, "certificate": certificate.to_dict()})
    else:
        click.echo(_text(record))


def _text(record: dict[str, Any]) -> str:
    rows = [(record["question"], f"{record['value']:.6g}")]
    if record["interval"] is not None:
        rows.append(("95 % interval of the noise", "{:.6g} to {:.6g}".format(*record["interval"])))
    if record["rank_error"] is not None:
        rows.append(("rank error, 95 %", f"at most {record['rank_error']:.6g} {record['rank_unit']}"))
    rows += [
        ("noise", record["noise"]),
        ("this question", f"epsilon {record['epsilon']:g} ({record['mechanism']})"),
        ("spent with it", _spent(record)),
        (
            "promised",
            f"epsilon {record['budget']:g}, the whole budget: questions are chosen by the answers before them, so "
            "what was spent when you stop promises nothing",
        ),
    ]
    told = aligned(("", ""), rows)
    if not record["private"]:
        told += "\n\nIts noise can be reproduced from a seed: a simulation, not a private answer."
    return told


def _spent(record: dict[str, Any]) -> str:
    """With what a fleet has reserved for its training and for other questions."""
    reserved = record.get("reserved", 0.0)
    more = f" ({reserved:.6g} with what is reserved)" if reserved > record["spent"] else ""
    return (
        f"epsilon {record['spent']:.6g}{more} of {record['budget']:g} at delta {record['delta']:g}, "
        f"{record['adjacency']}"
    )
