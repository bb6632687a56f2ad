"""``fedboard status``: what this device has given so far, and what it has left."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.device.ratings import DEVICE
from fedboard.cli.documents import JSON, document
from fedboard.cli.text import aligned

if TYPE_CHECKING:
    from fedboard.client.participation.status import Status


@click.command(epilog="Example: fedboard status --device my-device/device.toml")
@JSON
@DEVICE
def status(as_json: bool, device: Path) -> None:
    """Show what this device gave, to which runs, at which cost, what it refused and why, and its limits."""
    from fedboard.client.boards.cache import out_of_date
    from fedboard.client.participation.config import load_device
    from fedboard.client.participation.status import limits_of, status_of

    config = load_device(device)
    found, limits = status_of(config), limits_of(config.policy)
    document({**_record(found), "limits": limits}) if as_json else _print(found, limits)
    if (notice := out_of_date(config.board.cache)) is not None:
        click.echo(notice, err=True)


def _record(found: "Status") -> dict[str, Any]:
    return {
        "epsilon": {"spent": found.spent, "limit": found.limit.epsilon, "left": found.left},
        "delta": found.limit.delta,
        "adjacency": str(found.limit.adjacency),
        "runs": [
            {
                "run": given.run,
                "rounds": list(given.rounds),
                "releases": given.releases,
                "scale": given.scale,
                "epsilon": given.epsilon,
            }
            for given in found.runs
        ],
        "refusals": dict(found.refusals),
        "questions": [
            {
                "run": one.run,
                "title": one.title,
                "question": one.sentence,
                "board": one.digest,
                "answered": one.answered,
            }
            for one in found.questions
        ],
        "users": found.n_users,
        "ratings": found.n_ratings,
        "boards": [
            {
                "version": board.version,
                "digest": board.digest,
                "bytes": board.n_bytes,
                **_about(board.path),
            }
            for board in found.boards
        ],
    }


def _print(found: "Status", limits: Mapping[str, str]) -> None:
    from fedboard.client.participation.status import REASONS
    from fedboard.common.messages.refusals import Refusal

    held = f"ratings of {found.n_users} users"
    if found.n_ratings is not None:
        held = f"{found.n_ratings} rating{'' if found.n_ratings == 1 else 's'}"
    limit = found.limit
    click.echo(f"This device holds {held}.")
    click.echo(
        f"Given so far: epsilon {found.spent:.4g} of {limit.epsilon:g} at delta {limit.delta:g} "
        f"({limit.adjacency}); {found.left:.4g} left.\n"
        f"What holds for you is the limit, epsilon {limit.epsilon:g}, whatever is asked and whenever it stops; "
        "what is given so far says how much of it is used up."
    )
    if found.runs:
        rows = [
            (g.run, ", ".join(map(str, g.rounds)), f"{g.releases}", f"{g.scale:.3g}", f"{g.epsilon:.4g}")
            for g in found.runs
        ]
        click.echo("\n" + aligned(("run", "rounds", "answers", "part", "epsilon"), rows, right=(2, 3, 4)))
    if found.questions:
        rows_asked = [
            ("yes" if one.answered else "no", one.digest[:16], one.sentence) for one in found.questions
        ]
        click.echo("\n" + aligned(("answered", "board", "question"), rows_asked))
    if found.refusals:
        rows_refused = [
            (code, f"{number}", REASONS[Refusal(code)]) for code, number in sorted(found.refusals.items())
        ]
        click.echo("\n" + aligned(("refused", "times", "because"), rows_refused, right=(1,)))
    click.echo("\n" + aligned(("limit of this device", ""), list(limits.items())))
    if found.boards:
        about = [_about(b.path) for b in found.boards]
        rows_boards = [
            (f"{b.version}", b.digest[:16], f"{b.n_bytes:,}", told["noise"], told["catalogue"])
            for b, told in zip(found.boards, about, strict=True)
        ]
        titles = ("version", "board", "bytes", "noise", "catalogue")
        click.echo("\n" + aligned(titles, rows_boards, right=(0, 2)))
        for board, told in zip(found.boards, about, strict=True):
            if told["rounds"] is not None and told["rounds"]["lost"]:
                lost, planned = told["rounds"]["lost"], told["rounds"]["planned"]
                gone = f"{lost} of {planned} rounds were lost by version {board.version}"
                click.echo(f"\n{gone}: what was given to them is spent, and nothing came of it.")
        if {told["noise"] for told in about} & {"simulation", "unstated"}:
            click.echo("\nNOT PRIVATE: boards of seeded or unstated noise are among them.")


def _about(path: Path) -> dict[str, Any]:
    """What its noise is, the digest by which a policy names its catalogue, how many rounds came to something."""
    from fedboard.client.participation.promises import catalogue_digest
    from fedboard.common.board import Board
    from fedboard.common.certificate import Certificate
    from fedboard.common.errors import InputError
    from fedboard.common.protection import protection_of_board

    try:
        board = Board.load(path)
        rounds = None if board.certificate is None else Certificate.from_dict(dict(board.certificate)).rounds
    except InputError:
        return {"noise": "unstated", "catalogue": "damaged", "rounds": None}
    return {
        "noise": protection_of_board(board).value,
        "catalogue": catalogue_digest(board.catalogue),
        "rounds": None if rounds is None else asdict(rounds),
    }
