"""A strategy in a ServerApp of one's own and nodes that answer it, small, in this process."""

from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedboard.flower import BillboardStrategy, Catalogue, People, answer
from fedboard.simulations.data import SyntheticConfig, synthetic_ratings
from tests.simulations.flower.local_grid import LocalGrid
from tests.simulations.flower.small_runs import N_ITEMS, N_USERS, SETTINGS

RATINGS = synthetic_ratings(SyntheticConfig(n_users=N_USERS, n_items=N_ITEMS, mean_ratings_per_user=10.0))
ITEMS = tuple(str(item) for item in RATINGS.item_ids)
NODES = 3


def everybody() -> list[dict[str, float]]:
    people: list[dict[str, float]] = [{} for _ in range(N_USERS)]
    for user, item, value in zip(RATINGS.users, RATINGS.items, RATINGS.values, strict=True):
        people[user][ITEMS[item]] = float(value)
    return people


def app_of(people: People) -> ClientApp:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        number, of = (int(context.node_config[key]) for key in ("partition-id", "num-partitions"))  # type: ignore[arg-type]
        return answer(message, context, people[number::of])

    return app


def a_strategy(folder: Path, **changes: Any) -> BillboardStrategy:
    usual: dict[str, Any] = {
        "catalogue": Catalogue(item_ids=ITEMS, titles=RATINGS.titles),
        "rating_range": RATINGS.rating_range,
        "folder": folder,
        "nodes": NODES,
        "users_per_node": N_USERS // NODES,
        "epsilon": 5.0,
        "algorithm": "residual",
        "settings": SETTINGS["residual"],
        "noise": "seeded",
        "wait_seconds": 0.0,
    }
    return BillboardStrategy(**{**usual, **changes})


def started(strategy: BillboardStrategy, app: ClientApp, *, nodes: int = NODES, **how: Any) -> Any:
    grid = LocalGrid(app, nodes, {})
    with grid.running():
        return strategy.start(grid, **how)
