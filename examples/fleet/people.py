"""Made-up people for the quickstart: two gateways of 1 500 users each, and ann with a device of her own."""

import csv
import sys
from dataclasses import replace
from pathlib import Path

from fedboard.client.ratings.cohort_file import write_cohort
from fedboard.simulations.config import parse_config
from fedboard.simulations.problem import load_problem

PEOPLE = {"gateway-a": (0, 1500), "gateway-b": (1500, 3000), "ann": (3000, 3001)}
GATEWAY = """\
[ratings]
cohort = "cohort"

[policy]
epsilon = 6.0          # all that any user of this gateway will ever give, over all trainings
delta = 1e-5
tasks = ["residual"]   # what it answers
"""
SERVER = """
[server]
address = "127.0.0.1:{port}"
ca_certificate = "../keys/authority.pem"
node_key = "node.key"
question_key = "../keys/question-signing.pub"  # nobody else is answered
poll_seconds = 0.2
"""


def main(folder: Path, port: int) -> None:
    """Write catalogue.csv, fleet.toml and a folder per device."""
    synthetic = {"n_users": 3001, "n_items": 300, "mean_ratings_per_user": 60.0}
    problem = load_problem(parse_config({"data": {"synthetic": synthetic}}))
    ids, titles = problem.catalogue.item_ids, problem.catalogue.titles or ()
    folder.mkdir(parents=True, exist_ok=True)
    write_table(folder / "catalogue.csv", ("item", "title"), zip(ids, titles, strict=True))
    settings = Path(__file__).with_name("fleet.toml").read_text(encoding="utf-8")
    settings = settings.replace("8443", str(port)).replace("8444", str(port + 1))
    (folder / "fleet.toml").write_text(settings, encoding="utf-8")
    for name, (first, last) in PEOPLE.items():
        home = folder / name
        home.mkdir(exist_ok=True)
        rows = problem.train.rows(first, last)
        device = home / "device.toml"
        if name == "ann":  # hers is there already: fedboard ratings init made it
            write_table(
                home / "ann.csv",
                ("item", "rating"),
                zip((ids[i] for i in rows.items), rows.ratings, strict=True),
            )
        else:
            write_cohort(home / "cohort", replace(rows, first_row=first), ids)
            device.write_text(GATEWAY, encoding="utf-8")
        with device.open("a", encoding="utf-8") as stream:
            stream.write(SERVER.format(port=port))


def write_table(path: Path, header: tuple[str, ...], rows: object) -> None:
    """Write a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 8443)
