"""Made-up people for the quickstart: two gateways of 1 500 users each, and ann with a device of her own."""

import csv
import sys
from dataclasses import replace
from pathlib import Path

from fedboard.client.ratings.cohort_file import write_cohort
from fedboard.simulations.config import parse_config
from fedboard.simulations.problem import load_problem

GATEWAYS = {"gateway-a": (0, 1500), "gateway-b": (1500, 3000)}
ANN = 3000
GATEWAY = """\
[ratings]
cohort = "cohort"

[policy]
epsilon = 6.0          # all that any user of this gateway will ever give, over all trainings
delta = 1e-5
tasks = ["residual"]   # what it answers
"""


def main(folder: Path) -> None:
    """Write catalogue.csv, ann.csv, and a folder for each gateway."""
    synthetic = {"n_users": 3001, "n_items": 300, "mean_ratings_per_user": 60.0}
    problem = load_problem(parse_config({"data": {"synthetic": synthetic}}))
    ids, titles = problem.catalogue.item_ids, problem.catalogue.titles or ()
    folder.mkdir(parents=True, exist_ok=True)
    write_table(folder / "catalogue.csv", ("item", "title"), zip(ids, titles, strict=True))
    for name, (first, last) in GATEWAYS.items():
        rows = problem.train.rows(first, last)
        write_cohort(folder / name / "cohort", replace(rows, first_row=first), ids)
        (folder / name / "device.toml").write_text(GATEWAY, encoding="utf-8")
    ann = problem.train.rows(ANN, ANN + 1)
    hers = zip((ids[i] for i in ann.items), ann.ratings, strict=True)
    write_table(folder / "ann.csv", ("item", "rating"), hers)


def write_table(path: Path, header: tuple[str, ...], rows: object) -> None:
    """Write a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
