"""``fedboard client``: a device takes part in training, and becomes a member before."""

from pathlib import Path

import click

from fedboard.cli.device.join import join
from fedboard.cli.device.taking_part import take_part
from fedboard.cli.style.groups import Commands

_EXAMPLES = """\b
Examples:
  fedboard client join --invitation ann.invite --out my-device
  fedboard client --config my-device/device.toml
"""


@click.group(cls=Commands, invoke_without_command=True, epilog=_EXAMPLES)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    default=Path("device.toml"),
    envvar="FEDBOARD_DEVICE",
    show_default=True,
    help="Configuration of this device.",
)
@click.option("--once", is_flag=True, help="End after one answer.")
@click.pass_context
def client(context: click.Context, config: Path, once: bool) -> None:
    """Take part in training: answer what the server asks, as far as this device's policy allows.

    A device becomes a member of a fleet by `fedboard client join`. It stays until Ctrl-C or SIGTERM and waits for
    a server that is away. Nothing that a server sends is executed; what a server gets is listed by `fedboard
    status`.
    """
    if context.invoked_subcommand is None:
        take_part(config, once=once)


client.add_command(join)
