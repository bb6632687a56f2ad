"""``fedboard fleet install-units`` and ``fedboard fleet kit``."""

import getpass
from pathlib import Path

import click

from fedboard.cli.fleet.members import CONFIG

_PATH = click.Path(path_type=Path)
_FORCE = click.option("--force", is_flag=True, help="Write over files that were changed.")


@click.command("install-units", epilog="Example: sudo fedboard fleet install-units --user fedboard")
@CONFIG
@click.option("--device", type=_PATH, help="Write the unit of this device.toml, in place of a server's.")
@click.option(
    "--to",
    "folder",
    type=_PATH,
    default=Path("/etc/systemd/system"),
    show_default=True,
    help="Folder of units.",
)
@click.option("--user", help="Account that runs the processes.  [default: yours]")
@click.option(
    "--backups",
    type=_PATH,
    default=Path("/var/backups/fedboard"),
    show_default=True,
    help="Folder of the hourly backups; it must be there, and the account's.",
)
@_FORCE
def install_units(
    config: Path, device: Path | None, folder: Path, user: str | None, backups: Path, force: bool
) -> None:
    """Write systemd units: of the server and of its hourly backup, or of a device.

    The processes get no rights beyond the account's, see nothing of other processes and homes, and write to the
    state folder alone.
    """
    from fedboard.server.fleet.kit.kit import Host, client_unit, server_units, this_program, write_kit

    host = Host(user=user or getpass.getuser(), backups=backups, program=this_program())
    if device is not None:
        from fedboard.client.device.config import load_device

        load_device(device)
        texts = client_unit(device, host)
    else:
        from fedboard.server.fleet.plan.settings import read_settings

        texts = server_units(read_settings(config), config, host)
    for path in write_kit(texts, folder, replace=force):
        click.echo(f"{path}")
    started = " ".join(name for name in texts if name != "fedboard-backup.service")
    click.echo(f"then: systemctl daemon-reload && systemctl enable --now {started}")


@click.command(epilog="Example: fedboard fleet kit --to deployment")
@CONFIG
@click.option("--to", "folder", type=_PATH, required=True, help="Folder to write to.")
@_FORCE
def kit(config: Path, folder: Path, force: bool) -> None:
    """Write what goes beside a server: compose.yaml and Containerfile, nginx.conf, alerts, a dashboard.

    Each begins with what it is for and is yours to change.
    """
    from fedboard.server.fleet.kit.kit import beside, write_kit
    from fedboard.server.fleet.plan.settings import read_settings

    for path in write_kit(beside(read_settings(config), config), folder, replace=force):
        click.echo(f"{path}")
