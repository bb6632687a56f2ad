"""``fedboard flower new``: a Flower app of one's own to begin with."""

from pathlib import Path

import click

from fedboard.cli.groups import Commands

_EXAMPLE = """\b
Example:
  fedboard flower new recommender --data ml-1m/
  flwr run recommender local --stream
"""


@click.group(cls=Commands)
def flower() -> None:
    """Use fedboard inside Flower apps of your own."""


@flower.command("new", epilog=_EXAMPLE)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--name", help="Of the app: lower-case letters, digits, hyphens.  [default: the folder's]")
@click.option(
    "--data", default="synthetic", show_default=True, help="Set that nodes share, a path or a name."
)
@click.option("--algorithm", default="", help="As of fedboard simulate.  [default: the usual one]")
@click.option("--epsilon", type=float, default=5.0, show_default=True, help="Privacy loss bound, > 0.")
@click.option("--delta", type=float, default=1e-5, show_default=True, help="In (0, 1).")
@click.option("--nodes", type=int, default=4, show_default=True, help="Nodes of the federation; >= 1.")
def new(
    folder: Path, name: str | None, data: str, algorithm: str, epsilon: float, delta: float, nodes: int
) -> None:
    """Write an app that `flwr run DIR` runs, in Flower's own shape.

    A ServerApp with fedboard's strategy, a ClientApp that answers it, and the one file to put data into. Noise is
    seeded at first, as of all simulations: set noise = "secure" for boards that leave the house.
    """
    from fedboard.simulations.data import find_data, is_made_up
    from fedboard.simulations.flower.own_app import NewApp

    found = find_data(data)
    stated = found if is_made_up(found) else str(Path(found).resolve())
    app = NewApp(
        name=name or folder.resolve().name,
        data=stated,
        algorithm=algorithm,
        epsilon=epsilon,
        delta=delta,
        nodes=nodes,
    )
    for path in app.write(folder):
        click.echo(f"{path}")
    click.echo(
        f'then: flwr run {folder} local --stream --federation-config "num-supernodes={nodes} '
        'client-resources-num-cpus=1"'
    )
