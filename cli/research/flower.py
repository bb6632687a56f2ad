"""``fedboard flower new``: a Flower app of one's own to begin with."""

from pathlib import Path

import click

from fedboard.cli.declaring import Commands, argument, command, option


@click.group(cls=Commands)
def flower() -> None:
    """Use fedboard inside Flower apps of your own."""


@command(
    "fedboard flower new recommender --data ml-1m/",
    "flwr run recommender local --stream",
    name="new",
    group=flower,
)
def new(
    folder: Path = argument("DIR"),
    data: str = option("Set that nodes share, a path or a name.", default="synthetic"),
    algorithm: str = option("As of fedboard simulate.  [default: the usual one]", default=""),
    epsilon: float = option("Privacy loss bound, > 0.", default=5.0),
    nodes: int = option("Nodes of the federation; >= 1.", default=4),
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
        name=folder.resolve().name,
        data=stated,
        algorithm=algorithm,
        epsilon=epsilon,
        delta=1e-5,
        nodes=nodes,
    )
    for path in app.write(folder):
        click.echo(f"{path}")
    click.echo(
        f'then: flwr run {folder} local --stream --federation-config "num-supernodes={nodes} '
        'client-resources-num-cpus=1"'
    )
