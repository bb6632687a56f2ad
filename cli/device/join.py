"""``fedboard client join``: this device becomes a member of a fleet."""

from pathlib import Path

import click

from fedboard.common.errors import InputError

_EXAMPLES = """\b
Examples:
  fedboard client join --invitation ann.invite --out my-device --ratings my-ratings.csv --run
  fedboard client join https://fleet.example.org:8443 fb1-... --epsilon 3
"""


@click.command(epilog=_EXAMPLES)
@click.argument("url", required=False)
@click.argument("token", required=False)
@click.option(
    "--invitation",
    type=click.Path(path_type=Path),
    help="File with both, in place of them: words of a command line are seen by other accounts.",
)
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    default=Path(),
    show_default=True,
    help="Folder of the device, new or made by `fedboard ratings init`.",
)
@click.option("--epsilon", type=float, help="Your limit over all runs.  [default: what this training asks]")
@click.option("--delta", type=float, help="Delta of that limit.  [default: the training's]")
@click.option(
    "--ratings", type=click.Path(path_type=Path), help="Your ratings, a CSV file; they stay on this device."
)
@click.option("--run", is_flag=True, help="Take part at once, until Ctrl-C.")
@click.pass_context
def join(
    context: click.Context,
    url: str | None,
    token: str | None,
    invitation: Path | None,
    folder: Path,
    epsilon: float | None,
    delta: float | None,
    ratings: Path | None,
    run: bool,
) -> None:
    """Join a fleet with an invitation, URL and TOKEN, and write the configuration of this device.

    The device makes its own key, which never leaves it. It takes the server's keys from the server that the token
    names by their digest, and tells its secret to nobody else. What it gives is in device.toml: read it before you
    start.
    """
    from fedboard.client.node.joining import join as joined
    from fedboard.common.wire.enrolment import Invitation

    if invitation is not None and url is None:
        try:
            text = invitation.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{invitation}: no invitation can be read there") from error
        found = Invitation.parse_text(text, source=str(invitation))
    elif invitation is None and url is not None and token is not None:
        found = Invitation.parse(url, token)
    else:
        raise InputError("give URL and TOKEN, or --invitation FILE")
    member = joined(found, folder, epsilon=epsilon, delta=delta)
    asks = member.introduction
    click.echo(
        f"joined as {member.name}: training {asks.run} ({asks.task}, protocol {asks.protocol}) asks epsilon "
        f"{asks.epsilon:g} at delta {asks.delta:g} of everybody"
    )
    click.echo(f"{member.device}: read [policy], it says what this device gives at most")
    if ratings is not None:
        from fedboard.cli.device.ratings import import_ratings

        whole = {"columns": None, "store": None, "place": None}
        context.invoke(import_ratings, file=ratings, device=member.device, **whole)
    if run:
        from fedboard.cli.device.taking_part import take_part

        take_part(member.device, once=False)
        return
    click.echo("then:")
    if ratings is None:
        click.echo(f"  fedboard ratings import FILE.csv --device {member.device}")
    click.echo(f"  fedboard client --config {member.device}")
