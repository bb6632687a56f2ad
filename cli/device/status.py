"""``fedboard status``: what this device has given so far, and what it has left."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from fedboard.cli.device.ratings import DEVICE
from fedboard.cli.documents import JSON, document
from fedboard.cli.text import aligned


@click.command(epilog="Example: fedboard status --device my-device/device.toml")
@JSON
@DEVICE
def status(as_json: bool, device: Path) -> None:
    """Show what this device gave, to which runs, at which cost, what it refused and why, and its limits."""
    from fedboard.client.boards.open_board import out_of_date
    from fedboard.client.participation.config import load_device
    from fedboard.client.participation.status import status_of

    config = load_device(device)
    found = status_of(config)
    document(found) if as_json else _print(found)
    if (notice := out_of_date(config.board.cache)) is not None:
        click.echo(notice, err=True)


def _print(found: dict[str, Any]) -> None:
    from fedboard.client.participation.status import REASONS
    from fedboard.common.messages.refusals import Refusal

    held, epsilon = f"ratings of {found['users']} users", found["epsilon"]
    if found["ratings"] is not None:
        held = f"{found['ratings']} rating{'' if found['ratings'] == 1 else 's'}"
    click.echo(f"This device holds {held}.")
    click.echo(
        f"Given so far: epsilon {epsilon['spent']:.4g} of {epsilon['limit']:g} at delta {found['delta']:g} "
        f"({found['adjacency']}); {epsilon['left']:.4g} left.\n"
        f"What holds for you is the limit, epsilon {epsilon['limit']:g}, whatever is asked and whenever it stops; "
        "what is given so far says how much of it is used up."
    )
    runs = [
        (
            one["run"],
            ", ".join(map(str, one["rounds"])),
            f"{one['releases']}",
            f"{one['scale']:.3g}",
            f"{one['epsilon']:.4g}",
        )
        for one in found["runs"]
    ]
    _table(("run", "rounds", "answers", "part", "epsilon"), runs, right=(2, 3, 4))
    asked = [
        ("yes" if one["answered"] else "no", one["board"][:16], one["question"]) for one in found["questions"]
    ]
    _table(("answered", "board", "question"), asked)
    refused = [(code, f"{n}", REASONS[Refusal(code)]) for code, n in sorted(found["refusals"].items())]
    _table(("refused", "times", "because"), refused, right=(1,))
    _table(("[policy]", ""), [(name, _worded(value)) for name, value in found["limits"].items()])
    boards = [
        (f"{one['version']}", one["digest"][:16], f"{one['bytes']:,}", one["noise"], one["catalogue"])
        for one in found["boards"]
    ]
    _table(("version", "board", "bytes", "noise", "catalogue"), boards, right=(0, 2))
    for one in found["boards"]:
        if one["rounds"] is not None and one["rounds"]["lost"]:
            lost, planned = one["rounds"]["lost"], one["rounds"]["planned"]
            gone = f"{lost} of {planned} rounds were lost by version {one['version']}"
            click.echo(f"\n{gone}: what was given to them is spent, and nothing came of it.")
    if {one["noise"] for one in found["boards"]} & {"simulation", "unstated"}:
        click.echo("\nNOT PRIVATE: boards of seeded or unstated noise are among them.")


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, right: tuple[int, ...] = ()) -> None:
    if rows:
        click.echo("\n" + aligned(titles, rows, right=right))


def _worded(value: object) -> str:
    """A value of a policy, as device.toml would have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "not set" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
