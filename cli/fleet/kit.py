"""``fedboard fleet kit``: what goes beside a server."""

from pathlib import Path

import click

from fedboard.cli.fleet.members import CONFIG

_PATH = click.Path(path_type=Path)


@click.command(epilog="Example: fedboard fleet kit --to deployment --user fedboard")
@CONFIG
@click.option("--to", "folder", type=_PATH, required=True, help="Folder to write to.")
@click.option("--device", type=_PATH, help="Write the unit of this device.toml, in place of a server's kit.")
@click.option("--user", help="Account that runs the unit.  [default: yours]")
@click.option("--force", is_flag=True, help="Write over files that were changed.")
def kit(config: Path, folder: Path, device: Path | None, user: str | None, force: bool) -> None:
    """Write what goes beside a server: a systemd unit, compose.yaml, a firewall's limit, alerts, a dashboard.

    Each begins with what it is for and is yours to change. The unit gets no rights beyond the account's, sees
    nothing of other processes and homes, and writes to the state folder alone.
    """
    from fedboard.server.fleet.kit.kit import device_kit, server_kit, write_kit

    if device is not None:
        from fedboard.client.device.config import load_device

        load_device(device)
        texts = device_kit(device, user=user)
    else:
        from fedboard.server.fleet.plan.settings import read_settings

        texts = server_kit(read_settings(config), config, user=user)
    for path in write_kit(texts, folder, replace=force):
        click.echo(f"{path}")
    unit = next(iter(texts))
    click.echo(
        f"then: sudo cp {folder / unit} /etc/systemd/system/ && sudo systemctl daemon-reload && "
        f"sudo systemctl enable --now {unit}"
    )
