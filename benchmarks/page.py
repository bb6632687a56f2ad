"""What the board page weighs, how soon it recommends, and how long a change of a rating takes, in a real browser.

usage: python benchmarks/page.py [--json FILE] [--changes 60]

Needs chromium, chromium-driver and the extra ``dev``. The boards are made up (their numbers say nothing), of the
sizes of MovieLens 1M at rank 8 and of 20 000 items at rank 64. A change is all that follows a star: the own model,
all scores, the list with its reasons and the layout of the page, measured in it; the median is told.
On a busy machine ``update_cpu_ms``, the mean of the page's own CPU time, says more.
"""

import argparse
import json
import platform
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from fleets.specimens import certificate

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from fedboard.client.page.boards import HeldBoard  # noqa: E402
from fedboard.client.page.writing import write_page  # noqa: E402
from fedboard.common.algorithms.residual.algorithm import Residual  # noqa: E402
from fedboard.common.algorithms.residual.config import ResidualConfig  # noqa: E402
from fedboard.common.board import Board, Catalogue  # noqa: E402
from fedboard.common.item_features import CatalogueFeatures  # noqa: E402
from tests.client.page.browser import Page, opened  # noqa: E402

SIZES = {
    "m3706_d8": (3706, 8, False),
    "m3706_d8_features": (3706, 8, True),
    "m20000_d64": (20_000, 64, False),
}
LABELS = 18
"""As many as MovieLens has genres; the number is a year."""
WORDS = ("River", "Winter", "Door", "Nine", "House", "Silence", "Road", "Letters", "Map", "Crown", "Bees")
CHANGE = """
const [changes, nItems] = arguments;
const taken = [];
for (let n = 0; n < changes; n++) {
  const started = performance.now();
  fedboard.taste.rate((n * 7919) % nItems, 1 + (n % 5));
  document.body.getBoundingClientRect();
  taken.push(performance.now() - started);
}
return taken;
"""


def made_up(n_items: int, rank: int, with_features: bool) -> Board:
    """A board of the default algorithm with random numbers, and with features of the items or without."""
    rng = np.random.default_rng(0)
    task = Residual(ResidualConfig(rank=rank))
    words = rng.choice(WORDS, size=(n_items, 3))
    titles = tuple(f"{' '.join(three)} {n} ({1930 + n % 95})" for n, three in enumerate(words))
    board = Board(
        version=10,
        task=task.name,
        config=task.config,
        arrays={
            "item_factors": rng.normal(scale=0.3, size=(n_items, rank)).astype(np.float32),
            "item_biases": rng.normal(scale=0.4, size=n_items).astype(np.float32),
            "item_counts": rng.lognormal(4, 1.5, size=n_items),
            "item_weights": rng.uniform(0.1, 1, size=n_items),
            "weighted_counts": rng.lognormal(3, 1.5, size=n_items),
            "learnt": np.ones(n_items, dtype=np.uint8),
            "mean": np.array([3.6]),
        },
        catalogue=Catalogue(
            item_ids=tuple(map(str, range(n_items))),
            titles=titles,
            features=features(n_items, rng) if with_features else None,
        ),
    )
    return board.with_certificate(certificate(board.digest).to_dict())


def features(n_items: int, rng: np.random.Generator) -> CatalogueFeatures:
    """A year and some labels of each item."""
    return CatalogueFeatures(
        number_names=("year",),
        numbers=rng.integers(1920, 2001, size=(n_items, 1)).astype(np.float32),
        label_names=tuple(f"label {n}" for n in range(LABELS)),
        labels=(rng.random((n_items, LABELS)) < 0.12).astype(np.uint8),
    )


def measured(page: Page, path: Path, board: Board, *, changes: int) -> dict[str, Any]:
    """Size, time to the first list, time of a change, and requests after the page was ready."""
    size = write_page(path, HeldBoard(board=board, label="made up", file=board.to_bytes()))
    page.open(path)
    first = page.js("return performance.getEntriesByName('first-recommendation')[0].startTime")
    page.requests()
    page.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    before = busy(page)
    taken = page.js(CHANGE, changes, board.catalogue.n_items)
    spent = busy(page) - before
    page.driver.execute_cdp_cmd("Performance.disable", {})
    return {
        "page_kb": round(size / 1000, 1),
        "first_recommendation_ms": round(first, 1),
        "update_ms": round(statistics.median(taken), 2),
        "slowest_update_ms": round(max(taken), 2),
        "update_cpu_ms": round(1000 * spent / changes, 2),
        "requests_after_load": len(page.requests()),
    }


def busy(page: Page) -> float:
    """Seconds of CPU that the page's thread took so far: others on the machine do not count."""
    metrics = page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


def main() -> None:
    """Measure both sizes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="also write the numbers there")
    parser.add_argument("--changes", type=int, default=60, help="ratings given at each size")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder) / "profile") as page:
        found = {
            name: measured(page, Path(folder) / f"{name}.html", made_up(*size), changes=given.changes)
            for name, size in SIZES.items()
        }
        browser = page.driver.capabilities["browserVersion"]
    small = found["m3706_d8"]
    told = {
        "page_kb": small["page_kb"],
        "first_recommendation_ms": small["first_recommendation_ms"],
        "update_ms": {name: one["update_ms"] for name, one in found.items()},
        "requests_after_load": sum(one["requests_after_load"] for one in found.values()),
        "sizes": found,
        "browser": f"Chromium {browser}",
        "machine": platform.platform(),
    }
    print(json.dumps(told, indent=1))
    if given.json is not None:
        given.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
